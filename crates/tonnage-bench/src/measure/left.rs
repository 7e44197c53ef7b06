//! What runs have left that were killed before they could remove it, found by its names.
//!
//! Nothing says whether a run of these names still goes on, so nothing is removed unless somebody asks for it.

use tonnage_core::{error::Result, target::Target};

use super::bench::instruments;

/// What the names of all tables begin with that are made to measure with.
pub(crate) const SCRATCH: &str = "tonnage_bench_";

/// The names of what is there, in order.
pub async fn left(target: &dyn Target) -> Result<Vec<String>> {
    let mut names = instruments(target)?.left(SCRATCH).await?;
    names.sort();
    names.dedup();
    Ok(names)
}

/// Removes what [`left`] has found.
pub async fn remove_left(target: &dyn Target, names: &[String]) -> Result<()> {
    let instruments = instruments(target)?;
    for name in names {
        let removed = instruments.discard(name).await;
        removed.map_err(|error| error.at(format!("{name} cannot be removed")))?;
    }
    Ok(())
}
