//! Reading rows back that memory had no room for, or that an earlier process left.

use std::{
    fs::File,
    io::Read,
    os::unix::fs::FileExt,
    sync::{Arc, Mutex},
    time::Instant,
};

use tonnage_core::{error::Result, sync::Lock};

use super::{
    super::row::Chunk,
    failed,
    format::{FRAME_HEADER_BYTES, Frame, HEADER_BYTES_MAX, JournalId, SegmentHeader, frame_bytes},
    recover::Segment,
};

/// Reads from one row on, segment after segment.
pub struct Reader {
    id: JournalId,
    segments: Arc<Mutex<Vec<Segment>>>,
    /// The segment at hand: its file, and where the next frame begins.
    at: Option<(Segment, File, u64)>,
}

impl Reader {
    /// At no row yet.
    pub fn new(id: JournalId, segments: Arc<Mutex<Vec<Segment>>>) -> Self {
        Self {
            id,
            segments,
            at: None,
        }
    }

    /// The rows from `from` on, up to `to`, as many as fit in about `bytes_max`; and the last row that is dealt with:
    /// rows in between that were lost have been reported when the journal was opened.
    pub fn read(&mut self, from: u64, to: u64, bytes_max: usize) -> Result<(Vec<Chunk>, u64)> {
        let mut chunks = Vec::new();
        let mut bytes = 0;
        let mut next = from;
        while next <= to && bytes < bytes_max {
            let Some(frame) = self.frame(next)? else {
                return Ok((chunks, to));
            };
            if frame.last() < next {
                continue;
            }
            let last = frame.last();
            let chunk = Chunk {
                first: frame.first,
                born: Instant::now(),
                rows: frame.rows()?,
                tag: None,
            };
            if let Some(chunk) = chunk.after(next - 1) {
                bytes += chunk.rows.bytes();
                chunks.push(chunk);
            }
            next = last + 1;
        }
        Ok((chunks, next - 1))
    }

    /// The next whole frame; none where there is no further one.
    fn frame(&mut self, wanted: u64) -> Result<Option<Frame>> {
        loop {
            let Some((segment, file, offset)) = &mut self.at else {
                if !self.open(|segment| segment.last >= wanted)? {
                    return Ok(None);
                }
                continue;
            };
            let (path, id) = (&segment.path, self.id.segment(segment.number));
            // After its frames comes filler; and a segment that is gone has none that are wanted.
            let segments = self.segments.locked();
            let now = segments.iter().find(|now| now.number == segment.number);
            let end = now.map_or(*offset, |now| now.bytes);
            drop(segments);
            let read = |at: u64, bytes: usize| {
                let mut buffer = vec![0; bytes];
                let read = file.read_exact_at(&mut buffer, at);
                read.map(|()| buffer).map_err(|e| failed(path, &e))
            };
            if *offset < end {
                let header = read(*offset, FRAME_HEADER_BYTES.min((end - *offset) as usize))?;
                let whole = frame_bytes(&header).filter(|bytes| *offset + *bytes as u64 <= end);
                if let Some(bytes) = whole
                    && let Some((frame, bytes)) = Frame::decode(&read(*offset, bytes)?, id, *offset)
                {
                    *offset += bytes as u64;
                    return Ok(Some(frame));
                }
                // Damaged: what comes next is searched for, in what is at most a segment.
                let rest = read(*offset, (end - *offset) as usize)?;
                if let Some((frame, at, bytes)) = Frame::search(&rest, id, *offset) {
                    *offset += (at + bytes) as u64;
                    return Ok(Some(frame));
                }
            }
            let after = segment.number;
            if !self.open(|segment| segment.number > after && segment.last >= wanted)? {
                return Ok(None);
            }
        }
    }

    /// Opens the first segment that is `right`; false where there is none.
    fn open(&mut self, right: impl Fn(&Segment) -> bool) -> Result<bool> {
        let segments = self.segments.locked();
        let Some(segment) = segments.iter().find(|segment| right(segment)).cloned() else {
            return Ok(false);
        };
        drop(segments);
        let file = File::open(&segment.path).map_err(|e| failed(&segment.path, &e))?;
        let mut header = Vec::new();
        let most = (&file).take(HEADER_BYTES_MAX).read_to_end(&mut header);
        most.map_err(|e| failed(&segment.path, &e))?;
        // A damaged header is as good as none: frames are searched for from the beginning.
        let header = SegmentHeader::decode(&header, self.id.segment(segment.number));
        let offset = header.map_or(0, |(_, length)| length as u64);
        self.at = Some((segment, file, offset));
        Ok(true)
    }
}
