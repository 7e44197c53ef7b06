//! A small object that is written anew whenever it changes, as stores add to none.

use bytes::Bytes;
use object_store::{ObjectStoreExt, PutMode, PutOptions, PutPayload, PutResult, UpdateVersion};
use tonnage_core::error::{Error, ErrorKind, Result};

use super::{
    error::{Doing, of_store},
    runtime,
    store::{Located, locate, refuse_http},
    url::redacted,
};

/// The most bytes of such an object: each change sends all of it.
pub const REWRITTEN_BYTES_MAX: usize = 64 << 20;

/// An object, and what this process knows of it. Each change is made on the condition that nobody else has made one,
/// where the store has ETags and knows such a condition.
pub struct Rewritten {
    shown: String,
    located: Located,
    content: Vec<u8>,
    version: Option<UpdateVersion>,
}

impl Rewritten {
    /// What is there, or nothing yet.
    pub fn open(url: &str) -> Result<Self> {
        refuse_http(url)?;
        let shown = redacted(url);
        let url = url.to_owned();
        let opened = runtime::wait(async move {
            let located = locate(&url).await?;
            let found = read(&located, &shown).await?;
            let (content, version) = match found {
                Some((content, version)) => (content, Some(version)),
                None => (Vec::new(), None),
            };
            Ok(Self {
                shown,
                located,
                content,
                version,
            })
        });
        opened.map_err(Error::bug)?
    }

    /// All of it.
    pub fn content(&self) -> &[u8] {
        &self.content
    }

    /// Puts `content` into its place. `Fenced` where somebody else has written it since; then, and after any other error,
    /// this knows what it knew before.
    pub fn replace(&mut self, content: Vec<u8>) -> Result<()> {
        if content.len() > REWRITTEN_BYTES_MAX {
            let full = format!(
                "{} would have more than {} MiB",
                self.shown,
                REWRITTEN_BYTES_MAX >> 20
            );
            return Err(Doing::Write
                .error(full)
                .hint("all of it is sent with every change: name a file on a disk"));
        }
        let (located, shown, version) = (self.located.clone(), self.shown.clone(), self.version.clone());
        let bytes = Bytes::from(content);
        let sent = bytes.clone();
        let put = runtime::wait(async move { put(&located, &shown, version, sent).await });
        let result = put.map_err(Error::bug)??;
        self.version = Some(UpdateVersion {
            e_tag: result.e_tag,
            version: result.version,
        });
        self.content = bytes.into();
        Ok(())
    }
}

async fn read(located: &Located, shown: &str) -> Result<Option<(Vec<u8>, UpdateVersion)>> {
    let failed = |cause| of_store(Doing::Read, shown, &cause);
    let answer = match located.store.get(&located.path()?).await {
        Ok(answer) => answer,
        Err(object_store::Error::NotFound { .. }) => return Ok(None),
        Err(cause) => return Err(failed(cause)),
    };
    if answer.meta.size > REWRITTEN_BYTES_MAX as u64 {
        let large = format!("{shown} has more than {} MiB", REWRITTEN_BYTES_MAX >> 20);
        return Err(Error::config(large).hint("name another object, or a file on a disk"));
    }
    let version = UpdateVersion {
        e_tag: answer.meta.e_tag.clone(),
        version: answer.meta.version.clone(),
    };
    let content = answer.bytes().await.map_err(failed)?;
    Ok(Some((content.to_vec(), version)))
}

async fn put(
    located: &Located,
    shown: &str,
    version: Option<UpdateVersion>,
    bytes: Bytes,
) -> Result<PutResult> {
    use object_store::Error as StoreError;
    let (store, path) = (&located.store, located.path()?);
    let mode = match version {
        None => PutMode::Create,
        Some(version) if version.e_tag.is_some() => PutMode::Update(version),
        Some(_) => PutMode::Overwrite,
    };
    let payload = || PutPayload::from(bytes.clone());
    let done = match store.put_opts(&path, payload(), PutOptions::from(mode)).await {
        Err(StoreError::NotImplemented { .. } | StoreError::NotSupported { .. }) => {
            store.put(&path, payload()).await
        }
        done => done,
    };
    match done {
        Ok(result) => Ok(result),
        // A request that was repeated may have been heard the first time.
        Err(cause @ (StoreError::Precondition { .. } | StoreError::AlreadyExists { .. })) => {
            match read(located, shown).await? {
                Some((there, version)) if there == bytes => Ok(PutResult {
                    e_tag: version.e_tag,
                    version: version.version,
                }),
                _ => Err(Error::new(
                    ErrorKind::Fenced,
                    format!("{shown} was written by another process"),
                )
                .hint("`tonnage runs` shows whether it has taken this run over; else name another object")
                .caused_by(cause)),
            }
        }
        Err(cause) => Err(of_store(Doing::Write, shown, &cause)),
    }
}
