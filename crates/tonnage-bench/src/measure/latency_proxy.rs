//! A longer way to a server: what comes in at one end goes out at the other later, as over a distance.
//!
//! Invariants:
//! - Bytes come out in the order in which they went in, none is lost, and an end of one side is passed on behind them.
//! - Each direction takes half of the round trip, however much is under way: it is time that is added, not a limit. A
//!   limit is a [bandwidth](Length::bandwidth), which all connections share.
//! - What is under way takes bounded memory; whoever sends more waits, as on a full link.
//! - A connection has threads of its own that sleep to the moment: timers of an async runtime count whole milliseconds.
//! - Nothing is read into what is passed on, so TLS goes through as it is.

use std::{
    collections::VecDeque,
    io::{ErrorKind as IoErrorKind, Read, Write},
    net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream},
    sync::{
        Arc, Condvar, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use tonnage_core::{
    error::{Error, ErrorKind, Result},
    instruments::Address,
    sync::Lock,
};

/// Bytes that are taken at a time at most.
const PART_BYTES: usize = 64 << 10;
/// Bytes under way in one direction of a connection at most: half a gigabyte a second over 70 ms.
const BYTES_MAX: usize = 16 << 20;
/// Memory that a part takes in addition to its bytes, about.
const PART_OVERHEAD: usize = 64;
/// A sleep may end so much later than asked for, so the last bit is waited for awake.
const AWAKE: Duration = Duration::from_micros(120);
/// What may wait before a limited link, as time.
const WAITING: Duration = Duration::from_millis(100);

/// How long a way is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Length {
    /// What is added to a round trip, half of it each way.
    pub round_trip: Duration,
    /// Bytes a second each way; none for as many as come.
    pub bandwidth: Option<u64>,
}

/// A way that is open until it is dropped.
pub struct LatencyProxy {
    local: SocketAddr,
    shared: Arc<ProxyState>,
}

struct ProxyState {
    server: Address,
    length: Length,
    /// When each direction is free for further bytes: to the server, and back.
    free: [Mutex<Instant>; 2],
    round_trips: AtomicU64,
    closed: AtomicBool,
}

/// To the server, and back: places in [`ProxyState::free`].
const THERE: usize = 0;
const BACK: usize = 1;

impl LatencyProxy {
    /// Listens at a free port of this machine and passes connections on to `server`.
    pub fn open(server: Address, length: Length) -> Result<Self> {
        let refused = |error: std::io::Error| {
            Error::new(
                ErrorKind::Refused,
                format!("no way to {server} can be made: {error}"),
            )
        };
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(refused)?;
        let local = listener.local_addr().map_err(refused)?;
        let now = Instant::now();
        let shared = Arc::new(ProxyState {
            server: server.clone(),
            length,
            free: [Mutex::new(now), Mutex::new(now)],
            round_trips: AtomicU64::new(0),
            closed: AtomicBool::new(false),
        });
        let accepting = shared.clone();
        spawn("way-listener", move || {
            for client in listener.incoming() {
                if accepting.closed.load(Ordering::Relaxed) {
                    return;
                }
                let Ok(client) = client else {
                    // Too many files are open, say.
                    thread::sleep(AWAKE);
                    continue;
                };
                let shared = accepting.clone();
                // A connection that cannot be served is closed, so that its client notices.
                let _ = spawn("way-opener", move || {
                    if let Err(error) = shared.serve(client) {
                        tracing::debug!("a connection to {} was not passed on: {error}", shared.server);
                    }
                });
            }
        })
        .map_err(refused)?;
        Ok(Self { local, shared })
    }

    /// Where it listens.
    pub fn local(&self) -> SocketAddr {
        self.local
    }

    /// How long it is.
    pub fn length(&self) -> Length {
        self.shared.length
    }

    /// Round trips that were waited for so far, all connections together: that somebody sent what he had to hear an
    /// answer for. No two of one connection are nearer to each other than a round trip takes.
    pub fn round_trips(&self) -> u64 {
        self.shared.round_trips.load(Ordering::Relaxed)
    }
}

impl Drop for LatencyProxy {
    fn drop(&mut self) {
        self.shared.closed.store(true, Ordering::Relaxed);
        // The listener looks when somebody comes. Connections end with their clients.
        let _ = TcpStream::connect(self.local);
    }
}

fn spawn(name: &str, work: impl FnOnce() + Send + 'static) -> std::io::Result<()> {
    thread::Builder::new()
        .name(name.to_owned())
        .spawn(work)
        .map(|_| ())
}

impl ProxyState {
    fn serve(self: &Arc<Self>, client: TcpStream) -> std::io::Result<()> {
        let server = TcpStream::connect((self.server.host.as_str(), self.server.port))?;
        for end in [&client, &server] {
            end.set_nodelay(true)?;
        }
        let turns = Arc::new(Turns::default());
        self.pass(client.try_clone()?, server.try_clone()?, THERE, turns.clone())?;
        self.pass(server, client, BACK, turns)
    }

    /// Passes on what `from` sends, by two threads: one that takes it as it comes, one that gives it when it is due.
    fn pass(
        self: &Arc<Self>,
        mut from: TcpStream,
        mut to: TcpStream,
        direction: usize,
        turns: Arc<Turns>,
    ) -> std::io::Result<()> {
        let line = Arc::new(Line::new(self.bytes_max()));
        let (taking, taken, heard) = (self.clone(), line.clone(), turns.clone());
        spawn("way-in", move || {
            let mut buffer = vec![0; PART_BYTES];
            loop {
                match from.read(&mut buffer) {
                    Ok(0) => break,
                    Ok(read) => {
                        let now = Instant::now();
                        if direction == THERE && turns.sent(now, taking.length.round_trip) {
                            taking.round_trips.fetch_add(1, Ordering::Relaxed);
                        }
                        let due = taking.due(direction, now, read);
                        if !taken.put(due, buffer[..read].to_vec()) {
                            break;
                        }
                    }
                    Err(error) if error.kind() == IoErrorKind::Interrupted => {}
                    Err(_) => break,
                }
            }
            taken.end();
        })?;
        spawn("way-out", move || {
            while let Some(Part { due, bytes }) = line.take() {
                sleep_until(due);
                if direction == BACK {
                    heard.heard();
                }
                if to.write_all(&bytes).is_err() {
                    break;
                }
            }
            // Nobody takes any more; what still comes is read to nowhere.
            line.abandon();
            let _ = to.shutdown(Shutdown::Write);
        })
    }

    /// When bytes that came now are to go out.
    fn due(&self, direction: usize, now: Instant, bytes: usize) -> Instant {
        let half = self.length.round_trip / 2;
        let Some(bandwidth) = self.length.bandwidth else {
            return now + half;
        };
        let mut free = self.free[direction].locked();
        let takes = Duration::from_secs_f64(bytes as f64 / bandwidth.max(1) as f64);
        *free = (*free).max(now) + takes;
        *free + half
    }

    /// What may be under way in one direction of a connection.
    fn bytes_max(&self) -> usize {
        let Some(bandwidth) = self.length.bandwidth else {
            return BYTES_MAX;
        };
        let time = self.length.round_trip / 2 + WAITING;
        ((bandwidth as f64 * time.as_secs_f64()) as usize).clamp(PART_BYTES, BYTES_MAX)
    }
}

fn sleep_until(due: Instant) {
    loop {
        let left = due.saturating_duration_since(Instant::now());
        match left.checked_sub(AWAKE) {
            _ if left.is_zero() => return,
            Some(asleep) if !asleep.is_zero() => thread::sleep(asleep),
            _ => thread::yield_now(),
        }
    }
}

/// Who has spoken last on a connection.
struct Turns {
    /// Whether the client has heard something since it sent something.
    heard: AtomicBool,
    /// When the last turn began that was counted.
    last: Mutex<Option<Instant>>,
}

impl Default for Turns {
    fn default() -> Self {
        Self {
            // Who opens a connection speaks, or waits to be spoken to; either is a turn.
            heard: AtomicBool::new(true),
            last: Mutex::new(None),
        }
    }
}

impl Turns {
    fn heard(&self) {
        self.heard.store(true, Ordering::Release);
    }

    /// The client sends: whether that begins a round trip. What is sent while answers to something earlier still come
    /// waits for none of them, and is nearer to the last turn than a round trip takes.
    fn sent(&self, now: Instant, round_trip: Duration) -> bool {
        let mut last = self.last.locked();
        let far = last.is_none_or(|last| now.duration_since(last) >= round_trip);
        let begins = far && self.heard.swap(false, Ordering::Acquire);
        if begins {
            *last = Some(now);
        }
        begins
    }
}

struct Part {
    due: Instant,
    bytes: Vec<u8>,
}

/// What is under way in one direction of a connection.
struct Line {
    held: Mutex<Held>,
    changed: Condvar,
    bytes_max: usize,
}

#[derive(Default)]
struct Held {
    parts: VecDeque<Part>,
    bytes: usize,
    /// Nothing more comes.
    ended: bool,
    /// Nothing is taken any more.
    abandoned: bool,
}

impl Line {
    fn new(bytes_max: usize) -> Self {
        Self {
            held: Mutex::default(),
            changed: Condvar::new(),
            bytes_max,
        }
    }

    fn held(&self) -> std::sync::MutexGuard<'_, Held> {
        self.held.locked()
    }

    /// Waits for room; false where nobody takes any more.
    fn put(&self, due: Instant, bytes: Vec<u8>) -> bool {
        let mut held = self.held();
        while held.bytes >= self.bytes_max && !held.abandoned {
            held = self.changed.wait(held).unwrap_or_else(PoisonError::into_inner);
        }
        if held.abandoned {
            return false;
        }
        held.bytes += bytes.len() + PART_OVERHEAD;
        held.parts.push_back(Part { due, bytes });
        self.changed.notify_all();
        true
    }

    /// Waits for the next part; none at the end.
    fn take(&self) -> Option<Part> {
        let mut held = self.held();
        while held.parts.is_empty() && !held.ended {
            held = self.changed.wait(held).unwrap_or_else(PoisonError::into_inner);
        }
        let part = held.parts.pop_front()?;
        held.bytes -= part.bytes.len() + PART_OVERHEAD;
        self.changed.notify_all();
        Some(part)
    }

    fn end(&self) {
        self.held().ended = true;
        self.changed.notify_all();
    }

    fn abandon(&self) {
        self.held().abandoned = true;
        self.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A server that sends back what it hears, and ends when its client has.
    fn echo() -> Address {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        thread::spawn(move || {
            for mut client in listener.incoming().flatten() {
                thread::spawn(move || {
                    let mut buffer = [0; 4_096];
                    while let Ok(read @ 1..) = client.read(&mut buffer) {
                        client.write_all(&buffer[..read]).unwrap();
                    }
                });
            }
        });
        Address {
            host: "127.0.0.1".to_owned(),
            port,
        }
    }

    fn way(millis: u64, bandwidth: Option<u64>) -> (LatencyProxy, TcpStream) {
        let length = Length {
            round_trip: Duration::from_millis(millis),
            bandwidth,
        };
        let way = LatencyProxy::open(echo(), length).unwrap();
        let client = TcpStream::connect(way.local()).unwrap();
        client.set_nodelay(true).unwrap();
        (way, client)
    }

    #[test]
    fn an_answer_takes_a_round_trip_and_each_is_counted() {
        let (way, mut client) = way(10, None);
        let began = Instant::now();
        let mut heard = [0; 3];
        for _ in 0..20 {
            client.write_all(b"one").unwrap();
            client.read_exact(&mut heard).unwrap();
            assert_eq!(&heard, b"one");
        }
        assert!(began.elapsed() >= 20 * Duration::from_millis(10));
        assert_eq!(way.round_trips(), 20);
    }

    #[test]
    fn what_does_not_wait_for_an_answer_takes_no_round_trip_of_its_own() {
        let (way, mut client) = way(50, None);
        let mut reading = client.try_clone().unwrap();
        let read = thread::spawn(move || {
            let mut heard = vec![0; 200];
            reading.read_exact(&mut heard).unwrap();
            heard
        });
        let sent: Vec<u8> = (0..200).collect();
        for byte in &sent {
            client.write_all(&[*byte]).unwrap();
        }
        assert_eq!(read.join().unwrap(), sent);
        assert!(way.round_trips() < 100, "{}", way.round_trips());
    }

    #[test]
    fn all_bytes_arrive_in_order_and_the_end_behind_them() {
        let (_way, mut client) = way(2, None);
        let sent: Vec<u8> = (0..3_000_000_u32)
            .map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8)
            .collect();
        let mut reading = client.try_clone().unwrap();
        let read = thread::spawn(move || {
            let mut heard = Vec::new();
            reading.read_to_end(&mut heard).unwrap();
            heard
        });
        client.write_all(&sent).unwrap();
        client.shutdown(Shutdown::Write).unwrap();
        assert!(read.join().unwrap() == sent);
    }

    #[test]
    fn a_bandwidth_is_what_all_bytes_share() {
        let (_way, mut client) = way(0, Some(1_000_000));
        let began = Instant::now();
        let sent = vec![7; 100_000];
        client.write_all(&sent).unwrap();
        client.shutdown(Shutdown::Write).unwrap();
        let mut heard = Vec::new();
        client.read_to_end(&mut heard).unwrap();
        assert!(heard == sent);
        // A tenth of a second there; on the way back most goes at the same time.
        assert!(began.elapsed() >= Duration::from_millis(100));
    }

    #[test]
    fn who_is_not_there_closes_the_connection() {
        // Bound but not listening, so that nobody else takes the port.
        let bound = tokio::net::TcpSocket::new_v4().unwrap();
        bound.bind((Ipv4Addr::LOCALHOST, 0).into()).unwrap();
        let port = bound.local_addr().unwrap().port();
        let length = Length {
            round_trip: Duration::ZERO,
            bandwidth: None,
        };
        let server = Address {
            host: "127.0.0.1".to_owned(),
            port,
        };
        let way = LatencyProxy::open(server, length).unwrap();
        let mut client = TcpStream::connect(way.local()).unwrap();
        let read = client.read(&mut [0; 1]);
        assert!(matches!(read, Ok(0) | Err(_)), "{read:?}");
    }

    #[test]
    fn a_line_holds_no_more_than_it_may() {
        let line = Arc::new(Line::new(1_000));
        assert!(line.put(Instant::now(), vec![1; 2_000]));
        let putting = line.clone();
        let put = thread::spawn(move || putting.put(Instant::now(), vec![2; 10]));
        assert_eq!(line.take().map(|part| part.bytes.len()), Some(2_000));
        assert!(put.join().unwrap());
        assert_eq!(line.take().map(|part| part.bytes.len()), Some(10));
        assert!(line.put(Instant::now(), vec![3; 2_000]));
        let putting = line.clone();
        let put = thread::spawn(move || putting.put(Instant::now(), vec![4]));
        line.abandon();
        assert!(
            !put.join().unwrap(),
            "who waits for room is told that none will be"
        );
    }
}
