//! What a URL names: one object, all directly behind a prefix, or what a glob matches.

use std::ops::ControlFlow;

use bytes::Bytes;
use glob::{MatchOptions, Pattern};
use object_store::{
    GetOptions, GetRange, ObjectMeta, ObjectStoreExt, list::PaginatedListOptions, path::Path,
};
use tonnage_core::{
    error::{Error, Result},
    report::Grouped,
    table::nearest,
};

use super::{
    error::{Doing, of_store},
    kept::{self, BEGINNING_BYTES, END_BYTES},
    keys,
    object::{Object, STALLED_SECONDS},
    runtime,
    store::{Located, locate, refuse_http},
    url::{is_http, redacted},
};

/// The most objects that one URL may name: each is an input of the run, which the ledger keeps. Of those that do not
/// match any number may lie beside them; lists are read page by page.
pub const OBJECTS_MAX: usize = 100_000;

/// Names of the neighbours of an object that is not there, among which the nearest are looked for.
const NEIGHBOURS_MAX: usize = 1_000;

/// As a shell has it: `*` does not cross a slash, nor does it match names that begin with a point.
const GLOB: MatchOptions = MatchOptions {
    case_sensitive: true,
    require_literal_separator: true,
    require_literal_leading_dot: true,
};

const WILD: [char; 3] = ['*', '?', '['];

/// The objects that `url` names, by the order of their keys. Of a prefix, which ends in a slash, those directly behind
/// it whose names `is_wanted` accepts; names that begin with a point are skipped there.
///
/// `Config` where the URL or the environment does not say which store, or more than [`OBJECTS_MAX`] are named; `Input`
/// where there is none, or the store does not give it.
pub fn find(url: &str, is_wanted: impl Fn(&str) -> bool + Send + Sync + 'static) -> Result<Vec<Object>> {
    let url = url.to_owned();
    let found = runtime::wait(async move {
        match is_http(&url) {
            true => of_http(&url).await.map(|object| vec![object]),
            false => {
                let located = locate(&url).await?;
                of_store_url(&url, &located, &is_wanted).await
            }
        }
    });
    found.map_err(Error::bug)?
}

/// Names directly behind `url`, which ends in a slash, that begin with `prefix`, sorted; none where nothing is there.
///
/// `Config` for HTTP, which has no lists, and for more than [`OBJECTS_MAX`] names; `Refused` where the store does not give
/// the list.
pub fn names(url: &str, prefix: &str) -> Result<Vec<String>> {
    refuse_http(url)?;
    let (url, prefix) = (url.to_owned(), prefix.to_owned());
    let names = runtime::wait(async move {
        let located = locate(&url).await?;
        let mut names = Vec::new();
        let mut is_full = false;
        let begin = format!("{}{prefix}", located.key);
        let listed = pages(&located, &begin, Depth::Direct, |listed| {
            // What has no path is nothing that could be written over.
            let Listed::Object(meta) = listed else {
                return ControlFlow::Continue(());
            };
            let Some(name) = meta.location.filename() else {
                return ControlFlow::Continue(());
            };
            if names.len() == OBJECTS_MAX {
                is_full = true;
                return ControlFlow::Break(());
            }
            names.push(name.to_owned());
            ControlFlow::Continue(())
        });
        let listed = listed.await;
        listed.map_err(|cause| of_store(Doing::Write, &redacted(&url), &cause))?;
        if is_full {
            return Err(Error::config(format!(
                "more than {} objects lie directly behind '{}'",
                Grouped(OBJECTS_MAX as u64),
                redacted(&url)
            ))
            .hint("name a prefix that nothing lies behind"));
        }
        names.sort_unstable();
        Ok(names)
    });
    names.map_err(Error::bug)?
}

async fn of_http(url: &str) -> Result<Object> {
    let path = url.split(['?', '#']).next().unwrap_or_default();
    if path.contains(['*', '[']) {
        return Err(
            Error::config(format!("'{path}': HTTP has no lists, so no glob can be matched"))
                .hint("name each file by its URL"),
        );
    }
    Object::of_http(url).await
}

async fn of_store_url(
    url: &str,
    located: &Located,
    is_wanted: &(dyn Fn(&str) -> bool + Sync),
) -> Result<Vec<Object>> {
    let key = &located.key;
    if key.is_empty() || key.ends_with('/') {
        let found = list(url, located, key, Depth::Direct, |key| {
            let name = key.rsplit('/').next().unwrap_or(key);
            !name.starts_with('.') && is_wanted(name)
        });
        let found = found.await?;
        return match found.is_empty() {
            true => Err(
                Error::input(format!("{url}: no object directly behind it can be read")).hint(format!(
                    "names must tell their formats; for what lies deeper: {url}**/*.csv"
                )),
            ),
            false => Ok(found),
        };
    }
    if key.contains(WILD) {
        // It may be the name of an object all the same.
        let named = async {
            let meta = located.store.head(&located.path().ok()?).await.ok()?;
            Some(vec![Object::of_meta(located, meta)])
        };
        let (named, matching) = futures::join!(named, matching(url, located));
        return named.map_or(matching, Ok);
    }
    let path = located.path()?;
    let cause = match looked_at(located, &path).await {
        Ok(object) => return Ok(vec![object]),
        Err(object_store::Error::NotFound { .. }) => return Err(missing(url, located).await),
        Err(cause) => cause,
    };
    // Of an object without a byte no range can be asked for.
    match located.store.head(&path).await {
        Ok(meta) if meta.size == 0 => Ok(vec![Object::of_meta(located, meta)]),
        // The answer to a question for the head has no text that says why.
        _ => Err(of_store(Doing::Read, url, &cause)),
    }
}

/// Connections that are made while an object is looked at: as many as the first parts of it will need. Those of a Parquet
/// file are of each of its columns.
const CONNECTIONS_MADE: usize = 6;
const CONNECTIONS_MADE_FOR_COLUMNS: usize = 16;

/// The object of one key. Its ends come with it, and are kept: whoever finds an object most often reads it.
async fn looked_at(located: &Located, path: &Path) -> object_store::Result<Object> {
    let is_parquet = path.as_ref().to_ascii_lowercase().ends_with(".parquet");
    let connections = if is_parquet {
        CONNECTIONS_MADE_FOR_COLUMNS
    } else {
        CONNECTIONS_MADE
    };
    for _ in 0..connections {
        let (store, path) = (located.store.clone(), path.clone());
        // A connection takes a round trip, and over TLS two or three. What the answer says does not matter.
        tokio::spawn(async move { store.head(&path).await.is_ok() });
    }
    let beginning = range_of(located, path, GetRange::Bounded(0..BEGINNING_BYTES));
    let end = range_of(located, path, GetRange::Suffix(END_BYTES));
    let (beginning, end) = futures::join!(beginning, end);
    let (meta, beginning) = beginning?;
    let is_named = meta.e_tag.is_some();
    let object = Object::of_meta(located, meta.clone());
    // What has no name for its version may be another one when it is read.
    if let Some(beginning) = beginning.filter(|_| is_named) {
        kept::keep(&object, 0, beginning);
    }
    // Not every store has ranges that are counted from the end.
    if let Ok((of_end, Some(end))) = end
        && is_named
        && of_end == meta
    {
        kept::keep(&object, meta.size - end.len() as u64, end);
    }
    Ok(object)
}

/// What a store says of an object, and those bytes of it that were asked for, where all of them came.
async fn range_of(
    located: &Located,
    path: &Path,
    range: GetRange,
) -> object_store::Result<(ObjectMeta, Option<Bytes>)> {
    let options = GetOptions {
        range: Some(range.clone()),
        ..GetOptions::default()
    };
    let answer = located.store.get_opts(path, options).await?;
    let (meta, given) = (answer.meta.clone(), answer.range.clone());
    let is_as_asked = range.as_range(meta.size).is_ok_and(|asked| asked == given);
    // Where it breaks off it is asked for again by who reads it.
    let bytes = tokio::time::timeout(STALLED_SECONDS, answer.bytes()).await;
    let bytes = bytes.ok().and_then(object_store::Result::ok);
    let whole = bytes.filter(|bytes| is_as_asked && bytes.len() as u64 == given.end - given.start);
    Ok((meta, whole))
}

async fn matching(url: &str, located: &Located) -> Result<Vec<Object>> {
    let key = &located.key;
    let pattern = Pattern::new(key).map_err(|cause| {
        Error::config(format!("'{url}' is not a glob: {}", cause.msg)).hint("*, ?, [a-z] and ** are known")
    })?;
    let prefix = &key[..key.find(WILD).unwrap_or(0)];
    // Where the wild part has no slash, nothing deeper can match.
    let depth = match key[prefix.len()..].contains(['/', '[']) || key.contains("**") {
        true => Depth::All,
        false => Depth::Direct,
    };
    let found = list(url, located, prefix, depth, |key| pattern.matches_with(key, GLOB));
    let found = found.await?;
    match found.is_empty() {
        true => Err(Error::input(format!("no object matches '{url}'"))
            .hint("* does not cross a slash, ** does: prefix/**/*.csv")),
        false => Ok(found),
    }
}

/// Which keys a list has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Depth {
    /// Those without a slash behind the prefix.
    Direct,
    All,
}

/// What a list has.
enum Listed {
    Object(ObjectMeta),
    /// A key that cannot be asked for: see `keys`.
    NoPath(String),
}

/// Gives every object whose key begins with `prefix` to `each`, until it has enough. One page of at most 1,000 is held.
async fn pages(
    located: &Located,
    prefix: &str,
    depth: Depth,
    mut each: impl FnMut(Listed) -> ControlFlow<()>,
) -> object_store::Result<()> {
    let prefix = Some(prefix).filter(|prefix| !prefix.is_empty());
    let mut page_token = None;
    loop {
        let options = PaginatedListOptions {
            delimiter: (depth == Depth::Direct).then_some("/".into()),
            page_token,
            ..PaginatedListOptions::default()
        };
        let page = located.lists.list_paginated(prefix, options).await?;
        for meta in page.result.objects {
            let listed = match keys::original(meta.location.as_ref()) {
                Some(key) => Listed::NoPath(key),
                None => Listed::Object(meta),
            };
            if each(listed).is_break() {
                return Ok(());
            }
        }
        page_token = page.page_token;
        if page_token.is_none() {
            return Ok(());
        }
    }
}

/// Objects whose keys begin with `prefix` and are `wanted`.
async fn list(
    url: &str,
    located: &Located,
    prefix: &str,
    depth: Depth,
    wanted: impl Fn(&str) -> bool,
) -> Result<Vec<Object>> {
    let mut found: Vec<(Path, Object)> = Vec::new();
    let mut is_full = false;
    let mut without_path = None;
    let listed = pages(located, prefix, depth, |listed| {
        let meta = match listed {
            Listed::Object(meta) => meta,
            Listed::NoPath(key) => {
                // What ends in a slash is no file: consoles show directories by it.
                if !key.ends_with('/') && wanted(&key) {
                    without_path.get_or_insert(key);
                }
                return ControlFlow::Continue(());
            }
        };
        let key = meta.location.as_ref();
        // A prefix by itself is what consoles show as a directory.
        if key.len() < prefix.len() || !wanted(key) {
            return ControlFlow::Continue(());
        }
        if found.len() == OBJECTS_MAX {
            is_full = true;
            return ControlFlow::Break(());
        }
        found.push((meta.location.clone(), Object::of_meta(located, meta)));
        ControlFlow::Continue(())
    });
    listed.await.map_err(|cause| of_store(Doing::List, url, &cause))?;
    // Its rows are not left out without a word.
    if let Some(key) = without_path {
        return Err(keys::no_path(&located.root, &key));
    }
    if is_full {
        return Err(Error::config(format!(
            "'{url}' names more than {} objects",
            Grouped(OBJECTS_MAX as u64)
        ))
        .hint("load them by several narrower prefixes or globs"));
    }
    found.sort_by(|(one, _), (other, _)| one.cmp(other));
    Ok(found.into_iter().map(|(_, object)| object).collect())
}

/// What to say of an object that is not there: the nearest names, or that it is a prefix.
async fn missing(url: &str, located: &Located) -> Error {
    let (directory, name) = located.key.rsplit_once('/').unwrap_or(("", &located.key));
    let error = Error::input(format!("{url}: there is no such object"));
    let begin = match directory.is_empty() {
        true => String::new(),
        false => format!("{directory}/"),
    };
    let mut keys: Vec<Path> = Vec::new();
    let listed = pages(located, &begin, Depth::All, |listed| {
        if let Listed::Object(meta) = listed {
            keys.push(meta.location);
        }
        match keys.len() < NEIGHBOURS_MAX {
            true => ControlFlow::Continue(()),
            false => ControlFlow::Break(()),
        }
    });
    match listed.await {
        Ok(()) => {}
        // That the bucket is not there is told by this request only.
        Err(object_store::Error::PermissionDenied { .. } | object_store::Error::Unauthenticated { .. }) => {
            return error.hint("names are exact, capitals included; a prefix ends in /");
        }
        Err(cause) => return of_store(Doing::Read, url, &cause),
    }
    let prefix = format!("{}/", located.key);
    if keys.iter().any(|key| key.as_ref().starts_with(&prefix)) {
        return error.hint(format!(
            "it is a prefix: {url}/ names what lies directly behind it"
        ));
    }
    let names: Vec<&str> = keys.iter().filter_map(Path::filename).collect();
    match nearest(name, names.iter().copied()).first() {
        Some(near) => {
            let base = url.strip_suffix(name).unwrap_or(url);
            error.hint(format!("did you mean {base}{near}?"))
        }
        None => error.hint("names are exact, capitals included; a prefix ends in /"),
    }
}
