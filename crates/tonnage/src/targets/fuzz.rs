//! Names of databases, from any bytes: see [`crate::fuzz`].

use std::{fs, os::unix::fs::PermissionsExt};

use super::{
    DRIVERS, hide,
    named::{NamedPlace, Surroundings, find_in},
};
use crate::fuzz::with_directory;

/// URLs and connection strings: what is shown of them holds no password.
pub fn urls(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else {
        return;
    };
    let _ = hide(text);
    let _ = super::redact(text);
    for driver in DRIVERS {
        let _ = (driver.redact)(text);
    }
    if let Some(password) =
        super::postgres::fuzz::password(text).or_else(|| super::mysql::fuzz::password(text))
    {
        // Of a short one the letters occur anyway.
        let shown = super::redact(text);
        let plain = password.len() > 8 && password.bytes().all(|byte| byte.is_ascii_alphanumeric());
        let twice = text.matches(&password).count() != 1;
        assert!(!plain || twice || !shown.contains(&password), "{shown}");
    }
}

/// Files of names; the first line is the name that is looked for.
pub fn names(bytes: &[u8]) {
    let at = bytes
        .iter()
        .position(|byte| *byte == b'\n')
        .unwrap_or(bytes.len());
    let (name, text) = bytes.split_at(at);
    let Ok(name) = std::str::from_utf8(name) else {
        return;
    };
    with_directory(|directory| {
        let path = directory.join("targets.toml");
        fs::write(&path, text).expect("there is room");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).expect("it is ours");
        let surroundings = Surroundings {
            directory,
            variable: &|_| None,
        };
        let Ok(named) = find_in(name, &surroundings) else {
            return;
        };
        match named.place {
            NamedPlace::Url(url) => urls(url.as_bytes()),
            NamedPlace::Sharded { members, .. } => members.iter().for_each(|url| urls(url.as_bytes())),
        }
    });
}
