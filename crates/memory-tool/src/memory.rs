//! [`Memory`]: what a program that owns a memory holds.

use std::ffi::OsStr;
use std::sync::Arc;

use memory_tool_core::{
    FileEntry, MemoryPath, MemoryTool, Node, OpenError, Store, StoreError, StoreExt as _, Usage, VerifyProgress,
    VerifyReport,
};

use crate::backend::Backend;
use crate::builder::MemoryBuilder;

/// One memory: the tool for the agent loop, and plain methods for the program that owns it. Cloning is cheap, and the clones are one
/// memory.
///
/// The tool and the methods work on the same store, under the same policies: a file that Claude may not write, the program may not
/// write either.
///
/// ```
/// use memory_tool::Memory;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let memory = Memory::open("in-process:").await?; // or ./memory, sqlite:memory.sqlite?memory=alice, s3://bucket/prefix
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
    pub(crate) parts: Arc<Parts>,
}

/// What the clones of a memory share.
#[derive(Debug)]
pub(crate) struct Parts {
    pub(crate) backend: Backend,
    #[cfg(feature = "encrypted")]
    pub(crate) encrypted: Option<memory_tool_encrypted::EncryptedStore>,
    #[cfg(feature = "expiry")]
    pub(crate) expiring: Option<Arc<crate::builder::Expiring>>,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) tool: Arc<dyn MemoryTool>,
    #[cfg(feature = "transfer")]
    pub(crate) transfer: crate::transfer::Traits,
}

impl Memory {
    /// Opens the memory that a plain path or a [`StoreUrl`](crate::StoreUrl) names, and creates it if it does not exist.
    ///
    /// # Errors
    /// [`OpenError`], for the operator.
    pub async fn open(url: impl AsRef<OsStr>) -> Result<Self, OpenError> {
        Self::builder(url).build().await
    }

    /// A builder of the memory that a plain path or a [`StoreUrl`](crate::StoreUrl) names, with options and policies.
    pub fn builder(url: impl AsRef<OsStr>) -> MemoryBuilder {
        MemoryBuilder::at(url.as_ref())
    }

    /// A builder of a memory in a store of the program's own, with options and policies.
    pub fn over(store: impl Store) -> MemoryBuilder {
        MemoryBuilder::over(Arc::new(store))
    }

    /// The tool: what the agent loop holds.
    pub fn tool(&self) -> Arc<dyn MemoryTool> {
        Arc::clone(&self.parts.tool)
    }

    /// The store under the tool, with the policies.
    pub fn store(&self) -> Arc<dyn Store> {
        Arc::clone(&self.parts.store)
    }

    /// The storage, without policies and encryption.
    pub fn backend(&self) -> &Backend {
        &self.parts.backend
    }

    /// The encrypted store over the storage, for [rekeying](memory_tool_encrypted::EncryptedStore::rekey) it; `None` without
    /// [encryption](MemoryBuilder::encrypt).
    #[cfg(feature = "encrypted")]
    pub fn encrypted(&self) -> Option<&memory_tool_encrypted::EncryptedStore> {
        self.parts.encrypted.as_ref()
    }

    /// The expiry policy, for removing what has expired; `None` where files do not [expire](MemoryBuilder::expire_after),
    /// and in a [read-only](MemoryBuilder::read_only) memory.
    #[cfg(feature = "expiry")]
    pub fn expiring(&self) -> Option<&crate::builder::Expiring> {
        self.parts.expiring.as_deref()
    }

    /// Reads what is at `path`: a file, a listing or nothing.
    ///
    /// # Errors
    /// The errors of [`Store::read_opts`]; [`StoreError::Path`].
    pub async fn read<P>(&self, path: P) -> Result<Node, StoreError>
    where
        P: TryInto<MemoryPath, Error: Into<StoreError>> + Send,
    {
        self.parts.store.read(path).await
    }

    /// Reads the file at `path` as text.
    ///
    /// # Errors
    /// The errors of [`read`](Self::read); [`StoreError::NotFound`], [`StoreError::NotAFile`] for a directory, [`StoreError::NotText`].
    pub async fn read_to_string<P>(&self, path: P) -> Result<String, StoreError>
    where
        P: TryInto<MemoryPath, Error: Into<StoreError>> + Send,
    {
        self.parts.store.read_to_string(path).await
    }

    /// Creates the file at `path`, or replaces its contents.
    ///
    /// # Errors
    /// The errors of [`Store::apply`], such as [`StoreError::Refused`] by a policy; [`StoreError::Path`].
    pub async fn write<P>(&self, path: P, content: impl Into<Vec<u8>> + Send) -> Result<(), StoreError>
    where
        P: TryInto<MemoryPath, Error: Into<StoreError>> + Send,
    {
        self.parts.store.write(path, content).await
    }

    /// Lists every file under `directory`, at any depth, in the order of the paths. Where nothing is there, or a file, the list is
    /// empty.
    ///
    /// # Errors
    /// The errors of [`read`](Self::read).
    pub async fn list<P>(&self, directory: P) -> Result<Vec<FileEntry>, StoreError>
    where
        P: TryInto<MemoryPath, Error: Into<StoreError>> + Send,
    {
        self.parts.store.list(directory).await
    }

    /// Moves the file or the directory at `from` to the free path `to`.
    ///
    /// # Errors
    /// The errors of [`Store::apply`], such as [`StoreError::AlreadyExists`]; [`StoreError::Path`].
    pub async fn rename<P, Q>(&self, from: P, to: Q) -> Result<(), StoreError>
    where
        P: TryInto<MemoryPath, Error: Into<StoreError>> + Send,
        Q: TryInto<MemoryPath, Error: Into<StoreError>> + Send,
    {
        self.parts.store.rename(from, to).await
    }

    /// Removes the file at `path`, or the directory with all files under it.
    ///
    /// # Errors
    /// The errors of [`Store::apply`], such as [`StoreError::NotFound`]; [`StoreError::Path`].
    pub async fn remove<P>(&self, path: P) -> Result<(), StoreError>
    where
        P: TryInto<MemoryPath, Error: Into<StoreError>> + Send,
    {
        self.parts.store.remove(path).await
    }

    /// Removes all files. The times at which they were used are removed with them, if the memory is opened with its
    /// [idle time](MemoryBuilder::expire_after). The audit log stays.
    ///
    /// # Errors
    /// The errors of [`Store::apply`]. A memory with files in a [mounted](MemoryBuilder::mount) store is [`StoreError::Refused`]: open it
    /// without the mounts to empty it.
    pub async fn clear(&self) -> Result<(), StoreError> {
        self.parts.store.remove(MemoryPath::root()).await
    }

    /// The number of files, and their bytes.
    ///
    /// # Errors
    /// The errors of [`read`](Self::read).
    pub async fn usage(&self) -> Result<Usage, StoreError> {
        self.parts.store.usage().await
    }

    /// Reads everything in the storage, including what policies hide, and reports what is damaged. Others may use the memory at the
    /// same time. `progress` is called after each file.
    ///
    /// # Errors
    /// [`StoreError::Failure`] where the storage cannot be checked. Damage is in the report.
    pub async fn verify(&self, progress: impl FnMut(VerifyProgress) + Send) -> Result<VerifyReport, StoreError> {
        #[cfg(feature = "encrypted")]
        if let Some(encrypted) = &self.parts.encrypted {
            let stored = self.parts.backend.verify_structure().await?;
            let mut report = encrypted.verify(progress).await?;
            // Of a problem on both sides of the encryption, the inner report does not know which file it affects.
            let is_known =
                |object: &MemoryPath| report.problems.iter().any(|known| known.object.as_ref() == Some(object));
            let unknown: Vec<_> =
                stored.problems.into_iter().filter(|problem| !problem.path.as_ref().is_some_and(is_known)).collect();
            report.problems.splice(0..0, unknown);
            return Ok(report);
        }
        self.parts.backend.verify(progress).await
    }
}
