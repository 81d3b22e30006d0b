//! The conformance suite on an encrypted store in a bucket of S3, served by ministack.
//!
//! Over the in-memory store, local directories and SQLite it runs in the tests of `memory-tool-encrypted`.

use std::process::{Command, ExitCode};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;
use memory_tool_conformance::{FixtureError, StoreFixture, Suite, serve};
use memory_tool_core::{BoxError, Engine, Store};
use memory_tool_encrypted::{EncryptedStore, KeyRing, RawKey};
use memory_tool_object_store::{BucketStore, BucketStoreBuilder};
use memory_tool_test_servers::{S3Server, Server};
use object_store::path::Path;
use object_store::{ObjectStore, RetryConfig};

/// Names the store that a program is to serve.
const URL: &str = "MEMORY_TOOL_TEST_URL";

/// The prefix of everything, which no reply may show.
const SECRET: &str = "secret-of-the-bucket";

const KEY: [u8; 32] = [1; 32];
const WRONG_KEY: [u8; 32] = [2; 32];

fn main() -> Result<ExitCode, BoxError> {
    if let Ok(url) = std::env::var(URL) {
        return serve_store(&url).map(|()| ExitCode::SUCCESS);
    }
    let server = S3Server::start()?;
    let retries = RetryConfig { max_retries: 0, ..RetryConfig::default() };
    let bucket = server.client(server.url(), retries)?;
    Ok(Suite::for_store(Fixture { server, bucket, cases: AtomicU64::new(0) }).test())
}

fn serve_store(url: &str) -> Result<(), BoxError> {
    // With a thread of its own, on which the connections go on while `serve` runs on another runtime.
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    let store = runtime.block_on(async { seal(BucketStoreBuilder::from_url(url)?.open().await?, KEY).await })?;
    Ok(serve(&Engine::new(store), std::io::stdin().lock(), std::io::stdout().lock())?)
}

async fn seal(inner: impl Store, key: [u8; 32]) -> Result<EncryptedStore, BoxError> {
    // By the same name, so that the wrong key is told by what it does.
    let key = RawKey::from_bytes(key).with_id("key".parse()?);
    Ok(EncryptedStore::open(inner, KeyRing::new(key)).await?)
}

/// One bucket for all cases: each has a prefix of its own.
struct Fixture {
    server: S3Server,
    bucket: Arc<dyn ObjectStore>,
    cases: AtomicU64,
}

impl Fixture {
    fn fresh_prefix(&self) -> Path {
        Path::from(format!("{SECRET}/{}", self.cases.fetch_add(1, Ordering::Relaxed)))
    }

    async fn inner(&self, prefix: &Path) -> Result<BucketStore, FixtureError> {
        BucketStore::open(Arc::clone(&self.bucket), prefix.clone()).await.map_err(FixtureError::failed)
    }

    async fn open(&self, prefix: &Path, key: [u8; 32]) -> Result<Arc<dyn Store>, FixtureError> {
        Ok(Arc::new(seal(self.inner(prefix).await?, key).await?))
    }
}

#[async_trait]
impl StoreFixture for Fixture {
    /// The prefix.
    type Guard = Path;

    async fn fresh(&self) -> Result<(Arc<dyn Store>, Path), FixtureError> {
        let prefix = self.fresh_prefix();
        Ok((self.open(&prefix, KEY).await?, prefix))
    }

    async fn reopen(&self, prefix: &Path) -> Result<Arc<dyn Store>, FixtureError> {
        self.open(prefix, KEY).await
    }

    fn program(&self, prefix: &Path) -> Result<Command, FixtureError> {
        let mut command = Command::new(std::env::current_exe()?);
        command.envs(self.server.environment(self.server.url()));
        command.env(URL, format!("{}/{prefix}", self.server.bucket_url()));
        Ok(command)
    }

    async fn beneath(&self, prefix: &Path) -> Result<Arc<dyn Store>, FixtureError> {
        Ok(Arc::new(self.inner(prefix).await?))
    }

    async fn reopen_with_wrong_key(&self, prefix: &Path) -> Result<Arc<dyn Store>, FixtureError> {
        self.open(prefix, WRONG_KEY).await
    }

    async fn another_of_the_key(&self, _: &Path) -> Result<(Arc<dyn Store>, Arc<dyn Store>), FixtureError> {
        let prefix = self.fresh_prefix();
        Ok((self.open(&prefix, KEY).await?, Arc::new(self.inner(&prefix).await?)))
    }

    fn secrets(&self, _: &Path) -> Vec<String> {
        vec![SECRET.to_owned(), "index-1".to_owned(), "index-2".to_owned()]
    }
}
