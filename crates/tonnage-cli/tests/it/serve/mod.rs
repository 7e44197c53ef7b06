//! `tonnage serve` as services and devices use it: the real process, real sockets, real databases.

mod abuse;
mod access;
mod bounds;
mod examples;
mod flight;
mod killed;
mod overload;
mod page;
mod rows;
mod systemd;
mod tls;
mod traces;

use std::{
    io::{Read, Write},
    net::TcpStream,
    path::{Path, PathBuf},
    process::Command,
    thread::sleep,
    time::Duration,
};

use serde_json::Value;

use crate::process::{Ended, Running, tonnage};

/// A server under test.
pub struct Serve {
    running: Option<Running>,
    address: String,
}

/// An answer.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub head: String,
    pub body: Vec<u8>,
}

impl Answer {
    /// The body as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// The body as JSON.
    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body)
            .unwrap_or_else(|error| panic!("{error}: {} {}", self.head, self.text()))
    }

    /// Fails unless the status is this one.
    #[track_caller]
    pub fn expect(self, status: u16) -> Self {
        assert_eq!(self.status, status, "{}\n{}", self.head, self.text());
        self
    }

    /// The code of a refusal.
    #[track_caller]
    pub fn code(&self) -> String {
        self.json()["error"]["code"]
            .as_str()
            .unwrap_or_default()
            .to_owned()
    }
}

impl Serve {
    /// A database on a free port of loopback, journals in `state`.
    pub fn of(url: &str, state: &Path) -> Self {
        Self::start(&[
            url,
            "--listen",
            "127.0.0.1:0",
            "--state",
            &state.display().to_string(),
        ])
    }

    /// With these arguments.
    pub fn start(arguments: &[&str]) -> Self {
        Self::run(tonnage().arg("serve").args(arguments))
    }

    /// With a configuration of `text`, the database `d`, on a free port of loopback.
    pub fn configured(place: &crate::support::TestDatabase, text: &str) -> Self {
        let text = format!("{text}\n[[listen]]\naddress = \"127.0.0.1:0\"\n");
        Self::start(&["--config", &written(place, &text)])
    }

    /// A command that starts one.
    pub fn run(command: &mut Command) -> Self {
        let mut running = Running::start(command);
        let address = loop {
            let said = running.said();
            let mut lines = said.lines();
            let line = lines.find_map(|line| Some(line.split_once("listening on ")?.1));
            if let Some((_, address)) = line.and_then(|line| line.split_once("://")) {
                // Of a log for programs it is a part.
                break address.split('"').next().unwrap_or(address).to_owned();
            }
            assert!(!running.has_ended(), "it has ended:\n{said}");
            sleep(Duration::from_millis(5));
        };
        Self {
            running: Some(running),
            address,
        }
    }

    /// What it has said.
    pub fn said(&self) -> String {
        self.running().said()
    }

    fn running(&self) -> &Running {
        self.running.as_ref().expect("it runs")
    }

    /// Where it listens.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Its process.
    pub fn id(&self) -> u32 {
        self.running().id()
    }

    /// KiB that it has, or has had at most, of memory: `VmRSS` or `VmHWM`.
    pub fn memory(&self, what: &str) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.id())).expect("it runs");
        let line = status
            .lines()
            .find_map(|line| line.strip_prefix(what)?.strip_prefix(':'));
        let number = line.and_then(|line| line.trim().split(' ').next()?.parse().ok());
        number.expect("Linux counts it")
    }

    /// Sends it a signal.
    pub fn signal(&self, number: i32) {
        self.running().signal(number);
    }

    /// SIGKILL.
    pub fn kill(mut self) {
        self.running.take().expect("it runs").kill();
    }

    /// SIGTERM, and how it ended.
    pub fn stop(mut self) -> Ended {
        self.signal(15);
        self.running.take().expect("it runs").wait()
    }

    /// One request on a connection of its own; an error where that breaks.
    pub fn try_send(
        &self,
        method: &str,
        path: &str,
        headers: &[&str],
        body: &[u8],
    ) -> std::io::Result<Answer> {
        let mut stream = TcpStream::connect(&self.address)?;
        let host = &self.address;
        let mut head = format!("{method} {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n");
        for header in headers {
            head.push_str(header);
            head.push_str("\r\n");
        }
        if ["POST", "PUT"].contains(&method) {
            head.push_str(&format!("Content-Length: {}\r\n", body.len()));
        }
        head.push_str("\r\n");
        stream.write_all(head.as_bytes())?;
        // A server that refuses before it has read everything closes the connection.
        let _ = stream.write_all(body);
        let mut answer = Vec::new();
        let read = stream.read_to_end(&mut answer);
        let end = answer.windows(4).position(|four| four == b"\r\n\r\n");
        let Some(end) = end else {
            read?;
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        };
        let head = String::from_utf8_lossy(&answer[..end]).into_owned();
        let mut body = answer[end + 4..].to_vec();
        if head.to_ascii_lowercase().contains("transfer-encoding: chunked") {
            body = unchunked(&body).ok_or(std::io::ErrorKind::UnexpectedEof)?;
        }
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
        Ok(Answer {
            status: status.ok_or(std::io::ErrorKind::InvalidData)?,
            head,
            body,
        })
    }

    /// The same, of a server that answers.
    #[track_caller]
    pub fn send(&self, method: &str, path: &str, headers: &[&str], body: &[u8]) -> Answer {
        self.try_send(method, path, headers, body).expect("it answers")
    }

    /// GET.
    #[track_caller]
    pub fn get(&self, path: &str) -> Answer {
        self.send("GET", path, &[], b"")
    }

    /// POST of JSON lines.
    #[track_caller]
    pub fn put(&self, path: &str, lines: &str) -> Answer {
        self.send(
            "POST",
            path,
            &["Content-Type: application/x-ndjson"],
            lines.as_bytes(),
        )
    }

    /// Waits until so many rows are committed.
    pub fn until_committed(&self, rows: u64) {
        self.until(|text| metric(text, "tonnage_buffer_mark_committed_total") >= rows);
    }

    /// Waits until nothing waits for the database.
    pub fn until_drained(&self) {
        self.until(|text| metric(text, "tonnage_buffer_depth_rows") == 0);
    }

    fn until(&self, is_so: impl Fn(&str) -> bool) {
        while !is_so(&self.get("/metrics").expect(200).text()) {
            sleep(Duration::from_millis(10));
        }
    }
}

/// A value of `/metrics`, added up over all tables.
pub fn metric(text: &str, name: &str) -> u64 {
    let lines = text.lines().filter(|line| line.starts_with(&format!("{name}{{")));
    let values = lines.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok());
    values.sum::<f64>() as u64
}

/// Writes a configuration whose settings at the top come from `text`; where it is.
pub fn written(place: &crate::support::TestDatabase, text: &str) -> String {
    let tables = format!("[databases.d]\nurl = {:?}\n", url(place));
    let state = format!("state = {:?}\n", state(place).display().to_string());
    let (top, rest) = text.split_at(text.find('[').unwrap_or(text.len()));
    place.write("serve.toml", format!("{state}{top}{tables}{rest}"));
    place.path("serve.toml").display().to_string()
}

/// The content of a body in chunks; none where it was cut off.
fn unchunked(mut body: &[u8]) -> Option<Vec<u8>> {
    let mut content = Vec::new();
    loop {
        let end = body.windows(2).position(|two| two == b"\r\n")?;
        let size = std::str::from_utf8(&body[..end]).ok()?;
        let size = usize::from_str_radix(size.split(';').next()?.trim(), 16).ok()?;
        body = &body[end + 2..];
        if size == 0 {
            return Some(content);
        }
        content.extend_from_slice(body.get(..size)?);
        body = body.get(size + 2..)?;
    }
}

/// A directory for journals.
pub fn state(place: &crate::support::TestDatabase) -> PathBuf {
    place.path("state")
}

/// The database, wherever the server runs.
pub fn url(place: &crate::support::TestDatabase) -> String {
    match place.url() {
        url if url.contains(':') => url,
        file => place.path(&file).display().to_string(),
    }
}
