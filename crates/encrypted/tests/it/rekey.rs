//! Rekeying: everything comes under the new key, whatever happens meanwhile.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use crate::support::{
    Faulty, Mishap, cause, cause_of_opening, content, content_of_record, contents, damage, key, open, open_error, path,
    record, remove, ring, write,
};
use async_trait::async_trait;
use memory_tool_core::{
    Batch, Engine, InMemoryStore, MemoryPath, MemoryTool, Node, ReadOptions, RecordName, Store, StoreError, StoreExt,
    StoredFile,
};
use memory_tool_encrypted::{
    Damage, EncryptedStore, EncryptionError, KeyId, KeyRing, Padding, Passphrase, PassphraseCost, RekeyProgress,
};
use memory_tool_test_fixtures::by_tier;
use serde_json::json;

/// More than two batches of files.
const FILES: usize = 70;

/// The key to come, and the one before it.
fn new_ring() -> KeyRing {
    ring(2).with(key(1))
}

fn names(keys: &[KeyId]) -> Vec<&str> {
    keys.iter().map(KeyId::as_str).collect()
}

/// A store under the first key.
async fn filled() -> (Arc<InMemoryStore>, BTreeMap<MemoryPath, Vec<u8>>) {
    let inner = Arc::new(InMemoryStore::new());
    let store = open(&inner, ring(1)).await;
    let mut batch = Batch::new();
    for number in 0..FILES {
        batch = batch.write(path(&format!("/memories/{}/{number}", number % 5)), vec![b'x'; number]);
    }
    store.apply(batch).await.unwrap();
    let files = contents(&store).await;
    (inner, files)
}

#[tokio::test]
async fn everything_comes_under_the_new_key() {
    let (inner, files) = filled().await;
    let store = open(&inner, new_ring()).await;
    let mut steps = Vec::new();
    let report = store.rekey(|progress| steps.push((progress.done, progress.total))).await.unwrap();
    assert_eq!(steps, [(0, FILES), (32, FILES), (64, FILES), (FILES, FILES)]);
    assert_eq!(report.rewritten, FILES);
    assert_eq!(report.damaged, []);
    assert_eq!(names(&report.no_longer_needed), ["key-of-1"]);
    assert_eq!(names(&report.still_needed), [""; 0]);
    assert_eq!(contents(&open(&inner, ring(2)).await).await, files);
    assert!(matches!(cause_of_opening(&open_error(&inner, ring(1)).await), EncryptionError::NoKey { .. }));
}

#[tokio::test]
async fn where_nothing_is_left_to_do_nothing_is_written() {
    let (inner, _) = filled().await;
    open(&inner, new_ring()).await.rekey(drop::<RekeyProgress>).await.unwrap();
    let counting = Arc::new(Faulty::new(&inner, usize::MAX, Mishap::FailsBefore));
    let store = EncryptedStore::open(Arc::clone(&counting), new_ring()).await.unwrap();
    let report = store.rekey(drop::<RekeyProgress>).await.unwrap();
    assert_eq!((report.rewritten, report.no_longer_needed.len()), (0, 0));
    let nothing = open(&Arc::new(InMemoryStore::new()), ring(1)).await;
    assert_eq!(nothing.rekey(drop::<RekeyProgress>).await.unwrap().rewritten, 0);
    assert_eq!(counting.writes.load(Ordering::SeqCst), 0);
}

/// A store without files has a key as well: that of its index.
#[tokio::test]
async fn an_empty_store_comes_under_the_new_key() {
    let (inner, _) = filled().await;
    remove(&open(&inner, ring(1)).await, &MemoryPath::root()).await;
    let report = open(&inner, new_ring()).await.rekey(drop::<RekeyProgress>).await.unwrap();
    assert_eq!((report.rewritten, names(&report.no_longer_needed)), (0, vec!["key-of-1"]));
    write(&open(&inner, ring(2)).await, "/memories/a", "x").await;
}

#[tokio::test]
async fn rekeying_changes_the_padding_too() {
    let (inner, files) = filled().await;
    let store = EncryptedStore::builder(Arc::clone(&inner), new_ring()).padding(Padding::Padme).open().await.unwrap();
    store.rekey(drop::<RekeyProgress>).await.unwrap();
    assert_eq!(contents(&open(&inner, ring(2)).await).await, files);
}

/// It is interrupted at each call of the store beneath, in each way that a call can go wrong; then all is there, and the next
/// call goes on.
#[tokio::test(flavor = "multi_thread")]
async fn it_can_be_interrupted_at_any_instant_and_goes_on() {
    for mishap in [Mishap::FailsBefore, Mishap::FailsAfter, Mishap::HangsBefore, Mishap::HangsAfter] {
        let mut at = 0;
        loop {
            let (inner, files) = filled().await;
            let faulty = Arc::new(Faulty::new(&inner, usize::MAX, mishap));
            let store = EncryptedStore::open(Arc::clone(&faulty), new_ring()).await.unwrap();
            // Opening has made its calls: the mishap is one of rekeying.
            let opening = faulty.calls.load(Ordering::SeqCst);
            let faulty = Arc::new(Faulty::new(&inner, opening + at, mishap));
            drop(store);
            let store = EncryptedStore::open(Arc::clone(&faulty), new_ring()).await.unwrap();
            let interrupted = match mishap {
                Mishap::FailsBefore | Mishap::FailsAfter => store.rekey(drop::<RekeyProgress>).await.is_err(),
                Mishap::HangsBefore | Mishap::HangsAfter => {
                    let mut rekeying = Box::pin(store.rekey(drop::<RekeyProgress>));
                    loop {
                        let patience = Duration::from_millis(2);
                        match tokio::time::timeout(patience, &mut rekeying).await {
                            Ok(outcome) => break outcome.is_err(),
                            // It hangs, or is just slow: then it goes on.
                            Err(_) if faulty.calls.load(Ordering::SeqCst) > opening + at => break true,
                            Err(_) => {}
                        }
                    }
                }
            };
            drop(store);
            let store = open(&inner, new_ring()).await;
            assert_eq!(contents(&store).await, files, "{mishap:?} at {at}");
            store.rekey(drop::<RekeyProgress>).await.unwrap();
            assert_eq!(contents(&open(&inner, ring(2)).await).await, files, "{mishap:?} at {at}");
            if !interrupted {
                assert!(at > FILES, "{at}");
                break;
            }
            at += by_tier(5, 1, 1);
        }
    }
}

/// Others insert into files, move directories and make files, some of them still under the old key.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn no_edit_of_others_is_lost() {
    const INSERTS: usize = 60;
    let (inner, _) = filled().await;
    let is_over = Arc::new(AtomicBool::new(false));
    let mut writers = Vec::new();
    for writer in 0..4 {
        let keys = if writer % 2 == 0 { new_ring() } else { ring(1).with(key(2)) };
        let tool = Engine::new(open(&inner, keys).await);
        writers.push(tokio::spawn(async move {
            let call = async |input| tool.call(input).await.unwrap();
            let log = format!("/memories/log-{}", writer / 2);
            let _ = tool.call(json!({"command": "create", "path": log, "file_text": ""})).await;
            for number in 0..INSERTS {
                let line = format!("line {writer} {number}");
                call(json!({"command": "insert", "path": log, "insert_line": 0, "insert_text": line})).await;
                let new = format!("/memories/new/{writer}/{number}");
                call(json!({"command": "create", "path": new, "file_text": line})).await;
                if writer == 0 {
                    let ends = if number % 2 == 0 {
                        ["/memories/1", "/memories/one"]
                    } else {
                        ["/memories/one", "/memories/1"]
                    };
                    call(json!({"command": "rename", "old_path": ends[0], "new_path": ends[1]})).await;
                }
            }
        }));
    }
    let store = open(&inner, new_ring()).await;
    let rekeying = tokio::spawn({
        let (store, is_over) = (store.clone(), Arc::clone(&is_over));
        async move {
            while !is_over.load(Ordering::SeqCst) {
                store.rekey(drop::<RekeyProgress>).await.unwrap();
                tokio::task::yield_now().await; // a store in memory never waits, and a writer may be next on this thread
            }
        }
    });
    for writer in writers {
        writer.await.unwrap();
    }
    is_over.store(true, Ordering::SeqCst);
    rekeying.await.unwrap();
    store.rekey(drop::<RekeyProgress>).await.unwrap();

    let store = open(&inner, ring(2)).await;
    assert_eq!(contents(&store).await.len(), FILES + 2 + 4 * INSERTS);
    for log in 0..2 {
        let text = content(&store, &path(&format!("/memories/log-{log}"))).await;
        let mut lines: Vec<_> = std::str::from_utf8(&text).unwrap().lines().filter(|line| !line.is_empty()).collect();
        lines.sort_unstable();
        lines.dedup();
        assert_eq!(lines.len(), 2 * INSERTS);
    }
}

#[tokio::test]
async fn a_damaged_file_keeps_its_key() {
    let (inner, files) = filled().await;
    let entries = inner.list(&MemoryPath::root()).await.unwrap();
    let place = entries.into_iter().map(|entry| entry.path).find(|place| !place.as_str().contains("index")).unwrap();
    let whole = content(&*inner, &place).await;
    write(&*inner, place.as_str(), "nobody encrypted this").await;
    let store = open(&inner, new_ring()).await;
    let report = store.rekey(drop::<RekeyProgress>).await.unwrap();
    assert_eq!(report.rewritten, FILES - 1);
    assert_eq!((names(&report.no_longer_needed), names(&report.still_needed)), (vec![], vec!["key-of-1"]));
    let [damaged] = &report.damaged[..] else { panic!("{:?}", report.damaged) };
    assert_eq!(*damage(&store.read(damaged).await.unwrap_err()), Damage::NotEncrypted);

    // Who has a backup can put it back.
    write(&*inner, place.as_str(), whole).await;
    assert_eq!(contents(&store).await, files);
    let report = store.rekey(drop::<RekeyProgress>).await.unwrap();
    assert_eq!((report.rewritten, names(&report.no_longer_needed)), (1, vec!["key-of-1"]));
}

#[tokio::test]
async fn records_come_under_the_new_key_unless_they_are_damaged() {
    let (inner, _) = filled().await;
    let before: BTreeMap<_, _> = contents(&*inner).await;
    let old = open(&inner, ring(1)).await;
    old.apply(Batch::new().write_record(record("test/whole"), "whole").write_record(record("test/broken"), "broken"))
        .await
        .unwrap();
    let new: Vec<_> = contents(&*inner).await.into_keys().filter(|object| !before.contains_key(object)).collect();
    let mut broken = None;
    for object in new {
        let bytes = content(&*inner, &object).await;
        write(&*inner, object.as_str(), "nobody encrypted this").await;
        if old.read_record(&record("test/broken")).await.is_err() {
            broken = Some((object, bytes));
            break;
        }
        write(&*inner, object.as_str(), bytes).await;
    }
    let (object, bytes) = broken.unwrap();

    let store = open(&inner, new_ring()).await;
    let report = store.rekey(drop::<RekeyProgress>).await.unwrap();
    assert_eq!((report.rewritten, &report.damaged[..]), (FILES + 1, &[][..]));
    assert_eq!(report.damaged_records, [record("test/broken")]);
    assert_eq!(names(&report.still_needed), ["key-of-1"]);
    write(&*inner, object.as_str(), bytes).await;
    let report = store.rekey(drop::<RekeyProgress>).await.unwrap();
    assert_eq!((report.rewritten, names(&report.no_longer_needed)), (1, vec!["key-of-1"]));
    let store = open(&inner, ring(2)).await;
    assert_eq!(content_of_record(&store, "test/whole").await, b"whole");
    assert_eq!(content_of_record(&store, "test/broken").await, b"broken");
}

#[tokio::test]
async fn a_key_that_is_needed_and_missing_is_named() {
    let (inner, _) = filled().await;
    write(&open(&inner, new_ring()).await, "/memories/of-two", "x").await;
    let store = open(&inner, ring(2)).await;
    let error = store.rekey(drop::<RekeyProgress>).await.unwrap_err();
    assert!(
        matches!(cause(&error), EncryptionError::NoKey { needed, .. } if needed.as_str() == "key-of-1"),
        "{error:?}"
    );
    // What it can read it reads.
    assert_eq!(content(&store, &path("/memories/of-two")).await, b"x");
    assert_eq!(store.list(&MemoryPath::root()).await.unwrap().len(), FILES + 1);
}

#[tokio::test]
async fn a_passphrase_is_changed() {
    let passphrase = |text: &str| Passphrase::new(text).unwrap().with_cost(PassphraseCost::new(8, 1, 1).unwrap());
    let inner = Arc::new(InMemoryStore::new());
    write(&open(&inner, KeyRing::new(passphrase("old"))).await, "/memories/a", "x").await;
    let store = open(&inner, KeyRing::new(passphrase("new")).with(passphrase("old"))).await;
    assert_eq!(store.rekey(drop::<RekeyProgress>).await.unwrap().rewritten, 1);
    open_error(&inner, KeyRing::new(passphrase("old"))).await;
    assert_eq!(content(&open(&inner, KeyRing::new(passphrase("new"))).await, &path("/memories/a")).await, b"x");
}

#[tokio::test]
async fn a_passphrase_that_a_damaged_file_needs_is_told() {
    let passphrase = |text: &str| Passphrase::new(text).unwrap().with_cost(PassphraseCost::new(8, 1, 1).unwrap());
    let inner = Arc::new(InMemoryStore::new());
    write(&open(&inner, KeyRing::new(passphrase("old"))).await, "/memories/a", "x").await;
    let entries = inner.list(&MemoryPath::root()).await.unwrap();
    let place = entries.into_iter().map(|entry| entry.path).find(|place| !place.as_str().contains("index")).unwrap();
    write(&*inner, place.as_str(), "nobody encrypted this").await;
    let store = open(&inner, KeyRing::new(passphrase("new")).with(passphrase("old"))).await;
    let report = store.rekey(drop::<RekeyProgress>).await.unwrap();
    assert_eq!((report.damaged.len(), names(&report.still_needed)), (1, vec!["passphrase"]));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_file_that_somebody_removes_meanwhile_is_not_reported() {
    let (inner, _) = filled().await;
    let (store, somebody) = (open(&inner, new_ring()).await, open(&inner, new_ring()).await);
    let damaged = store.list(&MemoryPath::root()).await.unwrap().remove(0).path; // in the first batch
    for entry in inner.list(&MemoryPath::root()).await.unwrap() {
        let whole = content(&*inner, &entry.path).await;
        write(&*inner, entry.path.as_str(), "nobody encrypted this").await;
        if store.read(&damaged).await.is_err() {
            break;
        }
        write(&*inner, entry.path.as_str(), whole).await;
    }
    let before_the_last_batch = |progress: RekeyProgress| {
        if progress.done == 64 {
            let removal = Batch::new().remove(damaged.clone());
            let removing = || tokio::runtime::Handle::current().block_on(somebody.apply(removal));
            drop(tokio::task::block_in_place(removing)); // the second time it is gone
        }
    };
    let report = store.rekey(before_the_last_batch).await.unwrap();
    assert_eq!((report.damaged.len(), report.still_needed.len()), (0, 0));
    assert_eq!(names(&report.no_longer_needed), ["key-of-1"]);
    assert_eq!(contents(&open(&inner, ring(2)).await).await.len(), FILES - 1);
}

/// A store in which somebody edits a file right after it was read to be encrypted anew.
#[derive(Debug)]
struct Interfering {
    inner: Arc<InMemoryStore>,
    somebody: EncryptedStore,
    edits: AtomicUsize,
}

const INTERFERENCES: usize = 3;

#[async_trait]
impl Store for Interfering {
    async fn read_opts(&self, path: &MemoryPath, options: ReadOptions) -> Result<Node, StoreError> {
        let found = self.inner.read_opts(path, options).await;
        if !path.as_str().contains("index") && self.edits.load(Ordering::SeqCst) < INTERFERENCES {
            let number = self.edits.fetch_add(1, Ordering::SeqCst) + 1;
            write(&self.somebody, "/memories/log", format!("edit {number}")).await;
        }
        found
    }

    async fn read_record(&self, name: &RecordName) -> Result<Option<StoredFile>, StoreError> {
        self.inner.read_record(name).await
    }

    async fn apply(&self, batch: Batch) -> Result<(), StoreError> {
        self.inner.apply(batch).await
    }
}

#[tokio::test]
async fn an_edit_between_reading_and_writing_is_kept() {
    let inner = Arc::new(InMemoryStore::new());
    let somebody = open(&inner, ring(1)).await;
    write(&somebody, "/memories/log", "edit 0").await;
    let interfering = Interfering { inner: Arc::clone(&inner), somebody, edits: AtomicUsize::new(0) };
    let store = EncryptedStore::open(interfering, new_ring()).await.unwrap();
    assert_eq!(store.rekey(drop::<RekeyProgress>).await.unwrap().rewritten, 1);
    let text = content(&open(&inner, ring(2)).await, &path("/memories/log")).await;
    assert_eq!(text, format!("edit {INTERFERENCES}").into_bytes());
}
