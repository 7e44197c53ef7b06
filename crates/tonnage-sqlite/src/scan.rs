//! What a table or a query holds, and how it is cut into splits.
//!
//! Tables are cut by ranges of rowids. Rowids may be spread as they like: a range whose ends are probed is cut in its
//! middle, what is empty falls out, and the one that seems to have the most rows is cut next. So a few rows far apart cost
//! ranges of their own and take none from where the others are. By a column, boundaries are values at equal distances in
//! its order, and where very many rows have a value, or none, their rowids, so that skew makes no large split; nulls are
//! apart. A column without a declared type, as most of a query's are, is what all of its values are.

use rusqlite::{Connection, types::Value};
use tonnage_core::{
    error::{Error, ErrorKind, Result},
    reader::{ReadColumn, Relation, ScanRequest, left_out, no_table, wanted},
    statement,
    table::TableName,
    types::ColumnType,
};
use tonnage_sql::edges::{Boundary, edges};

use super::{
    catalog,
    errors::{self, Doing},
    execute::DIALECT,
    sql::quote,
    types::{self, Typing},
};

/// A part of what is read.
pub(super) struct Split {
    pub sql: String,
    pub parameters: Vec<Value>,
}

/// What is to be read, looked at.
pub(super) struct Scanned {
    /// The name of the table or view; none for a query.
    pub name: Option<TableName>,
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
/// Rows that are not worth another cut, and from which it is guessed how close others are.
const FEW_ROWS: i64 = 1_000;
/// How often the widest range is cut, rather than that with the most rows.
const WIDEST_EVERY: usize = 4;
/// Ranges at most for each part that is wanted, where rows are unevenly spread.
const RANGES_PER_PART: usize = 16;

fn failed(failure: rusqlite::Error) -> Error {
    errors::error(failure, Doing::Else)
}

/// Where rows come from, in SQL.
struct ScanSource {
    /// What messages call it.
    shown: String,
    /// The table's or view's; none for a query.
    name: Option<TableName>,
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

impl ScanSource {
    fn look(connection: &Connection, request: &ScanRequest) -> Result<Self> {
        if let Some(filter) = &request.filter {
            statement::condition(filter, DIALECT)?;
        }
        let (shown, from, readable) = match &request.relation {
            Relation::Query(query) => (
                "the query".to_owned(),
                format!("(\n{}\n)", statement::query(query, DIALECT)?),
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
            Relation::Query(query) => statement::query(query, DIALECT)?.to_owned(),
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
            name: readable
                .as_ref()
                .map(|readable| TableName::bare(readable.name.clone())),
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

/// By which values it is decided what a column without a declared type holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Classes {
    /// By all of them, as all are read.
    OfAll,
    /// By those of the first rows, as a few rows are read: the others are refused by name if they are of another class.
    OfFirst(u64),
}

impl Scanned {
    /// Looks through `connection`, which has begun to read.
    pub(super) fn look(connection: &Connection, request: &ScanRequest, classes: Classes) -> Result<Self> {
        let place = ScanSource::look(connection, request)?;
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

        let computed = place.columns.iter().filter(|column| column.2);
        let computed: Vec<_> = computed.map(|column| column.0.as_str()).collect();
        let mut notes: Vec<_> = left_out(&computed, request).into_iter().collect();
        let mut texts: Vec<bool> = wanted.iter().map(|(_, as_text)| *as_text).collect();
        let mut columns = Vec::with_capacity(wanted.len());
        let mut unknown = Vec::new();
        for (index, (at, as_text)) in wanted.iter().enumerate() {
            let (name, declared, _, nullable) = &place.columns[*at];
            let declared = declared.clone().unwrap_or_default();
            let ty = match types::column_type(&declared, Typing::Flexible) {
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
                element: None,
                name: name.clone(),
                ty,
                declared,
                nullable: *nullable,
            });
        }
        let looked_at = match classes {
            Classes::OfAll => whole.clone(),
            Classes::OfFirst(rows) => format!("SELECT * FROM (\n{whole}\n) LIMIT {rows}"),
        };
        let found = resolve(connection, &looked_at, &mut columns, &unknown)?;
        for (at, found) in unknown.iter().zip(found) {
            // Nothing is known of it, so anything may come.
            if !found && classes != Classes::OfAll {
                texts[*at] = true;
                notes.push(format!(
                    "column '{}' has no type, and no value among the first rows: it comes as text",
                    columns[*at].name
                ));
            }
        }
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
            name: place.name,
            columns,
            texts,
            key,
            naming,
            splits,
            notes,
        })
    }
}

/// Finds out what the columns at `unknown` hold: by all of their values, as any of them may be of another class. Says of
/// each whether there was any.
fn resolve(
    connection: &Connection,
    whole: &str,
    columns: &mut [ReadColumn],
    unknown: &[usize],
) -> Result<Vec<bool>> {
    if unknown.is_empty() {
        return Ok(Vec::new());
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
    Ok(found
        .chunks_exact(CLASSES.len())
        .map(|classes| classes.contains(&true))
        .collect())
}

fn cut(
    connection: &Connection,
    request: &ScanRequest,
    place: &ScanSource,
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
            statement::query(query, DIALECT)?.to_owned()
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
    place: &ScanSource,
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
    cut_rowids(connection, &place.from, rowid, parts)
}

/// A range of rowids.
#[derive(Debug, Clone, Copy)]
struct Range {
    first: i64,
    last: i64,
    /// How many rowids it has room for.
    wide: i128,
    /// About how many rows it has: as many as if they were as close to each other everywhere as at the closer end.
    rows: i128,
}

/// Cuts the rowids of the table `from` into about `parts` ranges of like many rows, and what is left between them.
///
/// How many rows a range has is guessed from its ends, so the closest rows are cut off from the others first; every
/// [`WIDEST_EVERY`]th cut goes through the widest range, whatever it seems to hold, and shows what its ends do not.
fn cut_rowids(connection: &Connection, from: &str, rowid: &str, parts: usize) -> Result<Vec<(i64, i64)>> {
    // Each goes down the tree once, and a few rows further.
    let within = format!("SELECT {rowid} FROM {from} WHERE {rowid} BETWEEN ?1 AND ?2 ORDER BY {rowid}");
    let sql = format!(
        "SELECT ({within} LIMIT 1), ({within} DESC LIMIT 1), ({within} LIMIT 1 OFFSET {FEW_ROWS}), \
         ({within} DESC LIMIT 1 OFFSET {FEW_ROWS})"
    );
    let probe = |first: i64, last: i64| -> Result<Option<Range>> {
        let mut statement = connection.prepare_cached(&sql).map_err(failed)?;
        type Ends = (Option<i64>, Option<i64>, Option<i64>, Option<i64>);
        let (first, last, front, back): Ends = statement
            .query_row([first, last], |row| {
                Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?))
            })
            .map_err(failed)?;
        let Some((first, last)) = first.zip(last) else {
            return Ok(None);
        };
        let wide = i128::from(last) - i128::from(first) + 1;
        let few = i128::from(FEW_ROWS);
        let rows = front.zip(back).map_or(few.min(wide), |(front, back)| {
            let closer = (i128::from(front) - i128::from(first)).min(i128::from(last) - i128::from(back));
            few * wide / closer.max(1)
        });
        Ok(Some(Range {
            first,
            last,
            wide,
            rows,
        }))
    };
    let is_large = |range: &Range| range.rows > i128::from(FEW_ROWS) && range.wide > SPLIT_ROWIDS;
    let ranges_max = (parts * RANGES_PER_PART).min(SPLITS_MAX);
    let mut ranges: Vec<Range> = probe(i64::MIN, i64::MAX)?.into_iter().collect();
    for cut in 1.. {
        let most = ranges.iter().map(|range| range.rows).max().unwrap_or(0);
        let all: i128 = ranges.iter().map(|range| range.rows).sum();
        let is_even = ranges.len() >= parts && 2 * most * parts as i128 <= 3 * all;
        let large = ranges.iter().enumerate().filter(|(_, range)| is_large(range));
        let next = match cut % WIDEST_EVERY {
            0 => large.max_by_key(|(_, range)| range.wide),
            _ => large.max_by_key(|(_, range)| range.rows),
        };
        let Some((at, _)) = next.filter(|_| !is_even && ranges.len() < ranges_max) else {
            break;
        };
        let Range {
            first, last, wide, ..
        } = ranges.swap_remove(at);
        let middle = (i128::from(first) + (wide - 1) / 2) as i64;
        ranges.extend(
            [probe(first, middle)?, probe(middle + 1, last)?]
                .into_iter()
                .flatten(),
        );
    }
    let mut ranges: Vec<_> = ranges.iter().map(|range| (range.first, range.last)).collect();
    ranges.sort_unstable();
    Ok(ranges)
}

fn by_column(
    connection: &Connection,
    request: &ScanRequest,
    place: &ScanSource,
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
    let count: i64 = connection
        .query_row(&place.select("count(*)", None), [], |row| row.get(0))
        .map_err(failed)?;
    let parts = (request.readers.max(1) * SPLITS_PER_READER) as i64;
    let step = (count / parts).max(1);
    let rowid = place.rowid.as_deref();
    let order = rowid.map_or_else(|| name.clone(), |rowid| format!("{name}, {rowid}"));
    let ordered = format!(
        "{name} AS k, {} AS r, dense_rank() OVER (ORDER BY {name}) AS g, row_number() OVER (ORDER BY {order}) - 1 AS n",
        rowid.unwrap_or("NULL")
    );
    let sql = format!(
        "SELECT g, k, r FROM ({}) WHERE n > 0 AND n % {step} = 0 ORDER BY n",
        place.select(&ordered, None)
    );
    let mut statement = connection.prepare(&sql).map_err(failed)?;
    let boundary = |row: &rusqlite::Row<'_>| {
        Ok(Boundary {
            group: row.get(0)?,
            value: row.get::<_, Option<Value>>(1)?,
            key: row.get::<_, Option<Value>>(2)?.into_iter().collect(),
        })
    };
    let boundaries: Vec<Boundary<Value>> = statement
        .query_map([], boundary)
        .and_then(Iterator::collect)
        .map_err(failed)?;
    let edges = edges(boundaries);
    let names: Vec<&str> = std::iter::once(name.as_str()).chain(rowid).collect();
    let split = |(conditions, parameters): (Vec<String>, Vec<Value>)| Split {
        sql: place.select(list, Some(&conditions.join(" AND "))),
        parameters,
    };
    let values = ranges(&names, &edges.values).map(|(mut conditions, parameters)| {
        if conditions.is_empty() {
            conditions.push(format!("{name} IS NOT NULL"));
        }
        split((conditions, parameters))
    });
    let nulls = ranges(&names[1..], &edges.nulls).map(|(mut conditions, parameters)| {
        conditions.push(format!("{name} IS NULL"));
        split((conditions, parameters))
    });
    Ok(values.chain(nulls).collect())
}

/// Conditions on the columns `names`, with their parameters, of which every row without nulls meets one: each begins at an
/// edge and ends before the next. An edge has values of the first columns. Without an edge there is no condition.
fn ranges(names: &[&str], edges: &[Vec<Value>]) -> impl Iterator<Item = (Vec<String>, Vec<Value>)> {
    (0..=edges.len()).map(move |at| {
        let from = at.checked_sub(1).and_then(|at| edges.get(at));
        let (mut conditions, mut parameters) = (Vec::new(), Vec::new());
        for (operator, edge) in [(">=", from), ("<", edges.get(at))] {
            let Some(edge) = edge else { continue };
            let first = parameters.len() + 1;
            let numbers: Vec<_> = (first..first + edge.len())
                .map(|number| format!("?{number}"))
                .collect();
            conditions.push(format!(
                "({}) {operator} ({})",
                names[..edge.len()].join(", "),
                numbers.join(", ")
            ));
            parameters.extend(edge.iter().cloned());
        }
        (conditions, parameters)
    })
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

#[cfg(test)]
mod tests {
    use super::*;

    /// The rows of each range of a table of these rowids.
    fn rows_of_ranges(rowids: &str, parts: usize) -> Vec<i64> {
        let connection = Connection::open_in_memory().unwrap();
        let sql = format!("CREATE TABLE t (k INTEGER PRIMARY KEY); INSERT INTO t {rowids}");
        connection.execute_batch(&sql).unwrap();
        let ranges = cut_rowids(&connection, "t", "k", parts).unwrap();
        assert!(ranges.is_sorted() && ranges.windows(2).all(|pair| pair[0].1 < pair[1].0));
        let rows = ranges.iter().map(|(first, last)| {
            let sql = format!("SELECT count(*) FROM t WHERE k BETWEEN {first} AND {last}");
            connection.query_row(&sql, [], |row| row.get(0)).unwrap()
        });
        let rows: Vec<i64> = rows.collect();
        let all = connection.query_row("SELECT count(*) FROM t", [], |row| row.get(0));
        assert_eq!(Ok(rows.iter().sum::<i64>()), all);
        rows
    }

    #[test]
    fn no_range_has_most_of_the_rows_however_they_are_spread() {
        const NUMBERS: &str =
            "WITH RECURSIVE g(n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM g WHERE n < 99999)";
        let dense = format!("{NUMBERS} SELECT n FROM g");
        // A few rows each at twice the distance of the one before, up to the end of what there is; or a tenth of them
        // spread over all of it, before or behind the others.
        let doubling = format!("{dense} UNION SELECT 1 << n % 62 FROM g");
        let sparse = format!("{dense} UNION SELECT 1000000 + n * 900000000000 FROM g WHERE n % 10 = 0");
        let ends = format!(
            "{dense} UNION SELECT 9223372036854775807 - n FROM g UNION SELECT n - 9223372036854775807 FROM g"
        );
        let before = format!("{dense} UNION SELECT -1000000 - n * 90000000000 FROM g WHERE n % 10 = 0");
        for rowids in [dense, doubling, sparse, before, ends] {
            let rows = rows_of_ranges(&rowids, 8);
            let all: i64 = rows.iter().sum();
            let most = rows.iter().max().unwrap();
            assert!(most * 4 <= all, "{most} of {all}: {rowids}");
        }
        assert_eq!(rows_of_ranges("SELECT 7 WHERE 0", 8), [0; 0]);
        assert_eq!(rows_of_ranges("SELECT 7", 8), [1]);
    }
}
