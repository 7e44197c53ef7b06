use std::{fs, io::Read};

use arrow::{
    array::Array,
    util::display::{ArrayFormatter, FormatOptions},
};
use proptest::prelude::*;
use tempfile::TempDir;
use tonnage_core::{
    reject::RejectData,
    source::{Block, ReadRequest, Source},
    types::ColumnType,
};

use super::*;
use crate::sources::{Format, compress::ByteStream, files, text::batch_schema};

/// Files of these texts, opened.
fn opened(directory: &TempDir, texts: &[&[u8]]) -> Result<JsonSource> {
    let mut names = Vec::new();
    for (index, text) in texts.iter().enumerate() {
        let path = directory.path().join(format!("{index}.jsonl"));
        fs::write(&path, text).expect("room");
        names.push(path.display().to_string());
    }
    JsonSource::open(
        files::find(&names, Some(Format::Json))?.0,
        &TextOptions::default(),
    )
}

/// Everything as the types suggested, or as those given by name.
fn request(source: &JsonSource, types: &[(&str, ColumnType)], block_rows: usize) -> ReadRequest {
    let columns = source.schema().columns.iter().enumerate().map(|(index, column)| {
        let given = types.iter().find(|(name, _)| *name == column.name);
        (
            index,
            given.map_or(column.suggested.unwrap_or(ColumnType::TEXT), |(_, ty)| *ty),
        )
    });
    ReadRequest {
        columns: columns.collect(),
        block_rows,
        block_bytes: 1 << 20,
    }
}

fn blocks(source: &mut JsonSource) -> Vec<Block> {
    std::iter::from_fn(|| source.next().expect("readable files")).collect()
}

/// The rows, `-` for null, and the rejects as `row@offset message`.
fn read(text: &[u8], types: &[(&str, ColumnType)]) -> (Vec<String>, Vec<String>) {
    let directory = TempDir::new().expect("a directory");
    let mut source = opened(&directory, &[text]).expect("JSON lines");
    let request = request(&source, types, 3);
    source.request(&request).expect("columns there are");
    let (mut rows, mut rejects) = (Vec::new(), Vec::new());
    let options = FormatOptions::default().with_null("-");
    for block in blocks(&mut source) {
        for row in 0..block.rows.num_rows() {
            let values: Vec<String> = block
                .rows
                .columns()
                .iter()
                .map(|column| {
                    let formatter = ArrayFormatter::try_new(column, &options).expect("a plain type");
                    formatter.value(row).to_string()
                })
                .collect();
            rows.push(values.join("|"));
        }
        for reject in block.rejects {
            let offset = reject.offset.expect("text has offsets");
            rejects.push(format!("{}@{offset} {}", reject.row, reject.problem.message));
        }
    }
    (rows, rejects)
}

#[test]
fn columns_and_their_types_come_from_the_first_rows() {
    let directory = TempDir::new().expect("a directory");
    let text = br#"
{"id": 1, "zip": "12345", "price": 1.50, "on": "2024-02-29"}
{"price": 2, "id": 9223372036854775808, "ok": true, "at": "2024-02-29T10:00:00Z", "tags": ["a"], "mixed": {}}
{"id": 3, "none": null, "mixed": 5, "big": 1e5, "text": "true", "u": "123e4567-e89b-12d3-a456-426614174000"}
"#;
    let source = opened(&directory, &[b"\n", text]).expect("JSON lines");
    let found: Vec<_> = source
        .schema()
        .columns
        .iter()
        .map(|column| {
            let ty = column.suggested.expect("always one").to_string();
            format!(
                "{} {ty}{}",
                column.name,
                if column.nullable { "" } else { " not null" }
            )
        })
        .collect();
    assert_eq!(
        found,
        [
            "id numeric not null",
            "zip text",
            "price numeric",
            "on date",
            "ok bool",
            "at timestamptz",
            "tags json",
            "mixed json",
            "none text",
            "big float64",
            "text text",
            "u uuid",
        ]
    );
}

#[test]
fn values_are_what_their_text_says() {
    let decimal = |precision, scale| ColumnType::Decimal { precision, scale };
    let cases: &[(&str, ColumnType, &str)] = &[
        ("12.50", ColumnType::Numeric, "12.50"),
        ("12.50", ColumnType::TEXT, "12.50"),
        ("12.50", decimal(10, 3), "12.500"),
        (
            "123456789012345678901234567890.123456789",
            ColumnType::Numeric,
            "123456789012345678901234567890.123456789",
        ),
        ("9007199254740993", ColumnType::Int64, "9007199254740993"),
        (
            "99999999999999999999999999999999999999",
            decimal(38, 0),
            "99999999999999999999999999999999999999",
        ),
        ("0.1", ColumnType::Float64, "0.1"),
        (r#""5""#, ColumnType::Int32, "5"),
        (
            r#""a\nb\u00e9\ud83d\ude00\"\\/""#,
            ColumnType::TEXT,
            "a\nbé😀\"\\/",
        ),
        (r#""""#, ColumnType::TEXT, ""),
        ("null", ColumnType::TEXT, "-"),
        ("null", ColumnType::Json, "-"),
        (r#""null""#, ColumnType::Json, r#""null""#),
        (r#""a\u0041""#, ColumnType::Json, r#""a\u0041""#),
        (
            r#"{"b": [1.50,  {"a":1}]}"#,
            ColumnType::Json,
            r#"{"b": [1.50,  {"a":1}]}"#,
        ),
        ("true", ColumnType::Bool, "true"),
        ("1.10", ColumnType::Json, "1.10"),
    ];
    for (value, ty, expected) in cases {
        let text = format!("{{\"x\": {value} }}\r\n");
        let (rows, rejects) = read(text.as_bytes(), &[("x", *ty)]);
        assert_eq!(
            (rows, rejects),
            (vec![(*expected).to_owned()], vec![]),
            "{value} as {ty}"
        );
    }
}

/// An object of `keys` keys `c0`, `c1` and so on, of which `each` says the value; in an order of its own for each `turn`.
fn wide(keys: usize, turn: usize, each: impl Fn(usize) -> Option<String>) -> String {
    // Steps that lead to every key of a number that neither 3 nor 7 divides.
    let step = [1, 3, 7, 21][turn % 4];
    let members = (0..keys).map(|at| (at * step + turn * 17) % keys);
    let members = members.filter_map(|key| Some(format!("\"c{key}\":{}", each(key)?)));
    format!("{{{}}}", members.collect::<Vec<_>>().join(","))
}

#[test]
fn wide_lines_have_their_keys_in_any_order() {
    const KEYS: usize = 500;
    const ROWS: usize = 60;
    let value = |row: usize, key: usize| row * 1_000 + key;
    let mut text = String::new();
    for row in 0..ROWS {
        let line = wide(KEYS, row / 5, |key| match (row, key) {
            (0, _) => Some(value(row, key).to_string()),
            // Some lines lack some keys, so that what is behind them stands elsewhere than before.
            (_, key) if (row + key).is_multiple_of(97) => None,
            _ => Some(value(row, key).to_string()),
        });
        text.push_str(&line);
        text.push('\n');
        if row == 7 {
            text.push_str(&line.replacen('}', ",\"c3\":1}\n", 1));
        }
    }
    let directory = TempDir::new().expect("a directory");
    let mut source = opened(&directory, &[text.as_bytes()]).expect("JSON lines");
    let names = source.schema().columns.iter().map(|column| column.name.clone());
    let names: Vec<String> = names.collect();
    assert_eq!(names.len(), KEYS);
    // Every other column, one of them twice.
    let mut columns: Vec<(usize, ColumnType)> =
        (0..KEYS).step_by(2).map(|at| (at, ColumnType::Int64)).collect();
    columns.push((2, ColumnType::TEXT));
    source
        .request(&ReadRequest {
            columns: columns.clone(),
            block_rows: 16,
            block_bytes: 1 << 20,
        })
        .expect("columns there are");
    let mut row = 0;
    let mut rejects = Vec::new();
    for block in blocks(&mut source) {
        for at in 0..block.rows.num_rows() {
            for ((index, _), array) in columns.iter().zip(block.rows.columns()) {
                let key: usize = names[*index][1..].parse().expect("a number");
                let found = array.is_valid(at).then(|| {
                    let formatter = ArrayFormatter::try_new(array, &FormatOptions::default());
                    formatter.expect("a plain type").value(at).to_string()
                });
                let lacks = row > 0 && (row + key).is_multiple_of(97);
                let wanted = (!lacks).then(|| value(row, key).to_string());
                assert_eq!(found, wanted, "row {row}, key {key}");
            }
            row += 1;
        }
        rejects.extend(block.rejects.into_iter().map(|reject| reject.problem.message));
    }
    assert_eq!(row, ROWS);
    assert_eq!(rejects, ["key 'c3' is there twice"]);
}

#[test]
fn bytes_are_strings() {
    let text: &[u8] =
        b"{\"a\":\"\\\\x00ff\"}\n{\"a\":true}\n{\"a\":null}\n{\"a\":12}\n{\"a\":[\"x\"]}\n{\"a\":\"x\"}";
    let (rows, rejects) = read(text, &[("a", ColumnType::Bytes)]);
    assert_eq!(rows, ["00ff", "-", "78"]);
    let wanted = ["2@16", "4@38", "5@47"]
        .map(|place| format!("{place} key 'a' has a value that is no string, and bytes are written as one"));
    assert_eq!(rejects, wanted);
}

#[test]
fn a_bad_line_costs_its_own_row() {
    let text: &[u8] = b"{\"a\":1,\"b\":\"x\"}\n\
        {\"a\":2\n\
        [1]\n\
        \n\
        {\"a\":\"\xff\"}\n\
        {\"a\":3,\"b\":\"\\ud800\"}\n\
        {\"a\":4,\"a\":4}\n\
        {\"a\":\"y\"}\n\
        {\"b\":null}\n\
        {\"a\":5} {}\n\
        {\"a\":1.5}\n\
        {\"a\":6,\"b\":\"z\"}";
    let (rows, rejects) = read(text, &[("a", ColumnType::Int32), ("b", ColumnType::TEXT)]);
    assert_eq!(rows, ["1|x", "-|-", "6|z"]);
    let expected = [
        "2@16 the line is not JSON: EOF while parsing an object at byte 6",
        "3@23 the line is not a JSON object",
        "4@28 the line is not UTF-8",
        "5@38 the line is not JSON: a string has an escape that is no character",
        "6@59 key 'a' is there twice",
        "7@73 'y' is not an int32",
        "9@94 the line is not JSON: trailing characters at byte 9",
        "10@105 '1.5' is not an int32",
    ];
    assert_eq!(rejects, expected);
}

#[test]
fn a_key_that_comes_up_later_is_a_reject_with_its_fields() {
    let directory = TempDir::new().expect("a directory");
    let mut text = "{\"a\":1}\n".repeat(SAMPLE_ROWS);
    text += "{\"a\":2,\"late\":null,\"nested\":{\"x\": 1}}\n";
    let mut source = opened(&directory, &[text.as_bytes()]).expect("JSON lines");
    let request = request(&source, &[], 1 << 20);
    source.request(&request).expect("a column");
    let block = &blocks(&mut source)[0];
    assert_eq!((block.rows.num_rows(), block.rejects.len()), (SAMPLE_ROWS, 1));
    let reject = &block.rejects[0];
    assert_eq!(reject.problem.column.as_deref(), Some("late"));
    let fields = [("a", Some("2")), ("late", None), ("nested", Some("{\"x\": 1}"))]
        .map(|(name, value)| (Arc::from(name), value.map(str::to_owned)));
    assert_eq!(reject.data, RejectData::Fields(fields.to_vec()));
}

#[test]
fn reject_records_stand_for_the_rows_in_them() {
    let text = br#"{"file":"o.csv","row":7,"offset":211,"column":"qty","code":"22P02","message":"m","slot":0,"data":{"id":"7","qty":"5"}}
{"file":"o.csv","row":9,"code":"22P02","message":"m","slot":0,"data":{"id":"8","qty":null}}
{"file":"o.csv","row":10,"code":"22P02","message":"m","slot":0,"raw_hex":"61"}
{"id":"8"}
"#;
    let (rows, rejects) = read(text, &[]);
    assert_eq!(rows, ["7|5", "8|-"]);
    let messages: Vec<_> = rejects
        .iter()
        .map(|r| r.split_once(' ').map_or("", |(_, message)| message))
        .collect();
    assert_eq!(
        messages,
        [
            "the reject record has the bytes of its row but no fields",
            "the line is not a reject record, as the first one is",
        ]
    );
}

#[test]
fn what_is_no_json_lines_is_named() {
    let directory = TempDir::new().expect("a directory");
    let cases: [(&[u8], &str, &str); 2] = [
        (b"[1, 2]", ": no line is a JSON object", "jq -c ."),
        (b"PAR1", " is a Parquet file, not text", "--format parquet"),
    ];
    for (text, message, hint) in cases {
        let error = opened(&directory, &[text]).err().expect(message);
        assert!(error.to_string().ends_with(message), "{error}");
        assert!(error.hint_text().is_some_and(|found| found.contains(hint)));
    }
    let empty = opened(&directory, &[b"\n"]).expect("no rows are no error");
    assert!(empty.schema().columns.is_empty());
}

/// Gives its bytes a few at a time.
struct Trickle {
    bytes: Vec<u8>,
    given: usize,
    step: usize,
}

impl Read for Trickle {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let count = self.step.min(buffer.len()).min(self.bytes.len() - self.given);
        buffer[..count].copy_from_slice(&self.bytes[self.given..][..count]);
        self.given += count;
        Ok(count)
    }
}

/// What a text is cut into, read `step` bytes at a time.
fn cut(text: &[u8], step: usize, request: &ReadRequest, line_bytes_max: usize) -> Vec<String> {
    let reader = Trickle {
        bytes: text.to_vec(),
        given: 0,
        step,
    };
    let stream = ByteStream::of_reader("f".into(), reader).expect("no magic");
    let mut window = Window::of_stream(stream);
    let names: Vec<Arc<str>> = vec!["a".into(), "b".into()];
    let places = names.iter().cloned().zip(0..).collect();
    let shape = Shape {
        shown: &"f".into(),
        names: &names,
        places: &places,
        folded: None,
        unknown: super::object::Flaw::UnknownKey,
        rows: Rows::Objects,
        request,
        schema: &batch_schema(&names, request).expect("two columns"),
        context: &ParseContext::default(),
        line_bytes_max,
    };
    let mut lines = Lines::default();
    let (mut blocks, mut rows) = (Vec::new(), 0);
    while skip_blank(&mut window, line_bytes_max).expect("readable") {
        let parts = block::next(&mut window, &shape, &mut lines, rows).expect("readable");
        rows += (parts.rows.num_rows() + parts.rejects.len()) as u64;
        let hash = window.hash();
        blocks.push(format!(
            "{:?} {:?} {:?} {hash}",
            parts.rows, parts.origin, parts.rejects
        ));
    }
    assert_eq!(window.disk_bytes(), text.len() as u64);
    blocks
}

fn messy_text() -> impl Strategy<Value = String> {
    "(\\{\"a\":1\\}|\\{\"b\":\"x\\\\n\"\\}|\\{\"a\":\\[1,\\{\\}\\],\"b\":null\\}|[ab{}:,\"]|\n|\n|\r\n| |é){0,25}"
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// How the bytes arrive changes nothing about what they mean.
    #[test]
    fn blocks_do_not_depend_on_reads(
        text in messy_text(),
        step in 1usize..6,
        block_rows in 1usize..5,
        block_bytes in 1usize..40,
        line_bytes_max in 5usize..50,
    ) {
        let columns = vec![(0, ColumnType::Json), (1, ColumnType::TEXT)];
        let request = ReadRequest { columns, block_rows, block_bytes };
        let whole = cut(text.as_bytes(), usize::MAX, &request, line_bytes_max);
        prop_assert_eq!(cut(text.as_bytes(), step, &request, line_bytes_max), whole);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    /// Every block can be resumed at, and then everything comes as it would have come.
    #[test]
    fn any_block_can_be_resumed_at(
        texts in prop::collection::vec(messy_text(), 1..4),
        block_rows in 1usize..4,
    ) {
        let directory = TempDir::new().expect("a directory");
        let texts: Vec<_> = texts.iter().map(|t| format!("{{\"a\":1,\"b\":2}}\n{t}").into_bytes()).collect();
        let texts: Vec<&[u8]> = texts.iter().map(|t| &t[..]).collect();
        let mut source = opened(&directory, &texts).expect("JSON lines");
        let request = request(&source, &[], block_rows);
        source.request(&request).expect("columns there are");
        let all = blocks(&mut source);
        let text = |blocks: &[Block]| -> Vec<String> {
            let parts = |b: &Block| format!("{:?}", (b.index, &b.rows, &b.origin, &b.rejects, b.start, b.end));
            blocks.iter().map(parts).collect()
        };
        for (at, block) in all.iter().enumerate() {
            let mut again = opened(&directory, &texts).expect("JSON lines");
            again.request(&request).expect("columns there are");
            again.seek(block.index, &block.start).expect("a mark of the same files");
            prop_assert_eq!(text(&blocks(&mut again)), text(&all[at..]));
        }
        prop_assert!(all.iter().all(|block| block.rows.column(0).len() <= block_rows));
    }
}
