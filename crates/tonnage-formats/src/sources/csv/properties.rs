use std::io::Read;

use proptest::prelude::*;
use tonnage_core::{
    source::{Block, ReadRequest, Source},
    types::ColumnType,
};

use super::{
    tests::{Files, all_text, blocks_of, read},
    *,
};
use crate::sources::{compress::ByteStream, text::batch_schema};

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
fn cut(
    text: &[u8],
    step: usize,
    options: &TextOptions,
    request: &ReadRequest,
    columns: usize,
) -> Vec<String> {
    let dialect = Dialect::new(Format::Csv, options).unwrap();
    let reader = Trickle {
        bytes: text.to_vec(),
        given: 0,
        step,
    };
    let stream = ByteStream::of_reader("f".into(), reader).unwrap();
    let mut window = Window::of_stream(stream);
    let names: Vec<Arc<str>> = (0..columns).map(|n| format!("c{n}").into()).collect();
    let shape = Shape {
        shown: &"f".into(),
        columns: &FileColumns::first(&names),
        tokeniser: &Tokeniser::new(&dialect, Some(columns)),
        request,
        schema: &batch_schema(&names, request).unwrap(),
        dialect: &dialect,
        context: &ParseContext::default(),
    };
    let mut records = Records::default();
    let (mut blocks, mut rows) = (Vec::new(), 0);
    while skip_idle(&mut window, shape.tokeniser).unwrap() {
        let parts = block::next(&mut window, &shape, &mut records, rows).unwrap();
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
    "([ab]|,|,|\"|\"\"|\n|\n|\r\n|\r|#|\\\\|a,b\n|\"a\",\"b\"\n|é){0,60}"
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
        record_bytes_max in 5usize..50,
        columns in 1usize..4,
        comment in prop::option::of(Just(b'#')),
        escape in prop::option::of(Just(b'\\')),
    ) {
        let options = TextOptions { comment, escape, record_bytes_max, ..TextOptions::default() };
        let request = ReadRequest { columns: vec![(0, ColumnType::TEXT)], block_rows, block_bytes };
        let whole = cut(text.as_bytes(), usize::MAX, &options, &request, columns);
        prop_assert_eq!(cut(text.as_bytes(), step, &options, &request, columns), whole);
    }

}

proptest! {
    // Each case writes files and opens them once a block.
    #![proptest_config(ProptestConfig::with_cases(60))]

    /// Every block can be resumed at, and then everything comes as it would have come.
    #[test]
    fn any_block_can_be_resumed_at(
        texts in prop::collection::vec(messy_text(), 1..4),
        block_rows in 1usize..4,
    ) {
        let texts: Vec<_> = texts.iter().map(|t| format!("x,y\n{t}").into_bytes()).collect();
        let texts: Vec<&[u8]> = texts.iter().map(|t| &t[..]).collect();
        let files = Files::of(&texts);
        let options = TextOptions::default();
        let mut source = files.open(&options).unwrap();
        let request = all_text(&source, block_rows, 30);
        source.request(&request).unwrap();
        let all: Vec<_> = blocks_of(&mut source);
        for (at, block) in all.iter().enumerate() {
            let mut again = files.open(&options).unwrap();
            again.request(&request).unwrap();
            again.seek(block.index, &block.start).unwrap();
            let rest = blocks_of(&mut again);
            let text = |blocks: &[Block]| -> Vec<String> {
                let parts = |b: &Block| format!("{:?}", (&b.rows, &b.origin, &b.rejects, b.start, b.end));
                blocks.iter().map(parts).collect()
            };
            prop_assert_eq!(text(&rest), text(&all[at..]));
        }
    }

}

proptest! {
    /// Well-formed text means what another parser says that it means.
    #[test]
    fn well_formed_text_is_read_as_by_csv_core(
        table in prop::collection::vec(prop::collection::vec("[ab,\"\n\r é]{0,6}", 3), 0..12),
        quote_all in any::<bool>(),
        crlf in any::<bool>(),
    ) {
        let end = if crlf { "\r\n" } else { "\n" };
        let mut text = format!("x,y,z{end}");
        for row in &table {
            let fields: Vec<_> = row
                .iter()
                .map(|f| match quote_all || f.contains([',', '"', '\n', '\r']) {
                    true => format!("\"{}\"", f.replace('"', "\"\"")),
                    false => f.clone(),
                })
                .collect();
            text += &(fields.join(",") + end);
        }
        let (rows, rejects) = read(text.as_bytes(), &TextOptions::default());
        prop_assert!(rejects.is_empty(), "{rejects:?}");
        // Null and empty are one to the other parser.
        let rows: Vec<Vec<String>> =
            rows.into_iter().map(|r| r.into_iter().map(Option::unwrap_or_default).collect()).collect();
        prop_assert_eq!(&rows, &by_csv_core(text.as_bytes())[1..]);
        prop_assert_eq!(rows, table);
    }
}

fn by_csv_core(mut text: &[u8]) -> Vec<Vec<String>> {
    let mut reader = csv_core::Reader::new();
    let (mut out, mut ends) = (vec![0; 10_000], vec![0; 100]);
    let mut rows = Vec::new();
    loop {
        let (result, read, _, fields) = reader.read_record(text, &mut out, &mut ends);
        text = &text[read..];
        match result {
            csv_core::ReadRecordResult::Record => {
                let starts = std::iter::once(0).chain(ends[..fields].iter().copied());
                let spans = starts.zip(&ends[..fields]);
                rows.push(
                    spans
                        .map(|(start, end)| String::from_utf8(out[start..*end].to_vec()).unwrap())
                        .collect(),
                );
            }
            csv_core::ReadRecordResult::InputEmpty => {}
            csv_core::ReadRecordResult::End => return rows,
            other => panic!("{other:?}"),
        }
    }
}
