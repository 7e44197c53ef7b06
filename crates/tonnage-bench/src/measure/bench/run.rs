//! One run of a setting: the loads into its tables, all at once, and what they came to.
//!
//! - Rows are dealt over the tables in as many equal parts, and each table is written by as many jobs.
//! - A run ends with its rows or its time, but each of its loads has one commit at least.

use std::{
    ops::Range,
    sync::Arc,
    time::{Duration, Instant},
};

use futures::future::join_all;
use tonnage_core::{
    error::{Error, ErrorKind, Result},
    operation::Mode,
    report::{LaneReport, Report},
    stop::Stop,
    table::TableName,
    target::Target,
};
use tonnage_engine::{
    fetch::Known,
    load::{AfterCommit, Ended, Prepared, Progress, WriteTimes, prepare},
    plan::{LedgerPlace, LoadOptions, Rate},
};

use super::{
    Running,
    bounds::{Over, offered},
    instruments, processors,
    reading::{Reading, reads},
    tables::Made,
};
use crate::measure::{
    figures::{Reads, Run},
    rows::Rows,
    setting::Setting,
};

/// How often a run is asked whether it is over.
const LOOK: Duration = Duration::from_millis(20);
/// How many times its time a run is waited for that has not committed anything.
pub(super) const PATIENCE: u32 = 30;

/// The load into one of the tables of a run.
struct Part {
    target: Arc<dyn Target>,
    table: TableName,
    load: Prepared,
    progress: Arc<Progress>,
    reading: Option<Arc<Reading>>,
}

/// What the loads of a run came to.
#[derive(Default)]
pub(super) struct Together {
    /// Rows that were handled.
    pub(super) written: u64,
    /// Which of the rows of the run each load has handled.
    pub(super) parts: Vec<Range<u64>>,
    /// Seconds that the source of a load was read, and that its rows were dealt: of the load that took longest.
    pub(super) reading_seconds: f64,
    pub(super) dealing_seconds: f64,
    bytes_sent: u64,
    pub(super) statements: u64,
    pub(super) commits: u64,
    retries: u64,
    pub(super) lanes: Vec<LaneReport>,
    /// The shortest opening of a transaction; 0 where there was none.
    pub(super) opening_seconds: f64,
    writes: WriteTimes,
}

impl Together {
    /// Adds a load of the rows of a run from row `first` on.
    fn add(&mut self, first: u64, report: &Report, progress: &Progress) {
        // All handled rows count, also those of an upsert that were there.
        let written = report.rows.written + report.rows.skipped.superseded;
        self.written += written;
        self.parts.push(first..first + written);
        self.reading_seconds = self.reading_seconds.max(report.stages.reading_seconds);
        self.dealing_seconds = self.dealing_seconds.max(report.stages.dealing_seconds);
        self.bytes_sent += report.bytes.sent;
        self.statements += report.statements;
        self.commits += report.commits;
        self.retries += report.retries;
        self.lanes.extend(report.stages.lanes.iter().cloned());
        let opening = report.stages.round_trip_seconds;
        if self.opening_seconds == 0.0 || (opening > 0.0 && opening < self.opening_seconds) {
            self.opening_seconds = opening;
        }
        self.writes.add(&progress.writes);
    }

    /// When the first write began and the last one was committed. `Refused` where a load has committed nothing.
    fn span(&self) -> Result<(Instant, Instant)> {
        let have_all_committed = self.parts.iter().all(|part| !part.is_empty());
        let span = self.writes.span().filter(|_| have_all_committed);
        span.ok_or_else(|| {
            Error::new(
                ErrorKind::Refused,
                "nothing was committed within the time of a run",
            )
            .hint("--duration gives it more")
        })
    }
}

/// What the plan of a load and those of its reads have changed of a session.
fn settings_changed(part: &Part, readings: &[Arc<Reading>]) -> Vec<String> {
    let of_reads = readings.iter().flat_map(|reading| reading.settings_changed());
    let of_reads = of_reads.map(|setting| format!("{setting} (of reads)"));
    let of_load = part.load.plan().settings_changed.iter().cloned();
    of_load.chain(of_reads).collect()
}

impl Running<'_> {
    pub(super) fn rows_of(&self, setting: &Setting) -> Result<Arc<Rows>> {
        self.rows.of(setting)
    }

    /// Puts the rows there that `rows` of a run meet.
    pub(super) async fn fill(
        &self,
        setting: &Setting,
        target: &Arc<dyn Target>,
        name: &TableName,
        rows: Range<u64>,
    ) -> Result<()> {
        let of = self.rows_of(setting)?;
        let there = of.met(rows);
        if there.is_empty() {
            return Ok(());
        }
        let fill = LoadOptions {
            ledger: LedgerPlace::None,
            columns: self.columns(setting, Mode::Insert),
            ..LoadOptions::new(name.clone())
        };
        let source = Box::new(of.source_there(there));
        let fill = prepare(target.clone(), self.bench.url.clone(), source, fill).await?;
        let Ended { error, .. } = fill.run(Arc::default(), self.stop.clone()).await?;
        error.map_or(Ok(()), Err)
    }

    /// The load of `rows` of a run into one table, at a rate where they are offered at one.
    pub(super) async fn prepared(
        &self,
        setting: &Setting,
        target: &Arc<dyn Target>,
        name: &TableName,
        rows: Range<u64>,
        ledger: LedgerPlace,
        rate: Option<Rate>,
    ) -> Result<Prepared> {
        let options = &self.bench.options;
        let table = target.table(name).await?;
        // What an UNLOGGED table does not keep cannot be asked of it.
        let is_kept = table.is_none_or(|table| table.less_durable.is_none());
        let asked = LoadOptions {
            mode: setting.operation,
            method: setting.method.of_load(),
            batch_rows: Some(setting.batch_rows),
            jobs: Some(setting.jobs_a_table()),
            durability: is_kept.then_some(setting.durability),
            single_transaction: options.single_transaction,
            columns: self.columns(setting, setting.operation),
            ledger,
            rate,
            ..LoadOptions::new(name.clone())
        };
        let source = Box::new(self.rows_of(setting)?.source(rows));
        prepare(target.clone(), self.bench.url.clone(), source, asked).await
    }

    /// What reads the keys of a table that are there for `rows` of a run; none of no mix.
    async fn reading(
        &self,
        setting: &Setting,
        (target, table): (&Arc<dyn Target>, &TableName),
        rows: Range<u64>,
        load: &Prepared,
    ) -> Result<Option<Arc<Reading>>> {
        if setting.reads == 0 {
            return Ok(None);
        }
        let of = self.rows_of(setting)?;
        let keys = tokio::task::spawn_blocking(move || of.keys_there(of.met(rows))).await;
        let keys = keys.map_err(|e| Error::bug(format!("keys could not be made: {e}")))??;
        let known = Known::prepare(target.clone(), table, Box::new(keys), setting.jobs_a_table()).await?;
        let seed = self.bench.options.seed;
        let reading = Reading::new(known, load, setting, seed, self.stop.clone())?;
        Ok(Some(Arc::new(reading)))
    }

    /// The load into one table, which is made, with the rows there that it meets.
    async fn part(&self, setting: &Setting, made: Made, rows: Range<u64>) -> Result<Part> {
        let Made { target, table, .. } = made;
        self.fill(setting, &target, &table, rows.clone()).await?;
        let remote = self.ways.of(setting);
        let by = remote.map_or(&target, |remote| &remote.target);
        let ledger = match self.bench.options.ledger {
            true => LedgerPlace::Target,
            false => LedgerPlace::None,
        };
        let pace = self.bench.options.rate.map(Rate::Offered);
        let load = self.prepared(setting, by, &table, rows.clone(), ledger, pace);
        let mut load = load.await?;
        as_asked(setting, &load)?;
        let reading = self.reading(setting, (by, &table), rows, &load).await?;
        if let Some(reading) = &reading {
            let between: Arc<dyn AfterCommit> = reading.clone();
            load = load.with_between(between);
        }
        Ok(Part {
            target,
            table,
            load,
            progress: Arc::default(),
            reading,
        })
    }

    /// One run on tables that are made.
    pub(super) async fn on_tables(&mut self, setting: &Setting, made: Vec<Made>) -> Result<Run> {
        let rate = self.bench.options.rate;
        let (mut parts, count) = (Vec::new(), made.len() as u64);
        for (index, made) in made.into_iter().enumerate() {
            parts.push(self.part(setting, made, self.rows_of_part(index, count)).await?);
        }
        let first = parts.first().ok_or_else(|| Error::bug("a run without tables"))?;
        let target = first.target.clone();
        let pace = first.progress.clone();
        self.databases = first.load.plan().databases();
        let readings: Vec<_> = parts.iter().filter_map(|part| part.reading.clone()).collect();
        let changed = settings_changed(first, &readings);
        let tables: Vec<(Arc<dyn Target>, TableName)> = parts
            .iter()
            .map(|part| (part.target.clone(), part.table.clone()))
            .collect();
        let round_trips = |running: &Self| running.ways.of(setting).map(|remote| remote.way.round_trips());

        let log_before = log(&*target).await?;
        let at_seconds = self.first_run.elapsed().as_secs_f64();
        let before = self.meter.begin(instruments(&*target)?).await?;
        let round_trips_before = round_trips(self);
        let began = Instant::now();
        let ended = self.for_their_time(parts).await;
        let wall = began.elapsed().as_secs_f64();
        let round_trips = round_trips(self)
            .zip(round_trips_before)
            .map(|(after, before)| after - before);
        let after = self.meter.processors().await;
        // The last rows of a mix are not handled before what is read for them.
        let answered = readings
            .iter()
            .filter_map(|reading| Some(reading.span()?.1))
            .max();
        let reads = reads(&readings).await;
        // A session of PostgreSQL tells what it has done as it ends.
        drop(readings);
        let measured = async {
            let after = after?;
            let client = after.client_since(&before);
            let log_after = log(&*target).await?;
            let taken = (instruments(&*target)?, before, after);
            let costs = self.meter.end(taken, (wall, processors())).await?;
            Ok::<_, Error>((costs, client, log_after))
        };
        let measured = measured.await;

        let came_to = self.added_up(ended, &tables, count).await;
        let (mut costs, client, log_after) = measured?;
        self.note_settings(changed);
        let together = came_to?;
        let (begun, committed) = together.span()?;
        let done = answered.map_or(committed, |answered| committed.max(answered));
        let disk_bytes = disk_bytes(&tables).await?;
        let offered = offered(rate, &pace);
        // Few writes may be over before the next would be due.
        let least = rate.map_or(0.0, |rate| together.written as f64 / rate as f64);
        let window = done.saturating_duration_since(begun);
        let seconds = window.as_secs_f64().max(least).max(1e-6);
        let rows_per_second = together.written as f64 / seconds;
        let reads = reads.map(|reads| Reads {
            keys_per_second: reads.keys as f64 / seconds,
            ..reads
        });
        let rows = self.rows_of(setting)?;
        let over = Over {
            setting,
            together: &together,
            rows: &rows,
            requests: reads.as_ref().map_or(0, |reads| reads.requests),
            rows_per_second,
            wall,
            client,
            round_trips,
            writers_max: target.capabilities().writers_max,
        };
        let bound_by = over.bound(&mut costs, offered.as_ref(), &mut self.shortest);
        let quantile = |share| {
            let time = together.writes.quantile(share);
            time.unwrap_or_default().as_secs_f64()
        };
        Ok(Run {
            at_seconds,
            rows: together.written,
            seconds,
            rows_per_second,
            write_seconds: [0.5, 0.95, 0.99, 1.0].map(quantile),
            client_cpu_seconds: client,
            bytes_sent: together.bytes_sent,
            statements: together.statements,
            commits: together.commits,
            retries: together.retries,
            disk_bytes,
            log_bytes: log_after
                .zip(log_before)
                .map(|(after, before)| after.saturating_sub(before)),
            round_trips,
            bound_by,
            costs,
            offered,
            reads,
            acknowledged: None,
        })
    }

    /// Which rows of a run table `index` of `count` gets.
    fn rows_of_part(&self, index: usize, count: u64) -> Range<u64> {
        Rows::part(self.bench.options.budget.rows, index as u64, count)
    }

    /// What the loads of a run came to, whose runs the ledger forgets, whatever has failed: what stays in it is in
    /// somebody's way. The first error, but for those of loads that were ended.
    async fn added_up(
        &self,
        ended: Vec<(Result<Ended>, Arc<Progress>)>,
        tables: &[(Arc<dyn Target>, TableName)],
        count: u64,
    ) -> Result<Together> {
        let (mut together, mut failed, mut forgotten) = (Together::default(), None, Ok(()));
        for (index, ((ended, progress), (target, _))) in ended.into_iter().zip(tables).enumerate() {
            match ended {
                Ok(Ended { report, error }) => {
                    if let Some(run) = &report.run_id {
                        forgotten = forgotten.and(target.ledger().forget(run).await.map(|_| ()));
                    }
                    together.add(self.rows_of_part(index, count).start, &report, &progress);
                    failed = failed.or(error.filter(|e| e.kind() != ErrorKind::Cancelled));
                }
                Err(error) => failed = failed.or(Some(error)),
            }
        }
        forgotten?;
        failed.map_or(Ok(together), Err)
    }

    pub(super) fn note_settings(&mut self, changed: Vec<String>) {
        for setting in changed {
            if !self.settings_changed.contains(&setting) {
                self.settings_changed.push(setting);
            }
        }
    }

    /// Runs loads until their rows or the time are used up, but for one commit of each at least. One that fails ends the
    /// others. In their order.
    async fn for_their_time(&self, parts: Vec<Part>) -> Vec<(Result<Ended>, Arc<Progress>)> {
        let duration = self.bench.options.budget.duration;
        let over = Stop::default();
        let progresses: Vec<_> = parts.iter().map(|part| part.progress.clone()).collect();
        let runs = join_all(parts.into_iter().map(|part| {
            let over = over.clone();
            async move {
                let ended = part.load.run(part.progress.clone(), over.clone()).await;
                if !matches!(&ended, Ok(Ended { error: None, .. })) {
                    over.request();
                }
                (ended, part.progress)
            }
        }));
        let watch = async {
            let began = Instant::now();
            loop {
                tokio::time::sleep(LOOK).await;
                let committed = progresses.iter().all(|progress| progress.writes.count() > 0);
                let enough = began.elapsed() >= duration && committed;
                if enough || began.elapsed() >= duration * PATIENCE || self.stop.requested() {
                    over.request();
                    return std::future::pending::<std::convert::Infallible>().await;
                }
            }
        };
        tokio::select! {
            ended = runs => ended,
            never = watch => match never {},
        }
    }
}

pub(super) async fn log(target: &dyn Target) -> Result<Option<u64>> {
    match target.instruments() {
        Some(instruments) => Ok(instruments.log().await?.map(|mark| mark.bytes)),
        None => Ok(None),
    }
}

/// Refuses what the plan has made something else of.
fn as_asked(setting: &Setting, prepared: &Prepared) -> Result<()> {
    let plan = prepared.plan();
    let jobs = setting.jobs_a_table();
    let differs = (plan.jobs != jobs).then_some(("jobs", jobs, plan.jobs));
    let differs = differs.or_else(|| {
        let rows = !setting.method.is_row_by_row() && plan.batch_rows != setting.batch_rows;
        rows.then_some(("rows a write", setting.batch_rows, plan.batch_rows))
    });
    match differs {
        None => Ok(()),
        Some((what, asked, planned)) => Err(Error::config(format!(
            "of {asked} {what} that were asked for, {planned} would be used{}",
            plan.notes
                .iter()
                .find(|note| note.contains("job") || note.contains("one statement"))
                .map_or_else(String::new, |note| format!(" ({note})"))
        ))),
    }
}

/// The bytes that tables take on disk; not known of all where it is not known of one.
pub(super) async fn disk_bytes(tables: &[(Arc<dyn Target>, TableName)]) -> Result<Option<u64>> {
    let mut disk_bytes = Some(0);
    for (target, table) in tables {
        let disk = instruments(&**target)?.disk(table).await?;
        disk_bytes = disk_bytes.zip(disk).map(|(sum, disk)| sum + disk.bytes);
    }
    Ok(disk_bytes)
}
