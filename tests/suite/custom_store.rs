//! The conformance suite on `MapStore`, the store of `map_store.rs`.

#[path = "../../crates/core/examples/map_store.rs"]
#[allow(dead_code, reason = "its `main` is not used here")]
mod map_store;

use std::sync::Arc;

use async_trait::async_trait;
use map_store::MapStore;
use memory_tool_conformance::{BackendFixture, FixtureError, Suite};
use memory_tool_core::Store;

struct Fixture;

#[async_trait]
impl BackendFixture for Fixture {
    type Guard = ();

    async fn fresh(&self) -> Result<(Arc<dyn Store>, ()), FixtureError> {
        Ok((Arc::new(MapStore::default()), ()))
    }
}

pub(crate) fn suite() -> Suite {
    Suite::for_store(Fixture)
}
