//! The ledger's SQL in PostgreSQL, and its values as the driver's.

use async_trait::async_trait;
use bytes::BytesMut;
use tokio_postgres::{
    GenericClient,
    types::{IsNull, ToSql, Type, to_sql_checked},
};
use tonnage_core::{
    error::Result,
    ledger::{NewRun, RunDetail},
    slot::SlotState,
};
use tonnage_sql::ledger::{Dialect, Keys, Row, SLOT_COLUMNS, Session, Tables, Value};

use super::{crash_marker, place::failed};
use crate::{catalog::get, errors, prepare, statements};

pub(super) const DIALECT: Dialect = Dialect {
    placeholder: |number| format!("${number}"),
    now: "extract(epoch FROM now())::int8",
    count_type: "int8",
    for_update: " FOR UPDATE",
    // Runs that another process is pruning are left to it.
    skip_locked: " FOR UPDATE OF r SKIP LOCKED",
    on_conflict: " ON CONFLICT DO NOTHING",
    duplicate: None,
    unfinished: None,
    slot_columns: SLOT_COLUMNS,
    moves: None,
    begins_with: |given, characters| format!("pg_catalog.left(run_id, {characters}) = {given}"),
    keys: Keys::Array,
    statement_bytes_max: 1 << 20,
};

/// A connection, or a transaction, and the ledger that it is about.
pub(super) struct InSession<'a, C> {
    client: &'a C,
    tables: &'a Tables,
}

impl<'a, C: GenericClient> InSession<'a, C> {
    pub(super) fn of(client: &'a C, tables: &'a Tables) -> Self {
        Self { client, tables }
    }
}

/// A value as a parameter.
#[derive(Debug)]
struct Given<'v>(&'v Value);

impl ToSql for Given<'_> {
    fn to_sql(
        &self,
        ty: &Type,
        out: &mut BytesMut,
    ) -> Result<IsNull, Box<dyn std::error::Error + Sync + Send>> {
        match self.0 {
            Value::Null => Ok(IsNull::Yes),
            Value::Integer(number) if *ty == Type::INT4 => i32::try_from(*number)?.to_sql(ty, out),
            Value::Integer(number) => number.to_sql(ty, out),
            Value::Bits(bits) => (*bits as i64).to_sql(ty, out),
            Value::Text(text) => text.to_sql(ty, out),
            Value::Texts(texts) => texts.to_sql(ty, out),
            Value::Unreadable => Err("a value that was not read is no parameter".into()),
        }
    }

    fn accepts(ty: &Type) -> bool {
        [Type::INT4, Type::INT8, Type::TEXT, Type::TEXT_ARRAY].contains(ty)
    }

    to_sql_checked!();
}

fn borrowed<'g>(given: &'g [Given<'_>]) -> Vec<&'g (dyn ToSql + Sync)> {
    given.iter().map(|given| given as &(dyn ToSql + Sync)).collect()
}

fn read(row: &tokio_postgres::Row) -> Result<Row> {
    let each = row.columns().iter().enumerate();
    each.map(|(at, column)| {
        Ok(match *column.type_() {
            Type::INT8 => get::<Option<i64>>(row, at)?.map(Value::Integer),
            Type::INT4 => get::<Option<i32>>(row, at)?.map(|number| Value::Integer(number.into())),
            Type::BOOL => get::<Option<bool>>(row, at)?.map(|flag| Value::Integer(flag.into())),
            Type::TEXT => get::<Option<String>>(row, at)?.map(Value::Text),
            _ => Some(Value::Unreadable),
        }
        .unwrap_or(Value::Null))
    })
    .collect()
}

#[async_trait]
impl<C: GenericClient + Sync> Session for InSession<'_, C> {
    async fn query(&mut self, sql: &str, values: &[Value]) -> Result<Vec<Row>> {
        let given: Vec<_> = values.iter().map(Given).collect();
        let rows = self.client.query(sql, &borrowed(&given)).await;
        let rows = rows.map_err(|failure| failed(self.tables, failure))?;
        rows.iter().map(read).collect()
    }

    async fn execute(&mut self, sql: &str, values: &[Value]) -> Result<u64> {
        let given: Vec<_> = values.iter().map(Given).collect();
        let executed = self.client.execute(sql, &borrowed(&given)).await;
        executed.map_err(|failure| failed(self.tables, failure))
    }

    async fn prepare(&mut self, run: &NewRun, detail: &mut RunDetail) -> Result<()> {
        if detail.emptied_by_crash {
            crash_marker::put(self.client, self.tables, &run.run_id).await?;
        }
        if run.preparation.truncates() {
            let table = &run.table;
            let emptied = self.client.batch_execute(&statements::truncate(table)).await;
            emptied.map_err(|failure| errors::statement(failure).at(format!("cannot empty {table}")))?;
        }
        prepare::prepare(self.client, run, detail).await
    }

    async fn taken_over(&mut self, _: &str, _: &[SlotState]) -> Result<()> {
        Ok(())
    }

    async fn settle(&mut self, run_id: &str, detail: &mut RunDetail) -> Result<()> {
        if detail.emptied_by_crash {
            crash_marker::check(self.client, self.tables, run_id).await?;
        }
        prepare::finish(self.client, detail).await
    }

    async fn undo(&mut self, run_id: &str, owed: Option<&RunDetail>) -> Result<()> {
        crash_marker::remove(self.client, self.tables, run_id).await?;
        match owed {
            Some(detail) => prepare::undo(self.client, detail).await,
            None => Ok(()),
        }
    }
}
