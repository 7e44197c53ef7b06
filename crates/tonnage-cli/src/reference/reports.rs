//! The fields of reports, and their schema.

use schemars::JsonSchema;
use serde_json::{Map, Value, json};
use tonnage::{
    buffer::BufferReport, copy::CopyReport, fetch::GetReport, job::JobReport, unload::UnloadReport,
    verify::VerifyReport,
};

use super::{check, description, head, inline, schema};
use crate::{
    commands::{generate::GenerateReport, job::JobRunReport, verify::LoadReport},
    report::Marked,
};

/// The reports, by the commands that write them.
fn reports() -> [(&'static str, &'static str, Value); 9] {
    fn of<R: JsonSchema + 'static>() -> Value {
        let mut schema = schema::<Marked<'static, R>>().to_value();
        shape(&mut schema);
        schema
    }
    // As `report.rs` shapes what is written.
    fn shape(schema: &mut Value) {
        let fields = &mut schema["properties"];
        if fields["rows"]["type"] == "integer" {
            let about = fields["rows"]["description"].clone();
            let format = fields["rows"]["format"].clone();
            fields["rows"] = json!({
                "type": "object",
                "properties": { "written": { "type": "integer", "format": format, "minimum": 0, "description": about } },
                "required": ["written"],
                "description": "The rows.",
            });
        }
        if fields["state"].is_null() {
            fields["state"] = json!({
                "type": "string",
                "enum": ["finished", "stopped"],
                "description": "How it ended.",
            });
            let required = schema["required"]
                .as_array_mut()
                .expect("fields that are required");
            required.push(json!("state"));
        }
    }
    [
        ("load", "load and exec", of::<LoadReport<'static>>()),
        ("unload", "unload", of::<UnloadReport>()),
        ("get", "get", of::<GetReport>()),
        ("verify", "verify", of::<VerifyReport>()),
        ("copy", "copy", of::<CopyReport>()),
        ("ingest", "ingest", of::<BufferReport>()),
        ("job", "job plan, status and finish", of::<JobReport>()),
        ("job_run", "job run", of::<JobRunReport>()),
        ("generate", "generate", of::<GenerateReport>()),
    ]
}

/// One schema for all of them: a report is one of its definitions.
fn together() -> Value {
    let mut definitions = Map::new();
    let mut any = Vec::new();
    for (name, commands, mut report) in reports() {
        let root = report.as_object_mut().expect("a schema of an object");
        root.remove("$schema");
        root.insert("title".to_owned(), json!(format!("The report of {commands}")));
        if let Some(Value::Object(inner)) = root.remove("$defs") {
            for (inner_name, schema) in inner {
                let before = definitions.insert(inner_name.clone(), schema.clone());
                let same = before.is_none_or(|before| before == schema);
                assert!(same, "{inner_name} means one thing");
            }
        }
        any.push(json!({"$ref": format!("#/$defs/{name}")}));
        definitions.insert(name.to_owned(), report);
    }
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "What --report of tonnage writes",
        "anyOf": any,
        "$defs": definitions,
    })
}

/// The schema that `field` refers to, and whether there may be null in its place.
fn resolved<'a>(field: &'a Value, definitions: &'a Value) -> (&'a Value, bool) {
    if let Some(name) = field["$ref"].as_str() {
        let name = name.trim_start_matches("#/$defs/");
        return (&definitions[name], false);
    }
    if let Some(any) = field["anyOf"].as_array() {
        let other = any.iter().find(|schema| schema["type"] != "null");
        return (resolved(other.unwrap_or(field), definitions).0, true);
    }
    (field, false)
}

/// What a value is, in a word.
fn kind(schema: &Value, definitions: &Value) -> String {
    let listed = schema["enum"].as_array().cloned().or_else(|| {
        let each = schema["oneOf"].as_array()?.iter();
        Some(each.map(|variant| variant["const"].clone()).collect())
    });
    if let Some(listed) = listed {
        let names = listed
            .iter()
            .map(|value| format!("`{}`", value.as_str().unwrap_or_default()));
        return names.collect::<Vec<_>>().join(", ");
    }
    let types: Vec<_> = match &schema["type"] {
        Value::Array(types) => types.iter().filter_map(Value::as_str).collect(),
        one => one.as_str().into_iter().collect(),
    };
    let words = types.iter().map(|one| match *one {
        "array" => {
            let (items, _) = resolved(&schema["items"], definitions);
            format!("list of {}", kind(items, definitions))
        }
        one => one.to_owned(),
    });
    words.collect::<Vec<_>>().join(" or ")
}

/// A row for each field of an object, and for those of the objects within it.
fn rows(object: &Value, definitions: &Value, before: &str, text: &mut String) {
    for (name, field) in object["properties"].as_object().into_iter().flatten() {
        let (schema, nullable) = resolved(field, definitions);
        let or_null = if nullable { " or null" } else { "" };
        let name = format!("{before}{name}");
        let about = match field["description"].is_string() {
            true => description(field),
            false => description(schema),
        };
        text.push_str(&format!(
            "| `{name}` | {}{or_null} | {} |\n",
            kind(schema, definitions),
            inline(&about)
        ));
        rows(schema, definitions, &format!("{name}."), text);
        if schema["items"].is_object() {
            let (items, _) = resolved(&schema["items"], definitions);
            rows(items, definitions, &format!("{name}[]."), text);
        }
    }
}

#[test]
fn the_schema() {
    let mut text = serde_json::to_string_pretty(&together()).expect("JSON");
    text.push('\n');
    check("report.schema.json", &text);
}

#[test]
fn fields() {
    let mut page = head(
        "Reports",
        "What `--report PATH` writes: one object of JSON. Its schema is [report.schema.json](report.schema.json). A later version \
         may add fields; `bench` and `explain` write reports of their own, which are not described here.",
    );
    let all = together();
    for (name, commands, _) in reports() {
        page.push_str(&format!(
            "\n## {commands}\n\n| Field | Type | Meaning |\n|---|---|---|\n"
        ));
        rows(&all["$defs"][name], &all["$defs"], "", &mut page);
    }
    check("report.md", &page);
}
