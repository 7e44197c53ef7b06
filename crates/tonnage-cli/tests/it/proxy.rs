//! A wire to a database that can be cut at the worst moment.
//!
//! Reads the client's side of the protocol as far as to see a COMMIT go by. PostgreSQL's message is a letter, its length
//! in four bytes, and so many bytes less four; MariaDB's is a length in three bytes, a number, and so many bytes, of
//! which a command's first is its kind. Needs a connection without TLS.

use std::{
    io::{self, Read, Write},
    net::{Shutdown, TcpListener, TcpStream},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread,
};

use crate::events::Chance;

/// Where a wire is cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cut {
    /// The COMMIT never arrives.
    Before,
    /// The COMMIT is passed on; nobody waits for it.
    With,
    /// The server has committed and said so; the client never hears it.
    After,
    /// In the middle of rows.
    Within,
}

pub const CUTS: [Cut; 4] = [Cut::Before, Cut::With, Cut::After, Cut::Within];

/// What is spoken on a wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protocol {
    Postgres,
    MariaDb,
}

/// A message of the client.
struct Message {
    /// As it came.
    whole: Vec<u8>,
    /// Where what it says begins.
    body: usize,
    /// Its letter or kind.
    kind: u8,
}

impl Protocol {
    fn read(self, mut client: impl Read) -> io::Result<Message> {
        let mut whole = vec![0; if self == Self::Postgres { 5 } else { 4 }];
        client.read_exact(&mut whole)?;
        let length = match self {
            Self::Postgres => body([whole[1], whole[2], whole[3], whole[4]]),
            Self::MariaDb => u32::from_le_bytes([whole[0], whole[1], whole[2], 0]) as usize,
        };
        let head = whole.len();
        whole.resize(head + length, 0);
        client.read_exact(&mut whole[head..])?;
        Ok(match self {
            Self::Postgres => Message {
                kind: whole[0],
                body: head,
                whole,
            },
            Self::MariaDb => Message {
                kind: whole.get(head).copied().unwrap_or(0),
                body: (head + 1).min(head + length),
                whole,
            },
        })
    }

    fn commits(self, message: &Message) -> bool {
        let query = match self {
            Self::Postgres => b'Q',
            Self::MariaDb => 3,
        };
        message.kind == query && message.whole[message.body..].starts_with(b"COMMIT")
    }

    /// Whether a message holds the text of a statement to be prepared.
    fn prepares(self, message: &Message) -> bool {
        match self {
            Self::Postgres => message.kind == b'P',
            Self::MariaDb => message.kind == 0x16,
        }
    }

    /// Rows of a COPY or a LOAD DATA, or the parameters of a statement.
    fn carries_rows(self, message: &Message) -> bool {
        let kind = match self {
            Self::Postgres => matches!(message.kind, b'd' | b'B'),
            // A statement's text is of kind 3 or 0x16.
            Self::MariaDb => !matches!(message.kind, 3 | 0x16),
        };
        kind && message.whole.len() > 1_000
    }

    /// Whether the answer to a COMMIT has come.
    fn is_answered(self, answer: &[u8]) -> bool {
        match self {
            Self::Postgres => answer.windows(7).any(|window| window == b"COMMIT\0"),
            Self::MariaDb => answer.len() > 4,
        }
    }
}

/// A proxy in front of a server, in threads that end with their connections.
pub struct Proxy {
    pub port: u16,
    shared: Arc<ProxyState>,
}

struct ProxyState {
    protocol: Protocol,
    server: String,
    /// Nothing is cut before this is set.
    armed: AtomicBool,
    /// Cuts that are left.
    left: AtomicU64,
    /// One cut to come: at the COMMIT of the transaction that has a statement with this text in it.
    marked: Mutex<Option<(&'static str, Cut)>>,
    chance: Mutex<Chance>,
    made: Mutex<Vec<Cut>>,
}

impl Proxy {
    /// Listens on a free port and passes everything on to `server`, until it is armed.
    pub fn start(protocol: Protocol, server: &str, chance: Chance) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let port = listener.local_addr().expect("an address").port();
        let shared = Arc::new(ProxyState {
            protocol,
            server: server.to_owned(),
            armed: AtomicBool::new(false),
            left: AtomicU64::new(0),
            marked: Mutex::new(None),
            chance: Mutex::new(chance),
            made: Mutex::new(Vec::new()),
        });
        let accepting = shared.clone();
        // Ends with the test's process.
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let shared = accepting.clone();
                thread::spawn(move || shared.serve(client));
            }
        });
        Self { port, shared }
    }

    /// From now on one COMMIT or batch of rows in a few is cut, `cuts` times in all.
    pub fn arm(&self, cuts: u64) {
        self.shared.left.store(cuts, Ordering::SeqCst);
        self.shared.armed.store(true, Ordering::SeqCst);
    }

    /// The same, as `chance` has it; no cuts more are to come where `cuts` is 0.
    pub fn arm_by(&self, cuts: u64, chance: Chance) {
        *self.shared.chance.lock().expect("no panic holds it") = chance;
        self.arm(cuts);
    }

    /// Cuts once, at the next COMMIT after a statement with `text` in it.
    pub fn mark(&self, text: &'static str, cut: Cut) {
        *self.shared.marked.lock().expect("no panic holds it") = Some((text, cut));
    }

    /// What was cut.
    pub fn made(&self) -> Vec<Cut> {
        self.shared.made.lock().expect("no panic holds it").clone()
    }
}

/// One connection.
struct Wire {
    client: TcpStream,
    server: TcpStream,
    /// The server's answers go nowhere any more.
    deaf: AtomicBool,
}

impl Wire {
    fn cut(&self) {
        let _ = self.client.shutdown(Shutdown::Both);
        let _ = self.server.shutdown(Shutdown::Both);
    }
}

impl ProxyState {
    fn serve(&self, client: TcpStream) {
        let Ok(server) = TcpStream::connect(&self.server) else {
            return;
        };
        let _ = client.set_nodelay(true);
        let _ = server.set_nodelay(true);
        let wire = Arc::new(Wire {
            client,
            server,
            deaf: AtomicBool::new(false),
        });
        let (answering, protocol) = (wire.clone(), self.protocol);
        let answers = thread::spawn(move || {
            let _ = answer(&answering, protocol);
            answering.cut();
        });
        // An end of either side is the end of both, unless the answer to a COMMIT is still to be awaited.
        let _ = self.forward(&wire);
        if wire.deaf.load(Ordering::SeqCst) {
            let _ = answers.join();
        }
        wire.cut();
    }

    /// From client to server.
    fn forward(&self, wire: &Wire) -> io::Result<()> {
        let (mut client, mut server) = (&wire.client, &wire.server);
        if self.protocol == Protocol::Postgres {
            // The first message has no letter.
            let mut length = [0; 4];
            client.read_exact(&mut length)?;
            let mut message = vec![0; body(length)];
            client.read_exact(&mut message)?;
            server.write_all(&[length.as_slice(), &message].concat())?;
        }
        let mut due = None;
        loop {
            let message = self.protocol.read(&mut client)?;
            due = due.or_else(|| self.take_mark(&message));
            let commits = self.protocol.commits(&message);
            let cut = match due {
                Some(cut) if commits => {
                    self.made.lock().expect("no panic holds it").push(cut);
                    Some(cut)
                }
                _ => self.choose(&message),
            };
            let whole = &message.whole;
            match cut {
                None => server.write_all(whole)?,
                Some(Cut::Before) => return Ok(()),
                Some(Cut::With) => return server.write_all(whole),
                Some(Cut::Within) => return server.write_all(&whole[..whole.len() / 2]),
                Some(Cut::After) => {
                    wire.deaf.store(true, Ordering::SeqCst);
                    return server.write_all(whole);
                }
            }
        }
    }

    /// The marked cut, if this is the statement it waits for.
    fn take_mark(&self, message: &Message) -> Option<Cut> {
        let mut marked = self.marked.lock().ok()?;
        let (text, cut) = (*marked)?;
        let mut windows = message.whole.windows(text.len());
        let has = self.protocol.prepares(message) && windows.any(|window| window == text.as_bytes());
        has.then(|| {
            *marked = None;
            cut
        })
    }

    /// Whether to cut here, and how.
    fn choose(&self, message: &Message) -> Option<Cut> {
        let commits = self.protocol.commits(message);
        let carries_rows = self.protocol.carries_rows(message);
        if !self.armed.load(Ordering::SeqCst) || !(commits || carries_rows) {
            return None;
        }
        let cut = {
            let mut chance = self.chance.lock().ok()?;
            match (commits, chance.below(5)) {
                (true, 0) => Cut::Before,
                (true, 1) => Cut::With,
                (true, 2) => Cut::After,
                (false, 0) if chance.below(2) == 0 => Cut::Within,
                _ => return None,
            }
        };
        let take = |left: u64| left.checked_sub(1);
        self.left
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, take)
            .ok()?;
        self.made.lock().ok()?.push(cut);
        Some(cut)
    }
}

fn body(length: [u8; 4]) -> usize {
    (u32::from_be_bytes(length) as usize).saturating_sub(4)
}

/// From server to client; ends when a deaf client's COMMIT has been answered.
fn answer(wire: &Wire, protocol: Protocol) -> io::Result<()> {
    let (mut client, mut server) = (&wire.client, &wire.server);
    let mut buffer = vec![0; 64 << 10];
    let mut unheard = Vec::new();
    loop {
        let read = server.read(&mut buffer)?;
        if read == 0 {
            return Ok(());
        }
        if !wire.deaf.load(Ordering::SeqCst) {
            client.write_all(&buffer[..read])?;
            continue;
        }
        unheard.extend_from_slice(&buffer[..read]);
        if protocol.is_answered(&unheard) {
            return Ok(());
        }
    }
}
