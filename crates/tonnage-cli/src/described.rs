//! What the options of a command describe, for a program that has options of the same names, as the Python package does.
//!
//! There is one list of options, the command line's: what it lacks nobody else has, and a value that it refuses is refused
//! everywhere in the same words. Arguments are written as `--name=value`, one value each: a comma is part of a name here.

use std::sync::Arc;

use clap::{
    ArgAction, ArgMatches, Args, Command, FromArgMatches, error::ContextKind, error::ContextValue,
    error::ErrorKind, parser::ValueSource,
};
use tonnage::{
    Error, Result,
    buffer::BufferOptions,
    connected::Connected,
    driver::Connector,
    fetch::GetOptions,
    job::JobReport,
    load::{PlannedJob, Prepared, Progress},
    plan::LoadOptions,
    source::Source,
    stop::Stop,
    table::nearest,
    target::Target,
    unload::UnloadOptions,
    verify::AfterLoad,
};

use crate::{
    commands::{
        exec::{self, ExecArgs},
        get::{self, GetArgs},
        ingest::{self, IngestArgs},
        job,
        load::{self, LoadArgs},
        rows::Place,
        unload::{self, UnloadArgs},
    },
    synonyms,
};

pub use crate::commands::job::{Asked, PartRun, WantedPart};

/// Rows that are given.
pub enum Given {
    /// Files, globs, directories or URLs, or a database.
    Inputs(Vec<String>),
    /// Those of a program.
    Source {
        /// The rows.
        source: Box<dyn Source>,
        /// Whether they are written in one transaction, unless something was asked for that does not go with one.
        in_one: bool,
    },
}

/// A load, or an exec, that has been decided.
pub struct Decided {
    /// What runs it.
    pub prepared: Prepared,
    /// What looks for its rows in the table afterwards, with `--verify`.
    pub check: Option<AfterLoad>,
}

/// How an option is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Takes {
    /// `--name`
    Nothing,
    /// `--name=value`
    Value,
    /// `--name`, `--name=value`
    ValueOrNothing,
    /// `--name=value --name=value`
    Values,
}

/// An option of a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OptionInfo {
    /// Its name, without dashes before it.
    pub name: String,
    /// How it is written.
    pub takes: Takes,
    /// The values that there are, where they are counted.
    pub values: Vec<String>,
    /// What it does, in a line.
    pub help: String,
}

/// A command by its name, and what describes it to clap.
type Known = (&'static str, fn() -> Command);

/// The commands whose options there are.
const COMMANDS: &[Known] = &[
    ("load", || command::<LoadArgs>("load")),
    ("exec", || command::<ExecArgs>("exec")),
    ("unload", || command::<UnloadArgs>("unload")),
    ("get", || command::<GetArgs>("get")),
    ("ingest", || command::<IngestArgs>("ingest")),
];

/// The options of `tonnage NAME`, in their order. `Config` for another command.
pub fn options(name: &str) -> Result<Vec<OptionInfo>> {
    let found = COMMANDS.iter().find(|(known, _)| *known == name);
    let (_, command) = found.ok_or_else(|| Error::config(format!("no options of '{name}' are known")))?;
    let command = command();
    let named = command.get_arguments().filter_map(|argument| {
        let values = argument.get_possible_values();
        let least = argument.get_num_args().map_or(1, |range| range.min_values());
        Some(OptionInfo {
            name: argument.get_long()?.to_owned(),
            takes: match argument.get_action() {
                ArgAction::Append => Takes::Values,
                ArgAction::Set if least == 0 => Takes::ValueOrNothing,
                ArgAction::Set => Takes::Value,
                _ => Takes::Nothing,
            },
            values: match argument.get_action() {
                ArgAction::Set | ArgAction::Append => {
                    values.iter().map(|value| value.get_name().to_owned()).collect()
                }
                _ => Vec::new(),
            },
            help: argument.get_help().map(ToString::to_string).unwrap_or_default(),
        })
    });
    Ok(named.collect())
}

fn command<A: Args>(name: &'static str) -> Command {
    let command = A::augment_args(Command::new(name));
    let command = command.no_binary_name(true).disable_help_flag(true);
    command.mut_args(|argument| match argument.get_value_delimiter() {
        Some(_) => argument.value_delimiter(None),
        None => argument,
    })
}

pub(crate) fn parsed<A: Args>(name: &'static str, arguments: &[String]) -> Result<A> {
    let matches = command::<A>(name).try_get_matches_from(arguments);
    matches
        .and_then(|matches| A::from_arg_matches(&matches))
        .map_err(|error| refused(name, &error))
}

/// The arguments of a command, and what was written of them: as others of this module take it.
#[derive(Debug)]
pub(crate) struct Written<A> {
    /// What they mean.
    pub args: A,
    /// The options that were given, with their values, in the order of the command's list. Places are left out.
    pub written: Vec<String>,
}

impl<A: Args> Written<A> {
    fn of(matches: &ArgMatches) -> Vec<String> {
        let mut written = Vec::new();
        for argument in A::augment_args(Command::new("")).get_arguments() {
            let id = argument.get_id().as_str();
            let Some(long) = argument.get_long() else { continue };
            if matches.value_source(id) != Some(ValueSource::CommandLine) {
                continue;
            }
            match argument.get_action() {
                ArgAction::Set | ArgAction::Append => {
                    let values = matches.get_raw(id).into_iter().flatten();
                    written.extend(values.map(|value| format!("--{long}={}", value.to_string_lossy())));
                }
                _ => written.push(format!("--{long}")),
            }
        }
        written
    }
}

impl<A: Args> FromArgMatches for Written<A> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        Ok(Self {
            args: A::from_arg_matches(matches)?,
            written: Self::of(matches),
        })
    }

    fn from_arg_matches_mut(matches: &mut ArgMatches) -> Result<Self, clap::Error> {
        let written = Self::of(matches);
        Ok(Self {
            args: A::from_arg_matches_mut(matches)?,
            written,
        })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl<A: Args> Args for Written<A> {
    fn augment_args(command: Command) -> Command {
        A::augment_args(command)
    }

    fn augment_args_for_update(command: Command) -> Command {
        A::augment_args_for_update(command)
    }
}

/// What clap says over several lines, as an error and its hint.
fn refused(name: &str, error: &clap::Error) -> Error {
    let text = error.render().to_string();
    let message = text.split("\n\n").next().unwrap_or(&text);
    let message: Vec<_> = message.lines().map(str::trim).collect();
    let message = message.join(" ");
    let refused = Error::config(message.strip_prefix("error: ").unwrap_or(&message));
    if error.kind() == ErrorKind::UnknownArgument {
        if let Some(meant) = synonyms::of(error) {
            return refused.hint(meant);
        }
        let Some(ContextValue::String(option)) = error.get(ContextKind::InvalidArg) else {
            return refused;
        };
        let known: Vec<_> = options(name).unwrap_or_default();
        let names = known.iter().map(|option| option.name.as_str());
        if let Some(near) = nearest(option.trim_start_matches('-'), names).first() {
            return refused.hint(format!("did you mean --{near}?"));
        }
    }
    refused
}

/// The rows that `given` has, into a table of `target`, as `arguments` of `tonnage load` say. `shown` names the database, and
/// has no password in it. Errors as of [`tonnage::load::prepare`].
pub async fn load(
    arguments: &[String],
    given: Given,
    target: Arc<dyn Target>,
    shown: String,
) -> Result<Decided> {
    let args: LoadArgs = parsed("load", &with_places(arguments))?;
    let given = whole_where_it_can_be(given, &*target);
    decided(
        load::rows(&args, given, Place::Connected(target, shown))?
            .prepare()
            .await?,
    )
}

/// The same as `arguments` of `tonnage exec` say.
pub async fn exec(
    arguments: &[String],
    given: Given,
    target: Arc<dyn Target>,
    shown: String,
) -> Result<Decided> {
    let args: ExecArgs = parsed("exec", &with_places(arguments))?;
    let given = whole_where_it_can_be(given, &*target);
    decided(
        exec::rows(&args, given, Place::Connected(target, shown))?
            .prepare()
            .await?,
    )
}

/// The load that a put of many streams is, as `arguments` of `tonnage load` say.
pub fn put(arguments: &[String]) -> Result<LoadOptions> {
    let args: LoadArgs = parsed("load", &with_places(arguments))?;
    load::options(&args).map(|(options, _)| options)
}

/// Plans a job of files, or one of `parts` whose rows are the program's, each like `given`, as `arguments` of `tonnage load` say.
/// No part is carried out.
pub async fn job_plan(
    arguments: &[String],
    given: Given,
    asked: job::Asked,
    database: &Connected,
) -> Result<PlannedJob> {
    let args: LoadArgs = parsed("load", &with_places(arguments))?;
    match given {
        Given::Inputs(inputs) => job::planned(database, (&args, arguments), &inputs, asked).await,
        Given::Source { source, .. } => {
            job::planned_of_program(database, (&args, arguments), source, asked).await
        }
    }
}

/// Carries out a part of a job: its files, or `rows`. Waits until it can be had. The part as it is then, and what ended the attempt
/// early; none where no part is left.
pub async fn job_part(
    database: Connected,
    (job_id, wanted): (&str, job::WantedPart),
    rows: Option<Box<dyn Source>>,
    (progress, stop): (Arc<Progress>, Stop),
) -> Result<Option<(job::PartRun, Option<Error>)>> {
    job::part_of_program(database, (job_id, wanted), rows, (progress, stop)).await
}

/// Finishes a job all of whose parts are done; waits where another process is at it.
pub async fn job_finish(database: Connected, job_id: &str, lease_seconds: u64) -> Result<JobReport> {
    job::finished(database, job_id, lease_seconds).await
}

/// What is unloaded, and where to, as `arguments` of `tonnage unload` say.
pub fn unload(arguments: &[String]) -> Result<UnloadOptions> {
    unload::options(&parsed::<UnloadArgs>("unload", &with_places(arguments))?)
}

/// What is asked for as `arguments` of `tonnage get` say, and the keys that they name; `keys` are behind the options, as
/// CSV records. None where neither they nor `--keys` name any.
pub fn get(arguments: &[String], keys: &[String]) -> Result<(GetOptions, Option<Box<dyn Source>>)> {
    let mut all = arguments.to_vec();
    all.push("--".to_owned());
    all.push("database".to_owned());
    all.extend_from_slice(keys);
    let args: GetArgs = parsed("get", &all)?;
    let has_keys = !keys.is_empty() || arguments.iter().any(|argument| argument.starts_with("--keys="));
    let source = has_keys.then(|| get::key_source(&args)).transpose()?;
    Ok((get::options(&args)?, source))
}

/// A buffer as `arguments` of `tonnage ingest` describe it.
pub fn buffer(arguments: &[String], connector: Connector) -> Result<BufferOptions> {
    let args: IngestArgs = parsed("ingest", &with_places(arguments))?;
    ingest::options(&args, connector)
}

/// The program says by itself what stands in these places.
pub(crate) fn with_places(arguments: &[String]) -> Vec<String> {
    let place = ["--".to_owned(), "database".to_owned()];
    arguments.iter().cloned().chain(place).collect()
}

/// A target whose ledger is a file has no transactions.
fn whole_where_it_can_be(given: Given, target: &dyn Target) -> Given {
    match given {
        Given::Source { source, in_one } => Given::Source {
            in_one: in_one && source.identity().is_none() && target.ledger_file().is_none(),
            source,
        },
        inputs @ Given::Inputs(_) => inputs,
    }
}

fn decided((prepared, check): (Prepared, Option<AfterLoad>)) -> Result<Decided> {
    Ok(Decided { prepared, check })
}
