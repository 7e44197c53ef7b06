//! Segments and frames, from any bytes: see `fuzz`.

use std::fs;

use tonnage_testing::corpus::with_directory;

use super::{
    format::{Frame, JournalId, SegmentHeader, SegmentId, sealed},
    recover,
};

const ID: SegmentId = SegmentId {
    journal: JournalId(*b"0123456789abcdef"),
    number: 1,
};

/// Opens a journal that has these bytes as its only segment.
pub(in crate::buffer) fn segment(bytes: &[u8]) {
    with_directory(|directory| {
        let directory = directory.join("journal");
        fs::create_dir_all(&directory).expect("there is room");
        fs::write(directory.join(recover::file_name(ID.number)), bytes).expect("there is room");
        let found = recover::find(&directory, ID.journal).expect("the files can be read");
        assert_eq!(found.segments.len() + found.leftovers.len(), 1);
        for segment in &found.segments {
            assert!(segment.bytes <= segment.length && segment.length == bytes.len() as u64);
        }
        if let Some(torn) = &found.torn {
            assert!(torn.offset + torn.bytes <= bytes.len() as u64);
        }
        assert!(found.lost.iter().all(|lost| lost.first <= lost.last));
    });
}

/// Reads the bytes as a header and as a frame, with the lengths and checksums that make them whole: what holds any bytes
/// off is not tried again by chance.
pub(in crate::buffer) fn frame(bytes: &[u8]) {
    let (header, frame) = sealed(bytes, ID);
    if let Some((decoded, length)) = SegmentHeader::decode(&header, ID) {
        assert!(length > 0);
        let again = decoded.encode(ID);
        assert_eq!(
            SegmentHeader::decode(&again, ID).map(|(header, _)| header),
            Some(decoded)
        );
    }
    if let Some((frame, length)) = Frame::decode(&frame, ID, header.len() as u64) {
        assert!(length > 0 && frame.last() >= frame.first);
        let count = frame.count;
        if let Ok(rows) = frame.rows() {
            assert_eq!(rows.count(), count);
        }
    }
    // By itself, and over what the file held before.
    segment(&[&*header, &frame].concat());
    segment(&[&*header, &frame, bytes].concat());
}
