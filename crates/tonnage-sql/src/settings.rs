//! Settings that drivers share: secrets and where they came from, TLS, values of URLs.

use std::fmt;

use percent_encoding::percent_decode_str;
use tonnage_core::error::{Error, Result};

/// Text that is never shown, also not by `Debug`.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(pub String);

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

/// Where a password came from, so that one that is refused can be found where it was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PasswordOrigin {
    /// The URL.
    Url,
    /// The environment variable of this name.
    Environment(&'static str),
    /// A file, shown as the user would write it.
    File(String),
    /// Another place, in these words.
    Given(String),
    /// There is none.
    None,
}

impl fmt::Display for PasswordOrigin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Url => f.write_str("password from the URL"),
            Self::Environment(name) => write!(f, "password from {name}"),
            Self::File(path) => write!(f, "password from {path}"),
            Self::Given(origin) => write!(f, "password {origin}"),
            Self::None => f.write_str("none was given"),
        }
    }
}

/// TLS, in libpq's words for every database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TlsMode {
    /// Never.
    Disable,
    /// Only if the server insists.
    Allow,
    /// If the server can.
    Prefer,
    /// Always, whatever the certificate, unless an authority is given.
    Require,
    /// With a certificate signed by the given authority, whatever host it is made out to.
    VerifyAuthority,
    /// With a certificate signed by the given authority and made out to this host.
    VerifyFull,
}

impl TlsMode {
    /// Reads libpq's names. `origin` completes "unknown sslmode 'x' ..".
    pub fn parse(text: &str, origin: &str) -> Result<Self> {
        match text {
            "disable" => Ok(Self::Disable),
            "allow" => Ok(Self::Allow),
            "prefer" => Ok(Self::Prefer),
            "require" => Ok(Self::Require),
            "verify-ca" => Ok(Self::VerifyAuthority),
            "verify-full" => Ok(Self::VerifyFull),
            _ => Err(Error::config(format!("unknown sslmode '{text}' {origin}"))
                .hint("modes are disable, allow, prefer, require, verify-ca, verify-full")),
        }
    }
}

/// An environment variable of this process; none where it is empty or not UTF-8.
pub fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

/// The `part` of `url`, as messages call them, with its percent signs decoded.
pub fn decode(text: &str, part: &str, url: &str) -> Result<String> {
    let decoded = percent_decode_str(text)
        .decode_utf8()
        .map_err(|_| Error::config(format!("the {part} in {url} is not UTF-8")))?;
    if decoded.contains('\0') {
        return Err(Error::config(format!("the {part} in {url} holds a NUL byte")));
    }
    Ok(decoded.into_owned())
}
