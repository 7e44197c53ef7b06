//! Whole files of every format and compression, to be broken.

use std::sync::Arc;

use arrow::{
    array::{
        ArrayRef, BooleanArray, DictionaryArray, FixedSizeBinaryArray, Float64Array, Int64Array, ListArray,
        RecordBatch, StringArray, TimestampMicrosecondArray,
    },
    datatypes::Int32Type,
    ipc::CompressionType,
};
use parquet::{
    arrow::ArrowWriter,
    basic::{BrotliLevel, Compression, Encoding, GzipLevel, ZstdLevel},
    file::properties::{WriterProperties, WriterVersion},
    schema::types::ColumnPath,
};

use crate::packing::{PACKINGS, arrow_file, arrow_stream, zstandard};

const ROWS: i64 = 60;

/// A file before it is broken.
pub struct Whole {
    /// Its name tells how it is read.
    pub name: String,
    pub bytes: Vec<u8>,
    /// Of text, and not compressed.
    pub plain_text: bool,
}

fn delimited(delimiter: char) -> Vec<u8> {
    let mut text = ["id", "name", "amount", "at", "flag"].join(&delimiter.to_string()) + "\n";
    for id in 0..ROWS {
        let amount = if id % 5 == 0 {
            String::new()
        } else {
            format!("{id}.25")
        };
        let fields = [
            id.to_string(),
            format!("\"Zoë \"\"{id}\"\"\n{delimiter}\""),
            amount,
            format!("2024-02-{:02} 10:11:12", id % 28 + 1),
            (id % 2 == 0).to_string(),
        ];
        text.push_str(&fields.join(&delimiter.to_string()));
        text.push('\n');
    }
    text.into_bytes()
}

fn json() -> Vec<u8> {
    let line = |id: i64| {
        format!(
            "{{\"id\": {id}, \"name\": \"Zo\\u00eb \\\"{id}\\\"\", \"amount\": {id}.25, \"tags\": [1, {{\"a\": null}}], \
             \"flag\": {}}}\n",
            id % 2 == 0
        )
    };
    (0..ROWS).map(line).collect::<String>().into_bytes()
}

fn batch() -> RecordBatch {
    let ids = 0..ROWS;
    let kinds: DictionaryArray<Int32Type> = ids
        .clone()
        .map(|id| (id % 7 != 0).then_some(if id % 2 == 0 { "even" } else { "odd" }))
        .collect();
    let lists = ListArray::from_iter_primitive::<Int32Type, _, _>(
        ids.clone()
            .map(|id| (id % 4 != 0).then(|| (0..id % 5).map(|item| Some(item as i32)).collect::<Vec<_>>())),
    );
    let names: StringArray = ids
        .clone()
        .map(|id| (id % 3 != 0).then(|| format!("Zoë {id}")))
        .collect();
    let uuids = FixedSizeBinaryArray::try_from_iter(ids.clone().map(|id| [id as u8; 16])).expect("uuids");
    RecordBatch::try_from_iter([
        (
            "id",
            Arc::new(Int64Array::from_iter_values(ids.clone())) as ArrayRef,
        ),
        ("name", Arc::new(names)),
        (
            "amount",
            Arc::new(
                ids.clone()
                    .map(|id| Some(id as f64 / 4.0))
                    .collect::<Float64Array>(),
            ),
        ),
        (
            "at",
            Arc::new(
                ids.clone()
                    .map(|id| Some(id * 1_000_000))
                    .collect::<TimestampMicrosecondArray>(),
            ),
        ),
        (
            "flag",
            Arc::new(ids.map(|id| Some(id % 2 == 0)).collect::<BooleanArray>()),
        ),
        ("kind", Arc::new(kinds)),
        ("list", Arc::new(lists)),
        ("uuid", Arc::new(uuids)),
    ])
    .expect("columns of one length")
}

fn parquet(compression: Compression, version: WriterVersion, texts: Option<Encoding>) -> Vec<u8> {
    let mut properties = WriterProperties::builder()
        .set_max_row_group_row_count(Some(25))
        .set_data_page_row_count_limit(10)
        .set_write_batch_size(10)
        .set_writer_version(version)
        .set_compression(compression);
    if let Some(encoding) = texts {
        let name = ColumnPath::from("name");
        properties = properties
            .set_column_dictionary_enabled(name.clone(), false)
            .set_column_encoding(name, encoding);
    }
    let batch = batch();
    let mut bytes = Vec::new();
    let mut writer =
        ArrowWriter::try_new(&mut bytes, batch.schema(), Some(properties.build())).expect("a schema");
    writer.write(&batch).expect("rows");
    writer.close().expect("a footer");
    bytes
}

/// Files of every format, of every compression that there is within it and around it.
pub fn all() -> Vec<Whole> {
    let mut files = Vec::new();
    let mut add = |name: &str, bytes: Vec<u8>, plain_text: bool| {
        let name = format!("{}-{name}", files.len());
        files.push(Whole {
            name,
            bytes,
            plain_text,
        });
    };
    let texts = [
        ("orders.csv", delimited(',')),
        ("orders.tsv", delimited('\t')),
        ("orders.jsonl", json()),
    ];
    for (name, bytes) in &texts {
        add(name, bytes.clone(), true);
        for (ending, pack) in PACKINGS {
            add(&format!("{name}{ending}"), pack(bytes), false);
        }
    }
    let batches = [batch(), batch()];
    for compression in [
        None,
        Some(CompressionType::LZ4_FRAME),
        Some(CompressionType::ZSTD),
    ] {
        add("orders.arrow", arrow_file(&batches, compression), false);
        add("orders.arrows", arrow_stream(&batches, compression), false);
    }
    add(
        "orders.arrows.zst",
        zstandard(&arrow_stream(&batches, None)),
        false,
    );
    let (first, second) = (WriterVersion::PARQUET_1_0, WriterVersion::PARQUET_2_0);
    let gzip = Compression::GZIP(GzipLevel::default());
    let zstd = Compression::ZSTD(ZstdLevel::default());
    let brotli = Compression::BROTLI(BrotliLevel::default());
    for (compression, version, texts) in [
        (Compression::UNCOMPRESSED, first, None),
        (
            Compression::UNCOMPRESSED,
            second,
            Some(Encoding::DELTA_BYTE_ARRAY),
        ),
        (
            Compression::UNCOMPRESSED,
            first,
            Some(Encoding::DELTA_LENGTH_BYTE_ARRAY),
        ),
        (Compression::SNAPPY, first, None),
        (gzip, first, Some(Encoding::PLAIN)),
        (zstd, second, None),
        (brotli, first, None),
        (Compression::LZ4, first, None),
        (
            Compression::LZ4_RAW,
            second,
            Some(Encoding::DELTA_LENGTH_BYTE_ARRAY),
        ),
    ] {
        add("orders.parquet", parquet(compression, version, texts), false);
    }
    files
}
