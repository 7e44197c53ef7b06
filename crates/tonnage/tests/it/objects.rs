//! URLs of object stores and web servers, as a user of the library writes them.

use std::{
    io::{Read, Write},
    net::TcpStream,
    process::Command,
};

use tonnage::{Database, fetch::Fetched};

/// What the test below is told its bucket by.
const BUCKET: &str = "TONNAGE_TEST_OBJECTS_BUCKET";

/// Which store answers is told by the environment, so the other test has a process of its own.
#[test]
fn builders_take_urls() {
    let store = std::env::var("TONNAGE_TEST_S3_URL").expect("make test starts the servers");
    let bucket = format!("library-{}", std::process::id());
    let host = store.trim_start_matches("http://");
    let mut made = TcpStream::connect(host).unwrap();
    // moto lets in whoever says who he is.
    let request = format!(
        "PUT /{bucket} HTTP/1.1\r\nHost: {host}\r\nContent-Length: 0\r\nConnection: close\r\nAuthorization: AWS4-HMAC-SHA256 \
         Credential=tester/20260101/us-east-1/s3/aws4_request, Signature=0\r\n\r\n"
    );
    made.write_all(request.as_bytes()).unwrap();
    let mut said = String::new();
    made.read_to_string(&mut said).unwrap();
    assert!(said.starts_with("HTTP/1.1 200"), "{said}");
    let ran = Command::new(std::env::current_exe().unwrap())
        .args(["--ignored", "--exact", "objects::from_a_store_and_to_it"])
        .env(BUCKET, &bucket)
        .env("AWS_ENDPOINT_URL", &store)
        .env("AWS_ACCESS_KEY_ID", "tester")
        .env("AWS_SECRET_ACCESS_KEY", "tester")
        .env("AWS_REGION", "us-east-1")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&ran.stdout);
    assert!(ran.status.success() && said.contains("1 passed"), "{said}");
}

#[tokio::test]
#[ignore = "builders_take_urls runs it with a store in the environment"]
async fn from_a_store_and_to_it() {
    let lake = format!("s3://{}", std::env::var(BUCKET).unwrap());
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("shop.db");
    let made = rusqlite::Connection::open(&path).unwrap();
    made.execute_batch(
        "CREATE TABLE orders (id INTEGER PRIMARY KEY, quantity INTEGER);
         INSERT INTO orders VALUES (1, 10), (2, 20), (3, 30);
         CREATE TABLE taken (id INTEGER PRIMARY KEY, quantity INTEGER)",
    )
    .unwrap();
    let numbers = |query: &str| -> Vec<i64> {
        let mut statement = made.prepare(query).unwrap();
        let rows = statement.query_map([], |row| row.get(0)).unwrap();
        rows.collect::<Result<_, _>>().unwrap()
    };
    let db = Database::connect(&path.display().to_string()).await.unwrap();

    for name in ["orders.parquet", "orders.csv"] {
        let unload = db.unload("orders").to(format!("{lake}/out/{name}")).run();
        assert_eq!(unload.await.unwrap().rows, 3);
    }
    let there = db
        .unload("orders")
        .to(format!("{lake}/out/orders.csv"))
        .run()
        .await;
    assert!(there.is_err_and(|error| error.to_string().contains("exists")));
    db.unload("orders")
        .to(format!("{lake}/out/orders.csv"))
        .overwrite()
        .run()
        .await
        .unwrap();

    // One object, a glob, and what is new behind a prefix.
    let load = |input: &str| db.load(format!("{lake}/{input}")).table("taken").upsert(["id"]);
    let report = load("out/orders.parquet").run().await.unwrap();
    assert_eq!(report.rows.to_string(), "3 read = 3 written");
    let report = load("out/*.csv").new_files().run().await.unwrap();
    assert_eq!(report.rows.to_string(), "3 read = 3 written");
    assert_eq!(numbers("SELECT sum(quantity) FROM taken"), [60]);

    let moved = db.exec("update taken set quantity = quantity + :quantity where id = :id");
    moved
        .from(format!("{lake}/out/orders.csv"))
        .touches(["id"])
        .run()
        .await
        .unwrap();
    assert_eq!(numbers("SELECT quantity FROM taken ORDER BY id"), [20, 40, 60]);

    let mut get = db
        .bulk_get("taken")
        .keys_from(format!("{lake}/out/orders.parquet"))
        .start()
        .await
        .unwrap();
    let mut found = 0;
    while let Some(fetched) = get.next().await.unwrap() {
        if let Fetched::Rows(batch) = fetched {
            found += batch.num_rows();
        }
    }
    assert_eq!((found, get.finish().unwrap().keys.missing), (3, 0));

    let verify = db
        .verify("orders")
        .files(format!("{lake}/out/orders.csv"))
        .key(["id"]);
    assert!(verify.run().await.unwrap().agrees);

    let none = load("out/none.csv").run().await.unwrap_err();
    assert!(none.hint_text().is_some_and(|hint| !hint.is_empty()), "{none}");
}
