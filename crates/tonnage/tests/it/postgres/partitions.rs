//! Partitioned tables, written partition by partition: every row where the server would have put it.

use std::fmt::Write as _;

use tonnage::{Database, plan::RejectsMax};

use super::{Server, TestDatabase};

on_every_server! {
    every_row_goes_where_the_server_puts_it,
    a_row_of_no_partition_is_a_reject,
    what_would_mean_something_else_goes_through_the_table,
    a_run_is_resumed_only_with_the_partitions_it_began_with,
}

/// Columns of `t`, how it is partitioned, and its partitions as `name bound`.
type Layout = (&'static str, &'static str, &'static [&'static str]);

const HASHED: &[&str] = &[
    "p0 FOR VALUES WITH (MODULUS 2, REMAINDER 0)",
    "p1 FOR VALUES WITH (MODULUS 4, REMAINDER 1)",
    "p2 FOR VALUES WITH (MODULUS 8, REMAINDER 3)",
    "p3 FOR VALUES WITH (MODULUS 8, REMAINDER 7)",
];

const LAYOUTS: &[Layout] = &[
    ("HASH (a)", "a int2", HASHED),
    ("HASH (a)", "a int4", HASHED),
    ("HASH (a)", "a int8", HASHED),
    ("HASH (a)", "a text", HASHED),
    ("HASH (a)", "a varchar(60)", HASHED),
    ("HASH (a)", "a bytea", HASHED),
    ("HASH (a)", "a bool", HASHED),
    ("HASH (a)", "a date", HASHED),
    ("HASH (a)", "a time", HASHED),
    ("HASH (a)", "a timestamp", HASHED),
    ("HASH (a)", "a timestamptz", HASHED),
    ("HASH (a)", "a uuid", HASHED),
    ("HASH (b, a)", "a int8", HASHED),
    (
        "RANGE (a)",
        "a int4",
        &[
            "p0 FOR VALUES FROM (MINVALUE) TO (-500)",
            "p1 FOR VALUES FROM (0) TO (700)",
            "p2 FOR VALUES FROM (700) TO (MAXVALUE)",
            "p3 DEFAULT",
        ],
    ),
    (
        "RANGE (a)",
        "a date",
        &[
            "p0 FOR VALUES FROM ('0001-01-01') TO ('2000-01-01')",
            "p1 FOR VALUES FROM ('2000-01-01') TO ('2000-03-01')",
            "p2 DEFAULT",
        ],
    ),
    (
        "RANGE (a)",
        "a timestamptz",
        &[
            "p0 FOR VALUES FROM ('1999-01-01 00:00+00') TO ('2000-01-01 00:00:00.000001+01')",
            "p1 DEFAULT",
        ],
    ),
    (
        "RANGE (a)",
        "a text COLLATE \"C\"",
        &[
            "p0 FOR VALUES FROM (MINVALUE) TO ('Zoë''s')",
            "p1 FOR VALUES FROM ('Zoë''s') TO (MAXVALUE)",
            "p2 DEFAULT",
        ],
    ),
    (
        "RANGE (a, b)",
        "a int4",
        &[
            "p0 FOR VALUES FROM (MINVALUE, MINVALUE) TO (0, MINVALUE)",
            "p1 FOR VALUES FROM (0, MINVALUE) TO (700, 5)",
            "p2 FOR VALUES FROM (700, 5) TO (700, MAXVALUE)",
            "p3 DEFAULT",
        ],
    ),
    (
        "LIST (a)",
        "a int4",
        &[
            "p0 FOR VALUES IN (1, 2, -7)",
            "p1 FOR VALUES IN (NULL, 0)",
            "p2 DEFAULT",
        ],
    ),
    (
        "LIST (a)",
        "a text",
        &["p0 FOR VALUES IN ('it''s, (so)', '', 'Zoë''s')", "p1 DEFAULT"],
    ),
    (
        "LIST (a)",
        "a uuid",
        &[
            "p0 FOR VALUES IN ('00000000-0000-0000-0000-000000000001')",
            "p1 DEFAULT",
        ],
    ),
];

/// Values of the type, as the server makes them of a number `n`.
fn made(column: &str) -> &'static str {
    let ty = column.split(' ').nth(1).unwrap_or_default();
    match ty {
        "int2" => "(n * 37 % 3000)::int2",
        "int4" => "CASE n % 50 WHEN 0 THEN n % 3 WHEN 1 THEN 700 ELSE n * 7919 % 3000 END",
        "int8" => "n::int8 * 98765432109876",
        "text" | "varchar(60)" => {
            "(ARRAY['', 'it''s, (so)', 'Zoë''s', repeat('é', 1 + abs(n) % 30), 'row ' || n, substr(md5(n::text), 1, 1 + abs(n) % 32)])[1 + abs(n) % 6]"
        }
        "bytea" => "decode(substr(md5(n::text), 1, 2 * (abs(n) % 17)), 'hex')",
        "bool" => "n % 3 = 0",
        "date" => "date '2000-02-01' + n",
        "time" => "time '12:00' + n * interval '7.000013 s'",
        "timestamp" => "timestamp '1999-12-31 23:59:59.5' + n * interval '3601.000007 s'",
        "timestamptz" => {
            "timestamptz '1999-12-31 23:00:00+00' + n * interval '0.0000005 s' * (n % 7) * 1000000"
        }
        "uuid" => {
            "CASE WHEN n % 10 = 0 THEN '00000000-0000-0000-0000-000000000001' ELSE md5(n::text)::uuid END"
        }
        other => panic!("no values of {other}"),
    }
}

/// Rows of a table and of the partitions that they are in.
async fn places(place: &TestDatabase, table: &str) -> Vec<Option<String>> {
    let query = format!(
        "SELECT replace(tableoid::regclass::text, '{table}_', '') || ' ' || {table}::text FROM {table} ORDER BY 1"
    );
    place.texts(&query).await
}

async fn create(place: &TestDatabase, name: &str, (by, column, partitions): &Layout) {
    let mut sql = format!(
        "DROP TABLE IF EXISTS {name}; CREATE TABLE {name} ({column}, b int8, c text) PARTITION BY {by};"
    );
    for partition in *partitions {
        let (own, bound) = partition.split_once(' ').unwrap();
        write!(sql, "CREATE TABLE {name}_{own} PARTITION OF {name} {bound};").unwrap();
    }
    place.run(&sql).await;
}

async fn every_row_goes_where_the_server_puts_it(server: Server) {
    let place = TestDatabase::on(server).await;
    let database = Database::connect(&place.url).await.unwrap();
    let dir = tempfile::tempdir().unwrap();
    for layout in LAYOUTS {
        let (by, column, partitions) = layout;
        let what = format!("{column} by {by}");
        create(&place, "u", layout).await;
        create(&place, "t", layout).await;
        place
            .run(&format!(
                "INSERT INTO u SELECT {}, n % 11, 'row ' || n FROM generate_series(-1500, 1500) n; \
                 INSERT INTO u VALUES (NULL, 3, 'null')",
                made(column)
            ))
            .await;
        let file = dir.path().join("rows.csv");
        let text = place
            .texts(
                "SELECT coalesce('\"' || a::text || '\"', '') || ',' || b || ',\"' || c || '\"' FROM u ORDER BY md5(c)",
            )
            .await;
        let lines: Vec<_> = text.into_iter().flatten().collect();
        std::fs::write(&file, format!("a,b,c\n{}\n", lines.join("\n"))).unwrap();

        let load = || {
            database
                .load(file.display().to_string())
                .table("t")
                .jobs(3)
                .batch_rows(700)
        };
        let plan = load().prepare().await.unwrap().plan().to_string();
        let shards = plan
            .lines()
            .find(|line| line.starts_with("shards"))
            .unwrap_or(&plan);
        assert!(shards.contains("t_p0, "), "{what}: {shards}");
        assert!(
            partitions.len() <= 4 && plan.contains("slots by shard"),
            "{what}: {plan}"
        );
        let report = load()
            .run()
            .await
            .unwrap_or_else(|error| panic!("{what}: {error}"));
        assert_eq!(report.rows.written as usize, lines.len(), "{what}");
        assert_eq!(places(&place, "t").await, places(&place, "u").await, "{what}");
    }
}

async fn a_row_of_no_partition_is_a_reject(server: Server) {
    let place = TestDatabase::on(server).await;
    let database = Database::connect(&place.url).await.unwrap();
    let dir = tempfile::tempdir().unwrap();
    let layout: Layout = (
        "RANGE (a)",
        "a int4",
        &[
            "p0 FOR VALUES FROM (0) TO (100)",
            "p1 FOR VALUES FROM (100) TO (200)",
        ],
    );
    create(&place, "t", &layout).await;
    place.run("ALTER TABLE t ADD CHECK (c <> 'bad')").await;
    let file = dir.path().join("rows.csv");
    let mut text = "a,b,c\n".to_owned();
    for n in 0..240 {
        let value = if n % 60 == 7 { "bad" } else { "good" };
        writeln!(text, "{n},{n},{value}").unwrap();
    }
    std::fs::write(&file, text).unwrap();
    let rejects = dir.path().join("rejects.jsonl");
    let report = database
        .load(file.display().to_string())
        .table("t")
        .jobs(2)
        .rejects(&rejects, RejectsMax::Rows(1_000))
        .run()
        .await
        .unwrap();
    assert_eq!((report.rows.written, report.rows.rejected), (196, 44));
    assert_eq!(place.number("SELECT count(*) FROM t_p0").await, 98);
    let mut rows: Vec<u64> = std::fs::read_to_string(rejects)
        .unwrap()
        .lines()
        .map(|line| {
            serde_json::from_str::<serde_json::Value>(line).unwrap()["row"]
                .as_u64()
                .unwrap()
        })
        .collect();
    rows.sort_unstable();
    let expected: Vec<_> = [8, 68, 128, 188].into_iter().chain(201..=240).collect();
    assert_eq!(rows, expected);
}

async fn what_would_mean_something_else_goes_through_the_table(server: Server) {
    let place = TestDatabase::on(server).await;
    let database = Database::connect(&place.url).await.unwrap();
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("rows.csv");
    std::fs::write(&file, "a,b\n1,1\n2,2\n3,3\n").unwrap();
    let layout: Layout = ("HASH (a)", "a int4", HASHED);
    let expression: Layout = ("HASH ((a + 1))", "a int4", HASHED);
    let function =
        "CREATE OR REPLACE FUNCTION seen() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NULL; END $$";
    let cases = [
        (&layout, "SELECT", None),
        (
            &layout,
            "CREATE TRIGGER all_of_it AFTER INSERT ON t FOR EACH STATEMENT EXECUTE FUNCTION seen()",
            Some("its statement trigger all_of_it must run"),
        ),
        (
            &layout,
            "CREATE TRIGGER part_of_it AFTER INSERT ON t_p1 FOR EACH STATEMENT EXECUTE FUNCTION seen()",
            Some("t_p1, it has a statement trigger"),
        ),
        (&expression, "SELECT", Some("it is partitioned by an expression")),
    ];
    place.run(function).await;
    for (layout, change, why) in cases {
        create(&place, "t", layout).await;
        place.run(change).await;
        let load = || database.load(file.display().to_string()).table("t");
        let plan = load().prepare().await.unwrap().plan().to_string();
        match why {
            None => assert!(plan.contains("slots by shard"), "{change}: {plan}"),
            Some(why) => assert!(
                plan.contains("is written as one table")
                    && plan.contains(why)
                    && plan.contains("slots by block"),
                "{change}: {plan}"
            ),
        }
        assert_eq!(load().run().await.unwrap().rows.written, 3, "{change}");
    }
    // A default of the partition's own counts where the file does not bring the column.
    create(&place, "t", &layout).await;
    place
        .run("ALTER TABLE t ALTER c SET DEFAULT 'all'; ALTER TABLE t_p0 ALTER c SET DEFAULT 'own'")
        .await;
    let load = || database.load(file.display().to_string()).table("t");
    assert!(
        load()
            .prepare()
            .await
            .unwrap()
            .plan()
            .to_string()
            .contains("slots by block")
    );
    load().run().await.unwrap();
    assert_eq!(place.number("SELECT count(*) FROM t WHERE c = 'all'").await, 3);
}

async fn a_run_is_resumed_only_with_the_partitions_it_began_with(server: Server) {
    let place = TestDatabase::on(server).await;
    let database = Database::connect(&place.url).await.unwrap();
    let dir = tempfile::tempdir().unwrap();
    create(&place, "t", &("HASH (a)", "a int4", HASHED)).await;
    place.run("ALTER TABLE t ADD CHECK (c <> 'bad')").await;
    let file = dir.path().join("rows.csv");
    let mut text = "a,b,c\n".to_owned();
    for n in 0..5_000 {
        let value = if n == 4_000 { "bad" } else { "good" };
        writeln!(text, "{n},{n},{value}").unwrap();
    }
    std::fs::write(&file, text).unwrap();
    let rejects = dir.path().join("rejects.jsonl");
    let load = |jobs: usize| {
        database
            .load(file.display().to_string())
            .table("t")
            .jobs(jobs)
            .batch_rows(300)
            .options(|options| options.rejects = Some(rejects.clone()))
    };
    let stopped = load(2).run().await.unwrap_err();
    assert!(stopped.to_string().contains("4001"), "{stopped}");
    let before = place.number("SELECT count(*) FROM t").await;
    assert!(before > 0 && before < 5_000, "{before} rows before the bad one");

    place.run("ALTER TABLE t_p3 RENAME TO a_p3").await;
    let refused = load(2).resume().run().await.unwrap_err();
    assert!(refused.to_string().contains("the dealing of rows"), "{refused}");

    place.run("ALTER TABLE a_p3 RENAME TO t_p3").await;
    let report = load(3)
        .resume()
        .rejects(&rejects, RejectsMax::Rows(10))
        .run()
        .await
        .unwrap();
    assert_eq!(report.rows.rejected, 1);
    assert_eq!(place.number("SELECT count(*) FROM t").await, 4_999);
    assert_eq!(place.number("SELECT count(DISTINCT a) FROM t").await, 4_999);
}
