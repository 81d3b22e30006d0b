//! Damage that the inner store reports affects only that file or that copy of the index.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use crate::support::{content, contents, key, path, problems, record, ring, write};
use async_trait::async_trait;
use memory_tool_core::{
    Batch, Change, ErrorKind, InMemoryStore, Node, OpenOptions, ReadOptions, Store, StoreError, StoreExt, StorePath,
};
use memory_tool_encrypted::{EncryptedStore, KeyRing, RekeyProgress};
use memory_tool_local::LocalStore;

/// A store with unreadable files, like a database or a bucket that has lost their contents, or that is busy. The files
/// can be removed and rewritten.
#[derive(Debug, Default)]
struct LossyStore {
    inner: InMemoryStore,
    lost: Mutex<BTreeMap<StorePath, ErrorKind>>,
}

impl LossyStore {
    fn lose(&self, file: &StorePath) {
        self.fail(file, ErrorKind::Damaged);
    }

    fn fail(&self, file: &StorePath, kind: ErrorKind) {
        self.lost.lock().unwrap().insert(file.clone(), kind);
    }

    fn check(&self, file: &StorePath) -> Result<(), StoreError> {
        match self.lost.lock().unwrap().get(file) {
            Some(kind) => Err(StoreError::failure(*kind, "reading", "content lost")),
            None => Ok(()),
        }
    }

    /// The ciphertexts.
    async fn files(&self) -> Vec<StorePath> {
        let files = self.inner.list(&StorePath::memories()).await.unwrap().into_iter().map(|file| file.path);
        files.filter(|file| !file.as_str().contains("index")).collect()
    }
}

#[async_trait]
impl Store for LossyStore {
    async fn read_opts(&self, path: &StorePath, options: ReadOptions) -> Result<Node, StoreError> {
        for (required, _) in options.preconditions() {
            self.check(required)?;
        }
        self.check(path)?;
        self.inner.read_opts(path, options).await
    }

    async fn apply(&self, batch: Batch) -> Result<(), StoreError> {
        for (path, _) in batch.preconditions() {
            self.check(path)?;
        }
        let written = batch.changes().iter().filter_map(|change| match change {
            Change::Write { path, .. } | Change::Remove { path } => Some(path.clone()),
            Change::Rename { .. } => None,
        });
        let written: Vec<_> = written.collect();
        self.inner.apply(batch).await?;
        self.lost.lock().unwrap().retain(|lost, _| !written.iter().any(|path| path == lost || lost.is_under(path)));
        Ok(())
    }
}

async fn open(inner: &Arc<LossyStore>, keys: KeyRing) -> EncryptedStore {
    EncryptedStore::open(Arc::clone(inner), keys).await.unwrap()
}

async fn three_files() -> (Arc<LossyStore>, EncryptedStore) {
    let inner = Arc::new(LossyStore::default());
    let store = open(&inner, ring(1)).await;
    for file in ["/memories/a", "/memories/b", "/memories/c"] {
        write(&store, file, file).await;
    }
    (inner, store)
}

#[tokio::test]
async fn either_copy_of_the_index_may_be_unreadable() {
    for copy in ["/memories/index-1", "/memories/index-2"] {
        let (inner, store) = three_files().await;
        let files = contents(&store).await;
        inner.lose(&path(copy));
        let fresh = open(&inner, ring(1)).await;
        for store in [&store, &fresh] {
            assert_eq!(contents(store).await, files);
            let problems = problems(store).await;
            let [problem] = &problems[..] else { panic!("{copy}: {problems:?}") };
            assert!(problem.message.starts_with("a copy of the index cannot be read: "), "{problem}");
            assert_eq!(problem.object, Some(path(copy)));
        }
        // An edit of a file does not repair the copy, because it does not write the index.
        write(&store, "/memories/a", "another").await;
        assert_eq!(content(&fresh, &path("/memories/a")).await, b"another");
        write(&store, "/memories/d", "new").await;
        for store in [&store, &fresh] {
            assert_eq!(contents(store).await.len(), 4);
            assert_eq!(problems(store).await, []);
        }
    }
}

/// Two writers use the second copy to detect conflicts while the first copy is unreadable.
#[tokio::test]
async fn no_write_is_lost_while_a_copy_of_the_index_is_unreadable() {
    let (inner, store) = three_files().await;
    let other = open(&inner, ring(1)).await;
    for round in 0..20 {
        inner.lose(&path("/memories/index-1"));
        let (one, another) = (format!("/memories/one/{round}"), format!("/memories/another/{round}"));
        tokio::join!(write(&store, &one, "x"), write(&other, &another, "y"));
    }
    assert_eq!(contents(&store).await.len(), 3 + 40);
    assert_eq!(contents(&open(&inner, ring(1)).await).await.len(), 3 + 40);
}

/// The check reads the objects first, and then the files.
#[tokio::test]
async fn what_was_found_before_a_failure_is_reported() {
    let (inner, store) = three_files().await;
    let one = &inner.files().await[0];
    inner.fail(one, ErrorKind::Busy);
    assert_eq!(store.verify(|_| {}).await.unwrap_err().kind(), ErrorKind::Busy);

    inner.inner.write(path("/memories/foreign"), "x").await.unwrap();
    let messages: Vec<_> = problems(&store).await.into_iter().map(|problem| problem.message).collect();
    let [foreign, failure] = &messages[..] else { panic!("{messages:?}") };
    assert_eq!(foreign, "/memories/foreign is not a part of the encrypted memory");
    assert!(failure.contains("content lost"), "{failure}");
}

#[tokio::test]
async fn two_unreadable_copies_of_the_index_are_an_error() {
    let (inner, store) = three_files().await;
    for copy in ["/memories/index-1", "/memories/index-2"] {
        inner.lose(&path(copy));
    }
    EncryptedStore::open(Arc::clone(&inner), ring(1)).await.unwrap_err();
    store.list(&StorePath::memories()).await.unwrap_err();
}

#[tokio::test]
async fn an_unreadable_file_is_reported_and_the_others_are_rekeyed() {
    let (inner, store) = three_files().await;
    let lost = inner.files().await[1].clone();
    inner.lose(&lost);
    let found = problems(&store).await;
    assert!(matches!(&found[..], [problem] if problem.path.is_some() && problem.object == Some(lost)), "{found:?}");
    let report = open(&inner, KeyRing::new(key(2)).with(key(1))).await.rekey(drop::<RekeyProgress>).await.unwrap();
    assert_eq!((report.rewritten, report.damaged.len(), report.still_needed.len()), (2, 1, 1));
    let store = open(&inner, KeyRing::new(key(2)).with(key(1))).await;
    let damaged = report.damaged[0].clone();
    write(&store, damaged.as_str(), "new").await;
    assert_eq!(problems(&store).await, []);
    assert_eq!(store.rekey(drop::<RekeyProgress>).await.unwrap().no_longer_needed.len(), 1);
}

#[tokio::test]
async fn a_refusal_of_the_inner_store_names_the_path_of_the_file() {
    let directory = tempfile::tempdir().unwrap();
    let open = async |limit| {
        let inner = LocalStore::builder(directory.path())
            .options(OpenOptions::new().max_file_bytes(limit))
            .open()
            .await
            .unwrap();
        EncryptedStore::open(inner, ring(1)).await.unwrap()
    };
    let (path, refused) = (path("/memories/a"), "the limit is");
    let store = open(10_000).await;
    let writing = |size| store.apply(Batch::new().write(path.clone(), vec![b'a'; size]));
    let error = writing(20_000).await.unwrap_err();
    assert!(
        matches!(&error, StoreError::Refused { path: named, reason, .. } if *named == path && reason.contains(refused))
    );
    writing(9_000).await.unwrap();

    let store = open(8_000).await;
    let error = store.read(&path).await.unwrap_err();
    assert!(
        matches!(&error, StoreError::Refused { path: named, reason, .. } if *named == path && reason.contains(refused))
    );
    assert!(matches!(&problems(&store).await[..], [problem] if problem.path.as_ref() == Some(&path)));
    store.remove(&path).await.unwrap();
    assert_eq!(problems(&store).await, []);

    let store = open(10_000).await;
    let writing = |size| store.apply(Batch::new().write(record("test/large"), vec![b'a'; size]));
    let error = writing(20_000).await.unwrap_err();
    assert!(matches!(&error, StoreError::Failure { kind: ErrorKind::Full, .. }), "{error:?}");
    writing(9_000).await.unwrap();
    let error = open(8_000).await.read_opts(&record("test/large"), ReadOptions::new()).await.unwrap_err();
    assert!(matches!(&error, StoreError::Failure { kind: ErrorKind::Full, .. }), "{error:?}");
}
