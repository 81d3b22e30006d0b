//! [`StoreExt`]: convenience methods for every store.

use crate::store::batch::Batch;
use crate::store::error::StoreError;
use crate::store::node::{FileEntry, Node};
use crate::store::path::MemoryPath;
use crate::store::quota::Usage;
use crate::store::store_path::StorePath;
use crate::store::{ReadOptions, Store};

/// Convenience methods for every [`Store`].
///
/// A path can be a string. An invalid path is [`StoreError::Path`].
///
/// ```
/// use memory_tool_core::{InMemoryStore, StoreExt};
///
/// # let runtime = tokio::runtime::Builder::new_current_thread().build()?;
/// # runtime.block_on(async {
/// let store = InMemoryStore::new();
/// store.write("/memories/profile.md", "Prefers tea.").await?;
/// assert_eq!(store.read_to_string("/memories/profile.md").await?, "Prefers tea.");
/// for file in store.list("/memories").await? {
///     println!("{} {} {:?}", file.path, file.size, file.modified);
/// }
/// assert_eq!(store.usage().await?.bytes, 12);
/// store.remove("/memories/profile.md").await?;
/// # Ok::<(), memory_tool_core::StoreError>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait StoreExt: Store {
    /// Reads the file or lists the directory at `path`.
    ///
    /// # Errors
    /// The errors of [`Store::read_opts`], and [`StoreError::Path`].
    fn read(&self, path: impl IntoMemoryPath) -> impl Future<Output = Result<Node, StoreError>> + Send {
        let path = path.into_memory_path();
        async move { self.read_opts(&StorePath::from(path?), ReadOptions::new()).await }
    }

    /// Reads the contents of the file at `path`.
    ///
    /// # Errors
    /// The errors of [`read`](Self::read), [`StoreError::NotFound`], and [`StoreError::NotAFile`] for a directory.
    fn read_bytes(&self, path: impl IntoMemoryPath) -> impl Future<Output = Result<Vec<u8>, StoreError>> + Send {
        let path = path.into_memory_path();
        async move {
            let path = StorePath::from(path?);
            match self.read_opts(&path, ReadOptions::new()).await? {
                Node::File(file) => Ok(file.content),
                Node::Directory(_) => Err(StoreError::NotAFile { path }),
                Node::Absent => Err(StoreError::NotFound { path }),
            }
        }
    }

    /// Reads the file at `path` as UTF-8 text.
    ///
    /// # Errors
    /// The errors of [`read_bytes`](Self::read_bytes), and [`StoreError::NotText`].
    fn read_to_string(&self, path: impl IntoMemoryPath) -> impl Future<Output = Result<String, StoreError>> + Send {
        let path = path.into_memory_path();
        async move {
            let path = path?;
            let content = self.read_bytes(&path).await?;
            String::from_utf8(content).map_err(|_| StoreError::NotText { path: path.into() })
        }
    }

    /// Creates the file at `path` or replaces its contents.
    ///
    /// # Errors
    /// The errors of [`Store::apply`], and [`StoreError::Path`].
    fn write(
        &self,
        path: impl IntoMemoryPath,
        content: impl Into<Vec<u8>>,
    ) -> impl Future<Output = Result<(), StoreError>> + Send {
        let batch = path.into_memory_path().map(|path| Batch::new().write(path, content));
        async move { self.apply(batch?).await }
    }

    /// Lists every file under `directory`, at any depth, sorted by path. The list is empty if `directory` does not
    /// exist or is a file.
    ///
    /// # Errors
    /// The errors of [`read`](Self::read).
    fn list(&self, directory: impl IntoMemoryPath) -> impl Future<Output = Result<Vec<FileEntry>, StoreError>> + Send {
        let path = directory.into_memory_path();
        async move {
            let mut entries = self.read_opts(&StorePath::from(path?), ReadOptions::new()).await?.into_listing().files;
            entries.sort_unstable_by(|left, right| left.path.cmp(&right.path));
            Ok(entries)
        }
    }

    /// Removes the file at `path`, or the directory and every file under it. Removing `/memories` empties the store.
    ///
    /// # Errors
    /// The errors of [`Store::apply`], such as [`StoreError::NotFound`], and [`StoreError::Path`].
    fn remove(&self, path: impl IntoMemoryPath) -> impl Future<Output = Result<(), StoreError>> + Send {
        let batch = path.into_memory_path().map(|path| Batch::new().remove(path));
        async move { self.apply(batch?).await }
    }

    /// Moves the file or directory at `from` to `to`, which must not exist.
    ///
    /// # Errors
    /// The errors of [`Store::apply`], such as [`StoreError::AlreadyExists`], and [`StoreError::Path`].
    fn rename(
        &self,
        from: impl IntoMemoryPath,
        to: impl IntoMemoryPath,
    ) -> impl Future<Output = Result<(), StoreError>> + Send {
        let (from, to) = (from.into_memory_path(), to.into_memory_path());
        async move { self.apply(Batch::new().rename(from?, to?)).await }
    }

    /// The number and the total size of all files in the store.
    ///
    /// # Errors
    /// The errors of [`Store::read_opts`].
    fn usage(&self) -> impl Future<Output = Result<Usage, StoreError>> + Send {
        async move {
            let root = self.read_opts(&StorePath::memories(), ReadOptions::new()).await?;
            Ok(root.into_listing().files.into_iter().collect())
        }
    }
}

impl<S: Store + ?Sized> StoreExt for S {}

/// A path, or text that is parsed as a path.
pub trait IntoMemoryPath: TryInto<MemoryPath, Error: Into<StoreError>> {
    /// Parses the path.
    ///
    /// # Errors
    /// [`StoreError::Path`].
    fn into_memory_path(self) -> Result<MemoryPath, StoreError> {
        self.try_into().map_err(Into::into)
    }
}

impl<P: TryInto<MemoryPath, Error: Into<StoreError>>> IntoMemoryPath for P {}
