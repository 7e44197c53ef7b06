//! What a URL names: one object, all directly behind a prefix, or what a glob matches.

use std::ops::ControlFlow;

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
    object::Object,
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
        let listed = pages(&located, &begin, Depth::Direct, |meta| {
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
        if let Ok(path) = located.path()
            && let Ok(meta) = located.store.head(&path).await
        {
            return Ok(vec![Object::of_meta(located, meta)]);
        }
        return matching(url, located).await;
    }
    match located.store.head(&located.path()?).await {
        Ok(meta) => Ok(vec![Object::of_meta(located, meta)]),
        Err(object_store::Error::NotFound { .. }) => Err(missing(url, located).await),
        Err(cause) => {
            // The answer to a question for the head has no text that says why.
            let range = GetOptions {
                range: Some(GetRange::Bounded(0..1)),
                ..GetOptions::default()
            };
            let again = located.store.get_opts(&located.path()?, range).await;
            Err(of_store(Doing::Read, url, &again.err().unwrap_or(cause)))
        }
    }
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

/// Gives every object whose key begins with `prefix` to `each`, until it has enough. One page of at most 1,000 is held.
async fn pages(
    located: &Located,
    prefix: &str,
    depth: Depth,
    mut each: impl FnMut(ObjectMeta) -> ControlFlow<()>,
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
            if each(meta).is_break() {
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
    let listed = pages(located, prefix, depth, |meta| {
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
    let listed = pages(located, &begin, Depth::All, |meta| {
        keys.push(meta.location);
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
