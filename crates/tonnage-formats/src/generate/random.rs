//! Random numbers that are the same on every platform and in every release.
//!
//! Invariants: the numbers of a row are a pure function of (seed, stream, row), so rows can be made in any
//! order and by any number of threads; everything is wrapping 64-bit integer arithmetic, never a float; and
//! nothing here may change, because files that were generated once must come out the same again.
//!
//! The generator is splitmix64 (Steele, Lea, Flood, "Fast splittable pseudorandom number generators", 2014):
//! a counter that moves by the golden ratio, and a finaliser that is a bijection of 64 bits.

/// 2^64 divided by the golden ratio, made odd: the step of splitmix64.
const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// The finaliser of splitmix64. It is a bijection: different inputs have different outputs.
pub fn mix(mut x: u64) -> u64 {
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// Where the numbers of a seed and a stream begin. Streams of one seed have nothing to do with each other.
pub fn base(seed: u64, stream: u64) -> u64 {
    mix(mix(seed.wrapping_add(GOLDEN)) ^ mix(stream.wrapping_mul(GOLDEN)))
}

/// One number for one row; of one base, no two rows have the same.
pub fn hash(base: u64, row: u64) -> u64 {
    mix(base.wrapping_add(row.wrapping_mul(GOLDEN)))
}

/// The sequence of numbers of one row.
#[derive(Debug, Clone)]
pub struct Random {
    state: u64,
}

impl Random {
    /// The numbers of `row`, within what [`base`] gave for a seed and a stream.
    pub fn of_row(base: u64, row: u64) -> Self {
        Self {
            state: hash(base, row),
        }
    }

    /// The next 64 random bits.
    pub fn draw(&mut self) -> u64 {
        self.state = self.state.wrapping_add(GOLDEN);
        mix(self.state)
    }

    /// A number from 0 to `bound - 1`, by multiplication (Lemire, 2019). The bias is below bound / 2^64.
    pub fn below(&mut self, bound: u64) -> u64 {
        below(self.draw(), bound)
    }

    /// Appends `count` characters of `alphabet`, eight a draw. Of 256 letters or fewer some may come up to
    /// once in 256 draws more often than others, which nobody who loads them can tell.
    pub fn push_letters(&mut self, out: &mut Vec<u8>, alphabet: &[u8], count: usize) {
        let letters = alphabet.len() as u64;
        let mut left = count;
        while left > 0 {
            let mut bits = self.draw();
            let mut eight = [0_u8; 8];
            for letter in &mut eight {
                *letter = alphabet[(((bits & 0xff) * letters) >> 8) as usize];
                bits >>= 8;
            }
            let taken = left.min(8);
            out.extend_from_slice(&eight[..taken]);
            left -= taken;
        }
    }
}

/// Brings 64 random bits to a number from 0 to `bound - 1`.
pub fn below(bits: u64, bound: u64) -> u64 {
    ((u128::from(bits) * u128::from(bound)) >> 64) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_splitmix64() {
        // The first outputs of the reference implementation for the state 0.
        let mut random = Random { state: 0 };
        let drawn: Vec<u64> = (0..3).map(|_| random.draw()).collect();
        assert_eq!(
            drawn,
            [
                0xe220_a839_7b1d_cdaf,
                0x6e78_9e6a_a1b9_65f4,
                0x06c4_5d18_8009_454f
            ]
        );
    }

    #[test]
    fn rows_streams_and_seeds_differ() {
        let numbers = [(1, 1, 0), (1, 1, 1), (1, 2, 0), (2, 1, 0)]
            .map(|(seed, stream, row)| hash(base(seed, stream), row));
        for (i, a) in numbers.iter().enumerate() {
            assert!(!numbers[..i].contains(a));
        }
    }

    #[test]
    fn below_stays_below_and_reaches_both_ends() {
        let mut random = Random::of_row(base(1, 1), 7);
        let drawn: Vec<u64> = (0..1000).map(|_| random.below(10)).collect();
        assert_eq!((drawn.iter().min(), drawn.iter().max()), (Some(&0), Some(&9)));
        assert_eq!(below(u64::MAX, 10), 9);
        assert_eq!(below(0, 10), 0);
    }

    #[test]
    fn letters_are_as_many_as_asked_for_and_of_the_alphabet() {
        for count in [0, 1, 7, 8, 9, 50] {
            let mut out = Vec::new();
            Random::of_row(0, 1).push_letters(&mut out, b"abc", count);
            assert_eq!(out.len(), count);
            assert!(out.iter().all(|c| b"abc".contains(c)));
        }
    }
}
