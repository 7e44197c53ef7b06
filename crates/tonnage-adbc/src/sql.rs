//! The statements that change rows of a DuckDB table. Names are always quoted; values come in a relation, the rows of a
//! temporary table or of VALUES with parameters.
//!
//! The relation has the rows' places in [`PLACE`] and their values in `tonnage_0`, `tonnage_1` and so on, in the types that
//! carry them ([`types::carried`](super::types::carried)).

use std::fmt::Write as _;

use tonnage_core::{
    error::{Error, Result},
    operation::Operation,
    schema::Additions,
    statement::Dialect,
    table::{ColumnSpec, TableName, TableSpec, refused_columns, refused_names},
    types::ColumnType,
};

use super::types;

/// How a user's own statements are written.
pub(crate) const DIALECT: Dialect = Dialect {
    dollars: true,
    brackets: false,
    backticks: false,
    hashes: false,
    backslashes: false,
    slashes: false,
    keeps_case: true,
    own_parameters: &['?', '$'],
};

/// The temporary table that rows are put into.
pub(crate) const STAGE: &str = "tonnage_stage";
/// The column with the places of rows.
pub(crate) const PLACE: &str = "tonnage_n";

/// The most columns of a table that is made here.
const COLUMNS_MAX: usize = 10_000;

/// A name as an identifier.
pub(crate) fn quote(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// A table's name as an identifier.
pub(crate) fn name_of(table: &TableName) -> String {
    let schema = table.schema.as_deref().unwrap_or("main");
    format!("{}.{}", quote(schema), quote(&table.name))
}

/// A text as a literal.
pub(crate) fn text_literal(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

/// Parameter `index` of a statement.
pub(crate) fn parameter(index: usize) -> String {
    format!("${}", index + 1)
}

/// The column of the relation with the values of column `at`.
pub(crate) fn value(at: usize) -> String {
    format!("tonnage_{at}")
}

/// `CREATE TABLE`, with what is added to it.
pub(crate) fn create_table_with(spec: &TableSpec, additions: &Additions) -> Result<String> {
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
    refused_columns(
        &spec.name,
        refused_names(&spec.columns, COLUMNS_MAX, str::to_lowercase),
    )?;
    let mut lines = Vec::with_capacity(spec.columns.len() + 1);
    for column in &spec.columns {
        let definition = column_definition(column, spec.key.contains(&column.name))?;
        lines.push(definition + additions.of_column(&column.name));
    }
    if !spec.key.is_empty() {
        let key: Vec<_> = spec.key.iter().map(|name| quote(name)).collect();
        lines.push(format!("PRIMARY KEY ({})", key.join(", ")));
    }
    lines.extend_from_slice(&additions.lines);
    Ok(format!(
        "CREATE TABLE {} (\n  {}\n)",
        name_of(&spec.name),
        lines.join(",\n  ")
    ))
}

/// The statements that add columns to a table. DuckDB adds no column with a condition.
pub(crate) fn add_columns(table: &TableName, columns: &[ColumnSpec]) -> Result<String> {
    refused_columns(table, refused_names(columns, COLUMNS_MAX, str::to_lowercase))?;
    let each = columns.iter().map(|column| {
        let (name, ty) = (quote(&column.name), types::declared(&column.ty));
        format!("ALTER TABLE {} ADD COLUMN {name} {ty};", name_of(table))
    });
    Ok(each.collect::<Vec<_>>().join("\n"))
}

fn column_definition(column: &ColumnSpec, in_key: bool) -> Result<String> {
    let name = quote(&column.name);
    if column.ty == ColumnType::Any {
        return Err(Error::bug(format!(
            "column {} has no type to be created with",
            column.name
        )));
    }
    let mut definition = format!("{name} {}", types::declared(&column.ty));
    if !column.nullable || in_key {
        definition.push_str(" NOT NULL");
    }
    // A declared length means nothing to DuckDB, so a limit that was asked for becomes a check.
    if let ColumnType::Text {
        chars_max: Some(chars),
    }
    | ColumnType::Char { chars } = column.ty
    {
        let _ = write!(definition, " CHECK (length({name}) <= {chars})");
    }
    Ok(definition)
}

/// A column that is written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Written {
    pub(crate) name: String,
    /// Its type in the table.
    pub(crate) declared: String,
    /// The type that its values come in.
    pub(crate) carried: String,
    /// Whether the two are the same.
    pub(crate) as_it_is: bool,
}

impl Written {
    /// Its value of the relation's row `tonnage_s`, in the column's type.
    fn cast(&self, at: usize) -> String {
        match self.as_it_is {
            true => format!("tonnage_s.{}", value(at)),
            false => format!("CAST(tonnage_s.{} AS {})", value(at), self.declared),
        }
    }

    /// The same, and null where there is no such value.
    pub(crate) fn try_cast(&self, at: usize) -> String {
        match self.as_it_is {
            true => format!("tonnage_s.{}", value(at)),
            false => format!("TRY_CAST(tonnage_s.{} AS {})", value(at), self.declared),
        }
    }
}

/// Which rows a statement is given, of those of equal keys in one write. It may not touch a row twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Of {
    /// All.
    All,
    /// The first one of each key.
    First,
    /// The one of this number, from 1 on, of each key.
    Number(i64),
    /// The last one of each key.
    Last,
}

/// The statement that applies rows.
#[derive(Debug, Clone)]
pub(crate) struct Change {
    pub(crate) table: TableName,
    pub(crate) columns: Vec<Written>,
    /// Positions of the key's columns.
    pub(crate) key: Vec<usize>,
    pub(crate) operation: Operation,
}

impl Change {
    /// What follows FROM: the relation, or of equal keys one row.
    pub(crate) fn source(&self, relation: &str, of: Of) -> String {
        let (order, number) = match of {
            Of::All => return relation.to_owned(),
            Of::First => ("", 1),
            Of::Number(number) => ("", number),
            Of::Last => (" DESC", 1),
        };
        let none: Vec<_> = self
            .key
            .iter()
            .map(|at| format!("{} IS NULL", value(*at)))
            .collect();
        // Rows without a key are equal to none.
        let keyless = none.join(" OR ");
        let first = match number {
            1 => format!(" OR {keyless}"),
            _ => format!(" AND NOT ({keyless})"),
        };
        format!(
            "(SELECT * FROM {relation} AS tonnage_s QUALIFY {} = {number}{first})",
            self.numbered(order)
        )
    }

    /// The number of a row of the relation `tonnage_s` among those of its key.
    fn numbered(&self, order: &str) -> String {
        let keys: Vec<_> = self
            .key
            .iter()
            .map(|at| self.columns[*at].try_cast(*at))
            .collect();
        format!(
            "row_number() OVER (PARTITION BY {} ORDER BY {PLACE}{order})",
            keys.join(", ")
        )
    }

    /// A query of how often a key comes in the relation.
    pub(crate) fn repeats(&self, relation: &str) -> String {
        let given: Vec<_> = self
            .key
            .iter()
            .map(|at| format!("{} IS NOT NULL", value(*at)))
            .collect();
        let keys: Vec<_> = self
            .key
            .iter()
            .map(|at| self.columns[*at].try_cast(*at))
            .collect();
        format!(
            "SELECT CAST(max(number) AS BIGINT) FROM (SELECT count(*) AS number FROM {relation} AS tonnage_s WHERE {} \
             GROUP BY {})",
            given.join(" AND "),
            keys.join(", ")
        )
    }

    /// That a row of the table has the key of `tonnage_s`.
    pub(crate) fn is_row(&self) -> String {
        let equal = |at: &usize| {
            let column = &self.columns[*at];
            format!(
                "{}.{} = {}",
                quote(&self.table.name),
                quote(&column.name),
                column.try_cast(*at)
            )
        };
        self.key.iter().map(equal).collect::<Vec<_>>().join(" AND ")
    }

    /// The statement for rows of `relation`.
    pub(crate) fn sql(&self, relation: &str, of: Of) -> Result<String> {
        let table = name_of(&self.table);
        let from = self.source(relation, of);
        let list =
            |each: &dyn Fn(usize) -> String| (0..self.columns.len()).map(each).collect::<Vec<_>>().join(", ");
        let insert = |tail: &str| {
            format!(
                "INSERT INTO {table} ({}) SELECT {} FROM {from} AS tonnage_s{tail}",
                list(&|at| quote(&self.columns[at].name)),
                list(&|at| self.columns[at].cast(at)),
            )
        };
        let others: Vec<usize> = (0..self.columns.len())
            .filter(|at| !self.key.contains(at))
            .collect();
        let key: Vec<_> = self.key.iter().map(|at| quote(&self.columns[*at].name)).collect();
        let key = key.join(", ");
        Ok(match &self.operation {
            Operation::Insert => insert(""),
            Operation::Ignore { .. } => insert(&format!(" ON CONFLICT ({key}) DO NOTHING")),
            Operation::Upsert { .. } if others.is_empty() => {
                insert(&format!(" ON CONFLICT ({key}) DO NOTHING"))
            }
            Operation::Upsert { .. } => {
                let set = others.iter().map(|at| {
                    let name = quote(&self.columns[*at].name);
                    format!("{name} = excluded.{name}")
                });
                let set = set.collect::<Vec<_>>().join(", ");
                insert(&format!(" ON CONFLICT ({key}) DO UPDATE SET {set}"))
            }
            Operation::Update { .. } => {
                let set = others.iter().map(|at| {
                    format!(
                        "{} = {}",
                        quote(&self.columns[*at].name),
                        self.columns[*at].cast(*at)
                    )
                });
                let set = set.collect::<Vec<_>>().join(", ");
                format!(
                    "UPDATE {table} SET {set} FROM {from} AS tonnage_s WHERE {}",
                    self.is_row()
                )
            }
            Operation::Delete { .. } => {
                let keys: Vec<_> = self.key.iter().map(|at| value(*at)).collect();
                let keys = keys.join(", ");
                format!(
                    "DELETE FROM {table} USING (SELECT DISTINCT {keys} FROM {from}) AS tonnage_s WHERE {}",
                    self.is_row()
                )
            }
            Operation::Statement { .. } => return Err(Error::bug("a statement is none of ours")),
        })
    }

    /// A relation of so many rows, whose values are parameters, row after row.
    pub(crate) fn values(&self, rows: usize) -> String {
        let mut next = 0;
        let mut row = |place: usize| {
            let mut values = vec![place.to_string()];
            for column in &self.columns {
                values.push(format!("CAST({} AS {})", parameter(next), column.carried));
                next += 1;
            }
            format!("({})", values.join(", "))
        };
        let rows: Vec<_> = (0..rows).map(&mut row).collect();
        let names: Vec<_> = (0..self.columns.len()).map(value).collect();
        format!(
            "(SELECT * FROM (VALUES {}) AS tonnage_v({PLACE}, {}))",
            rows.join(", "),
            names.join(", ")
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(operation: Operation) -> Change {
        let column = |name: &str, declared: &str, carried: &str| Written {
            name: name.to_owned(),
            declared: declared.to_owned(),
            carried: carried.to_owned(),
            as_it_is: declared == carried,
        };
        Change {
            table: TableName::bare("t"),
            columns: vec![
                column("id", "UBIGINT", "DECIMAL(20,0)"),
                column("v", "VARCHAR", "VARCHAR"),
            ],
            key: if operation.key().is_empty() {
                Vec::new()
            } else {
                vec![0]
            },
            operation,
        }
    }

    #[test]
    fn changes() {
        let key = || vec!["id".to_owned()];
        let insert = "INSERT INTO \"main\".\"t\" (\"id\", \"v\") SELECT CAST(tonnage_s.tonnage_0 AS UBIGINT), \
                      tonnage_s.tonnage_1 FROM ";
        let cases = [
            (Operation::Insert, Of::All, format!("{insert}s AS tonnage_s")),
            (
                Operation::Upsert { key: key() },
                Of::All,
                format!("{insert}s AS tonnage_s ON CONFLICT (\"id\") DO UPDATE SET \"v\" = excluded.\"v\""),
            ),
            (
                Operation::Ignore { key: key() },
                Of::First,
                format!(
                    "{insert}(SELECT * FROM s AS tonnage_s QUALIFY row_number() OVER (PARTITION BY \
                     TRY_CAST(tonnage_s.tonnage_0 AS UBIGINT) ORDER BY tonnage_n) = 1 OR tonnage_0 IS NULL) AS tonnage_s ON CONFLICT \
                     (\"id\") DO NOTHING"
                ),
            ),
            (
                Operation::Update { key: key() },
                Of::All,
                "UPDATE \"main\".\"t\" SET \"v\" = tonnage_s.tonnage_1 FROM s AS tonnage_s WHERE \"t\".\"id\" = \
                 TRY_CAST(tonnage_s.tonnage_0 AS UBIGINT)"
                    .to_owned(),
            ),
            (
                Operation::Delete { key: key() },
                Of::All,
                "DELETE FROM \"main\".\"t\" USING (SELECT DISTINCT tonnage_0 FROM s) AS tonnage_s WHERE \"t\".\"id\" = \
                 TRY_CAST(tonnage_s.tonnage_0 AS UBIGINT)"
                    .to_owned(),
            ),
        ];
        for (operation, of, wanted) in cases {
            assert_eq!(change(operation).sql("s", of).unwrap(), wanted);
        }
        assert_eq!(
            change(Operation::Insert).values(2),
            "(SELECT * FROM (VALUES (0, CAST($1 AS DECIMAL(20,0)), CAST($2 AS VARCHAR)), (1, CAST($3 AS DECIMAL(20,0)), \
             CAST($4 AS VARCHAR))) AS tonnage_v(tonnage_n, tonnage_0, tonnage_1))"
        );
    }

    #[test]
    fn create() {
        let column = |name: &str, ty, nullable| ColumnSpec {
            name: name.to_owned(),
            ty,
            nullable,
        };
        let spec = TableSpec {
            name: TableName::bare("odd \"name"),
            columns: vec![
                column("id", ColumnType::Int64, false),
                column("code", ColumnType::Text { chars_max: Some(3) }, true),
            ],
            key: vec!["id".to_owned()],
        };
        assert_eq!(
            create_table_with(&spec, &Additions::default()).unwrap(),
            "CREATE TABLE \"main\".\"odd \"\"name\" (\n  \"id\" BIGINT NOT NULL,\n  \"code\" VARCHAR CHECK (length(\"code\") <= 3),\n  \
             PRIMARY KEY (\"id\")\n)"
        );
    }
}
