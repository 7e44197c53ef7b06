//! The file, object or pipe below a sink.
//!
//! Invariants: a regular file is written as `.NAME.PID.partial` beside its final place and renamed when
//! published; an object is uploaded in parts that are put together then; dropping the destination before that takes
//! away what was written. Standard output and special files (`/dev/null`, a named pipe) are written in place. A pipe
//! whose reader has gone swallows the rest.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, ErrorKind as IoKind, IsTerminal, Write},
    path::{Path, PathBuf},
    process,
};

use flate2::write::GzEncoder;
use sha2::{Digest, Sha256};
use tonnage_core::{
    error::{Error, ErrorKind, Result},
    stop::Stop,
};
use tonnage_places::{ObjectWriter, no_place, of_io, url_of};

use super::{Output, growing::Growing};

/// How a text file is compressed as a whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Compression {
    /// Not at all.
    None,
    /// gzip, level 3.
    Gzip,
    /// Zstandard, level 3.
    Zstd,
}

/// Takes bytes; named by what the user called it.
pub(super) struct Destination {
    shown: String,
    stream: Stream,
}

enum Stream {
    Plain(Raw),
    Gzip(GzEncoder<Raw>),
    Zstd(zstd::stream::write::Encoder<'static, Raw>),
}

/// The bytes as they arrive in the file.
struct Raw {
    place: OutputKind,
    bytes: u64,
    /// Of the bytes, where it is asked for.
    sha256: Option<Sha256>,
    closed: bool,
}

enum OutputKind {
    Stdout(io::Stdout),
    Special(File),
    Regular(Partial),
    Object(Box<ObjectWriter>),
}

/// What was written, whole and in its place, but not seen there.
pub struct Settled {
    shown: String,
    raw: Raw,
}

/// One file that was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Written {
    /// Its bytes, after compression.
    pub bytes: u64,
    /// Their SHA-256 in hexadecimal digits, where [`Output::checksum`] asks for it.
    pub sha256: Option<String>,
}

impl Settled {
    /// For sinks of tests: what says that so many bytes were written.
    #[cfg(test)]
    pub(crate) fn of_bytes(bytes: u64) -> Self {
        let raw = Raw::new(OutputKind::Stdout(io::stdout()), false);
        Self {
            shown: "nothing".to_owned(),
            raw: Raw { bytes, ..raw },
        }
    }

    /// Gives the file its name. `Config` where another one has taken it meanwhile and is not to be replaced.
    pub fn publish(self) -> Result<Written> {
        match self.raw.place {
            OutputKind::Regular(partial) => partial.publish(&self.shown)?,
            OutputKind::Object(writer) => writer.finish()?,
            OutputKind::Stdout(_) | OutputKind::Special(_) => {}
        }
        let sha256 = self.raw.sha256.map(|hash| {
            let hash = hash.finalize();
            hash.iter().map(|byte| format!("{byte:02x}")).collect()
        });
        Ok(Written {
            bytes: self.raw.bytes,
            sha256,
        })
    }
}

/// A file under its temporary name.
struct Partial {
    file: Growing,
    temporary: PathBuf,
    place: PathBuf,
    overwrite: bool,
    finished: bool,
}

impl Destination {
    /// Standard output; a terminal is refused for binary data.
    pub(super) fn stdout(binary: bool, compression: Compression) -> Result<Self> {
        let stdout = io::stdout();
        if binary && stdout.is_terminal() {
            return Err(Error::config("a binary format is not written to a terminal")
                .hint("send it to a file with -o FILE.parquet, or into a pipe"));
        }
        Self::compressed(
            "standard output".to_owned(),
            Raw::new(OutputKind::Stdout(stdout), false),
            compression,
        )
    }

    /// Refuses a file that stands in the way.
    pub(super) fn check(path: &Path, overwrite: bool) -> Result<()> {
        let shown = path.display().to_string();
        if let Some(url) = url_of(path) {
            return ObjectWriter::check(url, overwrite);
        }
        if let Some(error) = no_place(&shown) {
            return Err(error);
        }
        match fs::metadata(path) {
            Ok(found) if found.is_dir() => Err(Error::config(format!("'{shown}' is a directory"))
                .hint(format!("name a file in it: {}", path.join("rows.csv").display()))),
            Ok(found) if found.is_file() && !overwrite => Err(exists(&shown)),
            _ => Ok(()),
        }
    }

    /// A file, an object, or whatever else has a path.
    pub(super) fn file(output: &Output, compression: Compression, stop: &Stop) -> Result<Self> {
        let (path, overwrite) = (&*output.path, output.overwrite);
        let shown = path.display().to_string();
        if let Some(url) = url_of(path) {
            let writer = ObjectWriter::create(url, overwrite)?.unless(stop.clone());
            let place = OutputKind::Object(Box::new(writer));
            return Self::compressed(shown, Raw::new(place, output.checksum), compression);
        }
        Self::check(path, overwrite)?;
        let place = match fs::metadata(path) {
            Ok(found) if !found.is_file() => {
                let file = OpenOptions::new().write(true).open(path);
                OutputKind::Special(file.map_err(|e| cannot(&shown, "open", &e))?)
            }
            // A link keeps pointing where it points, and the file there is the one replaced.
            Ok(_) => {
                let target = fs::canonicalize(path).map_err(|e| cannot(&shown, "resolve", &e))?;
                OutputKind::Regular(Partial::create(target, overwrite, &shown)?)
            }
            Err(_) => OutputKind::Regular(Partial::create(path.to_owned(), overwrite, &shown)?),
        };
        Self::compressed(shown, Raw::new(place, output.checksum), compression)
    }

    fn compressed(shown: String, raw: Raw, compression: Compression) -> Result<Self> {
        let stream = match compression {
            Compression::None => Stream::Plain(raw),
            Compression::Gzip => Stream::Gzip(GzEncoder::new(raw, flate2::Compression::new(3))),
            Compression::Zstd => {
                let encoder = zstd::stream::write::Encoder::new(raw, 3);
                Stream::Zstd(encoder.map_err(|e| cannot(&shown, "compress", &e))?)
            }
        };
        Ok(Self { shown, stream })
    }

    /// An error of writing here.
    pub(super) fn error(&self, cause: io::Error) -> Error {
        written(&self.shown, cause)
    }

    /// What the user called it.
    pub(super) fn shown(&self) -> &str {
        &self.shown
    }

    /// Whether a pipe's reader has gone.
    pub(super) fn is_closed(&self) -> bool {
        match &self.stream {
            Stream::Plain(raw) => raw.closed,
            Stream::Gzip(encoder) => encoder.get_ref().closed,
            Stream::Zstd(encoder) => encoder.get_ref().closed,
        }
    }

    /// Ends the compression and brings all of it to its place: a file is synced, an object uploaded.
    pub(super) fn settle(self) -> Result<Settled> {
        let Self { shown, stream } = self;
        let failed = |e: io::Error| written(&shown, e);
        let mut raw = match stream {
            Stream::Plain(raw) => raw,
            Stream::Gzip(encoder) => encoder.finish().map_err(failed)?,
            Stream::Zstd(encoder) => encoder.finish().map_err(failed)?,
        };
        raw.flush().map_err(failed)?;
        match &mut raw.place {
            OutputKind::Regular(partial) => partial.file.sync().map_err(failed)?,
            OutputKind::Object(writer) => writer.settle()?,
            OutputKind::Stdout(_) | OutputKind::Special(_) => {}
        }
        Ok(Settled { shown, raw })
    }
}

impl Write for Destination {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.stream {
            Stream::Plain(raw) => raw.write(bytes),
            Stream::Gzip(encoder) => encoder.write(bytes),
            Stream::Zstd(encoder) => encoder.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match &mut self.stream {
            Stream::Plain(raw) => raw.flush(),
            Stream::Gzip(encoder) => encoder.flush(),
            Stream::Zstd(encoder) => encoder.flush(),
        }
    }
}

impl Raw {
    fn new(place: OutputKind, checksum: bool) -> Self {
        Self {
            place,
            bytes: 0,
            sha256: checksum.then(Sha256::new),
            closed: false,
        }
    }

    /// Does `work` unless the reader has gone, and notes when it goes.
    fn unless_closed<T>(
        &mut self,
        swallowed: T,
        work: impl FnOnce(&mut dyn Write) -> io::Result<T>,
    ) -> io::Result<T> {
        if self.closed {
            return Ok(swallowed);
        }
        let done = match &mut self.place {
            OutputKind::Stdout(stdout) => work(stdout),
            OutputKind::Special(file) => work(file),
            OutputKind::Regular(partial) => work(&mut partial.file),
            OutputKind::Object(writer) => work(writer),
        };
        match done {
            Err(e) if e.kind() == IoKind::BrokenPipe => {
                self.closed = true;
                Ok(swallowed)
            }
            done => done,
        }
    }
}

impl Write for Raw {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.unless_closed(bytes.len(), |out| out.write(bytes))?;
        if !self.closed {
            self.bytes += written as u64;
            if let Some(hash) = &mut self.sha256 {
                hash.update(&bytes[..written]);
            }
        }
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.unless_closed((), |out| out.flush())
    }
}

impl Partial {
    fn create(place: PathBuf, overwrite: bool, shown: &str) -> Result<Self> {
        let name = place
            .file_name()
            .ok_or_else(|| Error::config(format!("'{shown}' does not name a file")))?;
        let temporary = format!(".{}.{}.partial", name.to_string_lossy(), process::id());
        let temporary = place.with_file_name(temporary);
        let file = Growing::create_new(&temporary).map_err(|e| cannot(shown, "create", &e))?;
        let partial = Self {
            file,
            temporary,
            place,
            overwrite,
            finished: false,
        };
        if let Ok(replaced) = fs::metadata(&partial.place) {
            fs::set_permissions(&partial.temporary, replaced.permissions())
                .map_err(|e| cannot(shown, "create", &e))?;
        }
        Ok(partial)
    }

    fn publish(mut self, shown: &str) -> Result<()> {
        let failed = |e: io::Error| cannot(shown, "write", &e);
        if !self.overwrite && self.place.exists() {
            return Err(exists(shown));
        }
        fs::rename(&self.temporary, &self.place).map_err(failed)?;
        self.finished = true;
        Ok(())
    }
}

impl Drop for Partial {
    fn drop(&mut self) {
        if !self.finished {
            // Nothing can be done about a file that does not go; its name says that it is not whole.
            let _ = fs::remove_file(&self.temporary);
        }
    }
}

fn exists(shown: &str) -> Error {
    Error::config(format!("'{shown}' exists")).hint("replace it with --overwrite, or name another file")
}

/// The error of writing: what a store says itself, or a failure of the file system.
pub(super) fn written(shown: &str, cause: io::Error) -> Error {
    of_io(cause).unwrap_or_else(|cause| cannot(shown, "write", &cause))
}

/// A failure of the file system, with what helps where that is known.
fn cannot(shown: &str, verb: &str, cause: &io::Error) -> Error {
    let error = Error::new(ErrorKind::Refused, format!("cannot {verb} {shown}: {cause}"));
    match cause.kind() {
        IoKind::NotFound => error.hint("its directory does not exist; create it first"),
        IoKind::PermissionDenied => error.hint("name a file in a directory that you may write to"),
        IoKind::StorageFull | IoKind::QuotaExceeded | IoKind::FileTooLarge => {
            error.hint("make room, or end the name in .csv.zst or .parquet to compress it")
        }
        _ => error,
    }
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn a_pipe_without_a_reader_swallows_the_rest() {
        let (reader, writer) = io::pipe().unwrap();
        let file = File::from(std::os::fd::OwnedFd::from(writer));
        let mut destination = Destination {
            shown: "a pipe".to_owned(),
            stream: Stream::Plain(Raw::new(OutputKind::Special(file), false)),
        };
        destination.write_all(b"seen").unwrap();
        assert!(!destination.is_closed());
        drop(reader);
        destination.write_all(b"not seen").unwrap();
        assert!(destination.is_closed());
        destination.write_all(b"nor this").unwrap();
        assert_eq!(destination.settle().unwrap().publish().unwrap().bytes, 4);
    }
}
