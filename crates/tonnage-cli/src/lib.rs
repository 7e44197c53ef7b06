//! The `tonnage` command line: arguments in, one plan, messages out. A program with options of the same names has them
//! read by [`described`].
//!
//! Data goes to standard output, everything else to standard error. `exit` has the exit codes.

mod commands;
mod confirm;
mod connection;
pub mod described;
mod exit;
mod interrupt;
mod options;
mod output;
mod paths;
mod progress;
#[cfg(test)]
mod reference;
mod report;
mod screen;
mod secrets;
mod synonyms;

use std::{ffi::OsString, io::IsTerminal, process::ExitCode};

pub use self::secrets::arguments;
use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};
use tonnage::Error;
use tracing_subscriber::{
    EnvFilter, Layer,
    filter::LevelFilter,
    fmt::{format::Writer, time::FormatTime},
    layer::SubscriberExt,
    util::SubscriberInitExt,
};

use crate::{
    exit::Exit,
    interrupt::{Interrupt, unless_interrupted},
    progress::Verbosity,
};

/// Bulk in and bulk out for databases: every row once, and accounted for
#[derive(Parser)]
#[command(name = "tonnage", version, propagate_version = true, max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    command: Command,

    /// Say less: no summary, no progress, warnings only
    #[arg(short, long, global = true, display_order = 900)]
    quiet: bool,

    /// Say more; twice for everything
    #[arg(short, long, global = true, display_order = 901, action = clap::ArgAction::Count)]
    verbose: u8,
}

#[derive(Subcommand)]
enum Command {
    Load(Box<commands::load::LoadArgs>),
    Exec(Box<commands::exec::ExecArgs>),
    Unload(Box<commands::unload::UnloadArgs>),
    Verify(Box<commands::verify::VerifyArgs>),
    Copy(Box<commands::copy::CopyArgs>),
    Get(Box<commands::get::GetArgs>),
    Ingest(Box<commands::ingest::IngestArgs>),
    #[cfg(feature = "serve")]
    Serve(Box<commands::serve::ServeArgs>),
    Job(Box<commands::job::JobArgs>),
    Runs(commands::runs::RunsArgs),
    Init(commands::init::InitArgs),
    Generate(commands::generate::GenerateArgs),
    Bench(Box<commands::bench::BenchArgs>),
    Tune(Box<commands::tune::TuneArgs>),
    Explain(Box<commands::explain::ExplainArgs>),
    Targets(commands::targets::TargetsArgs),
    Completions(commands::documents::CompletionsArgs),
    Man(commands::documents::ManArgs),
}

/// How a command ended, where it did not fail.
pub enum Ending {
    /// All done.
    Done,
    /// Done, but rows were put aside.
    Rejects,
    /// Done, but rows of a journal are lost, or nobody knows whether they are, and that was accepted.
    Uncertain,
    /// Done, and rows that were compared differ.
    Differs,
    /// Stopped on request; the error says how to go on.
    Interrupted(Interrupt, Error),
}

/// The time of day where this machine is, which whoever looks on compares with a watch.
struct Clock;

impl FormatTime for Clock {
    fn format_time(&self, line: &mut Writer<'_>) -> std::fmt::Result {
        let now = jiff::Zoned::now().datetime();
        write!(line, "{}", now.round(jiff::Unit::Second).unwrap_or(now))
    }
}

/// Does what `arguments`, of which the first is the program's name, ask for. Installs what listens to logs and to signals,
/// so a process does it once.
pub fn run(arguments: Vec<OsString>) -> ExitCode {
    report::begin();
    let command = screen::with_short_help(Cli::command());
    let parsed = command
        .try_get_matches_from(&arguments)
        .and_then(|matches| Cli::from_arg_matches(&matches));
    let cli = match parsed {
        Ok(cli) => cli,
        Err(error) => return secrets::refuse(&error, &arguments),
    };
    let level = match (cli.quiet, cli.verbose) {
        (true, _) => LevelFilter::ERROR,
        (_, 0) => LevelFilter::WARN,
        (_, 1) => LevelFilter::INFO,
        (_, _) => LevelFilter::DEBUG,
    };
    // What a driver warns of is in our own errors, if it matters.
    let others = if cli.verbose > 0 { level } else { LevelFilter::OFF };
    let log = tracing_subscriber::fmt::layer().with_writer(std::io::stderr);
    let log = match logs_json(&cli) {
        true => log.json().flatten_event(true).boxed(),
        false => log
            .with_ansi(std::io::stderr().is_terminal())
            .with_timer(Clock)
            .with_target(false)
            .boxed(),
    };
    let filter = EnvFilter::new(format!("{others},tonnage={level},{}", audited(&cli)));
    let logs = tracing_subscriber::registry().with(filter).with(log);
    #[cfg(feature = "serve")]
    let logs = logs.with(tonnage_server::CollectorLayer);
    logs.init();
    tonnage::targets::use_named_stores();
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            return fail(
                &Error::config(format!("the runtime cannot start: {error}")),
                &arguments,
            );
        }
    };
    let verbosity = match cli.quiet {
        true => Verbosity::Quiet,
        false => Verbosity::Normal,
    };
    let ended = runtime.block_on(async {
        match &cli.command {
            Command::Load(args) => commands::load::run(args, verbosity).await,
            Command::Exec(args) => commands::exec::run(args, verbosity).await,
            Command::Unload(args) => commands::unload::run(args, verbosity).await,
            Command::Verify(args) => commands::verify::run(args, verbosity).await,
            Command::Copy(args) => commands::copy::run(args, verbosity).await,
            Command::Get(args) => commands::get::run(args, verbosity).await,
            Command::Ingest(args) => commands::ingest::run(args, verbosity).await,
            #[cfg(feature = "serve")]
            Command::Serve(args) => commands::serve::run(args, verbosity).await,
            Command::Job(args) => commands::job::run(args, verbosity).await,
            Command::Runs(args) => or_interrupted(commands::runs::run(args)).await,
            Command::Init(args) => or_interrupted(commands::init::run(args)).await,
            Command::Generate(args) => commands::generate::run(args, verbosity).await,
            Command::Bench(args) => commands::bench::run(args, verbosity).await,
            Command::Tune(args) => commands::tune::run(args, verbosity).await,
            Command::Explain(args) => commands::explain::run(args).await,
            Command::Completions(args) => {
                commands::documents::completions(args, Cli::command()).map(|()| Ending::Done)
            }
            Command::Man(args) => commands::documents::man(args, Cli::command()).map(|()| Ending::Done),
            Command::Targets(args) => or_interrupted(commands::targets::run(args)).await,
        }
    });
    // A reader blocked on standard input cannot be waited for.
    runtime.shutdown_background();
    match ended {
        Ok(Ending::Done) => ExitCode::SUCCESS,
        Ok(Ending::Rejects) => ExitCode::from(Exit::Rejects as u8),
        Ok(Ending::Uncertain) => ExitCode::from(Exit::Uncertain as u8),
        Ok(Ending::Differs) => ExitCode::from(Exit::Differs as u8),
        Ok(Ending::Interrupted(interrupt, error)) => {
            tell(&error, &arguments);
            ExitCode::from(interrupt.exit() as u8)
        }
        Err(error) => fail(&error, &arguments),
    }
}

/// Whether the log is for programs.
fn logs_json(cli: &Cli) -> bool {
    match &cli.command {
        #[cfg(feature = "serve")]
        Command::Serve(args) => args.logs_json(),
        _ => false,
    }
}

/// What a server has refused, and where it listens, is always said, unless it is to be quiet.
fn audited(cli: &Cli) -> &'static str {
    match (&cli.command, cli.quiet) {
        #[cfg(feature = "serve")]
        (Command::Serve(_), false) => "tonnage::audit=info,tonnage::serve=info",
        _ => "tonnage::audit=error",
    }
}

async fn or_interrupted(command: impl Future<Output = tonnage::Result<Ending>>) -> tonnage::Result<Ending> {
    match unless_interrupted(command).await {
        Ok(ending) => Ok(ending),
        Err(interrupted) => interrupted.ending(),
    }
}

/// Tells of an error, without the passwords of `arguments`.
fn tell(error: &Error, arguments: &[OsString]) {
    let concealed = |text: String| secrets::conceal(text, arguments);
    eprintln!("error: {}", concealed(error.to_string()));
    if let Some(hint) = error.hint_text() {
        eprintln!("hint: {}", concealed(hint.to_owned()));
    }
    tracing::debug!("{}", concealed(format!("{error:?}")));
}

fn fail(error: &Error, arguments: &[OsString]) -> ExitCode {
    tell(error, arguments);
    ExitCode::from(Exit::of(error.kind()) as u8)
}
