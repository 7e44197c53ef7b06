//! More than the database takes, and a database that is away: what is refused says when to come again, memory has its
//! bound, others go on, and every acknowledged row is there once.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use super::{Answer, Serve, access::token, state, url};
use crate::{
    faults::servers::Cluster,
    support::{Database, TestDatabase},
};

/// How long the overload lasts, in seconds; more by TONNAGE_SERVE_OVERLOAD_SECONDS.
const SECONDS: u64 = 5;
const SENDERS: u64 = 8;
/// Rows of a request of the overload.
const ROWS: u64 = 200;

/// Rows of one producer, put one request after the other.
struct Producer {
    name: String,
    next: u64,
}

impl Producer {
    fn put(&mut self, server: &Serve, path: &str, rows: u64, pad: &str, headers: &[&str]) -> Answer {
        let lines = (self.next..self.next + rows).map(|number| {
            let producer = &self.name;
            format!("{{\"producer\":\"{producer}\",\"number\":{number},\"pad\":\"{pad}\"}}\n")
        });
        let numbered = [
            "Content-Type: application/x-ndjson".to_owned(),
            format!("Tonnage-Producer: {}", self.name),
            format!("Tonnage-Sequence: {}", self.next),
        ];
        let all: Vec<&str> = numbered
            .iter()
            .map(String::as_str)
            .chain(headers.iter().copied())
            .collect();
        let answer = server.send("POST", path, &all, lines.collect::<String>().as_bytes());
        if answer.status == 200 {
            self.next += rows;
        }
        answer
    }
}

/// Every number of each producer is there once, and nothing else.
fn check(cluster: &Cluster, table: &str, acknowledged: &BTreeMap<String, u64>) {
    let rows = cluster.query(
        "postgres",
        &format!(
            "SELECT producer, count(*), count(DISTINCT number), max(number) FROM {table} GROUP BY producer"
        ),
    );
    let found: BTreeMap<String, Vec<Option<String>>> = rows
        .into_iter()
        .map(|mut row| (row.remove(0).expect("a name"), row))
        .collect();
    for (producer, count) in acknowledged {
        let count = Some(count.to_string());
        assert_eq!(
            found[producer],
            [count.clone(), count.clone(), count],
            "{producer}"
        );
    }
}

fn started(cluster: &Cluster, state: &std::path::Path, text: &str) -> Serve {
    let file = state.join("serve.toml");
    let (top, rest) = text.split_at(text.find('[').unwrap_or(text.len()));
    let text = format!(
        "state = {:?}\n{top}\n[databases.d]\nurl = {:?}\n[[listen]]\naddress = \"127.0.0.1:0\"\n{rest}",
        state.display().to_string(),
        cluster.url("postgres")
    );
    std::fs::write(&file, text).expect("a file");
    Serve::start(&["--config", &file.display().to_string()])
}

const TABLE: &str = "(producer text, number bigint, pad text)";

#[test]
fn ten_times_what_the_database_takes_costs_no_more_memory_and_no_row() {
    let seconds = std::env::var("TONNAGE_SERVE_OVERLOAD_SECONDS");
    let seconds = seconds
        .ok()
        .and_then(|seconds| seconds.parse().ok())
        .unwrap_or(SECONDS);
    let cluster = Cluster::start("");
    cluster.query(
        "postgres",
        &format!(
            "CREATE TABLE slow {TABLE}; CREATE TABLE quick {TABLE};
             CREATE FUNCTION wait() RETURNS trigger LANGUAGE plpgsql AS
                $$ BEGIN PERFORM pg_sleep(0.001); RETURN NEW; END $$;
             CREATE TRIGGER wait BEFORE INSERT ON slow FOR EACH ROW EXECUTE FUNCTION wait()"
        ),
    );
    let state = tempfile::tempdir().expect("a directory");
    let server = started(
        &cluster,
        state.path(),
        "memory = \"8MiB\"\ntable_memory = \"2MiB\"\njournal = \"16MiB\"\ndrain_seconds = 600\n[limits]\nwait_seconds = 5\n",
    );
    let server = Arc::new(server);
    let mut quick = Producer {
        name: "quick".to_owned(),
        next: 1,
    };
    quick
        .put(&server, "/v1/tables/quick/rows?ack=committed", 1, "", &[])
        .expect(200);
    let before = server.memory("VmRSS");
    let done = Arc::new(AtomicBool::new(false));
    let senders: Vec<_> = (0..SENDERS)
        .map(|number| {
            let (server, done) = (server.clone(), done.clone());
            thread::spawn(move || {
                let mut producer = Producer {
                    name: format!("p{number}"),
                    next: 1,
                };
                let ack = ["accepted", "journaled"][number as usize % 2];
                let path = format!("/v1/tables/slow/rows?ack={ack}");
                let pad = "x".repeat(200);
                let mut refused = 0u64;
                while !done.load(Ordering::Relaxed) {
                    let answer = producer.put(&server, &path, ROWS, &pad, &[]);
                    match answer.status {
                        200 => {}
                        // It comes again at once, and not when it is told to.
                        429 => {
                            assert!(
                                answer.head.to_ascii_lowercase().contains("retry-after: "),
                                "{}",
                                answer.head
                            );
                            refused += 1;
                        }
                        _ => panic!("{}", answer.text()),
                    }
                }
                (producer.name, producer.next - 1, refused)
            })
        })
        .collect();
    let until = Instant::now() + Duration::from_secs(seconds);
    let mut slowest = Duration::ZERO;
    while Instant::now() < until {
        let asked = Instant::now();
        quick
            .put(&server, "/v1/tables/quick/rows?ack=committed", 1, "", &[])
            .expect(200);
        slowest = slowest.max(asked.elapsed());
        thread::sleep(Duration::from_millis(20));
    }
    done.store(true, Ordering::Relaxed);
    let mut acknowledged = BTreeMap::from([("quick".to_owned(), quick.next - 1)]);
    check(&cluster, "quick", &acknowledged);
    acknowledged.clear();
    let mut refused = 0;
    for sender in senders {
        let (name, last, times) = sender.join().expect("a sender");
        acknowledged.insert(name, last);
        refused += times;
    }
    let grown = server.memory("VmHWM") - before;
    let taken: u64 = acknowledged.values().sum();
    let offered = taken + refused * ROWS;
    eprintln!(
        "{seconds} s: {offered} rows offered, {taken} taken, {refused} requests refused; memory grew by {grown} KiB; the other \
         table's slowest row took {slowest:?}"
    );
    assert!(
        refused > 0 && offered > 5 * taken,
        "{offered} rows offered, {taken} taken"
    );
    // Eight MiB of buffers, and what requests that come at once take.
    assert!(grown < 96 << 10, "memory grew by {grown} KiB");
    server.until_drained();
    check(&cluster, "slow", &acknowledged);
    let server = Arc::into_inner(server).expect("nobody else has it");
    server.stop().expect(0);
}

#[test]
fn a_database_that_is_away_fills_the_journal_and_gets_every_row_when_it_is_back() {
    let cluster = Cluster::start("");
    cluster.query(
        "postgres",
        &format!("CREATE TABLE t {TABLE}; CREATE TABLE other {TABLE}"),
    );
    let state = tempfile::tempdir().expect("a directory");
    let server = started(
        &cluster,
        state.path(),
        "table_memory = \"2MiB\"\njournal = \"16MiB\"\n[limits]\nwait_seconds = 1\n",
    );
    let mut producer = Producer {
        name: "p".to_owned(),
        next: 1,
    };
    let path = "/v1/tables/t/rows";
    producer
        .put(&server, &format!("{path}?ack=committed"), 1, "", &[])
        .expect(200);
    cluster.kill();
    server.get("/readyz").expect(200);
    let pad = "x".repeat(1_000);
    let mut refused = None;
    for _ in 0..2_000 {
        let answer = producer.put(&server, path, 50, &pad, &[]);
        match answer.status {
            200 => {}
            // Until it has noticed that the database is away, the buffer is only full.
            429 => thread::sleep(Duration::from_millis(50)),
            _ => {
                refused = Some(answer);
                break;
            }
        }
    }
    let refused = refused.expect("the journal is full in the end").expect(503);
    assert_eq!(refused.code(), "database_away");
    assert!(
        refused.head.to_ascii_lowercase().contains("retry-after: "),
        "{}",
        refused.head
    );
    assert!(producer.next > 50, "some were taken before");
    assert_eq!(server.send("GET", "/v1/tables/t/export", &[], b"").status, 503);
    server.get("/readyz").expect(200);
    cluster.restart();
    server.until_drained();
    producer
        .put(&server, &format!("{path}?ack=committed"), 1, "", &[])
        .expect(200);
    check(
        &cluster,
        "t",
        &BTreeMap::from([("p".to_owned(), producer.next - 1)]),
    );
    server.stop().expect(0);
}

#[test]
fn a_token_over_its_rate_holds_up_no_other() {
    let place = TestDatabase::with(
        Database::Sqlite,
        "CREATE TABLE t (producer text, number integer, pad text)",
        &[],
    );
    let (slow, asking, other) = (token(), token(), token());
    let text = format!(
        "state = {:?}\n[databases.d]\nurl = {:?}\n[[listen]]\naddress = \"127.0.0.1:0\"\n\
         [tokens.slow]\nsha256 = \"{}\"\nwrite = [\"t\"]\nrows_per_second = 1\n\
         [tokens.asking]\nsha256 = \"{}\"\nwrite = [\"t\"]\nrequests_per_second = 1\n\
         [tokens.other]\nsha256 = \"{}\"\nwrite = [\"t\"]\n",
        state(&place).display().to_string(),
        url(&place),
        slow.1,
        asking.1,
        other.1
    );
    place.write("serve.toml", text);
    let server = Serve::start(&["--config", &place.path("serve.toml").display().to_string()]);
    let put = |producer: &mut Producer, token: &str, rows: u64| {
        let bearer = format!("Authorization: Bearer {token}");
        producer.put(&server, "/v1/tables/t/rows?ack=committed", rows, "", &[&bearer])
    };
    let [mut first, mut second, mut third] = ["slow", "asking", "other"].map(|name| Producer {
        name: name.to_owned(),
        next: 1,
    });
    // A day's worth, which is owed from then on.
    put(&mut first, &slow.0, 80_000).expect(200);
    (0..50)
        .find(|_| put(&mut second, &asking.0, 1).status == 429)
        .expect("its rate is used up");
    for _ in 0..20 {
        let refused = put(&mut first, &slow.0, 1).expect(429);
        assert_eq!(refused.code(), "rate");
        put(&mut third, &other.0, 1).expect(200);
    }
    server.stop().expect(0);
    let found = place.sql("SELECT producer, count(*), max(number) FROM t WHERE producer <> 'asking' GROUP BY producer ORDER BY 1");
    assert_eq!(found, ["other|20|20", "slow|80000|80000"]);
}
