//! A MariaDB server that takes small packets only.

use crate::{
    faults::servers::Maria,
    support::{Database::Sqlite, TestDatabase},
};

#[test]
fn statements_fit_the_packets_that_the_server_takes() {
    let maria = Maria::start();
    maria.query("SET GLOBAL max_allowed_packet = 16384");
    maria.query("CREATE TABLE t (id integer PRIMARY KEY, note longtext)");
    // A directory, and no database of its own.
    let place = TestDatabase::new(Sqlite);
    let mut rows = String::from("id,note\n");
    for id in 0..500 {
        // One is larger than any packet, one nearly as large.
        let bytes = match id {
            250 => 20_000,
            400 => 12_000,
            _ => 100,
        };
        rows.push_str(&format!("{id},{}\n", "x".repeat(bytes)));
    }
    place.write("rows.csv", rows);
    let url = maria
        .url()
        .replace("mysql://", "mariadb://")
        .replace("?prefer_socket=false", "");
    let done = |code: i32, arguments: &str| {
        let ran = place.run(arguments);
        assert_eq!(ran.code, Some(code), "{arguments}\n{}", ran.stderr);
        ran
    };
    let ways = [
        "--method native",
        "--method array",
        "--method batch",
        "--method single",
        "--method array --mode upsert --key id",
        "--method array --mode ignore --key id",
        "--single-transaction",
    ];
    for (number, options) in ways.into_iter().enumerate() {
        let rejects = format!("bad{number}.jsonl");
        maria.query("DELETE FROM t");
        done(
            3,
            &format!("load rows.csv {url} -t t --rejects {rejects} --restart {options}"),
        );
        let bad = place.read(&rejects);
        assert_eq!(bad.lines().count(), 1, "{options}");
        let bad: serde_json::Value = serde_json::from_str(&bad).expect("JSON");
        assert_eq!(
            (&bad["row"], &bad["code"]),
            (&251.into(), &"22001".into()),
            "{options}"
        );
        let found = maria.query("SELECT count(*), sum(length(note)) FROM t");
        assert_eq!(
            found,
            [[Some("499".to_owned()), Some((498 * 100 + 12_000).to_string())]],
            "{options}"
        );
    }
    done(0, &format!("unload {url} -t t -o out.csv -j 2"));
    assert_eq!(place.read("out.csv").lines().count(), 500);
    place.write(
        "keys.csv",
        (0..500).fold("id\n".to_owned(), |keys, id| keys + &format!("{id}\n")),
    );
    done(0, &format!("get {url} --keys keys.csv -t t -o got.csv"));
    assert_eq!(place.read("got.csv").lines().count(), 500);
    place.write("change.csv", "id,note\n1,one\n2,two\n");
    done(
        0,
        &format!("exec change.csv {url} --sql 'update t set note = :note where id = :id'"),
    );
    let lines: String = (1_000..1_200)
        .map(|id| format!("{{\"id\":{id},\"note\":\"{}\"}}\n", "y".repeat(500)))
        .collect();
    let ran = place.run_with(&format!("ingest {url} -t t"), &[], lines.as_bytes());
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert_eq!(maria.query("SELECT count(*) FROM t"), [[Some("699".to_owned())]]);
}
