//! [`EncryptedStore`]: the store.

use std::sync::Arc;

use async_trait::async_trait;
use memory_tool_core::{
    Batch, MemoryPath, Node, OpenError, ReadOptions, RecordName, Store, StoreError, StoredFile, VerifyProgress,
    VerifyReport,
};

use crate::config::EncryptedStoreBuilder;
use crate::failure::Failure;
use crate::header::{IndexCopy, ObjectName, has_magic};
use crate::inner::Inner;
use crate::keys::KeyRing;
use crate::rekey::{RekeyProgress, RekeyReport};

/// Claude's memory, encrypted, in any other store.
///
/// Any number of processes may open one memory, as far as the store beneath allows it: they lose nothing and see each other's
/// changes at once. Cloning is cheap, and the clones are one store. The methods must be called within a tokio runtime that has its
/// timer enabled.
///
/// A listing says that a file was modified when its ciphertext was, if the inner store knows: a write changes that time, and so does
/// [`rekey`](Self::rekey). It does not say when a file was created.
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
    /// Those of [`Store::read_opts`], where no copy can be recognized and one of the places cannot be read.
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

    /// Reads every file, every record and both copies of the index, and looks for stored objects that belong to none of them. Others
    /// may use the store at the same time.
    ///
    /// A problem names the [object](memory_tool_core::Problem::object) in the inner store that it was found in.
    ///
    /// # Errors
    /// [`StoreError::Failure`] if no copy of the index can be read, or the inner store fails. Any other damage is a problem of the
    /// report instead.
    pub async fn verify(&self, progress: impl FnMut(VerifyProgress) + Send) -> Result<VerifyReport, StoreError> {
        let during = |failure: Failure| failure.during("verifying");
        let (problems, snapshot) = self.inner.verify_objects().await.map_err(during)?;
        let mut report = VerifyReport::default().read_files(self, progress).await?;
        for problem in &mut report.problems {
            let file = problem.path.as_ref().and_then(|path| snapshot.index.files.files().get(path));
            problem.object = file.map(|file| ObjectName::Content(file.id).path());
        }
        report.problems.splice(..0, problems);
        report.problems.extend(self.inner.problems_of_records(&snapshot.index).await.map_err(during)?);
        Ok(report)
    }

    pub(crate) fn of(inner: Inner) -> Self {
        Self { inner: Arc::new(inner) }
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
        self.inner.rekey(progress).await.map_err(|failure| failure.during("encrypting anew"))
    }
}

#[async_trait]
impl Store for EncryptedStore {
    async fn read_opts(&self, path: &MemoryPath, options: ReadOptions) -> Result<Node, StoreError> {
        self.inner.read(path, &options).await.map_err(|failure| failure.during("reading"))
    }

    async fn read_record(&self, name: &RecordName) -> Result<Option<StoredFile>, StoreError> {
        self.inner.read_record(name).await.map_err(|failure| failure.during("reading a record"))
    }

    async fn apply(&self, batch: Batch) -> Result<(), StoreError> {
        self.inner.apply(batch).await.map_err(|failure| failure.during("applying a batch"))
    }
}
