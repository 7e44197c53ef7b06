//! The statements that carry rows. Identifiers are quoted, values are never part of the text.

use tonnage_core::{
    error::{Error, Result},
    operation::{Method, Operation, Split},
    table::TableName,
    target::WriteRequest,
};

use super::{
    catalog::Described,
    encode::ColumnEncoder,
    execute,
    product::{Product, Version},
    types::{Kind, quote, quote_table},
};

/// How rows reach the table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum WriteStrategy {
    /// One row a statement.
    Row(String),
    /// Many rows an execution of a statement of one row: MariaDB's bulk protocol.
    Bulk(String),
    /// Many rows a statement.
    Rows(ManyRows),
    /// LOAD DATA, and the way that finds the bad rows.
    Load {
        /// The statement.
        load: String,
        /// Where a load is not exactly what was sent.
        strict: Box<WriteStrategy>,
    },
}

/// The parts of a statement of many rows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ManyRows {
    /// Up to the first row.
    pub head: String,
    /// A row.
    pub row: String,
    /// What follows the rows.
    pub tail: String,
}

impl ManyRows {
    /// The statement for so many rows.
    pub fn statement(&self, rows: usize) -> String {
        format!(
            "{}{}{}",
            self.head,
            vec![self.row.as_str(); rows].join(","),
            self.tail
        )
    }
}

/// What tells PolarDB-X to run a statement of many rows as one.
const UNSPLIT: &str = "/*+TDDL:CMD_EXTRA(BATCH_INSERT_POLICY=NONE)*/ ";

impl WriteStrategy {
    /// This way, with statements of many rows left whole where that was asked for.
    pub fn for_split(self, version: &Version, split: Split) -> Self {
        match self {
            Self::Rows(parts) if version.product == Product::PolarDbX && split == Split::None => {
                Self::Rows(ManyRows {
                    head: format!("{UNSPLIT}{}", parts.head),
                    ..parts
                })
            }
            other => other,
        }
    }
}

/// What the server's count says of a statement's rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Account {
    /// Every row counts once.
    All,
    /// Every row counts once, or twice where it replaced another.
    OnceOrTwice,
    /// The rows written; the others were left out by the operation.
    Rest,
    /// Of one row: it had an effect, on whichever number of rows, or was left out.
    Any,
}

/// The statements of one plan.
#[derive(Debug)]
pub(super) struct Statements {
    /// The plan's columns, in the order in which the statements take them.
    pub columns: Vec<ColumnEncoder>,
    /// Where each of these is in a batch.
    pub order: Vec<usize>,
    pub way: WriteStrategy,
    /// The statement of one row.
    pub one: Option<String>,
    pub account: Account,
    /// Whether a savepoint undoes anything.
    pub transactional: bool,
}

/// The plan's columns as the table has them now.
fn columns(plan: &WriteRequest, described: &Described) -> Result<Vec<ColumnEncoder>> {
    plan.columns
        .iter()
        .map(|column| {
            let at = described.table.columns.iter().position(|c| c.name == column.name);
            let found = at.and_then(|at| Some((&described.table.columns[at], described.kinds[at].as_ref()?)));
            let (table_column, kind) = found.ok_or_else(|| {
                Error::schema(format!(
                    "{} has no column '{}' any more",
                    plan.table.name, column.name
                ))
                .hint("the table was altered while it was loaded")
            })?;
            Ok(ColumnEncoder {
                name: column.name.clone(),
                ty: column.ty,
                kind: kind.clone(),
                nullable: table_column.nullable,
            })
        })
        .collect()
}

/// Builds a plan's statements.
pub(super) fn statements(
    plan: &WriteRequest,
    described: &Described,
    version: &Version,
) -> Result<Statements> {
    if let Operation::Statement { statement, .. } = &plan.operation {
        return execute::statements(plan, statement, described, version);
    }
    let all = columns(plan, described)?;
    let key = plan.operation.key();
    // An update names the columns to set first, then those of the key.
    let order: Vec<usize> = match &plan.operation {
        Operation::Update { .. } => {
            let is_key = |at: &usize| key.contains(&all[*at].name);
            let (keys, others): (Vec<usize>, Vec<usize>) = (0..all.len()).partition(is_key);
            others.into_iter().chain(keys).collect()
        }
        _ => (0..all.len()).collect(),
    };
    let columns: Vec<_> = order.iter().map(|at| all[*at].clone()).collect();
    let table = quote_table(&described.table.name);
    let names: Vec<_> = columns.iter().map(|c| quote(&c.name)).collect();
    let parameters = vec!["?"; columns.len()].join(", ");
    let inserted = |tail: String| ManyRows {
        head: format!("INSERT INTO {table} ({}) VALUES ", names.join(", ")),
        row: format!("({parameters})"),
        tail,
    };
    let rows = match &plan.operation {
        Operation::Insert => Some(inserted(String::new())),
        Operation::Upsert { key } => Some(inserted(replacing(key, &columns, version))),
        Operation::Ignore { key } => Some(inserted(leaving(key)?)),
        Operation::Update { .. } | Operation::Delete { .. } => None,
        Operation::Statement { .. } => return Err(Error::bug("a statement has text of its own")),
    };
    let one = match &rows {
        Some(rows) => rows.statement(1),
        None => changing(&plan.operation, &table, &columns),
    };
    let array = || match (version.has_bulk(), &rows) {
        (true, _) | (false, None) => WriteStrategy::Bulk(one.clone()),
        (false, Some(rows)) => WriteStrategy::Rows(rows.clone()).for_split(version, plan.split),
    };
    let way = match plan.method {
        Method::Single | Method::Batch => WriteStrategy::Row(one.clone()),
        Method::Array => array(),
        Method::Native => WriteStrategy::Load {
            load: load(&table, &columns),
            strict: Box::new(array()),
        },
    };
    let account = match &plan.operation {
        Operation::Insert => Account::All,
        Operation::Upsert { .. } => Account::OnceOrTwice,
        _ => Account::Rest,
    };
    Ok(Statements {
        columns,
        order,
        way,
        one: Some(one),
        account,
        transactional: described.table.transactional,
    })
}

/// Empties a table within a transaction, which TRUNCATE would end.
pub(super) fn empty(table: &TableName) -> String {
    format!("DELETE FROM {}", quote_table(table))
}

/// The end of an INSERT whose rows replace what their key finds.
fn replacing(key: &[String], columns: &[ColumnEncoder], version: &Version) -> String {
    let given = |name: &str| match version.has_row_alias() {
        true => format!("`given`.{}", quote(name)),
        false => format!("VALUES({})", quote(name)),
    };
    let others: Vec<_> = columns
        .iter()
        .filter(|c| !key.contains(&c.name))
        .map(|c| format!("{} = {}", quote(&c.name), given(&c.name)))
        .collect();
    if others.is_empty() {
        // A row that is there has nothing to be changed. With an alias the column's name would be that of two.
        let first = columns.iter().take(1).map(|c| quote(&c.name));
        return first
            .map(|name| format!(" ON DUPLICATE KEY UPDATE {name} = {name}"))
            .collect();
    }
    let alias = match version.has_row_alias() {
        true => " AS `given`",
        false => "",
    };
    format!("{alias} ON DUPLICATE KEY UPDATE {}", others.join(", "))
}

/// The end of an INSERT that leaves a row alone whose key is there. INSERT IGNORE would let bad values pass too.
fn leaving(key: &[String]) -> Result<String> {
    let first = key
        .first()
        .map(|name| quote(name))
        .ok_or_else(|| Error::bug("an ignore without a key"))?;
    Ok(format!(" ON DUPLICATE KEY UPDATE {first} = {first}"))
}

/// A statement that changes or removes the row that has a key. A null equals nothing.
fn changing(operation: &Operation, table: &str, columns: &[ColumnEncoder]) -> String {
    let key = operation.key();
    let (keys, others): (Vec<_>, Vec<_>) = columns.iter().partition(|c| key.contains(&c.name));
    let same: Vec<_> = keys
        .into_iter()
        .map(|c| match &c.kind {
            // Compared with text a decimal would be compared as a float.
            Kind::Decimal { precision, scale, .. } => {
                format!("{} = CAST(? AS DECIMAL({precision},{scale}))", quote(&c.name))
            }
            _ => format!("{} = ?", quote(&c.name)),
        })
        .collect();
    match operation {
        Operation::Update { .. } => {
            let set: Vec<_> = others
                .into_iter()
                .map(|c| format!("{} = ?", quote(&c.name)))
                .collect();
            format!(
                "UPDATE {table} SET {} WHERE {}",
                set.join(", "),
                same.join(" AND ")
            )
        }
        _ => format!("DELETE FROM {table} WHERE {}", same.join(" AND ")),
    }
}

/// The name of the file that there is not: the driver answers with what is in memory.
const IN_MEMORY: &str = "tonnage";

fn load(table: &str, columns: &[ColumnEncoder]) -> String {
    let mut fields = Vec::with_capacity(columns.len());
    let mut made = Vec::new();
    for (index, column) in columns.iter().enumerate() {
        let variable = format!("@tonnage_{index}");
        match column.kind.of_text(&variable) {
            None => fields.push(quote(&column.name)),
            Some(value) => {
                made.push(format!("{} = {value}", quote(&column.name)));
                fields.push(variable);
            }
        }
    }
    let set = match made.is_empty() {
        true => String::new(),
        false => format!(" SET {}", made.join(", ")),
    };
    format!(
        "LOAD DATA LOCAL INFILE '{IN_MEMORY}' INTO TABLE {table} CHARACTER SET utf8mb4 \
         FIELDS TERMINATED BY '\\t' ENCLOSED BY '' ESCAPED BY '\\\\' LINES STARTING BY '' TERMINATED BY '\\n' \
         ({}){set}",
        fields.join(", ")
    )
}
