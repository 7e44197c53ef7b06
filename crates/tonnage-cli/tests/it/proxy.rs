//! A wire to PostgreSQL that can be cut at the worst moment.
//!
//! Reads the client's side of the protocol (a message is a letter, its length in four bytes, and so many bytes less
//! four) as far as to see a COMMIT go by. Needs a connection without TLS.

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

/// A proxy in front of a server, in threads that end with their connections.
pub struct Proxy {
    pub port: u16,
    shared: Arc<Shared>,
}

struct Shared {
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
    pub fn start(server: &str, chance: Chance) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let port = listener.local_addr().expect("an address").port();
        let shared = Arc::new(Shared {
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

impl Shared {
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
        let answering = wire.clone();
        let answers = thread::spawn(move || {
            let _ = answer(&answering);
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
        // The first message has no letter.
        let mut length = [0; 4];
        client.read_exact(&mut length)?;
        let mut message = vec![0; body(length)];
        client.read_exact(&mut message)?;
        server.write_all(&[length.as_slice(), &message].concat())?;
        let mut due = None;
        loop {
            let mut head = [0; 5];
            client.read_exact(&mut head)?;
            let [letter, length @ ..] = head;
            let mut message = vec![0; body(length)];
            client.read_exact(&mut message)?;
            let whole = [head.as_slice(), &message].concat();
            due = due.or_else(|| self.take_mark(letter, &message));
            let commits = letter == b'Q' && message.starts_with(b"COMMIT");
            let cut = match due {
                Some(cut) if commits => {
                    self.made.lock().expect("no panic holds it").push(cut);
                    Some(cut)
                }
                _ => self.choose(letter, &message),
            };
            match cut {
                None => server.write_all(&whole)?,
                Some(Cut::Before) => return Ok(()),
                Some(Cut::With) => return server.write_all(&whole),
                Some(Cut::Within) => return server.write_all(&whole[..whole.len() / 2]),
                Some(Cut::After) => {
                    wire.deaf.store(true, Ordering::SeqCst);
                    return server.write_all(&whole);
                }
            }
        }
    }

    /// The marked cut, if this is the statement it waits for.
    fn take_mark(&self, letter: u8, message: &[u8]) -> Option<Cut> {
        let mut marked = self.marked.lock().ok()?;
        let (text, cut) = (*marked)?;
        let has = message
            .windows(text.len())
            .any(|window| window == text.as_bytes());
        (letter == b'P' && has).then(|| {
            *marked = None;
            cut
        })
    }

    /// Whether to cut here, and how.
    fn choose(&self, letter: u8, message: &[u8]) -> Option<Cut> {
        let commits = letter == b'Q' && message.starts_with(b"COMMIT");
        // Rows of a COPY, or the parameters of a statement.
        let carries_rows = matches!(letter, b'd' | b'B') && message.len() > 1_000;
        if !self.armed.load(Ordering::SeqCst) || !(commits || carries_rows) {
            return None;
        }
        let cut = {
            let mut chance = self.chance.lock().ok()?;
            match (commits, chance.below(5)) {
                (true, 0) => Cut::Before,
                (true, 1) => Cut::With,
                (true, 2) => Cut::After,
                (false, 0) if chance.below(4) == 0 => Cut::Within,
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
fn answer(wire: &Wire) -> io::Result<()> {
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
        if unheard.windows(7).any(|window| window == b"COMMIT\0") {
            return Ok(());
        }
    }
}
