//! DuckDB's library, which tests load.

use std::{path::Path, process::Command};

/// The path of DuckDB's library: the one that TONNAGE_DUCKDB_LIBRARY names, or the one that `scripts/fetch-duckdb` fetches.
///
/// # Panics
///
/// If it cannot be fetched.
pub fn duckdb_library() -> String {
    if let Ok(library) = std::env::var("TONNAGE_DUCKDB_LIBRARY") {
        return library;
    }
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/fetch-duckdb");
    let fetched = Command::new(script).output().expect("the script runs");
    let said = String::from_utf8_lossy(&fetched.stderr);
    assert!(fetched.status.success(), "{said}");
    String::from_utf8(fetched.stdout)
        .expect("a path")
        .trim()
        .to_owned()
}
