//! The conformance suite on the store of this crate, in a bucket that is kept in memory.

use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;
use memory_tool_bucket::BucketStore;
use memory_tool_conformance::{BackendFixture, FixtureError, Suite};
use memory_tool_core::Store;
use memory_tool_test_fixtures::Tier;
use object_store::memory::InMemory;
use object_store::path::Path;

fn main() -> ExitCode {
    let suite = Suite::for_store(Fixture::default());
    if Tier::current() >= Tier::Full {
        return suite.test();
    }
    // Those who lose a race pause, ever longer: together for ten seconds.
    suite.skip("store.race-for-a-version", "the full tier runs it").test()
}

/// One bucket for all cases, which have separate prefixes.
#[derive(Default)]
struct Fixture {
    bucket: Arc<InMemory>,
    cases: AtomicU64,
}

impl Fixture {
    async fn open(&self, prefix: Path) -> Result<Arc<dyn Store>, FixtureError> {
        let opened = BucketStore::open(self.bucket.clone(), prefix).await;
        Ok(Arc::new(opened.map_err(FixtureError::failed)?))
    }
}

#[async_trait]
impl BackendFixture for Fixture {
    /// The prefix.
    type Guard = Path;

    async fn fresh(&self) -> Result<(Arc<dyn Store>, Path), FixtureError> {
        let prefix = Path::from(format!("secret-of-the-bucket/{}", self.cases.fetch_add(1, Ordering::Relaxed)));
        Ok((self.open(prefix.clone()).await?, prefix))
    }

    async fn reopen(&self, prefix: &Path) -> Result<Arc<dyn Store>, FixtureError> {
        self.open(prefix.clone()).await
    }

    async fn scope(&self, prefix: &Path, name: &str) -> Result<Arc<dyn Store>, FixtureError> {
        if name.is_empty() {
            return Err(FixtureError::failed("a scope needs a name"));
        }
        self.open(prefix.clone().join("scopes").join(name)).await
    }

    fn secrets(&self, _: &Path) -> Vec<String> {
        vec!["secret-of-the-bucket".to_owned()]
    }
}
