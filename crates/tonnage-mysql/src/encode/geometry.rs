//! Geometries, checked before they are sent.
//!
//! They come as well-known binary of two dimensions (WKB) in either byte order, or in the extended form that names a
//! reference system (EWKB), or as the hexadecimal digits of either. They travel as the server keeps them: the number of
//! the reference system in four bytes, then WKB, all of it little-endian. The server looks at no more than the type of
//! what arrives so, hence all of it is looked at here; what a function of the server makes of damaged WKB is a null.

use std::borrow::Cow;

/// Bytes of the number of a reference system.
pub(crate) const SYSTEM_BYTES: usize = 4;
/// The bit of a type that says that the number of a reference system follows.
pub(crate) const HAS_SYSTEM: u32 = 0x2000_0000;
/// The bits of a type that say that points have a height or a measure.
const DIMENSIONS: u32 = 0xC000_0000;
/// Collections within collections at most.
const DEPTH_MAX: usize = 32;

const POINT: u32 = 1;
const LINE: u32 = 2;
const POLYGON: u32 = 3;
const POINTS: u32 = 4;
const LINES: u32 = 5;
const POLYGONS: u32 = 6;
const COLLECTION: u32 = 7;

/// Why a value is no geometry, as the rest of a sentence about it.
type Checked<T> = Result<T, &'static str>;

/// Appends the form in which the server keeps `given`.
pub(super) fn push_stored(out: &mut Vec<u8>, given: &[u8]) -> Checked<()> {
    let given = match given.first() {
        // No WKB begins with a digit.
        Some(b'0') => Cow::Owned(decoded(given)?),
        _ => Cow::Borrowed(given),
    };
    let start = out.len();
    out.extend([0; SYSTEM_BYTES]);
    let mut walk = Walk { rest: &given, out };
    let system = walk.geometry(None, 0)?;
    if !walk.rest.is_empty() {
        return Err("goes on behind its end");
    }
    if let Some(system) = system {
        out[start..start + SYSTEM_BYTES].copy_from_slice(&system.to_le_bytes());
    }
    Ok(())
}

fn decoded(digits: &[u8]) -> Checked<Vec<u8>> {
    const WHY: &str = "is neither well-known binary nor its hexadecimal digits";
    let digit = |byte: u8| char::from(byte).to_digit(16).map(|digit| digit as u8);
    if !digits.len().is_multiple_of(2) {
        return Err(WHY);
    }
    let pairs = digits.chunks_exact(2);
    let bytes = pairs.map(|pair| Some(digit(pair[0])? << 4 | digit(pair[1])?));
    bytes.collect::<Option<_>>().ok_or(WHY)
}

/// What is left to be read, and what was written.
struct Walk<'a> {
    rest: &'a [u8],
    out: &'a mut Vec<u8>,
}

#[derive(Clone, Copy)]
enum Order {
    Big,
    Little,
}

impl Walk<'_> {
    fn take<const N: usize>(&mut self) -> Checked<[u8; N]> {
        let (taken, rest) = self.rest.split_first_chunk().ok_or("ends too early")?;
        self.rest = rest;
        Ok(*taken)
    }

    fn number(&mut self, order: Order) -> Checked<u32> {
        let bytes = self.take()?;
        Ok(match order {
            Order::Big => u32::from_be_bytes(bytes),
            Order::Little => u32::from_le_bytes(bytes),
        })
    }

    /// A geometry of type `wanted`, or of any; the number of its reference system.
    fn geometry(&mut self, wanted: Option<u32>, depth: usize) -> Checked<Option<u32>> {
        let order = match self.take()? {
            [0] => Order::Big,
            [1] => Order::Little,
            _ => return Err("is no well-known binary"),
        };
        let word = self.number(order)?;
        let ty = word & !(DIMENSIONS | HAS_SYSTEM);
        if word & DIMENSIONS != 0 || (1_000..4_000).contains(&ty) {
            return Err("has points of more than two dimensions");
        }
        if !(POINT..=COLLECTION).contains(&ty) || wanted.is_some_and(|wanted| wanted != ty) {
            return Err("is of a type that is unknown, or not within this one");
        }
        let system = match word & HAS_SYSTEM {
            0 => None,
            _ if depth > 0 => return Err("names a reference system for a part of it"),
            _ => Some(self.number(order)?),
        };
        self.out.push(1);
        self.out.extend(ty.to_le_bytes());
        match ty {
            POINT => self.point(order).map(drop)?,
            LINE => self.line(order, 1).map(drop)?,
            POLYGON => {
                for _ in 0..self.count(order, 1)? {
                    let (first, last) = self.line(order, 4)?;
                    if first != last {
                        return Err("has a ring that is not closed");
                    }
                }
            }
            _ => {
                let (part, least) = match ty {
                    POINTS => (Some(POINT), 1),
                    LINES => (Some(LINE), 1),
                    POLYGONS => (Some(POLYGON), 1),
                    _ => (None, 0),
                };
                if depth == DEPTH_MAX {
                    return Err("has collections within collections without end");
                }
                for _ in 0..self.count(order, least)? {
                    self.geometry(part, depth + 1)?;
                }
            }
        }
        Ok(system)
    }

    fn count(&mut self, order: Order, least: u32) -> Checked<u32> {
        let count = self.number(order)?;
        if count < least {
            return Err("has fewer points or parts than its type needs");
        }
        self.out.extend(count.to_le_bytes());
        Ok(count)
    }

    /// Points behind their number; the first and the last.
    fn line(&mut self, order: Order, least: u32) -> Checked<([f64; 2], [f64; 2])> {
        let count = self.count(order, least)?;
        let first = self.point(order)?;
        let mut last = first;
        for _ in 1..count {
            last = self.point(order)?;
        }
        Ok((first, last))
    }

    fn point(&mut self, order: Order) -> Checked<[f64; 2]> {
        let mut point = [0.0; 2];
        for coordinate in &mut point {
            let bytes = self.take()?;
            *coordinate = match order {
                Order::Big => f64::from_be_bytes(bytes),
                Order::Little => f64::from_le_bytes(bytes),
            };
            if !coordinate.is_finite() {
                return Err("has a coordinate that is not finite");
            }
            self.out.extend(coordinate.to_le_bytes());
        }
        Ok(point)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stored(given: &[u8]) -> Checked<Vec<u8>> {
        let mut out = Vec::new();
        push_stored(&mut out, given).map(|()| out)
    }

    fn bytes(digits: &str) -> Vec<u8> {
        decoded(digits.as_bytes()).unwrap()
    }

    #[test]
    fn either_byte_order_and_either_form_are_kept_alike() {
        // POINT(1 2)
        let little = "0101000000000000000000F03F0000000000000040";
        let big = "00000000013FF00000000000004000000000000000";
        let kept = bytes("000000000101000000000000000000F03F0000000000000040");
        for given in [
            bytes(little),
            bytes(big),
            little.as_bytes().to_vec(),
            big.to_ascii_lowercase().into_bytes(),
        ] {
            assert_eq!(stored(&given).unwrap(), kept);
        }
        // SRID=4326;POINT(1 2)
        let extended = "0101000020E6100000000000000000F03F0000000000000040";
        let kept = bytes("E61000000101000000000000000000F03F0000000000000040");
        assert_eq!(stored(&bytes(extended)).unwrap(), kept);
    }

    #[test]
    fn what_is_no_geometry_is_told() {
        let nan = "0101000000000000000000F87F0000000000000040";
        let height = "01010000800000000000000000000000000000000000000000000000";
        let iso_height = "01E90300000000000000000000000000000000000000000000000000";
        let ring = "0103000000010000000400000000000000000000000000000000000000000000000000F03F00000000000000000000\
                    00000000F03F000000000000F03F00000000000000400000000000000040";
        let line_of_points = "010400000001000000010200000000000000";
        let nested = "010700000001000000".repeat(DEPTH_MAX + 2);
        for (given, wanted) in [
            ("", "ends too early"),
            ("0101000000", "ends too early"),
            ("02", "is no well-known binary"),
            (
                "0108000000",
                "is of a type that is unknown, or not within this one",
            ),
            (
                line_of_points,
                "is of a type that is unknown, or not within this one",
            ),
            (height, "has points of more than two dimensions"),
            (iso_height, "has points of more than two dimensions"),
            (nan, "has a coordinate that is not finite"),
            (ring, "has a ring that is not closed"),
            (
                "010200000000000000",
                "has fewer points or parts than its type needs",
            ),
            ("0102000000FFFFFFFF", "ends too early"),
            ("01070000000000000000", "goes on behind its end"),
            (nested.as_str(), "has collections within collections without end"),
        ] {
            assert_eq!(stored(&bytes(given)).unwrap_err(), wanted, "{given}");
        }
        assert_eq!(stored(b"POINT(1 2)").unwrap_err(), "is no well-known binary");
        for text in [b"0x0101".as_slice(), b"010", b"01g0"] {
            assert_eq!(
                stored(text).unwrap_err(),
                "is neither well-known binary nor its hexadecimal digits"
            );
        }
    }
}
