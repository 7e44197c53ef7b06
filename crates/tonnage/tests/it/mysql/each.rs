//! Rows of which many are bad: whether they go together or each alone, the account of each is the same.

use std::sync::Arc;

use arrow::array::{
    ArrayRef, BinaryArray, Decimal128Array, Float32Array, Int32Array, RecordBatch, StringArray,
};
use tonnage::{
    ErrorKind,
    operation::{Method, Operation},
    target::{Guard, Writer},
    types::ColumnType,
};

use super::{Server, TestDatabase, batch, key};

on_every_server! {
    rows_that_go_together_are_told_as_each_alone,
    odd_values_and_messages_are_told_as_each_alone,
    what_a_block_cannot_tell_goes_row_by_row,
    a_warning_is_never_passed_over,
    rows_of_any_number_are_whole,
    a_deadlock_in_a_block_ends_the_transaction,
}

/// A refused row: its number, the code and the message.
type Told = (usize, String, String);

fn told(row: usize, error: &tonnage::Error) -> Told {
    assert_eq!(error.kind(), ErrorKind::Rejected, "{error}");
    (
        row,
        error.code_text().unwrap_or_default().to_owned(),
        error.to_string(),
    )
}

/// The refused rows, the number left out, and that of statements.
async fn together(writer: &mut dyn Writer, rows: &RecordBatch) -> Option<(Vec<Told>, u64, u64)> {
    let outcome = writer.write_each(rows).await.unwrap()?;
    let refused = outcome
        .refused
        .iter()
        .map(|refused| told(refused.row, &refused.error));
    Some((refused.collect(), outcome.skipped, outcome.statements))
}

async fn alone(writer: &mut dyn Writer, rows: &RecordBatch) -> (Vec<Told>, u64) {
    let (mut refused, mut skipped) = (Vec::new(), 0);
    for row in 0..rows.num_rows() {
        let outcome = writer.write(&rows.slice(row, 1), Guard::Savepoint).await.unwrap();
        skipped += outcome.skipped;
        if let Some(failure) = outcome.failure {
            assert!(failure.intact, "{row}");
            refused.push(told(row, &failure.error));
        }
    }
    (refused, skipped)
}

/// Both ways into a table that `make` makes; the refused rows, the number left out, and the statements of the one way.
async fn both(
    place: &TestDatabase,
    make: &str,
    columns: &[&str],
    operation: Operation,
    rows: &RecordBatch,
) -> (Vec<Told>, u64, u64) {
    let shown = format!("{operation:?}");
    let mut found = Vec::new();
    for goes_together in [false, true] {
        place.run(make).await;
        let plan = place.plan("t", columns, operation.clone(), Method::Array).await;
        let mut writer = place.writer(&plan).await;
        writer.begin(&[]).await.unwrap();
        let (refused, skipped, statements) = match goes_together {
            true => together(&mut *writer, rows).await.expect("rows go one by one"),
            false => {
                let (refused, skipped) = alone(&mut *writer, rows).await;
                (refused, skipped, 0)
            }
        };
        writer.commit(&[]).await.unwrap();
        let hexadecimal = "SELECT group_concat('hex(concat(ifnull(`', column_name, '`, ''null'')))' SEPARATOR ', ') \
             FROM information_schema.columns WHERE table_schema = database() AND table_name = 't'";
        let every = place.texts(hexadecimal).await.remove(0).expect("columns");
        let all = place
            .texts(&format!("SELECT concat_ws('|', {every}) FROM t ORDER BY id"))
            .await;
        found.push(((refused, skipped, all), statements));
    }
    let (here, statements) = found.pop().unwrap();
    let (expected, _) = found.pop().unwrap();
    for (here, expected) in here.0.iter().zip(&expected.0) {
        assert_eq!(here, expected, "{shown}");
    }
    assert_eq!(here, expected, "{shown}");
    (here.0, here.1, statements)
}

const MAKE: &str = "SET foreign_key_checks = 0;\nDROP TABLE IF EXISTS t, parents;\nSET foreign_key_checks = 1;\n\
     CREATE TABLE parents (id int PRIMARY KEY);\nINSERT INTO parents VALUES (0), (1);\n\
     CREATE TABLE t (id int PRIMARY KEY, code varchar(20) UNIQUE, qty decimal(8,2), parent int, \
     name varchar(12) NOT NULL, single float, raw varbinary(12), word text, few tinyint DEFAULT 3, \
     CONSTRAINT qty CHECK (qty >= 0), CONSTRAINT parent FOREIGN KEY (parent) REFERENCES parents (id));\n\
     CREATE TABLE children (id int PRIMARY KEY, t int, FOREIGN KEY (t) REFERENCES t (id));\n\
     INSERT INTO t (id, code, name) SELECT seq, concat('there ', seq), 'x' FROM seq_0_to_99;\n\
     INSERT INTO children VALUES (1, 13), (2, 14);\n\
     CREATE TRIGGER before_insert BEFORE INSERT ON t FOR EACH ROW BEGIN \
       DECLARE said text DEFAULT concat('not ', NEW.id, ', é 🦀 \\'\"\\\\\\n;'); \
       IF NEW.name = 'raise' THEN SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = said; END IF; \
       IF NEW.name = 'number' THEN SIGNAL SQLSTATE '45000' SET MYSQL_ERRNO = 30001, MESSAGE_TEXT = said; END IF; \
       IF NEW.name = 'class' THEN SIGNAL SQLSTATE '99001' SET MESSAGE_TEXT = said; END IF; \
       IF NEW.name = 'range' THEN SET NEW.few = NEW.id * 1000; END IF; \
     END;\n\
     CREATE TRIGGER before_update BEFORE UPDATE ON t FOR EACH ROW BEGIN \
       IF NEW.name = 'raise' THEN SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'not so'; END IF; \
       IF NEW.name = 'range' THEN SET NEW.few = NEW.id * 1000; END IF; \
     END;\n\
     CREATE TRIGGER before_delete BEFORE DELETE ON t FOR EACH ROW BEGIN \
       IF OLD.id % 5 = 2 THEN SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'it stays'; END IF; \
     END";

const COLUMNS: [&str; 8] = ["id", "code", "qty", "parent", "name", "single", "raw", "word"];

fn text(values: Vec<Option<String>>, chars_max: Option<u32>) -> (ColumnType, ArrayRef) {
    (
        ColumnType::Text { chars_max },
        Arc::new(StringArray::from(values)),
    )
}

/// Every other row is bad in some way, some of a row that is there, some of a row before.
fn mixed(rows: i32) -> RecordBatch {
    let is = |row: i32, way: i32| row % 2 == 1 && row / 2 % 10 == way;
    let ids = (0..rows).map(|row| match is(row, 0) {
        true => row - 1,
        // Some are there.
        false => row + 50,
    });
    let codes = (0..rows).map(|row| match is(row, 1) {
        true => Some("there 7".to_owned()),
        false => (row % 3 > 0).then(|| format!("c{row}")),
    });
    let quantities = (0..rows).map(|row| match is(row, 2) {
        true => -1,
        false => i128::from(row) * 7,
    });
    let parents = (0..rows).map(|row| match is(row, 3) {
        true => Some(99),
        false => (row % 5 > 0).then_some(row % 2),
    });
    let names = (0..rows).map(|row| match () {
        () if is(row, 4) => None,
        () if is(row, 5) => Some("raise"),
        () if is(row, 6) => Some("number"),
        () if is(row, 7) => Some("class"),
        () if is(row, 8) => Some("range"),
        // Too long for the column.
        () if is(row, 9) => Some("thirteen char"),
        () => Some("fine"),
    });
    let words = (0..rows).map(|row| match row % 6 {
        0 => Some("'; DELETE FROM t; -- ".to_owned()),
        1 => Some("\\' \\\\ \" ` ? \u{0}\u{1a}\r\n\t%_".to_owned()),
        2 => Some("é 🦀 \u{ffff}".to_owned()),
        3 => None,
        4 => Some(String::new()),
        _ => Some("long ".repeat(500)),
    });
    let raw = (0..rows).map(|row| match row % 3 {
        0 => Some(vec![0, 0xff, b'\'', b'\\', row as u8]),
        1 => None,
        _ => Some(Vec::new()),
    });
    let names: Vec<_> = names.map(|name| name.map(str::to_owned)).collect();
    let raw: Vec<_> = raw.collect();
    let raw = BinaryArray::from_iter(raw.iter().map(|raw| raw.as_deref()));
    let quantities = Decimal128Array::from_iter_values(quantities);
    let singles = (0..rows).map(|row| (row % 4 > 0).then_some(row as f32 * 0.1));
    batch(&[
        (ColumnType::Int32, Arc::new(Int32Array::from_iter_values(ids))),
        text(codes.collect(), Some(20)),
        (
            ColumnType::Decimal {
                precision: 8,
                scale: 2,
            },
            Arc::new(quantities.with_precision_and_scale(8, 2).unwrap()),
        ),
        (ColumnType::Int32, Arc::new(parents.collect::<Int32Array>())),
        text(names, Some(12)),
        (ColumnType::Float32, Arc::new(singles.collect::<Float32Array>())),
        (ColumnType::Bytes, Arc::new(raw)),
        text(words.collect(), None),
    ])
}

async fn rows_that_go_together_are_told_as_each_alone(server: Server) {
    let place = TestDatabase::on(server).await;
    let make = MAKE.replacen("t, parents", "children, t, parents", 1);
    let rows = mixed(400);
    for (operation, refused_least, left_least) in [
        (Operation::Insert, 200, 0),
        (Operation::Upsert { key: key(&["id"]) }, 150, 0),
        (Operation::Ignore { key: key(&["id"]) }, 100, 10),
        (Operation::Update { key: key(&["id"]) }, 15, 300),
    ] {
        let shown = format!("{operation:?}");
        let (refused, left, statements) = both(&place, &make, &COLUMNS, operation, &rows).await;
        assert!(
            refused.len() >= refused_least,
            "{shown}: {} refused",
            refused.len()
        );
        assert!(left >= left_least, "{shown}: {left} left out");
        assert!(statements < 40, "{shown}: {statements} statements");
        for code in ["1062", "4025", "1452", "1644", "30001", "1264"] {
            let of_insert = shown == "Insert";
            let found = refused.iter().any(|(_, told, _)| told == code);
            assert!(found || !of_insert, "{shown}: {code} is missing");
        }
    }
    let ids: ArrayRef = Arc::new(Int32Array::from_iter_values((0..200).map(|row| row / 2 * 2)));
    let rows = batch(&[(ColumnType::Int32, ids)]);
    let delete = Operation::Delete { key: key(&["id"]) };
    let (refused, left, statements) = both(&place, &make, &["id"], delete, &rows).await;
    let codes: Vec<_> = refused.iter().map(|(_, code, _)| code.as_str()).collect();
    assert!(codes.contains(&"1451") && codes.contains(&"1644"), "{codes:?}");
    assert!(left > 100 && statements < 20, "{left} {statements}");
}

async fn odd_values_and_messages_are_told_as_each_alone(server: Server) {
    let place = TestDatabase::on(server).await;
    let make = "DROP TABLE IF EXISTS t;\n\
         CREATE TABLE t (id int PRIMARY KEY, word varchar(600) COLLATE utf8mb4_bin UNIQUE, raw varbinary(600) UNIQUE);\n\
         CREATE TRIGGER picky BEFORE INSERT ON t FOR EACH ROW BEGIN \
           DECLARE said text DEFAULT NEW.word; \
           IF NEW.id % 4 = 3 THEN SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = said; END IF; \
         END";
    let words = [
        String::new(),
        "x".repeat(128),
        "y".repeat(511),
        "é 🦀 ü".repeat(20),
        "\u{0}\u{1}\u{8}\r\n\t\u{b}\u{1f}\u{7f}".to_owned(),
        "\u{80}\u{85}\u{9f}\u{a0}\u{ad}\u{200b}\u{2028}\u{e000}\u{feff}\u{fffd}\u{fffe}\u{ffff}".to_owned(),
        "a;b c;; 1 0;".to_owned(),
        "\\' \" ` % %s %d \\u0041 \\0041".to_owned(),
    ];
    let raw = [
        vec![0, 1, 0xff, 0xfe],
        vec![0xc3, 0xa9, 0xc3],
        b"'\\; ".to_vec(),
        vec![0x80; 300],
    ];
    // Each is there, refused for its word, for its bytes, and by the trigger, over and over.
    let rows = 256_usize;
    let word = |row: usize| match row % 4 {
        1 | 3 => words[row / 4 % words.len()].clone(),
        _ => format!("{row}{}", words[row / 4 % words.len()])
            .chars()
            .take(500)
            .collect(),
    };
    let bytes = |row: usize| match row % 4 {
        2 => raw[row / 4 % raw.len()].clone(),
        _ => row.to_le_bytes().to_vec(),
    };
    let texts: Vec<_> = (0..rows).map(|row| Some(word(row))).collect();
    let raws: Vec<_> = (0..rows).map(bytes).collect();
    let rows = batch(&[
        (
            ColumnType::Int32,
            Arc::new(Int32Array::from_iter_values(0..rows as i32)),
        ),
        text(texts, Some(600)),
        (ColumnType::Bytes, Arc::new(BinaryArray::from_iter_values(raws))),
    ]);
    let (refused, _, statements) = both(&place, make, &["id", "word", "raw"], Operation::Insert, &rows).await;
    assert!(refused.len() > 150, "{}", refused.len());
    assert_eq!(statements, 2);
}

async fn what_a_block_cannot_tell_goes_row_by_row(server: Server) {
    let place = TestDatabase::on(server).await;
    let rows = |rows: i32| {
        let words = (0..rows).map(|row| Some(format!("w{row}"))).collect();
        let ids = Int32Array::from_iter_values(0..rows);
        batch(&[(ColumnType::Int32, Arc::new(ids)), text(words, Some(20))])
    };
    for what in [
        // A number of the user's own, of a class that is no server's.
        "CREATE TABLE t (id int PRIMARY KEY, word varchar(20));\n\
         CREATE TRIGGER picky BEFORE INSERT ON t FOR EACH ROW BEGIN IF NEW.id % 4 = 3 THEN \
         SIGNAL SQLSTATE '99001' SET MYSQL_ERRNO = 30002, MESSAGE_TEXT = 'own'; END IF; END",
        // A message that is cut.
        "CREATE TABLE t (id int PRIMARY KEY, word varchar(20));\n\
         CREATE TRIGGER picky BEFORE INSERT ON t FOR EACH ROW BEGIN DECLARE said text DEFAULT repeat('é', 300); \
         IF NEW.id % 4 = 3 THEN SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = said; END IF; END",
        // Spaces that are cut off are a note, in front of the error.
        "CREATE TABLE t (id int PRIMARY KEY, word varchar(20), \
         cut varchar(2) AS (concat(id % 10, if(id % 4 = 3, '   ', ''))) STORED, CHECK (id % 4 <> 3))",
    ] {
        let make = format!("DROP TABLE IF EXISTS t;\n{what}");
        let into = ["id", "word"];
        let (refused, _, statements) = both(&place, &make, &into, Operation::Insert, &rows(64)).await;
        assert_eq!(refused.len(), 16, "{what}");
        assert!(statements >= 64, "{what}: {statements} statements");
    }
}

async fn a_warning_is_never_passed_over(server: Server) {
    let place = TestDatabase::on(server).await;
    place
        .run(
            "CREATE TABLE t (id int PRIMARY KEY, cut varchar(3) AS (concat(id, if(id = 77, '   ', ''))) STORED)",
        )
        .await;
    let plan = place.plan("t", &["id"], Operation::Insert, Method::Array).await;
    let mut writer = place.writer(&plan).await;
    let rows = |ids: Vec<i32>| batch(&[(ColumnType::Int32, Arc::new(Int32Array::from(ids)))]);
    writer.begin(&[]).await.unwrap();
    let told = together(
        &mut *writer,
        &rows((100..200).chain([77, 100]).chain(200..400).collect()),
    )
    .await;
    assert!(told.is_none(), "{told:?}");
    assert_eq!(
        writer
            .write(&rows(vec![1, 2]), Guard::None)
            .await
            .unwrap()
            .skipped,
        0
    );
    // It does not try again.
    assert!(
        together(&mut *writer, &rows((500..700).collect()))
            .await
            .is_none()
    );
    writer.commit(&[]).await.unwrap();
    assert_eq!(place.texts("SELECT id FROM t").await.len(), 2);
}

async fn rows_of_any_number_are_whole(server: Server) {
    let place = TestDatabase::on(server).await;
    place.run("CREATE TABLE t (id int PRIMARY KEY)").await;
    let plan = place.plan("t", &["id"], Operation::Insert, Method::Array).await;
    let mut writer = place.writer(&plan).await;
    for (count, statements) in [
        (0, 0),
        (1, 1),
        (15, 15),
        (16, 1),
        (17, 2),
        (128, 1),
        (145, 3),
        (300, 16),
    ] {
        place.run("DELETE FROM t").await;
        // Every third is there already; the last is bad in any case.
        let id = |row: i32| if row % 3 == 2 { row - 1 } else { row };
        let ids = Int32Array::from_iter_values((0..count).map(id));
        let bad = (0..count).filter(|row| row % 3 == 2);
        writer.begin(&[]).await.unwrap();
        let rows = batch(&[(ColumnType::Int32, Arc::new(ids))]);
        let (refused, left, sent) = together(&mut *writer, &rows).await.unwrap();
        writer.commit(&[]).await.unwrap();
        let refused: Vec<_> = refused.iter().map(|(row, ..)| *row as i32).collect();
        assert_eq!(refused, bad.collect::<Vec<_>>(), "{count}");
        assert_eq!((left, sent), (0, statements), "{count}");
        let there = place.number("SELECT count(*) FROM t").await;
        assert_eq!(there, i64::from(count) - refused.len() as i64, "{count}");
    }
}

async fn a_deadlock_in_a_block_ends_the_transaction(server: Server) {
    let place = TestDatabase::on(server).await;
    place
        .run("CREATE TABLE t (id int PRIMARY KEY, v int);\nINSERT INTO t VALUES (1, 0), (2, 0), (3, 0)")
        .await;
    let update = Operation::Update { key: key(&["id"]) };
    let plan = place.plan("t", &["id", "v"], update, Method::Array).await;
    let rows = |ids: Vec<i32>, v: i32| {
        let values = Int32Array::from(vec![v; ids.len()]);
        batch(&[
            (ColumnType::Int32, Arc::new(Int32Array::from(ids))),
            (ColumnType::Int32, Arc::new(values)),
        ])
    };
    // Rows that are not there in front of the one that is locked, and behind it.
    let among = |id: i32| (10..70).chain([id]).chain(70..80).collect::<Vec<_>>();
    let (mut one, mut other) = (place.writer(&plan).await, place.writer(&plan).await);
    one.begin(&[]).await.unwrap();
    other.begin(&[]).await.unwrap();
    one.write(&rows(vec![1], 1), Guard::None).await.unwrap();
    other.write(&rows(vec![2], 2), Guard::None).await.unwrap();
    let (two, one_too) = (rows(among(2), 1), rows(among(1), 2));
    let (first, second) = tokio::join!(one.write_each(&two), other.write_each(&one_too));
    let (error, survivor, wanted) = match (first, second) {
        (Err(error), Ok(Some(_))) => (error, &mut other, 2),
        (Ok(Some(_)), Err(error)) => (error, &mut one, 1),
        (first, second) => panic!("{first:?} {second:?}"),
    };
    assert_eq!(
        (error.kind(), error.code_text()),
        (ErrorKind::Overloaded, Some("1213"))
    );
    survivor.commit(&[]).await.unwrap();
    // What the other had written is undone.
    for writer in [&mut one, &mut other] {
        writer.rollback().await.unwrap();
    }
    let shown = |v: i64| {
        vec![
            Some(format!("1 {v}")),
            Some(format!("2 {v}")),
            Some("3 0".to_owned()),
        ]
    };
    let all = "SELECT concat(id, ' ', v) FROM t ORDER BY id";
    assert_eq!(place.texts(all).await, shown(wanted));
}
