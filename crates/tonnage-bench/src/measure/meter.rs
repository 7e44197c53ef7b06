//! What a run costs in addition to its time: processors, memory, what is flushed and what is written. Taken before it and after.

use std::sync::Arc;

use tonnage_core::{
    error::{Error, Result},
    instruments::{Instruments, Measured, Work},
    report::{forget_peak_memory, peak_memory_bytes, processor_seconds},
};

use super::{
    figures::{Costs, Unmeasured},
    server::Processes,
};

/// What can be taken of one database from this machine.
pub(super) struct Meter {
    server: Measured<Arc<Processes>>,
    /// What could not be taken, and why.
    pub(super) unmeasured: Vec<Unmeasured>,
}

/// What there was before a run.
pub(super) struct Before {
    work: Work,
    processors: Processors,
    /// Whether the peak of memory counts from here on.
    peak: bool,
}

/// Processor seconds, of which only differences mean something.
#[derive(Debug, Clone, Copy)]
pub(super) struct Processors {
    client: Option<f64>,
    server: Option<f64>,
}

impl Processors {
    /// Seconds of this process since then.
    pub(super) fn client_since(&self, before: &Before) -> Option<f64> {
        grown(self.client, before.processors.client)
    }
}

fn grown(after: Option<f64>, before: Option<f64>) -> Option<f64> {
    Some((after? - before?).max(0.0))
}

impl Meter {
    /// Looks for the server's processes.
    pub(super) async fn new(instruments: &dyn Instruments) -> Result<Self> {
        let server = match instruments.servers().await? {
            Ok(servers) => blocking(move || Processes::find(&servers)).await?.map(Arc::new),
            Err(why) => Err(why),
        };
        Ok(Self {
            server,
            unmeasured: Vec::new(),
        })
    }

    /// Whose processor time is taken for the server's, for people.
    pub(super) fn server(&self) -> Option<String> {
        let processes = self.server.as_ref().ok()?;
        Some(processes.shown.clone())
    }

    /// Before a run.
    pub(super) async fn begin(&self, instruments: &dyn Instruments) -> Result<Before> {
        Ok(Before {
            work: instruments.work(None).await?,
            peak: forget_peak_memory(),
            processors: self.processors().await?,
        })
    }

    /// To be taken as soon as a run is over: others need time to tell.
    pub(super) async fn processors(&self) -> Result<Processors> {
        // A look at all processes takes longer than one at this.
        let client = processor_seconds();
        let server = match &self.server {
            Ok(server) => {
                let server = server.clone();
                blocking(move || server.processor_seconds()).await?
            }
            Err(_) => None,
        };
        Ok(Processors { client, server })
    }

    /// After a run of `wall` seconds on a machine of so many processors, of what was taken before it and at its end.
    pub(super) async fn end(
        &mut self,
        (instruments, before, ended): (&dyn Instruments, Before, Processors),
        (wall, processors): (f64, usize),
    ) -> Result<Costs> {
        let peak = peak_memory_bytes().filter(|_| before.peak);
        let work = instruments.work(Some(&before.work)).await?;
        let counted = grown(work.processor_seconds, before.work.processor_seconds);
        let client = ended.client_since(&before);
        let server = grown(ended.server, before.processors.server).or(counted);
        let share = |seconds: f64| seconds / (wall * processors.max(1) as f64).max(1e-9);
        if server.is_none() {
            let ended = "its processes have ended".to_owned();
            let why = self.server.as_ref().map_or_else(String::clone, |_| ended);
            self.untold("server CPU", why);
        }
        if peak.is_none() {
            self.untold(
                "memory",
                "the system does not tell the peak of a part of a process's time".to_owned(),
            );
        }
        Ok(Costs {
            client_cpu_share: client.map(share),
            server_cpu_seconds: server,
            server_cpu_share: server.map(share),
            client_memory_bytes: peak,
            log_flushes: self.grown("log flushes", work.log_flushes, before.work.log_flushes),
            written_bytes: self.grown("bytes written", work.written_bytes, before.work.written_bytes),
            ..Costs::default()
        })
    }

    /// What a total has grown by.
    fn grown(&mut self, what: &str, after: Measured<u64>, before: Measured<u64>) -> Option<u64> {
        match after.and_then(|after| Ok((after, before?))) {
            // Somebody may have reset it.
            Ok((after, before)) => after.checked_sub(before),
            Err(why) => {
                self.untold(what, why);
                None
            }
        }
    }

    fn untold(&mut self, what: &str, why: String) {
        if self.unmeasured.iter().all(|known| known.what != what) {
            self.unmeasured.push(Unmeasured {
                what: what.to_owned(),
                why,
            });
        }
    }
}

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|e| Error::bug(format!("processes could not be looked at: {e}")))
}
