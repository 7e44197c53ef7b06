//! Keys as stores take them, and as people have them.

use super::{clouds::Cloud, done, run, stores::Bucket};
use crate::support::{Database, TestDatabase};

/// Keys that mean something to shells, URLs or globs, and nothing to a store.
const ODD: &[&str] = &[
    "a b.csv",
    "a%20b.csv",
    "100%.csv",
    "a+b.csv",
    "a#b.csv",
    "a?b.csv",
    "a&b=c;d.csv",
    "(a),{b}!$@:.csv",
    "gr\u{fc}\u{df}e \u{20ac} \u{6c34}.csv",
    "a..b/c...csv",
    "~a^b`c|d.csv",
];

#[test]
fn odd_keys_are_written_listed_and_read_as_they_are() {
    let place = TestDatabase::with(Database::Sqlite, "CREATE TABLE t (a TEXT)", &[]);
    // The other S3 keeps objects as files, and fails within at some of these.
    let (bucket, azure) = (Bucket::of_moto(), Cloud::azure("odd"));
    for (environment, root) in [
        (bucket.environment(), bucket.url("")),
        (azure.environment(), azure.url("")),
    ] {
        let done = |arguments: &str| {
            let ran = place.run_with(arguments, &environment, b"");
            assert_eq!(ran.code, Some(0), "{arguments}: {}", ran.stderr);
        };
        for (at, key) in ODD.iter().enumerate() {
            place.sql(&format!(
                "CREATE TABLE IF NOT EXISTS u (a TEXT); DELETE FROM u; INSERT INTO u VALUES ('{at}')"
            ));
            done(&format!("unload {{db}} -t u -o '{root}odd/{key}'"));
            done(&format!("load '{root}odd/{key}' {{db}} -t t"));
            assert_eq!(
                place.sql("SELECT a FROM t; DELETE FROM t"),
                [at.to_string()],
                "{root}{key}"
            );
        }
        // What is listed is read by the name that the list has.
        done(&format!("load '{root}odd/**/*.csv' {{db}} -t t"));
        let rows = place.sql("SELECT count(DISTINCT a), count(*) FROM t; DELETE FROM t");
        assert_eq!(rows, [format!("{0}|{0}", ODD.len())], "{root}");
        done(&format!("load '{root}odd/' {{db}} -t t"));
        let directly = ODD.iter().filter(|key| !key.contains('/')).count();
        assert_eq!(
            place.sql("SELECT count(*) FROM t; DELETE FROM t"),
            [directly.to_string()],
            "{root}"
        );
        done(&format!("load '{root}odd/a[%+]*.csv' {{db}} -t t"));
        assert_eq!(
            place.sql("SELECT count(*) FROM t; DELETE FROM t"),
            ["2"],
            "{root}"
        );
    }
}

#[test]
fn keys_that_cannot_be_asked_for_end_no_list_and_are_named_where_they_are_meant() {
    let place = TestDatabase::with(Database::Sqlite, "CREATE TABLE t (a TEXT)", &[]);
    // The other store keeps objects as files, which cannot have such names.
    let bucket = Bucket::of_moto();
    for (key, row) in [
        ("p/a.csv", "a"),
        ("p/b.csv", "b"),
        ("p//empty.csv", "not this"),
        ("p/../up.csv", "not this"),
        ("p/./here.csv", "not this"),
        ("p/", ""),
        ("p/closed.csv/", "not this"),
        ("lead.csv", "lead"),
        ("/lead.csv", "not this"),
        ("q//only.csv", "not this"),
    ] {
        bucket.put(key, format!("a\n{row}\n"));
    }
    for (input, rows) in [
        ("p/", "ab"),
        ("p/*.csv", "ab"),
        ("p/[ab]*", "ab"),
        ("**/[ab].csv", "ab"),
        ("l*.csv", "lead"),
        ("lead.csv", "lead"),
    ] {
        done(
            &place,
            &bucket,
            &format!("load '{}' {{db}} -t t", bucket.url(input)),
        );
        assert_eq!(
            place
                .sql("SELECT a FROM t ORDER BY rowid; DELETE FROM t")
                .concat(),
            rows,
            "{input}"
        );
    }
    // Their rows are not left out without a word, and no other object is taken for them.
    for (input, key) in [
        ("p/**/*.csv", "p//empty.csv"),
        ("p//empty.csv", "p//empty.csv"),
        ("p//", "p//empty.csv"),
        ("p/../up.csv", "p/../up.csv"),
        ("/lead.csv", "/lead.csv"),
        ("**/lead.csv", "/lead.csv"),
        ("q//*.csv", "q//only.csv"),
    ] {
        let ran = run(
            &place,
            &bucket,
            &format!("load '{}' {{db}} -t t", bucket.url(input)),
        );
        assert_eq!(ran.code, Some(2), "{input}: {}", ran.stderr);
        let says = ran.stderr.contains(&bucket.url(key))
            && ran.stderr.contains("cannot be asked for")
            && ran.stderr.contains("hint: copy the object");
        assert!(says, "{input}: {}", ran.stderr);
    }
    let before = bucket.keys();
    for key in ["p//new.csv", "/new.csv", "p/../new.csv"] {
        let ran = run(
            &place,
            &bucket,
            &format!("unload {{db}} -t t -o '{}'", bucket.url(key)),
        );
        assert_eq!(ran.code, Some(2), "{key}: {}", ran.stderr);
        let says = ran.stderr.contains("cannot be asked for") && ran.stderr.contains("hint: ");
        assert!(says, "{key}: {}", ran.stderr);
    }
    assert_eq!(bucket.keys(), before);
}
