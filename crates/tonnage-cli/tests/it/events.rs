//! An input with bad rows in it, what a table must hold once it is loaded, and a source of chance to play with it.

use std::{
    collections::{BTreeMap, BTreeSet},
    io::Write,
    path::{Path, PathBuf},
    process::Command,
    time::{SystemTime, UNIX_EPOCH},
};

use serde_json::Value;
use tempfile::TempDir;

use crate::{
    database::{Database, Row},
    process::tonnage,
};

/// Numbers that depend on a seed alone (splitmix64).
pub struct Chance(u64);

impl Chance {
    /// Another seed each time, or TONNAGE_TEST_SEED to see a failure again. It is printed: a test that fails shows it.
    pub fn new() -> Self {
        Self::named("TONNAGE_TEST_SEED")
    }

    /// The same with a variable of another name.
    pub fn named(variable: &str) -> Self {
        let now = || {
            SystemTime::now()
                .duration_since(UNIX_EPOCH)
                .map_or(0, |d| d.as_nanos() as u64)
        };
        let seed = match std::env::var(variable) {
            Ok(seed) => seed.parse().unwrap_or_else(|_| panic!("{variable} is a number")),
            Err(_) => now(),
        };
        eprintln!("{variable}={seed} chooses the same again");
        Self(seed)
    }

    /// What `seed` chooses.
    pub fn of(seed: u64) -> Self {
        Self(seed)
    }

    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A source of its own for another thread.
    pub fn another(&mut self) -> Self {
        Self(self.next())
    }

    /// Below `bound`.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    /// One of `choices`.
    pub fn one<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len() as u64) as usize]
    }
}

/// What happens to rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    Insert,
    Upsert,
}

/// CSV files and what must become of them. Each file is a block of its own, so slots and lanes have work.
pub struct Events {
    pub directory: TempDir,
    pub mode: Mode,
    /// Rows in all files, bad ones included.
    pub rows: u64,
    files: Vec<PathBuf>,
    /// What the table must hold, by id.
    expected: BTreeMap<i64, Row>,
    /// The bad rows; with key and number those that only the database can tell to be bad.
    bad: BTreeMap<TestDatabase, Option<(i64, u64)>>,
    /// The number of the last row of each key that can be read.
    last: BTreeMap<i64, u64>,
}

/// File and row.
type TestDatabase = (String, u64);

/// How large an input is.
pub struct Size {
    pub files: u64,
    pub rows_each: u64,
}

const SQLITE_TABLE: &str = "CREATE TABLE events (
    id INTEGER PRIMARY KEY,
    label TEXT NOT NULL CHECK (length(label) <= 20),
    amount DECIMAL(12,2) CHECK (amount < 1000000),
    at TIMESTAMP NOT NULL,
    note TEXT)";

const POSTGRES_TABLE: &str = "CREATE TABLE events (
    id bigint PRIMARY KEY,
    label varchar(20) NOT NULL,
    amount numeric(12,2) CHECK (amount < 1000000),
    at timestamp NOT NULL,
    note text)";

const MARIADB_TABLE: &str = "CREATE TABLE events (
    id bigint PRIMARY KEY,
    label varchar(20) NOT NULL,
    amount decimal(12,2) CHECK (amount < 1000000),
    at datetime NOT NULL,
    note text)";

const DUCKDB_TABLE: &str = "CREATE TABLE events (
    id BIGINT PRIMARY KEY,
    label VARCHAR NOT NULL CHECK (length(label) <= 20),
    amount DECIMAL(12,2) CHECK (amount < 1000000),
    \"at\" TIMESTAMP NOT NULL,
    note VARCHAR)";

/// Rows that stand in the table before an upsert: some are replaced, those below 0 are not.
const BEFORE: std::ops::Range<i64> = -50..200;

impl Events {
    pub fn generate(mode: Mode, size: Size, chance: &mut Chance) -> Self {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let mut this = Self {
            directory,
            mode,
            rows: size.files * size.rows_each,
            files: Vec::new(),
            expected: BTreeMap::new(),
            bad: BTreeMap::new(),
            last: BTreeMap::new(),
        };
        if mode == Mode::Upsert {
            for id in BEFORE {
                this.expected.insert(id, before(id));
            }
        }
        for file in 0..size.files {
            let path = this.directory.path().join(format!("events-{file:02}.csv"));
            let mut text = b"id,label,amount,at,note\n".to_vec();
            for row in 1..=size.rows_each {
                let number = file * size.rows_each + row;
                this.write_row(&mut text, &path, number, row, chance);
            }
            std::fs::File::create(&path)
                .and_then(|mut file| file.write_all(&text))
                .expect("an input file");
            this.files.push(path);
        }
        this
    }

    fn write_row(&mut self, text: &mut Vec<u8>, path: &Path, number: u64, row: u64, chance: &mut Chance) {
        let id = match self.mode {
            Mode::Insert => number as i64,
            // Every key comes about twice, in one file or in several.
            Mode::Upsert => chance.below(self.rows / 2) as i64,
        };
        let label = format!("label {}", chance.below(1_000_000));
        let amount = match chance.below(10) {
            0 => None,
            _ => Some(format!("{}.{:02}", chance.below(999_999), chance.below(100))),
        };
        let at = format!(
            "2024-{:02}-{:02} {:02}:{:02}:{:02}",
            1 + chance.below(12),
            1 + chance.below(28),
            chance.below(24),
            chance.below(60),
            chance.below(60)
        );
        let note = match chance.below(8) {
            0 => None,
            1 => Some(String::new()),
            2 => Some(format!("two\nlines, \"{number}\"")),
            3 => Some("größer 🚢".to_owned()),
            _ => Some(format!("note {number}")),
        };
        let shown_amount = amount.as_deref().unwrap_or_default();
        if chance.below(50) == 0 {
            // The key of a row that only the database can tell to be bad.
            let mut seen = None;
            text.extend(match chance.below(8) {
                0 => format!("{id}x,{label},{shown_amount},{at},\n").into_bytes(),
                1 => format!("{id},{label} that is far too long,{shown_amount},{at},\n").into_bytes(),
                2 => {
                    seen = Some(id);
                    format!("{id},,{shown_amount},{at},\n").into_bytes()
                }
                3 => {
                    seen = Some(id);
                    format!("{id},{label},1000000.00,{at},\n").into_bytes()
                }
                4 => format!("{id},{label},{shown_amount},2023-02-30 00:00:00,\n").into_bytes(),
                5 => format!("{id},{label},{shown_amount},{at}\n").into_bytes(),
                6 => [
                    format!("{id},{label},{shown_amount},{at},").as_bytes(),
                    b"\xff\xfe\n",
                ]
                .concat(),
                // An insert of a key that came before in this file.
                _ => match self.first_of_file(number, row) {
                    Some(id) if self.mode == Mode::Insert => {
                        format!("{id},{label},{shown_amount},{at},\n").into_bytes()
                    }
                    _ => format!("{id},{label},12.345,{at},\n").into_bytes(),
                },
            });
            self.bad
                .insert((file_name(path), row), seen.map(|id| (id, number)));
            self.last.extend(seen.map(|id| (id, number)));
            return;
        }
        self.last.insert(id, number);
        let shown_note = note
            .as_ref()
            .map(|note| format!("\"{}\"", note.replace('"', "\"\"")))
            .unwrap_or_default();
        text.extend(format!("{id},{label},{shown_amount},{at},{shown_note}\n").into_bytes());
        let row = vec![Some(id.to_string()), Some(label), amount, Some(at), note];
        self.expected.insert(id, row);
    }

    /// The first id of an insert's file that is loaded.
    fn first_of_file(&self, number: u64, row: u64) -> Option<i64> {
        let first = (number - row + 1) as i64;
        self.expected.range(first..).next().map(|(id, _)| *id)
    }

    /// Makes the table, with what an upsert finds there.
    pub fn prepare(&self, database: &Database) {
        database.run(match database {
            Database::Sqlite(_) => SQLITE_TABLE,
            Database::Postgres(_) => POSTGRES_TABLE,
            Database::MariaDb(_) => MARIADB_TABLE,
            Database::DuckDb(_) => DUCKDB_TABLE,
        });
        if self.mode == Mode::Upsert {
            let rows: Vec<_> = BEFORE
                .map(|id| format!("({id}, 'before', 0.25, '2000-01-01 00:00:00', NULL)"))
                .collect();
            database.run(&format!("INSERT INTO events VALUES {}", rows.join(", ")));
        }
    }

    /// `tonnage load` of these files, bad rows put aside.
    pub fn load(&self, url: &str) -> Command {
        let mut command = tonnage();
        command.arg("load").args(&self.files).arg(url);
        command.args(["--table", "events", "--on-error", "reject", "--rejects"]);
        command.arg(self.rejects()).args(["--max-rejects", "1M"]);
        if self.mode == Mode::Upsert {
            command.args(["--mode", "upsert", "--key", "id"]);
        }
        command
    }

    /// Brings the files elsewhere: `put` says where each one is from then on.
    pub fn bring(&mut self, put: impl Fn(&Path) -> String) {
        for file in &mut self.files {
            *file = put(file).into();
        }
    }

    pub fn rejects(&self) -> PathBuf {
        self.directory.path().join("rejects.jsonl")
    }

    /// Fails unless the table holds every good row once with every value, and the rejects file every bad row once.
    /// Returns how many rejects there are.
    #[track_caller]
    pub fn check(&self, database: &Database) -> u64 {
        let select = match database {
            Database::Sqlite(_) => {
                "SELECT id, label, CASE WHEN amount IS NOT NULL THEN printf('%.2f', amount) END, at, note FROM events"
            }
            Database::Postgres(_) | Database::MariaDb(_) => "SELECT id, label, amount, at, note FROM events",
            Database::DuckDb(_) => "SELECT id, label, amount, \"at\", note FROM events",
        };
        let mut rows = database.rows(&format!("{select} ORDER BY id"));
        rows.sort_by_key(|row| row[0].as_deref().and_then(|id| id.parse::<i64>().ok()));
        let expected: Vec<&Row> = self.expected.values().collect();
        for (found, expected) in rows.iter().zip(&expected) {
            assert_eq!(found, *expected, "in {}", database.name());
        }
        assert_eq!(rows.len(), expected.len(), "rows in {}", database.name());
        self.check_rejects()
    }

    #[track_caller]
    fn check_rejects(&self) -> u64 {
        let text = std::fs::read_to_string(self.rejects()).expect("a rejects file");
        let mut found = BTreeSet::new();
        for line in text.lines() {
            let record: Value = serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}"));
            let file = record["file"].as_str().map(|file| file_name(Path::new(file)));
            let row = record["row"].as_u64();
            let (Some(file), Some(row)) = (file, row) else {
                panic!("a reject names file and row: {line}");
            };
            assert!(
                self.bad.contains_key(&(file.clone(), row)),
                "a good row was rejected: {line}"
            );
            assert!(found.insert((file, row)), "a row was rejected twice: {line}");
        }
        let missing: Vec<_> = self
            .bad
            .iter()
            .filter(|(place, seen)| !found.contains(*place) && !self.may_be_superseded(**seen))
            .collect();
        assert!(
            missing.is_empty(),
            "rejects that are not in the file: {missing:?}"
        );
        found.len() as u64
    }

    /// Whether a later row may replace a bad one before the database sees it, so that nobody learns that it is bad.
    fn may_be_superseded(&self, seen: Option<(i64, u64)>) -> bool {
        self.mode == Mode::Upsert && seen.is_some_and(|(id, number)| self.last[&id] > number)
    }
}

fn before(id: i64) -> Row {
    let at = "2000-01-01 00:00:00".to_owned();
    vec![
        Some(id.to_string()),
        Some("before".to_owned()),
        Some("0.25".to_owned()),
        Some(at),
        None,
    ]
}

fn file_name(path: &Path) -> String {
    path.file_name()
        .map(|name| name.to_string_lossy().into_owned())
        .unwrap_or_default()
}

/// Rows that the ledger's unfinished runs have handled; 0 where nothing has begun.
pub fn handled(database: &Database) -> u64 {
    database
        .number("SELECT coalesce(sum(written + skipped + rejected), 0) FROM tonnage_slots")
        .unwrap_or(0)
}
