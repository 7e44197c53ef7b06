//! The ledger's SQL in MariaDB and MySQL, and its values as the driver's.

use async_trait::async_trait;
use mysql_async::{Conn, Params, prelude::Queryable};
use tonnage_core::{
    error::Result,
    ledger::{NewRun, RunDetail},
    slot::SlotState,
};
use tonnage_sql::ledger::{Dialect, Keys, Row, SLOT_COLUMNS, Session, Tables, Value};

use super::place::failed;
use crate::{errors, once, statements::empty};

pub(super) const DIALECT: Dialect = Dialect {
    placeholder: |_| "?".to_owned(),
    now: "unix_timestamp()",
    count_type: "unsigned",
    for_update: " FOR UPDATE",
    // MariaDB has SKIP LOCKED from 10.6 on.
    skip_locked: "",
    on_conflict: "",
    duplicate: Some("1062"),
    unfinished: Some("unfinished"),
    slot_columns: SLOT_COLUMNS,
    moves: Some("moves"),
    begins_with: |given, characters| format!("left(run_id, {characters}) = {given}"),
    keys: Keys::Each(50),
    // Some servers take no more than 16 KiB.
    statement_bytes_max: 8 << 10,
};

/// A connection, and the ledger that it is about.
pub(super) struct InSession<'a> {
    conn: &'a mut Conn,
    tables: &'a Tables,
}

impl<'a> InSession<'a> {
    pub(super) fn of(conn: &'a mut Conn, tables: &'a Tables) -> Self {
        Self { conn, tables }
    }
}

fn given(values: &[Value]) -> Params {
    let each = values.iter().map(|value| match value {
        Value::Integer(number) => (*number).into(),
        Value::Bits(bits) => (*bits).into(),
        Value::Text(text) => text.as_str().into(),
        Value::Null | Value::Texts(_) | Value::Unreadable => mysql_async::Value::NULL,
    });
    match values.is_empty() {
        true => Params::Empty,
        false => Params::Positional(each.collect()),
    }
}

/// Values as they come of a prepared statement.
fn read(row: mysql_async::Row) -> Row {
    let each = row.unwrap_raw().into_iter();
    each.map(|value| match value {
        Some(mysql_async::Value::NULL) => Value::Null,
        Some(mysql_async::Value::Int(number)) => Value::Integer(number),
        Some(mysql_async::Value::UInt(bits)) => Value::Integer(bits as i64),
        Some(mysql_async::Value::Bytes(bytes)) => {
            String::from_utf8(bytes).map_or(Value::Unreadable, Value::Text)
        }
        _ => Value::Unreadable,
    })
    .collect()
}

#[async_trait]
impl Session for InSession<'_> {
    async fn query(&mut self, sql: &str, values: &[Value]) -> Result<Vec<Row>> {
        let rows = once::rows(self.conn, sql, given(values)).await;
        let rows = rows.map_err(|failure| failed(self.tables, failure))?;
        Ok(rows.into_iter().map(read).collect())
    }

    async fn execute(&mut self, sql: &str, values: &[Value]) -> Result<u64> {
        let executed = once::execute(self.conn, sql, given(values)).await;
        executed.map_err(|failure| failed(self.tables, failure))
    }

    async fn prepare(&mut self, run: &NewRun, _: &mut RunDetail) -> Result<()> {
        if !run.preparation.truncates() {
            return Ok(());
        }
        // TRUNCATE would end the transaction.
        let table = &run.table;
        let emptied = self.conn.query_drop(empty(table)).await;
        emptied.map_err(|failure| errors::statement(failure).at(format!("cannot empty {table}")))
    }

    async fn taken_over(&mut self, _: &str, _: &[SlotState]) -> Result<()> {
        Ok(())
    }

    /// Nothing is ever owed: making a table ends a transaction, so no preparation does.
    async fn settle(&mut self, _: &str, _: &mut RunDetail) -> Result<()> {
        Ok(())
    }

    async fn undo(&mut self, _: &str, _: Option<&RunDetail>) -> Result<()> {
        Ok(())
    }
}
