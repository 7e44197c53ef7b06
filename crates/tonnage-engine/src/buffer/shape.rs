//! The table as it is now, and how rows go to it: read from the catalogue again once it was altered.
//!
//! Invariants:
//! - Rows are formed for one shape, and written only to a table of that shape: a writer refuses any other, and then nothing
//!   of the write is there.
//! - Rows that were formed for an earlier shape are formed again from what was put, each as if it had come now: a column that
//!   was added counts, and a row that names one that is gone, or whose value no longer converts, is put aside.
//! - It stays the table that the run was begun with. One that was dropped, or another one in its place, ends the buffer:
//!   nobody has said that its rows belong there.

use std::{
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};

use tonnage_core::{
    error::{Error, ErrorKind, Result},
    retry::pause,
    stop::Stop,
    sync::Lock,
    table::Table,
};

use super::form::{Forms, Planner};

/// So many times in a row the catalogue may say what it said before, while writers find a table that is altered.
const LOOKS_MAX: u32 = 20;

/// See the module.
pub(super) struct Shape {
    now: Mutex<Now>,
}

#[derive(Clone)]
struct Now {
    /// Counts the shapes.
    number: u64,
    planner: Planner,
}

impl Shape {
    pub fn new(planner: Planner) -> Arc<Self> {
        let now = Mutex::new(Now { number: 0, planner });
        Arc::new(Self { now })
    }

    fn lock(&self) -> MutexGuard<'_, Now> {
        self.now.locked()
    }

    /// Which it is; a later one has a higher number.
    pub fn number(&self) -> u64 {
        self.lock().number
    }

    /// How rows go to it, and which it is.
    pub fn planner(&self) -> (u64, Planner) {
        let now = self.lock().clone();
        (now.number, now.planner)
    }

    /// Reads the catalogue after `error`, with which a write of rows formed for shape `number` has ended. Gives the error
    /// back where the table is not what it comes from, or where rows can no longer go to it.
    pub async fn look_again(&self, error: Error, looks: u32, stop: &Stop) -> Result<()> {
        let (number, planner) = self.planner();
        let is_altered = error.kind() == ErrorKind::Altered;
        // A statement that names a column that is gone is refused before anybody looks at the table.
        let may_be = is_altered || matches!(error.kind(), ErrorKind::Schema | ErrorKind::Refused);
        if !may_be || looks > LOOKS_MAX {
            return Err(error);
        }
        let name = &planner.table.name;
        let table = read(&planner, stop).await?;
        let Some(table) = table else {
            return Err(not_there(&planner.table, "was dropped"));
        };
        if table.identity.object != planner.table.identity.object {
            return Err(not_there(
                &planner.table,
                "was dropped or renamed, and another one is in its place",
            ));
        }
        if table.identity == planner.table.identity {
            // It may be altered at this moment; any other error is not about it.
            tokio::time::sleep(pause(looks)).await;
            return if is_altered { Ok(()) } else { Err(error) };
        }
        let planner = Planner {
            table: Arc::new(table),
            ..planner
        };
        Forms::new(planner.clone(), 0)?;
        tracing::warn!("table {name} was altered: rows go on to it as it is now");
        *self.lock() = Now {
            number: number + 1,
            planner,
        };
        Ok(())
    }
}

/// The table, once the database answers; none where it is gone.
async fn read(planner: &Planner, stop: &Stop) -> Result<Option<Table>> {
    let mut attempts = 0;
    loop {
        match planner.target.table(&planner.table.name).await {
            Err(error) if error.is_transient() && !stop.requested() => {
                attempts += 1;
                tracing::warn!("attempt {attempts}: {error}");
                tokio::time::sleep(pause(attempts).max(Duration::from_millis(1))).await;
            }
            read => return read,
        }
    }
}

fn not_there(table: &Table, what: &str) -> Error {
    let name = &table.name;
    Error::schema(format!("table {name} {what} while rows were put for it")).hint(
        "rows that are not committed stay in the journal, if there is one: put the table back under its name and open it again",
    )
}
