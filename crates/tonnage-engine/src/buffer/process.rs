//! Whether the process still runs that opened a buffer without a journal. Nobody goes on with its run once it has
//! ended, so the next opening finishes it.
//!
//! Only what this system says for certain counts: the process was started since this boot, by this user, among the
//! processes that are seen from here, and is not there any more. Of any other process nothing is known, and its run is
//! left alone.

use std::{fs, os::unix::fs::MetadataExt};

use tonnage_core::ledger::RunRecord;

/// What the identity of such a run begins with.
pub(super) const IDENTITY: &str = "buffer ";
/// The option of its run that names the process.
const OPTION: &str = "process=";
/// Fields of `/proc/ID/stat` behind the program's name.
const STATE: usize = 0;
const STARTED: usize = 19;

/// The option that names this process; none where the system does not say what is needed.
pub(super) fn option() -> Option<String> {
    let id = std::process::id();
    let (_, started) = stat(id)?;
    Some(format!("{OPTION}{} {id} {started}", place()?))
}

/// Whether `run` is that of a buffer without a journal.
pub fn is_buffer(run: &RunRecord) -> bool {
    run.finished.is_none() && run.identity.starts_with(IDENTITY)
}

/// Whether `run` is that of a buffer without a journal whose process has ended without finishing it. What it had not
/// drained is lost; what it had is in the table.
pub fn is_abandoned(run: &RunRecord) -> bool {
    let named = run
        .detail
        .options
        .iter()
        .find_map(|option| option.strip_prefix(OPTION));
    is_buffer(run) && named.is_some_and(has_ended)
}

fn has_ended(named: &str) -> bool {
    let mut parts = named.rsplitn(3, ' ');
    let (Some(started), Some(id), Some(of)) = (parts.next(), parts.next(), parts.next()) else {
        return false;
    };
    let Ok(id) = id.parse() else { return false };
    let is_here = place().is_some_and(|place| place == of);
    is_here
        && match stat(id) {
            // What is dead and waited for by nobody is still listed.
            Some((state, now)) => now != started || matches!(state.as_str(), "Z" | "X"),
            None => true,
        }
}

/// The boot, the namespace of process ids and the user: within one of them an id and a start are one process.
fn place() -> Option<String> {
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    let namespace = fs::read_link("/proc/self/ns/pid").ok()?;
    let user = fs::metadata("/proc/self").ok()?.uid();
    Some(format!("{} {} {user}", boot.trim(), namespace.display()))
}

/// The state of a process and the time of its start; none where there is no such process.
fn stat(id: u32) -> Option<(String, String)> {
    let text = fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
    // The name is in brackets and may hold anything, brackets too.
    let (_, rest) = text.rsplit_once(')')?;
    let fields: Vec<&str> = rest.split_whitespace().collect();
    Some((fields.get(STATE)?.to_string(), fields.get(STARTED)?.to_string()))
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn a_process_is_known_by_its_start() {
        let mine = option().expect("the system says");
        let named = mine.strip_prefix(OPTION).unwrap();
        assert!(!has_ended(named));
        assert!(has_ended(&format!("{named}0")), "the same id, another start");
        assert!(!has_ended(&format!("elsewhere {named}")));
        assert!(!has_ended("") && !has_ended("a b"));
    }

    #[test]
    fn one_that_has_ended_is_known_also_before_it_is_waited_for() {
        let mut child = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
        let (_, started) = stat(child.id()).unwrap();
        let named = format!("{} {} {started}", place().unwrap(), child.id());
        assert!(!has_ended(&named));
        child.kill().unwrap();
        while !has_ended(&named) {
            std::thread::yield_now();
        }
        child.wait().unwrap();
        assert!(has_ended(&named));
    }
}
