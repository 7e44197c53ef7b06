//! The databases, and the buffers of their tables.
//!
//! Invariants:
//! - A table's name comes out of the catalogue: what a URL says is looked up, never pasted.
//! - Each table has a buffer and a journal a mode, opened when they are first needed; those that have rows in their
//!   journals are opened at the start. A buffer that has ended is opened anew by the next request.
//! - The memory of all buffers together is bounded by how many may be open.

use std::{
    collections::{BTreeMap, HashMap, VecDeque},
    fs,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, RwLock},
    time::Instant,
};

use axum::http::StatusCode;
use tokio::sync::{Mutex as AsyncMutex, Semaphore};
use tonnage::{
    Buffer, Error, Result,
    buffer::{Ack, BufferOptions, Check, JournalOptions, WhenFull},
    connected::Connected,
    operation::Mode,
    reject::Reject,
    table::{Table, TableName},
    targets::{connector, redact},
};

use crate::{
    access::{Caller, Right},
    config::{Config, DatabaseConfig, MODES, TableConfig, mode_named},
    refusal::Refusal,
};

/// Names that were looked up are remembered, at most so many a database.
const NAMES_MAX: usize = 10_000;
/// Bad rows of a table that are remembered.
const REJECTS_KEPT: usize = 10_000;
/// Producers of which the last request is remembered, a table.
const SENT_MAX: usize = tonnage::buffer::PRODUCERS_MAX;
/// Rows that end a buffer where they are bad, unless the configuration says otherwise.
const REJECTS_MAX: u64 = 1_000_000_000;

/// A row that was put aside.
#[derive(Debug, Clone)]
pub struct Bad {
    /// Its column, where one is to blame.
    pub column: Option<String>,
    /// The database's code, or the SQLSTATE of the same meaning.
    pub code: String,
    /// One line.
    pub message: String,
}

impl Bad {
    /// Of a reject.
    pub fn of(reject: &Reject) -> Self {
        Self {
            column: reject.problem.column.clone(),
            code: reject.problem.code.clone(),
            message: reject.problem.message.clone(),
        }
    }
}

/// The last bad rows of a table, by their sequence numbers.
#[derive(Debug, Default)]
pub struct Rejects {
    rows: BTreeMap<u64, Bad>,
}

impl Rejects {
    fn note(&mut self, reject: &Reject) {
        self.rows.insert(reject.row, Bad::of(reject));
        if self.rows.len() > REJECTS_KEPT {
            self.rows.pop_first();
        }
    }

    /// Those with these numbers.
    pub fn within(&self, first: u64, last: u64) -> impl Iterator<Item = (u64, &Bad)> {
        self.rows
            .range(first..=last)
            .map(|(sequence, bad)| (*sequence, bad))
    }

    /// The last ones, the last first.
    pub fn last(&self, count: usize) -> impl Iterator<Item = (u64, &Bad)> {
        self.rows
            .iter()
            .rev()
            .take(count)
            .map(|(sequence, bad)| (*sequence, bad))
    }
}

/// What a producer has sent, as far as it is remembered: one request at a time.
#[derive(Debug, Default)]
pub struct Sent {
    /// Whole requests: the producer's first and last number, and the hash of the body.
    pub requests: VecDeque<(u64, u64, u64)>,
    /// Its highest number by then, and the sequence number of that row; pruned as they are committed.
    pub marks: VecDeque<(u64, u64)>,
}

/// A table under a mode.
pub struct Place {
    /// The database's name.
    pub database: Arc<Database>,
    /// The table's name, as the catalogue has it.
    pub table: TableName,
    /// What happens to rows.
    pub mode: &'static str,
    /// Where they go.
    pub buffer: Buffer,
    /// The last bad rows.
    pub rejects: Arc<Mutex<Rejects>>,
    /// What producers have sent.
    sent: Mutex<HashMap<String, Arc<AsyncMutex<Sent>>>>,
    /// For large requests.
    pub requests: Arc<Semaphore>,
    checks: Mutex<Vec<Check>>,
    /// The low mark and the retries when it last moved.
    progress: Mutex<(u64, u64, Instant)>,
}

impl Place {
    /// What tells bad rows; none while nobody knows the table.
    pub fn check(&self) -> Result<Option<Check>> {
        let kept = self
            .checks
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
            .pop();
        match kept {
            Some(check) => Ok(Some(check)),
            None => self.buffer.check(),
        }
    }

    /// Gives it back.
    pub fn keep_check(&self, check: Check) {
        let mut checks = self
            .checks
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        if checks.len() < 8 {
            checks.push(check);
        }
    }

    /// What this producer has sent; whoever holds it is the only one that puts rows of its.
    pub fn sent(&self, producer: &str) -> Arc<AsyncMutex<Sent>> {
        let mut sent = self
            .sent
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        if sent.len() >= SENT_MAX && !sent.contains_key(producer) {
            // Those that nobody holds; the buffer still knows their numbers.
            sent.retain(|_, held| Arc::strong_count(held) > 1);
        }
        sent.entry(producer.to_owned()).or_default().clone()
    }

    /// Whether the database does not answer, as far as one can tell: rows wait, and writes are only tried again.
    pub fn is_away(&self) -> bool {
        let metrics = self.buffer.metrics();
        let mut progress = self
            .progress
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        if metrics.mark_committed > progress.0 || metrics.depth_rows == 0 {
            *progress = (metrics.mark_committed, metrics.retries, Instant::now());
        }
        metrics.depth_rows > 0 && metrics.retries > progress.1
    }

    /// `database/table`.
    pub fn shown(&self) -> String {
        format!("{}/{}", self.database.name, self.table)
    }
}

/// A database.
pub struct Database {
    /// Its name.
    pub name: String,
    /// Its URL without a password.
    pub shown: String,
    config: DatabaseConfig,
    connected: AsyncMutex<Option<Connected>>,
    /// Names that were looked up, and what they are in the catalogue.
    names: Mutex<HashMap<String, TableName>>,
}

impl Database {
    fn new(name: &str, config: &DatabaseConfig) -> Self {
        Self {
            name: name.to_owned(),
            shown: redact(&config.url),
            config: config.clone(),
            connected: AsyncMutex::new(None),
            names: Mutex::default(),
        }
    }

    /// Connected; `Unsent` where it is away.
    pub async fn connected(&self) -> Result<Connected> {
        let mut held = self.connected.lock().await;
        if let Some(connected) = &*held {
            return Ok(connected.clone());
        }
        let connector = connector(&self.config.url, None);
        let target = (connector.connect)().await?;
        let connected = Connected::new(target, self.shown.clone());
        *held = Some(connected.clone());
        Ok(connected)
    }

    /// The name in the catalogue of what `text` names; none where there is no such table, or it is not offered.
    pub async fn canonical(&self, text: &str) -> Result<Option<TableName>> {
        let known = |text: &str| {
            let names = self
                .names
                .lock()
                .unwrap_or_else(std::sync::PoisonError::into_inner);
            names.get(text).cloned()
        };
        if let Some(name) = known(text) {
            return Ok(Some(name));
        }
        let Some(table) = self.table(text).await? else {
            return Ok(None);
        };
        if let Some(offered) = &self.config.tables {
            let mut is_offered = false;
            for one in offered {
                is_offered |= match known(one) {
                    Some(name) => name == table.name,
                    None => self
                        .table(one)
                        .await?
                        .is_some_and(|found| found.name == table.name),
                };
            }
            if !is_offered {
                return Ok(None);
            }
        }
        let mut names = self
            .names
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        if names.len() < NAMES_MAX {
            names.insert(text.to_owned(), table.name.clone());
        }
        Ok(Some(table.name))
    }

    /// The table, from the catalogue.
    pub async fn table(&self, text: &str) -> Result<Option<Table>> {
        let Ok(name) = text.parse::<TableName>() else {
            return Ok(None);
        };
        self.connected().await?.target().table(&name).await
    }

    /// Whether `caller` has this right to a table, by its name in the catalogue, or the one that it would get there.
    async fn has(&self, caller: &Caller, right: Right, table: &TableName) -> Result<bool> {
        let Some(patterns) = caller.patterns(right) else {
            return Ok(true);
        };
        for pattern in patterns {
            let pattern = match pattern.split_once('/') {
                Some((database, _)) if database != self.name => continue,
                Some((_, rest)) => rest,
                None => pattern,
            };
            let is_named = || pattern.parse::<TableName>().is_ok_and(|name| name == *table);
            if pattern == "*"
                || match self.canonical(pattern).await? {
                    Some(name) => name == *table,
                    None => is_named(),
                }
            {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Whether clients may make tables.
    pub fn makes_tables(&self) -> bool {
        self.config.create
    }

    /// Whether `caller` has this right to a table that is offered, be it there already or not.
    pub async fn may(&self, caller: &Caller, right: Right, table: &TableName) -> Result<bool> {
        let text = table.quoted();
        let table = match self.canonical(&text).await? {
            Some(known) => known,
            None => {
                let named = |one: &String| one.parse::<TableName>().is_ok_and(|name| name == *table);
                let is_offered = self
                    .config
                    .tables
                    .as_ref()
                    .is_none_or(|all| all.iter().any(named));
                if !is_offered || self.table(&text).await?.is_some() {
                    return Ok(false);
                }
                table.clone()
            }
        };
        self.has(caller, right, &table).await
    }

    fn settings(&self, table: &TableName) -> TableConfig {
        let settings = self.config.table.iter().find(|(name, _)| {
            name.parse::<TableName>().is_ok_and(|name| {
                name.name == table.name && (name.schema.is_none() || name.schema == table.schema)
            })
        });
        settings.map(|(_, settings)| settings.clone()).unwrap_or_default()
    }
}

/// Database, table and mode.
type PlaceKey = (String, String, &'static str);

/// All databases and the buffers that are open.
pub struct Tables {
    databases: BTreeMap<String, Arc<Database>>,
    state: PathBuf,
    config: Arc<Config>,
    places: RwLock<BTreeMap<PlaceKey, Arc<Place>>>,
    opening: AsyncMutex<()>,
}

impl Tables {
    /// As the configuration says. Nothing is opened.
    pub fn new(config: Arc<Config>) -> Result<Self> {
        let databases = config.databases.iter();
        let databases = databases.map(|(name, of)| (name.clone(), Arc::new(Database::new(name, of))));
        Ok(Self {
            databases: databases.collect(),
            state: config.state()?,
            config,
            places: RwLock::default(),
            opening: AsyncMutex::new(()),
        })
    }

    /// All databases.
    pub fn databases(&self) -> impl Iterator<Item = &Arc<Database>> {
        self.databases.values()
    }

    /// Where journals are.
    pub fn state(&self) -> &Path {
        &self.state
    }

    /// All places that are open.
    pub fn places(&self) -> Vec<Arc<Place>> {
        let places = self
            .places
            .read()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        places.values().cloned().collect()
    }

    /// The database called so; where there is only one, it needs no name.
    pub fn database(&self, name: Option<&str>) -> Result<&Arc<Database>, Refusal> {
        match name {
            Some(name) => self.databases.get(name).ok_or_else(Refusal::forbidden),
            None if self.databases.len() == 1 => {
                self.databases.values().next().ok_or_else(Refusal::forbidden)
            }
            None => Err(Refusal::bad("several databases are served").hint("say which: ?database=NAME")),
        }
    }

    /// A table that `caller` has this right to.
    pub async fn find(
        &self,
        caller: &Caller,
        right: Right,
        database: Option<&str>,
        table: &str,
    ) -> Result<(Arc<Database>, TableName), Refusal> {
        let database = self.database(database)?;
        // While the database is away, tables that are open are known all the same.
        let name = match database.canonical(table).await {
            Ok(name) => name,
            Err(error) => {
                let open = self.places().into_iter().find(|place| {
                    Arc::ptr_eq(&place.database, database)
                        && (place.table.to_string() == table || place.table.name == table)
                });
                match open {
                    Some(place) => Some(place.table.clone()),
                    None => return Err(error.into()),
                }
            }
        };
        let may_all = caller.patterns(right).is_none();
        match name {
            Some(name) => match database.has(caller, right, &name).await? {
                true => Ok((database.clone(), name)),
                false => Err(Refusal::forbidden()),
            },
            None if may_all => Err(no_table(database, table).await),
            None => Err(Refusal::forbidden()),
        }
    }

    /// The table's buffer in a mode, opened if it is not.
    pub async fn place(
        &self,
        database: &Arc<Database>,
        table: &TableName,
        mode: &'static str,
    ) -> Result<Arc<Place>, Refusal> {
        let key = (database.name.clone(), table.to_string(), mode);
        let open = || {
            let places = self
                .places
                .read()
                .unwrap_or_else(std::sync::PoisonError::into_inner);
            places.get(&key).cloned()
        };
        if let Some(place) = open() {
            return Ok(place);
        }
        let _one = self.opening.lock().await;
        if let Some(place) = open() {
            return Ok(place);
        }
        let settings = database.settings(table);
        if settings
            .modes
            .as_ref()
            .is_some_and(|modes| modes.iter().all(|known| known != mode))
        {
            return Err(Refusal::new(
                StatusCode::FORBIDDEN,
                "mode",
                format!("mode {mode} is not offered for this table"),
            ));
        }
        let memory = |of: &TableConfig| of.memory.unwrap_or(self.config.table_memory).0;
        let held: u64 = self
            .places()
            .iter()
            .map(|place| memory(&place.database.settings(&place.table)))
            .sum();
        if held + memory(&settings) > self.config.memory.0 {
            return Err(Refusal::new(
                StatusCode::SERVICE_UNAVAILABLE,
                "memory",
                "the memory for buffers is used up by other tables",
            )
            .hint("raise memory, or lower table_memory")
            .retry_after(60));
        }
        let place = Arc::new(
            self.open(database, table, mode, &settings, memory(&settings))
                .await?,
        );
        let mut places = self
            .places
            .write()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        places.insert(key, place.clone());
        Ok(place)
    }

    async fn open(
        &self,
        database: &Arc<Database>,
        table: &TableName,
        mode: &'static str,
        settings: &TableConfig,
        memory: u64,
    ) -> Result<Place> {
        let directory = self
            .directory(database)
            .join(format!("{}.{mode}", encode(&table.quoted())));
        make(&directory)?;
        let rejects = Arc::new(Mutex::new(Rejects::default()));
        let noted = rejects.clone();
        let mut options = BufferOptions::connecting(connector(&database.config.url, None), table.clone())
            .mode(mode_named(mode).unwrap_or(Mode::Insert), settings.key.iter())
            .ack(Ack::Accepted)
            .when_full(WhenFull::Fail)
            .memory(memory as usize)
            .journal_options(JournalOptions {
                directory: directory.join("journal"),
                bytes_max: settings.journal.unwrap_or(self.config.journal).0,
                accept_loss: false,
            })
            .rejects(
                directory.join("rejects.jsonl"),
                settings.rejects.unwrap_or(REJECTS_MAX),
            )
            .on_reject(move |reject| {
                noted
                    .lock()
                    .unwrap_or_else(std::sync::PoisonError::into_inner)
                    .note(reject);
            });
        if let Some(zone) = &database.config.timezone {
            options = options.timezone(zone.clone());
        }
        let buffer = options.open().await?;
        let committed = buffer.committed();
        Ok(Place {
            database: database.clone(),
            table: table.clone(),
            mode,
            buffer,
            rejects,
            sent: Mutex::default(),
            requests: Arc::new(Semaphore::new(self.config.limits.requests)),
            checks: Mutex::default(),
            progress: Mutex::new((committed, 0, Instant::now())),
        })
    }

    /// Forgets a buffer that has ended, so that the next request opens it anew.
    pub async fn ended(&self, place: &Arc<Place>) {
        let key = (place.database.name.clone(), place.table.to_string(), place.mode);
        {
            let mut places = self
                .places
                .write()
                .unwrap_or_else(std::sync::PoisonError::into_inner);
            if !places.get(&key).is_some_and(|known| Arc::ptr_eq(known, place)) {
                return;
            }
            places.remove(&key);
        }
        tracing::warn!(
            "the buffer of {} has ended; the next request opens it anew",
            place.shown()
        );
        let report = place.buffer.clone().stop().await;
        tracing::warn!(
            "{} rows of {} are left in its journal",
            report.rows.unfinished,
            place.shown()
        );
    }

    /// Opens every buffer that has a journal, so that what is in it is drained. What cannot be opened is said and left.
    pub async fn recover(&self) -> Vec<String> {
        let mut said = Vec::new();
        for database in self.databases.values() {
            let Ok(found) = fs::read_dir(self.directory(database)) else {
                continue;
            };
            for entry in found.flatten() {
                let name = entry.file_name().to_string_lossy().into_owned();
                let Some((table, mode)) = name.rsplit_once('.') else {
                    continue;
                };
                let mode = MODES.iter().find(|(known, _)| *known == mode);
                let (Some(table), Some((mode, _))) = (decode(table), mode) else {
                    continue;
                };
                if !entry.path().join("journal").join("journal.json").exists() {
                    continue;
                }
                let Ok(table) = table.parse::<TableName>() else {
                    continue;
                };
                match self.place(database, &table, mode).await {
                    Ok(place) => {
                        let rows = place.buffer.recovery().rows;
                        if rows > 0 {
                            said.push(format!(
                                "{rows} rows of {} are in its journal and are drained",
                                place.shown()
                            ));
                        }
                    }
                    Err(refusal) => said.push(format!(
                        "the journal of {}/{table} is not opened: {}",
                        database.name, refusal.message
                    )),
                }
            }
        }
        said
    }

    /// Where the journals of a database are: by its name and its URL, so that another database gets others.
    fn directory(&self, database: &Database) -> PathBuf {
        let url = tonnage::targets::files(&database.config.url);
        let place = match url.first().and_then(|path| std::path::absolute(path).ok()) {
            Some(path) => path.display().to_string(),
            None => database.shown.clone(),
        };
        let hash = xxhash_rust::xxh3::xxh3_64(place.as_bytes());
        self.state.join(format!("{}-{hash:016x}", database.name))
    }
}

async fn no_table(database: &Database, table: &str) -> Refusal {
    let refusal = Refusal::new(
        StatusCode::NOT_FOUND,
        "no_table",
        format!("there is no table '{table}'"),
    );
    let names = match database.connected().await {
        Ok(connected) => connected.target().table_names().await.unwrap_or_default(),
        Err(_) => Vec::new(),
    };
    let near = tonnage::table::nearest(table, names.iter().map(String::as_str));
    match near.is_empty() {
        true => refusal.hint("GET /v1/tables lists them"),
        false => refusal.hint(format!("did you mean {}?", near.join(" or "))),
    }
}

/// A directory that is its owner's alone.
fn make(directory: &Path) -> Result<()> {
    use std::os::unix::fs::DirBuilderExt;
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(directory)
        .map_err(|error| {
            Error::config(format!("{}: {error}", directory.display())).hint("--state DIR names another place")
        })
}

/// A name as a file's: what is not plain becomes `%` and two digits.
fn encode(name: &str) -> String {
    let mut text = String::new();
    for byte in name.bytes() {
        match byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-' {
            true => text.push(char::from(byte)),
            false => text.push_str(&format!("%{byte:02X}")),
        }
    }
    text
}

fn decode(text: &str) -> Option<String> {
    let mut bytes = Vec::new();
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let digits = [rest.next()?, rest.next()?];
        bytes.push(u8::from_str_radix(std::str::from_utf8(&digits).ok()?, 16).ok()?);
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_tables_become_names_of_files_and_back() {
        for name in [
            "readings",
            "public.readings",
            "\"odd.name\".\"a b/../c\"",
            "größe",
            "%41",
        ] {
            let encoded = encode(name);
            assert!(!encoded.contains(['/', '.', '"']), "{encoded}");
            assert_eq!(decode(&encoded).as_deref(), Some(name));
        }
    }
}
