//! [`StoreFixture`] and [`ToolFixture`]: how the suite gets at what it tests.

use std::io;
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;

use async_trait::async_trait;
use memory_tool_core::{BoxError, DEFAULT_MAX_VIEW_CHARACTERS, MemoryTool, Store, StoreError};
use serde::Deserialize;

/// Why a fixture does not give what it was asked for.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FixtureError {
    /// The backend has no such thing. Cases that need it are ignored, and say why.
    #[error("{reason}")]
    Lacks {
        /// What is reported of each case that is ignored for it.
        reason: String,
    },
    /// It should have worked, and did not. The case fails.
    #[error("{0}")]
    Failed(#[source] BoxError),
}

impl FixtureError {
    /// The backend has no such thing, because of `reason`.
    pub fn lacks(reason: impl Into<String>) -> Self {
        Self::Lacks { reason: reason.into() }
    }

    /// It should have worked, and did not.
    pub fn failed(error: impl Into<BoxError>) -> Self {
        Self::Failed(error.into())
    }

    fn not_provided() -> Self {
        Self::lacks("the fixture does not provide it")
    }
}

impl From<BoxError> for FixtureError {
    fn from(error: BoxError) -> Self {
        Self::Failed(error)
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
    /// Whether `create` replaces a file that is there (`[C2]`). Default: no.
    pub create_overwrites: bool,
    /// The cap on the characters of a `view`; `None` is no cap (`[V8]`). Default: 16,000.
    pub max_view_characters: Option<usize>,
}

impl Default for ToolOptions {
    fn default() -> Self {
        Self { create_overwrites: false, max_view_characters: Some(DEFAULT_MAX_VIEW_CHARACTERS) }
    }
}

impl ToolOptions {
    /// Whether these are the contract's defaults, which every tool has.
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// Makes stores for the suite: what you write to test a [`Store`] of your own.
///
/// Only [`fresh`](Self::fresh) is required. Each of the other methods opens a part of the suite that cannot run without
/// it; where it is not provided, the cases of that part show as ignored, with the reason.
///
/// ```
/// use std::sync::Arc;
///
/// use async_trait::async_trait;
/// use memory_tool_conformance::{FixtureError, StoreFixture, Suite};
/// use memory_tool_core::{InMemoryStore, Store};
///
/// struct Fixture;
///
/// #[async_trait]
/// impl StoreFixture for Fixture {
///     type Guard = ();
///
///     async fn fresh(&self) -> Result<(Arc<dyn Store>, ()), FixtureError> {
///         Ok((Arc::new(InMemoryStore::new()), ()))
///     }
/// }
///
/// # let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
/// # runtime.block_on(async {
/// let report = Suite::for_store(Fixture).filter("delete.").run().await;
/// assert!(report.is_success(), "{report}");
/// # });
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[async_trait]
pub trait StoreFixture: Send + Sync + 'static {
    /// What a store needs as long as it is used, such as a temporary directory. The other methods find the store by it. It is
    /// dropped after the store.
    type Guard: Send + Sync + 'static;

    /// Makes a store.
    ///
    /// # Behavior
    /// 1. It is new and empty, and shares nothing with those made before.
    /// 2. It is called for each case and each variant of a case, by several tasks at a time.
    ///
    /// # Errors
    /// Each case fails whose store cannot be made.
    async fn fresh(&self) -> Result<(Arc<dyn Store>, Self::Guard), FixtureError>;

    /// Opens the memory of a store once more.
    ///
    /// # Behavior
    /// 1. The two have nothing in common but what is stored, as two sessions or two machines have.
    ///
    /// # Errors
    /// [`FixtureError::Lacks`] by default: the cases of several sessions are ignored.
    async fn reopen(&self, guard: &Self::Guard) -> Result<Arc<dyn Store>, FixtureError> {
        let _ = guard;
        Err(FixtureError::not_provided())
    }

    /// How to start a program that serves the memory of a store.
    ///
    /// # Behavior
    /// 1. It answers each line of its standard input, one JSON value, with a line of its standard output, one `tool_result`
    ///    block, as `memory-tool run` does. [`serve`](crate::serve) is all that such a program needs; a test may start itself.
    /// 2. Several run at once, and are killed at any moment.
    ///
    /// # Errors
    /// [`FixtureError::Lacks`] by default: the cases of processes, restarts and `kill -9` are ignored.
    fn program(&self, guard: &Self::Guard) -> Result<Command, FixtureError> {
        let _ = guard;
        Err(FixtureError::not_provided())
    }

    /// The directory that stands for `/memories`.
    ///
    /// # Behavior
    /// 1. A file of the memory is a plain file of the same name beneath it, and so is the other way round.
    ///
    /// # Errors
    /// [`FixtureError::Lacks`] by default: the cases of links and special files are ignored.
    fn plain_files(&self, guard: &Self::Guard) -> Result<PathBuf, FixtureError> {
        let _ = guard;
        Err(FixtureError::lacks("the backend keeps no plain files"))
    }

    /// The directory beneath which all that is stored lies, in whatever form.
    ///
    /// # Behavior
    /// 1. It is empty before a store is made. The program that [`program`](Self::program) names starts there, too, where it is
    ///    empty again or cannot be changed, as it is where a disk is full or read-only.
    ///
    /// # Errors
    /// [`FixtureError::Lacks`] by default: the cases of disks that are full or read-only are ignored.
    fn directory(&self, guard: &Self::Guard) -> Result<PathBuf, FixtureError> {
        let _ = guard;
        Err(FixtureError::not_provided())
    }

    /// Opens the memory of a name in the place of this store.
    ///
    /// # Behavior
    /// 1. It is apart from the store and from the memories of all other names.
    /// 2. One name is one memory, however often it is opened.
    ///
    /// # Errors
    /// [`FixtureError::Failed`] for a name that cannot be one, such as an empty one; [`FixtureError::Lacks`] by default: the
    /// cases of several memories in one place are ignored.
    async fn scope(&self, guard: &Self::Guard, name: &str) -> Result<Arc<dyn Store>, FixtureError> {
        let _ = (guard, name);
        Err(FixtureError::lacks("the backend keeps one memory in a place"))
    }

    /// The store beneath the encryption.
    ///
    /// # Behavior
    /// 1. It shows and changes what somebody can who has the disk but not the key.
    ///
    /// # Errors
    /// [`FixtureError::Lacks`] by default: the cases of tampering are ignored.
    async fn beneath(&self, guard: &Self::Guard) -> Result<Arc<dyn Store>, FixtureError> {
        let _ = guard;
        Err(FixtureError::lacks("the backend does not encrypt"))
    }

    /// Opens the memory of a store with a key that is not its own.
    ///
    /// # Errors
    /// [`FixtureError::Failed`] where the wrong key is told at once, which is as good as later; [`FixtureError::Lacks`] by
    /// default.
    async fn reopen_with_wrong_key(&self, guard: &Self::Guard) -> Result<Arc<dyn Store>, FixtureError> {
        let _ = guard;
        Err(FixtureError::lacks("the backend does not encrypt"))
    }

    /// Makes another memory with the key of this one; the store beneath its encryption comes second.
    ///
    /// # Behavior
    /// 1. It is new and empty, and what is beneath it is not what is beneath this one.
    ///
    /// # Errors
    /// [`FixtureError::Lacks`] by default: the cases of ciphertexts from another memory are ignored.
    async fn another_of_the_key(&self, guard: &Self::Guard) -> Result<(Arc<dyn Store>, Arc<dyn Store>), FixtureError> {
        let _ = guard;
        Err(FixtureError::lacks("the backend does not encrypt"))
    }

    /// Texts that no reply may hold, such as the name of the directory or bucket that the store is kept in (`[W5]`). None by
    /// default; raw texts of operating systems are looked for in any case.
    fn secrets(&self, guard: &Self::Guard) -> Vec<String> {
        let _ = guard;
        Vec::new()
    }

    /// Whether the backend can store a file of that path at all. By default it can.
    ///
    /// # Behavior
    /// 1. Where it cannot, `create` of that path must be refused with an error, and nothing may come of it.
    fn can_store(&self, path: &str) -> bool {
        let _ = path;
        true
    }
}

/// Makes tools for the suite: what you write to test a [`MemoryTool`] of your own, where there is no
/// [`Store`] beneath it that could be tested instead.
///
/// Only [`fresh`](Self::fresh) is required. Each of the other methods is as in [`StoreFixture`].
#[async_trait]
pub trait ToolFixture: Send + Sync + 'static {
    /// What a tool needs as long as it is used, see [`StoreFixture::Guard`].
    type Guard: Send + Sync + 'static;

    /// Makes a tool with these options.
    ///
    /// # Behavior
    /// 1. Its memory is new and empty, and shares nothing with those made before.
    /// 2. It is called for each case and each variant of a case, by several tasks at a time.
    ///
    /// # Errors
    /// [`FixtureError::Lacks`] for options other than the default, where the tool has none: the cases that set them are
    /// ignored.
    async fn fresh(&self, options: &ToolOptions) -> Result<(Arc<dyn MemoryTool>, Self::Guard), FixtureError>;

    /// Opens the memory of a tool once more, with default options, see [`StoreFixture::reopen`].
    ///
    /// # Errors
    /// [`FixtureError::Lacks`] by default.
    async fn reopen(&self, guard: &Self::Guard) -> Result<Arc<dyn MemoryTool>, FixtureError> {
        let _ = guard;
        Err(FixtureError::not_provided())
    }

    /// How to start a program that serves the memory of a tool, see [`StoreFixture::program`].
    ///
    /// # Errors
    /// [`FixtureError::Lacks`] by default.
    fn program(&self, guard: &Self::Guard) -> Result<Command, FixtureError> {
        let _ = guard;
        Err(FixtureError::not_provided())
    }

    /// The directory that stands for `/memories`, see [`StoreFixture::plain_files`].
    ///
    /// # Errors
    /// [`FixtureError::Lacks`] by default.
    fn plain_files(&self, guard: &Self::Guard) -> Result<PathBuf, FixtureError> {
        let _ = guard;
        Err(FixtureError::lacks("the backend keeps no plain files"))
    }

    /// The directory beneath which all that is stored lies, see [`StoreFixture::directory`].
    ///
    /// # Errors
    /// [`FixtureError::Lacks`] by default.
    fn directory(&self, guard: &Self::Guard) -> Result<PathBuf, FixtureError> {
        let _ = guard;
        Err(FixtureError::not_provided())
    }

    /// Texts that no reply may hold, see [`StoreFixture::secrets`].
    fn secrets(&self, guard: &Self::Guard) -> Vec<String> {
        let _ = guard;
        Vec::new()
    }

    /// Whether the backend can store a file of that path at all, see [`StoreFixture::can_store`].
    fn can_store(&self, path: &str) -> bool {
        let _ = path;
        true
    }
}
