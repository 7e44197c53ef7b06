//! Running the cells of a matrix.
//!
//! Invariants:
//! - A run is a load like any other, of made-up rows, without rejects. What it measures is what the engine counts.
//! - Every run has tables of its own, made before and removed after it, whatever became of it. Rows per second are from
//!   the first write to the last commit, so neither that nor connecting counts; of a mix to the last read.
//! - A table is made and removed by the way as it is; what is timed goes by the way that its setting says.
//! - A setting that the plan would change (fewer jobs, smaller writes) is not measured under another's name: it is ruled
//!   out, with the plan's words.
//! - The order is random and given by the seed; one cell is measured again and again between the others.
//! - How rows reach the log is looked at once all is timed, so that it costs no run anything.

mod bounds;
mod buffering;
mod probe;
mod reading;
mod run;
mod sure;
mod tables;
mod ways;

use std::{
    sync::Arc,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use tonnage_core::{
    error::{Error, ErrorKind, Result},
    instruments::{Instruments, ScratchPlace},
    operation::Mode,
    parse::text_of_timestamp,
    report::Grouped,
    stop::Stop,
    target::Target,
};

pub use self::sure::{Goal, Until};
use self::{bounds::RoundTrips, sure::Left, tables::Made, ways::Ways};
use super::{
    answer::{Answer, Evidence, answers},
    figures::{BenchReport, Cell, REPORT_VERSION, Reference, Run},
    left::SCRATCH,
    meter::Meter,
    own::{Own, OwnRows},
    rows::{AllRows, Rows},
    setting::{Budget, Cells, Matrix, RoundTrip, RuledOut, Setting, rounds},
    statistics::{Estimate, Steadiness},
};

/// Runs of other cells between two of the reference.
const REFERENCE_EVERY: usize = 5;
/// Rounds of what is measured until it is sure, at most.
const ROUNDS_MAX: usize = 1_000;
/// The longest way: beyond it connections are given up.
const ROUND_TRIP_MAX: Duration = Duration::from_secs(5);

/// What to measure, and how.
#[derive(Debug, Clone)]
pub struct BenchOptions {
    /// The settings.
    pub matrix: Matrix,
    /// How long and how often.
    pub budget: Budget,
    /// Decides rows and order.
    pub seed: u64,
    /// Whether runs keep their positions in the ledger, as a load does by default. Its tables are made in the
    /// database where they are missing, and stay there.
    pub ledger: bool,
    /// The user's own rows, which the matrix then has as [`RowKind::Own`](super::RowKind::Own); none for made-up ones.
    pub own: Option<OwnRows>,
    /// Whether each run is one transaction.
    pub single_transaction: bool,
    /// Bytes a second that the way to the database is limited to, each way; none for as many as it takes.
    pub bandwidth: Option<u64>,
    /// Rows a second that each run is offered whether or not it keeps up, to measure the time that they take; none for as
    /// many as it takes.
    pub rate: Option<u64>,
    /// Measures until it is sure which setting is best for a goal, of one kind and durability; none for as many runs of each
    /// as the budget says.
    pub until: Option<Until>,
}

impl BenchOptions {
    /// `Config` where one of them leaves nothing to be measured of another.
    fn check_together(&self) -> Result<()> {
        let reads = self.matrix.reads.iter().any(|reads| *reads > 0);
        let several = self.matrix.several.iter().any(|tables| *tables > 1);
        let (one, other, why) = match (self.rate, self.single_transaction) {
            (Some(0), _) => return Err(Error::config("--rate must be more than 0")),
            (Some(_), true) => (
                "--rate",
                "--single-transaction",
                "what is offered at a rate is measured write by write, each a commit",
            ),
            (Some(_), _) if reads => (
                "--rate",
                "--reads",
                "a job that reads between its writes keeps no rate of writes",
            ),
            (Some(_), _) if several => (
                "--rate",
                "--tables",
                "a rate is that of one load, and each table has one of its own",
            ),
            (None, true) if reads => (
                "--single-transaction",
                "--reads",
                "nothing is read between the writes of one transaction",
            ),
            _ => return Ok(()),
        };
        let error = Error::config(format!("{one} and {other} do not go together"));
        Err(error.hint(format!("leave one out: {why}")))
    }

    /// Whether any run goes by another way than the one that there is.
    fn leads_elsewhere(&self) -> bool {
        self.bandwidth.is_some() || self.matrix.round_trips.iter().any(|trip| !trip.is_zero())
    }
}

/// What happens while cells are run.
#[derive(Debug, Clone)]
pub enum Event {
    /// A run is over.
    Ran {
        /// Runs that are over.
        done: usize,
        /// Runs in all, as far as is known.
        total: usize,
        /// Its setting.
        setting: Setting,
        /// Rows a second; none where it could not be run.
        rows_per_second: Option<f64>,
    },
}

/// Measuring that has been decided and not begun.
pub struct Bench {
    target: Arc<dyn Target>,
    url: String,
    options: BenchOptions,
    cells: Cells,
    own: Option<Arc<Own>>,
    prefix: String,
}

/// A name for tables of one measuring, of which there is no other.
pub(super) fn prefix() -> String {
    let id = uuid::Uuid::now_v7().simple().to_string();
    // Of the time-ordered kind the last digits are random.
    format!("{SCRATCH}{}", &id[id.len() - 8..])
}

/// The gauge of a target. `Config` where it has none.
pub(super) fn instruments(target: &dyn Target) -> Result<&dyn Instruments> {
    target.instruments().ok_or_else(|| {
        Error::config(format!(
            "{} cannot be measured yet",
            target.capabilities().product
        ))
        .hint("`tonnage targets` lists the databases")
    })
}

impl Bench {
    /// Decides the cells, and reads the user's own rows where they are asked for. `url` is only shown, so it must be
    /// redacted. Writes nothing.
    pub async fn prepare(target: Arc<dyn Target>, url: String, mut options: BenchOptions) -> Result<Self> {
        instruments(&*target)?;
        if options.matrix.operations.contains(&Mode::Ignore) {
            return Err(Error::config("ignore cannot be measured yet")
                .hint("--operation insert,upsert,update,delete"));
        }
        for round_trip in &options.matrix.round_trips {
            if *round_trip > ROUND_TRIP_MAX {
                return Err(Error::config(format!(
                    "a round trip can be made {} longer at most",
                    RoundTrip(ROUND_TRIP_MAX.as_micros() as u64)
                )));
            }
        }
        if options.leads_elsewhere() {
            instruments(&*target)?.address()?;
        }
        options.check_together()?;
        options.budget.check()?;
        let own = tables::own(&target, &url, &mut options).await?;
        let rows = options.budget.rows;
        let obstacles = tables::Obstacles::of(&*target, &options.matrix, own.clone(), rows).await?;
        let obstacle = |setting: &Setting| {
            obstacles
                .to(setting)
                .or_else(|| buffering::not_buffered(setting, &options))
                .or_else(|| bounds::too_seldom(&options, setting))
        };
        let cells = options
            .matrix
            .cells(target.capabilities(), &options.budget, &obstacle)?;
        Ok(Self {
            target,
            url,
            options,
            cells,
            own,
            prefix: prefix(),
        })
    }

    /// The cells to be run.
    pub fn cells(&self) -> &Cells {
        &self.cells
    }

    /// Where its tables will be.
    pub fn place(&self) -> Result<ScratchPlace> {
        Ok(instruments(&*self.target)?.place(&self.prefix))
    }

    /// Whether any of them goes through a buffer, which keeps its position in the ledger, whose tables stay.
    pub fn buffers(&self) -> bool {
        self.cells.run.iter().any(|setting| setting.method.is_buffer())
    }

    /// Runs in all, if every cell can be run.
    pub fn runs(&self) -> usize {
        let budget = &self.options.budget;
        if self.options.until.is_some() {
            return self.cells.run.len() * sure::ROUNDS_LEAST;
        }
        let counted = self.cells.run.len() * (budget.repeats + budget.warm_up);
        counted + counted.div_ceil(REFERENCE_EVERY) + 1
    }

    /// The time that this takes if every run takes its time.
    pub fn duration(&self) -> Duration {
        self.options.budget.duration * self.runs() as u32
    }

    /// Runs the cells and decides. `Cancelled` where `stop` was requested; what was made is removed in any case.
    pub async fn run(self, stop: Stop, watch: &(dyn Fn(Event) + Send + Sync)) -> Result<BenchReport> {
        let began = Instant::now();
        let started = now();
        let budget = self.options.budget;
        let rows = self.all_rows().await?;
        let ways = Ways::open(&*self.target, &self.cells.run, self.options.bandwidth).await?;
        let mut running = Running {
            bench: &self,
            ways,
            rows,
            stop,
            watch,
            first_run: Instant::now(),
            done: 0,
            total: self.runs(),
            ruled_out: self.cells.ruled_out.clone(),
            settings_changed: Vec::new(),
            notes: Vec::new(),
            meter: Meter::new(instruments(&*self.target)?).await?,
            shortest: RoundTrips::new(),
            databases: 1,
        };
        let (mut cells, reference, left) = match &self.options.until {
            Some(until) => running.until_sure(until).await?,
            None => {
                let (cells, reference) = running.all().await?;
                (cells, reference, None)
            }
        };
        if left.is_none() {
            running.write_paths(&mut cells).await?;
        }
        let Running {
            rows,
            ruled_out,
            settings_changed,
            mut notes,
            meter,
            databases,
            ..
        } = running;
        let capabilities = self.target.capabilities();
        let answers = self.answers(&cells, &ruled_out, &reference, left.as_ref());
        self.note_circumstances(reference.steadiness, &mut notes);
        Ok(BenchReport {
            version: REPORT_VERSION,
            product: capabilities.product.clone(),
            target: self.url.clone(),
            started,
            processors: processors(),
            seconds: began.elapsed().as_secs_f64(),
            seed: self.options.seed,
            rows_max: budget.rows,
            run_seconds_max: budget.duration.as_secs_f64(),
            repeats: budget.repeats,
            ledger: self.options.ledger,
            single_transaction: self.options.single_transaction,
            bandwidth: self.options.bandwidth,
            own_rows: self.own.as_ref().map(|own| own.shown.clone()),
            rate: self.options.rate,
            databases,
            server_processes: meter.server(),
            unmeasured: meter.unmeasured,
            durability_levels: capabilities.durability.to_vec(),
            answers,
            cells,
            ruled_out,
            reference,
            generator: rows.ceilings(),
            settings_changed,
            notes,
        })
    }

    /// What the cells say. `left` is what a run until it is sure could not decide.
    fn answers(
        &self,
        cells: &[Cell],
        ruled_out: &[RuledOut],
        reference: &Reference,
        left: Option<&Left>,
    ) -> Vec<Answer> {
        let rates: Vec<f64> = reference.runs.iter().map(|(_, rate)| *rate).collect();
        let evidence = Evidence {
            cells,
            ruled_out,
            steadiness: reference.steadiness,
            reference: &rates,
            durability_levels: self.target.capabilities().durability,
            rate: self.options.rate.map(|rate| rate as f64),
        };
        match (left, &self.options.until) {
            (Some(left), Some(until)) => sure::answer(&evidence, left, until).into_iter().collect(),
            _ => answers(&evidence),
        }
    }

    /// What the figures hold under: what was counted as a row, what was left out, and how steady the database was.
    fn note_circumstances(&self, steadiness: Option<Steadiness>, notes: &mut Vec<String>) {
        if self.buffers() {
            notes.push(
                "rows of a buffer are put as JSON, made on the producer's thread, each put waiting for its answer; they are \
                 counted once they are in the table. Its position is kept in the ledger, whose tables stay, and its journal \
                 in a directory here, which is removed"
                    .to_owned(),
            );
        }
        if !self.options.ledger {
            notes.push(
                "runs kept no ledger, as tonnage load --ledger none: a load writes its positions with every commit, \
                 which counts where commits are small (--with-ledger measures that)"
                    .to_owned(),
            );
        }
        if self.options.leads_elsewhere() {
            let narrow = self.options.bandwidth.map_or_else(String::new, |bandwidth| {
                format!(", limited to {} bytes a second each way", Grouped(bandwidth))
            });
            notes.push(format!(
                "the way to the database led through this process{narrow}: what that takes of the processor counts as \
                 the client's, and making a connection takes less than over a distance"
            ));
        }
        if let Some(steadiness) = steadiness.filter(|s| s.drift.abs() > 0.1) {
            notes.push(format!(
                "the database became {:.0}% {} while it was measured",
                steadiness.drift.abs() * 100.0,
                if steadiness.drift < 0.0 {
                    "slower"
                } else {
                    "faster"
                }
            ));
        }
    }
}

/// `2024-02-29T23:59:58Z`, in UTC.
fn now() -> String {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let micros = i64::try_from(since.as_secs().saturating_mul(1_000_000)).unwrap_or(i64::MAX);
    format!("{}Z", text_of_timestamp(micros).replacen(' ', "T", 1))
}

fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Cells while they are run.
struct Running<'a> {
    bench: &'a Bench,
    ways: Ways,
    rows: AllRows,
    stop: Stop,
    watch: &'a (dyn Fn(Event) + Send + Sync),
    first_run: Instant,
    done: usize,
    total: usize,
    ruled_out: Vec<RuledOut>,
    settings_changed: Vec<String>,
    notes: Vec<String>,
    meter: Meter,
    shortest: RoundTrips,
    /// Databases that the rows of a table are spread over.
    databases: usize,
}

impl Running<'_> {
    /// All rounds.
    async fn all(&mut self) -> Result<(Vec<Cell>, Reference)> {
        let budget = self.bench.options.budget;
        let settings = &self.bench.cells.run;
        let mut runs: Vec<Vec<Run>> = vec![Vec::new(); settings.len()];
        let reference = self.reference().await?;
        let mut repeated = Vec::new();
        let mut since = 0;
        let all = rounds(
            settings.len(),
            budget.warm_up + budget.repeats,
            self.bench.options.seed,
        );
        for (round, order) in all.iter().enumerate() {
            for at in order {
                let setting = settings[*at];
                if self.ruled_out.iter().any(|out| out.setting == setting) {
                    continue;
                }
                if usize::is_multiple_of(since, REFERENCE_EVERY) {
                    self.again(&reference, &mut repeated).await?;
                }
                since += 1;
                if let Some(run) = self.once(&setting).await?
                    && round >= budget.warm_up
                {
                    runs[*at].push(run);
                }
            }
        }
        self.again(&reference, &mut repeated).await?;
        Ok((cells_of(settings, runs), Reference::of(reference, repeated)))
    }

    /// Rounds of what may still be the best, until that is known or time is over.
    async fn until_sure(&mut self, until: &Until) -> Result<(Vec<Cell>, Reference, Option<Left>)> {
        let began = Instant::now();
        let settings = &self.bench.cells.run;
        let mut runs: Vec<Vec<Run>> = vec![Vec::new(); settings.len()];
        let mut left: Option<Left> = None;
        let mut longest = Duration::ZERO;
        let all = rounds(settings.len(), ROUNDS_MAX, self.bench.options.seed);
        'rounds: for (round, order) in all.iter().enumerate() {
            for at in order {
                let setting = settings[*at];
                let is_out = self.ruled_out.iter().any(|out| out.setting == setting);
                if is_out
                    || left
                        .as_ref()
                        .is_some_and(|left| !left.settings.contains(&setting))
                {
                    continue;
                }
                if !until.has_time(round, began.elapsed(), longest) {
                    break 'rounds;
                }
                let run_began = Instant::now();
                if let Some(run) = self.once(&setting).await? {
                    runs[*at].push(run);
                }
                longest = longest.max(run_began.elapsed());
            }
            let cells = cells_of(settings, runs.clone());
            let is_left = |cell: &&Cell| {
                left.as_ref()
                    .is_none_or(|left| left.settings.contains(&cell.setting))
            };
            let measured: Vec<&Cell> = cells.iter().filter(is_left).collect();
            let found = sure::left(&measured, until.goal);
            let is_over = found.open.is_empty() && round + 1 >= sure::ROUNDS_LEAST;
            left = Some(found);
            if is_over {
                break;
            }
        }
        let cells = cells_of(settings, runs);
        let Some(first) = cells.first() else {
            let why = self.ruled_out.first().map(|out| out.why.clone());
            return Err(Error::config(format!(
                "nothing could be measured: {}",
                why.unwrap_or_default()
            )));
        };
        // The one that was measured most often shows how runs vary.
        let often = cells.iter().max_by_key(|cell| cell.runs.len()).unwrap_or(first);
        let repeated = often.runs.iter().map(|run| (run.at_seconds, run.rows_per_second));
        let reference = Reference::of(often.setting, repeated.collect());
        Ok((cells, reference, left))
    }

    /// The first of those that may be one that can be run; that run does not count.
    async fn reference(&mut self) -> Result<Setting> {
        for setting in self.bench.cells.references() {
            if self.once(&setting).await?.is_some() {
                return Ok(setting);
            }
        }
        let why = self.ruled_out.first().map(|out| out.why.clone());
        Err(Error::config(format!(
            "nothing could be measured: {}",
            why.unwrap_or_default()
        )))
    }

    async fn again(&mut self, reference: &Setting, repeated: &mut Vec<(f64, f64)>) -> Result<()> {
        if let Some(run) = self.once(reference).await? {
            repeated.push((run.at_seconds, run.rows_per_second));
        }
        Ok(())
    }

    /// One run of a setting; none where it is ruled out.
    async fn once(&mut self, setting: &Setting) -> Result<Option<Run>> {
        if self.stop.requested() {
            return Err(stopped());
        }
        let name = format!("{}_{}", self.bench.prefix, self.done + 1);
        let ran = self.on_scratch(setting, &name).await;
        self.done += 1;
        let run = match ran {
            Ok(run) => Some(run),
            Err(error) if self.stop.requested() => {
                tracing::debug!("{error}");
                return Err(stopped());
            }
            Err(error) if error.kind() == ErrorKind::Bug => return Err(error),
            Err(error) => {
                self.ruled_out.push(RuledOut {
                    setting: *setting,
                    why: error.to_string(),
                });
                None
            }
        };
        (self.watch)(Event::Ran {
            done: self.done,
            total: self.total.max(self.done),
            setting: *setting,
            rows_per_second: run.as_ref().map(|run| run.rows_per_second),
        });
        Ok(run)
    }

    /// One run on tables of its own.
    async fn on_scratch(&mut self, setting: &Setting, name: &str) -> Result<Run> {
        let bench = self.bench;
        let instruments = instruments(&*bench.target)?;
        let names: Vec<String> = match setting.table.tables {
            1 => vec![name.to_owned()],
            tables => (1..=tables).map(|table| format!("{name}_{table}")).collect(),
        };
        let ran = match self.make_all(setting, &names).await {
            Ok(made) => self.on_made(setting, made).await,
            Err(error) => Err(error),
        };
        let mut discarded = Ok(());
        for name in &names {
            let done = instruments.discard(name).await.map_err(|e| {
                e.at(format!(
                    "{name}, which was made to measure with, cannot be removed"
                ))
            });
            discarded = discarded.and(done);
        }
        let run = ran?;
        discarded?;
        Ok(run)
    }

    async fn on_made(&mut self, setting: &Setting, mut made: Vec<Made>) -> Result<Run> {
        match (setting.method.ack(), made.pop()) {
            (Some(ack), Some(only)) if made.is_empty() => self.by_buffer(setting, ack, only).await,
            (_, last) => {
                made.extend(last);
                self.on_tables(setting, made).await
            }
        }
    }

    async fn make_all(&mut self, setting: &Setting, names: &[String]) -> Result<Vec<Made>> {
        let mut all = Vec::with_capacity(names.len());
        for (index, name) in names.iter().enumerate() {
            let rows = Rows::part(self.bench.options.budget.rows, index as u64, names.len() as u64);
            let made = self.make(setting, name, rows).await?;
            self.note_lacking(&made);
            all.push(made);
        }
        Ok(all)
    }
}

/// The cells that were run, in the order of their settings.
fn cells_of(settings: &[Setting], runs: Vec<Vec<Run>>) -> Vec<Cell> {
    let cell = |(setting, runs): (&Setting, Vec<Run>)| {
        let rates: Vec<f64> = runs.iter().map(|run| run.rows_per_second).collect();
        Some(Cell {
            setting: *setting,
            rows_per_second: Estimate::of(&rates)?,
            runs,
            write_path: None,
        })
    };
    settings.iter().zip(runs).filter_map(cell).collect()
}

fn stopped() -> Error {
    Error::new(
        ErrorKind::Cancelled,
        "interrupted; what was made to measure with is removed",
    )
}
