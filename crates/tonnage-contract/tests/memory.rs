//! The reference target.

use std::sync::Arc;

use async_trait::async_trait;
use tonnage_contract::{Exception, Fixture, Language};
use tonnage_core::target::Target;
use tonnage_testing::memory::Memory;

struct MemoryFixture(Memory);

#[async_trait]
impl Fixture for MemoryFixture {
    fn target(&self) -> Arc<dyn Target> {
        Arc::new(self.0.clone())
    }

    async fn again(&self) -> Arc<dyn Target> {
        self.target()
    }

    async fn count(&self, table: &str) -> u64 {
        self.0.rows(table).len() as u64
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

tonnage_contract::suites!(MemoryFixture(Memory::new()));
