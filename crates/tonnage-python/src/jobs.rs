//! Jobs: planned by one process, their parts carried out by any.

use std::sync::Arc;

use pyo3::prelude::*;
use tonnage::{
    connected::Connected,
    job::{Job, WHOLE},
    load::Progress,
    stop,
};
use tonnage_cli::described::{self, Asked, WantedPart};

use crate::{
    database::{Connection, Database, Rows},
    errors::Failed,
    runtime::{Stop, wait, wait_for},
    source::Raised,
    stream::json,
};

/// Jobs of a database.
#[pyclass(frozen)]
pub struct Jobs {
    connection: Connection,
}

async fn connected(connection: Connection) -> tonnage::Result<Connected> {
    let target = connection.target().await?;
    Ok(Connected::new(target, connection.shown()))
}

#[pymethods]
impl Jobs {
    #[new]
    fn new(database: &Database) -> Self {
        Self {
            connection: database.connection(),
        }
    }

    /// Plans a job: its id, its parts, and notes.
    fn job_plan(
        &self,
        py: Python<'_>,
        arguments: Vec<String>,
        rows: Rows,
        parts: u64,
        connections_max: Option<u64>,
    ) -> PyResult<(String, u64, Vec<String>)> {
        let (connection, raised) = (self.connection.clone(), Raised::default());
        let given = Database::given(py, &rows, false, &raised, &stop::Stop::default())?;
        let planning = async move {
            // A task of its own, as opening files may block.
            let planning = tokio::spawn(async move {
                let database = connected(connection).await?;
                let asked = Asked {
                    parts,
                    connections_max,
                };
                described::job_plan(&arguments, given, asked, &database).await
            });
            let failed = |error| tonnage::Error::bug(format!("the job was not planned: {error}"));
            planning.await.unwrap_or_else(|error| Err(failed(error)))
        };
        let planned = wait_for(py, planning).inspect_err(|error| {
            if let Some(cause) = raised.take() {
                error.set_cause(py, Some(cause));
            }
        })?;
        Ok((planned.job_id, planned.detail.parts, planned.notes))
    }

    /// Carries out a part, the next free one where none is named: what was done, as JSON; none where nothing is left.
    #[pyo3(signature = (job_id, part, attempt, lease_seconds, rows, stop))]
    #[expect(clippy::too_many_arguments, reason = "they have names in Python")]
    fn job_part(
        &self,
        py: Python<'_>,
        job_id: String,
        part: Option<i64>,
        attempt: Option<i64>,
        lease_seconds: u64,
        rows: Option<Rows>,
        stop: &Stop,
    ) -> PyResult<Option<String>> {
        let raised = Raised::default();
        let source = match rows {
            None | Some(Rows::Inputs(_)) => None,
            Some(Rows::Program(source)) => {
                let opened = source.get().open(py, &raised, &stop.0);
                Some(opened.map_err(|error| Failed::of(error).caused_by(raised.take()).raise(py))?)
            }
        };
        let (connection, asked) = (self.connection.clone(), stop.0.clone());
        let working = async move {
            let database = connected(connection).await?;
            let wanted = WantedPart {
                part: part.filter(|part| *part != WHOLE),
                attempt,
                lease_seconds,
            };
            let progress = Arc::<Progress>::default();
            described::job_part(database, (&job_id, wanted), source, (progress, asked)).await
        };
        let waited = wait(py, &stop.0, |_| Ok(()), working)?;
        if let Some(raised) = waited.raised {
            return Err(raised);
        }
        let fail = |error| Failed::of(error).caused_by(raised.take());
        let Some((done, error)) = waited.done.map_err(|error| fail(error).raise(py))? else {
            return Ok(None);
        };
        let account = json(&done).map_err(|error| Failed::of(error).raise(py))?;
        match error {
            Some(error) => Err(fail(error).with_report(account).raise(py)),
            None => Ok(Some(account)),
        }
    }

    /// How far a job is, as JSON.
    fn job_status(&self, py: Python<'_>, job_id: String) -> PyResult<String> {
        let connection = self.connection.clone();
        let report = wait_for(py, async move {
            let database = connected(connection).await?;
            Job::open(database, &job_id).await?.report().await
        })?;
        json(&report).map_err(|error| Failed::of(error).raise(py))
    }

    /// Finishes a job all of whose parts are done: its account as JSON.
    fn job_finish(&self, py: Python<'_>, job_id: String, lease_seconds: u64) -> PyResult<String> {
        let connection = self.connection.clone();
        let report = wait_for(py, async move {
            let database = connected(connection).await?;
            described::job_finish(database, &job_id, lease_seconds).await
        })?;
        json(&report).map_err(|error| Failed::of(error).raise(py))
    }

    /// Has the ledger forget a job, and undoes what it was about to do to its table; false where there is none.
    fn job_forget(&self, py: Python<'_>, job_id: String) -> PyResult<bool> {
        let connection = self.connection.clone();
        wait_for(py, async move {
            connection.target().await?.ledger().forget(&job_id).await
        })
    }
}
