//! Whole databases: definitions of tables, their rows, then keys and indexes, then foreign keys.
//!
//! [`prepare`] reads the definitions of the source, chooses and orders tables, and decides the statements of each; it writes
//! nothing. [`Prepared::run`] goes table by table: it makes the table, [loads](crate::load) its rows, adds what comes after
//! them, and [compares](crate::verify) the table with its source. Foreign keys come last, when every table has its rows. A
//! table that fails leaves the others to go on.
//!
//! Each table is read as it is when its turn comes: there is no one state of all of them.

pub mod builder;
mod definitions;
mod report;
mod run;

use std::sync::Arc;

use tonnage_core::{
    error::{Error, Result},
    operation::Durability,
    reader::Relation,
    schema::{ColumnDefinition, TableDefinition, TableStatements},
    table::TableName,
    target::Target,
    types::ColumnType,
};

pub use self::{
    report::{CopyReport, CopyRows, TableReport, TableState},
    run::Watch,
};
use crate::{
    connected::Connected,
    unload::{UnloadOptions, source::DatabaseSource},
};

/// What is copied, and how.
#[derive(Debug, Clone)]
pub struct CopyOptions {
    /// The tables, by their names or by patterns with `*` and `?`; none for all.
    pub tables: Vec<String>,
    /// Those of them that are not copied.
    pub exclude: Vec<String>,
    /// What becomes of tables that are in the target.
    pub existing: Existing,
    /// Types for columns of new tables: `orders.due`, and the type.
    pub types: Vec<(String, ColumnType)>,
    /// Connections that write a table's rows at once, and as many that read them.
    pub jobs: Option<usize>,
    /// What a commit promises.
    pub durability: Option<Durability>,
    /// Whether each table is compared with its source once it has its rows.
    pub verify: bool,
}

impl Default for CopyOptions {
    /// All tables, all of them new, compared.
    fn default() -> Self {
        Self {
            tables: Vec::new(),
            exclude: Vec::new(),
            existing: Existing::Refused,
            types: Vec::new(),
            jobs: None,
            durability: None,
            verify: true,
        }
    }
}

/// What becomes of tables that are in the target.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Existing {
    /// They keep the copy from beginning.
    Refused,
    /// They are dropped with their rows.
    Replaced,
    /// Those that a copy has made are gone on with: one that has all rows of its source is left, another is made again.
    Resumed,
}

/// A copy that has been decided and not begun.
pub struct Prepared {
    source: Connected,
    target: Connected,
    /// The target for rows whose foreign keys are not in force yet.
    writer: Arc<dyn Target>,
    options: CopyOptions,
    /// Parents first.
    tables: Vec<Planned>,
    /// What is not copied.
    left_out: Vec<String>,
}

/// A table that is to be copied.
pub struct Planned {
    /// As the source has it.
    pub definition: TableDefinition,
    /// Its name in the target.
    pub name: TableName,
    /// What makes it there.
    pub statements: TableStatements,
    /// The columns that are read and written: all that the target does not compute.
    columns: Vec<String>,
    /// Those that are read as the source's own text, since they are to be text.
    texts: Vec<String>,
    /// Whether the target has a table of the name.
    pub exists: bool,
}

impl Prepared {
    /// The tables, in the order in which they are copied.
    pub fn tables(&self) -> &[Planned] {
        &self.tables
    }

    /// What is not copied, a few words each.
    pub fn left_out(&self) -> &[String] {
        &self.left_out
    }
}

/// Decides a copy of `source` into `target`. Reads both; writes nothing.
///
/// `Config` where a name or pattern means no table, or where the target has one of the tables and
/// [`CopyOptions::existing`] refuses that; `Schema` for what the target cannot have.
pub async fn prepare(source: &Connected, target: &Connected, options: CopyOptions) -> Result<Prepared> {
    let from = source.target.schemas()?;
    let to = target.target.schemas()?;
    let found = from.definitions().await?;
    let mut left_out: Vec<String> = found.others;
    let is_same_kind = from.kind() == to.kind();
    let mut chosen = definitions::chosen(found.tables, &options)?;
    if chosen.is_empty() {
        return Err(Error::config(format!("{} has no table to be copied", source.url))
            .hint("is it the database you mean?"));
    }
    left_out.extend(definitions::without_absent_parents(&mut chosen));
    let ordered = definitions::parents_first(chosen);
    let keeps_schemas = is_same_kind && source.target.capabilities().own_schema.is_none();
    let mut named = match is_same_kind {
        true => ordered.clone(),
        false => definitions::renamed(ordered.clone())?,
    };
    let mut tables = Vec::with_capacity(ordered.len());
    for (definition, named) in ordered.into_iter().zip(&mut named) {
        let name = match keeps_schemas {
            true => definition.name.clone(),
            false => TableName::bare(definition.name.name.clone()),
        };
        // What is computed there is a column like others in another kind of database.
        let is_given = |column: &&ColumnDefinition| !(is_same_kind && column.generated);
        let given = definition.columns.iter().filter(is_given);
        let columns: Vec<String> = given.map(|column| column.name.clone()).collect();
        let mut texts = Vec::new();
        left_out.extend(within(&definition.name, &definition.left_out));
        let statements = match is_same_kind {
            true => definition.own.clone(),
            false => {
                texts = texts_of(&definition, &options);
                set_types(source, &definition, named, (&columns, &texts), &options).await?;
                left_out.extend(within(&definition.name, &definition.only_own));
                let statements = to.statements(named)?;
                left_out.extend(within(&definition.name, &statements.lost));
                statements
            }
        };
        let exists = definitions::existing(&*target.target, &name).await?.is_some();
        tables.push(Planned {
            definition,
            name,
            statements,
            columns,
            texts,
            exists,
        });
    }
    check_types(&options, is_same_kind, &tables)?;
    check_existing(&options, &tables, target)?;
    let writer = match to.unchecked().await? {
        Some(writer) => writer,
        None => target.target.clone(),
    };
    Ok(Prepared {
        source: source.clone(),
        target: target.clone(),
        writer,
        options,
        tables,
        left_out,
    })
}

fn within<'a>(table: &'a TableName, what: &'a [String]) -> impl Iterator<Item = String> + 'a {
    what.iter().map(move |what| format!("{what} (of {table})"))
}

/// All rows of a table of the source.
async fn open(
    source: &Connected,
    table: &TableName,
    columns: &[String],
    texts: &[String],
    jobs: Option<usize>,
) -> Result<DatabaseSource> {
    let options = UnloadOptions {
        jobs,
        texts: texts.to_vec(),
        columns: Some(columns.to_vec()),
        ..UnloadOptions::new(
            Relation::Table(table.clone()),
            tonnage_formats::sinks::Output::new("-"),
        )
    };
    let shown = format!("{} {table}", source.url);
    DatabaseSource::open(&*source.target, &shown, &options.request()?).await
}

/// Gives the columns of `named` the types that the rows are read as, or that were asked for.
async fn set_types(
    source: &Connected,
    definition: &TableDefinition,
    named: &mut TableDefinition,
    (columns, texts): (&[String], &[String]),
    options: &CopyOptions,
) -> Result<()> {
    use tonnage_core::source::Source;
    let rows = open(source, &definition.name, columns, texts, Some(1)).await?;
    for column in &mut named.columns {
        let read = rows.schema().columns.iter().find(|read| read.name == column.name);
        let asked = options
            .types
            .iter()
            .find(|(name, _)| is_column(name, &definition.name, &column.name));
        let ty = asked
            .map(|(_, ty)| *ty)
            .or_else(|| read.and_then(|read| read.suggested));
        column.ty = ty.ok_or_else(|| {
            Error::schema(format!(
                "{}: no table column can carry what '{}' holds",
                definition.name, column.name
            ))
            .hint("--exclude leaves the table out")
        })?;
    }
    Ok(())
}

/// The columns that are to be text in the target.
fn texts_of(definition: &TableDefinition, options: &CopyOptions) -> Vec<String> {
    let is_text = |column: &&ColumnDefinition| {
        let mut asked = options
            .types
            .iter()
            .filter(|(_, ty)| matches!(ty, ColumnType::Text { .. }));
        asked.any(|(name, _)| is_column(name, &definition.name, &column.name))
    };
    let texts = definition.columns.iter().filter(is_text);
    texts.map(|column| column.name.clone()).collect()
}

/// Whether `asked`, as `orders.due` or `shop.orders.due`, is this column.
fn is_column(asked: &str, table: &TableName, column: &str) -> bool {
    let short = format!("{}.{column}", table.name).to_lowercase();
    let long = format!("{table}.{column}").to_lowercase();
    let asked = asked.to_lowercase();
    asked == short || asked == long
}

fn check_types(options: &CopyOptions, is_same_kind: bool, tables: &[Planned]) -> Result<()> {
    if let Some((name, ty)) = options.types.first().filter(|_| is_same_kind) {
        return Err(Error::config(format!(
            "--type {name}={ty}: both databases are of one kind, and tables are made as they are"
        ))
        .hint("leave it out"));
    }
    for (name, ty) in &options.types {
        let is_there = tables.iter().any(|table| {
            let definition = &table.definition;
            let mut columns = definition.columns.iter();
            columns.any(|column| is_column(name, &definition.name, &column.name))
        });
        if !is_there {
            return Err(
                Error::config(format!("--type {name}={ty}: no such column is copied"))
                    .hint("write it as TABLE.COLUMN=TYPE"),
            );
        }
    }
    Ok(())
}

fn check_existing(options: &CopyOptions, tables: &[Planned], target: &Connected) -> Result<()> {
    /// So many are named.
    const NAMED_MAX: usize = 5;
    let there: Vec<String> = tables
        .iter()
        .filter(|table| table.exists)
        .map(|table| table.name.to_string())
        .collect();
    if there.is_empty() || options.existing != Existing::Refused {
        return Ok(());
    }
    let mut named = there[..there.len().min(NAMED_MAX)].join(", ");
    if there.len() > NAMED_MAX {
        named.push_str(&format!(" and {} more", there.len() - NAMED_MAX));
    }
    Err(Error::config(format!("{} has tables of these names: {named}", target.url)).hint(
        "--resume goes on with a copy that was interrupted, --replace drops them with their rows, --exclude leaves \
         them out",
    ))
}
