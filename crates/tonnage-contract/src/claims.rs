//! Claims of several at once, and what becomes of their counts.
//!
//! A database with transactions holds up who asks for what an open one has moved. A ledger in a file of its own waits for
//! nobody; there the first who commits is the one, and the others are refused.

use std::time::Duration;

use tonnage_core::{
    ErrorKind,
    ledger::{Ledger, NewRun, RunQuery},
    preparation::Preparation,
    slot::{Advance, Counts, Position, SlotState},
    target::{Claim, Guard},
};
use uuid::Uuid;

use crate::{
    Files, Fixture, assert_refused, connected, described,
    ledger::{Begun, batch, first_step, new_run, step},
    load, make, rows,
};

/// Long enough for a call that does not wait to come back. Nothing rests on a call that is still on its way then.
async fn for_a_while() {
    tokio::time::sleep(Duration::from_millis(100)).await;
}

/// Whoever claims a step that is being taken learns what becomes of it, and no two take it.
pub async fn a_retry_learns_what_became_of_its_predecessor(fixture: &dyn Fixture) {
    let begun = Begun::new(fixture).await;
    let again = fixture.again().await;
    let mut first = begun.writer(&begun.handle).await;
    let step = first_step(1, 5);
    for commits in [false, true] {
        let retry = again.writer(&begun.request, Some(&begun.handle)).await;
        let mut retry = retry.expect("a writer");
        assert_eq!(first.begin(&[step]).await.expect("a claim"), Claim::Held);
        let waiting = tokio::spawn(async move {
            let claim = retry.begin(&[step]).await.expect("an answer");
            (retry, claim)
        });
        for_a_while().await;
        assert!(
            !(begun.table.transactional && waiting.is_finished()),
            "it did not wait"
        );
        if commits {
            let outcome = first.write(&batch(&begun.request, 0..5), Guard::None).await;
            assert!(outcome.expect("rows go").failure.is_none());
            first.commit(&[]).await.expect("a commit");
        } else {
            first.rollback().await.expect("a rollback");
        }
        let (mut retry, claim) = waiting.await.expect("no panic");
        match (claim, commits) {
            (Claim::Moved, true) => {}
            (Claim::Held, false) => retry.rollback().await.expect("a rollback"),
            (Claim::Held, true) if !begun.table.transactional => {
                let outcome = retry.write(&batch(&begun.request, 0..5), Guard::None).await;
                assert!(outcome.expect("rows go").failure.is_none());
                let late = retry.commit(&[]).await.expect_err("the step was taken");
                assert_eq!(late.kind(), ErrorKind::Fenced, "{late}");
            }
            (claim, commits) => panic!("{claim:?}, and the first one commits: {commits}"),
        }
    }
    assert_eq!(begun.slots().await[1].position, step.to);
    assert_eq!(rows(fixture).await.len(), 5);
}

/// A take-over answers what no earlier owner moves any more: it waits for what is open, or keeps it from its commit.
pub async fn a_take_over_is_the_end_of_what_it_finds_open(fixture: &dyn Fixture) {
    let begun = Begun::new(fixture).await;
    let mut open = begun.writer(&begun.handle).await;
    let mut late = begun.writer(&begun.handle).await;
    let first = first_step(3, 4);
    assert_eq!(open.begin(&[first]).await.expect("a claim"), Claim::Held);
    let outcome = open.write(&batch(&begun.request, 0..4), Guard::None).await;
    assert!(outcome.expect("rows go").failure.is_none());
    let (other, run_id) = (fixture.again().await, begun.run.run_id.clone());
    let taking = tokio::spawn(async move { other.ledger().take_over(&run_id).await });
    for_a_while().await;
    assert!(
        !(begun.table.transactional && taking.is_finished()),
        "it did not wait"
    );
    let committed = open.commit(&[]).await;
    let (later, slots) = taking.await.expect("no panic").expect("a take-over");
    assert_eq!(later.epoch, 2);
    assert_eq!(slots, begun.slots().await);
    let from = match committed {
        Ok(()) => first.to,
        Err(error) if !begun.table.transactional => {
            assert_eq!(error.kind(), ErrorKind::Fenced, "{error}");
            Position::default()
        }
        Err(error) => panic!("nobody was in its way: {error}"),
    };
    assert_eq!((slots[3].slot, slots[3].position), (3, from));
    let next = Advance {
        from,
        ..step(3, 4, 6)
    };
    for writer in [&mut open, &mut late] {
        assert_eq!(writer.begin(&[next]).await.expect("an answer"), Claim::Moved);
    }
    let ledger = begun.target.ledger();
    let refused = ledger.finish(&begun.handle, Counts::default()).await;
    assert_eq!(refused.expect_err("not the owner").kind(), ErrorKind::Fenced);
    let mut writer = begun.writer(&later).await;
    let left = if from == Position::default() { 0..6 } else { 4..6 };
    begun.write(&mut *writer, next, left).await;
    ledger.finish(&later, Counts::default()).await.expect("the owner");
    assert_eq!(rows(fixture).await.len(), 6);
}

/// Of a run of which a commit comes about nothing is forgotten, and of one that was forgotten no commit comes about.
pub async fn a_commit_comes_about_or_its_run_is_forgotten(fixture: &dyn Fixture) {
    let begun = Begun::new(fixture).await;
    let mut writer = begun.writer(&begun.handle).await;
    let step = first_step(3, 7);
    assert_eq!(writer.begin(&[step]).await.expect("a claim"), Claim::Held);
    let outcome = writer.write(&batch(&begun.request, 0..7), Guard::None).await;
    assert!(outcome.expect("rows go").failure.is_none());
    let (other, handle) = (fixture.again().await, begun.handle.clone());
    let forgetting = tokio::spawn(async move { other.ledger().forget_unbegun(&handle).await });
    for_a_while().await;
    assert!(
        !(begun.table.transactional && forgetting.is_finished()),
        "it did not wait"
    );
    let committed = writer.commit(&[]).await.is_ok();
    let forgotten = forgetting.await.expect("no panic").expect("an answer");
    assert_ne!(committed, forgotten);
    assert!(committed || !begun.table.transactional);
    let moved = begun.slots().await;
    let written = moved.get(3).map_or(0, |slot| slot.counts.written);
    assert_eq!(written, if committed { 7 } else { 0 });

    let ledger = begun.target.ledger();
    let run = new_run(&begun.table, "another", "/other");
    let old = ledger.start(&run).await.expect("a run starts");
    let (new, _) = ledger.take_over(&run.run_id).await.expect("a take-over");
    assert!(
        !ledger.forget_unbegun(&old).await.expect("an answer"),
        "it is another's"
    );
    assert!(ledger.forget_unbegun(&new).await.expect("an answer"));
}

/// Processes whose runs are the first ones agree on one ledger, and of each identity one of them starts.
pub async fn first_runs_at_once_make_one_ledger(fixture: &dyn Fixture) {
    let (table, _) = make(&fixture.target()).await;
    let mut starts = Vec::new();
    for number in 0..8 {
        let target = fixture.again().await;
        // Two of each identity.
        let run = new_run(&table, &format!("i{}", number / 2), &format!("/input{number}"));
        starts.push(tokio::spawn(async move { target.ledger().start(&run).await }));
    }
    let mut refused = 0;
    for start in starts {
        if let Err(error) = start.await.expect("no panic") {
            assert_eq!(error.kind(), ErrorKind::Fenced, "{error}");
            refused += 1;
        }
    }
    assert_eq!(refused, 4);
    let runs = fixture.target().ledger().runs(&RunQuery::Newest(1_000)).await;
    assert_eq!(runs.expect("runs").len(), 4);
}

/// Steps begin where their slots are, all of them, and slots are those that the run has.
pub async fn a_slot_that_is_elsewhere_is_not_moved(fixture: &dyn Fixture) {
    let begun = Begun::new(fixture).await;
    let mut writer = begun.writer(&begun.handle).await;
    let from = |slot, block, rows| Advance {
        from: Position { block, rows },
        ..step(slot, 0, 100)
    };
    let wrong = [
        vec![from(0, 0, 1)],
        vec![from(0, 4, 0)],
        vec![from(0, 0, 0), from(1, 1, 0)],
        vec![from(4, 0, 0)],
    ];
    for steps in wrong {
        assert_eq!(
            writer.begin(&steps).await.expect("an answer"),
            Claim::Moved,
            "{steps:?}"
        );
    }
    let fresh = (0..4).map(|slot| SlotState {
        slot,
        ..SlotState::default()
    });
    assert_eq!(begun.slots().await, fresh.collect::<Vec<_>>());
    // Nothing is open: the next one may begin.
    assert_eq!(
        writer.begin(&[from(0, 0, 0)]).await.expect("a claim"),
        Claim::Held
    );
    writer.rollback().await.expect("a rollback");
    assert_eq!(begun.slots().await[0], SlotState::default());
}

/// The counts of a slot are the sum of its steps', with those of the last write as its commit has them, in 64 bits.
pub async fn counts_are_what_the_commit_says(fixture: &dyn Fixture) {
    let begun = Begun::new(fixture).await;
    let ledger = begun.target.ledger();
    let mut writer = begun.writer(&begun.handle).await;
    let counts = |written, skipped, rejected| Counts {
        written,
        skipped,
        rejected,
    };
    let with = |step: Advance, counts| Advance { counts, ..step };
    let steps = [
        with(first_step(1, 10), counts(4, 2, 1)),
        with(first_step(3, 5), counts(u64::MAX, 0, 0)),
    ];
    let corrected = with(steps[1], counts(1, u64::MAX - 30, 6));
    assert_eq!(writer.begin(&steps).await.expect("a claim"), Claim::Held);
    assert!(
        begun
            .slots()
            .await
            .iter()
            .all(|slot| slot.position == Position::default()),
        "not before the commit"
    );
    writer.commit(&[corrected]).await.expect("a commit");
    let second = with(step(1, 10, 12), counts(3, 2, 1));
    assert_eq!(writer.begin(&[second]).await.expect("a claim"), Claim::Held);
    writer.commit(&[]).await.expect("a commit");
    let slots = begun.slots().await;
    assert_eq!((slots[1].position, slots[1].counts), (second.to, counts(7, 4, 2)));
    assert_eq!(
        (slots[3].position, slots[3].counts),
        (steps[1].to, corrected.counts)
    );
    assert_eq!(slots[3].mark, steps[1].mark);
    let found = ledger.runs(&RunQuery::Unfinished).await.expect("runs");
    assert_eq!(found.len(), 1);
    assert_eq!((found[0].epoch, found[0].finished), (1, None));
    assert_eq!(found[0].counts, counts(8, u64::MAX - 26, 8));
}

/// What a run is comes back as it was given; its start may be asked for again, and the start of another one says what to do.
pub async fn a_start_is_on_record(fixture: &dyn Fixture) {
    let target = fixture.target();
    let (table, _) = make(&target).await;
    let mut run = new_run(&table, "one", "/a \"b\".csv");
    run.detail.inputs[0].modified_nanos = i128::MAX;
    run.detail.options.push("null=NA".to_owned());
    let ledger = target.ledger();
    let handle = ledger.start(&run).await.expect("a run starts");
    // Its answer may have been lost, where answers can be.
    match ledger.start(&run).await {
        Ok(again) => assert_eq!(again, handle),
        Err(error) => assert_eq!(error.kind(), ErrorKind::Fenced, "{error}"),
    }
    let found = ledger.runs(&RunQuery::Newest(10)).await.expect("runs");
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].detail, run.detail);
    assert_eq!(
        described(&fixture.again().await).await.identity,
        table.identity,
        "a ledger alters no table"
    );
    let refused = ledger.start(&new_run(&table, "one", "/input")).await;
    let refused = refused.expect_err("there is one already");
    let message = format!(
        "an unfinished run of this input into {} is in the ledger",
        table.name
    );
    assert_eq!(refused.to_string(), message);
    let hint = "go on with --resume, or begin again with --restart";
    assert_eq!(refused.hint_text(), Some(hint));
    ledger.finish(&handle, Counts::default()).await.expect("it ends");
    let found = ledger.runs(&RunQuery::Newest(10)).await.expect("runs");
    assert!(
        found[0]
            .finished
            .is_some_and(|finished| finished >= found[0].started)
    );
}

/// A table is emptied with the start of its run, where that can be; a start that is refused empties nothing where the ledger
/// is with the table.
pub async fn a_table_is_emptied_with_the_start_or_not_at_all(fixture: &dyn Fixture) {
    let target = fixture.target();
    let (table, _) = make(&target).await;
    let files = Files::new();
    let fill = async |name: &str, id: i64| {
        let path = files.csv(name, [(id, "v".to_owned())]);
        load(&target, &path, &files.rejects()).run().await.expect("a row");
    };
    fill("first.csv", 1).await;
    let can = match target.parts().prepare {
        Some(part) => part
            .check_preparation(&table, Preparation::Truncate)
            .await
            .is_ok(),
        None => false,
    };
    if !can {
        let path = files.csv("other.csv", [(2, "v".to_owned())]);
        let refused = connected(&target).load(path).table("t").truncate().run().await;
        assert_refused(&refused.expect_err("it cannot be emptied"));
        assert_eq!(fixture.count("t").await, 1);
        return;
    }
    let emptying = || NewRun {
        run_id: Uuid::now_v7().simple().to_string(),
        preparation: Preparation::Truncate,
        ..new_run(&table, "one", "/input")
    };
    let ledger: &dyn Ledger = target.ledger();
    ledger.start(&emptying()).await.expect("a run starts");
    assert_eq!(fixture.count("t").await, 0);
    fill("second.csv", 2).await;
    let refused = ledger.start(&emptying()).await.expect_err("there is one already");
    assert_eq!(refused.kind(), ErrorKind::Fenced);
    if target.parts().local_ledger.is_none() {
        assert_eq!(fixture.count("t").await, 1);
    }
}
