//! A wire that knows no protocol: it is cut behind any byte of the client's, in the middle of whatever that is in, or
//! stands still for a while or for ever.

use std::{
    io::{self, Read, Write},
    net::{Shutdown, TcpListener, TcpStream},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::Duration,
};

/// How long a wire that stands still waits before it looks again.
const LOOK: Duration = Duration::from_millis(1);

/// What happens behind so many bytes of the clients.
#[derive(Debug, Clone, Copy)]
pub enum Event {
    /// The connection that they are on is lost.
    Cut,
    /// Nothing passes in either direction, on any connection, for so long.
    Stall(Duration),
}

/// See the module. Its threads end with their connections.
pub struct Wire {
    pub port: u16,
    shared: Arc<WireState>,
}

#[derive(Default)]
struct WireState {
    server: String,
    /// The next event, and how many bytes before it.
    due: Mutex<Option<(u64, Event)>>,
    stands_still: AtomicBool,
}

impl Wire {
    /// Listens on a free port and passes everything on to `server`.
    pub fn start(server: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let port = listener.local_addr().expect("an address").port();
        let shared = Arc::new(WireState {
            server: server.to_owned(),
            ..WireState::default()
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

    /// Lets `event` happen once `bytes` more have come from clients.
    pub fn arm(&self, bytes: u64, event: Event) {
        *self.shared.due.lock().expect("no panic holds it") = Some((bytes, event));
    }

    /// Whether an event is still to come.
    pub fn is_armed(&self) -> bool {
        self.shared.due.lock().expect("no panic holds it").is_some()
    }

    /// Nothing passes any more.
    pub fn stop(&self) {
        self.shared.stands_still.store(true, Ordering::SeqCst);
    }

    /// Everything passes, and nothing is to come.
    pub fn release(&self) {
        *self.shared.due.lock().expect("no panic holds it") = None;
        self.shared.stands_still.store(false, Ordering::SeqCst);
    }
}

impl WireState {
    fn serve(self: &Arc<Self>, client: TcpStream) {
        let Ok(server) = TcpStream::connect(&self.server) else {
            return;
        };
        let _ = client.set_nodelay(true);
        let _ = server.set_nodelay(true);
        let ends = Arc::new((client, server));
        let (answering, shared) = (ends.clone(), self.clone());
        thread::spawn(move || {
            let (client, server) = &*answering;
            let _ = shared.pass(server, client, false);
            cut(&answering);
        });
        let _ = self.pass(&ends.0, &ends.1, true);
        cut(&ends);
    }

    fn pass(&self, mut from: &TcpStream, mut to: &TcpStream, counts: bool) -> io::Result<()> {
        let mut buffer = vec![0; 16 << 10];
        loop {
            let read = from.read(&mut buffer)?;
            if read == 0 {
                return Ok(());
            }
            let mut bytes = &buffer[..read];
            if let Some((at, event)) = counts.then(|| self.take(read)).flatten() {
                self.wait();
                to.write_all(&bytes[..at])?;
                bytes = &bytes[at..];
                match event {
                    Event::Cut => return Ok(()),
                    Event::Stall(time) => {
                        self.stands_still.store(true, Ordering::SeqCst);
                        thread::sleep(time);
                        self.stands_still.store(false, Ordering::SeqCst);
                    }
                }
            }
            self.wait();
            to.write_all(bytes)?;
        }
    }

    /// The event that falls into the next `read` bytes, and where.
    fn take(&self, read: usize) -> Option<(usize, Event)> {
        let mut due = self.due.lock().expect("no panic holds it");
        let (left, event) = (*due)?;
        match left.checked_sub(read as u64) {
            Some(left) => {
                *due = Some((left, event));
                None
            }
            None => {
                *due = None;
                Some((left as usize, event))
            }
        }
    }

    /// Waits while everything stands still.
    fn wait(&self) {
        while self.stands_still.load(Ordering::SeqCst) {
            thread::sleep(LOOK);
        }
    }
}

fn cut((client, server): &(TcpStream, TcpStream)) {
    let _ = client.shutdown(Shutdown::Both);
    let _ = server.shutdown(Shutdown::Both);
}
