//! URLs as users write them.

use std::path::Path;

use tonnage_core::error::Error;

use super::named::is_named;

/// How URLs of object stores begin, the last ones HTTP.
const SCHEMES: &[&str] = &[
    "s3://", "s3a://", "gs://", "gcs://", "az://", "azure://", "abfs://", "abfss://", "http://", "https://",
];

/// Whether `text` names an object by URL, or by the name of its store, and not a path.
pub fn is_url(text: &str) -> bool {
    is_named(text)
        || SCHEMES.iter().any(|scheme| {
            text.get(..scheme.len())
                .is_some_and(|start| start.eq_ignore_ascii_case(scheme))
        })
}

/// The error of a path that looks like a URL, or like the name of a store, and is neither; none of any other path.
pub fn no_place(text: &str) -> Option<Error> {
    const PLACES: &str = "s3://, gs://, az://, abfss://, https:// and http://";
    if is_url(text) {
        return None;
    }
    let first = text.split('/').next().unwrap_or_default();
    if let Some(name) = first.strip_prefix('@')
        && text.contains('/')
        && !Path::new(first).is_dir()
    {
        let message =
            format!("'{text}': there is no store {first} in targets.toml, nor a directory of this name");
        return Some(Error::config(message).hint(format!(
            "a section [{name}] with url = \"s3://bucket/prefix\" names one"
        )));
    }
    let scheme = first.strip_suffix(':')?;
    let is_scheme = scheme.len() > 1
        && scheme
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b"+-.".contains(&b));
    if !is_scheme || Path::new(first).is_dir() {
        return None;
    }
    let rest = text[first.len()..].trim_start_matches('/');
    let whole = format!("{scheme}://{rest}");
    // Written so it has no host by which a secret could be told apart.
    let shown = text.split(['?', '#']).next().unwrap_or_default();
    let error = Error::config(format!("'{shown}' is no place with files"));
    Some(match is_url(&whole) {
        true => error.hint(format!("did you mean {}?", redacted(&whole))),
        false => error.hint(format!("places are {PLACES}, beside files on a disk")),
    })
}

/// The URL that a path is, where it is one.
pub fn url_of(path: &Path) -> Option<&str> {
    path.to_str().filter(|text| is_url(text))
}

/// Whether the URL is one of HTTP.
pub(crate) fn is_http(url: &str) -> bool {
    let scheme = url.split("://").next().unwrap_or_default();
    scheme.eq_ignore_ascii_case("http") || scheme.eq_ignore_ascii_case("https")
}

/// The URL without what may be a secret: name and password, and of HTTP what stands behind `?` and `#`.
pub fn redacted(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else {
        return url.to_owned();
    };
    let rest = match is_http(url) {
        true => rest.split(['?', '#']).next().unwrap_or_default(),
        false => rest,
    };
    let (host, path) = match rest.find('/') {
        Some(slash) => rest.split_at(slash),
        None => (rest, ""),
    };
    let host = match (is_http(url), host.rsplit_once('@')) {
        (true, Some((_, host))) => host,
        // A container of Azure stands before its account.
        _ => host,
    };
    format!("{scheme}://{host}{path}")
}

/// The last part of the path of a URL: what would be a file's name.
pub fn name_of(url: &str) -> String {
    let plain = redacted(url);
    plain.rsplit('/').next().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_looks_like_a_url_and_is_none_is_said_to_be_no_place() {
        for (text, hint) in [
            ("s3:/b/k.csv", Some("did you mean s3://b/k.csv?")),
            ("https:/h/k.csv?sig=secret", Some("did you mean https://h/k.csv?")),
            ("hdfs://h/k.csv", Some("beside files on a disk")),
            ("wasbs://c@a.blob.core.windows.net/k.csv", Some("abfss://")),
            ("@lake/k.csv", Some("a section [lake]")),
            ("s3://b/k.csv", None),
            ("@lake", None),
            ("c:/k.csv", None),
            ("in/k.csv", None),
            ("k.csv", None),
            ("/k.csv", None),
        ] {
            let error = no_place(text);
            let said = error.as_ref().and_then(Error::hint_text);
            assert_eq!(said.is_some(), hint.is_some(), "{text}: {said:?}");
            assert!(
                said.unwrap_or_default().contains(hint.unwrap_or_default()),
                "{text}: {said:?}"
            );
            assert!(!error.is_some_and(|error| error.to_string().contains("secret")));
        }
    }

    #[test]
    fn urls_are_told_from_paths_and_shown_without_secrets() {
        for (text, is) in [
            ("s3://b/k", true),
            ("S3://b/k", true),
            ("HTTPS://h/p", true),
            ("abfss://c@a.dfs.core.windows.net/k", true),
            ("rows.csv", false),
            ("s3:/b/k", false),
            ("postgresql://h/d", false),
        ] {
            assert_eq!(is_url(text), is, "{text}");
        }
        for (url, shown) in [
            (
                "https://me:pw@h:80/a/b.csv?X-Amz-Signature=s#f",
                "https://h:80/a/b.csv",
            ),
            ("https://h?q", "https://h"),
            ("s3://b/a?.csv", "s3://b/a?.csv"),
            ("abfss://c@a.net/k", "abfss://c@a.net/k"),
        ] {
            assert_eq!(redacted(url), shown);
        }
        assert_eq!(name_of("https://h/a/b.csv.gz?token=x/y"), "b.csv.gz");
    }
}
