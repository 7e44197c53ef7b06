//! Many workers over the protocol of jobs, in virtual time: they are killed, sleep past their leases, renew too late by
//! clocks that go wrong, lose answers, and are started twice. Every row is there once, the account is exact, and nobody is
//! shut out but by a later attempt.
//!
//! One thread runs all tasks in the order in which they wake, and time goes on only when all of them sleep, so a seed is one
//! history. `TONNAGE_TEST_SEED` begins with another one; `TONNAGE_SIMULATIONS` says how many there are.

use std::{
    cell::{Cell, RefCell},
    collections::BTreeMap,
    panic::{AssertUnwindSafe, catch_unwind},
    rc::Rc,
    sync::Arc,
    time::Duration,
};

use arrow::array::{ArrayRef, Int64Array, RecordBatch};
use tokio::{task::LocalSet, time::Instant};
use tonnage_contract::ledger::run_detail;
use tonnage_core::{
    ColumnType, Error, ErrorKind,
    ledger::{
        Ledger, NewRun, RunHandle, RunQuery,
        jobs::{
            ClaimRequest, HeldPart, JobDetail, Jobs, NewPart, PartClaim, PartId, PartRecord, PartState,
            RunRole, WHOLE, WhichPart,
        },
    },
    operation::{Durability, Method, Operation, Split},
    preparation::Preparation,
    slot::{Advance, BlockMark, Counts, Position, SlotState},
    table::{ColumnSpec, Table, TableName, TableSpec},
    target::{Claim, Guard, Target, WriteColumn, WriteRequest},
};
use tonnage_testing::memory::{Fault, Memory, Rule};

const SIMULATIONS: u64 = 3_000;
/// Histories in which a rule that is left out has to be found.
const BROKEN_SIMULATIONS: u64 = 300;
const SLOTS: u16 = 2;
const LEASE: u64 = 30;
/// Virtual seconds after which nobody can still be at it.
const TIME_MAX: u64 = 1_000_000;

/// A generator of 64 bits (splitmix64).
struct Dice(Cell<u64>);

impl Dice {
    fn next(&self) -> u64 {
        let state = self.0.get().wrapping_add(0x9e37_79b9_7f4a_7c15);
        self.0.set(state);
        let mut bits = state;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^ (bits >> 31)
    }

    fn below(&self, bound: u64) -> u64 {
        self.next() % bound.max(1)
    }

    fn one_in(&self, count: u64) -> bool {
        self.below(count) == 0
    }
}

/// What all workers share.
struct World {
    memory: Memory,
    request: WriteRequest,
    table: Table,
    job_id: String,
    /// Rows of each part.
    rows: Vec<u64>,
    connections_max: Option<u64>,
    begun: Instant,
    dice: Dice,
    /// Attempts that were shut out: part and number.
    fenced: RefCell<Vec<(i64, i64)>>,
    /// Until when, by the ledger's clock, an attempt has been given each part, as far as it is known.
    leases: RefCell<BTreeMap<i64, u64>>,
    finishers: Cell<u64>,
    kills: Cell<u64>,
    most_connections: Cell<u64>,
}

impl World {
    async fn new(seed: u64) -> Rc<Self> {
        let dice = Dice(Cell::new(seed));
        let memory = Memory::new();
        let spec = TableSpec {
            name: TableName::bare("t"),
            columns: vec![ColumnSpec {
                name: "id".to_owned(),
                ty: ColumnType::Int64,
                nullable: false,
            }],
            key: Vec::new(),
        };
        memory.create(&spec).await.expect("a table");
        let table = memory
            .table(&spec.name)
            .await
            .expect("a catalogue")
            .expect("a table");
        let request = WriteRequest {
            table: Arc::new(table.clone()),
            columns: vec![WriteColumn {
                source: 0,
                source_name: "id".to_owned(),
                target: 0,
                name: "id".to_owned(),
                ty: ColumnType::Int64,
            }],
            operation: Operation::Insert,
            method: Method::Native,
            split: Split::Auto,
            durability: Durability::Durable,
            routing: None,
            preparation: Preparation::Keep,
            single_transaction: false,
        };
        let rows: Vec<u64> = (0..1 + dice.below(8)).map(|_| dice.below(14)).collect();
        let connections_max = dice.one_in(2).then(|| 2 + dice.below(9));
        let world = Self {
            memory,
            request,
            table,
            job_id: "job".to_owned(),
            rows,
            connections_max,
            begun: Instant::now(),
            dice,
            fenced: RefCell::default(),
            leases: RefCell::default(),
            finishers: Cell::new(0),
            kills: Cell::new(0),
            most_connections: Cell::new(0),
        };
        world.plan().await;
        Rc::new(world)
    }

    async fn plan(&self) {
        let detail = JobDetail {
            arguments: Vec::new(),
            parts: self.rows.len() as u64,
            files: self.rows.len() as u64,
            bytes: 0,
            rejects: None,
            connections_max: self.connections_max,
        };
        let mut parts = vec![NewPart {
            part: WHOLE,
            detail: serde_json::to_string(&detail).expect("JSON"),
            connections_max: self.connections_max,
        }];
        parts.extend((0..self.rows.len() as i64).map(|part| NewPart {
            part,
            detail: "{\"inputs\":[]}".to_owned(),
            connections_max: None,
        }));
        let of = PartId {
            job_id: self.job_id.clone(),
            part: WHOLE,
        };
        let mut run = self.run(&of, self.job_id.clone(), RunRole::Job(parts));
        run.detail.slots = 0;
        self.memory.start(&run).await.expect("a job");
    }

    fn run(&self, of: &PartId, run_id: String, role: RunRole) -> NewRun {
        let mut detail = run_detail(&self.table, Vec::new(), &["id"], SLOTS);
        detail.part = Some(of.clone());
        NewRun {
            run_id,
            identity: of.identity(),
            detail,
            table: self.table.name.clone(),
            preparation: Preparation::Keep,
            role,
        }
    }

    /// Whoever asks the ledger asks it by the time that it is.
    fn ledger(&self) -> &Memory {
        self.memory.set_clock(self.clock() as i64);
        &self.memory
    }

    /// Seconds.
    fn clock(&self) -> u64 {
        1_000 + self.begun.elapsed().as_secs()
    }

    /// Nobody is given a part that another attempt holds, but for who names a higher number.
    fn note_lease(&self, held: &HeldPart, asked: Option<i64>) {
        let part = held.attempt.of.part;
        let before = self.leases.borrow_mut().insert(part, self.clock() + LEASE);
        assert!(
            asked.is_some() || before.is_none_or(|until| until <= self.clock()),
            "part {part} was given while another attempt held it"
        );
    }

    /// Nobody can still be at it.
    fn assert_in_time(&self) {
        assert!(
            self.begun.elapsed() < Duration::from_secs(TIME_MAX),
            "no end of it"
        );
    }

    async fn pause(&self, seconds: u64) {
        tokio::time::sleep(Duration::from_millis(1 + self.dice.below(1 + seconds * 1_000))).await;
    }

    /// Ids of a slot of a part, in their order.
    fn ids(&self, part: i64, slot: u16) -> Vec<i64> {
        let rows = self.rows[part as usize];
        let own = (0..rows).filter(|row| row % u64::from(SLOTS) == u64::from(slot));
        own.map(|row| part * 1_000 + row as i64).collect()
    }

    /// The parts, asked for until they are told: a fault may meet whoever looks on.
    async fn parts(&self) -> Vec<PartRecord> {
        loop {
            if let Ok(parts) = Jobs::parts(self.ledger(), &self.job_id).await {
                return parts;
            }
        }
    }

    async fn note_connections(&self) {
        let parts = self.parts().await;
        let held = parts.iter().filter(|part| part.is_held() && part.part != WHOLE);
        let sum: u64 = held.map(|part| part.connections).sum();
        self.most_connections.set(self.most_connections.get().max(sum));
    }
}

/// How an attempt ended.
enum Ended {
    Done,
    /// Killed, without a word.
    Killed,
    Failed(Error),
}

/// One process: it takes parts until none is left, and then ends the job.
async fn worker(world: Rc<World>, name: u64) {
    loop {
        world.assert_in_time();
        world.pause(3).await;
        let dice = &world.dice;
        let which = match dice.one_in(3) {
            // Started for a part of its own, as a second copy of another may be.
            true => WhichPart::Numbered(dice.below(world.rows.len() as u64) as i64),
            false => WhichPart::Next,
        };
        let attempt = match (which, dice.one_in(8)) {
            (WhichPart::Numbered(_), true) => Some(1 + dice.below(6) as i64),
            _ => None,
        };
        let request = ClaimRequest {
            job_id: world.job_id.clone(),
            which,
            attempt,
            owner: format!("worker {name}"),
            lease_seconds: LEASE,
            connections: 1 + dice.below(5),
        };
        let held = match world.ledger().claim(&request).await {
            Ok(PartClaim::Held(held)) => held,
            Ok(PartClaim::Done(_)) | Err(_) => continue,
            Ok(PartClaim::Busy(busy)) => {
                world.pause(busy.seconds.min(5)).await;
                continue;
            }
            Ok(PartClaim::NothingLeft) => break,
        };
        world.note_lease(&held, attempt);
        world.note_connections().await;
        if dice.one_in(12) {
            // Its answer was lost: nobody knows of the claim.
            continue;
        }
        match carry_out(&world, &held).await {
            Ended::Done => {}
            Ended::Killed => world.kills.set(world.kills.get() + 1),
            Ended::Failed(error) => {
                assert_ne!(error.kind(), ErrorKind::Bug, "{error}");
                if error.kind() == ErrorKind::Fenced {
                    let of = &held.attempt;
                    world.fenced.borrow_mut().push((of.of.part, of.attempt));
                    assert_later(&world, &held).await;
                }
                world.leases.borrow_mut().remove(&held.attempt.of.part);
                // Where it does not arrive the lease ends by itself.
                let _ = world.ledger().release(&held.attempt, Some("failed")).await;
            }
        }
    }
    finish(&world, name).await;
}

/// Whoever was shut out was so by a later attempt, or the part is done.
async fn assert_later(world: &World, held: &HeldPart) {
    let parts = world.parts().await;
    let part = parts
        .iter()
        .find(|part| part.part == held.attempt.of.part)
        .expect("a part");
    assert!(
        part.attempt > held.attempt.attempt || part.state == PartState::Done,
        "attempt {} of {} was shut out by none that is later: {part:?}",
        held.attempt.attempt,
        held.attempt.of
    );
}

/// What happens to an attempt besides its work.
struct Fate<'w> {
    world: &'w World,
    held: &'w HeldPart,
    /// Steps until it is killed.
    killed_after: Option<u64>,
    /// Steps until it sleeps for longer than its lease.
    sleeps_after: Option<u64>,
    /// Of its own clock, in percent of the time that passes.
    clock: u64,
    renewed: Cell<Instant>,
    steps: Cell<u64>,
}

impl<'w> Fate<'w> {
    fn of(world: &'w World, held: &'w HeldPart) -> Self {
        let dice = &world.dice;
        Self {
            world,
            held,
            killed_after: dice.one_in(3).then(|| dice.below(14)),
            sleeps_after: dice.one_in(4).then(|| dice.below(14)),
            clock: 25 + dice.below(300),
            renewed: Cell::new(Instant::now()),
            steps: Cell::new(0),
        }
    }

    /// Between two calls: time passes, and the lease is renewed where its own clock says so. False where it is killed.
    async fn step(&self) -> Result<bool, Error> {
        let step = self.steps.get();
        self.steps.set(step + 1);
        if self.killed_after == Some(step) {
            return Ok(false);
        }
        match self.sleeps_after == Some(step) {
            true => self.world.pause(4 * LEASE).await,
            false => self.world.pause(2).await,
        }
        let by_its_clock = self.renewed.get().elapsed().as_secs() * self.clock / 100;
        if by_its_clock >= LEASE / 3 {
            self.renewed.set(Instant::now());
            if !self.world.ledger().renew(&self.held.attempt, LEASE).await? {
                return Err(Error::fenced());
            }
            let until = self.world.clock() + LEASE;
            self.world
                .leases
                .borrow_mut()
                .insert(self.held.attempt.of.part, until);
        }
        if self.world.dice.one_in(30) {
            let fault = match self.world.dice.one_in(2) {
                true => Fault::After,
                false => Fault::Before(ErrorKind::Unsent),
            };
            self.world.memory.fail_after(0, fault);
        }
        Ok(true)
    }
}

async fn carry_out(world: &World, held: &HeldPart) -> Ended {
    match attempted(world, held).await {
        Ok(true) => Ended::Done,
        Ok(false) => Ended::Killed,
        Err(error) => Ended::Failed(error),
    }
}

/// Begins the part's run, or takes it over.
async fn owned(world: &World, held: &HeldPart) -> Result<(RunHandle, Vec<SlotState>), Error> {
    let of = &held.attempt.of;
    let same = world.ledger().runs(&RunQuery::Identity(of.identity())).await?;
    if let Some(run) = same.first() {
        if run.finished.is_some() {
            return Err(Error::fenced());
        }
        return world.ledger().take_over_part(&held.attempt, &run.run_id).await;
    }
    let run_id = format!("run {} of part {}", held.attempt.attempt, of.part);
    let run = world.run(of, run_id, RunRole::Part(held.attempt.clone()));
    let handle = world.ledger().start(&run).await?;
    let slots = (0..SLOTS).map(|slot| SlotState {
        slot,
        ..SlotState::default()
    });
    Ok((handle, slots.collect()))
}

/// Carries a part out; false where it was killed on the way.
async fn attempted(world: &World, held: &HeldPart) -> Result<bool, Error> {
    let part = held.attempt.of.part;
    let fate = Fate::of(world, held);
    if !fate.step().await? {
        return Ok(false);
    }
    let (handle, slots) = owned(world, held).await?;
    if !fate.step().await? {
        return Ok(false);
    }
    let mut writer = world.memory.writer(&world.request, Some(&handle)).await?;
    for state in &slots {
        let ids = world.ids(part, state.slot);
        let mut from = state.position.rows;
        while from < ids.len() as u64 {
            let to = (from + 1 + world.dice.below(3)).min(ids.len() as u64);
            let advance = advance(state.slot, (from, to));
            if !fate.step().await? {
                return Ok(false);
            }
            if writer.begin(&[advance]).await? == Claim::Moved {
                return Err(Error::fenced());
            }
            if !fate.step().await? {
                return Ok(false);
            }
            let rows: ArrayRef = Arc::new(Int64Array::from(ids[from as usize..to as usize].to_vec()));
            let schema = world
                .request
                .columns
                .iter()
                .map(|column| (column.name.clone(), rows.clone()));
            let batch = RecordBatch::try_from_iter(schema).expect("a batch");
            let outcome = writer.write(&batch, Guard::None).await?;
            assert!(outcome.failure.is_none(), "{:?}", outcome.failure);
            if !fate.step().await? {
                return Ok(false);
            }
            writer.commit(&[]).await?;
            from = to;
        }
    }
    drop(writer);
    if !fate.step().await? {
        return Ok(false);
    }
    let slots = world.ledger().slots(&handle.run_id).await?;
    let mut counts = Counts::default();
    slots.iter().for_each(|slot| counts.add(slot.counts));
    world.ledger().finish(&handle, counts).await?;
    Ok(!world.dice.one_in(10))
}

fn advance(slot: u16, (from, to): (u64, u64)) -> Advance {
    let position = |rows| Position { block: 0, rows };
    Advance {
        slot,
        from: position(from),
        to: position(to),
        mark: BlockMark::default(),
        counts: Counts {
            written: to - from,
            ..Counts::default()
        },
    }
}

/// Ends the job, as all workers try to.
async fn finish(world: &World, name: u64) {
    let request = ClaimRequest {
        job_id: world.job_id.clone(),
        which: WhichPart::Numbered(WHOLE),
        attempt: None,
        owner: format!("worker {name}"),
        lease_seconds: LEASE,
        connections: 2,
    };
    loop {
        world.assert_in_time();
        world.pause(3).await;
        let held = match world.ledger().claim(&request).await {
            Ok(PartClaim::Held(held)) => held,
            Ok(PartClaim::Busy(_)) => continue,
            Ok(PartClaim::Done(_)) => return,
            Err(error) if error.kind() == ErrorKind::Unsent => continue,
            other => panic!("all parts are done: {other:?}"),
        };
        if world.dice.one_in(4) {
            // Killed; its lease ends.
            continue;
        }
        world
            .pause(if world.dice.one_in(4) { 3 * LEASE } else { 2 })
            .await;
        let (handle, _) = match world.ledger().take_over_part(&held.attempt, &world.job_id).await {
            Ok(taken) => taken,
            Err(error) if error.kind() == ErrorKind::Fenced => {
                assert_later(world, &held).await;
                continue;
            }
            Err(_) => continue,
        };
        world.pause(2).await;
        let parts = world.parts().await;
        let mut counts = Counts::default();
        let each = parts.iter().filter(|part| part.part != WHOLE);
        each.for_each(|part| counts.add(part.counts));
        if world.ledger().finish(&handle, counts).await.is_ok() {
            world.finishers.set(world.finishers.get() + 1);
            return;
        }
    }
}

/// What must hold at the end, whatever happened.
async fn check(world: &World, seed: u64) {
    let mut found: Vec<i64> = world
        .memory
        .rows("t")
        .into_iter()
        .map(|row| row[0].as_deref().expect("an id").parse().expect("a number"))
        .collect();
    found.sort_unstable();
    let all =
        (0..world.rows.len() as i64).flat_map(|part| (0..SLOTS).flat_map(move |slot| world.ids(part, slot)));
    let mut expected: Vec<i64> = all.collect();
    expected.sort_unstable();
    assert_eq!(found, expected, "seed {seed}: every row once");
    assert_eq!(world.finishers.get(), 1, "seed {seed}: one finisher");
    let parts = Jobs::parts(&world.memory, &world.job_id).await.expect("parts");
    for part in &parts {
        assert_eq!(part.state, PartState::Done, "seed {seed}: {part:?}");
        let rows = match part.part {
            WHOLE => expected.len() as u64,
            number => world.rows[number as usize],
        };
        assert_eq!(
            part.counts.written, rows,
            "seed {seed}: the account of part {}",
            part.part
        );
    }
    let disagreeing = world.memory.disagreeing(&world.job_id).await.expect("an answer");
    assert!(disagreeing.is_empty(), "seed {seed}: {disagreeing:?}");
    let most = world.most_connections.get();
    assert!(
        world.connections_max.is_none_or(|max| most <= max),
        "seed {seed}: {most} connections"
    );
    // An attempt is shut out once: it does not come back.
    let mut times: BTreeMap<(i64, i64), usize> = BTreeMap::new();
    for attempt in world.fenced.borrow().iter() {
        *times.entry(*attempt).or_default() += 1;
    }
    assert!(times.values().all(|times| *times == 1), "seed {seed}: {times:?}");
    let unfinished = world.memory.runs(&RunQuery::Unfinished).await.expect("runs");
    assert!(unfinished.is_empty(), "seed {seed}: {unfinished:?}");
}

fn number(name: &str, otherwise: u64) -> u64 {
    std::env::var(name)
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or(otherwise)
}

/// One history: how many were killed and shut out. Panics where what must hold does not.
fn simulate(seed: u64, broken: Option<Rule>) -> (u64, u64) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .expect("a runtime");
    LocalSet::new().block_on(&runtime, async {
        let world = World::new(seed).await;
        if let Some(rule) = broken {
            world.memory.break_rule(rule);
        }
        let workers: Vec<_> = (0..2 + world.dice.below(7))
            .map(|name| tokio::task::spawn_local(worker(world.clone(), name)))
            .collect();
        for worker in workers {
            if let Err(error) = worker.await {
                panic!("seed {seed}: {error}");
            }
        }
        check(&world, seed).await;
        (world.kills.get(), world.fenced.borrow().len() as u64)
    })
}

#[test]
fn whatever_the_scheduler_does_every_row_is_there_once() {
    let first = number("TONNAGE_TEST_SEED", 1);
    let (mut kills, mut fenced) = (0, 0);
    for seed in first..first + number("TONNAGE_SIMULATIONS", SIMULATIONS) {
        let (killed, shut_out) = simulate(seed, None);
        kills += killed;
        fenced += shut_out;
    }
    // Else nothing was tried.
    assert!(kills > 0 && fenced > 0, "{kills} kills, {fenced} shut out");
}

/// A simulation that could not fail would show nothing: each rule, left out, is found. The panics that are printed are those
/// of the histories in which it was.
#[test]
fn a_ledger_without_one_of_its_rules_is_found_out() {
    for rule in [Rule::Attempt, Rule::Lease, Rule::Advance, Rule::Connections] {
        let found = (1..=BROKEN_SIMULATIONS)
            .find(|seed| catch_unwind(AssertUnwindSafe(|| simulate(*seed, Some(rule)))).is_err());
        let seed = found.unwrap_or_else(|| panic!("nothing fails without the rule {rule:?}"));
        println!("without the rule {rule:?} history {seed} fails");
    }
}
