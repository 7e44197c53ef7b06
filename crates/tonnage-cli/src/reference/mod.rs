//! The pages of `docs/reference`, made from the definitions in the code. A page that is not what they say fails its test;
//! `make reference` makes all of them anew.

mod errors;
mod options;
mod reports;
mod types;

use std::path::Path;

use schemars::{JsonSchema, Schema, generate::SchemaSettings};
use serde_json::Value;

/// Compares a page with what the definitions say, or writes it where snapshots are written.
fn check(name: &str, text: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../docs/reference")
        .join(name);
    if std::env::var("INSTA_UPDATE").is_ok_and(|update| update == "always") {
        std::fs::write(&path, text).expect("the page can be written");
    }
    let page = std::fs::read_to_string(&path).unwrap_or_default();
    let differs = page.lines().zip(text.lines()).find(|(there, made)| there != made);
    assert!(
        page == text,
        "docs/reference/{name} is not what the code says; `make reference` makes it anew. The first difference: {differs:?}"
    );
}

/// The head of a page.
fn head(title: &str, about: &str) -> String {
    format!("# {title}\n\n{about}\n\n*Made from the code by `make reference`.*\n")
}

/// Text within a cell of a table or a line of a list: one line, with nothing that Markdown or HTML would take for its own.
/// What is in backticks stays as it is.
fn inline(text: &str) -> String {
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let mut escaped = String::new();
    for (at, part) in text.split('`').enumerate() {
        if at > 0 {
            escaped.push('`');
        }
        // A code span cannot escape anything, and a table is cut at its bars all the same.
        let code = at % 2 == 1;
        for c in part.chars() {
            match c {
                '|' => escaped.push_str("\\|"),
                '<' if !code => escaped.push_str("&lt;"),
                '*' | '_' | '[' | ']' if !code => escaped.extend(['\\', c]),
                _ => escaped.push(c),
            }
        }
    }
    escaped
}

/// The schema of what is written, not of what is read.
fn schema<T: JsonSchema>() -> Schema {
    SchemaSettings::draft2020_12()
        .for_serialize()
        .into_generator()
        .into_root_schema_for::<T>()
}

/// The text of a schema's `description`, without links to other items.
fn description(schema: &Value) -> String {
    let text = schema["description"].as_str().unwrap_or_default();
    // `[Name](path)` and `[`Name`]` are for readers of the code.
    let mut plain = String::new();
    let mut rest = text;
    while let Some((before, link)) = rest.split_once('[') {
        let (name, after) = link.split_once(']').unwrap_or((link, ""));
        let after = match after.strip_prefix('(') {
            Some(target) => target.split_once(')').map_or("", |(_, after)| after),
            None => after,
        };
        plain.push_str(before);
        plain.push_str(name);
        rest = after;
    }
    plain + rest
}

/// The names of an enumeration's variants and what their comments say.
fn variants<T: JsonSchema>() -> Vec<(String, String)> {
    let schema = schema::<T>().to_value();
    let listed = schema["oneOf"].as_array().cloned().unwrap_or_default();
    let named = |variant: &Value| {
        let name = variant["const"]
            .as_str()
            .or_else(|| variant["required"][0].as_str());
        (name.unwrap_or_default().to_owned(), description(variant))
    };
    listed.iter().map(named).collect()
}

/// The comment of a variant, found by its name.
fn meaning<T: JsonSchema>(name: &str) -> String {
    let found = variants::<T>().into_iter().find(|(variant, _)| variant == name);
    found
        .unwrap_or_else(|| panic!("{name} is a variant with a comment"))
        .1
}

#[test]
fn inline_text_is_one_line_without_markup() {
    for (text, shown) in [
        ("a\n  b", "a b"),
        ("a|b <c> *d*", "a\\|b &lt;c> \\*d\\*"),
        ("`<a>|*` <b>", "`<a>\\|*` &lt;b>"),
    ] {
        assert_eq!(inline(text), shown);
    }
}
