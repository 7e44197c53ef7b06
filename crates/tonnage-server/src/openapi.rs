//! `/v1/openapi.json`, made of the list of routes.

use serde_json::{Map, Value, json};

use crate::{body::FORMATS, config::MODES, http::ROUTES, read::FORMS, write::ACKS};

/// The description in OpenAPI 3.1.
pub fn document() -> Value {
    let mut paths = Map::new();
    for route in ROUTES {
        let mut parameters: Vec<Value> = ["table", "producer"]
            .iter()
            .filter(|name| route.path.contains(&format!("{{{name}}}")))
            .map(|name| json!({ "name": name, "in": "path", "required": true, "schema": { "type": "string" } }))
            .collect();
        let query = |name: &str, schema: Value, what: &str| json!({ "name": name, "in": "query", "schema": schema, "description": what });
        let names =
            |all: Vec<&str>, default: &str| json!({ "type": "string", "enum": all, "default": default });
        if route.path.starts_with("/v1/tables/{table}") {
            parameters.push(query(
                "database",
                json!({ "type": "string" }),
                "where several are served",
            ));
        }
        let mut operation = json!({ "summary": route.summary });
        let takes_body = route.method != "GET";
        if takes_body {
            let content: Map<String, Value> = FORMATS
                .iter()
                .map(|(media, _)| ((*media).to_owned(), json!({})))
                .collect();
            operation["requestBody"] = json!({ "required": true, "content": content });
        }
        if route.path.ends_with("/rows") && takes_body {
            parameters.push(query(
                "ack",
                names(ACKS.iter().map(|(name, _)| *name).collect(), "journaled"),
                "when it is answered",
            ));
            parameters.push(query(
                "mode",
                names(MODES.iter().map(|(name, _)| *name).collect(), "insert"),
                "what happens to rows",
            ));
            for name in ["Tonnage-Producer", "Tonnage-Sequence", "Content-Encoding"] {
                parameters.push(json!({ "name": name, "in": "header", "schema": { "type": "string" } }));
            }
        }
        if route.method == "PUT" {
            parameters.push(query(
                "key",
                json!({ "type": "string" }),
                "the columns of the primary key: key=a,b",
            ));
        }
        let refused = json!({ "description": "refused", "content": { "application/json": {} } });
        let mut responses = Map::new();
        let ok = match route.path.ends_with("/get")
            || route.path.ends_with("/export")
            || route.path.ends_with("/rows") && !takes_body
        {
            true => {
                let content: Map<String, Value> = FORMS
                    .iter()
                    .map(|(media, _)| ((*media).to_owned(), json!({})))
                    .collect();
                json!({ "description": "rows", "content": content })
            }
            false => json!({ "description": "done" }),
        };
        let status = if route.method == "PUT" { "201" } else { "200" };
        responses.insert(status.to_owned(), ok);
        if route.path.ends_with("/rows") && takes_body {
            responses.insert(
                "207".to_owned(),
                json!({ "description": "done; some rows were put aside and are named" }),
            );
            for status in [
                "400", "403", "404", "408", "409", "413", "415", "429", "503", "504",
            ] {
                responses.insert(status.to_owned(), refused.clone());
            }
        }
        if route.is_protected {
            responses.insert("401".to_owned(), refused.clone());
            operation["security"] = json!([{ "token": [] }]);
        }
        operation["parameters"] = parameters.into();
        operation["responses"] = responses.into();
        let path = paths.entry(route.path).or_insert_with(|| json!({}));
        path[route.method.to_ascii_lowercase()] = operation;
    }
    json!({
        "openapi": "3.1.0",
        "info": { "title": "tonnage serve", "version": env!("CARGO_PKG_VERSION") },
        "paths": paths,
        "components": { "securitySchemes": { "token": { "type": "http", "scheme": "bearer" } } },
    })
}
