//! What is measured: settings, the matrix of them, and the order in which they are run.

use std::{fmt, str::FromStr, time::Duration};

use serde::{Deserialize, Serialize};

use super::{
    form::{Keys, Storage, TableForm},
    touch::Touch,
};
use crate::{
    error::{Error, Result},
    generate::{
        Workload,
        random::{Random, base},
    },
    operation::{Durability, Method},
    plan::Mode,
    report::{Counted, Grouped},
    target::Capabilities,
};

/// Rows of a batch where none are asked for. A decade apart: the published optimum lies near the middle one.
const BATCH_ROWS: [usize; 3] = [100, 1_000, 10_000];
/// Jobs where none are asked for and the database has more than one writer.
const JOBS: [usize; 3] = [1, 2, 4];
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
    /// How rows travel.
    pub method: Method,
    /// The most rows of a write; 1 for [`Method::Single`].
    pub batch_rows: usize,
    /// Connections that write at once.
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
    /// Without what is its [`Kind`] and its durability: `array, 1,000 rows, 2 jobs`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, ", self.method)?;
        if self.method != Method::Single {
            write!(f, "{}, ", Counted(self.batch_rows as u64, "row"))?;
        }
        write!(f, "{}", Counted(self.jobs as u64, "job"))
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
            round_trip_micros: self.round_trip_micros,
        }
    }

    /// The options of `tonnage load` that ask for it.
    pub fn flags(&self) -> String {
        let mut flags = match self.operation {
            Mode::Insert => String::new(),
            mode => format!("--mode {} ", mode.name()),
        };
        flags.push_str(&format!("--method {}", self.method));
        if self.method != Method::Single {
            flags.push_str(&format!(" --batch-rows {}", self.batch_rows));
        }
        flags.push_str(&format!(" --jobs {} --durability {}", self.jobs, self.durability));
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
    /// Indexes beside the primary key; empty for none, or for those of the table that is copied.
    pub indexes: Vec<usize>,
    /// Columns; empty for those that the rows have of themselves.
    pub columns: Vec<usize>,
    /// Where keys come from; empty for the rows.
    pub keys: Vec<Keys>,
    /// How tables are kept; empty for as usual.
    pub storage: Vec<Storage>,
    /// Bytes of a page; empty for those that the database's other tables have.
    pub page_bytes: Vec<u32>,
    /// What happens to a row.
    pub operations: Vec<Mode>,
    /// What a round trip takes longer, in whole microseconds; empty for the way as it is.
    pub round_trips: Vec<Duration>,
    /// None for all that the database has.
    pub methods: Option<Vec<Method>>,
    /// None for 100, 1,000 and 10,000.
    pub batch_rows: Option<Vec<usize>>,
    /// None for 1, 2 and 4; 1 where the database has one writer.
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
        let methods = self.methods.as_deref().unwrap_or(capabilities.methods);
        let batch_rows = self.batch_rows.as_deref().unwrap_or(&BATCH_ROWS);
        let jobs = match (&self.jobs, capabilities.writers_max) {
            (Some(jobs), _) => jobs.as_slice(),
            (None, Some(1)) => &JOBS[..1],
            (None, _) => &JOBS,
        };
        let strongest = capabilities.durability.last().copied();
        let durability = match &self.durability {
            Some(levels) => levels.clone(),
            None => strongest.into_iter().collect(),
        };
        if batch_rows.contains(&0) {
            return Err(Error::config("--batch-rows must be at least 1"));
        }
        if jobs.contains(&0) {
            return Err(Error::config("--jobs must be at least 1"));
        }
        let mut cells = Cells {
            run: Vec::new(),
            ruled_out: Vec::new(),
        };
        for kind in self.kinds() {
            for durability in &durability {
                for method in methods {
                    for jobs in jobs {
                        for rows in batch_rows {
                            cells.add(
                                Setting {
                                    workload: kind.workload,
                                    table: kind.table,
                                    operation: kind.operation,
                                    touch: kind.touch,
                                    method: *method,
                                    batch_rows: if *method == Method::Single { 1 } else { *rows },
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
            0 => Err(match cells.ruled_out.first() {
                Some(first) if cells.ruled_out.iter().all(|out| out.why == first.why) => {
                    Error::config(format!("nothing can be measured: {}", first.why))
                }
                Some(first) => Error::config(format!(
                    "nothing can be measured: {}: {}",
                    first.setting, first.why
                )),
                None => Error::config("nothing was asked to be measured"),
            }),
            count if count > CELLS_MAX => Err(Error::config(format!(
                "{} cells are too many, {} can be measured at once",
                Grouped(count as u64),
                Grouped(CELLS_MAX as u64)
            ))
            .hint("give shorter lists")),
            _ => Ok(cells),
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
        let tables = self.tables();
        let mut kinds = Vec::new();
        for workload in &self.workloads {
            for operation in &self.operations {
                for touch in touches {
                    for table in &tables {
                        kinds.extend(round_trips.iter().map(|round_trip| Kind {
                            workload: *workload,
                            table: *table,
                            operation: *operation,
                            touch: *touch,
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
        let why = match capabilities.writers_max {
            Some(most) if setting.jobs > most => Some(format!(
                "{} has {} at a time",
                capabilities.product,
                Counted(most as u64, "writer")
            )),
            _ if setting.batch_rows as u64 > budget.rows => {
                let more = match setting.workload {
                    RowKind::Workload(_) => "; --rows gives it more",
                    RowKind::Own => "",
                };
                Some(format!("a run has {} only{more}", Counted(budget.rows, "row")))
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
                s.method != Method::Array,
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
mod tests {
    use super::*;

    fn capabilities(writers_max: Option<usize>) -> Capabilities {
        Capabilities {
            product: "Example 1".to_owned(),
            writers_max,
            durability: &[Durability::Relaxed, Durability::Durable],
            methods: &[Method::Native, Method::Single],
            text_holds_nul: true,
            repeats_keys: true,
            batch_rows_default: 1,
            array_rows_max: |_| usize::MAX,
        }
    }

    fn budget() -> Budget {
        Budget {
            rows: 5_000,
            duration: Duration::from_secs(1),
            repeats: 3,
            warm_up: 0,
        }
    }

    fn matrix() -> Matrix {
        Matrix {
            workloads: vec![Workload::Sbtest.into()],
            operations: vec![Mode::Insert],
            ..Matrix::default()
        }
    }

    fn none(_: &Setting) -> Option<String> {
        None
    }

    #[test]
    fn forms_of_tables_are_crossed_and_what_meets_an_obstacle_is_ruled_out() {
        let asked = Matrix {
            methods: Some(vec![Method::Single]),
            jobs: Some(vec![1]),
            indexes: vec![0, 2],
            storage: vec![Storage::Plain, Storage::Unlogged],
            ..matrix()
        };
        let obstacle = |setting: &Setting| {
            let unlogged = setting.table.storage == Storage::Unlogged;
            (unlogged && setting.table.indexes > 0).then(|| "both are too much".to_owned())
        };
        let cells = asked.cells(&capabilities(None), &budget(), &obstacle).unwrap();
        let kinds: Vec<_> = cells.run.iter().map(|s| s.kind().to_string()).collect();
        assert_eq!(
            kinds,
            [
                "sbtest insert",
                "sbtest insert, unlogged",
                "sbtest insert, 2 indexes"
            ]
        );
        assert_eq!(cells.ruled_out.len(), 1);
        assert_eq!(cells.ruled_out[0].why, "both are too much");
    }

    #[test]
    fn a_kind_of_rows_survives_its_file() {
        for (kind, text) in [(RowKind::Own, "\"own\""), (Workload::Ycsb.into(), "\"ycsb\"")] {
            assert_eq!(serde_json::to_string(&kind).unwrap(), text);
            assert_eq!(serde_json::from_str::<RowKind>(text).unwrap(), kind);
        }
        assert!(serde_json::from_str::<RowKind>("\"tpch\"").is_err());
    }

    #[test]
    fn lists_are_crossed_and_a_single_row_has_one_batch_size() {
        let cells = matrix().cells(&capabilities(None), &budget(), &none).unwrap();
        let shown: Vec<_> = cells.run.iter().map(Setting::to_string).collect();
        assert_eq!(
            shown,
            [
                "native, 100 rows, 1 job",
                "native, 1,000 rows, 1 job",
                "native, 100 rows, 2 jobs",
                "native, 1,000 rows, 2 jobs",
                "native, 100 rows, 4 jobs",
                "native, 1,000 rows, 4 jobs",
                "single, 1 job",
                "single, 2 jobs",
                "single, 4 jobs",
            ]
        );
        assert!(cells.run.iter().all(|s| s.durability == Durability::Durable));
        let why: Vec<_> = cells.ruled_out.iter().map(|out| out.why.as_str()).collect();
        assert_eq!(why, ["a run has 5,000 rows only; --rows gives it more"; 3]);
        assert_eq!(
            cells.run[3].flags(),
            "--method native --batch-rows 1000 --jobs 2 --durability durable"
        );
    }

    #[test]
    fn a_round_trip_is_a_kind_of_its_own() {
        let asked = Matrix {
            round_trips: vec![
                Duration::ZERO,
                Duration::from_micros(70_000),
                Duration::from_micros(500),
            ],
            methods: Some(vec![Method::Single]),
            jobs: Some(vec![1]),
            ..matrix()
        };
        let cells = asked.cells(&capabilities(None), &budget(), &none).unwrap();
        let kinds: Vec<_> = cells.run.iter().map(|s| s.kind().to_string()).collect();
        assert_eq!(
            kinds,
            [
                "sbtest insert",
                "sbtest insert at 70ms a round trip",
                "sbtest insert at 0.5ms a round trip"
            ]
        );
    }

    #[test]
    fn what_a_database_has_not_is_ruled_out_and_what_means_nothing_refused() {
        let asked = Matrix {
            jobs: Some(vec![1, 2]),
            methods: Some(vec![Method::Single]),
            ..matrix()
        };
        let cells = asked.cells(&capabilities(Some(1)), &budget(), &none).unwrap();
        assert_eq!((cells.run.len(), cells.ruled_out.len()), (1, 1));
        assert_eq!(cells.ruled_out[0].why, "Example 1 has 1 writer at a time");
        let nothing = Matrix {
            jobs: Some(vec![2]),
            ..asked
        };
        let refused = nothing
            .cells(&capabilities(Some(1)), &budget(), &none)
            .unwrap_err();
        assert!(
            refused.to_string().starts_with("nothing can be measured"),
            "{refused}"
        );
        for (batch_rows, jobs) in [(0, 1), (1, 0)] {
            let zero = Matrix {
                batch_rows: Some(vec![batch_rows]),
                jobs: Some(vec![jobs]),
                ..matrix()
            };
            assert!(zero.cells(&capabilities(None), &budget(), &none).is_err());
        }
        let no_repeats = Budget {
            repeats: 0,
            ..budget()
        };
        assert!(matrix().cells(&capabilities(None), &no_repeats, &none).is_err());
    }

    #[test]
    fn the_reference_is_the_plainest_cell_of_many_rows() {
        let cells = matrix().cells(&capabilities(None), &budget(), &none).unwrap();
        assert_eq!(cells.references()[0].to_string(), "native, 1,000 rows, 1 job");
        assert_eq!(cells.references().len(), cells.run.len());
    }

    #[test]
    fn every_round_has_every_cell_once_and_the_seed_decides_their_order() {
        let of = |seed| rounds(20, 3, seed);
        assert_eq!(of(1), of(1));
        assert_ne!(of(1), of(2));
        assert_ne!(of(1)[0], of(1)[1]);
        for mut round in of(1) {
            round.sort_unstable();
            assert_eq!(round, (0..20).collect::<Vec<_>>());
        }
        assert_eq!(rounds(0, 1, 1), vec![Vec::<usize>::new()]);
    }
}
