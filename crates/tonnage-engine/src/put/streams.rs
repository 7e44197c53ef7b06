//! Many streams as one source: some of them are read at once, each on a separate thread.
//!
//! A block holds rows of one stream, and the blocks of a stream come in their order. What is read ahead is bounded by
//! [`BLOCKS_AHEAD`] and the number of threads.

use std::{
    collections::VecDeque,
    sync::{
        Arc, Mutex,
        mpsc::{Receiver, SyncSender, sync_channel},
    },
    thread,
};

use tonnage_core::{
    error::{Error, ErrorKind, Result},
    extent::Extent,
    ledger::InputIdentity,
    reader::BeyondArrow,
    slot::BlockMark,
    source::{Block, ReadRequest, Source, SourceSchema, SourceTableInfo},
    sync::Lock,
};

use super::tally::Tally;

/// Blocks that wait to be taken, in addition to the one that each thread is filling.
const BLOCKS_AHEAD: usize = 1;

/// A stream that is still to be read, and its number.
type Waiting = Arc<Mutex<VecDeque<(usize, Box<dyn Source>)>>>;

enum Read {
    Block(usize, Box<Block>),
    /// All of the stream's blocks have come.
    End(usize),
    Failed(usize, Error),
}

/// See the module.
pub(super) struct Streams {
    schema: SourceSchema,
    waiting: Waiting,
    parallelism: usize,
    names: Vec<Arc<str>>,
    tally: Arc<Tally>,
    /// Blocks of the threads, once these were started.
    blocks: Option<Receiver<Read>>,
    /// Streams that have not ended.
    left: usize,
    index: u64,
    at: BlockMark,
}

impl Streams {
    /// Of streams with the same columns, of which `parallelism` are read at once. `Config` where there is none, or where
    /// columns differ.
    pub fn new(streams: Vec<Box<dyn Source>>, parallelism: usize, tally: Arc<Tally>) -> Result<Self> {
        let Some(first) = streams.first() else {
            return Err(
                Error::config("there is no stream to put").hint(".batches(..) or .rows(..) adds some")
            );
        };
        if parallelism == 0 {
            return Err(Error::config("at least one stream has to be read at a time"));
        }
        let mut schema = first.schema().clone();
        schema.shown = "the streams".into();
        for (at, stream) in streams.iter().enumerate() {
            let own = stream.schema();
            let column = |schema: &SourceSchema| -> Vec<_> {
                let columns = schema.columns.iter();
                columns
                    .map(|column| (column.name.clone(), column.arrow.clone()))
                    .collect()
            };
            if own.text != schema.text || own.named != schema.named || column(own) != column(&schema) {
                return Err(Error::config(format!(
                    "stream {at} has other columns than stream 0: all streams of a put have the same"
                )));
            }
            for (column, own) in schema.columns.iter_mut().zip(&own.columns) {
                if own.beyond_arrow == BeyondArrow::Refused {
                    column.beyond_arrow = BeyondArrow::Refused;
                }
            }
        }
        let count = streams.len();
        Ok(Self {
            schema,
            names: (0..count).map(name).collect(),
            waiting: Arc::new(Mutex::new(streams.into_iter().enumerate().collect())),
            parallelism: parallelism.min(count),
            tally,
            blocks: None,
            left: count,
            index: 0,
            at: BlockMark::default(),
        })
    }
}

const PREFIX: &str = "stream ";

/// What rejects call a stream.
pub(super) fn name(stream: usize) -> Arc<str> {
    format!("{PREFIX}{stream}").into()
}

/// The stream of that name; none for what is no stream's.
pub(super) fn number(name: &str) -> Option<usize> {
    name.strip_prefix(PREFIX)?.parse().ok()
}

/// Reads streams to their ends, one after another, until none is left or nobody takes their blocks.
fn read(waiting: &Waiting, blocks: &SyncSender<Read>) {
    loop {
        let next = waiting.locked().pop_front();
        let Some((stream, mut source)) = next else { return };
        loop {
            let read = match source.next() {
                Ok(Some(block)) => Read::Block(stream, Box::new(block)),
                Ok(None) => Read::End(stream),
                Err(error) => Read::Failed(stream, error),
            };
            let is_last = !matches!(read, Read::Block(..));
            if blocks.send(read).is_err() {
                return;
            }
            if is_last {
                break;
            }
        }
    }
}

impl Source for Streams {
    fn schema(&self) -> &SourceSchema {
        &self.schema
    }

    fn identity(&self) -> Option<Vec<InputIdentity>> {
        None
    }

    fn not_rereadable(&self) -> &'static str {
        "the streams come from the program"
    }

    fn extents(&self) -> &[Extent] {
        &[]
    }

    fn table_info(&self) -> Option<&SourceTableInfo> {
        None
    }

    fn options(&self) -> Vec<String> {
        Vec::new()
    }

    fn remarks(&self) -> Vec<String> {
        Vec::new()
    }

    fn bytes_total(&self) -> Option<u64> {
        None
    }

    fn request(&mut self, request: &ReadRequest) -> Result<()> {
        {
            let mut waiting = self.waiting.locked();
            for (_, stream) in waiting.iter_mut() {
                stream.request(request)?;
            }
        }
        let (send, blocks) = sync_channel(BLOCKS_AHEAD);
        for _ in 0..self.parallelism {
            let (waiting, send) = (self.waiting.clone(), send.clone());
            // Ends by itself: when all streams are read, or with the next block that nobody takes.
            thread::Builder::new()
                .name("stream".to_owned())
                .spawn(move || read(&waiting, &send))
                .map_err(|error| {
                    Error::new(ErrorKind::Refused, format!("no thread could be started: {error}"))
                })?;
        }
        self.blocks = Some(blocks);
        Ok(())
    }

    fn seek(&mut self, _: u64, _: &BlockMark) -> Result<()> {
        Err(Error::input("the streams cannot be read again"))
    }

    fn next(&mut self) -> Result<Option<Block>> {
        let Some(blocks) = &self.blocks else {
            return Err(Error::bug("a block was asked for before the columns were"));
        };
        while self.left > 0 {
            let Ok(read) = blocks.recv() else {
                return Err(Error::input("a stream panicked while it was read"));
            };
            match read {
                Read::End(stream) => {
                    self.left -= 1;
                    self.tally.ended(stream);
                }
                Read::Failed(stream, error) => return Err(error.at(format!("stream {stream}"))),
                Read::Block(stream, mut block) => {
                    let rows = block.end.rows - block.start.rows;
                    block.index = self.index;
                    self.index += 1;
                    block.start = self.at;
                    self.at = BlockMark {
                        file_rows: self.at.file_rows + rows,
                        rows: self.at.rows + rows,
                        ..self.at
                    };
                    block.end = self.at;
                    let shown = &self.names[stream];
                    block.origin.file = shown.clone();
                    block
                        .rejects
                        .iter_mut()
                        .for_each(|reject| reject.file = shown.clone());
                    self.tally.read(stream, block.index, rows);
                    return Ok(Some(*block));
                }
            }
        }
        Ok(None)
    }
}
