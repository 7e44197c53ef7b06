//! Stores by name: `@lake/2026/*.csv` is behind the URL that somebody else knows by the name `lake`.

use std::{path::PathBuf, sync::OnceLock};

use tonnage_core::error::{Error, Result};

/// What is known of a store beside what the environment says.
#[derive(Clone, Default)]
pub struct StoreSettings {
    /// A bucket, or a prefix in it.
    pub url: String,
    /// Where the store answers.
    pub endpoint: Option<String>,
    /// Region of S3.
    pub region: Option<String>,
    /// Profile of `~/.aws`.
    pub profile: Option<String>,
    /// Whether nothing is signed.
    pub anonymous: bool,
    /// The id of the key of S3, or the account of Azure.
    pub user: Option<String>,
    /// The key itself.
    pub secret: Option<String>,
    /// The file of a Google service account.
    pub credentials_file: Option<PathBuf>,
}

/// What a name stands for: none where there is no store of this name; the error where it is not described well.
pub type Lookup = fn(&str) -> Result<Option<StoreSettings>>;

static LOOKUP: OnceLock<Lookup> = OnceLock::new();

/// Says how names are looked up; the first who does so is heard.
pub fn set_names(lookup: Lookup) {
    let _ = LOOKUP.set(lookup);
}

/// The name in `@NAME/rest`, and the rest.
fn parts(text: &str) -> Option<(&str, &str)> {
    text.strip_prefix('@')?.split_once('/')
}

/// Whether `text` names something by the name of a store. A store that is not described well is one.
pub(crate) fn is_named(text: &str) -> bool {
    match (parts(text), LOOKUP.get()) {
        (Some((name, _)), Some(lookup)) => lookup(name).map_or(true, |found| found.is_some()),
        _ => false,
    }
}

/// The URL that `@NAME/rest` stands for, and how its store is spoken to.
pub(crate) fn resolved(text: &str) -> Result<Option<(String, StoreSettings)>> {
    let (Some((name, rest)), Some(lookup)) = (parts(text), LOOKUP.get()) else {
        return Ok(None);
    };
    let settings =
        lookup(name)?.ok_or_else(|| Error::config(format!("'{text}': no store has the name @{name}")))?;
    let url = format!("{}/{rest}", settings.url.trim_end_matches('/'));
    Ok(Some((url, settings)))
}
