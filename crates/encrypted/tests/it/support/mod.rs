//! What the tests of this crate share.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use memory_tool_core::{
    Batch, FailureKind, InMemoryStore, MemoryPath, Node, OpenError, Problem, ReadOptions, RecordName, Store,
    StoreError, StoreExt, StoredFile,
};
use memory_tool_encrypted::{Damage, EncryptedStore, EncryptionError, KeyRing, RawKey};

pub(crate) fn path(text: &str) -> MemoryPath {
    text.parse().unwrap()
}

/// A key that a byte stands for, by the name `key-of-{byte}`.
pub(crate) fn key(byte: u8) -> RawKey {
    RawKey::from_bytes([byte; 32]).with_id(format!("key-of-{byte}").parse().unwrap())
}

pub(crate) fn ring(byte: u8) -> KeyRing {
    KeyRing::new(key(byte))
}

pub(crate) async fn open(inner: &Arc<InMemoryStore>, keys: KeyRing) -> EncryptedStore {
    EncryptedStore::open(Arc::clone(inner), keys).await.unwrap()
}

pub(crate) async fn write(store: &dyn Store, file: &str, content: impl Into<Vec<u8>>) {
    store.write(file, content).await.unwrap();
}

pub(crate) async fn remove(store: &dyn Store, file: &MemoryPath) {
    store.remove(file).await.unwrap();
}

/// The content of a file, which must be there.
pub(crate) async fn content(store: &dyn Store, file: &MemoryPath) -> Vec<u8> {
    match store.read(file).await.unwrap() {
        Node::File(found) => found.content,
        other => panic!("{file} is {other:?}"),
    }
}

/// Every file with its content.
pub(crate) async fn contents(store: &dyn Store) -> BTreeMap<MemoryPath, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in store.list(&MemoryPath::root()).await.unwrap() {
        let content = content(store, &entry.path).await;
        assert_eq!(entry.size, content.len() as u64, "{}", entry.path);
        found.insert(entry.path, content);
    }
    found
}

/// What the encryption found wrong.
pub(crate) fn cause(error: &StoreError) -> &EncryptionError {
    match error {
        StoreError::Failure { source, .. } => source.downcast_ref().unwrap(),
        other => panic!("no failure, but {other:?}"),
    }
}

/// What is wrong with a stored object.
pub(crate) fn damage(error: &StoreError) -> &Damage {
    match cause(error) {
        EncryptionError::Damaged { damage, .. } => damage,
        other => panic!("no damage, but {other:?}"),
    }
}

/// What the encryption found wrong at the opening.
pub(crate) fn cause_of_opening(error: &OpenError) -> &EncryptionError {
    std::error::Error::source(error).unwrap().downcast_ref().unwrap()
}

pub(crate) async fn open_error(inner: &Arc<InMemoryStore>, keys: KeyRing) -> OpenError {
    EncryptedStore::open(Arc::clone(inner), keys).await.unwrap_err()
}

pub(crate) fn record(name: &str) -> RecordName {
    name.parse().unwrap()
}

/// The content of a record, which must be there.
pub(crate) async fn content_of_record(store: &dyn Store, name: &str) -> Vec<u8> {
    store.read_record(&record(name)).await.unwrap().unwrap().content
}

/// What verifying finds.
pub(crate) async fn problems(store: &EncryptedStore) -> Vec<Problem> {
    store.verify(|_| {}).await.unwrap().problems
}

/// The content of a stored object.
pub(crate) async fn stored(inner: &dyn Store, name: &str) -> Vec<u8> {
    content(inner, &path(&format!("/memories/{name}"))).await
}

/// What happens to a call of the store beneath.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Mishap {
    /// It fails, and nothing is done.
    FailsBefore,
    /// It is done, and fails: who called cannot know.
    FailsAfter,
    /// It is not done, and never answers.
    HangsBefore,
    /// It is done, and never answers.
    HangsAfter,
}

/// A store that counts its calls, and has a mishap at one of them.
#[derive(Debug)]
pub(crate) struct Faulty {
    pub(crate) inner: Arc<InMemoryStore>,
    pub(crate) calls: AtomicUsize,
    pub(crate) writes: AtomicUsize,
    /// The number of the call, counted from 0.
    pub(crate) at: usize,
    pub(crate) mishap: Mishap,
}

impl Faulty {
    pub(crate) fn new(inner: &Arc<InMemoryStore>, at: usize, mishap: Mishap) -> Self {
        Self { inner: Arc::clone(inner), calls: AtomicUsize::new(0), writes: AtomicUsize::new(0), at, mishap }
    }

    async fn around<T>(&self, call: impl Future<Output = Result<T, StoreError>>) -> Result<T, StoreError> {
        if self.calls.fetch_add(1, Ordering::SeqCst) != self.at {
            return call.await;
        }
        let failure = |kind| StoreError::failure(kind, "calling a faulty store", "a mishap");
        match self.mishap {
            Mishap::FailsBefore => Err(failure(FailureKind::Other)),
            Mishap::FailsAfter => call.await.and(Err(failure(FailureKind::OutcomeUnknown))),
            Mishap::HangsBefore => std::future::pending().await,
            Mishap::HangsAfter => {
                drop(call.await);
                std::future::pending().await
            }
        }
    }
}

#[async_trait]
impl Store for Faulty {
    async fn read_opts(&self, path: &MemoryPath, options: ReadOptions) -> Result<Node, StoreError> {
        self.around(self.inner.read_opts(path, options)).await
    }

    async fn read_record(&self, name: &RecordName) -> Result<Option<StoredFile>, StoreError> {
        self.around(self.inner.read_record(name)).await
    }

    async fn apply(&self, batch: Batch) -> Result<(), StoreError> {
        self.writes.fetch_add(1, Ordering::SeqCst);
        self.around(self.inner.apply(batch)).await
    }
}
