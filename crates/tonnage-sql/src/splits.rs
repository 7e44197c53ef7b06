//! A reader of splits for a driver that blocks: a thread of its own, which reads one split after another.

use std::{sync::mpsc, thread::JoinHandle};

use arrow::array::RecordBatch;
use async_trait::async_trait;
use tonnage_core::{
    error::{Error, ErrorKind, Result},
    reader::Reader,
};

/// Batches that may wait to be fetched, so that reading goes on meanwhile.
const BATCHES_AHEAD: usize = 2;

type Sent = Result<Option<RecordBatch>>;

/// Takes a batch that was read; false where nobody wants any more.
pub type TakeBatch<'a> = &'a mut dyn FnMut(RecordBatch) -> bool;

/// Reads on its thread, and hands the batches over. Dropping it interrupts what is being read, and returns once the thread
/// has ended and what it owns, a transaction say, is gone.
pub struct SplitThread {
    /// None only while dropping.
    splits: Option<mpsc::Sender<usize>>,
    batches: tokio::sync::mpsc::Receiver<Sent>,
    /// Whether a split is open whose end has not been seen.
    unfinished: bool,
    interrupt: Box<dyn FnMut() + Send>,
    thread: Option<JoinHandle<()>>,
}

impl SplitThread {
    /// Starts the thread `name`. `read` sends the batches of a split, and gives false where they were not taken to the end;
    /// `interrupt` has it end early, with an error of its own that nobody sees. `Refused` where there is no thread to be had.
    pub fn start(
        name: &str,
        mut read: impl FnMut(usize, TakeBatch<'_>) -> Result<bool> + Send + 'static,
        interrupt: impl FnMut() + Send + 'static,
    ) -> Result<Self> {
        let (splits, queue) = mpsc::channel::<usize>();
        let (send, batches) = tokio::sync::mpsc::channel(BATCHES_AHEAD);
        let reading = move || {
            while let Ok(split) = queue.recv() {
                let ended = read(split, &mut |batch| send.blocking_send(Ok(Some(batch))).is_ok());
                let gone = match ended {
                    Ok(true) => send.blocking_send(Ok(None)).is_err(),
                    Ok(false) => true,
                    Err(error) => send.blocking_send(Err(error)).is_err(),
                };
                if gone {
                    return;
                }
            }
        };
        let thread = std::thread::Builder::new().name(name.to_owned()).spawn(reading);
        let thread = thread.map_err(|error| {
            Error::new(ErrorKind::Refused, format!("no thread could be started: {error}"))
        })?;
        Ok(Self {
            splits: Some(splits),
            batches,
            unfinished: false,
            interrupt: Box::new(interrupt),
            thread: Some(thread),
        })
    }
}

#[async_trait]
impl Reader for SplitThread {
    async fn open(&mut self, split: usize) -> Result<()> {
        while self.unfinished {
            self.next().await?;
        }
        let sent = self.splits.as_ref().map(|splits| splits.send(split));
        match sent {
            Some(Ok(())) => {
                self.unfinished = true;
                Ok(())
            }
            _ => Err(ended()),
        }
    }

    async fn next(&mut self) -> Result<Option<RecordBatch>> {
        if !self.unfinished {
            return Ok(None);
        }
        let batch = self.batches.recv().await.unwrap_or_else(|| Err(ended()));
        self.unfinished = matches!(batch, Ok(Some(_)));
        batch
    }
}

fn ended() -> Error {
    Error::bug("the reading thread ended before its work was done")
}

impl Drop for SplitThread {
    fn drop(&mut self) {
        self.splits = None;
        self.batches.close();
        (self.interrupt)();
        if let Some(thread) = self.thread.take() {
            // A panic on the thread has been reported to whoever waited for its batches.
            let _ = thread.join();
        }
    }
}
