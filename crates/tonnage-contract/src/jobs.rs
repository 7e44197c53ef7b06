//! Jobs: who gets which part, and when.

use std::{sync::Arc, time::Duration};

use tonnage_core::{
    ErrorKind,
    ledger::{
        Ledger, NewRun, RunHandle, RunQuery,
        jobs::{
            ClaimRequest, HeldPart, JobDetail, Jobs, NewPart, PartAttempt, PartClaim, PartId, PartRecord,
            PartState, RunRole, WHOLE, WhichPart,
        },
    },
    slot::Counts,
    table::Table,
    target::Target,
};
use uuid::Uuid;

use crate::{Fixture, ledger::new_run, make};

const PARTS: u64 = 3;
/// Longer than a test.
const LONG: u64 = 600;

/// A job of three parts on record.
struct Planned {
    target: Arc<dyn Target>,
    table: Table,
    job_id: String,
}

impl Planned {
    async fn new(fixture: &dyn Fixture, connections_max: Option<u64>) -> Self {
        let target = fixture.target();
        let (table, _) = make(&target).await;
        let job_id = Uuid::now_v7().simple().to_string();
        let detail = JobDetail {
            arguments: vec!["--mode=insert".to_owned()],
            parts: PARTS,
            files: PARTS,
            bytes: 21,
            rejects: None,
            connections_max,
        };
        let mut parts = vec![NewPart {
            part: WHOLE,
            detail: serde_json::to_string(&detail).expect("JSON"),
            connections_max,
        }];
        parts.extend((0..PARTS as i64).map(|part| NewPart {
            part,
            detail: "{\"inputs\":[]}".to_owned(),
            connections_max: None,
        }));
        let mut run = NewRun {
            run_id: job_id.clone(),
            role: RunRole::Job(parts),
            ..new_run(&table, "the job", "/input")
        };
        run.detail.slots = 0;
        run.detail.part = Some(PartId {
            job_id: job_id.clone(),
            part: WHOLE,
        });
        target.ledger().start(&run).await.expect("a job is planned");
        Self {
            target,
            table,
            job_id,
        }
    }

    fn ledger(&self) -> &dyn Ledger {
        self.target.ledger()
    }

    fn jobs(&self) -> &dyn Jobs {
        self.ledger().jobs().expect("a ledger with jobs")
    }

    async fn claim(&self, which: WhichPart, attempt: Option<i64>, lease_seconds: u64) -> PartClaim {
        let request = self.request(which, attempt, lease_seconds);
        self.jobs().claim(&request).await.expect("an answer")
    }

    fn request(&self, which: WhichPart, attempt: Option<i64>, lease_seconds: u64) -> ClaimRequest {
        ClaimRequest {
            job_id: self.job_id.clone(),
            which,
            attempt,
            owner: "a test".to_owned(),
            lease_seconds,
            connections: 4,
        }
    }

    async fn held(&self, which: WhichPart, attempt: Option<i64>, lease_seconds: u64) -> HeldPart {
        match self.claim(which, attempt, lease_seconds).await {
            PartClaim::Held(held) => held,
            other => panic!("{which:?} {attempt:?}: {other:?}"),
        }
    }

    fn run(&self, attempt: &PartAttempt) -> NewRun {
        let mut run = NewRun {
            role: RunRole::Part(attempt.clone()),
            ..new_run(&self.table, &attempt.of.identity(), "/input")
        };
        run.detail.part = Some(attempt.of.clone());
        run
    }

    /// Carries a part out that has so many rows.
    async fn do_part(&self, held: &HeldPart, written: u64) -> RunHandle {
        let run = self.run(&held.attempt);
        let handle = self.ledger().start(&run).await.expect("a run starts");
        let counts = Counts {
            written,
            ..Counts::default()
        };
        self.ledger().finish(&handle, counts).await.expect("it ends");
        handle
    }

    async fn part(&self, number: i64) -> PartRecord {
        let parts = self.jobs().parts(&self.job_id).await.expect("parts");
        let found = parts.into_iter().find(|record| record.part == number);
        found.expect("a part of the job")
    }
}

/// Of all who ask, each gets another part, and none gets one that is held, unless it names a higher attempt.
pub async fn a_part_has_one_attempt_at_a_time(fixture: &dyn Fixture) {
    let planned = Planned::new(fixture, None).await;
    let again = fixture.again().await;
    let jobs = again.ledger().jobs().expect("a ledger with jobs");
    let request = planned.request(WhichPart::Next, None, LONG);
    let mut given = Vec::new();
    for claims in [
        planned.jobs().claim(&request),
        jobs.claim(&request),
        planned.jobs().claim(&request),
    ] {
        match claims.await.expect("an answer") {
            PartClaim::Held(held) => given.push((held.attempt.of.part, held.attempt.attempt)),
            other => panic!("{other:?}"),
        }
    }
    given.sort_unstable();
    assert_eq!(given, [(0, 1), (1, 1), (2, 1)]);
    assert!(matches!(
        planned.claim(WhichPart::Next, None, LONG).await,
        PartClaim::Busy(_)
    ));
    for attempt in [None, Some(1)] {
        let claim = planned.claim(WhichPart::Numbered(1), attempt, LONG).await;
        let PartClaim::Busy(busy) = claim else {
            panic!("{attempt:?}: {claim:?}");
        };
        assert!(busy.why.contains("a test"), "{}", busy.why);
        assert!(busy.seconds > 0 && busy.seconds <= LONG);
    }
    let later = planned.held(WhichPart::Numbered(1), Some(7), LONG).await;
    assert_eq!(later.attempt.attempt, 7);
    let unknown = planned.request(WhichPart::Numbered(3), None, LONG);
    let refused = planned.jobs().claim(&unknown).await.expect_err("there is none");
    assert_eq!(refused.kind(), ErrorKind::Config);
    let other_job = ClaimRequest {
        job_id: "none".to_owned(),
        ..unknown
    };
    let refused = planned.jobs().claim(&other_job).await.expect_err("there is none");
    assert_eq!(refused.kind(), ErrorKind::Config);
}

/// An attempt after which there was another begins nothing, takes nothing over, and ends nobody's lease.
pub async fn an_attempt_that_lost_its_part_does_nothing(fixture: &dyn Fixture) {
    let planned = Planned::new(fixture, None).await;
    let early = planned.held(WhichPart::Numbered(0), None, LONG).await.attempt;
    let late = planned.held(WhichPart::Numbered(0), Some(2), LONG).await;
    let jobs = planned.jobs();
    let fenced = planned.ledger().start(&planned.run(&early)).await;
    assert_eq!(fenced.expect_err("it lost its part").kind(), ErrorKind::Fenced);
    let run = planned.run(&late.attempt);
    planned.ledger().start(&run).await.expect("a run starts");
    assert_eq!(planned.part(0).await.run_id, Some(run.run_id.clone()));
    let fenced = jobs.take_over_part(&early, &run.run_id).await;
    assert_eq!(fenced.expect_err("it lost its part").kind(), ErrorKind::Fenced);
    assert!(!jobs.renew(&early, LONG).await.expect("an answer"));
    jobs.release(&early, Some("too late"))
        .await
        .expect("nothing to do");
    let record = planned.part(0).await;
    assert!(record.is_held() && record.error.is_none(), "{record:?}");
    // Nobody has raised the epoch.
    let (handle, _) = jobs
        .take_over_part(&late.attempt, &run.run_id)
        .await
        .expect("its own");
    assert_eq!(handle.epoch, 2);
    assert!(jobs.renew(&late.attempt, LONG).await.expect("an answer"));
}

/// A lease that has ended, by itself or by its attempt, lets another in, who goes on with the run.
pub async fn a_lease_ends(fixture: &dyn Fixture) {
    let planned = Planned::new(fixture, None).await;
    let early = planned.held(WhichPart::Numbered(0), None, 1).await;
    let run = planned.run(&early.attempt);
    planned.ledger().start(&run).await.expect("a run starts");
    let late = loop {
        match planned.claim(WhichPart::Numbered(0), None, LONG).await {
            PartClaim::Held(held) => break held,
            PartClaim::Busy(_) => tokio::time::sleep(Duration::from_millis(100)).await,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(late.attempt.attempt, 2);
    let jobs = planned.jobs();
    let (handle, slots) = jobs
        .take_over_part(&late.attempt, &run.run_id)
        .await
        .expect("it goes on");
    assert_eq!((handle.epoch, slots.len()), (2, usize::from(run.detail.slots)));
    jobs.release(&late.attempt, Some("the disk is full"))
        .await
        .expect("a release");
    let record = planned.part(0).await;
    assert_eq!(record.state, PartState::Failed);
    assert_eq!(record.error.as_deref(), Some("the disk is full"));
    // Those that nobody has tried come first.
    for part in [1, 2, 0] {
        let held = planned.held(WhichPart::Next, None, LONG).await;
        assert_eq!(held.attempt.of.part, part);
    }
    assert_eq!(planned.part(0).await.attempt, 3);
}

/// A part is done with the end of its run, with the account of that, and stays so.
pub async fn a_part_is_done_with_its_run(fixture: &dyn Fixture) {
    let planned = Planned::new(fixture, None).await;
    let held = planned.held(WhichPart::Numbered(2), None, LONG).await;
    let handle = planned.do_part(&held, 5).await;
    let record = planned.part(2).await;
    assert_eq!((record.state, record.counts.written), (PartState::Done, 5));
    assert_eq!(record.run_id.as_ref(), Some(&handle.run_id));
    let jobs = planned.jobs();
    assert!(!jobs.renew(&held.attempt, LONG).await.expect("an answer"));
    jobs.release(&held.attempt, Some("late"))
        .await
        .expect("nothing to do");
    for attempt in [None, Some(9)] {
        match planned.claim(WhichPart::Numbered(2), attempt, LONG).await {
            PartClaim::Done(record) => assert_eq!(record.counts.written, 5),
            other => panic!("{other:?}"),
        }
    }
    assert!(
        jobs.disagreeing(&planned.job_id)
            .await
            .expect("an answer")
            .is_empty()
    );
}

/// The job as a whole comes last, to one, and is done with its run.
pub async fn a_job_is_finished_once_all_parts_are(fixture: &dyn Fixture) {
    let planned = Planned::new(fixture, None).await;
    let first = planned.held(WhichPart::Next, None, LONG).await;
    planned.do_part(&first, 1).await;
    let whole = planned.request(WhichPart::Numbered(WHOLE), None, LONG);
    let refused = planned.jobs().claim(&whole).await.expect_err("two are missing");
    assert_eq!(refused.kind(), ErrorKind::Config);
    assert!(
        refused.to_string().ends_with("2 parts of 3 not done: 1, 2"),
        "{refused}"
    );
    for written in [2, 3] {
        let held = planned.held(WhichPart::Next, None, LONG).await;
        planned.do_part(&held, written).await;
    }
    assert_eq!(
        planned.claim(WhichPart::Next, None, LONG).await,
        PartClaim::NothingLeft
    );
    let held = planned.held(WhichPart::Numbered(WHOLE), None, LONG).await;
    assert!(matches!(
        planned.claim(WhichPart::Numbered(WHOLE), None, LONG).await,
        PartClaim::Busy(_)
    ));
    let taken = planned
        .jobs()
        .take_over_part(&held.attempt, &planned.job_id)
        .await;
    let (handle, slots) = taken.expect("the job's run");
    assert!(slots.is_empty());
    let counts = Counts {
        written: 6,
        ..Counts::default()
    };
    planned.ledger().finish(&handle, counts).await.expect("it ends");
    planned.ledger().finish(&handle, counts).await.expect("again");
    let claim = planned.claim(WhichPart::Numbered(WHOLE), None, LONG).await;
    assert!(matches!(claim, PartClaim::Done(record) if record.counts.written == 6));
}

/// All attempts together hold no more connections than the job may, each at least two.
pub async fn connections_have_a_bound(fixture: &dyn Fixture) {
    let planned = Planned::new(fixture, Some(7)).await;
    let first = planned.held(WhichPart::Next, None, LONG).await;
    let second = planned.held(WhichPart::Next, None, LONG).await;
    assert_eq!((first.connections, second.connections), (4, 3));
    let claim = planned.claim(WhichPart::Next, None, LONG).await;
    let PartClaim::Busy(busy) = claim else {
        panic!("{claim:?}");
    };
    assert!(busy.why.contains("7 of the job's 7 connections"), "{}", busy.why);
    planned
        .jobs()
        .release(&first.attempt, None)
        .await
        .expect("a release");
    let third = planned.held(WhichPart::Numbered(2), None, LONG).await;
    assert_eq!(third.connections, 4);
    planned.do_part(&second, 1).await;
    let again = planned.held(WhichPart::Numbered(0), None, LONG).await;
    assert_eq!(again.connections, 3);
}

/// A job is forgotten with the runs of its parts that are not done, and pruned with its own.
pub async fn a_job_is_forgotten_with_its_parts(fixture: &dyn Fixture) {
    let planned = Planned::new(fixture, None).await;
    let done = planned.held(WhichPart::Next, None, LONG).await;
    planned.do_part(&done, 1).await;
    let begun = planned.held(WhichPart::Next, None, LONG).await;
    let run = planned.run(&begun.attempt);
    planned.ledger().start(&run).await.expect("a run starts");
    assert!(planned.ledger().forget(&planned.job_id).await.expect("an answer"));
    let parts = planned.jobs().parts(&planned.job_id).await.expect("an answer");
    assert!(parts.is_empty(), "{parts:?}");
    let left = planned.ledger().runs(&RunQuery::Newest(10)).await.expect("runs");
    assert!(left.iter().all(|run| run.finished.is_some()), "{left:?}");
    let fenced = planned.jobs().take_over_part(&begun.attempt, &run.run_id).await;
    assert!(fenced.is_err());
}
