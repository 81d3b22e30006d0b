//! The conformance suite on the in-memory store.

use std::sync::Arc;

use async_trait::async_trait;
use memory_tool_conformance::{FixtureError, StoreFixture, Suite};
use memory_tool_core::{InMemoryStore, Store};

struct Fixture;

#[async_trait]
impl StoreFixture for Fixture {
    type Guard = Arc<InMemoryStore>;

    async fn fresh(&self) -> Result<(Arc<dyn Store>, Self::Guard), FixtureError> {
        let store = Arc::new(InMemoryStore::new());
        Ok((Arc::<InMemoryStore>::clone(&store), store))
    }

    async fn reopen(&self, store: &Self::Guard) -> Result<Arc<dyn Store>, FixtureError> {
        Ok(Arc::<InMemoryStore>::clone(store))
    }
}

pub(crate) fn suite() -> Suite {
    Suite::for_store(Fixture)
}
