use std::{fs, io::Write, path::PathBuf};

use arrow::array::{Array, AsArray};
use tonnage_core::{
    reject::{Reject, RejectData},
    slot::BlockMark,
    source::{Block, ReadRequest, Source},
    types::ColumnType,
};

use super::*;
use crate::sources::files;

/// Files in a directory of their own.
pub(super) struct Files {
    directory: tempfile::TempDir,
    names: Vec<PathBuf>,
}

impl Files {
    pub fn of(contents: &[&[u8]]) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let names: Vec<_> = (0..contents.len())
            .map(|index| directory.path().join(format!("f{index}.csv")))
            .collect();
        for (name, bytes) in names.iter().zip(contents) {
            fs::write(name, bytes).unwrap();
        }
        Self { directory, names }
    }

    pub fn open(&self, options: &TextOptions) -> Result<CsvSource> {
        let inputs: Vec<_> = self
            .names
            .iter()
            .map(|n| n.to_string_lossy().into_owned())
            .collect();
        let (mut found, format) = files::find(&inputs, Some(Format::Csv))?;
        for file in &mut found {
            let path = file.path.clone().unwrap();
            file.shown = path
                .strip_prefix(self.directory.path())
                .unwrap()
                .to_string_lossy()
                .into();
        }
        CsvSource::open(found, format, options)
    }
}

pub(super) type Row = Vec<Option<String>>;

/// All columns as text.
pub(super) fn all_text(source: &CsvSource, block_rows: usize, block_bytes: usize) -> ReadRequest {
    ReadRequest {
        columns: (0..source.schema().columns.len())
            .map(|index| (index, ColumnType::TEXT))
            .collect(),
        block_rows,
        block_bytes,
    }
}

pub(super) fn rows_of(block: &Block) -> Vec<Row> {
    let columns: Vec<_> = block
        .rows
        .columns()
        .iter()
        .map(|c| c.as_string::<i32>())
        .collect();
    (0..block.rows.num_rows())
        .map(|row| {
            columns
                .iter()
                .map(|c| c.is_valid(row).then(|| c.value(row).to_owned()))
                .collect()
        })
        .collect()
}

pub(super) fn blocks_of(source: &mut CsvSource) -> Vec<Block> {
    let mut blocks = Vec::new();
    while let Some(block) = source.next().unwrap() {
        let handled = (block.rows.num_rows() + block.rejects.len()) as u64;
        assert!(handled > 0, "a block is never empty");
        assert_eq!(block.end.rows - block.start.rows, handled);
        blocks.push(block);
    }
    for pair in blocks.windows(2) {
        assert_eq!((pair[0].end, pair[0].index + 1), (pair[1].start, pair[1].index));
    }
    blocks
}

/// The rows of one file as text, and its rejects.
pub(super) fn read(text: &[u8], options: &TextOptions) -> (Vec<Row>, Vec<Reject>) {
    let mut source = Files::of(&[text]).open(options).unwrap();
    let request = all_text(&source, 1000, 1 << 20);
    source.request(&request).unwrap();
    let blocks = blocks_of(&mut source);
    let rows = blocks.iter().flat_map(rows_of).collect();
    (rows, blocks.into_iter().flat_map(|b| b.rejects).collect())
}

/// Rows as `a|b`, with `~` for null; rejects as `row@offset message`.
fn shown(text: &str, options: &TextOptions) -> (Vec<String>, Vec<String>) {
    let (rows, rejects) = read(text.as_bytes(), options);
    let field = |f: &Option<String>| f.clone().unwrap_or_else(|| "~".to_owned());
    let rows = rows
        .iter()
        .map(|row| row.iter().map(field).collect::<Vec<_>>().join("|"))
        .collect();
    let rejects = rejects
        .iter()
        .map(|r| format!("{}@{} {}", r.row, r.offset.unwrap(), r.problem.message))
        .collect();
    (rows, rejects)
}

/// The default, without what detection finds.
fn strict() -> TextOptions {
    TextOptions {
        detect: false,
        ..TextOptions::default()
    }
}

#[track_caller]
fn check(options: &TextOptions, cases: &[(&str, &[&str], &[&str])]) {
    let options = &TextOptions {
        detect: false,
        ..options.clone()
    };
    for (text, rows, rejects) in cases {
        let (found, problems) = shown(text, options);
        assert_eq!(found, *rows, "rows of {text:?}");
        assert_eq!(problems, *rejects, "rejects of {text:?}");
    }
}

#[test]
fn records_are_cut_as_written() {
    check(
        &TextOptions::default(),
        &[
            ("a,b\n1,2\n", &["1|2"], &[]),
            ("a,b\r\n1,2\r\n3,4", &["1|2", "3|4"], &[]),
            ("a,b\n1,\n,2\n", &["1|~", "~|2"], &[]),
            ("a,b\n\"\",\"x\"\n", &["|x"], &[]),
            ("a,b\n\"x\"\"y\",\"\"\"\"\n", &["x\"y|\""], &[]),
            ("a,b\n\"x\ny\",\"1,2\"\r\nz,w\r\n", &["x\ny|1,2", "z|w"], &[]),
            ("a,b\n\"x\",", &["x|~"], &[]),
            ("a,b\n1,\"x\"", &["1|x"], &[]),
            ("a,b\n1,\"x\ry\"\n", &["1|x\ry"], &[]),
            // The end of a file that was cut within its last line end.
            ("a,b\r\n1,x\r", &["1|x"], &[]),
            ("a,b\r\n1,\"x\"\r", &["1|x"], &[]),
            ("a,b\r\n\"1\",x\r", &["1|x"], &[]),
            ("a,b\r\n1,x\r\n\r", &["1|x"], &[]),
            ("\n\r\na,b\n\n1,2\n\r\n\n3,4\n\n", &["1|2", "3|4"], &[]),
            ("\u{feff}a,b\n1,2\n", &["1|2"], &[]),
            ("\u{feff}\"a\",b\n1,2\n", &["1|2"], &[]),
            ("a,b\n#1,2\n", &["#1|2"], &[]),
            ("a,b\n", &[], &[]),
            ("a,b", &[], &[]),
            ("a,b\n NA , x\n", &[" NA | x"], &[]),
            // One column: a blank line is a null, the end of the file is nothing.
            ("a\n1\n\n2\n", &["1", "~", "2"], &[]),
            ("a\n\"\"\n\n", &["", "~"], &[]),
        ],
    );
}

#[test]
fn bad_records_cost_their_own_line() {
    check(
        &TextOptions::default(),
        &[
            (
                "a,b,c\n1,2\n3,4,5\n6\n7,8,9,10\n",
                &["3|4|5"],
                &[
                    "1@6 2 fields where 3 were expected",
                    "3@16 1 field where 3 were expected",
                    "4@18 4 fields where 3 were expected",
                ],
            ),
            (
                "a,b\n1,x\"y\n2,z\n",
                &["2|z"],
                &["1@4 a quote inside an unquoted field"],
            ),
            (
                "a,b\n1,\"x\"y\n2,z\n",
                &["2|z"],
                &["1@4 text behind a closing quote"],
            ),
            (
                "a,b\n1,\"x\" \n2,\"z\"\n",
                &["2|z"],
                &["1@4 text behind a closing quote"],
            ),
            // The quote swallows the next lines until another quote shows that something is wrong.
            (
                "a,b\n1,\"x\n2,y\n3,\"z\"\n4,w\n",
                &["2|y", "3|z", "4|w"],
                &["1@4 text behind a closing quote"],
            ),
            (
                "a,b\r\n1,\"x\r\n2,y\r\n3,z\r\n",
                &["2|y", "3|z"],
                &["1@5 a quote that is not closed before the file ends"],
            ),
            (
                "a,b\n1,\"",
                &[],
                &["1@4 a quote that is not closed before the file ends"],
            ),
            (
                "a,b\n1,x\ry\n\"2\",y\rz\n3,z\n",
                &["3|z"],
                &[
                    "1@4 a carriage return that ends no line, outside of quotes",
                    "2@10 a carriage return that ends no line, outside of quotes",
                ],
            ),
            (
                "a,b\n\"1\n1\",2,3\n4,5\n",
                &["4|5"],
                &["1@4 3 fields where 2 were expected"],
            ),
        ],
    );
}

#[test]
fn other_dialects() {
    let default = TextOptions::default;
    let backslash = TextOptions {
        escape: Some(b'\\'),
        ..default()
    };
    check(
        &backslash,
        &[
            ("a,b\n\"x\\\"y\\\\\",1\n", &["x\"y\\|1"], &[]),
            ("a,b\n\"c:\\dir\",\\\n", &["c:\\dir|\\"], &[]),
            (
                "a,b\n\"x\"\"y\",1\n2,3\n",
                &["2|3"],
                &["1@4 text behind a closing quote"],
            ),
            (
                "a,b\n1,\"x\\\"",
                &[],
                &["1@4 a quote that is not closed before the file ends"],
            ),
        ],
    );
    let unquoted = TextOptions {
        quote: None,
        delimiter: Some(b'\t'),
        ..default()
    };
    check(&unquoted, &[("a\tb\n\"1\"\t\"\n", &["\"1\"|\""], &[])]);
    let commented = TextOptions {
        comment: Some(b'#'),
        nulls: vec!["NA".to_owned(), "\\N".to_owned()],
        ..default()
    };
    check(
        &commented,
        &[(
            "# hello\na,b\n1,#\n#x\n\"#y\",NA\n\\N,\n\"NA\",1\n# bye",
            &["1|#", "#y|~", "~|", "NA|1"],
            &[],
        )],
    );
    let bare = TextOptions {
        header: false,
        ..default()
    };
    check(
        &bare,
        &[
            ("1,2\n3,4\n", &["1|2", "3|4"], &[]),
            ("\n\n1,2\n", &["1|2"], &[]),
            ("\n\nx\n\n", &["~", "~", "x", "~"], &[]),
            ("\n\r\n", &["~", "~"], &[]),
        ],
    );
}

#[test]
fn values_of_the_wrong_kind_are_rejects_with_their_fields() {
    let text = b"id,day,note\n1,2024-02-29,x\nNA,2024-01-01,\"\"\n3,2023-02-29,\n\
        4,2024-01-02,a\0b\n5,2024-01-03,\xff\n6,,ok\n";
    let mut source = Files::of(&[text]).open(&TextOptions::default()).unwrap();
    source
        .request(&ReadRequest {
            columns: vec![
                (2, ColumnType::TEXT),
                (0, ColumnType::Int32),
                (1, ColumnType::Date),
            ],
            block_rows: 100,
            block_bytes: 1 << 20,
        })
        .unwrap();
    let block = source.next().unwrap().unwrap();
    assert!(source.next().unwrap().is_none());
    let schema = block.rows.schema();
    let names: Vec<_> = schema.fields().iter().map(|f| f.name().as_str()).collect();
    assert_eq!(names, ["note", "id", "day"]);
    assert_eq!(block.rows.num_rows(), 2);
    let origins: Vec<_> = (0..2)
        .map(|i| (block.origin.row(i), block.origin.offset(i)))
        .collect();
    assert_eq!(origins, [(1, Some(12)), (6, Some(90))]);

    let rejects: Vec<_> = block
        .rejects
        .iter()
        .map(|r| {
            (
                r.row,
                r.offset.unwrap(),
                r.problem.column.as_deref(),
                &*r.problem.code,
            )
        })
        .collect();
    assert_eq!(
        rejects,
        [
            (2, 27, Some("id"), "22P02"),
            (3, 44, Some("day"), "22008"),
            (4, 58, Some("note"), "22021"),
            (5, 75, Some("note"), "22021"),
        ]
    );
    assert!(
        block.rejects[0]
            .problem
            .hint
            .as_deref()
            .unwrap()
            .contains("--null 'NA'")
    );
    let fields = |note: Option<&str>| {
        RejectData::Fields(vec![
            ("id".into(), Some("NA".to_owned())),
            ("day".into(), Some("2024-01-01".to_owned())),
            ("note".into(), note.map(str::to_owned)),
        ])
    };
    assert_eq!(block.rejects[0].data, fields(Some("")));
    assert_eq!(
        block.rejects[3].data,
        RejectData::Raw(b"5,2024-01-03,\xff".to_vec())
    );
}

#[test]
fn a_file_without_the_names_it_needs_is_refused() {
    let cases: &[(&[u8], &str)] = &[
        (b"", "f0.csv is empty: there is no header"),
        (b"\n\n", "f0.csv is empty: there is no header"),
        (
            b"a,b\r1,2\r",
            "f0.csv: the header cannot be read: a carriage return that ends no line, outside of quotes",
        ),
        (b"a,\xff\n", "f0.csv: column 2 of the header is not UTF-8"),
        (
            b"a,\"b\n",
            "f0.csv: the header cannot be read: a quote that is not closed before the file ends",
        ),
        (b"PAR1abcPAR1", "f0.csv is a Parquet file, not text"),
        (b"\xff\xfea\0,\0", "f0.csv is UTF-16 text, not UTF-8"),
    ];
    for (text, message) in cases {
        let error = Files::of(&[text]).open(&strict()).err().unwrap();
        assert_eq!(error.to_string(), *message);
    }
    let bare = TextOptions {
        header: false,
        ..TextOptions::default()
    };
    let nothing = Files::of(&[b"", b"\n"]).open(&bare).unwrap();
    assert_eq!(
        nothing.schema().columns.len(),
        1,
        "a blank line is a row of one column"
    );
    assert!(
        Files::of(&[b"", b""])
            .open(&bare)
            .unwrap()
            .schema()
            .columns
            .is_empty()
    );
}

#[test]
fn names_that_are_missing_or_repeated_are_made_up() {
    let cases: &[(&str, &[&str], usize)] = &[
        ("a,b", &["a", "b"], 0),
        (",a,b", &["c1", "a", "b"], 1),
        ("a,a,a_2,a", &["a", "a_3", "a_2", "a_4"], 2),
        ("c2,", &["c2", "c2_2"], 1),
        (",,,,,,,", &["c1", "c2", "c3", "c4", "c5", "c6", "c7", "c8"], 6),
    ];
    for (header, names, notes) in cases {
        let source = Files::of(&[header.as_bytes()])
            .open(&TextOptions::default())
            .unwrap();
        let schema = source.schema();
        let found: Vec<_> = schema.columns.iter().map(|column| column.name.as_str()).collect();
        assert_eq!(found, *names, "{header}");
        assert_eq!(schema.notes.len(), *notes, "{:?}", schema.notes);
    }
}

#[test]
fn files_are_matched_by_name_and_must_have_the_same_columns() {
    let options = TextOptions::default();
    let files = Files::of(&[b"a,b\n1,2\n", b"b,a\n", b"b,a\n4,3\n5\n"]);
    let mut source = files.open(&options).unwrap();
    let request = all_text(&source, 10, 1000);
    source.request(&request).unwrap();
    let blocks = blocks_of(&mut source);
    let rows: Vec<_> = blocks.iter().flat_map(rows_of).collect();
    let text = |t: &str| Some(t.to_owned());
    assert_eq!(rows, [[text("1"), text("2")], [text("3"), text("4")]]);
    assert_eq!(blocks[0].end.file, 1);
    assert_eq!(
        (&*blocks[1].origin.file, blocks[1].origin.first_row),
        ("f2.csv", 1)
    );
    assert_eq!(
        (blocks[1].rejects[0].row, blocks[1].rejects[0].offset),
        (2, Some(8))
    );
    assert_eq!(
        blocks.iter().map(|b| b.bytes).sum::<u64>(),
        source.bytes_total().unwrap()
    );

    let error = Files::of(&[b"a,b\n", b"a,c\n"]).open(&options).err().unwrap();
    assert_eq!(
        error.to_string(),
        "f1.csv and f0.csv have different columns: f1.csv has no 'b', f0.csv has no 'c'"
    );
}

#[test]
fn types_are_inferred_from_the_first_rows() {
    let text = b"i,n,d,t,e\n1,1.5,2024-01-01,x,\n2,2,2024-01-02,\"1\",\n";
    let source = Files::of(&[b"i,n,d,t,e\n", text])
        .open(&TextOptions::default())
        .unwrap();
    let types: Vec<_> = source
        .schema()
        .columns
        .iter()
        .map(|c| (c.suggested.unwrap().to_string(), c.nullable))
        .collect();
    let expected = [
        ("int64", false),
        ("numeric", false),
        ("date", false),
        ("text", false),
        ("text", true),
    ];
    assert_eq!(types, expected.map(|(name, null)| (name.to_owned(), null)));
}

#[test]
fn the_wrong_delimiter_is_suspected() {
    let suspected = |text: &[u8]| {
        let source = Files::of(&[text]).open(&strict()).unwrap();
        suspicious_delimiter(source.schema())
    };
    assert_eq!(suspected(b"a;b;c\n1;2;3\n"), Some(';'));
    assert_eq!(suspected(b"a\tb\n"), Some('\t'));
    assert_eq!(suspected(b"a\n"), None);
    assert_eq!(suspected(b"a,b;c\n"), None);
}

#[test]
fn compressed_files_read_alike_and_count_their_own_bytes() {
    let mut text = b"a,b\n".to_vec();
    for number in 0u64..50_000 {
        writeln!(text, "{number},{}", number.wrapping_mul(0x9e37_79b9_7f4a_7c15)).unwrap();
    }
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(&text).unwrap();
    let packed = [
        gzip.finish().unwrap(),
        zstd::encode_all(&*text, 1).unwrap(),
        text.clone(),
    ];
    for bytes in packed {
        let files = Files::of(&[&bytes]);
        let mut source = files.open(&TextOptions::default()).unwrap();
        let request = all_text(&source, 8192, 1 << 30 >> 3);
        source.request(&request).unwrap();
        let blocks = blocks_of(&mut source);
        assert_eq!(blocks.iter().map(|b| b.rows.num_rows()).sum::<usize>(), 50_000);
        assert_eq!(blocks.iter().map(|b| b.bytes).sum::<u64>(), bytes.len() as u64);
        // Resumed in the middle it goes on as before.
        let mut again = files.open(&TextOptions::default()).unwrap();
        again.request(&request).unwrap();
        again.seek(blocks[3].index, &blocks[3].start).unwrap();
        let rest = blocks_of(&mut again);
        assert_eq!(rest.len(), blocks.len() - 3);
        assert_eq!(rows_of(&rest[0]), rows_of(&blocks[3]));
        assert_eq!(rest[0].origin.first_row, blocks[3].origin.first_row);
    }
}

#[test]
fn a_file_that_changed_is_refused() {
    let files = Files::of(&[b"a\n1\n2\n3\n4\n"]);
    let mut source = files.open(&TextOptions::default()).unwrap();
    let request = all_text(&source, 2, 1000);
    source.request(&request).unwrap();
    let mark = source.next().unwrap().unwrap().end;
    for changed in [&b"a\n1\n9\n3\n4\n"[..], b"a\n1\n"] {
        fs::write(&files.names[0], changed).unwrap();
        let mut again = files.open(&TextOptions::default()).unwrap();
        again.request(&request).unwrap();
        let error = again.seek(1, &mark).unwrap_err();
        assert_eq!(error.to_string(), "f0.csv has changed since the run began");
        assert_eq!(error.kind(), tonnage_core::error::ErrorKind::Input);
    }
}

#[test]
fn other_character_sets_are_decoded() {
    let options = |label: &str| TextOptions {
        encoding: label.to_owned(),
        ..TextOptions::default()
    };
    let (rows, rejects) = read(b"name,x\ncaf\xe9,1\n", &options("latin1"));
    assert_eq!(rows, [[Some("café".to_owned()), Some("1".to_owned())]]);
    assert!(rejects.is_empty());
    let utf16: Vec<u8> = "\u{feff}a,b\nñ,2\n"
        .encode_utf16()
        .flat_map(u16::to_le_bytes)
        .collect();
    assert_eq!(read(&utf16, &options("utf-16le")).0.len(), 1);
    let (rows, rejects) = read(b"a,b\n1,\x82\xa0\n2,\x81\x20\n3,x\n", &options("shift_jis"));
    assert_eq!((rows.len(), rejects.len()), (2, 1));
    assert_eq!(
        (rejects[0].row, rejects[0].offset, &*rejects[0].problem.code),
        (2, None, "22021")
    );
}

#[test]
fn a_record_without_an_end_is_one_reject() {
    let options = TextOptions {
        record_bytes_max: 100,
        ..TextOptions::default()
    };
    let long = "x".repeat(300);
    let quoted = "y\n".repeat(80);
    let text = format!("a,b\n1,2\n{long},1\n3,4\n\"{quoted}\",5\n6,\"{long}\n7,8\n");
    let (rows, rejects) = shown(&text, &options);
    assert_eq!(rows, ["1|2", "3|4", "7|8"]);
    // Eighty lines of the quoted field, its end, and the two long records.
    assert_eq!(rejects.len(), 1 + 81 + 1);
    let message = "a record of more than 100 bytes; a quote may be unclosed";
    assert_eq!(rejects[0], format!("2@8 {message}"));
    assert_eq!(rejects[1], format!("4@315 {message}"));
    // A record of exactly the bound is good.
    let text = format!("a,b\n{},1\n", "x".repeat(98));
    assert_eq!(shown(&text, &options).0.len(), 1);
}

#[test]
fn wide_and_long_rows_are_read() {
    let columns = 500;
    let header: Vec<_> = (0..columns).map(|c| format!("c{c}")).collect();
    let row = vec!["7"; columns].join(",");
    let long = "z\"\"".repeat(350_000);
    let big = format!("\"{long}\",{}", vec!["8"; columns - 1].join(","));
    let text = format!("{}\n{row}\n{big}\n{row}\n", header.join(","));
    let (rows, rejects) = read(text.as_bytes(), &TextOptions::default());
    assert_eq!((rows.len(), rejects.len()), (3, 0));
    assert_eq!(rows[1][0].as_ref().unwrap().len(), 700_000);
    assert_eq!(rows[1][499].as_deref(), Some("8"));
}

#[test]
fn an_open_quote_at_every_line_stays_linear() {
    // Every line opens a quote that only the next line's closes; the last of them nothing closes.
    let mut text = "a,b\n".to_owned();
    for _ in 0..50_000 {
        text += "1,\"x\n";
    }
    for _ in 0..50_000 {
        text += "2,y\n";
    }
    let (rows, rejects) = read(text.as_bytes(), &strict());
    assert_eq!((rows.len(), rejects.len()), (50_000, 50_000));
}

#[test]
fn a_pipe_is_read_once_and_cannot_be_resumed() {
    let files = Files::of(&[b"a\n1\n2\n3\n", b"a\n4\n"]);
    let inputs: Vec<_> = (0..2)
        .map(|index| InputFile {
            shown: format!("pipe{index}").into(),
            path: Some(files.names[index].clone()),
            object: None,
            identity: None,
            state: None,
            sheet: None,
        })
        .collect();
    let mut source = CsvSource::open(inputs, Format::Csv, &TextOptions::default()).unwrap();
    // From here on only what is held open can be read, as with a pipe.
    fs::write(&files.names[0], "").unwrap();
    let request = all_text(&source, 2, 1000);
    source.request(&request).unwrap();
    assert_eq!((source.identity(), source.bytes_total()), (None, None));
    source.seek(0, &BlockMark::default()).unwrap();
    let first = source.next().unwrap().unwrap();
    let error = source.seek(1, &first.end).unwrap_err();
    assert_eq!(error.to_string(), "pipe0 cannot be read a second time");
    assert_eq!(rows_of(&first).len(), 2);
    assert_eq!(blocks_of(&mut source).len(), 2);
}
