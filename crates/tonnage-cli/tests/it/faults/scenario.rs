//! What a round loads, and what must come of it: all of it follows from the round's seed.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
};

use serde_json::Value;

use super::tally::RoundDirectory;
use crate::{database::Row, events::Chance};

/// What is done with the rows of the files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    Insert,
    Upsert,
    Delete,
    /// A statement that must not be run twice for a row.
    Exec,
}

impl Operation {
    pub fn name(self) -> &'static str {
        match self {
            Self::Insert => "insert",
            Self::Upsert => "upsert",
            Self::Delete => "delete",
            Self::Exec => "exec",
        }
    }
}

/// What a database refuses by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Constraints {
    /// A key that is there, a null where none may be, a value that a check does not let in.
    Kept,
    /// There are none.
    Unknown,
}

/// A row of the table.
#[derive(Debug, Clone)]
struct Item {
    label: String,
    quantity: i64,
    amount: Option<String>,
    note: Option<String>,
}

/// See the module.
pub struct Scenario {
    pub operation: Operation,
    pub directory: RoundDirectory,
    /// Rows in all files, bad ones included.
    pub rows: u64,
    pub files: Vec<PathBuf>,
    /// Whether a statement's rows go by their key.
    pub by_key: bool,
    constraints: Constraints,
    /// Rows in the table before.
    before: BTreeMap<i64, Item>,
    /// Rows in the table afterwards.
    after: BTreeMap<i64, Item>,
    /// File and row of what is bad.
    bad: BTreeSet<(String, u64)>,
    /// Good rows that find what they change.
    effective: u64,
}

/// Ids of rows that are bad in the database's eyes, so that no other row has them.
const APART: u64 = 1_000_000;
/// One row in so many is bad.
const BAD: u64 = 40;

impl Scenario {
    pub fn generate(operation: Operation, constraints: Constraints, chance: &mut Chance) -> Self {
        let (files, each) = (2 + chance.below(4), 150 + chance.below(450));
        let rows = files * each;
        let before = match operation {
            Operation::Insert => 0..0,
            Operation::Upsert => -20..(rows / 6) as i64,
            Operation::Delete | Operation::Exec => 0..(rows * 3 / 4) as i64,
        };
        let before: BTreeMap<i64, Item> = before.map(|id| (id, Item::before(id))).collect();
        let mut this = Self {
            operation,
            directory: RoundDirectory::new(),
            rows,
            files: Vec::new(),
            by_key: chance.below(2) == 0,
            constraints,
            after: before.clone(),
            before,
            bad: BTreeSet::new(),
            effective: 0,
        };
        for file in 0..files {
            let name = format!("items-{file}.csv");
            let mut text = match operation {
                Operation::Insert | Operation::Upsert => "id,label,quantity,amount,note\n".to_owned(),
                Operation::Delete => "id\n".to_owned(),
                Operation::Exec => "id,more\n".to_owned(),
            };
            let first = file * each + 1;
            for row in 1..=each {
                let number = first + row - 1;
                let line = match chance.below(BAD) {
                    0 => {
                        this.bad.insert((name.clone(), row));
                        this.bad_line(number, first, chance)
                    }
                    _ => this.good_line(number, chance),
                };
                text.push_str(&line);
            }
            let path = this.directory.path().join(&name);
            std::fs::write(&path, text).expect("an input file");
            this.files.push(path);
        }
        this
    }

    fn good_line(&mut self, number: u64, chance: &mut Chance) -> String {
        let any = chance.below(self.rows) as i64;
        match self.operation {
            Operation::Insert => self.item_line(number as i64, number, chance),
            // Every key comes about twice.
            Operation::Upsert => self.item_line(any / 2, number, chance),
            Operation::Delete => {
                self.effective += u64::from(self.after.remove(&any).is_some());
                format!("{any}\n")
            }
            Operation::Exec => {
                let more = 1 + chance.below(1_000) as i64;
                if let Some(item) = self.after.get_mut(&any) {
                    item.quantity += more;
                    self.effective += 1;
                }
                format!("{any},{more}\n")
            }
        }
    }

    fn item_line(&mut self, id: i64, number: u64, chance: &mut Chance) -> String {
        let item = Item {
            label: format!("label {number}"),
            quantity: chance.below(1_000_000) as i64,
            amount: (chance.below(10) > 0)
                .then(|| format!("{}.{:02}", chance.below(999_999), chance.below(100))),
            note: match chance.below(6) {
                0 => None,
                1 => Some(String::new()),
                2 => Some(format!("two\nlines, \"{number}\"")),
                3 => Some("größer 🚢".to_owned()),
                _ => Some(format!("note {number}")),
            },
        };
        self.effective += 1;
        let note = item.note.as_ref();
        let note = note.map(|note| format!("\"{}\"", note.replace('"', "\"\"")));
        let line = format!(
            "{id},{},{},{},{}\n",
            item.label,
            item.quantity,
            item.amount.as_deref().unwrap_or_default(),
            note.unwrap_or_default()
        );
        self.after.insert(id, item);
        line
    }

    fn bad_line(&self, number: u64, first: u64, chance: &mut Chance) -> String {
        let (apart, keeps) = (APART + number, self.constraints == Constraints::Kept);
        match (self.operation, chance.below(if keeps { 7 } else { 3 })) {
            (Operation::Delete, kind) if kind % 2 == 0 => format!("{number}x\n"),
            (Operation::Delete, _) => format!("{number},2\n"),
            // Who is there is refused a null; who is not is not found.
            (Operation::Exec, kind) if kind % 2 == 0 => {
                format!("{},\n", chance.below(self.before.len() as u64))
            }
            (Operation::Exec, _) => format!("{number}\n"),
            (_, 0) => format!("{number}x,label,1,1.00,\n"),
            (_, 1) => format!("{number},label,1\n"),
            (_, 2) => format!("{number},label,seven,1.00,\n"),
            (_, 3) => format!("{apart},,1,1.00,\n"),
            (_, 4) => format!("{apart},label,1,1000000.00,\n"),
            (_, 5) => format!("{apart},a label that is far too long,1,1.00,\n"),
            // A key of the same file that came before, if this is an insert.
            _ => match self.after.range(first as i64..).next() {
                Some((id, _)) if self.operation == Operation::Insert => format!("{id},label,1,1.00,\n"),
                _ => format!("{apart},label,1,1.005,\n"),
            },
        }
    }

    /// The rows that stand in the table before, as CSV; none where there are none.
    pub fn before(&self) -> Option<String> {
        let line = |(id, item): (&i64, &Item)| format!("{id},{},{},0.25,\n", item.label, item.quantity);
        let lines: String = self.before.iter().map(line).collect();
        (!lines.is_empty()).then(|| format!("id,label,quantity,amount,note\n{lines}"))
    }

    pub fn bad(&self) -> u64 {
        self.bad.len() as u64
    }

    /// Rows that the account must have as written. None where nobody can know: of rows of the same key the database may
    /// be spared all but the last, and not every one tells what it has found.
    pub fn written(&self) -> Option<u64> {
        let is_known = self.operation != Operation::Upsert && self.constraints == Constraints::Kept;
        is_known.then_some(self.effective)
    }

    pub fn rejects(&self) -> PathBuf {
        self.directory.path().join("rejects.jsonl")
    }

    /// Fails unless `found`, by their ids, are the rows that the table must have, each with every value.
    #[track_caller]
    pub fn check_rows(&self, found: &[Row]) {
        let expected: Vec<Row> = self.after.iter().map(|(id, item)| item.row(*id)).collect();
        for (found, expected) in found.iter().zip(&expected) {
            assert_eq!(found, expected);
        }
        assert_eq!(found.len(), expected.len(), "rows in the table");
    }

    /// Fails unless the rejects file has every bad row once and nothing else.
    #[track_caller]
    pub fn check_rejects(&self) {
        let text = std::fs::read_to_string(self.rejects()).unwrap_or_default();
        let mut found = BTreeSet::new();
        for line in text.lines() {
            let record: Value = serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}"));
            let file = record["file"].as_str().map(Path::new).and_then(Path::file_name);
            let place = file.zip(record["row"].as_u64());
            let Some((file, row)) = place else {
                panic!("a reject names file and row: {line}");
            };
            let place = (file.to_string_lossy().into_owned(), row);
            assert!(self.bad.contains(&place), "a good row was rejected: {line}");
            assert!(found.insert(place), "a row was rejected twice: {line}");
        }
        let missing: Vec<_> = self.bad.difference(&found).collect();
        assert!(missing.is_empty(), "not among the rejects: {missing:?}");
    }
}

impl Item {
    fn before(id: i64) -> Self {
        Self {
            label: "before".to_owned(),
            quantity: id.abs() * 3,
            amount: Some("0.25".to_owned()),
            note: None,
        }
    }

    fn row(&self, id: i64) -> Row {
        vec![
            Some(id.to_string()),
            Some(self.label.clone()),
            Some(self.quantity.to_string()),
            self.amount.clone(),
            self.note.clone(),
        ]
    }
}
