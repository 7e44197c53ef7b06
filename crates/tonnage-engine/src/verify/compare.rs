//! What differs, by the hashes of both sides.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use tonnage_core::error::Result;

use super::{
    canonical::has_null,
    parts::{PARTS, Parts, Record},
    report::{Differing, Kind},
    side::{Chunk, Visit},
};

/// Parts that rows are cut into by the hash of their key, with a sum each.
pub(super) const BUCKETS: usize = 4_096;

/// By bits of a key that no [part](super::parts::part_of) goes by.
pub(super) fn bucket_of(key: u128) -> usize {
    (key >> 116) as usize % BUCKETS
}

/// How many rows, and the sum of their hashes, which depends on no order and counts duplicates.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Sum {
    pub rows: u64,
    pub hashes: u128,
}

impl Sum {
    fn add(&mut self, other: Self) {
        self.rows += other.rows;
        self.hashes = self.hashes.wrapping_add(other.hashes);
    }
}

/// A row that the table cannot hold.
#[derive(Debug, Clone)]
pub(super) struct BadRow {
    pub file: String,
    pub row: u64,
    pub message: String,
}

/// Rows that the table cannot hold: how many, and the first of them.
#[derive(Debug, Default)]
pub(super) struct BadRows {
    pub count: u64,
    pub first: Vec<BadRow>,
    pub kept_max: usize,
}

impl BadRows {
    pub fn new(kept_max: usize) -> Self {
        Self {
            kept_max,
            ..Self::default()
        }
    }

    fn take(&mut self, chunk: &Chunk<'_>) {
        self.count += chunk.rejects.len() as u64;
        let room = self.kept_max.saturating_sub(self.first.len());
        let bad = chunk.rejects.iter().take(room).map(|reject| BadRow {
            file: reject.file.to_string(),
            row: reject.row,
            message: match &reject.problem.column {
                Some(column) => format!("column '{column}': {}", reject.problem.message),
                None => reject.problem.message.clone(),
            },
        });
        self.first.extend(bad);
    }

    pub fn add(&mut self, other: Self) {
        self.count += other.count;
        self.first.extend(other.first);
        self.first.sort_by_key(|bad| bad.row);
        self.first.truncate(self.kept_max);
    }
}

/// Adds rows up by bucket.
pub(super) struct Summing {
    pub buckets: Vec<Sum>,
    pub bad: BadRows,
}

impl Summing {
    pub fn new(kept_max: usize) -> Self {
        Self {
            buckets: vec![Sum::default(); BUCKETS],
            bad: BadRows::new(kept_max),
        }
    }

    /// All that several workers have seen.
    pub fn total(workers: Vec<Self>, kept_max: usize) -> Self {
        let mut total = Self::new(kept_max);
        for worker in workers {
            total.bad.add(worker.bad);
            for (sum, seen) in total.buckets.iter_mut().zip(worker.buckets) {
                sum.add(seen);
            }
        }
        total
    }

    /// Over all buckets.
    pub fn sum(&self) -> Sum {
        let mut all = Sum::default();
        self.buckets.iter().for_each(|sum| all.add(*sum));
        all
    }
}

impl Visit for Summing {
    fn take(&mut self, chunk: &Chunk<'_>) -> Result<()> {
        for (key, row) in chunk.hashes.keys.iter().zip(&chunk.hashes.rows) {
            self.buckets[bucket_of(*key)].add(Sum {
                rows: 1,
                hashes: *row,
            });
        }
        self.bad.take(chunk);
        Ok(())
    }
}

/// Bits that show that a key is none of a source's: 16 MiB of them.
const KEY_BITS: usize = 1 << 27;

/// Which keys a source may have.
pub(super) struct KeySet(Vec<u64>);

impl KeySet {
    /// Of all keys of `records`.
    pub fn new() -> Self {
        Self(vec![0; KEY_BITS / 64])
    }

    fn at(key: u128) -> (usize, u64) {
        let bit = (key >> 64) as usize % KEY_BITS;
        (bit / 64, 1 << (bit % 64))
    }

    fn add(&mut self, key: u128) {
        let (at, bit) = Self::at(key);
        self.0[at] |= bit;
    }

    fn add_all(&mut self, other: &Self) {
        self.0
            .iter_mut()
            .zip(&other.0)
            .for_each(|(bits, more)| *bits |= more);
    }

    fn may_have(&self, key: u128) -> bool {
        let (at, bit) = Self::at(key);
        self.0[at] & bit != 0
    }
}

/// Which rows have their hashes gathered.
#[derive(Clone)]
pub(super) enum Wanted {
    /// Those in these buckets.
    Buckets(Arc<Vec<bool>>),
    /// All, and their keys are noted; rows without a key (at these columns) only counted.
    Keys(Vec<usize>),
    /// Those with one of these keys.
    Among(Arc<KeySet>),
}

/// Gathers the hashes of rows.
pub(super) struct Gathering {
    wanted: Wanted,
    pub parts: Parts,
    pub seen: u64,
    /// Rows with a null in their key.
    pub keyless: u64,
    pub keys: Option<KeySet>,
    pub bad: BadRows,
}

impl Gathering {
    pub fn new(wanted: Wanted, kept_max: usize) -> Self {
        Self {
            keys: matches!(wanted, Wanted::Keys(_)).then(KeySet::new),
            wanted,
            parts: Parts::new(),
            seen: 0,
            keyless: 0,
            bad: BadRows::new(kept_max),
        }
    }

    /// The keys that several workers have noted.
    pub fn all_keys(workers: &[Self]) -> KeySet {
        let mut all = KeySet::new();
        workers
            .iter()
            .filter_map(|worker| worker.keys.as_ref())
            .for_each(|keys| all.add_all(keys));
        all
    }
}

impl Visit for Gathering {
    fn take(&mut self, chunk: &Chunk<'_>) -> Result<()> {
        self.seen += chunk.hashes.keys.len() as u64;
        self.bad.take(chunk);
        for (at, (key, row)) in chunk.hashes.keys.iter().zip(&chunk.hashes.rows).enumerate() {
            match &self.wanted {
                Wanted::Buckets(buckets) if !buckets[bucket_of(*key)] => continue,
                Wanted::Among(keys) if !keys.may_have(*key) => continue,
                Wanted::Keys(key_at) if has_null(chunk.rows, key_at, at) => {
                    self.keyless += 1;
                    continue;
                }
                _ => {}
            }
            if let Some(keys) = &mut self.keys {
                keys.add(*key);
            }
            self.parts.push(Record {
                key: *key,
                row: *row,
                place: chunk.place(at),
            })?;
        }
        Ok(())
    }
}

/// A row that differs, by its hashes on both sides.
#[derive(Debug, Clone, Copy)]
pub(super) struct Found {
    pub kind: Kind,
    pub times: u64,
    pub source: Option<u128>,
    pub table: Option<u128>,
    /// For their order: that of the source, then of hashes.
    pub place: u64,
}

/// What differs: counted, and the first of each kind.
pub(super) struct Findings {
    pub counts: Differing,
    pub first: Vec<Found>,
    kept_max: usize,
}

impl Findings {
    pub fn new(kept_max: usize) -> Self {
        Self {
            counts: Differing::default(),
            first: Vec::new(),
            kept_max,
        }
    }

    fn add(&mut self, found: Found) {
        let count = match found.kind {
            Kind::Missing => &mut self.counts.missing,
            Kind::Extra => &mut self.counts.extra,
            Kind::Changed => &mut self.counts.changed,
            Kind::Bad => &mut self.counts.bad,
        };
        *count += found.times;
        self.first.push(found);
        // Cut now and then, so that it stays small whatever differs.
        if self.first.len() > 8 * self.kept_max + 1_024 {
            self.cut();
        }
    }

    /// Leaves the first of each kind, in order.
    pub fn cut(&mut self) {
        let order = |found: &Found| (found.kind, found.place, found.source, found.table);
        self.first.sort_unstable_by_key(order);
        let (mut kind, mut kept) = (None, 0);
        let kept_max = self.kept_max;
        self.first.retain(|found| {
            if kind != Some(found.kind) {
                (kind, kept) = (Some(found.kind), 0);
            }
            kept += 1;
            kept <= kept_max
        });
    }

    /// The hashes of rows whose values are wanted, of the source and of the table.
    pub fn hashes(&self) -> (HashSet<u128>, HashSet<u128>) {
        let source = self.first.iter().filter_map(|found| found.source);
        let table = self.first.iter().filter_map(|found| found.table);
        (source.collect(), table.collect())
    }
}

/// The records of part `part` that workers have gathered.
fn part_of_all(workers: &mut [Gathering], part: usize) -> Result<Vec<Record>> {
    let mut records = Vec::new();
    for worker in workers {
        records.append(&mut worker.parts.part(part)?);
    }
    Ok(records)
}

/// What differs where both sides are to be the same rows, as often.
pub(super) fn equal(
    mut source: Vec<Gathering>,
    mut table: Vec<Gathering>,
    kept_max: usize,
) -> Result<Findings> {
    let mut findings = Findings::new(kept_max);
    for part in 0..PARTS {
        // How many more there are in the source, and the first place of each.
        let mut surplus: HashMap<(u128, u128), (i64, u64)> = HashMap::new();
        for record in part_of_all(&mut source, part)? {
            let (count, place) = surplus.entry((record.key, record.row)).or_insert((0, u64::MAX));
            *count += 1;
            *place = record.place.min(*place);
        }
        for record in part_of_all(&mut table, part)? {
            surplus.entry((record.key, record.row)).or_insert((0, u64::MAX)).0 -= 1;
        }
        surplus.retain(|_, (count, _)| *count != 0);
        let mut by_key: HashMap<u128, Vec<(u128, i64, u64)>> = HashMap::new();
        for ((key, row), (count, place)) in surplus {
            by_key.entry(key).or_default().push((row, count, place));
        }
        for rows in by_key.values_mut() {
            rows.sort_unstable_by_key(|(row, _, place)| (*place, *row));
            pair(rows, &mut findings);
        }
    }
    findings.cut();
    Ok(findings)
}

/// Of rows of one key, those that are too many on one side are other values of those too many on the other.
fn pair(rows: &[(u128, i64, u64)], findings: &mut Findings) {
    let mut missing: Vec<_> = rows.iter().copied().filter(|(_, count, _)| *count > 0).collect();
    let mut extra: Vec<_> = rows.iter().copied().filter(|(_, count, _)| *count < 0).collect();
    missing.reverse();
    extra.reverse();
    while let (Some(source), Some(table)) = (missing.last_mut(), extra.last_mut()) {
        let times = source.1.min(-table.1);
        findings.add(Found {
            kind: Kind::Changed,
            times: times.unsigned_abs(),
            source: Some(source.0),
            table: Some(table.0),
            place: source.2,
        });
        source.1 -= times;
        table.1 += times;
        if source.1 == 0 {
            missing.pop();
        }
        if extra.last().is_some_and(|(_, count, _)| *count == 0) {
            extra.pop();
        }
    }
    for (row, count, place) in missing {
        findings.add(Found {
            kind: Kind::Missing,
            times: count.unsigned_abs(),
            source: Some(row),
            table: None,
            place,
        });
    }
    for (row, count, place) in extra {
        findings.add(Found {
            kind: Kind::Extra,
            times: count.unsigned_abs(),
            source: None,
            table: Some(row),
            place,
        });
    }
}

/// Which row of a key of the source is to be in the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Winner {
    /// The last one.
    Last,
    /// Any of them.
    Any,
}

/// What differs where the rows of the source are to be among those of the table, by their keys.
pub(super) fn contained(
    mut source: Vec<Gathering>,
    mut table: Vec<Gathering>,
    winner: Winner,
    kept_max: usize,
) -> Result<Findings> {
    let mut findings = Findings::new(kept_max);
    for part in 0..PARTS {
        let mut wanted: HashMap<u128, Vec<(u128, u64)>> = HashMap::new();
        for record in part_of_all(&mut source, part)? {
            let rows = wanted.entry(record.key).or_default();
            match (winner, rows.first_mut()) {
                (Winner::Last, Some(last)) if last.1 > record.place => {}
                (Winner::Last, Some(last)) => *last = (record.row, record.place),
                _ => rows.push((record.row, record.place)),
            }
        }
        for record in part_of_all(&mut table, part)? {
            let Some(rows) = wanted.remove(&record.key) else {
                continue;
            };
            let is_there = rows.iter().any(|(row, _)| *row == record.row);
            if let (false, Some((row, place))) = (is_there, rows.first()) {
                findings.add(Found {
                    kind: Kind::Changed,
                    times: 1,
                    source: Some(*row),
                    table: Some(record.row),
                    place: *place,
                });
            }
        }
        for rows in wanted.values() {
            for (row, place) in rows.iter().take(1) {
                findings.add(Found {
                    kind: Kind::Missing,
                    times: 1,
                    source: Some(*row),
                    table: None,
                    place: *place,
                });
            }
        }
    }
    findings.cut();
    Ok(findings)
}
