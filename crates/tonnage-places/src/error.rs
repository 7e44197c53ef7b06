//! What stores answer, as messages that say what to do.

use std::{fmt::Write as _, io};

use object_store::Error as StoreError;
use tonnage_core::error::{Error, ErrorKind};

/// What is being done, for the message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Doing {
    Read,
    List,
    Write,
}

impl Doing {
    fn verb(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::List => "list",
            Self::Write => "write",
        }
    }

    /// An error of this kind of work.
    pub fn error(self, message: String) -> Error {
        match self {
            Self::Read | Self::List => Error::input(message),
            Self::Write => Error::new(ErrorKind::Refused, message),
        }
    }
}

/// The error that a reader of a place has given as one of input and output, if it is one.
pub fn of_io(cause: io::Error) -> Result<Error, io::Error> {
    cause.downcast::<Error>()
}

/// What a store's code or words mean: what is looked for in the answer, what to say, and the hint.
const KNOWN: &[(&str, &str, &str)] = &[
    (
        "NoSuchBucket",
        "there is no such bucket",
        "look at its name, and at the endpoint that is asked: AWS_ENDPOINT_URL",
    ),
    (
        "ContainerNotFound",
        "there is no such container",
        "look at its name and at AZURE_STORAGE_ACCOUNT",
    ),
    (
        "InvalidAccessKeyId",
        "the store does not know the access key",
        "look at AWS_ACCESS_KEY_ID, and at the endpoint that is asked: AWS_ENDPOINT_URL",
    ),
    (
        "SignatureDoesNotMatch",
        "the secret key does not belong to the access key",
        "look at AWS_SECRET_ACCESS_KEY: one character too many is enough",
    ),
    (
        "ExpiredToken",
        "the session's token has expired",
        "get a new one: aws sso login, or whatever has set AWS_SESSION_TOKEN",
    ),
    (
        "TokenRefreshRequired",
        "the session's token has expired",
        "get a new one: aws sso login, or whatever has set AWS_SESSION_TOKEN",
    ),
    (
        "InvalidToken",
        "the session's token is not valid",
        "look at AWS_SESSION_TOKEN, which belongs to one access key",
    ),
    (
        "RequestTimeTooSkewed",
        "this machine's clock differs too much from the store's",
        "set the clock; signatures hold for 15 minutes",
    ),
    (
        "AuthorizationHeaderMalformed",
        "the bucket lies in another region than the one that is asked",
        "set AWS_REGION to the bucket's region",
    ),
    (
        "PermanentRedirect",
        "the bucket lies in another region than the one that is asked",
        "set AWS_REGION to the bucket's region",
    ),
    (
        "redirect without LOCATION",
        "the bucket lies in another region than the one that is asked",
        "set AWS_REGION to the bucket's region",
    ),
    (
        "InvalidBucketName",
        "this cannot be the name of a bucket",
        "names have 3 to 63 characters: a-z, 0-9, points and hyphens",
    ),
    (
        "SlowDown",
        "the store asks to be asked less often, also after all pauses",
        "try again later, or with fewer files at a time",
    ),
    (
        "NotImplemented",
        "the store does not offer what is needed",
        "look at what it says that it can do",
    ),
    (
        "InvalidObjectState",
        "the object is in an archive and cannot be read at once",
        "restore it first: aws s3api restore-object",
    ),
    (
        "certificate",
        "the server's certificate is not accepted",
        "name the authority that signed it with SSL_CERT_FILE, or look at the name in the URL",
    ),
    (
        "InvalidContentType",
        "the server does not speak TLS",
        "write http:// in the URL or in AWS_ENDPOINT_URL, or look at the port there",
    ),
    (
        "dns error",
        "the server's name leads nowhere",
        "look at the name in the URL or in AWS_ENDPOINT_URL, and at the network",
    ),
    (
        "Connection refused",
        "nobody listens where the store should be",
        "look at the host and port in the URL or in AWS_ENDPOINT_URL",
    ),
    (
        "BadScheme",
        "the endpoint speaks http, which is not allowed",
        "allow it with AWS_ALLOW_HTTP=true",
    ),
    (
        "URL scheme is not allowed",
        "the endpoint speaks http, which is not allowed",
        "allow it with AWS_ALLOW_HTTP=true",
    ),
];

/// What says where S3 is, in the hints above.
const OF_S3: &str = "AWS_ENDPOINT_URL";

/// What says where the store of a URL is, other than the URL.
fn endpoint_of(shown: &str) -> &'static str {
    match shown.split(':').next() {
        Some("gs" | "gcs") => "STORAGE_EMULATOR_HOST",
        Some("az" | "azure" | "abfs" | "abfss") => "AZURE_STORAGE_CONNECTION_STRING",
        Some("http" | "https") => "HTTPS_PROXY",
        _ if shown.starts_with('@') => "the endpoint of its section",
        _ => OF_S3,
    }
}

/// Where machines are asked for their roles.
const METADATA_HOSTS: &[&str] = &["169.254.169.254", "metadata.google.internal"];

/// The message for what a store has answered while `shown` was worked on.
pub(crate) fn of_store(doing: Doing, shown: &str, cause: &StoreError) -> Error {
    let text = chain(cause);
    let verb = doing.verb();
    if let Some((_, what, hint)) = KNOWN.iter().find(|(mark, _, _)| text.contains(mark)) {
        let hint = hint.replace(OF_S3, endpoint_of(shown));
        return doing.error(format!("cannot {verb} {shown}: {what}")).hint(hint);
    }
    if METADATA_HOSTS.iter().any(|host| text.contains(host)) {
        let message =
            format!("cannot {verb} {shown}: no credentials were found, and no machine's role answers");
        return doing.error(message).hint(match shown.split(':').next() {
            Some("gs" | "gcs") => "set GOOGLE_APPLICATION_CREDENTIALS; for a public bucket GOOGLE_SKIP_SIGNATURE=true",
            Some("s3" | "s3a") => {
                "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY or AWS_PROFILE; for a public bucket AWS_SKIP_SIGNATURE=true"
            }
            _ => "set AZURE_STORAGE_KEY or AZURE_STORAGE_SAS_TOKEN; for a public container AZURE_SKIP_SIGNATURE=true",
        });
    }
    match cause {
        StoreError::NotFound { .. } => doing
            .error(format!("{shown}: there is no such object"))
            .hint("names are exact, capitals included; a prefix ends in /"),
        StoreError::PermissionDenied { .. } => denied(doing, shown),
        StoreError::Unauthenticated { .. } => doing
            .error(format!(
                "cannot {verb} {shown}: the store does not accept the credentials"
            ))
            .hint("look at the variables or the profile that they come from"),
        StoreError::Precondition { .. } => changed(shown),
        StoreError::AlreadyExists { .. } => exists(shown),
        _ => doing
            .error(format!("cannot {verb} {shown}: {}", in_short(&text)))
            .hint("the store's answer is above; a request is repeated before it is given up"),
    }
}

/// The store refuses the access.
pub(crate) fn denied(doing: Doing, shown: &str) -> Error {
    let needed = match doing {
        Doing::Read => "reading it, and listing the bucket: without that what is not there is denied too",
        Doing::List => "listing the bucket",
        Doing::Write => "writing there, multipart uploads included",
    };
    doing
        .error(format!("cannot {} {shown}: access is denied", doing.verb()))
        .hint(format!("the credentials must allow {needed}"))
}

/// The object is another one than when it was found.
pub(crate) fn changed(shown: &str) -> Error {
    Error::input(format!("{shown} has changed since reading began: what is there now is another version")).hint(
        "read it again from the beginning once nothing writes to it: a load with --restart, and with --truncate where \
         rows of it were written",
    )
}

/// Something is there that is not to be replaced.
pub(crate) fn exists(shown: &str) -> Error {
    Error::config(format!("'{shown}' exists")).hint("replace it with --overwrite, or name another one")
}

/// An error with all that caused it; queries of URLs, which may be signatures, are left out.
pub(crate) fn chain(cause: &dyn std::error::Error) -> String {
    let mut text = cause.to_string();
    let mut next = cause.source();
    while let Some(cause) = next {
        let more = cause.to_string();
        if !text.contains(&more) {
            // Writing to a text cannot fail.
            let _ = write!(text, ": {more}");
        }
        next = cause.source();
    }
    without_queries(&text)
}

/// Each URL in `text` without its query.
fn without_queries(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("://") {
        let (before, behind) = rest.split_at(at);
        let end = behind
            .find(|c: char| c.is_whitespace() || matches!(c, '"' | ')' | '>' | '\''))
            .unwrap_or(behind.len());
        let (url, further) = behind.split_at(end);
        out.push_str(before);
        out.push_str(url.split('?').next().unwrap_or_default());
        rest = further;
    }
    out.push_str(rest);
    out
}

/// The most characters of a store's own words that a message repeats.
const SAID_CHARS_MAX: usize = 300;

/// What a store says, without the XML around it.
fn in_short(text: &str) -> String {
    let between = |from: &str, to: &str| {
        let (_, behind) = text.split_once(from)?;
        Some(behind.split_once(to)?.0)
    };
    match (between("<Code>", "</Code>"), between("<Message>", "</Message>")) {
        (Some(code), Some(message)) => format!("{code}: {message}"),
        (Some(code), None) => code.to_owned(),
        _ => text.chars().take(SAID_CHARS_MAX).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_stores_say_is_told_with_a_hint_and_without_signatures() {
        let generic = |text: &str| StoreError::Generic {
            store: "S3",
            source: text.to_owned().into(),
        };
        for (said, message) in [
            (
                "404 <Code>NoSuchBucket</Code>",
                "cannot read s3://b/k: there is no such bucket",
            ),
            (
                "503 <Code>SlowDown</Code>",
                "cannot read s3://b/k: the store asks to be asked less often, also after all pauses",
            ),
            (
                "error sending request: client error (Connect): received corrupt message of type InvalidContentType",
                "cannot read s3://b/k: the server does not speak TLS",
            ),
            (
                "<Code>Odd</Code><Message>it is odd</Message>",
                "cannot read s3://b/k: Odd: it is odd",
            ),
            (
                "error for url (https://h/k?X-Amz-Signature=secret)",
                "cannot read s3://b/k: Generic S3 error: error for url (https://h/k)",
            ),
        ] {
            let error = of_store(Doing::Read, "s3://b/k", &generic(said));
            assert_eq!(error.to_string(), message);
            assert!(error.hint_text().is_some());
        }
        for (shown, endpoint) in [
            ("s3://b/k", "AWS_ENDPOINT_URL"),
            ("az://c/k", "AZURE_STORAGE_CONNECTION_STRING"),
            ("gs://b/k", "STORAGE_EMULATOR_HOST"),
            ("https://h/k", "HTTPS_PROXY"),
            ("@lake/k", "the endpoint of its section"),
        ] {
            let error = of_store(Doing::Read, shown, &generic("Connection refused"));
            let hint = error.hint_text().unwrap_or_default();
            assert!(hint.ends_with(&format!("in the URL or in {endpoint}")), "{hint}");
        }
    }
}
