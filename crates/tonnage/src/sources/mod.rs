//! Where rows come from: files of several formats, plain or compressed, or standard input.

pub mod parquet;

use std::{path::PathBuf, sync::Arc};

use crate::ledger::InputIdentity;

/// One file to read.
#[derive(Debug, Clone, PartialEq)]
pub struct InputFile {
    /// As the user named it; goes into messages and rejects.
    pub shown: Arc<str>,
    /// Where it is; `None` is standard input.
    pub path: Option<PathBuf>,
    /// Absolute path, size and time; `None` for what cannot be read again.
    pub identity: Option<InputIdentity>,
}

/// A file's format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// Comma-separated text.
    Csv,
    /// Tab-separated text.
    Tsv,
    /// Apache Parquet.
    Parquet,
}

/// How text files are read. Everything here is part of a run's identity.
#[derive(Debug, Clone, PartialEq)]
pub struct TextOptions {
    /// Between fields; none takes the format's own.
    pub delimiter: Option<u8>,
    /// Around fields; none turns quoting off.
    pub quote: Option<u8>,
    /// Before a quote inside a quoted field; none means that the quote is doubled.
    pub escape: Option<u8>,
    /// Whether the first record names the columns.
    pub header: bool,
    /// Unquoted fields that mean null; as COPY, the empty field where none was given.
    pub nulls: Vec<String>,
    /// Lines that begin with this byte are skipped and are not rows.
    pub comment: Option<u8>,
    /// The WHATWG label of the character set; `utf-8` unless given.
    pub encoding: String,
    /// Zone of times that carry none, where the column wants an instant (IANA name).
    pub timezone: Option<String>,
    /// The most bytes of one record; longer ones are rejects.
    pub record_bytes_max: usize,
}

impl Default for TextOptions {
    /// As PostgreSQL's COPY in CSV mode, with a header, and records of at most 64 MiB.
    fn default() -> Self {
        Self {
            delimiter: None,
            quote: Some(b'"'),
            escape: None,
            header: true,
            nulls: vec![String::new()],
            comment: None,
            encoding: "utf-8".to_owned(),
            timezone: None,
            record_bytes_max: 64 << 20,
        }
    }
}
pub mod csv {
    pub fn suspicious_delimiter(_: &crate::source::SourceSchema) -> Option<char> {
        None
    }
}
