//! The statements that carry rows. Identifiers are quoted, values are never part of the text.

use super::{
    catalog::Described,
    encode::EncodedColumn,
    types::{quote, quote_all, quote_table},
};
use crate::{
    error::{Error, Result},
    operation::{Durability, Operation},
    plan::Plan,
    table::{Equality, TableName},
};

/// The statements of one plan.
#[derive(Debug)]
pub(super) struct Statements {
    /// Opens a transaction.
    pub begin: String,
    /// COPY into the table.
    pub copy: String,
    /// One array a column.
    pub array: String,
    /// An upsert by COPY.
    pub stage: Option<Stage>,
    /// Rows that a statement must report for a batch of this many; false where conflicts make it fewer.
    pub counts_rows: bool,
}

/// The way of an upsert by COPY: into a table of the session, and from there.
#[derive(Debug)]
pub(super) struct Stage {
    /// Makes the table, once a session.
    pub create: String,
    /// COPY into it.
    pub copy: String,
    /// From there into the table.
    pub merge: String,
    /// Empties it, for a further write of the same transaction.
    pub clear: String,
    /// Whether a column behind the others carries the row's number.
    pub ordinal: bool,
}

const STAGE: &str = "pg_temp.tonnage_stage";

/// The plan's columns with their types on both sides.
pub(super) fn columns(plan: &Plan, described: &Described) -> Result<Vec<EncodedColumn>> {
    plan.columns
        .iter()
        .map(|column| {
            let at = described.table.columns.iter().position(|c| c.name == column.name);
            let server = at
                .and_then(|at| described.columns.get(at))
                .map(|c| c.server)
                .ok_or_else(|| {
                    Error::schema(format!(
                        "{} has no column '{}' any more",
                        plan.table.name, column.name
                    ))
                    .hint("the table was altered while it was loaded")
                })?;
            Ok(EncodedColumn {
                name: column.name.clone(),
                ty: column.ty,
                server,
            })
        })
        .collect()
}

/// Builds a plan's statements.
pub(super) fn statements(
    plan: &Plan,
    described: &Described,
    columns: &[EncodedColumn],
    synchronous_commit: &str,
) -> Statements {
    let table = quote_table(&described.table.name);
    let names = quote_all(columns.iter().map(|c| c.name.as_str()));
    let key = plan.operation.key();
    let server_only = key.iter().any(|key| {
        let column = described.table.columns.iter().find(|c| c.name == *key);
        column.is_none_or(|c| c.equality == Equality::ServerOnly)
    });
    let ordinal = free_name("tonnage_row", columns);
    let overriding = overriding(described, columns);
    let conflict = conflict(&plan.operation, columns);

    let parameters: Vec<_> = columns
        .iter()
        .enumerate()
        .map(|(index, c)| format!("${}::{}", index + 1, c.server.array_name()))
        .collect();
    let parameters = parameters.join(", ");
    let array = if server_only {
        let key_expressions = key_expressions(key, described);
        format!(
            "INSERT INTO {table} ({names}){overriding} SELECT DISTINCT ON ({key_expressions}) {names} \
             FROM unnest({parameters}) WITH ORDINALITY AS given ({names}, {ordinal}) \
             ORDER BY {key_expressions}, {ordinal} DESC{conflict}",
            ordinal = quote(&ordinal),
        )
    } else {
        format!("INSERT INTO {table} ({names}){overriding} SELECT * FROM unnest({parameters}){conflict}")
    };

    let stage = (!key.is_empty()).then(|| {
        let key = quote_all(key.iter().map(String::as_str));
        let ordinal = quote(&ordinal);
        let with_ordinal = if server_only {
            format!(", {ordinal}")
        } else {
            String::new()
        };
        let typed_ordinal = if server_only {
            format!(", 0::int4 AS {ordinal}")
        } else {
            String::new()
        };
        let selection = if server_only {
            format!("SELECT DISTINCT ON ({key}) {names} FROM {STAGE} ORDER BY {key}, {ordinal} DESC")
        } else {
            format!("SELECT {names} FROM {STAGE}")
        };
        Stage {
            create: format!(
                "CREATE TEMPORARY TABLE tonnage_stage ON COMMIT DELETE ROWS AS SELECT {names}{typed_ordinal} \
                 FROM {table} WITH NO DATA"
            ),
            copy: format!("COPY {STAGE} ({names}{with_ordinal}) FROM STDIN WITH (FORMAT binary)"),
            merge: format!("INSERT INTO {table} ({names}){overriding} {selection}{conflict}"),
            clear: format!("DELETE FROM {STAGE}"),
            ordinal: server_only,
        }
    });

    Statements {
        begin: begin(plan.durability, synchronous_commit, described.deferred),
        copy: format!("COPY {table} ({names}) FROM STDIN WITH (FORMAT binary)"),
        array,
        stage,
        counts_rows: key.is_empty() || (!server_only && columns.len() > key.len()),
    }
}

fn begin(durability: Durability, synchronous_commit: &str, deferred: bool) -> String {
    // The compare-and-set of the ledger needs the committed state after a wait, whatever the role's default is.
    let mut begin = "BEGIN ISOLATION LEVEL READ COMMITTED".to_owned();
    if let Some(value) = super::types::commit_setting(synchronous_commit, durability) {
        begin.push_str("; SET LOCAL synchronous_commit = ");
        begin.push_str(value);
    }
    if deferred {
        begin.push_str("; SET CONSTRAINTS ALL IMMEDIATE");
    }
    begin
}

/// COPY always takes the values it is given for identity columns; INSERT must be told.
fn overriding(described: &Described, columns: &[EncodedColumn]) -> &'static str {
    let always = described
        .table
        .columns
        .iter()
        .zip(&described.columns)
        .any(|(column, detail)| detail.identity_always && columns.iter().any(|c| c.name == column.name));
    if always { " OVERRIDING SYSTEM VALUE" } else { "" }
}

fn conflict(operation: &Operation, columns: &[EncodedColumn]) -> String {
    let Operation::Upsert { key } = operation else {
        return String::new();
    };
    let target = quote_all(key.iter().map(String::as_str));
    let others: Vec<_> = columns
        .iter()
        .filter(|c| !key.contains(&c.name))
        .map(|c| format!("{0} = excluded.{0}", quote(&c.name)))
        .collect();
    if others.is_empty() {
        return format!(" ON CONFLICT ({target}) DO NOTHING");
    }
    format!(" ON CONFLICT ({target}) DO UPDATE SET {}", others.join(", "))
}

/// The key as the table compares it: parameters carry no collation of their own.
fn key_expressions(key: &[String], described: &Described) -> String {
    let expressions: Vec<_> = key
        .iter()
        .map(|name| {
            let at = described.table.columns.iter().position(|c| c.name == *name);
            match at
                .and_then(|at| described.columns.get(at))
                .and_then(|c| c.collation.as_deref())
            {
                Some(collation) => format!("{} COLLATE {collation}", quote(name)),
                None => quote(name),
            }
        })
        .collect();
    expressions.join(", ")
}

/// `wanted`, or `wanted` with underscores behind it, so that no column has it.
fn free_name(wanted: &str, columns: &[EncodedColumn]) -> String {
    let mut name = wanted.to_owned();
    while columns.iter().any(|c| c.name == name) {
        name.push('_');
    }
    name
}

/// Empties a table.
pub(super) fn truncate(name: &TableName) -> String {
    format!("TRUNCATE TABLE {}", quote_table(name))
}
