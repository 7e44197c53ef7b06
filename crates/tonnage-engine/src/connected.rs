//! A database at hand. Loads, unloads, gets, puts, comparisons, copies and buffers begin with it, each by a method that is
//! defined where it is.

use std::sync::Arc;

use tonnage_core::target::Target;

/// A database that is connected, and what it is called.
#[derive(Clone)]
pub struct Connected {
    pub(crate) target: Arc<dyn Target>,
    pub(crate) url: String,
}

impl Connected {
    /// A database that is connected already. `url` is only shown, and must have no password in it.
    pub fn new(target: Arc<dyn Target>, url: impl Into<String>) -> Self {
        Self {
            target,
            url: url.into(),
        }
    }

    /// The database.
    pub fn target(&self) -> &Arc<dyn Target> {
        &self.target
    }

    /// What it is called.
    pub fn url(&self) -> &str {
        &self.url
    }
}
