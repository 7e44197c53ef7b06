//! What a table or a query holds, and how it is cut into splits.
//!
//! Tables are cut by ranges of rowids. Rowids may be spread as they like: a range whose ends are probed is cut in its
//! middle, what is empty falls out, and the widest is cut next, so clusters get as many ranges as they are wide. By a
//! column, boundaries are values at equal distances in its order, so that skew makes no large split; nulls are a part of
//! their own. A column without a declared type, as most of a query's are, is what all of its values are.

use rusqlite::{Connection, types::Value};

use super::{
    catalog,
    errors::{self, Doing},
    sql::quote,
    types,
};
use crate::{
    error::{Error, ErrorKind, Result},
    reader::{ReadColumn, Relation, ScanRequest, bare_query, no_table, wanted},
    types::ColumnType,
};

/// A part of what is read.
pub(super) struct Split {
    pub sql: String,
    pub parameters: Vec<Value>,
}

/// What is to be read, looked at.
pub(super) struct Scanned {
    pub columns: Vec<ReadColumn>,
    /// For each column, whether it comes as text whatever it holds.
    pub texts: Vec<bool>,
    pub key: Vec<String>,
    /// Positions of the columns that name a row in messages.
    pub naming: Vec<usize>,
    pub splits: Vec<Split>,
    pub notes: Vec<String>,
}

/// Bytes of the file for each split, about.
const SPLIT_BYTES: i64 = 8 << 20;
/// Splits for each reader at least, so that none is left with a large one at the end.
const SPLITS_PER_READER: usize = 4;
/// Splits at most.
const SPLITS_MAX: usize = 4_096;
/// Rowids of a split at least.
const SPLIT_ROWIDS: i128 = 10_000;

fn failed(failure: rusqlite::Error) -> Error {
    errors::error(failure, Doing::Else)
}

/// Where rows come from, in SQL.
struct Place {
    /// What messages call it.
    shown: String,
    /// What follows FROM.
    from: String,
    /// The names of columns, their declared types, whether they are computed, and whether they take nulls.
    columns: Vec<(String, Option<String>, bool, bool)>,
    key: Vec<String>,
    /// The name of its rowid.
    rowid: Option<String>,
    filter: Option<String>,
    limit: Option<u64>,
}

impl Place {
    fn look(connection: &Connection, request: &ScanRequest) -> Result<Self> {
        let (shown, from, readable) = match &request.relation {
            Relation::Query(query) => (
                "the query".to_owned(),
                format!("(\n{}\n)", bare_query(query)?),
                None,
            ),
            Relation::Table(name) => match catalog::readable(connection, name)? {
                Some(readable) => (readable.name.clone(), quote(&readable.name), Some(readable)),
                None => {
                    let names = catalog::table_names(connection).map_err(failed)?;
                    return Err(no_table(name, &names));
                }
            },
        };
        let probed = match &request.relation {
            Relation::Query(query) => bare_query(query)?.to_owned(),
            Relation::Table(_) => format!("SELECT * FROM {from}"),
        };
        let statement = connection.prepare(&probed).map_err(|e| of_query(e, request))?;
        if !statement.readonly() {
            return Err(
                Error::config("the query would change the database").hint("write a query that only reads")
            );
        }
        if statement.parameter_count() > 0 {
            return Err(
                Error::config("the query has parameters, and there is nothing to fill them with")
                    .hint("write the values into the query"),
            );
        }
        let table = readable.as_ref().and_then(|readable| readable.table.as_ref());
        let columns = statement.columns().map(|column| {
            let known = table.and_then(|table| table.columns.iter().find(|c| c.name == column.name()));
            (
                column.name().to_owned(),
                column.decl_type().map(str::to_owned),
                known.is_some_and(|known| known.generated),
                known.is_none_or(|known| known.nullable),
            )
        });
        let columns: Vec<_> = columns.collect();
        let key = table.and_then(|table| table.primary_key());
        let is_taken = |name: &&str| columns.iter().any(|column| column.0.eq_ignore_ascii_case(name));
        let rowid = match &readable {
            Some(readable) if readable.has_rowid => ["rowid", "_rowid_", "oid"]
                .into_iter()
                .find(|name| !is_taken(name))
                .map(str::to_owned),
            _ => None,
        };
        Ok(Self {
            shown,
            from,
            key: key.map(|key| key.columns.clone()).unwrap_or_default(),
            rowid,
            filter: request.filter.clone(),
            limit: request.limit,
            columns,
        })
    }

    /// `SELECT list FROM ..`, with the user's condition and another one.
    fn select(&self, list: &str, condition: Option<&str>) -> String {
        let mut sql = format!("SELECT {list} FROM {}", self.from);
        // On lines of its own, as a comment may end it.
        let filter = self.filter.as_ref().map(|filter| format!("(\n{filter}\n)"));
        let all: Vec<_> = condition.map(str::to_owned).into_iter().chain(filter).collect();
        if !all.is_empty() {
            sql.push_str(" WHERE ");
            sql.push_str(&all.join(" AND "));
        }
        sql
    }
}

impl Scanned {
    /// Looks through `connection`, which has begun to read.
    pub(super) fn look(connection: &Connection, request: &ScanRequest) -> Result<Self> {
        let place = Place::look(connection, request)?;
        let names = place.columns.iter().map(|column| column.0.as_str());
        let all = (0..place.columns.len()).filter(|at| !place.columns[*at].2);
        let wanted = wanted(request, &place.shown, names, all)?;
        let list: Vec<_> = wanted
            .iter()
            .map(|(at, _)| quote(&place.columns[*at].0))
            .collect();
        let list = list.join(", ");
        let mut whole = place.select(&list, None);
        if let Some(limit) = place.limit {
            whole.push_str(&format!(" LIMIT {limit}"));
        }
        // Finds a mistake in the condition before anything is written.
        connection
            .prepare(&whole)
            .map_err(|failure| of_condition(failure, request))?;

        let mut notes = Vec::new();
        let computed: Vec<_> = place.columns.iter().filter(|column| column.2).collect();
        if request.columns.is_none() && !computed.is_empty() {
            let names: Vec<_> = computed.iter().map(|column| column.0.as_str()).collect();
            notes.push(format!(
                "{} is computed by the database and left out; --columns names what to take",
                names.join(", ")
            ));
        }
        let mut texts: Vec<bool> = wanted.iter().map(|(_, as_text)| *as_text).collect();
        let mut columns = Vec::with_capacity(wanted.len());
        let mut unknown = Vec::new();
        for (index, (at, as_text)) in wanted.iter().enumerate() {
            let (name, declared, _, nullable) = &place.columns[*at];
            let declared = declared.clone().unwrap_or_default();
            let ty = match types::column_type(&declared, false) {
                _ if *as_text => ColumnType::TEXT,
                Some(ColumnType::Any) => {
                    unknown.push(index);
                    ColumnType::TEXT
                }
                Some(ty) => ty,
                None => {
                    texts[index] = true;
                    notes.push(format!("column '{name}' of type {declared} comes as text"));
                    ColumnType::TEXT
                }
            };
            columns.push(ReadColumn {
                name: name.clone(),
                ty,
                declared,
                nullable: *nullable,
            });
        }
        resolve(connection, &whole, &mut columns, &unknown)?;
        let is_read = |name: &String| columns.iter().any(|column| column.name == *name);
        let key = if place.key.iter().all(is_read) {
            place.key.clone()
        } else {
            Vec::new()
        };
        let at = |name: &String| columns.iter().position(|column| column.name == *name);
        let mut naming: Vec<_> = key.iter().filter_map(at).collect();
        if naming.is_empty() {
            naming.push(0);
        }
        let splits = cut(connection, request, &place, &list, whole)?;
        if request.split_by.is_some() && matches!(request.relation, Relation::Query(_)) {
            notes.push(format!("the query runs {} times, once a split", splits.len()));
        }
        Ok(Self {
            columns,
            texts,
            key,
            naming,
            splits,
            notes,
        })
    }
}

/// Finds out what the columns at `unknown` hold: by all of their values, as any of them may be of another class.
fn resolve(
    connection: &Connection,
    whole: &str,
    columns: &mut [ReadColumn],
    unknown: &[usize],
) -> Result<()> {
    if unknown.is_empty() {
        return Ok(());
    }
    const CLASSES: [&str; 4] = ["integer", "real", "text", "blob"];
    let has = |at: &usize| {
        let name = quote(&columns[*at].name);
        CLASSES
            .map(|class| format!("coalesce(max(typeof({name}) = '{class}'), 0)"))
            .join(", ")
    };
    let list: Vec<_> = unknown.iter().map(has).collect();
    let sql = format!("SELECT {} FROM (\n{whole}\n)", list.join(", "));
    let found: Vec<bool> = connection
        .query_row(&sql, [], |row| {
            (0..unknown.len() * CLASSES.len()).map(|at| row.get(at)).collect()
        })
        .map_err(failed)?;
    for (at, classes) in unknown.iter().zip(found.chunks_exact(CLASSES.len())) {
        columns[*at].ty = match classes {
            [false, false, _, false] => ColumnType::TEXT,
            [true, false, false, false] => ColumnType::Int64,
            [false, true, false, false] => ColumnType::Float64,
            [true, true, false, false] => ColumnType::Numeric,
            [false, false, false, true] => ColumnType::Bytes,
            _ => {
                let names: Vec<_> = CLASSES.iter().zip(classes).filter(|(_, has)| **has).collect();
                let names: Vec<_> = names
                    .into_iter()
                    .map(|(class, _)| format!("{class} values"))
                    .collect();
                let name = &columns[*at].name;
                return Err(
                    Error::schema(format!("column '{name}' holds {}", names.join(" and ")))
                        .hint(format!("--text {name} gives them all as text")),
                );
            }
        };
    }
    Ok(())
}

fn cut(
    connection: &Connection,
    request: &ScanRequest,
    place: &Place,
    list: &str,
    whole: String,
) -> Result<Vec<Split>> {
    if let Some(column) = &request.split_by {
        if request.limit.is_some() {
            return Err(
                Error::config("a limit and a column to split by contradict each other")
                    .hint("leave one of them out: rows up to a limit are read by one connection"),
            );
        }
        return by_column(connection, request, place, list, column);
    }
    // A query by itself keeps the order that it asks for.
    let alone = match &request.relation {
        Relation::Query(query)
            if place.filter.is_none() && request.columns.is_none() && place.limit.is_none() =>
        {
            bare_query(query)?.to_owned()
        }
        _ => whole,
    };
    let one = vec![Split {
        sql: alone,
        parameters: Vec::new(),
    }];
    let Some(rowid) = place
        .rowid
        .as_ref()
        .filter(|_| request.readers > 1 && place.limit.is_none())
    else {
        return Ok(one);
    };
    let ranges = rowid_ranges(connection, request, place, rowid)?;
    if ranges.len() < 2 {
        return Ok(one);
    }
    let split = |(first, last): (i64, i64)| Split {
        sql: place.select(list, Some(&format!("{rowid} BETWEEN {first} AND {last}"))),
        parameters: Vec::new(),
    };
    Ok(ranges.into_iter().map(split).collect())
}

/// Ranges of rowids, both ends taken and the first one lowest, that hold every row.
fn rowid_ranges(
    connection: &Connection,
    request: &ScanRequest,
    place: &Place,
    rowid: &str,
) -> Result<Vec<(i64, i64)>> {
    let file_bytes: i64 = connection
        .query_row(
            "SELECT page_count * page_size FROM pragma_page_count, pragma_page_size",
            [],
            |row| row.get(0),
        )
        .map_err(failed)?;
    let by_size = usize::try_from(file_bytes / SPLIT_BYTES).unwrap_or(SPLITS_MAX);
    let parts = by_size.max(request.readers * SPLITS_PER_READER).min(SPLITS_MAX);
    let from = &place.from;
    let ends = |first: i64, last: i64| -> Result<Option<(i64, i64)>> {
        // Two queries within one: each goes down the tree once.
        let sql = format!(
            "SELECT (SELECT min({rowid}) FROM {from} WHERE {rowid} BETWEEN ?1 AND ?2), \
             (SELECT max({rowid}) FROM {from} WHERE {rowid} BETWEEN ?1 AND ?2)"
        );
        let mut statement = connection.prepare_cached(&sql).map_err(failed)?;
        let found: (Option<i64>, Option<i64>) = statement
            .query_row([first, last], |row| Ok((row.get(0)?, row.get(1)?)))
            .map_err(failed)?;
        Ok(found.0.zip(found.1))
    };
    let width = |range: &(i64, i64)| i128::from(range.1) - i128::from(range.0) + 1;
    let mut ranges: Vec<(i64, i64)> = ends(i64::MIN, i64::MAX)?.into_iter().collect();
    let mut heap: std::collections::BinaryHeap<(i128, (i64, i64))> =
        ranges.drain(..).map(|range| (width(&range), range)).collect();
    while heap.len() < parts {
        match heap.pop() {
            Some((wide, (first, last))) if wide > SPLIT_ROWIDS => {
                let middle = (i128::from(first) + (wide - 1) / 2) as i64;
                let halves = [ends(first, middle)?, ends(middle + 1, last)?];
                heap.extend(halves.into_iter().flatten().map(|range| (width(&range), range)));
            }
            narrow => {
                heap.extend(narrow);
                break;
            }
        }
    }
    let mut ranges: Vec<_> = heap.into_iter().map(|(_, range)| range).collect();
    ranges.sort_unstable();
    Ok(ranges)
}

fn by_column(
    connection: &Connection,
    request: &ScanRequest,
    place: &Place,
    list: &str,
    column: &str,
) -> Result<Vec<Split>> {
    if !place.columns.iter().any(|known| known.0 == column) {
        return Err(
            Error::config(format!("there is no column '{column}' to split by"))
                .hint("--split-by takes the exact name of a column"),
        );
    }
    let name = quote(column);
    let some = format!("{name} IS NOT NULL");
    let count: i64 = connection
        .query_row(&place.select("count(*)", Some(&some)), [], |row| row.get(0))
        .map_err(failed)?;
    let parts = (request.readers.max(1) * SPLITS_PER_READER) as i64;
    let step = (count / parts).max(1);
    let ordered = format!("{name} AS k, row_number() OVER (ORDER BY {name}) - 1 AS n");
    let sql = format!(
        "SELECT DISTINCT k FROM ({}) WHERE n > 0 AND n % {step} = 0 ORDER BY k",
        place.select(&ordered, Some(&some))
    );
    let mut statement = connection.prepare(&sql).map_err(failed)?;
    let boundaries: Vec<Value> = statement
        .query_map([], |row| row.get(0))
        .and_then(Iterator::collect)
        .map_err(failed)?;
    let mut splits = Vec::with_capacity(boundaries.len() + 2);
    for at in 0..=boundaries.len() {
        let from = at.checked_sub(1).and_then(|at| boundaries.get(at));
        let to = boundaries.get(at);
        let mut conditions = Vec::new();
        let mut parameters = Vec::new();
        for (operator, value) in [(">=", from), ("<", to)] {
            if let Some(value) = value {
                parameters.push(value.clone());
                conditions.push(format!("{name} {operator} ?{}", parameters.len()));
            }
        }
        if conditions.is_empty() {
            conditions.push(some.clone());
        }
        splits.push(Split {
            sql: place.select(list, Some(&conditions.join(" AND "))),
            parameters,
        });
    }
    splits.push(Split {
        sql: place.select(list, Some(&format!("{name} IS NULL"))),
        parameters: Vec::new(),
    });
    Ok(splits)
}

/// SQLite's refusal of SQL that the user has written.
fn of_query(failure: rusqlite::Error, request: &ScanRequest) -> Error {
    let several = matches!(failure, rusqlite::Error::MultipleStatement);
    let error = match several {
        true => Error::config("there is more than one statement").hint("write a single query"),
        false => failed(failure),
    };
    match &request.relation {
        Relation::Query(_) => error.at("the query"),
        Relation::Table(_) => error,
    }
}

fn of_condition(failure: rusqlite::Error, request: &ScanRequest) -> Error {
    let error = of_query(failure, request);
    match &request.filter {
        Some(filter) if error.kind() == ErrorKind::Schema => error.at(format!("the condition ({filter})")),
        _ => error,
    }
}
