//! What is measured: settings, the matrix of them, and the order in which they are run.

use std::{fmt, str::FromStr, time::Duration};

use serde::{Deserialize, Serialize};
use tonnage_core::{
    error::{Error, Result},
    instruments::{Keys, Storage, TableForm},
    operation::{Durability, Method, Mode},
    report::{Counted, Grouped},
    target::Capabilities,
};
use tonnage_engine::buffer::Ack;
use tonnage_formats::generate::{
    Workload,
    random::{Random, base},
};

pub use super::{method::BenchMethod, touch::Touch};

/// Rows of a batch where none are asked for. A decade apart: the published optimum is near the middle one.
const BATCH_ROWS: [usize; 3] = [100, 1_000, 10_000];
/// Jobs where none are asked for and the database has more than one writer.
const JOBS: [usize; 3] = [1, 2, 4];
/// The most reads of a hundred operations.
const READS_MAX: u8 = 99;
/// Tables that rows are dealt over: each load keeps threads of its own, and all of them have to run at once.
const TABLES_MAX: usize = 64;
/// Partitions of a table: as many as MariaDB has at most.
const PARTITIONS_MAX: usize = 8_192;
/// Cells of a matrix at most: an hour of one-second runs repeated three times.
const CELLS_MAX: usize = 1_200;
/// The stream of random numbers that the order takes.
const STREAM: u64 = 0x006f_7264_6572;

/// What the user's own rows are called.
const OWN: &str = "own";

/// The kind of rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub enum RowKind {
    /// Made up by rule.
    Workload(Workload),
    /// The user's own, of files or of a table.
    Own,
}

impl RowKind {
    /// Its name: that of the workload, or `own`.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Workload(workload) => workload.name(),
            Self::Own => OWN,
        }
    }
}

impl fmt::Display for RowKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Workload(workload) => workload.name(),
            Self::Own => "own rows",
        })
    }
}

impl From<Workload> for RowKind {
    fn from(workload: Workload) -> Self {
        Self::Workload(workload)
    }
}

impl From<RowKind> for String {
    fn from(kind: RowKind) -> Self {
        kind.name().to_owned()
    }
}

impl TryFrom<String> for RowKind {
    type Error = Error;

    fn try_from(name: String) -> Result<Self> {
        match name.as_str() {
            OWN => Ok(Self::Own),
            name => Workload::from_str(name).map(Self::Workload),
        }
    }
}

/// One way of writing rows: a cell of the matrix.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Setting {
    /// The kind of rows.
    pub workload: RowKind,
    /// The form of the table that they go into.
    #[serde(default)]
    pub table: TableForm,
    /// What happens to a row.
    pub operation: Mode,
    /// Which of the rows that are there it meets.
    #[serde(default)]
    pub touch: Touch,
    /// Of a hundred operations, a row that is written or a key that is read, so many are reads; 0 for none.
    #[serde(default)]
    pub reads: u8,
    /// How rows are brought.
    pub method: BenchMethod,
    /// The most rows of a write; 1 where rows are brought [one at a time](BenchMethod::is_row_by_row).
    pub batch_rows: usize,
    /// Connections that write at once, to all tables together; of a buffer the producers that put at once.
    pub jobs: usize,
    /// What a commit promises.
    pub durability: Durability,
    /// Microseconds that a round trip to the database takes longer than it does; 0 for the way as it is.
    #[serde(default)]
    pub round_trip_micros: u64,
}

/// What settings have in common among which one can be chosen, but for the durability: the others are as they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Kind {
    /// The kind of rows.
    pub workload: RowKind,
    /// The form of the table.
    #[serde(default)]
    pub table: TableForm,
    /// What happens to a row.
    pub operation: Mode,
    /// Which of the rows that are there it meets.
    #[serde(default)]
    pub touch: Touch,
    /// Of a hundred operations so many are reads.
    #[serde(default)]
    pub reads: u8,
    /// Microseconds that a round trip takes longer.
    #[serde(default)]
    pub round_trip_micros: u64,
}

impl fmt::Display for Kind {
    /// `sbtest insert`, `sbtest insert, 3 indexes, unlogged at 70ms a round trip`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.workload, self.operation.name())?;
        if self.touch != Touch::Each {
            write!(f, ", {} rows", self.touch)?;
        }
        if self.reads > 0 {
            write!(f, ", {}% reads", self.reads)?;
        }
        for phrase in self.table.phrases() {
            write!(f, ", {phrase}")?;
        }
        match self.round_trip_micros {
            0 => Ok(()),
            micros => write!(f, " at {} a round trip", RoundTrip(micros)),
        }
    }
}

/// Microseconds as people write them: `70ms`, `0.5ms`.
pub struct RoundTrip(pub u64);

impl fmt::Display for RoundTrip {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}ms", self.0 as f64 / 1e3)
    }
}

impl fmt::Display for Setting {
    /// Without what is its [`Kind`] and its durability: `array, 1,000 rows, 2 jobs`; `buffer-journaled, 8 producers`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, ", self.method)?;
        if !self.method.is_row_by_row() {
            write!(f, "{}, ", Counted(self.batch_rows as u64, "row"))?;
        }
        write!(f, "{}", Counted(self.jobs as u64, self.jobs_are()))
    }
}

impl Setting {
    /// What it can be compared within.
    pub fn kind(&self) -> Kind {
        Kind {
            workload: self.workload,
            table: self.table,
            operation: self.operation,
            touch: self.touch,
            reads: self.reads,
            round_trip_micros: self.round_trip_micros,
        }
    }

    /// Which rows its writes meet: of an insert the touch says only which are read.
    pub(super) fn touch_written(&self) -> Touch {
        match self.operation {
            Mode::Insert => Touch::Each,
            _ => self.touch,
        }
    }

    /// What one of its jobs is.
    pub(super) fn jobs_are(&self) -> &'static str {
        match self.method.is_buffer() {
            true => "producer",
            false => "job",
        }
    }

    /// Connections that write to each table.
    pub fn jobs_a_table(&self) -> usize {
        self.jobs / self.table.tables.max(1)
    }

    /// The options of `tonnage load` that ask for it, of a buffer those of `tonnage ingest`; of several tables those of the
    /// load of each.
    pub fn flags(&self) -> String {
        let mut flags = match self.operation {
            Mode::Insert => String::new(),
            mode => format!("--mode {} ", mode.name()),
        };
        match self.method.ack() {
            Some(ack) => {
                flags.push_str(&format!("--ack {ack}"));
                if ack == Ack::Journaled {
                    flags.push_str(" --journal DIR");
                }
                return flags;
            }
            None => flags.push_str(&format!("--method {}", self.method)),
        }
        if self.method != BenchMethod::Load(Method::Single) {
            flags.push_str(&format!(" --batch-rows {}", self.batch_rows));
        }
        flags.push_str(&format!(" --jobs {}", self.jobs_a_table()));
        // A table that is UNLOGGED keeps none that could be asked for.
        if self.table.storage != Storage::Unlogged {
            flags.push_str(&format!(" --durability {}", self.durability));
        }
        flags
    }
}

/// What to measure; each list is crossed with the others.
#[derive(Debug, Clone, Default)]
pub struct Matrix {
    /// The kinds of rows.
    pub workloads: Vec<RowKind>,
    /// Which of the rows that are there are met; empty for each once.
    pub touches: Vec<Touch>,
    /// How many of a hundred operations are reads; empty for none.
    pub reads: Vec<u8>,
    /// Indexes in addition to the primary key; empty for none, or for those of the table that is copied.
    pub indexes: Vec<usize>,
    /// Columns; empty for those that the rows have of themselves.
    pub columns: Vec<usize>,
    /// Where keys come from; empty for the rows.
    pub keys: Vec<Keys>,
    /// How tables are kept; empty for as usual.
    pub storage: Vec<Storage>,
    /// Bytes of a page; empty for those that the database's other tables have.
    pub page_bytes: Vec<u32>,
    /// Partitions by time; empty for none.
    pub partitions: Vec<usize>,
    /// Tables that rows are dealt over; empty for one.
    pub several: Vec<usize>,
    /// What happens to a row.
    pub operations: Vec<Mode>,
    /// What a round trip takes longer, in whole microseconds; empty for the way as it is.
    pub round_trips: Vec<Duration>,
    /// None for all that loads have into the database.
    pub methods: Option<Vec<BenchMethod>>,
    /// None for 100, 1,000 and 10,000.
    pub batch_rows: Option<Vec<usize>>,
    /// None for 1, 2 and 4, as far as they can be dealt over the tables; 1 where the database has one writer.
    pub jobs: Option<Vec<usize>>,
    /// None for the strongest that the database keeps.
    pub durability: Option<Vec<Durability>>,
}

/// How long and how often.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Budget {
    /// Rows of a run at most.
    pub rows: u64,
    /// Time of a run at most, but at least one commit.
    pub duration: Duration,
    /// Runs of a cell that count.
    pub repeats: usize,
    /// Runs of a cell before these, that do not.
    pub warm_up: usize,
}

/// Why something cannot be measured, of those settings of which it says so.
pub type Obstacle<'a> = &'a dyn Fn(&Setting) -> Option<String>;

/// A setting that cannot be measured.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RuledOut {
    /// It.
    pub setting: Setting,
    /// Why not.
    pub why: String,
}

/// The cells of a matrix for a database, and those that cannot be one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cells {
    /// To be run.
    pub run: Vec<Setting>,
    /// Not.
    pub ruled_out: Vec<RuledOut>,
}

impl Matrix {
    /// Its cells but for those that meet the `obstacle`. `Config` where it has none, too many, or asks for nothing of a
    /// kind.
    pub fn cells(&self, capabilities: &Capabilities, budget: &Budget, obstacle: Obstacle) -> Result<Cells> {
        budget.check()?;
        let of_loads: Vec<BenchMethod> = capabilities
            .methods
            .iter()
            .map(|method| (*method).into())
            .collect();
        let methods = self.methods.as_deref().unwrap_or(&of_loads);
        let batch_rows = self.batch_rows.as_deref().unwrap_or(&BATCH_ROWS);
        let strongest = capabilities.durability.last().copied();
        let durability = match &self.durability {
            Some(levels) => levels.clone(),
            None => strongest.into_iter().collect(),
        };
        if batch_rows.contains(&0) {
            return Err(Error::config("--batch-rows must be at least 1"));
        }
        if self.jobs.as_ref().is_some_and(|jobs| jobs.contains(&0)) {
            return Err(Error::config("--jobs must be at least 1"));
        }
        if let Some(reads) = self.reads.iter().find(|reads| **reads > READS_MAX) {
            return Err(
                Error::config(format!("{reads} of 100 operations cannot be reads")).hint(format!(
                    "0 to {READS_MAX}: what is measured is how a database takes rows, so some are written"
                )),
            );
        }
        if self.several.contains(&0) {
            return Err(Error::config("--tables must be at least 1").hint("1 is a table as without --tables"));
        }
        let too_many = |name: &str, most: usize, asked: &[usize]| match asked.iter().find(|n| **n > most) {
            Some(asked) => Err(Error::config(format!("{name} {asked} is too many"))
                .hint(format!("{most} at most, in each setting"))),
            None => Ok(()),
        };
        too_many("--tables", TABLES_MAX, &self.several)?;
        too_many("--partitions", PARTITIONS_MAX, &self.partitions)?;
        let mut cells = Cells {
            run: Vec::new(),
            ruled_out: Vec::new(),
        };
        for kind in self.kinds() {
            let jobs = self.jobs_over(kind.table.tables, capabilities);
            for durability in &durability {
                for method in methods {
                    for jobs in &jobs {
                        for rows in batch_rows {
                            cells.add(
                                Setting {
                                    workload: kind.workload,
                                    table: kind.table,
                                    operation: kind.operation,
                                    touch: kind.touch,
                                    reads: kind.reads,
                                    method: *method,
                                    batch_rows: if method.is_row_by_row() { 1 } else { *rows },
                                    jobs: *jobs,
                                    durability: *durability,
                                    round_trip_micros: kind.round_trip_micros,
                                },
                                capabilities,
                                budget,
                                obstacle,
                            );
                        }
                    }
                }
            }
        }
        match cells.run.len() {
            0 => {
                let error = match cells.ruled_out.first() {
                    Some(first) if cells.ruled_out.iter().all(|out| out.why == first.why) => {
                        Error::config(format!("nothing can be measured: {}", first.why))
                    }
                    Some(first) => Error::config(format!(
                        "nothing can be measured: {}: {}",
                        first.setting, first.why
                    )),
                    None => Error::config("nothing was asked to be measured"),
                };
                Err(error.hint("`tonnage bench --help` says what can be asked for"))
            }
            count if count > CELLS_MAX => Err(Error::config(format!(
                "{} cells are too many, {} can be measured at once",
                Grouped(count as u64),
                Grouped(CELLS_MAX as u64)
            ))
            .hint("give shorter lists")),
            _ => Ok(cells),
        }
    }

    /// Jobs that write to so many tables together: of those where none are asked for the ones that can be dealt over
    /// them, or else one each.
    fn jobs_over(&self, tables: usize, capabilities: &Capabilities) -> Vec<usize> {
        if let Some(jobs) = &self.jobs {
            return jobs.clone();
        }
        let usual = match capabilities.writers_max {
            Some(1) => &JOBS[..1],
            _ => &JOBS,
        };
        let dealt = usual.iter().filter(|jobs| jobs.is_multiple_of(tables));
        match dealt.copied().collect::<Vec<_>>() {
            none if none.is_empty() => vec![tables],
            dealt => dealt,
        }
    }

    fn kinds(&self) -> Vec<Kind> {
        let as_it_is = [Duration::ZERO];
        let round_trips = match self.round_trips.as_slice() {
            [] => &as_it_is[..],
            given => given,
        };
        let touches = match self.touches.as_slice() {
            [] => &[Touch::Each][..],
            given => given,
        };
        let reads = match self.reads.as_slice() {
            [] => &[0][..],
            given => given,
        };
        let tables = self.tables();
        let mut kinds = Vec::new();
        for workload in &self.workloads {
            for operation in &self.operations {
                for (touch, reads) in touches.iter().flat_map(|t| reads.iter().map(move |r| (t, r))) {
                    for table in &tables {
                        kinds.extend(round_trips.iter().map(|round_trip| Kind {
                            workload: *workload,
                            table: *table,
                            operation: *operation,
                            touch: *touch,
                            reads: *reads,
                            round_trip_micros: u64::try_from(round_trip.as_micros()).unwrap_or(u64::MAX),
                        }));
                    }
                }
            }
        }
        kinds
    }

    /// The forms of tables that it asks for, the most usual first where it is among them.
    pub fn tables(&self) -> Vec<TableForm> {
        let mut tables = vec![TableForm::default()];
        fn cross<T: Copy>(tables: &mut Vec<TableForm>, list: &[T], set: impl Fn(&mut TableForm, T)) {
            if list.is_empty() {
                return;
            }
            let of_one = |table: &TableForm| {
                let mut all = vec![*table; list.len()];
                for (table, value) in all.iter_mut().zip(list) {
                    set(table, *value);
                }
                all
            };
            *tables = tables.iter().flat_map(of_one).collect();
        }
        cross(&mut tables, &self.columns, |table, columns| {
            table.columns = Some(columns);
        });
        cross(&mut tables, &self.indexes, |table, indexes| {
            table.indexes = indexes
        });
        cross(&mut tables, &self.keys, |table, keys| table.keys = keys);
        cross(&mut tables, &self.storage, |table, storage| {
            table.storage = storage
        });
        cross(&mut tables, &self.page_bytes, |table, bytes| {
            table.page_bytes = Some(bytes);
        });
        cross(&mut tables, &self.partitions, |table, partitions| {
            table.partitions = partitions;
        });
        cross(&mut tables, &self.several, |table, several| {
            table.tables = several
        });
        tables
    }
}

impl Budget {
    /// `Config` where it is for nothing.
    pub(super) fn check(&self) -> Result<()> {
        let nothing = |name: &str| Err(Error::config(format!("{name} must be more than 0")));
        match self {
            Self { rows: 0, .. } => nothing("--rows"),
            Self { repeats: 0, .. } => nothing("--repeat"),
            Self { duration, .. } if duration.is_zero() => nothing("--duration"),
            _ => Ok(()),
        }
    }
}

impl Cells {
    fn add(&mut self, setting: Setting, capabilities: &Capabilities, budget: &Budget, obstacle: Obstacle) {
        if self.run.contains(&setting) || self.ruled_out.iter().any(|out| out.setting == setting) {
            return;
        }
        let tables = setting.table.tables;
        let rows = budget.rows / tables.max(1) as u64;
        let why = match capabilities.writers_max {
            Some(most) if setting.jobs > most && !setting.method.is_buffer() => {
                let several = match tables > most {
                    true => format!(", and {tables} tables take one each"),
                    false => String::new(),
                };
                let writers = Counted(most as u64, "writer");
                Some(format!(
                    "{} has {writers} at a time{several}",
                    capabilities.product
                ))
            }
            _ if !setting.jobs.is_multiple_of(tables) => Some(format!(
                "{} cannot be dealt over {tables} tables in equal parts; a multiple of {tables} can",
                Counted(setting.jobs as u64, "job")
            )),
            _ if setting.batch_rows as u64 > rows => {
                let more = match setting.workload {
                    RowKind::Workload(_) => "; --rows gives it more",
                    RowKind::Own => "",
                };
                let of = if tables > 1 { "of a run a table" } else { "a run" };
                Some(format!("{of} has {} only{more}", Counted(rows, "row")))
            }
            _ => None,
        };
        let why = obstacle(&setting).or(why);
        match why {
            Some(why) => self.ruled_out.push(RuledOut { setting, why }),
            None => self.run.push(setting),
        }
    }

    /// Where to look for one to be measured again and again: those of the first workload that take many rows at a time by
    /// one job, nearest to 1,000 rows first; then the others.
    pub fn references(&self) -> Vec<Setting> {
        let mut settings = self.run.clone();
        let first = settings.first().map(|s| (s.kind(), s.durability));
        settings.sort_by_key(|s| {
            let distance = (s.batch_rows as f64).log10() - 3.0;
            (
                Some((s.kind(), s.durability)) != first,
                s.method.is_buffer(),
                s.method != BenchMethod::Load(Method::Array),
                s.jobs,
                (distance.abs() * 1e3) as u64,
            )
        });
        settings
    }
}

/// The numbers 0 to `count - 1`, once a round, each round in an order of its own that the seed decides.
pub fn rounds(count: usize, rounds: usize, seed: u64) -> Vec<Vec<usize>> {
    let base = base(seed, STREAM);
    (0..rounds)
        .map(|round| {
            let mut random = Random::of_row(base, round as u64);
            let mut order: Vec<usize> = (0..count).collect();
            // Fisher and Yates, from the end.
            for last in (1..count).rev() {
                order.swap(last, random.below(last as u64 + 1) as usize);
            }
            order
        })
        .collect()
}

#[cfg(test)]
mod tests;
