//! Files that others read: odd headers, blank lines, stray quotes, nothing at all.

use crate::support::{Database, TestDatabase};

fn place(files: &[(&str, &str)]) -> TestDatabase {
    TestDatabase::with(
        Database::Sqlite,
        "CREATE TABLE t (a integer, b varchar(20)); CREATE TABLE one (v varchar(9))",
        files,
    )
}

#[test]
fn headers_lack_names_or_repeat_them() {
    let place = place(&[("x.csv", ",a,b,a\n7,1,x,8\n"), ("plain.csv", "p,q\n3,z\n")]);
    let plan = place.run("load x.csv {db} -t new --create --dry-run");
    assert!(
        plan.stdout.contains("column 1 of x.csv has no name"),
        "{}",
        plan.stdout
    );
    let made = place.run("load x.csv {db} -t new --create");
    assert_eq!(made.code, Some(0), "{}", made.stderr);
    assert_eq!(place.sql("SELECT c1, a, b, a_2 FROM new"), ["7|1|x|8"]);
    let chosen = place.run("load x.csv {db} -t t --columns a,b");
    assert_eq!(chosen.code, Some(0), "{}", chosen.stderr);
    let replaced = place.run("load plain.csv {db} -t t --columns a,b");
    assert_eq!(replaced.code, Some(0), "{}", replaced.stderr);
    assert_eq!(place.sql("SELECT a, b FROM t ORDER BY a"), ["1|x", "3|z"]);
    let named = place.run("load x.csv {db} -t wide --create --columns k,a,b,n");
    assert_eq!(named.code, Some(0), "{}", named.stderr);
    assert_eq!(place.sql("SELECT k, a, b, n FROM wide"), ["7|1|x|8"]);
    let moved = place.run("load x.csv {db} -t t --columns b,a,k,n");
    assert_eq!(
        moved.code,
        Some(1),
        "names that stand elsewhere choose: {}",
        moved.stderr
    );
    let run = place.run("exec plain.csv {db} --columns x,y --sql 'update t set b = :y where a = :x'");
    assert_eq!(run.code, Some(0), "{}", run.stderr);
}

#[test]
fn blank_lines_are_counted() {
    let place = place(&[
        ("x.csv", "\na,b\n\n1,x\n\r\n\n2,y\n\n"),
        ("x.jsonl", "{\"a\":3,\"b\":\"z\"}\n\n\n"),
    ]);
    for (file, lines) in [("x.csv", "5 blank lines"), ("x.jsonl", "2 blank lines")] {
        let loaded = place.run(&format!(
            "load {file} {{db}} -t t --report report.json --batch-rows 1"
        ));
        assert_eq!(loaded.code, Some(0), "{}", loaded.stderr);
        assert!(
            place
                .read("report.json")
                .contains(&format!("{lines} of the input are no rows")),
            "{file}"
        );
        std::fs::remove_file(place.path("report.json")).expect("it is there");
    }
    assert_eq!(place.sql("SELECT a FROM t ORDER BY a"), ["1", "2", "3"]);
}

#[test]
fn nulls_at_the_beginning_of_one_column_come_back() {
    for rows in ["(NULL), (NULL), ('x'), (NULL)", "(NULL), (NULL)", "('x')"] {
        for header in ["", " --no-header"] {
            let place = place(&[]);
            place.sql(&format!(
                "INSERT INTO one VALUES {rows}; CREATE TABLE two (v varchar(9))"
            ));
            assert_eq!(
                place.run(&format!("unload {{db}} -t one -o x.csv{header}")).code,
                Some(0)
            );
            let loaded = place.run(&format!("load x.csv {{db}} -t two{header}"));
            assert_eq!(loaded.code, Some(0), "{}", loaded.stderr);
            let count = |table: &str| place.sql(&format!("SELECT count(*), count(v) FROM {table}"));
            assert_eq!(count("one"), count("two"), "{rows}{header}");
        }
    }
}

#[test]
fn nothing_unloads_and_loads() {
    for (file, header) in [
        ("x.csv", ""),
        ("x.csv", " --no-header"),
        ("x.jsonl", ""),
        ("x.parquet", ""),
        ("x.arrow", ""),
    ] {
        let place = place(&[]);
        assert_eq!(
            place.run(&format!("unload {{db}} -t t -o {file}{header}")).code,
            Some(0)
        );
        let loaded = place.run(&format!("load {file} {{db}} -t t{header}"));
        assert_eq!(loaded.code, Some(0), "{file}{header}: {}", loaded.stderr);
        assert_eq!(place.sql("SELECT count(*) FROM t"), ["0"]);
    }
    let place = place(&[("x.jsonl", ""), ("y.jsonl", "\n\n")]);
    place.sql("CREATE TABLE k (id integer PRIMARY KEY, v integer); INSERT INTO k VALUES (1, 2)");
    for command in [
        "load x.jsonl y.jsonl {db} -t t",
        "exec x.jsonl {db} --sql 'update k set v = :v where id = :id'",
        "get {db} --keys x.jsonl -t k",
    ] {
        let run = place.run(command);
        assert_eq!(run.code, Some(0), "{command}: {}", run.stderr);
    }
    let run = place.run("load x.jsonl {db} -t new --create");
    assert_eq!(run.code, Some(1));
    assert!(
        run.stderr.contains("has no rows, and so no columns"),
        "{}",
        run.stderr
    );
}

#[test]
fn stray_quotes_say_how_they_are_read() {
    let place = place(&[("x.csv", "a,b\n1,37°22'33\"\n")]);
    let refused = place.run("load x.csv {db} -t t");
    assert_eq!(refused.code, Some(1));
    assert!(
        refused.stderr.contains("a quote inside an unquoted field"),
        "{}",
        refused.stderr
    );
    assert!(refused.stderr.contains("--quote none"), "{}", refused.stderr);
    let loaded = place.run("load x.csv {db} -t t --quote none");
    assert_eq!(loaded.code, Some(0), "{}", loaded.stderr);
    assert_eq!(place.sql("SELECT a, b FROM t"), ["1|37°22'33\""]);
}

#[test]
fn lines_that_end_with_cr_alone_are_refused() {
    let place = place(&[("mac.csv", "a,b\r1,x\r2,y\r"), ("cut.csv", "a,b\r\n1,x\r\n2,y\r")]);
    let refused = place.run("load mac.csv {db} -t t");
    assert_eq!(refused.code, Some(1));
    assert!(refused.stderr.contains("carriage return"), "{}", refused.stderr);
    assert!(refused.stderr.contains("tr '\\r' '\\n'"), "{}", refused.stderr);
    let loaded = place.run("load cut.csv {db} -t t");
    assert_eq!(loaded.code, Some(0), "{}", loaded.stderr);
    assert_eq!(place.sql("SELECT a, b FROM t ORDER BY a"), ["1|x", "2|y"]);
}
