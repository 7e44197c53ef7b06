//! Files as people have them, each loaded without an option into a table that is made for it: all into SQLite, those in which
//! databases may differ into PostgreSQL and MariaDB too.
//!
//! Connections are without TLS: each load makes its own.
//!
//! What a case expects is the number of rows, or the words of the refusal: nothing is loaded in half, and a refusal says
//! why. The share that loads has a floor, which rises with what is learnt to read.

mod corpus;

use std::{fmt::Write, sync::Arc};

use futures::StreamExt;
use tonnage::{
    load::{Progress, prepare_files},
    operation::Durability,
    plan::{Create, LoadOptions},
    sources::{Scan, TextOptions},
    stop::Stop,
    table::TableName,
    target::Target,
};

use self::corpus::{Expected, Oddity, corpus, of_databases};

/// Loads that go on at the same time.
const LOADS_AT_ONCE: usize = 6;

/// Of a hundred kinds, how many have to load at the first try.
const LOADED_MIN: usize = 93;

/// Loads a file as the command line does without options but `--create`: the rows written, or what refused it.
async fn load(target: &Arc<dyn Target>, url: &str, path: String, table: String) -> Result<u64, String> {
    let options = LoadOptions {
        create: Create::New,
        // What is tested is how files are read, not the disk.
        durability: Some(Durability::Relaxed),
        jobs: Some(1),
        ..LoadOptions::new(TableName::bare(table))
    };
    let shown = |error: tonnage::Error| match error.hint_text() {
        Some(hint) => format!("{error}; hint: {hint}"),
        None => error.to_string(),
    };
    let text = TextOptions {
        scan: Scan::Auto,
        ..TextOptions::default()
    };
    let prepared = prepare_files(target.clone(), url.to_owned(), &[path], None, &text, options).await;
    let ended = prepared
        .map_err(shown)?
        .run(Arc::<Progress>::default(), Stop::default())
        .await
        .map_err(shown)?;
    match ended.error {
        None => Ok(ended.report.rows.written),
        Some(error) => Err(shown(error)),
    }
}

/// Loads every case into a database, and compares what came of it with what is expected.
async fn check(target: Arc<dyn Target>, url: &str, cases: Vec<Oddity>) {
    let directory = tempfile::tempdir().unwrap();
    let loads = cases.iter().enumerate().map(|(index, case)| {
        let place = directory.path().join(index.to_string());
        std::fs::create_dir(&place).unwrap();
        let path = place.join(case.file);
        std::fs::write(&path, &case.bytes).unwrap();
        let path = path.to_string_lossy().into_owned();
        let (target, table) = (&target, format!("odd_{index}"));
        async move { (case, load(target, url, path, table).await) }
    });
    // Databases wait for their disk.
    let ended: Vec<_> = futures::stream::iter(loads)
        .buffered(LOADS_AT_ONCE)
        .collect()
        .await;
    let (mut loaded, mut wrong) = (0, String::new());
    for (case, got) in ended {
        loaded += usize::from(got.is_ok());
        let is_right = match (&case.expected, &got) {
            (Expected::Rows(rows), Ok(written)) => rows == written,
            (Expected::Refused(words), Err(message)) => message.contains(words),
            _ => false,
        };
        if !is_right {
            writeln!(wrong, "{}: expected {:?}, got {got:?}", case.name, case.expected).unwrap();
        }
    }
    assert!(wrong.is_empty(), "of {} cases:\n{wrong}", cases.len());
    assert!(
        loaded * 100 >= cases.len() * LOADED_MIN,
        "{loaded} of {} kinds load without an option",
        cases.len()
    );
    println!("{loaded} of {} kinds load without an option", cases.len());
}

#[cfg(feature = "sqlite")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn odd_files_load_into_sqlite() {
    let directory = tempfile::tempdir().unwrap();
    let url = format!("sqlite:{}", directory.path().join("odd.db").display());
    let target = tonnage::targets::connect(&url).await.unwrap();
    check(target, &url, corpus()).await;
}

#[cfg(feature = "postgres")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn odd_files_load_into_postgres() {
    let place = crate::postgres::TestDatabase::on(crate::postgres::Server::System).await;
    let url = format!("{}&sslmode=disable", place.url);
    check(
        tonnage::targets::connect(&url).await.unwrap(),
        &url,
        of_databases(),
    )
    .await;
}

#[cfg(feature = "mysql")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn odd_files_load_into_mariadb() {
    let place = crate::mysql::TestDatabase::new().await;
    let url = format!("{}?sslmode=disable", place.url);
    check(
        tonnage::targets::connect(&url).await.unwrap(),
        &url,
        of_databases(),
    )
    .await;
}
