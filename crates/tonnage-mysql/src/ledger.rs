//! The ledger: `tonnage_runs`, a row a run, `tonnage_slots`, a row a slot, `tonnage_inputs`, the rows by which runs
//! are found, and `tonnage_parts`, a row a part of a job.
//!
//! They are InnoDB tables; [`place`] says in which database. What is done to them is [`tonnage_sql::ledger`]'s, in transactions
//! that are begun and ended here and span all databases, whichever the rows are in. Numbers of 64 bits are unsigned there as
//! here. An unfinished run keeps its identity a second time, in a column with a unique index that is null once it is finished:
//! there are no partial indexes. Every move of a slot counts up `moves`, so that the server's count of changed rows is the
//! count of rows moved. The tables are made outside the transactions, which making a table would end.

mod mover;
mod place;
mod session;
mod setup;

use std::fmt::Write;

use async_trait::async_trait;
use mysql_async::{Conn, prelude::Queryable};
use tokio::sync::{Mutex, MutexGuard};
use tonnage_core::{
    error::{Error, Result},
    ledger::{Emptied, NewRun, OtherLedger, RunHandle, Setup, Sought},
};
use tonnage_sql::ledger::{Place, Work};

pub(super) use self::mover::Mover;
use self::{
    place::{existing, found},
    session::InSession,
};
use super::{
    connect::{self, Counting},
    errors,
    settings::Settings,
};

/// The session for the catalogue and the ledger; opened again when it was lost.
pub(super) struct Control {
    settings: Settings,
    session: Mutex<Conn>,
}

impl Control {
    pub(super) fn of(settings: Settings, conn: Conn) -> Self {
        Self {
            settings,
            session: Mutex::new(conn),
        }
    }

    /// The session, alive as far as anyone can tell.
    pub(super) async fn session(&self) -> Result<MutexGuard<'_, Conn>> {
        let mut session = self.session.lock().await;
        if session.ping().await.is_err() {
            *session = connect::open(&self.settings, Counting::Found).await?.0;
        }
        Ok(session)
    }

    /// The database of the ledger, where one was chosen.
    pub(super) fn asked(&self) -> Option<&str> {
        self.settings.ledger_database.as_deref()
    }
}

/// Text as a literal, whatever it holds.
pub(super) fn literal(text: &str) -> String {
    let mut literal = String::from("_utf8mb4 X'");
    for byte in text.bytes() {
        // Writing to memory does not fail.
        let _ = write!(literal, "{byte:02X}");
    }
    literal.push('\'');
    literal
}

/// Ends the open transaction: commits what succeeded, undoes what did not.
async fn end<T>(conn: &mut Conn, result: Result<T>) -> Result<T> {
    match result {
        Ok(value) => {
            conn.query_drop("COMMIT").await.map_err(errors::commit)?;
            Ok(value)
        }
        Err(error) => {
            if let Err(failure) = conn.query_drop("ROLLBACK").await {
                tracing::debug!("ROLLBACK after a failure: {failure}");
            }
            Err(error)
        }
    }
}

async fn begin(conn: &mut Conn) -> Result<()> {
    conn.query_drop("START TRANSACTION")
        .await
        .map_err(errors::statement)
}

#[async_trait]
impl Place for Control {
    fn lost_race(&self, error: &Error) -> bool {
        error.code_text().is_some_and(errors::lost_race)
    }

    async fn ask<T: Send + 'static>(&self, work: Work<T>) -> Result<Option<T>> {
        let conn = &mut *self.session().await?;
        let Some(tables) = found(conn, self.asked()).await? else {
            return Ok(None);
        };
        work(&mut InSession::of(conn, &tables), &tables).await.map(Some)
    }

    async fn change<T: Send + 'static>(&self, work: Work<T>) -> Result<Option<T>> {
        let conn = &mut *self.session().await?;
        let Some(tables) = found(conn, self.asked()).await? else {
            return Ok(None);
        };
        begin(conn).await?;
        let done = work(&mut InSession::of(conn, &tables), &tables).await;
        end(conn, done).await.map(Some)
    }

    async fn begin(&self, run: &NewRun, work: Work<RunHandle>) -> Result<RunHandle> {
        let conn = &mut *self.session().await?;
        let tables = setup::made(conn, (&self.settings.database, self.asked()), &run.role).await?;
        begin(conn).await?;
        let done = work(&mut InSession::of(conn, &tables), &tables).await;
        end(conn, done).await
    }

    async fn check(&self) -> Result<()> {
        let conn = &mut *self.session().await?;
        existing(conn, self.asked()).await.map(|_| ())
    }

    async fn elsewhere(&self, sought: &Sought) -> Result<Vec<OtherLedger>> {
        place::elsewhere(&mut *self.session().await?, self.asked(), sought).await
    }

    async fn setup(&self, grantees: &[String]) -> Result<Vec<Setup>> {
        let conn = &mut *self.session().await?;
        Ok(vec![setup::setup(conn, self.asked(), grantees).await?])
    }

    async fn set_up(&self, grantees: &[String]) -> Result<()> {
        setup::set_up(&mut *self.session().await?, self.asked(), grantees).await
    }

    /// Tables that a crash empties take no part in transactions, and no run into them has a ledger.
    async fn emptied(&self, _: &[String]) -> Result<Vec<Emptied>> {
        Ok(Vec::new())
    }

    async fn accept_emptied(&self, _: &RunHandle) -> Result<()> {
        Ok(())
    }
}
