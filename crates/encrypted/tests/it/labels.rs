//! The label of a memory, which prevents an exchange with another memory of the same key.

use std::sync::Arc;

use crate::support::{cause, content, contents, open_cause, path, problems, remove, ring, stored, write};
use memory_tool_core::{InMemoryStore, OpenError, Store, StoreExt, StorePath};
use memory_tool_encrypted::{EncryptedStore, EncryptionError, KeyRing};

type OpenResult = Result<EncryptedStore, OpenError>;

async fn open_labeled(inner: &Arc<InMemoryStore>, keys: KeyRing, label: &str) -> OpenResult {
    EncryptedStore::builder(Arc::clone(inner), keys).label(label).open().await
}

async fn open_unlabeled(inner: &Arc<InMemoryStore>) -> OpenResult {
    EncryptedStore::open(Arc::clone(inner), ring(1)).await
}

async fn open_to_relabel(inner: &Arc<InMemoryStore>, label: &str, former: Option<&str>) -> OpenResult {
    EncryptedStore::builder(Arc::clone(inner), ring(1)).label(label).former_label(former).open().await
}

/// A labeled memory with one file.
async fn memory_of(label: &str) -> Arc<InMemoryStore> {
    let inner = Arc::new(InMemoryStore::new());
    write(&open_labeled(&inner, ring(1), label).await.unwrap(), "/memories/whose", label).await;
    inner
}

/// Replaces the contents of one store with the contents of another, like an attacker with write access.
async fn replace(target: &dyn Store, with: &dyn Store) {
    remove(target, &StorePath::memories()).await;
    for (path, content) in contents(with).await {
        write(target, path.as_str(), content).await;
    }
}

fn expected(opened: OpenResult) -> Option<String> {
    match open_cause(&opened.unwrap_err()) {
        EncryptionError::OtherLabel { expected } => expected.clone(),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn another_memory_with_the_same_key_is_refused() {
    let (alice, bob) = (memory_of("alice").await, memory_of("bob").await);
    let open = open_labeled(&alice, ring(1), "alice").await.unwrap();
    replace(&*alice, &*bob).await;
    assert_eq!(expected(open_labeled(&alice, ring(1), "alice").await), Some("alice".to_owned()));
    let error = open.read(&path("/memories/whose")).await.unwrap_err();
    assert!(matches!(cause(&error), EncryptionError::OtherLabel { .. }), "{error:?}");
    // The other memory opens with its own label.
    let bob = open_labeled(&alice, ring(1), "bob").await.unwrap();
    assert_eq!(content(&bob, &path("/memories/whose")).await, b"bob");
}

#[tokio::test]
async fn one_copy_of_the_index_of_another_memory_is_ignored() {
    let (alice, bob) = (memory_of("alice").await, memory_of("bob").await);
    for copy in ["index-1", "index-2"] {
        let mine = stored(&*alice, copy).await;
        write(&*alice, &format!("/memories/{copy}"), stored(&*bob, copy).await).await;
        let store = open_labeled(&alice, ring(1), "alice").await.unwrap();
        assert_eq!(content(&store, &path("/memories/whose")).await, b"alice");
        let problems = problems(&store).await;
        let [problem] = &problems[..] else { panic!("{problems:?}") };
        let message = "a copy of the index cannot be read: this memory does not have the label `alice`";
        assert_eq!(problem.message, message);
        assert_eq!(problem.object, Some(path(&format!("/memories/{copy}"))));
        write(&*alice, &format!("/memories/{copy}"), mine).await;
    }
}

#[tokio::test]
async fn a_labeled_memory_opens_with_its_label_only() {
    let labeled = memory_of("alice").await;
    for other in ["alice2", "Alice", "alic", ""] {
        assert_eq!(expected(open_labeled(&labeled, ring(1), other).await).as_deref(), Some(other));
    }
    assert_eq!(expected(open_unlabeled(&labeled).await), None);

    let unlabeled = Arc::new(InMemoryStore::new());
    write(&open_unlabeled(&unlabeled).await.unwrap(), "/memories/a", "x").await;
    for label in ["alice", ""] {
        assert_eq!(expected(open_labeled(&unlabeled, ring(1), label).await).as_deref(), Some(label));
    }
}

/// Writes keep the label, whether they write the index or a single file.
#[tokio::test]
async fn a_memory_keeps_its_label() {
    let inner = memory_of("alice").await;
    let store = open_labeled(&inner, ring(1), "alice").await.unwrap();
    write(&store, "/memories/whose", "hers").await;
    write(&store, "/memories/b", "x").await;
    remove(&store, &StorePath::memories()).await;
    write(&store, "/memories/c", "x").await;
    assert_eq!(contents(&open_labeled(&inner, ring(1), "alice").await.unwrap()).await.len(), 1);
    assert_eq!(expected(open_unlabeled(&inner).await), None);
}

#[tokio::test]
async fn rekeying_sets_the_label() {
    let inner = Arc::new(InMemoryStore::new());
    write(&open_unlabeled(&inner).await.unwrap(), "/memories/a", "x").await;

    let store = open_to_relabel(&inner, "alice", None).await.unwrap();
    assert_eq!(content(&store, &path("/memories/a")).await, b"x");
    open_unlabeled(&inner).await.unwrap(); // the memory still has no label
    store.rekey(|_| {}).await.unwrap();
    assert_eq!(expected(open_unlabeled(&inner).await), None);
    let before = contents(&*inner).await;
    store.rekey(|_| {}).await.unwrap();
    assert_eq!(contents(&*inner).await, before, "the second call writes nothing");

    let store = open_to_relabel(&inner, "alice of Lisbon", Some("alice")).await.unwrap();
    write(&store, "/memories/b", "x").await; // writes the index, but does not relabel the memory
    open_labeled(&inner, ring(1), "alice").await.unwrap();
    store.rekey(|_| {}).await.unwrap();
    assert_eq!(expected(open_labeled(&inner, ring(1), "alice").await).as_deref(), Some("alice"));
    assert_eq!(contents(&open_labeled(&inner, ring(1), "alice of Lisbon").await.unwrap()).await.len(), 2);
    assert_eq!(expected(open_to_relabel(&inner, "bob", Some("alice")).await).as_deref(), Some("bob"));
}

/// A process that still has the former label.
#[tokio::test]
async fn no_writer_returns_to_the_former_label() {
    let inner = memory_of("alice").await;
    let late = open_to_relabel(&inner, "alice", Some("bob")).await.unwrap();
    open_to_relabel(&inner, "bob", Some("alice")).await.unwrap().rekey(|_| {}).await.unwrap();
    write(&late, "/memories/whose", "late").await;
    write(&late, "/memories/new", "late").await;
    assert_eq!(contents(&open_labeled(&inner, ring(1), "bob").await.unwrap()).await.len(), 2);
    assert_eq!(expected(open_labeled(&inner, ring(1), "alice").await).as_deref(), Some("alice"));
}

#[tokio::test]
async fn the_label_is_encrypted() {
    let inner = memory_of("a-name-to-look-for").await;
    for (path, stored) in contents(&*inner).await {
        assert!(!stored.windows(18).any(|window| window == b"a-name-to-look-for"), "{path}");
    }
}

#[tokio::test]
async fn a_label_that_is_too_long_is_an_error() {
    let inner = Arc::new(InMemoryStore::new());
    let store = open_labeled(&inner, ring(1), &"x".repeat(65_536)).await.unwrap();
    let batch = memory_tool_core::Batch::new().write(path("/memories/a"), b"x".to_vec());
    let error = store.apply(batch).await.unwrap_err();
    assert!(matches!(cause(&error), EncryptionError::TooLarge { .. }), "{error:?}");
}
