//! URLs as users write them.

use std::path::Path;

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
