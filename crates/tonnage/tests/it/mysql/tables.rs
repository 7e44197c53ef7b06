//! Tables as the catalogue has them.

use tonnage::{
    ErrorKind,
    table::{Equality, TableName},
};

use super::TestDatabase;

#[tokio::test]
async fn columns_keys_and_notes() {
    let place = TestDatabase::new().await;
    place
        .run(
            "CREATE TABLE t (id int AUTO_INCREMENT, name varchar(20) COLLATE utf8mb4_bin NOT NULL DEFAULT 'x', \
             code varbinary(8), exact varchar(8) COLLATE utf8mb4_nopad_bin, j json, g int AS (length(code)) STORED, \
             w float(7,3), shape geometry, sum decimal(10,2), PRIMARY KEY (id), UNIQUE (name, code), UNIQUE (exact(3)));\n\
             CREATE TRIGGER tr BEFORE INSERT ON t FOR EACH ROW SET NEW.name = 'y'",
        )
        .await;
    let table = place.table("t").await;
    let lines: Vec<_> = table
        .columns
        .iter()
        .map(|c| {
            format!(
                "{} {} {}{}{}{}",
                c.name,
                c.ty.map_or_else(|| c.declared.clone(), |ty| ty.to_string()),
                if c.nullable { "null" } else { "not null" },
                if c.has_default { " default" } else { "" },
                if c.generated { " generated" } else { "" },
                if c.equality == Equality::Provable {
                    " provable"
                } else {
                    ""
                },
            )
        })
        .collect();
    assert_eq!(
        lines,
        [
            "id int32 not null default provable",
            "name varchar(20) not null default",
            "code bytes null provable",
            "exact varchar(8) null provable",
            "j json null",
            "g int32 null generated provable",
            "w float32 null",
            "shape bytes null",
            "sum decimal(10,2) null provable",
        ]
    );
    let keys: Vec<_> = table
        .keys
        .iter()
        .map(|k| (k.columns.join(","), k.primary))
        .collect();
    assert_eq!(keys, [("id".to_owned(), true), ("name,code".to_owned(), false)]);
    assert_eq!(
        table.notes,
        [
            "triggers see every row and may change it: BEFORE INSERT tr",
            "w may keep a negative zero as zero",
            "w keeps 3 digits after the point, as near as a binary fraction comes; more are refused",
            "shape travels as well-known binary (WKB), with its reference system (EWKB) where it has one",
            "the server keeps commits with innodb_flush_log_at_trx_commit = 1, no binary log; a session cannot \
             change it",
        ]
    );
}

#[tokio::test]
async fn names_are_exact_else_unique_without_case() {
    let place = TestDatabase::new().await;
    place
        .run("CREATE TABLE Orders (a int);\nCREATE TABLE `odd.na``me` (a int);\nCREATE VIEW v AS SELECT 1;\nCREATE SEQUENCE s")
        .await;
    let d = &place.database;
    assert_eq!(
        place.table("orders").await.name.to_string(),
        format!("{d}.Orders")
    );
    assert_eq!(place.table(&format!("{d}.ORDERS")).await.name.name, "Orders");
    assert_eq!(place.table("\"odd.na`me\"").await.name.name, "odd.na`me");
    assert!(
        place
            .target
            .table(&TableName::bare("none"))
            .await
            .unwrap()
            .is_none()
    );
    let error = place.target.table(&TableName::bare("v")).await.unwrap_err();
    assert_eq!(error.to_string(), format!("{d}.v is a view, not a table"));
    let error = place.target.table(&TableName::bare("s")).await.unwrap_err();
    assert_eq!(error.to_string(), format!("{d}.s is a sequence, not a table"));
    place.run("CREATE TABLE ORDERS (a int)").await;
    let error = place.target.table(&TableName::bare("orders")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Schema);
    assert_eq!(
        error.to_string(),
        format!("'orders' could be any of {d}.ORDERS, {d}.Orders")
    );
    assert_eq!(
        place.target.table_names().await.unwrap(),
        ["ORDERS", "Orders", "odd.na`me"]
    );
}

#[tokio::test]
async fn a_table_that_is_made_again_or_altered_looks_different() {
    let place = TestDatabase::new().await;
    place.run("CREATE TABLE t (a int)").await;
    let first = place.table("t").await.identity;
    place
        .run("INSERT INTO t VALUES (1);\nDELETE FROM t;\nANALYZE TABLE t")
        .await;
    assert_eq!(place.table("t").await.identity, first);
    let mut seen = vec![first.shape.clone()];
    for change in [
        "DROP TABLE t;\nCREATE TABLE t (a int)",
        "ALTER TABLE t ADD COLUMN b int",
        "ALTER TABLE t ADD UNIQUE (a)",
        "ALTER TABLE t MODIFY a bigint",
        "TRUNCATE t",
    ] {
        place.run(change).await;
        let identity = place.table("t").await.identity;
        // One name is one place in the ledger, where what has changed is refused.
        assert_eq!(identity.object, first.object);
        assert!(!seen.contains(&identity.shape), "{change}");
        seen.push(identity.shape);
    }
}

#[tokio::test]
async fn a_user_without_the_privilege_process_is_told_what_that_costs() {
    let place = TestDatabase::new().await;
    place.run("CREATE TABLE t (a int)").await;
    let user = format!("user_{}", place.database);
    place
        .run(&format!(
            "CREATE USER {user}@'%' IDENTIFIED BY 'p';\nGRANT ALL ON {}.* TO {user}@'%'",
            place.database
        ))
        .await;
    let (_, address) = place.url.rsplit_once('@').unwrap();
    let target = super::connect(&format!("mariadb://{user}:p@{address}"))
        .await
        .unwrap();
    let table = target.table(&TableName::bare("t")).await.unwrap().unwrap();
    assert!(
        table.identity.shape.contains("\nmade 2"),
        "{}",
        table.identity.shape
    );
    let told = table
        .notes
        .iter()
        .any(|note| note.contains("the privilege PROCESS"));
    assert!(told, "{:?}", table.notes);
    assert_eq!(target.table(&TableName::bare("t")).await.unwrap().unwrap(), table);
    place.run(&format!("DROP USER {user}@'%'")).await;
}

/// The server has a bound on the prepared statements of all sessions together.
#[tokio::test]
async fn what_is_run_once_is_freed() {
    let place = TestDatabase::new().await;
    place.run("CREATE TABLE looked_up (id int PRIMARY KEY)").await;
    let held = async || {
        let held = "SELECT variable_value FROM information_schema.global_status \
                    WHERE variable_name = 'PREPARED_STMT_COUNT'";
        place.number(held).await
    };
    let before = held().await;
    for _ in 0..500 {
        place.table("looked_up").await;
    }
    // Three and more for each look-up would be held if they were not freed; other tests hold some at the same time.
    let more = held().await - before;
    assert!(more < 1_000, "{more} more statements are held");
}
