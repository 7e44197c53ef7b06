//! A random sequence of what processes do to a ledger, and the plain model of what it must answer.

use std::{collections::BTreeSet, fmt::Debug, sync::Arc, time::Duration};

use arrow::{
    array::{Int64Array, RecordBatch},
    datatypes::{Field, Schema},
};
use tonnage::{
    ColumnType, ErrorKind,
    ledger::{NewRun, RunHandle, RunQuery},
    operation::{Method, Operation},
    plan::Plan,
    preparation::Preparation,
    slot::{Advance, BlockMark, Counts, Position, SlotState},
    table::{ColumnSpec, TableName, TableSpec},
    target::{Claim, Guard, WriteColumn, Writer},
};

use super::{Count, Subject};
use crate::common::new_run;

const SLOTS: u16 = 5;
/// Handles kept at once; the oldest is let go.
const OWNERS_MAX: usize = 4;

/// Deterministic dice (xorshift).
struct Dice(u64);

impl Dice {
    fn below(&mut self, sides: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % sides
    }

    fn one_in(&mut self, sides: u64) -> bool {
        self.below(sides) == 0
    }

    fn position(&mut self) -> Position {
        Position {
            block: self.below(1 << 40),
            rows: self.below(1 << 20),
        }
    }

    /// Any 64 bits where a mark may hold them.
    fn mark(&mut self) -> BlockMark {
        BlockMark {
            file: self.below(9) as u32,
            offset: self.0,
            file_rows: self.below(1 << 40),
            rows: self.below(1 << 40),
            hash: self.0.rotate_left(17) | 1 << 63,
        }
    }

    fn counts(&mut self) -> Counts {
        Counts {
            written: self.below(1000),
            skipped: self.below(10),
            rejected: self.below(10),
        }
    }
}

/// A run as the ledger should have it.
struct ModelRun {
    run: NewRun,
    epoch: i64,
    /// The account, once it is finished.
    finished: Option<Counts>,
    slots: Vec<SlotState>,
}

/// A process that owns a run, or thinks that it does.
struct Owner {
    handle: RunHandle,
    writer: Option<Box<dyn Writer>>,
}

/// A transaction in flight.
struct Open {
    /// Whose it is: a place among the owners.
    owner: usize,
    advances: Vec<Advance>,
    rows: i64,
}

/// A database and its model, which every step changes alike.
pub struct Sequence {
    subject: Subject,
    plan: Plan,
    dice: Dice,
    runs: Vec<ModelRun>,
    /// All run ids there have ever been.
    run_ids: Vec<String>,
    owners: Vec<Owner>,
    open: Option<Open>,
    rows: i64,
    /// What was done, for a failure's message.
    history: Vec<String>,
}

impl Sequence {
    /// Nothing is in either yet.
    pub async fn new(subject: Subject, seed: u64) -> Self {
        let spec = TableSpec {
            name: TableName::bare("t"),
            columns: vec![ColumnSpec {
                name: "id".to_owned(),
                ty: ColumnType::Int64,
                nullable: true,
            }],
            key: Vec::new(),
        };
        if subject.carries_rows() {
            subject.target.create(&spec).await.unwrap();
        }
        let table = subject.target.table(&spec.name).await.unwrap().unwrap();
        let column = WriteColumn {
            source: 0,
            source_name: "id".to_owned(),
            target: 0,
            name: "id".to_owned(),
            ty: ColumnType::Int64,
        };
        let plan = crate::common::plan(Arc::new(table), vec![column], Operation::Insert, Method::Native);
        let mut sequence = Self {
            subject,
            plan,
            dice: Dice(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15)),
            runs: Vec::new(),
            run_ids: Vec::new(),
            owners: Vec::new(),
            open: None,
            rows: 0,
            history: vec![format!("seed {seed}")],
        };
        sequence.compare_runs().await;
        sequence.start().await;
        sequence
    }

    fn assert_eq<T: PartialEq + Debug>(&self, found: &T, expected: &T, what: &str) {
        assert!(
            found == expected,
            "{what}: {found:?} should be {expected:?} after\n{}",
            self.history.join("\n")
        );
    }

    /// Does one thing that a process might do.
    pub async fn step(&mut self) {
        // While a transaction is open, whatever else changes the ledger may wait for it.
        if self.open.is_some() {
            return match self.dice.below(8) {
                0 | 1 => self.write().await,
                2 | 3 => self.commit().await,
                4 => self.rollback().await,
                5 => self.drop_writer().await,
                6 => self.take_over_meanwhile().await,
                _ => self.history.push("look".to_owned()),
            };
        }
        match self.dice.below(16) {
            0 | 1 => self.start().await,
            2 => self.take_over().await,
            3 => self.finish().await,
            4 => self.forget().await,
            5 => self.rollback_of_nothing().await,
            _ => self.begin().await,
        }
    }

    fn run(&self, run_id: &str) -> Option<&ModelRun> {
        self.runs.iter().find(|run| run.run.run_id == run_id)
    }

    fn run_mut(&mut self, run_id: &str) -> Option<&mut ModelRun> {
        self.runs.iter_mut().find(|run| run.run.run_id == run_id)
    }

    /// Any run there has ever been.
    fn any_run_id(&mut self) -> String {
        let at = self.dice.below(self.run_ids.len() as u64) as usize;
        self.run_ids[at].clone()
    }

    fn any_owner(&mut self) -> Option<usize> {
        let owners = self.owners.len() as u64;
        (owners > 0).then(|| self.dice.below(owners) as usize)
    }

    fn add_owner(&mut self, handle: RunHandle) {
        if self.owners.len() == OWNERS_MAX {
            self.owners.remove(0);
        }
        self.owners.push(Owner { handle, writer: None });
    }

    fn new_run(&mut self) -> NewRun {
        let table = &self.plan.table;
        let preparation = match self.dice.one_in(4) && self.subject.carries_rows() {
            true => Preparation::Truncate,
            false => Preparation::Keep,
        };
        let number = self.run_ids.len();
        // They begin with the time, in milliseconds.
        let run_id = format!("{:012x}{number:020x}", 0x0190_0000_0000 + number);
        let identity = format!("input {}", self.dice.below(3));
        let mut run = new_run(table, run_id, identity, SLOTS);
        run.detail.options.push(format!("null={number}"));
        run.preparation = preparation;
        run
    }

    async fn start(&mut self) {
        let run = self.new_run();
        self.history.push(format!(
            "start {} of {}, {:?}",
            run.run_id, run.identity, run.preparation
        ));
        self.run_ids.push(run.run_id.clone());
        let is_refused = self
            .runs
            .iter()
            .any(|known| known.run.identity == run.identity && known.finished.is_none());
        let expected = match is_refused {
            true => Err(ErrorKind::Fenced),
            false => Ok(RunHandle {
                run_id: run.run_id.clone(),
                epoch: 1,
            }),
        };
        let started = self.subject.target.ledger().start(&run).await;
        self.assert_eq(&started.map_err(|error| error.kind()), &expected, "start");
        let Ok(handle) = expected else { return };
        if run.preparation.truncates() {
            self.rows = 0;
        }
        let slot = |slot| SlotState {
            slot,
            ..SlotState::default()
        };
        self.runs.push(ModelRun {
            run,
            epoch: 1,
            finished: None,
            slots: (0..SLOTS).map(slot).collect(),
        });
        self.add_owner(handle);
    }

    /// Steps of one to three slots, of which now and then one does not stand where it should.
    fn advances(&mut self, run_id: &str) -> Vec<Advance> {
        let mut slots = BTreeSet::new();
        for _ in 0..=self.dice.below(3) {
            slots.insert(self.dice.below(u64::from(SLOTS)) as u16);
        }
        let mut advances = Vec::new();
        for slot in slots {
            let stands = self.run(run_id).and_then(|run| run.slots.get(usize::from(slot)));
            advances.push(Advance {
                slot,
                from: stands.map_or_else(Position::default, |state| state.position),
                to: self.dice.position(),
                mark: self.dice.mark(),
                counts: self.dice.counts(),
            });
        }
        let at = self.dice.below(advances.len() as u64) as usize;
        match self.dice.below(12) {
            0 => advances[at].from.block += 1,
            1 => advances[at].from.rows += 1,
            // No slot of the run.
            2 => advances[at].slot = SLOTS,
            _ => {}
        }
        advances
    }

    async fn begin(&mut self) {
        let Some(owner) = self.any_owner() else { return };
        let handle = self.owners[owner].handle.clone();
        let advances = self.advances(&handle.run_id);
        self.history.push(format!("begin by {handle:?}: {advances:?}"));
        let stands = |run: &ModelRun, advance: &Advance| {
            let state = run.slots.get(usize::from(advance.slot));
            state.is_some_and(|state| state.position == advance.from)
        };
        let is_held = self.run(&handle.run_id).is_some_and(|run| {
            run.epoch == handle.epoch && advances.iter().all(|advance| stands(run, advance))
        });
        let expected = if is_held { Claim::Held } else { Claim::Moved };
        if self.owners[owner].writer.is_none() {
            let writer = self
                .subject
                .target
                .writer(&self.plan.write_request(), Some(&handle))
                .await
                .unwrap();
            self.owners[owner].writer = Some(writer);
        }
        let claim = self.writer(owner).begin(&advances).await.unwrap();
        self.assert_eq(&claim, &expected, "claim");
        self.open = is_held.then_some(Open {
            owner,
            advances,
            rows: 0,
        });
    }

    fn writer(&mut self, owner: usize) -> &mut Box<dyn Writer> {
        self.owners[owner].writer.as_mut().expect("a writer has begun")
    }

    async fn write(&mut self) {
        let rows = 1 + self.dice.below(20) as i64;
        self.history.push(format!("write {rows} rows"));
        let schema = Schema::new(vec![Field::new("id", ColumnType::Int64.arrow(), true)]);
        let ids = Int64Array::from_iter_values(0..rows);
        let batch = RecordBatch::try_new(Arc::new(schema), vec![Arc::new(ids)]).unwrap();
        let open = self.open.as_mut().expect("a transaction is open");
        open.rows += rows;
        let owner = open.owner;
        let outcome = self.writer(owner).write(&batch, Guard::None).await.unwrap();
        assert!(outcome.failure.is_none());
    }

    async fn commit(&mut self) {
        let open = self.open.take().expect("a transaction is open");
        let mut corrected = Vec::new();
        if self.dice.one_in(2) {
            for advance in &open.advances {
                if self.dice.one_in(2) {
                    let counts = self.dice.counts();
                    corrected.push(Advance { counts, ..*advance });
                }
            }
        }
        self.history.push(format!("commit, corrected {corrected:?}"));
        self.writer(open.owner).commit(&corrected).await.unwrap();
        self.committed(&open, &corrected);
    }

    fn committed(&mut self, open: &Open, corrected: &[Advance]) {
        self.rows += open.rows;
        let run_id = self.owners[open.owner].handle.run_id.clone();
        let run = self.run_mut(&run_id).expect("its run is there");
        for advance in &open.advances {
            let corrected = corrected.iter().find(|fixed| fixed.slot == advance.slot);
            let state = &mut run.slots[usize::from(advance.slot)];
            state.position = advance.to;
            state.mark = advance.mark;
            state.counts.add(corrected.unwrap_or(advance).counts);
        }
    }

    async fn rollback(&mut self) {
        self.history.push("rollback".to_owned());
        let open = self.open.take().expect("a transaction is open");
        self.writer(open.owner).rollback().await.unwrap();
    }

    async fn rollback_of_nothing(&mut self) {
        self.history.push("rollback of nothing".to_owned());
        let idle = self.owners.iter_mut().find_map(|owner| owner.writer.as_mut());
        if let Some(writer) = idle {
            writer.rollback().await.unwrap();
        }
    }

    async fn drop_writer(&mut self) {
        self.history.push("drop the writer".to_owned());
        let open = self.open.take().expect("a transaction is open");
        self.owners[open.owner].writer = None;
    }

    /// What a take-over should answer, and what it does to the model.
    fn taken_over(&mut self, run_id: &str) -> Result<(RunHandle, Vec<SlotState>), ErrorKind> {
        match self.run_mut(run_id) {
            Some(run) if run.finished.is_none() => {
                run.epoch += 1;
                let handle = RunHandle {
                    run_id: run_id.to_owned(),
                    epoch: run.epoch,
                };
                Ok((handle, run.slots.clone()))
            }
            _ => Err(ErrorKind::Fenced),
        }
    }

    async fn take_over(&mut self) {
        let run_id = self.any_run_id();
        self.history.push(format!("take over {run_id}"));
        let taken = self.subject.target.ledger().take_over(&run_id).await;
        let expected = self.taken_over(&run_id);
        self.assert_eq(&taken.map_err(|error| error.kind()), &expected, "take-over");
        if let Ok((handle, _)) = expected {
            self.add_owner(handle);
        }
        let handles: Vec<_> = self.owners.iter().map(|owner| owner.handle.clone()).collect();
        for handle in handles {
            let owned = self.subject.target.ledger().is_owned(&handle).await;
            let run = self.run_mut(&handle.run_id);
            let expected = run.is_some_and(|run| run.epoch == handle.epoch);
            self.assert_eq(&owned.map_err(|error| error.kind()), &Ok(expected), "ownership");
        }
    }

    /// Takes the run of the open transaction over: that waits for the transaction and sees what it did.
    async fn take_over_meanwhile(&mut self) {
        let open = self.open.take().expect("a transaction is open");
        let run_id = self.owners[open.owner].handle.run_id.clone();
        let commits = self.dice.one_in(2);
        self.history.push(format!(
            "take over {run_id} while a transaction is open; it commits: {commits}"
        ));
        if !self.subject.carries_rows() {
            return self.take_over_at_once(&open, &run_id, commits).await;
        }
        let (target, waiting_for) = (self.subject.target.clone(), run_id.clone());
        let taken = tokio::spawn(async move { target.ledger().take_over(&waiting_for).await });
        tokio::time::sleep(Duration::from_millis(30)).await;
        assert!(!taken.is_finished(), "it waits\n{}", self.history.join("\n"));
        if commits {
            self.writer(open.owner).commit(&[]).await.unwrap();
            self.committed(&open, &[]);
        } else {
            self.writer(open.owner).rollback().await.unwrap();
        }
        let taken = taken.await.unwrap().map_err(|error| error.kind());
        let expected = self.taken_over(&run_id);
        self.assert_eq(&taken, &expected, "take-over");
        if let Ok((handle, _)) = expected {
            self.add_owner(handle);
        }
    }

    /// The same where there is nothing to wait for: what the other one has begun moves nothing any more.
    async fn take_over_at_once(&mut self, open: &Open, run_id: &str, commits: bool) {
        let taken = self.subject.target.ledger().take_over(run_id).await;
        let expected = self.taken_over(run_id);
        self.assert_eq(&taken.map_err(|error| error.kind()), &expected, "take-over");
        let ended = match commits {
            true => self.writer(open.owner).commit(&[]).await,
            false => self.writer(open.owner).rollback().await,
        };
        let wanted = if commits { Err(ErrorKind::Fenced) } else { Ok(()) };
        self.assert_eq(
            &ended.map_err(|error| error.kind()),
            &wanted,
            "the other one's end",
        );
        if let Ok((handle, _)) = expected {
            self.add_owner(handle);
        }
    }

    async fn finish(&mut self) {
        let Some(owner) = self.any_owner() else { return };
        let handle = self.owners[owner].handle.clone();
        let counts = self.dice.counts();
        self.history.push(format!("finish {handle:?} with {counts:?}"));
        let finished = self.subject.target.ledger().finish(&handle, counts).await;
        // Finishing once more is allowed: the answer to the first time may have been lost.
        let expected = match self.run_mut(&handle.run_id) {
            Some(run) if run.epoch == handle.epoch => {
                run.finished = Some(counts);
                run.slots.clear();
                Ok(())
            }
            _ => Err(ErrorKind::Fenced),
        };
        self.assert_eq(&finished.map_err(|error| error.kind()), &expected, "finish");
    }

    async fn forget(&mut self) {
        if self.dice.one_in(2) {
            return self.forget_unbegun().await;
        }
        let run_id = self.any_run_id();
        self.history.push(format!("forget {run_id}"));
        let forgotten = self.subject.target.ledger().forget(&run_id).await.unwrap();
        let before = self.runs.len();
        self.runs.retain(|run| run.run.run_id != run_id);
        self.assert_eq(&forgotten, &(self.runs.len() < before), "forgotten");
    }

    async fn forget_unbegun(&mut self) {
        let Some(owner) = self.any_owner() else { return };
        let handle = self.owners[owner].handle.clone();
        self.history.push(format!("forget {handle:?} if unbegun"));
        let forgotten = self.subject.target.ledger().forget_unbegun(&handle).await;
        let is_unbegun = self.run(&handle.run_id).is_some_and(|run| {
            let moved = run.slots.iter().any(|slot| slot.counts.total() > 0);
            run.epoch == handle.epoch && run.finished.is_none() && !moved
        });
        if is_unbegun {
            self.runs.retain(|run| run.run.run_id != handle.run_id);
        }
        self.assert_eq(&forgotten.unwrap(), &is_unbegun, "forgotten as unbegun");
    }

    /// All answers of the ledger are the model's.
    pub async fn compare(&mut self) {
        self.compare_runs().await;
        for run_id in &self.run_ids {
            let slots = self.subject.target.ledger().slots(run_id).await.unwrap();
            let expected = self.run(run_id).map_or_else(Vec::new, |run| run.slots.clone());
            self.assert_eq(&slots, &expected, run_id);
        }
        if let Count::Rows(count) = &self.subject.count {
            self.assert_eq(&count().await, &self.rows, "rows of the table");
        }
    }

    async fn compare_runs(&self) {
        let found = self
            .subject
            .target
            .ledger()
            .runs(&RunQuery::Newest(1_000))
            .await
            .unwrap();
        let found: Vec<_> = found
            .into_iter()
            .map(|run| {
                (
                    run.run_id,
                    run.identity,
                    run.epoch,
                    run.finished.is_some(),
                    run.counts,
                    run.detail,
                )
            })
            .collect();
        let expected: Vec<_> = self
            .runs
            .iter()
            .rev()
            .map(|known| {
                let mut counts = known.finished.unwrap_or_default();
                known.slots.iter().for_each(|slot| counts.add(slot.counts));
                let NewRun {
                    run_id,
                    identity,
                    detail,
                    ..
                } = known.run.clone();
                (
                    run_id,
                    identity,
                    known.epoch,
                    known.finished.is_some(),
                    counts,
                    detail,
                )
            })
            .collect();
        self.assert_eq(&found, &expected, "runs, newest first");
    }
}
