//! Which streams are done: all of their entries read, and each of them durable or handed to a callback.

use std::{collections::HashMap, sync::Mutex};

use tonnage_core::sync::Lock;

/// Told of a stream that is done.
pub(super) type OnCompleted = Box<dyn Fn(usize) + Send + Sync>;

/// See the module.
pub(super) struct Tally {
    state: Mutex<State>,
    completed: Option<OnCompleted>,
}

struct State {
    /// The stream of each block that is not settled, and how many of its entries are not.
    blocks: HashMap<u64, (usize, u64)>,
    /// Entries of each stream that were read and are not settled.
    open: Vec<u64>,
    ended: Vec<bool>,
    completed: usize,
}

impl Tally {
    /// Of so many streams, none of which has been read.
    pub fn new(streams: usize, completed: Option<OnCompleted>) -> Self {
        Self {
            state: Mutex::new(State {
                blocks: HashMap::new(),
                open: vec![0; streams],
                ended: vec![false; streams],
                completed: 0,
            }),
            completed,
        }
    }

    /// A block of a stream was read. It is not passed on before this.
    pub fn read(&self, stream: usize, block: u64, entries: u64) {
        let mut state = self.state.locked();
        state.blocks.insert(block, (stream, entries));
        state.open[stream] += entries;
    }

    /// Nothing more comes of a stream.
    pub fn ended(&self, stream: usize) {
        let done = {
            let mut state = self.state.locked();
            state.ended[stream] = true;
            state.finish(stream)
        };
        self.tell(done);
    }

    /// So many entries of a block are durable, or were handed to a callback.
    pub fn rows_done(&self, block: u64, entries: u64) {
        let done = {
            let mut state = self.state.locked();
            let Some((stream, left)) = state.blocks.get_mut(&block) else {
                return;
            };
            let (stream, entries) = (*stream, entries.min(*left));
            *left -= entries;
            if *left == 0 {
                state.blocks.remove(&block);
            }
            state.open[stream] -= entries;
            match entries {
                0 => None,
                _ => state.finish(stream),
            }
        };
        self.tell(done);
    }

    /// Streams that are done.
    pub fn completed(&self) -> usize {
        self.state.locked().completed
    }

    /// The callback may take its time, so the lock is not held.
    fn tell(&self, done: Option<usize>) {
        if let (Some(stream), Some(completed)) = (done, &self.completed) {
            completed(stream);
        }
    }
}

impl State {
    /// The stream, if this was the last that it waited for: it comes to that once.
    fn finish(&mut self, stream: usize) -> Option<usize> {
        let done = self.ended[stream] && self.open[stream] == 0;
        self.completed += usize::from(done);
        done.then_some(stream)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn a_stream_is_done_once_and_only_when_its_last_entry_is() {
        let told = Arc::new(Mutex::new(Vec::new()));
        let heard = told.clone();
        let tally = Tally::new(
            3,
            Some(Box::new(move |stream| {
                heard.lock().expect("no panic").push(stream)
            })),
        );
        let told = || told.lock().expect("no panic").clone();
        tally.ended(2);
        assert_eq!(told(), [2], "one without entries is done at its end");
        tally.read(0, 0, 5);
        tally.read(1, 1, 2);
        tally.read(0, 2, 1);
        tally.rows_done(2, 1);
        tally.rows_done(0, 2);
        tally.ended(0);
        assert_eq!(told(), [2]);
        tally.rows_done(0, 3);
        assert_eq!(told(), [2, 0]);
        tally.rows_done(1, 2);
        assert_eq!(told(), [2, 0], "more may come of it");
        tally.ended(1);
        assert_eq!((told(), tally.completed()), (vec![2, 0, 1], 3));
    }
}
