//! What fuzzing gives any bytes to: everything that reads what others may have written. Each function ends without a
//! panic, whatever the bytes, and checks what has to hold of what it read.
//!
//! `fuzz/` has a target for each; the tests here give them the bytes of `fuzz/corpus`, and broken forms of them.

use std::{cell::RefCell, fs, path::PathBuf};

pub use crate::{
    buffer::fuzz::journal,
    targets::{fuzz::names, mysql::fuzz::values as mysql_values, postgres::fuzz::values as postgres_values},
    targets::{fuzz::urls, sqlite::fuzz::ledger},
};
use crate::{
    source::{Block, ReadRequest, Source},
    sources::{self, Format, TextOptions},
    statement::{Dialect, Statement},
    types::ColumnType,
};

/// A function of any bytes.
pub type Fuzzed = fn(&[u8]);

/// All of them, by the names of their corpora.
pub const ALL: &[(&str, Fuzzed)] = &[
    ("csv", csv),
    ("rejects", rejects),
    ("parquet", parquet),
    ("arrow", arrow),
    ("urls", urls),
    ("names", names),
    ("statements", statements),
    ("journal", journal),
    ("ledger", ledger),
    ("postgres_values", postgres_values),
    ("mysql_values", mysql_values),
];

/// A directory that lasts as long as the thread.
pub(crate) fn with_directory<T>(use_: impl FnOnce(&std::path::Path) -> T) -> T {
    thread_local! {
        static DIRECTORY: RefCell<Option<tempfile::TempDir>> = const { RefCell::new(None) };
    }
    DIRECTORY.with_borrow_mut(|directory| {
        let directory = directory.get_or_insert_with(|| tempfile::tempdir().expect("a temporary directory"));
        use_(directory.path())
    })
}

fn file(bytes: &[u8]) -> String {
    let path: PathBuf = with_directory(|directory| directory.join("input"));
    fs::write(&path, bytes).expect("there is room");
    path.to_string_lossy().into_owned()
}

/// The blocks of a source, all columns read as text; none where it is refused.
fn blocks(source: &mut dyn Source, block_rows: usize) -> Option<Vec<Block>> {
    let columns = source.schema().columns.len();
    let request = ReadRequest {
        columns: (0..columns).map(|column| (column, ColumnType::TEXT)).collect(),
        block_rows,
        block_bytes: 1 << 20,
    };
    source.request(&request).ok()?;
    let mut blocks = Vec::new();
    while let Some(block) = source.next().ok()? {
        let rows = (block.rows.num_rows() + block.rejects.len()) as u64;
        assert!(rows > 0, "a block has rows");
        assert_eq!(
            block.end.rows - block.start.rows,
            rows,
            "a block's marks count its rows"
        );
        blocks.push(block);
    }
    Some(blocks)
}

/// Good rows, as text, and rejects: what a file means, however it is cut into blocks.
fn meaning(blocks: &[Block]) -> (Vec<String>, Vec<(u64, String)>) {
    let mut rows = Vec::new();
    let mut rejects = Vec::new();
    for block in blocks {
        rows.extend((0..block.rows.num_rows()).map(|row| {
            let values = block.rows.columns().iter().map(|column| {
                let shown = arrow::util::display::array_value_to_string(column, row);
                (shown.expect("text"), arrow::array::Array::is_null(column, row))
            });
            format!("{} {:?}", block.origin.row(row), values.collect::<Vec<_>>())
        }));
        let bad = block.rejects.iter();
        rejects.extend(bad.map(|reject| (reject.row, reject.problem.message.clone())));
    }
    (rows, rejects)
}

fn text(bytes: &[u8], format: Format, options: &TextOptions) {
    let path = file(bytes);
    let open = || sources::open(std::slice::from_ref(&path), Some(format), options).ok();
    let (Some(mut one), Some(mut many)) = (open(), open()) else {
        return;
    };
    let (Some(one), Some(many)) = (blocks(&mut *one, 1), blocks(&mut *many, 1_000)) else {
        return;
    };
    assert_eq!(
        meaning(&one),
        meaning(&many),
        "blocks change nothing about what is read"
    );
}

/// Delimited text; the first byte chooses the dialect.
pub fn csv(bytes: &[u8]) {
    let Some((choice, bytes)) = bytes.split_first() else {
        return;
    };
    let is = |bit: u8| choice & (1 << bit) != 0;
    let options = TextOptions {
        delimiter: is(0).then_some(b';'),
        quote: (!is(1)).then_some(b'"'),
        escape: (is(2) && !is(1)).then_some(b'\\'),
        header: is(3),
        comment: is(4).then_some(b'#'),
        encoding: if is(5) { "utf-16le" } else { "utf-8" }.to_owned(),
        record_bytes_max: if is(6) { 16 } else { 1 << 20 },
        ..TextOptions::default()
    };
    text(bytes, Format::Csv, &options);
}

/// Lines of JSON, among them reject records.
pub fn rejects(bytes: &[u8]) {
    text(bytes, Format::Json, &TextOptions::default());
}

fn binary(bytes: &[u8], format: Format) {
    let path = file(bytes);
    let opened = sources::open(&[path], Some(format), &TextOptions::default());
    if let Ok(mut source) = opened {
        blocks(&mut *source, 1_000);
    }
}

/// Parquet files.
pub fn parquet(bytes: &[u8]) {
    binary(bytes, Format::Parquet);
}

/// Arrow files and streams.
pub fn arrow(bytes: &[u8]) {
    binary(bytes, Format::Arrow);
}

/// Statements with parameters, as `exec` takes them; the first byte chooses the database's dialect.
pub fn statements(bytes: &[u8]) {
    let Some((choice, bytes)) = bytes.split_first() else {
        return;
    };
    let Ok(text) = std::str::from_utf8(bytes) else {
        return;
    };
    let is = |bit: u8| choice & (1 << bit) != 0;
    let dialect = Dialect {
        dollars: is(0),
        brackets: is(1),
        backticks: is(2),
        hashes: is(3),
        backslashes: is(4),
        slashes: is(7),
        keeps_case: is(5),
        own_parameters: if is(6) { &['?', '@'] } else { &['$'] },
    };
    let Ok(statement) = Statement::parse(text, dialect) else {
        return;
    };
    let named = |parameter: usize| format!(":{}", statement.parameters()[parameter]);
    let again = Statement::parse(&statement.render(named), dialect).expect("its own text is a statement");
    assert_eq!(again.parameters(), statement.parameters());
    assert_eq!(again.table(), statement.table());
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    /// Broken forms of each file.
    const FORMS: usize = 40;

    #[test]
    fn corpora_and_what_is_near_them_are_read_without_a_panic() {
        let corpora = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus");
        for (name, fuzzed) in ALL {
            let entries = fs::read_dir(corpora.join(name)).unwrap_or_else(|error| panic!("{name}: {error}"));
            let mut files: Vec<_> = entries.map(|entry| entry.expect("an entry").path()).collect();
            files.sort();
            assert!(!files.is_empty(), "{name} has a corpus");
            fuzzed(b"");
            for file in files {
                let whole = fs::read(&file).expect("a file of the corpus");
                fuzzed(&whole);
                for form in 0..FORMS.min(whole.len()) {
                    let at = whole.len() * form / FORMS;
                    let mut bytes = whole.clone();
                    bytes[at] ^= 1 << (form % 8);
                    fuzzed(&bytes);
                    bytes.truncate(at);
                    fuzzed(&bytes);
                }
            }
        }
    }
}
