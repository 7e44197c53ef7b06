//! Whether rows are those of a table: of files, or of another table.
//!
//! Both sides are brought to the types of the table by the conversion that a load makes, so that what the table would hold is
//! compared with what it holds. A first pass over each side adds the hashes of rows up, 128 bits each, by bucket of their
//! key: sums depend on no order and count duplicates, and buckets with the same sums are the same rows. Only where they
//! differ a second pass gathers the hashes of the rows in these buckets, on disk where memory does not do, and a third
//! finds the values of those to be shown. The hash is XXH3: it tells accidents, not forgeries.

mod after_load;
pub mod builder;
mod canonical;
mod compare;
mod parts;
mod report;
mod side;
mod values;

use std::{collections::HashSet, sync::Arc, thread::available_parallelism, time::Instant};

use tonnage_core::{
    error::{Error, Result},
    parse::{ParseContext, timezone},
    reader::{BeyondArrow, Relation, ScanRequest, Snapshot, no_table},
    source::{ReadRequest, Source, SourceSchema},
    stop::Stop,
    table::Table,
    target::{Target, WriteColumn},
    types::ColumnType,
};
use tonnage_formats::sources::{added, empty};

pub use self::{
    after_load::AfterLoad,
    compare::Winner,
    report::{Checksums, ColumnDifference, Difference, Differing, Kind, RowsCompared, VerifyReport},
};
use self::{
    compare::{BadRows, Findings, Gathering, Summing, Wanted},
    side::{Side, SourceRows, TableRows, Work},
    values::{Columns, Finding, difference},
};
use crate::{
    load::{Convert, Kept, Progress, fillable},
    plan::{BLOCK_BYTES, BLOCK_ROWS, LoadOptions, match_columns},
    unload::{BATCH, source::columns_of},
};

/// Rows that differ in one way that are named unless others are asked for.
pub const DIFFERENCES: usize = 20;

/// What is compared with a table, and how.
#[derive(Debug, Clone)]
pub struct VerifyOptions {
    /// The table and how columns go to it: the fields `table`, `key`, `map`, `columns`, `add`, `normalize_names`, `limit`,
    /// `timezone` and `jobs`.
    pub load: LoadOptions,
    /// At most so many rows are named of those that differ in one way; 0 only counts them.
    pub differences: usize,
}

/// What the rows are read from that are compared with a table.
pub enum Input {
    /// Files, or any other source.
    Source(Box<dyn Source>),
    /// A table, or the result of a query.
    Database {
        /// The database.
        target: Arc<dyn Target>,
        /// What messages call it; without a password.
        shown: String,
        /// What is read of it.
        relation: Relation,
        /// The columns that are read; none for all that the database does not compute.
        columns: Option<Vec<String>>,
        /// Those that come as the database's text, with any content.
        texts: Vec<String>,
    },
}

/// What the rows of a source are to be.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Expected {
    /// All rows of the table.
    Equal,
    /// Among them, by their keys.
    Contained(Winner),
}

/// A comparison that has been decided.
struct Comparison {
    source: Side,
    table: Side,
    shown: String,
    /// The table's full name.
    name: String,
    names: Vec<String>,
    key: Vec<String>,
    work: Arc<Work>,
    expected: Expected,
    notes: Vec<String>,
    differences: usize,
}

/// Compares `input` with a table of `target`. `url` is only shown, so it must be redacted. `progress` counts the rows of both
/// sides, once a pass.
///
/// `Config` and `Schema` for what cannot be compared as asked, `Input` for a file that cannot be read or has changed
/// meanwhile, `Cancelled` where `stop` asked for it. Rows that differ are no error: the report says so.
pub async fn verify(
    target: &dyn Target,
    url: String,
    input: Input,
    options: &VerifyOptions,
    progress: Arc<Progress>,
    stop: Stop,
) -> Result<VerifyReport> {
    let started = Instant::now();
    let comparison = prepare(target, input, options, progress, stop).await?;
    let jobs = comparison.work.jobs;
    let report = comparison.run().await?;
    Ok(VerifyReport {
        target: url,
        seconds: started.elapsed().as_secs_f64(),
        jobs,
        ..report
    })
}

async fn prepare(
    target: &dyn Target,
    input: Input,
    options: &VerifyOptions,
    progress: Arc<Progress>,
    stop: Stop,
) -> Result<Comparison> {
    let load = &options.load;
    let jobs = workers(load.jobs)?;
    let context = context(load)?;
    let input = match input {
        Input::Source(source) => {
            if let Some(name) = added::changing(&load.add) {
                return Err(Error::config(format!(
                    "--add {name}: what {{run}} and {{now}} were in another run is not known"
                ))
                .hint("leave the column out: --columns names those that are compared"));
            }
            Opened::Source(added::with_columns(source, &load.add, &context, Arc::default())?)
        }
        Input::Database {
            target,
            shown,
            relation,
            columns,
            texts,
        } => {
            if !load.add.is_empty() {
                return Err(Error::config("--add is for files")
                    .hint("a query makes the column: --source-query 'SELECT .., .. AS name FROM ..'"));
            }
            let request = ScanRequest {
                texts,
                ..request(relation, columns, jobs)
            };
            let snapshot = target.scan(&request).await?;
            Opened::Database(schema_of_snapshot(&shown, &snapshot), Box::new(snapshot))
        }
    };
    let Some(table) = target.table(&load.table).await? else {
        return Err(no_table(&load.table, &target.table_names().await?));
    };
    let input = match input {
        Opened::Source(source) => Opened::Source(empty::with_columns(source, fillable(&table))),
        database @ Opened::Database(..) => database,
    };
    let columns = match_columns(&table, input.schema(), load)?;
    let key = key_of(&table, load, &columns)?;
    let names: Vec<String> = columns.iter().map(|column| column.name.clone()).collect();
    let wanted = request(Relation::Table(table.name.clone()), Some(names.clone()), jobs);
    let snapshot = target.scan(&wanted).await?;
    let mut notes = left_out(&table, &names);
    if key.is_empty() {
        notes.push(
            "rows are compared by value, since no key tells them apart: --key COLUMN names one".to_owned(),
        );
    }
    let partial_dates = target.capabilities().partial_dates;
    comparison(
        input,
        (&table, partial_dates),
        columns,
        snapshot,
        Decided {
            key,
            jobs,
            limit: load.limit,
            context,
            progress,
            stop,
            differences: options.differences,
            notes,
            excluded: HashSet::new(),
            expected: Expected::Equal,
        },
    )
}

/// What is decided in addition to the columns.
struct Decided {
    key: Vec<String>,
    jobs: usize,
    limit: Option<u64>,
    context: ParseContext,
    progress: Arc<Progress>,
    stop: Stop,
    differences: usize,
    notes: Vec<String>,
    /// Rows of files that are left out.
    excluded: HashSet<(String, u64)>,
    expected: Expected,
}

/// What was opened.
enum Opened {
    Source(Box<dyn Source>),
    Database(SourceSchema, Box<Snapshot>),
}

impl Opened {
    fn schema(&self) -> &SourceSchema {
        match self {
            Self::Source(source) => source.schema(),
            Self::Database(schema, _) => schema,
        }
    }
}

/// Brings both sides to the types that `snapshot`, of the table, has.
fn comparison(
    input: Opened,
    (table, partial_dates): (&Table, bool),
    mut columns: Vec<WriteColumn>,
    snapshot: Snapshot,
    decided: Decided,
) -> Result<Comparison> {
    for (column, read) in columns.iter_mut().zip(&snapshot.columns) {
        column.ty = read.ty;
    }
    let names: Vec<String> = columns.iter().map(|column| column.name.clone()).collect();
    let at = |name: &String| names.iter().position(|known| known == name);
    let key_at: Vec<usize> = decided.key.iter().filter_map(at).collect();
    let kept = Kept {
        table,
        columns: &columns,
        partial_dates,
    };
    let convert = Arc::new(Convert::kept(&kept, input.schema(), &decided.context)?);
    let shown = input.schema().shown.to_string();
    let types = columns
        .iter()
        .map(|column| form(input.schema(), column))
        .collect();
    let source = match input {
        Opened::Source(mut source) => {
            source.request(&ReadRequest {
                columns: columns.iter().map(|column| (column.source, column.ty)).collect(),
                block_rows: BLOCK_ROWS,
                block_bytes: BLOCK_BYTES,
            })?;
            Side::Source(SourceRows {
                source: Some(source),
                convert,
                limit: decided.limit,
                excluded: Arc::new(decided.excluded),
                begun: false,
            })
        }
        Opened::Database(schema, snapshot) => Side::Table(TableRows {
            readers: snapshot.readers,
            splits: snapshot.splits,
            convert: Some((convert, columns.iter().map(|column| column.source).collect())),
            shown: schema.shown,
        }),
    };
    let work = Arc::new(Work {
        types,
        key_at,
        jobs: decided.jobs,
        progress: decided.progress,
        stop: decided.stop,
    });
    Ok(Comparison {
        source,
        table: Side::Table(TableRows {
            readers: snapshot.readers,
            splits: snapshot.splits,
            convert: None,
            shown: Arc::from(table.name.to_string()),
        }),
        shown,
        name: table.name.to_string(),
        names,
        key: decided.key,
        work,
        expected: decided.expected,
        notes: decided.notes,
        differences: decided.differences,
    })
}

/// By which type the values of a column are compared: padded text in another database's text is the same without its blanks.
fn form(source: &SourceSchema, column: &WriteColumn) -> ColumnType {
    match (source.columns[column.source].suggested, column.ty) {
        (Some(padded @ ColumnType::Char { .. }), ColumnType::Text { .. }) => padded,
        (_, ty) => ty,
    }
}

/// Workers a side. `Config` for none.
fn workers(jobs: Option<usize>) -> Result<usize> {
    match jobs {
        Some(0) => Err(Error::config("--jobs must be at least 1")),
        Some(jobs) => Ok(jobs),
        None => Ok(available_parallelism().map_or(1, usize::from).clamp(1, 4)),
    }
}

/// How text is read: as a load does.
fn context(load: &LoadOptions) -> Result<ParseContext> {
    Ok(ParseContext {
        timezone: load.timezone.as_deref().map(timezone).transpose()?,
        bytes_as_written: false,
        ..ParseContext::default()
    })
}

/// All rows of `relation`, in these columns.
fn request(relation: Relation, columns: Option<Vec<String>>, readers: usize) -> ScanRequest {
    ScanRequest {
        relation,
        columns,
        texts: Vec::new(),
        filter: None,
        limit: None,
        split_by: None,
        readers,
        batch: BATCH,
        beyond_arrow: BeyondArrow::Carried,
    }
}

fn schema_of_snapshot(shown: &str, snapshot: &Snapshot) -> SourceSchema {
    SourceSchema {
        shown: Arc::from(shown),
        columns: columns_of(snapshot),
        named: true,
        text: false,
        header: false,
        notes: Vec::new(),
    }
}

/// The columns that tell rows apart: those asked for, else the primary key where all of it is compared.
fn key_of(table: &Table, load: &LoadOptions, columns: &[WriteColumn]) -> Result<Vec<String>> {
    let is_compared = |name: &str| columns.iter().any(|column| column.name == name);
    if load.key.is_empty() {
        let key = table.primary_key().map(|key| key.columns.clone());
        return Ok(key
            .filter(|key| key.iter().all(|name| is_compared(name)))
            .unwrap_or_default());
    }
    let mut key = Vec::new();
    for name in &load.key {
        let column = table.column(name).ok_or_else(|| {
            let names = table.columns.iter().map(|column| column.name.as_str());
            Error::schema(format!(
                "table {} has no column '{name}', which --key names",
                table.name
            ))
            .hint(tonnage_core::table::columns_hint(name, names))
        })?;
        if !is_compared(&column.name) {
            return Err(Error::config(format!(
                "--key {name}: the column is not among those that are compared"
            ))
            .hint("--map fills it from a column of another name"));
        }
        key.push(column.name.clone());
    }
    Ok(key)
}

/// That columns of the table are not compared.
fn left_out(table: &Table, compared: &[String]) -> Vec<String> {
    let left_out = table
        .columns
        .iter()
        .filter(|column| !compared.contains(&column.name));
    let names: Vec<&str> = left_out.map(|column| column.name.as_str()).collect();
    match names.is_empty() {
        true => Vec::new(),
        false => vec![format!(
            "not compared, since the source lacks them: {}",
            names.join(", ")
        )],
    }
}

impl Comparison {
    /// Compares. The report lacks what only the caller knows.
    async fn run(mut self) -> Result<VerifyReport> {
        match self.expected {
            Expected::Equal => self.equal().await,
            Expected::Contained(winner) => self.contained(winner).await,
        }
    }

    async fn equal(&mut self) -> Result<VerifyReport> {
        let kept = self.differences;
        let summing = move || Summing::new(kept);
        let work = Arc::clone(&self.work);
        let (source, table) =
            tokio::try_join!(self.source.pass(&work, summing), self.table.pass(&work, summing))?;
        let source = Summing::total(source, kept);
        let table = Summing::total(table, kept);
        let pairs = source.buckets.iter().zip(&table.buckets);
        let differ: Vec<bool> = pairs.map(|(source, table)| source != table).collect();
        let splits_differing = differ.iter().filter(|differs| **differs).count();
        let (source_sum, table_sum) = (source.sum(), table.sum());
        let rows = RowsCompared {
            source: source_sum.rows + source.bad.count,
            table: table_sum.rows,
        };
        let checksums = Checksums {
            source: format!("{:032x}", source_sum.hashes),
            table: format!("{:032x}", table_sum.hashes),
            splits: compare::BUCKETS,
            splits_differing,
        };
        let bad = source.bad;
        if splits_differing == 0 {
            let mut report = self.report(rows, Some(checksums));
            self.complete(&mut report, Findings::new(kept), bad).await?;
            return Ok(report);
        }
        if !self.source.is_rereadable() {
            let mut report = self.report(rows, Some(checksums));
            report.agrees = false;
            report
                .notes
                .push("the rows that differ are not named, since the input cannot be read again".to_owned());
            return Ok(report);
        }
        let wanted = Wanted::Buckets(Arc::new(differ));
        let (of_source, of_table) = (wanted.clone(), wanted);
        let (source, table) = tokio::try_join!(
            self.source
                .pass(&work, move || Gathering::new(of_source.clone(), 0)),
            self.table
                .pass(&work, move || Gathering::new(of_table.clone(), 0))
        )?;
        let findings = blocking(move || compare::equal(source, table, kept)).await?;
        let mut report = self.report(rows, Some(checksums));
        if findings.counts.is_none() {
            report.agrees = false;
            report
                .notes
                .push("the rows have changed while they were compared: run it again".to_owned());
        }
        let agrees = report.agrees;
        self.complete(&mut report, findings, bad).await?;
        report.agrees &= agrees;
        Ok(report)
    }

    async fn contained(&mut self, winner: Winner) -> Result<VerifyReport> {
        let kept = self.differences;
        let work = Arc::clone(&self.work);
        let wanted = Wanted::Keys(work.key_at.clone());
        let mut source = self
            .source
            .pass(&work, move || Gathering::new(wanted.clone(), kept))
            .await?;
        let keys = Wanted::Among(Arc::new(Gathering::all_keys(&source)));
        let mut bad = BadRows::new(kept);
        let (mut rows, mut keyless) = (RowsCompared::default(), 0);
        for worker in &mut source {
            bad.add(std::mem::replace(&mut worker.bad, BadRows::new(0)));
            worker.keys = None;
            rows.source += worker.seen;
            keyless += worker.keyless;
        }
        let table = self
            .table
            .pass(&work, move || Gathering::new(keys.clone(), 0))
            .await?;
        rows.source += bad.count;
        rows.table = table.iter().map(|worker| worker.seen).sum();
        let findings = blocking(move || compare::contained(source, table, winner, kept)).await?;
        let mut report = self.report(rows, None);
        if keyless > 0 {
            report.notes.push(format!(
                "{keyless} rows without a key, which the database gives them, are not compared"
            ));
        }
        self.complete(&mut report, findings, bad).await?;
        Ok(report)
    }

    fn report(&self, rows: RowsCompared, checksums: Option<Checksums>) -> VerifyReport {
        VerifyReport {
            source: self.shown.clone(),
            target: String::new(),
            table: self.name.clone(),
            agrees: true,
            columns: self.names.clone(),
            key: self.key.clone(),
            rows,
            checksums,
            differing: None,
            differences: Vec::new(),
            notes: self.notes.clone(),
            seconds: 0.0,
            jobs: self.work.jobs,
        }
    }

    /// Finds the values of what differs.
    async fn complete(&mut self, report: &mut VerifyReport, found: Findings, bad: BadRows) -> Result<()> {
        let counts = Differing {
            bad: bad.count,
            ..found.counts
        };
        report.agrees = counts.is_none();
        report.differing = Some(counts);
        let columns = Columns {
            names: &self.names,
            key_at: &self.work.key_at,
        };
        if !found.first.is_empty() {
            let (of_source, of_table) = found.hashes();
            let (of_source, of_table) = (Arc::new(of_source), Arc::new(of_table));
            let work = Arc::clone(&self.work);
            let (source, table) = (&mut self.source, &mut self.table);
            let source = async {
                match of_source.is_empty() {
                    true => Ok(Vec::new()),
                    false => source.pass(&work, finding(&of_source, &work)).await,
                }
            };
            let table = async {
                match of_table.is_empty() {
                    true => Ok(Vec::new()),
                    false => table.pass(&work, finding(&of_table, &work)).await,
                }
            };
            let (source, table) = tokio::try_join!(source, table)?;
            let (source, table) = (Finding::all(source), Finding::all(table));
            let named = found
                .first
                .iter()
                .map(|found| difference(found, &columns, &source, &table));
            report.differences.extend(named.flatten());
        }
        report
            .differences
            .extend(bad.first.into_iter().map(|bad| Difference {
                kind: Kind::Bad,
                times: 1,
                file: Some(bad.file),
                row: Some(bad.row),
                values: serde_json::Map::new(),
                columns: Vec::new(),
                message: Some(bad.message),
            }));
        Ok(())
    }
}

/// Makes workers that look for rows with these hashes.
fn finding(wanted: &Arc<HashSet<u128>>, work: &Arc<Work>) -> impl Fn() -> Finding + Send + Sync + use<> {
    let (wanted, types) = (Arc::clone(wanted), work.types.clone());
    move || Finding::new(Arc::clone(&wanted), types.clone())
}

/// Does work that takes a processor.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> Result<T> + Send + 'static) -> Result<T> {
    let done = tokio::task::spawn_blocking(work).await;
    done.unwrap_or_else(|_| Err(Error::bug("a comparison ended before it was done")))
}
