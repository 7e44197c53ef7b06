//! As much of Thrift's compact form as it takes to see what a footer or the head of a page claims, before anything is
//! allocated for it.
//!
//! A value that is not asked for is skipped by its type. Nothing is kept, and nesting is bounded.

use std::io::{self, Read};

/// The most structs and lists within each other.
const DEPTH_MAX: u32 = 64;

/// Types of values, as the form numbers them.
const TRUE: u8 = 1;
const FALSE: u8 = 2;
const BYTE: u8 = 3;
const I16: u8 = 4;
pub(super) const I32: u8 = 5;
const I64: u8 = 6;
const DOUBLE: u8 = 7;
pub(super) const BINARY: u8 = 8;
pub(super) const LIST: u8 = 9;
const SET: u8 = 10;
const MAP: u8 = 11;
pub(super) const STRUCT: u8 = 12;
const UUID: u8 = 13;

/// Why it cannot be read.
pub(super) type Flaw = String;

/// Bytes in the compact form.
pub(super) struct Thrift<R> {
    bytes: R,
    /// Bytes taken so far.
    pub taken: u64,
}

/// What a list says of itself.
pub(super) struct List {
    pub length: u64,
    pub element: u8,
}

impl<R: Read> Thrift<R> {
    pub fn new(bytes: R) -> Self {
        Self { bytes, taken: 0 }
    }

    /// The fields of a struct: `each` takes the value of a field of this number and type, and returns true, or leaves
    /// it to be skipped.
    pub fn fields(
        &mut self,
        mut each: impl FnMut(&mut Self, i16, u8) -> Result<bool, Flaw>,
    ) -> Result<(), Flaw> {
        let mut number = 0i16;
        loop {
            let head = self.byte()?;
            let ty = head & 0x0f;
            if ty == 0 {
                return Ok(());
            }
            number = match head >> 4 {
                0 => i16::try_from(self.signed()?).map_err(|_| "a field has no number".to_owned())?,
                step => number
                    .checked_add(i16::from(step))
                    .ok_or_else(|| "a field has no number".to_owned())?,
            };
            if !each(self, number, ty)? {
                self.skip(ty, 0)?;
            }
        }
    }

    /// The head of a list, behind which its elements follow.
    pub fn list(&mut self) -> Result<List, Flaw> {
        let head = self.byte()?;
        let length = match head >> 4 {
            15 => self.unsigned()?,
            length => u64::from(length),
        };
        Ok(List {
            length,
            element: head & 0x0f,
        })
    }

    /// A number of 32 bits.
    pub fn i32(&mut self) -> Result<i32, Flaw> {
        i32::try_from(self.signed()?).map_err(|_| "a number of 32 bits has more".to_owned())
    }

    /// A value of type `ty` that is of no interest. `depth` counts what it is in.
    pub fn skip(&mut self, ty: u8, depth: u32) -> Result<(), Flaw> {
        if depth > DEPTH_MAX {
            return Err("it is nested too deeply".to_owned());
        }
        match ty {
            TRUE | FALSE => Ok(()),
            BYTE => self.pass(1),
            I16 | I32 | I64 => self.unsigned().map(drop),
            DOUBLE => self.pass(8),
            UUID => self.pass(16),
            BINARY => {
                let length = self.unsigned()?;
                self.pass(length)
            }
            LIST | SET => {
                let list = self.list()?;
                // Every element takes a byte at least, so a length that lies ends with the bytes.
                for _ in 0..list.length {
                    self.skip_element(list.element, depth + 1)?;
                }
                Ok(())
            }
            MAP => {
                let length = self.unsigned()?;
                let types = if length > 0 { self.byte()? } else { 0 };
                for _ in 0..length {
                    self.skip_element(types >> 4, depth + 1)?;
                    self.skip_element(types & 0x0f, depth + 1)?;
                }
                Ok(())
            }
            STRUCT => loop {
                let head = self.byte()?;
                if head & 0x0f == 0 {
                    return Ok(());
                }
                if head >> 4 == 0 {
                    self.signed()?;
                }
                self.skip(head & 0x0f, depth + 1)?;
            },
            _ => Err("a value has an unknown type".to_owned()),
        }
    }

    /// In lists and maps truth values take a byte of their own.
    fn skip_element(&mut self, ty: u8, depth: u32) -> Result<(), Flaw> {
        match ty {
            TRUE | FALSE => self.pass(1),
            ty => self.skip(ty, depth),
        }
    }

    fn byte(&mut self) -> Result<u8, Flaw> {
        let mut byte = [0];
        self.bytes.read_exact(&mut byte).map_err(|_| too_early())?;
        self.taken += 1;
        Ok(byte[0])
    }

    fn pass(&mut self, count: u64) -> Result<(), Flaw> {
        let passed = io::copy(&mut self.bytes.by_ref().take(count), &mut io::sink());
        self.taken = self.taken.saturating_add(count);
        match passed {
            Ok(passed) if passed == count => Ok(()),
            _ => Err(too_early()),
        }
    }

    pub fn unsigned(&mut self) -> Result<u64, Flaw> {
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err("a number has more than 64 bits".to_owned())
    }

    fn signed(&mut self) -> Result<i64, Flaw> {
        let value = self.unsigned()?;
        Ok((value >> 1) as i64 ^ -((value & 1) as i64))
    }
}

fn too_early() -> Flaw {
    "it ends too early".to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn skipped(bytes: &[u8]) -> Result<u64, Flaw> {
        let mut thrift = Thrift::new(bytes);
        thrift.skip(STRUCT, 0)?;
        Ok(thrift.taken)
    }

    #[test]
    fn values_of_all_types_are_skipped() {
        // A number, a text, a list of two truth values, a map of a number to a struct without fields, a double.
        let whole = [
            0x15, 0x80, 0x01, 0x18, 2, b'a', b'b', 0x19, 0x21, 1, 2, 0x1b, 1, 0x5c, 4, 0, 0x17, 0, 0, 0, 0,
            0, 0, 0, 0, 0x05, 0x28, 6, 0,
        ];
        assert_eq!(skipped(&whole), Ok(whole.len() as u64));
        for length in 0..whole.len() {
            assert_eq!(skipped(&whole[..length]), Err(too_early()), "{length}");
        }
    }

    #[test]
    fn lengths_that_lie_and_nesting_end_in_an_error() {
        // A list of 2^62 numbers, a text as long.
        let list = [
            0x19, 0xf5, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x40, 1, 2, 3,
        ];
        assert_eq!(skipped(&list), Err(too_early()));
        let text = [
            0x18, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x40, 1, 2, 3,
        ];
        assert_eq!(skipped(&text), Err(too_early()));
        assert!(skipped(&[0x1c; 1000]).unwrap_err().contains("nested"));
        assert!(skipped(&[0x15; 1].into_iter().chain([0xff; 20]).collect::<Vec<_>>()).is_err());
        assert!(skipped(&[0x1e, 0]).unwrap_err().contains("type"));
    }
}
