//! Journals, from any bytes: see [`crate::fuzz`].

use super::journal::fuzz;

/// A segment of a journal and what makes it whole: its frames as they are, and the same bytes as a frame whose checksum
/// is right.
pub fn journal(bytes: &[u8]) {
    fuzz::segment(bytes);
    fuzz::frame(bytes);
}
