//! Tables that are made: `PUT /v1/tables/{table}`.
//!
//! A table is made of rows: their names and values say its columns, as a load with `--create` has it, and they are its first
//! rows. Either all of it is there afterwards, or nothing. Rows go through no journal here.

use std::sync::{Arc, atomic::Ordering};

use axum::{
    Json,
    body::Body,
    extract::State,
    http::StatusCode,
    response::{IntoResponse, Response},
};
use serde_json::json;
use tonnage::{plan::Create, stop::Stop, table::TableName};

use crate::{App, access::Right, asked::Asked, body, read, refusal::Refusal};

/// Makes a table.
pub async fn table(State(app): State<Arc<App>>, asked: Asked, content: Body) -> Result<Response, Refusal> {
    if app.is_stopping.load(Ordering::Relaxed) {
        return Err(Refusal::stopping());
    }
    asked.parameters.only(&["database", "key"])?;
    let database = app.tables.database(asked.parameters.get("database"))?;
    let name: TableName = asked.table.parse()?;
    if !database.makes_tables() || !database.may(&asked.caller, Right::Write, &name).await? {
        return Err(Refusal::forbidden());
    }
    let exists = || {
        Refusal::new(
            StatusCode::CONFLICT,
            "exists",
            format!("table {name} is there already"),
        )
        .hint("POST /v1/tables/TABLE/rows puts rows into it")
    };
    asked.caller.may_send()?;
    let connected = database.connected().await?;
    if connected.target().table(&name).await?.is_some() {
        return Err(exists());
    }
    let (file, format) = read::spooled(&app, &asked, content).await?;
    let path = file.path().display().to_string();
    let load = connected
        .load(path.clone())
        .text(Some(format), body::text_options())
        .create(asked.parameters.names("key").unwrap_or_default())
        .single_transaction()
        .options(|options| {
            options.table = name.clone();
            options.create = Create::New;
        });
    let named = |error: tonnage::Error| {
        let mut refusal = Refusal::from(error);
        refusal.message = refusal.message.replace(&path, "the body");
        refusal
    };
    let prepared = load.prepare().await.map_err(named)?;
    // It goes on, and ends with an account, also where nobody waits for it any more.
    let ended = tokio::spawn(async move {
        let ended = prepared.run(Arc::default(), Stop::default()).await;
        drop(file);
        ended
    });
    let ended = ended
        .await
        .map_err(|error| tonnage::Error::bug(format!("a load ended: {error}")))?
        .map_err(named)?;
    asked.caller.has_sent(ended.report.rows.written);
    if let Some(error) = ended.error {
        return Err(named(error));
    }
    let made = json!({ "table": name.to_string(), "rows": ended.report.rows.written });
    Ok((StatusCode::CREATED, Json(made)).into_response())
}
