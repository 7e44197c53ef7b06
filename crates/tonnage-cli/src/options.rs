//! Values as people write them on a command line.

use std::time::Duration;

use tonnage::{operation::Mode, plan::Rate};

/// What happens to a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum ModeName {
    /// Every row is new; one whose key exists is bad
    Insert,
    /// A row whose key exists replaces what is there, in the columns that are loaded
    Upsert,
    /// A row whose key exists is left out
    Ignore,
    /// A row changes what has its key; without one it is left out
    Update,
    /// A row removes what has its key; only the key's columns are used
    Delete,
}

impl ModeName {
    /// The mode of this name.
    pub fn mode(self) -> Mode {
        match self {
            Self::Insert => Mode::Insert,
            Self::Upsert => Mode::Upsert,
            Self::Ignore => Mode::Ignore,
            Self::Update => Mode::Update,
            Self::Delete => Mode::Delete,
        }
    }
}

/// `1000`, `10k`, `5M`, `2G`: powers of ten.
pub fn count(text: &str) -> Result<u64, String> {
    scaled(
        &text.to_ascii_lowercase(),
        &[("k", 1_000), ("m", 1_000_000), ("g", 1_000_000_000)],
    )
    .ok_or_else(|| "write a number such as 1000, 10k or 5M".to_owned())
}

/// `4096`, `64KiB`, `8MiB`, `8MB`, `1g`: powers of 1024, but for `kB`, `MB`, `GB`.
pub fn size(text: &str) -> Result<usize, String> {
    const UNITS: [(&str, u64); 10] = [
        ("kib", 1 << 10),
        ("mib", 1 << 20),
        ("gib", 1 << 30),
        ("kb", 1_000),
        ("mb", 1_000_000),
        ("gb", 1_000_000_000),
        ("k", 1 << 10),
        ("m", 1 << 20),
        ("g", 1 << 30),
        ("b", 1),
    ];
    scaled(&text.to_ascii_lowercase(), &UNITS)
        .and_then(|n| usize::try_from(n).ok())
        .filter(|n| *n > 0)
        .ok_or_else(|| "write a size such as 65536, 64KiB or 8MB".to_owned())
}

fn scaled(text: &str, units: &[(&str, u64)]) -> Option<u64> {
    let found = units
        .iter()
        .find_map(|(unit, factor)| Some((text.strip_suffix(unit)?, *factor)));
    let (digits, factor) = found.unwrap_or((text, 1));
    digits.trim().parse::<u64>().ok()?.checked_mul(factor)
}

/// `50k/s` rows, or `20MB/s`, `8MiB/s` bytes.
pub fn rate(text: &str) -> Result<Rate, String> {
    let amount = text.strip_suffix("/s").unwrap_or(text);
    match amount.ends_with(['b', 'B']) {
        true => size(amount).map(|bytes| Rate::Bytes(bytes as u64)),
        false => count(amount).map(Rate::Rows),
    }
    .map_err(|_| "write rows or bytes a second, such as 50k/s or 20MB/s".to_owned())
}

/// The units of times, the longest ending first.
const TIMES: [(&str, f64); 6] = [
    ("us", 1e-6),
    ("ms", 1e-3),
    ("min", 60.0),
    ("s", 1.0),
    ("m", 60.0),
    ("h", 3600.0),
];

/// `500ms`, `2s`, `1.5s`, `3m`, `1h`: more than nothing.
pub fn seconds(text: &str) -> Result<Duration, String> {
    timed(text, 1e-3).ok_or_else(|| "write a time such as 500ms, 2s or 1m".to_owned())
}

/// The same, and a number alone, which is milliseconds.
pub fn age(text: &str) -> Result<Duration, String> {
    match text.trim().parse::<u64>() {
        Ok(milliseconds) => Ok(Duration::from_millis(milliseconds)),
        Err(_) => seconds(text),
    }
}

/// `0`, `500us`, `70ms`, `0.2s`.
pub fn round_trip(text: &str) -> Result<Duration, String> {
    match text.trim() {
        "0" => Ok(Duration::ZERO),
        text => timed(text, 0.0).ok_or_else(|| "write a time such as 0, 500us or 70ms".to_owned()),
    }
}

/// A number with one of [`TIMES`], of seconds from `least` to a day.
fn timed(text: &str, least: f64) -> Option<Duration> {
    let found = TIMES
        .iter()
        .find_map(|(unit, factor)| Some((text.strip_suffix(unit)?, *factor)));
    let (digits, factor) = found?;
    let seconds = digits.trim().parse::<f64>().ok()? * factor;
    match seconds >= least && seconds <= 86_400.0 {
        true => Duration::try_from_secs_f64(seconds).ok(),
        false => None,
    }
}

/// Bytes a second: `10MB/s`, `8MiB/s`.
pub fn bandwidth(text: &str) -> Result<u64, String> {
    match rate(text) {
        Ok(Rate::Bytes(bytes)) => Ok(bytes),
        _ => Err("write bytes a second, such as 10MB/s".to_owned()),
    }
}

/// Rows a second: `5k`, `5k/s`.
pub fn rows_rate(text: &str) -> Result<u64, String> {
    match rate(text) {
        Ok(Rate::Rows(rows)) => Ok(rows),
        _ => Err("write rows a second, such as 5k or 500/s".to_owned()),
    }
}

/// So many of a hundred: `50`, `50%`.
pub fn percent(text: &str) -> Result<u8, String> {
    let digits = text.trim().trim_end_matches('%').trim_end();
    let found = digits.parse::<u8>().ok().filter(|percent| *percent <= 100);
    found.ok_or_else(|| "write how many of a hundred, such as 50 or 95".to_owned())
}

/// `a=b`.
pub fn pair(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((left, right)) if !left.is_empty() && !right.is_empty() => {
            Ok((left.to_owned(), right.to_owned()))
        }
        _ => Err("write it as NAME=VALUE".to_owned()),
    }
}

/// Pairs of one argument.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pairs(pub Vec<(String, String)>);

/// `a=b`, or `a=b,c=d`. A comma that is not followed by another pair is part of the name.
pub fn pairs(text: &str) -> Result<Pairs, String> {
    let mut found: Vec<String> = Vec::new();
    for part in text.split(',') {
        match found.last_mut() {
            Some(last) if !part.contains('=') => {
                last.push(',');
                last.push_str(part);
            }
            _ => found.push(part.to_owned()),
        }
    }
    found
        .iter()
        .map(|part| pair(part))
        .collect::<Result<_, _>>()
        .map(Pairs)
}

/// One byte: `;`, `\t`, `tab`.
pub fn byte(text: &str) -> Result<u8, String> {
    match text {
        "\\t" | "tab" => Ok(b'\t'),
        _ => match text.as_bytes() {
            [byte] if byte.is_ascii() && !matches!(byte, b'\n' | b'\r') => Ok(*byte),
            _ => Err("write one ASCII character, or \\t".to_owned()),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_and_sizes_as_people_write_them() {
        assert_eq!(count("1000"), Ok(1000));
        assert_eq!(count("10k"), Ok(10_000));
        assert_eq!(count("5M"), Ok(5_000_000));
        assert!(count("ten").is_err());
        for bad in [
            "",
            "k",
            "-1",
            "1.5M",
            "10kk",
            "99999999999999999999",
            "99999999999G",
        ] {
            assert!(count(bad).is_err(), "{bad}");
        }
        assert_eq!(size("64KiB"), Ok(65_536));
        assert_eq!(size("8MB"), Ok(8_000_000));
        assert_eq!(size("1g"), Ok(1 << 30));
        assert!(size("0").is_err());
        assert_eq!(byte("\\t"), Ok(9));
        assert!(byte("ab").is_err());
        assert_eq!(rate("50k/s"), Ok(Rate::Rows(50_000)));
        assert_eq!(rate("20MB/s"), Ok(Rate::Bytes(20_000_000)));
        assert!(rate("fast").is_err());
        assert_eq!(seconds("500ms"), Ok(Duration::from_millis(500)));
        assert_eq!(seconds("1.5s"), Ok(Duration::from_millis(1_500)));
        assert_eq!(seconds("2m"), Ok(Duration::from_secs(120)));
        for bad in ["", "2", "s", "0s", "-1s", "NaNs", "1e99s", "25h"] {
            assert!(seconds(bad).is_err(), "{bad}");
        }
        assert_eq!(seconds("1h"), Ok(Duration::from_secs(3600)));
        assert_eq!(seconds("2min"), seconds("120s"));
        assert_eq!(age("1000"), age("1s"));
        assert!(age("soon").is_err());
        assert_eq!(round_trip("0"), Ok(Duration::ZERO));
        assert_eq!(round_trip("70ms"), Ok(Duration::from_millis(70)));
        assert_eq!(round_trip("500us"), Ok(Duration::from_micros(500)));
        assert_eq!(round_trip("0.2s"), Ok(Duration::from_millis(200)));
        for bad in ["", "70", "ms", "-1ms", "NaNs", "25h"] {
            assert!(round_trip(bad).is_err(), "{bad}");
        }
        assert_eq!(bandwidth("10MB/s"), Ok(10_000_000));
        assert!(bandwidth("10k/s").is_err());
        assert_eq!((rows_rate("5k"), rows_rate("500/s")), (Ok(5_000), Ok(500)));
        assert!(rows_rate("10MB/s").is_err());
        assert_eq!((percent("95"), percent(" 5% ")), (Ok(95), Ok(5)));
        for bad in ["", "%", "101", "0.5", "-1", "50:50"] {
            assert!(percent(bad).is_err(), "{bad}");
        }
        assert_eq!(pair("a=b=c"), Ok(("a".into(), "b=c".into())));
        assert!(pair("a=").is_err());
        let list = |text: &str| pairs(text).map(|pairs| pairs.0.len());
        assert_eq!(
            (list("a=b"), list("a=b,c=d"), list("a=b,c")),
            (Ok(1), Ok(2), Ok(1))
        );
        assert!(pairs("a").is_err() && pairs("a=b,c=").is_err());
    }
}
