//! Every target's ledger against one plain model: after each step of a random sequence all of its answers, and
//! the number of rows in the table, are the model's. A ledger that is a file beside its database does not carry rows, and
//! waits for nobody.

mod sequence;

use std::sync::Arc;

use futures::future::{BoxFuture, join_all};
use tonnage::target::Target;
use tonnage_testing::memory::Memory;

use self::sequence::Sequence;
#[cfg(feature = "postgres")]
use crate::postgres::{Server, TestDatabase};

const STEPS: usize = 80;
const SEEDS: u64 = 12;

/// A database of the sequence's own, and how its table is counted behind the target's back.
struct Subject {
    target: Arc<dyn Target>,
    count: Count,
}

enum Count {
    /// Of rows that move with the ledger.
    Rows(Box<dyn Fn() -> BoxFuture<'static, i64> + Send + Sync>),
    /// They are in the table whatever becomes of their write.
    Apart,
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn memory() {
    check(|| {
        Box::pin(async {
            let memory = Memory::new();
            Subject {
                target: Arc::new(memory.clone()),
                count: Count::rows(move || {
                    let rows = memory.rows("t").len() as i64;
                    Box::pin(async move { rows })
                }),
            }
        })
    })
    .await;
}

#[cfg(feature = "sqlite")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sqlite() {
    check(|| {
        Box::pin(async {
            let directory = tempfile::tempdir().unwrap();
            let path = directory.path().join("test.db");
            let target = tonnage::targets::sqlite::SqliteTarget::connect(path.to_str().unwrap());
            Subject {
                target: Arc::new(target.await.unwrap()),
                count: Count::rows(move || {
                    let connection = rusqlite::Connection::open(directory.path().join("test.db")).unwrap();
                    let rows = connection.query_row("SELECT count(*) FROM t", [], |row| row.get(0));
                    Box::pin(async move { rows.unwrap() })
                }),
            }
        })
    })
    .await;
}

#[cfg(feature = "postgres")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn postgres() {
    check(|| Box::pin(on_postgres(Server::System))).await;
}

#[cfg(feature = "postgres")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn postgres_18() {
    check(|| Box::pin(on_postgres(Server::Newest))).await;
}

#[cfg(feature = "postgres")]
async fn on_postgres(server: Server) -> Subject {
    let place = Arc::new(TestDatabase::on(server).await);
    Subject {
        target: place.target.clone(),
        count: Count::rows(move || {
            let place = place.clone();
            Box::pin(async move { place.number("SELECT count(*) FROM t").await })
        }),
    }
}

#[cfg(feature = "mysql")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn mysql() {
    check(|| {
        Box::pin(async {
            let place = Arc::new(crate::mysql::TestDatabase::new().await);
            Subject {
                target: place.target.clone(),
                count: Count::rows(move || {
                    let place = place.clone();
                    Box::pin(async move { place.number("SELECT count(*) FROM t").await })
                }),
            }
        })
    })
    .await;
}

#[cfg(feature = "cassandra")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_local_file() {
    let place = crate::cassandra::TestDatabase::new(&["CREATE TABLE t (id bigint PRIMARY KEY)"]).await;
    let count = std::sync::atomic::AtomicUsize::new(0);
    check(|| {
        let number = count.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let url = place.url.replace("runs.ledger", &format!("{number}.ledger"));
        Box::pin(async move {
            Subject {
                target: tonnage::targets::connect(&url).await.unwrap(),
                count: Count::Apart,
            }
        })
    })
    .await;
}

/// Sequences at once: they wait more than they compute.
async fn check(subject: impl Fn() -> BoxFuture<'static, Subject>) {
    let sequence = |seed| {
        let subject = subject();
        async move {
            let mut sequence = Sequence::new(subject.await, seed).await;
            for _ in 0..STEPS {
                sequence.step().await;
                sequence.compare().await;
            }
        }
    };
    join_all((1..=SEEDS).map(sequence)).await;
}

impl Count {
    fn rows(count: impl Fn() -> BoxFuture<'static, i64> + Send + Sync + 'static) -> Self {
        Self::Rows(Box::new(count))
    }
}

impl Subject {
    fn carries_rows(&self) -> bool {
        matches!(self.count, Count::Rows(_))
    }
}
