//! Writes an object, in parts where it is large. Nothing can be seen before it is finished.

use std::{
    collections::VecDeque,
    io::{self, Write},
    mem,
    sync::Arc,
    time::Duration,
};

use bytes::Bytes;
use object_store::{
    MultipartUpload, ObjectStore, ObjectStoreExt, PutMode, PutMultipartOptions, PutOptions, PutPayload,
    path::Path,
};
use tonnage_core::error::{Error, Result};

use super::{
    error::{Doing, exists, of_store},
    runtime::{self, Pending},
    store::{locate, refuse_http},
    url::redacted,
};

/// Bytes of the first parts. S3 takes 10,000 parts of one object, so later ones are larger.
const PART_BYTES: usize = 16 << 20;
const PARTS_OF_A_SIZE: usize = 2_500;

/// The most parts: 600 GB.
const PARTS_MAX: usize = 10_000;

/// Parts under way while the next one is filled.
const PARTS_UNDER_WAY: usize = 4;

/// What a writer holds until it has written 40 GB.
pub const WRITE_BYTES_MAX: u64 = (PARTS_UNDER_WAY as u64 + 1) * PART_BYTES as u64;

/// The longest that taking back an upload may take.
const ABORT_SECONDS_MAX: Duration = Duration::from_secs(30);

/// Writes one object. Dropped before [`ObjectWriter::finish`], it takes back what was uploaded.
pub struct ObjectWriter {
    shown: String,
    store: Arc<dyn ObjectStore>,
    path: Path,
    overwrite: bool,
    buffer: Vec<u8>,
    parts: usize,
    upload: Option<Box<dyn MultipartUpload>>,
    under_way: VecDeque<Pending<object_store::Result<()>>>,
}

impl ObjectWriter {
    /// Refuses what [`ObjectWriter::create`] would refuse; makes nothing.
    pub fn check(url: &str, overwrite: bool) -> Result<()> {
        refuse_http(url)?;
        let shown = redacted(url);
        if url.ends_with('/') {
            return Err(Error::config(format!("'{shown}' names no object"))
                .hint(format!("name one: {shown}rows.csv")));
        }
        if !overwrite && super::store::exists(url)? {
            return Err(exists(&shown));
        }
        Ok(())
    }

    /// Of the object that `url` names. `Config` where it is there and not to be replaced.
    pub fn create(url: &str, overwrite: bool) -> Result<Self> {
        Self::check(url, overwrite)?;
        let shown = redacted(url);
        let owned = url.to_owned();
        let located = runtime::wait(async move { locate(&owned).await }).map_err(Error::bug)??;
        Ok(Self {
            path: located.path()?,
            store: located.store,
            shown,
            overwrite,
            buffer: Vec::new(),
            parts: 0,
            upload: None,
            under_way: VecDeque::new(),
        })
    }

    /// Uploads what has been written so far, so that [`ObjectWriter::finish`] has one request left. An object that fits
    /// one part waits.
    pub fn settle(&mut self) -> Result<()> {
        if self.upload.is_none() {
            return Ok(());
        }
        if !self.buffer.is_empty() {
            self.send().map_err(|cause| self.failed(cause))?;
        }
        self.wait_for(0).map_err(|cause| self.failed(cause))
    }

    /// Makes the object visible.
    pub fn finish(mut self) -> Result<()> {
        self.settle()?;
        let failed = |shown: &str, cause: object_store::Error| of_store(Doing::Write, shown, &cause);
        let (store, path) = (self.store.clone(), self.path.clone());
        let Some(mut upload) = self.upload.take() else {
            let bytes: Bytes = mem::take(&mut self.buffer).into();
            let options = PutOptions::from(match self.overwrite {
                true => PutMode::Overwrite,
                false => PutMode::Create,
            });
            let put = runtime::wait(async move {
                match store
                    .put_opts(&path, PutPayload::from(bytes.clone()), options)
                    .await
                {
                    // Not every store can put on a condition; whether it is there was looked at before.
                    Err(
                        object_store::Error::NotImplemented { .. } | object_store::Error::NotSupported { .. },
                    ) => store.put(&path, PutPayload::from(bytes)).await,
                    done => done,
                }
            });
            return match put.map_err(Error::bug)? {
                Ok(_) => Ok(()),
                Err(cause) => Err(failed(&self.shown, cause)),
            };
        };
        // A store completes an upload without a condition, so this is as near as it can be.
        if !self.overwrite {
            let (head, at) = (store.clone(), path.clone());
            let there = runtime::wait(async move { head.head(&at).await }).map_err(Error::bug)?;
            if there.is_ok() {
                self.upload = Some(upload);
                return Err(exists(&self.shown));
            }
        }
        let completed = runtime::wait(async move {
            let done = upload.complete().await;
            (done, upload)
        });
        match completed.map_err(Error::bug)? {
            (Ok(_), _) => Ok(()),
            (Err(cause), upload) => {
                self.upload = Some(upload);
                Err(failed(&self.shown, cause))
            }
        }
    }

    fn failed(&self, cause: io::Error) -> Error {
        super::error::of_io(cause).unwrap_or_else(|cause| {
            Doing::Write
                .error(format!("cannot write {}: {cause}", self.shown))
                .hint("look at the network and at the store")
        })
    }

    /// Bytes of the part that is being filled.
    fn part_bytes(&self) -> usize {
        PART_BYTES << (self.parts / PARTS_OF_A_SIZE)
    }

    /// Begins to upload what is in the buffer as a part.
    fn send(&mut self) -> io::Result<()> {
        let shown = self.shown.clone();
        if self.parts == PARTS_MAX {
            let full = Doing::Write.error(format!(
                "cannot write {shown}: an object has at most {PARTS_MAX} parts"
            ));
            return Err(io::Error::other(
                full.hint("write several files: -o with {} in the name, or --split"),
            ));
        }
        let mut upload = match self.upload.take() {
            Some(upload) => upload,
            None => {
                let (store, path) = (self.store.clone(), self.path.clone());
                let begun = runtime::wait(async move {
                    store
                        .put_multipart_opts(&path, PutMultipartOptions::default())
                        .await
                });
                begun?.map_err(|cause| io::Error::other(of_store(Doing::Write, &shown, &cause)))?
            }
        };
        self.wait_for(PARTS_UNDER_WAY - 1)?;
        let bytes: Bytes = mem::take(&mut self.buffer).into();
        let part = upload.put_part(PutPayload::from(bytes));
        self.upload = Some(upload);
        self.parts += 1;
        self.under_way.push_back(runtime::start(part)?);
        Ok(())
    }

    /// Waits until at most `left` parts are under way.
    fn wait_for(&mut self, left: usize) -> io::Result<()> {
        while self.under_way.len() > left
            && let Some(part) = self.under_way.pop_front()
        {
            let sent = part.wait()?;
            sent.map_err(|cause| io::Error::other(of_store(Doing::Write, &self.shown, &cause)))?;
        }
        Ok(())
    }
}

impl Write for ObjectWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let room = self.part_bytes() - self.buffer.len();
        let count = room.min(bytes.len());
        self.buffer.extend_from_slice(&bytes[..count]);
        if self.buffer.len() == self.part_bytes() {
            self.send()?;
        }
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for ObjectWriter {
    fn drop(&mut self) {
        let Some(mut upload) = self.upload.take() else {
            return;
        };
        self.under_way.clear();
        let aborted =
            runtime::wait(async move { tokio::time::timeout(ABORT_SECONDS_MAX, upload.abort()).await });
        let why = match aborted {
            Ok(Ok(Ok(()))) => return,
            Ok(Ok(Err(cause))) => super::error::chain(&cause),
            Ok(Err(_)) => format!("no answer for {} s", ABORT_SECONDS_MAX.as_secs()),
            Err(cause) => cause.to_string(),
        };
        tracing::error!(
            object = self.shown,
            why,
            "an upload could not be taken back: its parts cost money until they are removed (aws s3api \
             list-multipart-uploads, abort-multipart-upload)"
        );
    }
}

/// Writes a small object at once, replacing what is there.
pub fn write_whole(url: &str, bytes: Vec<u8>) -> Result<()> {
    let mut writer = ObjectWriter::create(url, true)?;
    let written = writer.write_all(&bytes);
    written.map_err(|cause| writer.failed(cause))?;
    writer.finish()
}
