//! Journals, from any bytes: see `fuzz`.

use super::journal::fuzz;

/// A segment of a journal and what makes it whole: its frames as they are, and the same bytes as a frame whose checksum
/// is right.
pub fn journal(bytes: &[u8]) {
    fuzz::segment(bytes);
    fuzz::frame(bytes);
}

#[cfg(test)]
mod tests {
    use tonnage_testing::corpus::check;

    use super::*;

    #[test]
    fn corpora_and_what_is_near_them_are_read_without_a_panic() {
        check("journal", journal);
    }
}
