//! Files of every format, from any bytes. Each function ends without a panic, whatever the bytes, and checks what has to
//! hold of what it read.

use std::{fs, path::PathBuf};

use tonnage_core::{
    source::{Block, ReadRequest, Source},
    types::ColumnType,
};
use tonnage_testing::corpus::with_directory;

use crate::sources::{self, Format, TextOptions};

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn corpora_and_what_is_near_them_are_read_without_a_panic() {
        tonnage_testing::corpus::check("csv", csv);
        tonnage_testing::corpus::check("rejects", rejects);
        tonnage_testing::corpus::check("parquet", parquet);
        tonnage_testing::corpus::check("arrow", arrow);
    }
}
