//! Tables as the engine sees them, in any database.

use std::{collections::HashMap, fmt, str::FromStr};

use serde::{Deserialize, Serialize};

use crate::{
    error::{Error, Result},
    types::ColumnType,
};

/// A table's name: `t`, `schema.t`, `"odd.name"`, `s."T"`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct TableName {
    /// The schema, where one was given or found.
    pub schema: Option<String>,
    /// The table.
    pub name: String,
}

impl TableName {
    /// A name without a schema.
    pub fn bare(name: impl Into<String>) -> Self {
        Self {
            schema: None,
            name: name.into(),
        }
    }

    /// As text that is read back as the same name, whatever is in it: a part is quoted where it has to be.
    pub fn quoted(&self) -> String {
        let part = |text: &str| match text.chars().all(|c| c.is_alphanumeric() || c == '_') {
            true => text.to_owned(),
            false => format!("\"{}\"", text.replace('"', "\"\"")),
        };
        match &self.schema {
            Some(schema) => format!("{}.{}", part(schema), part(&self.name)),
            None => part(&self.name),
        }
    }
}

impl fmt::Display for TableName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(schema) = &self.schema {
            write!(f, "{schema}.")?;
        }
        f.write_str(&self.name)
    }
}

impl FromStr for TableName {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let bad = |why: &str| {
            Error::config(format!("'{text}' is not a table name: {why}"))
                .hint("write it as table, schema.table or \"schema\".\"odd.name\"")
        };
        let mut parts = vec![String::new()];
        let mut chars = text.chars().peekable();
        let mut quoted = false;
        while let Some(c) = chars.next() {
            let part = parts.last_mut().expect("there is always a last part");
            match c {
                '"' if quoted && chars.peek() == Some(&'"') => {
                    chars.next();
                    part.push('"');
                }
                '"' => quoted = !quoted,
                '.' if !quoted => parts.push(String::new()),
                c => part.push(c),
            }
        }
        if quoted {
            return Err(bad("a quote is not closed"));
        }
        if parts.iter().any(String::is_empty) {
            return Err(bad("a part is empty"));
        }
        match parts.as_mut_slice() {
            [name] => Ok(Self::bare(std::mem::take(name))),
            [schema, name] => Ok(Self {
                schema: Some(std::mem::take(schema)),
                name: std::mem::take(name),
            }),
            _ => Err(bad("it has more than two parts")),
        }
    }
}

/// Whether the client can tell that two values of a column are equal exactly when the database thinks so.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Equality {
    /// Equal bytes in Arrow if and only if equal in the database: such keys may be hashed to slots.
    Provable,
    /// Collations, floats, padded text: only the server knows. One lane, de-duplicated there.
    ServerOnly,
}

/// When the database numbers a column by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Numbered {
    /// Where no value is given.
    ByDefault,
    /// Always: it takes a value only where a statement overrides it, and none when a row is updated.
    Always,
}

/// One column of a table.
#[derive(Debug, Clone, PartialEq)]
pub struct Column {
    /// Its exact name.
    pub name: String,
    /// What it holds; `None` where this release cannot write it (the declared type says why).
    pub ty: Option<ColumnType>,
    /// Its type in the database's words, for messages and for building SQL.
    pub declared: String,
    /// Whether it takes nulls.
    pub nullable: bool,
    /// Whether the database fills it when it is left out (default, identity, rowid).
    pub has_default: bool,
    /// Whether the database computes it and refuses values.
    pub generated: bool,
    /// Whether the database numbers it from a sequence that the values it is given do not move.
    pub numbered: Option<Numbered>,
    /// How keys in this column compare.
    pub equality: Equality,
}

impl Column {
    /// One that holds what it is given: no default, not computed, and equal where its bytes are.
    pub fn plain(spec: &ColumnSpec) -> Self {
        Self {
            name: spec.name.clone(),
            ty: Some(spec.ty),
            declared: spec.ty.to_string(),
            nullable: spec.nullable,
            has_default: false,
            generated: false,
            numbered: None,
            equality: Equality::Provable,
        }
    }
}

/// A primary key or unique constraint, usable to recognise a row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Key {
    /// Its columns, in key order, as the table spells them.
    pub columns: Vec<String>,
    /// Whether it is the primary key.
    pub primary: bool,
}

/// A foreign key: each row of a table names one of another, or none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ForeignKey {
    /// The columns of the table whose key it is, in order.
    pub columns: Vec<String>,
    /// The exact name of the table that it leads to.
    pub table: TableName,
    /// That table's columns, as many and in the same order.
    pub key: Vec<String>,
    /// Why rows that name another one are not found by comparing their own columns with its values, where that is so.
    pub unlike: Option<String>,
    /// Why it is not followed at all, in either direction, where the database keeps it for a part of the rows only.
    pub partial: Option<String>,
}

/// Which table this is: stays the same under ALTER, changes when it is dropped and created again.
#[derive(Debug, Clone, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
pub struct TableIdentity {
    /// The object itself (an object id); equal for the same table only.
    pub object: String,
    /// The table's definition, as text that changes with any column, type or constraint.
    pub shape: String,
}

/// Whether a line of a shape says when the table was made, and nothing of its columns: MariaDB's `table 58`, the number of
/// its storage, or `made`, the time. Both change when a table is rebuilt.
pub fn is_making(line: &str) -> bool {
    line.starts_with("made ")
        || line
            .strip_prefix("table ")
            .is_some_and(|n| n.parse::<u64>().is_ok())
}

/// In what the rows of a table are kept less well than a commit promises.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LessDurable {
    /// What is so: `shop.orders is UNLOGGED`.
    pub why: String,
    /// What may be lost.
    pub loss: Loss,
    /// What makes it durable, or what to do instead.
    pub instead: String,
}

/// What may be lost of a table that is less durable than a commit promises.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Loss {
    /// All rows: a crash of the server empties the table.
    Table,
    /// The rows written last.
    Last,
    /// Rows, or the ledger's record of them: they are committed one after the other.
    Apart,
}

impl LessDurable {
    /// What is not promised, in a sentence.
    pub fn given_up(&self) -> String {
        let why = &self.why;
        match self.loss {
            Loss::Table => format!(
                "{why}: whatever the durability, a crash of the server empties it; the ledger survives, and a run \
                 that was interrupted by it cannot be resumed"
            ),
            Loss::Last => {
                format!("{why}: whatever the durability, a crash of the server may lose rows of it")
            }
            Loss::Apart => format!(
                "{why}: its rows are committed apart from the ledger, so that a crash between the two commits \
                 loses rows or writes them twice"
            ),
        }
    }
}

/// A table, read from the catalogue.
#[derive(Debug, Clone, PartialEq)]
pub struct Table {
    /// Its resolved name.
    pub name: TableName,
    /// Which table it is.
    pub identity: TableIdentity,
    /// Its columns in table order.
    pub columns: Vec<Column>,
    /// Primary key first, then unique keys usable as conflict targets.
    pub keys: Vec<Key>,
    /// Whether its rows are written and undone together with the ledger's.
    pub transactional: bool,
    /// In what its rows are kept less well than a commit promises; none where they are kept as well.
    pub less_durable: Option<LessDurable>,
    /// What a user of this table should know in the plan, a sentence each (a trigger that makes COPY row by row).
    pub notes: Vec<String>,
}

impl Table {
    /// The primary key, if it has one.
    pub fn primary_key(&self) -> Option<&Key> {
        self.keys.iter().find(|k| k.primary)
    }

    /// Whether a crash of the server empties it, while the ledger survives.
    pub fn is_emptied_by_crash(&self) -> bool {
        matches!(&self.less_durable, Some(less) if less.loss == Loss::Table)
    }

    /// A column by exact name, else by a unique case-insensitive one.
    pub fn column(&self, name: &str) -> Option<&Column> {
        find_by_name(&self.columns, name, |c| &c.name)
    }
}

/// Refuses a table that is not `before` any more, as [`altered`] says it.
pub fn check_unaltered(before: &Table, now: Option<&Table>) -> Result<()> {
    match altered(before, now) {
        None => Ok(()),
        Some(what) => Err(Error::altered(&before.name, what)),
    }
}

/// How a table differs from what it was, as the end of a sentence about it: `was dropped`, `was altered: column 'a' is
/// new`. None where it is the same one with the same definition.
pub fn altered(before: &Table, now: Option<&Table>) -> Option<String> {
    /// Differences that are named; the first ones say enough.
    const NAMED_MAX: usize = 3;
    let Some(now) = now else {
        return Some("was dropped or renamed".to_owned());
    };
    if now.identity == before.identity {
        return None;
    }
    if now.identity.object != before.identity.object {
        return Some("was replaced by another table of its name".to_owned());
    }
    let mut differences = Vec::new();
    for column in &before.columns {
        let name = &column.name;
        match now.columns.iter().find(|c| c.name == *name) {
            None => differences.push(format!("column '{name}' is gone")),
            Some(after) if after.declared != column.declared => differences.push(format!(
                "column '{name}' was {} and is {}",
                column.declared, after.declared
            )),
            Some(after) if after.nullable != column.nullable => differences.push(match after.nullable {
                true => format!("column '{name}' takes nulls now"),
                false => format!("column '{name}' takes no nulls any more"),
            }),
            Some(_) => {}
        }
    }
    let is_new = |name: &str| before.columns.iter().all(|c| c.name != name);
    let added = now.columns.iter().filter(|c| is_new(&c.name));
    differences.extend(added.map(|c| format!("column '{}' is new", c.name)));
    let names = |table: &Table| table.columns.iter().map(|c| c.name.clone()).collect::<Vec<_>>();
    if differences.is_empty() && names(before) != names(now) {
        differences.push("its columns have another order".to_owned());
    }
    differences.truncate(NAMED_MAX);
    Some(match differences.is_empty() {
        true => "was altered".to_owned(),
        false => format!("was altered ({})", differences.join(", ")),
    })
}

/// The item whose name is exactly `name`, else the only one that equals it without regard to case.
pub fn find_by_name<'a, T>(items: &'a [T], name: &str, name_of: impl Fn(&T) -> &str) -> Option<&'a T> {
    items.get(index_by_name(items, name, name_of)?)
}

/// The index of the item that [`find_by_name`] finds.
pub fn index_by_name<T>(items: &[T], name: &str, name_of: impl Fn(&T) -> &str) -> Option<usize> {
    if let Some(index) = items.iter().position(|item| name_of(item) == name) {
        return Some(index);
    }
    let is_close = |item: &T| name_of(item).to_lowercase() == name.to_lowercase();
    let mut close = (0..items.len()).filter(|index| is_close(&items[*index]));
    match (close.next(), close.next()) {
        (Some(index), None) => Some(index),
        _ => None,
    }
}

/// Names by which items are looked up as [`find_by_name`] does, for many look-ups among many items.
#[derive(Debug)]
pub struct Names<'a> {
    exact: HashMap<&'a str, usize>,
    /// By their lower case; none where several have it.
    folded: HashMap<String, Option<usize>>,
}

impl<'a> Names<'a> {
    /// Of items by their places.
    pub fn of(names: impl Iterator<Item = &'a str>) -> Self {
        let (mut exact, mut folded) = (HashMap::new(), HashMap::new());
        for (at, name) in names.enumerate() {
            exact.entry(name).or_insert(at);
            let only = folded.entry(name.to_lowercase()).or_insert(Some(at));
            *only = only.filter(|known| *known == at);
        }
        Self { exact, folded }
    }

    /// The place of the item whose name is exactly `name`, else of the only one that equals it without regard to case.
    pub fn find(&self, name: &str) -> Option<usize> {
        let exact = self.exact.get(name).copied();
        exact.or_else(|| self.folded.get(&name.to_lowercase()).copied().flatten())
    }
}

/// Up to three names nearest to `name`, best first, for "did you mean".
pub fn nearest<'a>(name: &str, names: impl IntoIterator<Item = &'a str>) -> Vec<&'a str> {
    let wanted = name.to_lowercase();
    let mut scored: Vec<_> = names
        .into_iter()
        .map(|n| (similarity(&wanted, &n.to_lowercase()), n))
        .filter(|(score, _)| *score > 0.75)
        .collect();
    scored.sort_by(|a, b| b.0.total_cmp(&a.0));
    scored.into_iter().take(3).map(|(_, n)| n).collect()
}

/// From 0 to 1. One slip of the fingers (`qyt` for `qty`) is always near, which Jaro-Winkler misses in short names.
fn similarity(wanted: &str, name: &str) -> f64 {
    const SLIP: f64 = 0.9;
    let by_parts = strsim::jaro_winkler(wanted, name);
    match wanted.chars().count() > 2 && strsim::osa_distance(wanted, name) == 1 {
        true => by_parts.max(SLIP),
        false => by_parts,
    }
}

/// The hint for a column that is not among `columns`: those of nearly the same name, else all, up to a bound.
pub fn columns_hint<'a>(name: &str, columns: impl Iterator<Item = &'a str> + Clone) -> String {
    const SHOWN: usize = 12;
    let close = nearest(name, columns.clone());
    if !close.is_empty() {
        return format!("did you mean {}?", close.join(" or "));
    }
    let mut names: Vec<_> = columns.clone().take(SHOWN).collect();
    if columns.count() > SHOWN {
        names.push("..");
    }
    format!("its columns are {}", names.join(", "))
}

/// One error of all that is wrong with the columns of a table to be created.
pub fn refused_columns(name: &TableName, wrong: Vec<Error>) -> Result<()> {
    let mut wrong = wrong;
    if wrong.len() < 2 {
        return wrong.pop().map_or(Ok(()), Err);
    }
    let mut hints: Vec<&str> = Vec::new();
    for hint in wrong.iter().filter_map(Error::hint_text) {
        if !hints.contains(&hint) {
            hints.push(hint);
        }
    }
    let hint = hints.join("; ");
    let all: Vec<String> = wrong.iter().map(ToString::to_string).collect();
    let error = Error::schema(format!(
        "{} columns of the new table {name} cannot be made: {}",
        all.len(),
        all.join("; ")
    ));
    Err(match hint.is_empty() {
        true => error,
        false => error.hint(hint),
    })
}

/// What is wrong with the names of columns to be created where names that `fold` makes alike are one, and with their
/// number where a table has at most `columns_max`.
pub fn refused_names(
    columns: &[ColumnSpec],
    columns_max: usize,
    fold: impl Fn(&str) -> String,
) -> Vec<Error> {
    let mut wrong = Vec::new();
    if columns.len() > columns_max {
        wrong.push(
            Error::schema(format!(
                "{} columns are more than the {columns_max} that a table has at most",
                columns.len()
            ))
            .hint("--columns names the ones to load"),
        );
    }
    let mut seen: HashMap<String, &str> = HashMap::new();
    for ColumnSpec { name, .. } in columns {
        if let Some(first) = seen.insert(fold(name), name) {
            wrong.push(
                Error::schema(format!(
                    "columns '{first}' and '{name}' are one name to this database"
                ))
                .hint(format!("--map '{name}={name}_2' gives one of them another")),
            );
        }
    }
    wrong
}

/// A table to be created.
#[derive(Debug, Clone, PartialEq)]
pub struct TableSpec {
    /// Its name.
    pub name: TableName,
    /// Its columns: name, type, whether nulls are allowed.
    pub columns: Vec<ColumnSpec>,
    /// Its primary key; empty for none.
    pub key: Vec<String>,
}

/// A column to be created.
#[derive(Debug, Clone, PartialEq)]
pub struct ColumnSpec {
    /// Its name.
    pub name: String,
    /// Its type; never `Any`.
    pub ty: ColumnType,
    /// Whether it takes nulls.
    pub nullable: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quoted_name_is_read_back_as_the_same() {
        for (schema, name, wanted) in [
            (None, "orders", "orders"),
            (Some("shop"), "Größe_1", "shop.Größe_1"),
            (Some("a.b"), "c d\"/../e", "\"a.b\".\"c d\"\"/../e\""),
        ] {
            let table = TableName {
                schema: schema.map(str::to_owned),
                name: name.to_owned(),
            };
            assert_eq!(table.quoted(), wanted);
            assert_eq!(wanted.parse::<TableName>().unwrap(), table);
        }
    }

    #[test]
    fn names_are_found_together_as_one_by_one() {
        let lists: [&[&str]; 6] = [
            &[],
            &["a", "B", "c"],
            &["id", "ID", "Id", "other"],
            &["Name", "name"],
            &["twice", "twice", "Straße", "STRASSE", "ÄRGER"],
            &["x", "X", "y"],
        ];
        let wanted = [
            "a", "A", "b", "ID", "id", "iD", "name", "NAME", "twice", "TWICE", "ärger", "straße", "X", "Y",
            "",
        ];
        for list in lists {
            let names = Names::of(list.iter().copied());
            for name in wanted {
                let together = names.find(name).map(|at| list[at]);
                let alone = find_by_name(list, name, |item| item).copied();
                assert_eq!(together, alone, "{name} in {list:?}");
            }
        }
    }
}
