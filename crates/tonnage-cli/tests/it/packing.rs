//! Bytes as the tests' files have them: packed in every way that is read, and as Arrow.

use std::io::Write;

use arrow::{
    array::RecordBatch,
    ipc::{
        CompressionType,
        writer::{FileWriter, IpcWriteOptions, StreamWriter},
    },
};

pub fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes).expect("it is compressed");
    encoder.finish().expect("it is whole")
}

pub fn zstandard(bytes: &[u8]) -> Vec<u8> {
    zstd::encode_all(bytes, 1).expect("it is compressed")
}

pub fn bzip2(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = bzip2::write::BzEncoder::new(Vec::new(), bzip2::Compression::fast());
    encoder.write_all(bytes).expect("it is compressed");
    encoder.finish().expect("it is whole")
}

pub fn xz(bytes: &[u8]) -> Vec<u8> {
    let options = lzma_rust2::XzOptions::with_preset(0);
    let mut encoder = lzma_rust2::XzWriter::new(Vec::new(), options).expect("options");
    encoder.write_all(bytes).expect("it is compressed");
    encoder.finish().expect("it is whole")
}

pub fn lz4(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = lz4_flex::frame::FrameEncoder::new(Vec::new());
    encoder.write_all(bytes).expect("it is compressed");
    encoder.finish().expect("it is whole")
}

/// What packs bytes, by the ending of its files.
type Packing = (&'static str, fn(&[u8]) -> Vec<u8>);

pub const PACKINGS: &[Packing] = &[
    (".gz", gzip),
    (".zst", zstandard),
    (".bz2", bzip2),
    (".xz", xz),
    (".lz4", lz4),
];

fn arrow_options(compression: Option<CompressionType>) -> IpcWriteOptions {
    IpcWriteOptions::default()
        .try_with_compression(compression)
        .expect("it is built in")
}

pub fn arrow_file(batches: &[RecordBatch], compression: Option<CompressionType>) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut writer =
        FileWriter::try_new_with_options(&mut bytes, &batches[0].schema(), arrow_options(compression))
            .expect("a file");
    batches
        .iter()
        .for_each(|batch| writer.write(batch).expect("a batch"));
    writer.finish().expect("a footer");
    drop(writer);
    bytes
}

pub fn arrow_stream(batches: &[RecordBatch], compression: Option<CompressionType>) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut writer =
        StreamWriter::try_new_with_options(&mut bytes, &batches[0].schema(), arrow_options(compression))
            .expect("a stream");
    batches
        .iter()
        .for_each(|batch| writer.write(batch).expect("a batch"));
    writer.finish().expect("an end");
    drop(writer);
    bytes
}
