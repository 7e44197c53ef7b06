//! Oracle NoSQL, on premises and in the cloud, by its SDK. **Not verified against a server**: what is written here follows the
//! SDK's source and documentation, and the contract runs where `TONNAGE_TEST_NOSQL_URL` names a store.
//!
//! - A row is a put or a delete, those of a shard key together (`encode`, `writer`). What was answered is not sent again.
//! - The ledger is a local file, written after the database has acknowledged the rows.
//! - The SDK sends no durability, so the server's own holds.
//! - Throttling, time-outs and lost connections are never a row's fault (`errors`).
//! - The SDK is there with the feature `sdk` alone: it brings OpenSSL, and it changes how serde_json keeps numbers
//!   (`arbitrary_precision`) for the whole program. Without it the driver is known, and says how to get it.

// Without the SDK, only tests use most of what needs none.
#![cfg_attr(not(feature = "sdk"), expect(dead_code))]

mod encode;
mod errors;
#[cfg(feature = "sdk")]
mod reader;
mod settings;
#[cfg(feature = "sdk")]
mod target;
mod types;
#[cfg(feature = "sdk")]
mod wire;
#[cfg(feature = "sdk")]
mod writer;

use tonnage_core::{
    driver::{Connecting, Driver, no_files},
    operation::{Durability, Method},
    password::Password,
};

#[cfg(feature = "sdk")]
pub use self::target::NosqlTarget;

/// Oracle NoSQL's line in the registry.
pub const DRIVER: Driver = Driver {
    name: "Oracle NoSQL",
    schemes: &["nosql"],
    example: "nosql:http://host:8080",
    extensions: &[],
    keywords: &[],
    operations: &["insert", "ignore", "upsert", "delete"],
    methods: &[Method::Array, Method::Single],
    native: "none",
    durability: &[Durability::Majority],
    declares: types::declared,
    verified: match cfg!(feature = "sdk") {
        true => "not verified against a server",
        false => "not verified against a server; built without: cargo install --features nosql",
    },
    passwords: true,
    connect,
    redact: tonnage_sql::url::redact,
    files: no_files,
};

#[cfg(feature = "sdk")]
fn connect(url: &str, password: Option<Password>) -> Connecting<'_> {
    Box::pin(async move {
        let target: std::sync::Arc<dyn tonnage_core::target::Target> =
            std::sync::Arc::new(NosqlTarget::connect(url, password).await?);
        Ok(target)
    })
}

#[cfg(not(feature = "sdk"))]
fn connect(url: &str, password: Option<Password>) -> Connecting<'_> {
    Box::pin(async move {
        settings::Settings::parse(url, password)?;
        Err(
            tonnage_core::error::Error::config("this tonnage was built without Oracle NoSQL")
                .hint("build it with: cargo install --features nosql"),
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_password_is_shown() {
        let redact = DRIVER.redact;
        let shown = redact("nosql:https://ann:secret@db:443?compartment=c");
        assert!(
            shown.starts_with("nosql:https://") && shown.contains("db:443"),
            "{shown}"
        );
        assert!(!shown.contains("secret"), "{shown}");
        assert_eq!(redact("nosql:cloud?region=r"), "nosql:cloud?region=r");
    }

    #[cfg(not(feature = "sdk"))]
    #[test]
    fn without_the_sdk_it_says_how_to_get_it() {
        let error = tokio::runtime::Builder::new_current_thread()
            .build()
            .unwrap()
            .block_on(connect("nosql:http://localhost:8080", None))
            .err()
            .unwrap();
        assert!(
            error
                .hint_text()
                .is_some_and(|hint| hint.contains("--features nosql"))
        );
    }
}
