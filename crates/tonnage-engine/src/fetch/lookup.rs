//! The look-up of one table: keys in, answers out in the order of the requests.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use tokio::{
    sync::{Mutex, mpsc},
    task::{JoinHandle, JoinSet},
};
use tonnage_core::{
    error::{Error, Result},
    getter::Getter,
};

use super::{
    answer::{Getters, Opener, Part, Request, Worker},
    keys::{Counted, KeyReader, Keys},
    nest::{Nest, Shape},
    plan::{GetPlan, WAITING_BATCHES},
    report::KeyCounts,
};

/// Connections to a table.
pub struct Opened {
    plan: Arc<GetPlan>,
    /// Opens them.
    pub getters: Arc<Getters>,
    used: Arc<AtomicUsize>,
}

impl Opened {
    /// With the first one.
    pub fn new(opener: Arc<Opener>, plan: Arc<GetPlan>, first: Box<dyn Getter>) -> Self {
        let used: Arc<AtomicUsize> = Arc::default();
        let getters = Getters::new(opener, plan.clone(), first, used.clone());
        Self {
            plan,
            getters: Arc::new(getters),
            used,
        }
    }
}

/// What came of the requests so far.
#[derive(Debug, Default, Clone, Copy)]
pub struct Counts {
    /// Keys with rows.
    pub found: u64,
    /// Keys without.
    pub missing: u64,
    /// Rows.
    pub rows: u64,
    /// Times that the database was asked.
    pub requests: u64,
    /// Times that an answer was lost.
    pub retries: u64,
}

/// A look-up under way. Dropping it ends it.
pub struct Lookup {
    plan: Arc<GetPlan>,
    counted: Arc<Counted>,
    /// Connections that were used.
    connections: Arc<AtomicUsize>,
    /// The answers to come, in order.
    answers: mpsc::Receiver<Result<mpsc::Receiver<Result<Part>>>>,
    /// The one whose turn it is.
    answer: Option<mpsc::Receiver<Result<Part>>>,
    reader: Option<JoinHandle<()>>,
    _workers: JoinSet<()>,
    /// What came.
    pub counts: Counts,
}

impl Lookup {
    /// Begins to read `keys`, and to ask for their rows; `shape` is what is put into them.
    pub fn start(opened: Opened, keys: KeyReader, counted: Arc<Counted>, shape: Option<Arc<Shape>>) -> Self {
        let Opened { plan, getters, used } = opened;
        let (requests_in, requests_out) = mpsc::channel::<Request>(plan.jobs);
        // Requests that are asked, answered and waiting for their turn.
        let (answers_in, answers_out) = mpsc::channel(2 * plan.jobs + 2);
        let requests_out = Arc::new(Mutex::new(requests_out));
        let mut workers = JoinSet::new();
        for _ in 0..plan.jobs {
            let nest = shape.clone().map(Nest::new);
            let mut worker = Worker::new(getters.clone(), plan.clone(), nest);
            let requests = requests_out.clone();
            workers.spawn(async move {
                loop {
                    let request = requests.lock().await.recv().await;
                    let Some(request) = request else { break };
                    if !worker.answer(request).await {
                        break;
                    }
                }
            });
        }
        let reading = plan.clone();
        let failed = answers_in.clone();
        let reader = tokio::task::spawn_blocking(move || {
            let mut send = |keys: Keys| {
                let (parts, answer) = mpsc::channel(WAITING_BATCHES);
                answers_in.blocking_send(Ok(answer)).is_ok()
                    && requests_in.blocking_send(Request { keys, parts }).is_ok()
            };
            if let Err(error) = keys.requests(&reading, &mut send) {
                // Who does not listen any more does not want to know.
                let _ = failed.blocking_send(Err(error));
            }
        });
        Self {
            plan,
            counted,
            connections: used,
            answers: answers_out,
            answer: None,
            reader: Some(reader),
            _workers: workers,
            counts: Counts::default(),
        }
    }

    /// The next rows, or keys that have none; none at the end.
    pub async fn next(&mut self) -> Result<Option<Part>> {
        loop {
            let Some(answer) = &mut self.answer else {
                match self.answers.recv().await {
                    Some(answer) => self.answer = Some(answer?),
                    None => return self.read().await.map(|()| None),
                }
                continue;
            };
            match answer.recv().await {
                Some(Ok(Part::Rows(rows))) => {
                    self.counts.rows += rows.num_rows() as u64;
                    return Ok(Some(Part::Rows(rows)));
                }
                Some(Ok(Part::Missing(keys))) => {
                    self.counts.missing += keys.num_rows() as u64;
                    return Ok(Some(Part::Missing(keys)));
                }
                Some(Ok(Part::Done {
                    found,
                    requests,
                    retries,
                })) => {
                    self.counts.found += found;
                    self.counts.requests += requests;
                    self.counts.retries += retries;
                    self.answer = None;
                }
                Some(Err(error)) => return Err(error),
                None => return Err(Error::bug("a request ended without an answer")),
            }
        }
    }

    /// The keys came to their end, not their reader.
    async fn read(&mut self) -> Result<()> {
        match self.reader.take() {
            Some(reader) => reader
                .await
                .map_err(|error| Error::bug(format!("the reader of keys ended unexpectedly: {error}"))),
            None => Ok(()),
        }
    }

    /// Keys by what became of them.
    pub fn keys(&self) -> KeyCounts {
        let distinct = self.counted.distinct.load(Ordering::Relaxed);
        KeyCounts {
            asked: self.counted.asked.load(Ordering::Relaxed),
            distinct: (!self.plan.ordered).then_some(distinct),
            found: self.counts.found,
            missing: self.counts.missing,
        }
    }

    /// Connections that asked.
    pub fn jobs(&self) -> usize {
        self.connections.load(Ordering::Relaxed)
    }
}
