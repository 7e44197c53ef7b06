//! What footers and pages claim, checked before memory is given to it.
//!
//! The reader of the format allocates for the number of row groups, for the children of a group and for the values of a
//! dictionary what the file says, and follows a schema as deep as it goes. A file of a few bytes could so end the
//! process: a failed allocation and an exhausted stack cannot be caught.

use std::io::{self, Read};

use brotli::Decompressor;
use flate2::read::MultiGzDecoder;
use lz4_flex::frame::FrameDecoder;
use parquet::basic::Compression;

use super::thrift::{BINARY, Flaw, I32, LIST, STRUCT, Thrift};
use crate::sources::damage::is_room;

/// The most columns of a schema, with the groups that they are in.
const SCHEMA_ELEMENTS_MAX: u64 = 1 << 18;

/// The most groups of a schema within each other; a list is two.
const SCHEMA_DEPTH_MAX: usize = 64;

/// The most bytes of values that all have the same length: as long as a record of text may be.
const FIXED_BYTES_MAX: i32 = 64 << 20;

/// The most row groups: they are numbered with 16 bits.
const GROUPS_MAX: u64 = i16::MAX as u64;

/// The most bytes of a page, as it lies there or decompressed; writers make them of one MiB.
pub(super) const PAGE_BYTES_MAX: u64 = 1 << 30;

/// The most values of a page in which a row can have many: all of them may be of one row.
const REPEATED_VALUES_MAX: u64 = 1 << 26;

/// A page that can hold more than this is decompressed once to see that it holds what it says, where the decoder does
/// not stop there.
const UNSEEN_BYTES_MAX: u64 = 512 << 20;

/// How the format numbers values of a fixed length.
const FIXED_LEN_BYTE_ARRAY: i32 = 7;

/// Checks a footer.
pub(super) fn check_footer(encoded: &[u8]) -> Result<(), Flaw> {
    const SCHEMA: i16 = 2;
    const ROW_GROUPS: i16 = 4;
    Thrift::new(encoded).fields(|footer, number, ty| match (number, ty) {
        (SCHEMA, LIST) => check_schema(footer).map(|()| true),
        (ROW_GROUPS, LIST) => {
            let groups = footer.list()?;
            if groups.length > GROUPS_MAX {
                return Err(format!("it has {} row groups", groups.length));
            }
            for _ in 0..groups.length {
                footer.skip(groups.element, 1)?;
            }
            Ok(true)
        }
        (SCHEMA | ROW_GROUPS, _) => Err("a list of it is none".to_owned()),
        _ => Ok(false),
    })
}

/// Checks the schema, whose elements stand in the order of a walk through the tree.
fn check_schema<R: Read>(footer: &mut Thrift<R>) -> Result<(), Flaw> {
    const PHYSICAL: i16 = 1;
    const WIDTH: i16 = 2;
    const REPETITION: i16 = 3;
    const NAME: i16 = 4;
    const CHILDREN: i16 = 5;
    let elements = footer.list()?;
    if elements.element != STRUCT || elements.length > SCHEMA_ELEMENTS_MAX {
        return Err(format!("its schema has {} elements", elements.length));
    }
    // The children that groups still lack, from the outermost on.
    let mut open: Vec<u64> = Vec::new();
    for index in 0..elements.length {
        let (mut physical, mut width, mut children) = (0, 0, 0);
        footer.fields(|footer, number, ty| match (number, ty) {
            (PHYSICAL, I32) => footer.i32().map(|found| physical = found).map(|()| true),
            (WIDTH, I32) => footer.i32().map(|found| width = found).map(|()| true),
            (CHILDREN, I32) => footer.i32().map(|found| children = found).map(|()| true),
            (REPETITION, I32) | (NAME, BINARY) => Ok(false),
            (PHYSICAL..=CHILDREN, _) => Err("an element of its schema is none".to_owned()),
            _ => Ok(false),
        })?;
        if physical == FIXED_LEN_BYTE_ARRAY && width > FIXED_BYTES_MAX {
            return Err(format!("values of its schema have {width} bytes each"));
        }
        while open.last() == Some(&0) {
            open.pop();
        }
        match open.last_mut() {
            Some(lacking) => *lacking -= 1,
            None if index == 0 => {}
            None => return Err("its schema has elements that are in no group".to_owned()),
        }
        let children =
            u64::try_from(children).map_err(|_| "a group has fewer columns than none".to_owned())?;
        if children > elements.length - index - 1 {
            return Err("a group of its schema has more columns than there are".to_owned());
        }
        if children > 0 {
            open.push(children);
        }
        if open.len() > SCHEMA_DEPTH_MAX {
            return Err(format!("its schema is more than {SCHEMA_DEPTH_MAX} groups deep"));
        }
    }
    Ok(())
}

/// The head of a page.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct PageHead {
    /// Bytes of the head itself.
    pub head_bytes: u64,
    /// Bytes of the page when it is decompressed.
    unpacked_bytes: u64,
    /// As it lies in the file.
    packed_bytes: u64,
    /// Bytes of it that are not compressed in any case.
    plain_bytes: u64,
    /// Nothing of it is compressed.
    plain: bool,
}

impl PageHead {
    /// Reads a head and checks what can be told without the page. `repeated`: a row can have many values.
    pub fn read(bytes: impl Read, compression: Compression, repeated: bool) -> Result<Self, Flaw> {
        const UNPACKED: i16 = 2;
        const PACKED: i16 = 3;
        const DATA: i16 = 5;
        const DICTIONARY: i16 = 7;
        const DATA_2: i16 = 8;
        let mut head = Self::default();
        let (mut values, mut dictionary_values) = (0, 0);
        let mut thrift = Thrift::new(bytes);
        thrift.fields(|thrift, number, ty| match (number, ty) {
            (UNPACKED, I32) => length(thrift)
                .map(|found| head.unpacked_bytes = found)
                .map(|()| true),
            (PACKED, I32) => length(thrift)
                .map(|found| head.packed_bytes = found)
                .map(|()| true),
            (DATA, STRUCT) => first_number(thrift).map(|found| values = found).map(|()| true),
            (DICTIONARY, STRUCT) => first_number(thrift)
                .map(|found| dictionary_values = found)
                .map(|()| true),
            (DATA_2, STRUCT) => head
                .second_form(thrift)
                .map(|found| values = found)
                .map(|()| true),
            (UNPACKED | PACKED | DATA | DICTIONARY | DATA_2, _) => {
                Err("the head of a page is none".to_owned())
            }
            _ => Ok(false),
        })?;
        head.head_bytes = thrift.taken;
        head.check(compression)?;
        if dictionary_values > head.unpacked_bytes {
            return Err("a dictionary has more values than bytes".to_owned());
        }
        if repeated && values > REPEATED_VALUES_MAX {
            return Err(format!("a page of lists has {values} values"));
        }
        Ok(head)
    }

    /// Whether nothing follows it.
    pub fn is_empty(&self) -> bool {
        self.packed_bytes == 0
    }

    /// The number of values of a data page of the second form, and what of it is not compressed.
    fn second_form<R: Read>(&mut self, thrift: &mut Thrift<R>) -> Result<u64, Flaw> {
        const VALUES: i16 = 1;
        const DEFINITIONS: i16 = 5;
        const REPETITIONS: i16 = 6;
        const COMPRESSED: i16 = 7;
        /// A truth value is its own type.
        const FALSE: u8 = 2;
        let mut values = 0;
        thrift.fields(|thrift, number, ty| match (number, ty) {
            (VALUES, I32) => length(thrift).map(|found| values = found).map(|()| true),
            (DEFINITIONS | REPETITIONS, I32) => length(thrift)
                .map(|found| self.plain_bytes += found)
                .map(|()| true),
            (COMPRESSED, FALSE) => {
                self.plain = true;
                Ok(true)
            }
            _ => Ok(false),
        })?;
        Ok(values)
    }

    fn check(&self, compression: Compression) -> Result<(), Flaw> {
        let bytes = self.unpacked_bytes.max(self.packed_bytes);
        if bytes > PAGE_BYTES_MAX {
            return Err(format!("a page of {bytes} bytes is larger than {PAGE_BYTES_MAX}"));
        }
        if !is_room(bytes) {
            return Err(format!("there is not enough memory for a page of {bytes} bytes"));
        }
        let most = growth_max(compression).map(|growth| (self.packed_bytes + 64) * growth);
        if !self.plain && most.is_some_and(|most| self.unpacked_bytes > most + self.plain_bytes) {
            return Err("a page says that it holds more than it can".to_owned());
        }
        Ok(())
    }

    /// Checks that a page holds no more than it says, where its decoder would not.
    pub fn check_page(&self, page: &[u8], compression: Compression) -> Result<(), Flaw> {
        if self.plain {
            return Ok(());
        }
        let packed = page.get(self.plain_bytes as usize..).unwrap_or_default();
        let unpacked: Box<dyn Read + '_> = match compression {
            Compression::GZIP(_) => Box::new(MultiGzDecoder::new(packed)),
            Compression::BROTLI(_) => Box::new(Decompressor::new(packed, 64 << 10)),
            Compression::LZ4 => Box::new(FrameDecoder::new(packed)),
            _ => return Ok(()),
        };
        let most = growth_max(compression).map(|growth| packed.len() as u64 * growth);
        if most.is_some_and(|most| most <= UNSEEN_BYTES_MAX.max(self.unpacked_bytes)) {
            return Ok(());
        }
        // What is damaged is for the decoder to tell.
        let mut start = unpacked.take(self.unpacked_bytes + 1);
        match io::copy(&mut start, &mut io::sink()) {
            Ok(bytes) if bytes > self.unpacked_bytes => Err("a page holds more than it says".to_owned()),
            _ => Ok(()),
        }
    }
}

/// How many times more than it takes a page can hold; none where there is no such bound, or where it is of no matter.
fn growth_max(compression: Compression) -> Option<u64> {
    match compression {
        // A copy of 64 bytes takes three.
        Compression::SNAPPY => Some(22),
        // A byte of length stands for 255.
        Compression::LZ4 | Compression::LZ4_RAW => Some(255),
        // Two bits stand for 258 bytes.
        Compression::GZIP(_) => Some(1032),
        _ => None,
    }
}

/// A number that cannot be below zero.
fn length<R: Read>(thrift: &mut Thrift<R>) -> Result<u64, Flaw> {
    u64::try_from(thrift.i32()?).map_err(|_| "a page has a length below zero".to_owned())
}

/// The first field of a struct.
fn first_number<R: Read>(thrift: &mut Thrift<R>) -> Result<u64, Flaw> {
    let mut first = 0;
    thrift.fields(|thrift, number, ty| match (number, ty) {
        (1, I32) => length(thrift).map(|found| first = found).map(|()| true),
        (1, _) => Err("the head of a page is none".to_owned()),
        _ => Ok(false),
    })?;
    Ok(first)
}

/// Checks that deltas of lengths are no more than a page has values: as many are allocated. `lists` says how many of
/// them follow each other.
pub(super) fn check_deltas(mut encoded: &[u8], lists: u32, values: u64) -> Result<(), Flaw> {
    for _ in 0..lists {
        let used = deltas(encoded, values).ok_or_else(|| "lengths of texts make no sense".to_owned())?;
        encoded = encoded.get(used..).unwrap_or_default();
    }
    Ok(())
}

/// The bytes that a list of deltas takes; none where it has more than `values`.
fn deltas(encoded: &[u8], values: u64) -> Option<usize> {
    let mut head = Thrift::new(encoded);
    let mut number = || head.unsigned().ok();
    let (block, minis, count) = (number()?, number()?, number()?);
    number()?;
    let mut at = usize::try_from(head.taken).ok()?;
    if count > values {
        return None;
    }
    let per_mini = block.checked_div(minis)?;
    // The first stands in the head.
    let mut left = count.saturating_sub(1);
    while left > 0 {
        // The smallest delta of the block, then the widths of its parts.
        while *encoded.get(at)? & 0x80 != 0 {
            at += 1;
        }
        at += 1;
        let widths = encoded.get(at..at.checked_add(usize::try_from(minis).ok()?)?)?;
        at += widths.len();
        for width in widths {
            if left == 0 {
                break;
            }
            let bytes = u64::from(*width).checked_mul(per_mini)? / 8;
            at = at.checked_add(usize::try_from(bytes).ok()?)?;
            left = left.saturating_sub(per_mini.max(1));
        }
        if widths.is_empty() {
            return None;
        }
    }
    Some(at)
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use parquet::basic::{BrotliLevel, GzipLevel};

    use super::*;

    const GZIP: fn() -> Compression = || Compression::GZIP(GzipLevel::default());
    const BROTLI: fn() -> Compression = || Compression::BROTLI(BrotliLevel::default());

    /// Zigzag numbers of the compact form.
    fn number(value: i64, out: &mut Vec<u8>) {
        let mut left = ((value << 1) ^ (value >> 63)) as u64;
        while left >= 0x80 {
            out.push(left as u8 | 0x80);
            left >>= 7;
        }
        out.push(left as u8);
    }

    /// The head of a page of `kind` (data or dictionary) with so many values.
    fn head(unpacked: i64, packed: i64, kind: u8, values: i64) -> Vec<u8> {
        let mut head = vec![0x15];
        number(0, &mut head);
        for length in [unpacked, packed] {
            head.push(0x15);
            number(length, &mut head);
        }
        head.push((kind - 3) << 4 | STRUCT);
        head.push(0x15);
        number(values, &mut head);
        head.extend([0, 0]);
        head
    }

    #[test]
    fn heads_of_pages_are_not_believed() {
        const DATA: u8 = 5;
        const DICTIONARY: u8 = 7;
        let read = |head: Vec<u8>, compression: Compression, repeated: bool| {
            PageHead::read(&*head, compression, repeated).map(|head| head.head_bytes)
        };
        let plain = Compression::UNCOMPRESSED;
        let good = head(100, 50, DATA, 7);
        assert_eq!(
            read(good.clone(), Compression::SNAPPY, true),
            Ok(good.len() as u64)
        );
        let billion = i64::from(i32::MAX);
        for (bytes, compression, why) in [
            (head(billion, 50, DATA, 7), plain, "is larger than"),
            (head(-1, 50, DATA, 7), plain, "below zero"),
            (head(100, -1, DATA, 7), plain, "below zero"),
            (
                head(1 << 20, 50, DATA, 7),
                Compression::SNAPPY,
                "more than it can",
            ),
            (
                head(1 << 20, 50, DATA, 7),
                Compression::LZ4_RAW,
                "more than it can",
            ),
            (head(1 << 20, 50, DATA, 7), GZIP(), "more than it can"),
            (head(100, 50, DATA, billion), plain, "a page of lists has"),
            (head(100, 50, DATA, -1), plain, "below zero"),
            (
                head(100, 50, DICTIONARY, billion),
                plain,
                "more values than bytes",
            ),
            (Vec::new(), plain, "ends too early"),
        ] {
            let error = read(bytes, compression, true).expect_err(why);
            assert!(error.contains(why), "{error}");
        }
        assert!(
            read(head(100, 50, DATA, billion), plain, false).is_ok(),
            "rows are read some at a time"
        );
    }

    #[test]
    fn a_page_that_holds_more_than_it_says_is_found() {
        let zeros = vec![0; 8 << 20];
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        gzip.write_all(&zeros).expect("it is compressed");
        let gzip = gzip.finish().expect("it is whole");
        // Enough of it that it is looked at at all.
        let gzip = gzip.repeat(UNSEEN_BYTES_MAX as usize / 1032 / gzip.len() + 1);
        let mut brotli = brotli::CompressorWriter::new(Vec::new(), 4096, 1, 22);
        brotli.write_all(&zeros).expect("it is compressed");
        let brotli = brotli.into_inner();
        for (compression, page) in [(GZIP(), &gzip), (BROTLI(), &brotli)] {
            let says = |bytes: u64| PageHead {
                unpacked_bytes: bytes,
                packed_bytes: page.len() as u64,
                ..PageHead::default()
            };
            let found = says(1_000_000).check_page(page, compression);
            assert_eq!(found, Err("a page holds more than it says".to_owned()));
        }
        let whole = PageHead {
            unpacked_bytes: zeros.len() as u64,
            ..PageHead::default()
        };
        assert_eq!(whole.check_page(&brotli, BROTLI()), Ok(()));
    }

    #[test]
    fn lengths_before_texts_are_counted() {
        // Blocks of 128 in four parts; three values of which the first is 5, then one block without bits.
        let deltas = [0x80, 1, 4, 3, 10, 0, 0, 0, 0, 0];
        assert_eq!(super::deltas(&deltas, 3), Some(deltas.len()));
        assert_eq!(super::deltas(&deltas, 2), None, "more than the page has values");
        let two = [deltas.as_slice(), &deltas, b"texts"].concat();
        assert_eq!(check_deltas(&two, 2, 3), Ok(()));
        assert!(check_deltas(&two[..12], 2, 3).is_err());
        let many = [0x80, 1, 4, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f, 10];
        assert!(check_deltas(&many, 1, 1 << 31).is_err());
        for nonsense in [[0x80, 1, 0, 3, 10].as_slice(), &[0xff; 20], &[]] {
            assert!(check_deltas(nonsense, 1, 1 << 31).is_err(), "{nonsense:?}");
        }
    }
}
