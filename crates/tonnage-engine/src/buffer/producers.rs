//! Producers that number their own rows, so that what they send twice is taken once.
//!
//! Invariants:
//! - The rows of a producer are numbered without gaps, from whatever number it begins with.
//! - Rows up to its highest number have been taken; a batch that reaches beyond brings only those beyond.
//! - A number that leaves a gap, or that is before its first, looks the same as a lost batch and is refused.

use std::{collections::HashMap, sync::Arc};

use tonnage_core::error::{Error, Result};

/// The most producers that are remembered. A further one is refused, as forgetting one could double its rows.
pub const PRODUCERS_MAX: usize = 4_096;
/// The most bytes of a producer's name.
pub const PRODUCER_NAME_BYTES_MAX: usize = 255;

/// What is known of one producer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Producer {
    /// The number that it began with.
    pub first: u64,
    /// Its highest number.
    pub highest: u64,
    /// The sequence number of that row.
    pub sequence: u64,
}

/// All of them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Producers(HashMap<Arc<str>, Producer>);

impl Producers {
    /// How many of the first rows of a batch are known already. Refuses what leaves a gap.
    pub fn known(&self, name: &str, first: u64, rows: u64) -> Result<u64> {
        if name.is_empty() || name.len() > PRODUCER_NAME_BYTES_MAX {
            return Err(Error::config(format!(
                "a producer's name has 1 to {PRODUCER_NAME_BYTES_MAX} bytes, not {}",
                name.len()
            )));
        }
        if first.checked_add(rows).is_none() {
            return Err(Error::config(format!(
                "producer {name}: its numbers end before row {first} and {rows} more"
            )));
        }
        let Some(known) = self.0.get(name) else {
            if self.0.len() >= PRODUCERS_MAX {
                return Err(Error::config(format!(
                    "producer {name} would be one more than the {PRODUCERS_MAX} that are remembered"
                ))
                .hint("let producers keep their names; a buffer forgets none while it is open"));
            }
            return Ok(0);
        };
        if first > known.highest + 1 {
            return Err(Error::config(format!(
                "producer {name} sends row {first} where row {} is due",
                known.highest + 1
            ))
            .hint("send what lies between first; one batch of a producer after the other"));
        }
        if first < known.first {
            return Err(Error::config(format!(
                "producer {name} sends row {first} and began with row {}",
                known.first
            )));
        }
        Ok((known.highest + 1 - first).min(rows))
    }

    /// The sequence number of a producer's highest row.
    pub fn sequence(&self, name: &str) -> Option<u64> {
        self.0.get(name).map(|p| p.sequence)
    }

    /// What is known of a producer.
    pub fn get(&self, name: &str) -> Option<Producer> {
        self.0.get(name).copied()
    }

    /// Notes that rows from its number `first` on were taken, the last of `rows` as `sequence`.
    pub fn note(&mut self, name: &Arc<str>, first: u64, rows: u64, sequence: u64) {
        if rows == 0 {
            return;
        }
        let highest = first + rows - 1;
        let known = self.0.entry(name.clone()).or_insert(Producer {
            first,
            highest,
            sequence,
        });
        if highest >= known.highest {
            known.highest = highest;
            known.sequence = sequence;
        }
    }

    /// Puts a producer back as it was.
    pub fn restore(&mut self, name: Arc<str>, producer: Producer) {
        self.0.insert(name, producer);
    }

    /// All of them, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&Arc<str>, &Producer)> {
        let mut all: Vec<_> = self.0.iter().collect();
        all.sort_by_key(|(name, _)| *name);
        all.into_iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_sent_before_is_known() {
        let mut producers = Producers::default();
        let name: Arc<str> = "a".into();
        assert_eq!(producers.known("a", 7, 3).unwrap(), 0);
        producers.note(&name, 7, 3, 103);
        for (first, rows, known) in [(7, 3, 3), (7, 5, 3), (8, 1, 1), (9, 2, 1), (10, 4, 0)] {
            assert_eq!(
                producers.known("a", first, rows).unwrap(),
                known,
                "{first} {rows}"
            );
        }
        assert_eq!(producers.sequence("a"), Some(103));
        assert!(producers.known("a", 11, 1).is_err(), "row 10 is missing");
        assert!(producers.known("a", 6, 1).is_err(), "it began with row 7");
        assert!(producers.known("b", u64::MAX, 2).is_err());
        assert!(producers.known("", 1, 1).is_err());
    }

    #[test]
    fn no_more_are_remembered_than_the_bound() {
        let mut producers = Producers::default();
        for at in 0..PRODUCERS_MAX {
            producers.note(&format!("p{at}").into(), 1, 1, 1);
        }
        assert!(producers.known("p0", 2, 1).is_ok());
        assert!(producers.known("one more", 1, 1).is_err());
    }
}
