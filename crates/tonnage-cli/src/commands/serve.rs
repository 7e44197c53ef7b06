//! `tonnage serve`: rows in and out over the network.

use std::{io::Write, net::SocketAddr, path::PathBuf, time::Duration};

use clap::{Args, ValueEnum};
use tokio::signal::unix::{SignalKind, signal};
use tonnage::{Error, Result, report::Counted};
use tonnage_server::{
    Server,
    access::new_token,
    config::{ADDRESS, Config, Listen},
    flush_logs,
};

use crate::{
    Ending,
    interrupt::{listen, requested},
    progress::Verbosity,
};

/// Answer on the network: take rows in, acknowledge them by name, and give rows out
#[derive(Debug, Args)]
#[command(
    after_help = "Rows go through a journal on disk, so that one that was acknowledged as journaled comes to
the table once, whatever dies in between. Without --config it listens on loopback, for whoever is on
this machine; off loopback it needs TLS and tokens, which the configuration names.

SIGHUP reads tokens and certificates again. SIGTERM takes no further rows, drains, and says what is
left in the journals.

Examples:
  tonnage serve shop.db
  curl http://127.0.0.1:8432/v1/tables/orders/rows -H 'Content-Type: application/json' -d '{\"id\": 1}'
  tonnage serve --new-token
  tonnage serve --config serve.toml --check
  tonnage serve --config serve.toml"
)]
pub struct ServeArgs {
    /// The database: a URL, a file, or @NAME of targets.toml
    #[arg(value_name = "TARGET", required_unless_present_any = ["config", "new_token"], conflicts_with = "config")]
    target: Option<String>,

    /// The configuration: databases, tables, listeners, tokens and bounds
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,

    /// Look whether the configuration can be used, and end
    #[arg(long)]
    check: bool,

    /// Print a new token and its SHA-256, and end
    #[arg(long, conflicts_with_all = ["target", "config", "check"])]
    new_token: bool,

    /// Where to listen, instead of what the configuration says [default: 127.0.0.1:8432]
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<SocketAddr>,

    /// Where journals and rejects are [default: ~/.local/state/tonnage/serve]
    #[arg(long, value_name = "DIR")]
    state: Option<PathBuf>,

    /// Listen off loopback without TLS and tokens, where something else protects it
    #[arg(long)]
    insecure: bool,

    /// How the log on standard error is written
    #[arg(long, value_enum, value_name = "FORMAT", default_value_t = LogFormat::Text)]
    log_format: LogFormat,
}

/// How a log is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum LogFormat {
    /// For people
    Text,
    /// An object a line, for programs
    Json,
}

impl ServeArgs {
    /// Whether the log is for programs.
    pub fn logs_json(&self) -> bool {
        self.log_format == LogFormat::Json
    }

    /// Says what a person wants to know, as the log has it.
    fn say(&self, line: &str) {
        match self.log_format {
            LogFormat::Text => eprintln!("{line}"),
            LogFormat::Json => tracing::info!(target: "tonnage::serve", "{line}"),
        }
    }
}

/// Serves until it is told to stop.
pub async fn run(args: &ServeArgs, verbosity: Verbosity) -> Result<Ending> {
    if args.new_token {
        return token();
    }
    let config = config(args)?;
    if args.check {
        return check(config).await;
    }
    let server = Server::start(config, args.config.clone()).await?;
    // Before anybody is told that it is there, and may send one.
    listen().await;
    let mut hangup = signal(SignalKind::hangup())
        .map_err(|error| Error::config(format!("no signal can be listened for: {error}")))?;
    if verbosity == Verbosity::Normal {
        introduce(args, &server).await?;
    }
    notify("READY=1");
    let watched = watchdog().map(|every| {
        tokio::spawn(async move {
            loop {
                tokio::time::sleep(every).await;
                notify("WATCHDOG=1");
            }
        })
    });
    let stop = async {
        loop {
            tokio::select! {
                found = requested() => return found,
                _ = hangup.recv() => match server.reload() {
                    Ok(()) => tracing::warn!("tokens and certificates were read again"),
                    Err(error) => tracing::error!("nothing was read again: {error}"),
                },
            }
        }
    };
    let left = server
        .run(async {
            stop.await;
            notify("STOPPING=1");
            if verbosity == Verbosity::Normal {
                args.say("stopping: what was taken is drained");
            }
        })
        .await;
    if let Some(watched) = watched {
        watched.abort();
    }
    for left in &left {
        args.say(&format!(
            "{} of {} ({}) are in the journal; the next start drains them",
            Counted(left.rows, "row"),
            left.table,
            left.mode
        ));
    }
    if left.is_empty() && verbosity == Verbosity::Normal {
        args.say("stopped; every row that was taken is in its table or in the rejects");
    }
    flush_logs().await;
    Ok(Ending::Done)
}

/// The configuration of the file or of the database alone, with what the arguments say instead.
fn config(args: &ServeArgs) -> Result<Config> {
    let mut config = match (&args.config, &args.target) {
        (Some(file), _) => Config::read(file)?,
        (None, Some(target)) => Config::of_database(target),
        (None, None) => return Err(Error::config("no database is named")),
    };
    if let Some(address) = args.listen {
        config.listen = vec![Listen {
            address,
            ..config.listen.into_iter().next().unwrap_or(default_listen()?)
        }];
    }
    if let Some(state) = &args.state {
        config.state = Some(state.clone());
    }
    config.insecure |= args.insecure;
    Ok(config)
}

/// Says whether a configuration can be used.
async fn check(config: Config) -> Result<Ending> {
    let config = tonnage_server::check(config).await?;
    println!(
        "{} and {} on {}: the configuration can be used",
        Counted(config.databases.len() as u64, "database"),
        Counted(config.tokens.len() as u64, "token"),
        Counted(config.listen.len() as u64, "address"),
    );
    Ok(Ending::Done)
}

/// Says where it listens, and what to try.
async fn introduce(args: &ServeArgs, server: &Server) -> Result<()> {
    for line in server.said() {
        args.say(line);
    }
    args.say(&format!("journals are in {}", server.state().display()));
    let urls = server.urls()?;
    for url in &urls {
        args.say(&format!("listening on {url}"));
    }
    if let (Some(url), Some(example), None) = (urls.first(), server.example().await, &args.config) {
        args.say(&format!("try: curl {url}{example}"));
    }
    Ok(())
}

fn default_listen() -> Result<Listen> {
    Ok(Listen {
        address: ADDRESS
            .parse()
            .map_err(|_| Error::bug("the default address is none"))?,
        certificate: None,
        key: None,
        client_ca: None,
    })
}

fn token() -> Result<Ending> {
    let (token, hash) = new_token()?;
    let text = format!(
        "{token}\n\n# It is shown once. In the configuration:\n[tokens.NAME]\nsha256 = \"{hash}\"\nwrite = [\"*\"]\nread = [\"*\"]\n"
    );
    let mut out = std::io::stdout();
    out.write_all(text.as_bytes())
        .and_then(|()| out.flush())
        .map_err(|error| Error::config(format!("standard output: {error}")))?;
    Ok(Ending::Done)
}

/// How often systemd is to hear from this, where it asks for that: twice in the time after which it ends a silent one.
fn watchdog() -> Option<Duration> {
    let number = |name: &str| std::env::var(name).ok()?.parse::<u64>().ok();
    let is_asked = number("WATCHDOG_PID").is_none_or(|process| process == u64::from(std::process::id()));
    let micros = number("WATCHDOG_USEC").filter(|micros| is_asked && *micros > 0)?;
    Some(Duration::from_micros((micros / 2).max(1)))
}

/// Tells systemd, where it has started this.
fn notify(what: &str) {
    use std::os::{linux::net::SocketAddrExt, unix::ffi::OsStrExt, unix::net};
    let Some(socket) = std::env::var_os("NOTIFY_SOCKET") else {
        return;
    };
    let address = match socket.as_bytes().strip_prefix(b"@") {
        Some(name) => net::SocketAddr::from_abstract_name(name),
        None => net::SocketAddr::from_pathname(&socket),
    };
    let sent =
        address.and_then(|address| net::UnixDatagram::unbound()?.send_to_addr(what.as_bytes(), &address));
    if let Err(error) = sent {
        tracing::debug!("systemd was not told: {error}");
    }
}
