//! What holds for every format.

use std::{
    fs::{self, File},
    io::Write,
    path::Path,
    time::Duration,
};

use ::parquet::{arrow::ArrowWriter, file::properties::WriterProperties};
use arrow::{
    array::{ArrayRef, Int64Array},
    ipc::writer::{FileWriter, StreamWriter},
    record_batch::RecordBatch,
};
use tonnage_core::{
    slot::BlockMark,
    source::{Block, ReadRequest},
    types::ColumnType,
};

use super::*;

const ROWS: i64 = 1000;

/// Writes rows of one column of numbers, `changed` with another number in the middle.
type Make = fn(&Path, i64);

fn batch(changed: i64) -> RecordBatch {
    let numbers = (0..ROWS).map(|row| if row == 450 { changed } else { row });
    let column: ArrayRef = Arc::new(Int64Array::from_iter_values(numbers));
    RecordBatch::try_from_iter([("n", column)]).unwrap()
}

fn text(changed: i64, line: fn(i64) -> String) -> Vec<u8> {
    let numbers = (0..ROWS).map(|row| if row == 450 { changed } else { row });
    numbers.map(line).collect::<String>().into_bytes()
}

fn csv(changed: i64) -> Vec<u8> {
    [b"n\n".to_vec(), text(changed, |row| format!("{row:04}\n"))].concat()
}

const FORMATS: &[(&str, Make)] = &[
    ("f.csv", |path, changed| fs::write(path, csv(changed)).unwrap()),
    ("f.jsonl", |path, changed| {
        fs::write(path, text(changed, |row| format!("{{\"n\": \"{row:04}\"}}\n"))).unwrap();
    }),
    ("f.csv.gz", |path, changed| {
        let plain = flate2::Compression::none();
        let mut writer = flate2::write::GzEncoder::new(File::create(path).unwrap(), plain);
        writer.write_all(&csv(changed)).unwrap();
        writer.finish().unwrap();
    }),
    ("f.parquet", |path, changed| {
        let properties = WriterProperties::builder()
            .set_max_row_group_row_count(Some(300))
            .set_dictionary_enabled(false)
            .set_statistics_enabled(::parquet::file::properties::EnabledStatistics::None)
            .build();
        let batch = batch(changed);
        let mut writer =
            ArrowWriter::try_new(File::create(path).unwrap(), batch.schema(), Some(properties)).unwrap();
        writer.write(&batch).unwrap();
        writer.close().unwrap();
    }),
    ("f.arrow", |path, changed| {
        let batch = batch(changed);
        let mut writer = FileWriter::try_new(File::create(path).unwrap(), &batch.schema()).unwrap();
        for at in 0..10 {
            writer.write(&batch.slice(at * 100, 100)).unwrap();
        }
        writer.finish().unwrap();
    }),
    ("f.arrows", |path, changed| {
        let batch = batch(changed);
        let mut writer = StreamWriter::try_new(File::create(path).unwrap(), &batch.schema()).unwrap();
        for at in 0..10 {
            writer.write(&batch.slice(at * 100, 100)).unwrap();
        }
        writer.finish().unwrap();
    }),
];

fn opened(inputs: &[std::path::PathBuf]) -> Box<dyn Source> {
    let inputs: Vec<_> = inputs
        .iter()
        .map(|input| input.to_string_lossy().into_owned())
        .collect();
    let mut source = open(&inputs, None, &TextOptions::default()).unwrap();
    let request = ReadRequest {
        columns: vec![(0, ColumnType::Int64)],
        block_rows: 64,
        block_bytes: 1 << 20,
    };
    source.request(&request).unwrap();
    source
}

fn blocks(source: &mut dyn Source) -> Vec<Block> {
    std::iter::from_fn(|| source.next().unwrap()).collect()
}

/// Everything before any place is compared, whichever it is; and what did not change is found as it was.
#[test]
fn other_content_of_the_same_size_is_found_at_every_place_behind_it() {
    for (name, write) in FORMATS {
        let directory = tempfile::tempdir().unwrap();
        let paths = [0, 1].map(|number| directory.path().join(format!("{number}{name}")));
        paths.iter().for_each(|path| write(path, 450));
        let before = blocks(&mut *opened(&paths));
        let marks: Vec<BlockMark> = before.iter().map(|block| block.end).collect();
        for block in &before {
            let mut again = opened(&paths);
            again.seek(block.index, &block.start).unwrap();
            let next = again.next().unwrap().unwrap();
            assert_eq!((next.start, next.end), (block.start, block.end), "{name}");
            assert_eq!(next.rows, block.rows, "{name}");
        }
        for file in [0, 1] {
            let bytes = fs::metadata(&paths[file]).unwrap().len();
            write(&paths[file], 455);
            assert_eq!(fs::metadata(&paths[file]).unwrap().len(), bytes, "{name}");
            for (at, mark) in marks.iter().enumerate() {
                let passed_over = before[..=at].iter().any(|block| {
                    let first = block.start.file_rows;
                    block.start.file as usize == file && (first..first + 64).contains(&450)
                });
                let sought = opened(&paths).seek(at as u64 + 1, mark);
                assert!(sought.is_err() || !passed_over, "{name}: file {file}, block {at}");
                if let Err(error) = sought {
                    assert!(
                        error.to_string().ends_with("has changed since the run began"),
                        "{error}"
                    );
                }
            }
            write(&paths[file], 450);
        }
    }
}

#[test]
fn a_file_that_changes_while_it_is_read_is_an_error_before_its_next_rows() {
    let grow: fn(&Path) = |path| {
        let mut file = File::options().append(true).open(path).unwrap();
        file.write_all(b"9\n").unwrap();
    };
    let shrink: fn(&Path) = |path| {
        let file = File::options().write(true).open(path).unwrap();
        file.set_len(file.metadata().unwrap().len() / 2).unwrap();
    };
    let touch: fn(&Path) = |path| {
        let file = File::options().write(true).open(path).unwrap();
        let before = file.metadata().unwrap().modified().unwrap();
        file.set_modified(before + Duration::from_secs(1)).unwrap();
    };
    let replace: fn(&Path) = |path| {
        let modified = fs::metadata(path).unwrap().modified().unwrap();
        let other = path.with_extension("other");
        fs::copy(path, &other).unwrap();
        File::options()
            .write(true)
            .open(&other)
            .unwrap()
            .set_modified(modified)
            .unwrap();
        fs::rename(&other, path).unwrap();
    };
    let changes = [
        (grow, "has changed since reading began: "),
        (shrink, "has changed since reading began: "),
        (touch, "has been written to since reading began"),
        (replace, "has been replaced by another file since reading began"),
    ];
    for (name, write) in FORMATS {
        for (change, message) in changes {
            for file in [0, 1] {
                let directory = tempfile::tempdir().unwrap();
                let paths = [0, 1].map(|number| directory.path().join(format!("{number}{name}")));
                paths.iter().for_each(|path| write(path, 450));
                let mut source = opened(&paths);
                source.next().unwrap().unwrap();
                change(&paths[file]);
                let error = loop {
                    match source.next() {
                        Ok(Some(block)) => {
                            assert_eq!(&*block.origin.file, paths[0].to_str().unwrap(), "{name}")
                        }
                        Ok(None) => panic!("{name}: {message} was not noticed"),
                        Err(error) => break error,
                    }
                };
                let shown = paths[file].display();
                assert!(
                    error.to_string().starts_with(&format!("{shown} {message}")),
                    "{error}"
                );
                assert!(error.hint_text().unwrap().contains("--restart"));
            }
        }
    }
}

#[test]
fn a_file_that_is_not_what_its_name_says_is_told_apart() {
    let directory = tempfile::tempdir().unwrap();
    let gzip: &[u8] = b"\x1f\x8b\x08\0\0\0\0\0\0\x03\x03\0\0\0\0\0\0\0\0\0";
    let cases: &[(&str, &[u8], &str, &str)] = &[
        (
            "a.csv",
            b"PAR1\0\0",
            " is a Parquet file, not text",
            "--format parquet",
        ),
        (
            "a.parquet",
            b"a,b\n1,2\n",
            " is not a Parquet file but text",
            "--format csv",
        ),
        (
            "b.parquet",
            gzip,
            " is not a Parquet file but compressed with gzip",
            "--format csv",
        ),
    ];
    for (name, bytes, message, hint) in cases {
        let path = directory.path().join(name);
        fs::write(&path, bytes).unwrap();
        let path = path.to_string_lossy().into_owned();
        let error = open(std::slice::from_ref(&path), None, &TextOptions::default())
            .err()
            .unwrap();
        assert_eq!(error.to_string(), format!("{path}{message}"));
        assert!(error.hint_text().unwrap().contains(hint));
    }
}

#[test]
fn a_later_file_that_is_gone_is_named_and_one_that_is_open_is_read_to_its_end() {
    for (name, write) in FORMATS {
        let directory = tempfile::tempdir().unwrap();
        let paths = [0, 1].map(|number| directory.path().join(format!("{number}{name}")));
        paths.iter().for_each(|path| write(path, 450));
        let mut source = opened(&paths);
        source.next().unwrap().unwrap();
        fs::remove_file(&paths[0]).unwrap();
        fs::remove_file(&paths[1]).unwrap();
        let mut rows = 64;
        let error = loop {
            match source.next() {
                Ok(Some(block)) => rows += block.rows.num_rows() as i64,
                Ok(None) => panic!("{name}: {rows} rows were taken for all"),
                Err(error) => break error,
            }
        };
        assert_eq!(rows, ROWS, "{name}");
        let gone = format!(
            "{} is no longer there to be read: there is no such file",
            paths[1].display()
        );
        assert_eq!(error.to_string(), gone);
    }
}
