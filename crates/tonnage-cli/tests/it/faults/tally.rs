//! What became of the rounds of each target, and how often each fault was tried: a table that is written anew
//! after every round, so that it is there whenever and however the run ends.

use std::{
    collections::BTreeMap,
    fmt::Write,
    path::{Path, PathBuf},
    sync::Mutex,
};

use tempfile::TempDir;

use super::Fault;

/// The rounds of a target so far.
#[derive(Clone)]
pub struct Tally {
    target: &'static str,
    rounds: u64,
    met: BTreeMap<Fault, u64>,
    /// The seeds of the rounds that failed.
    failed: Vec<u64>,
    /// Whether that is of all of them, which build on one another: which of them survived is not known.
    is_undone: bool,
}

static TALLIES: Mutex<BTreeMap<&'static str, Tally>> = Mutex::new(BTreeMap::new());

/// A directory of a round's own, which goes away with it unless the round fails.
pub struct RoundDirectory(TempDir);

impl RoundDirectory {
    pub fn new() -> Self {
        let made = match directory() {
            Some(directory) => TempDir::with_prefix_in("round-", directory),
            None => tempfile::tempdir(),
        };
        Self(made.expect("a temporary directory"))
    }

    pub fn path(&self) -> &Path {
        self.0.path()
    }
}

impl Drop for RoundDirectory {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.disable_cleanup(true);
            eprintln!("what the round leaves is in {}", self.path().display());
        }
    }
}

/// Where the table and what failed rounds leave go; none where nobody asks for them.
fn directory() -> Option<PathBuf> {
    let directory = PathBuf::from(std::env::var_os("TONNAGE_FAULT_DIRECTORY")?);
    std::fs::create_dir_all(&directory).expect("TONNAGE_FAULT_DIRECTORY can be made");
    Some(directory)
}

impl Tally {
    pub fn new(target: &'static str) -> Self {
        Self {
            target,
            rounds: 0,
            met: BTreeMap::new(),
            failed: Vec::new(),
            is_undone: false,
        }
    }

    /// One round more, with the faults that were tried, and its seed if it failed; how many have failed.
    pub fn add(&mut self, met: &[Fault], failed: Option<u64>) -> usize {
        self.rounds += 1;
        for fault in met {
            *self.met.entry(*fault).or_default() += 1;
        }
        self.failed.extend(failed);
        self.publish();
        self.failed.len()
    }

    /// What the rounds of `seed` left together is wrong: none is known to have survived.
    pub fn fail_all(&mut self, seed: u64) {
        self.is_undone = true;
        self.failed.push(seed);
        self.publish();
    }

    fn publish(&self) {
        let mut tallies = TALLIES.lock().expect("no panic holds it");
        tallies.insert(self.target, self.clone());
        if let Some(directory) = directory() {
            let table = table(tallies.values());
            std::fs::write(directory.join("table.md"), table).expect("the table can be written");
        }
    }

    /// Fails if a round did.
    pub fn check(&self) {
        assert!(
            self.failed.is_empty(),
            "{} of {} rounds of {} failed, each begins again with TONNAGE_FAULT_SEED: {:?}",
            self.failed.len(),
            self.rounds,
            self.target,
            self.failed
        );
    }
}

fn table<'a>(tallies: impl Iterator<Item = &'a Tally> + Clone) -> String {
    let mut text = "| Target | Rounds |".to_owned();
    for (_, name) in Fault::ALL {
        write!(text, " {name} |").expect("a string takes it");
    }
    text.push_str(" Survived |\n|---|---|");
    text.push_str(&"---|".repeat(Fault::ALL.len()));
    text.push_str("---|\n");
    for tally in tallies.clone() {
        write!(text, "| {} | {} |", tally.target, tally.rounds).expect("a string takes it");
        for (fault, _) in Fault::ALL {
            let met = tally.met.get(&fault).map_or("-".to_owned(), u64::to_string);
            write!(text, " {met} |").expect("a string takes it");
        }
        let survived = match tally.is_undone {
            true => "-".to_owned(),
            false => (tally.rounds - tally.failed.len() as u64).to_string(),
        };
        writeln!(text, " {survived} |").expect("a string takes it");
    }
    for tally in tallies.filter(|tally| !tally.failed.is_empty()) {
        writeln!(text, "\nFailed of {}: seeds {:?}", tally.target, tally.failed).expect("a string takes it");
    }
    text
}

#[test]
fn the_table_has_every_target_and_every_fault() {
    let tally = |target, rounds, failed| Tally {
        rounds,
        met: [(Fault::Kill, 7), (Fault::Clock, 1)].into(),
        failed,
        ..Tally::new(target)
    };
    let undone = Tally {
        is_undone: true,
        ..tally("three", 6, vec![18])
    };
    let tallies = [tally("one", 5, vec![]), tally("two", 4, vec![17]), undone];
    let expected = "\
| Target | Rounds | kill | server | cut | commit | stall | second | disk | report | clock | lock | copy | alter | source | restore | Survived |
|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|
| one | 5 | 7 | - | - | - | - | - | - | - | 1 | - | - | - | - | - | 5 |
| two | 4 | 7 | - | - | - | - | - | - | - | 1 | - | - | - | - | - | 3 |
| three | 6 | 7 | - | - | - | - | - | - | - | 1 | - | - | - | - | - | - |

Failed of two: seeds [17]

Failed of three: seeds [18]
";
    assert_eq!(table(tallies.iter()), expected);
}
