//! What `tonnage serve` is measured by: rows of 200 bytes over loopback into a table `single_rows`.
//!
//!     serve_puts ADDRESS rows ACK CONNECTIONS ROWS      one row a request; each connection waits for its answers
//!     serve_puts ADDRESS paced ACK CONNECTIONS RATE SECONDS
//!                                                       the same at so many rows a second in all
//!     serve_puts ADDRESS bodies FORMAT ROWS             1,000 rows a request by 8 connections: jsonl, csv or arrow
//!     serve_puts ADDRESS posted PATH CONNECTIONS ROWS   one row a request to another server's path; ends with the answers
//!
//! Latencies are counted from when a row was due, so that what waits behind a slow answer is counted as slow. A thread says
//! what is due: the runtime's timers end up to a millisecond late, which is more than an answer takes. What is full
//! is sent again when the server says so, which is a part of the latency as well. Prints an object of figures; the last
//! line is the seconds until every row was answered for and the processor seconds of this process. It ends when the
//! server's tables have everything.

use std::{
    error::Error,
    ops::Range,
    process::ExitCode,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use arrow::{
    array::{ArrayRef, Float64Array, Int64Array, RecordBatch, StringArray},
    ipc::writer::StreamWriter,
};
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader},
    net::TcpStream,
    sync::{Mutex, mpsc},
    time::sleep,
};

/// Rows of a request of `bodies`, and its connections.
const BODY_ROWS: u64 = 1_000;
const BODY_CONNECTIONS: u64 = 8;

type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let done = runtime
        .map_err(Into::into)
        .and_then(|runtime| runtime.block_on(run(&words)));
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn run(words: &[&str]) -> Outcome<()> {
    let started = Instant::now();
    let (address, mut latencies, rows) = match words {
        [address, "rows", ack, connections, rows] => {
            let work = Work {
                path: format!("/v1/tables/single_rows/rows?ack={ack}"),
                format: "jsonl",
                rows: rows.parse()?,
                at_once: 1,
                rate: None,
            };
            (
                address,
                work.done(address, connections.parse()?).await?,
                rows.parse()?,
            )
        }
        [address, "paced", ack, connections, rate, seconds] => {
            let rate: u64 = rate.parse()?;
            let rows = rate * seconds.parse::<u64>()?;
            let work = Work {
                path: format!("/v1/tables/single_rows/rows?ack={ack}"),
                format: "jsonl",
                rows,
                at_once: 1,
                rate: Some(rate),
            };
            (address, work.done(address, connections.parse()?).await?, rows)
        }
        [address, "bodies", format, rows] => {
            let work = Work {
                path: "/v1/tables/single_rows/rows".to_owned(),
                format: ["jsonl", "csv", "arrow"]
                    .into_iter()
                    .find(|known| known == format)
                    .ok_or("jsonl, csv and arrow are there")?,
                rows: rows.parse()?,
                at_once: BODY_ROWS,
                rate: None,
            };
            (
                address,
                work.done(address, BODY_CONNECTIONS).await?,
                rows.parse()?,
            )
        }
        [address, "posted", path, connections, rows] => {
            let work = Work {
                path: (*path).to_owned(),
                format: "jsonl",
                rows: rows.parse()?,
                at_once: 1,
                rate: None,
            };
            (
                address,
                work.done(address, connections.parse()?).await?,
                rows.parse()?,
            )
        }
        _ => return Err("see the top of serve_puts.rs".into()),
    };
    let wall = started.elapsed().as_secs_f64();
    latencies.sort_unstable();
    let at = |share: f64| {
        let at = (latencies.len() as f64 * share) as usize;
        let found = latencies.get(at.min(latencies.len().saturating_sub(1)));
        found.map_or(0.0, |micros| *micros as f64 / 1e3)
    };
    println!(
        "{{\"rows\":{rows},\"seconds\":{wall:.3},\"rows_per_second\":{:.0},\"p50_ms\":{:.3},\"p99_ms\":{:.3},\"p999_ms\":{:.3}}}",
        rows as f64 / wall,
        at(0.5),
        at(0.99),
        at(0.999)
    );
    if words[1] != "posted" {
        drained(address).await?;
    }
    println!("{wall} {}", processor_seconds()?);
    Ok(())
}

/// Rows to be put.
#[derive(Clone)]
struct Work {
    path: String,
    format: &'static str,
    rows: u64,
    /// Rows of a request.
    at_once: u64,
    /// Rows a second in all; as fast as they are answered without.
    rate: Option<u64>,
}

impl Work {
    /// Does it; the micros of each request.
    async fn done(self, address: &str, connections: u64) -> Outcome<Vec<u64>> {
        let turns = Arc::new(self.turns());
        let tasks: Vec<_> = (0..connections)
            .map(|_| tokio::spawn(self.clone().on_one(address.to_owned(), turns.clone())))
            .collect();
        let mut all = Vec::new();
        for task in tasks {
            all.append(&mut task.await??);
        }
        Ok(all)
    }

    /// Which requests are made when.
    fn turns(&self) -> Turns {
        let Some(rate) = self.rate else {
            return Turns::AtOnce(AtomicU64::new(0));
        };
        let (due_in, due) = mpsc::unbounded_channel();
        let (rows, at_once, begun) = (self.rows, self.at_once, Instant::now());
        std::thread::spawn(move || {
            for first in (0..rows).step_by(at_once as usize) {
                let at = begun + Duration::from_secs_f64(first as f64 / rate as f64);
                std::thread::sleep(at.saturating_duration_since(Instant::now()));
                if due_in.send((first, at)).is_err() {
                    return;
                }
            }
        });
        Turns::Paced(Mutex::new(due))
    }

    async fn on_one(self, address: String, turns: Arc<Turns>) -> Outcome<Vec<u64>> {
        let mut connection = Connection::open(&address).await?;
        let mut latencies = Vec::new();
        while let Some((first, due)) = turns.next(&self).await {
            let (media, content) = body(self.format, first..(first + self.at_once).min(self.rows))?;
            connection.put(&self.path, media, &content).await?;
            latencies.push(due.elapsed().as_micros() as u64);
        }
        Ok(latencies)
    }
}

/// Whose turn it is.
enum Turns {
    /// The next request as soon as a connection is free; its first row.
    AtOnce(AtomicU64),
    /// When they are due.
    Paced(Mutex<mpsc::UnboundedReceiver<(u64, Instant)>>),
}

impl Turns {
    /// The first row of the next request, and when it was due; none at the end.
    async fn next(&self, work: &Work) -> Option<(u64, Instant)> {
        match self {
            Self::AtOnce(next) => {
                let first = next.fetch_add(work.at_once, Ordering::Relaxed);
                (first < work.rows).then(|| (first, Instant::now()))
            }
            Self::Paced(due) => due.lock().await.recv().await,
        }
    }
}

/// Rows of some 200 bytes of values.
fn body(format: &str, ids: Range<u64>) -> Outcome<(&'static str, Vec<u8>)> {
    let note = |id: u64| format!("{id:0>176}");
    let device = |id: u64| format!("device-{:04}", id % 1_000);
    Ok(match format {
        "csv" => {
            let records = ids.map(|id| format!("{id},{},{}.5,{}\n", device(id), id % 97, note(id)));
            let text = std::iter::once("id,device,value,note\n".to_owned()).chain(records);
            ("text/csv", text.collect::<String>().into_bytes())
        }
        "arrow" => {
            let columns: [(&str, ArrayRef); 4] = [
                (
                    "id",
                    Arc::new(Int64Array::from_iter_values(ids.clone().map(|id| id as i64))),
                ),
                (
                    "device",
                    Arc::new(StringArray::from_iter_values(ids.clone().map(device))),
                ),
                (
                    "value",
                    Arc::new(Float64Array::from_iter_values(
                        ids.clone().map(|id| (id % 97) as f64 + 0.5),
                    )),
                ),
                ("note", Arc::new(StringArray::from_iter_values(ids.map(note)))),
            ];
            let batch = RecordBatch::try_from_iter(columns)?;
            let mut writer = StreamWriter::try_new(Vec::new(), &batch.schema())?;
            writer.write(&batch)?;
            ("application/vnd.apache.arrow.stream", writer.into_inner()?)
        }
        _ => {
            let lines = ids.map(|id| {
                let (device, note, value) = (device(id), note(id), id % 97);
                format!("{{\"id\":{id},\"device\":\"{device}\",\"value\":{value}.5,\"note\":\"{note}\"}}\n")
            });
            ("application/x-ndjson", lines.collect::<String>().into_bytes())
        }
    })
}

/// A connection that is kept.
struct Connection {
    stream: BufReader<TcpStream>,
    address: String,
}

impl Connection {
    async fn open(address: &str) -> Outcome<Self> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        Ok(Self {
            stream: BufReader::new(stream),
            address: address.to_owned(),
        })
    }

    /// Puts a body, as often as the server is full.
    async fn put(&mut self, path: &str, media: &str, content: &[u8]) -> Outcome<()> {
        let (host, length) = (&self.address, content.len());
        let head = format!(
            "POST {path} HTTP/1.1\r\nHost: {host}\r\nContent-Type: {media}\r\nContent-Length: {length}\r\n\r\n"
        );
        let request = [head.as_bytes(), content].concat();
        loop {
            let (status, retry_seconds, said) = self.ask(&request).await?;
            match status {
                // No content, as others answer.
                200 | 204 => return Ok(()),
                429 => sleep(Duration::from_secs(retry_seconds)).await,
                _ => return Err(format!("{status}: {said}").into()),
            }
        }
    }

    /// Status, seconds after which to come again, and body.
    async fn ask(&mut self, request: &[u8]) -> Outcome<(u16, u64, String)> {
        self.stream.get_mut().write_all(request).await?;
        let (mut status, mut length, mut retry_seconds) = (0, 0, 1);
        loop {
            let mut line = String::new();
            if self.stream.read_line(&mut line).await? == 0 {
                return Err("the server has closed a connection".into());
            }
            let line = line.trim_end().to_ascii_lowercase();
            if line.is_empty() {
                break;
            }
            if let Some(rest) = line.strip_prefix("http/1.1 ") {
                status = rest.split(' ').next().unwrap_or_default().parse()?;
            } else if let Some(value) = line.strip_prefix("content-length: ") {
                length = value.parse()?;
            } else if let Some(value) = line.strip_prefix("retry-after: ") {
                retry_seconds = value.parse()?;
            }
        }
        let mut content = vec![0; length];
        self.stream.read_exact(&mut content).await?;
        Ok((
            status,
            retry_seconds,
            String::from_utf8_lossy(&content).into_owned(),
        ))
    }
}

/// Waits until nothing waits for the database.
async fn drained(address: &str) -> Outcome<()> {
    let mut connection = Connection::open(address).await?;
    loop {
        let request = format!("GET /metrics HTTP/1.1\r\nHost: {address}\r\n\r\n");
        let (_, _, text) = connection.ask(request.as_bytes()).await?;
        let mut depths = text
            .lines()
            .filter(|line| line.starts_with("tonnage_buffer_depth_rows{"));
        if depths.all(|line| line.ends_with(" 0")) {
            return Ok(());
        }
        sleep(Duration::from_millis(20)).await;
    }
}

/// Of this process, as Linux counts it: hundredths.
fn processor_seconds() -> Outcome<f64> {
    let stat = std::fs::read_to_string("/proc/self/stat")?;
    let (_, fields) = stat.rsplit_once(')').ok_or("no processor time")?;
    let fields: Vec<&str> = fields.split_whitespace().collect();
    Ok((fields[11].parse::<f64>()? + fields[12].parse::<f64>()?) / 100.0)
}
