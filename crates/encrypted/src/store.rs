//! [`EncryptedStore`]: the store.

use std::sync::Arc;

use async_trait::async_trait;
use memory_tool_core::{Batch, FileEntry, MemoryPath, Node, Store, StoreError};

use crate::config::{EncryptedStoreBuilder, OpenError};
use crate::header::{IndexCopy, Place, has_magic};
use crate::keys::KeyRing;
use crate::rekey::{RekeyProgress, RekeyReport};
use crate::shared::Shared;
use crate::verify::Problem;

/// Claude's memory, encrypted, in any other store.
///
/// Any number of processes may open one memory, as far as the store beneath allows it: they lose nothing and see each other's
/// changes at once. Cloning is cheap, and the clones are one store. The methods must be called within a tokio runtime that has its
/// timer enabled.
///
/// ```
/// use std::sync::Arc;
///
/// use memory_tool_core::{Engine, InMemoryStore, MemoryPath, MemoryTool, Store};
/// use memory_tool_encrypted::{EncryptedStore, KeyRing, RawKey};
///
/// # let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
/// # runtime.block_on(async {
/// let beneath = Arc::new(InMemoryStore::new());
/// let store = EncryptedStore::open(Arc::clone(&beneath), KeyRing::new(RawKey::generate()?)).await?;
/// let input = serde_json::json!({"command": "create", "path": "/memories/a.txt", "file_text": "Hello"});
/// assert_eq!(Engine::new(store).call(input).await?.to_string(), "File created successfully at: /memories/a.txt");
///
/// let stored = beneath.list(&MemoryPath::root()).await?;
/// assert!(stored.iter().all(|file| file.path.name() != Some("a.txt")));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct EncryptedStore {
    shared: Arc<Shared>,
}

impl EncryptedStore {
    /// Opens the memory in `inner` with the default options.
    ///
    /// # Errors
    /// Those of [`EncryptedStoreBuilder::open`].
    pub async fn open(inner: impl Store, keys: KeyRing) -> Result<Self, OpenError> {
        Self::builder(inner, keys).open().await
    }

    /// The memory in `inner` with options of your own.
    pub fn builder(inner: impl Store, keys: KeyRing) -> EncryptedStoreBuilder {
        EncryptedStoreBuilder::new(Box::new(inner), keys)
    }

    /// Whether there is an encrypted memory in `inner`, for which it takes no key to tell. So that nobody writes into one
    /// what is not encrypted, because the key was forgotten.
    ///
    /// One copy of the index is enough, whatever is in the place of the other.
    ///
    /// # Errors
    /// Those of [`Store::read`], where no copy can be recognized and one of the places cannot be read.
    pub async fn is_in(inner: &dyn Store) -> Result<bool, StoreError> {
        let mut error = None;
        for copy in [IndexCopy::First, IndexCopy::Second] {
            match inner.read(&Place::Index(copy).path()).await {
                Ok(Node::File(file)) if has_magic(&file.content) => return Ok(true),
                Ok(_) => {}
                Err(cause) => error = error.or(Some(cause)),
            }
        }
        error.map_or(Ok(false), Err)
    }

    /// Reads everything and tells what is not as it was written: files, copies of the index, and stored objects that belong to
    /// no file. Others may use the store meanwhile.
    ///
    /// # Errors
    /// [`StoreError::Failure`] where nothing can be read, or the store beneath fails. What else it finds is no error, but in the
    /// list, which is empty where all is well.
    pub async fn verify(&self) -> Result<Vec<Problem>, StoreError> {
        self.shared.verify().await.map_err(|failure| failure.during("verifying"))
    }

    pub(crate) fn of(shared: Shared) -> Self {
        Self { shared: Arc::new(shared) }
    }

    /// Encrypts everything anew that is not encrypted under the primary of the key ring, gives the memory its
    /// [name](EncryptedStoreBuilder::name), and says which other keys are no longer needed. Others may use the store meanwhile.
    ///
    /// # Behavior
    /// 1. Where nothing is left to be done, nothing is written.
    /// 2. A future that is dropped, or a process that is killed, leaves a store in which some files are encrypted anew and all can
    ///    be read. The next call goes on from there.
    /// 3. No edit of others is lost: a file that they change meanwhile is encrypted anew as they left it.
    /// 4. A file that is damaged stays as it is, and so is its old key needed.
    /// 5. Files that others go on writing under another key stay under it: first every process needs a ring with the new
    ///    primary, see [`KeyRing`].
    ///
    /// `progress` is called before the first file and after each write.
    ///
    /// # Errors
    /// [`StoreError::Failure`].
    pub async fn rekey(&self, progress: impl FnMut(RekeyProgress) + Send) -> Result<RekeyReport, StoreError> {
        self.shared.rekey(progress).await.map_err(|failure| failure.during("encrypting anew"))
    }
}

#[async_trait]
impl Store for EncryptedStore {
    async fn read(&self, path: &MemoryPath) -> Result<Node, StoreError> {
        self.shared.read(path).await.map_err(|failure| failure.during("reading"))
    }

    async fn list(&self, directory: &MemoryPath) -> Result<Vec<FileEntry>, StoreError> {
        self.shared.list(directory).await.map_err(|failure| failure.during("listing"))
    }

    async fn apply(&self, batch: Batch) -> Result<(), StoreError> {
        self.shared.apply(batch).await.map_err(|failure| failure.during("applying a batch"))
    }
}
