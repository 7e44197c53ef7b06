//! MariaDB in the part of another server of its family: between it and the target stands a relay that tells another
//! version, and writes down what is sent. What another server would *do* is not shown by it.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
};

use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    task::JoinHandle,
};

use super::TestDatabase;

const QUERY: u8 = 0x03;
const PREPARE: u8 = 0x16;
const EXECUTE: u8 = 0x17;
const EXECUTE_BULK: u8 = 0xfa;

/// The shards of every table, where the server is asked for them.
pub const SHARDS: usize = 16;
const ASKED: &[u8] = b"SHOW TOPOLOGY FROM ";
const ANSWERED: &[u8] = b"SELECT seq FROM seq_1_to_16 -- ";

/// An execution of a prepared statement.
#[derive(Debug, Clone)]
pub struct Executed {
    /// The statement's text.
    pub text: String,
    /// Bytes of the packet that carried its parameters.
    pub bytes: usize,
}

impl Executed {
    /// Rows of so many columns that it carries.
    pub fn rows(&self, columns: usize) -> usize {
        let parameters = self.text.bytes().filter(|byte| *byte == b'?').count();
        assert_eq!(parameters % columns, 0, "{}", self.text);
        parameters / columns
    }
}

type Record = Arc<Mutex<Vec<Executed>>>;

/// A relay to the test server.
pub struct Masquerade {
    /// The URL by which the place's database is reached through it.
    pub url: String,
    record: Record,
    relay: JoinHandle<()>,
}

impl Drop for Masquerade {
    fn drop(&mut self) {
        self.relay.abort();
    }
}

impl Masquerade {
    /// Plays a server whose version begins with `version`; itself where that is empty.
    pub async fn of(place: &TestDatabase, version: &str) -> Self {
        let own = place.texts("SELECT version()").await[0]
            .clone()
            .expect("a version");
        // Of the same length, so that no packet changes its own.
        let told = match version {
            "" => own.clone(),
            version => format!("{version:-<0$}", own.len()),
        };
        assert_eq!(told.len(), own.len(), "the version is not longer than {own}");
        let (login, address) = place.url.rsplit_once('@').expect("a URL with a user");
        let (address, database) = address.split_once('/').expect("a URL with a database");
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let record = Record::default();
        let relay = tokio::spawn(accept(listener, address.to_owned(), own, told, record.clone()));
        Self {
            url: format!("{login}@127.0.0.1:{port}/{database}?sslmode=disable"),
            record,
            relay,
        }
    }

    /// What was executed since it was last asked, of statements with `word` in them.
    pub fn executed(&self, word: &str) -> Vec<Executed> {
        let all = std::mem::take(&mut *self.record.lock().unwrap());
        all.into_iter()
            .filter(|executed| executed.text.contains(word))
            .collect()
    }
}

async fn accept(listener: TcpListener, address: String, own: String, told: String, record: Record) {
    loop {
        let (client, _) = listener.accept().await.unwrap();
        let (address, own, told, record) = (address.clone(), own.clone(), told.clone(), record.clone());
        tokio::spawn(async move {
            let server = TcpStream::connect(address).await.unwrap();
            client.set_nodelay(true).unwrap();
            server.set_nodelay(true).unwrap();
            let (from_client, to_client) = client.into_split();
            let (from_server, to_server) = server.into_split();
            // The text that is being prepared, of which the server's answer says the number.
            let preparing = Arc::new(Mutex::new(None));
            let prepared = Arc::new(Mutex::new(HashMap::new()));
            let sent = sent(
                from_client,
                to_server,
                preparing.clone(),
                prepared.clone(),
                record,
            );
            let answered = answered(from_server, to_client, own, told, preparing, prepared);
            // Either end that is gone is the end of the other.
            tokio::select! {
                () = sent => {}
                () = answered => {}
            }
        });
    }
}

/// A packet: its number, and what it carries. None at the end.
async fn packet(from: &mut (impl AsyncRead + Unpin)) -> Option<(u8, Vec<u8>)> {
    let mut header = [0; 4];
    from.read_exact(&mut header).await.ok()?;
    let length = u32::from_le_bytes([header[0], header[1], header[2], 0]) as usize;
    let mut payload = vec![0; length];
    from.read_exact(&mut payload).await.ok()?;
    Some((header[3], payload))
}

async fn send(to: &mut (impl AsyncWrite + Unpin), number: u8, payload: &[u8]) -> Option<()> {
    let length = (payload.len() as u32).to_le_bytes();
    let mut whole = vec![length[0], length[1], length[2], number];
    whole.extend_from_slice(payload);
    to.write_all(&whole).await.ok()
}

type Preparing = Arc<Mutex<Option<String>>>;
type Prepared = Arc<Mutex<HashMap<u32, String>>>;

async fn sent(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    preparing: Preparing,
    prepared: Prepared,
    record: Record,
) {
    while let Some((number, mut payload)) = packet(&mut from).await {
        // Commands begin a count of their own.
        match payload.first().copied().filter(|_| number == 0) {
            Some(PREPARE) => {
                let text = String::from_utf8_lossy(&payload[1..]).into_owned();
                *preparing.lock().unwrap() = Some(text);
            }
            Some(EXECUTE | EXECUTE_BULK) => {
                let id = u32::from_le_bytes(payload[1..5].try_into().unwrap());
                let text = prepared
                    .lock()
                    .unwrap()
                    .get(&id)
                    .cloned()
                    .expect("it was prepared");
                record.lock().unwrap().push(Executed {
                    text,
                    bytes: payload.len(),
                });
            }
            Some(QUERY) if payload[1..].starts_with(ASKED) => {
                payload[1..=ANSWERED.len()].copy_from_slice(ANSWERED)
            }
            _ => {}
        }
        if send(&mut to, number, &payload).await.is_none() {
            return;
        }
    }
}

async fn answered(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    own: String,
    told: String,
    preparing: Preparing,
    prepared: Prepared,
) {
    let mut greeted = false;
    while let Some((number, mut payload)) = packet(&mut from).await {
        let text = preparing.lock().unwrap().take();
        if let Some(text) = text
            && payload.first() == Some(&0)
        {
            let id = u32::from_le_bytes(payload[1..5].try_into().unwrap());
            prepared.lock().unwrap().insert(id, text);
        }
        // The driver goes by the greeting, and is to speak as it would.
        if greeted
            && let Some(at) = payload
                .windows(own.len())
                .position(|window| window == own.as_bytes())
        {
            payload[at..at + told.len()].copy_from_slice(told.as_bytes());
        }
        greeted = true;
        if send(&mut to, number, &payload).await.is_none() {
            return;
        }
    }
}
