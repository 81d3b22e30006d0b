//! A store in a bucket of a real server, for the tests of each cloud.

#![allow(dead_code, reason = "each test binary uses a part of it")]

pub(crate) mod session;

use std::process::{Command, ExitCode};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;
use memory_tool_conformance::{FixtureError, StoreFixture, Suite};
use memory_tool_core::{BoxError, MAX_PATH_BYTES, Store};
use memory_tool_object_store::BucketStore;
use memory_tool_test_servers::Server;
use object_store::path::Path;
use object_store::{ObjectStore, RetryConfig};

/// What the target of each request for the index contains. Google's client encodes the dot.
pub(crate) const INDEX: &str = "index";

/// The prefix of everything, which no reply may show.
const SECRET: &str = "secret-of-the-bucket";

/// What is between the store in the bucket and the suite.
pub(crate) struct Policies {
    pub(crate) over: fn(Arc<dyn Store>) -> Arc<dyn Store>,
    /// How much shorter paths are than the bucket could have them.
    pub(crate) path_bytes: usize,
}

/// Nothing.
pub(crate) const NO_POLICIES: Policies = Policies { over: |store| store, path_bytes: 0 };

/// Runs the suite on a server; in the processes that the suite starts, serves a store there.
pub(crate) fn run_suite<S: Server + 'static, E: Into<BoxError>>(
    start: impl FnOnce() -> Result<S, E>,
    policies: Policies,
) -> Result<ExitCode, BoxError> {
    if session::serve_if_asked(|store| Box::new((policies.over)(Arc::new(store))))? {
        return Ok(ExitCode::SUCCESS);
    }
    let server = start().map_err(Into::into)?;
    let bucket = client(&server)?;
    let fixture = Fixture { server: Box::new(server), bucket, cases: AtomicU64::new(0), policies };
    Ok(Suite::for_store(fixture).test())
}

/// A client of the bucket past any proxy, which sends each request once.
pub(crate) fn client(server: &dyn Server) -> object_store::Result<Arc<dyn ObjectStore>> {
    server.client(server.url(), RetryConfig { max_retries: 0, ..RetryConfig::default() })
}

/// One bucket for all cases: each has a prefix of its own.
struct Fixture {
    server: Box<dyn Server>,
    bucket: Arc<dyn ObjectStore>,
    cases: AtomicU64,
    policies: Policies,
}

impl Fixture {
    async fn open(&self, prefix: Path) -> Result<Arc<dyn Store>, FixtureError> {
        let opened = BucketStore::open(Arc::clone(&self.bucket), prefix).await;
        Ok((self.policies.over)(Arc::new(opened.map_err(FixtureError::failed)?)))
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
        Ok(session::program(&*self.server, self.server.url(), prefix)?)
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

    fn can_store(&self, path: &str) -> bool {
        path.len() + self.policies.path_bytes <= MAX_PATH_BYTES
    }
}
