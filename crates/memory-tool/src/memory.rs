//! [`Memory`]: a handle to a memory.

use std::fmt;
use std::sync::Arc;

use memory_tool_core::{
    Actor, Batch, FileEntry, IntoMemoryPath, MAX_ATTEMPTS, MemoryPath, MemoryTool, Node, Precondition, Store,
    StoreError, StoreExt as _, StorePath, ToolRunner, Usage, VerifyProgress, VerifyReport,
};

use crate::backend::Backend;
use crate::named_store::NamedStore;
use crate::watch::{Feed, Watch};

/// A handle to a memory, with the tool for Claude and methods for the program. Clones are cheap and share the memory.
///
/// The tool and the methods use the same store and the same policies. If a policy refuses a write by Claude, it also
/// refuses this write by the program.
///
/// ```
/// use memory_tool::Memory;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let memory = Memory::open("in-process:").await?; // or ./memory, sqlite:memory.db, s3://bucket/prefix
/// memory.write("/memories/profile.md", "Prefers tea.").await?;
/// let text = memory.read_to_string("/memories/profile.md").await?;
/// for file in memory.list("/memories").await? {
///     println!("{} {} {:?}", file.path, file.size, file.modified);
/// }
/// let reply = memory.tool().call(serde_json::json!({"command": "view", "path": "/memories/profile.md"})).await?;
/// assert!(reply.to_string().ends_with(&text));
/// memory.clear().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Memory {
    pub(crate) inner: Arc<Inner>,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) tool: Arc<dyn MemoryTool>,
    /// The actor of [`by`](Self::by).
    pub(crate) actor: Option<Actor>,
}

/// Makes the tool over a store, for an actor.
pub(crate) type ToolOver = Box<dyn Fn(Arc<dyn Store>, Option<&Actor>) -> Arc<dyn MemoryTool> + Send + Sync>;

/// The state that the clones of a memory share.
pub(crate) struct Inner {
    pub(crate) backend: Backend,
    #[cfg(feature = "layers")]
    pub(crate) layers: crate::layers::OpenLayers,
    pub(crate) feed: Arc<Feed>,
    pub(crate) tool_over: ToolOver,
}

impl fmt::Debug for Inner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Inner").field("backend", &self.backend).finish_non_exhaustive()
    }
}

impl Memory {
    /// A handle on the same memory whose changes are made by `actor`: those of its tool, its methods, its store and its
    /// history. It is cheap, so a server makes one for each request.
    ///
    /// ```
    /// use memory_tool::{Actor, Memory};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let memory = Memory::open("in-process:").await?;
    /// let mut watch = memory.watch().await;
    /// memory.by(Actor::from_trusted_name("user/42")?).write("/memories/profile.md", "Prefers tea.").await?;
    /// let changes = watch.next().await.unwrap_or_default();
    /// assert_eq!(changes[0].actor.as_ref().map(Actor::name), Some("user/42"));
    /// # Ok(())
    /// # }
    /// ```
    pub fn by(&self, actor: Actor) -> Self {
        Self { actor: Some(actor.clone()), ..self.clone() }
            .layered(|inner| Arc::new(NamedStore { inner, actor: Some(actor), command: None }))
    }

    /// A handle on the same memory whose reads and changes belong to a command of the program, for the history and for
    /// wrappers.
    pub fn for_command(&self, command: &'static str) -> Self {
        self.layered(|inner| Arc::new(NamedStore { inner, actor: None, command: Some(command) }))
    }

    /// A handle on the same memory through a store over it, such as your own policy.
    pub fn layered(&self, layer: impl FnOnce(Arc<dyn Store>) -> Arc<dyn Store>) -> Self {
        let (store, actor) = (layer(self.store()), self.actor.clone());
        let tool = (self.inner.tool_over)(Arc::clone(&store), actor.as_ref());
        Self { inner: Arc::clone(&self.inner), store, tool, actor }
    }

    /// The tool, for an agent loop.
    pub fn tool(&self) -> Arc<dyn MemoryTool> {
        Arc::clone(&self.tool)
    }

    /// A runner of the tool, which answers a response of the Messages API.
    pub fn runner(&self) -> ToolRunner<Arc<dyn MemoryTool>> {
        ToolRunner::new(self.tool())
    }

    /// The store, including all policies.
    pub fn store(&self) -> Arc<dyn Store> {
        Arc::clone(&self.store)
    }

    /// The backend, without policies and encryption.
    pub fn backend(&self) -> &Backend {
        &self.inner.backend
    }

    /// Reads the file or lists the directory at `path`.
    ///
    /// # Errors
    /// The errors of [`Store::read_opts`], and [`StoreError::Path`].
    pub async fn read(&self, path: impl IntoMemoryPath + Send) -> Result<Node, StoreError> {
        self.store.read(path).await
    }

    /// Reads the file at `path` as UTF-8 text.
    ///
    /// # Errors
    /// The errors of [`read`](Self::read), [`StoreError::NotFound`], [`StoreError::NotAFile`] for a directory, and
    /// [`StoreError::NotText`].
    pub async fn read_to_string(&self, path: impl IntoMemoryPath + Send) -> Result<String, StoreError> {
        self.store.read_to_string(path).await
    }

    /// Reads the contents of the file at `path`.
    ///
    /// # Errors
    /// The errors of [`read`](Self::read), [`StoreError::NotFound`], and [`StoreError::NotAFile`] for a directory.
    pub async fn read_bytes(&self, path: impl IntoMemoryPath + Send) -> Result<Vec<u8>, StoreError> {
        self.store.read_bytes(path).await
    }

    /// Whether there is a file or directory at `path`. `/memories` always exists.
    ///
    /// # Errors
    /// The errors of [`read`](Self::read).
    pub async fn exists(&self, path: impl IntoMemoryPath + Send) -> Result<bool, StoreError> {
        Ok(!matches!(self.read(path).await?, Node::Absent))
    }

    /// Creates the file at `path` or replaces its contents.
    ///
    /// # Errors
    /// The errors of [`Store::apply`], such as [`StoreError::Refused`] by a policy, and [`StoreError::Path`].
    pub async fn write(
        &self,
        path: impl IntoMemoryPath + Send,
        content: impl Into<Vec<u8>> + Send,
    ) -> Result<(), StoreError> {
        self.store.write(path, content).await
    }

    /// Replaces the contents of the file at `path` only if they are `expected`. `None` creates the file only if nothing
    /// exists at `path`. No concurrent change is lost.
    ///
    /// ```
    /// use memory_tool::Memory;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let memory = Memory::open("in-process:").await?;
    /// memory.write_if("/memories/profile.md", "Prefers tea.", None).await?;
    /// let shown = memory.read_bytes("/memories/profile.md").await?; // a person edits it
    /// memory.write("/memories/profile.md", "Prefers green tea.").await?; // Claude edits it, too
    /// let refused = memory.write_if("/memories/profile.md", "Prefers coffee.", Some(&shown)).await;
    /// assert!(refused.is_err_and(|error| error.is_conflict())); // read again, and show both
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`StoreError::VersionMismatch`] if the file has other contents or does not exist, [`StoreError::AlreadyExists`]
    /// if it must not exist, [`StoreError::NotAFile`] for a directory, and the errors of [`write`](Self::write).
    pub async fn write_if(
        &self,
        path: impl IntoMemoryPath + Send,
        content: impl Into<Vec<u8>> + Send,
        expected: Option<&[u8]>,
    ) -> Result<(), StoreError> {
        let (path, content) = (path.into_memory_path()?, content.into());
        let change = |found: Option<Vec<u8>>| match (found, expected) {
            (found, expected) if found.as_deref() == expected => Ok(content.clone()),
            (_, None) => Err(StoreError::AlreadyExists { path: path.clone().into() }),
            (_, Some(_)) => Err(StoreError::VersionMismatch { path: path.clone().into() }),
        };
        self.update(path.clone(), change).await
    }

    /// Adds `content` at the end of the file at `path`, and creates the file if it does not exist. No concurrent change
    /// is lost.
    ///
    /// # Errors
    /// [`StoreError::NotAFile`] for a directory, [`StoreError::VersionMismatch`] if the file kept changing, and the
    /// errors of [`write`](Self::write).
    pub async fn append(
        &self,
        path: impl IntoMemoryPath + Send,
        content: impl AsRef<[u8]> + Send + Sync,
    ) -> Result<(), StoreError> {
        let append = |found: Option<Vec<u8>>| {
            let mut text = found.unwrap_or_default(); // perhaps large, so it is not copied
            text.extend_from_slice(content.as_ref());
            Ok(text)
        };
        self.update(path, append).await
    }

    /// Replaces the contents of the file at `path` by the result of `change`. It gets the present contents, or `None`
    /// if the file does not exist, and runs again if they change at the same time. No concurrent change is lost.
    ///
    /// # Errors
    /// The error of `change`, [`StoreError::NotAFile`] for a directory, [`StoreError::VersionMismatch`] if the file
    /// kept changing, and the errors of [`write`](Self::write).
    pub async fn update(
        &self,
        path: impl IntoMemoryPath + Send,
        change: impl Fn(Option<Vec<u8>>) -> Result<Vec<u8>, StoreError> + Send,
    ) -> Result<(), StoreError> {
        let path = &path.into_memory_path()?;
        for _ in 0..MAX_ATTEMPTS {
            let (precondition, found) = match self.read(path).await? {
                Node::Absent => (Precondition::Absent, None),
                Node::File(file) => (Precondition::Version(file.version), Some(file.content)),
                Node::Directory(_) => return Err(StoreError::NotAFile { path: path.into() }),
            };
            match self.store.apply(Batch::new().require(path, precondition).write(path, change(found)?)).await {
                Err(StoreError::VersionMismatch { path: found } | StoreError::AlreadyExists { path: found })
                    if found.overlaps(&path.into()) => {}
                outcome => return outcome,
            }
        }
        Err(StoreError::VersionMismatch { path: path.into() })
    }

    /// Lists every file under `directory`, at any depth, sorted by path. The list is empty if `directory` does not
    /// exist or is a file.
    ///
    /// # Errors
    /// The errors of [`read`](Self::read).
    pub async fn list(&self, directory: impl IntoMemoryPath + Send) -> Result<Vec<FileEntry>, StoreError> {
        self.store.list(directory).await
    }

    /// Moves the file or directory at `from` to `to`, which must not exist.
    ///
    /// To another of the [mounted](crate::MemoryBuilder::mount) stores, files are copied before they are removed. After
    /// a stop between the two, both copies exist, and another call completes the move.
    ///
    /// # Errors
    /// The errors of [`Store::apply`], such as [`StoreError::AlreadyExists`], [`StoreError::VersionMismatch`] if others
    /// changed a file that moves to another store, and [`StoreError::Path`].
    pub async fn rename(
        &self,
        from: impl IntoMemoryPath + Send,
        to: impl IntoMemoryPath + Send,
    ) -> Result<(), StoreError> {
        let (from, to) = (from.into_memory_path()?, to.into_memory_path()?);
        match self.store.rename(&from, &to).await {
            #[cfg(feature = "layers")]
            Err(error) if memory_tool_policies::MountedStore::is_rename_across(&error) => {
                crate::layers::move_across(&self.store, &from, &to).await
            }
            outcome => outcome,
        }
    }

    /// Removes the file at `path`, or the directory and every file under it.
    ///
    /// # Errors
    /// The errors of [`Store::apply`], such as [`StoreError::NotFound`], and [`StoreError::Path`].
    pub async fn remove(&self, path: impl IntoMemoryPath + Send) -> Result<(), StoreError> {
        self.store.remove(path).await
    }

    /// Removes all files. Their access times are removed too, if the memory was opened with
    /// [`expire_after`](crate::MemoryBuilder::expire_after). The audit log is kept. A history keeps the removed
    /// contents until it is cleared too.
    ///
    /// # Errors
    /// The errors of [`Store::apply`], and [`StoreError::Refused`] if a [mounted](crate::MemoryBuilder::mount) store
    /// contains files. Open the memory without mounts to clear it.
    pub async fn clear(&self) -> Result<(), StoreError> {
        self.store.remove(MemoryPath::root()).await
    }

    /// Removes all files of this memory, its history, its access times and the records of other policies, in one step.
    /// The audit log is kept. For other remains, see [`Backend::remains_of_removed`].
    ///
    /// # Errors
    /// The errors of [`clear`](Self::clear).
    pub async fn forget(&self) -> Result<(), StoreError> {
        let batch = Batch::new().for_command("forget");
        self.store.apply(batch.remove(StorePath::memories()).remove(StorePath::records())).await
    }

    /// The number and the total size of all files.
    ///
    /// # Errors
    /// The errors of [`read`](Self::read).
    pub async fn usage(&self) -> Result<Usage, StoreError> {
        self.store.usage().await
    }

    /// Reports all changes after the return. Changes through this memory are reported at once. To detect those of other
    /// programs and of [`history`](Self::history), a task lists the memory every two seconds while there is a watch, or
    /// less often if a listing takes more than 100 milliseconds. Such an edit is detected if it changes the size or the
    /// time of the file.
    ///
    /// ```
    /// use memory_tool::{Memory, Operation};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let memory = Memory::open("in-process:").await?;
    /// let mut watch = memory.watch().await;
    /// memory.write("/memories/profile.md", "Prefers tea.").await?;
    /// let changes = watch.next().await.unwrap_or_default();
    /// assert_eq!((changes[0].operation, changes[0].path.as_str()), (Operation::Write, "/memories/profile.md"));
    /// # Ok(())
    /// # }
    /// ```
    pub async fn watch(&self) -> Watch {
        self.inner.feed.watch(&self.store).await
    }

    /// Checks the whole backend for damage, including files that policies hide, with the histories of all scopes. The
    /// memory can be in use at the same time.
    ///
    /// `progress` is called after each file.
    ///
    /// # Errors
    /// [`StoreError::Failure`] if the check cannot be completed. Damage is in the report.
    pub async fn verify(&self, progress: impl FnMut(VerifyProgress) + Send) -> Result<VerifyReport, StoreError> {
        #[cfg(feature = "layers")]
        return self.verify_layers(progress).await;
        #[cfg(not(feature = "layers"))]
        self.inner.backend.verify(progress).await
    }
}
