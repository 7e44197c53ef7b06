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
