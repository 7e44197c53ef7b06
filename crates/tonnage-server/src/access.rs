//! Who may do what.
//!
//! Invariants: a token is 256 random bits and is shown once; only its SHA-256 is kept, and all of them are compared in
//! constant time. Without tokens everybody on loopback may do everything.

use std::{
    sync::{Arc, Mutex},
    time::Instant,
};

use jiff::Timestamp;
use sha2::{Digest, Sha256};
use tonnage::{Error, Result};

use crate::{config::Config, refusal::Refusal};

/// What somebody may do with a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Right {
    /// Read its rows and its columns.
    Read,
    /// Put rows.
    Write,
}

/// All tokens.
#[derive(Debug, Default)]
pub struct Access {
    tokens: Vec<Arc<Token>>,
    /// Whether whoever shows none may do everything.
    pub is_open: bool,
}

/// One of them.
#[derive(Debug)]
pub struct Token {
    /// What the log calls it.
    pub name: String,
    hash: Option<[u8; 32]>,
    certificate: Option<[u8; 32]>,
    expires: Option<Timestamp>,
    read: Vec<String>,
    write: Vec<String>,
    admin: bool,
    sql: bool,
    rows: Option<Bucket>,
    requests: Option<Bucket>,
}

/// Who asks.
#[derive(Debug, Clone)]
pub struct Caller {
    /// None where there are no tokens.
    pub token: Option<Arc<Token>>,
}

/// So many a second, a second's worth at once.
#[derive(Debug)]
struct Bucket {
    per_second: f64,
    /// What is left, and when that was.
    level: Mutex<(f64, Instant)>,
}

impl Bucket {
    fn new(per_second: u64) -> Self {
        Self {
            per_second: per_second as f64,
            level: Mutex::new((per_second as f64, Instant::now())),
        }
    }

    /// Takes `count`, as long as anything is left; seconds to wait where nothing is. More than is left is owed.
    fn take(&self, count: u64) -> Result<(), u64> {
        let mut level = self.now();
        if level.0 <= 0.0 {
            return Err(((1.0 - level.0) / self.per_second).ceil() as u64);
        }
        level.0 -= count as f64;
        Ok(())
    }

    /// Takes `count`, whatever is left.
    fn owe(&self, count: u64) {
        self.now().0 -= count as f64;
    }

    fn now(&self) -> std::sync::MutexGuard<'_, (f64, Instant)> {
        let mut level = self
            .level
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        let now = Instant::now();
        let grown = level.0 + now.duration_since(level.1).as_secs_f64() * self.per_second;
        *level = (grown.min(self.per_second), now);
        level
    }
}

impl Access {
    /// As the configuration says.
    pub fn of(config: &Config) -> Result<Self> {
        let mut tokens = Vec::new();
        for (name, token) in &config.tokens {
            let hash = |text: &Option<String>| {
                text.as_deref()
                    .map(|text| {
                        unhex(text).ok_or_else(|| {
                            Error::config(format!("token {name}: '{text}' is no SHA-256"))
                                .hint("tonnage serve --new-token prints a token and its SHA-256")
                        })
                    })
                    .transpose()
            };
            let (hash, certificate) = (hash(&token.sha256)?, hash(&token.certificate)?);
            if hash.is_none() && certificate.is_none() {
                return Err(Error::config(format!(
                    "token {name} has neither sha256 nor certificate"
                )));
            }
            let expires = token
                .expires
                .as_deref()
                .map(str::parse)
                .transpose()
                .map_err(|error| {
                    Error::config(format!("token {name}: its expiry cannot be read: {error}"))
                        .hint("write it as 2027-01-31T00:00:00Z")
                })?;
            tokens.push(Arc::new(Token {
                name: name.clone(),
                hash,
                certificate,
                expires,
                read: token.read.clone(),
                write: token.write.clone(),
                admin: token.admin,
                sql: token.sql,
                rows: token.rows_per_second.map(Bucket::new),
                requests: token.requests_per_second.map(Bucket::new),
            }));
        }
        Ok(Self {
            is_open: tokens.is_empty(),
            tokens,
        })
    }

    /// Who shows this token, or this certificate (DER).
    pub fn caller(&self, token: Option<&str>, certificate: Option<&[u8]>) -> Result<Caller, Refusal> {
        if self.is_open {
            return Ok(Caller { token: None });
        }
        let shown = token.map(|token| <[u8; 32]>::from(Sha256::digest(token.as_bytes())));
        let certificate = certificate.map(|der| <[u8; 32]>::from(Sha256::digest(der)));
        let mut found = None;
        // All of them are looked at, whichever it is.
        for known in &self.tokens {
            let by_token = equal(known.hash.as_ref(), shown.as_ref());
            let by_certificate = equal(known.certificate.as_ref(), certificate.as_ref());
            if by_token | by_certificate {
                found = Some(known.clone());
            }
        }
        let found = found.filter(|token| token.expires.is_none_or(|end| Timestamp::now() < end));
        let token = found.ok_or_else(Refusal::stranger)?;
        if let Some(bucket) = &token.requests {
            bucket.take(1).map_err(|seconds| rate(seconds, "requests"))?;
        }
        Ok(Caller { token: Some(token) })
    }
}

impl Caller {
    /// What the log calls it.
    pub fn name(&self) -> &str {
        self.token.as_ref().map_or("anybody", |token| &token.name)
    }

    /// Whether it may see the page, metrics and every table.
    pub fn is_admin(&self) -> bool {
        self.token.as_ref().is_none_or(|token| token.admin)
    }

    /// Refuses whoever is no admin.
    pub fn admin(&self) -> Result<(), Refusal> {
        match self.is_admin() {
            true => Ok(()),
            false => Err(Refusal::forbidden()),
        }
    }

    /// Whether it may run SQL of its own.
    pub fn may_run_sql(&self) -> bool {
        self.token.as_ref().is_none_or(|token| token.sql)
    }

    /// The patterns of tables that it has this right to; none for all tables.
    pub fn patterns(&self, right: Right) -> Option<&[String]> {
        let token = self.token.as_ref()?;
        Some(match right {
            Right::Read => &token.read,
            Right::Write => &token.write,
        })
    }

    /// Takes so many rows from its rate.
    pub fn rows(&self, count: u64) -> Result<(), Refusal> {
        match self.token.as_ref().and_then(|token| token.rows.as_ref()) {
            Some(bucket) => bucket.take(count).map_err(|seconds| rate(seconds, "rows")),
            None => Ok(()),
        }
    }

    /// Whether anything is left of its rate of rows.
    pub fn may_send(&self) -> Result<(), Refusal> {
        self.rows(0)
    }

    /// Takes so many rows from its rate, which are there already.
    pub fn has_sent(&self, count: u64) {
        if let Some(bucket) = self.token.as_ref().and_then(|token| token.rows.as_ref()) {
            bucket.owe(count);
        }
    }
}

fn rate(seconds: u64, what: &str) -> Refusal {
    Refusal::new(
        axum::http::StatusCode::TOO_MANY_REQUESTS,
        "rate",
        format!("this token's {what} a second are used up"),
    )
    .retry_after(seconds)
}

/// Whether both are there and the same, in a time that does not depend on where they differ.
fn equal(a: Option<&[u8; 32]>, b: Option<&[u8; 32]>) -> bool {
    let (Some(a), Some(b)) = (a, b) else {
        return false;
    };
    let difference = a.iter().zip(b).fold(0u8, |all, (a, b)| all | (a ^ b));
    std::hint::black_box(difference) == 0
}

/// A new token and its SHA-256, both as text. `Refused` where the system gives no random bytes.
pub fn new_token() -> Result<(String, String)> {
    let mut random = [0u8; 32];
    getrandom::fill(&mut random)
        .map_err(|error| Error::new(tonnage::ErrorKind::Refused, format!("no random bytes: {error}")))?;
    let token = format!("tng_{}", hex(&random));
    let hash = hex(&Sha256::digest(token.as_bytes()));
    Ok((token, hash))
}

/// As hexadecimal digits.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn unhex(text: &str) -> Option<[u8; 32]> {
    let text = text.trim();
    if text.len() != 64 || !text.is_ascii() {
        return None;
    }
    let mut bytes = [0; 32];
    for (at, byte) in bytes.iter_mut().enumerate() {
        *byte = u8::from_str_radix(&text[at * 2..at * 2 + 2], 16).ok()?;
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(text: &str) -> Config {
        toml::from_str(text).expect("it can be read")
    }

    #[test]
    fn a_token_is_known_by_its_hash_until_it_expires() {
        let (token, hash) = new_token().unwrap();
        let access = |expires: &str| {
            Access::of(&config(&format!(
                "[tokens.may]\nsha256 = \"{hash}\"\nwrite = [\"a\"]\nexpires = \"{expires}\"\n"
            )))
            .unwrap()
        };
        let lasting = access("2999-01-01T00:00:00Z");
        assert_eq!(lasting.caller(Some(&token), None).unwrap().name(), "may");
        assert!(lasting.caller(Some(&hash), None).is_err(), "the hash is no token");
        assert!(lasting.caller(Some(""), None).is_err());
        assert!(lasting.caller(None, None).is_err());
        assert!(access("2001-01-01T00:00:00Z").caller(Some(&token), None).is_err());
        let caller = lasting.caller(Some(&token), None).unwrap();
        assert!(!caller.is_admin());
        assert_eq!(caller.patterns(Right::Read), Some(&[][..]));
    }

    #[test]
    fn what_is_no_token_is_refused_at_the_start() {
        for text in [
            "sha256 = \"12\"",
            "",
            "sha256 = \"00\"\nexpires = \"soon\"",
            "read = [\"*\"]",
        ] {
            assert!(
                Access::of(&config(&format!("[tokens.a]\n{text}\n"))).is_err(),
                "{text}"
            );
        }
    }

    #[test]
    fn a_rate_is_owed_back() {
        let bucket = Bucket::new(10);
        // So much that no time which passes meanwhile pays it back.
        assert_eq!(bucket.take(100_000), Ok(()));
        assert!(bucket.take(1).is_err());
    }
}
