//! [`Factory`] and [`Access`]: the fixtures of all kinds of backends.

use std::marker::PhantomData;
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;

use async_trait::async_trait;
use memory_tool_core::{MemoryTool, Store};

use crate::case::Capability;
use crate::fixture::{BackendFixture, FixtureError, ToolOptions};

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

/// A kind of backend that runs in this process.
pub(crate) trait Backend: Send + Sync + 'static {
    /// The capabilities that no backend of this kind has. Their cases are not listed.
    const LACKS: &'static [Capability];

    /// Whether it has the options of a tool.
    const HAS_OPTIONS: bool;

    fn opened(self: Arc<Self>) -> Opened;
}

impl Backend for dyn Store {
    const LACKS: &'static [Capability] = &[];
    const HAS_OPTIONS: bool = false;

    fn opened(self: Arc<Self>) -> Opened {
        Opened::Store(self)
    }
}

impl Backend for dyn MemoryTool {
    const LACKS: &'static [Capability] = &[Capability::Store, Capability::Scopes, Capability::Sealed];
    const HAS_OPTIONS: bool = true;

    fn opened(self: Arc<Self>) -> Opened {
        Opened::Tool(self)
    }
}

/// A factory of backends of a kind.
pub(crate) struct Backends<F, T: ?Sized> {
    fixture: Arc<F>,
    kind: PhantomData<Arc<T>>,
}

impl<F, T: ?Sized> Backends<F, T> {
    pub(crate) fn new(fixture: F) -> Self {
        Self { fixture: Arc::new(fixture), kind: PhantomData }
    }
}

#[async_trait]
impl<T: Backend + ?Sized, F: BackendFixture<T>> Factory for Backends<F, T> {
    async fn fresh(&self, options: &ToolOptions) -> Result<(Opened, Box<dyn Access>), FixtureError> {
        let created = if T::HAS_OPTIONS { self.fixture.fresh_with(options) } else { self.fixture.fresh() };
        let (backend, guard) = created.await?;
        Ok((backend.opened(), Box::new(FixtureAccess { fixture: Arc::clone(&self.fixture), guard })))
    }

    fn can_store(&self, path: &str) -> bool {
        self.fixture.can_store(path)
    }

    fn missing_capabilities(&self) -> &'static [Capability] {
        T::LACKS
    }
}

struct FixtureAccess<F: BackendFixture<T>, T: Backend + ?Sized> {
    fixture: Arc<F>,
    guard: F::Guard,
}

#[async_trait]
impl<T: Backend + ?Sized, F: BackendFixture<T>> Access for FixtureAccess<F, T> {
    async fn reopen(&self) -> Result<Opened, FixtureError> {
        Ok(self.fixture.reopen(&self.guard).await?.opened())
    }

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
