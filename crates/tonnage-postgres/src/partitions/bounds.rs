//! What a partition takes, as `pg_get_expr(relpartbound)` tells it.

use tonnage_core::error::{Error, Result};

/// A partition's bound.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Bound {
    /// Everything that no other takes.
    Default,
    /// Hashes with this remainder.
    Hash {
        /// By which hashes are divided.
        modulus: u64,
        /// What is left.
        remainder: u64,
    },
    /// Keys from the first, included, to the second, not included.
    Range(Vec<Value>, Vec<Value>),
    /// Keys that are one of these.
    List(Vec<Value>),
}

/// A value within a bound.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Value {
    /// Below all.
    Min,
    /// Above all.
    Max,
    /// None.
    Null,
    /// This one, as text.
    Text(String),
}

/// Reads a bound. None where it is written in a way that is not known here.
pub fn read(text: &str) -> Option<Bound> {
    let text = text.trim();
    if text == "DEFAULT" {
        return Some(Bound::Default);
    }
    let rest = text.strip_prefix("FOR VALUES ")?;
    if let Some(rest) = rest.strip_prefix("WITH (modulus ") {
        let (modulus, rest) = rest.split_once(", remainder ")?;
        let modulus: u64 = modulus.parse().ok()?;
        let remainder = rest.strip_suffix(')')?.parse().ok()?;
        return (modulus > 0).then_some(Bound::Hash { modulus, remainder });
    }
    if let Some(rest) = rest.strip_prefix("IN ") {
        let (values, rest) = values(rest)?;
        return rest.is_empty().then_some(Bound::List(values));
    }
    let (from, rest) = values(rest.strip_prefix("FROM ")?)?;
    let (to, rest) = values(rest.strip_prefix(" TO ")?)?;
    rest.is_empty().then_some(Bound::Range(from, to))
}

/// A list in parentheses, and what follows it.
fn values(text: &str) -> Option<(Vec<Value>, &str)> {
    let mut rest = text.strip_prefix('(')?;
    let mut values = Vec::new();
    loop {
        let value;
        (value, rest) = one(rest)?;
        values.push(value);
        match rest.strip_prefix(", ") {
            Some(more) => rest = more,
            None => return Some((values, rest.strip_prefix(')')?)),
        }
    }
}

fn one(text: &str) -> Option<(Value, &str)> {
    if let Some(quoted) = text.strip_prefix('\'') {
        let mut value = String::new();
        let mut rest = quoted;
        loop {
            let (part, after) = rest.split_once('\'')?;
            value.push_str(part);
            match after.strip_prefix('\'') {
                Some(more) => {
                    value.push('\'');
                    rest = more;
                }
                None => return Some((Value::Text(value), after)),
            }
        }
    }
    let end = text.find([',', ')'])?;
    let (word, rest) = text.split_at(end);
    let value = match word {
        "MINVALUE" => Value::Min,
        "MAXVALUE" => Value::Max,
        "NULL" => Value::Null,
        // A number or a truth value has no quotes; anything else is a spelling that is not known here.
        word if word.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'.') => Value::Text(word.to_owned()),
        _ => return None,
    };
    Some((value, rest))
}

/// The shard of each remainder of the greatest modulus; `none` where no partition takes it. `Schema` where the moduli
/// do not divide one another, which the server does not allow.
pub fn remainders(bounds: &[Bound], none: u16) -> Result<Vec<u16>> {
    let modulus = |bound: &Bound| match bound {
        Bound::Hash { modulus, .. } => *modulus,
        _ => 1,
    };
    let greatest = bounds.iter().map(modulus).max().unwrap_or(1);
    if bounds.iter().any(|bound| greatest % modulus(bound) != 0) {
        return Err(Error::bug(
            "moduli of hash partitions that do not divide one another",
        ));
    }
    let shard = |hash: u64| {
        let takes = |bound: &Bound| match bound {
            Bound::Hash { modulus, remainder } => hash % modulus == *remainder,
            _ => false,
        };
        bounds.iter().position(takes).map_or(none, |at| at as u16)
    };
    Ok((0..greatest).map(shard).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &str) -> Value {
        Value::Text(text.to_owned())
    }

    #[test]
    fn bounds_are_read_as_the_server_writes_them() {
        let hash = Bound::Hash {
            modulus: 8,
            remainder: 3,
        };
        assert_eq!(read("FOR VALUES WITH (modulus 8, remainder 3)"), Some(hash));
        assert_eq!(read("DEFAULT"), Some(Bound::Default));
        assert_eq!(
            read("FOR VALUES FROM ('2024-01-01', MINVALUE) TO (MAXVALUE, '-5')"),
            Some(Bound::Range(
                vec![text("2024-01-01"), Value::Min],
                vec![Value::Max, text("-5")]
            ))
        );
        assert_eq!(
            read("FOR VALUES IN ('it''s, (so)', NULL, 7, true)"),
            Some(Bound::List(vec![
                text("it's, (so)"),
                Value::Null,
                text("7"),
                text("true")
            ]))
        );
        for unknown in [
            "",
            "FOR VALUES",
            "FOR VALUES IN (E'a\\\\b')",
            "FOR VALUES IN ('open",
            "FOR VALUES IN (1) more",
            "FOR VALUES WITH (modulus 0, remainder 0)",
            "FOR VALUES IN ('a'::text)",
        ] {
            assert_eq!(read(unknown), None, "{unknown}");
        }
    }

    #[test]
    fn every_remainder_has_its_partition() {
        let hash = |modulus, remainder| Bound::Hash { modulus, remainder };
        let bounds = [hash(2, 0), hash(4, 1), hash(4, 3)];
        assert_eq!(remainders(&bounds, 9).unwrap(), [0, 1, 0, 2]);
        assert_eq!(remainders(&bounds[..2], 9).unwrap(), [0, 1, 0, 9]);
        assert!(remainders(&[hash(2, 0), hash(3, 1)], 9).is_err());
    }
}
