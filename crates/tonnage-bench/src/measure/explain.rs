//! How rows of one table reach its pages and the log, by each method: on an empty copy of it, with its own rows where it
//! has enough, and what the catalogue adds to that.
//!
//! - The table itself is only read. The copy is removed whatever happens.
//! - What a database writes by itself is watched for a moment before each load and taken off.
//! - A verdict comes from records that were counted, or from a cause in the catalogue that decides; else it is unknown,
//!   and says why.
//! - What is updated or deleted was put there before, with other values outside its key, so that every row is changed.

use std::sync::Arc;

use arrow::{array::RecordBatch, datatypes::SchemaRef};
use serde::Serialize;
use tonnage_core::{
    error::{Error, ErrorKind, Result},
    instruments::{ScratchPlace, Triggers},
    operation::{Durability, Method, Mode},
    reader::BeyondArrow,
    source::Source,
    stop::Stop,
    table::{Column, Table, TableName, columns_hint},
    target::Target,
};
use tonnage_engine::{
    load::{Ended, prepare},
    plan::{LedgerPlace, LoadOptions},
};
use tonnage_formats::sources::{self, Format, TextOptions, batches::BatchSource};

pub use super::judge::ByMethod;
use super::{
    bench::{instruments, prefix},
    judge::{Seen, judge, unseen},
    look::look,
    made_up::made_up,
    own::{as_they_are, read, rows_of, table_named, writable},
    rotated::Rotated,
};

/// Rows that go by [`Method::Single`] at most: each is a commit.
const SINGLE_ROWS_MAX: u64 = 500;
/// Rows that are held in memory at most.
pub const ROWS_MAX: u64 = 100_000;

/// What to look at, and how.
#[derive(Debug, Clone)]
pub struct ExplainOptions {
    /// The table.
    pub table: TableName,
    /// Files whose rows are taken; none for the table's own, or made-up ones.
    pub files: Vec<String>,
    /// The columns that are given; none for those without a default, as a program that inserts leaves the others out.
    pub columns: Option<Vec<String>>,
    /// Of inserts, updates and deletes; none for inserts, and for the others where the table has a primary key.
    pub operations: Option<Vec<Mode>>,
    /// None for all that the database has.
    pub methods: Option<Vec<Method>>,
    /// Whether the copy has the table's triggers. What these do to other tables they do.
    pub triggers: bool,
    /// Rows at most, 1 to [`ROWS_MAX`].
    pub rows: u64,
    /// Rows of a write.
    pub batch_rows: usize,
    /// None for the strongest.
    pub durability: Option<Durability>,
}

/// What was found.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Explained {
    /// The database and its version.
    pub product: String,
    /// Its URL, the password removed.
    pub target: String,
    /// The table.
    pub table: String,
    /// Where the rows came from.
    pub rows_from: String,
    /// The columns that an insert gave.
    pub columns: Vec<String>,
    /// Those that it left to their defaults.
    pub left_out: Vec<String>,
    /// What the copy had not, a phrase each.
    pub lacking: Vec<String>,
    /// Of each operation by each method.
    pub methods: Vec<ByMethod>,
}

/// Looking that has been decided and not begun.
pub struct Explain {
    target: Arc<dyn Target>,
    url: String,
    options: ExplainOptions,
    table: Table,
    /// Those that an insert gives.
    columns: Vec<String>,
    operations: Vec<Mode>,
    prefix: String,
}

/// Rows that can be had again and again.
enum Feed {
    Files(Vec<String>),
    Batches(SchemaRef, Vec<RecordBatch>),
    /// The directory of [`MADE_UP`], which goes with it.
    MadeUp(tempfile::TempDir),
}

/// The file of made-up rows.
const MADE_UP: &str = "rows.csv";

impl Feed {
    fn source(&self) -> Result<Box<dyn Source>> {
        let text = TextOptions::default();
        match self {
            Self::Files(files) => sources::open(files, None, &text),
            Self::Batches(schema, batches) => {
                let batches = batches.clone().into_iter();
                let source = BatchSource::new("the table's own rows", schema.clone(), batches);
                Ok(Box::new(source.beyond_arrow(BeyondArrow::Carried)))
            }
            Self::MadeUp(directory) => {
                let path = directory.path().join(MADE_UP).display().to_string();
                sources::open(&[path], Some(Format::Csv), &text)
            }
        }
    }
}

/// The columns that are given.
fn columns(table: &Table, asked: Option<&[String]>) -> Result<Vec<String>> {
    if let Some(asked) = asked {
        let found = asked.iter().map(|name| match table.column(name) {
            Some(column) => Ok(column.name.clone()),
            None => Err(
                Error::schema(format!("table {} has no column '{name}'", table.name))
                    .hint(columns_hint(name, table.columns.iter().map(|c| c.name.as_str()))),
            ),
        });
        return found.collect();
    }
    let given: Vec<String> = writable(table)
        .filter(|column| !column.has_default)
        .map(|column| column.name.clone())
        .collect();
    if !given.is_empty() {
        return Ok(given);
    }
    let all: Vec<String> = writable(table).map(|column| column.name.clone()).collect();
    match all.is_empty() {
        true => Err(Error::schema(format!(
            "table {} has no column that can be written",
            table.name
        ))),
        false => Ok(all),
    }
}

/// The operations to look at. `Config` for one that cannot be, `Schema` for one that needs a key that is not there.
fn operations(table: &Table, asked: Option<&[Mode]>) -> Result<Vec<Mode>> {
    let keyed = table.primary_key().is_some();
    let Some(asked) = asked else {
        return Ok(match keyed {
            true => vec![Mode::Insert, Mode::Update, Mode::Delete],
            false => vec![Mode::Insert],
        });
    };
    for operation in asked {
        match operation {
            Mode::Insert => {}
            Mode::Update | Mode::Delete if keyed => {}
            Mode::Update | Mode::Delete => {
                return Err(Error::schema(format!(
                    "{} has no primary key, by which {} would find its rows",
                    table.name,
                    operation.phrase()
                ))
                .hint("--operation insert"));
            }
            _ => {
                return Err(Error::config(format!("{} cannot be looked at", operation.name()))
                    .hint("--operation insert,update,delete"));
            }
        }
    }
    Ok(asked.to_vec())
}

impl Explain {
    /// Finds the table and decides the columns. Writes nothing. `url` is only shown, so it must be
    /// redacted.
    pub async fn prepare(target: Arc<dyn Target>, url: String, options: ExplainOptions) -> Result<Self> {
        instruments(&*target)?;
        if options.rows == 0 || options.rows > ROWS_MAX {
            return Err(Error::config(format!("--rows must be from 1 to {ROWS_MAX}")));
        }
        if options.batch_rows == 0 {
            return Err(Error::config("--batch-rows must be at least 1"));
        }
        let table = table_named(&*target, &options.table).await?;
        let columns = columns(&table, options.columns.as_deref())?;
        let operations = operations(&table, options.operations.as_deref())?;
        Ok(Self {
            target,
            url,
            options,
            table,
            columns,
            operations,
            prefix: prefix(),
        })
    }

    /// Where the copies will be.
    pub fn place(&self) -> Result<ScratchPlace> {
        Ok(instruments(&*self.target)?.place(&self.prefix))
    }

    /// The table that was found.
    pub fn table(&self) -> &TableName {
        &self.table.name
    }

    /// Looks. `Cancelled` where `stop` was requested; the copies are removed in any case.
    pub async fn run(self, stop: Stop) -> Result<Explained> {
        let (feed, rows_from) = self.feed().await?;
        let capabilities = self.target.capabilities();
        let methods = self.options.methods.as_deref().unwrap_or(capabilities.methods);
        let mut found = Vec::new();
        let mut lacking = Vec::new();
        let each = self
            .operations
            .iter()
            .flat_map(|o| methods.iter().map(move |m| (*o, *m)));
        for (index, (operation, method)) in each.enumerate() {
            if stop.requested() {
                return Err(interrupted());
            }
            let look = Look {
                operation,
                method,
                name: format!("{}_{}", self.prefix, index + 1),
                feed: &feed,
                stop: &stop,
            };
            match self.by_method(&look, &mut lacking).await {
                Err(_) if stop.requested() => return Err(interrupted()),
                one => found.push(one?),
            }
        }
        let left_out = self.table.columns.iter().map(|c| &c.name);
        Ok(Explained {
            product: capabilities.product.clone(),
            target: self.url.clone(),
            table: self.table.name.to_string(),
            rows_from,
            left_out: left_out
                .filter(|name| !self.columns.contains(name))
                .cloned()
                .collect(),
            columns: self.columns.clone(),
            lacking,
            methods: found,
        })
    }

    /// Files, else the table's own rows where there are enough, else rows that are made up.
    async fn feed(&self) -> Result<(Feed, String)> {
        if !self.options.files.is_empty() {
            let files = self.options.files.clone();
            let shown = files.join(", ");
            return Ok((Feed::Files(files), shown));
        }
        let wanted = self.options.rows;
        if let Some((schema, batches)) = self.own_rows().await? {
            let rows: u64 = batches.iter().map(|batch| batch.num_rows() as u64).sum();
            if rows >= wanted {
                return Ok((Feed::Batches(schema, batches), "the table itself".to_owned()));
            }
        }
        let fed = self.fed();
        let columns: Vec<&Column> = fed.iter().filter_map(|name| self.table.column(name)).collect();
        let samples = instruments(&*self.target)?.samples(&self.table).await?;
        let directory = tempfile::tempdir()
            .map_err(|e| Error::new(ErrorKind::Refused, format!("no temporary directory: {e}")))?;
        let path = directory.path().join(MADE_UP);
        std::fs::write(&path, made_up(&columns, &samples, wanted))
            .map_err(|e| Error::new(ErrorKind::Refused, format!("{}: {e}", path.display())))?;
        let told = format!("made up, as the table has fewer than {wanted} rows to take");
        Ok((Feed::MadeUp(directory), told))
    }

    /// Some rows of the table; none where it has none, or cannot be read.
    async fn own_rows(&self) -> Result<Option<(SchemaRef, Vec<RecordBatch>)>> {
        let name = &self.table.name;
        let opened = rows_of(&*self.target, &self.url, name, self.fed(), self.options.rows).await;
        let Ok(source) = opened else { return Ok(None) };
        let columns = as_they_are(&source);
        let rows = self.options.rows;
        let batches = tokio::task::spawn_blocking(move || read(Box::new(source), columns, rows, usize::MAX))
            .await
            .map_err(|e| Error::bug(format!("rows could not be read: {e}")))??;
        Ok(batches
            .first()
            .map(|batch| batch.schema())
            .map(|schema| (schema, batches)))
    }

    fn key(&self) -> &[String] {
        self.table.primary_key().map_or(&[], |key| key.columns.as_slice())
    }

    /// The columns that rows have: what an insert gives, and the key where something is looked for by it.
    fn fed(&self) -> Vec<String> {
        let mut columns = self.columns.clone();
        if self.operations.iter().any(|operation| *operation != Mode::Insert) {
            let further = self.key().iter().filter(|name| !self.columns.contains(name));
            columns.extend(further.cloned());
        }
        columns
    }

    /// The columns that an insert or an update takes of them. An update leaves those alone in which no two rows may be
    /// equal: in between it would make some so.
    fn taken(&self, operation: Mode) -> Vec<String> {
        if operation != Mode::Update {
            return self.columns.clone();
        }
        let unique = |name: &String| {
            let mut others = self.table.keys.iter().filter(|key| !key.primary);
            others.any(|other| other.columns.contains(name))
        };
        let mut columns = self.fed();
        columns.retain(|name| self.key().contains(name) || !unique(name));
        columns
    }

    /// One method, on a copy of its own.
    async fn by_method(&self, look: &Look<'_>, lacking: &mut Vec<String>) -> Result<ByMethod> {
        let Look {
            operation,
            method,
            ref name,
            ..
        } = *look;
        let instruments = instruments(&*self.target)?;
        let causes = instruments
            .causes(&self.table, operation, method, &self.columns)
            .await?;
        let triggers = match self.options.triggers {
            true => Triggers::Copied,
            false => Triggers::LeftOut,
        };
        let looked = match instruments.copy(&self.table, name, triggers).await {
            Ok(copied) => {
                let target = copied.target.unwrap_or_else(|| self.target.clone());
                for what in copied.lacking {
                    if !lacking.contains(&what) {
                        lacking.push(what);
                    }
                }
                self.on_copy(look, target, &copied.table).await
            }
            Err(error) => {
                // Part of it may be there; why it could not be made matters more than why that could not be removed.
                let _ = instruments.discard(name).await;
                return Err(error.at(format!("{} cannot be copied", self.table.name)));
            }
        };
        let discarded = instruments.discard(name).await;
        let found = match looked {
            Ok(seen) => judge(operation, method, seen, &causes),
            Err(error) => {
                // What this method cannot do, another may; anything else would meet them all. That rows cannot be
                // changed or removed is no reason not to tell of inserts.
                let only_this = match error.kind() {
                    ErrorKind::Config | ErrorKind::Schema => true,
                    ErrorKind::Rejected => operation != Mode::Insert,
                    _ => false,
                };
                if !only_this {
                    return Err(match error.kind() {
                        ErrorKind::Rejected => error.hint(format!(
                            "rows of your own: tonnage explain {} {} FILE",
                            self.url, self.table.name
                        )),
                        _ => error,
                    });
                }
                ByMethod {
                    why: causes.into_iter().map(|cause| cause.text).collect(),
                    refused: Some(error.to_string()),
                    ..unseen(operation, method, self.options.batch_rows)
                }
            }
        };
        discarded.map_err(|e| e.at(format!("{name}, which was made to look at, cannot be removed")))?;
        Ok(found)
    }

    async fn on_copy(&self, at: &Look<'_>, target: Arc<dyn Target>, name: &TableName) -> Result<Seen> {
        let table = target.table(name).await?;
        let table = table.ok_or_else(|| Error::bug(format!("the copy {name} is not there once made")))?;
        let asked = LoadOptions {
            durability: self.options.durability.filter(|_| table.less_durable.is_none()),
            jobs: Some(1),
            limit: Some(match at.method {
                Method::Single => self.options.rows.min(SINGLE_ROWS_MAX),
                _ => self.options.rows,
            }),
            ledger: LedgerPlace::None,
            ..LoadOptions::new(name.clone())
        };
        // The columns of a file are the user's affair, but for what he has said of them.
        let of_file = matches!(at.feed, Feed::Files(_));
        if at.operation != Mode::Insert {
            let fill = LoadOptions {
                columns: if of_file { None } else { Some(self.fed()) },
                ..asked.clone()
            };
            let rows: Box<dyn Source> = match at.operation {
                Mode::Update => Box::new(Rotated::new(at.feed.source()?, self.key())),
                _ => at.feed.source()?,
            };
            let fill = prepare(target.clone(), self.url.clone(), rows, fill).await?;
            let Ended { error, .. } = fill.run(Arc::default(), at.stop.clone()).await?;
            if let Some(error) = error {
                return Err(error);
            }
        }
        let options = LoadOptions {
            mode: at.operation,
            method: Some(at.method),
            batch_rows: Some(self.options.batch_rows),
            columns: match (at.operation, of_file) {
                (Mode::Delete, _) => Some(self.key().to_vec()),
                (_, true) => self.options.columns.clone(),
                (operation, false) => Some(self.taken(operation)),
            },
            ..asked
        };
        let prepared = prepare(target.clone(), self.url.clone(), at.feed.source()?, options).await?;
        look(instruments(&*target)?, &table, at.operation, prepared, at.stop).await
    }
}

/// What is looked at, and with what.
struct Look<'a> {
    operation: Mode,
    method: Method,
    /// Of the copy.
    name: String,
    feed: &'a Feed,
    stop: &'a Stop,
}

fn interrupted() -> Error {
    Error::new(ErrorKind::Cancelled, "interrupted; the copies are removed")
}
