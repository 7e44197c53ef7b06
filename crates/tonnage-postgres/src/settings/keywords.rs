//! Connection strings of keywords, as libpq has them: `host=db dbname=shop password='it''s \'quoted\''`.
//!
//! Messages and what is shown hold no values: one may be a password.

use tonnage_core::{
    error::{Error, Result},
    table::nearest,
};

use super::{OPTIONS, UrlParts};

/// Cuts `text` into the parts of a connection.
pub(super) fn split(text: &str) -> Result<UrlParts> {
    let mut parts = UrlParts::default();
    for (name, value) in pairs(text)? {
        if !name
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
        {
            return Err(
                Error::config("the connection string has a value without an option")
                    .hint("write options as name=value, and a value with blanks in quotes: name='a value'"),
            );
        }
        if !OPTIONS.contains(&name) {
            let error = Error::config(format!("unknown option '{name}' in the connection string"));
            return Err(match nearest(name, OPTIONS.iter().copied()).first() {
                Some(near) => error.hint(format!("did you mean {near}?")),
                None => error.hint(format!("options are {}", OPTIONS.join(", "))),
            });
        }
        if value.contains('\0') {
            return Err(Error::config(format!(
                "the {name} in the connection string holds a NUL byte"
            )));
        }
        parts.options.push((name.to_owned(), value));
    }
    Ok(parts)
}

/// The connection string without its password.
pub(super) fn redact(text: &str) -> String {
    let Ok(pairs) = pairs(text) else {
        return String::new();
    };
    let shown = pairs.iter().map(|(name, value)| match *name {
        "password" => "password=***".to_owned(),
        // What is written wrongly may be a password too.
        name if !OPTIONS.contains(&name) => "***".to_owned(),
        name if value.is_empty() || value.contains([' ', '\'', '\\']) => {
            format!("{name}='{}'", value.replace('\\', "\\\\").replace('\'', "\\'"))
        }
        name => format!("{name}={value}"),
    });
    shown.collect::<Vec<_>>().join(" ")
}

/// Names and values. A backslash takes the next character as it is, a quoted value ends with its quote.
fn pairs(text: &str) -> Result<Vec<(&str, String)>> {
    let mut found = Vec::new();
    let mut rest = text.trim_ascii_start();
    while !rest.is_empty() {
        let (name, after) = rest.split_once('=').ok_or_else(|| {
            Error::config("an option in the connection string has no value")
                .hint("write options as name=value, with blanks between")
        })?;
        let name = name.trim_ascii_end();
        if name.is_empty() || name.contains(|c: char| c.is_ascii_whitespace()) {
            return Err(Error::config("an option in the connection string has no value")
                .hint("put a value that holds blanks in quotes: name='a value'"));
        }
        let after = after.trim_ascii_start();
        let (quoted, body) = match after.strip_prefix('\'') {
            Some(body) => (true, body),
            None => (false, after),
        };
        let mut value = String::new();
        let mut chars = body.char_indices();
        let end = loop {
            match chars.next() {
                Some((at, '\'')) if quoted => break at + 1,
                Some((at, c)) if !quoted && c.is_ascii_whitespace() => break at,
                Some((_, '\\')) => value.extend(chars.next().map(|(_, c)| c)),
                Some((_, c)) => value.push(c),
                None if quoted => {
                    return Err(Error::config(format!(
                        "the quote of {name} in the connection string is not closed"
                    )));
                }
                None => break body.len(),
            }
        };
        found.push((name, value));
        rest = body[end..].trim_ascii_start();
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_cut_as_libpq_cuts_them() {
        let cases: &[(&str, &[(&str, &str)])] = &[
            ("host=db dbname=shop", &[("host", "db"), ("dbname", "shop")]),
            (" host = db\n port=7 ", &[("host", "db"), ("port", "7")]),
            (
                r"password='it\'s a \\' user=a\ b options=''",
                &[("password", r"it's a \"), ("user", "a b"), ("options", "")],
            ),
            (
                "hostaddr=::1 options=-csearch_path=x",
                &[("hostaddr", "::1"), ("options", "-csearch_path=x")],
            ),
        ];
        for (text, expected) in cases {
            let expected: Vec<_> = expected.iter().map(|(n, v)| (*n, (*v).to_owned())).collect();
            assert_eq!(pairs(text).unwrap(), expected, "{text}");
        }
    }

    #[test]
    fn what_is_wrong_is_said_and_shown_without_values() {
        for (text, message) in [
            (
                "host=db hidden",
                "an option in the connection string has no value",
            ),
            (
                "host=db pass word=hidden",
                "an option in the connection string has no value",
            ),
            (
                "password='hidden",
                "the quote of password in the connection string is not closed",
            ),
            (
                "hots=db password=hidden",
                "unknown option 'hots' in the connection string",
            ),
        ] {
            let error = split(text).err().expect("it is refused");
            assert_eq!(error.to_string(), message);
            assert!(!error.hint_text().unwrap_or_default().contains("hidden"));
            assert!(!redact(text).contains("hidden"));
        }
        assert_eq!(
            redact("host=db user='a b' password='x y' dbname=''"),
            "host=db user='a b' password=*** dbname=''"
        );
    }
}
