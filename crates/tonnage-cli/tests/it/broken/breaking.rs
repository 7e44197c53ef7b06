//! How files are broken: by chance, as disks, networks, editors and people do it.

use super::files::Whole;
use crate::events::Chance;

/// A length that no file has.
const ABSURD: [u64; 8] = [
    u64::MAX,
    1 << 63,
    i64::MAX as u64,
    1 << 40,
    u32::MAX as u64,
    1 << 31,
    i32::MAX as u64,
    0,
];

/// What may stand in text by mistake.
const ODDITIES: [&[u8]; 14] = [
    b"\"",
    b"\"\"\"",
    b"\0",
    b"\0\0\0\0\n",
    b"\r",
    b"\r\n\r\n",
    b"\xff\xfe",
    b"Zo\xeb",
    b"\xef\xbb\xbf",
    b"\\",
    b"{\"a\":",
    b"]}\n",
    b",,,,,,,,,,\n",
    b"\x1f\x8b\x08",
];

/// Breaks `file`, with what `other` has where parts of two are mixed; tells how.
pub fn broken(file: &Whole, other: &Whole, chance: &mut Chance) -> (Vec<u8>, &'static str) {
    let mut bytes = file.bytes.clone();
    let kinds = if file.plain_text { 12 } else { 8 };
    let how = match chance.below(kinds) {
        0 => {
            bytes.truncate(place(&bytes, chance));
            "cut"
        }
        1 => {
            for _ in 0..=chance.below(20) {
                let at = place(&bytes, chance);
                bytes[at] ^= 1 << chance.below(8);
            }
            "bits flipped"
        }
        2 => {
            let range = range(&bytes, chance);
            bytes[range]
                .iter_mut()
                .for_each(|byte| *byte = chance.next() as u8);
            "bytes replaced"
        }
        3 => {
            let range = range(&bytes, chance);
            bytes.drain(range);
            "bytes left out"
        }
        4 => {
            let twice = bytes[range(&bytes, chance)].to_vec();
            let at = place(&bytes, chance);
            bytes.splice(at..at, twice);
            "bytes there twice"
        }
        5 => {
            // Where a format has lengths: near its ends, or anywhere.
            let length = chance.one(&ABSURD).to_le_bytes();
            let size = chance.one(&[4, 8]).min(bytes.len());
            let last = bytes.len() - size;
            let at = match chance.below(3) {
                0 => (chance.below(64) as usize).min(last),
                1 => last - (chance.below(64) as usize).min(last),
                _ => chance.below(last as u64 + 1) as usize,
            };
            bytes[at..at + size].copy_from_slice(&length[..size]);
            "an absurd length"
        }
        6 => {
            bytes.truncate(place(&bytes, chance));
            bytes.extend_from_slice(&other.bytes[place(&other.bytes, chance)..]);
            "the end of another file"
        }
        7 => {
            let count = chance.below(16) as usize;
            let kept = other.bytes.len().min(count);
            bytes.splice(..count.min(bytes.len()), other.bytes[..kept].iter().copied());
            "the beginning of another file"
        }
        8 => {
            for _ in 0..=chance.below(5) {
                let at = place(&bytes, chance);
                bytes.splice(at..at, chance.one(&ODDITIES).iter().copied());
            }
            "oddities"
        }
        9 => {
            let wide = String::from_utf8_lossy(&bytes).into_owned();
            let units: Vec<u8> = wide.encode_utf16().flat_map(u16::to_le_bytes).collect();
            let at = place(&bytes, chance);
            bytes.truncate(at);
            bytes.extend_from_slice(&units[at.min(units.len())..]);
            "two encodings"
        }
        10 => {
            let depth = chance.below(100_000) as usize + 1;
            let nested = [
                b"{\"id\":1,\"tags\":".to_vec(),
                b"[".repeat(depth),
                b"]".repeat(depth - chance.below(2) as usize),
                b"}\n".to_vec(),
            ];
            bytes.splice(0..0, nested.concat());
            "deep nesting"
        }
        _ => {
            let at = place(&bytes, chance);
            let columns = chance
                .one(&[b",a".as_slice(), b"\tb", b",\"k\":1"])
                .repeat(10_000);
            bytes.splice(at..at, columns);
            "many columns"
        }
    };
    (bytes, how)
}

fn place(bytes: &[u8], chance: &mut Chance) -> usize {
    chance.below(bytes.len() as u64) as usize
}

fn range(bytes: &[u8], chance: &mut Chance) -> std::ops::Range<usize> {
    let start = place(bytes, chance);
    let most = (bytes.len() - start).min(200) as u64;
    start..start + chance.below(most) as usize + 1
}
