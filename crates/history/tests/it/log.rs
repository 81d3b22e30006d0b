//! The log: pages, other programs, busy writers, limits and damage. `cases.rs` tests the rest.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use async_trait::async_trait;
use memory_tool_core::{
    Actor, Batch, Engine, ErrorKind, InMemoryStore, MemoryTool, Node, ReadOptions, Store, StoreError, StoreExt,
    StorePath,
};
use memory_tool_history::{Entry, History, HistoryError, HistoryStore, Limits, LogFilter, Origin};
use memory_tool_local::LocalStore;
use memory_tool_test_fixtures::{directory_in_ram, path, record};
use serde_json::json;

pub(crate) type Shared = Arc<dyn Store>;

pub(crate) fn store() -> (Shared, HistoryStore<Shared>) {
    let inner: Shared = Arc::new(InMemoryStore::new());
    (Arc::clone(&inner), HistoryStore::new(inner))
}

async fn write_many(store: &impl Store, count: usize) {
    for number in 0..count {
        store.write("/memories/a.txt", format!("text {number} of a file that changes\n")).await.unwrap();
    }
}

fn numbers(entries: &[Entry]) -> Vec<u64> {
    entries.iter().map(|entry| entry.number).collect()
}

async fn logged(history: &History<Shared>, filter: LogFilter) -> Vec<u64> {
    numbers(&history.entries(&filter).await.unwrap())
}

#[tokio::test]
async fn entries_are_found_by_actor_command_time_and_page() {
    let (_, store) = store();
    let actor = |name: &str| Actor::from_trusted_name(name).unwrap();
    for number in 0..150 {
        let name = if number % 50 == 7 { "rare" } else { "often" };
        let tool = Engine::builder(store.clone()).actor(actor(name)).build();
        let path = format!("/memories/{number}.txt");
        tool.call(json!({"command": "create", "path": path, "file_text": "text"})).await.unwrap();
    }
    store.remove("/memories/3.txt").await.unwrap();
    let history = store.history();
    assert_eq!(logged(&history, LogFilter::new().actor("rare")).await, [108, 58, 8]);
    assert_eq!(logged(&history, LogFilter::new().command("create").limit(2)).await, [150, 149]);
    assert_eq!(logged(&history, LogFilter::new().before(149).limit(3)).await, [148, 147, 146]);
    assert_eq!(logged(&history, LogFilter::new().path(path("/memories/3.txt"))).await, [151, 4]);
    let read = |data: serde_json::Value| serde_json::from_value::<LogFilter>(data);
    let filter = read(json!({"path": "/memories/3.txt", "since": "1d", "limit": 1, "command": null})).unwrap();
    assert_eq!(logged(&history, filter).await, [151]);
    let outside = history.entries(&read(json!({"path": "/etc"})).unwrap()).await.unwrap_err();
    assert!(matches!(outside, HistoryError::Store(StoreError::Path(_))), "{outside:?}");
    assert!(read(json!({"pth": "/memories"})).is_err());
    let entry = history.entry(58).await.unwrap();
    assert_eq!((entry.actor.as_deref(), entry.command.as_deref()), (Some("rare"), Some("create")));
    let tomorrow = SystemTime::now() + Duration::from_secs(24 * 60 * 60);
    assert_eq!(logged(&history, LogFilter::new().since(tomorrow)).await, Vec::<u64>::new());
    assert_eq!(history.newest_at(tomorrow).await.unwrap(), 151);
    assert_eq!(history.newest_at(SystemTime::UNIX_EPOCH).await.unwrap(), 0);
    assert!(matches!(history.entry(152).await, Err(HistoryError::NoEntry { number: 152, newest: 151 })));
    assert!(matches!(history.at(152).await, Err(HistoryError::NoEntry { .. })));
}

#[tokio::test]
async fn the_changes_of_an_actor_are_reverted_unless_others_built_on_them() {
    let (_, store) = store();
    let wrong = || Actor::from_trusted_name("wrong").unwrap();
    store.write("/memories/a.txt", "right").await.unwrap();
    store.apply(Batch::new().write(path("/memories/a.txt"), "wrong").by(wrong())).await.unwrap();
    store.apply(Batch::new().write(path("/memories/b.txt"), "wrong").by(wrong())).await.unwrap();
    store.write("/memories/c.txt", "right").await.unwrap();
    let history = store.history();
    let of_actor = logged(&history, LogFilter::new().actor("wrong")).await;
    let reverted =
        history.clone().by(Actor::from_trusted_name("person").unwrap()).revert(&of_actor).await.unwrap().entry;
    assert_eq!((reverted.actor.as_deref(), &reverted.origin), (Some("person"), &Origin::Revert(vec![3, 2])));
    assert_eq!(store.read_to_string("/memories/a.txt").await.unwrap(), "right");
    assert!(matches!(store.read_to_string("/memories/b.txt").await, Err(StoreError::NotFound { .. })));
    history.undo(1).await.unwrap();
    store.write("/memories/b.txt", "built on it").await.unwrap();
    let refused = history.revert(&of_actor).await.unwrap_err();
    assert!(matches!(&refused, HistoryError::Changed { paths } if *paths == [path("/memories/b.txt")]), "{refused}");
    store.rename("/memories/a.txt", "/memories/d.txt").await.unwrap();
    let rename = history.newest().await.unwrap();
    store.remove("/memories/d.txt").await.unwrap();
    let refused = history.revert(&[rename]).await.unwrap_err();
    assert!(matches!(&refused, HistoryError::Changed { paths } if *paths == [path("/memories/d.txt")]), "{refused}");
}

#[tokio::test]
async fn limits_on_the_age_and_the_size_remove_the_oldest_entries() {
    let aged = HistoryStore::with_limits(InMemoryStore::new(), Limits::new().age(Duration::ZERO));
    write_many(&aged, 130).await;
    tokio::time::sleep(Duration::from_millis(2)).await;
    write_many(&aged, 64).await;
    assert!(aged.history().entries(&LogFilter::new()).await.unwrap().len() <= 66);

    let sized = HistoryStore::with_limits(InMemoryStore::new(), Limits::new().bytes(1));
    write_many(&sized, 130).await;
    assert_eq!(sized.history().entries(&LogFilter::new()).await.unwrap().len(), 130 - 64);
}

#[tokio::test]
async fn old_entries_are_removed_without_a_change() {
    let (inner, store) = store();
    write_many(&store, 200).await;
    assert_eq!(store.history().trim().await.unwrap(), 0);
    tokio::time::sleep(Duration::from_millis(2)).await;
    let aged = HistoryStore::with_limits(inner, Limits::new().age(Duration::ZERO)).history();
    assert_eq!(aged.trim().await.unwrap(), 128);
    assert_eq!(aged.trim().await.unwrap(), 0);
    // The other session continues at the new beginning.
    assert_eq!(store.history().entries(&LogFilter::new()).await.unwrap().len(), 72);
    store.write("/memories/b.txt", "b").await.unwrap();
    let report = aged.verify().await.unwrap();
    assert_eq!((report.entries, report.damage.len()), (73, 0), "{report:?}");
}

#[tokio::test]
async fn damage_is_found_and_does_not_hide_other_entries() {
    let (inner, store) = store();
    write_many(&store, 200).await;
    let changed: StorePath = "/records/history/log/00000000000000000196".parse().unwrap();
    let mut bytes = inner.read_opts(&changed, ReadOptions::new()).await.unwrap().into_file().unwrap().content;
    *bytes.last_mut().unwrap() ^= 1;
    inner.apply(Batch::new().write(changed, bytes)).await.unwrap();
    for (record, bytes) in [("blocks/00000000000000000065", None), ("log/00000000000000000195", Some("{}\n"))] {
        let record: StorePath = format!("/records/history/{record}").parse().unwrap();
        let batch = match bytes {
            Some(bytes) => Batch::new().write(record, bytes),
            None => Batch::new().remove(record),
        };
        inner.apply(batch).await.unwrap();
    }
    let history = HistoryStore::new(Arc::clone(&inner)).history();
    let failed = history.entries(&LogFilter::new()).await.unwrap_err();
    assert!(matches!(&failed, HistoryError::Store(error) if error.kind() == ErrorKind::Damaged), "{failed:?}");
    let report = history.verify().await.unwrap();
    assert_eq!((report.entries, report.damage.len()), (200 - 64 - 1, 3), "{report:?}");
    // Other changes still work.
    HistoryStore::new(inner).write("/memories/b.txt", "b").await.unwrap();
}

#[tokio::test]
async fn an_index_that_lacks_changes_is_found() {
    let (inner, store) = store();
    write_many(&store, 66).await;
    let index = record("history/index");
    let bytes = inner.read_opts(&index, ReadOptions::new()).await.unwrap().into_file().unwrap().content;
    let mut block: serde_json::Value = serde_json::from_slice(&bytes).unwrap();
    block["paths"] = json!([]);
    inner.apply(Batch::new().write(index, block.to_string())).await.unwrap();
    let damage = HistoryStore::new(inner).history().verify().await.unwrap().damage;
    assert_eq!((damage.len(), damage[0].as_str()), (64, "entry 64: the index lacks it"));
}

#[tokio::test]
async fn a_damaged_index_is_made_again_with_the_next_block() {
    for damage in [Some("{"), Some(""), None] {
        let (inner, store) = store();
        write_many(&store, 130).await;
        let index = record("history/index");
        let batch = match damage {
            Some(text) => Batch::new().write(index, text),
            None => Batch::new().remove(index),
        };
        inner.apply(batch).await.unwrap();
        let store = HistoryStore::new(inner);
        let found = store.history().verify().await.unwrap();
        assert_eq!(found.damage.len(), 1, "{found:?}");
        write_many(&store, 64).await;
        assert_eq!(store.history().verify().await.unwrap().damage, [""; 0]);
        let filter = LogFilter::new().path(path("/memories/a.txt"));
        assert!(!store.history().entries(&filter).await.unwrap().is_empty());
    }
}

#[tokio::test]
async fn a_damaged_entry_can_be_redacted() {
    let (inner, store) = store();
    write_many(&store, 3).await;
    inner.apply(Batch::new().write(record("history/log/00000000000000000002"), "{")).await.unwrap();
    let store = HistoryStore::new(inner);
    store.history().redact(&[2]).await.unwrap();
    assert!(store.history().entry(2).await.unwrap().is_redacted);
    write_many(&store, 64).await; // the entry is part of a block
    assert_eq!(store.history().verify().await.unwrap().damage, [""; 0]);
}

/// A store on which something happens right before a batch is applied.
#[derive(Debug)]
struct Meddling {
    inner: Shared,
    before_batches: Mutex<VecDeque<Meddler>>,
}

#[derive(Debug)]
enum Meddler {
    Nothing,
    /// The storage fails.
    Failure,
    /// Another program writes into a file.
    Write(&'static str),
}

#[async_trait]
impl Store for Meddling {
    async fn read_opts(&self, path: &StorePath, options: ReadOptions) -> Result<Node, StoreError> {
        self.inner.read_opts(path, options).await
    }

    async fn apply(&self, batch: Batch) -> Result<(), StoreError> {
        let meddler = self.before_batches.lock().unwrap().pop_front();
        match meddler.unwrap_or(Meddler::Nothing) {
            Meddler::Nothing => {}
            Meddler::Failure => return Err(StoreError::failure(ErrorKind::Busy, "writing", "busy")),
            Meddler::Write(file) => self.inner.write(file, "by another program").await?,
        }
        self.inner.apply(batch).await
    }
}

fn meddling(inner: &Shared, meddlers: impl Into<VecDeque<Meddler>>) -> HistoryStore<Meddling> {
    HistoryStore::new(Meddling { inner: Arc::clone(inner), before_batches: Mutex::new(meddlers.into()) })
}

#[tokio::test]
async fn contents_by_another_program_are_kept_even_if_they_appear_during_the_change() {
    let (inner, store) = store();
    store.write("/memories/a.txt", "one").await.unwrap();
    meddling(&inner, [Meddler::Write("/memories/a.txt")]).write("/memories/a.txt", "two").await.unwrap();
    let replaced = store.history().entry(2).await.unwrap().changes[0].before().unwrap().digest.unwrap();
    assert_eq!(replaced.size, "by another program".len() as u64);
    meddling(&inner, [Meddler::Write("/memories/a.txt")]).history().undo(1).await.unwrap_err();
    assert_eq!(store.read_to_string("/memories/a.txt").await.unwrap(), "by another program");
    let unavailable = meddling(&inner, [Meddler::Failure]).write("/memories/a.txt", "three").await.unwrap_err();
    assert_eq!(unavailable.kind(), ErrorKind::Busy);
    assert_eq!(store.history().newest().await.unwrap(), 2);
}

/// A store that counts reads and batches, and lets others run before each.
#[derive(Debug, Default)]
struct Counting {
    inner: InMemoryStore,
    reads: AtomicUsize,
    batches: AtomicUsize,
}

#[async_trait]
impl Store for Counting {
    async fn read_opts(&self, path: &StorePath, options: ReadOptions) -> Result<Node, StoreError> {
        self.reads.fetch_add(1, Ordering::Relaxed);
        tokio::task::yield_now().await;
        self.inner.read_opts(path, options).await
    }

    async fn apply(&self, batch: Batch) -> Result<(), StoreError> {
        self.batches.fetch_add(1, Ordering::Relaxed);
        tokio::task::yield_now().await;
        self.inner.apply(batch).await
    }
}

#[tokio::test]
async fn writers_of_a_process_that_lose_take_turns() {
    const WRITERS: usize = 32;
    const WRITES: usize = 20;
    let store = HistoryStore::new(Counting::default());
    let write_all = |writer: usize| {
        let store = store.clone();
        tokio::spawn(async move {
            for number in 0..WRITES {
                store.write(format!("/memories/{writer}").as_str(), format!("{number}")).await.unwrap();
            }
        })
    };
    for writer in (0..WRITERS).map(write_all).collect::<Vec<_>>() {
        writer.await.unwrap();
    }
    let batches = store.inner().batches.load(Ordering::Relaxed);
    println!("{batches} batches");
    assert_eq!(store.history().newest().await.unwrap(), (WRITERS * WRITES) as u64);
    assert!(batches < 3 * WRITERS * WRITES, "{batches}");
}

#[tokio::test]
async fn entries_are_found_by_text_in_earlier_contents_and_names() {
    let (_, store) = store();
    store.write("/memories/a", "call 0170 now").await.unwrap();
    store.write("/memories/b", "tea").await.unwrap();
    store.write("/memories/a", "call me").await.unwrap();
    store.rename("/memories/b", "/memories/0170").await.unwrap();
    store.write("/memories/c", "0170").await.unwrap();
    let history = store.history();
    assert_eq!(logged(&history, LogFilter::new().text("0170")).await, [5, 4, 3, 1]);
    assert_eq!(logged(&history, LogFilter::new().text("0170").path(path("/memories/a"))).await, [3, 1]);
    assert_eq!(logged(&history, LogFilter::new().text("0170").before(5).limit(2)).await, [4, 3]);
    assert_eq!(logged(&history, LogFilter::new().text("0171")).await, [0; 0]);
    let refused = history.entries(&LogFilter::new().text("")).await.unwrap_err();
    assert!(matches!(refused, HistoryError::InvalidText { .. }), "{refused}");
}

#[tokio::test]
async fn related_entries_changed_the_files_under_all_their_names() {
    let (_, store) = store();
    store.write("/memories/x", "1").await.unwrap();
    store.remove("/memories/x").await.unwrap();
    store.write("/memories/y", "3").await.unwrap();
    store.rename("/memories/y", "/memories/x").await.unwrap();
    store.write("/memories/d/a", "5").await.unwrap();
    store.rename("/memories/d", "/memories/e").await.unwrap();
    store.rename("/memories/e/a", "/memories/f/a").await.unwrap();
    store.write("/memories/f/a", "8").await.unwrap();
    let history = store.history();
    for (number, expected) in
        [(1, &[4, 2, 1][..]), (2, &[4, 2, 1]), (4, &[4, 3]), (5, &[8, 7, 6, 5]), (6, &[8, 7, 6, 5]), (8, &[8, 7, 6, 5])]
    {
        assert_eq!(numbers(&history.related(number).await.unwrap()), expected, "{number}");
    }
    assert!(matches!(history.related(9).await, Err(HistoryError::NoEntry { number: 9, newest: 8 })));
}

/// The Memory Stores API changes the path and the contents in one batch.
#[tokio::test]
async fn a_file_is_followed_through_a_move_with_new_contents() {
    let (_, store) = store();
    store.write("/memories/a", "secret").await.unwrap();
    let moves = Batch::new().for_command(Entry::MOVE).write(path("/memories/b"), "secret, and more");
    store.apply(moves.remove(path("/memories/a"))).await.unwrap();
    store.write("/memories/b", "clean").await.unwrap();
    store.write("/memories/a", "another file").await.unwrap();
    let history = store.history();
    assert_eq!(logged(&history, LogFilter::new().path(path("/memories/b"))).await, [3, 2, 1]);
    for number in [1, 2, 3] {
        assert_eq!(numbers(&history.related(number).await.unwrap()), [3, 2, 1], "{number}");
    }
}

#[tokio::test]
async fn a_revert_is_checked_without_a_change() {
    let (_, store) = store();
    store.write("/memories/a", "1").await.unwrap();
    store.rename("/memories/a", "/memories/b").await.unwrap();
    let history = store.history();
    history.check_revert(&[2]).await.unwrap();
    assert_eq!(history.newest().await.unwrap(), 2);
    store.remove("/memories/b").await.unwrap();
    assert!(matches!(history.check_revert(&[2]).await, Err(HistoryError::Changed { .. })));
}

/// A person opens the change after the deletion of a directory.
#[tokio::test]
async fn the_contents_of_an_entry_are_read_once_for_all_its_files() {
    let store = Arc::new(Counting::default());
    let history = HistoryStore::new(Arc::clone(&store));
    let files = (0..200).map(|number| (path(&format!("/memories/d/{number}")), format!("{number} ").repeat(2_000)));
    let batch = files.fold(Batch::new(), |batch, (path, text)| batch.write(path, text));
    history.apply(batch).await.unwrap();
    history.remove("/memories/d").await.unwrap();
    let history = history.history();
    let reads = || store.reads.load(Ordering::Relaxed);
    let begin = reads();
    assert_eq!(history.entry_diff(2, usize::MAX).await.unwrap().files.len(), 200);
    let middle = reads();
    assert_eq!(history.diff(1, 2, &StorePath::memories(), usize::MAX).await.unwrap().files.len(), 200);
    let (of_entry, between) = (middle - begin, reads() - middle);
    assert!(of_entry < 100 && between < 100, "{of_entry}, {between}");
    let few = history.entry_diff(2, 10).await.unwrap();
    assert_eq!((few.files.len(), few.more), (10, 190));
    let few = history.diff(1, 2, &StorePath::memories(), 10).await.unwrap();
    assert_eq!((few.files.len(), few.more), (10, 190));
}

/// A store on which another session is always faster.
#[derive(Debug)]
struct Overtaken(Shared);

#[async_trait]
impl Store for Overtaken {
    async fn read_opts(&self, path: &StorePath, options: ReadOptions) -> Result<Node, StoreError> {
        self.0.read_opts(path, options).await
    }

    async fn apply(&self, batch: Batch) -> Result<(), StoreError> {
        HistoryStore::new(Arc::clone(&self.0)).write("/memories/other.txt", "other").await?;
        self.0.apply(batch).await
    }
}

#[tokio::test(start_paused = true)]
async fn a_writer_that_always_loses_is_refused_as_busy() {
    let (inner, _) = store();
    let refused = HistoryStore::new(Overtaken(inner)).write("/memories/a.txt", "text").await.unwrap_err();
    assert_eq!((refused.kind(), refused.is_retryable()), (ErrorKind::Busy, true), "{refused}");
}

#[tokio::test]
async fn a_redaction_that_fails_changes_nothing_and_one_that_succeeds_is_not_taken_back_by_other_sessions() {
    let directory = directory_in_ram().unwrap();
    let inner: Shared = Arc::new(LocalStore::open(directory.path()).await.unwrap()); // equal contents, equal versions
    let store = HistoryStore::new(Arc::clone(&inner));
    for text in ["a secret", "another secret", "public"] {
        store.write("/memories/a.txt", text).await.unwrap();
    }
    meddling(&inner, [Meddler::Failure]).history().redact(&[2, 3]).await.unwrap_err();
    assert!(!store.history().entry(2).await.unwrap().is_redacted);
    HistoryStore::new(Arc::clone(&inner)).history().redact(&[2, 3]).await.unwrap();
    write_many(&store, 70).await;
    assert!(store.history().entry(2).await.unwrap().is_redacted);
    assert_eq!(store.history().verify().await.unwrap().damage, Vec::<String>::new());
}

/// A store on which a file is damaged, until it is replaced.
#[derive(Debug)]
struct Damaged {
    inner: Shared,
    is_damaged: AtomicBool,
}

#[async_trait]
impl Store for Damaged {
    async fn read_opts(&self, path: &StorePath, options: ReadOptions) -> Result<Node, StoreError> {
        if path.as_str() == "/memories/a.txt" && self.is_damaged.load(Ordering::Relaxed) {
            return Err(StoreError::failure(ErrorKind::Damaged, "reading a file", "damaged"));
        }
        self.inner.read_opts(path, options).await
    }

    async fn apply(&self, batch: Batch) -> Result<(), StoreError> {
        self.inner.apply(batch).await?;
        self.is_damaged.store(false, Ordering::Relaxed);
        Ok(())
    }
}

#[tokio::test]
async fn expired_contents_are_not_kept() {
    let (inner, store) = store();
    store.write("/memories/a.txt", "a private text").await.unwrap();
    store.apply(Batch::new().for_command(Batch::EXPIRE).remove(path("/memories/a.txt"))).await.unwrap();
    let history = store.history();
    assert_eq!(history.entry(2).await.unwrap().changes[0].before().unwrap().digest, None);
    assert!(matches!(history.read(&path("/memories/a.txt"), 1).await, Err(HistoryError::NotKept { number: 2, .. })));
    assert!(matches!(history.undo(1).await, Err(HistoryError::NothingToUndo)));
    assert!(matches!(history.revert(&[2]).await, Err(HistoryError::NotKept { number: 2, .. })));
    let record: StorePath = "/records/history/log/00000000000000000002".parse().unwrap();
    let record = inner.read_opts(&record, ReadOptions::new()).await.unwrap().into_file().unwrap();
    assert!(!String::from_utf8_lossy(&record.content).contains("private"));
}

#[tokio::test]
async fn a_damaged_file_can_be_replaced_and_its_contents_are_not_known() {
    let (inner, store) = store();
    store.write("/memories/a.txt", "one").await.unwrap();
    let damaged = Damaged { inner: Arc::clone(&inner), is_damaged: AtomicBool::new(true) };
    HistoryStore::new(damaged).write("/memories/a.txt", "two").await.unwrap();
    let history = HistoryStore::new(inner).history(); // reads the stored entry
    let entry = history.entry(2).await.unwrap();
    assert!(matches!(entry.changes[0].before(), Some(before) if before.digest.is_none()), "{entry:?}");
    let past = history.read(&path("/memories/a.txt"), 1).await.unwrap_err();
    assert!(matches!(past, HistoryError::NotKept { number: 2, .. }), "{past}");
    assert!(matches!(history.undo(1).await, Err(HistoryError::NotKept { number: 2, .. })));
    assert!(history.verify().await.unwrap().damage.is_empty());
}

#[tokio::test]
async fn a_deleted_path_is_restored_as_it_was_last() {
    let (inner, store) = store();
    let history = store.history();
    let (a, b) = (path("/memories/d/a.txt"), path("/memories/d/b.txt"));
    for (file, text) in [(&a, "one"), (&a, "two"), (&b, "b")] {
        store.apply(Batch::new().write(file.clone(), text)).await.unwrap();
    }
    let refused = history.restore_deleted(&a).await.unwrap_err();
    assert!(matches!(refused, HistoryError::Exists { .. }), "{refused}");
    store.apply(Batch::new().remove(a.clone())).await.unwrap();
    write_many(&store, 100).await; // the deletion is in a block now
    let restored = history.restore_deleted(&a).await.unwrap();
    assert_eq!(restored.entry.origin, Origin::Restore(3));

    let directory = path("/memories/d");
    store.apply(Batch::new().remove(directory.clone())).await.unwrap();
    history.restore_deleted(&directory).await.unwrap();
    assert_eq!(inner.read_to_string(a.as_str()).await.unwrap(), "two");
    assert_eq!(inner.read_to_string(b.as_str()).await.unwrap(), "b");

    store.apply(Batch::new().rename(b.clone(), path("/memories/c.txt"))).await.unwrap();
    history.restore_deleted(&b).await.unwrap();
    assert_eq!(inner.read_to_string(b.as_str()).await.unwrap(), "b");
    assert_eq!(inner.read_to_string("/memories/c.txt").await.unwrap(), "b");
}

#[tokio::test]
async fn a_change_between_others_is_taken_back_by_line() {
    let (inner, store) = store();
    let history = store.history();
    let file = path("/memories/a.txt");
    let write = async |text: &str| store.apply(Batch::new().write(file.clone(), text)).await.unwrap();
    let text = async || inner.read_to_string(file.as_str()).await.unwrap();
    for lines in ["1\n2\n3\n4\n5\n", "1\n2\nthree\n4\n5\n", "one\n2\nthree\n4\n5\n"] {
        write(lines).await;
    }
    history.check_revert([2]).await.unwrap();
    let taken_back = history.revert([2]).await.unwrap();
    assert_eq!((taken_back.entry.origin, taken_back.entry.changes.len()), (Origin::Revert(vec![2]), 1));
    assert_eq!(text().await, "one\n2\n3\n4\n5\n");
    history.revert([4]).await.unwrap();
    assert_eq!(text().await, "one\n2\nthree\n4\n5\n");

    // The entry did not change a file that was deleted and made again with the same text.
    store.apply(Batch::new().remove(file.clone())).await.unwrap();
    write("one\n2\nthree\n4\nfive\n").await;
    let refused = history.revert([2]).await.unwrap_err();
    assert!(matches!(refused, HistoryError::Changed { .. }), "{refused}");
    history.restore(&file, 5).await.unwrap();
    let refused = history.revert([2]).await.unwrap_err();
    assert!(matches!(refused, HistoryError::Changed { .. }), "{refused}");
}

#[tokio::test]
async fn a_change_that_others_built_on_is_not_taken_back_by_line() {
    let (inner, store) = store();
    let history = store.history();
    let file = path("/memories/a.txt");
    let write = async |text: &str| store.apply(Batch::new().write(file.clone(), text)).await.unwrap();
    let text = async || inner.read_to_string(file.as_str()).await.unwrap();
    for lines in ["1\n2\n3\n4\n5\n", "1\n2\nthree\n4\n5\n", "one\n2\nthree\n4\n5\n"] {
        write(lines).await;
    }
    // Changes of the same line, texts that are the same already, and several changes are for people.
    write("one\n2\nTHREE\n4\n5\n").await;
    for entries in [&[2_u64][..], &[1], &[2, 3]] {
        let refused = history.revert(entries.iter().copied()).await.unwrap_err();
        assert!(matches!(refused, HistoryError::Changed { .. }), "{entries:?}: {refused}");
    }
    write("1\n2\n3\n4\nfive\n").await;
    let refused = history.revert([2]).await.unwrap_err();
    assert!(matches!(refused, HistoryError::Changed { .. }), "{refused}");
    assert_eq!(text().await, "1\n2\n3\n4\nfive\n");
}

#[tokio::test]
async fn deleted_files_are_listed_until_they_exist_again() {
    let (_, store) = store();
    let history = store.history();
    let deleted = async || {
        let entries = history.entries(&LogFilter::new().deleted()).await.unwrap();
        entries.iter().map(|entry| entry.number).collect::<Vec<_>>()
    };
    let [a, b, moved] = ["/memories/d/a", "/memories/d/b", "/memories/moved"].map(path);
    store.apply(Batch::new().write(a.clone(), "a").write(b.clone(), "b")).await.unwrap();
    store.apply(Batch::new().rename(a.clone(), moved.clone())).await.unwrap();
    assert_eq!(deleted().await, [0; 0], "a renamed file is not deleted");
    store.apply(Batch::new().remove(moved.clone())).await.unwrap();
    store.apply(Batch::new().remove(path("/memories/d"))).await.unwrap();
    assert_eq!(deleted().await, [4, 3]);
    write_many(&store, 100).await; // the deletions are in a block now
    assert_eq!(deleted().await, [4, 3]);
    let in_directory = history.entries(&LogFilter::new().deleted().path(path("/memories/d"))).await.unwrap();
    assert_eq!(in_directory.len(), 1);
    store.apply(Batch::new().write(moved.clone(), "other")).await.unwrap();
    history.restore_deleted(&b).await.unwrap();
    assert_eq!(deleted().await, [0; 0]);
}

#[tokio::test]
async fn what_nothing_is_known_of_is_not_restored() {
    let (inner, store) = store();
    let (never, file) = (path("/memories/never.txt"), path("/memories/a.txt"));
    let refused = store.history().restore_deleted(&never).await.unwrap_err();
    assert!(matches!(&refused, HistoryError::NoChangeOf { path } if *path == never), "{refused}");
    for (number, text) in ["one", "two"].into_iter().enumerate() {
        store.write(file.as_str(), text).await.unwrap();
        inner.apply(Batch::new().remove(file.clone())).await.unwrap(); // by a program that knows no history
        let restored = store.history().restore_deleted(&file).await.map(drop);
        let refused = restored.unwrap_err();
        assert!(matches!(refused, HistoryError::NotAFile { .. }), "{number}: {refused}");
    }
    store.write(file.as_str(), "three").await.unwrap();
    store.write(file.as_str(), "four").await.unwrap();
    inner.apply(Batch::new().remove(file.clone())).await.unwrap();
    store.history().restore_deleted(&file).await.unwrap();
    assert_eq!(inner.read_to_string(file.as_str()).await.unwrap(), "three", "no other text is kept");
}

/// Another program can write anything into the records of an unencrypted store.
#[tokio::test]
async fn forged_records_are_errors_and_no_panics() {
    let forged: [(&str, &[u8]); 11] = [
        ("head", b"{}"),
        ("head", br#"{"format":1,"first":1,"blocks_end":65,"revision":0,"limits":{}}"#),
        ("head", &forged_head(0, 64)),
        ("head", &forged_head(1, 64)),
        ("head", &forged_head(1, u64::MAX)),
        ("head", &forged_head(1 << 40, 1)),
        ("index", b"{\"first\":18446744073709551615}\n"),
        ("blocks/00000000000000000001", b"99999999999\n"),
        ("blocks/00000000000000000001", b"4\n\xff\xff\xff\xff\xff"),
        ("log/00000000000000000065", br#"{"number":65,"time":18446744073709551615,"changes":[]}"#),
        ("births", b"{\"after\":18446744073709551615,\"live\":[],\"removed\":[[1,0,\"\"]]}"),
    ];
    for (record, bytes) in forged {
        let (inner, store) = store();
        write_many(&store, 66).await;
        let record: StorePath = format!("/records/history/{record}").parse().unwrap();
        inner.apply(Batch::new().write(record.clone(), bytes)).await.unwrap();
        let history = HistoryStore::new(Arc::clone(&inner)).history();
        let file = path("/memories/a.txt");
        let results = [
            history.entries(&LogFilter::new().path(file.clone())).await.map(drop),
            history.undo(66).await.map(drop),
            history.restore(&file, 1).await.map(drop),
            history.verify().await.and_then(|report| match report.damage.as_slice() {
                [] => Ok(()),
                _ => Err(HistoryError::NothingToUndo),
            }),
        ];
        assert!(results.iter().any(Result::is_err), "{record}");
        // This may fail, but must not panic.
        drop(HistoryStore::new(Arc::clone(&inner)).write("/memories/b.txt", "b").await);
        drop(history.redact(&[1, 65]).await);
        drop(history.repair().await);
    }
}

fn forged_head(first: u64, blocks_end: u64) -> Vec<u8> {
    let limits = json!({"age": null, "changes": 1, "bytes": 1});
    let (id, range) = ("00".repeat(8), json!({"first": first, "blocks_end": blocks_end}));
    let mut head = json!({"format": 2, "id": id, "revision": id, "tail": id, "limits": limits});
    head.as_object_mut().unwrap().extend(range.as_object().unwrap().clone());
    head.to_string().into_bytes()
}

#[tokio::test]
async fn a_damaged_history_can_be_removed() {
    let (inner, store) = store();
    write_many(&store, 3).await;
    store.apply(Batch::new().remove(StorePath::memories()).remove(StorePath::records())).await.unwrap();
    write_many(&store, 1).await;
    assert_eq!(logged(&store.history(), LogFilter::new()).await, [1]);
    inner.apply(Batch::new().write(record("history/head"), "damaged")).await.unwrap();
    let other = HistoryStore::new(inner);
    other.write("/memories/b.txt", "b").await.unwrap_err();
    other.history().clear().await.unwrap();
    other.write("/memories/b.txt", "b").await.unwrap();
    assert_eq!(logged(&other.history(), LogFilter::new()).await, [1]);
}
