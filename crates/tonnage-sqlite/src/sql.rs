//! The statements this target builds. Names are always quoted; values are always bound.

use std::fmt::Write;

use tonnage_core::{
    error::{Error, Result},
    operation::Operation,
    schema::Additions,
    statement::Statement,
    table::{ColumnSpec, TableName, TableSpec, refused_columns, refused_names},
    types::ColumnType,
};

use super::types;

/// A name as an identifier.
pub(super) fn quote(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

fn quoted<'a>(names: impl IntoIterator<Item = &'a str>) -> String {
    names.into_iter().map(quote).collect::<Vec<_>>().join(", ")
}

/// The most columns of a table.
const COLUMNS_MAX: usize = 2_000;

/// The column of a table to be made that is the rowid: a single integer key.
pub(super) fn rowid(spec: &TableSpec) -> Option<&ColumnSpec> {
    let [only] = spec.key.as_slice() else { return None };
    spec.columns.iter().find(|column| {
        column.name == *only
            && matches!(
                column.ty,
                ColumnType::Int16 | ColumnType::Int32 | ColumnType::Int64
            )
    })
}

/// `CREATE TABLE`, with a single integer key as the rowid.
pub(super) fn create_table(spec: &TableSpec) -> Result<String> {
    create_table_with(spec, &Additions::default())
}

/// The same, and what is added to it.
pub(super) fn create_table_with(spec: &TableSpec, additions: &Additions) -> Result<String> {
    if let Some(missing) = spec
        .key
        .iter()
        .find(|key| !spec.columns.iter().any(|column| column.name == **key))
    {
        return Err(Error::schema(format!(
            "key column {missing} is not a column of {}",
            spec.name
        )));
    }
    let rowid = rowid(spec);
    refused_columns(
        &spec.name,
        refused_names(&spec.columns, COLUMNS_MAX, str::to_ascii_lowercase),
    )?;
    let mut lines = Vec::with_capacity(spec.columns.len() + 1);
    for column in &spec.columns {
        let is_rowid = rowid.is_some_and(|rowid| rowid.name == column.name);
        let definition = column_definition(column, is_rowid, spec.key.contains(&column.name))?;
        lines.push(definition + additions.of_column(&column.name));
    }
    if !spec.key.is_empty() && rowid.is_none() {
        lines.push(format!(
            "PRIMARY KEY ({})",
            quoted(spec.key.iter().map(String::as_str))
        ));
    }
    lines.extend_from_slice(&additions.lines);
    Ok(format!(
        "CREATE TABLE {} (\n  {}\n)",
        quote(&spec.name.name),
        lines.join(",\n  ")
    ))
}

/// The statements that add columns to a table.
pub(super) fn add_columns(table: &TableName, columns: &[ColumnSpec]) -> Result<String> {
    refused_columns(
        table,
        refused_names(columns, COLUMNS_MAX, str::to_ascii_lowercase),
    )?;
    let each = columns.iter().map(|column| {
        let definition = column_definition(column, false, false)?;
        Ok(format!(
            "ALTER TABLE {} ADD COLUMN {definition};",
            quote(&table.name)
        ))
    });
    Ok(each.collect::<Result<Vec<_>>>()?.join("\n"))
}

fn column_definition(column: &ColumnSpec, is_rowid: bool, in_key: bool) -> Result<String> {
    let name = quote(&column.name);
    if column.ty == ColumnType::Any {
        return Err(Error::bug(format!(
            "column {} has no type to be created with",
            column.name
        )));
    }
    if is_rowid {
        return Ok(format!("{name} INTEGER PRIMARY KEY"));
    }
    let mut definition = format!("{name} {}", types::declared(&column.ty));
    // SQLite allows nulls in a primary key unless it is declared NOT NULL.
    if !column.nullable || in_key {
        definition.push_str(" NOT NULL");
    }
    // A declared length means nothing to SQLite, so a limit that was asked for becomes a check.
    if let ColumnType::Text {
        chars_max: Some(chars),
    }
    | ColumnType::Char { chars } = column.ty
    {
        let _ = write!(definition, " CHECK (length({name}) <= {chars})");
    }
    Ok(definition)
}

/// A column of a key, and how the key compares it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct KeyColumn {
    pub(super) name: String,
    /// The collation of the key's index, which may be another than the column's; none for a rowid.
    pub(super) collation: Option<String>,
}

impl KeyColumn {
    fn quoted(&self) -> String {
        match &self.collation {
            Some(collation) => format!("{} COLLATE {}", quote(&self.name), quote(collation)),
            None => quote(&self.name),
        }
    }
}

/// Parameter `index` of a statement of the user's.
pub(super) fn parameter(index: usize) -> String {
    format!("?{}", index + 1)
}

/// The rows that a statement rightly leaves as they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Spares {
    /// None: a row that was left out was lost.
    Nothing,
    /// Rows that are there and would be replaced by themselves; they are as good as written.
    Same,
    /// Rows whose key is there.
    Present,
    /// Rows whose key is not there.
    Absent,
    /// Those that a statement of the user's leaves as they are.
    Any,
}

/// What the statements of a load are made from.
pub(super) struct Changed<'a> {
    pub(super) table: &'a str,
    /// The columns that rows have, in order.
    pub(super) columns: &'a [String],
    pub(super) operation: &'a Operation,
    /// The operation's key; empty for inserts.
    pub(super) key: &'a [KeyColumn],
    /// Keeps ON CONFLICT clauses of the table's definition from skipping or replacing rows. It overrules those
    /// in the statements of triggers too, so it is asked for only where there may be one to overrule.
    pub(super) overrule: bool,
    /// Whether a statement of many rows is to keep those before the row that it fails at.
    pub(super) keeps: bool,
}

/// The statement that applies rows, one parameter a value, row after row.
pub(super) struct Change {
    form: StatementForm,
    parameters: Vec<usize>,
    lookup: String,
    key: Vec<usize>,
    spares: Spares,
    keeps: bool,
}

enum StatementForm {
    Insert {
        head: String,
        /// The head of a statement of many rows.
        head_many: String,
        row: String,
        tail: String,
    },
    /// One row only: of equal keys in one statement SQLite would take any.
    Update(String),
    /// Rows joined by OR: each is looked up by the index. An IN of row values with collations would visit the
    /// whole table.
    Delete { head: String, row: String },
    /// The user's own, for one row.
    Statement(String),
}

impl Change {
    pub(super) fn new(changed: &Changed<'_>) -> Result<Self> {
        let Changed {
            table,
            columns,
            operation,
            key,
            overrule,
            keeps,
        } = changed;
        let names = || columns.iter().map(String::as_str);
        let in_key = |column: usize| key.iter().any(|key| key.name == columns[column]);
        let place = |key: &KeyColumn| {
            let found = columns.iter().position(|column| *column == key.name);
            found.ok_or_else(|| Error::bug(format!("key column {} is not written", key.name)))
        };
        let key_at = key.iter().map(place).collect::<Result<Vec<usize>>>()?;
        let others: Vec<usize> = (0..columns.len()).filter(|column| !in_key(*column)).collect();
        let is_row: Vec<String> = key.iter().map(|key| format!("{} = ?", key.quoted())).collect();
        let is_row = is_row.join(" AND ");
        let or_abort = if *overrule { " OR ABORT" } else { "" };
        let table = quote(table);
        let or_fail = if *keeps { " OR FAIL" } else { or_abort };
        let insert = |tail: String| StatementForm::Insert {
            head: format!("INSERT{or_abort} INTO {table} ({}) VALUES ", quoted(names())),
            head_many: format!("INSERT{or_fail} INTO {table} ({}) VALUES ", quoted(names())),
            row: format!("({})", vec!["?"; columns.len()].join(", ")),
            tail,
        };
        let all = || (0..columns.len()).collect();
        let conflict = quoted(key.iter().map(|key| key.name.as_str()));
        let (form, parameters, spares) = match operation {
            Operation::Insert => (insert(String::new()), all(), Spares::Nothing),
            Operation::Upsert { .. } if others.is_empty() => {
                let tail = format!(" ON CONFLICT ({conflict}) DO NOTHING");
                (insert(tail), all(), Spares::Same)
            }
            Operation::Upsert { .. } => {
                let assign = |column: &usize| format!("{0} = excluded.{0}", quote(&columns[*column]));
                let assignments: Vec<String> = others.iter().map(assign).collect();
                let tail = format!(
                    " ON CONFLICT ({conflict}) DO UPDATE SET {}",
                    assignments.join(", ")
                );
                (insert(tail), all(), Spares::Nothing)
            }
            Operation::Ignore { .. } => {
                let tail = format!(" ON CONFLICT ({conflict}) DO NOTHING");
                (insert(tail), all(), Spares::Present)
            }
            Operation::Update { .. } => {
                let assign = |column: &usize| format!("{} = ?", quote(&columns[*column]));
                let assignments: Vec<String> = others.iter().map(assign).collect();
                let update = format!(
                    "UPDATE{or_abort} {table} SET {} WHERE {is_row}",
                    assignments.join(", ")
                );
                let parameters = others.iter().chain(&key_at).copied().collect();
                (StatementForm::Update(update), parameters, Spares::Absent)
            }
            Operation::Delete { .. } => {
                let delete = StatementForm::Delete {
                    head: format!("DELETE FROM {table} WHERE "),
                    row: is_row.clone(),
                };
                (delete, key_at.clone(), Spares::Absent)
            }
            Operation::Statement { .. } => return Err(Error::bug("a statement is none of ours")),
        };
        Ok(Self {
            form,
            parameters,
            lookup: format!("SELECT 1 FROM {table} WHERE {is_row}"),
            key: key_at,
            spares,
            keeps: *keeps,
        })
    }

    /// The user's own statement; its parameters are the columns.
    pub(super) fn of_statement(statement: &Statement) -> Self {
        Self {
            keeps: false,
            form: StatementForm::Statement(statement.render(parameter)),
            parameters: (0..statement.parameters().len()).collect(),
            lookup: String::new(),
            key: Vec::new(),
            spares: match statement.stands_alone() {
                true => Spares::Nothing,
                false => Spares::Any,
            },
        }
    }

    /// The statement for this many rows.
    pub(super) fn sql(&self, rows: usize) -> String {
        let all = |row: &str, between: &str| vec![row; rows].join(between);
        match &self.form {
            StatementForm::Insert { head, row, tail, .. } if rows == 1 => format!("{head}{row}{tail}"),
            StatementForm::Insert {
                head_many, row, tail, ..
            } => format!("{head_many}{}{tail}", all(row, ", ")),
            StatementForm::Update(only) | StatementForm::Statement(only) => only.clone(),
            StatementForm::Delete { head, row } => format!("{head}{}", all(row, " OR ")),
        }
    }

    /// The columns of the parameters of a row.
    pub(super) fn parameters(&self) -> &[usize] {
        &self.parameters
    }

    /// Looks a row up by its key, where there is one.
    pub(super) fn lookup(&self) -> &str {
        &self.lookup
    }

    /// The columns of the parameters of [`Change::lookup`].
    pub(super) fn key(&self) -> &[usize] {
        &self.key
    }

    /// Which rows may be left as they are.
    pub(super) fn spares(&self) -> Spares {
        self.spares
    }

    /// Whether a statement of many rows keeps those before the row that it fails at.
    pub(super) fn keeps(&self) -> bool {
        self.keeps
    }

    /// Whether one statement can apply many rows.
    pub(super) fn takes_many(&self) -> bool {
        !matches!(self.form, StatementForm::Update(_) | StatementForm::Statement(_))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn column(name: &str, ty: ColumnType, nullable: bool) -> ColumnSpec {
        ColumnSpec {
            name: name.to_owned(),
            ty,
            nullable,
        }
    }

    #[test]
    fn create() {
        let spec = |key: &[&str]| TableSpec {
            name: TableName::bare("odd \"name"),
            columns: vec![
                column("id", ColumnType::Int64, false),
                column("code", ColumnType::Text { chars_max: Some(3) }, true),
                column(
                    "price",
                    ColumnType::Decimal {
                        precision: 9,
                        scale: 2,
                    },
                    true,
                ),
            ],
            key: key.iter().map(|k| (*k).to_owned()).collect(),
        };
        assert_eq!(
            create_table(&spec(&["id"])).unwrap(),
            "CREATE TABLE \"odd \"\"name\" (\n  \"id\" INTEGER PRIMARY KEY,\n  \"code\" TEXT CHECK \
             (length(\"code\") <= 3),\n  \"price\" DECIMAL(9,2)\n)"
        );
        assert_eq!(
            create_table(&spec(&["code", "id"])).unwrap(),
            "CREATE TABLE \"odd \"\"name\" (\n  \"id\" INTEGER NOT NULL,\n  \"code\" TEXT NOT NULL CHECK \
             (length(\"code\") <= 3),\n  \"price\" DECIMAL(9,2),\n  PRIMARY KEY (\"code\", \"id\")\n)"
        );
        assert!(create_table(&spec(&["other"])).is_err());
    }

    fn change(operation: &Operation, overrule: bool) -> Change {
        let key = operation.key().iter().map(|name| KeyColumn {
            name: name.clone(),
            collation: (name == "b").then(|| "NOCASE".to_owned()),
        });
        Change::new(&Changed {
            table: "t",
            columns: &["a".to_owned(), "b".to_owned(), "c".to_owned()],
            operation,
            key: &key.collect::<Vec<_>>(),
            overrule,
            keeps: false,
        })
        .unwrap()
    }

    #[test]
    fn changes() {
        let key = |names: &[&str]| names.iter().map(|n| (*n).to_owned()).collect::<Vec<_>>();
        let insert = "INSERT INTO \"t\" (\"a\", \"b\", \"c\") VALUES (?, ?, ?)";
        let cases = [
            (Operation::Insert, 2, format!("{insert}, (?, ?, ?)")),
            (
                Operation::Upsert { key: key(&["b"]) },
                1,
                format!(
                    "{insert} ON CONFLICT (\"b\") DO UPDATE SET \"a\" = excluded.\"a\", \
                     \"c\" = excluded.\"c\""
                ),
            ),
            (
                Operation::Upsert {
                    key: key(&["c", "b", "a"]),
                },
                1,
                format!("{insert} ON CONFLICT (\"c\", \"b\", \"a\") DO NOTHING"),
            ),
            (
                Operation::Ignore { key: key(&["b"]) },
                2,
                format!("{insert}, (?, ?, ?) ON CONFLICT (\"b\") DO NOTHING"),
            ),
            (
                Operation::Update {
                    key: key(&["b", "a"]),
                },
                1,
                "UPDATE \"t\" SET \"c\" = ? WHERE \"b\" COLLATE \"NOCASE\" = ? AND \"a\" = ?".to_owned(),
            ),
            (
                Operation::Delete {
                    key: key(&["b", "a"]),
                },
                1,
                "DELETE FROM \"t\" WHERE \"b\" COLLATE \"NOCASE\" = ? AND \"a\" = ?".to_owned(),
            ),
            (
                Operation::Delete {
                    key: key(&["b", "a"]),
                },
                2,
                "DELETE FROM \"t\" WHERE \"b\" COLLATE \"NOCASE\" = ? AND \"a\" = ? \
                 OR \"b\" COLLATE \"NOCASE\" = ? AND \"a\" = ?"
                    .to_owned(),
            ),
        ];
        for (operation, rows, sql) in cases {
            assert_eq!(change(&operation, false).sql(rows), sql, "{operation:?}");
        }
        let overruled = |operation| change(&operation, true).sql(1);
        assert!(overruled(Operation::Insert).starts_with("INSERT OR ABORT INTO"));
        assert!(overruled(Operation::Update { key: key(&["a"]) }).starts_with("UPDATE OR ABORT \"t\""));
    }

    #[test]
    fn parameters_stand_for_columns() {
        let update = change(
            &Operation::Update {
                key: vec!["b".to_owned()],
            },
            false,
        );
        assert_eq!((update.parameters(), update.key()), (&[0, 2, 1][..], &[1][..]));
        assert_eq!(
            update.lookup(),
            "SELECT 1 FROM \"t\" WHERE \"b\" COLLATE \"NOCASE\" = ?"
        );
        assert!(!update.takes_many());
    }
}
