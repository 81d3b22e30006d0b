//! Helpers for the tests of this crate.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use memory_tool_core::{
    Batch, ErrorKind, InMemoryStore, Node, OpenError, Problem, ReadOptions, Store, StoreError, StoreExt, StorePath,
};
use memory_tool_encrypted::{Damage, EncryptedStore, EncryptionError, KeyRing, RawKey};
pub(crate) use memory_tool_test_fixtures::{path, record};

/// A key of 32 equal bytes with the name `key-of-{byte}`.
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

pub(crate) async fn remove(store: &dyn Store, file: &StorePath) {
    store.remove(file).await.unwrap();
}

/// The content of an existing file.
pub(crate) async fn content(store: &dyn Store, file: &StorePath) -> Vec<u8> {
    match store.read(file).await.unwrap() {
        Node::File(found) => found.content,
        other => panic!("{file} is {other:?}"),
    }
}

/// All files with their contents.
pub(crate) async fn contents(store: &dyn Store) -> BTreeMap<StorePath, Vec<u8>> {
    let found = memory_tool_test_fixtures::contents(store).await.into_iter();
    found
        .inspect(|(path, size, content)| assert_eq!(*size, content.len() as u64, "{path}"))
        .map(|(path, _, content)| (path, content))
        .collect()
}

/// The encryption error behind a store error.
pub(crate) fn cause(error: &StoreError) -> &EncryptionError {
    match error {
        StoreError::Failure { source, .. } => source.downcast_ref().unwrap(),
        other => panic!("not a failure: {other:?}"),
    }
}

/// The damage that an error reports.
pub(crate) fn damage(error: &StoreError) -> &Damage {
    match cause(error) {
        EncryptionError::Damaged { damage, .. } => damage,
        other => panic!("not damage: {other:?}"),
    }
}

/// The encryption error behind a failure to open.
pub(crate) fn open_cause(error: &OpenError) -> &EncryptionError {
    std::error::Error::source(error).unwrap().downcast_ref().unwrap()
}

pub(crate) async fn open_error(inner: &Arc<InMemoryStore>, keys: KeyRing) -> OpenError {
    EncryptedStore::open(Arc::clone(inner), keys).await.unwrap_err()
}

/// The content of an existing record.
pub(crate) async fn content_of_record(store: &dyn Store, name: &str) -> Vec<u8> {
    store.read_opts(&record(name), ReadOptions::new()).await.unwrap().into_file().unwrap().content
}

/// The problems that verification reports.
pub(crate) async fn problems(store: &EncryptedStore) -> Vec<Problem> {
    store.verify(|_| {}).await.unwrap().problems
}

/// The content of a stored object.
pub(crate) async fn stored(inner: &dyn Store, name: &str) -> Vec<u8> {
    content(inner, &path(&format!("/memories/{name}"))).await
}

/// A fault of a call to the inner store.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Fault {
    /// The call fails without an effect.
    FailsBefore,
    /// The call takes effect and then fails with an unknown outcome.
    FailsAfter,
    /// The call never returns and has no effect.
    HangsBefore,
    /// The call takes effect and never returns.
    HangsAfter,
}

/// A store that counts its calls and injects a fault into one of them.
#[derive(Debug)]
pub(crate) struct FaultyStore {
    pub(crate) inner: Arc<InMemoryStore>,
    pub(crate) calls: AtomicUsize,
    pub(crate) writes: AtomicUsize,
    /// The index of the faulty call, from 0.
    pub(crate) at: usize,
    pub(crate) fault: Fault,
}

impl FaultyStore {
    pub(crate) fn new(inner: &Arc<InMemoryStore>, at: usize, fault: Fault) -> Self {
        Self { inner: Arc::clone(inner), calls: AtomicUsize::new(0), writes: AtomicUsize::new(0), at, fault }
    }

    async fn around<T>(&self, call: impl Future<Output = Result<T, StoreError>>) -> Result<T, StoreError> {
        if self.calls.fetch_add(1, Ordering::SeqCst) != self.at {
            return call.await;
        }
        let failure = |kind| StoreError::failure(kind, "calling a faulty store", "injected fault");
        match self.fault {
            Fault::FailsBefore => Err(failure(ErrorKind::Other)),
            Fault::FailsAfter => call.await.and(Err(failure(ErrorKind::OutcomeUnknown))),
            Fault::HangsBefore => std::future::pending().await,
            Fault::HangsAfter => {
                drop(call.await);
                std::future::pending().await
            }
        }
    }
}

#[async_trait]
impl Store for FaultyStore {
    async fn read_opts(&self, path: &StorePath, options: ReadOptions) -> Result<Node, StoreError> {
        self.around(self.inner.read_opts(path, options)).await
    }

    async fn apply(&self, batch: Batch) -> Result<(), StoreError> {
        self.writes.fetch_add(1, Ordering::SeqCst);
        self.around(self.inner.apply(batch)).await
    }
}
