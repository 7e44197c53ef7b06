//! Cutting a table or a query into queries whose rows are disjoint and, together, everything exactly once.
//!
//! Boundaries are values of the columns of the primary key, found by walking down its index, or of another column, found
//! by sorting it once, in the order in which the server compares them. They are at like distances in rows, so that no
//! value of a key's first column, however frequent, makes a large part; and a value of another column, or null, that very
//! many rows have is cut by the primary key as well. Each part begins at its boundary and ends before the next; the first
//! has no beginning, the last no end, and nulls are apart, so whatever the boundaries are, every row is in one part.

use mysql_async::{Conn, Value, prelude::Queryable};
use tonnage_core::{
    error::{Error, Result},
    reader::ScanRequest,
};
use tonnage_sql::edges::{Boundary, edges};

use super::{
    catalog::Described,
    errors, once,
    reader::of_user,
    types::{Kind, quote, quote_table},
};

/// Splits for each reader: enough that none is left with a large one at the end.
pub(super) const SPLITS_PER_READER: usize = 8;
/// Rows of a split at least, when the target chooses.
const SPLIT_ROWS: u64 = 20_000;
/// Splits at most, should the server's estimate of a table's rows be far too low.
const SPLITS_MAX: usize = 1_024;
/// How much smaller splits are made where the estimate was far too high.
const STEP_CUT: u64 = 8;

/// The longest text or bytes that are taken for a boundary of a sorted column.
const BOUNDARY_BYTES_MAX: usize = 100;

/// Where rows come from.
pub(super) enum Source {
    /// A query of the user's own.
    Query(String),
    /// A table or a view.
    Table(Box<Described>),
}

impl Source {
    /// As what follows FROM.
    pub fn whole(&self) -> String {
        match self {
            Self::Query(text) => format!("(\n{text}\n) AS query"),
            Self::Table(described) => quote_table(&described.table.name),
        }
    }
}

/// What all splits have in common.
pub(super) struct Query<'a> {
    pub selected: &'a str,
    pub filter: Option<&'a str>,
}

impl Query<'_> {
    pub fn of(&self, from: &str, condition: Option<&str>) -> String {
        let mut sql = format!("SELECT {} FROM {from}", self.selected);
        // On lines of its own, as a comment may end it.
        let filter = self.filter.map(|filter| format!("(\n{filter}\n)"));
        let all: Vec<_> = condition.map(str::to_owned).into_iter().chain(filter).collect();
        if !all.is_empty() {
            sql.push_str(" WHERE ");
            sql.push_str(&all.join(" AND "));
        }
        sql
    }
}

/// Columns of a boundary at most: comparing with it takes a condition a column.
const COLUMNS_MAX: usize = 4;

/// The first columns of the primary key that rows can be cut by.
pub(super) fn key_columns(described: &Described) -> Vec<&str> {
    let ordered = |name: &&String| {
        let at = described
            .table
            .columns
            .iter()
            .position(|column| column.name == **name);
        let kind = at.and_then(|at| described.kinds.get(at)?.as_ref());
        kind.is_some_and(has_order)
    };
    let key = described.table.primary_key().map(|key| key.columns.as_slice());
    let columns = key.unwrap_or_default().iter().take_while(ordered);
    columns.take(COLUMNS_MAX).map(String::as_str).collect()
}

/// How rows compare with a boundary.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Side {
    Before,
    From,
    After,
}

/// The condition for rows that compare so with `boundary`, values of the first of the columns `names`: of the first column in
/// which they differ.
fn beside(names: &[String], boundary: &[String], side: Side) -> String {
    let names = &names[..boundary.len()];
    let at = |last: usize| {
        let equal = names.iter().zip(boundary).take(last);
        let mut all: Vec<String> = equal.map(|(name, value)| format!("{name} = {value}")).collect();
        let operator = match side {
            Side::Before => "<",
            Side::From if last + 1 == names.len() => ">=",
            Side::From | Side::After => ">",
        };
        all.push(format!("{} {operator} {}", names[last], boundary[last]));
        all.join(" AND ")
    };
    let ways: Vec<String> = (0..names.len()).map(at).collect();
    match ways.as_slice() {
        [only] => only.clone(),
        ways => format!("({})", ways.join(" OR ")),
    }
}

/// Whether values compare as they are sorted. Labels are sorted by their numbers and compared as text; geometries are
/// compared with nothing.
fn has_order(kind: &Kind) -> bool {
    !matches!(kind, Kind::Label(_) | Kind::Labels(_) | Kind::Geometry)
}

/// Cuts by the primary key's first columns.
pub(super) async fn by_key(
    conn: &mut Conn,
    request: &ScanRequest,
    described: &Described,
    query: &Query<'_>,
    columns: &[&str],
) -> Result<Vec<String>> {
    let table = quote_table(&described.table.name);
    let from = format!("{table} FORCE INDEX (PRIMARY)");
    let names: Vec<String> = columns.iter().map(|column| quote(column)).collect();
    let schema = described.table.name.schema.as_deref().unwrap_or_default();
    let rows: std::result::Result<Option<Option<u64>>, _> = once::first(
        conn,
        "SELECT table_rows FROM information_schema.tables WHERE table_schema = ? AND table_name = ?",
        (schema, &described.table.name.name),
    )
    .await;
    let rows = rows.map_err(errors::statement)?.flatten().unwrap_or(0);
    let parts = (request.readers * SPLITS_PER_READER) as u64;
    let mut step = (rows / parts).max(SPLIT_ROWS);
    let boundaries = loop {
        let mut found: Vec<Vec<String>> = Vec::new();
        let mut distance = step;
        while let Some(next) = after(conn, described, &from, columns, found.last(), distance).await? {
            found.push(next);
            if found.len().is_multiple_of(SPLITS_MAX / 2) {
                distance = distance.saturating_mul(2);
            }
        }
        // There may be far fewer rows than the server believes.
        if step == SPLIT_ROWS || found.len() as u64 >= parts / 2 {
            break found;
        }
        step = (step / STEP_CUT).max(SPLIT_ROWS);
    };
    Ok(ranges(&names, &boundaries)
        .iter()
        .map(|condition| query.of(&from, condition.as_deref()))
        .collect())
}

/// The key of the row that is `distance` rows behind the one whose key is `last`, or behind the first; none where there
/// are not so many.
async fn after(
    conn: &mut Conn,
    described: &Described,
    from: &str,
    columns: &[&str],
    last: Option<&Vec<String>>,
    distance: u64,
) -> Result<Option<Vec<String>>> {
    let names: Vec<String> = columns.iter().map(|column| quote(column)).collect();
    let list = names.join(", ");
    let behind = last.map_or_else(String::new, |last| {
        format!(" WHERE {}", beside(&names, last, Side::After))
    });
    let next = format!("SELECT {list} FROM {from}{behind} ORDER BY {list} LIMIT 1 OFFSET {distance}");
    let found: Option<mysql_async::Row> = once::first(conn, &next, ()).await.map_err(errors::statement)?;
    let Some(found) = found else {
        return Ok(None);
    };
    let values = found.unwrap().into_iter().zip(columns);
    let boundary = values.map(|(value, column)| literal(described, column, &value));
    boundary.collect::<Result<_>>().map(Some)
}

/// Cuts by the column that the user has named.
pub(super) async fn by_column(
    conn: &mut Conn,
    request: &ScanRequest,
    source: &Source,
    query: &Query<'_>,
    column: &str,
) -> Result<Vec<String>> {
    let whole = source.whole();
    let name = quote(column);
    let found = ordered_column(conn, &whole, column).await?;
    let value = match found.column_type() {
        mysql_async::consts::ColumnType::MYSQL_TYPE_BIT => format!("CAST({name} AS UNSIGNED)"),
        _ => name.clone(),
    };
    let parts = request.readers * SPLITS_PER_READER;
    let key: Vec<(&str, &Described)> = match source {
        Source::Table(described) => {
            let mut columns = key_columns(described);
            columns.retain(|known| *known != column);
            columns.into_iter().map(|column| (column, &**described)).collect()
        }
        Source::Query(_) => Vec::new(),
    };
    let names: Vec<String> = std::iter::once(name.clone())
        .chain(key.iter().map(|(column, _)| quote(column)))
        .collect();
    let list = names.join(", ");
    // Names that no column has by chance: an order by a column would mean the name.
    let (number, count) = ("`tonnage number`", "`tonnage count`");
    let outer: Vec<String> = (0..names.len())
        .map(|at| format!("`tonnage boundary {at}`"))
        .collect();
    let inner: Vec<String> = std::iter::once(&value)
        .chain(&names[1..])
        .zip(&outer)
        .map(|(value, outer)| format!("{value} AS {outer}"))
        .collect();
    let boundaries = format!(
        "SELECT `tonnage group`, {} FROM (SELECT {}, ROW_NUMBER() OVER (ORDER BY {list}) AS {number}, \
         DENSE_RANK() OVER (ORDER BY {name}) AS `tonnage group`, COUNT(*) OVER () AS {count} FROM {whole}) AS numbered \
         WHERE {number} % GREATEST({count} DIV {parts}, 1) = 0 AND {number} < {count} \
         ORDER BY {number} LIMIT {SPLITS_MAX}",
        outer.join(", "),
        inner.join(", ")
    );
    let rows: Vec<mysql_async::Row> = once::rows(conn, &boundaries, ())
        .await
        .map_err(errors::statement)?;
    let form = LiteralForm::of(&found);
    let boundaries = rows
        .into_iter()
        .filter_map(|row| boundary(row, form, &key).transpose());
    let edges = edges(boundaries.collect::<Result<_>>()?);
    let values = ranges(&names, &edges.values).into_iter();
    let values = values.map(|range| range.unwrap_or_else(|| format!("{name} IS NOT NULL")));
    let nulls = ranges(&names[1..], &edges.nulls)
        .into_iter()
        .map(|range| match range {
            Some(range) => format!("{name} IS NULL AND {range}"),
            None => format!("{name} IS NULL"),
        });
    Ok(values
        .chain(nulls)
        .map(|condition| query.of(&whole, Some(&condition)))
        .collect())
}

/// The column that the user has named, whose values have an order.
async fn ordered_column(conn: &mut Conn, whole: &str, column: &str) -> Result<mysql_async::Column> {
    use mysql_async::consts::{ColumnFlags, ColumnType};
    let probe = conn.prep(format!("SELECT {} FROM {whole}", quote(column))).await;
    let probe = probe.map_err(|failure| match errors::number(&failure) {
        Some(1054) => Error::config(format!("there is no column '{column}' to split by"))
            .hint("--split-by takes the exact name of a column")
            .caused_by(failure),
        _ => of_user(failure, "the query"),
    })?;
    let found = probe.columns().first().cloned();
    conn.close(probe).await.map_err(errors::statement)?;
    let labels = ColumnFlags::ENUM_FLAG | ColumnFlags::SET_FLAG;
    let is_ordered = |found: &mysql_async::Column| {
        let (ty, flags) = (found.column_type(), found.flags());
        !matches!(ty, ColumnType::MYSQL_TYPE_JSON | ColumnType::MYSQL_TYPE_GEOMETRY)
            && !flags.intersects(labels)
    };
    found.filter(is_ordered).ok_or_else(|| {
        Error::config(format!("column '{column}' has no order to split by"))
            .hint("split by a column whose values can be sorted, or leave --split-by out")
    })
}

/// A row of boundaries, whose value is written as `form` and is followed by those of the columns `key`. None where a value
/// is long: the server sorts by the beginnings of long values, and boundaries have to be in order.
fn boundary(
    row: mysql_async::Row,
    form: LiteralForm,
    key: &[(&str, &Described)],
) -> Result<Option<Boundary<String>>> {
    let mut values = row.unwrap().into_iter();
    let (Some(group), Some(value)) = (values.next(), values.next()) else {
        return Err(Error::bug("a boundary without its values"));
    };
    let others: Vec<Value> = values.collect();
    let is_long = |value: &Value| matches!(value, Value::Bytes(bytes) if bytes.len() > BOUNDARY_BYTES_MAX);
    if is_long(&value) || others.iter().any(is_long) {
        return Ok(None);
    }
    let keys = key.iter().zip(&others);
    Ok(Some(Boundary {
        group: mysql_async::from_value_opt(group)
            .map_err(|_| Error::bug("the number of a boundary's group is none"))?,
        value: (value != Value::NULL).then(|| written(&value, form)),
        key: keys
            .map(|((column, described), value)| literal(described, column, value))
            .collect::<Result<_>>()?,
    }))
}

/// The number of the collation that compares bytes.
pub(super) const BINARY: u16 = 63;

/// How the bytes of a value are written in SQL.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LiteralForm {
    /// As they are: they are a number's.
    Number,
    /// As bytes.
    Bytes,
    /// As text.
    Text,
}

impl LiteralForm {
    fn of(column: &mysql_async::Column) -> Self {
        use mysql_async::consts::ColumnType as Type;
        match column.column_type() {
            Type::MYSQL_TYPE_DECIMAL | Type::MYSQL_TYPE_NEWDECIMAL => Self::Number,
            _ if column.character_set() == BINARY => Self::Bytes,
            _ => Self::Text,
        }
    }
}

/// Conditions on the columns `names`, of which every row without nulls meets one: each begins at a boundary and ends
/// before the next. A boundary has values of the first columns. Without a boundary there is no condition.
fn ranges(names: &[String], boundaries: &[Vec<String>]) -> Vec<Option<String>> {
    let range = |at: usize| {
        let before = at.checked_sub(1).and_then(|at| boundaries.get(at));
        let from = before.map(|boundary| beside(names, boundary, Side::From));
        let to = boundaries
            .get(at)
            .map(|boundary| beside(names, boundary, Side::Before));
        let both: Vec<_> = from.into_iter().chain(to).collect();
        (!both.is_empty()).then(|| both.join(" AND "))
    };
    (0..=boundaries.len()).map(range).collect()
}

fn literal(described: &Described, column: &str, value: &Value) -> Result<String> {
    let at = described.table.columns.iter().position(|c| c.name == column);
    let kind = at.and_then(|at| described.kinds.get(at)?.as_ref());
    match (kind, value) {
        (None, _) => Err(Error::bug(format!(
            "rows are cut by '{column}', which is not known"
        ))),
        (Some(Kind::Integer { bits: true, .. }), Value::Bytes(bits)) => {
            let number = bits.iter().fold(0_u64, |all, byte| all << 8 | u64::from(*byte));
            Ok(number.to_string())
        }
        (Some(kind), value) => Ok(literal_of(kind, value)),
    }
}

/// A value of a column that takes `kind`, in SQL.
pub(super) fn literal_of(kind: &Kind, value: &Value) -> String {
    let form = match kind {
        Kind::Decimal { .. } => LiteralForm::Number,
        Kind::Binary(_) | Kind::Bytes(_) => LiteralForm::Bytes,
        _ => LiteralForm::Text,
    };
    written(value, form)
}

/// A value in SQL. Text takes part in comparisons by the column's collation.
fn written(value: &Value, form: LiteralForm) -> String {
    match value {
        Value::Bytes(bytes) if form == LiteralForm::Number => String::from_utf8_lossy(bytes).into_owned(),
        Value::Bytes(bytes) => {
            let digits: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
            match form {
                LiteralForm::Bytes => format!("x'{digits}'"),
                _ => format!("_utf8mb4 x'{digits}'"),
            }
        }
        // The double that it is.
        Value::Float(number) => format!("{:e}", f64::from(*number)),
        Value::Double(number) => format!("{number:e}"),
        other => other.as_sql(true),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_leave_nothing_out() {
        let texts = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
        let some = |conditions: &[&str]| {
            conditions
                .iter()
                .map(|c| Some((*c).to_owned()))
                .collect::<Vec<_>>()
        };
        let k = texts(&["`k`"]);
        assert_eq!(
            ranges(&k, &[texts(&["1"]), texts(&["5"])]),
            some(&["`k` < 1", "`k` >= 1 AND `k` < 5", "`k` >= 5"])
        );
        assert_eq!(ranges(&k, &[]), [None]);
        let both = texts(&["a", "b"]);
        assert_eq!(
            ranges(&both, &[texts(&["1", "2"]), texts(&["1", "7"])]),
            some(&[
                "(a < 1 OR a = 1 AND b < 2)",
                "(a > 1 OR a = 1 AND b >= 2) AND (a < 1 OR a = 1 AND b < 7)",
                "(a > 1 OR a = 1 AND b >= 7)",
            ])
        );
        assert_eq!(
            ranges(&both, &[texts(&["1"]), texts(&["1", "7"])]),
            some(&[
                "a < 1",
                "a >= 1 AND (a < 1 OR a = 1 AND b < 7)",
                "(a > 1 OR a = 1 AND b >= 7)",
            ])
        );
    }

    #[test]
    fn boundaries_are_written_exactly() {
        for (value, form, wanted) in [
            (Value::Int(-3), LiteralForm::Text, "-3"),
            (
                Value::Bytes(b"a'\\".to_vec()),
                LiteralForm::Text,
                "_utf8mb4 x'61275c'",
            ),
            (Value::Bytes(vec![0, 255]), LiteralForm::Bytes, "x'00ff'"),
            (Value::Bytes(b"-1.50".to_vec()), LiteralForm::Number, "-1.50"),
            (Value::Float(0.1), LiteralForm::Text, "1.0000000149011612e-1"),
            (
                Value::Date(2024, 2, 29, 0, 0, 0, 0),
                LiteralForm::Text,
                "'2024-02-29'",
            ),
        ] {
            assert_eq!(written(&value, form), wanted);
        }
    }
}
