//! The conformance suite on a tool without access to its store, which is in memory.

use std::sync::Arc;

use async_trait::async_trait;
use memory_tool_conformance::{BackendFixture, FixtureError, Suite, ToolOptions};
use memory_tool_core::{Engine, InMemoryStore, MemoryTool};

struct Fixture;

#[async_trait]
impl BackendFixture<dyn MemoryTool> for Fixture {
    type Guard = Arc<InMemoryStore>;

    async fn fresh(&self) -> Result<(Arc<dyn MemoryTool>, Self::Guard), FixtureError> {
        self.fresh_with(&ToolOptions::default()).await
    }

    async fn fresh_with(&self, options: &ToolOptions) -> Result<(Arc<dyn MemoryTool>, Self::Guard), FixtureError> {
        let store = Arc::new(InMemoryStore::new());
        let builder = Engine::builder(Arc::clone(&store)).create_overwrites(options.create_overwrites);
        Ok((Arc::new(builder.max_view_characters(options.max_view_characters).build()), store))
    }

    async fn reopen(&self, store: &Self::Guard) -> Result<Arc<dyn MemoryTool>, FixtureError> {
        Ok(Arc::new(Engine::new(Arc::clone(store))))
    }
}

pub(crate) fn suite() -> Suite {
    Suite::for_tool(Fixture)
}
