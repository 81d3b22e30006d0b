//! [`BucketFixture`]: changes that wait in a bucket that is kept in memory.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;
use memory_tool_bucket::BucketStore;
use memory_tool_conformance::{BackendFixture, FixtureError};
use memory_tool_core::Store;
use memory_tool_test_fixtures::Policy;
use object_store::memory::InMemory;
use object_store::path::Path;

/// One bucket for all cases, which have separate prefixes.
#[derive(Default)]
pub(crate) struct BucketFixture {
    bucket: Arc<InMemory>,
    cases: AtomicU64,
}

#[async_trait]
impl BackendFixture for BucketFixture {
    /// The prefix.
    type Guard = Path;

    async fn fresh(&self) -> Result<(Arc<dyn Store>, Path), FixtureError> {
        let prefix = Path::from(format!("secret-of-the-bucket/{}", self.cases.fetch_add(1, Ordering::Relaxed)));
        Ok((self.reopen(&prefix).await?, prefix))
    }

    async fn reopen(&self, prefix: &Path) -> Result<Arc<dyn Store>, FixtureError> {
        let opened = BucketStore::open(self.bucket.clone(), prefix.clone()).await.map_err(FixtureError::failed)?;
        Policy::Proposals.over(Arc::new(opened), std::path::Path::new("no log")).await
    }

    fn secrets(&self, _: &Path) -> Vec<String> {
        vec!["secret-of-the-bucket".to_owned()]
    }
}
