//! The connection service file, as libpq reads it: sections of options that count less than the URL and more than the environment.
//!
//! The file is `PGSERVICEFILE` or `~/.pg_service.conf`; where the service is not in it, `pg_service.conf` in
//! `PGSYSCONFDIR`.

use std::path::PathBuf;

use tonnage_core::{
    error::{Error, Result},
    table::nearest,
};

use super::{OPTIONS, Surroundings};

/// The options of one service.
#[derive(Default)]
pub(super) struct Service {
    options: Vec<(String, String)>,
    /// The file, as the user would write it.
    pub shown: String,
}

/// Where Debian keeps the system's file, then where PostgreSQL's own packages do.
const SYSTEM_DIRECTORIES: [&str; 2] = ["/etc/postgresql-common", "/etc/sysconfig/pgsql"];

/// Options of libpq that change nothing about what is loaded, and that the driver has no use for.
const UNUSED: &[&str] = &[
    "client_encoding",
    "fallback_application_name",
    "keepalives",
    "keepalives_count",
    "keepalives_idle",
    "keepalives_interval",
    "sslcompression",
    "tcp_user_timeout",
];

impl Service {
    /// Reads the service `name`. `Config` where there is none, or where its file is wrong.
    pub fn find(name: &str, surroundings: &impl Surroundings) -> Result<Self> {
        let mut read = Vec::new();
        let mut known = Vec::new();
        for (path, shown) in places(surroundings) {
            let text = match std::fs::read_to_string(&path) {
                Ok(text) => text,
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
                Err(error) => {
                    return Err(Error::config(format!(
                        "cannot read the service file {shown}: {error}"
                    )));
                }
            };
            if let Some(options) = section(&text, name, &shown)? {
                return Ok(Self { options, shown });
            }
            known.extend(sections(&text).map(str::to_owned));
            read.push(shown);
        }
        if read.is_empty() {
            return Err(
                Error::config(format!("there is no service file with the service '{name}'")).hint(format!(
                    "write [{name}] and lines option=value into ~/.pg_service.conf"
                )),
            );
        }
        let error = Error::config(format!("there is no service '{name}' in {}", read.join(" or ")));
        Err(match nearest(name, known.iter().map(String::as_str)).first() {
            Some(near) => error.hint(format!("did you mean {near}?")),
            None => error.hint(format!("write [{name}] and lines option=value into it")),
        })
    }

    /// An option's value. As in libpq the first of a name counts.
    pub fn option(&self, name: &str) -> Option<String> {
        let (_, value) = self.options.iter().find(|(known, _)| known == name)?;
        Some(value.clone()).filter(|value| !value.is_empty())
    }
}

fn places(surroundings: &impl Surroundings) -> Vec<(PathBuf, String)> {
    let own = match (
        surroundings.variable("PGSERVICEFILE"),
        surroundings.variable("HOME"),
    ) {
        (Some(path), _) => Some((PathBuf::from(&path), path)),
        (None, Some(home)) => {
            let path = PathBuf::from(home).join(".pg_service.conf");
            Some((path, "~/.pg_service.conf".to_owned()))
        }
        (None, None) => None,
    };
    let directories = match surroundings.variable("PGSYSCONFDIR") {
        Some(directory) => vec![directory],
        None => SYSTEM_DIRECTORIES.map(str::to_owned).to_vec(),
    };
    let system = directories.into_iter().map(|directory| {
        let path = PathBuf::from(directory).join("pg_service.conf");
        let shown = path.display().to_string();
        (path, shown)
    });
    own.into_iter().chain(system).collect()
}

/// Lines that say something, with their numbers.
fn lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let numbered = text.lines().enumerate().map(|(at, line)| (at + 1, line.trim()));
    numbered.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'))
}

fn sections(text: &str) -> impl Iterator<Item = &str> {
    lines(text).filter_map(|(_, line)| header(line))
}

fn header(line: &str) -> Option<&str> {
    line.strip_prefix('[')?.strip_suffix(']')
}

/// The options of the section `name`, if it is there. Messages hold no values: one may be a password.
fn section(text: &str, name: &str, shown: &str) -> Result<Option<Vec<(String, String)>>> {
    let inside = lines(text).skip_while(|(_, line)| header(line) != Some(name));
    let mut inside = inside.peekable();
    if inside.peek().is_none() {
        return Ok(None);
    }
    let mut options = Vec::new();
    for (number, line) in inside.skip(1).take_while(|(_, line)| !line.starts_with('[')) {
        let wrong = |what: String| Error::config(format!("service file {shown} line {number}: {what}"));
        let Some((option, value)) = line.split_once('=') else {
            return Err(wrong("an option has no value".to_owned()).hint("write options as name=value"));
        };
        if UNUSED.contains(&option) {
            tracing::debug!("service file {shown} line {number}: {option} is not used");
            continue;
        }
        if option == "service" || !OPTIONS.contains(&option) {
            return Err(wrong(format!("unknown option '{option}'"))
                .hint(format!("options are {}", OPTIONS.join(", "))));
        }
        options.push((option.to_owned(), value.to_owned()));
    }
    Ok(Some(options))
}
