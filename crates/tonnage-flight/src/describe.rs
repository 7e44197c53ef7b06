//! What there is: catalogs, schemas, tables, keys, and what the service can do.

use std::sync::{Arc, LazyLock};

use arrow::{
    array::{ArrayRef, Int32Array, RecordBatch, StringArray},
    datatypes::{DataType, Field, Schema, SchemaRef},
};
use arrow_flight::{
    error::FlightError,
    sql::{
        CommandGetCatalogs, CommandGetDbSchemas, CommandGetPrimaryKeys, CommandGetTableTypes,
        CommandGetTables, SqlInfo, SqlSupportedTransaction,
        metadata::{SqlInfoData, SqlInfoDataBuilder},
    },
};
use tonic::Status;
use tonnage_core::{
    table::{Table, TableName},
    types::ColumnType,
};

use crate::{Caller, Right, answer::failed};

/// The one kind of table.
const TABLE: &str = "TABLE";

/// The catalog, and the schema of a table that is in none.
const NO_NAME: &str = "";

/// What is said of the service.
pub(crate) static SQL_INFO: LazyLock<Result<SqlInfoData, FlightError>> = LazyLock::new(|| {
    let mut info = SqlInfoDataBuilder::new();
    info.append(SqlInfo::FlightSqlServerName, "tonnage");
    info.append(SqlInfo::FlightSqlServerVersion, env!("CARGO_PKG_VERSION"));
    info.append(SqlInfo::FlightSqlServerArrowVersion, "1.3");
    info.append(SqlInfo::FlightSqlServerReadOnly, false);
    info.append(SqlInfo::FlightSqlServerSql, true);
    info.append(SqlInfo::FlightSqlServerSubstrait, false);
    info.append(
        SqlInfo::FlightSqlServerTransaction,
        SqlSupportedTransaction::Transaction as i32,
    );
    info.append(SqlInfo::FlightSqlServerCancel, false);
    info.append(SqlInfo::FlightSqlServerBulkIngestion, true);
    info.append(SqlInfo::FlightSqlServerIngestTransactionsSupported, true);
    info.append(SqlInfo::SqlIdentifierQuoteChar, "\"");
    info.build()
});

/// What Arrow refuses of what was made here.
pub(crate) fn unmade(cause: impl std::fmt::Display) -> Status {
    Status::internal(cause.to_string())
}

/// Databases are not gathered in catalogs: one, without a name, as clients ask for what is in each.
pub(crate) fn catalogs(command: CommandGetCatalogs) -> Result<RecordBatch, Status> {
    let mut catalogs = command.into_builder();
    catalogs.append(NO_NAME);
    catalogs.build().map_err(unmade)
}

pub(crate) fn table_types() -> Result<RecordBatch, Status> {
    let mut types = CommandGetTableTypes {}.into_builder();
    types.append(TABLE);
    types.build().map_err(unmade)
}

/// The schemas of the tables.
pub(crate) async fn schemas(
    caller: &dyn Caller,
    command: CommandGetDbSchemas,
) -> Result<RecordBatch, Status> {
    let tables = tables_of(caller).await?.into_iter();
    let mut names: Vec<_> = tables.map(|name| name.schema.unwrap_or_default()).collect();
    names.sort();
    names.dedup();
    let mut schemas = command.into_builder();
    for name in names {
        schemas.append(NO_NAME, name);
    }
    schemas.build().map_err(unmade)
}

/// The tables, with their columns where these are asked for.
pub(crate) async fn tables(caller: &dyn Caller, command: CommandGetTables) -> Result<RecordBatch, Status> {
    let pattern = command.table_name_filter_pattern.clone();
    // A name without a wildcard is one table: the others' columns need not be read.
    let only = pattern.filter(|pattern| !pattern.contains(['%', '_']));
    let mut tables = command.into_builder();
    for name in tables_of(caller).await? {
        if only.as_ref().is_some_and(|only| *only != name.name) {
            continue;
        }
        let schema = match tables.include_schema() {
            false => Schema::empty(),
            true => match caller.database().target().table(&name).await.map_err(failed)? {
                Some(table) => columns(&table),
                // Dropped since.
                None => continue,
            },
        };
        let shown = name.schema.unwrap_or_default();
        tables
            .append(NO_NAME, shown, name.name, TABLE, &schema)
            .map_err(unmade)?;
    }
    tables.build().map_err(unmade)
}

/// The tables that the caller may know of.
async fn tables_of(caller: &dyn Caller) -> Result<Vec<TableName>, Status> {
    let names = caller.database().target().table_names().await.map_err(failed)?;
    let mut known = Vec::new();
    for name in names {
        let name = name.parse().unwrap_or(TableName::bare(name));
        if caller.may(Right::List, Some(&name)).await {
            known.push(name);
        }
    }
    Ok(known)
}

/// The columns of a table; text stands for a type that is not carried.
fn columns(table: &Table) -> Schema {
    let field = |column: &tonnage_core::table::Column| {
        let ty = column
            .ty
            .filter(|ty| *ty != ColumnType::Any)
            .unwrap_or(ColumnType::TEXT);
        ty.field(&column.name, column.nullable)
    };
    Schema::new(table.columns.iter().map(field).collect::<Vec<_>>())
}

/// The columns of [`primary_keys`], as Flight SQL has them.
pub(crate) fn primary_key_schema() -> SchemaRef {
    Arc::new(Schema::new(vec![
        Field::new("catalog_name", DataType::Utf8, true),
        Field::new("db_schema_name", DataType::Utf8, true),
        Field::new("table_name", DataType::Utf8, false),
        Field::new("column_name", DataType::Utf8, false),
        Field::new("key_sequence", DataType::Int32, false),
        Field::new("key_name", DataType::Utf8, true),
    ]))
}

/// The primary key of a table.
pub(crate) async fn primary_keys(
    caller: &dyn Caller,
    command: CommandGetPrimaryKeys,
) -> Result<RecordBatch, Status> {
    let name = TableName {
        schema: command.db_schema.filter(|schema| !schema.is_empty()),
        name: command.table,
    };
    let found = match caller.may(Right::List, Some(&name)).await {
        true => caller.database().target().table(&name).await.map_err(failed)?,
        false => None,
    };
    let Some(table) = found else {
        return Err(Status::not_found(format!("there is no table {name}")));
    };
    let key = table.primary_key().map_or(&[][..], |key| &key.columns);
    let text = |of: Option<&str>| Arc::new(StringArray::from(vec![of; key.len()])) as ArrayRef;
    let columns: Vec<ArrayRef> = vec![
        text(None),
        text(table.name.schema.as_deref()),
        text(Some(&table.name.name)),
        Arc::new(StringArray::from_iter_values(key)),
        Arc::new(Int32Array::from_iter_values((1..).take(key.len()))),
        text(None),
    ];
    RecordBatch::try_new(primary_key_schema(), columns).map_err(unmade)
}
