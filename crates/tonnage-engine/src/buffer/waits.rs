//! Who waits for which row, so that a mark that moves wakes those whom it has reached and nobody else.
//!
//! Invariants:
//! - Whoever waits is registered here when the mark was looked at and found too low, under the same lock
//!   as the mark; so nobody is missed.
//! - A wait that is given up leaves nothing behind.

use std::{
    collections::BTreeMap,
    future::Future,
    pin::{Pin, pin},
    sync::Arc,
    task::{Context, Poll, Wake, Waker},
    thread::Thread,
};

use tonnage_core::error::Result;

use super::area::{Area, Mark};

/// Those who wait for one mark, in the order of the rows that they wait for.
#[derive(Debug, Default)]
pub struct Waits {
    wakers: BTreeMap<(u64, u64), Waker>,
    /// Tells those apart who wait for one row.
    tickets: u64,
}

impl Waits {
    /// One more, who waits for row `sequence`; what it can be found by.
    fn add(&mut self, sequence: u64, waker: Waker) -> (u64, u64) {
        self.tickets += 1;
        let place = (sequence, self.tickets);
        self.wakers.insert(place, waker);
        place
    }

    /// The highest row that is waited for.
    pub fn highest(&self) -> Option<u64> {
        self.wakers.last_key_value().map(|((sequence, _), _)| *sequence)
    }

    /// Takes those out whom a mark at `sequence` reaches.
    pub fn reached(&mut self, sequence: u64) -> BTreeMap<(u64, u64), Waker> {
        match self.wakers.first_key_value() {
            Some(((first, _), _)) if *first <= sequence => {
                let later = self.wakers.split_off(&(sequence.saturating_add(1), 0));
                std::mem::replace(&mut self.wakers, later)
            }
            _ => BTreeMap::new(),
        }
    }
}

/// Resolves once `mark` has reached row `sequence`, or never will.
pub struct Reached<'a> {
    area: &'a Area,
    mark: Mark,
    sequence: u64,
    /// Where it waits.
    place: Option<(u64, u64)>,
}

impl<'a> Reached<'a> {
    pub fn new(area: &'a Area, mark: Mark, sequence: u64) -> Self {
        Self {
            area,
            mark,
            sequence,
            place: None,
        }
    }
}

impl Future for Reached<'_> {
    type Output = Result<()>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<()>> {
        let this = &mut *self;
        let mut state = this.area.lock();
        if let Some(reached) = state.reached(this.mark, this.sequence) {
            // Whoever moved the mark, or ended the buffer, takes it out.
            this.place = None;
            return Poll::Ready(reached);
        }
        let waits = state.waits(this.mark);
        match this.place.and_then(|place| waits.wakers.get_mut(&place)) {
            Some(waker) => waker.clone_from(context.waker()),
            None => {
                this.place = Some(waits.add(this.sequence, context.waker().clone()));
                if this.mark == Mark::Committed && state.is_waited_for() {
                    drop(state);
                    this.area.drain.notify_one();
                }
            }
        }
        Poll::Pending
    }
}

impl Drop for Reached<'_> {
    fn drop(&mut self) {
        if let Some(place) = self.place {
            self.area.lock().waits(self.mark).wakers.remove(&place);
        }
    }
}

/// Wakes a thread.
struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.0.unpark();
    }
}

/// Blocks the thread until `future` is there; also within a runtime, whose thread it then holds up.
pub(super) fn block_on<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    // Most are there at once.
    if let Poll::Ready(value) = future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        return value;
    }
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut context = Context::from_waker(&waker);
    loop {
        if let Poll::Ready(value) = future.as_mut().poll(&mut context) {
            return value;
        }
        std::thread::park();
    }
}
