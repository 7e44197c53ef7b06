//! What a table or a query holds, and how it is cut into splits.
//!
//! A table is cut by ranges of its row ids, along its row groups, which DuckDB finds without reading the others. A view, a
//! query and a few rows are one split.

use tonnage_core::{
    error::{Error, ErrorKind, Result},
    reader::{ReadColumn, Relation, ScanRequest, left_out, no_table, wanted},
    statement,
    table::TableName,
    types::ColumnType,
};

use super::{
    catalog,
    connection::Connection,
    decode::expression,
    errors::failed,
    sql::{DIALECT, name_of},
    types,
};

/// What is to be read, looked at.
pub(crate) struct Scanned {
    /// The full name of the table or view; none for a query.
    pub(crate) name: Option<TableName>,
    pub(crate) columns: Vec<ReadColumn>,
    /// The columns of the primary key, where all of them are read.
    pub(crate) key: Vec<String>,
    /// What gives the values of each.
    pub(crate) expressions: Vec<String>,
    /// A statement a split.
    pub(crate) splits: Vec<String>,
    pub(crate) notes: Vec<String>,
}

/// Rows of a row group.
const GROUP_ROWS: i64 = 122_880;
/// Splits for each reader at least, so that none is left with a large one at the end.
const SPLITS_PER_READER: i64 = 4;

struct Place {
    shown: String,
    /// The table's or view's; none for a query.
    name: Option<TableName>,
    from: String,
    /// Names and types.
    columns: Vec<(String, String)>,
    table: Option<tonnage_core::table::Table>,
}

impl Place {
    fn look(connection: &mut Connection, request: &ScanRequest) -> Result<Self> {
        let (name, from, table) = match &request.relation {
            Relation::Query(query) => (None, format!("(\n{}\n)", statement::query(query, DIALECT)?), None),
            Relation::Table(name) => {
                let Some(found) = catalog::find(connection, name)? else {
                    let names = catalog::table_names(connection)?;
                    return Err(no_table(name, &names));
                };
                let table = match found.is_view {
                    true => None,
                    false => Some(catalog::describe(connection, &found)?),
                };
                (Some(found.name.clone()), name_of(&found.name), table)
            }
        };
        // Of a query by itself: within another one, columns of one name get different ones.
        let columns = catalog::described(
            connection,
            &match request.relation {
                Relation::Query(_) => from.clone(),
                Relation::Table(_) => format!("SELECT * FROM {from}"),
            },
        );
        let columns = columns.map_err(|error| match request.relation {
            Relation::Query(_) => of_query(error, "the query"),
            Relation::Table(_) => error,
        })?;
        Ok(Self {
            shown: name
                .as_ref()
                .map_or_else(|| "the query".to_owned(), ToString::to_string),
            name,
            from,
            columns,
            table,
        })
    }
}

/// A refusal of what the user has written.
fn of_query(error: Error, what: &str) -> Error {
    let hint = error.hint_text().map(str::to_owned);
    let mut refused = Error::config(format!("{what} is refused: {error}"));
    if let Some(code) = error.code_text() {
        refused = refused.code(code);
    }
    match hint {
        Some(hint) => refused.hint(hint),
        None => refused,
    }
}

impl Scanned {
    /// Looks through `connection`, which has begun to read.
    pub(crate) fn look(connection: &mut Connection, request: &ScanRequest) -> Result<Self> {
        if let Some(filter) = &request.filter {
            statement::condition(filter, DIALECT)?;
        }
        if let Some(column) = &request.split_by {
            return Err(Error::config(format!(
                "--split-by {column}: DuckDB's tables are cut along their row groups, and queries are read as one"
            ))
            .hint("leave --split-by out"));
        }
        let place = Place::look(connection, request)?;
        let computed = |name: &str| {
            let column = place
                .table
                .as_ref()
                .and_then(|table| table.columns.iter().find(|c| c.name == name));
            column.is_some_and(|column| column.generated)
        };
        let names = place.columns.iter().map(|(name, _)| name.as_str());
        let all = (0..place.columns.len()).filter(|at| !computed(&place.columns[*at].0));
        let wanted = wanted(request, &place.shown, names, all)?;
        let mut columns = Vec::with_capacity(wanted.len());
        let mut expressions = Vec::with_capacity(wanted.len());
        let mut notes = Vec::new();
        for (at, as_text) in &wanted {
            let (name, declared) = &place.columns[*at];
            let known = types::of_name(declared).filter(|_| !as_text);
            if known.is_none() && !as_text {
                notes.push(format!("column '{name}' of type {declared} comes as text"));
            }
            let in_table = place
                .table
                .as_ref()
                .and_then(|table| table.columns.iter().find(|c| c.name == *name));
            let column = ReadColumn {
                name: name.clone(),
                ty: known.map_or(ColumnType::TEXT, |known| known.ty),
                element: None,
                declared: declared.clone(),
                nullable: in_table.is_none_or(|column| column.nullable),
            };
            expressions.push(expression(&column, *as_text));
            columns.push(column);
        }
        let left: Vec<_> = place
            .columns
            .iter()
            .map(|(name, _)| name.as_str())
            .filter(|name| computed(name))
            .collect();
        notes.extend(left_out(&left, request));
        let key = place.table.as_ref().and_then(|table| table.primary_key());
        let key = key.map(|key| key.columns.clone()).unwrap_or_default();
        let is_read = |name: &String| columns.iter().any(|column| column.name == *name);
        let list = expressions.join(", ");
        Ok(Self {
            splits: splits(connection, request, &place, &list)?,
            key: if key.iter().all(is_read) { key } else { Vec::new() },
            name: place.name,
            expressions,
            columns,
            notes,
        })
    }
}

fn splits(
    connection: &mut Connection,
    request: &ScanRequest,
    place: &Place,
    list: &str,
) -> Result<Vec<String>> {
    // On lines of its own, as a comment may end it.
    let filter = request.filter.as_ref().map(|filter| format!("(\n{filter}\n)"));
    let select = |range: Option<String>| {
        let conditions: Vec<_> = range.into_iter().chain(filter.clone()).collect();
        let condition = match conditions.is_empty() {
            true => String::new(),
            false => format!(" WHERE {}", conditions.join(" AND ")),
        };
        format!("SELECT {list} FROM {}{condition}", place.from)
    };
    let whole = match request.limit {
        Some(limit) => format!("{} LIMIT {limit}", select(None)),
        None => select(None),
    };
    // Finds a mistake in the condition before anything is written.
    catalog::described(connection, &whole).map_err(|error| match error.kind() {
        ErrorKind::Schema | ErrorKind::Refused if request.filter.is_some() => {
            of_query(error, "the condition")
        }
        _ => error,
    })?;
    if place.table.is_none() || request.limit.is_some() || request.readers < 2 {
        return Ok(vec![whole]);
    }
    let last = connection
        .query(&format!("SELECT max(rowid) FROM {}", place.from), None)
        .map_err(failed)?;
    let last = last.iter().find(|batch| batch.num_rows() > 0);
    let last = last
        .map(|batch| super::connection::numbers(batch, 0))
        .transpose()?;
    let Some(last) = last.and_then(|last| last.first().copied().flatten()) else {
        return Ok(vec![whole]);
    };
    let groups = last / GROUP_ROWS + 1;
    let readers = i64::try_from(request.readers).unwrap_or(i64::MAX);
    let parts = groups.min(readers.saturating_mul(SPLITS_PER_READER)).max(1);
    let rows = (groups + parts - 1) / parts * GROUP_ROWS;
    let mut splits = Vec::new();
    let mut from = 0;
    while from <= last {
        let range = match from + rows > last {
            true => format!("rowid >= {from}"),
            false => format!("rowid >= {from} AND rowid < {}", from + rows),
        };
        splits.push(select(Some(range)));
        from += rows;
    }
    Ok(splits)
}
