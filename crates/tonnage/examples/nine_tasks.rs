//! What loads and gets of Cassandra are measured against: nine tasks that each put or look up one row at a time and wait
//! for the answer, by the same driver over one session.
//!
//!     nine_tasks put relaxed|majority cassandra://HOST:PORT,..../KEYSPACE TABLE ROWS
//!     nine_tasks get relaxed|majority cassandra://HOST:PORT,..../KEYSPACE TABLE KEYS
//!
//! `ROWS` is a CSV file of integers and text without quotes (`id,body`) below a header, `KEYS` one of integers below a
//! header. Both are read before the time begins. Prints the seconds that the rows took, without connecting, and the
//! processor seconds of the whole process.

use std::{
    error::Error,
    fs,
    process::ExitCode,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Instant,
};

use scylla::{
    client::{session::Session, session_builder::SessionBuilder},
    statement::{Consistency, prepared::PreparedStatement},
};

const TASKS: usize = 9;

type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

#[tokio::main]
async fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match run(&arguments).await {
        Ok((seconds, rows)) => {
            eprintln!("{rows} rows");
            println!("{seconds:.3} {:.3}", processor_seconds().unwrap_or(0.0));
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn run(arguments: &[String]) -> Outcome<(f64, usize)> {
    let [way, level, url, table, file] = arguments else {
        return Err("nine_tasks put|get relaxed|majority URL TABLE FILE".into());
    };
    let level = match level.as_str() {
        "relaxed" => Consistency::One,
        "majority" => Consistency::Quorum,
        other => return Err(format!("'{other}' is no level").into()),
    };
    let place = url.trim_start_matches("cassandra://");
    let (nodes, keyspace) = place.split_once('/').ok_or("the URL names no keyspace")?;
    let keyspace = keyspace.split('?').next().unwrap_or_default();
    let nodes: Vec<&str> = nodes.split(',').collect();
    let session = SessionBuilder::new().known_nodes(&nodes).build().await?;
    session.use_keyspace(keyspace, true).await?;
    let cql = match way.as_str() {
        "put" => format!("INSERT INTO \"{table}\" (id, body) VALUES (?, ?)"),
        "get" => format!("SELECT id, body FROM \"{table}\" WHERE id = ?"),
        other => return Err(format!("'{other}' is no way to treat rows").into()),
    };
    let puts = way == "put";
    let mut statement = session.prepare(cql).await?;
    statement.set_consistency(level);
    let rows = Arc::new(read(&fs::read_to_string(file)?)?);
    let (session, statement) = (Arc::new(session), Arc::new(statement));
    let next = Arc::new(AtomicUsize::new(0));
    let started = Instant::now();
    let tasks: Vec<_> = (0..TASKS)
        .map(|_| {
            let (session, statement) = (session.clone(), statement.clone());
            let (rows, next) = (rows.clone(), next.clone());
            tokio::spawn(async move { treat(&session, &statement, &rows, &next, puts).await })
        })
        .collect();
    let mut done = 0;
    for task in tasks {
        done += task.await??;
    }
    Ok((started.elapsed().as_secs_f64(), done))
}

/// One task: takes the next row and waits for its answer, until there is none left.
async fn treat(
    session: &Session,
    statement: &PreparedStatement,
    rows: &[(i32, String)],
    next: &AtomicUsize,
    puts: bool,
) -> Outcome<usize> {
    let mut done = 0;
    while let Some((id, body)) = rows.get(next.fetch_add(1, Ordering::Relaxed)) {
        if puts {
            session.execute_unpaged(statement, (id, body)).await?;
            done += 1;
        } else {
            let found = session.execute_unpaged(statement, (id,)).await?;
            for row in found.into_rows_result()?.rows::<(i32, String)>()? {
                let (_, body) = row?;
                done += usize::from(!body.is_empty());
            }
        }
    }
    Ok(done)
}

fn read(text: &str) -> Outcome<Vec<(i32, String)>> {
    let row = |line: &str| -> Outcome<(i32, String)> {
        let (id, body) = line.split_once(',').unwrap_or((line, ""));
        Ok((id.parse()?, body.to_owned()))
    };
    text.lines().skip(1).map(row).collect()
}

/// Processor time of this process so far, as Linux has it; its ticks are hundredths of a second.
fn processor_seconds() -> Option<f64> {
    let text = fs::read_to_string("/proc/self/stat").ok()?;
    let (_, fields) = text.rsplit_once(')')?;
    let ticks = |at: usize| fields.split_whitespace().nth(at)?.parse::<f64>().ok();
    Some((ticks(11)? + ticks(12)?) / 100.0)
}
