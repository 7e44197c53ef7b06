//! Keys for which the library of the stores has no paths: with an empty part, `.` or `..` between slashes, with a slash at
//! either end, or with control characters.
//!
//! Such an object cannot be asked for: the library would ask for another one (without the slash at its beginning), or for
//! none. A list with one such key would be an error as a whole, though, or name the other object. So the answer to a list is
//! changed before the library reads it: such keys are written as something that is a path, and [`original`] gives them
//! back, so that they can be passed over and named.

use std::{
    borrow::Cow,
    sync::{Arc, Mutex},
};

use async_trait::async_trait;
use object_store::{
    ClientOptions,
    client::{
        HttpClient, HttpConnector, HttpError, HttpRequest, HttpResponse, HttpService, ReqwestConnector,
    },
};
use reqwest::header::{HeaderName, HeaderValue};
use tonnage_core::{error::Error, sync::Lock};

/// What a key that has no path is written with: before it, for a slash, for a point, for a control character. Private
/// characters of Unicode, which names of files do not have.
const MARK: char = '\u{f8f0}';
const SLASH: char = '\u{f8f1}';
const POINT: char = '\u{f8f2}';
const CONTROL: char = '\u{f8f3}';

/// The elements of lists that hold keys: of S3 and Google, of Azure, and prefixes of all of them.
const ELEMENTS: &[&str] = &["<Key>", "<Name>", "<Prefix>"];

/// Whether the library has a path for a key, which leads to it.
pub(crate) fn has_path(key: &str) -> bool {
    let is_part =
        |part: &str| !matches!(part, "" | "." | "..") && !part.contains(|c: char| c.is_ascii_control());
    !key.starts_with(MARK) && key.split('/').all(is_part)
}

/// The error of a key that has no path.
pub(crate) fn no_path(root: &str, key: &str) -> Error {
    let shown = key.escape_debug();
    Error::config(format!(
        "{root}/{shown}: an object with this key cannot be asked for: it has an empty part (//, or a slash at one end), . or \
         .. between slashes, or a control character"
    ))
    .hint("copy the object to another key, or name others by a prefix or glob that this one is not behind")
}

/// The key that a list was changed for, where `path` is what stands for one.
pub(crate) fn original(path: &str) -> Option<String> {
    let marked = path.strip_prefix(MARK)?;
    let plain = |c| match c {
        SLASH => '/',
        POINT => '.',
        CONTROL => '\u{fffd}',
        c => c,
    };
    Some(marked.chars().map(plain).collect())
}

/// What stands in a list for a key that has no path. `key` is XML.
fn written(key: &str) -> Cow<'_, str> {
    let plain = without_control_characters(key);
    if key.is_empty() || (has_path(key) && plain == key) {
        return key.into();
    }
    let written = |c| match c {
        '/' => SLASH,
        '.' => POINT,
        c if c.is_ascii_control() => CONTROL,
        c => c,
    };
    let written = plain.chars().map(written);
    std::iter::once(MARK).chain(written).collect::<String>().into()
}

/// XML without references to control characters, which no reader of it gives as themselves.
fn without_control_characters(xml: &str) -> Cow<'_, str> {
    let mut out = String::new();
    let mut rest = xml;
    while let Some(at) = rest.find("&#") {
        let (before, reference) = rest.split_at(at);
        let Some(end) = reference.find(';') else { break };
        let digits = &reference[2..end];
        let code = match digits.strip_prefix(['x', 'X']) {
            Some(hexadecimal) => u32::from_str_radix(hexadecimal, 16),
            None => digits.parse(),
        };
        out.push_str(before);
        match code.ok().and_then(char::from_u32) {
            Some(c) if c.is_ascii_control() => out.push(CONTROL),
            _ => out.push_str(&reference[..=end]),
        }
        rest = &reference[end + 1..];
    }
    if out.is_empty() {
        return xml.into();
    }
    out.push_str(rest);
    out.into()
}

/// A list with something in the place of keys that have no path.
fn rewritten(list: &str) -> String {
    let mut out = String::with_capacity(list.len());
    let mut rest = list;
    while let Some(at) = rest.find('<') {
        let (before, tag) = rest.split_at(at);
        out.push_str(before);
        let Some(element) = ELEMENTS.iter().find(|element| tag.starts_with(**element)) else {
            out.push('<');
            rest = &tag[1..];
            continue;
        };
        let text = &tag[element.len()..];
        let (key, behind) = text.split_at(text.find('<').unwrap_or(text.len()));
        out.push_str(element);
        out.push_str(&written(key));
        rest = behind;
    }
    out.push_str(rest);
    out
}

/// Connects clients that change lists.
#[derive(Debug, Clone, Default)]
pub(crate) struct Connector {
    /// The client that was connected last: of a store, the one of its requests.
    last: Arc<Mutex<Option<HttpClient>>>,
}

impl HttpConnector for Connector {
    fn connect(&self, options: &ClientOptions) -> object_store::Result<HttpClient> {
        let client = ReqwestConnector::default().connect(options)?;
        let client = HttpClient::new(Lists(client));
        *self.last.locked() = Some(client.clone());
        Ok(client)
    }
}

/// Gives the client that another connector has connected, with a header for all of its requests: a client of its own
/// would read the machine's certificates again, and have connections of its own.
#[derive(Debug)]
pub(crate) struct SameWithHeader {
    connector: Connector,
    header: (HeaderName, HeaderValue),
}

impl SameWithHeader {
    /// That of `connector`, which has connected one.
    pub(crate) fn of(connector: &Connector, header: (HeaderName, HeaderValue)) -> Self {
        Self {
            connector: connector.clone(),
            header,
        }
    }
}

impl HttpConnector for SameWithHeader {
    fn connect(&self, options: &ClientOptions) -> object_store::Result<HttpClient> {
        let known = self.connector.last.locked().clone();
        let client = match known {
            Some(client) => client,
            None => self.connector.connect(options)?,
        };
        Ok(HttpClient::new(WithHeader(client, self.header.clone())))
    }
}

#[derive(Debug)]
struct WithHeader(HttpClient, (HeaderName, HeaderValue));

#[async_trait]
impl HttpService for WithHeader {
    async fn call(&self, mut request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let (name, value) = self.1.clone();
        request.headers_mut().insert(name, value);
        self.0.execute(request).await
    }
}

#[derive(Debug)]
struct Lists(HttpClient);

#[async_trait]
impl HttpService for Lists {
    async fn call(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let query = request.uri().query().unwrap_or_default();
        let is_list = query.contains("list-type=2") || query.contains("comp=list");
        let answer = self.0.execute(request).await?;
        if !is_list || !answer.status().is_success() {
            return Ok(answer);
        }
        let (head, body) = answer.into_parts();
        let bytes = body.bytes().await?;
        let body = match std::str::from_utf8(&bytes) {
            Ok(list) => rewritten(list).into(),
            Err(_) => bytes.into(),
        };
        Ok(HttpResponse::from_parts(head, body))
    }
}

#[cfg(test)]
mod tests {
    use object_store::path::Path;

    use super::*;

    #[test]
    fn keys_without_a_path_stand_in_a_list_as_something_that_has_one() {
        for (key, has) in [
            ("a/b.csv", true),
            ("a b/c#d?e%20f\u{e9}[g]&amp;h.csv", true),
            (".a/..b/c..", true),
            ("a&#39;b.csv", true),
            ("a//b.csv", false),
            ("/a.csv", false),
            ("a/", false),
            ("a/../b.csv", false),
            ("./b.csv", false),
            ("a&#10;b.csv", false),
            ("a\tb.csv", false),
        ] {
            let list = format!("<Contents><Key>{key}</Key><Size>1</Size></Contents><NextMarker/>");
            let now = rewritten(&list);
            assert_eq!(now == list, has, "{key}");
            let (_, text) = now.split_once("<Key>").expect("a key");
            let text = text.split_once("</Key>").expect("its end").0;
            // The library takes off slashes at the ends, and says no to the other ones.
            let path = Path::parse(text).expect("a path");
            assert_eq!(path.as_ref(), text, "{key}");
            let expected = key.replace("&#10;", "\u{fffd}").replace('\t', "\u{fffd}");
            assert_eq!(original(text), (!has).then_some(expected), "{key}");
        }
        // Azure's, where prefixes have the element of names.
        let list = "<EnumerationResults><Prefix></Prefix><Blobs><BlobPrefix><Name>a/</Name></BlobPrefix><Blob><Name>b</Name>";
        assert!(rewritten(list).ends_with("<Blob><Name>b</Name>"));
    }
}
