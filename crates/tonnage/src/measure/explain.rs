//! How rows of one table reach its pages and the log, by each method: on an empty copy of it, with its own rows where it
//! has enough, and what the catalogue adds to that.
//!
//! - The table itself is only read. The copy is removed whatever happens.
//! - What a database writes by itself is watched for a moment before each load and taken off.
//! - A verdict comes from records that were counted, or from a cause in the catalogue that decides; else it is unknown,
//!   and says why.

mod judge;

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use arrow::{array::RecordBatch, datatypes::SchemaRef};
use serde::Serialize;

pub use self::judge::ByMethod;
use self::judge::{Seen, judge, unseen};
use super::{
    bench::{gauge, prefix},
    gauge::{LogMark, Records, ScratchPlace},
    made_up::made_up,
    verdict::{drowned, without_background},
};
use crate::{
    error::{Error, ErrorKind, Result},
    load::{Ended, Progress, Stop, prepare},
    operation::{Durability, Method},
    plan::{LedgerPlace, LoadOptions},
    reader::Relation,
    sinks::Output,
    source::{ReadRequest, Source},
    sources::{self, Format, TextOptions, batches::BatchSource, database::DatabaseSource},
    table::{Column, Numbered, Table, TableName, columns_hint, nearest},
    target::Target,
    unload::UnloadOptions,
};

/// How long the log is watched before a load.
const WATCHED: Duration = Duration::from_millis(200);
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
    /// None for all that the database has.
    pub methods: Option<Vec<Method>>,
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
    /// The columns that were given.
    pub columns: Vec<String>,
    /// Those that were left to their defaults.
    pub left_out: Vec<String>,
    /// What the copy had not, a phrase each.
    pub lacking: Vec<String>,
    /// By each method.
    pub methods: Vec<ByMethod>,
}

/// Looking that has been decided and not begun.
pub struct Explain {
    target: Arc<dyn Target>,
    url: String,
    options: ExplainOptions,
    table: Table,
    columns: Vec<String>,
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
            Self::Batches(schema, batches) => Ok(Box::new(BatchSource::new(
                "the table's own rows",
                schema.clone(),
                batches.clone().into_iter(),
            ))),
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
    let takes = |column: &&Column| {
        column.ty.is_some() && !column.generated && column.numbered != Some(Numbered::Always)
    };
    let given: Vec<String> = table
        .columns
        .iter()
        .filter(takes)
        .filter(|column| !column.has_default)
        .map(|column| column.name.clone())
        .collect();
    if !given.is_empty() {
        return Ok(given);
    }
    let all: Vec<String> = table
        .columns
        .iter()
        .filter(takes)
        .map(|c| c.name.clone())
        .collect();
    match all.is_empty() {
        true => Err(Error::schema(format!(
            "table {} has no column that can be written",
            table.name
        ))),
        false => Ok(all),
    }
}

impl Explain {
    /// Finds the table and decides the columns. Writes nothing. `url` is only shown, so it must be
    /// [redacted](crate::targets::redact).
    pub async fn prepare(target: Arc<dyn Target>, url: String, options: ExplainOptions) -> Result<Self> {
        gauge(&*target)?;
        if options.rows == 0 || options.rows > ROWS_MAX {
            return Err(Error::config(format!("--rows must be from 1 to {ROWS_MAX}")));
        }
        if options.batch_rows == 0 {
            return Err(Error::config("--batch-rows must be at least 1"));
        }
        let Some(table) = target.table(&options.table).await? else {
            let error = Error::schema(format!("there is no table {}", options.table));
            let names = target.table_names().await.unwrap_or_default();
            let close = nearest(&options.table.name, names.iter().map(String::as_str));
            return Err(match close.is_empty() {
                false => error.hint(format!("did you mean {}?", close.join(" or "))),
                true => error.hint("name it as table or schema.table"),
            });
        };
        let columns = columns(&table, options.columns.as_deref())?;
        Ok(Self {
            target,
            url,
            options,
            table,
            columns,
            prefix: prefix(),
        })
    }

    /// Where the copies will be.
    pub fn place(&self) -> Result<ScratchPlace> {
        Ok(gauge(&*self.target)?.place(&self.prefix))
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
        for (index, method) in methods.iter().enumerate() {
            if stop.requested() {
                return Err(interrupted());
            }
            let name = format!("{}_{}", self.prefix, index + 1);
            let one = self.by_method(*method, &name, &feed, &stop, &mut lacking).await;
            match one {
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
        let columns: Vec<&Column> = self
            .columns
            .iter()
            .filter_map(|name| self.table.column(name))
            .collect();
        let directory = tempfile::tempdir()
            .map_err(|e| Error::new(ErrorKind::Refused, format!("no temporary directory: {e}")))?;
        let path = directory.path().join(MADE_UP);
        std::fs::write(&path, made_up(&columns, wanted))
            .map_err(|e| Error::new(ErrorKind::Refused, format!("{}: {e}", path.display())))?;
        let told = format!("made up, as the table has fewer than {wanted} rows to take");
        Ok((Feed::MadeUp(directory), told))
    }

    /// Some rows of the table; none where it has none, or cannot be read.
    async fn own_rows(&self) -> Result<Option<(SchemaRef, Vec<RecordBatch>)>> {
        let options = UnloadOptions {
            columns: Some(self.columns.clone()),
            limit: Some(self.options.rows),
            jobs: Some(1),
            ..UnloadOptions::new(Relation::Table(self.table.name.clone()), Output::new("-"))
        };
        let opened = DatabaseSource::open(&*self.target, &self.url, &options.request()?).await;
        let Ok(mut source) = opened else { return Ok(None) };
        let read = move || -> Result<Vec<RecordBatch>> {
            let types = source.schema().columns.iter().enumerate();
            let columns = types
                .filter_map(|(at, column)| Some((at, column.suggested?)))
                .collect();
            source.request(&ReadRequest {
                columns,
                block_rows: 8_192,
                block_bytes: 8 << 20,
            })?;
            let mut batches = Vec::new();
            while let Some(block) = source.next()? {
                batches.push(block.rows);
            }
            Ok(batches)
        };
        let batches = tokio::task::spawn_blocking(read)
            .await
            .map_err(|e| Error::bug(format!("rows could not be read: {e}")))??;
        Ok(batches
            .first()
            .map(|batch| batch.schema())
            .map(|schema| (schema, batches)))
    }

    /// One method, on a copy of its own.
    async fn by_method(
        &self,
        method: Method,
        name: &str,
        feed: &Feed,
        stop: &Stop,
        lacking: &mut Vec<String>,
    ) -> Result<ByMethod> {
        let gauge = gauge(&*self.target)?;
        let causes = gauge.causes(&self.table, method, &self.columns).await?;
        let looked = match gauge.copy(&self.table, name).await {
            Ok(copied) => {
                let target = copied.target.unwrap_or_else(|| self.target.clone());
                for what in copied.lacking {
                    if !lacking.contains(&what) {
                        lacking.push(what);
                    }
                }
                self.on_copy(method, target, &copied.table, feed, stop).await
            }
            Err(error) => {
                // Part of it may be there; why it could not be made matters more than why that could not be removed.
                let _ = gauge.discard(name).await;
                return Err(error.at(format!("{} cannot be copied", self.table.name)));
            }
        };
        let discarded = gauge.discard(name).await;
        let found = match looked {
            Ok(seen) => judge(method, seen, &causes),
            Err(error) => {
                // What this method cannot do, another may; anything else would meet them all.
                let only_this = matches!(error.kind(), ErrorKind::Config | ErrorKind::Schema);
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
                    ..unseen(method, self.options.batch_rows)
                }
            }
        };
        discarded.map_err(|e| e.at(format!("{name}, which was made to look at, cannot be removed")))?;
        Ok(found)
    }

    async fn on_copy(
        &self,
        method: Method,
        target: Arc<dyn Target>,
        name: &TableName,
        feed: &Feed,
        stop: &Stop,
    ) -> Result<Seen> {
        let gauge = gauge(&*target)?;
        let table = target.table(name).await?;
        let table = table.ok_or_else(|| Error::bug(format!("the copy {name} is not there once made")))?;
        let rows = match method {
            Method::Single => self.options.rows.min(SINGLE_ROWS_MAX),
            _ => self.options.rows,
        };
        let options = LoadOptions {
            method: Some(method),
            batch_rows: Some(self.options.batch_rows),
            jobs: Some(1),
            durability: self.options.durability,
            limit: Some(rows),
            columns: matches!(feed, Feed::Files(_))
                .then(|| self.options.columns.clone())
                .flatten(),
            ledger: LedgerPlace::None,
            ..LoadOptions::new(name.clone())
        };
        let prepared = prepare(target.clone(), self.url.clone(), feed.source()?, options).await?;
        let batch_rows = prepared.plan().batch_rows;

        let idle_from = gauge.log().await?;
        let idle = Instant::now();
        tokio::time::sleep(WATCHED).await;
        let from = gauge.log().await?;
        let idle_seconds = idle.elapsed().as_secs_f64();
        let began = Instant::now();
        let ended = prepared.run(Arc::<Progress>::default(), stop.clone()).await?;
        let Ended { report, error } = ended;
        if let Some(error) = error {
            return Err(error);
        }
        let to = gauge.log().await?;
        let seconds = began.elapsed().as_secs_f64();
        let records = match (&from, &to) {
            (Some(from), Some(to)) => gauge.records(&table, from, to).await?,
            _ => Records::Unknown {
                why: "the database does not tell how far its log is".to_owned(),
            },
        };
        let idle_records = match (&records, &idle_from, &from) {
            (Records::Counted { shared: true, .. }, Some(idle_from), Some(from)) => {
                match gauge.records(&table, idle_from, from).await? {
                    Records::Counted { rows, .. } => rows,
                    Records::Unknown { .. } => 0,
                }
            }
            _ => 0,
        };
        let grown = |from: &Option<LogMark>, to: &Option<LogMark>| {
            let (from, to) = (from.as_ref()?, to.as_ref()?);
            Some(to.bytes.saturating_sub(from.bytes))
        };
        let log_bytes = grown(&from, &to).and_then(|bytes| {
            let background = grown(&idle_from, &from).unwrap_or_default();
            let left = without_background(bytes, seconds, background, idle_seconds);
            (!drowned(bytes, left)).then_some(left)
        });
        Ok(Seen {
            rows: report.rows.written,
            batch_rows,
            seconds,
            records,
            idle_records,
            idle_seconds,
            log_bytes,
            disk: gauge.disk(name).await?,
        })
    }
}

fn interrupted() -> Error {
    Error::new(ErrorKind::Cancelled, "interrupted; the copies are removed")
}
