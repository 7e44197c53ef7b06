//! Definitions of tables: what a database says of its own, and another is to make of them.
//!
//! A definition has two forms. [`TableDefinition::own`] are statements in the words of the database that it was read from,
//! with all that this kind of database knows; another one of the same kind runs them as they are. Everything else is in no
//! database's words, so that [`Schemas::statements`](crate::target::Schemas::statements) of another kind can make a table
//! of it, which is less: what is lost is a sentence in [`TableDefinition::only_own`].

use std::collections::HashMap;

use crate::{
    table::{ColumnSpec, TableName, TableSpec},
    types::ColumnType,
};

/// The tables of a database.
#[derive(Debug, Clone, Default)]
pub struct DatabaseDefinition {
    /// The tables, by name.
    pub tables: Vec<TableDefinition>,
    /// What else there is, which no table carries: `view open_orders`.
    pub others: Vec<String>,
}

/// A table.
#[derive(Debug, Clone)]
pub struct TableDefinition {
    /// Its exact name.
    pub name: TableName,
    /// Its columns in table order.
    pub columns: Vec<ColumnDefinition>,
    /// The columns of its primary key, in key order; empty without one.
    pub primary_key: Vec<String>,
    /// Its other indexes, as far as they are on whole columns and of all rows.
    pub indexes: Vec<SecondaryIndex>,
    /// Its foreign keys.
    pub foreign_keys: Vec<ForeignKeyDefinition>,
    /// The columns by which foreign keys of other tables name its rows, a list each. In a definition that was just read
    /// none: who has all definitions knows.
    pub named_by: Vec<Vec<String>>,
    /// The same table in the words of its database.
    pub own: TableStatements,
    /// What [`TableDefinition::own`] has and nothing else here: `the check total > 0`.
    pub only_own: Vec<String>,
    /// What is not copied at all: `the trigger audit`.
    pub left_out: Vec<String>,
    /// The names of its indexes and constraints.
    pub names: Vec<String>,
}

impl TableDefinition {
    /// The table without all that is added to it, with `key` as its primary key.
    pub fn spec(&self, key: &[String]) -> TableSpec {
        let column = |column: &ColumnDefinition| ColumnSpec {
            name: column.name.clone(),
            ty: column.ty,
            nullable: column.nullable && !self.primary_key.contains(&column.name),
        };
        TableSpec {
            name: self.name.clone(),
            columns: self.columns.iter().map(column).collect(),
            key: key.to_vec(),
        }
    }

    /// What follows the type of each column that has a default, by its name; those that cannot be said are `lost`.
    pub fn defaults(&self, words: &DefaultWords, lost: &mut Vec<String>) -> HashMap<String, String> {
        let mut clauses = HashMap::new();
        for column in &self.columns {
            let Some(default) = column.default.as_ref().filter(|_| column.numbered.is_none()) else {
                continue;
            };
            match default.sql(column.ty, words) {
                Some(sql) => {
                    clauses.insert(column.name.clone(), format!(" DEFAULT {sql}"));
                }
                None => lost.push(format!("the default of {}: {}", column.name, default.shown())),
            }
        }
        clauses
    }
}

/// What is added to the statement that makes a table.
#[derive(Debug, Clone, Default)]
pub struct Additions {
    /// What follows the definitions of columns, by their names.
    pub columns: HashMap<String, String>,
    /// Lines behind the columns and the key.
    pub lines: Vec<String>,
}

impl Additions {
    /// What follows the definition of the column `name`.
    pub fn of_column(&self, name: &str) -> &str {
        self.columns.get(name).map_or("", String::as_str)
    }
}

/// How a database writes what fills a column.
pub struct DefaultWords {
    /// A text as a literal.
    pub quote: fn(&str) -> String,
    /// The time, for a column of times of no zone.
    pub now: &'static str,
    /// The instant.
    pub now_tz: &'static str,
    /// The day.
    pub today: &'static str,
}

/// A column.
#[derive(Debug, Clone)]
pub struct ColumnDefinition {
    /// Its exact name.
    pub name: String,
    /// What it holds. In a definition that was just read `Any`: what its rows are read as decides.
    pub ty: ColumnType,
    /// Whether it takes nulls.
    pub nullable: bool,
    /// What it is filled with where no value is given.
    pub default: Option<DefaultValue>,
    /// Whether the database numbers it.
    pub numbered: Option<Counter>,
    /// Whether the database computes it.
    pub generated: bool,
}

/// What numbers a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Counter {
    /// The last number that was given, where the database says it.
    pub last: Option<i64>,
}

/// An index that is not the primary key's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SecondaryIndex {
    /// Its name.
    pub name: String,
    /// Its columns, in order.
    pub columns: Vec<String>,
    /// Whether no two rows may have the same values in it.
    pub unique: bool,
}

/// A foreign key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ForeignKeyDefinition {
    /// Its name.
    pub name: String,
    /// Its columns, in order.
    pub columns: Vec<String>,
    /// The table that it leads to.
    pub table: TableName,
    /// That table's columns, as many and in the same order.
    pub key: Vec<String>,
    /// What becomes of a row when the row that it names is deleted.
    pub on_delete: Action,
    /// What becomes of it when the key of that row changes.
    pub on_update: Action,
}

/// What a foreign key does to rows when the row that they name goes or changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// Refuses that, at the end of the statement.
    NoAction,
    /// Refuses that at once.
    Restrict,
    /// Goes or changes with it.
    Cascade,
    /// Names none any more.
    SetNull,
    /// Names the default.
    SetDefault,
}

impl Action {
    /// In SQL.
    pub fn sql(self) -> &'static str {
        match self {
            Self::NoAction => "NO ACTION",
            Self::Restrict => "RESTRICT",
            Self::Cascade => "CASCADE",
            Self::SetNull => "SET NULL",
            Self::SetDefault => "SET DEFAULT",
        }
    }

    /// Of its name in SQL; what is unknown refuses.
    pub fn named(name: &str) -> Self {
        [Self::Restrict, Self::Cascade, Self::SetNull, Self::SetDefault]
            .into_iter()
            .find(|action| action.sql().eq_ignore_ascii_case(name))
            .unwrap_or(Self::NoAction)
    }
}

impl ForeignKeyDefinition {
    /// What follows the name of a constraint, with names as `quote` and `quote_table` write them.
    pub fn sql(&self, quote: impl Fn(&str) -> String, quote_table: impl Fn(&TableName) -> String) -> String {
        let list = |names: &[String]| {
            names
                .iter()
                .map(|name| quote(name))
                .collect::<Vec<_>>()
                .join(", ")
        };
        let mut sql = format!(
            "FOREIGN KEY ({}) REFERENCES {} ({})",
            list(&self.columns),
            quote_table(&self.table),
            list(&self.key)
        );
        for (event, action) in [("DELETE", self.on_delete), ("UPDATE", self.on_update)] {
            if action != Action::NoAction {
                sql.push_str(&format!(" ON {event} {}", action.sql()));
            }
        }
        sql
    }
}

/// What makes a table, in one database's words.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TableStatements {
    /// What comes before its rows.
    pub create: Vec<String>,
    /// What comes after them: keys, indexes, checks, counters.
    pub after_rows: Vec<Step>,
    /// What comes after the rows and keys of all tables.
    pub foreign_keys: Vec<Step>,
    /// What the database cannot be given, a sentence each.
    pub lost: Vec<String>,
}

/// A statement that adds something to a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    /// What it makes, for people: `index orders_by_day`.
    pub what: String,
    /// The name by which a table that has it lists it; none where it can be run again.
    pub name: Option<String>,
    /// The statement.
    pub sql: String,
}

/// What fills a column where no value is given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DefaultValue {
    /// A number, as it is written.
    Number(String),
    /// A text, without its quotes.
    Text(String),
    /// True or false.
    Bool(bool),
    /// The time of the statement or transaction.
    Now,
    /// The day of it.
    Today,
    /// Anything else, in the words of the database that it was read from.
    Other(String),
}

impl DefaultValue {
    /// Reads the SQL of a default: a literal, or a function that every database has. None for NULL.
    pub fn of_sql(sql: &str) -> Option<Self> {
        let text = plain(sql);
        if let Some(literal) = literal(text) {
            return Some(Self::Text(literal));
        }
        let word: String = text.split_whitespace().collect::<String>().to_ascii_lowercase();
        // `current_timestamp(6)`
        let function = word.split_once('(').map_or(word.as_str(), |(name, rest)| {
            match rest.trim_end_matches(')').chars().all(|c| c.is_ascii_digit()) {
                true => name,
                false => word.as_str(),
            }
        });
        Some(match function {
            "null" => return None,
            "true" => Self::Bool(true),
            "false" => Self::Bool(false),
            "now" | "current_timestamp" | "localtimestamp" | "transaction_timestamp" | "datetime('now')" => {
                Self::Now
            }
            "current_date" | "curdate" | "date('now')" => Self::Today,
            _ if is_number(&word) => Self::Number(word),
            _ => Self::Other(sql.trim().to_owned()),
        })
    }

    /// As it is shown to people.
    fn shown(&self) -> String {
        match self {
            Self::Number(text) | Self::Other(text) => text.clone(),
            Self::Text(text) => format!("'{text}'"),
            Self::Bool(value) => value.to_string(),
            Self::Now => "the time of the insert".to_owned(),
            Self::Today => "the day of the insert".to_owned(),
        }
    }

    /// In SQL for a column of type `ty`; none where it cannot be said in words that every database has.
    pub fn sql(&self, ty: ColumnType, words: &DefaultWords) -> Option<String> {
        let quote = words.quote;
        match (self, ty) {
            (Self::Number(number), ColumnType::Bool) => {
                Some(match number.trim_start_matches(['+', '0', '.']) {
                    "" => "FALSE".to_owned(),
                    _ => "TRUE".to_owned(),
                })
            }
            (Self::Text(text), ColumnType::Bool) => match text.to_ascii_lowercase().as_str() {
                "t" | "true" | "1" => Some("TRUE".to_owned()),
                "f" | "false" | "0" => Some("FALSE".to_owned()),
                _ => None,
            },
            (Self::Bool(value), ColumnType::Bool) => Some(value.to_string().to_uppercase()),
            (Self::Bool(value), _) => Some(u8::from(*value).to_string()),
            // How bytes are written in a text differs.
            (Self::Text(_), ColumnType::Bytes) => None,
            (Self::Number(number), ty) if ty.is_text() => Some(quote(number)),
            (Self::Number(number), _) => Some(number.clone()),
            // `now` is a time to PostgreSQL alone.
            (
                Self::Text(text),
                ColumnType::Date | ColumnType::Time | ColumnType::Timestamp | ColumnType::TimestampTz,
            ) if !text.starts_with(|c: char| c.is_ascii_digit()) => None,
            (Self::Text(text), _) => Some(quote(text)),
            (Self::Now, ColumnType::Timestamp) => Some(words.now.to_owned()),
            (Self::Now, ColumnType::TimestampTz) => Some(words.now_tz.to_owned()),
            (Self::Now | Self::Today, ColumnType::Date) => Some(words.today.to_owned()),
            (Self::Now | Self::Today, _) | (Self::Other(_), _) => None,
        }
    }
}

/// Without the parentheses around it, and the type behind it (`'a'::text`).
fn plain(sql: &str) -> &str {
    let mut text = sql.trim();
    loop {
        let inner = text.strip_prefix('(').and_then(|text| text.strip_suffix(')'));
        if let Some(inner) = inner.filter(|inner| is_balanced(inner)) {
            text = inner.trim();
            continue;
        }
        match text.rsplit_once("::") {
            Some((value, ty)) if is_balanced(value) && is_type(ty) => text = value.trim(),
            _ => return text,
        }
    }
}

/// Whether parentheses and quotes are closed, none before it is opened.
fn is_balanced(text: &str) -> bool {
    let (mut depth, mut quoted) = (0_i32, false);
    for c in text.chars() {
        match c {
            '\'' => quoted = !quoted,
            '(' if !quoted => depth += 1,
            ')' if !quoted => depth -= 1,
            _ => {}
        }
        if depth < 0 {
            return false;
        }
    }
    depth == 0 && !quoted
}

fn is_type(text: &str) -> bool {
    let is_part =
        |c: char| c.is_alphanumeric() || matches!(c, ' ' | '_' | '.' | '"' | '(' | ')' | ',' | '[' | ']');
    !text.is_empty() && text.chars().all(is_part)
}

/// The text of a literal.
fn literal(text: &str) -> Option<String> {
    let inner = text.strip_prefix('\'')?.strip_suffix('\'')?;
    let unquoted = inner.replace("''", "");
    (!unquoted.contains('\'')).then(|| inner.replace("''", "'"))
}

fn is_number(text: &str) -> bool {
    let digits = text.trim_start_matches(['-', '+']);
    digits.starts_with(|c: char| c.is_ascii_digit() || c == '.')
        && text.parse::<f64>().is_ok_and(f64::is_finite)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_are_read() {
        let number = |text: &str| Some(DefaultValue::Number(text.to_owned()));
        let text = |text: &str| Some(DefaultValue::Text(text.to_owned()));
        let other = |text: &str| Some(DefaultValue::Other(text.to_owned()));
        let cases = [
            ("NULL", None),
            ("NULL::character varying", None),
            ("0", number("0")),
            ("(-1)", number("-1")),
            ("'-1'::integer", text("-1")),
            ("1.50", number("1.50")),
            ("'it''s'", text("it's")),
            ("'new'::order_state", text("new")),
            ("'a'::character varying(20)", text("a")),
            ("'a' || 'b'", other("'a' || 'b'")),
            ("''", text("")),
            ("TRUE", Some(DefaultValue::Bool(true))),
            ("now()", Some(DefaultValue::Now)),
            ("CURRENT_TIMESTAMP", Some(DefaultValue::Now)),
            ("current_timestamp(6)", Some(DefaultValue::Now)),
            ("(datetime('now'))", Some(DefaultValue::Now)),
            ("curdate()", Some(DefaultValue::Today)),
            ("gen_random_uuid()", other("gen_random_uuid()")),
            ("('now'::text)::date", text("now")),
            ("infinity", other("infinity")),
        ];
        for (sql, wanted) in cases {
            assert_eq!(DefaultValue::of_sql(sql), wanted, "{sql}");
        }
    }

    #[test]
    fn defaults_go_by_the_type_of_the_column() {
        let sql = |default: DefaultValue, ty| {
            let words = DefaultWords {
                quote: |text| format!("'{text}'"),
                now: "now()",
                now_tz: "now()",
                today: "current_date",
            };
            default.sql(ty, &words)
        };
        let zero = || DefaultValue::Number("0".to_owned());
        assert_eq!(sql(zero(), ColumnType::Bool).as_deref(), Some("FALSE"));
        assert_eq!(sql(zero(), ColumnType::Int64).as_deref(), Some("0"));
        assert_eq!(sql(zero(), ColumnType::TEXT).as_deref(), Some("'0'"));
        assert_eq!(
            sql(DefaultValue::Bool(true), ColumnType::Int16).as_deref(),
            Some("1")
        );
        assert_eq!(
            sql(DefaultValue::Now, ColumnType::Timestamp).as_deref(),
            Some("now()")
        );
        assert_eq!(sql(DefaultValue::Now, ColumnType::TEXT), None);
        assert_eq!(sql(DefaultValue::Text("x".to_owned()), ColumnType::Bytes), None);
    }
}
