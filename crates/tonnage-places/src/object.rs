//! One version of one object.

use std::{
    fmt, io,
    ops::Range,
    sync::{Arc, Mutex},
    time::Duration,
};

use bytes::{Bytes, BytesMut};
use futures::{StreamExt, TryStreamExt, stream::BoxStream};
use object_store::{GetOptions, GetRange, ObjectMeta, ObjectStore, path::Path};
use tonnage_core::{
    error::{Error, Result},
    sync::Lock,
};

use super::{
    error::{Doing, changed, of_store},
    http::{HttpUrl, Looked},
    kept, runtime,
    store::Located,
    url::name_of,
};

/// A connection that brings nothing for this long is given up and made anew.
pub(crate) const STALLED_SECONDS: Duration = Duration::from_secs(30);

/// How often one range is asked for again without a byte more of it, and the pause before the second time; each further
/// one is twice as long.
const ATTEMPTS_MAX: u32 = 6;
const FIRST_PAUSE: Duration = Duration::from_millis(100);

/// The bytes of an answer as they come.
pub(crate) type Body = BoxStream<'static, Result<Bytes, String>>;

/// Why a request has no answer.
pub(crate) enum Asked {
    /// The next one may have.
    Again(Error),
    Failed(Error),
}

/// What tells one version of an object from another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Version {
    /// Size; none where the server does not say.
    pub bytes: Option<u64>,
    pub etag: Option<String>,
    /// When it was written, in the words of HTTP.
    pub modified: Option<String>,
}

/// One version of an object, and how to ask for it. A clone is the same object.
#[derive(Clone)]
pub struct Object(Arc<Inner>);

pub(crate) struct Inner {
    shown: String,
    version: Version,
    modified_seconds: Option<i64>,
    origin: Origin,
    /// What went wrong first with reading it, until somebody asks.
    failure: Mutex<Option<Error>>,
}

enum Origin {
    Store { store: Arc<dyn ObjectStore>, path: Path },
    Http { url: Box<HttpUrl>, has_ranges: bool },
}

impl fmt::Debug for Object {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Object({}, {:?})", self.0.shown, self.0.version)
    }
}

impl PartialEq for Object {
    fn eq(&self, other: &Self) -> bool {
        self.0.shown == other.0.shown && self.0.version == other.0.version
    }
}

impl Object {
    /// What a store has listed.
    pub(crate) fn of_meta(located: &Located, meta: ObjectMeta) -> Self {
        Self(Arc::new(Inner {
            shown: located.url(&meta.location),
            version: Version {
                bytes: Some(meta.size),
                etag: meta.e_tag.map(quoted),
                modified: None,
            },
            // Lists have milliseconds, objects by themselves have seconds.
            modified_seconds: Some(meta.last_modified.timestamp()),
            origin: Origin::Store {
                store: located.store.clone(),
                path: meta.location,
            },
            failure: Mutex::new(None),
        }))
    }

    /// What a web server has.
    pub(crate) async fn of_http(url: &str) -> Result<Self> {
        let url = HttpUrl::parse(url)?;
        let Looked {
            version,
            has_ranges,
            beginning,
        } = url.look().await?;
        let modified = version.modified.as_deref();
        let modified = modified.and_then(|said| jiff::fmt::rfc2822::parse(said).ok());
        let object = Self(Arc::new(Inner {
            shown: url.shown.clone(),
            modified_seconds: modified.map(|said| said.timestamp().as_second()),
            version,
            origin: Origin::Http {
                url: Box::new(url),
                has_ranges,
            },
            failure: Mutex::new(None),
        }));
        if let Some(beginning) = beginning {
            kept::keep(&object, 0, beginning);
        }
        Ok(object)
    }

    /// Its URL, without what may be a secret.
    pub fn url(&self) -> &str {
        &self.0.shown
    }

    /// Whether it is the same one, found by the same request.
    pub(crate) fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// Asks for its beginning, which will soon be read.
    pub fn foresee_beginning(&self) {
        kept::foresee_beginning(self);
    }

    /// Asks for its end, which will soon be read.
    pub fn foresee_end(&self) {
        kept::foresee_end(self);
    }

    /// What would be its name as a file.
    pub fn name(&self) -> String {
        name_of(&self.0.shown)
    }

    /// Its size; none where only reading it tells.
    pub fn bytes(&self) -> Option<u64> {
        self.0.version.bytes
    }

    /// Whether it can be read from any place, and so again.
    pub fn has_ranges(&self) -> bool {
        match &self.0.origin {
            Origin::Store { .. } => true,
            Origin::Http { has_ranges, .. } => *has_ranges,
        }
    }

    /// What a store calls this version, or where it has no name for it the time of writing; none where it says neither.
    pub fn version(&self) -> Option<String> {
        let etag = self.0.version.etag.as_ref().map(|etag| format!("etag:{etag}"));
        etag.or_else(|| Some(format!("modified:{}", self.0.modified_seconds?)))
    }

    /// The name by which the store tells this version from every other, byte for byte; none where it has none.
    pub fn strong_etag(&self) -> Option<&str> {
        let etag = self.0.version.etag.as_deref();
        etag.filter(|etag| !etag.starts_with("W/"))
    }

    /// When it was written, in nanoseconds since 1970, exact to the second; 0 where nobody says.
    pub fn modified_nanos(&self) -> i128 {
        i128::from(self.0.modified_seconds.unwrap_or(0)) * 1_000_000_000
    }

    /// What went wrong first with reading it since this was asked last: of readers whose own error says less.
    pub fn failure(&self) -> Option<Error> {
        self.0.failure.locked().take()
    }

    /// Begins to ask for a range of it.
    pub(crate) fn ask(&self, range: Range<u64>) -> io::Result<runtime::Pending<Result<Bytes>>> {
        let inner = self.0.clone();
        runtime::start(async move { inner.fetch(range).await })
    }

    /// An error of reading it, as one of input and output; [`Object::failure`] gives it too.
    pub(crate) fn failed(&self, error: Error) -> io::Error {
        let said = io::Error::other(error.to_string());
        self.0.failure.locked().get_or_insert(error);
        said
    }

    /// All of it from the beginning, as it comes.
    pub fn stream(&self) -> io::Result<impl io::Read + Send + 'static> {
        let (sender, receiver) = tokio::sync::mpsc::channel(STREAMED_CHUNKS);
        let inner = self.0.clone();
        let task = runtime::start(async move {
            let end = inner.send_whole(&sender).await;
            if let Err(error) = end {
                // Nobody may read any more.
                let _ = sender.send(Err(error)).await;
            }
        })?;
        Ok(Stream {
            object: self.clone(),
            chunk: Bytes::new(),
            chunks: Some(receiver),
            _task: task,
        })
    }
}

/// Chunks that wait to be read, of 8 to 256 KiB each.
const STREAMED_CHUNKS: usize = 64;

/// Reads an object that has no ranges.
struct Stream {
    object: Object,
    chunk: Bytes,
    chunks: Option<tokio::sync::mpsc::Receiver<Result<Bytes>>>,
    _task: runtime::Pending<()>,
}

impl io::Read for Stream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.chunk.is_empty() {
            let Some(mut chunks) = self.chunks.take() else {
                return Ok(0);
            };
            let (next, chunks) = match chunks.try_recv() {
                Ok(next) => (Some(next), chunks),
                Err(_) => runtime::wait(async move { (chunks.recv().await, chunks) })?,
            };
            match next {
                None => return Ok(0),
                Some(Err(error)) => return Err(self.object.failed(error)),
                Some(Ok(chunk)) => (self.chunk, self.chunks) = (chunk, Some(chunks)),
            }
        }
        let count = self.chunk.len().min(buffer.len());
        buffer[..count].copy_from_slice(&self.chunk.split_to(count));
        Ok(count)
    }
}

/// An ETag as it stands in answers and conditions; lists of Azure have them without quotes.
fn quoted(etag: String) -> String {
    match etag.ends_with('"') {
        true => etag,
        false => format!("\"{etag}\""),
    }
}

impl Inner {
    /// The bytes of a range. An answer that is cut off or stands still is gone on with where it ended.
    async fn fetch(&self, range: Range<u64>) -> Result<Bytes> {
        let length = (range.end - range.start) as usize;
        let mut got = BytesMut::with_capacity(length);
        let (mut attempts, mut pause) = (0, FIRST_PAUSE);
        loop {
            let before = got.len();
            let failed = match self.ask_once(range.start + before as u64, range.end).await {
                Err(Asked::Failed(error)) => return Err(error),
                Err(Asked::Again(error)) => error,
                Ok(body) => match self.collect(body, &mut got, length).await? {
                    None => return Ok(got.freeze()),
                    Some(why) => Error::input(format!("{}: the connection breaks off: {why}", self.shown))
                        .hint("it was made anew several times; look at the network"),
                },
            };
            if got.len() > before {
                (attempts, pause) = (0, FIRST_PAUSE);
            }
            attempts += 1;
            if attempts >= ATTEMPTS_MAX {
                return Err(failed);
            }
            tracing::debug!(object = self.shown, why = %failed, "a range is asked for again");
            tokio::time::sleep(pause).await;
            pause *= 2;
        }
    }

    /// Appends what comes up to `length` bytes. Gives why it ended early, where it did.
    async fn collect(&self, mut body: Body, got: &mut BytesMut, length: usize) -> Result<Option<String>> {
        while got.len() < length {
            match tokio::time::timeout(STALLED_SECONDS, body.next()).await {
                Ok(Some(Ok(chunk))) if got.len() + chunk.len() > length => {
                    return Err(Error::input(format!(
                        "{}: the server sends more bytes than it was asked for",
                        self.shown
                    ))
                    .hint(
                        "a server or a proxy on the way is faulty: get a copy of the file by other means",
                    ));
                }
                Ok(Some(Ok(chunk))) => got.extend_from_slice(&chunk),
                Ok(Some(Err(why))) => return Ok(Some(why)),
                Ok(None) => return Ok(Some(format!("{} of {length} bytes came", got.len()))),
                Err(_) => return Ok(Some(format!("nothing came for {} s", STALLED_SECONDS.as_secs()))),
            }
        }
        Ok(None)
    }

    async fn ask_once(&self, from: u64, to: u64) -> Result<Body, Asked> {
        let (store, path) = match &self.origin {
            Origin::Http { url, .. } => return url.range(&self.version, from, to).await,
            Origin::Store { store, path } => (store, path),
        };
        let options = GetOptions {
            range: Some(GetRange::Bounded(from..to)),
            if_match: self.version.etag.clone(),
            ..GetOptions::default()
        };
        // Requests that may have another answer next time were repeated already.
        let answer = store.get_opts(path, options).await.map_err(|cause| {
            Asked::Failed(match cause {
                object_store::Error::NotFound { .. } => {
                    Error::input(format!("{} is no longer there to be read", self.shown))
                        .hint("it was removed since reading began; put it back, or begin again without it")
                }
                cause => of_store(Doing::Read, &self.shown, &cause),
            })
        })?;
        let now = &answer.meta;
        let is_other = self.version.bytes != Some(now.size)
            || (self.version.etag.is_some() && now.e_tag.clone().map(quoted) != self.version.etag)
            || self
                .modified_seconds
                .is_some_and(|then| self.version.etag.is_none() && then != now.last_modified.timestamp());
        if is_other {
            return Err(Asked::Failed(changed(&self.shown)));
        }
        if answer.range != (from..to) {
            return Err(Asked::Failed(
                Error::input(format!(
                    "{}: the store answers with another range than it was asked for",
                    self.shown
                ))
                .hint("a store or a proxy on the way is faulty"),
            ));
        }
        Ok(answer
            .into_stream()
            .map_err(|cause| super::error::chain(&cause))
            .boxed())
    }

    async fn send_whole(&self, to: &tokio::sync::mpsc::Sender<Result<Bytes>>) -> Result<()> {
        let Origin::Http { url, .. } = &self.origin else {
            return Err(Error::bug("an object of a store has ranges"));
        };
        let asked = url.whole().await;
        let mut body = asked.map_err(|asked| match asked {
            Asked::Again(error) | Asked::Failed(error) => error,
        })?;
        let mut sent = 0;
        while let Some(chunk) = body.next().await {
            let chunk = chunk.map_err(|why| {
                Error::input(format!("{}: the connection breaks off after {sent} bytes: {why}", self.shown)).hint(
                    "this server cannot go on within a file: load it again from the beginning, or save it to a file \
                     first",
                )
            })?;
            sent += chunk.len() as u64;
            if to.send(Ok(chunk)).await.is_err() {
                return Ok(());
            }
        }
        match self.version.bytes {
            Some(bytes) if bytes != sent => Err(changed(&self.shown)),
            _ => Ok(()),
        }
    }
}
