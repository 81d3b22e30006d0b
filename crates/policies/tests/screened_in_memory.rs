//! The conformance suite on a screened store over the in-memory store.

use std::process::ExitCode;
use std::sync::Arc;

use async_trait::async_trait;
use memory_tool_conformance::{FixtureError, StoreFixture, Suite};
use memory_tool_core::{InMemoryStore, Store};
use memory_tool_policies::{ScreenedStore, SensitiveData};

fn main() -> ExitCode {
    Suite::for_store(Fixture { screen: SensitiveData::new() }).test()
}

struct Fixture {
    screen: SensitiveData,
}

impl Fixture {
    fn screened(&self, inner: &Arc<InMemoryStore>) -> Arc<dyn Store> {
        Arc::new(ScreenedStore::new(Arc::clone(inner), self.screen.clone()))
    }
}

#[async_trait]
impl StoreFixture for Fixture {
    /// The store beneath.
    type Guard = Arc<InMemoryStore>;

    async fn fresh(&self) -> Result<(Arc<dyn Store>, Arc<InMemoryStore>), FixtureError> {
        let inner = Arc::new(InMemoryStore::new());
        Ok((self.screened(&inner), inner))
    }

    async fn reopen(&self, inner: &Arc<InMemoryStore>) -> Result<Arc<dyn Store>, FixtureError> {
        Ok(self.screened(inner))
    }
}
