//! Opening with the right and the wrong keys, and the errors.

use std::error::Error;
use std::num::NonZeroUsize;
use std::sync::Arc;

use crate::support::{
    cause, content, contents, key, open, open_cause, open_error, path, problems, remove, ring, stored, write,
};
use async_trait::async_trait;
use memory_tool_core::{
    Batch, Engine, ErrorKind, InMemoryStore, MemoryTool, Node, OpenError, OpenMode, OpenOptions, Precondition,
    ReadOptions, Store, StoreError, StoreExt, StorePath,
};
use memory_tool_encrypted::{
    Damage, EncryptedStore, EncryptionError, KeyError, KeyProvider, KeyRing, Padding, Passphrase, PassphraseCost,
    RawKey,
};

fn passphrase(text: &str) -> Passphrase {
    Passphrase::new(text).unwrap().with_cost(PassphraseCost::new(8, 1, 1).unwrap())
}

#[tokio::test]
async fn opening_without_the_key_reports_its_name() {
    let inner = Arc::new(InMemoryStore::new());
    write(&open(&inner, ring(1)).await, "/memories/a", "x").await;
    match open_cause(&open_error(&inner, ring(2).with(key(3))).await) {
        EncryptionError::NoKey { needed, available } => {
            assert_eq!(needed.as_str(), "key-of-1");
            assert_eq!(available.iter().map(|id| id.as_str()).collect::<Vec<_>>(), ["key-of-2", "key-of-3"]);
        }
        other => panic!("{other:?}"),
    }
    open(&inner, ring(2).with(key(3)).with(key(1))).await;
}

#[tokio::test]
async fn a_wrong_key_with_the_right_name_is_reported() {
    let inner = Arc::new(InMemoryStore::new());
    write(&open(&inner, ring(1)).await, "/memories/a", "x").await;
    let impostor = RawKey::from_bytes([9; 32]).with_id("key-of-1".parse().unwrap());
    let error = open_error(&inner, KeyRing::new(impostor)).await;
    assert_eq!(error.kind(), ErrorKind::AccessDenied);
    let error = open_cause(&error);
    assert!(matches!(error, EncryptionError::Key { source: KeyError::WrongKey, .. }), "{error:?}");
    assert_eq!(error.to_string(), "cannot decrypt with key key-of-1");
}

#[tokio::test]
async fn a_wrong_passphrase_is_reported_on_opening() {
    let inner = Arc::new(InMemoryStore::new());
    write(&open(&inner, KeyRing::new(passphrase("right"))).await, "/memories/a", "x").await;
    let error = open_error(&inner, KeyRing::new(passphrase("wrong"))).await;
    let error = open_cause(&error);
    assert!(matches!(error, EncryptionError::Key { source: KeyError::WrongKey, .. }), "{error:?}");
    let store = open(&inner, KeyRing::new(passphrase("right"))).await;
    assert_eq!(content(&store, &path("/memories/a")).await, b"x");
}

#[tokio::test]
async fn unencrypted_files_are_refused() {
    let inner = Arc::new(InMemoryStore::new());
    write(&*inner, "/memories/notes.txt", "plain").await;
    let error = open_error(&inner, ring(1)).await;
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert!(matches!(open_cause(&error), EncryptionError::NotEncrypted { files: 1 }), "{error:?}");
    // A file with the name of an index is refused as well.
    write(&*inner, "/memories/index-1", "plain").await;
    let error = open_error(&inner, ring(1)).await;
    let cause = open_cause(&error);
    assert!(matches!(cause, EncryptionError::Damaged { damage: Damage::NotEncrypted, .. }), "{error:?}");
    assert_eq!(contents(&*inner).await.len(), 2);
}

#[tokio::test]
async fn ciphertexts_without_an_index_are_refused() {
    let inner = Arc::new(InMemoryStore::new());
    write(&open(&inner, ring(1)).await, "/memories/a", "x").await;
    for copy in ["/memories/index-1", "/memories/index-2"] {
        remove(&*inner, &path(copy)).await;
    }
    let error = open_error(&inner, ring(1)).await;
    assert!(matches!(open_cause(&error), EncryptionError::IndexMissing), "{error:?}");
}

#[tokio::test]
async fn an_unknown_format_version_is_reported() {
    let inner = Arc::new(InMemoryStore::new());
    write(&open(&inner, ring(1)).await, "/memories/a", "x").await;
    for name in ["index-1", "index-2"] {
        let mut bytes = stored(&*inner, name).await;
        bytes[8] = 2;
        write(&*inner, &format!("/memories/{name}"), bytes).await;
    }
    let error = open_error(&inner, ring(1)).await;
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    match open_cause(&error) {
        EncryptionError::Damaged { damage, .. } => {
            assert_eq!(*damage, Damage::UnknownFormat { found: 2, known: 1 });
            assert_eq!(damage.to_string(), "format version 2 is not supported; this program supports version 1");
        }
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn the_first_write_creates_the_store() {
    let inner = Arc::new(InMemoryStore::new());
    let store = open(&inner, ring(1)).await;
    assert_eq!(store.list(&StorePath::memories()).await.unwrap(), []);
    remove(&store, &StorePath::memories()).await;
    assert_eq!(inner.list(&StorePath::memories()).await.unwrap(), []);
    write(&store, "/memories/a", "x").await;
    remove(&store, &StorePath::memories()).await;
    // The empty store still exists.
    assert_eq!(inner.list(&StorePath::memories()).await.unwrap().len(), 2);
    open_error(&inner, ring(2)).await;
}

async fn open_as(inner: &Arc<InMemoryStore>, mode: OpenMode) -> Result<EncryptedStore, OpenError> {
    EncryptedStore::builder(Arc::clone(inner), ring(1)).options(OpenOptions::new().mode(mode)).open().await
}

#[tokio::test]
async fn a_missing_store_is_created_in_create_mode_only() {
    let inner = Arc::new(InMemoryStore::new());
    for mode in [OpenMode::Existing, OpenMode::ReadOnly] {
        let error = open_as(&inner, mode).await.unwrap_err();
        assert!(error.is_not_found(), "{error:?}");
        assert_eq!(error.to_string(), "there is no memory store with encryption");
        assert_eq!(error.source().unwrap().to_string(), "there is no encrypted memory here");
    }
    write(&*inner, "/memories/notes.txt", "plain").await;
    for mode in [OpenMode::Create, OpenMode::Existing, OpenMode::ReadOnly] {
        let error = open_as(&inner, mode).await.unwrap_err();
        assert!(matches!(open_cause(&error), EncryptionError::NotEncrypted { files: 1 }), "{error:?}");
        assert!(!error.is_not_found());
    }
    remove(&*inner, &path("/memories/notes.txt")).await;

    write(&open_as(&inner, OpenMode::Create).await.unwrap(), "/memories/a", "x").await;
    let existing = open_as(&inner, OpenMode::Existing).await.unwrap();
    write(&existing, "/memories/a", "y").await;
    // An open store does not replace a missing index with an empty one.
    for copy in ["/memories/index-1", "/memories/index-2"].map(path) {
        remove(&*inner, &copy).await;
    }
    let error = existing.apply(Batch::new().write(path("/memories/a"), b"z".to_vec())).await.unwrap_err();
    assert!(matches!(cause(&error), EncryptionError::IndexMissing), "{error:?}");
}

/// The store has a damaged copy of the index, a primary key without a data key, and a new name, but none of them is
/// written.
#[tokio::test]
async fn a_read_only_store_writes_nothing() {
    let inner = Arc::new(InMemoryStore::new());
    write(&open(&inner, ring(1)).await, "/memories/a", "x").await;
    write(&*inner, "/memories/index-2", "damaged").await;
    let before = contents(&*inner).await;
    let builder = EncryptedStore::builder(Arc::clone(&inner), ring(2).with(key(1))).label("new").former_label(None);
    let store = builder.options(OpenOptions::new().read_only()).open().await.unwrap();
    let changes = [
        Batch::new().write(path("/memories/b"), b"x".to_vec()),
        Batch::new().remove(path("/memories/a")),
        Batch::new().rename(path("/memories/a"), path("/memories/b")),
    ];
    for batch in changes {
        let error = store.apply(batch).await.unwrap_err();
        assert!(matches!(error, StoreError::Failure { kind: ErrorKind::AccessDenied, .. }), "{error:?}");
    }
    let error = store.rekey(|_| ()).await.unwrap_err();
    assert!(matches!(error, StoreError::Failure { kind: ErrorKind::AccessDenied, .. }), "{error:?}");
    // A batch without changes is allowed.
    store.apply(Batch::new().require(path("/memories/b"), Precondition::Absent)).await.unwrap();
    assert_eq!(contents(&store).await[&path("/memories/a")], b"x");
    assert_eq!(problems(&store).await.len(), 1);
    assert_eq!(contents(&*inner).await, before);
}

/// Both write their first file at the same time. The second writer detects that the store exists.
#[tokio::test]
async fn two_concurrent_first_writers_create_one_store() {
    for _ in 0..50 {
        let inner = Arc::new(InMemoryStore::new());
        let (left, right) = (open(&inner, ring(1)).await, open(&inner, ring(1)).await);
        tokio::join!(write(&left, "/memories/left", "l"), write(&right, "/memories/right", "r"));
        for store in [&left, &right] {
            assert_eq!(contents(store).await.len(), 2);
        }
    }
}

/// Two processes with different primary keys, each with the other's key in the ring, write with the key of the store.
#[tokio::test]
async fn the_order_of_a_ring_does_not_change_the_key_of_a_store() {
    let inner = Arc::new(InMemoryStore::new());
    let (old, new) = (open(&inner, ring(1).with(key(2))).await, open(&inner, ring(2).with(key(1))).await);
    for round in 0..4 {
        write(&old, "/memories/old", format!("{round}")).await;
        write(&new, "/memories/new", format!("{round}")).await;
        write(&old, "/memories/shared", format!("old {round}")).await;
        write(&new, "/memories/shared", format!("new {round}")).await;
        assert_eq!(contents(&old).await, contents(&new).await);
    }
    // A slot has the name of its key in plain text.
    let index = stored(&*inner, "index-1").await;
    for (name, slots) in [("key-of-1", 1), ("key-of-2", 0)] {
        assert_eq!(index.windows(8).filter(|window| *window == name.as_bytes()).count(), slots, "{name}");
    }
}

#[tokio::test]
async fn debug_output_and_errors_contain_no_secrets() {
    let inner = Arc::new(InMemoryStore::new());
    let raw = RawKey::from_bytes([0x5a; 32]);
    let hidden = [
        "5a5a5a5a".to_owned(),
        "5A5A5A5A".to_owned(),
        "90, 90, 90, 90".to_owned(),
        "WlpaWlpa".to_owned(),
        "correct horse".to_owned(),
        format!("{:?}", b"correct horse").trim_matches(['[', ']']).to_owned(),
        "secret-name".to_owned(),
        "secret text".to_owned(),
    ];
    let keys = KeyRing::new(raw).with(passphrase("correct horse"));
    let builder = EncryptedStore::builder(Arc::clone(&inner), keys.clone());
    let mut shown = vec![format!("{keys:?}"), format!("{builder:?}")];
    let store = builder.open().await.unwrap();
    write(&store, "/memories/secret-name", "secret text").await;
    store.read(&path("/memories/secret-name")).await.unwrap();
    shown.push(format!("{store:?} {store:#?}"));
    let error = open_error(&inner, KeyRing::new(passphrase("correct horse"))).await;
    shown.push(format!("{error:?} {error}"));
    for entry in inner.list(&StorePath::memories()).await.unwrap() {
        write(&*inner, entry.path.as_str(), vec![0x8d; 200]).await;
    }
    let error = store.read(&path("/memories/secret-name")).await.unwrap_err();
    shown.push(format!("{error:?} {error} {}", error.source().unwrap()));
    let data_key = memory_tool_encrypted::DataKey::from_bytes([0x5a; 32]);
    shown.push(format!("{data_key:?} {data_key:#?}"));
    for text in shown {
        for secret in &hidden {
            assert!(!text.contains(secret), "{secret:?} is in {text}");
        }
    }
}

/// Replies to the model do not name stored objects, even if the inner store does.
#[tokio::test]
async fn replies_do_not_name_stored_objects() {
    let inner = Arc::new(InMemoryStore::new());
    let store = open(&inner, ring(1)).await;
    write(&store, "/memories/a", "x").await;
    for entry in inner.list(&StorePath::memories()).await.unwrap() {
        if !entry.path.as_str().contains("index") {
            write(&*inner, entry.path.as_str(), "plain").await;
        }
    }
    let error = store.read(&path("/memories/a")).await.unwrap_err();
    assert!(matches!(cause(&error), EncryptionError::Damaged { damage: Damage::NotEncrypted, .. }));
    assert!(matches!(error, StoreError::Failure { .. }));
    let input = serde_json::json!({"command": "view", "path": "/memories/a"});
    let reply = Engine::new(store).call(input).await.unwrap_err().to_string();
    assert_eq!(reply, "Error: The memory storage holds damaged data here. Nothing was changed.");
}

#[tokio::test]
async fn invalid_key_ids_are_refused() {
    for illegal in ["", "line\nbreak", &"x".repeat(256)] {
        illegal.parse::<memory_tool_encrypted::KeyId>().unwrap_err();
    }
    assert_eq!(key(1).key_id().as_str(), "key-of-1");
}

/// A store in which another writer creates the memory after the index was read and before the root is listed.
#[derive(Debug)]
struct RacingStore(Arc<InMemoryStore>);

#[async_trait]
impl Store for RacingStore {
    async fn read_opts(&self, path: &StorePath, options: ReadOptions) -> Result<Node, StoreError> {
        if path.is_root() {
            write(&open(&self.0, ring(1)).await, "/memories/theirs", "x").await;
        }
        self.0.read_opts(path, options).await
    }

    async fn apply(&self, batch: Batch) -> Result<(), StoreError> {
        self.0.apply(batch).await
    }
}

/// A wrong option must not abort the process.
#[tokio::test]
async fn a_padding_that_exceeds_the_memory_is_an_error() {
    let inner = Arc::new(InMemoryStore::new());
    for size in [usize::MAX, usize::MAX / 2] {
        let padding = Padding::Multiple(NonZeroUsize::new(size).unwrap());
        let store = EncryptedStore::builder(Arc::clone(&inner), ring(1)).padding(padding).open().await.unwrap();
        let batch = Batch::new().write(path("/memories/a"), b"x".to_vec());
        let error = store.apply(batch).await.unwrap_err();
        assert!(matches!(cause(&error), EncryptionError::TooLarge { .. }), "{error:?}");
    }
    assert_eq!(inner.list(&StorePath::memories()).await.unwrap(), []);
}

#[tokio::test]
async fn a_store_that_is_created_during_opening_is_opened() {
    let store = EncryptedStore::open(RacingStore(Arc::default()), ring(1)).await.unwrap();
    assert_eq!(content(&store, &path("/memories/theirs")).await, b"x");
}

/// The store is opened while the inner store is empty, and used after other files have appeared there.
#[tokio::test]
async fn a_store_detects_files_that_appear_after_opening() {
    let inner = Arc::new(InMemoryStore::new());
    let early = open(&inner, ring(1)).await;
    assert!(contents(&early).await.is_empty());
    write(&*inner, "/memories/notes.txt", "plain").await;
    for refused in [
        early.list(&StorePath::memories()).await.map(drop),
        early.apply(Batch::new().write(path("/memories/a"), b"x".to_vec())).await,
    ] {
        let error = refused.unwrap_err();
        assert!(matches!(cause(&error), EncryptionError::NotEncrypted { files: 1 }), "{error:?}");
    }
    remove(&*inner, &path("/memories/notes.txt")).await;

    write(&open(&inner, ring(1)).await, "/memories/a", "x").await;
    for copy in ["/memories/index-1", "/memories/index-2"].map(path) {
        remove(&*inner, &copy).await;
    }
    let error = early.list(&StorePath::memories()).await.unwrap_err();
    assert!(matches!(cause(&error), EncryptionError::IndexMissing), "{error:?}");
}
