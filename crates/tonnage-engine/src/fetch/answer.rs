//! One request from its keys to its rows: asked, tried again, and put into order.
//!
//! Rows are held until the answer is whole, up to a bound, so that a lost connection costs nothing but time. What is
//! larger is passed on as it comes and cannot be tried again. Where an order has to be kept, a larger answer is asked
//! for again in halves instead, down to the rows of one key, which have no order among themselves.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use arrow::{
    array::{Array, BooleanArray, RecordBatch, UInt32Array},
    compute::{filter_record_batch, interleave_record_batch, take_record_batch},
};
use tokio::sync::{Mutex, mpsc::Sender};
use tonnage_core::{
    error::{Error, Result, arrow_bug},
    getter::{Answer, GetRequest, Getter, ReadSnapshot},
    retry::pause,
    target::Target,
};

use super::{
    keys::Keys,
    nest::Nest,
    plan::{ATTEMPTS_MAX, BATCH_BYTES, BATCH_ROWS, GetPlan},
};

/// A part of the answer to a request. The last one is `Done` or an error.
#[derive(Debug)]
pub enum Part {
    /// Rows.
    Rows(RecordBatch),
    /// Keys that have none.
    Missing(RecordBatch),
    /// The end.
    Done {
        /// Keys that had rows: each once, or as often as asked where the order is kept.
        found: u64,
        /// Times that the database was asked.
        requests: u64,
        /// Times that an answer was lost.
        retries: u64,
    },
}

/// Keys to be answered, and where the answer goes.
pub struct Request {
    /// The keys.
    pub keys: Keys,
    /// Where it goes.
    pub parts: Sender<Result<Part>>,
}

/// Nobody wants the answer any more.
struct Unwanted;

/// The database, in the state of one moment where it can be had.
pub struct Opener {
    /// The database.
    pub target: Arc<dyn Target>,
    /// The moment.
    pub moment: Option<Box<dyn ReadSnapshot>>,
}

impl Opener {
    /// Opens a getter.
    pub async fn open(&self, request: &GetRequest) -> Result<Box<dyn Getter>> {
        match &self.moment {
            Some(moment) => moment.getter(request).await,
            None => self.target.getter(request).await,
        }
    }
}

/// Opens getters, and keeps those that are not in use.
pub struct Getters {
    opener: Arc<Opener>,
    idle: Mutex<Vec<Box<dyn Getter>>>,
    plan: Arc<GetPlan>,
    /// Workers that have asked.
    used: Arc<AtomicUsize>,
}

impl Getters {
    /// With one that was opened already.
    pub fn new(
        opener: Arc<Opener>,
        plan: Arc<GetPlan>,
        first: Box<dyn Getter>,
        used: Arc<AtomicUsize>,
    ) -> Self {
        Self {
            opener,
            idle: Mutex::new(vec![first]),
            plan,
            used,
        }
    }

    /// Opens one more, for when it is needed.
    pub async fn keep_one_more(&self) -> Result<()> {
        let getter = self.opener.open(&self.plan.request).await?;
        self.idle.lock().await.push(getter);
        Ok(())
    }

    /// One that is not in use, or a new one.
    pub async fn open(&self) -> Result<Box<dyn Getter>> {
        match self.idle.lock().await.pop() {
            Some(getter) => Ok(getter),
            None => self.opener.open(&self.plan.request).await,
        }
    }
}

/// One connection's work.
pub struct Worker {
    getters: Arc<Getters>,
    plan: Arc<GetPlan>,
    getter: Option<Box<dyn Getter>>,
    /// Puts rows of other tables into those that are found.
    nest: Option<Nest>,
    /// Whether it has asked.
    used: bool,
}

impl Worker {
    /// Connects with its first request.
    pub fn new(getters: Arc<Getters>, plan: Arc<GetPlan>, nest: Option<Nest>) -> Self {
        Self {
            getters,
            plan,
            getter: None,
            nest,
            used: false,
        }
    }

    /// Answers `request`. False if nobody wants it any more, or if it failed; its receiver gets the error.
    pub async fn answer(&mut self, request: Request) -> bool {
        let mut answering = Answering {
            plan: self.plan.clone(),
            parts: request.parts,
            nest: None,
            sent: false,
            found: 0,
            requests: 0,
        };
        if !std::mem::replace(&mut self.used, true) {
            self.getters.used.fetch_add(1, Ordering::Relaxed);
        }
        let mut retries = 0;
        loop {
            let failed = match self.attempt(&mut answering, &request.keys).await {
                Ok(Ok(())) => {
                    let done = Part::Done {
                        found: answering.found,
                        requests: answering.requests,
                        retries,
                    };
                    return answering.parts.send(Ok(done)).await.is_ok();
                }
                Ok(Err(Unwanted)) => return false,
                Err(error) => error,
            };
            self.getter = None;
            retries += 1;
            if !failed.is_transient() || answering.sent || retries >= u64::from(ATTEMPTS_MAX) {
                // Who does not listen any more does not want to know.
                let _ = answering.parts.send(Err(failed)).await;
                return false;
            }
            tracing::warn!("attempt {retries} of {ATTEMPTS_MAX}: {failed}");
            answering.found = 0;
            tokio::time::sleep(pause(retries as u32)).await;
        }
    }

    async fn attempt(&mut self, answering: &mut Answering, keys: &Keys) -> Result<Result<(), Unwanted>> {
        let mut getter = match self.getter.take() {
            Some(getter) => getter,
            None => self.getters.open().await?,
        };
        answering.nest = self.nest.take();
        let answered = match &keys.asked {
            None => answering.each_once(&mut *getter, &keys.distinct).await,
            Some(asked) => answering.as_asked(&mut *getter, &keys.distinct, asked).await,
        };
        self.nest = answering.nest.take();
        if answered.is_ok() {
            self.getter = Some(getter);
        }
        answered
    }
}

/// A request being answered.
struct Answering {
    plan: Arc<GetPlan>,
    parts: Sender<Result<Part>>,
    nest: Option<Nest>,
    /// Whether anything was passed on.
    sent: bool,
    found: u64,
    requests: u64,
}

/// What came of one question.
struct Asked {
    /// Whether each key has rows.
    found: Vec<bool>,
    /// The rows that are held.
    held: Vec<Answer>,
    /// Whether all of them are.
    whole: bool,
}

impl Answering {
    async fn send(&mut self, part: Part) -> Result<(), Unwanted> {
        self.sent = true;
        self.parts.send(Ok(part)).await.map_err(|_| Unwanted)
    }

    /// Passes rows on, with those of other tables within them where these are wanted.
    async fn send_rows(&mut self, rows: RecordBatch) -> Result<Result<(), Unwanted>> {
        let Some(nest) = &mut self.nest else {
            return Ok(self.send(Part::Rows(rows)).await);
        };
        nest.begin(rows);
        loop {
            let Some(nest) = &mut self.nest else {
                return Ok(Ok(()));
            };
            let Some(rows) = nest.next().await? else {
                return Ok(Ok(()));
            };
            if self.send(Part::Rows(rows)).await.is_err() {
                return Ok(Err(Unwanted));
            }
        }
    }

    async fn each_once(
        &mut self,
        getter: &mut dyn Getter,
        keys: &RecordBatch,
    ) -> Result<Result<(), Unwanted>> {
        let answer = match self.ask(getter, keys, true).await? {
            Ok(answer) => answer,
            Err(unwanted) => return Ok(Err(unwanted)),
        };
        // By key, in the order of the keys.
        for rows in by_key(&answer.held, answer.found.len(), 0..answer.found.len() as u32)? {
            if self.send_rows(rows).await?.is_err() {
                return Ok(Err(Unwanted));
            }
        }
        let missing: Vec<u32> = places(&answer.found, false);
        self.found += (answer.found.len() - missing.len()) as u64;
        self.missing(keys, missing).await
    }

    async fn as_asked(
        &mut self,
        getter: &mut dyn Getter,
        keys: &RecordBatch,
        asked: &[u32],
    ) -> Result<Result<(), Unwanted>> {
        let mut waiting = vec![asked];
        while let Some(asked) = waiting.pop() {
            let mut wanted = asked.to_vec();
            wanted.sort_unstable();
            wanted.dedup();
            let some = match wanted.len() == keys.num_rows() {
                true => keys.clone(),
                false => take_record_batch(keys, &UInt32Array::from(wanted.clone())).map_err(arrow_bug)?,
            };
            let alone = wanted.len() == 1;
            let answer = match self.ask(getter, &some, alone).await? {
                Ok(answer) => answer,
                Err(unwanted) => return Ok(Err(unwanted)),
            };
            if !answer.whole && !alone {
                let (first, second) = asked.split_at(asked.len() / 2);
                waiting.extend([second, first]);
                continue;
            }
            // The rows of one key that are not held were passed on: once.
            let (now, later) = match answer.whole {
                true => (asked, &[][..]),
                false => asked.split_at(1),
            };
            if !later.is_empty() {
                waiting.push(later);
            }
            // Sorted, so each is found.
            let place = |key: &u32| wanted.binary_search(key).unwrap_or_default() as u32;
            let order: Vec<u32> = now.iter().map(place).collect();
            if answer.whole {
                for rows in by_key(&answer.held, wanted.len(), order.iter().copied())? {
                    if self.send_rows(rows).await?.is_err() {
                        return Ok(Err(Unwanted));
                    }
                }
            }
            let missing: Vec<u32> = order
                .into_iter()
                .filter(|key| !answer.found[*key as usize])
                .collect();
            self.found += (now.len() - missing.len()) as u64;
            if let Err(unwanted) = self.missing(&some, missing).await? {
                return Ok(Err(unwanted));
            }
        }
        Ok(Ok(()))
    }

    async fn missing(&mut self, keys: &RecordBatch, missing: Vec<u32>) -> Result<Result<(), Unwanted>> {
        if missing.is_empty() {
            return Ok(Ok(()));
        }
        let missing = take_record_batch(keys, &UInt32Array::from(missing)).map_err(arrow_bug)?;
        Ok(self.send(Part::Missing(missing)).await)
    }

    /// Asks one question. What is beyond the bound is passed on with `pass_on`, else the answer is left there.
    async fn ask(
        &mut self,
        getter: &mut dyn Getter,
        keys: &RecordBatch,
        pass_on: bool,
    ) -> Result<Result<Asked, Unwanted>> {
        let mut asked = Asked {
            found: vec![false; keys.num_rows()],
            held: Vec::new(),
            whole: true,
        };
        let (whole_keys, at) = without_nulls(keys)?;
        if whole_keys.num_rows() == 0 {
            return Ok(Ok(asked));
        }
        self.requests += 1;
        getter.ask(&whole_keys).await?;
        let mut held_bytes = 0;
        while let Some(mut answer) = getter.next().await? {
            if let Some(at) = &at {
                answer.keys = answer.keys.unary(|key| at.value(key as usize));
            }
            for key in answer.keys.values() {
                let found = asked.found.get_mut(*key as usize);
                *found.ok_or_else(|| Error::bug("a row of a key that was not asked"))? = true;
            }
            held_bytes += answer.rows.get_array_memory_size();
            asked.held.push(answer);
            if held_bytes <= self.plan.held_bytes_max && asked.whole {
                continue;
            }
            asked.whole = false;
            if !pass_on {
                asked.held.clear();
                return Ok(Ok(asked));
            }
            for answer in asked.held.drain(..) {
                if self.send_rows(answer.rows).await?.is_err() {
                    return Ok(Err(Unwanted));
                }
            }
        }
        Ok(Ok(asked))
    }
}

/// The keys without those that have a null in them, which equals nothing; where there are such, the places of the
/// others.
fn without_nulls(keys: &RecordBatch) -> Result<(RecordBatch, Option<UInt32Array>)> {
    if keys.columns().iter().all(|column| column.null_count() == 0) {
        return Ok((keys.clone(), None));
    }
    let whole = |row: usize| keys.columns().iter().all(|column| column.is_valid(row));
    let keep: Vec<bool> = (0..keys.num_rows()).map(whole).collect();
    let at = UInt32Array::from(places(&keep, true));
    let kept = filter_record_batch(keys, &BooleanArray::from(keep)).map_err(arrow_bug)?;
    Ok((kept, Some(at)))
}

fn places(flags: &[bool], wanted: bool) -> Vec<u32> {
    (0..flags.len() as u32)
        .filter(|at| flags[*at as usize] == wanted)
        .collect()
}

/// The rows of the keys in `order`, key by key, in batches.
fn by_key(
    held: &[Answer],
    keys: usize,
    order: impl ExactSizeIterator<Item = u32> + Clone,
) -> Result<Vec<RecordBatch>> {
    let rows: usize = held.iter().map(|answer| answer.rows.num_rows()).sum();
    if rows == 0 {
        return Ok(Vec::new());
    }
    let in_order = |answer: &Answer| answer.keys.values().is_sorted();
    if let [only] = held
        && in_order(only)
        && order.clone().eq(0..keys as u32)
    {
        return Ok(vec![only.rows.clone()]);
    }
    // Rows by key, those of one key in the order in which they came.
    let mut starts = vec![0usize; keys + 1];
    for key in held.iter().flat_map(|answer| answer.keys.values()) {
        starts[*key as usize + 1] += 1;
    }
    for key in 0..keys {
        starts[key + 1] += starts[key];
    }
    let mut next = starts.clone();
    let mut by_key = vec![(0, 0); rows];
    for (batch, answer) in held.iter().enumerate() {
        for (row, key) in answer.keys.values().iter().enumerate() {
            by_key[next[*key as usize]] = (batch, row);
            next[*key as usize] += 1;
        }
    }
    let bytes: usize = held
        .iter()
        .map(|answer| answer.rows.get_array_memory_size())
        .sum();
    let rows_max = (BATCH_BYTES * rows / bytes.max(1)).clamp(1, BATCH_ROWS);
    let batches: Vec<&RecordBatch> = held.iter().map(|answer| &answer.rows).collect();
    let mut picked = Vec::with_capacity(rows.min(rows_max));
    let mut ordered = Vec::new();
    for key in order {
        for place in &by_key[starts[key as usize]..starts[key as usize + 1]] {
            picked.push(*place);
            if picked.len() == rows_max {
                ordered.push(interleave_record_batch(&batches, &picked).map_err(arrow_bug)?);
                picked.clear();
            }
        }
    }
    if !picked.is_empty() {
        ordered.push(interleave_record_batch(&batches, &picked).map_err(arrow_bug)?);
    }
    Ok(ordered)
}
