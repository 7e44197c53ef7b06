//! Connecting as the arguments say.

use std::sync::Arc;

use clap::Args;
use tokio::signal::unix::{SignalKind, signal};
use tonnage::{
    Error, Result,
    target::Target,
    targets::{Password, connect_with, driver, redact},
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
