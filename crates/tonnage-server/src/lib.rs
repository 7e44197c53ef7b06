//! `tonnage serve`: rows in and out of ordinary databases over the network.
//!
//! A row that comes in goes through a [buffer](tonnage::buffer) with a journal, so that it is answered by name (accepted,
//! journaled, committed), is never doubled where its producer numbers it, and goes to the table at the speed of bulk
//! loads. Rows that go out are a bulk get or an unload. What holds:
//!
//! - Nothing of a request is looked at before its caller is known; names are looked up and never pasted.
//! - Every buffer, body, row and connection has a bound; what is over it is refused, and nothing else waits for it.
//! - What has been acknowledged as journaled comes to the table once, whatever dies in between.

pub mod access;
mod asked;
mod body;
pub mod config;
mod flight;
#[cfg(any(test, fuzzing))]
#[doc(hidden)]
pub mod fuzz;
mod http;
mod listen;
mod logs;
mod make;
mod metrics;
mod openapi;
mod otlp;
mod page;
mod read;
mod refusal;
mod tables;
mod traces;
mod write;

use std::{
    path::PathBuf,
    sync::{
        Arc, RwLock,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use tokio::sync::watch;
use tonnage::{Error, Result};

pub use self::logs::{CollectorLayer, flush_logs};
use self::{
    access::Access, config::Config, listen::Listener, metrics::Counters, tables::Tables, traces::Traces,
};

/// What requests share.
struct App {
    config: Arc<Config>,
    tables: Tables,
    access: RwLock<Arc<Access>>,
    metrics: Counters,
    /// None where no collector is named.
    traces: Option<Traces>,
    is_stopping: AtomicBool,
    stop: watch::Sender<bool>,
}

impl App {
    /// Resolves once the server is to stop.
    async fn stopped(&self) {
        let mut stop = self.stop.subscribe();
        // The sender lives as long as this.
        let _ = stop.wait_for(|stop| *stop).await;
    }
}

/// A server that listens.
pub struct Server {
    app: Arc<App>,
    listeners: Vec<Arc<Listener>>,
    file: Option<PathBuf>,
    said: Vec<String>,
}

/// What is left when a server has stopped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Left {
    /// `database/table`.
    pub table: String,
    /// What happens to its rows.
    pub mode: String,
    /// Rows in its journal that the database has not got.
    pub rows: u64,
}

/// Looks whether a server could start so, without starting it. `Config` says what is wrong.
pub async fn check(config: Config) -> Result<Config> {
    let mut config = config;
    config.check()?;
    Access::of(&config)?;
    config.listen.iter().try_for_each(listen::check)?;
    Ok(config)
}

impl Server {
    /// Checks the configuration, binds its addresses and opens the journals that have rows. `file` is where the
    /// configuration came from, for [`Server::reload`].
    pub async fn start(config: Config, file: Option<PathBuf>) -> Result<Self> {
        let config = Arc::new(check(config).await?);
        let access = Access::of(&config)?;
        let tables = Tables::new(config.clone())?;
        std::fs::create_dir_all(tables.state()).map_err(|error| {
            Error::config(format!("{}: {error}", tables.state().display()))
                .hint("--state DIR names another place")
        })?;
        let mut listeners = Vec::new();
        for listen in &config.listen {
            listeners.push(Arc::new(Listener::bind(listen).await?));
        }
        let said = tables.recover().await;
        let traces = Traces::start()?;
        logs::start()?;
        let app = Arc::new(App {
            config,
            tables,
            access: RwLock::new(Arc::new(access)),
            metrics: Counters::default(),
            traces,
            is_stopping: AtomicBool::new(false),
            stop: watch::Sender::new(false),
        });
        Ok(Self {
            app,
            listeners,
            file,
            said,
        })
    }

    /// Where it listens: `http://127.0.0.1:8432`.
    pub fn urls(&self) -> Result<Vec<String>> {
        self.listeners.iter().map(|listener| listener.url()).collect()
    }

    /// Where journals are.
    pub fn state(&self) -> PathBuf {
        self.app.tables.state().to_owned()
    }

    /// What was found at the start, a line each.
    pub fn said(&self) -> &[String] {
        &self.said
    }

    /// A table of the first database, to show what can be tried; none where there is none, or it is away.
    pub async fn example(&self) -> Option<String> {
        let database = self.app.tables.databases().next()?;
        let connected = database.connected().await.ok()?;
        let names = connected.target().table_names().await.ok()?;
        let plain = |name: &&String| {
            name.chars()
                .all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '.')
        };
        let name = names.iter().find(plain)?.clone();
        let table = database.table(&name).await.ok()??;
        let row = table
            .columns
            .iter()
            .filter(|column| {
                !column.generated && column.ty.is_some() && !(column.nullable && column.has_default)
            })
            .take(3)
            .map(|column| {
                let value = match column.ty {
                    Some(tonnage::ColumnType::Text { .. }) => "\"text\"".to_owned(),
                    Some(ty) if ty.arrow().is_numeric() => "1".to_owned(),
                    _ => "null".to_owned(),
                };
                format!("\"{}\":{value}", column.name)
            });
        let row: Vec<String> = row.collect();
        Some(format!(
            "/v1/tables/{name}/rows -H 'Content-Type: application/json' -d '{{{}}}'",
            row.join(",")
        ))
    }

    /// Reads tokens and certificates again. What cannot be read leaves everything as it is.
    pub fn reload(&self) -> Result<()> {
        if let Some(file) = &self.file {
            let mut config = Config::read(file)?;
            config.check()?;
            let access = Access::of(&config)?;
            if access.is_open && !self.app.config.tokens.is_empty() {
                return Err(Error::config(format!("{}: the tokens are gone", file.display()))
                    .hint("a server with tokens does not become one without while it runs"));
            }
            *self
                .app
                .access
                .write()
                .unwrap_or_else(std::sync::PoisonError::into_inner) = Arc::new(access);
        }
        self.listeners.iter().try_for_each(|listener| listener.reload())
    }

    /// Serves until `stop` resolves, then takes no further rows, drains within the configured bound, and says what is left.
    pub async fn run(&self, stop: impl Future<Output = ()>) -> Vec<Left> {
        let router = http::router(self.app.clone());
        let patience = Duration::from_secs(self.app.config.drain_seconds);
        let listening: Vec<_> = self
            .listeners
            .iter()
            .map(|listener| tokio::spawn(listener.clone().run(self.app.clone(), router.clone(), patience)))
            .collect();
        stop.await;
        self.app.is_stopping.store(true, Ordering::Relaxed);
        self.app.stop.send_replace(true);
        let places = self.app.tables.places();
        let now = tokio::time::Instant::now();
        let deadline = now + patience;
        // A request that lasts leaves the drains a half of the time.
        for listening in listening {
            let _ = tokio::time::timeout_at(now + patience / 2, listening).await;
        }
        let closing: Vec<_> = places
            .iter()
            .map(|place| {
                let buffer = place.buffer.clone();
                tokio::spawn(async move { buffer.close().await.is_ok() })
            })
            .collect();
        let mut left = Vec::new();
        for (place, closing) in places.iter().zip(closing) {
            let closed = tokio::time::timeout_at(deadline, closing).await;
            if matches!(closed, Ok(Ok(true))) {
                continue;
            }
            let report = place.buffer.clone().stop().await;
            if report.rows.unfinished > 0 {
                left.push(Left {
                    table: place.shown(),
                    mode: place.mode.to_owned(),
                    rows: report.rows.unfinished,
                });
            }
        }
        if let Some(traces) = &self.app.traces {
            traces.flush().await;
        }
        left
    }
}
