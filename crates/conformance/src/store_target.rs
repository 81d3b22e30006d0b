//! Runs the suite on stores, through [`StoreFixture`].

use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;

use async_trait::async_trait;
use memory_tool_core::{Engine, MemoryTool, Store};

use crate::case::Capability;
use crate::failure::CaseError;
use crate::fixture::{FixtureError, StoreFixture, ToolOptions};
use crate::session::{FirstLeak, InProcess, Session};
use crate::target::{RunLimits, Target, TargetFactory};

pub(crate) struct StoreTargetFactory<F> {
    pub(crate) fixture: Arc<F>,
}

#[async_trait]
impl<F: StoreFixture> TargetFactory for StoreTargetFactory<F> {
    async fn fresh(&self, options: &ToolOptions, limits: RunLimits) -> Result<Arc<dyn Target>, CaseError> {
        let fresh = self.fixture.fresh().await;
        let (store, guard) = fresh.map_err(|error| CaseError::from_fixture(Capability::Store, error))?;
        let tool = tool_over(Arc::clone(&store), options);
        Ok(Arc::new(StoreTarget {
            tool,
            store,
            fixture: Arc::clone(&self.fixture),
            limits,
            first_leak: FirstLeak::default(),
            guard,
        }))
    }

    fn can_store(&self, path: &str) -> bool {
        self.fixture.can_store(path)
    }

    fn missing_capabilities(&self) -> &'static [Capability] {
        &[]
    }
}

fn tool_over(store: Arc<dyn Store>, options: &ToolOptions) -> Arc<dyn MemoryTool> {
    let builder = Engine::builder(store).create_overwrites(options.create_overwrites);
    Arc::new(builder.max_view_characters(options.max_view_characters).build())
}

// The guard is the last field, so it is dropped after its users.
struct StoreTarget<F: StoreFixture> {
    tool: Arc<dyn MemoryTool>,
    store: Arc<dyn Store>,
    fixture: Arc<F>,
    limits: RunLimits,
    first_leak: FirstLeak,
    guard: F::Guard,
}

#[async_trait]
impl<F: StoreFixture> Target for StoreTarget<F> {
    fn session(&self) -> Arc<dyn Session> {
        Arc::new(InProcess(Arc::clone(&self.tool)))
    }

    async fn another_session(&self) -> Result<Arc<dyn Session>, CaseError> {
        let store = self.another_store().await?;
        Ok(Arc::new(InProcess(tool_over(store, &ToolOptions::default()))))
    }

    fn program(&self) -> Result<Command, CaseError> {
        self.fixture.program(&self.guard).map_err(|error| CaseError::from_fixture(Capability::Processes, error))
    }

    fn limits(&self) -> RunLimits {
        self.limits
    }

    fn tool(&self) -> Result<Arc<dyn MemoryTool>, CaseError> {
        Ok(Arc::clone(&self.tool))
    }

    fn store(&self) -> Result<Arc<dyn Store>, CaseError> {
        Ok(Arc::clone(&self.store))
    }

    async fn another_store(&self) -> Result<Arc<dyn Store>, CaseError> {
        self.fixture.reopen(&self.guard).await.map_err(|error| CaseError::from_fixture(Capability::Sessions, error))
    }

    fn plain_files(&self) -> Result<PathBuf, CaseError> {
        self.fixture.plain_files(&self.guard).map_err(|error| CaseError::from_fixture(Capability::PlainFiles, error))
    }

    fn directory(&self) -> Result<PathBuf, CaseError> {
        self.fixture.directory(&self.guard).map_err(|error| CaseError::from_fixture(Capability::Directory, error))
    }

    async fn scope(&self, name: &str) -> Result<Option<Arc<dyn Store>>, CaseError> {
        unless_refused(Capability::Scopes, self.fixture.scope(&self.guard, name).await)
    }

    async fn ciphertexts(&self) -> Result<Arc<dyn Store>, CaseError> {
        self.fixture.underlying(&self.guard).await.map_err(|error| CaseError::from_fixture(Capability::Sealed, error))
    }

    async fn another_with_same_key(&self) -> Result<(Arc<dyn Store>, Arc<dyn Store>), CaseError> {
        let another = self.fixture.another_with_same_key(&self.guard).await;
        another.map_err(|error| CaseError::from_fixture(Capability::Sealed, error))
    }

    async fn with_wrong_key(&self) -> Result<Option<Arc<dyn Store>>, CaseError> {
        unless_refused(Capability::Sealed, self.fixture.reopen_with_wrong_key(&self.guard).await)
    }

    fn secrets(&self) -> Vec<String> {
        self.fixture.secrets(&self.guard)
    }

    fn first_leak(&self) -> &FirstLeak {
        &self.first_leak
    }
}

/// Converts a fixture's result, with `None` for a refusal.
fn unless_refused<T>(need: Capability, outcome: Result<T, FixtureError>) -> Result<Option<T>, CaseError> {
    match outcome {
        Ok(opened) => Ok(Some(opened)),
        Err(FixtureError::Unsupported { reason }) => Err(CaseError::Unsupported { need, reason }),
        Err(FixtureError::Failed(_)) => Ok(None),
    }
}
