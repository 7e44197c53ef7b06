use std::{fs, io::Read, path::Path, sync::Arc};

use ::parquet::{arrow::arrow_reader::ParquetRecordBatchReaderBuilder, file::metadata::ColumnChunkMetaData};
use arrow::{
    array::{
        ArrayRef, BinaryArray, BooleanArray, Date32Array, Date64Array, Decimal128Array, Decimal256Array,
        FixedSizeBinaryArray, Float32Array, Float64Array, Int8Array, Int64Array, LargeStringArray, ListArray,
        NullArray, StringArray, StringViewArray, Time32SecondArray, Time64MicrosecondArray,
        TimestampMicrosecondArray, TimestampNanosecondArray, TimestampSecondArray, UInt64Array,
    },
    compute::concat_batches,
    datatypes::{DataType, Field, Int32Type, Schema, i256},
};
use proptest::prelude::*;

use super::parquet::ParquetCompression;
use super::*;
use crate::generate::Workload;

fn encode(columns: Vec<(&str, ArrayRef)>, options: &CsvOptions) -> Result<String> {
    let batch =
        RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(n, a)| (n, a, true))).unwrap();
    let mut encoder = csv::Encoder::new(&batch.schema(), options)?;
    let mut out = Vec::new();
    encoder.header(&mut out);
    encoder.encode(&batch, &mut out)?;
    Ok(String::from_utf8(out).unwrap())
}

/// The records of one column without a header.
fn fields(array: impl arrow::array::Array + 'static) -> Vec<String> {
    let options = CsvOptions {
        header: false,
        ..CsvOptions::default()
    };
    let text = encode(vec![("v", Arc::new(array))], &options).unwrap();
    text.strip_suffix('\n')
        .unwrap()
        .split('\n')
        .map(str::to_owned)
        .collect()
}

fn refusal(array: impl arrow::array::Array + 'static) -> String {
    let array: ArrayRef = Arc::new(array);
    encode(vec![("v", array)], &CsvOptions::default())
        .unwrap_err()
        .to_string()
}

#[test]
fn every_type_has_its_text() {
    assert_eq!(
        fields(BooleanArray::from(vec![Some(true), Some(false), None])),
        ["true", "false", ""]
    );
    assert_eq!(
        fields(Int8Array::from(vec![i8::MIN, 0, i8::MAX])),
        ["-128", "0", "127"]
    );
    assert_eq!(fields(Int64Array::from(vec![i64::MIN])), ["-9223372036854775808"]);
    assert_eq!(
        fields(UInt64Array::from(vec![u64::MAX])),
        ["18446744073709551615"]
    );
    assert_eq!(fields(NullArray::new(3)), ["", "", ""]);
    assert_eq!(
        fields(Float64Array::from(vec![
            0.1,
            1.0,
            -0.0,
            1e300,
            5e-324,
            f64::NAN,
            f64::INFINITY,
            f64::NEG_INFINITY
        ])),
        [
            "0.1",
            "1.0",
            "-0.0",
            "1e300",
            "5e-324",
            "NaN",
            "Infinity",
            "-Infinity"
        ]
    );
    assert_eq!(fields(Float32Array::from(vec![0.1, f32::NAN])), ["0.1", "NaN"]);
    let decimals = Decimal128Array::from(vec![Some(-5), Some(1250), None]).with_precision_and_scale(6, 3);
    assert_eq!(fields(decimals.unwrap()), ["-0.005", "1.250", ""]);
    let wide = Decimal256Array::from(vec![i256::from_i128(-1250)]).with_precision_and_scale(50, 2);
    assert_eq!(fields(wide.unwrap()), ["-12.50"]);
    assert_eq!(
        fields(BinaryArray::from(vec![&b"\x00\xff"[..], b""])),
        ["\\x00ff", "\\x"]
    );
    let uuid = FixedSizeBinaryArray::try_from_iter([(0..16).collect::<Vec<u8>>()].into_iter());
    assert_eq!(fields(uuid.unwrap()), ["00010203-0405-0607-0809-0a0b0c0d0e0f"]);
    let fixed = FixedSizeBinaryArray::try_from_iter([[1_u8, 2]].into_iter());
    assert_eq!(fields(fixed.unwrap()), ["\\x0102"]);
    assert_eq!(fields(Date32Array::from(vec![19_782])), ["2024-02-29"]);
    assert_eq!(fields(Date64Array::from(vec![86_400_000])), ["1970-01-02"]);
    assert_eq!(fields(Time32SecondArray::from(vec![86_399])), ["23:59:59"]);
    assert_eq!(
        fields(Time64MicrosecondArray::from(vec![1, 86_400_000_000])),
        ["00:00:00.000001", "24:00:00.000000"]
    );
    assert_eq!(
        fields(TimestampMicrosecondArray::from(vec![1_704_164_645_123_000, -1])),
        ["2024-01-02 03:04:05.123000", "1969-12-31 23:59:59.999999"]
    );
    assert_eq!(
        fields(TimestampMicrosecondArray::from(vec![0]).with_timezone("Europe/Amsterdam")),
        ["1970-01-01 00:00:00.000000+00"]
    );
    assert_eq!(
        fields(TimestampSecondArray::from(vec![0])),
        ["1970-01-01 00:00:00"]
    );
    assert_eq!(
        fields(TimestampNanosecondArray::from(vec![1])),
        ["1970-01-01 00:00:00.000000001"]
    );
    assert_eq!(fields(LargeStringArray::from(vec!["a,b"])), ["\"a,b\""]);
    assert_eq!(
        fields(StringViewArray::from(vec!["a long text of a view", ""])),
        ["a long text of a view", "\"\""]
    );
}

#[test]
fn text_is_quoted_only_where_needed() {
    for (value, wanted) in [
        (None, ""),
        (Some(""), "\"\""),
        (Some("plain"), "plain"),
        (Some(" spaces "), " spaces "),
        (Some("a,b"), "\"a,b\""),
        (Some("a;b\tc|d'e"), "a;b\tc|d'e"),
        (Some("say \"hi\""), "\"say \"\"hi\"\"\""),
        (Some("\""), "\"\"\"\""),
        (Some("\\."), "\"\\.\""),
        (Some("\\N"), "\\N"),
        (Some("cr\rx"), "\"cr\rx\""),
        (Some("NULL"), "NULL"),
        (Some("Reykjavík"), "Reykjavík"),
    ] {
        assert_eq!(fields(StringArray::from(vec![value])), [wanted]);
    }
    let array: ArrayRef = Arc::new(StringArray::from(vec![Some("a\nb"), None]));
    let options = CsvOptions {
        delimiter: Some(b';'),
        header: true,
    };
    let text = encode(vec![("x;y", Arc::clone(&array)), ("z", array)], &options).unwrap();
    assert_eq!(text, "\"x;y\";z\n\"a\nb\";\"a\nb\"\n;\n");
}

#[test]
fn what_has_no_exact_text_is_refused_by_name() {
    assert_eq!(
        fields(Date32Array::from(vec![
            0,
            2_932_897,
            -719_163,
            i32::MAX,
            i32::MIN
        ])),
        [
            "1970-01-01",
            "10000-01-01",
            "0001-12-31 BC",
            "infinity",
            "-infinity"
        ]
    );
    assert_eq!(
        refusal(Date64Array::from(vec![0, 2_932_897 * 86_400_000])),
        "column v: row 2: a date 2932897 days from 1970-01-01 lies outside the years 1 to 9999"
    );
    assert_eq!(
        refusal(Date64Array::from(vec![1])),
        "column v: row 1: 1 ms is no whole day, as a date must be"
    );
    assert_eq!(
        refusal(Time32SecondArray::from(vec![-1])),
        "column v: row 1: -1 is outside a day"
    );
    let list = ListArray::from_iter_primitive::<Int32Type, _, _>([Some([Some(1)])]);
    assert!(refusal(list).starts_with("column v: List("));
    for delimiter in [b'"', b'\n', b'-', b'0', b'.', b' ', 0xc3] {
        let options = CsvOptions {
            delimiter: Some(delimiter),
            header: true,
        };
        let error = encode(vec![("v", Arc::new(NullArray::new(1)))], &options).unwrap_err();
        assert!(error.to_string().ends_with("cannot be a delimiter"), "{error}");
    }
    let none = Arc::new(Schema::empty());
    assert!(csv::Encoder::new(&none, &CsvOptions::default()).is_err());
}

#[test]
fn an_error_names_the_row_of_the_file_and_keeps_whole_records() {
    let schema = Schema::new(vec![arrow::datatypes::Field::new(
        "d",
        arrow::datatypes::DataType::Date64,
        true,
    )]);
    let mut encoder = csv::Encoder::new(&Arc::new(schema.clone()), &CsvOptions::default()).unwrap();
    let mut out = Vec::new();
    let batch = |millis: Vec<i64>| {
        RecordBatch::try_new(
            Arc::new(schema.clone()),
            vec![Arc::new(Date64Array::from(millis))],
        )
    };
    encoder.encode(&batch(vec![0; 300]).unwrap(), &mut out).unwrap();
    let mut bad = vec![0; 300];
    bad[200] = 1;
    let error = encoder.encode(&batch(bad).unwrap(), &mut out).unwrap_err();
    assert!(error.to_string().starts_with("column d: row 501: "), "{error}");
    assert_eq!(out.len() % "1970-01-01\n".len(), 0);
}

proptest! {
    /// Another reader gets every text back, whatever is in it.
    #[test]
    fn text_comes_back(rows in prop::collection::vec(("[a,\"\r\n\\\\. é]{0,12}", "\\PC{0,8}"), 1..20)) {
        let (left, right): (Vec<_>, Vec<_>) = rows.iter().cloned().unzip();
        let columns: Vec<(&str, ArrayRef)> = vec![
            ("a", Arc::new(StringArray::from(left))),
            ("b", Arc::new(StringArray::from(right))),
        ];
        let options = CsvOptions { header: false, ..CsvOptions::default() };
        let text = encode(columns, &options).unwrap();
        prop_assert_eq!(read_csv(text.as_bytes()), rows);
    }

    #[test]
    fn floats_come_back(value in any::<f64>(), single in any::<f32>()) {
        prop_assume!(!value.is_nan() && !single.is_nan());
        let text = fields(Float64Array::from(vec![value]));
        prop_assert_eq!(text[0].parse::<f64>().unwrap().to_bits(), value.to_bits());
        let text = fields(Float32Array::from(vec![single]));
        prop_assert_eq!(text[0].parse::<f32>().unwrap().to_bits(), single.to_bits());
    }
}

/// Reads records of two fields.
fn read_csv(mut input: &[u8]) -> Vec<(String, String)> {
    let mut reader = csv_core::Reader::new();
    let mut rows = Vec::new();
    let (mut output, mut ends) = (vec![0; 4096], vec![0; 8]);
    loop {
        let (result, read, _, fields) = reader.read_record(input, &mut output, &mut ends);
        input = &input[read..];
        match result {
            csv_core::ReadRecordResult::Record => {
                assert_eq!(fields, 2);
                let text = |range: std::ops::Range<usize>| String::from_utf8(output[range].to_vec()).unwrap();
                rows.push((text(0..ends[0]), text(ends[0]..ends[1])));
            }
            csv_core::ReadRecordResult::InputEmpty => {}
            csv_core::ReadRecordResult::End => return rows,
            other => panic!("{other:?}"),
        }
    }
}

fn write_file(output: &Output, batches: &[RecordBatch]) -> Result<u64> {
    let mut sink = create(output, &batches[0].schema())?;
    for batch in batches {
        sink.write(batch)?;
    }
    Ok(sink.finish()?.bytes)
}

#[test]
fn parquet_and_csv_hold_the_same_rows() {
    let directory = tempfile::tempdir().unwrap();
    for workload in Workload::all() {
        let batches: Vec<_> = (0..5).map(|i| workload.batch(1, i * 700, 700)).collect();
        let whole = concat_batches(&workload.schema(), &batches).unwrap();
        for compression in [
            ParquetCompression::Suited,
            ParquetCompression::None,
            ParquetCompression::Snappy,
            ParquetCompression::Zstd,
        ] {
            let path = directory
                .path()
                .join(format!("{workload}.{compression:?}.parquet"));
            let mut output = Output::new(&path);
            output.parquet = ParquetOptions {
                compression,
                row_group_bytes_max: 100_000,
            };
            let bytes = write_file(&output, &batches).unwrap();
            assert_eq!(bytes, fs::metadata(&path).unwrap().len());
            let builder = ParquetRecordBatchReaderBuilder::try_new(fs::File::open(&path).unwrap()).unwrap();
            assert!(builder.metadata().num_row_groups() > 1, "{workload}");
            let read: Vec<_> = builder
                .build()
                .unwrap()
                .collect::<std::result::Result<_, _>>()
                .unwrap();
            let read_schema = read[0].schema();
            assert_eq!(
                read_schema.fields(),
                workload.schema().fields(),
                "types and their names come back"
            );
            assert_eq!(concat_batches(&workload.schema(), &read).unwrap(), whole);
        }
        let path = directory.path().join(format!("{workload}.csv"));
        write_file(&Output::new(&path), &batches).unwrap();
        let mut encoder = csv::Encoder::new(&workload.schema(), &CsvOptions::default()).unwrap();
        let mut text = Vec::new();
        encoder.header(&mut text);
        encoder.encode(&whole, &mut text).unwrap();
        assert_eq!(fs::read(&path).unwrap(), text, "{workload}");
    }
}

/// The compression and the dictionary of each column in the first row group.
fn spent(path: &Path) -> Vec<(String, bool)> {
    let builder = ParquetRecordBatchReaderBuilder::try_new(fs::File::open(path).unwrap()).unwrap();
    let columns = builder.metadata().row_group(0).columns().to_vec();
    let of = |c: &ColumnChunkMetaData| (c.compression().to_string(), c.dictionary_page_offset().is_some());
    columns.iter().map(of).collect()
}

#[test]
fn parquet_spends_on_a_column_what_its_first_rows_are_worth() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("rows.parquet");
    let workload = Workload::all()
        .into_iter()
        .find(|w| w.to_string() == "sbtest")
        .unwrap();
    let write = |rows: u64, compression| {
        let mut output = Output::new(&path);
        output.overwrite = true;
        output.parquet.compression = compression;
        let mut batch = workload.batch(1, 0, rows as usize);
        // A column of few values beside those of many.
        let few = (0..rows).map(|row| ["red", "green", "blue"][row as usize % 3]);
        let mut fields = batch.schema().fields().to_vec();
        fields.push(Arc::new(Field::new("colour", DataType::Utf8, true)));
        let mut columns = batch.columns().to_vec();
        columns.push(Arc::new(StringArray::from_iter_values(few)));
        batch = RecordBatch::try_new(Arc::new(Schema::new(fields)), columns).unwrap();
        write_file(&output, &[batch]).unwrap();
        spent(&path)
    };
    let line = |name: &str, dictionary| (name.to_owned(), dictionary);
    let mut found = write(4_000, ParquetCompression::Suited);
    // How often numbers of k come twice is the workload's affair.
    found.remove(1);
    // id, c, pad, colour: unique, and twice random digits.
    assert_eq!(
        found,
        [
            line("SNAPPY", false),
            line("UNCOMPRESSED", false),
            line("UNCOMPRESSED", false),
            line("SNAPPY", true)
        ]
    );
    assert!(
        write(4_000, ParquetCompression::Snappy)
            .iter()
            .all(|(name, _)| name == "SNAPPY")
    );
    // Too few rows to tell.
    assert!(
        write(500, ParquetCompression::Suited)
            .iter()
            .all(|(name, _)| name == "SNAPPY")
    );
}

fn names(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).unwrap();
    entries
        .map(|e| e.unwrap().file_name().to_string_lossy().into_owned())
        .collect()
}

#[test]
fn a_file_appears_whole_or_not_at_all() {
    let directory = tempfile::tempdir().unwrap();
    let batch = Workload::Sbtest.batch(1, 0, 10_000);
    for ending in [
        "csv", "tsv", "csv.gz", "csv.zst", "jsonl", "jsonl.gz", "parquet", "arrow",
    ] {
        let name = format!("rows.{ending}");
        let path = directory.path().join(&name);
        let mut sink = create(&Output::new(&path), &batch.schema()).unwrap();
        sink.write(&batch).unwrap();
        assert!(!path.exists(), "{name}");
        drop(sink);
        assert!(names(directory.path()).is_empty(), "{name}");
        let bytes = write_file(&Output::new(&path), std::slice::from_ref(&batch)).unwrap();
        assert_eq!(names(directory.path()), [name.as_str()]);
        assert_eq!(bytes, fs::metadata(&path).unwrap().len());
        fs::remove_file(&path).unwrap();
    }
}

#[test]
fn many_files_are_finished_together_and_in_their_order() {
    let directory = tempfile::tempdir().unwrap();
    let batch =
        RecordBatch::try_from_iter([("n", Arc::new(Int64Array::from(vec![7; 200])) as ArrayRef)]).unwrap();
    let paths: Vec<PathBuf> = (0..200)
        .map(|number| directory.path().join(format!("{number}.csv")))
        .collect();
    let sinks = paths.iter().enumerate().map(|(rows, path)| {
        let mut sink = create(&Output::new(path), &batch.schema()).unwrap();
        sink.write(&batch.slice(0, rows)).unwrap();
        (sink, path.clone())
    });
    let written = finish_all(sinks).unwrap();
    let bytes: Vec<u64> = written.iter().map(|written| written.bytes).collect();
    assert_eq!(bytes, (0..200).map(|rows| 2 + 2 * rows).collect::<Vec<u64>>());
    assert_eq!(names(directory.path()).len(), 200);
}

#[test]
fn compressed_text_is_the_same_text() {
    let directory = tempfile::tempdir().unwrap();
    let batch = Workload::Readings.batch(1, 0, 1_000);
    let bytes_of = |ending: &str| {
        let path = directory.path().join(format!("rows.{ending}"));
        write_file(&Output::new(&path), std::slice::from_ref(&batch)).unwrap();
        fs::read(&path).unwrap()
    };
    let plain = bytes_of("csv");
    let mut unzipped = Vec::new();
    flate2::read::GzDecoder::new(bytes_of("csv.gz").as_slice())
        .read_to_end(&mut unzipped)
        .unwrap();
    assert_eq!(unzipped, plain);
    assert_eq!(zstd::decode_all(bytes_of("csv.zst").as_slice()).unwrap(), plain);
    assert!(bytes_of("tsv").starts_with(b"device\tts\tsite\t"));
}

#[test]
fn existing_files_are_replaced_only_on_request() {
    let directory = tempfile::tempdir().unwrap();
    let batch = Workload::Sbtest.batch(1, 0, 10);
    let path = directory.path().join("rows.csv");
    fs::write(&path, "mine").unwrap();
    let mut output = Output::new(&path);
    let refused = write_file(&output, std::slice::from_ref(&batch)).unwrap_err();
    assert_eq!(refused.to_string(), format!("'{}' exists", path.display()));
    assert_eq!(
        refused.hint_text(),
        Some("replace it with --overwrite, or name another file")
    );
    assert_eq!(fs::read(&path).unwrap(), b"mine");
    output.overwrite = true;
    write_file(&output, std::slice::from_ref(&batch)).unwrap();
    assert_ne!(fs::read(&path).unwrap(), b"mine");

    // A file that came into being meanwhile is not replaced either.
    let late = directory.path().join("late.csv");
    let sink = create(&Output::new(&late), &batch.schema()).unwrap();
    fs::write(&late, "mine").unwrap();
    assert!(sink.finish().is_err());
    assert_eq!(fs::read(&late).unwrap(), b"mine");
    assert_eq!(names(directory.path()).len(), 2);
}

#[test]
fn mistakes_in_the_output_are_met() {
    let directory = tempfile::tempdir().unwrap();
    let shown = |name: &str| directory.path().join(name).display().to_string();
    let schema = Workload::Sbtest.schema();
    let message = |name: &str| {
        let error = create(&Output::new(directory.path().join(name)), &schema)
            .err()
            .unwrap();
        (
            error.to_string(),
            error.hint_text().unwrap_or_default().to_owned(),
        )
    };
    assert_eq!(
        message("rows.xlsx"),
        (
            format!("the ending of '{}' says no format", shown("rows.xlsx")),
            "end it in .csv, .csv.gz, .csv.zst, .tsv, .jsonl, .parquet or .arrow, or give --format"
                .to_owned()
        )
    );
    assert_eq!(
        message("rows.gz").0,
        format!("the ending of '{}' says no format", shown("rows.gz"))
    );
    assert_eq!(
        message("rows.parquet.zst").0,
        format!("'{}': Parquet compresses by itself", shown("rows.parquet.zst"))
    );
    assert_eq!(
        message("no/rows.csv").1,
        "its directory does not exist; create it first"
    );
    fs::create_dir(directory.path().join("d.csv")).unwrap();
    assert_eq!(message("d.csv").0, format!("'{}' is a directory", shown("d.csv")));
    assert_eq!(
        format_named("parqet").unwrap_err().hint_text(),
        Some("did you mean parquet?")
    );
    assert_eq!(
        format_named("xls").unwrap_err().to_string(),
        "unknown format 'xls'"
    );
    let mut output = Output::new(directory.path().join("rows.data"));
    output.format = Some(format_named("CSV").unwrap());
    assert!(create(&output, &schema).is_ok());
}

#[cfg(unix)]
#[test]
fn special_files_and_links_are_written_in_place() {
    let batch = Workload::Sbtest.batch(1, 0, 10);
    assert!(
        write_file(
            &Output {
                format: Some(Format::Csv),
                ..Output::new("/dev/null")
            },
            std::slice::from_ref(&batch)
        )
        .unwrap()
            > 0
    );

    let directory = tempfile::tempdir().unwrap();
    let (file, link) = (
        directory.path().join("file.csv"),
        directory.path().join("link.csv"),
    );
    fs::write(&file, "").unwrap();
    std::os::unix::fs::symlink(&file, &link).unwrap();
    let output = Output {
        overwrite: true,
        ..Output::new(&link)
    };
    write_file(&output, &[batch]).unwrap();
    assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
    assert!(fs::metadata(&file).unwrap().len() > 0);
}
