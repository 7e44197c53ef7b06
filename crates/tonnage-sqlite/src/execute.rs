//! Statements of the user's own.
//!
//! SQLite has no types for parameters. One that goes into a column as it is has the column's, so that no value is
//! rewritten by its affinity; one that is compared with a column has its type too. Any other is of the source's type
//! and is bound as it is.

use rusqlite::Connection;
use tonnage_core::{
    error::{Error, ErrorKind, Result},
    statement::{Dialect, Statement},
    table::{Column, Equality, Table},
    target::WriteRequest,
    types::ColumnType,
};

use super::{
    catalog,
    errors::{self, Doing},
    sql::parameter,
    types::Affinity,
};

pub(super) const DIALECT: Dialect = Dialect {
    dollars: false,
    brackets: true,
    backticks: true,
    hashes: false,
    backslashes: false,
    slashes: false,
    keeps_case: false,
    own_parameters: &['?', '@', '$'],
};

fn failed(failure: rusqlite::Error) -> Error {
    errors::error(failure, Doing::Else)
}

/// Prepares the statement; SQLite's refusal with the place in the user's text.
fn check(connection: &Connection, statement: &Statement) -> Result<()> {
    let Err(failure) = connection.prepare(&statement.render(parameter)) else {
        return Ok(());
    };
    let at = match &failure {
        rusqlite::Error::SqlInputError { offset, .. } => usize::try_from(*offset).ok(),
        _ => None,
    };
    Err(failed(failure).at(match at {
        Some(at) => format!("the statement, {}", statement.place(at, parameter)),
        None => "the statement".to_owned(),
    }))
}

/// A table whose columns are the parameters.
pub(super) fn describe(connection: &Connection, statement: &Statement) -> Result<Table> {
    check(connection, statement)?;
    let taking = taking(connection, statement)?;
    let name = &statement.table().name;
    let is_view = connection
        .prepare("SELECT 1 FROM pragma_table_list WHERE name = ?1 COLLATE NOCASE AND type = 'view'")
        .and_then(|mut view| view.exists([name]))
        .map_err(failed)?;
    if is_view {
        return Err(Error::schema(format!(
            "{name} is a view: SQLite does not tell what a statement did through its triggers"
        ))
        .hint("name the table behind it"));
    }
    let columns: Vec<Column> = statement
        .parameters()
        .iter()
        .enumerate()
        .map(|(index, name)| {
            let table = taking.as_ref();
            let taken = table.and_then(|table| {
                statement
                    .taken_by(index, table)
                    .or(statement.compared_with(index, table))
            });
            Column {
                name: name.clone(),
                ty: taken.map_or(Some(ColumnType::Any), |column| column.ty),
                declared: taken.map(|column| column.declared.clone()).unwrap_or_default(),
                nullable: true,
                has_default: false,
                generated: false,
                numbered: None,
                equality: taken.map_or(Equality::ServerOnly, |column| column.equality),
            }
        })
        .collect();
    let shape: Vec<_> = columns
        .iter()
        .map(|c| format!("{} {}", c.name, c.declared))
        .collect();
    Ok(statement.parameter_table(columns, &shape))
}

/// The statement's table, if its columns take parameters.
fn taking(connection: &Connection, statement: &Statement) -> Result<Option<Table>> {
    let schema = statement.table().schema.as_deref();
    let none = statement.assigned().is_empty() && statement.compared().is_empty();
    if none || schema.is_some_and(|schema| !schema.eq_ignore_ascii_case("main")) {
        return Ok(None);
    }
    match catalog::table(connection, statement.table()) {
        // A view's columns have no types of their own.
        Err(error) if error.kind() == ErrorKind::Schema => Ok(None),
        found => found,
    }
}

/// What a writer has to know of a statement.
pub(super) struct Prepared {
    /// Name, type and affinity of what takes each parameter.
    pub(super) columns: Vec<(String, ColumnType, Affinity)>,
    /// Whether an execution that fails may leave part of its work behind.
    pub(super) leaves_traces: bool,
}

/// Looks at the statement on the connection that will run it.
pub(super) fn prepare(
    connection: &Connection,
    statement: &Statement,
    plan: &WriteRequest,
) -> Result<Prepared> {
    let described = describe(connection, statement)?;
    if described.identity.shape != plan.table.identity.shape {
        return Err(Error::schema(
            "the statement's columns are declared otherwise than when the run began",
        ));
    }
    let taking = taking(connection, statement)?;
    let affinities = match &taking {
        Some(table) => catalog::behaviour(connection, &table.name.name, &[])?.map(|known| known.affinities),
        None => None,
    };
    let columns = plan.columns.iter().enumerate().map(|(index, column)| {
        let taken = taking.as_ref().and_then(|table| statement.taken_by(index, table));
        let known = taken.zip(affinities.as_ref()).and_then(|(taken, affinities)| {
            let found = affinities.iter().find(|(name, _)| *name == taken.name);
            found.map(|(_, affinity)| *affinity)
        });
        let affinity = known.unwrap_or(match column.ty {
            // A number to be reckoned with, where it is one that SQLite keeps.
            ColumnType::Decimal { .. } | ColumnType::Numeric => Affinity::Numeric,
            _ => Affinity::None,
        });
        (column.name.clone(), column.ty, affinity)
    });
    let triggers = connection
        .prepare("SELECT 1 FROM sqlite_schema WHERE type = 'trigger'")
        .and_then(|mut any| any.exists([]))
        .map_err(failed)?;
    Ok(Prepared {
        columns: columns.collect(),
        // OR FAIL keeps what the statement did before the row that failed.
        leaves_traces: triggers || statement.text().to_ascii_uppercase().contains("FAIL"),
    })
}
