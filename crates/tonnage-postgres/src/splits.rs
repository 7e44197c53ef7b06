//! Cutting a table or a query into queries whose rows are disjoint and, together, everything exactly once.
//!
//! Plain tables are cut by ranges of pages. The last range has no end, as the table may have grown since its pages were
//! counted; a row has one place for as long as the snapshot lasts. Long values that are kept apart (TOAST) count where
//! their rows are. Partitioned and inherited tables are cut within each of their tables. By a column, boundaries are
//! values of the column itself, sampled, so that a skewed column makes ranges of like size; nulls are apart. A value, or
//! null, that very many rows have is cut by the primary key as well.

use tokio_postgres::Client;
use tonnage_core::{
    error::{Error, Result},
    reader::ScanRequest,
    table::TableName,
};
use tonnage_sql::edges::{Boundary, edges};

use super::{
    catalog::get,
    errors,
    reader::of_query,
    types::{quote, quote_table},
};

/// Where rows come from.
pub(super) enum Source {
    /// A query of the user's own.
    Query(String),
    /// A table or a view.
    Table {
        /// Its object id.
        oid: u32,
        /// Its name.
        name: TableName,
        /// `pg_class.relkind`.
        kind: String,
        /// Row security applies to this role.
        row_security: bool,
        /// The columns of its primary key.
        key: Vec<String>,
    },
}

/// The splits.
pub(super) struct Cut {
    /// One each.
    pub queries: Vec<String>,
    /// What a user should know.
    pub notes: Vec<String>,
}

/// Pages of a split at least: 8 MiB, which take some ten milliseconds to read.
const SPLIT_PAGES: i64 = 1_024;
/// Splits of a table at most.
const SPLITS_MAX: i64 = 4_096;
/// Splits by a column, for each reader: enough that none is left with a large one at the end.
pub(super) const SPLITS_PER_READER: usize = 8;
/// Pages that boundaries are sampled from, about.
const SAMPLE_PAGES: i64 = 2_000;
/// The first server that finds a range of pages without reading the others.
const PAGE_RANGES_VERSION: i32 = 140_000;

/// The tables that a table's rows are in, with their pages; and whether each may be read by this role.
const MEMBERS: &str = "\
    WITH RECURSIVE member (oid) AS ( \
        SELECT $1::oid UNION SELECT i.inhrelid FROM pg_catalog.pg_inherits i JOIN member m ON m.oid = i.inhparent) \
    SELECT n.nspname::text, c.relname::text, c.relkind::text, \
           CASE WHEN c.relkind IN ('r', 'm') THEN pg_catalog.pg_relation_size(c.oid) / \
                pg_catalog.current_setting('block_size')::int8 ELSE 0 END, \
           pg_catalog.has_table_privilege(c.oid, 'SELECT'), \
           CASE WHEN c.relkind IN ('r', 'm') AND c.reltoastrelid <> 0 \
                THEN pg_catalog.pg_relation_size(c.reltoastrelid) / pg_catalog.current_setting('block_size')::int8 \
                ELSE 0 END \
    FROM member JOIN pg_catalog.pg_class c ON c.oid = member.oid \
    JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace \
    WHERE c.relkind <> 'p' ORDER BY c.oid <> $1, 1, 2";

/// A table whose rows are in no other.
struct Member {
    name: TableName,
    pages: i64,
    /// The same with those of the values that are kept apart.
    all_pages: i64,
    /// Whether it can be cut by pages.
    is_plain: bool,
    readable: bool,
}

/// Cuts what `request` asks for; `selected` is the list of columns.
pub(super) async fn cut(
    client: &Client,
    request: &ScanRequest,
    source: &Source,
    selected: &str,
) -> Result<Cut> {
    let query = Query {
        selected,
        filter: request.filter.as_deref(),
    };
    let whole = match source {
        Source::Query(text) => format!("(\n{text}\n) AS query"),
        Source::Table { name, .. } => quote_table(name),
    };
    if let Some(column) = &request.split_by {
        if request.limit.is_some() {
            return Err(
                Error::config("a limit and a column to split by contradict each other")
                    .hint("leave one of them out: rows up to a limit are read by one connection"),
            );
        }
        return by_column(client, request, source, &query, &whole, column).await;
    }
    // A query by itself keeps the order that it asks for.
    let mut one = match source {
        Source::Query(text) if request.filter.is_none() && request.limit.is_none() && selected == "*" => {
            text.clone()
        }
        _ => query.of(&whole, &[]),
    };
    if let Some(limit) = request.limit {
        one.push_str(&format!(" LIMIT {limit}"));
    }
    // Also finds a mistake in the condition before anything is written.
    client.prepare(&one).await.map_err(|e| of_condition(e, request))?;
    let alone = |notes| {
        Ok(Cut {
            queries: vec![one.clone()],
            notes,
        })
    };
    let Source::Table {
        oid,
        name,
        kind,
        row_security,
        ..
    } = source
    else {
        return alone(Vec::new());
    };
    let can_be_cut =
        request.limit.is_none() && request.readers > 1 && matches!(kind.as_str(), "r" | "m" | "p");
    if !can_be_cut {
        return alone(Vec::new());
    }
    let row = client
        .query_one("SELECT current_setting('server_version_num')::int4", &[])
        .await;
    let version: i32 = get(&row.map_err(errors::statement)?, 0)?;
    let cuts = PageCuts::of_version(version);
    let members = members(client, *oid).await?;
    if members.len() > 1 && members.iter().any(|member| !member.readable) {
        let why = "one job: a partition may be read through its table only";
        return alone(vec![why.to_owned()]);
    }
    // Policies are the table's own; its partitions, read by themselves, may have others.
    if *row_security && members.len() != 1 {
        return alone(vec![
            "one job: row security is that of the whole table".to_owned(),
        ]);
    }
    Ok(by_pages(&members, name, &query, cuts))
}

/// Whether the server finds the rows of a range of pages without reading the whole table.
#[derive(Clone, Copy, PartialEq, Eq)]
enum PageCuts {
    Cheap,
    Costly,
}

impl PageCuts {
    fn of_version(version: i32) -> Self {
        match version < PAGE_RANGES_VERSION {
            true => Self::Costly,
            false => Self::Cheap,
        }
    }
}

/// Cuts the members of the table `name` by ranges of their pages.
fn by_pages(members: &[Member], name: &TableName, query: &Query<'_>, cuts: PageCuts) -> Cut {
    let all_pages: i64 = members.iter().map(|member| member.all_pages).sum();
    let split_pages = (all_pages / SPLITS_MAX + 1).max(SPLIT_PAGES);
    let mut notes = Vec::new();
    let mut queries = Vec::new();
    for member in members {
        let from = format!("ONLY {} AS {}", quote_table(&member.name), quote(&name.name));
        let from = match member.is_plain {
            true => from,
            false => format!("{} AS {}", quote_table(&member.name), quote(&name.name)),
        };
        if member.pages <= 1 || member.all_pages <= split_pages || !member.is_plain {
            queries.push(query.of(&from, &[]));
            continue;
        }
        // So many of the table's own that all of a split's are about as many as a split has.
        let step = (member.pages.saturating_mul(split_pages) / member.all_pages).max(1);
        if cuts == PageCuts::Costly {
            notes = vec![
                "one job a table: this server finds pages by reading all of them (14 and later do not); \
                          --split-by cuts by a column"
                    .to_owned(),
            ];
            queries.push(query.of(&from, &[]));
            continue;
        }
        for first in (0..member.pages).step_by(usize::try_from(step).unwrap_or(usize::MAX)) {
            let mut condition = format!("ctid >= '({first},0)'::pg_catalog.tid");
            if first + step < member.pages {
                condition.push_str(&format!(" AND ctid < '({},0)'::pg_catalog.tid", first + step));
            }
            queries.push(query.of(&from, &[condition]));
        }
    }
    Cut { queries, notes }
}

async fn members(client: &Client, oid: u32) -> Result<Vec<Member>> {
    let rows = client.query(MEMBERS, &[&oid]).await.map_err(errors::statement)?;
    rows.iter()
        .map(|row| {
            let kind: String = get(row, 2)?;
            let (pages, apart): (i64, i64) = (get(row, 3)?, get(row, 5)?);
            Ok(Member {
                name: TableName {
                    schema: Some(get(row, 0)?),
                    name: get(row, 1)?,
                },
                pages,
                all_pages: pages.saturating_add(apart),
                is_plain: kind == "r" || kind == "m",
                readable: get(row, 4)?,
            })
        })
        .collect()
}

/// What all splits have in common.
struct Query<'a> {
    selected: &'a str,
    filter: Option<&'a str>,
}

impl Query<'_> {
    fn of(&self, from: &str, conditions: &[String]) -> String {
        let mut sql = format!("SELECT {} FROM {from}", self.selected);
        // On lines of its own, as a comment may end it.
        let filter = self.filter.map(|filter| format!("(\n{filter}\n)"));
        let all: Vec<_> = conditions.iter().cloned().chain(filter).collect();
        if !all.is_empty() {
            sql.push_str(" WHERE ");
            sql.push_str(&all.join(" AND "));
        }
        sql
    }
}

async fn by_column(
    client: &Client,
    request: &ScanRequest,
    source: &Source,
    query: &Query<'_>,
    whole: &str,
    column: &str,
) -> Result<Cut> {
    let name = quote(column);
    let (sampled, key) = sample(client, source, whole, column).await?;
    let names: Vec<&str> = std::iter::once(&name).chain(&key).map(String::as_str).collect();
    let list = names.join(", ");
    let probe = format!("SELECT {list} FROM {whole}");
    let prepared = client.prepare(&probe).await.map_err(|e| {
        let is_missing = e.code().is_some_and(|code| code.code() == "42703");
        match is_missing {
            true => Error::config(format!("there is no column '{column}' to split by"))
                .hint("--split-by takes the exact name of a column")
                .caused_by(e),
            false => of_query(e, request),
        }
    })?;
    // Also finds a mistake in the condition before anything is written.
    let checked = query.of(whole, &[]);
    client
        .prepare(&checked)
        .await
        .map_err(|e| of_condition(e, request))?;
    let parts = request.readers.max(1) * SPLITS_PER_READER;
    // The server writes its own values as literals of their own type.
    let literals = prepared.columns().iter().enumerate().map(|(at, column)| {
        let (oid, modifier) = (column.type_().oid(), column.type_modifier());
        format!("pg_catalog.quote_literal(v{at}::pg_catalog.text) || '::' || pg_catalog.format_type({oid}, {modifier})")
    });
    let literals: Vec<_> = literals.collect();
    let values: Vec<_> = names
        .iter()
        .enumerate()
        .map(|(at, name)| format!("{name} AS v{at}"))
        .collect();
    let boundaries = format!(
        "SELECT grouped, {} FROM (SELECT {}, pg_catalog.row_number() OVER (ORDER BY {list}) AS numbered, \
         pg_catalog.dense_rank() OVER (ORDER BY {name}) AS grouped, pg_catalog.count(*) OVER () AS counted \
         FROM {sampled}) AS s \
         WHERE numbered % greatest(counted / {parts}, 1) = 0 AND numbered < counted ORDER BY numbered",
        literals.join(", "),
        values.join(", ")
    );
    let rows = client.query(&boundaries, &[]).await;
    let rows = rows.map_err(|e| {
        let has_no_order = e.code().is_some_and(|code| code.code() == "42883");
        match has_no_order {
            true => Error::config(format!("column '{column}' has no order to split by"))
                .hint("split by a column whose values can be sorted, or leave --split-by out")
                .caused_by(e),
            false => errors::statement(e).at(format!("--split-by {column}")),
        }
    })?;
    let boundary = |row: &tokio_postgres::Row| {
        Ok(Boundary {
            group: get(row, 0)?,
            value: get(row, 1)?,
            key: (2..=names.len()).map(|at| get(row, at)).collect::<Result<_>>()?,
        })
    };
    let edges = edges(rows.iter().map(boundary).collect::<Result<_>>()?);
    let mut conditions = ranges(&names, &edges.values);
    if let [all] = conditions.as_mut_slice() {
        *all = format!("{name} IS NOT NULL");
    }
    let nulls = ranges(&names[1..], &edges.nulls).into_iter();
    conditions.extend(nulls.map(|range| match range.as_str() {
        "" => format!("{name} IS NULL"),
        range => format!("{name} IS NULL AND {range}"),
    }));
    let mut notes = Vec::new();
    if matches!(source, Source::Query(_)) {
        notes.push(format!("the query runs {} times, once a split", conditions.len()));
    }
    Ok(Cut {
        queries: conditions
            .into_iter()
            .map(|condition| query.of(whole, &[condition]))
            .collect(),
        notes,
    })
}

/// What the boundaries are found in: `whole`, or a sample of it; and the columns of the key, by which rows of one value of
/// `column` are told apart.
async fn sample(
    client: &Client,
    source: &Source,
    whole: &str,
    column: &str,
) -> Result<(String, Vec<String>)> {
    let (mut sampled, mut key) = (whole.to_owned(), Vec::new());
    let Source::Table {
        oid,
        kind,
        key: primary,
        ..
    } = source
    else {
        return Ok((sampled, key));
    };
    if !matches!(kind.as_str(), "r" | "m" | "p") {
        return Ok((sampled, key));
    }
    let members = members(client, *oid).await?;
    // What inherits from a table may have nulls in its key, which are in no range.
    if (kind == "p" || members.len() == 1) && readable(client, *oid, primary).await? {
        let others = primary.iter().filter(|known| *known != column);
        key = others.map(|column| quote(column)).collect();
    }
    let pages: i64 = members.iter().map(|member| member.pages).sum();
    if pages > SAMPLE_PAGES {
        let percent = SAMPLE_PAGES as f64 * 100.0 / pages as f64;
        sampled.push_str(&format!(" TABLESAMPLE SYSTEM ({percent}) REPEATABLE (0)"));
    }
    Ok((sampled, key))
}

/// Whether this role may read these columns of a table.
async fn readable(client: &Client, oid: u32, columns: &[String]) -> Result<bool> {
    let row = client
        .query_one(
            "SELECT COALESCE(pg_catalog.bool_and(pg_catalog.has_column_privilege($1::oid, name, 'SELECT')), true) \
             FROM unnest($2::text[]) AS name",
            &[&oid, &columns],
        )
        .await;
    get(&row.map_err(errors::statement)?, 0)
}

/// Conditions on the columns `names`, of which every row without nulls meets one: each begins at an edge and ends before
/// the next. An edge has values of the first columns. Without an edge it is one that says nothing.
fn ranges(names: &[&str], edges: &[Vec<String>]) -> Vec<String> {
    let beside = |edge: &Vec<String>, operator: &str| match edge.as_slice() {
        [one] => format!("{} {operator} {one}", names[0]),
        several => format!(
            "({}) {operator} ({})",
            names[..several.len()].join(", "),
            several.join(", ")
        ),
    };
    let range = |at: usize| {
        let before = at.checked_sub(1).and_then(|at| edges.get(at));
        let from = before.map(|edge| beside(edge, ">="));
        let to = edges.get(at).map(|edge| beside(edge, "<"));
        from.into_iter().chain(to).collect::<Vec<_>>().join(" AND ")
    };
    (0..=edges.len()).map(range).collect()
}

/// The server's refusal of a query with the user's condition in it.
fn of_condition(error: tokio_postgres::Error, request: &ScanRequest) -> Error {
    match (&request.filter, error.as_db_error()) {
        (Some(filter), Some(_)) => errors::statement(error).at(format!("the condition ({filter})")),
        _ => of_query(error, request),
    }
}

#[cfg(test)]
mod tests {
    use super::ranges;

    #[test]
    fn ranges_leave_nothing_out() {
        let texts = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
        assert_eq!(ranges(&["a", "k"], &[]), [""]);
        assert_eq!(
            ranges(&["a", "k"], &[texts(&["1"]), texts(&["1", "7"]), texts(&["3"])]),
            [
                "a < 1",
                "a >= 1 AND (a, k) < (1, 7)",
                "(a, k) >= (1, 7) AND a < 3",
                "a >= 3"
            ]
        );
    }
}
