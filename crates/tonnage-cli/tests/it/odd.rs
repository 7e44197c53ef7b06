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
fn stray_quotes_are_read_where_no_option_says_otherwise() {
    let place = place(&[("x.csv", "a,b\n1,37°22'33\"\n")]);
    let refused = place.run("load x.csv {db} -t t --format csv");
    assert_eq!(refused.code, Some(1));
    assert!(
        refused.stderr.contains("a quote inside an unquoted field"),
        "{}",
        refused.stderr
    );
    assert!(refused.stderr.contains("--quote none"), "{}", refused.stderr);
    let plan = place.run("load x.csv {db} -t t --dry-run");
    assert!(
        plan.stdout
            .contains("quotes inside unquoted fields of x.csv are characters of them"),
        "{}",
        plan.stdout
    );
    for options in ["", " --quote none --restart"] {
        let loaded = place.run(&format!("load x.csv {{db}} -t t{options}"));
        assert_eq!(loaded.code, Some(0), "{}", loaded.stderr);
    }
    assert_eq!(place.sql("SELECT DISTINCT a, b FROM t"), ["1|37°22'33\""]);
}

#[test]
fn lines_that_end_with_cr_alone_are_found() {
    let place = place(&[("mac.csv", "a,b\r1,x\r2,y\r"), ("cut.csv", "a,b\r\n3,x\r\n4,y\r")]);
    let refused = place.run("load mac.csv {db} -t t --format csv");
    assert_eq!(refused.code, Some(1));
    assert!(refused.stderr.contains("carriage return"), "{}", refused.stderr);
    for file in ["mac.csv", "cut.csv"] {
        let loaded = place.run(&format!("load {file} {{db}} -t t"));
        assert_eq!(loaded.code, Some(0), "{}", loaded.stderr);
    }
    assert_eq!(
        place.sql("SELECT a, b FROM t ORDER BY a"),
        ["1|x", "2|y", "3|x", "4|y"]
    );
}

/// Loads a file with options and compares the rows, in order.
fn rows(text: &str, options: &str, expected: &[&str]) {
    let place = TestDatabase::with(Database::Sqlite, "CREATE TABLE unused (a)", &[("x.csv", text)]);
    let loaded = place.run(&format!("load x.csv {{db}} -t made --create {options}"));
    assert_eq!(loaded.code, Some(0), "{options}: {}", loaded.stderr);
    assert_eq!(
        place.sql("SELECT * FROM made ORDER BY rowid"),
        expected,
        "{options}"
    );
}

#[test]
fn what_files_do_not_say_options_do() {
    rows("junk\na,b\n1,x\n", "--skip 1", &["1|x"]);
    rows("a,b\n1,x\nTotal,1\nby me\n", "--skip-footer 2", &["1|x"]);
    rows("a,b\n 1 , x \n2,y\n", "--trim", &["1|x", "2|y"]);
    rows(
        "d,n\n31.12.2023,1\n01.02.2024,2\n",
        "--date-format dmy",
        &["2023-12-31|1", "2024-02-01|2"],
    );
    rows("d\n12/31/23\n", "--date-format %m/%d/%y", &["2023-12-31"]);
    rows(
        "n;m\n1.234,50;2\n0,5;3\n",
        "--decimal , --thousands .",
        &["1234.5|2", "0.5|3"],
    );
    rows("v\nja\nnein\n", "--true ja --false nein", &["1", "0"]);
    rows(
        "t\n1700000000123\n",
        "--type t=timestamp(epoch_ms)",
        &["2023-11-14 22:13:20.123000"],
    );
}

#[test]
fn an_option_that_a_value_contradicts_refuses_it() {
    let place = TestDatabase::with(
        Database::Sqlite,
        "CREATE TABLE t (n real, d date)",
        &[
            ("numbers.csv", "n\n1.5\n"),
            ("dates.csv", "d\n31.02.2023\n"),
            ("epochs.csv", "d\nsoon\n"),
        ],
    );
    for (command, words) in [
        (
            "load numbers.csv {db} -t t --decimal ,",
            "the decimal sign is ','",
        ),
        ("load dates.csv {db} -t t --date-format dmy", "'31.02.2023'"),
        (
            "load dates.csv {db} -t t --date-format yyyy",
            "'yyyy' is no date format",
        ),
        ("load numbers.csv {db} -t t --thousands .", "are both '.'"),
        (
            "load numbers.csv {db} -t t --type n=int64(epoch_ms)",
            "no values of type int64",
        ),
    ] {
        let refused = place.run(command);
        assert_ne!(refused.code, Some(0), "{command}");
        assert!(refused.stderr.contains(words), "{command}: {}", refused.stderr);
    }
    assert_eq!(place.sql("SELECT count(*) FROM t"), ["0"]);
}

#[test]
fn character_sets_are_told_where_they_are_clear() {
    let place = place(&[]);
    std::fs::write(place.path("x.csv"), b"a,b\n1,Fran\xe7ois d\xe9j\xe0\n").expect("there is room");
    for said in ["--encoding utf-8", "--format csv"] {
        let refused = place.run(&format!("load x.csv {{db}} -t t {said}"));
        assert_eq!(refused.code, Some(1));
        assert!(refused.stderr.contains("--encoding"), "{}", refused.stderr);
    }
    for said in ["", "--encoding auto"] {
        let loaded = place.run(&format!("load x.csv {{db}} -t t --truncate --restart {said}"));
        assert_eq!(loaded.code, Some(0), "{}", loaded.stderr);
        assert!(loaded.stderr.contains("windows-1252"), "{}", loaded.stderr);
        assert_eq!(place.sql("SELECT b FROM t"), ["François déjà"]);
    }
    // A byte that could be anything.
    std::fs::write(place.path("y.csv"), b"a,b\n1,x\xff\n").expect("there is room");
    let refused = place.run("load y.csv {db} -t t");
    assert_eq!(refused.code, Some(1));
    assert!(refused.stderr.contains("--encoding"), "{}", refused.stderr);
}

#[test]
fn rows_that_lack_fields_are_said_and_have_nulls() {
    let place = place(&[
        ("short.csv", "a,b,c\n1,x,2\n3\n4,y\n5,z,6\n"),
        ("long.csv", "a,b\n1,x,,\n2,y\n"),
        ("cut.csv", "a,b,c\n1,x,2\n3,y\nz,4\n"),
        ("notes.csv", "a,b\nx,1\ny,2\n\nSource: z\n"),
    ]);
    let cases = [
        (
            "short",
            "have fewer fields than the header",
            vec!["1|x|2", "3|-|-", "4|y|-", "5|z|6"],
        ),
        ("long", "nothing in them", vec!["1|x", "2|y"]),
        ("notes", "'Source: z'", vec!["x|1", "y|2"]),
    ];
    for (name, note, rows) in cases {
        let loaded = place.run(&format!("load {name}.csv {{db}} -t {name} --create"));
        assert_eq!(loaded.code, Some(0), "{}", loaded.stderr);
        assert!(loaded.stderr.contains(note), "{}", loaded.stderr);
        let columns = if rows[0].matches('|').count() == 2 {
            "a || '|' || coalesce(b, '-') || '|' || coalesce(c, '-')"
        } else {
            "a || '|' || b"
        };
        assert_eq!(
            place.sql(&format!("SELECT {columns} FROM {name} ORDER BY a")),
            rows
        );
        let refused = place.run(&format!(
            "load {name}.csv {{db}} -t {name} --format csv --restart"
        ));
        assert_eq!(refused.code, Some(1), "{}", refused.stderr);
    }
    let refused = place.run("load cut.csv {db} -t cut --create");
    assert!(
        refused.stderr.contains("row 2: 2 fields where 3"),
        "{}",
        refused.stderr
    );
}

#[test]
fn columns_are_named_with_types() {
    let place = place(&[("x.csv", "id,price,name\n007,1.50,x\n")]);
    let loaded = place.run("load x.csv {db} -t typed --create --columns 'id:text,price:decimal(10,2),name'");
    assert_eq!(loaded.code, Some(0), "{}", loaded.stderr);
    assert_eq!(place.sql("SELECT id FROM typed"), ["007"]);
    let plan = place.run("load x.csv {db} -t other --create --dry-run --columns id:int64,name");
    assert!(
        plan.stdout.contains("id") && !plan.stdout.contains("price"),
        "{}",
        plan.stdout
    );
    let refused = place.run("load x.csv {db} -t typed --columns id:int64,name");
    assert_eq!(refused.code, Some(2), "{}", refused.stderr);
    assert!(
        refused.stderr.contains("tables that --create makes"),
        "{}",
        refused.stderr
    );
}

#[test]
fn names_that_a_database_does_not_take_are_fitted_and_found_again() {
    let long = "n".repeat(90);
    let text = format!("a,A,{long}\n1,2,3\n");
    let place = place(&[("x.csv", &text)]);
    for _ in 0..2 {
        let loaded = place.run("load x.csv {db} -t fitted --create --ledger none");
        assert_eq!(loaded.code, Some(0), "{}", loaded.stderr);
        assert!(loaded.stderr.contains("'A' is called 'A_2'"), "{}", loaded.stderr);
    }
    assert_eq!(place.sql("SELECT A_2 FROM fitted"), ["2", "2"]);
}

#[test]
fn objects_within_objects_become_columns() {
    let place = place(&[(
        "x.json",
        "[{\"id\": 1, \"at\": {\"city\": \"Ulm\", \"no\": {}}},\n {\"id\": 2, \"at\": {\"city\": null}}]",
    )]);
    let loaded = place.run("load x.json {db} -t made --create --flatten");
    assert_eq!(loaded.code, Some(0), "{}", loaded.stderr);
    assert_eq!(
        place.sql("SELECT id, \"at.city\", \"at.no\" FROM made ORDER BY id"),
        ["1|Ulm|{}", "2|-|-"]
    );
}

#[test]
fn columns_that_a_file_lacks_are_added() {
    rows(
        "a\nx\ny\n",
        "--add batch=7 --add row={row} --add source={file} --add kind=text",
        &["x|7|1|x.csv|text", "y|7|2|x.csv|text"],
    );
    let place = place(&[("x.csv", "a\n1\n2\n"), ("y.json", "{\"a\": 3}\n")]);
    let loaded = place.run("load x.csv {db} -t t --add b={file}");
    assert_eq!(loaded.code, Some(0), "{}", loaded.stderr);
    let loaded = place.run("load y.json {db} -t t --add b=c");
    assert_eq!(loaded.code, Some(0), "{}", loaded.stderr);
    assert_eq!(
        place.sql("SELECT a, b FROM t ORDER BY a"),
        ["1|x.csv", "2|x.csv", "3|c"]
    );
    for (options, words) in [
        ("--add a=1", "a column of this name"),
        ("--add b={line}", "has no column 'line'"),
        ("--add a2=x", "which table t lacks"),
        ("--no-header --add b=1", "--add needs names"),
    ] {
        let refused = place.run(&format!("load x.csv {{db}} -t t {options}"));
        assert_ne!(refused.code, Some(0), "{options}");
        assert!(refused.stderr.contains(words), "{options}: {}", refused.stderr);
    }
    let typed =
        place.run("load {db} other.db --source-table t -t copied --create --add number={row} --add at={now}");
    assert_eq!(typed.code, Some(0), "{}", typed.stderr);
}

#[test]
fn names_are_made_plain_on_request() {
    let place = place(&[("x.csv", "First Name,%,2019\nAda,1,2\n")]);
    let loaded = place.run("load x.csv {db} -t made --create --normalize-names");
    assert_eq!(loaded.code, Some(0), "{}", loaded.stderr);
    assert_eq!(
        place.sql("SELECT first_name, unnamed, _2019 FROM made"),
        ["Ada|1|2"]
    );
    let again = place.run("load x.csv {db} -t made --normalize-names --map 2019=_2019 --restart");
    assert_eq!(again.code, Some(0), "{}", again.stderr);
}

#[test]
fn a_page_in_place_of_a_file_is_refused() {
    let page = "<!DOCTYPE html>\n<html><body>Not Found</body></html>\n";
    let place = place(&[("x.csv", page), ("y.csv", "<b>a</b>,b\n1,x\n")]);
    let refused = place.run("load x.csv {db} -t new --create");
    assert_eq!(refused.code, Some(1));
    assert!(
        refused
            .stderr
            .contains("x.csv is a web page or XML, and no table"),
        "{}",
        refused.stderr
    );
    let forced = place.run("load x.csv {db} -t new --create --format csv");
    assert_eq!(forced.code, Some(0), "{}", forced.stderr);
    let tagged = place.run("load y.csv {db} -t tagged --create");
    assert_eq!(tagged.code, Some(0), "{}", tagged.stderr);
}
