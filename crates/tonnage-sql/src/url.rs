//! What all URLs of servers have: where a password may be.

use tonnage_core::{
    error::{Error, Result},
    password::hide,
};

/// Whether the text of a URL between the `@` and the path is a part of a password that has a `/` or a `?` in it.
fn is_cut(authority: &str, path: Option<&str>, query: Option<&str>) -> bool {
    let has_login = |part: Option<&str>| part.is_some_and(|part| part.contains('@'));
    let port = authority.rsplit_once(':').map_or("", |(_, port)| port);
    let is_port = port.bytes().all(|digit| digit.is_ascii_digit()) || authority.ends_with(']');
    !authority.contains('@') && (has_login(path) || has_login(query) && !is_port)
}

/// Authority, path and query of what follows `://`.
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
pub fn refuse_cut(url: &str) -> Result<()> {
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
pub fn redact(url: &str) -> String {
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

#[cfg(test)]
mod tests {
    use super::*;

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
