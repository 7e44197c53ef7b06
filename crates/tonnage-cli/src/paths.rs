//! The files that one command names: none is written that is named for something else as well, or that holds what the
//! command did not write.
//!
//! Two names are the same file if they resolve to one path, or to one device and inode, so links of either kind count.

use std::{
    ffi::OsStr,
    fs::{self, File, Metadata, OpenOptions},
    io::{BufReader, ErrorKind as IoKind, Read},
    path::{Path, PathBuf},
};

use serde::{Deserialize, de::IgnoredAny};
use tonnage::{
    Error, Result,
    sources::{Format, files},
    targets,
};
use tonnage_places::url_of;

/// The name that stands for a standard stream.
const STREAM: &str = "-";

/// What happens to a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Use {
    Read,
    /// Read and written as what it is.
    Database,
    Written,
}

#[derive(Debug, Clone)]
struct NamedPath {
    /// What the command calls it: `--report`, `the source`.
    what: &'static str,
    path: PathBuf,
    for_use: Use,
}

/// See the module.
#[derive(Debug, Clone, Default)]
pub struct Paths {
    named: Vec<NamedPath>,
    report: Option<PathBuf>,
}

impl Paths {
    /// Files, globs and directories whose rows are read; those that cannot be found are refused where they are opened.
    pub fn sources(&mut self, inputs: &[String], format: Option<Format>) {
        let (urls, inputs): (Vec<_>, Vec<_>) = inputs
            .iter()
            .cloned()
            .partition(|input| tonnage_places::is_url(input));
        for url in &urls {
            self.add("the source", Path::new(url), Use::Read);
        }
        let (databases, inputs): (Vec<_>, Vec<_>) = inputs
            .into_iter()
            .partition(|input| targets::driver(input).is_ok() && !Path::new(input).is_dir());
        self.databases(&databases);
        for input in &inputs {
            if input == STREAM {
                self.add("standard input", Path::new("/dev/stdin"), Use::Read);
            }
            let found = files::find(std::slice::from_ref(input), format);
            for path in found
                .into_iter()
                .flat_map(|(found, _)| found)
                .filter_map(|file| file.path)
            {
                self.add("the source", &path, Use::Read);
            }
        }
    }

    /// Databases, and the file that explains their names.
    pub fn databases(&mut self, targets: &[String]) {
        for path in targets.iter().flat_map(|target| targets::files(target)) {
            self.add("the database", &path, Use::Database);
        }
    }

    /// A file that is read, which the command calls `what`.
    pub fn reads(&mut self, what: &'static str, path: &Path) {
        self.add(what, path, Use::Read);
    }

    /// A file that is made or added to, if there is one; `-` is standard output.
    pub fn writes(&mut self, what: &'static str, path: Option<&Path>) {
        match path {
            Some(path) if path == Path::new(STREAM) => self.add(what, Path::new("/dev/stdout"), Use::Written),
            Some(path) => self.add(what, path, Use::Written),
            None => {}
        }
    }

    /// The report, if there is one.
    pub fn report(&mut self, path: Option<&Path>) {
        self.writes("--report", path);
        self.report = path.filter(|path| *path != Path::new(STREAM)).map(Path::to_owned);
    }

    fn add(&mut self, what: &'static str, path: &Path, for_use: Use) {
        self.named.push(NamedPath {
            what,
            path: path.to_owned(),
            for_use,
        });
    }

    /// Refuses what would write a file that is named twice, and a report that could not be written at the end or
    /// would replace something else.
    pub fn check(&self) -> Result<()> {
        let places: Vec<ResolvedPath> = self
            .named
            .iter()
            .map(|named| ResolvedPath::of(&named.path))
            .collect();
        // Only what is written can be in the way: of a million files that are read no two are compared.
        let mut written = Vec::new();
        for (at, named) in self.named.iter().enumerate() {
            let before: &mut dyn Iterator<Item = usize> = match named.for_use {
                Use::Written => &mut (0..at),
                Use::Read | Use::Database => &mut written.iter().copied(),
            };
            for other in before {
                if places[at].is(&places[other]) {
                    return Err(Error::config(format!(
                        "{} and {} are the same file: {}",
                        self.named[other].what,
                        named.what,
                        named.path.display()
                    ))
                    .hint("give each a file of its own"));
                }
            }
            if named.for_use == Use::Written {
                written.push(at);
            }
        }
        match &self.report {
            Some(path) => can_report(path),
            None => Ok(()),
        }
    }
}

/// Where a name leads.
struct ResolvedPath {
    /// Resolved as far as it is there.
    path: PathBuf,
    /// Device and inode of a regular file.
    file: Option<(u64, u64)>,
    /// Not a file or directory: writing there replaces nothing.
    special: bool,
}

impl ResolvedPath {
    fn of(path: &Path) -> Self {
        let metadata = fs::metadata(path).ok();
        Self {
            path: resolved(path),
            file: metadata.as_ref().filter(|found| found.is_file()).map(identity),
            special: metadata.is_some_and(|found| !found.is_file() && !found.is_dir()),
        }
    }

    fn is(&self, other: &Self) -> bool {
        if self.special || other.special {
            return false;
        }
        let same = self.path == other.path || (self.file.is_some() && self.file == other.file);
        same || self.may_be(&other.path) || other.may_be(&self.path)
    }

    /// Whether `path` is one of the names that this one with `{}` in it stands for.
    fn may_be(&self, path: &Path) -> bool {
        let parts = self
            .path
            .file_name()
            .and_then(OsStr::to_str)
            .and_then(|name| name.split_once("{}"));
        let (Some((before, after)), Some(name)) = (parts, path.file_name().and_then(OsStr::to_str)) else {
            return false;
        };
        self.path.parent() == path.parent()
            && name.len() >= before.len() + after.len()
            && name.starts_with(before)
            && name.ends_with(after)
    }
}

#[cfg(unix)]
fn identity(found: &Metadata) -> (u64, u64) {
    use std::os::unix::fs::MetadataExt;
    (found.dev(), found.ino())
}

/// The path without links, of a file that is not there that of its directory.
fn resolved(path: &Path) -> PathBuf {
    if let Ok(found) = fs::canonicalize(path) {
        return found;
    }
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    match (absolute.parent().map(fs::canonicalize), absolute.file_name()) {
        (Some(Ok(parent)), Some(name)) => parent.join(name),
        _ => absolute,
    }
}

/// What an earlier report is known by: the field that all have, or those that they had before there was one.
#[derive(Deserialize)]
struct Marks {
    tonnage: Option<IgnoredAny>,
    target: Option<IgnoredAny>,
    seconds: Option<IgnoredAny>,
    peak_memory_bytes: Option<IgnoredAny>,
}

/// Refuses a report's path that holds anything but an earlier report, and one that nothing can be written to. An empty
/// file has nothing to lose.
pub fn can_report(path: &Path) -> Result<()> {
    let refused = |why: &dyn std::fmt::Display| Error::config(format!("--report {}: {why}", path.display()));
    let no_report = || {
        refused(&"the file exists and is no earlier report")
            .hint("name another file, or remove this one first")
    };
    if let Some(url) = url_of(path) {
        if !tonnage_places::exists(url)? {
            return Ok(());
        }
        let found = tonnage_places::find(url, |_| true)?;
        return match found.as_slice() {
            [object] if is_report(tonnage_places::File::of_object(object)) => Ok(()),
            _ => Err(no_report()),
        };
    }
    let found = match fs::metadata(path) {
        Ok(found) => found,
        Err(error) if error.kind() == IoKind::NotFound => {
            return match OpenOptions::new().write(true).create_new(true).open(path) {
                Ok(_) => fs::remove_file(path).map_err(|error| refused(&error)),
                Err(error) => Err(refused(&error).hint("name a file in a directory that is there")),
            };
        }
        Err(error) => return Err(refused(&error)),
    };
    if found.is_dir() {
        return Err(refused(&"it is a directory").hint(format!(
            "name a file in it: {}",
            path.join("report.json").display()
        )));
    }
    if !found.is_file() {
        return Ok(());
    }
    OpenOptions::new()
        .write(true)
        .open(path)
        .map_err(|error| refused(&error))?;
    match found.len() == 0 || File::open(path).is_ok_and(is_report) {
        true => Ok(()),
        false => Err(no_report()),
    }
}

/// Whether what is read is an earlier report.
fn is_report(file: impl Read) -> bool {
    let marks = serde_json::from_reader::<_, Marks>(BufReader::new(file));
    marks.is_ok_and(|marks| {
        let earlier = [marks.target, marks.seconds, marks.peak_memory_bytes];
        marks.tonnage.is_some() || earlier.iter().all(Option::is_some)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What becomes of a report at `path` beside a source and a database.
    fn checked(directory: &Path, path: &str) -> Result<()> {
        let at = |name: &str| directory.join(name).display().to_string();
        let mut paths = Paths::default();
        paths.sources(&[at("rows.csv")], None);
        paths.databases(&[format!("sqlite:{}", at("shop.db"))]);
        paths.writes("--rejects", Some(&directory.join("bad.jsonl")));
        paths.writes("-o", Some(&directory.join("rows-{}.csv")));
        paths.report(Some(&directory.join(path)));
        paths.check()
    }

    #[test]
    fn a_report_replaces_nothing_but_a_report() {
        let directory = tempfile::tempdir().unwrap();
        let directory = directory.path();
        fs::write(directory.join("rows.csv"), "id\n1\n").unwrap();
        fs::write(directory.join("shop.db"), "").unwrap();
        fs::hard_link(directory.join("rows.csv"), directory.join("hard.json")).unwrap();
        std::os::unix::fs::symlink("shop.db", directory.join("soft.json")).unwrap();
        std::os::unix::fs::symlink("shop.db-wal", directory.join("dangling.json")).unwrap();
        fs::create_dir(directory.join("sub")).unwrap();
        fs::write(directory.join("report.json"), r#"{"tonnage": "1.0", "rows": 1}"#).unwrap();
        let earlier = r#"{"target": "shop.db", "seconds": 0.1, "peak_memory_bytes": null}"#;
        fs::write(directory.join("of-before.json"), earlier.replace("null", "5")).unwrap();
        fs::write(directory.join("other.json"), r#"{"name": "package"}"#).unwrap();
        fs::write(directory.join("two.json"), "{\"tonnage\": 1}\n{\"tonnage\": 1}\n").unwrap();
        fs::write(directory.join("empty"), "").unwrap();
        for good in [
            "report.json",
            "of-before.json",
            "new.json",
            "empty",
            "/dev/null",
            "sub/new.json",
        ] {
            if let Err(error) = checked(directory, good) {
                panic!("{good}: {error}");
            }
        }
        assert!(!directory.join("new.json").exists());
        for (bad, why) in [
            ("rows.csv", "the source and --report are the same file"),
            ("hard.json", "the source and --report are the same file"),
            ("sub/../rows.csv", "the source and --report are the same file"),
            ("shop.db", "the database and --report are the same file"),
            ("soft.json", "the database and --report are the same file"),
            ("shop.db-wal", "the database and --report are the same file"),
            ("bad.jsonl", "--rejects and --report are the same file"),
            ("rows-3.csv", "-o and --report are the same file"),
            ("other.json", "the file exists and is no earlier report"),
            ("two.json", "the file exists and is no earlier report"),
            ("nowhere/report.json", "No such file or directory"),
            ("sub", "it is a directory"),
        ] {
            let error = checked(directory, bad).expect_err(bad).to_string();
            assert!(error.contains(why), "{bad}: {error}");
        }
    }
}
