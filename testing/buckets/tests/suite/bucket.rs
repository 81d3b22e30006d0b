//! [`BucketFixture`]: stores in a bucket on a real server.

use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use memory_tool_bucket::{BucketStore, BucketStoreBuilder};
use memory_tool_conformance::{BackendFixture, FixtureError};
use memory_tool_core::{BoxError, OpenOptions, Store};
use memory_tool_test_fixtures::{ServingFixture, program};
use memory_tool_test_servers::Server;
use object_store::ObjectStore;
use object_store::path::Path;
use tokio::sync::OnceCell;
use tokio::task::spawn_blocking;

use memory_tool_test_buckets::{client, session};

/// The prefix of all keys. Replies must not contain it.
const SECRET: &str = "secret-of-the-bucket";

type Start = dyn Fn() -> Result<Running, BoxError> + Send + Sync;

/// The timeout of operations. On a busy machine, the servers may not run for longer than the default.
const TIMEOUT: Duration = Duration::from_mins(5);

/// A server that starts on first use. All fixtures share it.
pub(crate) struct Cloud {
    start: Arc<Start>,
    running: OnceCell<Result<Running, String>>,
    /// The number of memories. Each has its own prefix.
    memories: AtomicU64,
}

struct Running {
    server: Box<dyn Server>,
    bucket: Arc<dyn ObjectStore>,
}

impl Cloud {
    pub(crate) fn new<S: Server + 'static, E: Into<BoxError>>(
        start: impl Fn() -> Result<S, E> + Send + Sync + 'static,
    ) -> Arc<Self> {
        let start = move || {
            let server = start().map_err(Into::into)?;
            Ok(Running { bucket: client(&server)?, server: Box::new(server) })
        };
        Arc::new(Self { start: Arc::new(start), running: OnceCell::new(), memories: AtomicU64::new(0) })
    }

    async fn running(&self) -> Result<&Running, FixtureError> {
        let start = Arc::clone(&self.start);
        let starting = async || spawn_blocking(move || start()).await.unwrap().map_err(|error| error.to_string());
        let running = self.running.get_or_init(starting).await;
        running.as_ref().map_err(|error| FixtureError::failed(error.clone()))
    }
}

/// Creates stores in the bucket of a server.
pub(crate) struct BucketFixture {
    name: String,
    cloud: Arc<Cloud>,
}

impl BucketFixture {
    pub(crate) fn new(name: &str, cloud: &Arc<Cloud>) -> Self {
        Self { name: name.to_owned(), cloud: Arc::clone(cloud) }
    }

    async fn open(&self, prefix: Path) -> Result<Arc<dyn Store>, FixtureError> {
        open(BucketStore::builder(Arc::clone(&self.cloud.running().await?.bucket), prefix)).await
    }
}

async fn open(store: BucketStoreBuilder) -> Result<Arc<dyn Store>, FixtureError> {
    let opening = store.options(OpenOptions::new().timeout(TIMEOUT)).open();
    Ok(Arc::new(opening.await.map_err(FixtureError::failed)?))
}

#[async_trait]
impl BackendFixture for BucketFixture {
    /// The prefix.
    type Guard = Path;

    async fn fresh(&self) -> Result<(Arc<dyn Store>, Path), FixtureError> {
        let prefix = Path::from(format!("{SECRET}/{}", self.cloud.memories.fetch_add(1, Ordering::Relaxed)));
        Ok((self.open(prefix.clone()).await?, prefix))
    }

    async fn reopen(&self, prefix: &Path) -> Result<Arc<dyn Store>, FixtureError> {
        self.open(prefix.clone()).await
    }

    fn program(&self, prefix: &Path) -> Result<Command, FixtureError> {
        let running = self.cloud.running.get().and_then(|running| running.as_ref().ok());
        let server = &*running.ok_or_else(|| FixtureError::failed("the server is not running"))?.server;
        let mut program = program(&self.name)?;
        session::name_store(&mut program, server, server.url(), prefix);
        Ok(program)
    }

    async fn scope(&self, prefix: &Path, name: &str) -> Result<Arc<dyn Store>, FixtureError> {
        if name.is_empty() {
            return Err(FixtureError::failed("a scope needs a name"));
        }
        self.open(prefix.clone().join("scopes").join(name)).await
    }

    fn secrets(&self, _: &Path) -> Vec<String> {
        vec![SECRET.to_owned()]
    }
}

#[async_trait]
impl ServingFixture for BucketFixture {
    async fn served_store(&self) -> Result<Arc<dyn Store>, FixtureError> {
        let url = session::named_store().map_err(FixtureError::failed)?;
        open(BucketStoreBuilder::from_url(&url).map_err(FixtureError::failed)?).await
    }
}
