//! The threads that speak with stores.
//!
//! Readers of files are blocking, and some of them run on threads of another runtime, where blocking on a future would
//! panic. So requests run here, and whoever wants their results waits at a channel, as any thread may.

use std::{
    io,
    sync::{
        LazyLock, Mutex,
        mpsc::{Receiver, RecvTimeoutError, sync_channel},
    },
};

use tokio::{runtime::Runtime, task::AbortHandle};
use tonnage_core::{
    stop::{STOP_LOOK, Stop},
    sync::Lock,
};

/// Two keep a connection of 10 Gbit/s busy, encryption included; most of the time they wait.
const THREADS: usize = 2;

static RUNTIME: LazyLock<io::Result<Runtime>> = LazyLock::new(|| {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(THREADS)
        .thread_name("tonnage-places")
        .enable_all()
        .build()
});

/// What a request that is under way will give. Dropped, it ends the request.
pub(crate) struct Pending<T> {
    /// In a lock so that a reader which holds it can be shared.
    result: Mutex<Receiver<T>>,
    task: AbortHandle,
}

/// Begins `work`; the error is that of a system without threads to spare.
pub(crate) fn start<T: Send + 'static>(
    work: impl Future<Output = T> + Send + 'static,
) -> io::Result<Pending<T>> {
    let runtime = match &*RUNTIME {
        Ok(runtime) => runtime,
        Err(cause) => return Err(io::Error::new(cause.kind(), cause.to_string())),
    };
    let (sender, result) = sync_channel(1);
    let task = runtime.spawn(async move {
        // Nobody may want it any more.
        let _ = sender.send(work.await);
    });
    Ok(Pending {
        result: Mutex::new(result),
        task: task.abort_handle(),
    })
}

fn without_answer() -> io::Error {
    io::Error::other("the request ended without an answer")
}

impl<T> Pending<T> {
    /// Waits for the result.
    pub fn wait(self) -> io::Result<T> {
        let received = self.result.locked().recv();
        received.map_err(|_| without_answer())
    }

    /// Waits for the result until `stop` is asked for; none then.
    pub fn wait_unless(self, stop: &Stop) -> io::Result<Option<T>> {
        let result = self.result.locked();
        while !stop.requested() {
            match result.recv_timeout(STOP_LOOK) {
                Ok(received) => return Ok(Some(received)),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return Err(without_answer()),
            }
        }
        Ok(None)
    }
}

impl<T> Drop for Pending<T> {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Does `work` and waits for it.
pub(crate) fn wait<T: Send + 'static>(work: impl Future<Output = T> + Send + 'static) -> io::Result<T> {
    start(work)?.wait()
}
