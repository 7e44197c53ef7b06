//! A password that came beside the URL.

use std::fmt;

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

/// The URL as it may be shown: the password, in either of its two places, becomes `***`.
#[cfg(any(feature = "postgres", feature = "mysql"))]
pub(super) fn redact(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else {
        return url.to_owned();
    };
    let (rest, query) = match rest.split_once('?') {
        Some((rest, query)) => (rest, Some(query)),
        None => (rest, None),
    };
    let (authority, path) = match rest.split_once('/') {
        Some((authority, path)) => (authority, Some(path)),
        None => (rest, None),
    };
    let mut shown = format!("{scheme}://");
    // A password with an unescaped slash ends up in what looks like the path: hide up to the last @.
    match (
        authority.rsplit_once('@'),
        path.and_then(|path| path.rsplit_once('@')),
    ) {
        (_, Some((_, after))) => {
            let user = authority.split([':', '@']).next().unwrap_or("");
            shown.push_str(user);
            shown.push_str(":***@");
            shown.push_str(after);
        }
        (Some((login, hosts)), None) => {
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
            if let Some(path) = path {
                shown.push('/');
                shown.push_str(path);
            }
        }
        (None, None) => shown.push_str(rest),
    }
    if let Some(query) = query {
        let pairs: Vec<_> = query
            .split('&')
            .map(|pair| match pair.split_once('=') {
                Some((name, _))
                    if percent_encoding::percent_decode_str(name).decode_utf8_lossy() == "password" =>
                {
                    format!("{name}=***")
                }
                _ => pair.to_owned(),
            })
            .collect();
        shown.push('?');
        shown.push_str(&pairs.join("&"));
    }
    shown
}
