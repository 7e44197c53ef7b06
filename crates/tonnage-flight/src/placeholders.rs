//! Placeholders by position, as clients of Flight SQL write them, become names: `?` and `$1` are `:p1`.
//!
//! Only what is outside strings, quoted identifiers and comments is a placeholder.

/// The statement with named parameters; as it is where it has none.
pub(crate) fn named(text: &str) -> String {
    let (mut out, mut rest, mut number) = (String::with_capacity(text.len() + 16), text, 0);
    while let Some(first) = rest.chars().next() {
        let length = passed_over(rest);
        if length > 0 {
            out.push_str(&rest[..length]);
            rest = &rest[length..];
            continue;
        }
        let digits = rest[first.len_utf8()..]
            .find(|c: char| !c.is_ascii_digit())
            .unwrap_or(rest.len() - first.len_utf8());
        match first {
            '?' => {
                number += 1;
                out.push_str(&format!(":p{number}"));
                rest = &rest[1..];
            }
            '$' if digits > 0 => {
                out.push_str(&format!(":p{}", &rest[1..=digits]));
                rest = &rest[1 + digits..];
            }
            _ => {
                out.push(first);
                rest = &rest[first.len_utf8()..];
            }
        }
    }
    out
}

/// Bytes at the front that are a string, a quoted identifier, a comment or a word; 0 where there is none. What does not end
/// goes on to the end of the text.
fn passed_over(text: &str) -> usize {
    let ended = |end: &str, from: usize| match text[from..].find(end) {
        Some(at) => from + at + end.len(),
        None => text.len(),
    };
    let bytes = text.as_bytes();
    match bytes {
        [b'\'' | b'"' | b'`', ..] => {
            // A doubled quote ends one string and begins the next, which comes to the same.
            ended(&text[..1], 1)
        }
        [b'-', b'-', ..] => ended("\n", 2),
        [b'/', b'*', ..] => ended("*/", 2),
        [b'$', ..] => match dollar_tag(text) {
            Some(tag) => ended(tag, tag.len()),
            None => 0,
        },
        // A word may have digits and dollars in it, and begin none of these.
        [first, ..] if first.is_ascii_alphabetic() || *first == b'_' => text
            .find(|c: char| !c.is_alphanumeric() && c != '_' && c != '$')
            .unwrap_or(text.len()),
        _ => 0,
    }
}

/// `$tag$` or `$$` at the front of a text.
fn dollar_tag(text: &str) -> Option<&str> {
    let end = text[1..].find('$')? + 1;
    let tag = &text[1..end];
    let is_tag = !tag.starts_with(|c: char| c.is_ascii_digit())
        && tag.chars().all(|c| c.is_alphanumeric() || c == '_');
    is_tag.then(|| &text[..=end])
}

/// Whether a statement has rows to give: by its first word, behind comments and parentheses.
pub(crate) fn is_query(text: &str) -> bool {
    let mut rest = text.trim_start_matches(|c: char| c.is_whitespace() || c == '(');
    while rest.starts_with("--") || rest.starts_with("/*") {
        rest = rest[passed_over(rest)..].trim_start_matches(|c: char| c.is_whitespace() || c == '(');
    }
    let word = rest
        .find(|c: char| !c.is_ascii_alphabetic())
        .map_or(rest, |end| &rest[..end]);
    ["SELECT", "WITH", "VALUES", "TABLE", "SHOW", "EXPLAIN", "PRAGMA"]
        .iter()
        .any(|query| word.eq_ignore_ascii_case(query))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn placeholders_become_names() {
        for (text, expected) in [
            (
                "update t set v = ? where id = ?",
                "update t set v = :p1 where id = :p2",
            ),
            (
                "insert into t values ($1, $2, $1)",
                "insert into t values (:p1, :p2, :p1)",
            ),
            (
                "update t set v = '?' where id = ?",
                "update t set v = '?' where id = :p1",
            ),
            (
                "update t set \"a?\" = ? -- ?\n, b = ?",
                "update t set \"a?\" = :p1 -- ?\n, b = :p2",
            ),
            (
                "update t set v = 'it''s ?', w = ?",
                "update t set v = 'it''s ?', w = :p1",
            ),
            (
                "update t set v = $a$?$a$, w = $$?$$, x = $3",
                "update t set v = $a$?$a$, w = $$?$$, x = :p3",
            ),
            ("update t /* ? */ set a$1 = ?", "update t /* ? */ set a$1 = :p1"),
            ("update t set v = :v", "update t set v = :v"),
            ("'open ?", "'open ?"),
            ("$", "$"),
            ("straße ?", "straße :p1"),
        ] {
            assert_eq!(named(text), expected);
        }
    }

    #[test]
    fn queries_are_known_by_their_first_word() {
        for query in [
            "SELECT 1",
            " (select 1)",
            "-- why\n/* so */ with a as (select 1) select * from a",
        ] {
            assert!(is_query(query), "{query}");
        }
        for statement in [
            "insert into t select 1",
            "",
            "selection",
            "--",
            "create table t (a int)",
        ] {
            assert!(!is_query(statement), "{statement}");
        }
    }
}
