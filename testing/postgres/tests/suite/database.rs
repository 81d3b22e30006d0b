//! [`PostgresFixture`]: stores on a real server, directly or through a pooler.

use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use memory_tool_conformance::{BackendFixture, FixtureError};
use memory_tool_core::{BoxError, MemoryName, OpenOptions, Store};
use memory_tool_postgres::PostgresStoreBuilder;
use memory_tool_test_fixtures::{ServingFixture, program};
use memory_tool_test_servers::{PgBouncer, PostgresServer};
use tokio::sync::OnceCell;
use tokio::task::spawn_blocking;

/// The role and the database. Replies must not contain it.
const SECRET: &str = "secret_of_the_database";

/// The URL of the memory, for started programs.
const URL: &str = "MEMORY_TOOL_TEST_POSTGRES";

/// The timeout of operations. On a busy machine, the server may not run for longer than the default.
const TIMEOUT: Duration = Duration::from_mins(5);

/// The connections of all programs to the server behind the pooler.
const POOLED_CONNECTIONS: usize = 4;

/// A server that starts on first use. All fixtures share it.
#[derive(Default)]
pub(crate) struct Database {
    running: OnceCell<Result<Running, String>>,
    /// The number of memories.
    memories: AtomicU64,
}

struct Running {
    pooler: PgBouncer,
    server: PostgresServer,
}

impl Running {
    fn start() -> Result<Self, BoxError> {
        let server = PostgresServer::start()?;
        server.sql(&format!("CREATE ROLE {SECRET} LOGIN"))?;
        server.sql(&format!("CREATE DATABASE {SECRET} OWNER {SECRET}"))?;
        Ok(Self { pooler: PgBouncer::start(&server, &[SECRET], POOLED_CONNECTIONS)?, server })
    }
}

/// Creates stores on the server.
pub(crate) struct PostgresFixture {
    name: String,
    database: Arc<Database>,
    is_pooled: bool,
}

impl PostgresFixture {
    pub(crate) fn new(name: &str, database: &Arc<Database>, is_pooled: bool) -> Self {
        Self { name: name.to_owned(), database: Arc::clone(database), is_pooled }
    }

    async fn url(&self, memory: &str) -> Result<String, FixtureError> {
        let starting = async || {
            let started = spawn_blocking(Running::start).await.unwrap();
            started.map_err(|error| error.to_string())
        };
        let running = self.database.running.get_or_init(starting).await;
        let running = running.as_ref().map_err(|error| FixtureError::failed(error.clone()))?;
        let url = if self.is_pooled { running.pooler.url(SECRET, SECRET) } else { running.server.url(SECRET, SECRET) };
        Ok(format!("{url}?memory={memory}"))
    }
}

async fn open(url: &str) -> Result<Arc<dyn Store>, FixtureError> {
    let builder = PostgresStoreBuilder::from_url(url).map_err(FixtureError::failed)?;
    let opening = builder.options(OpenOptions::new().timeout(TIMEOUT)).open();
    Ok(Arc::new(opening.await.map_err(FixtureError::failed)?))
}

#[async_trait]
impl BackendFixture for PostgresFixture {
    /// The URL.
    type Guard = String;

    async fn fresh(&self) -> Result<(Arc<dyn Store>, String), FixtureError> {
        let url = self.url(&format!("memory-{}", self.database.memories.fetch_add(1, Ordering::Relaxed))).await?;
        Ok((open(&url).await?, url))
    }

    async fn reopen(&self, url: &String) -> Result<Arc<dyn Store>, FixtureError> {
        open(url).await
    }

    fn program(&self, url: &String) -> Result<Command, FixtureError> {
        let mut program = program(&self.name)?;
        program.env(URL, url);
        Ok(program)
    }

    async fn scope(&self, url: &String, name: &str) -> Result<Arc<dyn Store>, FixtureError> {
        if name.is_empty() {
            return Err(FixtureError::failed("a scope needs a name"));
        }
        let builder = PostgresStoreBuilder::from_url(url).map_err(FixtureError::failed)?;
        let (_, memory) = url.split_once('=').unwrap_or_default();
        let memory = MemoryName::parse(&format!("{memory}/{name}")).map_err(FixtureError::failed)?;
        Ok(Arc::new(builder.memory(memory).open().await.map_err(FixtureError::failed)?))
    }

    fn secrets(&self, _: &String) -> Vec<String> {
        vec![SECRET.to_owned()]
    }
}

#[async_trait]
impl ServingFixture for PostgresFixture {
    async fn served_store(&self) -> Result<Arc<dyn Store>, FixtureError> {
        open(&std::env::var(URL).map_err(FixtureError::failed)?).await
    }
}
