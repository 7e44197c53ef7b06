//! What a file begins with: its names, and how they map to those of the first file.

use std::{collections::HashSet, sync::Arc};

use tonnage_core::{
    error::{Error, Result},
    parse::shown as quoted,
};

use super::{
    detect::HeaderWidth,
    dialect::Dialect,
    tokenise::{Fields, Flaw, Idle, Record, Tokeniser, is_line_end},
};
use crate::sources::{DifferingColumns, text::window::Window};

/// The most names that a message lists.
const NAMES_SHOWN_MAX: usize = 5;

/// The most bytes of a name: far more than a database takes.
const NAME_BYTES_MAX: usize = 4096;

/// The columns of one file.
#[derive(Debug)]
pub(super) struct FileColumns {
    /// In the order of the file.
    pub names: Vec<Arc<str>>,
    /// For each column of the source, its field in this file; none where the file lacks it.
    pub fields: Vec<Option<usize>>,
}

impl FileColumns {
    /// The columns of the file that the source's are taken from.
    pub fn first(names: &[Arc<str>]) -> Self {
        Self {
            names: names.to_vec(),
            fields: (0..names.len()).map(Some).collect(),
        }
    }

    /// The columns of a further file: the same names in any order. `Input` where they differ and may not; and where a
    /// file has a name that no file had when the source was opened.
    pub fn further(
        names: Vec<Arc<str>>,
        shown: &str,
        wanted: &[Arc<str>],
        first_shown: &str,
        differing: DifferingColumns,
    ) -> Result<Self> {
        let without = |names: &[Arc<str>], others: &[Arc<str>]| -> Vec<Arc<str>> {
            names.iter().filter(|n| !others.contains(n)).cloned().collect()
        };
        let lacking = match differing {
            DifferingColumns::Refused => without(wanted, &names),
            DifferingColumns::United => Vec::new(),
        };
        let extra = without(&names, wanted);
        if !lacking.is_empty() || !extra.is_empty() {
            let mut message = format!("{shown} and {first_shown} have different columns:");
            if !lacking.is_empty() {
                message += &format!(" {shown} has no {}", listed(&lacking));
            }
            if !lacking.is_empty() && !extra.is_empty() {
                message += ",";
            }
            if !extra.is_empty() {
                message += &format!(" {first_shown} has no {}", listed(&extra));
            }
            return Err(Error::input(message).hint(
                "--union takes the columns of all files, by name; or load files of different columns one after another",
            ));
        }
        // Names are unique within a file, so each is found once.
        let fields = wanted.iter().map(|w| names.iter().position(|n| n == w)).collect();
        Ok(Self { names, fields })
    }
}

fn listed(names: &[Arc<str>]) -> String {
    let mut text = names
        .iter()
        .take(NAMES_SHOWN_MAX)
        .map(|name| quoted(name.as_bytes()))
        .collect::<Vec<_>>()
        .join(", ");
    if names.len() > NAMES_SHOWN_MAX {
        text += &format!(" and {} more", names.len() - NAMES_SHOWN_MAX);
    }
    text
}

/// A file's names, and what was made of those that its header lacks or repeats, a sentence each.
pub struct Names {
    pub names: Vec<Arc<str>>,
    pub notes: Vec<String>,
}

/// The names of a header: a column without one is called `c3` by its place, the second of one name `name_2`.
fn unique(mut names: Vec<String>, shown: &str) -> Names {
    // What is made up must not be the name of another column.
    let mut taken: HashSet<String> = names.iter().cloned().collect();
    let mut seen = HashSet::new();
    let mut notes = Vec::new();
    for (column, name) in (1..).zip(&mut names) {
        if !name.is_empty() && seen.insert(name.clone()) {
            continue;
        }
        let was_empty = name.is_empty();
        let stem = match was_empty {
            true => format!("c{column}"),
            false => name.clone(),
        };
        let numbered = (2u64..).map(|number| format!("{stem}_{number}"));
        let mut candidates = was_empty.then(|| stem.clone()).into_iter().chain(numbered);
        let Some(unused) = candidates.find(|candidate| taken.insert(candidate.clone())) else {
            continue;
        };
        let before = std::mem::replace(name, unused);
        let (before, now) = (quoted(before.as_bytes()), quoted(name.as_bytes()));
        notes.push(match was_empty {
            true => format!("column {column} of {shown} has no name in the header and is called {now}"),
            false => format!("column {column} of {shown} repeats the name {before} and is called {now}"),
        });
    }
    if notes.len() > NAMES_SHOWN_MAX {
        let more = notes.split_off(NAMES_SHOWN_MAX).len();
        notes.push(format!(
            "{more} more columns of {shown} are renamed in the same way"
        ));
    }
    Names {
        names: names.into_iter().map(Arc::from).collect(),
        notes,
    }
}

/// Consumes the header, and returns its names. `Input` for a file without one, and for names that are not UTF-8.
pub fn read_names(window: &mut Window, shown: &str, dialect: &Dialect, width: HeaderWidth) -> Result<Names> {
    let mut fields = Fields::default();
    let next = match first_record(window, &Tokeniser::new(dialect, None), &mut fields)? {
        First::Good { next } => next,
        First::Bad {
            flaw: Flaw::FieldCount { found, expected },
        } => return Err(too_many_columns(shown, "header", found, expected)),
        First::Bad { flaw } => {
            let unread = Error::input(format!("{shown}: the header cannot be read: {flaw}"));
            return Err(unread.hint(flaw.hint().unwrap_or(
                "the first line names the columns; where it does not, --no-header reads it as a row",
            )));
        }
        First::None => {
            return Err(Error::input(format!("{shown} is empty: there is no header"))
                .hint("a file without rows still names its columns in its first line"));
        }
    };
    let text = window.text();
    let mut names: Vec<String> = Vec::with_capacity(fields.spans.len());
    for (index, span) in fields.spans.iter().enumerate() {
        let place = format!("{shown}: column {} of the header", index + 1);
        let name = std::str::from_utf8(fields.bytes(*span, text)).map_err(|cause| {
            Error::input(format!("{place} is not UTF-8"))
                .hint("if the file has another character set, name it with --encoding")
                .caused_by(cause)
        })?;
        if name.contains('\0') {
            return Err(Error::input(format!("{place} contains a NUL byte")).hint(
                "no database takes it in a name; is it a text file, and in the character set of --encoding?",
            ));
        }
        if name.len() > NAME_BYTES_MAX {
            return Err(
                Error::input(format!("{place} has a name of {} bytes", name.len()))
                    .hint("is the first line a row? --no-header reads it as one"),
            );
        }
        // Spaces around a name are never meant, and no query would find it.
        names.push(name.trim().into());
    }
    match width {
        HeaderWidth::OneLess => names.push(String::new()),
        HeaderWidth::RowNames => names.insert(0, String::new()),
        HeaderWidth::OneMore if names.last().is_some_and(String::is_empty) => {
            names.pop();
        }
        HeaderWidth::OneMore | HeaderWidth::Equal => {}
    }
    window.consume(next);
    Ok(unique(names, shown))
}

/// Names for a file without a header: `c1`, `c2` .. as many as its first good record has fields, none where it has no
/// row. Consumes nothing: in a file of one column blank lines are rows.
pub(super) fn numbered_names(window: &mut Window, shown: &str, dialect: &Dialect) -> Result<Vec<Arc<str>>> {
    let mut fields = Fields::default();
    let tokeniser = Tokeniser::new(dialect, None);
    let (mut at, mut blank_lines) = (0, 0);
    let first = loop {
        match tokeniser.idle(window.text(), at, window.whole()) {
            Idle::End => break First::None,
            // What lies before the first record is held in memory.
            Idle::Line { .. } if at > dialect.record_bytes_max => {
                break First::Bad {
                    flaw: tokeniser.too_long(),
                };
            }
            Idle::Line { next } => {
                blank_lines += u64::from(is_line_end(window.text()[at]));
                at = next;
                continue;
            }
            Idle::Incomplete => {}
            Idle::Record => {
                if let Some(first) = record_at(window, at, &tokeniser, &mut fields) {
                    break first;
                }
            }
        }
        window.read(window.text().len() - at)?;
    };
    match first {
        First::Good { .. } => Ok((1..=fields.spans.len()).map(|n| format!("c{n}").into()).collect()),
        First::Bad {
            flaw: Flaw::FieldCount { found, expected },
        } => Err(too_many_columns(shown, "first record", found, expected)),
        First::Bad { flaw } => {
            let unread = Error::input(format!(
                "{shown}: the first record, which tells the number of columns, cannot be read: {flaw}"
            ));
            Err(unread.hint(
                flaw.hint()
                    .unwrap_or("mend the first line, or take it out of the file"),
            ))
        }
        First::None => Ok(Vec::from_iter((blank_lines > 0).then(|| "c1".into()))),
    }
}

/// A record of any number of fields is bad for their number only if there are more than can be.
fn too_many_columns(shown: &str, what: &str, found: usize, most: usize) -> Error {
    Error::input(format!(
        "{shown}: the {what} has {found} columns, more than {most}"
    ))
    .hint("is it the separator that --delimiter says, and has every row a line of its own?")
}

/// The first record of a file.
enum First {
    Good { next: usize },
    Bad { flaw: Flaw },
    None,
}

/// The first record of a file, once the lines before it have been consumed.
fn first_record(window: &mut Window, tokeniser: &Tokeniser, fields: &mut Fields) -> Result<First> {
    loop {
        match tokeniser.idle(window.text(), 0, window.whole()) {
            Idle::End => return Ok(First::None),
            Idle::Line { next } => {
                window.pass_blank_lines(u64::from(is_line_end(window.text()[0])));
                window.consume(next);
                continue;
            }
            Idle::Incomplete => {}
            Idle::Record => {
                if let Some(first) = record_at(window, 0, tokeniser, fields) {
                    return Ok(first);
                }
            }
        }
        window.read(window.text().len())?;
    }
}

/// The record at `at`; none where more has to be read.
fn record_at(window: &Window, at: usize, tokeniser: &Tokeniser, fields: &mut Fields) -> Option<First> {
    match tokeniser.record(window.text(), at, window.whole(), fields) {
        Record::Good { next, .. } => Some(First::Good { next }),
        Record::Bad { flaw, .. } => Some(First::Bad { flaw }),
        Record::Endless => Some(First::Bad {
            flaw: tokeniser.too_long(),
        }),
        Record::Incomplete => None,
    }
}
