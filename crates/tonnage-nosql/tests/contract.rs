//! The contract, against the store that `TONNAGE_TEST_NOSQL_URL` names, in which tables come and go:
//!
//! ```sh
//! TONNAGE_TEST_NOSQL_URL=nosql:http://localhost:8080 cargo test -p tonnage-nosql --features sdk --test contract
//! ```
//!
//! The store is one without users. The suites are not built without the feature `sdk`, and fails without a store: nothing looks as if it had passed.

use std::sync::Arc;

use async_trait::async_trait;
use oracle_nosql_rust_sdk::{Handle, HandleMode, QueryRequest, types::Consistency};
use tonnage_contract::{Exception, Fixture, Language};
use tonnage_core::target::Target;
use tonnage_nosql::NosqlTarget;

struct NosqlFixture {
    url: String,
    target: Arc<dyn Target>,
    /// The ledger of the test's own.
    _ledger: tempfile::TempDir,
}

async fn connect(url: &str) -> Arc<dyn Target> {
    Arc::new(NosqlTarget::connect(url, None).await.expect("a store"))
}

impl NosqlFixture {
    async fn new() -> Self {
        let url = std::env::var("TONNAGE_TEST_NOSQL_URL").expect("TONNAGE_TEST_NOSQL_URL names a store");
        let ledger = tempfile::tempdir().expect("a temporary directory");
        let sign = if url.contains('?') { '&' } else { '?' };
        let url = format!("{url}{sign}ledger={}", ledger.path().join("ledger").display());
        Self {
            target: connect(&url).await,
            url,
            _ledger: ledger,
        }
    }
}

#[async_trait]
impl Fixture for NosqlFixture {
    fn target(&self) -> Arc<dyn Target> {
        self.target.clone()
    }

    async fn again(&self) -> Arc<dyn Target> {
        connect(&self.url).await
    }

    async fn count(&self, table: &str) -> u64 {
        // By the SDK itself, of a proxy without users.
        let (place, _) = self.url.split_once('?').expect("a ledger");
        let place = place.strip_prefix("nosql:").expect("a URL");
        let builder = Handle::builder()
            .endpoint(place)
            .and_then(|builder| builder.mode(HandleMode::Onprem));
        let handle = builder.expect("settings").build().await.expect("a store");
        let mut query = QueryRequest::new(&format!("SELECT count(*) AS n FROM {table}"))
            .consistency(&Consistency::Absolute);
        let found = query.execute(&handle).await.expect("a count");
        found.rows()[0].get_i64("n").expect("a number") as u64
    }

    fn exceptions(&self) -> &'static [Exception] {
        &[]
    }

    fn other_types(&self) -> &'static [(&'static str, &'static str)] {
        &[]
    }

    fn language(&self) -> Option<&dyn Language> {
        None
    }
}

tonnage_contract::suites!(NosqlFixture::new().await);
