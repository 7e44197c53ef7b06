//! What happens to rows: timestamps, methods, levels, the ledger beside them.

use tonnage::{
    operation::{Durability, Method, Mode},
    plan::LoadOptions,
    report::RunState,
    table::TableName,
};

use super::{TestDatabase, counts};

const TABLE: &str = "CREATE TABLE t (a int, b int, v text, w text, PRIMARY KEY (a, b))";

fn rows(count: usize) -> String {
    let mut text = "a,b,v,w\n".to_owned();
    for row in 0..count {
        text.push_str(&format!(
            "{},{},v{row},{}\n",
            row % 97,
            row / 97,
            "w".repeat(row % 500)
        ));
    }
    text
}

/// As many replicas answer as elsewhere; what is not promised is said.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_keyspace_without_a_commit_log_says_so() {
    let place = TestDatabase::new(&[TABLE]).await;
    let file = place.write("rows.csv", &rows(10));
    for (setting, is_lost) in [("true", false), ("false", true)] {
        place
            .run(&format!(
                "ALTER KEYSPACE {} WITH durable_writes = {setting}",
                place.keyspace
            ))
            .await;
        let load = place.database().await.load(&file).table("t");
        let prepared = load.prepare().await.unwrap();
        let plan = prepared.plan();
        let is_said = plan
            .guarantees_lost
            .iter()
            .any(|lost| lost.contains("has no commit log (durable_writes = false)"));
        assert_eq!(is_said, is_lost, "{:?}", plan.guarantees_lost);
        assert_eq!(plan.durability, Durability::Majority);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_method_at_every_level_writes_all_rows() {
    let place = TestDatabase::new(&[]).await;
    let database = place.database().await;
    for (method, level, count) in [
        (Method::Array, Durability::None, 1_000),
        (Method::Batch, Durability::Relaxed, 1_000),
        (Method::Single, Durability::Majority, 100),
        (Method::Array, Durability::All, 5_000),
    ] {
        let table = format!("t_{level}");
        place
            .run(&TABLE.replace("TABLE t", &format!("TABLE {table}")))
            .await;
        let file = place.write(&format!("{table}.csv"), &rows(count));
        let load = database.load(&file).table(&table).method(method);
        let ended = load
            .durability(level)
            .jobs(2)
            .batch_rows(700)
            .run()
            .await
            .unwrap();
        assert_eq!(ended.durability, level);
        let (statements, count) = (ended.statements, count as u64);
        // What no node has answered in time is sent again.
        let is_right = match method {
            Method::Array => statements < count / 10,
            _ => statements == count,
        };
        assert!(is_right || ended.retries > 0, "{statements} statements");
        assert_eq!(counts(ended), (count, 0, 0));
        // One replica, or none, may have acknowledged: the others have the rows in a while.
        while place.count(&table).await != count as i64 {
            assert!(matches!(level, Durability::None | Durability::Relaxed), "{level}");
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
    }
    let found = place.texts("SELECT w FROM t_all WHERE a = 96 AND b = 4").await;
    assert_eq!(found, ["w".repeat(484)]);
    let file = place.write("few.csv", &rows(10));
    let load = database.load(&file).table("t_all").truncate();
    assert_eq!(counts(load.run().await.unwrap()), (10, 0, 0));
    assert_eq!(place.count("t_all").await, 10);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_last_row_of_a_key_wins_and_nulls_mean_what_the_operation_says() {
    let place = TestDatabase::new(&[TABLE]).await;
    let database = place.database().await;
    let mut text = "a,b,v,w\n".to_owned();
    for row in 0..3_000 {
        text.push_str(&format!("{},0,v{row},w{row}\n", row % 7));
    }
    let file = place.write("repeated.csv", &text);
    for mode in [Mode::Insert, Mode::Upsert] {
        let load = database.load(&file).table("t").batch_rows(64).jobs(4);
        let ended = load.options(|options| options.mode = mode).run().await.unwrap();
        assert_eq!(ended.rows.read, 3_000);
        let (written, superseded, rejected) = counts(ended);
        assert_eq!((written + superseded, rejected), (3_000, 0));
        let expected: Vec<String> = (2_993..3_000).map(|row| format!("v{row}")).collect();
        assert_eq!(place.texts("SELECT v FROM t").await, expected);
    }
    let nulls = place.write("nulls.csv", "a,b,v,w\n0,0,,new\n");
    let insert = database.load(&nulls).table("t");
    counts(insert.run().await.unwrap());
    let of_key = "SELECT v FROM t WHERE a = 0 AND b = 0";
    assert_eq!(
        place.texts(of_key).await,
        ["v2996"],
        "an insert leaves what is not given"
    );
    let upsert = database.load(&nulls).table("t");
    counts(
        upsert
            .options(|options| options.mode = Mode::Upsert)
            .run()
            .await
            .unwrap(),
    );
    let found = place.texts("SELECT JSON v, w FROM t WHERE a = 0 AND b = 0").await;
    assert_eq!(found, ["{\"v\": null, \"w\": \"new\"}"], "an upsert replaces it");

    let gone = place.write("gone.csv", "a,b\n0,0\n1,0\n50,50\n");
    let delete = database.load(&gone).table("t");
    let delete = delete
        .options(|options| options.mode = Mode::Delete)
        .run()
        .await
        .unwrap();
    assert_eq!(
        counts(delete),
        (3, 0, 0),
        "a key that is not there counts as written"
    );
    assert_eq!(place.count("t").await, 5);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_row_that_is_sent_again_changes_nothing() {
    let place = TestDatabase::new(&[TABLE]).await;
    let database = place.database().await;
    let file = place.write("t.csv", "a,b,v,w\n1,1,one,x\n2,1,two,x\n");
    counts(database.load(&file).table("t").run().await.unwrap());
    let stamps = "SELECT cast(writetime(v) AS text) FROM t";
    let before = place.texts(stamps).await;
    assert_eq!(before[0].len(), before[1].len());
    // A microsecond a row.
    let (first, second): (i64, i64) = (before[0].parse().unwrap(), before[1].parse().unwrap());
    assert_eq!(second - first, 1);
    // What others write later is newer, whatever is sent again under the run's time.
    place.run("UPDATE t SET v = 'others' WHERE a = 1 AND b = 1").await;
    place
        .run(&format!(
            "INSERT INTO t (a, b, v) VALUES (1, 1, 'one') USING TIMESTAMP {first}"
        ))
        .await;
    assert_eq!(place.texts("SELECT v FROM t").await, ["others", "two"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_it_cannot_do_is_refused_with_the_reason() {
    let place = TestDatabase::new(&[TABLE]).await;
    let database = place.database().await;
    let file = place.write("t.csv", "a,b,v\n1,1,one\n");
    for (mode, hint) in [(Mode::Ignore, "--mode insert"), (Mode::Update, "--mode upsert")] {
        let load = database
            .load(&file)
            .table("t")
            .options(|options| options.mode = mode);
        let refused = load.run().await.unwrap_err();
        assert!(
            refused.to_string().contains("lightweight transaction"),
            "{refused}"
        );
        assert!(refused.hint_text().unwrap().contains(hint));
    }
    let refused = database.load(&file).table("t").single_transaction().run().await;
    assert!(
        refused
            .unwrap_err()
            .to_string()
            .contains("no part in transactions")
    );
    let refused = database
        .load(&file)
        .table("t")
        .durability(Durability::Durable)
        .run()
        .await;
    let refused = refused.unwrap_err();
    assert_eq!(refused.hint_text(), Some("it keeps none, relaxed, majority, all"));
    let short = place.write("short.csv", "a,v\n1,one\n");
    let refused = database.load(&short).table("t").run().await.unwrap_err();
    assert!(refused.to_string().contains("'b'"), "{refused}");
    let missing = tonnage::targets::connect(&place.url.replace(&place.keyspace, "nowhere")).await;
    assert!(
        missing
            .err()
            .unwrap()
            .to_string()
            .contains("there is no keyspace 'nowhere'")
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_ledger_is_a_local_file_and_the_plan_says_so() {
    let place = TestDatabase::new(&[TABLE]).await;
    let file = place.write("t.csv", &rows(300));
    let source = tonnage::sources::open(std::slice::from_ref(&file), None, &Default::default()).unwrap();
    let target = place.target().await;
    let options = LoadOptions::new(TableName::bare("t"));
    let prepared = tonnage::load::prepare(target.clone(), place.url.clone(), source, options).await;
    let plan = prepared.unwrap().plan().to_string();
    assert!(
        !plan.contains("clock is"),
        "the nodes' clock is this machine's:\n{plan}"
    );
    for said in [
        "in a local file",
        "state/runs.ledger",
        "not an fsync",
        "by this machine's clock",
        "Quorum",
    ] {
        assert!(plan.contains(said), "{said}:\n{plan}");
    }
    assert!(!place.path("state").exists(), "looking makes nothing");
    assert!(
        target
            .ledger()
            .runs(&tonnage::ledger::RunQuery::Newest(1_000))
            .await
            .unwrap()
            .is_empty()
    );

    let database = place.database().await;
    counts(database.load(&file).table("t").run().await.unwrap());
    let runs = target
        .ledger()
        .runs(&tonnage::ledger::RunQuery::Newest(1_000))
        .await
        .unwrap();
    assert_eq!((runs.len(), runs[0].counts.written), (1, 300));
    assert!(runs[0].finished.is_some());
    // A resume of what is finished does nothing.
    let again = database.load(&file).table("t").resume().run().await.unwrap();
    assert_eq!(again.state, RunState::NothingToDo);
    assert!(target.ledger().forget(&runs[0].run_id).await.unwrap());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_plan_says_what_a_table_brings_with_it() {
    let place = TestDatabase::new(&[
        "CREATE TABLE t (a int PRIMARY KEY, v text, tags set<text>) WITH default_time_to_live = 600",
        "CREATE MATERIALIZED VIEW by_v AS SELECT * FROM t WHERE v IS NOT NULL AND a IS NOT NULL PRIMARY KEY (v, a)",
    ])
    .await;
    let table = place.target().await.table(&TableName::bare("t")).await.unwrap();
    let notes = table.unwrap().notes.join("\n");
    for said in [
        "expire 600 s after",
        "materialized views (by_v)",
        "the same as none: tags reads back as null",
        "an insert replaces the loaded columns",
        "an insert does not send nulls",
    ] {
        assert!(notes.contains(said), "{said}:\n{notes}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_table_is_made_and_a_batch_beyond_the_servers_limit_is_cut() {
    let place = TestDatabase::new(&[]).await;
    let database = place.database().await;
    let mut text = "id,name,big\n".to_owned();
    for row in 0..40 {
        text.push_str(&format!("{row},n{row},{}\n", "x".repeat(20_000 + row * 1_000)));
    }
    let file = place.write("made.csv", &text);
    let ended = database
        .load(&file)
        .table("made")
        .create(["id"])
        .run()
        .await
        .unwrap();
    assert_eq!(counts(ended), (40, 0, 0));
    assert_eq!(place.count("made").await, 40);
    let refused = database
        .load(&file)
        .table("keyless")
        .create([""; 0])
        .run()
        .await
        .unwrap_err();
    assert!(refused.to_string().contains("needs a primary key"), "{refused}");
}
