//! The ledger, and the claims of writers on it.

use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use tonnage_core::{
    ErrorKind,
    ledger::{InputIdentity, NewRun, Opening, RunDetail, RunHandle, RunQuery, jobs::RunRole},
    operation::{Durability, Method, Operation, OperationKind, Split, Support},
    preparation::Preparation,
    reader::{ReadColumn, schema},
    slot::{Advance, BlockMark, Counts, Position, SlotBy, SlotState, Sort},
    table::Table,
    target::{Claim, Guard, Target, WriteColumn, WriteRequest, Writer},
};
use uuid::Uuid;

use crate::{Fixture, make, rows};

const SLOTS: u16 = 4;

/// A run of inserts of `columns` into `table`, of these inputs.
pub fn run_detail(table: &Table, inputs: Vec<InputIdentity>, columns: &[&str], slots: u16) -> RunDetail {
    RunDetail {
        inputs,
        options: Vec::new(),
        table: table.name.to_string(),
        table_identity: table.identity.clone(),
        operation: OperationKind::Insert,
        key: Vec::new(),
        columns: columns.iter().map(|column| (*column).to_owned()).collect(),
        block_rows: 65_536,
        block_bytes: 8 << 20,
        slots,
        slot_by: SlotBy::Block.into(),
        sort: Sort::None,
        rejects: String::new(),
        single_transaction: false,
        prepared_by: None,
        pending: None,
        member: None,
        opening: None,
        emptied_by_crash: table.is_emptied_by_crash(),
        part: None,
    }
}

/// A run of inserts into `table`, which has loaded the file `input`.
pub(crate) fn new_run(table: &Table, identity: &str, input: &str) -> NewRun {
    let input = InputIdentity {
        path: input.to_owned(),
        bytes: 7,
        modified_nanos: 7,
        named: None,
        sample: None,
    };
    NewRun {
        run_id: Uuid::now_v7().simple().to_string(),
        identity: identity.to_owned(),
        detail: run_detail(table, vec![input], &["id", "v"], SLOTS),
        table: table.name.clone(),
        preparation: Preparation::Keep,
        role: RunRole::Alone,
    }
}

/// Inserts into all columns of `table`, by the first method that can.
pub(crate) fn request(target: &Arc<dyn Target>, table: &Table) -> WriteRequest {
    let columns = table.columns.iter().enumerate().map(|(at, column)| WriteColumn {
        source: at,
        source_name: column.name.clone(),
        target: at,
        name: column.name.clone(),
        ty: column.ty.expect("a type of its own"),
    });
    let methods: &[Method] = target.capabilities().methods;
    let can = |method: &&Method| target.support(table, &Operation::Insert, **method) == Support::Yes;
    let levels = target.capabilities().durability;
    WriteRequest {
        table: Arc::new(table.clone()),
        columns: columns.collect(),
        operation: Operation::Insert,
        method: *methods.iter().find(can).expect("a method that inserts"),
        split: Split::Auto,
        durability: *levels.last().unwrap_or(&Durability::Relaxed),
        routing: None,
        preparation: Preparation::Keep,
        single_transaction: false,
    }
}

/// Rows `ids` of the table.
pub(crate) fn batch(request: &WriteRequest, ids: std::ops::Range<i64>) -> RecordBatch {
    let columns = request.columns.iter().map(|column| ReadColumn {
        element: None,
        name: column.name.clone(),
        ty: column.ty,
        declared: String::new(),
        nullable: true,
    });
    let columns: Vec<_> = columns.collect();
    let texts: ArrayRef = Arc::new(StringArray::from_iter_values(
        ids.clone().map(|id| format!("v{id}")),
    ));
    let ids: ArrayRef = Arc::new(Int64Array::from_iter_values(ids));
    RecordBatch::try_new(schema(&columns), vec![ids, texts]).expect("a batch")
}

/// From the beginning of a slot to its row `rows`.
pub(crate) fn step(slot: u16, from: u64, rows: u64) -> Advance {
    Advance {
        slot,
        from: Position {
            block: u64::from(slot),
            rows: from,
        },
        to: Position {
            block: u64::from(slot),
            rows,
        },
        mark: BlockMark {
            offset: u64::MAX,
            hash: 1 << 63,
            ..BlockMark::default()
        },
        counts: Counts {
            written: rows - from,
            ..Counts::default()
        },
    }
}

/// The first step of a slot, which is at block 0 before.
pub(crate) fn first_step(slot: u16, rows: u64) -> Advance {
    Advance {
        from: Position::default(),
        ..step(slot, 0, rows)
    }
}

pub(crate) struct Begun {
    pub(crate) target: Arc<dyn Target>,
    pub(crate) table: Table,
    pub(crate) request: WriteRequest,
    pub(crate) run: NewRun,
    pub(crate) handle: RunHandle,
}

impl Begun {
    /// A table and a run into it.
    pub(crate) async fn new(fixture: &dyn Fixture) -> Self {
        let target = fixture.target();
        let (table, _) = make(&target).await;
        let run = new_run(&table, "one", "/input");
        let handle = target.ledger().start(&run).await.expect("a run starts");
        assert_eq!(
            handle,
            RunHandle {
                run_id: run.run_id.clone(),
                epoch: 1
            }
        );
        Self {
            request: request(&target, &table),
            target,
            table,
            run,
            handle,
        }
    }

    pub(crate) async fn writer(&self, handle: &RunHandle) -> Box<dyn Writer> {
        self.target
            .writer(&self.request, Some(handle))
            .await
            .expect("a writer")
    }

    pub(crate) async fn slots(&self) -> Vec<SlotState> {
        self.target.ledger().slots(&self.run.run_id).await.expect("slots")
    }

    /// Claims the step, and writes and commits rows `ids` with it.
    pub(crate) async fn write(&self, writer: &mut dyn Writer, step: Advance, ids: std::ops::Range<i64>) {
        assert_eq!(writer.begin(&[step]).await.expect("a claim"), Claim::Held);
        let places = ids.clone().map(|id| id as u64).collect();
        if let Some(known) = writer.places() {
            *known = places;
        }
        let outcome = writer
            .write(&batch(&self.request, ids), Guard::None)
            .await
            .expect("rows go");
        assert!(outcome.failure.is_none(), "{outcome:?}");
        writer.commit(&[]).await.expect("a commit");
    }
}

/// A step that was taken cannot be taken again; its rows are there once, and the slot has its mark and counts.
pub async fn a_claim_moves_a_slot_once(fixture: &dyn Fixture) {
    let begun = Begun::new(fixture).await;
    let mut writer = begun.writer(&begun.handle).await;
    let step = first_step(2, 10);
    begun.write(&mut *writer, step, 0..10).await;
    assert_eq!(writer.begin(&[step]).await.expect("an answer"), Claim::Moved);
    let slots = begun.slots().await;
    assert_eq!(slots.len(), usize::from(SLOTS));
    let moved = SlotState {
        slot: 2,
        position: step.to,
        mark: step.mark,
        counts: step.counts,
    };
    assert_eq!(slots[2], moved);
    assert_eq!(slots[0], SlotState::default());
    // Of several steps all are taken or none.
    let both = [first_step(1, 5), step];
    assert_eq!(writer.begin(&both).await.expect("an answer"), Claim::Moved);
    assert_eq!(begun.slots().await, slots);
    assert_eq!(rows(fixture).await.len(), 10);
}

/// A write that is not committed moves no slot, whether it is rolled back or its writer is dropped.
pub async fn a_rollback_moves_nothing(fixture: &dyn Fixture) {
    let begun = Begun::new(fixture).await;
    let mut writer = begun.writer(&begun.handle).await;
    let step = first_step(0, 3);
    assert_eq!(writer.begin(&[step]).await.expect("a claim"), Claim::Held);
    writer
        .write(&batch(&begun.request, 0..3), Guard::None)
        .await
        .expect("rows go");
    writer.rollback().await.expect("a rollback");
    writer.rollback().await.expect("a rollback of nothing");
    assert_eq!(writer.begin(&[step]).await.expect("a claim"), Claim::Held);
    drop(writer);
    assert!(begun.slots().await.iter().all(|slot| slot.counts.total() == 0));
    if begun.table.transactional {
        assert_eq!(fixture.count("t").await, 0);
    }
    let mut writer = begun.writer(&begun.handle).await;
    begun.write(&mut *writer, step, 0..3).await;
    assert_eq!(rows(fixture).await.len(), 3);
}

/// The epoch shuts an earlier owner out of everything.
pub async fn an_owner_that_was_taken_over_moves_nothing(fixture: &dyn Fixture) {
    let begun = Begun::new(fixture).await;
    let mut writer = begun.writer(&begun.handle).await;
    begun.write(&mut *writer, first_step(0, 4), 0..4).await;
    let other = fixture.again().await;
    let (later, slots) = other
        .ledger()
        .take_over(&begun.run.run_id)
        .await
        .expect("a take-over");
    assert_eq!(later.epoch, 2);
    assert_eq!(slots, begun.slots().await);
    assert_eq!(
        writer.begin(&[step(0, 4, 6)]).await.expect("an answer"),
        Claim::Moved
    );
    let ledger = begun.target.ledger();
    let refused = ledger
        .finish(&begun.handle, Counts::default())
        .await
        .expect_err("it is not the owner");
    assert_eq!(refused.kind(), ErrorKind::Fenced);
    assert!(!ledger.is_owned(&begun.handle).await.expect("an answer"));
    assert!(ledger.is_owned(&later).await.expect("an answer"));
    assert!(!ledger.forget_unbegun(&begun.handle).await.expect("an answer"));
    let mut writer = begun.writer(&later).await;
    begun.write(&mut *writer, step(0, 4, 6), 4..6).await;
    assert_eq!(rows(fixture).await.len(), 6);
}

/// Of an identity there is one unfinished run.
pub async fn an_identity_has_one_unfinished_run(fixture: &dyn Fixture) {
    let begun = Begun::new(fixture).await;
    let ledger = begun.target.ledger();
    let second = new_run(&begun.table, "one", "/input");
    let refused = ledger.start(&second).await.expect_err("there is one already");
    assert_eq!(refused.kind(), ErrorKind::Fenced);
    ledger
        .start(&new_run(&begun.table, "two", "/other"))
        .await
        .expect("another identity");
    ledger
        .finish(&begun.handle, Counts::default())
        .await
        .expect("the first one ends");
    ledger.start(&second).await.expect("the first one is finished");
    let found = ledger
        .runs(&RunQuery::Identity("one".to_owned()))
        .await
        .expect("runs");
    let found: Vec<_> = found
        .iter()
        .map(|run| (&*run.run_id, run.finished.is_some()))
        .collect();
    assert_eq!(
        found,
        [(&*second.run_id, false), (&*begun.run.run_id, true)],
        "the unfinished one first"
    );
    assert_eq!(ledger.runs(&RunQuery::Unfinished).await.expect("runs").len(), 2);
}

/// Finishing drops the slots, keeps the account, and may be asked for again.
pub async fn a_finished_run_stays_finished(fixture: &dyn Fixture) {
    let begun = Begun::new(fixture).await;
    let mut writer = begun.writer(&begun.handle).await;
    begun.write(&mut *writer, first_step(0, 2), 0..2).await;
    let ledger = begun.target.ledger();
    let counts = Counts {
        written: 2,
        skipped: 1,
        rejected: 3,
    };
    for _ in 0..2 {
        ledger
            .finish(&begun.handle, counts)
            .await
            .expect("it ends, and its answer may have been lost");
    }
    let found = ledger
        .runs(&RunQuery::Id(begun.run.run_id.clone()))
        .await
        .expect("runs");
    assert_eq!(found.len(), 1);
    assert!(found[0].finished.is_some());
    assert_eq!((found[0].counts, &found[0].detail), (counts, &begun.run.detail));
    assert_eq!(begun.slots().await, []);
    let refused = ledger
        .take_over(&begun.run.run_id)
        .await
        .expect_err("it is finished");
    assert_eq!(refused.kind(), ErrorKind::Fenced);
    assert_eq!(
        writer.begin(&[step(0, 2, 4)]).await.expect("an answer"),
        Claim::Moved
    );
}

/// Forgetting removes the run and leaves its rows; `forget_unbegun` leaves a run that has moved.
pub async fn a_run_is_forgotten_once(fixture: &dyn Fixture) {
    let begun = Begun::new(fixture).await;
    let ledger = begun.target.ledger();
    let unbegun = ledger
        .start(&new_run(&begun.table, "two", "/other"))
        .await
        .expect("a run starts");
    assert!(ledger.forget_unbegun(&unbegun).await.expect("an answer"));
    assert!(!ledger.forget_unbegun(&unbegun).await.expect("an answer"));
    let mut writer = begun.writer(&begun.handle).await;
    begun.write(&mut *writer, first_step(0, 2), 0..2).await;
    assert!(!ledger.forget_unbegun(&begun.handle).await.expect("an answer"));
    assert!(ledger.forget(&begun.run.run_id).await.expect("an answer"));
    assert!(!ledger.forget(&begun.run.run_id).await.expect("an answer"));
    assert_eq!(
        writer.begin(&[step(0, 2, 4)]).await.expect("an answer"),
        Claim::Moved
    );
    assert_eq!(rows(fixture).await.len(), 2);
}

/// Pruning takes the oldest finished runs and leaves their inputs on record.
pub async fn inputs_are_found_after_pruning(fixture: &dyn Fixture) {
    let begun = Begun::new(fixture).await;
    let ledger = begun.target.ledger();
    let mut finished = Vec::new();
    for number in 0..3 {
        let run = new_run(
            &begun.table,
            &format!("pruned {number}"),
            &format!("/input{number}"),
        );
        let handle = ledger.start(&run).await.expect("a run starts");
        ledger.finish(&handle, Counts::default()).await.expect("it ends");
        finished.push(run);
    }
    assert_eq!(
        ledger.prune(1, 1).await.expect("pruned"),
        1,
        "no more than the limit"
    );
    assert_eq!(ledger.prune(1, 10).await.expect("pruned"), 1);
    let left = ledger.runs(&RunQuery::Newest(10)).await.expect("runs");
    let left: Vec<_> = left.iter().map(|run| &run.run_id).collect();
    assert_eq!(
        left,
        [&finished[2].run_id, &begun.run.run_id],
        "an unfinished run is never pruned"
    );
    for run in &finished {
        let found = ledger.inputs(&run.detail.inputs[0].keys()).await.expect("inputs");
        let found: Vec<_> = found.iter().filter(|found| found.run_id == run.run_id).collect();
        assert!(
            !found.is_empty() && found.iter().all(|found| found.finished),
            "{found:?}"
        );
        assert_eq!(found[0].detail.input, run.detail.inputs[0]);
        assert_eq!(
            ledger.ids(&run.run_id).await.expect("ids"),
            std::slice::from_ref(&run.run_id)
        );
    }
    assert_eq!(ledger.inputs(&["nothing".to_owned()]).await.expect("inputs"), []);
}

/// Nothing is found of a run that was never there, whether the ledger has been made or not, and nothing goes on.
pub async fn an_unknown_run_is_no_run(fixture: &dyn Fixture) {
    let target = fixture.target();
    let ledger = target.ledger();
    let unknown = RunHandle {
        run_id: "none".to_owned(),
        epoch: 1,
    };
    let opening = Opening {
        before: None,
        now: "opening".to_owned(),
    };
    for made in [false, true] {
        if made {
            Begun::new(fixture).await;
        }
        let found = ledger.runs(&RunQuery::Id("none".to_owned())).await;
        assert!(found.expect("an answer").is_empty());
        assert_eq!(ledger.slots("none").await.expect("an answer"), []);
        assert!(!ledger.forget("none").await.expect("an answer"));
        assert!(!ledger.forget_unbegun(&unknown).await.expect("an answer"));
        assert!(!ledger.note_opening("none", &opening).await.expect("an answer"));
        let refused = ledger.take_over("none").await.expect_err("there is none");
        assert_eq!(refused.kind(), ErrorKind::Fenced, "{refused}");
        let refused = ledger.finish(&unknown, Counts::default()).await;
        let refused = refused.expect_err("there is none");
        assert_eq!(refused.kind(), ErrorKind::Fenced, "{refused}");
    }
}
