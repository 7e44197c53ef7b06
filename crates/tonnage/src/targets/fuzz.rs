//! Names of databases, from any bytes: see [`crate::fuzz`].

use std::{fs, os::unix::fs::PermissionsExt};

use tonnage_testing::corpus::with_directory;

use super::{
    DRIVERS, hide,
    named::{NamedPlace, Surroundings, find_in},
};

/// URLs and connection strings. That what is shown of them holds no password each driver's own function checks.
pub fn urls(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else {
        return;
    };
    let _ = hide(text);
    let _ = super::redact(text);
    for driver in DRIVERS {
        let _ = (driver.redact)(text);
    }
    #[cfg(fuzzing)]
    {
        tonnage_postgres::fuzz::urls(bytes);
        tonnage_mysql::fuzz::urls(bytes);
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
