use std::{
    fs::{self, File},
    path::Path,
    sync::Arc,
};

use arrow::{
    array::{
        ArrayRef, AsArray, DictionaryArray, FixedSizeBinaryArray, Int32Array, Int64Array, ListArray,
        RecordBatch, StringArray, TimestampSecondArray,
    },
    datatypes::{DataType, Field, Int32Type, Schema, TimeUnit, TimestampMicrosecondType},
};
use parquet::{arrow::ArrowWriter, basic::Compression, file::properties::WriterProperties};
use tempfile::TempDir;
use tonnage_core::{error::ErrorKind, reject::RejectData, types::ColumnType};

use super::*;

fn open_files(files: Vec<InputFile>) -> Result<ParquetSource> {
    ParquetSource::open(files, DifferingColumns::Refused)
}

fn input(path: &Path) -> InputFile {
    let shown = path.file_name().and_then(|name| name.to_str()).expect("a name");
    InputFile {
        shown: Arc::from(shown),
        path: Some(path.to_owned()),
        object: None,
        identity: Some(InputIdentity {
            path: path.display().to_string(),
            bytes: 0,
            modified_nanos: 0,
            ..InputIdentity::default()
        }),
        state: None,
        sheet: None,
    }
}

fn write(path: &Path, batch: &RecordBatch, group_rows: usize) {
    let properties = WriterProperties::builder()
        .set_max_row_group_row_count(Some(group_rows))
        .set_data_page_row_count_limit(7)
        .set_write_batch_size(7)
        .set_compression(Compression::SNAPPY)
        .build();
    let file = File::create(path).expect("the directory is ours");
    let mut writer = ArrowWriter::try_new(file, batch.schema(), Some(properties)).expect("a schema");
    writer.write(batch).expect("rows");
    writer.close().expect("a footer");
}

/// `rows` rows from `first` on, with nulls, a dictionary and a list among them.
fn sample(first: i64, rows: usize) -> RecordBatch {
    let numbers = first..first + rows as i64;
    let ids: Int64Array = numbers.clone().map(Some).collect();
    let names: StringArray = numbers
        .clone()
        .map(|n| (n % 3 != 0).then(|| format!("name {n}")))
        .collect();
    let kinds: DictionaryArray<Int32Type> = numbers
        .clone()
        .map(|n| (n % 5 != 0).then_some(if n % 2 == 0 { "even" } else { "odd" }))
        .collect();
    let lists = ListArray::from_iter_primitive::<Int32Type, _, _>(
        numbers
            .clone()
            .map(|n| Some((0..n % 3).map(|i| Some(i as i32)).collect::<Vec<_>>())),
    );
    let times: TimestampSecondArray = numbers.map(Some).collect();
    RecordBatch::try_from_iter_with_nullable([
        ("id", Arc::new(ids) as ArrayRef, false),
        ("name", Arc::new(names), true),
        ("kind", Arc::new(kinds), true),
        ("list", Arc::new(lists), true),
        ("at", Arc::new(times), true),
    ])
    .expect("columns of one length")
}

fn request(columns: &[usize], block_rows: usize) -> ReadRequest {
    ReadRequest {
        columns: columns.iter().map(|index| (*index, ColumnType::TEXT)).collect(),
        block_rows,
        block_bytes: usize::MAX,
    }
}

fn open(paths: &[&Path], request: &ReadRequest) -> ParquetSource {
    let mut source = open_files(paths.iter().map(|path| input(path)).collect()).expect("whole files");
    source.request(request).expect("columns there are");
    source
}

fn blocks(source: &mut ParquetSource) -> Vec<Block> {
    std::iter::from_fn(|| source.next().expect("whole files")).collect()
}

fn ids(block: &Block) -> Vec<i64> {
    let column = block.rows.column_by_name("id").expect("it was requested");
    column
        .as_primitive::<arrow::datatypes::Int64Type>()
        .values()
        .to_vec()
}

#[test]
fn blocks_have_their_rows_whatever_the_row_groups() {
    let directory = TempDir::new().expect("a directory");
    let (first, second) = (
        directory.path().join("a.parquet"),
        directory.path().join("b.parquet"),
    );
    for group_rows in [1, 10, 33, 1000] {
        write(&first, &sample(0, 100), group_rows);
        write(&second, &sample(100, 57), group_rows);
        for block_rows in [1, 7, 10, 33, 64, 100, 1000] {
            let mut source = open(&[&first, &second], &request(&[0, 1, 2], block_rows));
            assert_eq!(source.rows_total(), 157);
            let blocks = blocks(&mut source);
            let mut expected_rows = 0;
            let mut bytes = 0;
            for (index, block) in blocks.iter().enumerate() {
                assert_eq!(block.index, index as u64);
                assert_eq!(block.start.rows, expected_rows);
                let rows = block.rows.num_rows() as u64;
                assert_eq!(block.end.rows - block.start.rows, rows);
                if let Some(next) = blocks.get(index + 1) {
                    assert_eq!(block.end, next.start);
                    let ends_file = block.end.file != block.start.file;
                    assert!(rows == block_rows as u64 || ends_file);
                }
                assert_eq!(block.origin.first_row, block.start.offset + 1);
                assert_eq!(block.origin.row(0), block.start.file_rows + 1);
                assert_eq!(block.origin.rows.len(), block.rows.num_rows());
                assert_eq!(
                    &*block.origin.file,
                    ["a.parquet", "b.parquet"][block.start.file as usize]
                );
                expected_rows += rows;
                bytes += block.bytes;
            }
            assert_eq!(expected_rows, 157);
            assert_eq!(source.bytes_total(), Some(bytes));
            let all: Vec<i64> = blocks.iter().flat_map(ids).collect();
            assert_eq!(all, (0..157).collect::<Vec<_>>());
            let whole =
                arrow::compute::concat_batches(&blocks[0].rows.schema(), blocks.iter().map(|b| &b.rows))
                    .expect("one schema");
            let written = sample(0, 157);
            assert_eq!(whole.column(1), written.column(1));
            let kinds =
                arrow::compute::cast(written.column(2), &DataType::Utf8).expect("a dictionary of text");
            assert_eq!(whole.column(2), &kinds);
        }
    }
}

#[test]
fn every_block_can_be_sought() {
    let directory = TempDir::new().expect("a directory");
    let paths: Vec<_> = ["a.parquet", "empty.parquet", "b.parquet", "end.parquet"]
        .iter()
        .map(|name| directory.path().join(name))
        .collect();
    for (path, (first, rows)) in paths.iter().zip([(0, 50), (50, 0), (50, 30), (80, 0)]) {
        write(path, &sample(first, rows), 13);
    }
    let paths: Vec<&Path> = paths.iter().map(|path| path.as_path()).collect();
    for block_rows in [1, 9, 13, 26, 50] {
        let request = request(&[0, 1, 4], block_rows);
        let expected = blocks(&mut open(&paths, &request));
        for block in &expected {
            let mut source = open(&paths, &request);
            source
                .seek(block.index, &block.start)
                .expect("a mark of the same files");
            let rest = blocks(&mut source);
            assert_eq!(rest.len(), expected.len() - block.index as usize);
            for (again, once) in rest.iter().zip(&expected[block.index as usize..]) {
                assert_eq!(again.index, once.index);
                assert_eq!(again.rows, once.rows);
                assert_eq!((again.start, again.end), (once.start, once.end));
                assert_eq!(again.bytes, once.bytes);
            }
            // And after the block too, from the same source.
            source
                .seek(block.index + 1, &block.end)
                .expect("a mark of the same files");
            assert_eq!(
                blocks(&mut source).len(),
                expected.len() - 1 - block.index as usize
            );
        }
        let mut source = open(&paths, &request);
        blocks(&mut source);
        source.seek(0, &BlockMark::default()).expect("the beginning");
        assert_eq!(blocks(&mut source).len(), expected.len());
    }
}

#[test]
fn block_rows_follow_from_the_footer() {
    let directory = TempDir::new().expect("a directory");
    let path = directory.path().join("a.parquet");
    write(&path, &sample(0, 1000), 100);
    let rows = |block_bytes: usize, block_rows: usize| {
        let request = ReadRequest {
            columns: vec![(0, ColumnType::Int64)],
            block_rows,
            block_bytes,
        };
        open(&[&path], &request)
            .next()
            .expect("rows")
            .expect("rows")
            .rows
            .num_rows()
    };
    assert_eq!(rows(0, 500), 1);
    assert_eq!(rows(usize::MAX, 500), 500);
    let some = rows(2000, 500);
    assert!((2..500).contains(&some), "{some}");
}

#[test]
fn columns_come_in_the_order_requested() {
    let directory = TempDir::new().expect("a directory");
    let path = directory.path().join("a.parquet");
    write(&path, &sample(0, 20), 6);
    let names = |columns: &[usize]| {
        let block = open(&[&path], &request(columns, 15))
            .next()
            .expect("rows")
            .expect("rows");
        assert_eq!(block.rows.num_rows(), 15);
        let schema = block.rows.schema();
        schema
            .fields()
            .iter()
            .map(|field| field.name().clone())
            .collect::<Vec<_>>()
    };
    assert_eq!(names(&[4, 0, 2]), ["at", "id", "kind"]);
    assert_eq!(names(&[1, 1]), ["name", "name"]);
    assert_eq!(names(&[3]), ["list"]);
    assert!(names(&[]).is_empty());
    let mut source = open(&[&path], &request(&[0], 15));
    assert_eq!(
        source
            .request(&request(&[5], 1))
            .expect_err("no such column")
            .kind(),
        ErrorKind::Bug
    );
}

#[test]
fn the_schema_is_that_of_the_file() {
    let directory = TempDir::new().expect("a directory");
    let path = directory.path().join("a.parquet");
    write(&path, &sample(0, 3), 3);
    let source = open_files(vec![input(&path)]).expect("a whole file");
    let schema = source.schema();
    assert!(schema.named && !schema.text);
    let found: Vec<_> = schema
        .columns
        .iter()
        .map(|column| (column.name.as_str(), column.suggested, column.nullable))
        .collect();
    assert_eq!(
        found,
        [
            ("id", Some(ColumnType::Int64), false),
            ("name", Some(ColumnType::TEXT), true),
            ("kind", Some(ColumnType::TEXT), true),
            ("list", Some(ColumnType::Json), true),
            ("at", Some(ColumnType::Timestamp), true),
        ]
    );
    assert_eq!(schema.columns[2].arrow, DataType::Utf8);
    assert_eq!(
        schema.columns[4].arrow,
        DataType::Timestamp(TimeUnit::Second, None)
    );
    assert_eq!(source.identity().map(|files| files.len()), Some(1));
}

#[test]
fn logical_types_of_the_file_are_honoured() {
    use parquet::{file::writer::SerializedFileWriter, schema::parser::parse_message_type};
    let directory = TempDir::new().expect("a directory");
    let path = directory.path().join("a.parquet");
    let schema = "message m {
        required fixed_len_byte_array(16) id (UUID);
        optional binary document (JSON);
        required int64 big (INTEGER(64, false));
    }";
    let schema = parse_message_type(schema).expect("a schema");
    let writer = SerializedFileWriter::new(
        File::create(&path).expect("the directory is ours"),
        Arc::new(schema),
        Arc::default(),
    );
    writer.expect("a schema").close().expect("a footer");
    let source = open_files(vec![input(&path)]).expect("a whole file");
    let suggested: Vec<_> = source
        .schema()
        .columns
        .iter()
        .map(|column| column.suggested)
        .collect();
    assert_eq!(
        suggested,
        [
            Some(ColumnType::Uuid),
            Some(ColumnType::Json),
            Some(ColumnType::Numeric)
        ]
    );
}

/// A file of one column of 96-bit times: the Julian day and the nanoseconds of the day.
fn write_int96(path: &Path, times: &[Option<(u32, u64)>]) {
    use parquet::{
        data_type::{Int96, Int96Type},
        file::writer::SerializedFileWriter,
        schema::parser::parse_message_type,
    };
    let schema = parse_message_type("message m { optional int96 at; required int32 n; }").expect("a schema");
    let file = File::create(path).expect("the directory is ours");
    let mut writer = SerializedFileWriter::new(file, Arc::new(schema), Arc::default()).expect("a schema");
    let mut group = writer.next_row_group().expect("a row group");
    let mut column = group.next_column().expect("two columns").expect("two columns");
    let levels: Vec<i16> = times.iter().map(|time| i16::from(time.is_some())).collect();
    let values: Vec<Int96> = times
        .iter()
        .flatten()
        .map(|(day, nanos)| Int96::from(vec![*nanos as u32, (*nanos >> 32) as u32, *day]))
        .collect();
    column
        .typed::<Int96Type>()
        .write_batch(&values, Some(&levels), None)
        .expect("times");
    column.close().expect("times");
    let mut column = group.next_column().expect("two columns").expect("two columns");
    let numbers: Vec<i32> = (0..times.len() as i32).collect();
    column
        .typed::<parquet::data_type::Int32Type>()
        .write_batch(&numbers, None, None)
        .expect("numbers");
    column.close().expect("numbers");
    group.close().expect("a row group");
    writer.close().expect("a footer");
}

#[test]
fn old_times_are_exact_or_rejected() {
    let directory = TempDir::new().expect("a directory");
    let path = directory.path().join("a.parquet");
    // 1970-01-01, 9999-12-31, and two that microseconds do not keep, one of them before the reach of
    // nanoseconds.
    let times = [
        Some((2_440_588, 1_000)),
        None,
        Some((2_440_588, 1)),
        Some((5_373_484, 86_399_999_999_000)),
        Some((1_721_426, 500)),
    ];
    write_int96(&path, &times);
    for block_rows in [1, 2, 5] {
        let mut source = open(&[&path], &request(&[1, 0], block_rows));
        assert_eq!(source.schema().columns[0].suggested, Some(ColumnType::Timestamp));
        let blocks = blocks(&mut source);
        let mut good = Vec::new();
        let mut bad = Vec::new();
        for block in &blocks {
            let rows = (block.rows.num_rows() + block.rejects.len()) as u64;
            assert_eq!(block.end.rows - block.start.rows, rows);
            let micros = block.rows.column(1).as_primitive::<TimestampMicrosecondType>();
            for (index, time) in micros.iter().enumerate() {
                good.push((block.origin.row(index), time));
            }
            bad.extend(block.rejects.iter().map(|reject| {
                let problem = &reject.problem;
                (
                    reject.row,
                    problem.code.clone(),
                    problem.message.clone(),
                    reject.data.clone(),
                )
            }));
        }
        assert_eq!(
            good,
            [(1, Some(1)), (2, None), (4, Some(253_402_300_799_999_999))]
        );
        let rejected = |row: u64, text: &str| {
            let fields = vec![
                (Arc::from("n"), Some((row - 1).to_string())),
                (Arc::from("at"), Some(text.to_owned())),
            ];
            let message = format!("'{text}' is finer than a microsecond, the column is not");
            (row, "22000".to_owned(), message, RejectData::Fields(fields))
        };
        assert_eq!(
            bad,
            [
                rejected(3, "1970-01-01 00:00:00.000000001"),
                rejected(5, "0001-01-01 00:00:00.0000005"),
            ]
        );
    }
}

#[test]
fn files_without_rows_or_columns() {
    let directory = TempDir::new().expect("a directory");
    let path = directory.path().join("a.parquet");
    write(&path, &sample(0, 0), 10);
    let mut source = open(&[&path, &path], &request(&[0], 10));
    assert!(source.next().expect("whole").is_none());
    assert!(source.next().expect("whole").is_none());
    let none = RecordBatch::new_empty(Arc::new(Schema::empty()));
    write(&path, &none, 10);
    let mut source = open(&[&path], &request(&[], 10));
    assert!(source.schema().columns.is_empty());
    assert!(source.next().expect("whole").is_none());
    assert_eq!(
        open_files(Vec::new()).map(|_| ()).expect_err("no file").kind(),
        ErrorKind::Config
    );
}

#[track_caller]
fn check_refused(files: Vec<InputFile>, kind: ErrorKind, message: &str, hint: &str) {
    let error = open_files(files).map(|_| ()).expect_err("it is refused");
    assert_eq!(error.to_string(), message);
    assert_eq!(error.hint_text(), Some(hint));
    assert_eq!(error.kind(), kind);
}

#[test]
fn what_is_no_parquet_file_is_named() {
    let directory = TempDir::new().expect("a directory");
    let path = directory.path().join("orders.parquet");
    write(&path, &sample(0, 100), 50);
    let whole = fs::read(&path).expect("it was written");
    let cut_short = "it may still be being written, or a copy of it was cut short: copy or write it again";
    let truncated = |bytes: &[u8], message: &str| {
        fs::write(&path, bytes).expect("the directory is ours");
        check_refused(vec![input(&path)], ErrorKind::Input, message, cut_short);
    };
    truncated(
        &whole[..whole.len() - 100],
        "orders.parquet is not a complete Parquet file: its end is missing",
    );
    truncated(b"", "orders.parquet is not a complete Parquet file: it is empty");
    truncated(
        b"PAR1",
        "orders.parquet is not a complete Parquet file: it has 4 bytes only",
    );
    truncated(
        b"PAR1\xff\xff\xff\x7fPAR1",
        "orders.parquet is not a complete Parquet file: its footer of 2147483647 bytes does not fit into it",
    );
    fs::write(&path, "id,name\n1,a\n2,b\n").expect("the directory is ours");
    check_refused(
        vec![input(&path)],
        ErrorKind::Input,
        "orders.parquet is not a Parquet file",
        "name its format with --format",
    );
    fs::write(&path, b"PARE....\0\0\0\0PARE").expect("the directory is ours");
    check_refused(
        vec![input(&path)],
        ErrorKind::Input,
        "orders.parquet is encrypted, which cannot be read yet",
        "decrypt it first, with the tool that wrote it",
    );
    check_refused(
        vec![InputFile {
            path: None,
            ..input(Path::new("-"))
        }],
        ErrorKind::Config,
        "Parquet cannot be read from standard input",
        "save it to a file first: a Parquet file is read from its end",
    );
    let error = open_files(vec![input(&directory.path().join("none.parquet"))])
        .map(|_| ())
        .expect_err("there is none");
    assert!(
        error.to_string().starts_with("cannot open none.parquet: "),
        "{error}"
    );
    let error = open_files(vec![input(directory.path())])
        .map(|_| ())
        .expect_err("a directory");
    assert!(error.to_string().ends_with(" is not a file"), "{error}");
}

#[test]
fn files_that_differ_are_named_with_the_column() {
    let directory = TempDir::new().expect("a directory");
    let file = |name: &str, columns: &[(&str, DataType)]| {
        let path = directory.path().join(name);
        let fields: Vec<_> = columns
            .iter()
            .map(|(name, ty)| Field::new(*name, ty.clone(), true))
            .collect();
        write(&path, &RecordBatch::new_empty(Arc::new(Schema::new(fields))), 1);
        input(&path)
    };
    let first = file("a.parquet", &[("x", DataType::Int32), ("y", DataType::Utf8)]);
    let check = |columns: &[(&str, DataType)], message: &str| {
        let files = vec![first.clone(), file("b.parquet", columns)];
        check_refused(files, ErrorKind::Input, message, OTHER_COLUMNS);
    };
    check(
        &[("x", DataType::Int64), ("y", DataType::Utf8)],
        "b.parquet: column 'x' is int64, in a.parquet it is int32",
    );
    check(
        &[("x", DataType::Int32)],
        "b.parquet has no column 'y', a.parquet has",
    );
    check(
        &[
            ("x", DataType::Int32),
            ("y", DataType::Utf8),
            ("z", DataType::Utf8),
        ],
        "b.parquet has a column 'z', a.parquet has not",
    );
    check(
        &[("y", DataType::Utf8), ("x", DataType::Int32)],
        "b.parquet: column 1 is 'y', in a.parquet it is 'x'",
    );
}

#[test]
fn a_changed_file_is_an_error() {
    let directory = TempDir::new().expect("a directory");
    let (path, other) = (
        directory.path().join("orders.parquet"),
        directory.path().join("more.parquet"),
    );
    write(&path, &sample(0, 100), 50);
    write(&other, &sample(0, 100), 50);
    let request = request(&[0], 30);
    let expected = blocks(&mut open(&[&path, &other], &request));
    let (early, late) = (&expected[1], &expected[5]);

    // Changed between opening and reading.
    let mut source = open(&[&path], &request);
    write(&path, &sample(1, 100), 50);
    assert_eq!(
        source.next().map(|_| ()).expect_err("it changed").to_string(),
        "orders.parquet has changed since the run began"
    );
    // Changed between two attempts.
    let mut source = open(&[&path, &other], &request);
    let error = source.seek(early.index, &early.start).expect_err("it changed");
    assert_eq!(
        error.to_string(),
        "orders.parquet has changed since the run began"
    );
    assert_eq!(error.kind(), ErrorKind::Input);
    // The file at hand is the same, one before it is not.
    write(&path, &sample(0, 99), 50);
    let mut source = open(&[&path, &other], &request);
    let error = source.seek(late.index, &late.start).expect_err("it changed");
    assert_eq!(
        error.to_string(),
        "a file before more.parquet has changed since the run began"
    );
    // Fewer files than before.
    let mut source = open(&[&path], &request);
    let error = source.seek(late.index, &late.start).expect_err("it is missing");
    assert_eq!(
        error.to_string(),
        "there were more files when the run began: 1 are left"
    );
    // Other bounds than those the blocks were cut by.
    write(&path, &sample(0, 100), 50);
    let mut source = open(
        &[&path],
        &super::ReadRequest {
            block_rows: 7,
            ..request
        },
    );
    let mark = BlockMark {
        hash: 0,
        ..early.start
    };
    assert_eq!(
        source.seek(early.index, &mark).expect_err("not a block").kind(),
        ErrorKind::Bug
    );
}

/// Opens and reads everything: rows, or the error that stops it.
fn read_all(path: &Path) -> Result<usize> {
    let mut source = open_files(vec![input(path)])?;
    source.request(&request(
        &(0..source.schema().columns.len()).collect::<Vec<_>>(),
        16,
    ))?;
    let mut rows = 0;
    while let Some(block) = source.next()? {
        rows += block.rows.num_rows();
    }
    Ok(rows)
}

/// [`read_all`] of a new file: to write one over again can wait for the disk.
fn read_bytes(directory: &TempDir, bytes: &[u8]) -> Result<usize> {
    let path = directory.path().join("damaged orders.parquet");
    fs::write(&path, bytes).expect("the directory is ours");
    let read = read_all(&path);
    fs::remove_file(&path).expect("the directory is ours");
    read
}

#[test]
fn damage_is_an_error_and_never_a_panic() {
    let directory = TempDir::new().expect("a directory");
    let path = directory.path().join("orders.parquet");
    let uuids = FixedSizeBinaryArray::try_from_iter((0..40u8).map(|n| [n; 16])).expect("uuids");
    let plain = RecordBatch::try_from_iter([
        ("n", Arc::new(Int32Array::from_iter_values(0..40)) as ArrayRef),
        ("u", Arc::new(uuids)),
    ])
    .expect("columns of one length");
    for batch in [sample(0, 40), plain] {
        write(&path, &batch, 20);
        let whole = fs::read(&path).expect("it was written");
        assert_eq!(read_all(&path).expect("a whole file"), 40);
        let mut failures = 0;
        for at in 0..whole.len() {
            // One of three ways to damage it, in turn: a panic in the reader below is slow.
            let mut bytes = whole.clone();
            bytes[at] ^= [0xff, 0x01, 0x80][at % 3];
            if let Err(error) = read_bytes(&directory, &bytes) {
                assert_eq!(error.kind(), ErrorKind::Input, "{error}");
                assert!(error.to_string().contains("orders.parquet"), "{error}");
                failures += 1;
            }
        }
        assert!(failures > whole.len() / 8, "{failures} of {}", whole.len());
        for length in 0..whole.len() {
            let error = read_bytes(&directory, &whole[..length]).expect_err("cut short");
            assert_eq!(error.kind(), ErrorKind::Input);
        }
    }
}

/// Writes rows of a schema in the format's own words: for each leaf its numbers, with definition and repetition levels.
fn write_levels(path: &Path, schema: &str, leaves: &[(&[i32], &[i16], &[i16])]) {
    let schema = parquet::schema::parser::parse_message_type(schema).expect("a schema");
    let file = File::create(path).expect("the directory is ours");
    let mut writer = parquet::file::writer::SerializedFileWriter::new(file, Arc::new(schema), Arc::default())
        .expect("a writer");
    let mut group = writer.next_row_group().expect("a group");
    for (values, definitions, repetitions) in leaves {
        let mut column = group.next_column().expect("a column").expect("there is one");
        column
            .typed::<parquet::data_type::Int32Type>()
            .write_batch(values, Some(definitions), Some(repetitions))
            .expect("values fit their levels");
        column.close().expect("a column");
    }
    group.close().expect("a group");
    writer.close().expect("a file");
}

#[test]
fn a_repeated_field_without_annotation_is_a_list() {
    let directory = TempDir::new().expect("a directory");
    let path = directory.path().join("repeated.parquet");
    let id = (&[1, 2, 3][..], &[0, 0, 0][..], &[0, 0, 0][..]);
    let values = (&[7, 8, 9][..], &[1, 1, 0, 1][..], &[0, 1, 0, 0][..]);
    let within = (&[7, 8, 9][..], &[2, 2, 0, 2][..], &[0, 1, 0, 0][..]);
    for (schema, leaf) in [
        ("message m { required int32 id; repeated int32 xs; }", values),
        (
            "message m { required int32 id; repeated group xs { required int32 x; } }",
            values,
        ),
        (
            "message m { required int32 id; optional group xs { repeated int32 x; } }",
            within,
        ),
        (
            "message m { required int32 id; optional group xs { repeated group x { required int32 y; } } }",
            within,
        ),
    ] {
        write_levels(&path, schema, &[id, leaf]);
        let mut source = open_files(vec![input(&path)]).expect(schema);
        let columns: Vec<_> = source
            .schema()
            .columns
            .iter()
            .map(|column| column.suggested)
            .collect();
        assert_eq!(
            columns,
            [Some(ColumnType::Int32), Some(ColumnType::Json)],
            "{schema}"
        );
        let request = ReadRequest {
            columns: vec![(0, ColumnType::Int32), (1, ColumnType::Json)],
            block_rows: 2,
            block_bytes: 1 << 20,
        };
        source.request(&request).expect("columns");
        let mut rows = 0;
        while let Some(block) = source.next().expect(schema) {
            rows += block.rows.num_rows();
        }
        assert_eq!(rows, 3, "{schema}");
    }
}

#[test]
fn a_dictionary_at_place_zero_is_none() {
    use parquet::file::metadata::{ParquetMetaDataReader, ParquetMetaDataWriter};
    let directory = TempDir::new().expect("a directory");
    let path = directory.path().join("zero.parquet");
    let column: ArrayRef = Arc::new(Int32Array::from_iter_values(0..100));
    let batch = RecordBatch::try_from_iter([("n", column)]).expect("a batch");
    let properties = WriterProperties::builder().set_dictionary_enabled(false).build();
    let file = File::create(&path).expect("the directory is ours");
    let mut writer = ArrowWriter::try_new(file, batch.schema(), Some(properties)).expect("a writer");
    writer.write(&batch).expect("rows");
    writer.close().expect("a file");

    let mut reader = ParquetMetaDataReader::new();
    reader
        .try_parse(&File::open(&path).expect("the file"))
        .expect("a footer");
    let metadata = reader.finish().expect("a footer");
    let group = metadata.row_group(0).clone();
    let chunk = group
        .column(0)
        .clone()
        .into_builder()
        .set_dictionary_page_offset(Some(0));
    let group = group
        .into_builder()
        .set_column_metadata(vec![chunk.build().expect("a chunk")]);
    let metadata = metadata
        .into_builder()
        .set_row_groups(vec![group.build().expect("a group")])
        .build();
    let bytes = fs::read(&path).expect("the file");
    let tail = bytes.last_chunk::<8>().expect("a tail");
    let length = u32::from_le_bytes([tail[0], tail[1], tail[2], tail[3]]) as usize;
    let mut changed = bytes[..bytes.len() - 8 - length].to_vec();
    ParquetMetaDataWriter::new(&mut changed, &metadata)
        .finish()
        .expect("a footer");
    fs::write(&path, changed).expect("the file");

    let mut source = open_files(vec![input(&path)]).expect("a file");
    let request = ReadRequest {
        columns: vec![(0, ColumnType::Int32)],
        block_rows: 1000,
        block_bytes: 1 << 20,
    };
    source.request(&request).expect("columns");
    let block = source.next().expect("rows").expect("a block");
    assert_eq!(
        block.rows.column(0).as_primitive::<Int32Type>().values().len(),
        100
    );
}
