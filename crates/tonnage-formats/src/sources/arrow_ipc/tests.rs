use std::{fs, path::Path};

use arrow::{
    array::{
        DictionaryArray, Int32Array, Int64Array, ListArray, NullArray, RunArray, StringArray, StringViewArray,
    },
    compute::concat_batches,
    datatypes::{Int8Type, Int32Type, Int64Type},
    ipc::{
        CompressionType,
        writer::{FileWriter, IpcWriteOptions, StreamWriter},
    },
};
use proptest::prelude::*;
use tempfile::TempDir;
use tonnage_core::{error::ErrorKind, types::ColumnType};

use super::*;
use crate::sources::files;

/// How a file is written.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Layout {
    File,
    Stream,
    /// A stream within a zstd file.
    Packed,
    /// A file within a zstd file, which can only be read in one go.
    PackedFile,
}

const FORMS: [Layout; 4] = [Layout::File, Layout::Stream, Layout::Packed, Layout::PackedFile];

fn encoded(form: Layout, batches: &[RecordBatch], compression: Option<CompressionType>) -> Vec<u8> {
    let schema = batches[0].schema();
    let options = IpcWriteOptions::default()
        .try_with_compression(compression)
        .expect("both are built in");
    if matches!(form, Layout::File | Layout::PackedFile) {
        let mut writer = FileWriter::try_new_with_options(Vec::new(), &schema, options).expect("a schema");
        batches
            .iter()
            .for_each(|batch| writer.write(batch).expect("rows"));
        let bytes = writer.into_inner().expect("a footer");
        return match form {
            Layout::File => bytes,
            _ => zstd::encode_all(bytes.as_slice(), 1).expect("bytes"),
        };
    }
    let mut writer = StreamWriter::try_new_with_options(Vec::new(), &schema, options).expect("a schema");
    batches
        .iter()
        .for_each(|batch| writer.write(batch).expect("rows"));
    let bytes = writer.into_inner().expect("an end");
    match form {
        Layout::Packed => zstd::encode_all(bytes.as_slice(), 1).expect("bytes"),
        _ => bytes,
    }
}

/// `rows` rows from `first` on: numbers, text with nulls, a dictionary, runs, views and lists.
fn sample(first: i64, rows: usize) -> RecordBatch {
    let numbers = first..first + rows as i64;
    let ids: Int64Array = numbers.clone().map(Some).collect();
    let names: StringArray = numbers
        .clone()
        .map(|n| (n % 3 != 0).then(|| format!("name {n}")))
        .collect();
    // All batches of a file have the same dictionary, as the file form wants it.
    let keys = numbers.clone().map(|n| (n % 5 != 0).then_some((n % 2) as i8));
    let kinds = StringArray::from(vec!["even", "odd"]);
    let kinds = DictionaryArray::<Int8Type>::new(keys.collect(), Arc::new(kinds));
    let ends: Int32Array = (1..=rows as i32).collect();
    let runs = RunArray::<Int32Type>::try_new(&ends, &names).expect("a run a row");
    let views: StringViewArray = numbers
        .clone()
        .map(|n| Some(format!("a longer text of number {n}")))
        .collect();
    let lists = ListArray::from_iter_primitive::<Int32Type, _, _>(
        numbers.map(|n| Some((0..n % 3).map(|i| Some(i as i32)).collect::<Vec<_>>())),
    );
    RecordBatch::try_from_iter_with_nullable([
        ("id", Arc::new(ids) as ArrayRef, false),
        ("name", Arc::new(names), true),
        ("kind", Arc::new(kinds), true),
        ("run", Arc::new(runs), true),
        ("view", Arc::new(views), true),
        ("list", Arc::new(lists), true),
        ("nothing", Arc::new(NullArray::new(rows)), true),
    ])
    .expect("columns of one length")
}

/// Batches of these sizes, one after another.
fn batches(first: i64, sizes: &[usize]) -> Vec<RecordBatch> {
    let mut next = first;
    sizes
        .iter()
        .map(|rows| {
            let batch = sample(next, *rows);
            next += *rows as i64;
            batch
        })
        .collect()
}

fn request(columns: &[usize], block_rows: usize, block_bytes: usize) -> ReadRequest {
    ReadRequest {
        columns: columns.iter().map(|index| (*index, ColumnType::TEXT)).collect(),
        block_rows,
        block_bytes,
    }
}

fn open(paths: &[&Path]) -> Result<ArrowSource> {
    let names: Vec<String> = paths.iter().map(|path| path.display().to_string()).collect();
    let files = files::find(&names, Some(super::super::Format::Arrow))?.0;
    ArrowSource::open(files, DifferingColumns::Refused)
}

fn blocks(source: &mut ArrowSource) -> Vec<Block> {
    std::iter::from_fn(|| source.next().expect("whole files")).collect()
}

fn ids(block: &Block) -> Vec<i64> {
    let column = block.rows.column_by_name("id").expect("it was requested");
    column.as_primitive::<Int64Type>().values().to_vec()
}

#[test]
fn blocks_have_their_rows_whatever_the_batches() {
    let directory = TempDir::new().expect("a directory");
    let (first, second) = (directory.path().join("a"), directory.path().join("b"));
    let expected = sample(0, 157);
    for form in FORMS {
        for sizes in [&[100][..], &[1, 0, 33, 66], &[0, 7, 7, 7, 79, 0]] {
            for compression in [
                None,
                Some(CompressionType::LZ4_FRAME),
                Some(CompressionType::ZSTD),
            ] {
                fs::write(&first, encoded(form, &batches(0, sizes), compression)).expect("room");
                fs::write(&second, encoded(form, &batches(100, &[30, 27]), compression)).expect("room");
                for block_rows in [1, 7, 33, 100, 1000] {
                    let mut source = open(&[&first, &second]).expect("whole files");
                    source
                        .request(&request(&[0, 1, 2, 3, 4, 6], block_rows, usize::MAX))
                        .expect("columns there are");
                    let blocks = blocks(&mut source);
                    let mut rows = 0;
                    for (index, block) in blocks.iter().enumerate() {
                        assert_eq!((block.index, block.start.rows), (index as u64, rows));
                        rows += block.rows.num_rows() as u64;
                        assert_eq!(block.end.rows, rows);
                        assert_eq!(block.origin.row(0), block.start.file_rows + 1);
                        if let Some(next) = blocks.get(index + 1) {
                            assert_eq!(block.end, next.start);
                            let whole = block.rows.num_rows() == block_rows;
                            assert!(whole || block.end.file != block.start.file);
                        }
                    }
                    assert_eq!(rows, 157);
                    let bytes: u64 = blocks.iter().map(|block| block.bytes).sum();
                    assert_eq!(source.bytes_total(), Some(bytes), "{form:?}");
                    let all: Vec<i64> = blocks.iter().flat_map(ids).collect();
                    assert_eq!(all, (0..157).collect::<Vec<_>>());
                    let whole = concat_batches(&blocks[0].rows.schema(), blocks.iter().map(|b| &b.rows))
                        .expect("one schema");
                    for (name, written) in [("name", 1), ("kind", 2), ("run", 1), ("view", 4)] {
                        let found = whole.column_by_name(name).expect("requested");
                        let text =
                            |array: &ArrayRef| cast(array, &DataType::Utf8).expect("all of them are text");
                        assert_eq!(&text(found), &text(expected.column(written)), "{name}");
                    }
                }
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    /// Every block can be resumed at, and then everything comes as it would have come.
    #[test]
    fn any_block_can_be_resumed_at(
        sizes in prop::collection::vec(prop::collection::vec(0usize..9, 1..5), 1..4),
        block_rows in 1usize..12,
        block_bytes in prop_oneof![Just(usize::MAX), 0usize..2000],
        form in prop::sample::select(&FORMS[..]),
    ) {
        let directory = TempDir::new().expect("a directory");
        let mut paths = Vec::new();
        for (index, sizes) in sizes.iter().enumerate() {
            let path = directory.path().join(index.to_string());
            fs::write(&path, encoded(form, &batches(index as i64 * 100, sizes), None)).expect("room");
            paths.push(path);
        }
        let paths: Vec<&Path> = paths.iter().map(|path| path.as_path()).collect();
        let request = request(&[4, 0, 2], block_rows, block_bytes);
        let mut source = open(&paths).expect("whole files");
        source.request(&request).expect("columns there are");
        let all = blocks(&mut source);
        let text = |blocks: &[Block]| -> Vec<String> {
            let parts = |b: &Block| format!("{:?}", (b.index, &b.rows, &b.origin, b.start, b.end));
            blocks.iter().map(parts).collect()
        };
        for (at, block) in all.iter().enumerate() {
            let mut again = open(&paths).expect("whole files");
            again.request(&request).expect("columns there are");
            again.seek(block.index, &block.start).expect("a mark of the same files");
            prop_assert_eq!(text(&blocks(&mut again)), text(&all[at..]));
            again.seek(block.index + 1, &block.end).expect("a mark of the same files");
            prop_assert_eq!(text(&blocks(&mut again)), text(&all[at + 1..]));
        }
    }
}

#[test]
fn a_file_that_changed_is_refused() {
    let directory = TempDir::new().expect("a directory");
    let path = directory.path().join("a.arrow");
    for form in FORMS {
        fs::write(&path, encoded(form, &batches(0, &[10, 10]), None)).expect("room");
        let mut source = open(&[&path]).expect("a whole file");
        source.request(&request(&[0], 5, usize::MAX)).expect("a column");
        let mark = blocks(&mut source)[1].end;
        for sizes in [&[10, 11][..], &[5]] {
            fs::write(&path, encoded(form, &batches(1, sizes), None)).expect("room");
            let mut changed = open(&[&path]).expect("a whole file");
            changed.request(&request(&[0], 5, usize::MAX)).expect("a column");
            let error = changed.seek(2, &mark).expect_err("other rows");
            assert!(
                error.to_string().ends_with("has changed since the run began"),
                "{error}"
            );
        }
    }
}

#[test]
fn the_schema_is_that_of_the_file_with_values_for_dictionaries() {
    let directory = TempDir::new().expect("a directory");
    let path = directory.path().join("a.arrow");
    fs::write(&path, encoded(Layout::File, &batches(0, &[3]), None)).expect("room");
    let source = open(&[&path]).expect("a whole file");
    let schema = source.schema();
    assert!(schema.named && !schema.text);
    let found: Vec<_> = schema
        .columns
        .iter()
        .map(|column| (column.name.as_str(), column.arrow.clone(), column.nullable))
        .collect();
    assert_eq!(
        found[..4],
        [
            ("id", DataType::Int64, false),
            ("name", DataType::Utf8, true),
            ("kind", DataType::Utf8, true),
            ("run", DataType::Utf8, true),
        ]
    );
}

/// Files that lack columns of each other, or have them in another order and width, are one source; and any of its blocks can
/// be gone on at.
#[test]
fn the_columns_of_files_are_united_by_name() {
    let directory = TempDir::new().expect("a directory");
    let whole = sample(0, 5);
    let narrow: Int32Array = (5..8).map(Some).collect();
    let swapped = RecordBatch::try_from_iter_with_nullable([
        (
            "other",
            Arc::new(StringArray::from(vec!["a", "b", "c"])) as ArrayRef,
            true,
        ),
        ("id", Arc::new(narrow), false),
    ])
    .expect("columns of one length");
    let lacking = sample(8, 2).project(&[1]).expect("a column");
    let parts = [
        (Layout::File, whole.project(&[0, 1]).expect("two columns")),
        (Layout::Stream, swapped),
        (Layout::File, lacking),
    ];
    let names: Vec<String> = (0..)
        .zip(parts)
        .map(|(number, (layout, batch))| {
            let path = directory.path().join(format!("{number}.arrow"));
            fs::write(&path, encoded(layout, &[batch], None)).expect("room");
            path.display().to_string()
        })
        .collect();
    let open = || {
        let files = files::find(&names, Some(super::super::Format::Arrow))
            .expect("files")
            .0;
        let mut source = ArrowSource::open(files, DifferingColumns::United).expect("one source");
        source.request(&request(&[2, 0], 2, usize::MAX)).expect("columns");
        source
    };
    let mut source = open();
    let columns = source.schema().columns.iter();
    assert_eq!(
        columns
            .map(|column| (column.name.as_str(), column.arrow.clone(), column.nullable))
            .collect::<Vec<_>>(),
        [
            ("id", DataType::Int64, true),
            ("name", DataType::Utf8, true),
            ("other", DataType::Utf8, true)
        ]
    );
    let all = blocks(&mut source);
    let rows: Vec<(Option<i64>, Option<String>)> = all
        .iter()
        .flat_map(|block| {
            let others = block.rows.column(0).as_string::<i32>().iter();
            let ids = block.rows.column(1).as_primitive::<Int64Type>().iter();
            let rows = ids.zip(others).map(|(id, other)| (id, other.map(str::to_owned)));
            rows.collect::<Vec<_>>()
        })
        .collect();
    let expected = (0..5).map(|id| (Some(id), None));
    let expected = expected.chain(
        (5..8)
            .zip(["a", "b", "c"])
            .map(|(id, other)| (Some(id), Some(other.to_owned()))),
    );
    assert_eq!(
        rows,
        expected.chain([(None, None), (None, None)]).collect::<Vec<_>>()
    );
    for (at, block) in all.iter().enumerate() {
        let mut again = open();
        again.seek(block.index, &block.start).expect("a place");
        let rest: Vec<_> = blocks(&mut again).into_iter().map(|block| block.rows).collect();
        assert_eq!(
            rest,
            all[at..]
                .iter()
                .map(|block| block.rows.clone())
                .collect::<Vec<_>>()
        );
    }
}

#[test]
fn files_that_differ_or_are_no_arrow_are_named() {
    let directory = TempDir::new().expect("a directory");
    let path = |name: &str, bytes: &[u8]| {
        let path = directory.path().join(name);
        fs::write(&path, bytes).expect("room");
        path
    };
    let good = path("a.arrow", &encoded(Layout::File, &batches(0, &[3]), None));
    let fewer = sample(0, 3).project(&[0, 1]).expect("two columns");
    let fewer = path("b.arrow", &encoded(Layout::File, &[fewer], None));
    let two = encoded(Layout::Stream, &batches(0, &[3]), None);
    let cases: [(&[&Path], &str); 4] = [
        (&[&good, &fewer], "b.arrow has no column 'kind', "),
        (
            &[&path("c.arrow", b"a,b\n1,2\n")],
            "c.arrow is not an Arrow file or stream: ",
        ),
        (
            &[&path("d.arrow", b"")],
            "d.arrow is not an Arrow file or stream: ",
        ),
        (
            &[&path("e.arrow", b"ARROW1\0\0ARROW1")],
            "e.arrow is not a complete Arrow file: ",
        ),
    ];
    for (paths, message) in cases {
        let error = open(paths).err().expect(message);
        assert_eq!(error.kind(), ErrorKind::Input);
        assert!(error.to_string().contains(message), "{error}");
    }
    let twice = path("f.arrows", &[two.as_slice(), &two].concat());
    let error = read_all(&twice).expect_err("a second stream");
    assert!(
        error.to_string().contains("more follows behind the mark"),
        "{error}"
    );
}

fn read_all(path: &Path) -> Result<usize> {
    let mut source = open(&[path])?;
    let all: Vec<usize> = (0..source.schema().columns.len()).collect();
    source.request(&request(&all, 16, usize::MAX))?;
    let mut rows = 0;
    while let Some(block) = source.next()? {
        rows += block.rows.num_rows();
    }
    Ok(rows)
}

#[test]
fn damage_is_an_error_and_never_a_panic() {
    let directory = TempDir::new().expect("a directory");
    let path = directory.path().join("orders.arrow");
    for (form, compression) in [
        (Layout::File, None),
        (Layout::Stream, None),
        (Layout::File, Some(CompressionType::LZ4_FRAME)),
        (Layout::Stream, Some(CompressionType::ZSTD)),
    ] {
        let whole = encoded(form, &batches(0, &[20, 20]), compression);
        fs::write(&path, &whole).expect("room");
        assert_eq!(read_all(&path).expect("a whole file"), 40);
        let mut failures = 0;
        // Not every byte: a panic in the reader below is slow.
        let places = (0..whole.len()).step_by(9);
        for at in places.clone() {
            let mut bytes = whole.clone();
            bytes[at] ^= [0xff, 0x01, 0x80, 0x40][at / 9 % 4];
            fs::write(&path, &bytes).expect("room");
            if let Err(error) = read_all(&path) {
                assert_eq!(error.kind(), ErrorKind::Input, "{error}");
                assert!(error.to_string().contains("orders.arrow"), "{error}");
                failures += 1;
            }
        }
        assert!(failures > places.len() / 10, "{failures} of {}", places.len());
        for length in (0..whole.len()).rev().step_by(7) {
            fs::write(&path, &whole[..length]).expect("room");
            let error = read_all(&path).expect_err("cut short");
            assert_eq!(error.kind(), ErrorKind::Input, "{error}");
        }
    }
}

/// Arrow 0.17 compressed buffers before the format had a word for it. The files are pyarrow's, which takes their buffers
/// for compressed ones.
#[test]
fn files_compressed_as_arrow_0_17_did_it_are_refused() {
    for (name, codec) in [("old_lz4.arrow", "lz4"), ("old_zstd.arrows", "zstd")] {
        let path = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("tests/data")
            .join(name);
        let shown = path.to_string_lossy().into_owned();
        let (files, _) = files::find(std::slice::from_ref(&shown), None).expect("the file");
        let mut source = ArrowSource::open(files, DifferingColumns::Refused).expect("a schema");
        let request = ReadRequest {
            columns: vec![(0, ColumnType::Int32)],
            block_rows: 10,
            block_bytes: 1 << 20,
        };
        source.request(&request).expect("a column");
        let error = source.next().expect_err("buffers that are no values");
        let message = error.to_string();
        assert!(
            message.starts_with(&format!("{shown} is compressed with {codec} as Arrow 0.17")),
            "{message}"
        );
        assert!(error.hint_text().is_some());
    }
}
