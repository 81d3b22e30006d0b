//! [`EncryptedStore`]: the public store type.

use std::sync::Arc;

use async_trait::async_trait;
use memory_tool_core::{
    Batch, Node, OpenError, ReadOptions, Store, StoreError, StorePath, VerifyProgress, VerifyReport,
};

use crate::config::EncryptedStoreBuilder;
use crate::failure::Failure;
use crate::header::{IndexCopy, ObjectName, has_magic};
use crate::inner::Inner;
use crate::keys::KeyRing;
use crate::rekey::{RekeyProgress, RekeyReport};

/// A store that keeps Claude's memory encrypted in another store.
///
/// Several processes may open the same memory if the inner store allows it. They see each other's changes immediately,
/// and no change is lost. Clones are cheap and share one store. The methods require a tokio runtime with its timer
/// enabled.
///
/// A file whose ciphertext is damaged cannot be read. It is listed as damaged and can be deleted, renamed or replaced.
///
/// Listings report the modification time of the ciphertext, if the inner store has it. Writes and
/// [`rekey`](Self::rekey) change it. Creation times are not available.
///
/// ```
/// use std::sync::Arc;
///
/// use memory_tool_core::{Engine, InMemoryStore, MemoryTool, StoreExt};
/// use memory_tool_encrypted::{EncryptedStore, KeyRing, RawKey};
///
/// # let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
/// # runtime.block_on(async {
/// let inner = Arc::new(InMemoryStore::new());
/// let store = EncryptedStore::open(Arc::clone(&inner), KeyRing::new(RawKey::generate()?)).await?;
/// let input = serde_json::json!({"command": "create", "path": "/memories/a.txt", "file_text": "Hello"});
/// assert_eq!(Engine::new(store).call(input).await?.to_string(), "File created successfully at: /memories/a.txt");
///
/// let stored = inner.list("/memories").await?;
/// assert!(stored.iter().all(|file| file.path.file_name() != Some("a.txt")));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct EncryptedStore {
    inner: Arc<Inner>,
}

impl EncryptedStore {
    /// Opens the memory in `inner` with the default options.
    ///
    /// # Errors
    /// The same as [`EncryptedStoreBuilder::open`].
    pub async fn open(inner: impl Store, keys: KeyRing) -> Result<Self, OpenError> {
        Self::builder(inner, keys).open().await
    }

    /// Returns a builder with options for the memory in `inner`.
    pub fn builder(inner: impl Store, keys: KeyRing) -> EncryptedStoreBuilder {
        EncryptedStoreBuilder::new(Box::new(inner), keys)
    }

    /// Whether `inner` holds an encrypted memory. No key is required. A program can check this before it writes
    /// unencrypted files, in case the user forgot the key.
    ///
    /// One recognizable copy of the index is enough.
    ///
    /// # Errors
    /// The errors of [`Store::read_opts`], if no copy is recognized and at least one cannot be read.
    pub async fn is_in(inner: &dyn Store) -> Result<bool, StoreError> {
        let mut error = None;
        for copy in [IndexCopy::First, IndexCopy::Second] {
            match inner.read_opts(&ObjectName::Index(copy).path(), ReadOptions::new()).await {
                Ok(Node::File(file)) if has_magic(&file.content) => return Ok(true),
                Ok(_) => {}
                Err(cause) => error = error.or(Some(cause)),
            }
        }
        error.map_or(Ok(false), Err)
    }

    /// Reads every file, every record and both copies of the index, and searches for foreign objects in the inner
    /// store. The store may be in use at the same time.
    ///
    /// A problem names the damaged [object](memory_tool_core::Problem::object) of the inner store.
    ///
    /// # Errors
    /// [`StoreError::Failure`] if no copy of the index can be read, or if the inner store fails and nothing was found
    /// until then. The report lists any other damage.
    pub async fn verify(&self, progress: impl FnMut(VerifyProgress) + Send) -> Result<VerifyReport, StoreError> {
        let during = |failure: Failure| failure.during("verifying");
        let (problems, snapshot) = self.inner.verify_objects().await.map_err(during)?;
        let mut read = VerifyReport::default().read_files(self, progress).await;
        for problem in read.iter_mut().flat_map(|read| &mut read.problems) {
            let file = problem.path.as_ref().and_then(|path| snapshot.index.files.files().get(path));
            problem.object = file.map(|file| ObjectName::Content(file.id).path());
        }
        VerifyReport::from(problems).and(read)
    }

    pub(crate) fn of(inner: Inner) -> Self {
        Self { inner: Arc::new(inner) }
    }

    /// Changes the store to the primary key of the ring: re-encrypts all data under other keys, sets the
    /// [label](EncryptedStoreBuilder::label), and reports which other keys are no longer needed. The store may be in
    /// use at the same time.
    ///
    /// # Behavior
    /// 1. If everything is up to date, nothing is written.
    /// 2. If the future is dropped or the process is killed, some files are re-encrypted and all files stay readable.
    ///    The next call resumes the work.
    /// 3. Concurrent edits are kept: a file that changes during the call is re-encrypted in its new version.
    /// 4. Damaged files are left untouched, so their old key must be kept.
    /// 5. Other processes write with the new key from the first write of this call on, whichever key is the primary of
    ///    their rings. A process without the new key can no longer read or write: see [`KeyRing`].
    ///
    /// `progress` is called before the first file and after each write.
    ///
    /// # Errors
    /// [`StoreError::Failure`].
    pub async fn rekey(&self, progress: impl FnMut(RekeyProgress) + Send) -> Result<RekeyReport, StoreError> {
        self.inner.rekey(progress).await.map_err(|failure| failure.during("rekeying"))
    }
}

#[async_trait]
impl Store for EncryptedStore {
    async fn read_opts(&self, path: &StorePath, options: ReadOptions) -> Result<Node, StoreError> {
        self.inner.read(path, &options).await.map_err(|failure| failure.during("reading"))
    }

    async fn apply(&self, batch: Batch) -> Result<(), StoreError> {
        self.inner.apply(batch).await.map_err(|failure| failure.during("applying a batch"))
    }
}
