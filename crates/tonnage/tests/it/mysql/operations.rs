//! What becomes of rows by each operation, method by method: the same table, and the same counts.

use std::sync::Arc;

use arrow::array::{ArrayRef, Decimal128Array, StringArray};
use tonnage::{
    Database,
    operation::{Method, Mode, Operation, Support},
    plan::{RejectsMax, SlotBy, Sort},
    types::ColumnType,
};

use super::{Server, TestDatabase, batch, key, write};
use crate::common::upsert;

on_every_server! {
    a_decimal_key_is_compared_digit_by_digit,
    keys_that_only_the_server_can_compare_are_taken_as_it_compares_them,
    what_cannot_be_told_is_refused_with_the_way_out,
    a_further_unique_key_counts_only_where_that_is_asked_for,
    rows_of_one_key_keep_their_order_where_the_primary_key_would_sort_them_otherwise,
}

fn some(texts: &[&str]) -> Vec<Option<String>> {
    texts.iter().map(|text| Some((*text).to_owned())).collect()
}

async fn a_decimal_key_is_compared_digit_by_digit(server: Server) {
    let place = TestDatabase::on(server).await;
    let ty = ColumnType::Decimal {
        precision: 30,
        scale: 2,
    };
    // As doubles these two are the same.
    let near = [100_000_000_000_000_000_001_i128, 100_000_000_000_000_000_002];
    for method in [Method::Array, Method::Batch] {
        place
            .run(
                "DROP TABLE IF EXISTS t;\nCREATE TABLE t (id decimal(30,2) PRIMARY KEY, v varchar(20));\n\
                 INSERT INTO t VALUES (1000000000000000000.01, 'a'), (1000000000000000000.02, 'b')",
            )
            .await;
        let operation = Operation::Update { key: key(&["id"]) };
        let plan = place.plan("t", &["id", "v"], operation, method).await;
        let mut writer = place.writer(&plan).await;
        let ids = Decimal128Array::from(vec![near[1]])
            .with_precision_and_scale(30, 2)
            .unwrap();
        let texts: ArrayRef = Arc::new(StringArray::from(vec!["B"]));
        let rows = batch(&[
            (ty, Arc::new(ids)),
            (ColumnType::Text { chars_max: Some(20) }, texts),
        ]);
        assert_eq!(write(&mut *writer, &rows).await.skipped, 0);
        assert_eq!(
            place.texts("SELECT v FROM t ORDER BY id").await,
            some(&["a", "B"]),
            "{method}"
        );
    }
}

async fn keys_that_only_the_server_can_compare_are_taken_as_it_compares_them(server: Server) {
    let place = TestDatabase::on(server).await;
    for method in [Method::Array, Method::Batch] {
        place
            .run("DROP TABLE IF EXISTS t;\nCREATE TABLE t (k varchar(9) PRIMARY KEY, v int)")
            .await;
        let plan = place.plan("t", &["k", "v"], upsert(&["k"]), method).await;
        assert_eq!(
            plan.table.columns[0].equality,
            tonnage::table::Equality::ServerOnly
        );
        let mut writer = place.writer(&plan).await;
        let keys: ArrayRef = Arc::new(StringArray::from(vec!["a", "A", "b", "b "]));
        let values: ArrayRef = Arc::new(arrow::array::Int32Array::from(vec![1, 2, 3, 4]));
        let rows = batch(&[(plan.columns[0].ty, keys), (plan.columns[1].ty, values)]);
        write(&mut *writer, &rows).await;
        assert_eq!(
            place.texts("SELECT concat(k, '|', v) FROM t ORDER BY k").await,
            some(&["a|2", "b|4"]),
            "{method}"
        );
    }
}

async fn what_cannot_be_told_is_refused_with_the_way_out(server: Server) {
    let place = TestDatabase::on(server).await;
    place
        .run(
            "CREATE TABLE t (id int PRIMARY KEY, email varchar(40), UNIQUE (email));\n\
             CREATE TABLE part (id int PRIMARY KEY, note text, UNIQUE (note(9)));\n\
             CREATE TABLE plain (id int, v int);\n\
             CREATE TABLE aria (id int PRIMARY KEY, v int) ENGINE=Aria",
        )
        .await;
    let refusal = |table: &tonnage::table::Table, operation: Operation, method| match place
        .target
        .support(table, &operation, method)
    {
        Support::Yes => "yes".to_owned(),
        Support::No { why, instead } => format!("{why}; {instead}"),
    };
    let d = &place.database;
    let t = place.table("t").await;
    assert_eq!(
        refusal(&t, Operation::Update { key: key(&["email"]) }, Method::Array),
        "yes"
    );
    assert_eq!(refusal(&t, Operation::Insert, Method::Native), "yes");
    let part = place.table("part").await;
    assert_eq!(part.keys.len(), 1, "a part of a column is no key");
    let plain = place.table("plain").await;
    assert_eq!(
        refusal(&plain, upsert(&["id"]), Method::Batch),
        format!(
            "(id) is not a primary or unique key of {d}.plain; add a primary key or a unique index on (id)"
        )
    );
    let aria = place.table("aria").await;
    assert!(!aria.transactional);
    assert_eq!(
        refusal(&aria, Operation::Insert, Method::Array),
        format!("{d}.aria has no transactions, so only rows that go one by one can be told; --method batch")
    );
    assert_eq!(refusal(&aria, Operation::Insert, Method::Batch), "yes");
    assert_eq!(
        refusal(&plain, Operation::Delete { key: key(&["id"]) }, Method::Native)
            .split(';')
            .next(),
        Some(format!("(id) is not a primary or unique key of {d}.plain").as_str())
    );
}

#[tokio::test]
async fn a_table_less_durable_than_the_ledger_says_so() {
    use tonnage::table::Loss;
    let place = TestDatabase::new().await;
    place
        .run(
            "CREATE TABLE safe (id int PRIMARY KEY, v int);\n\
             CREATE TABLE noted (id int PRIMARY KEY, v int);\n\
             CREATE TABLE aria (id int PRIMARY KEY, v int) ENGINE=Aria;\n\
             CREATE TABLE myisam (id int PRIMARY KEY, v int) ENGINE=MyISAM;\n\
             CREATE TABLE memory (id int PRIMARY KEY, v int) ENGINE=MEMORY;\n\
             CREATE TRIGGER seen AFTER INSERT ON noted FOR EACH ROW INSERT INTO `aria` VALUES (NEW.id, 1)",
        )
        .await;
    for (name, loss) in [
        ("safe", None),
        ("noted", None),
        ("aria", Some(Loss::Last)),
        ("myisam", Some(Loss::Last)),
        ("memory", Some(Loss::Table)),
    ] {
        let table = place.table(name).await;
        assert_eq!(table.less_durable.as_ref().map(|less| less.loss), loss, "{name}");
        let warned = table.notes.iter().any(|note| note.contains("seen names aria"));
        assert_eq!(warned, name == "noted", "{:?}", table.notes);
    }
}

async fn a_further_unique_key_counts_only_where_that_is_asked_for(server: Server) {
    let place = TestDatabase::on(server).await;
    place
        .run(
            "CREATE TABLE t (id int PRIMARY KEY, email varchar(40), v int, UNIQUE (email));\n\
             CREATE TABLE part (id int PRIMARY KEY, email text, v int, UNIQUE (email(9)))",
        )
        .await;
    let d = &place.database;
    let database = Database::connect(&place.url).await.unwrap();
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("rows.csv");
    // The first two are one row by its email, the fourth is that of the third; the last meets two rows.
    std::fs::write(&file, "id,email,v\n1,a,1\n2,a,2\n3,c,3\n3,d,4\n4,e,5\n3,e,6\n").unwrap();
    let load = |table: &str| database.load(file.display().to_string()).table(table);
    for table in ["t", "part"] {
        for refused in [load(table).upsert(["id"]), load(table).ignore(["id"])] {
            let error = refused.prepare().await.err().expect("a refusal");
            let told =
                format!(": the further unique key (email) of {d}.{table} could take a row for another one");
            assert!(error.to_string().ends_with(&told), "{error}");
            assert!(
                error
                    .hint_text()
                    .unwrap()
                    .starts_with("--any-unique-key goes by whichever")
            );
        }
    }
    for method in [Method::Array, Method::Batch, Method::Single] {
        place
            .run("DELETE FROM t;\nINSERT INTO t VALUES (7, 'c', 0), (8, 'e', 0)")
            .await;
        let prepared = load("t").upsert(["id"]).any_unique_key().method(method).prepare();
        let prepared = prepared.await.unwrap();
        let plan = prepared.plan();
        assert_eq!((plan.slot_by, plan.jobs), (SlotBy::One, 1));
        assert!(
            plan.guarantees_lost.iter().any(|lost| lost
                == "any unique key decides: a row whose (email) is there changes that row, whatever its (id), which \
                    stays as it is there; one that meets several rows changes one of them or is refused"),
            "{:?}",
            plan.guarantees_lost
        );
        let upserting = load("t").upsert(["id"]).any_unique_key().method(method);
        let rejects = directory.path().join(format!("{method}.jsonl"));
        let report = upserting
            .rejects(&rejects, RejectsMax::Rows(1))
            .run()
            .await
            .unwrap();
        assert_eq!(
            (report.rows.read, report.rows.written, report.rows.rejected),
            (6, 5, 1),
            "{method}"
        );
        let rejected = std::fs::read_to_string(&rejects).unwrap();
        assert!(rejected.contains("1062"), "{rejected}");
        assert_eq!(
            place
                .texts("SELECT concat(id, ' ', email, ' ', v) FROM t ORDER BY id")
                .await,
            some(&["1 a 2", "3 d 4", "7 c 3", "8 e 5"]),
            "{method}"
        );
        place
            .run("DELETE FROM t;\nINSERT INTO t VALUES (7, 'c', 0), (8, 'e', 0)")
            .await;
        let ignoring = load("t").ignore(["id"]).any_unique_key().method(method);
        let report = ignoring.run().await.unwrap();
        assert_eq!(
            (report.rows.written, report.rows.skipped.conflict),
            (2, 4),
            "{method}"
        );
        assert_eq!(
            place
                .texts("SELECT concat(id, ' ', email, ' ', v) FROM t ORDER BY id")
                .await,
            some(&["1 a 1", "3 d 4", "7 c 0", "8 e 0"]),
            "{method}"
        );
    }
    let refused = load("t")
        .any_unique_key()
        .prepare()
        .await
        .err()
        .expect("a refusal");
    assert_eq!(
        refused.to_string(),
        "--any-unique-key is about rows whose key is there, and an insert does not look for them"
    );
    // Other databases are told the key.
    let other = directory.path().join("other.db").display().to_string();
    let other = Database::connect(&other).await.unwrap();
    let created = other.load(file.display().to_string()).table("t").create(["id"]);
    let refused = created
        .options(|options| options.mode = Mode::Upsert)
        .any_unique_key();
    let refused = refused.prepare().await.err().expect("a refusal");
    assert!(
        refused
            .to_string()
            .ends_with("goes by (id) and by no other key, so --any-unique-key would have no effect"),
        "{refused}"
    );
}

async fn rows_of_one_key_keep_their_order_where_the_primary_key_would_sort_them_otherwise(server: Server) {
    let place = TestDatabase::on(server).await;
    place
        .run(
            "CREATE TABLE emails (id int PRIMARY KEY, email varbinary(9) UNIQUE NOT NULL, v int);\n\
             INSERT INTO emails VALUES (1, 'x', 0);\n\
             CREATE TABLE names (name varchar(9) PRIMARY KEY, v int)",
        )
        .await;
    let database = Database::connect(&place.url).await.unwrap();
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("emails.csv");
    std::fs::write(&file, "id,email,v\n9,x,1\n3,x,2\n5,x,3\n").unwrap();
    let load = || {
        database
            .load(file.display().to_string())
            .table("emails")
            .update(["email"])
    };
    load().run().await.unwrap();
    assert_eq!(
        place.texts("SELECT concat(id, ' ', v) FROM emails").await,
        some(&["5 3"])
    );
    for sort in [Sort::Block, Sort::Full] {
        let sorted = load().options(|options| options.sort = Some(sort));
        let refused = sorted.prepare().await.err().expect("a refusal");
        assert_eq!(
            refused.to_string(),
            format!(
                "--sort {} could change the order of rows of one key: update goes by (email), which the primary key does \
                 not order",
                sort.name()
            )
        );
    }
    // Bytes are sorted otherwise than these are equal.
    let file = directory.path().join("names.csv");
    std::fs::write(&file, "name,v\na,1\nA,2\nb,3\nB,4\n").unwrap();
    let load = database.load(file.display().to_string()).table("names");
    load.upsert(["name"]).run().await.unwrap();
    assert_eq!(
        place
            .texts("SELECT concat(name, ' ', v) FROM names ORDER BY name")
            .await,
        some(&["a 2", "b 4"])
    );
}
