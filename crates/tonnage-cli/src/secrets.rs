//! Passwords and signed URLs that came with the arguments: they are not left where others see them.
//!
//! Every user of a machine can read the arguments of its processes. A process cannot change its own, but be replaced by
//! one that was given others: under the same number, with what was taken out of the arguments in the environment, which
//! only its owner and root can read. Until then, for some milliseconds, they are as they were given.

use std::{
    ffi::OsString,
    io::{IsTerminal, stderr},
    os::unix::process::CommandExt,
    process::{Command, ExitCode, id},
};

use clap::error::ErrorKind;
use tonnage::targets::{hide, redact};

use crate::synonyms;

/// The variable that carries what was taken out: the process's number, then places and arguments, as JSON.
const TAKEN_OUT: &str = "TONNAGE_ARGUMENTS";

/// The arguments, the program's name first.
pub fn arguments() -> Vec<OsString> {
    let mut arguments: Vec<OsString> = std::env::args_os().collect();
    if let Some(taken) = taken_out() {
        for (place, argument) in taken {
            if let Some(shown) = arguments.get_mut(place) {
                *shown = argument.into();
            }
        }
        return arguments;
    }
    let secret: Vec<(usize, &str, String)> = arguments
        .iter()
        .enumerate()
        .skip(1)
        .filter_map(|(place, argument)| {
            let argument = argument.to_str()?;
            Some((place, argument, without_password(argument)?))
        })
        .collect();
    if !secret.is_empty() {
        start_again(&arguments, &secret);
    }
    arguments
}

/// An argument as it may be shown; none for what has no password, and is neither a database nor a URL.
fn without_password(argument: &str) -> Option<String> {
    if let Some(shown) = without_signature(argument) {
        return Some(shown);
    }
    // A name of targets.toml has none, and the file need not be read for it.
    let is_named = argument.starts_with('@');
    let shown = (!is_named).then(|| redact(argument))?;
    (shown != argument && shown.contains("***")).then_some(shown)
}

/// A URL of HTTP, or an option that is one, without name, password and query, which may be a signature.
fn without_signature(argument: &str) -> Option<String> {
    let lower = argument.to_ascii_lowercase();
    let at = lower
        .find("http://")
        .into_iter()
        .chain(lower.find("https://"))
        .min()?;
    let (option, url) = argument.split_at(at);
    let is_option = option.is_empty() || (option.starts_with("--") && option.find('=') == Some(at - 1));
    let shown = tonnage_places::redacted(url);
    (is_option && shown != url).then(|| format!("{option}{shown}?***"))
}

/// What was taken out of the arguments of this very process.
fn taken_out() -> Option<Vec<(usize, String)>> {
    let taken = std::env::var(TAKEN_OUT).ok()?;
    let (process, taken) = taken.split_once(' ')?;
    let is_ours = process.parse() == Ok(id());
    is_ours.then(|| serde_json::from_str(taken).ok())?
}

/// Replaces the process; returns where that cannot be done, for it is no reason not to do the work.
fn start_again(arguments: &[OsString], secret: &[(usize, &str, String)]) {
    let taken: Vec<_> = secret
        .iter()
        .map(|(place, argument, _)| (place, argument))
        .collect();
    let (Ok(program), Ok(taken)) = (std::env::current_exe(), serde_json::to_string(&taken)) else {
        return;
    };
    let mut shown = arguments.to_vec();
    for (place, _, argument) in secret {
        shown[*place] = argument.into();
    }
    let mut command = Command::new(program);
    if let Some(name) = shown.first() {
        command.arg0(name);
    }
    let error = command
        .args(&shown[1..])
        .env(TAKEN_OUT, format!("{} {taken}", id()))
        .exec();
    // What is logged has nowhere to go yet.
    drop(error);
}

/// The text without the passwords of the arguments that it repeats: one may put a database where something else belongs,
/// or write it so that it is none.
pub fn conceal(mut text: String, arguments: &[OsString]) -> String {
    for argument in arguments.iter().skip(1).filter_map(|argument| argument.to_str()) {
        // An option's value may be a part of its argument.
        let value = argument.split_once('=').filter(|_| argument.starts_with('-'));
        let said = value.map_or(argument, |(_, value)| value);
        // Statements have colons and more, and blanks as well.
        let lower = said.to_ascii_lowercase();
        let is_place = said.contains("://") || !said.contains(char::is_whitespace);
        if (is_place || lower.contains("pas") || lower.contains("pw")) && text.contains(said) {
            text = text.replace(said, &hide(said));
        }
    }
    text
}

/// Tells what is wrong with the arguments.
pub fn refuse(error: &clap::Error, arguments: &[OsString]) -> ExitCode {
    let rendered = error.render();
    let text = match stderr().is_terminal() {
        true => rendered.ansi().to_string(),
        false => rendered.to_string(),
    };
    let concealed = conceal(text.clone(), arguments);
    let hint = synonyms::hint(error);
    if concealed == text && hint.is_none() {
        error.exit();
    }
    match hint {
        // What else looks like the option is not what is meant.
        Some(hint) if error.kind() == ErrorKind::UnknownArgument => {
            let message = concealed.split("\n\n").next().unwrap_or(&concealed);
            eprintln!("{message}\nhint: {hint}");
        }
        Some(hint) => eprintln!("{concealed}\nhint: {hint}"),
        None => eprint!("{concealed}"),
    }
    ExitCode::from(2)
}
