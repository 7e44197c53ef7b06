//! Rows that DuckDB would refuse, found before they are applied.
//!
//! A statement that fails undoes its transaction, and DuckDB has no savepoints. So once a write has failed its rows are looked
//! at by queries: casts that fail, conditions that are false, keys that are there. What a query finds costs nothing but the
//! row. Whatever else refuses rows (a foreign key, say) is found by halves, in transactions of their own.
//!
//! Where a row is bad and its key is there already, it is bad: an `ignore` is always looked at first where the table has
//! conditions, as ON CONFLICT DO NOTHING would pass over it.

use tonnage_core::{
    error::{Error, ErrorKind, Result},
    operation::Operation,
    reject::sqlstate,
    target::Refused,
};

use super::{
    catalog::{self, Constraint, Described, Found},
    connection::{Connection, numbers},
    errors::{Doing, error},
    sql::{Change, PLACE, name_of, quote, value},
};

/// A key that is there already.
pub(crate) const KEY_EXISTS: &str = "23505";
/// A condition that a row does not meet.
const CONDITION: &str = "23514";

/// What is wrong with a row of which a condition holds.
#[derive(Debug, Clone)]
struct Fault {
    condition: String,
    code: &'static str,
    message: String,
    column: Option<String>,
}

/// What is looked at.
#[derive(Debug, Clone)]
pub(crate) struct Checks {
    /// The columns of a row as the table would have them, behind those of the relation.
    row: String,
    faults: Vec<Fault>,
    /// Of an insert: the unique keys, each by the names of its columns.
    keys: Vec<Vec<String>>,
    /// Whether nothing else can refuse a row, and what refuses one does not hang on what becomes of others.
    pub(crate) complete: bool,
    /// Whether a row is looked at before its key is looked for.
    pub(crate) always: bool,
}

/// A default that is the same for all rows.
fn is_constant(default: &str) -> bool {
    !default.contains('(') || default.starts_with("CAST('")
}

impl Checks {
    /// What is to be looked at before `change`.
    pub(crate) fn read(connection: &mut Connection, found: &Found, change: &Change) -> Result<Self> {
        let columns = catalog::columns(connection, found)?;
        let constraints = catalog::constraints(connection, &found.name)?;
        let mut checks = Self {
            row: row_of(change, &columns),
            faults: casts(change),
            keys: Vec::new(),
            complete: !catalog::has_unique_index(connection, &found.name)?,
            always: false,
        };
        let written = |name: &String| change.columns.iter().any(|column| column.name == *name);
        let known = |name: &String| {
            let column = columns.iter().find(|described| described.column.name == *name);
            let is_known = |described: &Described| {
                !described.column.generated && described.default.as_deref().is_none_or(is_constant)
            };
            written(name)
                || (!matches!(change.operation, Operation::Update { .. }) && column.is_some_and(is_known))
        };
        for constraint in constraints {
            let all_known = constraint.columns.iter().all(known);
            match (constraint.kind.as_str(), &change.operation) {
                ("FOREIGN KEY", Operation::Delete { .. }) | ("CHECK", Operation::Delete { .. }) => {}
                ("CHECK", Operation::Ignore { .. }) if !all_known => {
                    return Err(not_known(change, &constraint));
                }
                ("CHECK", _) if all_known => checks.faults.push(condition(change, &constraint)),
                ("PRIMARY KEY" | "UNIQUE", Operation::Insert) if all_known => {
                    checks.keys.push(constraint.columns)
                }
                ("PRIMARY KEY" | "UNIQUE", operation) if is_key(operation, &constraint) => {}
                ("NOT NULL", _) => {}
                _ => checks.complete = false,
            }
        }
        checks.always = matches!(change.operation, Operation::Ignore { .. }) && !checks.faults.is_empty();
        // Which of several rows is bad by one key may hang on what another key makes of them.
        checks.complete &= checks.keys.len() < 2 && !is_referenced(connection, found, change)?;
        Ok(checks)
    }

    /// The bad rows of `relation`, in their order; where `first` is set, no more than is needed to know the first one.
    pub(crate) fn bad(
        &self,
        connection: &mut Connection,
        change: &Change,
        relation: &str,
    ) -> Result<Vec<Refused>> {
        let mut bad = Vec::new();
        let which = self
            .faults
            .iter()
            .enumerate()
            .map(|(at, fault)| format!("WHEN {} THEN {at}", fault.condition));
        let which = which.collect::<Vec<_>>().join(" ");
        let why = match which.is_empty() {
            true => "NULL".to_owned(),
            false => format!("CASE {which} END"),
        };
        let row = &self.row;
        let looked_at = format!(
            "(SELECT *, CAST({why} AS BIGINT) AS tonnage_why FROM (SELECT tonnage_s.*, {row} FROM {relation} AS tonnage_s) \
             AS tonnage_s)"
        );
        if !which.is_empty() {
            let query = format!(
                "SELECT CAST({PLACE} AS BIGINT), tonnage_why FROM {looked_at} WHERE tonnage_why IS NOT NULL"
            );
            for (place, why) in pairs(connection, &query)? {
                let fault = self
                    .faults
                    .get(why)
                    .ok_or_else(|| Error::bug("a fault that nobody asked for"))?;
                bad.push(refused(place, fault.code, &fault.message, fault.column.clone()));
            }
        }
        for key in &self.keys {
            let columns: Vec<_> = key
                .iter()
                .map(|name| format!("tonnage_s.{}", quote(name)))
                .collect();
            let equal = key
                .iter()
                .map(|name| format!("tonnage_t.{0} = tonnage_s.{0}", quote(name)));
            let (columns, equal) = (columns.join(", "), equal.collect::<Vec<_>>().join(" AND "));
            let given = key
                .iter()
                .map(|name| format!("tonnage_s.{} IS NOT NULL", quote(name)));
            let query = format!(
                "SELECT CAST({PLACE} AS BIGINT), 0::BIGINT FROM (SELECT *, row_number() OVER (PARTITION BY {columns} ORDER BY \
                 {PLACE}) AS tonnage_r FROM {looked_at} AS tonnage_s WHERE tonnage_why IS NULL AND {}) AS tonnage_s \
                 WHERE tonnage_r > 1 OR EXISTS (SELECT 1 FROM {} AS tonnage_t WHERE {equal})",
                given.collect::<Vec<_>>().join(" AND "),
                name_of(&change.table),
            );
            let message = format!("a row with this key ({}) is there already", key.join(", "));
            let column = (key.len() == 1).then(|| key[0].clone());
            for (place, _) in pairs(connection, &query)? {
                bad.push(refused(place, KEY_EXISTS, &message, column.clone()));
            }
        }
        bad.sort_by_key(|refused| refused.row);
        bad.dedup_by_key(|refused| refused.row);
        Ok(bad)
    }
}

fn refused(row: usize, code: &str, message: &str, column: Option<String>) -> Refused {
    Refused {
        row,
        error: Error::new(ErrorKind::Rejected, message).code(code),
        column,
    }
}

/// A row as the table would have it, in the table's names.
fn row_of(change: &Change, columns: &[Described]) -> String {
    let each = columns
        .iter()
        .filter(|described| !described.column.generated)
        .map(|described| {
            let name = &described.column.name;
            let at = change.columns.iter().position(|column| column.name == *name);
            let value = match (at, &described.default) {
                (Some(at), _) => change.columns[at].try_cast(at),
                (None, Some(default)) if is_constant(default) => {
                    format!("CAST({default} AS {})", described.column.declared)
                }
                (None, _) => format!("CAST(NULL AS {})", described.column.declared),
            };
            format!("{value} AS {}", quote(name))
        });
    each.collect::<Vec<_>>().join(", ")
}

/// Values that have none in the type of their column.
fn casts(change: &Change) -> Vec<Fault> {
    let columns = change
        .columns
        .iter()
        .enumerate()
        .filter(|(_, column)| !column.as_it_is);
    let each = columns.map(|(at, column)| Fault {
        condition: format!("{0} IS NOT NULL AND {1} IS NULL", value(at), column.try_cast(at)),
        code: sqlstate::INVALID_TEXT,
        message: format!(
            "column '{}' of type {} has no such value",
            column.name, column.declared
        ),
        column: Some(column.name.clone()),
    });
    each.collect()
}

fn condition(change: &Change, constraint: &Constraint) -> Fault {
    let mut condition = format!("NOT coalesce(CAST(({}) AS BOOLEAN), true)", constraint.expression);
    if let Operation::Update { .. } = change.operation {
        // A row that is not there is left out.
        condition = format!(
            "{condition} AND EXISTS (SELECT 1 FROM {} WHERE {})",
            name_of(&change.table),
            change.is_row()
        );
    }
    Fault {
        condition,
        code: CONDITION,
        message: format!("the row does not meet CHECK {}", constraint.expression),
        column: match constraint.columns.as_slice() {
            [only] => Some(only.clone()),
            _ => None,
        },
    }
}

fn not_known(change: &Change, constraint: &Constraint) -> Error {
    Error::schema(format!(
        "--mode ignore cannot tell bad rows of {} from those that are there: CHECK {} rests on a column that is not loaded \
         and has a default that is computed",
        change.table, constraint.expression
    ))
    .hint("load that column too, or use --mode insert or upsert")
}

/// Whether the constraint is the key that the operation goes by.
fn is_key(operation: &Operation, constraint: &Constraint) -> bool {
    let key = operation.key();
    let all = key.iter().all(|name| constraint.columns.contains(name));
    match operation {
        Operation::Delete { .. } => true,
        _ => all && key.len() == constraint.columns.len(),
    }
}

/// Whether another table's rows may keep a row from being deleted or changed.
fn is_referenced(connection: &mut Connection, found: &Found, change: &Change) -> Result<bool> {
    let (Operation::Delete { .. } | Operation::Update { .. } | Operation::Upsert { .. }) = change.operation
    else {
        return Ok(false);
    };
    let query = format!(
        "SELECT CAST(count(*) AS BIGINT) FROM duckdb_constraints() WHERE database_name = current_database() \
         AND referenced_table = {}",
        super::sql::text_literal(&found.name.name)
    );
    Ok(catalog::count(connection, &query)? > 0)
}

/// Places of rows, and a number of each.
fn pairs(connection: &mut Connection, query: &str) -> Result<Vec<(usize, usize)>> {
    let answer = connection
        .query(query, None)
        .map_err(|failure| error(failure, Doing::Rows))?;
    let mut pairs = Vec::new();
    for batch in &answer {
        let (places, others) = (numbers(batch, 0)?, numbers(batch, 1)?);
        for (place, other) in places.into_iter().zip(others) {
            let index = |number: Option<i64>| number.and_then(|number| usize::try_from(number).ok());
            let pair = index(place).zip(index(other));
            pairs.push(pair.ok_or_else(|| Error::bug("a place of no row"))?);
        }
    }
    Ok(pairs)
}

impl Checks {
    /// Of a statement of the user's, of which nothing is known.
    pub(crate) fn none() -> Self {
        Self {
            row: String::new(),
            faults: Vec::new(),
            keys: Vec::new(),
            complete: false,
            always: false,
        }
    }
}
