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
    Error as StoreError, MultipartUpload, ObjectStore, ObjectStoreExt, PutMode, PutMultipartOptions,
    PutPayload, multipart::PartId, path::Path,
};
use tonnage_core::{
    error::{Error, ErrorKind, Result},
    stop::Stop,
};

use super::{
    error::{Doing, chain, exists, of_store},
    runtime::{self, Pending},
    store::{Uploads, locate, refuse_http},
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

/// An upload in parts that was begun and neither completed nor taken back.
enum Upload {
    /// Of a store that knows it by its id, with the parts that have arrived.
    ById {
        uploads: Uploads,
        id: String,
        parts: Vec<PartId>,
    },
    /// Of any other store.
    Opaque(Box<dyn MultipartUpload>),
}

/// How the completion of an upload ended.
enum Completed {
    Done,
    /// Something else has come under the name.
    Exists,
    Failed(StoreError),
}

/// Writes one object. Dropped before [`ObjectWriter::finish`], it takes back what was uploaded.
pub struct ObjectWriter {
    shown: String,
    store: Arc<dyn ObjectStore>,
    uploads: Option<Uploads>,
    path: Path,
    overwrite: bool,
    buffer: Vec<u8>,
    /// Bytes and parts that were sent.
    sent_bytes: u64,
    parts: usize,
    upload: Option<Upload>,
    stop: Stop,
    under_way: VecDeque<Pending<object_store::Result<Option<PartId>>>>,
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
            uploads: located.uploads,
            shown,
            overwrite,
            buffer: Vec::new(),
            sent_bytes: 0,
            parts: 0,
            upload: None,
            stop: Stop::default(),
            under_way: VecDeque::new(),
        })
    }

    /// The same; a part is no longer waited for once `stop` is asked for, and writing is then `Cancelled`.
    #[must_use]
    pub fn unless(mut self, stop: Stop) -> Self {
        self.stop = stop;
        self
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
        let (store, path) = (self.store.clone(), self.path.clone());
        let Some(upload) = self.upload.take() else {
            let bytes: Bytes = mem::take(&mut self.buffer).into();
            let mode = match self.overwrite {
                true => PutMode::Overwrite,
                false => PutMode::Create,
            };
            let put = runtime::wait(async move { put(&*store, &path, bytes, mode).await });
            return put
                .map_err(Error::bug)?
                .map_err(|cause| of_store(Doing::Write, &self.shown, &cause));
        };
        // Not every store completes an upload on a condition; looking is as near as one can come to it there.
        if !self.overwrite {
            let (head, at) = (store.clone(), path.clone());
            let there = runtime::wait(async move { head.head(&at).await }).map_err(Error::bug)?;
            if there.is_ok() {
                self.upload = Some(upload);
                return Err(exists(&self.shown));
            }
        }
        let (overwrite, bytes) = (self.overwrite, self.sent_bytes);
        let completed =
            runtime::wait(async move { complete(upload, &*store, &path, overwrite, bytes).await });
        let (completed, upload) = completed.map_err(Error::bug)?;
        self.upload = upload;
        match completed {
            Completed::Done => Ok(()),
            Completed::Exists => Err(exists(&self.shown)),
            Completed::Failed(cause) => Err(of_store(Doing::Write, &self.shown, &cause)),
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
                let (store, path, uploads) = (self.store.clone(), self.path.clone(), self.uploads.clone());
                let begun = runtime::start(async move { begin(&*store, uploads, &path).await })?;
                self.waited_for(begun)?
                    .map_err(|cause| io::Error::other(of_store(Doing::Write, &shown, &cause)))?
            }
        };
        // Kept before anything else can fail, so that it is taken back.
        let bytes = PutPayload::from(mem::take(&mut self.buffer));
        let (number, length) = (self.parts, bytes.content_length());
        let part = match &mut upload {
            Upload::Opaque(upload) => {
                let part = upload.put_part(bytes);
                Part::Opaque(part)
            }
            Upload::ById { uploads, id, .. } => Part::ById(uploads.clone(), id.clone(), bytes),
        };
        self.upload = Some(upload);
        self.wait_for(PARTS_UNDER_WAY - 1)?;
        let path = self.path.clone();
        self.under_way.push_back(runtime::start(async move {
            match part {
                Part::Opaque(part) => part.await.map(|()| None),
                Part::ById(uploads, id, bytes) => {
                    let put = uploads.replacing.put_part(&path, &id, number, bytes);
                    put.await.map(Some)
                }
            }
        })?);
        self.parts += 1;
        self.sent_bytes += length as u64;
        Ok(())
    }

    /// What a request gives, unless it is asked to stop before: a store that stands still is asked for minutes.
    fn waited_for<T>(&self, request: Pending<T>) -> io::Result<T> {
        request.wait_unless(&self.stop)?.ok_or_else(|| {
            io::Error::other(Error::new(
                ErrorKind::Cancelled,
                "interrupted; no file was written",
            ))
        })
    }

    /// Waits until at most `left` parts are under way.
    fn wait_for(&mut self, left: usize) -> io::Result<()> {
        while self.under_way.len() > left
            && let Some(part) = self.under_way.pop_front()
        {
            let sent = self.waited_for(part)?;
            let part = sent.map_err(|cause| io::Error::other(of_store(Doing::Write, &self.shown, &cause)))?;
            // They are waited for in the order of their numbers.
            if let (Some(Upload::ById { parts, .. }), Some(part)) = (&mut self.upload, part) {
                parts.push(part);
            }
        }
        Ok(())
    }
}

/// A part that is to be sent.
enum Part {
    Opaque(object_store::UploadPart),
    ById(Uploads, String, PutPayload),
}

async fn begin(
    store: &dyn ObjectStore,
    uploads: Option<Uploads>,
    path: &Path,
) -> object_store::Result<Upload> {
    Ok(match uploads {
        Some(uploads) => Upload::ById {
            id: uploads.replacing.create_multipart(path).await?,
            uploads,
            parts: Vec::new(),
        },
        None => {
            let options = PutMultipartOptions::default();
            Upload::Opaque(store.put_multipart_opts(path, options).await?)
        }
    })
}

/// Puts a small object. Where nothing may be there, and the store cannot look by itself, that was looked at before.
async fn put(store: &dyn ObjectStore, path: &Path, bytes: Bytes, mode: PutMode) -> object_store::Result<()> {
    let is_new = matches!(mode, PutMode::Create);
    let payload = || PutPayload::from(bytes.clone());
    match store.put_opts(path, payload(), mode.into()).await {
        Err(StoreError::NotImplemented { .. } | StoreError::NotSupported { .. }) => {
            store.put(path, payload()).await.map(|_| ())
        }
        // An answer may have been lost, and the object is there.
        Err(cause) if is_new => match store.get(path).await {
            Ok(there) if there.meta.size == bytes.len() as u64 => match there.bytes().await {
                Ok(there) if there == bytes => Ok(()),
                _ => Err(cause),
            },
            _ => Err(cause),
        },
        done => done.map(|_| ()),
    }
}

/// Completes an upload of so many bytes, and gives it back where it is to be taken back.
async fn complete(
    upload: Upload,
    store: &dyn ObjectStore,
    path: &Path,
    overwrite: bool,
    bytes: u64,
) -> (Completed, Option<Upload>) {
    let (uploads, id, parts) = match upload {
        Upload::Opaque(mut upload) => {
            return match upload.complete().await {
                Ok(_) => (Completed::Done, None),
                Err(cause) => (Completed::Failed(cause), Some(Upload::Opaque(upload))),
            };
        }
        Upload::ById { uploads, id, parts } => (uploads, id, parts),
    };
    let by = if overwrite {
        &uploads.replacing
    } else {
        &uploads.creating
    };
    let mut done = by.complete_multipart(path, &id, parts.clone()).await;
    if let Err(cause) = &done
        && !overwrite
        && chain(cause).contains("NotImplemented")
    {
        done = uploads
            .replacing
            .complete_multipart(path, &id, parts.clone())
            .await;
    }
    let Err(cause) = done else {
        return (Completed::Done, None);
    };
    let is_taken = matches!(
        cause,
        StoreError::Precondition { .. } | StoreError::AlreadyExists { .. }
    );
    if is_taken || matches!(cause, StoreError::NotFound { .. }) {
        // It may have been completed, the answer lost and the request repeated. Then there is no such upload any more, and
        // what is there is what it has made.
        let is_gone = matches!(
            uploads.replacing.abort_multipart(path, &id).await,
            Err(StoreError::NotFound { .. })
        );
        let is_there = || async { store.head(path).await.is_ok_and(|there| there.size == bytes) };
        if is_gone && is_there().await {
            return (Completed::Done, None);
        }
    }
    let ended = if is_taken {
        Completed::Exists
    } else {
        Completed::Failed(cause)
    };
    (ended, Some(Upload::ById { uploads, id, parts }))
}

impl Upload {
    /// Takes back what was uploaded.
    async fn abort(self, path: Path) -> object_store::Result<()> {
        match self {
            Self::Opaque(mut upload) => upload.abort().await,
            Self::ById { uploads, id, .. } => match uploads.replacing.abort_multipart(&path, &id).await {
                // There is nothing any more that costs money.
                Err(StoreError::NotFound { .. }) => Ok(()),
                done => done,
            },
        }
    }

    /// What the store calls it.
    fn id(&self) -> Option<&str> {
        match self {
            Self::ById { id, .. } => Some(id),
            Self::Opaque(_) => None,
        }
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
        let Some(upload) = self.upload.take() else {
            return;
        };
        self.under_way.clear();
        let (path, id) = (self.path.clone(), upload.id().unwrap_or("unknown").to_owned());
        let aborted =
            runtime::wait(async move { tokio::time::timeout(ABORT_SECONDS_MAX, upload.abort(path)).await });
        let why = match aborted {
            Ok(Ok(Ok(()))) => return,
            Ok(Ok(Err(cause))) => chain(&cause),
            Ok(Err(_)) => format!("no answer for {} s", ABORT_SECONDS_MAX.as_secs()),
            Err(cause) => cause.to_string(),
        };
        tracing::error!(
            object = self.shown,
            upload = id,
            why,
            "an upload could not be taken back: its parts cost money until they are removed, by a lifecycle rule of the \
             bucket (AbortIncompleteMultipartUpload) or by hand (aws s3api abort-multipart-upload)"
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
