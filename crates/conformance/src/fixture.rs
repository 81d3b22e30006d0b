//! [`BackendFixture`]: creates the backends under test.

use std::io;
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;

use async_trait::async_trait;
use memory_tool_core::{BoxError, DEFAULT_MAX_VIEW_CHARACTERS, Store, StoreError};
use serde::Deserialize;

/// The reason why a fixture cannot provide something.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FixtureError {
    /// The backend does not support it. Cases that need it are ignored.
    #[error("{reason}")]
    Unsupported {
        /// The reason that is reported with each ignored case.
        reason: String,
    },
    /// An operation failed that should have succeeded. The case fails.
    #[error(transparent)]
    Failed(#[from] BoxError),
}

impl FixtureError {
    /// The backend does not support it, for the given reason.
    pub fn unsupported(reason: impl Into<String>) -> Self {
        Self::Unsupported { reason: reason.into() }
    }

    /// An operation failed that should have succeeded.
    pub fn failed(error: impl Into<BoxError>) -> Self {
        Self::Failed(error.into())
    }

    fn not_implemented(method: &str) -> Self {
        Self::unsupported(format!("the fixture does not implement `{method}`"))
    }
}

impl From<StoreError> for FixtureError {
    fn from(error: StoreError) -> Self {
        Self::failed(error)
    }
}

impl From<io::Error> for FixtureError {
    fn from(error: io::Error) -> Self {
        Self::failed(error)
    }
}

/// The options of the tool that a case runs with.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct ToolOptions {
    /// Whether `create` replaces an existing file (`[C2]`). Default: `false`.
    pub create_overwrites: bool,
    /// The maximum number of characters of a `view`, or `None` for no limit (`[V8]`). Default: 16,000.
    pub max_view_characters: Option<usize>,
}

impl Default for ToolOptions {
    fn default() -> Self {
        Self { create_overwrites: false, max_view_characters: Some(DEFAULT_MAX_VIEW_CHARACTERS) }
    }
}

impl ToolOptions {
    /// Whether these are the defaults, which every tool supports.
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// Creates backends for the suite. Implement it to test your own [`Store`], or `BackendFixture<dyn MemoryTool>` to test
/// your own [`MemoryTool`](memory_tool_core::MemoryTool) without a [`Store`].
///
/// Only [`fresh`](Self::fresh) is required. Each of the other methods enables a part of the suite. If you do not
/// implement it, the cases of that part are reported as ignored, with the reason.
///
/// ```
/// use std::sync::Arc;
///
/// use async_trait::async_trait;
/// use memory_tool_conformance::{BackendFixture, FixtureError, Suite};
/// use memory_tool_core::{InMemoryStore, Store};
///
/// struct Stores;
///
/// #[async_trait]
/// impl BackendFixture for Stores {
///     type Guard = ();
///
///     async fn fresh(&self) -> Result<(Arc<dyn Store>, ()), FixtureError> {
///         Ok((Arc::new(InMemoryStore::new()), ()))
///     }
/// }
///
/// # let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
/// # runtime.block_on(async {
/// let report = Suite::for_store(Stores).filter("delete.").run().await;
/// assert!(report.is_success(), "{report}");
/// # });
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[async_trait]
#[allow(unused_variables, reason = "the default implementations do not use their arguments")]
pub trait BackendFixture<T: ?Sized + Send + Sync + 'static = dyn Store>: Send + Sync + 'static {
    /// A resource that the backend needs while in use, such as a temporary directory. The other methods take it to
    /// identify the backend. It is dropped after the backend.
    type Guard: Send + Sync + 'static;

    /// Creates a store or tool.
    ///
    /// # Behavior
    /// 1. Its memory is new and empty, and shares nothing with earlier ones.
    /// 2. The method is called for each case and each variant of a case, from several tasks concurrently.
    ///
    /// # Errors
    /// If it cannot be created. The case fails.
    async fn fresh(&self) -> Result<(Arc<T>, Self::Guard), FixtureError>;

    /// Creates a tool with these options. A store needs none: the suite creates a tool over it.
    ///
    /// # Errors
    /// [`FixtureError::Unsupported`] by default for options other than the default. The cases that set them are
    /// ignored.
    async fn fresh_with(&self, options: &ToolOptions) -> Result<(Arc<T>, Self::Guard), FixtureError> {
        if options.is_default() { self.fresh().await } else { Err(FixtureError::not_implemented("fresh_with")) }
    }

    /// Opens the memory again, for a tool with default options.
    ///
    /// # Behavior
    /// 1. The two instances share nothing except the stored data, like two sessions or two machines.
    /// 2. If [`Suite::lacks`](crate::Suite::lacks) declares that [`Capability::Concurrency`](crate::Capability) is
    ///    missing, the other instance has been dropped and no program runs.
    ///
    /// # Errors
    /// [`FixtureError::Unsupported`] by default, so the cases with several sessions are ignored.
    async fn reopen(&self, guard: &Self::Guard) -> Result<Arc<T>, FixtureError> {
        Err(FixtureError::not_implemented("reopen"))
    }

    /// Returns a command that starts a program that serves the memory.
    ///
    /// # Behavior
    /// 1. The program reads one JSON value per line from standard input and writes one `tool_result` block per line to
    ///    standard output, like `memory-tool run`. [`serve_store`](crate::serve_store) implements this, and
    ///    [`serve`](crate::serve) for a tool without a store. A test binary may start itself as the program.
    /// 2. Several instances run concurrently, and are killed at any moment. Without
    ///    [`Capability::Concurrency`](crate::Capability), it is only one, and the store has been dropped.
    ///
    /// # Errors
    /// [`FixtureError::Unsupported`] by default, so the cases with processes, restarts and `kill -9` are ignored.
    fn program(&self, guard: &Self::Guard) -> Result<Command, FixtureError> {
        Err(FixtureError::not_implemented("program"))
    }

    /// Returns the directory that is `/memories`.
    ///
    /// # Behavior
    /// 1. Each file of the memory is a plain file of the same name under the directory, and vice versa.
    ///
    /// # Errors
    /// [`FixtureError::Unsupported`] by default, so the cases of links and special files are ignored.
    fn plain_files(&self, guard: &Self::Guard) -> Result<PathBuf, FixtureError> {
        Err(FixtureError::unsupported("the backend keeps no plain files"))
    }

    /// Returns the directory under which everything is stored, in any form.
    ///
    /// # Behavior
    /// 1. The directory is empty before the store is created. The program of [`program`](Self::program) must also start
    ///    if it is empty again or read-only, because the suite mounts small and read-only disks there.
    ///
    /// # Errors
    /// [`FixtureError::Unsupported`] by default, so the cases of full and read-only disks are ignored.
    fn directory(&self, guard: &Self::Guard) -> Result<PathBuf, FixtureError> {
        Err(FixtureError::not_implemented("directory"))
    }

    /// Opens a named memory that shares the storage of this store.
    ///
    /// # Behavior
    /// 1. The memory is separate from the store and from the memories of all other names.
    /// 2. Opening a name again opens the same memory.
    ///
    /// # Errors
    /// [`FixtureError::Failed`] for an invalid name, such as an empty one.
    /// [`FixtureError::Unsupported`] by default, so the cases of several named memories are ignored.
    async fn scope(&self, guard: &Self::Guard, name: &str) -> Result<Arc<dyn Store>, FixtureError> {
        Err(FixtureError::unsupported("the backend has no named memories"))
    }

    /// Opens the store that holds the ciphertexts.
    ///
    /// # Behavior
    /// 1. It gives the access of an attacker with the disk but without the key.
    ///
    /// # Errors
    /// [`FixtureError::Unsupported`] by default, so the cases of tampering are ignored.
    async fn underlying(&self, guard: &Self::Guard) -> Result<Arc<dyn Store>, FixtureError> {
        Err(FixtureError::unsupported("the backend does not encrypt"))
    }

    /// Opens the memory of a store with a wrong key.
    ///
    /// # Errors
    /// [`FixtureError::Failed`] if the wrong key is detected at once, which is as good as on the first read.
    /// [`FixtureError::Unsupported`] by default.
    async fn reopen_with_wrong_key(&self, guard: &Self::Guard) -> Result<Arc<dyn Store>, FixtureError> {
        Err(FixtureError::unsupported("the backend does not encrypt"))
    }

    /// Creates another memory with the key of this one. Returns its store and the store that holds its ciphertexts.
    ///
    /// # Behavior
    /// 1. The memory is new and empty, and its ciphertexts are stored separately.
    ///
    /// # Errors
    /// [`FixtureError::Unsupported`] by default, so the cases of ciphertexts from another memory are ignored.
    async fn another_with_same_key(
        &self,
        guard: &Self::Guard,
    ) -> Result<(Arc<dyn Store>, Arc<dyn Store>), FixtureError> {
        Err(FixtureError::unsupported("the backend does not encrypt"))
    }

    /// Texts that no reply may contain, such as the name of the store's directory or bucket (`[W5]`). Empty by default.
    /// Replies are always searched for raw operating-system errors.
    fn secrets(&self, guard: &Self::Guard) -> Vec<String> {
        Vec::new()
    }

    /// Whether the backend can store a file at this path. `true` by default.
    ///
    /// # Behavior
    /// 1. If it is `false`, `create` must refuse the path with an error and store nothing.
    fn can_store(&self, path: &str) -> bool {
        true
    }
}
