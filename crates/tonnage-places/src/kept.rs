//! What was read of the ends of objects, kept for whoever reads them next.
//!
//! A file is looked at before it is read: what it is, which columns it has, whether it ends in a footer. Each look opens
//! it anew, and of an object 70 ms away each would wait for the same bytes again. Kept is what was read last; all of it
//! is of the version that the object is.

use std::{collections::VecDeque, mem, ops::Range, sync::Mutex};

use bytes::Bytes;
use tonnage_core::{error::Result, sync::Lock};

use super::{object::Object, runtime::Pending};

/// The most that is kept of all objects together.
pub const KEPT_BYTES_MAX: u64 = 8 << 20;

/// Bytes of the beginning of an object that are read at first, and so kept.
pub(crate) const BEGINNING_BYTES: u64 = 256 << 10;

/// Bytes of its end that are asked for with its beginning: most footers, and what tells that a text has one.
pub const END_BYTES: u64 = 64 << 10;

/// The longest end that is kept: a footer of many columns.
const LONGEST_END_BYTES: u64 = 1 << 20;

/// The latest last.
static KEPT: Mutex<VecDeque<Kept>> = Mutex::new(VecDeque::new());

struct Kept {
    object: Object,
    range: Range<u64>,
    part: Part,
}

enum Part {
    Asked(Pending<Result<Bytes>>),
    Here(Bytes),
}

fn push(kept: &mut VecDeque<Kept>, new: Kept) {
    kept.retain(|old| !(old.object.is(&new.object) && old.range == new.range));
    kept.push_back(new);
    let mut bytes: u64 = kept.iter().map(|kept| kept.range.end - kept.range.start).sum();
    while bytes > KEPT_BYTES_MAX
        && let Some(oldest) = kept.pop_front()
    {
        bytes -= oldest.range.end - oldest.range.start;
    }
}

/// Keeps bytes of an object that begin at `from`, where they are one of its ends.
pub(crate) fn keep(object: &Object, from: u64, bytes: Bytes) {
    let range = from..from + bytes.len() as u64;
    let is_beginning = from == 0 && range.end <= BEGINNING_BYTES;
    let is_end = Some(range.end) == object.bytes() && bytes.len() as u64 <= LONGEST_END_BYTES;
    if range.is_empty() || !(is_beginning || is_end) {
        return;
    }
    let new = Kept {
        object: object.clone(),
        range,
        part: Part::Here(bytes),
    };
    push(&mut KEPT.locked(), new);
}

/// Asks for a range of an object that will soon be read, unless it is kept.
fn foresee(object: &Object, range: Range<u64>) {
    let mut kept = KEPT.locked();
    let is_there = |kept: &Kept| {
        kept.object.is(object) && kept.range.start <= range.start && range.end <= kept.range.end
    };
    if range.is_empty() || kept.iter().any(is_there) {
        return;
    }
    // Who cannot ask now will when it is read, and say so.
    if let Ok(asked) = object.ask(range.clone()) {
        let new = Kept {
            object: object.clone(),
            range,
            part: Part::Asked(asked),
        };
        push(&mut kept, new);
    }
}

/// Asks for the beginning of an object that will soon be read.
pub(crate) fn foresee_beginning(object: &Object) {
    if let Some(bytes) = object.bytes().filter(|_| object.has_ranges()) {
        foresee(object, 0..bytes.min(BEGINNING_BYTES));
    }
}

/// Asks for the end of an object that will soon be read.
pub(crate) fn foresee_end(object: &Object) {
    if let Some(bytes) = object.bytes().filter(|_| object.has_ranges()) {
        foresee(object, bytes.saturating_sub(END_BYTES)..bytes);
    }
}

/// What is kept of an object and has the byte at `position`: where it begins, and the bytes. Waits for what was asked for.
pub(crate) fn at(object: &Object, position: u64) -> Option<(u64, Bytes)> {
    let mut kept = KEPT.locked();
    let index = kept
        .iter()
        .position(|kept| kept.object.is(object) && kept.range.contains(&position))?;
    if let Part::Here(bytes) = &kept[index].part {
        return Some((kept[index].range.start, bytes.clone()));
    }
    let Kept { range, part, .. } = kept.remove(index)?;
    // Others are not to wait for this one.
    mem::drop(kept);
    let Part::Asked(asked) = part else { return None };
    // Whoever reads it asks again, and has the error.
    let bytes = asked.wait().ok()?.ok()?;
    keep(object, range.start, bytes.clone());
    Some((range.start, bytes))
}
