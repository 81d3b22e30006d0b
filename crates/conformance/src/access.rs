//! [`Factory`] and [`Access`]: the fixtures of all kinds of backends.

use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;

use async_trait::async_trait;
use memory_tool_core::{MemoryTool, Store};

use crate::case::Capability;
use crate::fixture::{FixtureError, StoreFixture, ToolFixture, ToolOptions};

/// The reason why cases that need a `Store` are ignored for tools and programs.
pub(crate) const NO_STORE: &str = "the backend is tested only through its commands, without a `Store`";

/// Creates memories to test.
#[async_trait]
pub(crate) trait Factory: Send + Sync {
    /// Creates an empty memory.
    async fn fresh(&self, options: &ToolOptions) -> Result<(Opened, Box<dyn Access>), FixtureError>;

    fn can_store(&self, _path: &str) -> bool {
        true
    }

    /// The capabilities that no backend of this kind has. Their cases are not listed.
    fn missing_capabilities(&self) -> &'static [Capability];
}

/// An open memory.
pub(crate) enum Opened {
    Store(Arc<dyn Store>),
    Tool(Arc<dyn MemoryTool>),
    /// A program to start.
    Program(Command),
}

/// The ways to access one memory again, as its fixture provides them.
#[async_trait]
pub(crate) trait Access: Send + Sync {
    /// Opens the memory again, with default options.
    async fn reopen(&self) -> Result<Opened, FixtureError>;

    /// A command that starts a separate program on the memory.
    fn program(&self) -> Result<Command, FixtureError>;

    /// The directory that is `/memories`.
    fn plain_files(&self) -> Result<PathBuf, FixtureError>;

    /// The directory under which everything is stored.
    fn directory(&self) -> Result<PathBuf, FixtureError>;

    /// Texts that no reply may contain.
    fn secrets(&self) -> Vec<String>;

    /// Another memory that shares the storage.
    async fn scope(&self, _name: &str) -> Result<Arc<dyn Store>, FixtureError> {
        Err(FixtureError::unsupported(NO_STORE))
    }

    /// The store that holds the ciphertexts.
    async fn underlying(&self) -> Result<Arc<dyn Store>, FixtureError> {
        Err(FixtureError::unsupported(NO_STORE))
    }

    async fn reopen_with_wrong_key(&self) -> Result<Arc<dyn Store>, FixtureError> {
        Err(FixtureError::unsupported(NO_STORE))
    }

    /// Another memory with the same key, and the store that holds its ciphertexts.
    async fn another_with_same_key(&self) -> Result<(Arc<dyn Store>, Arc<dyn Store>), FixtureError> {
        Err(FixtureError::unsupported(NO_STORE))
    }
}

/// The methods that a fixture of stores and one of tools have in common.
macro_rules! forward_to_fixture {
    () => {
        fn program(&self) -> Result<Command, FixtureError> {
            self.fixture.program(&self.guard)
        }

        fn plain_files(&self) -> Result<PathBuf, FixtureError> {
            self.fixture.plain_files(&self.guard)
        }

        fn directory(&self) -> Result<PathBuf, FixtureError> {
            self.fixture.directory(&self.guard)
        }

        fn secrets(&self) -> Vec<String> {
            self.fixture.secrets(&self.guard)
        }
    };
}

/// A factory of stores.
pub(crate) struct Stores<F>(pub(crate) Arc<F>);

#[async_trait]
impl<F: StoreFixture> Factory for Stores<F> {
    async fn fresh(&self, _: &ToolOptions) -> Result<(Opened, Box<dyn Access>), FixtureError> {
        let (store, guard) = self.0.fresh().await?;
        Ok((Opened::Store(store), Box::new(StoreAccess { fixture: Arc::clone(&self.0), guard })))
    }

    fn can_store(&self, path: &str) -> bool {
        self.0.can_store(path)
    }

    fn missing_capabilities(&self) -> &'static [Capability] {
        &[]
    }
}

struct StoreAccess<F: StoreFixture> {
    fixture: Arc<F>,
    guard: F::Guard,
}

#[async_trait]
impl<F: StoreFixture> Access for StoreAccess<F> {
    async fn reopen(&self) -> Result<Opened, FixtureError> {
        self.fixture.reopen(&self.guard).await.map(Opened::Store)
    }

    forward_to_fixture!();

    async fn scope(&self, name: &str) -> Result<Arc<dyn Store>, FixtureError> {
        self.fixture.scope(&self.guard, name).await
    }

    async fn underlying(&self) -> Result<Arc<dyn Store>, FixtureError> {
        self.fixture.underlying(&self.guard).await
    }

    async fn reopen_with_wrong_key(&self) -> Result<Arc<dyn Store>, FixtureError> {
        self.fixture.reopen_with_wrong_key(&self.guard).await
    }

    async fn another_with_same_key(&self) -> Result<(Arc<dyn Store>, Arc<dyn Store>), FixtureError> {
        self.fixture.another_with_same_key(&self.guard).await
    }
}

/// A factory of tools.
pub(crate) struct Tools<F>(pub(crate) Arc<F>);

#[async_trait]
impl<F: ToolFixture> Factory for Tools<F> {
    async fn fresh(&self, options: &ToolOptions) -> Result<(Opened, Box<dyn Access>), FixtureError> {
        let (tool, guard) = self.0.fresh(options).await?;
        Ok((Opened::Tool(tool), Box::new(ToolAccess { fixture: Arc::clone(&self.0), guard })))
    }

    fn can_store(&self, path: &str) -> bool {
        self.0.can_store(path)
    }

    fn missing_capabilities(&self) -> &'static [Capability] {
        &[Capability::Store, Capability::Scopes, Capability::Sealed]
    }
}

struct ToolAccess<F: ToolFixture> {
    fixture: Arc<F>,
    guard: F::Guard,
}

#[async_trait]
impl<F: ToolFixture> Access for ToolAccess<F> {
    async fn reopen(&self) -> Result<Opened, FixtureError> {
        self.fixture.reopen(&self.guard).await.map(Opened::Tool)
    }

    forward_to_fixture!();
}
