//! Runs the suite on stores, through [`StoreFixture`].

use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;

use async_trait::async_trait;
use memory_tool_core::{Engine, MemoryTool, Store};

use crate::case::Need;
use crate::failure::Stop;
use crate::fixture::{FixtureError, StoreFixture, ToolOptions};
use crate::session::{InProcess, Session};
use crate::subject::{Door, Effort, Subject};

pub(crate) struct StoreDoor<F> {
    pub(crate) fixture: Arc<F>,
}

#[async_trait]
impl<F: StoreFixture> Door for StoreDoor<F> {
    async fn fresh(&self, options: &ToolOptions, effort: Effort) -> Result<Arc<dyn Subject>, Stop> {
        let fresh = self.fixture.fresh().await;
        let (store, guard) = fresh.map_err(|error| Stop::from_fixture(Need::Store, error))?;
        let tool = tool_over(Arc::clone(&store), options);
        Ok(Arc::new(StoreSubject { tool, store, fixture: Arc::clone(&self.fixture), effort, guard }))
    }

    fn can_store(&self, path: &str) -> bool {
        self.fixture.can_store(path)
    }
}

fn tool_over(store: Arc<dyn Store>, options: &ToolOptions) -> Arc<dyn MemoryTool> {
    let builder = Engine::builder(store).create_overwrites(options.create_overwrites);
    let builder = match options.max_view_characters {
        Some(cap) => builder.max_view_characters(cap),
        None => builder.unlimited_views(),
    };
    Arc::new(builder.build())
}

// The guard is the last field, so it is dropped after its users.
struct StoreSubject<F: StoreFixture> {
    tool: Arc<dyn MemoryTool>,
    store: Arc<dyn Store>,
    fixture: Arc<F>,
    effort: Effort,
    guard: F::Guard,
}

#[async_trait]
impl<F: StoreFixture> Subject for StoreSubject<F> {
    fn session(&self) -> Arc<dyn Session> {
        Arc::new(InProcess(Arc::clone(&self.tool)))
    }

    async fn another_session(&self) -> Result<Arc<dyn Session>, Stop> {
        let store = self.another_store().await?;
        Ok(Arc::new(InProcess(tool_over(store, &ToolOptions::default()))))
    }

    fn program(&self) -> Result<Command, Stop> {
        self.fixture.program(&self.guard).map_err(|error| Stop::from_fixture(Need::Processes, error))
    }

    fn effort(&self) -> Effort {
        self.effort
    }

    fn tool(&self) -> Result<Arc<dyn MemoryTool>, Stop> {
        Ok(Arc::clone(&self.tool))
    }

    fn store(&self) -> Result<Arc<dyn Store>, Stop> {
        Ok(Arc::clone(&self.store))
    }

    async fn another_store(&self) -> Result<Arc<dyn Store>, Stop> {
        self.fixture.reopen(&self.guard).await.map_err(|error| Stop::from_fixture(Need::Sessions, error))
    }

    fn plain_files(&self) -> Result<PathBuf, Stop> {
        self.fixture.plain_files(&self.guard).map_err(|error| Stop::from_fixture(Need::PlainFiles, error))
    }

    fn directory(&self) -> Result<PathBuf, Stop> {
        self.fixture.directory(&self.guard).map_err(|error| Stop::from_fixture(Need::Directory, error))
    }

    async fn scope(&self, name: &str) -> Result<Option<Arc<dyn Store>>, Stop> {
        unless_refused(Need::Scopes, self.fixture.scope(&self.guard, name).await)
    }

    async fn ciphertexts(&self) -> Result<Arc<dyn Store>, Stop> {
        self.fixture.beneath(&self.guard).await.map_err(|error| Stop::from_fixture(Need::Sealed, error))
    }

    async fn another_of_the_key(&self) -> Result<(Arc<dyn Store>, Arc<dyn Store>), Stop> {
        let another = self.fixture.another_of_the_key(&self.guard).await;
        another.map_err(|error| Stop::from_fixture(Need::Sealed, error))
    }

    async fn with_wrong_key(&self) -> Result<Option<Arc<dyn Store>>, Stop> {
        unless_refused(Need::Sealed, self.fixture.reopen_with_wrong_key(&self.guard).await)
    }

    fn secrets(&self) -> Vec<String> {
        self.fixture.secrets(&self.guard)
    }
}

/// Converts a fixture's result, with `None` for a refusal.
fn unless_refused<T>(need: Need, outcome: Result<T, FixtureError>) -> Result<Option<T>, Stop> {
    match outcome {
        Ok(opened) => Ok(Some(opened)),
        Err(FixtureError::Lacks { reason }) => Err(Stop::Lacks { need, reason }),
        Err(FixtureError::Failed(_)) => Ok(None),
    }
}
