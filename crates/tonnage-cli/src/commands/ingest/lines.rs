//! Lines of the input as rows: read, numbered if their senders number them, and put.

use std::{
    fs::File,
    io::{BufRead, BufReader, BufWriter, Read, Stdout, Write},
    path::Path,
    sync::atomic::{AtomicBool, Ordering},
    vec::IntoIter,
};

use tokio::sync::mpsc;
use tonnage::{
    Buffer, Error, ErrorKind, Result, Row,
    sources::{Format, InputFile, compress::ByteStream, files},
};

/// The longest line.
const LINE_BYTES_MAX: usize = 16 << 20;

/// What is printed of a row once it is as safe as was asked for.
pub struct Label {
    /// Its number in the buffer; of a row that was taken before the number of that.
    pub sequence: u64,
    /// Its own number, or that.
    pub text: String,
    /// Whether it was taken before, so that nothing becomes of this one.
    pub is_known: bool,
}

/// Where the numbers of rows go.
pub enum Numbers {
    /// They are printed as soon as the rows are put.
    Printed(BufWriter<Stdout>),
    /// Somebody else prints them later.
    Passed(mpsc::Sender<Label>),
    /// Nobody wants them, or whoever does knows them.
    Unwanted,
}

/// A key of rows.
struct Key {
    name: String,
    /// Whether it stays in the row, as the table has such a column.
    stays: bool,
}

/// Whose rows they are.
enum Producer {
    /// One for all.
    Named(String),
    /// Each row says.
    Under(Key),
}

/// How those who send rows number them, so that what is sent again is not taken again.
pub struct Numbering {
    producer: Producer,
    /// The key of a row's number; without it lines are counted.
    sequence: Option<Key>,
    lines: u64,
}

impl Numbering {
    /// By keys of the rows, or for all rows of the input.
    pub fn new(
        buffer: &Buffer,
        producer: Option<&str>,
        producer_field: Option<&str>,
        sequence_field: Option<&str>,
    ) -> Option<Self> {
        let columns = buffer.columns();
        let key = |name: &str| Key {
            name: name.to_owned(),
            stays: columns.iter().any(|column| column.eq_ignore_ascii_case(name)),
        };
        Some(Self {
            producer: match (producer, producer_field) {
                (Some(name), _) => Producer::Named(name.to_owned()),
                (None, Some(field)) => Producer::Under(key(field)),
                (None, None) => return None,
            },
            sequence: sequence_field.map(key),
            lines: 0,
        })
    }

    /// Whether rows are of several producers.
    fn has_many(&self) -> bool {
        matches!(self.producer, Producer::Under(_))
    }

    /// The row as it goes to the table, with its producer and its number; without them where it is no object, so that
    /// it will be put aside.
    fn number(&mut self, text: &[u8], inputs: &Inputs) -> Result<(Row, Option<(String, u64)>)> {
        self.lines += 1;
        let row = Row::json(text);
        let is_object =
            text.starts_with(b"{") && serde_json::from_slice::<serde::de::IgnoredAny>(text).is_ok();
        if !is_object && self.sequence.is_some() {
            return Ok((row, None));
        }
        let (row, name) = match &self.producer {
            Producer::Named(name) => (row, name.clone()),
            Producer::Under(key) => {
                let (row, value) = key.of(row, inputs)?;
                let name = serde_json::from_str(&value).unwrap_or(value);
                (row, name)
            }
        };
        let Some(key) = &self.sequence else {
            return Ok((row, Some((name, self.lines))));
        };
        let (row, value) = key.of(row, inputs)?;
        let number = value.trim_matches('"').parse().map_err(|_| {
            Error::input(format!(
                "{}: '{}' is {value}, which is no whole number",
                inputs.at(),
                key.name
            ))
            .hint("a producer numbers its rows 1, 2, 3 and so on")
        })?;
        Ok((row, Some((name, number))))
    }
}

impl Key {
    /// The row as it goes to the table, and the value under the key.
    fn of(&self, row: Row, inputs: &Inputs) -> Result<(Row, String)> {
        let (row, value) = match self.stays {
            true => {
                let value = row.value(&self.name);
                (row, value)
            }
            false => row.without(&self.name),
        };
        let value = value.filter(|value| value != "null").ok_or_else(|| {
            Error::input(format!("{} has no '{}'", inputs.at(), self.name))
                .hint("it tells whether the row was taken before: every row needs it")
        })?;
        Ok((row, value))
    }
}

/// The lines of files, one file after another, or of standard input.
pub struct Inputs {
    files: IntoIter<InputFile>,
    current: Option<Current>,
}

/// The file that is read.
struct Current {
    file: InputFile,
    reader: BufReader<Box<dyn Read + Send>>,
    /// The number of the line that was read last, from 1.
    line: u64,
}

impl Inputs {
    /// What `input` names. `Config` where its name tells that it is no JSON; `Input` where it is not there.
    pub fn find(input: &str) -> Result<Self> {
        let (files, _) = files::find(&[input.to_owned()], Some(Format::Json))?;
        for file in &files {
            if let Some(format) =
                files::format_of(Path::new(&*file.shown)).filter(|told| *told != Format::Json)
            {
                return Err(Error::config(format!(
                    "{} is {}: only JSON lines can be ingested",
                    file.shown,
                    format.name()
                ))
                .hint(format!("tonnage load {} reads it", file.shown)));
            }
        }
        Ok(Self {
            files: files.into_iter(),
            current: None,
        })
    }

    /// Reads the next line into `line`; false behind the last of the last file.
    fn next(&mut self, line: &mut Vec<u8>) -> Result<bool> {
        loop {
            line.clear();
            let current = match &mut self.current {
                Some(current) => current,
                None => match self.files.next() {
                    Some(file) => self.current.insert(Current::open(file)?),
                    None => return Ok(false),
                },
            };
            if current.next(line)? {
                return Ok(true);
            }
            self.current = None;
        }
    }

    /// Whether there is more that need not be waited for.
    fn has_more(&self) -> bool {
        let current = self.current.as_ref();
        current.is_some_and(|current| !current.reader.buffer().is_empty())
    }

    /// Where the last line is, for messages.
    fn at(&self) -> String {
        match &self.current {
            Some(current) if current.file.path.is_none() && current.file.object.is_none() => {
                format!("line {}", current.line)
            }
            Some(current) => format!("{}, line {}", current.file.shown, current.line),
            None => "the end".to_owned(),
        }
    }
}

/// A stream as whoever reads lines wants it; its errors are within those of input and output.
struct Decompressed(ByteStream);

impl Read for Decompressed {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        self.0.read(buffer).map_err(std::io::Error::other)
    }
}

impl Current {
    fn open(file: InputFile) -> Result<Self> {
        let reader: Box<dyn Read + Send> = match (&file.path, &file.object) {
            (None, None) => Box::new(std::io::stdin()),
            // A pipe may have one short line for a long time: nothing is waited for but that.
            (Some(path), _) if file.identity.is_none() => {
                let opened = File::open(path);
                Box::new(opened.map_err(|cause| Error::input(format!("{}: {cause}", file.shown)))?)
            }
            _ => Box::new(Decompressed(ByteStream::open(&file)?)),
        };
        Ok(Self {
            reader: BufReader::with_capacity(64 << 10, reader),
            file,
            line: 0,
        })
    }

    /// The next line, of bounded length; false at the end.
    fn next(&mut self, line: &mut Vec<u8>) -> Result<bool> {
        self.line += 1;
        let mut bounded = Read::take(&mut self.reader, LINE_BYTES_MAX as u64 + 1);
        let read = bounded.read_until(b'\n', line);
        let read = read.map_err(|cause| {
            cause
                .downcast::<Error>()
                .unwrap_or_else(|cause| Error::input(format!("{}: {cause}", self.file.shown)))
        })?;
        if read > LINE_BYTES_MAX {
            return Err(Error::input(format!(
                "line {} of {} is longer than {LINE_BYTES_MAX} bytes",
                self.line, self.file.shown
            ))
            .hint("write one JSON object a line"));
        }
        Ok(read > 0)
    }
}

/// Puts every line that is not blank, until the input ends or nobody wants more.
pub fn read(
    buffer: &Buffer,
    stopped: &AtomicBool,
    mut inputs: Inputs,
    mut numbers: Numbers,
    mut numbering: Option<Numbering>,
) -> Result<()> {
    let mut line = Vec::new();
    let mut last = buffer.accepted();
    while !stopped.load(Ordering::Relaxed) {
        if !inputs.next(&mut line)? {
            return Ok(());
        }
        let text = line.trim_ascii();
        if text.is_empty() || stopped.load(Ordering::Relaxed) {
            continue;
        }
        let (row, tag) = match &mut numbering {
            Some(numbering) => numbering.number(text, &inputs)?,
            None => (Row::json(text), None),
        };
        let put = match &tag {
            Some((producer, number)) => buffer.put_from_blocking(producer, *number, row),
            None => buffer.put_blocking(row),
        };
        let sequence = match put {
            Ok(sequence) => sequence,
            Err(error) if error.kind() == ErrorKind::Cancelled => return Ok(()),
            // What the sender numbered does not go on from what it sent before.
            Err(error) if tag.is_some() && error.kind() == ErrorKind::Config => {
                let hint = error
                    .hint_text()
                    .unwrap_or("send rows in the order of their numbers")
                    .to_owned();
                return Err(Error::input(format!("{}: {error}", inputs.at())).hint(hint));
            }
            Err(error) => return Err(error),
        };
        let by_keys = numbering.as_ref().is_some_and(Numbering::has_many);
        let label = || match &tag {
            Some((producer, number)) if by_keys => format!("{number} {producer}"),
            Some((_, number)) => number.to_string(),
            // It has no number of its own.
            None if numbering.is_some() => "-".to_owned(),
            None => sequence.to_string(),
        };
        let is_known = sequence <= last;
        last = last.max(sequence);
        let label = || Label {
            sequence,
            text: label(),
            is_known,
        };
        numbers = pass(numbers, label, inputs.has_more())?;
    }
    Ok(())
}

/// Gives the number of a row to whoever wants it; printed ones are gathered while there is more to read at once.
fn pass(numbers: Numbers, label: impl FnOnce() -> Label, has_more: bool) -> Result<Numbers> {
    match numbers {
        Numbers::Printed(mut output) => {
            let printed = writeln!(output, "{}", label().text);
            let printed = printed.and_then(|()| if has_more { Ok(()) } else { output.flush() });
            match printed {
                Ok(()) => Ok(Numbers::Printed(output)),
                Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(Numbers::Unwanted),
                Err(error) => Err(no_output(&error)),
            }
        }
        Numbers::Passed(labels) => {
            // Nobody takes them any more once standard output is closed.
            let sent = labels.blocking_send(label());
            Ok(sent.map_or(Numbers::Unwanted, |()| Numbers::Passed(labels)))
        }
        Numbers::Unwanted => Ok(Numbers::Unwanted),
    }
}

/// Standard output cannot be written to.
pub fn no_output(error: &std::io::Error) -> Error {
    Error::new(ErrorKind::Refused, format!("standard output: {error}"))
}
