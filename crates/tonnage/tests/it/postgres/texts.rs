//! Types that travel as text.

use std::sync::Arc;

use arrow::{
    array::{
        ArrayRef, DurationMicrosecondArray, Int32Array, IntervalMonthDayNanoArray, ListArray, RecordBatch,
        StringArray, StructArray,
    },
    datatypes::{DataType, Field, Int32Type, IntervalMonthDayNano},
    ipc::writer::FileWriter,
};
use tonnage::{
    Database, ErrorKind,
    operation::{Method, Mode, Operation},
    plan::RejectsMax,
    table::Equality,
    target::Guard,
    types::ColumnType,
};

use super::{
    Server, TestDatabase, batch,
    values::{check, refused},
};

on_every_server! {
    what_is_written_as_text_is_the_value,
    what_the_server_refuses_or_would_round_is_a_bad_row,
    rows_within_columns_come_as_json,
    nested_and_interval_columns_of_arrow_files_arrive,
    settings_of_the_session_have_no_say,
    bad_rows_among_good_ones_are_put_aside,
    text_that_a_setting_or_a_modifier_would_change_is_refused_with_the_reason,
    keys_that_travel_as_text_are_the_tables_own,
}

const TYPES: &str = "CREATE TYPE mood AS ENUM ('sad', 'odd ''label''', 'glad'); \
    CREATE DOMAIN feeling AS mood CHECK (value <> 'sad'); CREATE DOMAIN strongly AS feeling NOT NULL; \
    CREATE DOMAIN near AS inet; CREATE DOMAIN short AS varchar(3); CREATE DOMAIN shorter AS short; \
    CREATE DOMAIN cents AS numeric(6,2); CREATE DOMAIN flags AS bit(3); \
    CREATE TYPE pair AS (a int4, b text); CREATE TYPE more AS (p pair, at timestamptz[], \"q z\" numeric(5,2), j jsonb); \
    CREATE TYPE spans AS RANGE (subtype = timestamp); CREATE DOMAIN days AS date[]; \
    CREATE EXTENSION IF NOT EXISTS citext SCHEMA public; CREATE EXTENSION IF NOT EXISTS hstore SCHEMA public; \
    CREATE EXTENSION IF NOT EXISTS ltree SCHEMA public";

/// Extensions belong to the database, so tests that make them take turns.
async fn place(server: Server) -> TestDatabase {
    let place = TestDatabase::on(server).await;
    place
        .run(&format!(
            "BEGIN; SELECT pg_advisory_xact_lock(7); {TYPES}; COMMIT"
        ))
        .await;
    place
}

fn texts(values: &[Option<&str>]) -> ArrayRef {
    Arc::new(StringArray::from(values.to_vec()))
}

async fn what_is_written_as_text_is_the_value(server: Server) {
    let place = place(server).await;
    // A type, the text that is sent, and how the server shows it where that differs.
    let cases: &[(&str, &[&str], &[&str])] = &[
        ("mood", &["sad", "glad", "odd 'label'"], &[]),
        ("feeling", &["glad"], &[]),
        ("strongly", &["glad"], &[]),
        ("public.citext", &["AbC", ""], &[]),
        (
            "inet",
            &["10.1.2.3", "10.1.2.3/8", "::1/64"],
            &["10.1.2.3/32", "10.1.2.3/8", "::1/64"],
        ),
        ("near", &["10.1.2.3"], &["10.1.2.3/32"]),
        ("cidr", &["10.0.0.0/8", "2001:db8::/32"], &[]),
        (
            "macaddr",
            &["08:00:2b:01:02:03", "08002B-010203"],
            &["08:00:2b:01:02:03", "08:00:2b:01:02:03"],
        ),
        ("macaddr8", &["08:00:2b:01:02:03:04:05"], &[]),
        (
            "interval",
            &[
                "1 year 2 mons 3 days 04:05:06.123456",
                "-00:00:00.000001",
                "P1Y2M",
                "1.5000000 seconds",
            ],
            &[
                "1 year 2 mons 3 days 04:05:06.123456",
                "-00:00:00.000001",
                "1 year 2 mons",
                "00:00:01.5",
            ],
        ),
        (
            "interval(3)",
            &["1 year 2 mons 3 days 04:05:06.123", "-00:00:00.5"],
            &[],
        ),
        (
            "timetz",
            &["12:00:00.123456+02", "00:00:00Z"],
            &["12:00:00.123456+02", "00:00:00+00"],
        ),
        ("timetz(3)[]", &["{12:00:00.123+02:30}"], &[]),
        ("tsvector", &["'a':1 'b c':2A"], &[]),
        ("tsquery", &["'a' & !'b'"], &[]),
        ("\"char\"", &["a", ""], &[]),
        ("name", &["a name"], &[]),
        ("xid", &["4294967295"], &[]),
        ("refcursor", &["cursor 1"], &[]),
        ("bit(3)", &["101"], &[]),
        ("bit", &["1"], &[]),
        ("flags", &["110"], &[]),
        ("varbit", &["", "10101", "xF0"], &["", "10101", "11110000"]),
        ("varbit(4)", &["1010"], &[]),
        ("xml", &["<a b=\"1\">\u{e9}</a>", "text <b/>"], &[]),
        (
            "public.hstore",
            &["a=>1, b=>NULL"],
            &["\"a\"=>\"1\", \"b\"=>NULL"],
        ),
        ("public.ltree", &["Top.Science.x"], &[]),
        (
            "int4range",
            &["[1,5)", "(1,5]", "empty", "(,)"],
            &["[1,5)", "[2,6)", "empty", "(,)"],
        ),
        ("int8range", &["[1,9223372036854775807)"], &[]),
        ("numrange", &["[1.10,2.000)"], &[]),
        (
            "int4[]",
            &["{1,NULL,-3}", "{}", "{{1,2},{3,4}}", "[2:3]={1,2}"],
            &[],
        ),
        ("text[]", &["{a,\"b,c\",\"\",NULL,\"NULL\",\"\u{e9}\\\"\"}"], &[]),
        ("numeric[]", &["{1.10,NaN,123456789012345678901234567890.5}"], &[]),
        ("bool[]", &["{t,f}"], &[]),
        ("float8[]", &["{0.1,Infinity}"], &[]),
        ("uuid[]", &["{00000000-0000-0000-0000-000000000001}"], &[]),
        ("mood[]", &["{sad,glad}"], &[]),
        ("inet[]", &["{10.1.2.3/8}"], &[]),
        ("bit(2)[]", &["{10,01}"], &[]),
        ("jsonb[]", &["{\"{\\\"a\\\": 1}\"}"], &[]),
        ("jsonb[]", &[r#"[{"a": 1}, [2]]"#], &[r#"{"{\"a\": 1}",[2]}"#]),
        ("near[]", &["{10.1.2.3}"], &[]),
        ("feeling[]", &["{glad}", "[\"glad\"]"], &["{glad}", "{glad}"]),
        ("interval[]", &["{1 day,-01:00:00}"], &["{\"1 day\",-01:00:00}"]),
        ("bytea[]", &["{\"\\\\x00ff\"}"], &[]),
        (
            "int8[]",
            &["[1, null, 3]", "[[1],[2]]"],
            &["{1,NULL,3}", "{{1},{2}}"],
        ),
        (
            "text[]",
            &[r#"["a,b", "", "null", null, "\\"]"#],
            &[r#"{"a,b","","null",NULL,"\\"}"#],
        ),
        ("numeric(5,2)[]", &["{1.1,-999.99}"], &["{1.10,-999.99}"]),
        ("varchar(3)[]", &["{abc,\"a  \"}"], &[]),
        ("public.hstore[]", &["{\"\\\"a\\\"=>\\\"1\\\"\"}"], &[]),
        ("date[]", &["{2020-01-31,NULL,infinity}"], &[]),
        ("days", &["{2020-01-31}"], &[]),
        ("time[]", &["{04:05:06.5}"], &[]),
        (
            "timestamp(3)[]",
            &["{2020-01-31T04:05:06.125}"],
            &["{\"2020-01-31 04:05:06.125\"}"],
        ),
        (
            "daterange",
            &[
                "[2020-01-01,2020-02-01)",
                "[2020-01-01,2020-01-31]",
                "(,)",
                "empty",
            ],
            &[
                "[2020-01-01,2020-02-01)",
                "[2020-01-01,2020-02-01)",
                "(,)",
                "empty",
            ],
        ),
        (
            "tsrange",
            &["[2020-01-01 00:00,2020-01-01T01:00:00.000001)"],
            &["[\"2020-01-01 00:00:00\",\"2020-01-01 01:00:00.000001\")"],
        ),
        (
            "datemultirange",
            &["{[2020-01-01,2020-01-03), [2021-01-01,)}"],
            &["{[2020-01-01,2020-01-03),[2021-01-01,)}"],
        ),
        ("daterange[]", &["{\"[2020-01-01,2020-01-03)\"}"], &[]),
        (
            "spans",
            &["[2020-01-01 00:00,2020-01-02 00:00]"],
            &["[\"2020-01-01 00:00:00\",\"2020-01-02 00:00:00\"]"],
        ),
        ("point", &["(0.1,-2)"], &[]),
        ("pg_lsn", &["16/B374D848"], &[]),
    ];
    for (declared, sent, shown) in cases {
        let shown = if shown.is_empty() { sent } else { shown };
        let nullable = *declared != "strongly";
        let sent: Vec<_> = sent
            .iter()
            .map(|s| Some(*s))
            .chain(nullable.then_some(None))
            .collect();
        let shown: Vec<_> = shown
            .iter()
            .map(|s| Some(*s))
            .chain(nullable.then_some(None))
            .collect();
        check(&place, declared, texts(&sent), "v::text", &shown).await;
    }
    check(
        &place,
        "shorter",
        texts(&[Some("abc")]),
        "v::text",
        &[Some("abc")],
    )
    .await;
}

async fn what_the_server_refuses_or_would_round_is_a_bad_row(server: Server) {
    let place = place(server).await;
    for (declared, value, code) in [
        ("mood", "angry", "22P02"),
        ("feeling", "sad", "23514"),
        ("inet", "10.1.2.300", "22P02"),
        ("cidr", "10.1.2.3/8", "22P02"),
        ("macaddr", "x", "22P02"),
        ("interval", "soon", "22007"),
        ("interval", "0.0000001 s", "22008"),
        ("bit(3)", "10", "22026"),
        ("bit(3)", "1010", "22026"),
        ("flags", "1010", "22026"),
        ("varbit(4)", "10101", "22001"),
        ("xml", "<a>", "2200N"),
        // Its input function calls it a syntax error, as if of SQL.
        ("public.ltree", "a..b", "42601"),
        ("int4range", "[5,1)", "22000"),
        ("int4[]", "{1,", "22P02"),
        ("int4[]", "{9999999999}", "22003"),
        ("bit(2)[]", "{101}", "22026"),
        ("shorter", "abc ", "22001"),
        ("shorter[]", "{\"abc \"}", "22001"),
        ("cents[]", "{1.234}", "22000"),
        ("interval[]", "{0.0000001 s}", "22008"),
        ("date[]", "{01/02/2020}", "22007"),
        ("date[]", "{today}", "22007"),
        ("timestamptz[]", "{2020-01-01 00:00:00}", "22007"),
        ("tsrange", "[2020-01-01 00:00:00+01,)", "22000"),
        ("daterange", "[2020-01-02,2020-01-01)", "22000"),
        ("int4[]", "[1, {}]", "22P02"),
    ] {
        refused(&place, declared, texts(&[Some(value)]), code).await;
    }
}

async fn rows_within_columns_come_as_json(server: Server) {
    let place = place(server).await;
    let json = |value: &str| -> ArrayRef { Arc::new(StringArray::from(vec![Some(value), None])) };
    for (declared, sent, shown) in [
        ("pair", r#"{"b": "x,\"y", "a": 1}"#, r#"(1,"x,""y")"#),
        ("pair", "{}", "(,)"),
        ("pair", r#"{"a": null, "b": ""}"#, r#"(,"")"#),
        (
            "more",
            r#"{"p": {"a": 2}, "at": ["2020-01-01T00:00:00+01:00"], "q z": 1.10, "j": {"k": [1.50]}}"#,
            r#"("(2,)","{""2019-12-31 23:00:00+00""}",1.10,"{""k"": [1.50]}")"#,
        ),
    ] {
        place.run("SET timezone TO 'UTC'").await;
        check(&place, declared, json(sent), "v::text", &[Some(shown), None]).await;
    }
    for (declared, value, code) in [
        ("pair", r#"{"c": 1}"#, "22P02"),
        ("pair", r#"{"a": 1, "a": 2}"#, "22P02"),
        ("pair", r#"{"a": 99999999999}"#, "22003"),
        ("pair", "[1]", "22P02"),
        ("more", r#"{"q z": 1.234}"#, "22000"),
        ("more", r#"{"at": ["2020-01-01T00:00:00"]}"#, "22007"),
    ] {
        refused(&place, declared, Arc::new(StringArray::from(vec![value])), code).await;
    }
    check(
        &place,
        "pair[]",
        texts(&[Some(r#"[{"a": 1}, null]"#)]),
        "v::text",
        &[Some(r#"{"(1,)",NULL}"#)],
    )
    .await;
}

async fn nested_and_interval_columns_of_arrow_files_arrive(server: Server) {
    let place = place(server).await;
    let database = Database::connect(&place.url).await.unwrap();
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("rows.arrow");
    let lists =
        ListArray::from_iter_primitive::<Int32Type, _, _>([Some(vec![Some(1), None]), None, Some(vec![])]);
    let pairs = StructArray::from(vec![
        (
            Arc::new(Field::new("b", DataType::Utf8, true)),
            texts(&[Some("x,\"y"), None, Some("")]),
        ),
        (
            Arc::new(Field::new("a", DataType::Int32, true)),
            Arc::new(Int32Array::from(vec![Some(1), None, Some(3)])) as ArrayRef,
        ),
    ]);
    // The years of half the server's range, whose microseconds a float does not hold.
    let long = 4_000_000_000_000_123_457;
    let durations = DurationMicrosecondArray::from(vec![Some(long), None, Some(-1)]);
    let spans = IntervalMonthDayNanoArray::from(vec![
        Some(IntervalMonthDayNano::new(14, -3, 1_000)),
        None,
        Some(IntervalMonthDayNano::new(0, 0, 1)),
    ]);
    let rows = RecordBatch::try_from_iter([
        ("list", Arc::new(lists) as ArrayRef),
        ("pair", Arc::new(pairs)),
        ("long", Arc::new(durations)),
        ("span", Arc::new(spans)),
    ])
    .unwrap();
    let mut writer = FileWriter::try_new(std::fs::File::create(&file).unwrap(), &rows.schema()).unwrap();
    writer.write(&rows).unwrap();
    writer.finish().unwrap();
    for method in [Method::Native, Method::Array, Method::Single] {
        place
            .run("DROP TABLE IF EXISTS t; CREATE TABLE t (list int4[], pair pair, long interval, span interval)")
            .await;
        let rejects = dir.path().join(format!("{method}.rejects"));
        let load = database
            .load(file.display().to_string())
            .table("t")
            .method(method);
        let report = load.rejects(&rejects, RejectsMax::Rows(1)).run().await.unwrap();
        // A nanosecond is finer than an interval.
        assert_eq!((report.rows.written, report.rows.rejected), (2, 1), "{method}");
        assert!(
            std::fs::read_to_string(&rejects)
                .unwrap()
                .contains("interval finer than a microsecond (PT0.000000001S)")
        );
        let shown =
            "SELECT concat_ws(' ', list, pair, extract(epoch FROM long), span) FROM t ORDER BY 1 DESC";
        assert_eq!(
            place.texts(shown).await,
            [
                Some(
                    "{1,NULL} (1,\"x,\"\"y\") 4000000000000.123457 1 year 2 mons -3 days +00:00:00.000001"
                        .to_owned()
                ),
                Some("(,)".to_owned())
            ],
            "{method}"
        );
    }
}

/// Whatever styles and zone the sessions of a role have.
async fn settings_of_the_session_have_no_say(server: Server) {
    let place = place(server).await;
    let styles = format!(
        "{}%20-cdatestyle%3DGerman,DMY%20-cintervalstyle%3Dsql_standard%20-ctimezone%3DAsia/Tokyo",
        place.url
    );
    let database = Database::connect(&styles).await.unwrap();
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("rows.jsonl");
    std::fs::write(
        &file,
        "{\"days\": [\"2020-02-01\"], \"spans\": \"[2020-02-01 00:00Z,)\", \"long\": \"-1 day 02:00:00\", \"at\": \"2020-02-01T00:00:00Z\"}\n",
    )
    .unwrap();
    for method in [Method::Native, Method::Array, Method::Batch] {
        place
            .run("DROP TABLE IF EXISTS t; CREATE TABLE t (days date[], spans tstzrange, long interval, at timestamptz)")
            .await;
        let load = database
            .load(file.display().to_string())
            .table("t")
            .method(method);
        let report = load.run().await.unwrap();
        assert_eq!(report.rows.written, 1, "{method}");
        let same = "SELECT count(*) FROM t WHERE days = ARRAY[make_date(2020, 2, 1)] AND at = make_timestamptz(2020, 2, 1, 0, 0, 0, 'UTC') \
                    AND lower(spans) = at AND long = make_interval(days => -1, hours => 2)";
        assert_eq!(place.number(same).await, 1, "{method}");
    }
}

async fn bad_rows_among_good_ones_are_put_aside(server: Server) {
    let place = place(server).await;
    let database = Database::connect(&place.url).await.unwrap();
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("rows.csv");
    let mut text = "id,host,mood,tags,more\n".to_owned();
    for id in 0..500 {
        let host = if id % 100 == 7 {
            "nowhere".to_owned()
        } else {
            format!("10.0.0.{}", id % 250)
        };
        let mood = if id == 300 { "angry" } else { "glad" };
        let more = if id == 301 { "a=>" } else { "a=>1" };
        text.push_str(&format!("{id},{host},{mood},\"{{{id},NULL}}\",{more}\n"));
    }
    std::fs::write(&file, text).unwrap();
    for method in [Method::Native, Method::Array, Method::Batch] {
        place
            .run(
                "DROP TABLE IF EXISTS t; \
                 CREATE TABLE t (id int8 PRIMARY KEY, host inet, mood mood, tags int4[], more public.hstore)",
            )
            .await;
        let report = database
            .load(file.display().to_string())
            .table("t")
            .method(method)
            .batch_rows(200)
            .rejects(dir.path().join(format!("{method}.rejects")), RejectsMax::Rows(10))
            .run()
            .await
            .unwrap();
        assert_eq!((report.rows.written, report.rows.rejected), (493, 7), "{method}");
        assert_eq!(
            report.notes,
            [
                "the server makes the values of host, tags, more of text: COPY of these goes through a temporary table"
            ]
        );
        assert_eq!(
            place
                .number("SELECT count(*) FROM t WHERE host = ('10.0.0.' || id % 250)::inet AND tags[1] = id")
                .await,
            493
        );
    }
}

async fn text_that_a_setting_or_a_modifier_would_change_is_refused_with_the_reason(server: Server) {
    let place = place(server).await;
    let database = Database::connect(&place.url).await.unwrap();
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("rows.csv");
    std::fs::write(&file, "v\n1\n").unwrap();
    for (declared, why) in [
        ("money[]", "(whose text depends on lc_monetary)"),
        ("interval day to second[]", "(which cuts what it is given)"),
        ("interval day", "(which cuts what it is given)"),
        ("pg_ndistinct", ""),
    ] {
        place
            .run(&format!("DROP TABLE IF EXISTS t; CREATE TABLE t (v {declared})"))
            .await;
        let load = database.load(file.display().to_string()).table("t");
        let error = load.prepare().await.err().expect("it cannot be written");
        assert_eq!(error.kind(), ErrorKind::Schema);
        let message = error.to_string();
        assert!(
            message.contains(why) && message.ends_with("which this release cannot write exactly"),
            "{declared}: {message}"
        );
    }
}

async fn keys_that_travel_as_text_are_the_tables_own(server: Server) {
    let place = place(server).await;
    // A key, whether its text is provably it, two ways to write it, and another value.
    for (declared, provable, [one, same, other]) in [
        ("mood", true, ["sad", "sad", "glad"]),
        ("public.citext", false, ["abc", "ABC", "x"]),
        ("inet", false, ["10.0.0.1", "10.0.0.1/32", "10.0.0.2"]),
        ("int4[]", false, ["{1}", "[1:1]={1}", "{2}"]),
        ("interval", false, ["1 day", "24:00:00", "2 days"]),
    ] {
        for method in [Method::Native, Method::Array, Method::Batch, Method::Single] {
            for (mode, expected, skipped) in [
                (Mode::Upsert, "b c", 0),
                (Mode::Ignore, "c old", 2),
                (Mode::Update, "b", 1),
                (Mode::Delete, "", 2),
            ] {
                place
                    .run(&format!(
                        "DROP TABLE IF EXISTS t; CREATE TABLE t (k {declared} PRIMARY KEY, v text)"
                    ))
                    .await;
                place.run(&format!("INSERT INTO t VALUES ('{one}', 'old')")).await;
                let key = vec!["k".to_owned()];
                let (operation, columns): (_, &[&str]) = match mode {
                    Mode::Upsert => (Operation::Upsert { key }, &["k", "v"]),
                    Mode::Ignore => (Operation::Ignore { key }, &["k", "v"]),
                    Mode::Update => (Operation::Update { key }, &["k", "v"]),
                    Mode::Insert | Mode::Delete => (Operation::Delete { key }, &["k"]),
                };
                let plan = place.plan("t", columns, operation, method).await;
                assert_eq!(
                    plan.table.columns[0].equality == Equality::Provable,
                    provable,
                    "{declared}"
                );
                let mut writer = place.writer(&plan).await;
                writer.begin(&[]).await.unwrap();
                // The engine keeps repeated keys apart where it can tell them.
                let mut left_out = 0;
                let writes: &[&[(&str, &str)]] = match provable {
                    true => &[&[(one, "a")], &[(same, "b"), (other, "c")]],
                    false => &[&[(one, "a"), (same, "b"), (other, "c")]],
                };
                for write in writes {
                    let keys = texts(&write.iter().map(|(k, _)| Some(*k)).collect::<Vec<_>>());
                    let values = texts(&write.iter().map(|(_, v)| Some(*v)).collect::<Vec<_>>());
                    let both = [(ColumnType::TEXT, keys), (ColumnType::TEXT, values)];
                    let rows = batch(&both[..columns.len()]);
                    let outcome = writer.write(&rows, Guard::None).await.unwrap();
                    assert!(outcome.failure.is_none(), "{:?}", outcome.failure);
                    left_out += outcome.skipped;
                }
                writer.commit(&[]).await.unwrap();
                let found = place
                    .texts("SELECT coalesce(string_agg(v, ' ' ORDER BY v), '') FROM t")
                    .await;
                let what = format!("{mode:?} by {method}, key {declared}");
                assert_eq!(
                    (found[0].as_deref(), left_out),
                    (Some(expected), skipped),
                    "{what}"
                );
            }
        }
    }
}
