//! Runs the suite on tools, through [`ToolFixture`].

use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;

use async_trait::async_trait;
use memory_tool_core::MemoryTool;

use crate::case::Capability;
use crate::failure::CaseError;
use crate::fixture::{ToolFixture, ToolOptions};
use crate::session::{FirstLeak, InProcess, Session};
use crate::target::{OF_STORES, RunLimits, Target, TargetFactory};

pub(crate) struct ToolTargetFactory<F> {
    pub(crate) fixture: Arc<F>,
}

#[async_trait]
impl<F: ToolFixture> TargetFactory for ToolTargetFactory<F> {
    async fn fresh(&self, options: &ToolOptions, limits: RunLimits) -> Result<Arc<dyn Target>, CaseError> {
        let fresh = self.fixture.fresh(options).await;
        let (tool, guard) = fresh.map_err(|error| CaseError::from_fixture(Capability::Options, error))?;
        Ok(Arc::new(ToolTarget {
            tool,
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
        OF_STORES
    }
}

// The guard is the last field, so it is dropped after its users.
struct ToolTarget<F: ToolFixture> {
    tool: Arc<dyn MemoryTool>,
    fixture: Arc<F>,
    limits: RunLimits,
    first_leak: FirstLeak,
    guard: F::Guard,
}

#[async_trait]
impl<F: ToolFixture> Target for ToolTarget<F> {
    fn session(&self) -> Arc<dyn Session> {
        Arc::new(InProcess(Arc::clone(&self.tool)))
    }

    async fn another_session(&self) -> Result<Arc<dyn Session>, CaseError> {
        let tool = self.fixture.reopen(&self.guard).await;
        Ok(Arc::new(InProcess(tool.map_err(|error| CaseError::from_fixture(Capability::Sessions, error))?)))
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

    fn plain_files(&self) -> Result<PathBuf, CaseError> {
        self.fixture.plain_files(&self.guard).map_err(|error| CaseError::from_fixture(Capability::PlainFiles, error))
    }

    fn directory(&self) -> Result<PathBuf, CaseError> {
        self.fixture.directory(&self.guard).map_err(|error| CaseError::from_fixture(Capability::Directory, error))
    }

    fn secrets(&self) -> Vec<String> {
        self.fixture.secrets(&self.guard)
    }

    fn first_leak(&self) -> &FirstLeak {
        &self.first_leak
    }
}
