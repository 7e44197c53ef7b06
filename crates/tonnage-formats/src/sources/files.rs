//! From what a user names to the files that are read: paths, URLs, globs, directories, standard input.
//!
//! All inputs of a run have one format. The order is that of the arguments, within a glob or directory that
//! of the names, so that it is the same on every attempt.

use std::{
    collections::HashMap,
    ffi::OsString,
    fs,
    io::{self, Read, Seek, SeekFrom},
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    sync::Arc,
};

use tonnage_core::{
    error::{Error, Result},
    ledger::InputIdentity,
    table::nearest,
};
use tonnage_places::{Object, no_place};
use xxhash_rust::xxh3::Xxh3;

use super::{
    Format, InputFile,
    compress::{ByteStream, PARQUET_MAGIC, plain},
    excel,
    state::FileState,
};

/// The name of what lists the files of an unload. It is not read as one of them.
pub const MANIFEST: &str = "_manifest.json";

/// Bytes by which the format of a file is told whose name does not tell it.
const LOOKED_AT_BYTES: usize = 4 << 10;

/// What Arrow files and streams begin with.
const ARROW_MAGICS: [&[u8]; 2] = [b"ARROW1", b"\xff\xff\xff\xff"];

/// The byte order marks of UTF-16, whose text has zeros in it.
const MARKS: [&[u8]; 2] = [b"\xff\xfe", b"\xfe\xff"];

/// The name by which standard input is asked for, and the one by which messages call it.
const STDIN: &str = "-";
const STDIN_SHOWN: &str = "stdin";

/// What names end with, by format.
const ENDINGS: &[(&str, Format)] = &[
    ("csv", Format::Csv),
    ("txt", Format::Csv),
    ("tsv", Format::Tsv),
    ("tab", Format::Tsv),
    ("jsonl", Format::Json),
    ("ndjson", Format::Json),
    ("json", Format::Json),
    ("parquet", Format::Parquet),
    ("pq", Format::Parquet),
    ("arrow", Format::Arrow),
    ("arrows", Format::Arrow),
    ("feather", Format::Arrow),
    ("ipc", Format::Arrow),
    // Their sheets are read as CSV text.
    ("xlsx", Format::Csv),
    ("xlsm", Format::Csv),
    ("xlsb", Format::Csv),
    ("xls", Format::Csv),
    ("ods", Format::Csv),
];

/// What names of compressed text files end with, behind the ending of their format.
const COMPRESSED_ENDINGS: &[&str] = &["gz", "zst", "bz2", "xz", "lz4", "zip"];

/// The files that `inputs` name, and their format: `format` if given, else by their endings, CSV for standard
/// input.
///
/// `Config` where nothing or two formats are named, or one file twice; `Input` for what is not there.
pub fn find(inputs: &[String], format: Option<Format>) -> Result<(Vec<InputFile>, Format)> {
    let mut files = Vec::new();
    for input in inputs {
        if input == STDIN {
            files.push(stdin());
        } else if tonnage_places::is_url(input) {
            let is_wanted = move |name: &str| is_of(Path::new(name), format);
            let objects = tonnage_places::find(input, is_wanted)?;
            for object in objects {
                files.push(of_object(object)?);
            }
        } else if Path::new(input).is_dir() {
            directory(input, format, &mut files)?;
        } else if input.contains(['*', '?', '[']) && !Path::new(input).exists() {
            matching(input, &mut files)?;
        } else {
            files.push(file(Path::new(input))?);
        }
    }
    if files.is_empty() {
        return Err(Error::config("no input is named")
            .hint("name a file, a directory, a glob, a URL or - for standard input"));
    }
    refuse_repeats(&files)?;
    let format = match format {
        Some(format) => format,
        None => common_format(&files)?,
    };
    Ok((files, format))
}

/// The format that a file's name tells.
pub fn format_of(path: &Path) -> Option<Format> {
    // Endings are ASCII, whatever stands before them.
    let name = path.file_name()?.to_string_lossy().to_ascii_lowercase();
    let (stem, ending) = name.rsplit_once('.')?;
    let by_ending = |ending: &str| {
        let known = ENDINGS.iter().find(|(known, _)| *known == ending)?;
        Some(known.1)
    };
    if COMPRESSED_ENDINGS.contains(&ending) {
        return by_ending(stem.rsplit_once('.')?.1);
    }
    by_ending(ending)
}

fn stdin() -> InputFile {
    InputFile {
        shown: STDIN_SHOWN.into(),
        path: None,
        object: None,
        identity: None,
        state: None,
        sheet: None,
    }
}

/// One file by its path. `Input`, with the nearest names, where there is none.
fn file(path: &Path) -> Result<InputFile> {
    let shown: Arc<str> = path.to_string_lossy().into();
    let metadata = fs::metadata(path).map_err(|cause| missing(path, &shown, cause))?;
    // A pipe or device can be read but once.
    let (mut identity, mut state) = (None, None);
    if metadata.is_file() {
        let unreadable = |cause: io::Error| {
            Error::input(format!("{shown}: cannot be read: {}", plain(&cause))).caused_by(cause)
        };
        let absolute = fs::canonicalize(path).map_err(unreadable)?;
        let found = FileState::of(&metadata).map_err(unreadable)?;
        identity = Some(InputIdentity {
            path: absolute.to_str().ok_or_else(|| not_utf8(&absolute))?.to_owned(),
            bytes: found.bytes,
            modified_nanos: found.modified_nanos,
            named: named(path, &absolute),
            sample: Some(
                fs::File::open(path)
                    .and_then(|mut file| sample(&mut file, found.bytes))
                    .map_err(unreadable)?,
            ),
        });
        state = Some(found);
    }
    Ok(InputFile {
        shown,
        path: Some(path.to_owned()),
        object: None,
        identity,
        state,
        sheet: None,
    })
}

/// One object. It is known again by its URL, its size and its version, or where that has no name by its content.
fn of_object(object: Object) -> Result<InputFile> {
    let mut file = InputFile {
        shown: object.url().into(),
        path: None,
        object: Some(object.clone()),
        identity: None,
        state: None,
        sheet: None,
    };
    // What is read from its beginning only cannot be read again with certainty.
    if let Some(bytes) = object.bytes().filter(|_| object.has_ranges()) {
        let sample = match object.strong_etag() {
            Some(etag) => format!("etag:{etag}"),
            None => {
                let sampled = file.opened().and_then(|mut open| sample(&mut open, bytes));
                sampled.map_err(|cause| {
                    let error = Error::input(format!("{}: cannot be read: {cause}", file.shown));
                    file.check().err().unwrap_or(error)
                })?
            }
        };
        file.identity = Some(InputIdentity {
            path: object.url().to_owned(),
            bytes,
            modified_nanos: object.modified_nanos(),
            named: None,
            sample: Some(sample),
        });
    }
    Ok(file)
}

/// The path goes into the ledger and into rejects, which are text.
fn not_utf8(path: &Path) -> Error {
    Error::input(format!("{path:?}: the name is not UTF-8"))
        .hint("rename it, or load it as standard input with -")
}

/// The absolute path as it was named, where a symbolic link leads from it to `resolved`.
fn named(path: &Path, resolved: &Path) -> Option<String> {
    let named = std::path::absolute(path).ok()?;
    // Of the parts of a path `..` may lead elsewhere behind a link: then it is no name that would be given again.
    let is_plain = !named
        .components()
        .any(|part| part == std::path::Component::ParentDir);
    (is_plain && named != resolved).then(|| named.to_string_lossy().into_owned())
}

/// Content of a file that is hashed: all of it up to this many bytes, of a larger one four parts of it.
pub const SAMPLE_BYTES: u64 = 64 << 10;
/// Parts of a larger file that are hashed, the first and the last bytes among them.
const SAMPLE_PARTS: u64 = 4;

/// Hash by which a file is known again under another name.
fn sample(file: &mut (impl Read + Seek), bytes: u64) -> io::Result<String> {
    let mut hash = Xxh3::new();
    let part = match bytes <= SAMPLE_BYTES {
        true => bytes,
        false => SAMPLE_BYTES / SAMPLE_PARTS,
    };
    let parts = if bytes <= SAMPLE_BYTES { 1 } else { SAMPLE_PARTS };
    let mut buffer = Vec::new();
    for at in 0..parts {
        // Parts lie at equal distances, the last one at the end.
        let offset = (bytes - part) / (parts - 1).max(1) * at;
        let offset = if at + 1 == parts { bytes - part } else { offset };
        file.seek(SeekFrom::Start(offset))?;
        buffer.clear();
        Read::by_ref(file).take(part).read_to_end(&mut buffer)?;
        hash.update(&buffer);
    }
    Ok(format!("{:032x}", hash.digest128()))
}

/// Paths are mistaken most often because they were written for another working directory.
fn looked_for_from_here(error: Error) -> Error {
    match std::env::current_dir() {
        Ok(here) => error.hint(format!("the working directory is {}", here.display())),
        Err(_) => error,
    }
}

fn missing(path: &Path, shown: &str, cause: io::Error) -> Error {
    if cause.kind() != io::ErrorKind::NotFound {
        return Error::input(format!("{shown}: cannot be read: {}", plain(&cause))).caused_by(cause);
    }
    let directory = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    if !directory.is_dir() {
        if let Some(error) = no_place(shown) {
            return error;
        }
        let message = format!("{shown}: there is no directory {}", directory.display());
        return looked_for_from_here(Error::input(message).caused_by(cause));
    }
    let error = Error::input(format!("{shown}: there is no such file")).caused_by(cause);
    let names = visible_names(directory).unwrap_or_default();
    let names: Vec<_> = names.iter().filter_map(|name| name.to_str()).collect();
    let wanted = path.file_name().map(|n| n.to_string_lossy()).unwrap_or_default();
    let near = nearest(&wanted, names.iter().copied());
    if near.is_empty() {
        return looked_for_from_here(error);
    }
    let near: Vec<_> = near
        .iter()
        .map(|name| path.with_file_name(name).display().to_string())
        .collect();
    error.hint(format!("did you mean {}?", near.join(" or ")))
}

/// Names in a directory that do not begin with a point, sorted.
fn visible_names(directory: &Path) -> io::Result<Vec<OsString>> {
    let mut names = names_in(directory)?;
    names.retain(|name| !name.as_encoded_bytes().starts_with(b"."));
    Ok(names)
}

/// All names in a directory, sorted. The empty path is the working directory.
fn names_in(directory: &Path) -> io::Result<Vec<OsString>> {
    let directory = match directory.as_os_str().is_empty() {
        true => Path::new("."),
        false => directory,
    };
    let names = fs::read_dir(directory)?.map(|entry| Ok(entry?.file_name()));
    let mut names: Vec<_> = names.collect::<io::Result<_>>()?;
    names.sort();
    Ok(names)
}

/// The files of a directory whose ending is known, or is one of `format` if given.
fn directory(shown: &str, format: Option<Format>, files: &mut Vec<InputFile>) -> Result<()> {
    let directory = Path::new(shown);
    let names = visible_names(directory).map_err(|cause| {
        Error::input(format!("{shown}: cannot be read: {}", plain(&cause))).caused_by(cause)
    })?;
    let before = files.len();
    for name in names {
        let path = directory.join(name);
        if !is_of(&path, format) || path.is_dir() {
            continue;
        }
        files.push(file(&path)?);
    }
    if files.len() == before {
        return Err(
            Error::input(format!("{shown}: the directory holds no file that can be read")).hint(format!(
                "files in it are told by their endings: {}",
                known_endings()
            )),
        );
    }
    Ok(())
}

/// Whether a file of a directory has a known ending, and one of `format` if given.
fn is_of(path: &Path, format: Option<Format>) -> bool {
    let is_manifest = path.file_name().is_some_and(|name| name == MANIFEST);
    !is_manifest && format_of(path).is_some_and(|found| format.is_none_or(|wanted| alike(wanted, found)))
}

/// Whether files of the one format may be read as the other: all that is delimited text.
fn alike(one: Format, other: Format) -> bool {
    let delimited = |format| matches!(format, Format::Csv | Format::Tsv);
    one == other || (delimited(one) && delimited(other))
}

fn known_endings() -> String {
    let endings: Vec<_> = ENDINGS.iter().map(|(ending, _)| format!(".{ending}")).collect();
    format!(
        "{}, text also with .gz, .zst, .bz2, .xz, .lz4 or .zip behind",
        endings.join(" ")
    )
}

/// The files that a glob matches; none is an error.
fn matching(pattern: &str, files: &mut Vec<InputFile>) -> Result<()> {
    let before = files.len();
    for path in expanded(pattern)? {
        if !path.is_dir() {
            files.push(file(&path)?);
        }
    }
    if files.len() == before {
        return Err(looked_for_from_here(Error::input(format!(
            "no file matches '{pattern}'"
        ))));
    }
    Ok(())
}

/// The paths that a glob matches, also such as are not UTF-8, for which the glob crate has no eye.
fn expanded(pattern: &str) -> Result<Vec<PathBuf>> {
    let no_glob = |cause: glob::PatternError| {
        Error::config(format!("'{pattern}' is not a glob: {}", cause.msg)).caused_by(cause)
    };
    glob::Pattern::new(pattern).map_err(no_glob)?;
    let root = if pattern.starts_with('/') { "/" } else { "" };
    let mut found = vec![PathBuf::from(root)];
    let mut parts: Vec<&str> = pattern.split('/').filter(|part| !part.is_empty()).collect();
    if parts.last() == Some(&"**") {
        parts.push("*");
    }
    for part in parts {
        let mut further = Vec::new();
        let glob = glob::Pattern::new(part).map_err(no_glob)?;
        for path in found {
            if part == "**" {
                within(path, &mut further)?;
            } else if !part.contains(['*', '?', '[']) {
                further.push(path.join(part));
            } else if path.as_os_str().is_empty() || path.is_dir() {
                let names = names_of(&path, part.starts_with('.'))?;
                let matched = names
                    .into_iter()
                    .filter(|name| glob.matches(&name.to_string_lossy()));
                further.extend(matched.map(|name| path.join(name)));
            }
        }
        found = further;
    }
    found.retain(|path| path.exists());
    Ok(found)
}

/// A directory and all that are in it, but for links.
fn within(directory: PathBuf, found: &mut Vec<PathBuf>) -> Result<()> {
    found.push(directory.clone());
    if !directory.as_os_str().is_empty() && !directory.is_dir() {
        return Ok(());
    }
    for name in names_of(&directory, false)? {
        let path = directory.join(name);
        if path.symlink_metadata().is_ok_and(|metadata| metadata.is_dir()) {
            within(path, found)?;
        }
    }
    Ok(())
}

/// Names in a directory, sorted; those that begin with a point are `hidden`.
fn names_of(directory: &Path, hidden: bool) -> Result<Vec<OsString>> {
    let mut names = names_in(directory).map_err(|cause| {
        let shown = directory.display();
        Error::input(format!("{shown}: cannot be read: {}", plain(&cause))).caused_by(cause)
    })?;
    names.retain(|name| name.as_encoded_bytes().starts_with(b".") == hidden);
    Ok(names)
}

/// A file that is named twice would be loaded twice, which nobody means; by symbolic and by hard links too.
fn refuse_repeats(files: &[InputFile]) -> Result<()> {
    let mut paths = HashMap::new();
    let mut places = HashMap::new();
    for file in files {
        let path = match (&file.object, &file.identity, &file.path) {
            // What follows a question mark is not shown, and may name another file.
            (Some(object), ..) => PathBuf::from(format!(
                "{} {}",
                object.url(),
                object.version().unwrap_or_default()
            )),
            (None, Some(identity), _) => PathBuf::from(&identity.path),
            (None, None, Some(path)) => path.clone(),
            (None, None, None) => PathBuf::from(STDIN),
        };
        let shown = &file.shown;
        let error = match paths.insert(path, shown) {
            Some(other) if other == shown => format!("{shown} is named twice"),
            Some(other) => format!("{shown} is named twice: {other} leads to the same file"),
            None => {
                // One link is the rule; where there are several each may be named.
                let metadata = file.path.as_ref().and_then(|path| fs::metadata(path).ok());
                let linked = metadata.filter(|found| found.is_file() && found.nlink() > 1);
                match linked.and_then(|found| places.insert((found.dev(), found.ino()), shown)) {
                    Some(other) => format!("{shown} and {other} are one file under two names (a hard link)"),
                    None => continue,
                }
            }
        };
        return Err(Error::config(error)
            .hint("its rows would be loaded twice; a glob or a directory may name it again"));
    }
    Ok(())
}

/// The one format of all files by their names; standard input and pipes go with the rest.
fn common_format(files: &[InputFile]) -> Result<Format> {
    let mut common: Option<(Format, &InputFile)> = None;
    for file in files {
        // What has no identity is a pipe, whose name says nothing: /dev/fd/63.
        let name = match (&file.object, &file.identity, &file.path) {
            (Some(object), ..) => PathBuf::from(object.name()),
            (None, Some(_), Some(path)) => path.clone(),
            _ => continue,
        };
        let known = match format_of(&name) {
            // It would have to be asked for twice.
            None if file.identity.is_none() => None,
            None => by_content(file)?,
            Some(Format::Csv) if is_json_all_the_same(file) => Some(Format::Json),
            known => known,
        };
        let format = match known {
            Some(format) => format,
            None => {
                return Err(Error::config(format!(
                    "{}: neither its ending nor its content tells its format",
                    file.shown
                ))
                .hint("name it with --format: csv, tsv, json, parquet or arrow"));
            }
        };
        match common {
            None => common = Some((format, file)),
            Some((other, first)) if other != format => {
                return Err(Error::config(format!(
                    "{} is {} but {} is {}: the inputs of one run have one format",
                    first.shown,
                    other.name(),
                    file.shown,
                    format.name()
                ))
                .hint("load them one after another, or name the format of all with --format"));
            }
            Some(_) => {}
        }
    }
    Ok(common.map_or(Format::Csv, |(format, _)| format))
}

/// Whether a file whose name says CSV begins as no CSV does, with an object of JSON or a list of them. One in a store is not
/// asked for twice, and one that cannot be read says so when it is.
fn is_json_all_the_same(file: &InputFile) -> bool {
    let ending = file.path.as_deref().and_then(Path::extension);
    let is_sheet = ending.is_some_and(|ending| {
        excel::ENDINGS
            .iter()
            .any(|known| ending.eq_ignore_ascii_case(known))
    });
    if file.object.is_some() || file.identity.is_none() || is_sheet {
        return false;
    }
    let looked_at = ByteStream::open(file).and_then(|stream| stream.looked_at(LOOKED_AT_BYTES));
    let Ok((_, start)) = looked_at else {
        return false;
    };
    let text = start.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&start);
    let object = match text.trim_ascii() {
        [b'[', list @ ..] => list.trim_ascii_start(),
        object => object,
    };
    let has_name = |inner: &[u8]| inner.trim_ascii_start().starts_with(b"\"");
    let mut objects = serde_json::Deserializer::from_slice(object)
        .into_iter::<serde_json::Map<String, serde_json::Value>>();
    // The first one may be longer than what was looked at.
    let is_object = match objects.next() {
        Some(Ok(_)) => true,
        Some(Err(error)) => error.is_eof() && start.len() == LOOKED_AT_BYTES,
        None => false,
    };
    object.strip_prefix(b"{").is_some_and(has_name) && is_object
}

/// That JSON is read of a file whose name says CSV.
pub(super) fn misnamed_note(files: &[InputFile]) -> Option<String> {
    let is_misnamed = |file: &&InputFile| {
        let path = file.path.as_deref().filter(|_| file.identity.is_some());
        path.and_then(format_of) == Some(Format::Csv)
    };
    let shown = &files.iter().find(is_misnamed)?.shown;
    Some(format!(
        "{shown} is read as JSON, though its name says CSV; --format csv reads it as that"
    ))
}

/// The format that a file's first bytes tell, where its name does not; none for what is no text and no known format.
fn by_content(file: &InputFile) -> Result<Option<Format>> {
    let (_, start) = ByteStream::open(file)?.looked_at(LOOKED_AT_BYTES)?;
    if start.starts_with(PARQUET_MAGIC) {
        return Ok(Some(Format::Parquet));
    }
    if ARROW_MAGICS.iter().any(|magic| start.starts_with(magic)) {
        return Ok(Some(Format::Arrow));
    }
    let is_marked = MARKS.iter().any(|mark| start.starts_with(mark));
    if start.contains(&0) && !is_marked {
        return Ok(None);
    }
    let text = start.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&start);
    Ok(Some(match text.trim_ascii_start() {
        [b'{', rest @ ..] | [b'[', rest @ ..]
            if rest
                .trim_ascii_start()
                .first()
                .is_some_and(|next| matches!(next, b'"' | b'{' | b'[' | b']' | b'}')) =>
        {
            Format::Json
        }
        _ => Format::Csv,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn directory_with(names: &[&str]) -> tempfile::TempDir {
        let directory = tempfile::tempdir().unwrap();
        for name in names {
            fs::write(directory.path().join(name), "a\n1\n").unwrap();
        }
        directory
    }

    /// Names found for an input given relative to the directory, or the error.
    fn found(directory: &tempfile::TempDir, inputs: &[&str], format: Option<Format>) -> Result<Vec<String>> {
        let inputs: Vec<String> = inputs
            .iter()
            .map(|i| directory.path().join(i).to_string_lossy().into_owned())
            .collect();
        let (files, _) = find(&inputs, format)?;
        Ok(files
            .iter()
            .map(|f| {
                let path = Path::new(&*f.shown);
                path.file_name().unwrap().to_string_lossy().into_owned()
            })
            .collect())
    }

    #[test]
    fn formats_are_told_by_endings() {
        let cases = [
            ("a.csv", Some(Format::Csv)),
            ("a.CSV", Some(Format::Csv)),
            ("a.b.txt", Some(Format::Csv)),
            ("a.tsv.gz", Some(Format::Tsv)),
            ("a.tab.zst", Some(Format::Tsv)),
            ("a.csv.bz2", Some(Format::Csv)),
            ("a.csv.XZ", Some(Format::Csv)),
            ("a.csv.lz4", Some(Format::Csv)),
            ("a.pq", Some(Format::Parquet)),
            ("a.parquet", Some(Format::Parquet)),
            ("a.arrow", Some(Format::Arrow)),
            ("a.feather", Some(Format::Arrow)),
            ("a.arrows.zst", Some(Format::Arrow)),
            ("a.gz", None),
            ("a.json", Some(Format::Json)),
            ("a.jsonl.bz2", Some(Format::Json)),
            ("a.xml", None),
            ("csv", None),
        ];
        for (name, format) in cases {
            assert_eq!(format_of(Path::new(name)), format, "{name}");
        }
    }

    #[test]
    fn directories_and_globs_are_sorted_and_skip_what_is_not_theirs() {
        let directory = directory_with(&["b.csv", "a.csv.gz", ".c.csv", "notes.md"]);
        assert_eq!(found(&directory, &[""], None).unwrap(), ["a.csv.gz", "b.csv"]);
        assert_eq!(found(&directory, &["*.csv"], None).unwrap(), ["b.csv"]);
        assert_eq!(
            found(&directory, &["[ab].*"], None).unwrap(),
            ["a.csv.gz", "b.csv"]
        );
        let csv = Some(Format::Csv);
        assert_eq!(found(&directory, &["notes.md"], csv).unwrap(), ["notes.md"]);
    }

    #[cfg(unix)]
    #[test]
    fn names_that_are_not_utf8_are_refused_and_never_skipped() {
        use std::os::unix::ffi::OsStrExt;
        let directory = directory_with(&["a.csv"]);
        let odd = directory.path().join(std::ffi::OsStr::from_bytes(b"caf\xe9.csv"));
        fs::write(odd, "a\n1\n").unwrap();
        for input in ["", "*.csv", "**/*.csv", "c*"] {
            let error = found(&directory, &[input], None).unwrap_err();
            assert!(
                error
                    .to_string()
                    .ends_with("/caf\\xE9.csv\": the name is not UTF-8"),
                "{input}: {error}"
            );
        }
        assert_eq!(found(&directory, &["a*.csv"], None).unwrap(), ["a.csv"]);
    }

    #[test]
    fn globs_go_through_directories_and_leave_hidden_ones_alone() {
        let directory = directory_with(&["a.csv", ".b.csv"]);
        for (name, file) in [("x", "c.csv"), (".y", "d.csv"), ("x/z", "e.csv")] {
            fs::create_dir(directory.path().join(name)).unwrap();
            fs::write(directory.path().join(name).join(file), "a\n1\n").unwrap();
        }
        let cases: &[(&str, &[&str])] = &[
            ("*.csv", &["a.csv"]),
            (".*.csv", &[".b.csv"]),
            ("*/*.csv", &["c.csv"]),
            ("**/*.csv", &["a.csv", "c.csv", "e.csv"]),
            ("x/**", &["c.csv", "e.csv"]),
            (".y/[de].csv", &["d.csv"]),
            ("x/?/e.csv", &["e.csv"]),
        ];
        for (pattern, names) in cases {
            assert_eq!(&found(&directory, &[pattern], None).unwrap(), names, "{pattern}");
        }
        let error = found(&directory, &["[.csv"], None).unwrap_err();
        assert!(error.to_string().contains("is not a glob"), "{error}");
    }

    #[test]
    fn a_name_with_glob_characters_that_exists_is_that_file() {
        let directory = directory_with(&["a[1].csv", "a1.csv"]);
        assert_eq!(found(&directory, &["a[1].csv"], None).unwrap(), ["a[1].csv"]);
    }

    #[test]
    fn what_is_not_there_is_named_with_what_is_near() {
        let directory = directory_with(&["flights.csv", "airports.csv"]);
        let error = found(&directory, &["flight.csv"], None).unwrap_err();
        assert!(
            error.to_string().ends_with("flight.csv: there is no such file"),
            "{error}"
        );
        let hint = error.hint_text().unwrap();
        assert!(
            hint.starts_with("did you mean ") && hint.contains("flights.csv"),
            "{hint}"
        );
        let error = found(&directory, &["*.tsv"], None).unwrap_err();
        assert!(error.to_string().starts_with("no file matches '"), "{error}");
        let error = found(&directory, &["none/a.csv"], None).unwrap_err();
        assert!(
            error.to_string().contains("a.csv: there is no directory "),
            "{error}"
        );
    }

    #[test]
    fn inputs_that_do_not_fit_together_are_refused() {
        let directory = directory_with(&["a.csv", "b.parquet", "c.dat"]);
        fs::write(directory.path().join("c.dat"), b"\x01\0\x02\0").unwrap();
        let message = |inputs: &[&str]| found(&directory, inputs, None).unwrap_err().to_string();
        assert!(message(&["a.csv", "b.parquet"]).contains("b.parquet is Parquet: the inputs of one run"));
        assert!(message(&["a.csv", "a.csv"]).ends_with("a.csv is named twice"));
        assert!(message(&["c.dat"]).ends_with("c.dat: neither its ending nor its content tells its format"));
        assert!(message(&[]).starts_with("no input is named"));
    }

    #[test]
    fn what_a_name_does_not_tell_the_content_does() {
        let directory = directory_with(&["a.dat", "b", "c.log", "d.unknown"]);
        fs::write(directory.path().join("b"), b"[{\"a\": 1}]").unwrap();
        fs::write(directory.path().join("c.log"), b"{\"a\": 1}\n").unwrap();
        fs::write(directory.path().join("d.unknown"), b"PAR1....").unwrap();
        let format = |name: &str| {
            let path = directory.path().join(name).to_string_lossy().into_owned();
            find(&[path], None).unwrap().1
        };
        assert_eq!(
            [format("a.dat"), format("b"), format("c.log"), format("d.unknown")],
            [Format::Csv, Format::Json, Format::Json, Format::Parquet]
        );
    }

    #[test]
    fn standard_input_is_csv_unless_told_and_has_no_identity() {
        let (files, format) = find(&["-".to_owned()], None).unwrap();
        assert_eq!((files.len(), format), (1, Format::Csv));
        assert!(files[0].identity.is_none() && files[0].path.is_none());
    }
}
