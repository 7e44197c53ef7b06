//! Loads against a model that takes their rows one at a time.

use std::{collections::BTreeMap, fmt::Write as _, sync::Arc};

use tonnage_core::{
    operation::{Method, Mode},
    table::Equality,
    target::Target,
};

use crate::{
    Files, Fixture, Keyed, Layout, Refusing, WIDE, connected, described, drop_t, load, make_of, methods,
    texts,
};

const MODES: [Mode; 5] = [
    Mode::Insert,
    Mode::Upsert,
    Mode::Ignore,
    Mode::Update,
    Mode::Delete,
];

/// Numbers that look random and are the same every time.
struct Dice(u64);

impl Dice {
    fn below(&mut self, sides: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % sides
    }
}

/// Of each key its `v` and its `w`.
type Model = BTreeMap<i64, (String, Option<String>)>;

/// Half of the keys are there to begin with, and have what no load of these brings.
fn begun() -> Model {
    let of = |id: i64| (id, (format!("old{id}"), Some("kept".to_owned())));
    (0..200).step_by(2).map(of).collect()
}

/// What rows make of a table, and how many of them are refused and left out.
fn apply(mode: Mode, replaces: bool, table: &mut Model, rows: &[(i64, String)]) -> (u64, u64) {
    let (mut rejected, mut left_out) = (0, 0);
    for (id, v) in rows {
        let there = table.get(id);
        let kept = there.and_then(|(_, w)| w.clone());
        match (mode, there.is_some()) {
            // A row must be good before its key is looked for.
            (Mode::Insert | Mode::Upsert | Mode::Ignore, _) if v == "bad" => rejected += 1,
            (Mode::Insert, true) if !replaces => rejected += 1,
            (Mode::Ignore, true) | (Mode::Update | Mode::Delete, false) => left_out += 1,
            (Mode::Update, true) if v == "bad" => rejected += 1,
            (Mode::Delete, true) => drop(table.remove(id)),
            _ => drop(table.insert(*id, (v.clone(), kept))),
        }
    }
    (rejected, left_out)
}

/// A table, and a load of it.
struct Case<'a> {
    layout: Option<&'a Layout>,
    mode: Mode,
    method: Method,
}

/// Whatever the table is like, however its rows travel and are cut, and whichever keys come again: the table and the account
/// are those of rows that go one at a time.
pub async fn loads_do_what_one_row_at_a_time_does(fixture: &dyn Fixture) {
    let target = fixture.target();
    let mut dice = Dice(7);
    let layouts = fixture.language().map_or(&[][..], |language| language.layouts());
    let layouts = std::iter::once(None).chain(layouts.iter().map(Some));
    for (number, layout) in layouts.enumerate() {
        make_as(fixture, &target, layout).await;
        let table = described(&target).await;
        for (at, mode) in MODES.into_iter().enumerate() {
            let methods = methods(&target, &table, mode);
            // By all of them into a table that the target makes, and one after another into the others.
            let chosen = match (layout, methods.len()) {
                (_, 0) => &[],
                (None, _) => &methods[..],
                (Some(_), known) => std::slice::from_ref(&methods[(number + at) % known]),
            };
            for method in chosen.iter().copied() {
                let case = Case { layout, mode, method };
                check(fixture, &case, &mut dice).await;
            }
        }
    }
}

async fn make_as(fixture: &dyn Fixture, target: &Arc<dyn Target>, layout: Option<&Layout>) -> Keyed {
    drop_t(target).await;
    match (layout, fixture.language()) {
        (Some(layout), Some(language)) => {
            language.run(layout.made_by).await;
            Keyed::Yes
        }
        _ => make_of(target, WIDE).await.1,
    }
}

async fn check(fixture: &dyn Fixture, case: &Case<'_>, dice: &mut Dice) {
    let target = fixture.target();
    let keyed = make_as(fixture, &target, case.layout).await;
    let replaces = target.capabilities().insert_replaces;
    let files = Files::new();
    let mut model = begun();
    let mut before = "w,id,v\n".to_owned();
    for (id, (v, w)) in &model {
        writeln!(before, "{},{id},{v}", w.as_deref().unwrap_or_default()).expect("memory");
    }
    let before = files.text("before.csv", &before);
    load(&target, &before, &files.path("none.jsonl"))
        .run()
        .await
        .expect("rows to begin with");

    let jobs = 1 + dice.below(4) as usize;
    let batch_rows = 1 + dice.below(250) as usize;
    let refusing = case.layout.is_some_and(|layout| layout.refusing == Refusing::Bad) && dice.below(2) == 0;
    // Of rows of one key in an insert either may come first, where several lanes write them.
    let comes_again = case.mode != Mode::Insert || (keyed == Keyed::Yes && jobs == 1);
    let count = if case.method == Method::Single { 120 } else { 500 };
    let rows: Vec<(i64, String)> = (0..count)
        .map(|at| {
            let id = match (case.mode, comes_again) {
                (Mode::Insert, false) => 2 * at + 1,
                (Mode::Insert, true) => dice.below(3_000) as i64,
                _ => dice.below(300) as i64,
            };
            let v = match dice.below(40) {
                0 if refusing => "bad".to_owned(),
                // It changes nothing, and is found all the same.
                1 => format!("old{id}"),
                _ => format!("new{at}"),
            };
            (id, v)
        })
        .collect();
    let mut input = "v,id\n".to_owned();
    for (id, v) in &rows {
        writeln!(input, "{v},{id}").expect("memory");
    }
    let (rejected, left_out) = apply(case.mode, replaces, &mut model, &rows);

    let layout = case
        .layout
        .map_or("a table as it is made", |layout| layout.made_by);
    let Case { mode, method, .. } = case;
    let context =
        format!("{mode:?} by {method}, {jobs} jobs, {batch_rows} rows, refusing: {refusing}, into {layout}");
    let load = load(&target, &files.text("input.csv", &input), &files.rejects());
    let load = load.method(*method).jobs(jobs).batch_rows(batch_rows);
    let load = load.options(|options| {
        options.mode = *mode;
        options.durability = target.capabilities().durability.first().copied();
        if *mode != Mode::Insert {
            options.key = vec!["id".to_owned()];
        }
    });
    let report = load
        .run()
        .await
        .unwrap_or_else(|error| panic!("{context}: {error}"));
    let account = report.rows;
    assert!(account.balances(), "{context}: {account:?}");
    assert_eq!(
        (account.read, report.method),
        (count as u64, *method),
        "{context}"
    );
    let (conflict, unmatched) = (account.skipped.conflict, account.skipped.unmatched);
    // Where only the database knows which keys are equal, it leaves superseded rows out by itself.
    let table = described(&target).await;
    let knows_keys = table
        .column("id")
        .is_some_and(|id| id.equality == Equality::Provable);
    let is_exact = account.skipped.superseded == 0 && knows_keys;
    match mode {
        Mode::Ignore => assert_eq!((conflict, unmatched), (left_out, 0), "{context}"),
        // A database that does not say whether a key was there has all rows as written.
        Mode::Delete if replaces => assert_eq!(conflict + unmatched, 0, "{context}"),
        // A row that a later one supersedes is not tried, so whether it would have matched is not known.
        Mode::Update | Mode::Delete if !is_exact => {
            assert!(conflict == 0 && unmatched <= left_out, "{context}")
        }
        Mode::Update | Mode::Delete => assert_eq!((conflict, unmatched), (0, left_out), "{context}"),
        Mode::Insert | Mode::Upsert => assert_eq!((conflict, unmatched), (0, 0), "{context}"),
    }
    // A bad row that a later one supersedes is tried only if its write fails.
    match is_exact || !refusing {
        true => assert_eq!(account.rejected, rejected, "{context}"),
        false => assert!(account.rejected <= rejected, "{context}: {account:?}"),
    }
    assert_eq!(
        there(fixture).await,
        model.into_iter().collect::<Vec<_>>(),
        "{context}"
    );
}

/// Keys as numbers, whatever the type of their column.
async fn there(fixture: &dyn Fixture) -> Vec<(i64, (String, Option<String>))> {
    let columns = ["id", "v", "w"];
    let target = fixture.again().await;
    let mut batches = connected(&target)
        .unload("t")
        .columns(columns)
        .batches()
        .await
        .expect("an unload");
    let mut rows = Vec::new();
    while let Some(batch) = batches.next().await.expect("rows") {
        rows.extend(texts(&batch).into_iter().map(|row| {
            let [id, v, w] = <[_; 3]>::try_from(row).expect("three columns");
            let id: f64 = id.expect("a key").trim().parse().expect("a number");
            (id as i64, (v.unwrap_or_default(), w))
        }));
    }
    assert_eq!(rows.len() as u64, fixture.count("t").await);
    rows.sort();
    rows
}
