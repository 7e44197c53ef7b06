//! Connecting as the arguments say.

use std::sync::Arc;

use clap::Args;
use tokio::signal::unix::{SignalKind, signal};
use tonnage::{
    Error, Result,
    target::Target,
    targets::{Password, connect_sharded, connect_with, driver, redact},
};

use crate::interrupt::nothing_done;

/// Options of every command that connects.
#[derive(Debug, Clone, Args)]
pub struct ConnectionArgs {
    /// Ask for the database's password on the terminal, without showing it
    #[arg(long, help_heading = "How to connect")]
    ask_password: bool,
}

impl ConnectionArgs {
    /// The password for `place` that the user is asked for, if he is to be asked. Blocks until he has answered.
    pub fn password(&self, place: &str) -> Result<Option<Password>> {
        self.ask_password.then(|| ask(place)).transpose()
    }

    /// Connects to `place`.
    pub async fn connect(&self, place: &str) -> Result<Arc<dyn Target>> {
        connect_with(place, self.password(place)?).await
    }
}

/// Options of commands that can be about several databases.
#[derive(Debug, Clone, Args)]
pub struct ShardArgs {
    /// The columns that say in which of several databases a row is, which are named where one is otherwise: the same ones
    /// in the same order every time
    #[arg(
        long,
        value_name = "A,B",
        value_delimiter = ',',
        help_heading = "How to connect"
    )]
    shard_by: Vec<String>,
}

impl ShardArgs {
    /// Whether several databases are meant.
    pub fn are_given(&self) -> bool {
        !self.shard_by.is_empty()
    }

    /// The database that is named, or the databases.
    pub fn place(&self, databases: &[String]) -> Result<TargetArgs> {
        match (databases, self.are_given()) {
            ([_], false) => {}
            ([only], true) => {
                return Err(Error::config(format!(
                    "--shard-by shares rows among several databases, and {} is the only one named",
                    redact(only)
                ))
                .hint("name the others too, or give them a section with members in targets.toml"));
            }
            (_, false) => {
                return Err(Error::config(format!(
                    "{} databases are named, and nothing says in which of them a row is",
                    databases.len()
                ))
                .hint("--shard-by COLUMN says it"));
            }
            (_, true) => {}
        }
        Ok(TargetArgs {
            databases: databases.to_vec(),
            shard_by: self.shard_by.clone(),
        })
    }
}

/// One database, or several that hold tables together.
#[derive(Debug, Clone)]
pub struct TargetArgs {
    databases: Vec<String>,
    shard_by: Vec<String>,
}

impl TargetArgs {
    /// The first of them, by whose kind the others go.
    pub fn first(&self) -> &str {
        self.databases.first().map_or("", String::as_str)
    }

    /// As it may be shown: without passwords.
    pub fn shown(&self) -> String {
        let shown: Vec<_> = self.databases.iter().map(|database| redact(database)).collect();
        shown.join(", ")
    }

    /// Whether it is a server, to which a connection makes nothing: a file that is connected to may be made.
    pub fn is_server(&self) -> bool {
        driver(self.first()).is_ok_and(|driver| driver.extensions.is_empty())
    }

    /// Connects.
    pub async fn connect(&self, password: Option<Password>) -> Result<Arc<dyn Target>> {
        match self.databases.as_slice() {
            [only] => connect_with(only, password).await,
            several => connect_sharded(several, &self.shard_by, password).await,
        }
    }
}

/// Asks on the terminal, never on standard input: that may carry rows.
fn ask(place: &str) -> Result<Password> {
    let driver = driver(place)?;
    if !driver.passwords {
        return Err(
            Error::config(format!("{} takes no password", driver.name)).hint("leave --ask-password out")
        );
    }
    // Ctrl-C is read as a key and then raised as a signal: without a listener it would end the process before the
    // terminal shows again what is typed.
    let _listener = signal(SignalKind::interrupt());
    let typed = rpassword::prompt_password(format!("Password for {}: ", redact(place)));
    let text = typed.map_err(|error| match error.kind() {
        std::io::ErrorKind::Interrupted => nothing_done(),
        _ => Error::config(format!("--ask-password needs a terminal to ask on: {error}"))
            .hint("without one a password file, a variable or targets.toml holds the password"),
    })?;
    Ok(Password::new(text, "typed at the terminal"))
}
