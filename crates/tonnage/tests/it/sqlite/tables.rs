//! Finding, reading and creating tables and files.

use tonnage::{
    ColumnType, ErrorKind,
    operation::{Durability, Method},
    table::{ColumnSpec, Equality, Key, TableName, TableSpec},
    targets::{DRIVERS, sqlite::SqliteTarget},
};

use super::{Database, new_run, pairs};

#[tokio::test]
async fn a_table_as_the_schema_has_it() {
    let database = Database::new(
        "CREATE TABLE Orders (id INTEGER PRIMARY KEY, code TEXT NOT NULL COLLATE NOCASE, region TEXT
           DEFAULT 'eu', price DECIMAL(10,2), total AS (price * 2), note JSONB, UNIQUE (region, code));
         CREATE UNIQUE INDEX by_code ON Orders (code);
         CREATE UNIQUE INDEX partly ON Orders (price) WHERE price > 0;
         CREATE UNIQUE INDEX expressed ON Orders (lower(region));
         CREATE TRIGGER tr AFTER INSERT ON Orders BEGIN SELECT 1; END;
         CREATE VIEW seen AS SELECT * FROM Orders;
         CREATE TABLE pair (b TEXT, a TEXT, PRIMARY KEY (a, b)) WITHOUT ROWID;",
    )
    .await;
    let table = database.table("orders").await;
    assert_eq!(table.name, TableName::bare("Orders"));
    let key = |columns: &[&str], primary| Key {
        columns: columns.iter().map(|name| (*name).to_owned()).collect(),
        primary,
    };
    assert_eq!(table.keys[0], key(&["id"], true));
    assert!(
        table.keys.contains(&key(&["code"], false)) && table.keys.contains(&key(&["region", "code"], false))
    );
    assert_eq!(
        table.keys.len(),
        3,
        "neither the partial index nor the one on an expression: {:?}",
        table.keys
    );
    let seen: Vec<_> = table
        .columns
        .iter()
        .map(|c| {
            (
                c.name.as_str(),
                c.ty,
                c.nullable,
                c.has_default,
                c.generated,
                c.equality,
            )
        })
        .collect();
    use Equality::{Provable, ServerOnly};
    let price = ColumnType::Decimal {
        precision: 10,
        scale: 2,
    };
    assert_eq!(
        seen,
        [
            ("id", Some(ColumnType::Int64), true, true, false, Provable),
            ("code", Some(ColumnType::TEXT), false, false, false, ServerOnly),
            ("region", Some(ColumnType::TEXT), true, true, false, Provable),
            ("price", Some(price), true, false, false, ServerOnly),
            ("total", Some(ColumnType::Any), true, false, true, ServerOnly),
            ("note", None, true, false, false, ServerOnly),
        ]
    );
    assert_eq!(table.notes, ["1 trigger on the table runs for every row"]);
    let pair = database.table("pair").await;
    assert_eq!(pair.keys, [key(&["a", "b"], true)]);
    assert!(
        pair.columns
            .iter()
            .all(|column| !column.nullable && !column.has_default)
    );
    assert_eq!(database.target.table_names().await.unwrap(), ["Orders", "pair"]);

    let error = database.target.table(&TableName::bare("seen")).await.unwrap_err();
    assert_eq!(
        (error.kind(), error.to_string().as_str()),
        (ErrorKind::Schema, "seen is a view")
    );
    assert_eq!(
        database.target.table(&TableName::bare("order")).await.unwrap(),
        None
    );
    let in_schema = |schema: &str| TableName {
        schema: Some(schema.to_owned()),
        name: "pair".to_owned(),
    };
    assert!(database.target.table(&in_schema("main")).await.unwrap().is_some());
    let error = database.target.table(&in_schema("public")).await.unwrap_err();
    assert_eq!(error.to_string(), "there is no schema 'public'");
}

#[tokio::test]
async fn identity_tells_the_same_table_from_its_successor() {
    let schema = "CREATE TABLE t (id INTEGER PRIMARY KEY, name TEXT)";
    let database = Database::new(schema).await;
    let before = database.table("t").await.identity;
    let run = new_run(&database, "t", "1").await;
    database.target.ledger().start(&run).await.unwrap();
    assert_eq!(
        database.table("t").await.identity,
        before,
        "the ledger's tables change nothing"
    );
    database
        .other()
        .execute_batch("ALTER TABLE t ADD COLUMN c")
        .unwrap();
    let altered = database.table("t").await.identity;
    assert_eq!(altered.object, before.object);
    assert_ne!(altered.shape, before.shape);
    database
        .other()
        .execute_batch("CREATE INDEX i ON t (c); VACUUM")
        .unwrap();
    assert_eq!(database.table("t").await.identity.object, before.object);
    database.other().execute_batch("DROP TABLE t").unwrap();
    database.other().execute_batch(schema).unwrap();
    let again = database.table("t").await.identity;
    assert_ne!(again.object, before.object);
    assert_eq!(again.shape, before.shape);
}

#[tokio::test]
async fn looking_makes_no_file() {
    let database = Database::new("").await;
    assert_eq!(database.target.table(&TableName::bare("t")).await.unwrap(), None);
    assert!(database.target.table_names().await.unwrap().is_empty());
    assert!(
        database
            .target
            .ledger()
            .runs(&tonnage::ledger::RunQuery::Newest(1_000))
            .await
            .unwrap()
            .is_empty()
    );
    assert!(!database.target.ledger().forget("x").await.unwrap());
    assert!(!database.path().exists());
    let spec = TableSpec {
        name: TableName::bare("t"),
        columns: vec![ColumnSpec {
            name: "id".to_owned(),
            ty: ColumnType::Int64,
            nullable: false,
        }],
        key: vec!["id".to_owned()],
    };
    database.target.create(&spec).await.unwrap();
    assert!(
        database
            .target
            .ledger()
            .runs(&tonnage::ledger::RunQuery::Newest(1_000))
            .await
            .unwrap()
            .is_empty()
    );
    assert_eq!(database.target.ledger().slots("x").await.unwrap(), []);
    let mode: String = database
        .other()
        .query_row("PRAGMA journal_mode", [], |row| row.get(0))
        .unwrap();
    assert_eq!(mode, "wal");
    assert_eq!(database.table("t").await.primary_key().unwrap().columns, ["id"]);
    let error = database.target.create(&spec).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "table t cannot be created: table \"t\" already exists"
    );
}

#[tokio::test]
async fn settings_say_what_a_writer_sets() {
    let wal =
        Database::new("PRAGMA journal_mode = WAL; CREATE TABLE t (id INTEGER PRIMARY KEY, name TEXT)").await;
    assert_eq!(
        wal.target.settings(Durability::Durable),
        [
            "synchronous = FULL",
            "foreign_keys = ON",
            "busy_timeout = 10000",
            "cache_size = -65536",
            "wal_autocheckpoint = 0"
        ]
    );
    assert_eq!(
        wal.target.settings(Durability::Relaxed)[0],
        "synchronous = NORMAL"
    );
    let journal = Database::new("CREATE TABLE t (id INTEGER PRIMARY KEY, name TEXT)").await;
    assert_eq!(
        journal.target.settings(Durability::Durable)[0],
        "synchronous = EXTRA"
    );
    assert_eq!(
        journal.target.settings(Durability::Relaxed)[0],
        "synchronous = FULL"
    );
    for database in [&wal, &journal] {
        for durability in [Durability::Durable, Durability::Relaxed] {
            let mut plan = database.plan("t", &super::PAIR, Method::Native).await;
            plan.durability = durability;
            assert!(database.write(&plan, &pairs(&[(None, "x")])).await.is_none());
        }
    }
    let mode: String = journal
        .other()
        .query_row("PRAGMA journal_mode", [], |row| row.get(0))
        .unwrap();
    assert_eq!(mode, "delete", "a file keeps its journal mode");
}

#[tokio::test]
async fn likely_mistakes() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name).display().to_string();
    std::fs::write(path("orders.csv"), "id,name\n".repeat(100)).unwrap();
    for (url, message) in [
        (
            path("orders.csv"),
            format!("{} is not a SQLite database", path("orders.csv")),
        ),
        (
            path("no/t.db"),
            format!("{}: the directory {} does not exist", path("no/t.db"), path("no")),
        ),
        (path(""), format!("{} is a directory", path(""))),
        (
            "sqlite::memory:".to_owned(),
            "a database in memory would be gone when the load ends".to_owned(),
        ),
        (
            "sqlite:x.db?mode=ro".to_owned(),
            "unknown option 'mode' in 'sqlite:x.db?mode=ro'".to_owned(),
        ),
    ] {
        let error = SqliteTarget::connect(&url).await.err().unwrap();
        assert_eq!((error.kind(), error.to_string()), (ErrorKind::Config, message));
        assert!(error.hint_text().is_some());
    }
    let driver = DRIVERS
        .iter()
        .find(|driver| driver.schemes.contains(&"sqlite"))
        .unwrap();
    let target = (driver.connect)(&path("new.db"), None).await.unwrap();
    assert!(target.capabilities().product.starts_with("SQLite 3."));
}
