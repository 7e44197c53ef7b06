//! Rows of the ledger, read.

use std::fmt;

use tonnage_core::{
    error::{Error, ErrorKind, Result},
    ledger::{
        RunDetail, RunQuery, RunRecord, RunStatus,
        inputs::InputRecord,
        jobs::{PartRecord, PartState},
        unreadable,
    },
    slot::{BlockMark, Counts, Position, SlotState},
};

use super::{INPUTS, PARTS, RUNS, SLOTS, Value};

/// A column that does not hold what it should: another hand may write anything.
#[derive(Debug)]
pub struct Malformed {
    /// Which one, from 1 on.
    column: usize,
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "column {} has a value of another type", self.column)
    }
}

impl std::error::Error for Malformed {}

/// The columns of a row, one after another.
pub(super) struct Columns<'r> {
    row: &'r [Value],
    next: usize,
}

impl<'r> Columns<'r> {
    pub(super) fn of(row: &'r [Value]) -> Self {
        Self { row, next: 0 }
    }

    fn take<T>(&mut self, read: impl FnOnce(&'r Value) -> Option<T>) -> Result<T, Malformed> {
        let value = self.row.get(self.next);
        self.next += 1;
        value.and_then(read).ok_or(Malformed { column: self.next })
    }

    pub(super) fn integer(&mut self) -> Result<i64, Malformed> {
        self.take(|value| match value {
            Value::Integer(number) => Some(*number),
            _ => None,
        })
    }

    fn narrow<T: TryFrom<i64>>(&mut self) -> Result<T, Malformed> {
        let number = self.integer()?;
        T::try_from(number).map_err(|_| Malformed { column: self.next })
    }

    fn bits(&mut self) -> Result<u64, Malformed> {
        self.integer().map(|number| number as u64)
    }

    /// Whether a run has finished, of a condition.
    pub(super) fn status(&mut self) -> Result<RunStatus, Malformed> {
        self.integer().map(|number| match number {
            0 => RunStatus::Unfinished,
            _ => RunStatus::Finished,
        })
    }

    pub(super) fn text(&mut self) -> Result<&'r str, Malformed> {
        self.take(|value| match value {
            Value::Text(text) => Some(text.as_str()),
            _ => None,
        })
    }

    fn text_if_any(&mut self) -> Result<Option<&'r str>, Malformed> {
        self.take(|value| match value {
            Value::Null => Some(None),
            Value::Text(text) => Some(Some(text.as_str())),
            _ => None,
        })
    }

    fn if_any(&mut self) -> Result<Option<i64>, Malformed> {
        self.take(|value| match value {
            Value::Null => Some(None),
            Value::Integer(number) => Some(Some(*number)),
            _ => None,
        })
    }

    fn counts(&mut self) -> Result<Counts, Malformed> {
        Ok(Counts {
            written: self.bits()?,
            skipped: self.bits()?,
            rejected: self.bits()?,
        })
    }
}

/// The error of a row of `table` that is no single run's.
pub(super) fn odd(table: &str) -> impl Fn(Malformed) -> Error {
    let message = format!("{table} holds a row that cannot be read");
    move |cause| Error::new(ErrorKind::Refused, format!("{message}: {cause}")).caused_by(cause)
}

/// A slot's state, of [`SLOT_COLUMNS`](super::SLOT_COLUMNS).
pub(super) fn slot(row: &[Value]) -> Result<SlotState> {
    let read = |columns: &mut Columns<'_>| {
        Ok(SlotState {
            slot: columns.narrow()?,
            position: Position {
                block: columns.bits()?,
                rows: columns.bits()?,
            },
            mark: BlockMark {
                file: columns.narrow()?,
                offset: columns.bits()?,
                file_rows: columns.bits()?,
                rows: columns.bits()?,
                hash: columns.bits()?,
            },
            counts: columns.counts()?,
        })
    };
    read(&mut Columns::of(row)).map_err(odd(SLOTS))
}

/// A run, of id, identity, epoch, start, end, detail and account; none, with a warning, where it cannot be read and nothing
/// depends on it.
pub(super) fn run(row: &[Value], query: &RunQuery) -> Result<Option<RunRecord>> {
    let run_id = match row.first() {
        Some(Value::Text(run_id)) => run_id,
        _ => "without an id",
    };
    let read = |columns: &mut Columns<'_>| {
        let (run_id, identity) = (columns.text()?.to_owned(), columns.text()?.to_owned());
        let (epoch, started, finished) = (columns.integer()?, columns.integer()?, columns.if_any()?);
        let (detail, counts) = (columns.text()?, columns.counts()?);
        Ok(RunDetail::from_json(&run_id, detail).map(|detail| RunRecord {
            run_id,
            identity,
            epoch,
            started,
            finished,
            detail,
            counts,
        }))
    };
    let read = read(&mut Columns::of(row)).map_err(|cause: Malformed| unreadable(run_id, cause));
    let finished = row.get(4).filter(|finished| **finished != Value::Null);
    query.readable(read.flatten(), RunStatus::of(finished))
}

/// What is on record of an input, of the run's id, the detail and whether the run has finished; none, with a warning, where
/// the detail cannot be read.
pub(super) fn input(row: &[Value]) -> Result<Option<InputRecord>> {
    let read = |columns: &mut Columns<'_>| {
        let (run_id, detail) = (columns.text()?.to_owned(), columns.text()?);
        Ok(InputRecord::read(run_id, columns.status()?, detail))
    };
    read(&mut Columns::of(row)).map_err(odd(INPUTS))
}

/// The detail of a run, the only column of `row`.
pub(super) fn detail(run_id: &str, row: &[Value]) -> Result<RunDetail> {
    let text = Columns::of(row)
        .text()
        .map_err(|cause| unreadable(run_id, cause))?;
    RunDetail::from_json(run_id, text)
}

/// A part of a job: part, state, attempt, owner, end of its lease, the time now, connections, run, account, error and
/// detail.
pub(super) fn part(row: &[Value]) -> Result<PartRecord> {
    let read = |columns: &mut Columns<'_>| {
        let part = columns.integer()?;
        let state = columns.take(|value| match value {
            Value::Text(name) => PartState::by_name(name),
            _ => None,
        })?;
        let attempt = columns.integer()?;
        let owner = columns.text_if_any()?.map(str::to_owned);
        let (until, now) = (columns.integer()?, columns.integer()?);
        Ok(PartRecord {
            part,
            state,
            attempt,
            owner,
            lease_seconds: until.saturating_sub(now),
            connections: columns.bits()?,
            run_id: columns.text_if_any()?.map(str::to_owned),
            counts: columns.counts()?,
            error: columns.text_if_any()?.map(str::to_owned),
            detail: columns.text()?.to_owned(),
        })
    };
    read(&mut Columns::of(row)).map_err(odd(PARTS))
}

/// A number, the only column of `row` of a query of `table`.
pub(super) fn number(row: &[Value], table: &str) -> Result<i64> {
    Columns::of(row).integer().map_err(odd(table))
}

/// An id, the only column of `row`.
pub(super) fn id(row: &[Value]) -> Result<String> {
    Columns::of(row).text().map(str::to_owned).map_err(odd(RUNS))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unsigned_numbers_are_read_by_their_bits() {
        let mut row = vec![Value::Integer(7); 11];
        row[7] = Value::Integer(-1);
        let state = slot(&row).expect("a state");
        assert_eq!((state.slot, state.mark.file, state.mark.hash), (7, 7, u64::MAX));
        for (column, odd) in [
            (0, Value::Integer(1 << 16)),
            (3, Value::Integer(-1)),
            (8, Value::Null),
        ] {
            let mut row = row.clone();
            row[column] = odd;
            let error = slot(&row).expect_err("it is not that of a slot");
            assert_eq!(error.kind(), ErrorKind::Refused);
            assert!(
                error.to_string().contains(&format!("column {}", column + 1)),
                "{error}"
            );
        }
        assert!(slot(&row[..10]).is_err());
    }

    #[test]
    fn a_run_that_cannot_be_read_matters_where_it_was_asked_for() {
        let row = [
            Value::from("a"),
            Value::from("identity"),
            Value::from(1_i64),
            Value::Unreadable,
            Value::Null,
        ];
        let newest = run(&row, &RunQuery::Newest(1)).expect("a warning");
        assert!(newest.is_none());
        let asked = run(&row, &RunQuery::Id("a".to_owned())).expect_err("it matters");
        assert_eq!(asked.kind(), ErrorKind::Schema);
        assert!(
            asked.to_string().contains("record of run a cannot be read"),
            "{asked}"
        );
    }
}
