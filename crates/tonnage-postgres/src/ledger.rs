//! The ledger: `tonnage_runs`, a row a run, `tonnage_slots`, a row a slot, `tonnage_inputs`, the rows by which runs
//! are found, and `tonnage_parts`, a row a part of a job; next to them is `tonnage_unlogged`, for runs into tables that a crash empties ([`crash_marker`]).
//!
//! [`place`] says where they are. What is done to them is [`tonnage_sql::ledger`]'s, in transactions that are begun and ended here:
//! the driver undoes one whose future is dropped. A slot's row is updated in place (fill factor 50, no index on what changes)
//! and carries the run's epoch: whoever raises the epoch waits for the transactions that hold slots, and shuts older owners
//! out. Unsigned 64-bit values are kept by their bit patterns.

mod crash_marker;
mod mover;
mod place;
mod session;
mod setup;

use async_trait::async_trait;
use tokio::sync::{Mutex, MutexGuard};
use tokio_postgres::{Client, IsolationLevel, Transaction};
use tonnage_core::{
    error::{Error, Result},
    ledger::{Emptied, NewRun, OtherLedger, RunHandle, Setup, Sought},
};
use tonnage_sql::ledger::{Place, Work};

pub(super) use self::mover::{Mover, borrowed, opened};
use self::{place::found, session::InSession};
use super::{connect, errors, settings::Settings};

/// The session for the catalogue and the ledger; opened again when it was lost.
pub(super) struct Control {
    settings: Settings,
    session: Mutex<Client>,
}

impl Control {
    pub(super) fn of(settings: Settings, client: Client) -> Self {
        Self {
            settings,
            session: Mutex::new(client),
        }
    }

    /// The session, alive as far as anyone can tell.
    pub(super) async fn session(&self) -> Result<MutexGuard<'_, Client>> {
        let mut session = self.session.lock().await;
        if session.is_closed() {
            *session = connect::open_control(&self.settings).await?;
        }
        Ok(session)
    }

    /// The schema of the ledger, where one was chosen.
    pub(super) fn asked(&self) -> Option<&str> {
        self.settings.ledger_schema.as_deref()
    }
}

/// Begins a transaction of the ledger, which sees what others have committed whatever the role's default is.
async fn begin(client: &mut Client) -> Result<Transaction<'_>> {
    let begun = client
        .build_transaction()
        .isolation_level(IsolationLevel::ReadCommitted)
        .start();
    begun.await.map_err(errors::statement)
}

async fn commit(transaction: Transaction<'_>) -> Result<()> {
    transaction.commit().await.map_err(errors::commit)
}

#[async_trait]
impl Place for Control {
    fn lost_race(&self, error: &Error) -> bool {
        error.code_text().is_some_and(errors::lost_race)
    }

    async fn ask<T: Send + 'static>(&self, work: Work<T>) -> Result<Option<T>> {
        let session = self.session().await?;
        let Some(tables) = found(&*session, self.asked()).await? else {
            return Ok(None);
        };
        let mut within = InSession::of(&*session, &tables);
        work(&mut within, &tables).await.map(Some)
    }

    async fn change<T: Send + 'static>(&self, work: Work<T>) -> Result<Option<T>> {
        let mut session = self.session().await?;
        let transaction = begin(&mut session).await?;
        let Some(tables) = found(&transaction, self.asked()).await? else {
            return Ok(None);
        };
        let done = work(&mut InSession::of(&transaction, &tables), &tables).await?;
        commit(transaction).await?;
        Ok(Some(done))
    }

    async fn begin(&self, run: &NewRun, work: Work<RunHandle>) -> Result<RunHandle> {
        let mut session = self.session().await?;
        let transaction = begin(&mut session).await?;
        let tables = place::made(&transaction, self.asked(), &run.role).await?;
        let handle = work(&mut InSession::of(&transaction, &tables), &tables).await?;
        commit(transaction).await?;
        Ok(handle)
    }

    async fn check(&self) -> Result<()> {
        Ok(())
    }

    async fn elsewhere(&self, sought: &Sought) -> Result<Vec<OtherLedger>> {
        place::elsewhere(&*self.session().await?, self.asked(), sought).await
    }

    async fn setup(&self, grantees: &[String]) -> Result<Vec<Setup>> {
        let session = self.session().await?;
        Ok(vec![setup::setup(&*session, self.asked(), grantees).await?])
    }

    async fn set_up(&self, grantees: &[String]) -> Result<()> {
        let mut session = self.session().await?;
        let transaction = begin(&mut session).await?;
        setup::set_up(&transaction, self.asked(), grantees).await?;
        commit(transaction).await
    }

    async fn emptied(&self, run_ids: &[String]) -> Result<Vec<Emptied>> {
        crash_marker::emptied(&mut *self.session().await?, self.asked(), run_ids).await
    }

    async fn accept_emptied(&self, handle: &RunHandle) -> Result<()> {
        crash_marker::accept(&mut *self.session().await?, self.asked(), handle).await
    }
}
