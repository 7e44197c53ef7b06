//! A password that was given separately from the URL.

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

#[cfg(test)]
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
}
