//! The threads on which the engine works, and how a call waits for it.

use std::{
    sync::{OnceLock, mpsc},
    time::Duration,
};

use pyo3::prelude::*;
use tokio::runtime::{Builder, Runtime};
use tonnage::{Error, ErrorKind, stop};

use crate::{errors::Failed, log};

/// How long a call waits before it looks at signals.
const TICK: Duration = Duration::from_millis(100);

/// The runtime, and the process that started its threads.
static RUNTIME: OnceLock<(u32, Runtime)> = OnceLock::new();

/// The runtime of this process. An error in one that was forked from the process that has its threads.
pub fn runtime(py: Python<'_>) -> PyResult<&'static Runtime> {
    let failed = |error: Error| Failed::of(error).raise(py);
    let (process, runtime) = match RUNTIME.get() {
        Some(started) => started,
        None => {
            log::install();
            tonnage::targets::use_named_stores();
            let started = Builder::new_multi_thread()
                .thread_name("tonnage")
                .enable_all()
                .build();
            let started = started.map_err(|error| {
                failed(Error::config(format!(
                    "the engine's threads do not start: {error}"
                )))
            })?;
            // Who comes second takes what the first has started.
            RUNTIME.get_or_init(|| (std::process::id(), started))
        }
    };
    if *process == std::process::id() {
        return Ok(runtime);
    }
    Err(failed(
        Error::config(format!(
            "this process was forked from process {process}, which had used tonnage: its threads and connections are not here"
        ))
        .hint(
            "start processes by spawn, as multiprocessing.get_context(\"spawn\") does, or fork before tonnage is used",
        ),
    ))
}

/// A request to stop, which another thread may make.
#[pyclass(frozen)]
#[derive(Default)]
pub struct Stop(pub stop::Stop);

#[pymethods]
impl Stop {
    #[new]
    fn new() -> Self {
        Self::default()
    }

    /// Asks: what is being written is finished, the rest is left.
    fn request(&self) {
        self.0.request();
    }

    /// Whether it was asked for.
    fn requested(&self) -> bool {
        self.0.requested()
    }
}

/// What a call waited for, and what was raised meanwhile: Ctrl-C, or an exception of a callback.
pub struct Waited<T> {
    pub done: T,
    pub raised: Option<PyErr>,
}

/// Waits for `work`, with the interpreter released; `tick` is called about every 100 ms. What is raised meanwhile has `stop`
/// ask for the end, which is waited for; what is raised after that ends the wait at once.
pub fn wait<T: Send + 'static>(
    py: Python<'_>,
    stop: &stop::Stop,
    mut tick: impl FnMut(Python<'_>) -> PyResult<()>,
    work: impl Future<Output = T> + Send + 'static,
) -> PyResult<Waited<T>> {
    let (send, mut done) = mpsc::sync_channel(1);
    let task = runtime(py)?.spawn(async move {
        // Nobody waits any more once the call was left.
        let _ = send.send(work.await);
    });
    let mut raised = None;
    loop {
        let (got, back) = py.detach(move || (done.recv_timeout(TICK), done));
        done = back;
        let looked = log::hand_over(py)
            .and_then(|()| py.check_signals())
            .and_then(|()| match raised {
                None => tick(py),
                Some(_) => Ok(()),
            });
        match (got, looked) {
            (Ok(done), Ok(())) => return Ok(Waited { done, raised }),
            (Ok(done), Err(error)) => {
                return Ok(Waited {
                    done,
                    raised: raised.or(Some(error)),
                });
            }
            (Err(mpsc::RecvTimeoutError::Disconnected), _) => {
                return Err(Failed::of(Error::bug("the work ended without a result")).raise(py));
            }
            (Err(mpsc::RecvTimeoutError::Timeout), Ok(())) => {}
            (Err(mpsc::RecvTimeoutError::Timeout), Err(error)) => match raised {
                None => {
                    stop.request();
                    raised = Some(error);
                }
                Some(_) => {
                    task.abort();
                    return Err(error);
                }
            },
        }
    }
}

/// [`wait`] for what gives no account: what was raised goes before what was done.
pub fn wait_for<T: Send + 'static>(
    py: Python<'_>,
    work: impl Future<Output = tonnage::Result<T>> + Send + 'static,
) -> PyResult<T> {
    let stop = stop::Stop::default();
    let unless = stop.clone();
    let stopped = || Error::new(ErrorKind::Cancelled, "interrupted");
    let waited = wait(py, &stop, |_| Ok(()), async move {
        unless.unless(work).await.unwrap_or_else(|| Err(stopped()))
    })?;
    match waited.raised {
        Some(error) => Err(error),
        None => waited.done.map_err(|error| Failed::of(error).raise(py)),
    }
}
