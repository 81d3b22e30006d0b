//! [`Suite::races`] limits how often a case repeats its race.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use memory_tool_conformance::{BackendFixture, FixtureError, Suite};
use memory_tool_core::{Batch, InMemoryStore, Node, ReadOptions, Store, StoreError, StorePath};

#[derive(Clone, Default)]
struct CountingFixture(Arc<AtomicUsize>);

#[derive(Debug)]
struct CountingStore {
    inner: InMemoryStore,
    batches: Arc<AtomicUsize>,
}

#[async_trait]
impl BackendFixture for CountingFixture {
    type Guard = Arc<CountingStore>;

    async fn fresh(&self) -> Result<(Arc<dyn Store>, Self::Guard), FixtureError> {
        let store = Arc::new(CountingStore { inner: InMemoryStore::new(), batches: Arc::clone(&self.0) });
        Ok((Arc::<CountingStore>::clone(&store), store))
    }

    async fn reopen(&self, store: &Self::Guard) -> Result<Arc<dyn Store>, FixtureError> {
        Ok(Arc::<CountingStore>::clone(store))
    }
}

#[async_trait]
impl Store for CountingStore {
    async fn read_opts(&self, path: &StorePath, options: ReadOptions) -> Result<Node, StoreError> {
        self.inner.read_opts(path, options).await
    }

    async fn apply(&self, batch: Batch) -> Result<(), StoreError> {
        self.batches.fetch_add(1, Ordering::Relaxed);
        self.inner.apply(batch).await
    }
}

#[tokio::test]
async fn one_race_of_a_delete_against_creates_is_one_round() {
    let fixture = CountingFixture::default();
    let suite = Suite::for_store(fixture.clone()).filter("races.delete-against-creates").races(1);
    let report = suite.run().await;
    assert!(report.is_success(), "{report}");
    let batches = fixture.0.load(Ordering::Relaxed);
    assert!((1..=22).contains(&batches), "a round creates 21 files and deletes a directory: {batches}");
}
