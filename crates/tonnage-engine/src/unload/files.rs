//! The file or files of an unload.
//!
//! Files get their names when all of them are complete. If one cannot be finished, those that were are removed again: a
//! part of the rows never has the name under which all of them are looked for. Parts of an earlier unload that this one did not write
//! again are removed last.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use tonnage_core::{
    error::{Error, ErrorKind, Result},
    reader::BeyondArrow,
};
use tonnage_formats::{
    sinks::{self, Compression, MANIFEST, Output, ending, is_text, kind},
    sources::Format,
};
use tonnage_places::{WRITE_BYTES_MAX, url_of};

/// The placeholder of a part's number in a pattern.
const NUMBER: &str = "{}";

/// Where rows go.
pub(super) enum Files {
    /// One file, or standard output.
    One(Output),
    /// A file a job.
    Parts(Parts),
}

/// Whether rows go into files in `path`, and not into a file of that name.
pub fn is_directory(path: &Path) -> bool {
    path.to_string_lossy().ends_with('/') || path.is_dir()
}

/// Files of one name but for their number.
pub(super) struct Parts {
    directory: PathBuf,
    prefix: String,
    suffix: String,
    output: Output,
    /// Files of this pattern that are there already.
    earlier: Vec<PathBuf>,
    /// Whether the directory is to be made for them, or was.
    made: bool,
}

impl Files {
    /// The format of all of them.
    pub(super) fn format(&self) -> Result<Format> {
        Ok(kind(&self.first())?.0)
    }

    fn first(&self) -> Output {
        match self {
            Self::One(output) => output.clone(),
            Self::Parts(parts) => parts.of_number(0),
        }
    }

    /// Text has words for all that a database holds.
    pub(super) fn beyond_arrow(&self) -> Result<BeyondArrow> {
        Ok(match is_text(&self.first())? {
            true => BeyondArrow::Carried,
            false => BeyondArrow::Refused,
        })
    }

    /// Decides where rows go: a path with `{}` in its name is a pattern, a directory (or what ends in `/`) gets
    /// `part-{}`. Writes nothing.
    pub(super) fn of(output: &Output) -> Result<Self> {
        let shown = output.path.display().to_string();
        let is_directory = is_directory(&output.path);
        let name = output
            .path
            .file_name()
            .map(|name| name.to_string_lossy().into_owned());
        let (directory, name) = match name {
            _ if is_directory => {
                let format = output.format.unwrap_or(Format::Parquet);
                let compressed = match output.compression {
                    Some(Compression::Gzip) => ".gz",
                    Some(Compression::Zstd) => ".zst",
                    Some(Compression::None) | None => "",
                };
                let name = format!("part-{NUMBER}.{}{compressed}", ending(format));
                (output.path.clone(), name)
            }
            Some(name) if name.contains(NUMBER) => {
                let parent = output.path.parent().unwrap_or(Path::new(""));
                (parent.to_owned(), name)
            }
            _ => return Ok(Self::One(output.clone())),
        };
        let Some((prefix, suffix)) = name.split_once(NUMBER) else {
            return Ok(Self::One(output.clone()));
        };
        if suffix.contains(NUMBER) {
            return Err(Error::config(format!("'{shown}' has {NUMBER} twice"))
                .hint("{} stands for the number of a file and is there once"));
        }
        let mut parts = Parts {
            prefix: prefix.to_owned(),
            suffix: suffix.to_owned(),
            output: output.clone(),
            earlier: Vec::new(),
            made: false,
            directory,
        };
        // The ending says the format; refused before anything is made.
        kind(&parts.of_number(0))?;
        parts.look(is_directory)?;
        Ok(Self::Parts(parts))
    }

    /// Makes a directory that is missing.
    pub(super) fn make(&self) -> Result<()> {
        match self {
            Self::Parts(parts) if parts.made => {
                fs::create_dir(&parts.directory).map_err(|e| cannot("create", &parts.directory, &e))
            }
            _ => Ok(()),
        }
    }

    /// Whether there is one file, for any number of jobs.
    pub(super) fn is_one(&self) -> bool {
        matches!(self, Self::One(_))
    }

    /// The output of each of `jobs` files.
    pub(super) fn outputs(&self, jobs: usize) -> Vec<Output> {
        match self {
            Self::One(output) => vec![output.clone()],
            Self::Parts(parts) => (0..jobs).map(|number| parts.of_number(number)).collect(),
        }
    }

    /// What the user should know of writing `count` of them at once.
    pub(super) fn notes(&self, count: usize) -> Vec<String> {
        if url_of(&self.first().path).is_none() {
            return Vec::new();
        }
        let each = match count {
            1 => "the object".to_owned(),
            count => format!("each of {count} objects"),
        };
        vec![format!(
            "{each} is uploaded in parts and seen when all is complete: at most {} MiB of it are held, more beyond 40 GB",
            WRITE_BYTES_MAX >> 20
        )]
    }

    /// Where the list of the files goes. `Config` for standard output.
    pub(super) fn manifest(&self) -> Result<PathBuf> {
        match self {
            Self::One(output) if output.path.as_os_str() == "-" => {
                Err(Error::config("standard output has no place for a manifest")
                    .hint("name a file with -o, or leave --manifest out"))
            }
            Self::One(output) => Ok(output.path.with_file_name(MANIFEST)),
            Self::Parts(parts) => Ok(parts.directory.join(MANIFEST)),
        }
    }

    /// Removes the list of the files of an earlier unload, before one of them is replaced.
    pub(super) fn withdraw_manifest(&self) -> Result<()> {
        match self {
            Self::Parts(parts) if parts.earlier.iter().any(|path| path.ends_with(MANIFEST)) => {
                sinks::remove(&parts.directory.join(MANIFEST))
            }
            _ => Ok(()),
        }
    }

    /// Removes what an earlier unload has left, once the files `written` have their names.
    pub(super) fn finish(&self, written: &[PathBuf]) -> Result<()> {
        let Self::Parts(parts) = self else {
            return Ok(());
        };
        for path in parts.earlier.iter().filter(|path| !written.contains(path)) {
            sinks::remove(path)?;
        }
        Ok(())
    }

    /// Removes what was made for files that did not come about.
    pub(super) fn undo(&self) {
        if let Self::Parts(parts) = self
            && parts.made
        {
            // What does not go is named by the error that led here; there is nothing else to be done about it.
            let _ = fs::remove_dir(&parts.directory);
        }
    }
}

impl Parts {
    fn of_number(&self, number: usize) -> Output {
        let name = format!("{}{number:05}{}", self.prefix, self.suffix);
        Output {
            path: self.directory.join(name),
            ..self.output.clone()
        }
    }

    /// Finds earlier files, and whether the directory has to be made.
    fn look(&mut self, is_directory: bool) -> Result<()> {
        for name in self.names(is_directory)? {
            let number = name
                .strip_prefix(&self.prefix)
                .and_then(|rest| rest.strip_suffix(&self.suffix));
            let is_earlier = name == MANIFEST
                || number
                    .is_some_and(|number| !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit()));
            // Whoever loads a directory loads all of it.
            let is_in_the_way = is_earlier || (is_directory && !name.starts_with('.'));
            if is_in_the_way && !self.output.overwrite {
                return Err(
                    Error::config(format!("'{}' exists", self.directory.join(&name).display()))
                        .hint("replace it with --overwrite, or name another file or directory"),
                );
            }
            if is_earlier {
                self.earlier.push(self.directory.join(name));
            } else if is_in_the_way {
                return Err(Error::config(format!(
                    "'{}' holds '{name}', which is not of an unload: loaded again, the directory would be more than \
                     this table",
                    self.directory.display()
                ))
                .hint("name an empty directory, or a new one"));
            }
        }
        Ok(())
    }

    /// What is there already: names in the directory, or of objects directly behind the prefix.
    fn names(&mut self, is_directory: bool) -> Result<Vec<String>> {
        if let Some(url) = url_of(&self.directory) {
            let url = format!("{}/", url.trim_end_matches('/'));
            if is_directory {
                return tonnage_places::names(&url, "");
            }
            // Any number of others may lie beside them.
            let mut names = tonnage_places::names(&url, &self.prefix)?;
            names.extend(tonnage_places::names(&url, MANIFEST)?);
            names.sort_unstable();
            names.dedup();
            return Ok(names);
        }
        let place = match self.directory.as_os_str().is_empty() {
            true => Path::new("."),
            false => &self.directory,
        };
        let entries = match fs::read_dir(place) {
            Ok(entries) => entries,
            Err(error) if is_directory && error.kind() == io::ErrorKind::NotFound => {
                self.made = true;
                return Ok(Vec::new());
            }
            Err(error) => return Err(cannot("read", place, &error)),
        };
        let name = |entry: io::Result<fs::DirEntry>| {
            let entry = entry.map_err(|e| cannot("read", place, &e))?;
            Ok(entry.file_name().to_string_lossy().into_owned())
        };
        entries.map(name).collect()
    }
}

fn cannot(verb: &str, path: &Path, cause: &io::Error) -> Error {
    let error = Error::new(
        ErrorKind::Refused,
        format!("cannot {verb} {}: {cause}", path.display()),
    );
    match cause.kind() {
        io::ErrorKind::NotFound => error.hint("its directory does not exist; create it first"),
        io::ErrorKind::PermissionDenied => error.hint("name a place that you may write to"),
        _ => error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(output: &Output, jobs: usize) -> Result<Vec<String>> {
        let files = Files::of(output)?;
        files.make()?;
        let outputs = files.outputs(jobs).into_iter();
        Ok(outputs
            .map(|o| {
                o.path
                    .file_name()
                    .unwrap_or_default()
                    .to_string_lossy()
                    .into_owned()
            })
            .collect())
    }

    #[test]
    fn names_of_files() {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| Output::new(format!("{}/{name}", directory.path().display()));
        assert_eq!(names(&at("t.csv"), 2).unwrap(), ["t.csv"]);
        assert_eq!(
            names(&at("t-{}.csv.gz"), 2).unwrap(),
            ["t-00000.csv.gz", "t-00001.csv.gz"]
        );
        assert_eq!(names(&at("new/"), 1).unwrap(), ["part-00000.parquet"]);
        let json = Output {
            format: Some(Format::Json),
            compression: Some(Compression::Zstd),
            ..at("new")
        };
        assert_eq!(names(&json, 1).unwrap(), ["part-00000.jsonl.zst"]);
        assert!(names(&at("{}-{}.csv"), 1).is_err());
        assert!(names(&at("{}.xyz"), 1).is_err());
    }

    #[test]
    fn what_is_there_is_in_the_way() {
        let directory = tempfile::tempdir().unwrap();
        let mut output = Output::new(format!("{}/", directory.path().display()));
        fs::write(directory.path().join("part-00007.parquet"), "").unwrap();
        assert!(Files::of(&output).is_err());
        output.overwrite = true;
        let files = Files::of(&output).unwrap();
        files.finish(&[]).unwrap();
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
        fs::write(directory.path().join("mine.txt"), "").unwrap();
        assert!(Files::of(&output).is_err());
        assert!(directory.path().join("mine.txt").exists());
    }
}
