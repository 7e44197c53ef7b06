//! What `tonnage tune` has found, kept in the section of a target.
//!
//! ```toml
//! [shop]
//! url = "postgresql://app@db.example/shop"
//!
//! # tuned 2026-11-25: native, 10,000 rows, 2 jobs: 210k rows/s
//! [shop.tuned.orders.insert]
//! method = "native"
//! batch_rows = 10000
//! jobs = 2
//! ```
//!
//! - One section a table and operation. A load takes it where it is not told otherwise, and says so.
//! - Written are these sections alone: every other byte of the file stays as it is. What the file would then say is read back
//!   before it takes the place of the other, which it does at once and with the same permissions.

use std::{
    fs,
    io::Write as _,
    path::{Path, PathBuf},
    str::FromStr,
};

use toml::{
    Spanned,
    de::{DeTable, DeValue},
};
use tonnage_core::{
    error::{Error, ErrorKind, Result},
    operation::{Method, Mode},
    table::{TableName, nearest},
};

use super::named::{self, File};

/// The key of a target's section that these are in.
pub(super) const KEY: &str = "tuned";
/// What a comment of one begins with.
const COMMENT: &str = "# tuned ";
const KEYS: [&str; 3] = ["batch_rows", "jobs", "method"];

/// Settings of loads into one table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tuned {
    /// How rows travel.
    pub method: Method,
    /// The most rows of a write; none of [`Method::Single`].
    pub batch_rows: Option<usize>,
    /// Connections that write at once.
    pub jobs: usize,
}

/// What was found for an operation of loads into a table of `target`, and where that is written; none where `target` is no
/// `@name`, or nothing is. `Config` where the file cannot be read.
pub fn tuned(target: &str, table: &TableName, mode: Mode) -> Result<Option<(Tuned, String)>> {
    let Some(name) = target.strip_prefix('@') else {
        return Ok(None);
    };
    let named = named::find(name)?;
    let found = named
        .tuned
        .into_iter()
        .find(|one| one.table == *table && one.mode == mode);
    Ok(found.map(|one| (one.settings, format!("{} line {}", named.file, one.line))))
}

/// A section, as it is written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Section {
    pub(super) table: TableName,
    pub(super) mode: Mode,
    pub(super) settings: Tuned,
    pub(super) line: usize,
}

/// Reads what is below `tuned` in a section. `Config` where it is not right.
pub(super) fn read(file: &File<'_>, value: &Spanned<DeValue<'_>>) -> Result<Vec<Section>> {
    let mut sections = Vec::new();
    for (table, _, modes) in tables(file, KEY, value)? {
        let name = TableName::from_str(table).map_err(|error| file.wrong(modes.span().start, error))?;
        for (word, at, settings) in tables(file, table, modes)? {
            let mode = Mode::ALL.into_iter().find(|mode| mode.name() == word);
            let mode = mode.ok_or_else(|| {
                let names: Vec<&str> = Mode::ALL.iter().map(|mode| mode.name()).collect();
                file.wrong(at, format!("{word} is no operation of a load"))
                    .hint(format!("operations are {}", names.join(", ")))
            })?;
            sections.push(Section {
                table: name.clone(),
                mode,
                settings: settings_of(file, settings)?,
                line: file.line(at),
            });
        }
    }
    Ok(sections)
}

/// The keys of a table of tables, where they are, and these.
fn tables<'a, 'b>(
    file: &File<'_>,
    word: &str,
    value: &'b Spanned<DeValue<'a>>,
) -> Result<Vec<(&'b str, usize, &'b Spanned<DeValue<'a>>)>> {
    let DeValue::Table(table) = value.get_ref() else {
        return Err(file
            .wrong(value.span().start, format!("{word} is not a section"))
            .hint("[NAME.tuned.TABLE.insert], and below it method, batch_rows and jobs"));
    };
    Ok(table
        .iter()
        .map(|(key, value)| (key.get_ref().as_ref(), key.span().start, value))
        .collect())
}

fn settings_of(file: &File<'_>, value: &Spanned<DeValue<'_>>) -> Result<Tuned> {
    let here = value.span().start;
    let DeValue::Table(table) = value.get_ref() else {
        return Err(file.wrong(here, "tuned settings are no section"));
    };
    if let Some((key, _)) = table
        .iter()
        .find(|(key, _)| !KEYS.contains(&key.get_ref().as_ref()))
    {
        let word = key.get_ref().as_ref();
        let error = file.wrong(
            key.span().start,
            format!("unknown key '{word}' of tuned settings"),
        );
        return Err(match nearest(word, KEYS).first() {
            Some(near) => error.hint(format!("did you mean {near}?")),
            None => error.hint(format!("keys are {}", KEYS.join(", "))),
        });
    }
    let method = get(table, "method").ok_or_else(|| {
        file.wrong(here, "tuned settings have no method")
            .hint("method = \"native\"")
    })?;
    let word = method.get_ref().as_str().unwrap_or_default();
    let found = Method::ALL.into_iter().find(|method| method.name() == word);
    let found = found.ok_or_else(|| {
        file.wrong(method.span().start, format!("'{word}' is no method"))
            .hint("methods are single, batch, array, native")
    })?;
    let jobs = number(file, table, "jobs")?;
    Ok(Tuned {
        method: found,
        batch_rows: number(file, table, "batch_rows")?,
        jobs: jobs.ok_or_else(|| file.wrong(here, "tuned settings have no jobs").hint("jobs = 2"))?,
    })
}

fn get<'a, 'b>(table: &'b DeTable<'a>, word: &str) -> Option<&'b Spanned<DeValue<'a>>> {
    table
        .iter()
        .find(|(key, _)| key.get_ref() == word)
        .map(|(_, value)| value)
}

/// A number of 1 or more; none where it is not there.
fn number(file: &File<'_>, table: &DeTable<'_>, word: &str) -> Result<Option<usize>> {
    let Some(value) = get(table, word) else {
        return Ok(None);
    };
    let number = value.get_ref().as_integer().and_then(|integer| {
        let digits = integer.as_str().replace('_', "");
        usize::from_str_radix(&digits, integer.radix()).ok()
    });
    match number.filter(|number| *number > 0) {
        Some(number) => Ok(Some(number)),
        None => Err(file
            .wrong(value.span().start, format!("{word} is not a number of 1 or more"))
            .hint(format!("{word} = 1"))),
    }
}

/// Keeps settings for an operation of loads into a table of `target`, in the place of those that were kept for it. `why` is
/// what they were chosen for, in one line, and begins with the date. Returns the file.
///
/// `Config` where `target` is no `@name`, where the file holds them in a way that is not this module's, or cannot be written.
pub fn save(target: &str, table: &TableName, mode: Mode, settings: &Tuned, why: &str) -> Result<PathBuf> {
    let Some(name) = target.strip_prefix('@') else {
        return Err(Error::config(format!(
            "settings are kept for targets with a name, and {} has none",
            super::redact(target)
        ))
        .hint("give it a section in targets.toml and call it @NAME"));
    };
    let path = PathBuf::from(named::find(name)?.file);
    let path = path.canonicalize().unwrap_or(path);
    let refused = |what: &str, error: std::io::Error| {
        Error::new(
            ErrorKind::Refused,
            format!("{} cannot be {what}: {error}", path.display()),
        )
    };
    let before = fs::read_to_string(&path).map_err(|error| refused("read", error))?;
    let after = with_section(&before, name, table, mode, settings, why);
    let file = File {
        path: &path,
        text: &after,
    };
    let is_kept =
        |section: &Section| section.table == *table && section.mode == mode && section.settings == *settings;
    let read_back = named::sections_in(&file, name);
    if !read_back.is_ok_and(|sections| sections.iter().any(is_kept)) {
        return Err(Error::config(format!(
            "{} holds tuned settings of {table} in a form that cannot be changed in its place",
            path.display()
        ))
        .hint(format!(
            "remove them, and write these yourself: {}",
            lines(settings).trim_end().replace('\n', ", ")
        )));
    }
    replace(&path, &after).map_err(|error| refused("written", error))?;
    Ok(path)
}

/// `text` with a section in the place of one of the same name, or at its end.
fn with_section(
    text: &str,
    name: &str,
    table: &TableName,
    mode: Mode,
    settings: &Tuned,
    why: &str,
) -> String {
    let header = format!(
        "[{}.{KEY}.{}.{}]",
        quoted(name),
        quoted(&spelled(table)),
        mode.name()
    );
    let why = why.replace(['\n', '\r'], " ");
    let section = format!("{COMMENT}{why}\n{header}\n{}", lines(settings));
    let all: Vec<&str> = text.split_inclusive('\n').collect();
    let Some(at) = all.iter().position(|line| line.trim() == header) else {
        let mut text = text.to_owned();
        if !text.is_empty() && !text.ends_with('\n') {
            text.push('\n');
        }
        if !text.is_empty() && !text.ends_with("\n\n") {
            text.push('\n');
        }
        return text + &section;
    };
    let begin = match at.checked_sub(1) {
        Some(above) if all[above].starts_with(COMMENT) => above,
        _ => at,
    };
    let is_ours = |line: &&&str| {
        let word = line.split('=').next().unwrap_or_default().trim();
        line.contains('=') && KEYS.contains(&word)
    };
    let end = at + 1 + all[at + 1..].iter().take_while(is_ours).count();
    [&all[..begin].concat(), section.as_str(), &all[end..].concat()].concat()
}

fn lines(settings: &Tuned) -> String {
    let mut text = format!("method = \"{}\"\n", settings.method);
    if let Some(rows) = settings.batch_rows {
        text.push_str(&format!("batch_rows = {rows}\n"));
    }
    text.push_str(&format!("jobs = {}\n", settings.jobs));
    text
}

/// A table's name as it is read again.
fn spelled(table: &TableName) -> String {
    let part = |name: &str| match name.contains(['.', '"']) {
        true => format!("\"{}\"", name.replace('"', "\"\"")),
        false => name.to_owned(),
    };
    match &table.schema {
        Some(schema) => format!("{}.{}", part(schema), part(&table.name)),
        None => part(&table.name),
    }
}

/// A key of TOML, bare where it may be.
fn quoted(key: &str) -> String {
    let is_bare = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    if !key.is_empty() && key.chars().all(is_bare) {
        return key.to_owned();
    }
    let mut text = String::from("\"");
    for c in key.chars() {
        match c {
            '"' | '\\' => text.extend(['\\', c]),
            c if c.is_control() => text.push_str(&format!("\\u{:04x}", c as u32)),
            c => text.push(c),
        }
    }
    text.push('"');
    text
}

/// Puts a file with this text in the place of `path`, with its permissions, at once.
fn replace(path: &Path, text: &str) -> std::io::Result<()> {
    let permissions = fs::metadata(path)?.permissions();
    let beside = path.with_extension(format!("toml.{}", std::process::id()));
    let written = (|| {
        let mut file = fs::OpenOptions::new()
            .write(true)
            .create_new(true)
            .open(&beside)?;
        // Before there is anything in it that others may not read.
        file.set_permissions(permissions)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        fs::rename(&beside, path)
    })();
    if written.is_err() {
        // What could not be made is not there to be removed.
        let _ = fs::remove_file(&beside);
    }
    written
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(batch_rows: Option<usize>) -> Tuned {
        Tuned {
            method: batch_rows.map_or(Method::Single, |_| Method::Native),
            batch_rows,
            jobs: 2,
        }
    }

    fn table(text: &str) -> TableName {
        text.parse().expect("a name")
    }

    fn sections(text: &str, name: &str) -> Vec<Section> {
        let path = Path::new("targets.toml");
        named::sections_in(&File { path, text }, name).expect("it can be read")
    }

    #[test]
    fn a_section_is_added_and_replaced_and_all_else_stays() {
        let before =
            "# mine\n[shop]   # the shop\nurl = \"postgresql://app@db/shop\"\n\n[other]\nurl = \"x.db\"";
        let orders = table("orders");
        let once = with_section(
            before,
            "shop",
            &orders,
            Mode::Insert,
            &settings(Some(10_000)),
            "2026-11-25: fast",
        );
        assert_eq!(
            once,
            format!(
                "{before}\n\n# tuned 2026-11-25: fast\n[shop.tuned.orders.insert]\nmethod = \"native\"\nbatch_rows = 10000\n\
                 jobs = 2\n"
            )
        );
        assert_eq!(sections(&once, "shop")[0].settings, settings(Some(10_000)));
        assert_eq!(sections(&once, "shop")[0].line, 9);
        assert_eq!(sections(&once, "other"), []);
        let more = with_section(
            &once,
            "shop",
            &orders,
            Mode::Delete,
            &settings(None),
            "2026-11-26: slow",
        );
        let more = with_section(
            &more,
            "shop",
            &table("s.\"odd.name\""),
            Mode::Insert,
            &settings(None),
            "2026-11-26: odd",
        );
        assert_eq!(sections(&more, "shop").len(), 3);
        let again = with_section(
            &more,
            "shop",
            &orders,
            Mode::Insert,
            &settings(Some(100)),
            "2026-12-01: new",
        );
        assert_eq!(
            again,
            more.replace("# tuned 2026-11-25: fast", "# tuned 2026-12-01: new")
                .replace("batch_rows = 10000", "batch_rows = 100")
        );
        let odd = sections(&again, "shop")
            .into_iter()
            .find(|one| one.table.name == "odd.name");
        assert_eq!(
            odd.map(|one| (one.table.schema, one.settings)),
            Some((Some("s".to_owned()), settings(None)))
        );
    }

    #[test]
    fn what_is_wrong_is_told_by_its_line() {
        let url = "[shop]\nurl = \"x.db\"\n";
        for (text, told) in [
            (
                "[shop.tuned.orders.insert]\nmethod = \"fast\"\njobs = 1\n",
                "line 4: 'fast' is no method",
            ),
            (
                "[shop.tuned.orders.insert]\nmethod = \"array\"\njobs = 0\n",
                "line 5: jobs is not a number of 1 or more",
            ),
            (
                "[shop.tuned.orders.insert]\njobs = 1\n",
                "line 3: tuned settings have no method",
            ),
            (
                "[shop.tuned.orders.insert]\nmethod = \"array\"\njobs = 1\njob = 2\n",
                "line 6: unknown key 'job' of tuned settings",
            ),
            (
                "[shop.tuned.orders.put]\nmethod = \"array\"\njobs = 1\n",
                "line 3: put is no operation of a load",
            ),
            ("[shop.tuned]\norders = 1\n", "line 4: orders is not a section"),
        ] {
            let text = format!("{url}{text}");
            let path = Path::new("targets.toml");
            let error = named::sections_in(&File { path, text: &text }, "shop").expect_err("it is wrong");
            assert!(error.to_string().contains(told), "{text}: {error}");
        }
    }

    #[test]
    fn keys_are_quoted_where_they_have_to_be() {
        for (name, shown) in [
            ("shop", "shop"),
            ("my shop", "\"my shop\""),
            ("a\"b\\c", "\"a\\\"b\\\\c\""),
            ("", "\"\""),
        ] {
            assert_eq!(quoted(name), shown);
        }
        for name in ["orders", "s.orders", "\"odd.name\"", "\"a\"\"b\""] {
            assert_eq!(table(&spelled(&table(name))), table(name), "{name}");
        }
    }
}
