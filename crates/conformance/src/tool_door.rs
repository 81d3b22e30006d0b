//! Runs the suite on tools, through [`ToolFixture`].

use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;

use async_trait::async_trait;
use memory_tool_core::MemoryTool;

use crate::case::Need;
use crate::failure::Stop;
use crate::fixture::{ToolFixture, ToolOptions};
use crate::session::{InProcess, Session};
use crate::subject::{Door, Effort, Subject};

pub(crate) struct ToolDoor<F> {
    pub(crate) fixture: Arc<F>,
}

#[async_trait]
impl<F: ToolFixture> Door for ToolDoor<F> {
    async fn fresh(&self, options: &ToolOptions, effort: Effort) -> Result<Arc<dyn Subject>, Stop> {
        let fresh = self.fixture.fresh(options).await;
        let (tool, guard) = fresh.map_err(|error| Stop::from_fixture(Need::Options, error))?;
        Ok(Arc::new(ToolSubject { tool, fixture: Arc::clone(&self.fixture), effort, guard }))
    }

    fn can_store(&self, path: &str) -> bool {
        self.fixture.can_store(path)
    }
}

// The guard is the last field, so it is dropped after its users.
struct ToolSubject<F: ToolFixture> {
    tool: Arc<dyn MemoryTool>,
    fixture: Arc<F>,
    effort: Effort,
    guard: F::Guard,
}

#[async_trait]
impl<F: ToolFixture> Subject for ToolSubject<F> {
    fn session(&self) -> Arc<dyn Session> {
        Arc::new(InProcess(Arc::clone(&self.tool)))
    }

    async fn another_session(&self) -> Result<Arc<dyn Session>, Stop> {
        let tool = self.fixture.reopen(&self.guard).await;
        Ok(Arc::new(InProcess(tool.map_err(|error| Stop::from_fixture(Need::Sessions, error))?)))
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

    fn plain_files(&self) -> Result<PathBuf, Stop> {
        self.fixture.plain_files(&self.guard).map_err(|error| Stop::from_fixture(Need::PlainFiles, error))
    }

    fn directory(&self) -> Result<PathBuf, Stop> {
        self.fixture.directory(&self.guard).map_err(|error| Stop::from_fixture(Need::Directory, error))
    }

    fn secrets(&self) -> Vec<String> {
        self.fixture.secrets(&self.guard)
    }
}
