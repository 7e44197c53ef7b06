//! A password that came beside the URL.

use std::fmt;

#[cfg(any(feature = "cassandra", feature = "mysql", feature = "postgres"))]
use crate::error::{Error, Result};

/// A password and where it came from. It is never shown, also not by `Debug`; its origin is, when it is refused.
#[derive(Clone, PartialEq, Eq)]
pub struct Password {
    text: String,
    origin: String,
}

impl Password {
    /// `origin` completes "password ..": `typed at the terminal`.
    pub fn new(text: impl Into<String>, origin: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            origin: origin.into(),
        }
    }

    /// Where it came from.
    pub fn origin(&self) -> &str {
        &self.origin
    }

    /// The password itself, for the driver that sends it.
    pub fn reveal(&self) -> &str {
        &self.text
    }
}

impl fmt::Debug for Password {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Password(*** {})", self.origin)
    }
}

/// What `text` names may be no database at all, or one that is named wrongly: as it may be shown, whatever could be a
/// password in it is `***`.
pub fn hide(text: &str) -> String {
    let mut shown = text.to_owned();
    // A colon before a slash belongs to the scheme; behind another one the password begins.
    let mut colons = text.match_indices(':').map(|(at, _)| at + 1);
    let begin = colons.find(|behind| !text[*behind..].starts_with('/'));
    if let (Some(begin), Some(end)) = (begin, text.rfind('@'))
        && begin <= end
    {
        shown = format!("{}***{}", &text[..begin], &text[end..]);
    }
    // A value may have blanks, if it is in quotes; so nothing behind its name is shown.
    let lower = shown.to_ascii_lowercase();
    let names = ["pas", "pw"].iter().filter_map(|name| lower.find(name));
    let value = names
        .min()
        .and_then(|name| Some(name + lower[name..].find('=')? + 1));
    if let Some(value) = value {
        shown.truncate(value);
        shown.push_str("***");
    }
    shown
}

/// Whether what stands in a URL between the `@` and the path is a part of a password that has a `/` or a `?` in it.
#[cfg(any(feature = "cassandra", feature = "mysql", feature = "postgres"))]
fn is_cut(authority: &str, path: Option<&str>, query: Option<&str>) -> bool {
    let has_login = |part: Option<&str>| part.is_some_and(|part| part.contains('@'));
    let port = authority.rsplit_once(':').map_or("", |(_, port)| port);
    let is_port = port.bytes().all(|digit| digit.is_ascii_digit()) || authority.ends_with(']');
    !authority.contains('@') && (has_login(path) || has_login(query) && !is_port)
}

/// Authority, path and query of what follows `://`.
#[cfg(any(feature = "cassandra", feature = "mysql", feature = "postgres"))]
fn parts(rest: &str) -> (&str, Option<&str>, Option<&str>) {
    let (rest, query) = match rest.split_once('?') {
        Some((rest, query)) => (rest, Some(query)),
        None => (rest, None),
    };
    let (authority, path) = match rest.split_once('/') {
        Some((authority, path)) => (authority, Some(path)),
        None => (rest, None),
    };
    (authority, path, query)
}

/// `Config` for a URL whose password is cut by a character that has a meaning in URLs. What is left of it would else be
/// taken for a host, a port or an option, and shown as such.
#[cfg(any(feature = "cassandra", feature = "mysql", feature = "postgres"))]
pub(super) fn refuse_cut(url: &str) -> Result<()> {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let (authority, path, query) = parts(rest);
    if !is_cut(authority, path, query) {
        return Ok(());
    }
    Err(
        Error::config("the @ of the URL comes behind a / or a ?, which end what may stand before it")
            .hint("write special characters of user and password as %XX: / is %2F, ? is %3F, @ is %40"),
    )
}

/// The URL as it may be shown: the password, in either of its two places, becomes `***`.
#[cfg(any(feature = "cassandra", feature = "mysql", feature = "postgres"))]
pub(super) fn redact(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else {
        return hide(url);
    };
    let (authority, path, query) = parts(rest);
    if is_cut(authority, path, query) {
        return hide(url);
    }
    let mut shown = format!("{scheme}://");
    match authority.rsplit_once('@') {
        Some((login, hosts)) => {
            match login.split_once(':') {
                Some((user, _)) => {
                    shown.push_str(user);
                    shown.push_str(":***@");
                }
                None => {
                    shown.push_str(login);
                    shown.push('@');
                }
            }
            shown.push_str(hosts);
        }
        None => shown.push_str(authority),
    }
    if let Some(path) = path {
        shown.push('/');
        shown.push_str(path);
    }
    if let Some(query) = query {
        let pairs: Vec<_> = query
            .split('&')
            .map(|pair| match pair.split_once('=') {
                Some((name, _)) => {
                    let decoded = percent_encoding::percent_decode_str(name).decode_utf8_lossy();
                    let lower = decoded.to_ascii_lowercase();
                    match lower.contains("pas") && lower != "passfile" || lower.contains("pw") {
                        true => format!("{name}=***"),
                        false => pair.to_owned(),
                    }
                }
                None => pair.to_owned(),
            })
            .collect();
        shown.push('?');
        shown.push_str(&pairs.join("&"));
    }
    shown
}

#[cfg(all(test, feature = "postgres"))]
mod tests {
    use super::*;

    #[test]
    fn what_may_be_a_password_is_hidden_in_any_text() {
        for (text, shown) in [
            ("orders.csv", "orders.csv"),
            ("postgresql://db/shop", "postgresql://db/shop"),
            ("postgres:/app:s3cret@db/shop", "postgres:/app:***@db/shop"),
            ("app:s3/c@ret@db/shop", "app:***@db/shop"),
            ("nosql://app:s3cret@db/shop?x=1", "nosql://app:***@db/shop?x=1"),
            ("hots=db passwd='s3 cret' user=app", "hots=db passwd=***"),
            ("nosql://db/shop?Password=s3cret", "nosql://db/shop?Password=***"),
        ] {
            assert_eq!(hide(text), shown);
        }
    }

    #[test]
    fn a_password_that_is_cut_by_its_own_characters_is_told_of_and_hidden() {
        for url in [
            "postgresql://app:s3/cret@db/shop",
            "postgresql://app:s3?cret@db/shop",
            "postgresql://app:s3?c=ret@db/shop",
            "postgresql://app:12/cret@db/shop",
        ] {
            let error = refuse_cut(url).expect_err(url);
            assert!(
                error.hint_text().is_some_and(|hint| hint.contains("%2F")),
                "{error}"
            );
            assert!(
                !redact(url).contains("cret") && !redact(url).contains("s3"),
                "{}",
                redact(url)
            );
        }
        for url in [
            "postgresql://app:s3%2Fcret@db:5432/shop?options=-c%20x@y",
            "postgresql://db:5432/shop?user=me@corp",
            "postgresql://[::1]/shop?user=me@corp",
            "postgresql:///shop?host=/tmp",
        ] {
            assert!(refuse_cut(url).is_ok(), "{url}");
        }
    }
}
