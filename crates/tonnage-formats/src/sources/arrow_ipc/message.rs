//! The messages of one Arrow IPC file or stream.
//!
//! Lengths are checked against what is there before anything is allocated for them, and what decodes the
//! messages may panic on damage, so it runs guarded. A message and what it decompresses to are in memory whole, so both
//! are bounded, and so are the dictionaries that grow from message to message.

use std::{
    collections::HashMap,
    fmt::Display,
    io::{self, Read, Seek, SeekFrom},
    sync::Arc,
};

use arrow::{
    array::RecordBatch,
    buffer::Buffer,
    datatypes::SchemaRef,
    error::ArrowError,
    ipc::{self, MessageHeader, MetadataVersion, convert::fb_to_schema, reader::FileDecoder},
};
use tonnage_core::error::{Error, Result};
use tonnage_places::File;
use xxhash_rust::xxh3::Xxh3Default;

use crate::sources::{
    InputFile,
    compress::{ByteStream, Compression},
    damage::{HELD_BYTES_MAX, METADATA_BYTES_MAX, guarded, is_room, no_memory},
    pinned::Pinned,
};

/// At both ends of the file form.
const MAGIC: &[u8; 6] = b"ARROW1";

/// The magic at the beginning and what fills it up.
const HEAD_BYTES: usize = 8;

/// The most words of zeros behind it: writers align the first message to 8 or 64 bytes.
const HEAD_WORDS_MAX: usize = 1024;

/// The length of the footer, then the magic.
const TAIL_BYTES: u64 = 10;

/// Stands before the length of a message, but in the oldest files.
const CONTINUATION: [u8; 4] = [0xff; 4];

/// Bytes of a message that are asked for at a time, so that a length that lies costs no more memory than that.
const STEP_BYTES: u64 = 4 << 20;

/// The most values of a column that no bytes need stand for: nulls in lists.
const VALUES_UNSEEN_MAX: u64 = 16 << 20;

/// The most bytes that one compressed buffer may say it holds.
const BUFFER_BYTES_MAX: u64 = 2 << 30;

/// And how many times more than it takes: beyond what zstd does to zeros.
const BUFFER_GROWTH_MAX: u64 = 64 << 10;

/// How many times more than it takes an LZ4 buffer can hold.
const LZ4_GROWTH_MAX: u64 = 255;

/// An LZ4 buffer that can hold more than this is decompressed once to see that it holds what it says: its decoder
/// does not stop there.
const LZ4_UNSEEN_BYTES_MAX: u64 = 256 << 20;

/// What messages of Arrow 0.17 say that their buffers are compressed with.
const OLD_COMPRESSION: &str = "ARROW:experimental_compression";

/// The bytes of dictionaries, by their numbers.
type Held = HashMap<i64, u64>;

/// One file or stream, open behind its schema.
pub(super) struct Messages {
    shown: Arc<str>,
    form: Container,
    schema: SchemaRef,
    version: MetadataVersion,
    /// Made when it is known which columns are wanted.
    decoder: Option<FileDecoder>,
    /// Rows given so far, for messages.
    rows: u64,
    /// Bytes of the dictionaries at hand, by their numbers.
    dictionaries: Held,
}

enum Container {
    /// Messages one after another to a mark of the end; also the file form where it comes through a pipe.
    Stream(Stream),
    /// With a footer that says where each message is.
    File(Indexed),
}

struct Stream {
    bytes: ByteStream,
    /// Read already, to recognise the form.
    ahead: Vec<u8>,
    /// Of all bytes that messages were read from.
    hash: Xxh3Default,
    /// A footer follows the mark of the end.
    footer_follows: bool,
    ended: bool,
}

struct Indexed {
    file: File,
    bytes: u64,
    /// Of the footer, the dictionaries and the batches that were read or skipped.
    hash: Xxh3Default,
    /// The version that stands for the hash of the batches, where there is one.
    pinned: Option<Pinned>,
    dictionaries: Vec<ipc::Block>,
    batches: Vec<ipc::Block>,
    next: usize,
}

impl Messages {
    /// Opens a file, a compressed file or a pipe, and reads its schema.
    pub fn open(input: &InputFile) -> Result<Self> {
        let mut bytes = ByteStream::open(input)?;
        let mut ahead = Vec::new();
        fill(&mut bytes, &mut ahead, HEAD_BYTES as u64)?;
        let has_magic = ahead.starts_with(MAGIC);
        if let (true, Compression::None, Some(_)) = (has_magic, bytes.compression(), &input.identity) {
            return Self::open_indexed(input);
        }
        if has_magic {
            // Zeros fill the head up to where the first message may begin.
            for _ in 0..HEAD_WORDS_MAX {
                ahead.clear();
                fill(&mut bytes, &mut ahead, 4)?;
                if ahead != [0; 4] {
                    break;
                }
            }
        }
        let mut stream = Stream {
            bytes,
            ahead,
            hash: Xxh3Default::new(),
            footer_follows: has_magic,
            ended: false,
        };
        let no_arrow = |why: &dyn Display| {
            Error::input(format!("{} is not an Arrow file or stream: {why}", input.shown))
                .hint("name its format with --format, or get a whole copy of it")
        };
        let first = match stream.next() {
            Ok(Some(first)) => first,
            Ok(None) => return Err(no_arrow(&"it is empty")),
            Err(Flaw::Other(why)) => return Err(no_arrow(&why)),
            Err(Flaw::TooLarge(bytes)) => {
                return Err(no_arrow(&format_args!(
                    "it begins with a message of {bytes} bytes"
                )));
            }
            Err(flaw) => return Err(flaw.at(&input.shown, 0)),
        };
        let parsed = guarded(|| {
            let message = first.message()?;
            let schema = message
                .header_as_schema()
                .ok_or_else(|| invalid("it does not begin with a schema"))?;
            read_schema(schema).map(|schema| (schema, message.version()))
        });
        let (schema, version) = parsed.map_err(|why| no_arrow(&why))?;
        Ok(Self {
            shown: input.shown.clone(),
            form: Container::Stream(stream),
            schema,
            version,
            decoder: None,
            rows: 0,
            dictionaries: HashMap::new(),
        })
    }

    fn open_indexed(input: &InputFile) -> Result<Self> {
        let shown = &input.shown;
        let cannot = |cause: io::Error| {
            let error = Error::input(format!("cannot read {shown}: {cause}")).caused_by(cause);
            input.check().err().unwrap_or(error)
        };
        let incomplete = |why: String| {
            Error::input(format!("{shown} is not a complete Arrow file: {why}"))
                .hint("it may still be being written, or a copy of it was cut short: copy or write it again")
        };
        let mut file = input.opened().map_err(cannot)?;
        let bytes = file.size().map_err(cannot)?;
        let Some(room) = bytes.checked_sub(TAIL_BYTES + HEAD_BYTES as u64) else {
            return Err(incomplete(format!("it has {bytes} bytes only")));
        };
        let mut tail = [0; TAIL_BYTES as usize];
        file.seek(SeekFrom::Start(bytes - TAIL_BYTES)).map_err(cannot)?;
        file.read_exact(&mut tail).map_err(cannot)?;
        let [l0, l1, l2, l3, magic @ ..] = tail;
        if &magic != MAGIC {
            return Err(incomplete("its end is missing".to_owned()));
        }
        let length = u64::from(u32::from_le_bytes([l0, l1, l2, l3]));
        if length > room {
            return Err(incomplete(format!(
                "its footer of {length} bytes does not fit into it"
            )));
        }
        if length > METADATA_BYTES_MAX {
            return Err(incomplete(format!(
                "its footer of {length} bytes is longer than {METADATA_BYTES_MAX}"
            )));
        }
        file.seek(SeekFrom::Start(bytes - TAIL_BYTES - length))
            .map_err(cannot)?;
        // No more than the file has.
        let mut encoded = vec![0; length as usize];
        file.read_exact(&mut encoded).map_err(cannot)?;
        let parsed = guarded(|| {
            let footer = ipc::root_as_footer(&encoded).map_err(|cause| invalid(&cause.to_string()))?;
            let schema = footer
                .schema()
                .ok_or_else(|| invalid("its footer has no schema"))?;
            let dictionaries: Vec<ipc::Block> =
                footer.dictionaries().into_iter().flatten().copied().collect();
            let batches: Vec<ipc::Block> = footer.recordBatches().into_iter().flatten().copied().collect();
            if !dictionaries
                .iter()
                .chain(&batches)
                .all(|block| fits(block, bytes))
            {
                return Err(invalid("its footer points beyond its end"));
            }
            // Each lies in the file, so the sum of them fits 128 bits.
            let pointed_at: u128 = dictionaries.iter().chain(&batches).map(block_bytes).sum();
            if pointed_at > u128::from(bytes) {
                return Err(invalid("its footer points to the same bytes twice"));
            }
            Ok((read_schema(schema)?, footer.version(), dictionaries, batches))
        });
        let (schema, version, dictionaries, batches) = parsed.map_err(incomplete)?;
        let mut hash = Xxh3Default::new();
        hash.update(&encoded);
        Ok(Self {
            shown: shown.clone(),
            form: Container::File(Indexed {
                file,
                bytes,
                hash,
                pinned: Pinned::of(input),
                dictionaries,
                batches,
                next: 0,
            }),
            schema,
            version,
            decoder: None,
            rows: 0,
            dictionaries: HashMap::new(),
        })
    }

    /// The file that is read, if it is one.
    pub fn file(&self) -> Option<&File> {
        match &self.form {
            Container::File(indexed) => Some(&indexed.file),
            Container::Stream(stream) => stream.bytes.file(),
        }
    }

    /// All columns there are.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// Says which columns batches shall have, ascending and without repeats. Called before the first batch.
    pub fn project(&mut self, columns: &[usize]) -> Result<()> {
        let mut decoder =
            FileDecoder::new(self.schema.clone(), self.version).with_projection(columns.to_vec());
        if let Container::File(indexed) = &mut self.form {
            for index in 0..indexed.dictionaries.len() {
                let block = indexed.dictionaries[index];
                let held = &mut self.dictionaries;
                indexed
                    .read(&block)
                    .and_then(|message| {
                        indexed.hash.update(&message.bytes);
                        message.check(held)?;
                        Ok(guarded(|| {
                            decoder.read_dictionary(&message.block, &message.bytes)
                        })?)
                    })
                    .map_err(|flaw| flaw.at(&self.shown, 0))?;
            }
        }
        self.decoder = Some(decoder);
        Ok(())
    }

    /// The next batch of rows; none at the end.
    pub fn next(&mut self) -> Result<Option<RecordBatch>> {
        let decoder = self
            .decoder
            .as_mut()
            .ok_or_else(|| Error::bug("Arrow messages were read before it was said which columns"))?;
        let held = &mut self.dictionaries;
        let batch = match &mut self.form {
            Container::File(indexed) => indexed.batch(decoder, held),
            Container::Stream(stream) => stream.batch(decoder, held),
        };
        let batch = batch.map_err(|flaw| flaw.at(&self.shown, self.rows))?;
        self.rows += batch.as_ref().map_or(0, |batch| batch.num_rows() as u64);
        Ok(batch)
    }

    /// Skips whole batches that lie within the next `rows` rows without decoding them, where each can be found; returns
    /// how many rows they had.
    pub fn skip(&mut self, rows: u64) -> Result<u64> {
        let mut skipped = 0;
        if let Container::File(indexed) = &mut self.form {
            while let Some(block) = indexed.batches.get(indexed.next).copied() {
                let at_row = self.rows + skipped;
                let count = indexed
                    .rows(&block)
                    .map_err(|flaw| flaw.at(&self.shown, at_row))?;
                if skipped + count > rows {
                    break;
                }
                if indexed.pinned.is_none() {
                    let message = indexed.read(&block);
                    let message = message.map_err(|flaw| flaw.at(&self.shown, at_row))?;
                    indexed.hash.update(&message.bytes);
                }
                skipped += count;
                indexed.next += 1;
            }
            self.rows += skipped;
        }
        Ok(skipped)
    }

    /// Of the footer, the dictionaries and the batches so far, or of all that was read of a stream.
    pub fn hash(&self) -> u64 {
        match &self.form {
            Container::File(Indexed {
                pinned: Some(pinned),
                next,
                ..
            }) => pinned.before(*next as u64),
            Container::File(indexed) => indexed.hash.digest(),
            Container::Stream(stream) => stream.hash.digest(),
        }
    }

    /// The hash that a file which has just been opened has once all of it has been read with these columns.
    pub fn whole_hash(mut self, columns: &[usize]) -> Result<u64> {
        match &mut self.form {
            Container::File(_) => {
                self.project(columns)?;
                self.skip(u64::MAX)?;
            }
            Container::Stream(stream) => {
                while stream.next().map_err(|flaw| flaw.at(&self.shown, 0))?.is_some() {}
            }
        }
        Ok(self.hash())
    }

    /// Bytes of the file behind which reading stands, as they lie on the disk.
    pub fn disk_bytes(&self) -> u64 {
        match &self.form {
            Container::Stream(stream) => stream.bytes.taken(),
            Container::File(indexed) => match indexed.batches.get(indexed.next) {
                // Not beyond the file, as was checked.
                Some(block) => block.offset() as u64,
                None => indexed.bytes,
            },
        }
    }
}

impl Indexed {
    fn batch(&mut self, decoder: &FileDecoder, held: &mut Held) -> Result<Option<RecordBatch>, Flaw> {
        while let Some(block) = self.batches.get(self.next).copied() {
            let message = self.read(&block)?;
            message.check(held)?;
            self.next += 1;
            if self.pinned.is_none() {
                self.hash.update(&message.bytes);
            }
            if let Some(batch) = guarded(|| decoder.read_record_batch(&message.block, &message.bytes))? {
                return Ok(Some(batch));
            }
        }
        Ok(None)
    }

    /// The rows that the head of a batch says.
    fn rows(&mut self, block: &ipc::Block) -> Result<u64, Flaw> {
        let message = self.read(&ipc::Block::new(block.offset(), block.metaDataLength(), 0))?;
        let rows = guarded(|| {
            let batch = message.message()?.header_as_record_batch();
            Ok::<_, ArrowError>(batch.map_or(0, |batch| batch.length()))
        })?;
        Ok(u64::try_from(rows).map_err(|_| "a batch has fewer rows than none".to_owned())?)
    }

    fn read(&mut self, block: &ipc::Block) -> Result<Encoded, Flaw> {
        // Both lie in the file.
        let length = block.metaDataLength() as u64 + block.bodyLength() as u64;
        if length > HELD_BYTES_MAX {
            return Err(Flaw::TooLarge(length));
        }
        let mut bytes = Vec::new();
        if bytes.try_reserve_exact(length as usize).is_err() {
            return Err(Flaw::NoMemory(length));
        }
        bytes.resize(length as usize, 0);
        let read = self
            .file
            .seek(SeekFrom::Start(block.offset() as u64))
            .and_then(|_| self.file.read_exact(&mut bytes));
        read.map_err(|cause| Flaw::Other(cause.to_string()))?;
        Ok(Encoded {
            block: *block,
            bytes: Buffer::from_vec(bytes),
        })
    }
}

impl Stream {
    fn batch(&mut self, decoder: &mut FileDecoder, held: &mut Held) -> Result<Option<RecordBatch>, Flaw> {
        while let Some(message) = self.next()? {
            message.check(held)?;
            let batch = guarded(|| match message.message()?.header_type() {
                MessageHeader::DictionaryBatch => {
                    decoder.read_dictionary(&message.block, &message.bytes)?;
                    Ok::<_, ArrowError>(None)
                }
                _ => decoder.read_record_batch(&message.block, &message.bytes),
            })?;
            if batch.is_some() {
                return Ok(batch);
            }
        }
        Ok(None)
    }

    /// The next message; none behind the mark of the end.
    fn next(&mut self) -> Result<Option<Encoded>, Flaw> {
        if self.ended {
            return Ok(None);
        }
        let mut bytes = Vec::new();
        self.take(&mut bytes, 4)?;
        if bytes == CONTINUATION {
            self.take(&mut bytes, 4)?;
        }
        let prefix = bytes.len();
        let length = match bytes.last_chunk::<4>() {
            Some(length) => i32::from_le_bytes(*length),
            None => return Err(too_early()),
        };
        if length == 0 {
            self.ended = true;
            let mut rest = [0; 4096];
            if self.footer_follows {
                while self.bytes.read(&mut rest)? > 0 {}
            } else if self.bytes.read(&mut rest)? > 0 {
                return Err(Flaw::Other(
                    "more follows behind the mark of the stream's end".to_owned(),
                ));
            }
            return Ok(None);
        }
        let length = u64::try_from(length).map_err(|_| Flaw::Other("a message has no length".to_owned()))?;
        if length > METADATA_BYTES_MAX {
            return Err(Flaw::TooLarge(length));
        }
        self.take(&mut bytes, length)?;
        let body = guarded(|| {
            let message =
                ipc::root_as_message(&bytes[prefix..]).map_err(|cause| invalid(&cause.to_string()))?;
            Ok::<_, ArrowError>(message.bodyLength())
        })?;
        let body_length =
            u64::try_from(body).map_err(|_| Flaw::Other("a message has no length".to_owned()))?;
        if body_length > HELD_BYTES_MAX {
            return Err(Flaw::TooLarge(body_length));
        }
        // A prefix and a length of 31 bits.
        let metadata_length = i32::try_from(bytes.len())
            .map_err(|_| Flaw::Other("a message's head is longer than 2 GiB".to_owned()))?;
        self.take(&mut bytes, body_length)?;
        Ok(Some(Encoded {
            block: ipc::Block::new(0, metadata_length, body),
            bytes: Buffer::from_vec(bytes),
        }))
    }

    /// Appends exactly `count` bytes.
    fn take(&mut self, bytes: &mut Vec<u8>, count: u64) -> Result<(), Flaw> {
        let before = bytes.len();
        // As many as there are and no more than are wanted.
        let ahead = (self.ahead.len() as u64).min(count) as usize;
        bytes.extend(self.ahead.drain(..ahead));
        let read = fill(&mut self.bytes, bytes, count - ahead as u64)?;
        if !read {
            return Err(too_early());
        }
        self.hash.update(&bytes[before..]);
        Ok(())
    }
}

/// A message as it lies in the file.
struct Encoded {
    block: ipc::Block,
    bytes: Buffer,
}

impl Encoded {
    fn message(&self) -> Result<ipc::Message<'_>, ArrowError> {
        let metadata = self
            .bytes
            .get(..self.block.metaDataLength() as usize)
            .ok_or_else(|| invalid("a message is cut short"))?;
        let skipped = if metadata.starts_with(&CONTINUATION) { 8 } else { 4 };
        let metadata = metadata
            .get(skipped..)
            .ok_or_else(|| invalid("a message is cut short"))?;
        ipc::root_as_message(metadata).map_err(|cause| invalid(&cause.to_string()))
    }

    /// How its buffers are compressed, if it says so as Arrow 0.17 did: the format had no word for it yet, and a reader
    /// that knows nothing of this takes them for values.
    fn old_compression(&self) -> Result<Option<String>, ArrowError> {
        let message = self.message()?;
        let pairs = message.custom_metadata().into_iter().flatten();
        let mut values = pairs
            .filter(|pair| pair.key() == Some(OLD_COMPRESSION))
            .map(|pair| pair.value());
        let codec = values
            .next()
            .map(|codec| codec.unwrap_or_default().to_lowercase());
        Ok(codec.filter(|codec| codec != "uncompressed"))
    }

    /// Checks what would be allocated for the message, beside the dictionaries that are held already.
    fn check(&self, held: &mut Held) -> Result<(), Flaw> {
        if let Some(codec) = guarded(|| self.old_compression())? {
            return Err(Flaw::OldCompression(codec));
        }
        let checked = guarded(|| {
            let message = self.message()?;
            let dictionary = message.header_as_dictionary_batch();
            let batch = message
                .header_as_record_batch()
                .or_else(|| dictionary.and_then(|dictionary| dictionary.data()));
            let Some(batch) = batch else {
                return Ok((None, 0));
            };
            if !(0..=i64::from(u32::MAX)).contains(&batch.length()) {
                return Err(invalid("a batch has more rows than can be"));
            }
            let nodes = batch.nodes().into_iter().flatten();
            let longest = nodes.map(|node| node.length()).max().unwrap_or(0);
            let body = &self.bytes[self.block.metaDataLength() as usize..];
            let codec = batch.compression().map(|compression| compression.codec());
            let mut total = 0u64;
            for buffer in batch.buffers().into_iter().flatten() {
                let range = usize::try_from(buffer.offset())
                    .ok()
                    .zip(usize::try_from(buffer.length()).ok());
                let bytes = range
                    .and_then(|(start, length)| body.get(start..start.checked_add(length)?))
                    .ok_or_else(|| invalid("a buffer lies outside its message"))?;
                total = total.saturating_add(buffer_bytes(bytes, codec)?);
            }
            // A value takes a bit at least, unless it is of a type that has only nulls.
            let values = u64::try_from(longest).unwrap_or(u64::MAX);
            if values
                > total
                    .saturating_mul(8)
                    .max(batch.length() as u64)
                    .max(VALUES_UNSEEN_MAX)
            {
                return Err(invalid("a column has more values than its bytes can hold"));
            }
            let id = dictionary.map(|dictionary| (dictionary.id(), dictionary.isDelta()));
            Ok((id, total))
        });
        let (dictionary, total) = checked?;
        if total > HELD_BYTES_MAX {
            return Err(Flaw::TooLarge(total));
        }
        if !is_room(total) {
            return Err(Flaw::NoMemory(total));
        }
        if let Some((id, delta)) = dictionary {
            let bytes = held.entry(id).or_default();
            *bytes = total + if delta { *bytes } else { 0 };
            let all = held
                .values()
                .fold(0, |sum: u64, bytes| sum.saturating_add(*bytes));
            if all > HELD_BYTES_MAX {
                return Err(Flaw::TooLarge(all));
            }
        }
        Ok(())
    }
}

/// What a buffer takes in memory: as it lies there, or decompressed.
fn buffer_bytes(bytes: &[u8], codec: Option<ipc::CompressionType>) -> Result<u64, ArrowError> {
    let (Some(codec), Some(length)) = (codec, bytes.first_chunk::<8>()) else {
        return Ok(bytes.len() as u64);
    };
    // A negative length says that this one is not compressed.
    let Ok(length) = u64::try_from(i64::from_le_bytes(*length)) else {
        return Ok(bytes.len() as u64);
    };
    let too_large = || invalid("a compressed buffer is larger than it can be");
    if length > BUFFER_BYTES_MAX.min(bytes.len() as u64 * BUFFER_GROWTH_MAX) {
        return Err(too_large());
    }
    let can_hold = bytes.len() as u64 * LZ4_GROWTH_MAX;
    if codec == ipc::CompressionType::LZ4_FRAME && can_hold > LZ4_UNSEEN_BYTES_MAX.max(length) {
        let mut frame = lz4_flex::frame::FrameDecoder::new(&bytes[8..]).take(length + 1);
        if io::copy(&mut frame, &mut io::sink())? > length {
            return Err(too_large());
        }
    }
    Ok(length)
}

/// What is wrong with a message.
enum Flaw {
    /// The bytes cannot be had.
    Bytes(Error),
    /// They make no sense.
    Other(String),
    /// There would be this many of them at once.
    TooLarge(u64),
    /// As many as this cannot be had of the system.
    NoMemory(u64),
    /// They are compressed as Arrow 0.17 did it, with this.
    OldCompression(String),
}

impl From<Error> for Flaw {
    fn from(error: Error) -> Self {
        Self::Bytes(error)
    }
}

impl From<String> for Flaw {
    fn from(why: String) -> Self {
        Self::Other(why)
    }
}

impl Flaw {
    /// The error of a file whose rows up to `row` were read.
    fn at(self, shown: &str, row: u64) -> Error {
        match self {
            Self::Bytes(error) => error,
            Self::Other(why) => {
                Error::input(format!("{shown} is damaged at or after row {}: {why}", row + 1))
                    .hint("copy or write the file again; no row from here on can be read")
            }
            Self::TooLarge(bytes) => Error::input(format!(
                "{shown}: a message of {bytes} bytes at or after row {} is larger than {HELD_BYTES_MAX}",
                row + 1
            ))
            .hint("write the file in batches of fewer rows; if it is not that large, it is damaged"),
            Self::NoMemory(bytes) => no_memory(shown, "a message", bytes),
            Self::OldCompression(codec) => Error::input(format!(
                "{shown} is compressed with {codec} as Arrow 0.17 did it, before the format had a way to say so"
            ))
            .hint("read it with the Arrow that wrote it, and write it again without compression or with Arrow 1.0 or newer"),
        }
    }
}

fn too_early() -> Flaw {
    Flaw::Other("it ends without the mark of a stream's end, so rows may be missing".to_owned())
}

fn invalid(why: &str) -> ArrowError {
    ArrowError::ParseError(why.to_owned())
}

fn read_schema(schema: ipc::Schema<'_>) -> Result<SchemaRef, ArrowError> {
    if !schema.endianness().equals_to_target_endianness() {
        return Err(invalid("its numbers have the bytes of another kind of machine"));
    }
    Ok(Arc::new(fb_to_schema(schema)))
}

/// The length of a block that lies in its file.
fn block_bytes(block: &ipc::Block) -> u128 {
    u128::from(block.metaDataLength().unsigned_abs()) + u128::from(block.bodyLength().unsigned_abs())
}

/// Whether a block lies in a file of `bytes` bytes.
fn fits(block: &ipc::Block, bytes: u64) -> bool {
    let end = u64::try_from(block.offset()).ok().and_then(|offset| {
        let metadata = u64::try_from(block.metaDataLength()).ok()?;
        let body = u64::try_from(block.bodyLength()).ok()?;
        offset.checked_add(metadata)?.checked_add(body)
    });
    end.is_some_and(|end| end <= bytes)
}

/// Appends up to `count` bytes; whether there were as many.
fn fill(stream: &mut ByteStream, bytes: &mut Vec<u8>, mut count: u64) -> Result<bool> {
    while count > 0 {
        let before = bytes.len();
        // At most a step.
        let step = count.min(STEP_BYTES) as usize;
        if bytes.try_reserve(step).is_err() {
            return Err(no_memory(stream.shown(), "a message", before as u64 + count));
        }
        bytes.resize(before + step, 0);
        let read = stream.read(&mut bytes[before..])?;
        bytes.truncate(before + read);
        if read == 0 {
            return Ok(false);
        }
        count -= read as u64;
    }
    Ok(true)
}
