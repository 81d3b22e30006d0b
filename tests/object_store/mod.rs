//! A store in a bucket of a real server, for the tests of each cloud.

#![allow(dead_code, reason = "each test binary uses a part of it")]

use std::process::{Command, ExitCode};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;
use memory_tool_conformance::{FixtureError, StoreFixture, Suite, serve};
use memory_tool_core::{BoxError, Engine, Store};
use memory_tool_object_store::{BucketStore, BucketStoreBuilder};
use memory_tool_test_servers::Server;
use object_store::path::Path;
use object_store::{ObjectStore, RetryConfig};

/// Names the store that a program is to serve.
const URL: &str = "MEMORY_TOOL_TEST_URL";

/// The prefix of everything, which no reply may show.
const SECRET: &str = "secret-of-the-bucket";

/// Runs the suite on a server; in the processes that the suite starts, serves a store there.
pub(crate) fn run_suite<S: Server + 'static, E: Into<BoxError>>(
    start: impl FnOnce() -> Result<S, E>,
) -> Result<ExitCode, BoxError> {
    if let Ok(url) = std::env::var(URL) {
        // With a thread of its own, on which the connections go on while `serve` runs on another runtime.
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
        let store = runtime.block_on(BucketStoreBuilder::from_url(&url)?.open())?;
        serve(&Engine::new(store), std::io::stdin().lock(), std::io::stdout().lock())?;
        return Ok(ExitCode::SUCCESS);
    }
    let server = start().map_err(Into::into)?;
    let retries = RetryConfig { max_retries: 0, ..RetryConfig::default() };
    let bucket = server.client(server.url(), retries)?;
    Ok(Suite::for_store(Fixture { server: Box::new(server), bucket, cases: AtomicU64::new(0) }).test())
}

/// One bucket for all cases: each has a prefix of its own.
struct Fixture {
    server: Box<dyn Server>,
    bucket: Arc<dyn ObjectStore>,
    cases: AtomicU64,
}

impl Fixture {
    async fn open(&self, prefix: Path) -> Result<Arc<dyn Store>, FixtureError> {
        let opened = BucketStore::open(Arc::clone(&self.bucket), prefix).await;
        Ok(Arc::new(opened.map_err(FixtureError::failed)?))
    }
}

#[async_trait]
impl StoreFixture for Fixture {
    /// The prefix.
    type Guard = Path;

    async fn fresh(&self) -> Result<(Arc<dyn Store>, Path), FixtureError> {
        let prefix = Path::from(format!("{SECRET}/{}", self.cases.fetch_add(1, Ordering::Relaxed)));
        Ok((self.open(prefix.clone()).await?, prefix))
    }

    async fn reopen(&self, prefix: &Path) -> Result<Arc<dyn Store>, FixtureError> {
        self.open(prefix.clone()).await
    }

    fn program(&self, prefix: &Path) -> Result<Command, FixtureError> {
        let mut command = Command::new(std::env::current_exe()?);
        command.envs(self.server.environment(self.server.url()));
        command.env(URL, format!("{}/{prefix}", self.server.bucket_url()));
        Ok(command)
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
