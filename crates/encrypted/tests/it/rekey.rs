//! Rekeying, also with interruptions and concurrent writers.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, UNIX_EPOCH};

use crate::support::{
    Fault, FaultyStore, cause, content, content_of_record, contents, damage, key, open, open_cause, open_error, path,
    problems, record, remove, ring, write,
};
use async_trait::async_trait;
use memory_tool_core::{
    Batch, Engine, FileTimes, InMemoryStore, MemoryTool, Node, Quota, ReadOptions, Store, StoreError, StoreExt,
    StorePath,
};
use memory_tool_encrypted::{
    Damage, EncryptedStore, EncryptionError, KeyId, KeyRing, Padding, Passphrase, PassphraseCost, RekeyProgress,
};
use memory_tool_test_fixtures::by_tier;
use serde_json::json;

/// The number of files, which needs more than two batches.
const FILES: usize = 70;

/// A ring with the new key as the primary and the old key.
fn new_ring() -> KeyRing {
    ring(2).with(key(1))
}

fn names(keys: &[KeyId]) -> Vec<&str> {
    keys.iter().map(KeyId::as_str).collect()
}

/// A store of 70 files under the first key.
async fn filled() -> (Arc<InMemoryStore>, BTreeMap<StorePath, Vec<u8>>) {
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
async fn a_new_key_does_not_change_the_times_of_files() {
    let inner = Arc::new(InMemoryStore::new());
    let at = |seconds| UNIX_EPOCH + Duration::from_secs(seconds);
    let times = FileTimes::new().created(at(1_000_000_000)).modified(at(1_000_000_100));
    let copy = Batch::new().write_with_times(path("/memories/a"), "text", times);
    open(&inner, ring(1)).await.apply(copy).await.unwrap();
    let store = open(&inner, new_ring()).await;
    assert_eq!(store.rekey(|_| {}).await.unwrap().rewritten, 1);
    assert_eq!(store.list(StorePath::memories()).await.unwrap()[0].times(), times);
}

#[tokio::test]
async fn all_files_are_re_encrypted_with_the_new_key() {
    let (inner, files) = filled().await;
    let store = open(&inner, new_ring()).await;
    let mut steps = Vec::new();
    let report = store.rekey(|progress| steps.push((progress.done, progress.total))).await.unwrap();
    assert_eq!(steps, [(0, FILES), (32, FILES), (64, FILES), (FILES, FILES)]);
    assert_eq!(report.rewritten, FILES);
    assert_eq!(report.damaged, [] as [StorePath; 0]);
    assert_eq!(names(&report.no_longer_needed), ["key-of-1"]);
    assert_eq!(names(&report.still_needed), [""; 0]);
    assert_eq!(contents(&open(&inner, ring(2)).await).await, files);
    assert!(matches!(open_cause(&open_error(&inner, ring(1)).await), EncryptionError::NoKey { .. }));
}

#[tokio::test]
async fn an_up_to_date_store_is_not_written() {
    let (inner, _) = filled().await;
    open(&inner, new_ring()).await.rekey(drop::<RekeyProgress>).await.unwrap();
    let counting = Arc::new(FaultyStore::new(&inner, usize::MAX, Fault::FailsBefore));
    let store = EncryptedStore::open(Arc::clone(&counting), new_ring()).await.unwrap();
    let report = store.rekey(drop::<RekeyProgress>).await.unwrap();
    assert_eq!((report.rewritten, report.no_longer_needed.len()), (0, 0));
    let nothing = open(&Arc::new(InMemoryStore::new()), ring(1)).await;
    assert_eq!(nothing.rekey(drop::<RekeyProgress>).await.unwrap().rewritten, 0);
    assert_eq!(counting.writes.load(Ordering::SeqCst), 0);
}

/// The index of a store without files has a key as well.
#[tokio::test]
async fn an_empty_store_is_rekeyed() {
    let (inner, _) = filled().await;
    remove(&open(&inner, ring(1)).await, &StorePath::memories()).await;
    let report = open(&inner, new_ring()).await.rekey(drop::<RekeyProgress>).await.unwrap();
    assert_eq!((report.rewritten, names(&report.no_longer_needed)), (0, vec!["key-of-1"]));
    write(&open(&inner, ring(2)).await, "/memories/a", "x").await;
}

#[tokio::test]
async fn rekeying_changes_the_padding() {
    let (inner, files) = filled().await;
    let store = EncryptedStore::builder(Arc::clone(&inner), new_ring()).padding(Padding::Padme).open().await.unwrap();
    store.rekey(drop::<RekeyProgress>).await.unwrap();
    assert_eq!(contents(&open(&inner, ring(2)).await).await, files);
}

/// Rekeying is interrupted at each call to the inner store by each kind of fault. All files stay readable, and the next
/// run completes the work.
#[tokio::test(flavor = "multi_thread")]
async fn rekeying_resumes_after_an_interruption_at_any_call() {
    for fault in [Fault::FailsBefore, Fault::FailsAfter, Fault::HangsBefore, Fault::HangsAfter] {
        let mut at = 0;
        loop {
            let (inner, files) = filled().await;
            let faulty = Arc::new(FaultyStore::new(&inner, usize::MAX, fault));
            let store = EncryptedStore::open(Arc::clone(&faulty), new_ring()).await.unwrap();
            // Skip the calls of opening, so that the fault occurs during rekeying.
            let opening = faulty.calls.load(Ordering::SeqCst);
            let faulty = Arc::new(FaultyStore::new(&inner, opening + at, fault));
            drop(store);
            let store = EncryptedStore::open(Arc::clone(&faulty), new_ring()).await.unwrap();
            let interrupted = match fault {
                Fault::FailsBefore | Fault::FailsAfter => store.rekey(drop::<RekeyProgress>).await.is_err(),
                Fault::HangsBefore | Fault::HangsAfter => {
                    let mut rekeying = Box::pin(store.rekey(drop::<RekeyProgress>));
                    loop {
                        match tokio::time::timeout(Duration::from_millis(2), &mut rekeying).await {
                            Ok(outcome) => break outcome.is_err(),
                            // Before the faulty call, rekeying is slow but does not hang.
                            Err(_) if faulty.calls.load(Ordering::SeqCst) > opening + at => break true,
                            Err(_) => {}
                        }
                    }
                }
            };
            drop(store);
            let store = open(&inner, new_ring()).await;
            assert_eq!(contents(&store).await, files, "{fault:?} at {at}");
            store.rekey(drop::<RekeyProgress>).await.unwrap();
            assert_eq!(contents(&open(&inner, ring(2)).await).await, files, "{fault:?} at {at}");
            if !interrupted {
                assert!(at > FILES, "{at}");
                break;
            }
            at += by_tier(5, 1);
        }
    }
}

/// Every kind of write by processes that were opened before the rekey, with the old key as their primary.
#[tokio::test]
async fn no_writer_returns_to_the_old_key() {
    let (inner, _) = filled().await;
    let late = open(&inner, ring(1).with(key(2))).await;
    let with_old_key_only = open(&inner, ring(1)).await;
    let report = open(&inner, new_ring()).await.rekey(drop::<RekeyProgress>).await.unwrap();
    assert_eq!(names(&report.no_longer_needed), ["key-of-1"]);
    let writes = [
        Batch::new().write(path("/memories/0/0"), "edited"),
        Batch::new().write(path("/memories/new"), "new"),
        Batch::new().rename(path("/memories/new"), path("/memories/moved")),
        Batch::new().write(record("test/a"), "new"),
        Batch::new().write(record("test/a"), "edited"),
        Batch::new()
            .limit(StorePath::memories(), Quota::new().with_bytes(1 << 30))
            .write(path("/memories/0/0"), "limited"),
        Batch::new().remove(path("/memories/1")),
        Batch::new().remove(StorePath::memories()),
        Batch::new().write(path("/memories/again"), "again"),
    ];
    for (number, batch) in writes.into_iter().enumerate() {
        late.apply(batch).await.unwrap();
        let new = open(&inner, ring(2)).await;
        contents(&new).await;
        assert_eq!(problems(&new).await, [], "after write {number}");
    }
    open(&inner, ring(1).with(key(2))).await; // opening writes nothing either
    open(&inner, ring(2)).await;

    let error = with_old_key_only.apply(Batch::new().write(path("/memories/late"), "late")).await.unwrap_err();
    assert!(matches!(cause(&error), EncryptionError::NoKey { .. }), "{error:?}");
    let text = cause(&error).to_string();
    assert_eq!(text, "encrypted with key key-of-2, which is not in the key ring (available: key-of-1)");
    assert_eq!(contents(&open(&inner, ring(2)).await).await.len(), 1);
}

/// A rekey to the old key is an explicit request, unlike a write.
#[tokio::test]
async fn a_rekey_can_return_to_the_old_key() {
    let (inner, files) = filled().await;
    open(&inner, new_ring()).await.rekey(drop::<RekeyProgress>).await.unwrap();
    let report = open(&inner, ring(1).with(key(2))).await.rekey(drop::<RekeyProgress>).await.unwrap();
    assert_eq!(names(&report.no_longer_needed), ["key-of-2"]);
    assert_eq!(contents(&open(&inner, ring(1)).await).await, files);
}

/// Other writers edit and create files and move directories during rekeying. Half of them have the old key as their
/// primary.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn no_concurrent_edit_is_lost() {
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
            assert_eq!(names(&store.rekey(drop::<RekeyProgress>).await.unwrap().no_longer_needed), ["key-of-1"]);
            while !is_over.load(Ordering::SeqCst) {
                let report = store.rekey(drop::<RekeyProgress>).await.unwrap();
                assert_eq!((report.rewritten, report.still_needed), (0, vec![]));
                // An in-memory store never yields, which could starve a writer on this thread.
                tokio::task::yield_now().await;
            }
        }
    });
    for writer in writers {
        writer.await.unwrap();
    }
    is_over.store(true, Ordering::SeqCst);
    rekeying.await.unwrap();

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
    let entries = inner.list(&StorePath::memories()).await.unwrap();
    let object = entries.into_iter().map(|entry| entry.path).find(|path| !path.as_str().contains("index")).unwrap();
    let whole = content(&*inner, &object).await;
    write(&*inner, object.as_str(), "plain text").await;
    let store = open(&inner, new_ring()).await;
    let report = store.rekey(drop::<RekeyProgress>).await.unwrap();
    assert_eq!(report.rewritten, FILES - 1);
    assert_eq!((names(&report.no_longer_needed), names(&report.still_needed)), (vec![], vec!["key-of-1"]));
    let [damaged] = &report.damaged[..] else { panic!("{:?}", report.damaged) };
    assert_eq!(*damage(&store.read(damaged).await.unwrap_err()), Damage::NotEncrypted);

    // The object is restored from a backup.
    write(&*inner, object.as_str(), whole).await;
    assert_eq!(contents(&store).await, files);
    let report = store.rekey(drop::<RekeyProgress>).await.unwrap();
    assert_eq!((report.rewritten, names(&report.no_longer_needed)), (1, vec!["key-of-1"]));
}

#[tokio::test]
async fn records_are_rekeyed_unless_they_are_damaged() {
    let (inner, _) = filled().await;
    let before: BTreeMap<_, _> = contents(&*inner).await;
    let old = open(&inner, ring(1)).await;
    old.apply(Batch::new().write(record("test/whole"), "whole").write(record("test/broken"), "broken")).await.unwrap();
    let new: Vec<_> = contents(&*inner).await.into_keys().filter(|object| !before.contains_key(object)).collect();
    let mut broken = None;
    for object in new {
        let bytes = content(&*inner, &object).await;
        write(&*inner, object.as_str(), "plain text").await;
        if old.read_opts(&record("test/broken"), ReadOptions::new()).await.is_err() {
            broken = Some((object, bytes));
            break;
        }
        write(&*inner, object.as_str(), bytes).await;
    }
    let (object, bytes) = broken.unwrap();

    let store = open(&inner, new_ring()).await;
    let report = store.rekey(drop::<RekeyProgress>).await.unwrap();
    assert_eq!((report.rewritten, &report.damaged[..]), (FILES + 1, &[record("test/broken")][..]));
    assert_eq!(names(&report.still_needed), ["key-of-1"]);
    write(&*inner, object.as_str(), bytes).await;
    let report = store.rekey(drop::<RekeyProgress>).await.unwrap();
    assert_eq!((report.rewritten, names(&report.no_longer_needed)), (1, vec!["key-of-1"]));
    let store = open(&inner, ring(2)).await;
    assert_eq!(content_of_record(&store, "test/whole").await, b"whole");
    assert_eq!(content_of_record(&store, "test/broken").await, b"broken");
}

#[tokio::test]
async fn a_missing_key_is_reported_by_name() {
    let (inner, _) = filled().await;
    // A file that was damaged during the rekey keeps the old key.
    let entries = inner.list(&StorePath::memories()).await.unwrap();
    let object = entries.into_iter().map(|entry| entry.path).find(|path| !path.as_str().contains("index")).unwrap();
    let whole = content(&*inner, &object).await;
    write(&*inner, object.as_str(), "plain text").await;
    open(&inner, new_ring()).await.rekey(drop::<RekeyProgress>).await.unwrap();
    write(&*inner, object.as_str(), whole).await;
    let store = open(&inner, ring(2)).await;
    write(&store, "/memories/of-two", "x").await;
    let error = store.rekey(drop::<RekeyProgress>).await.unwrap_err();
    assert!(
        matches!(cause(&error), EncryptionError::NoKey { needed, .. } if needed.as_str() == "key-of-1"),
        "{error:?}"
    );
    // The store can read the files under its key.
    assert_eq!(content(&store, &path("/memories/of-two")).await, b"x");
    assert_eq!(store.list(&StorePath::memories()).await.unwrap().len(), FILES + 1);
}

#[tokio::test]
async fn rekeying_changes_a_passphrase() {
    let passphrase = |text: &str| Passphrase::new(text).unwrap().with_cost(PassphraseCost::new(8, 1, 1).unwrap());
    let inner = Arc::new(InMemoryStore::new());
    write(&open(&inner, KeyRing::new(passphrase("old"))).await, "/memories/a", "x").await;
    let store = open(&inner, KeyRing::new(passphrase("new")).with(passphrase("old"))).await;
    assert_eq!(store.rekey(drop::<RekeyProgress>).await.unwrap().rewritten, 1);
    open_error(&inner, KeyRing::new(passphrase("old"))).await;
    assert_eq!(content(&open(&inner, KeyRing::new(passphrase("new"))).await, &path("/memories/a")).await, b"x");
}

#[tokio::test]
async fn a_passphrase_of_a_damaged_file_is_reported_as_needed() {
    let passphrase = |text: &str| Passphrase::new(text).unwrap().with_cost(PassphraseCost::new(8, 1, 1).unwrap());
    let inner = Arc::new(InMemoryStore::new());
    write(&open(&inner, KeyRing::new(passphrase("old"))).await, "/memories/a", "x").await;
    let entries = inner.list(&StorePath::memories()).await.unwrap();
    let object = entries.into_iter().map(|entry| entry.path).find(|path| !path.as_str().contains("index")).unwrap();
    write(&*inner, object.as_str(), "plain text").await;
    let store = open(&inner, KeyRing::new(passphrase("new")).with(passphrase("old"))).await;
    let report = store.rekey(drop::<RekeyProgress>).await.unwrap();
    assert_eq!((report.damaged.len(), names(&report.still_needed)), (1, vec!["passphrase"]));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_file_that_is_removed_during_rekeying_is_not_reported() {
    let (inner, _) = filled().await;
    let (store, other) = (open(&inner, new_ring()).await, open(&inner, new_ring()).await);
    let damaged = store.list(&StorePath::memories()).await.unwrap().remove(0).path; // in the first batch
    for entry in inner.list(&StorePath::memories()).await.unwrap() {
        let whole = content(&*inner, &entry.path).await;
        write(&*inner, entry.path.as_str(), "plain text").await;
        if store.read(&damaged).await.is_err() {
            break;
        }
        write(&*inner, entry.path.as_str(), whole).await;
    }
    let before_the_last_batch = |progress: RekeyProgress| {
        if progress.done == 64 {
            let removal = Batch::new().remove(damaged.clone());
            let removing = || tokio::runtime::Handle::current().block_on(other.apply(removal));
            drop(tokio::task::block_in_place(removing)); // fails on the second call, after the removal
        }
    };
    let report = store.rekey(before_the_last_batch).await.unwrap();
    assert_eq!((report.damaged.len(), report.still_needed.len()), (0, 0));
    assert_eq!(names(&report.no_longer_needed), ["key-of-1"]);
    assert_eq!(contents(&open(&inner, ring(2)).await).await.len(), FILES - 1);
}

/// A store in which another writer edits a file after each read of it.
#[derive(Debug)]
struct ConflictingStore {
    inner: Arc<InMemoryStore>,
    other: EncryptedStore,
    edits: AtomicUsize,
}

const CONFLICTS: usize = 3;

#[async_trait]
impl Store for ConflictingStore {
    async fn read_opts(&self, path: &StorePath, options: ReadOptions) -> Result<Node, StoreError> {
        let found = self.inner.read_opts(path, options).await;
        if !path.as_str().contains("index") && self.edits.load(Ordering::SeqCst) < CONFLICTS {
            let number = self.edits.fetch_add(1, Ordering::SeqCst) + 1;
            write(&self.other, "/memories/log", format!("edit {number}")).await;
        }
        found
    }

    async fn apply(&self, batch: Batch) -> Result<(), StoreError> {
        self.inner.apply(batch).await
    }
}

#[tokio::test]
async fn an_edit_between_reading_and_writing_is_kept() {
    let inner = Arc::new(InMemoryStore::new());
    let other = open(&inner, ring(1)).await;
    write(&other, "/memories/log", "edit 0").await;
    let conflicting = ConflictingStore { inner: Arc::clone(&inner), other, edits: AtomicUsize::new(0) };
    let store = EncryptedStore::open(conflicting, new_ring()).await.unwrap();
    assert_eq!(store.rekey(drop::<RekeyProgress>).await.unwrap().rewritten, 1);
    let text = content(&open(&inner, ring(2)).await, &path("/memories/log")).await;
    assert_eq!(text, format!("edit {CONFLICTS}").into_bytes());
}
