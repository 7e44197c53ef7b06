//! The SDK: the connection, its errors, its values, and the catalogue.

use std::sync::Arc;

use bigdecimal::BigDecimal;
use chrono::DateTime;
use oracle_nosql_rust_sdk::{
    GetTableRequest, Handle, HandleMode, ListTablesRequest, NoSQLError, TableRequest,
    types::{FieldValue, MapValue, TableLimits},
};
use serde_json::Value;
use tonnage_core::{
    error::{Error, ErrorKind, Result},
    reader::no_table,
    table::{TableName, find_by_name},
};

use super::{
    encode::{Cell, decimal},
    errors::{self, Doing, NO_TABLE},
    settings::Settings,
    types::{Described, Kind, described},
};

/// Tables of an answer to a question for all of them.
const TABLES_MAX: i32 = 1_000;

/// A store, and what each request needs.
pub(super) struct Store {
    pub handle: Handle,
    pub settings: Settings,
}

/// How the SDK begins what it says of an answer that is none of the database's: another HTTP status than 200 (of a gateway, say),
/// or the answer to another request.
const NO_ANSWERS: [&str; 3] = [
    "got unexpected http status",
    "expected request_id",
    "can't get request_id",
];

/// The database's error.
pub(super) fn failed(error: NoSQLError, doing: Doing) -> Error {
    let code = error.code as i32;
    // The SDK gives them the code of an illegal argument, which a row would be rejected for. Nothing but its words tells them
    // apart, so its version is pinned.
    let kind = match NO_ANSWERS.iter().any(|begin| error.message.starts_with(begin)) {
        true => ErrorKind::Unsent,
        false => errors::kind(code, doing),
    };
    let found = Error::new(kind, format!("Oracle NoSQL: {}", error.message)).code(code);
    let found = match errors::hint(code) {
        Some(hint) => found.hint(hint),
        None => found,
    };
    found.caused_by(error)
}

impl Store {
    /// Connects: asks for a table, since the SDK itself asks for nothing. `Config` where nobody answers.
    pub async fn open(settings: Settings) -> Result<Arc<Self>> {
        let shown = settings.shown();
        let wrong = |error: NoSQLError| {
            Error::config(format!("no connection to {shown}: {}", error.message)).caused_by(error)
        };
        let mut builder = Handle::builder().timeout(settings.timeout).map_err(wrong)?;
        match (&settings.endpoint, &settings.region) {
            (Some(endpoint), _) => {
                builder = builder.endpoint(endpoint).map_err(wrong)?;
                builder = builder.mode(HandleMode::Onprem).map_err(wrong)?;
                if let Some((user, secret)) = &settings.user {
                    builder = builder.onprem_auth(user, &secret.0).map_err(wrong)?;
                }
            }
            (None, region) => {
                let region = region.as_deref().unwrap_or_default();
                builder = builder.cloud_region(region).map_err(wrong)?;
                let config = settings.config.as_deref().unwrap_or("~/.oci/config");
                builder = builder
                    .cloud_auth_from_file_with_profile(config, &settings.profile)
                    .map_err(wrong)?;
            }
        }
        if let Some(compartment) = &settings.compartment {
            builder = builder.compartment_id(compartment).map_err(wrong)?;
        }
        let handle = builder.build().await.map_err(wrong)?;
        let store = Arc::new(Self { handle, settings });
        store.list(0, 1).await.map_err(|error| {
            let message = format!("no connection to {}: {error}", store.settings.shown());
            Error::config(message)
                .hint("is a proxy up there, and are user and password right?")
                .caused_by(error)
        })?;
        Ok(store)
    }

    async fn list(&self, from: i32, limit: i32) -> Result<Vec<String>> {
        let request = ListTablesRequest::new().start_index(from).limit(limit);
        let found = request.execute(&self.handle).await;
        found
            .map(|found| found.table_names)
            .map_err(|error| failed(error, Doing::Else))
    }

    /// The names of all tables.
    pub async fn names(&self) -> Result<Vec<String>> {
        let mut names = Vec::new();
        loop {
            let more = self.list(names.len() as i32, TABLES_MAX).await?;
            let is_last = more.len() < TABLES_MAX as usize;
            names.extend(more);
            if is_last {
                return Ok(names);
            }
        }
    }

    /// A table by its exact name, else by a unique case-insensitive one: the database does not tell cases apart.
    pub async fn describe(&self, name: &TableName) -> Result<Option<Described>> {
        if name.schema.is_some() {
            return Ok(None);
        }
        let found = GetTableRequest::new(&name.name).execute(&self.handle).await;
        let found = match found {
            Err(error) if error.code as i32 == NO_TABLE => return Ok(None),
            found => found.map_err(|error| failed(error, Doing::Else))?,
        };
        let names = self.names().await?;
        let spelt =
            find_by_name(&names, &name.name, |known| known).map_or(name.name.as_str(), String::as_str);
        described(spelt, &found.table_ocid(), &found.schema()).map(Some)
    }

    /// [`Store::describe`] of a table that is there. `Schema` where there is none.
    pub async fn required(&self, name: &TableName) -> Result<Described> {
        match self.describe(name).await? {
            Some(described) => Ok(described),
            None => Err(no_table(name, &self.names().await?)),
        }
    }

    /// Runs a statement that makes or drops a table, and waits until that is done.
    pub async fn define(&self, table: &str, statement: &str, limits: Limited) -> Result<()> {
        let mut request = TableRequest::new(table)
            .statement(statement)
            .timeout(&self.settings.timeout);
        if let (Limited::New, None) = (limits, &self.settings.endpoint) {
            let limits = self.settings.limits;
            request = request.limits(&TableLimits::provisioned(
                limits.read_units,
                limits.write_units,
                limits.storage_gb,
            ));
        }
        let wait = self.settings.timeout.max(std::time::Duration::from_secs(60));
        let mut result = request
            .execute(&self.handle)
            .await
            .map_err(|error| failed(error, Doing::Else))?;
        let done = result
            .wait_for_completion(&self.handle, wait, std::time::Duration::from_millis(200))
            .await;
        match done {
            // What is dropped may be gone before it is asked for.
            Err(error) if matches!(limits, Limited::None) && error.code as i32 == NO_TABLE => Ok(()),
            done => done.map_err(|error| failed(error, Doing::Else)),
        }
    }
}

/// Whether a statement takes limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Limited {
    /// It makes a table, which has some in the cloud.
    New,
    /// It does not.
    None,
}

/// A value of JSON. Numbers that no `LONG` holds are decimals, which lose nothing.
fn json_value(value: &Value) -> Result<FieldValue> {
    Ok(match value {
        Value::Null => FieldValue::JsonNull,
        Value::Bool(value) => FieldValue::Boolean(*value),
        Value::Number(number) => match number.as_i64() {
            Some(value) => FieldValue::Long(value),
            None => FieldValue::Number(big(&number.to_string())?),
        },
        Value::String(text) => FieldValue::String(text.clone()),
        Value::Array(items) => FieldValue::Array(items.iter().map(json_value).collect::<Result<_>>()?),
        Value::Object(fields) => {
            let mut map = MapValue::new();
            for (name, value) in fields {
                map.put_field_value(name, json_value(value)?);
            }
            FieldValue::Map(map)
        }
    })
}

fn big(text: &str) -> Result<BigDecimal> {
    text.parse()
        .map_err(|cause| Error::bug(format!("'{text}' is a decimal: {cause}")))
}

/// A value as it is sent.
pub(super) fn to_wire(cell: &Cell) -> Result<FieldValue> {
    Ok(match cell {
        Cell::Null => FieldValue::Null,
        Cell::Boolean(value) => FieldValue::Boolean(*value),
        Cell::Integer(value) => FieldValue::Integer(*value),
        Cell::Long(value) => FieldValue::Long(*value),
        Cell::Double(value) => FieldValue::Double(*value),
        Cell::Number(text) => FieldValue::Number(big(text)?),
        Cell::Text(text) => FieldValue::String(text.clone()),
        Cell::Bytes(bytes) => FieldValue::Binary(bytes.clone()),
        Cell::Timestamp(micros) => {
            let time = DateTime::from_timestamp_micros(*micros);
            let time = time.ok_or_else(|| Error::bug("a time that no calendar has"))?;
            FieldValue::Timestamp(time.fixed_offset())
        }
        Cell::Json(text) => {
            let value = serde_json::from_str(text).map_err(|cause| Error::bug(format!("JSON: {cause}")))?;
            json_value(&value)?
        }
    })
}

fn json_of(value: &FieldValue) -> Option<Value> {
    Some(match value {
        FieldValue::JsonNull | FieldValue::Null => Value::Null,
        FieldValue::Boolean(value) => Value::Bool(*value),
        FieldValue::Integer(value) => (*value).into(),
        FieldValue::Long(value) => (*value).into(),
        FieldValue::Double(value) => serde_json::Number::from_f64(*value)?.into(),
        FieldValue::Number(value) => serde_json::from_str(&value.to_plain_string()).ok()?,
        FieldValue::String(text) => Value::String(text.clone()),
        FieldValue::Array(items) => Value::Array(items.iter().map(json_of).collect::<Option<_>>()?),
        FieldValue::Map(map) => {
            let fields = map
                .iter()
                .map(|(name, value)| Some((name.clone(), json_of(value)?)));
            Value::Object(fields.collect::<Option<_>>()?)
        }
        _ => return None,
    })
}

/// A value that has come. `Schema` where it is none of the kind, or has no exact form.
pub(super) fn from_wire(value: Option<&FieldValue>, kind: Kind, column: &str) -> Result<Cell> {
    let odd = || {
        Error::schema(format!(
            "column '{column}' has a value that is no {kind:?}, or that Arrow has no form for"
        ))
    };
    let value = value.unwrap_or(&FieldValue::Null);
    Ok(match (kind, value) {
        (_, FieldValue::Null | FieldValue::Empty | FieldValue::Uninitialized) => Cell::Null,
        (Kind::Json, value) => Cell::Json(json_of(value).ok_or_else(odd)?.to_string()),
        (Kind::Boolean, FieldValue::Boolean(value)) => Cell::Boolean(*value),
        (Kind::Integer, FieldValue::Integer(value)) => Cell::Integer(*value),
        (Kind::Long, FieldValue::Long(value)) => Cell::Long(*value),
        (Kind::Long, FieldValue::Integer(value)) => Cell::Long((*value).into()),
        (Kind::Float | Kind::Double, FieldValue::Double(value)) => Cell::Double(*value),
        (Kind::Float | Kind::Double, FieldValue::Integer(value)) => Cell::Double((*value).into()),
        (Kind::Number, FieldValue::Number(value)) => {
            Cell::Number(decimal(&value.to_plain_string()).ok_or_else(odd)?)
        }
        (Kind::Number, FieldValue::Integer(value)) => Cell::Number(value.to_string()),
        (Kind::Number, FieldValue::Long(value)) => Cell::Number(value.to_string()),
        (Kind::String, FieldValue::String(text)) => Cell::Text(text.clone()),
        (Kind::Binary, FieldValue::Binary(bytes)) => Cell::Bytes(bytes.clone()),
        (Kind::Timestamp { .. }, FieldValue::Timestamp(time))
            if time.timestamp_subsec_nanos() % 1_000 == 0 =>
        {
            Cell::Timestamp(time.timestamp_micros())
        }
        _ => return Err(odd()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_come_back_as_they_were_sent() {
        for (kind, cell) in [
            (Kind::Boolean, Cell::Boolean(true)),
            (Kind::Integer, Cell::Integer(i32::MIN)),
            (Kind::Long, Cell::Long(i64::MAX)),
            (Kind::Double, Cell::Double(1e-300)),
            (
                Kind::Number,
                Cell::Number("-123456789012345678901234567890.5".to_owned()),
            ),
            (Kind::Number, Cell::Number("100".to_owned())),
            (Kind::String, Cell::Text(String::new())),
            (Kind::Binary, Cell::Bytes(vec![0, 255])),
            (Kind::Timestamp { precision: 6 }, Cell::Timestamp(-1)),
            (
                Kind::Json,
                Cell::Json(r#"{"a":[1,null,"x",12345678901234567890.25],"b":{}}"#.to_owned()),
            ),
            (Kind::Json, Cell::Json("null".to_owned())),
            (Kind::Json, Cell::Null),
        ] {
            let sent = to_wire(&cell).unwrap();
            assert_eq!(from_wire(Some(&sent), kind, "c").unwrap(), cell);
        }
        let nanos = DateTime::from_timestamp_nanos(1).fixed_offset();
        let kind = Kind::Timestamp { precision: 9 };
        assert!(from_wire(Some(&FieldValue::Timestamp(nanos)), kind, "c").is_err());
        assert!(from_wire(Some(&FieldValue::Long(1)), Kind::String, "c").is_err());
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn nobody_there_is_a_wrong_setting_with_a_hint() {
        let free = std::net::TcpListener::bind("127.0.0.1:0")
            .unwrap()
            .local_addr()
            .unwrap();
        let settings = Settings::parse(&format!("nosql:http://{free}?timeout=2"), None).unwrap();
        let error = Store::open(settings).await.err().unwrap();
        assert_eq!(error.kind(), ErrorKind::Config);
        assert!(
            error.to_string().contains("no connection to http://127.0.0.1"),
            "{error}"
        );
        assert!(error.hint_text().is_some());
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_gateway_that_is_down_is_no_rows_fault() {
        use std::io::{Read, Write};
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let place = listener.local_addr().unwrap();
        std::thread::spawn(move || {
            for client in listener.incoming() {
                let mut client = client.unwrap();
                let _ = client.read(&mut [0; 4_096]);
                let _ = client
                    .write_all(b"HTTP/1.1 503 Unavailable\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
            }
        });
        let builder = Handle::builder().endpoint(&format!("http://{place}")).unwrap();
        let handle = builder.mode(HandleMode::Onprem).unwrap().build().await.unwrap();
        let error = GetTableRequest::new("t").execute(&handle).await.err().unwrap();
        let error = failed(error, Doing::Rows);
        assert_eq!(error.kind(), ErrorKind::Unsent, "{error}");
    }
}
