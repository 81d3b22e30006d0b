//! `Memory::sync`: two memories become one again, and no acknowledged line is lost.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod model;

use std::io::Read as _;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, SystemTime};

use async_trait::async_trait;
use memory_tool::history::{Digest, LogFilter};
use memory_tool::policies::{Detector, SensitiveData};
use memory_tool::store::{Batch, FileTimes, ReadOptions, StorePath, UnlistedItem, UnlistedReason};
use memory_tool::transfer::{CopyOptions, SyncOptions, SyncReport, SyncStatus, TransferError};
use memory_tool::{Actor, InMemoryStore, Memory, MemoryBuilder, Node, Quota, Store, StoreError, StoreExt as _};
use memory_tool_test_fixtures::by_tier;

async fn memory() -> Memory {
    Memory::over(InMemoryStore::new()).history().build().await.unwrap()
}

/// Without a history, earlier texts are in records.
async fn pairs() -> Vec<[Memory; 2]> {
    let plain = async || Memory::over(InMemoryStore::new()).build().await.unwrap();
    vec![[memory().await, memory().await], [plain().await, plain().await], [memory().await, plain().await]]
}

fn names() -> SyncOptions {
    SyncOptions::new().names("laptop", "server")
}

async fn sync([first, second]: &[Memory; 2]) -> SyncReport {
    first.sync(second, names()).await.unwrap()
}

/// Synchronizes, and the next time nothing is left to do.
async fn synced(pair: &[Memory; 2]) -> SyncReport {
    let report = sync(pair).await;
    let again = sync(pair).await;
    let done = [&again.first, &again.second].map(|side| (side.written, side.removed, side.renamed));
    assert_eq!((done, again.merged.len(), again.conflicts.len()), ([(0, 0, 0); 2], 0, 0), "{again:?}");
    assert_eq!(files(&pair[0]).await, files(&pair[1]).await);
    report
}

async fn settle(pair: &[Memory; 2]) {
    drop(synced(pair).await);
}

/// The names and texts of all files.
async fn files(memory: &Memory) -> Vec<(String, String)> {
    let mut files = Vec::new();
    for file in memory.list("/memories").await.unwrap() {
        let name = file.path.as_str().trim_start_matches("/memories/").to_owned();
        files.push((name, memory.read_to_string(&file.path).await.unwrap()));
    }
    files
}

/// The files of the first memory, and of the second one if it has the same.
async fn both(pair: &[Memory; 2]) -> Vec<(String, String)> {
    let files_of_first = files(&pair[0]).await;
    assert_eq!(files_of_first, files(&pair[1]).await);
    files_of_first
}

fn file(name: &str, text: &str) -> (String, String) {
    (name.to_owned(), text.to_owned())
}

async fn write_at(memory: &Memory, path: &str, text: &str, modified: SystemTime) {
    let path: StorePath = path.parse().unwrap();
    let batch = Batch::new().write_with_times(path, text, FileTimes::new().modified(modified));
    memory.store().apply(batch).await.unwrap();
}

#[tokio::test]
async fn changes_of_one_side_are_made_in_the_other_one() {
    for pair in pairs().await {
        let [laptop, server] = &pair;
        for name in ["kept", "edited", "deleted", "d/moved", "d/e/moved"] {
            laptop.write(format!("/memories/{name}"), format!("{name}\n")).await.unwrap();
        }
        let report = synced(&pair).await;
        assert_eq!((report.status(), report.second.written, report.first.written), (SyncStatus::InSync, 5, 0));
        server.write("/memories/edited", "edited again\n").await.unwrap();
        server.remove("/memories/deleted").await.unwrap();
        laptop.rename("/memories/d", "/memories/f").await.unwrap();
        laptop.write("/memories/new", "new\n").await.unwrap();
        let report = synced(&pair).await;
        let counts = [&report.first, &report.second].map(|side| (side.written, side.removed, side.renamed));
        assert_eq!(counts, [(1, 1, 0), (1, 0, 2)], "{report:?}");
        let moved = [file("f/e/moved", "d/e/moved\n"), file("f/moved", "d/moved\n")];
        let [edited, kept, new] = [("edited", "edited again\n"), ("kept", "kept\n"), ("new", "new\n")];
        let expected = [edited].into_iter().map(|(name, text)| file(name, text)).chain(moved);
        let expected = expected.chain([kept, new].map(|(name, text)| file(name, text)));
        assert_eq!(both(&pair).await, expected.collect::<Vec<_>>());
        // A file that is made again is another file.
        laptop.write("/memories/deleted", "again\n").await.unwrap();
        settle(&pair).await;
        assert_eq!(server.read_to_string("/memories/deleted").await.unwrap(), "again\n");
    }
}

#[tokio::test]
async fn changes_of_different_lines_are_merged_and_others_kept_beside() {
    for pair in pairs().await {
        let [laptop, server] = &pair;
        let text = "1\n2\n3\n4\n5\n6\n7\n";
        laptop.write("/memories/a.md", text).await.unwrap();
        laptop.write("/memories/b.md", text).await.unwrap();
        settle(&pair).await;
        let hour = |hours: u64| SystemTime::UNIX_EPOCH + Duration::from_secs(1_796_000_000 + hours * 3_600);
        write_at(laptop, "/memories/a.md", &text.replace('2', "two"), hour(1)).await;
        write_at(server, "/memories/a.md", &text.replace('6', "six"), hour(2)).await;
        write_at(laptop, "/memories/b.md", &text.replace('2', "zwei"), hour(3)).await;
        write_at(server, "/memories/b.md", &text.replace('2', "deux"), hour(2)).await;
        let report = sync(&pair).await;
        assert_eq!((report.status(), report.merged.len()), (SyncStatus::InSyncWithConflicts, 1), "{report:?}");
        assert!(!report.is_complete());
        let copy = "b (conflict 2026-11-30 server).md";
        assert_eq!(report.conflicts[0].copy.file_name(), Some(copy));
        let expected = [
            file("a.md", "1\ntwo\n3\n4\n5\nsix\n7\n"),
            file(copy, &text.replace('2', "deux")),
            file("b.md", &text.replace('2', "zwei")),
        ];
        assert_eq!(both(&pair).await, expected);
        // It is reported until it is removed.
        assert_eq!(sync(&pair).await.conflict_copies.len(), 1);
        let problems = |memory: &Memory| {
            let memory = memory.clone();
            async move { memory.verify(|_| {}).await.unwrap().problems }
        };
        assert!(problems(server).await.iter().any(|problem| problem.to_string().contains("conflict")));
        server.remove(format!("/memories/{copy}")).await.unwrap();
        assert_eq!(synced(&pair).await.status(), SyncStatus::InSync);
        assert_eq!(problems(laptop).await, []);
    }
}

#[tokio::test]
async fn a_change_counts_against_a_deletion_and_goes_along_with_a_rename() {
    for pair in pairs().await {
        let [laptop, server] = &pair;
        for name in ["deleted", "renamed", "both"] {
            laptop.write(format!("/memories/{name}"), format!("{name}\n1\n2\n3\n4\n")).await.unwrap();
        }
        settle(&pair).await;
        laptop.remove("/memories/deleted").await.unwrap();
        laptop.rename("/memories/renamed", "/memories/d/new").await.unwrap();
        for name in ["deleted", "renamed"] {
            server.write(format!("/memories/{name}"), format!("{name}\n1\n2\n3\n4\nmore\n")).await.unwrap();
        }
        // With a history, an edited file is recognized too.
        laptop.rename("/memories/both", "/memories/new").await.unwrap();
        if laptop.history().is_some_and(|_| true)
            && !laptop.history().unwrap().entries(&LogFilter::new()).await.unwrap().is_empty()
        {
            laptop.write("/memories/new", "first\nboth\n1\n2\n3\n4\n").await.unwrap();
            server.write("/memories/both", "both\n1\n2\n3\n4\nlast\n").await.unwrap();
        }
        let report = synced(&pair).await;
        assert_eq!(report.status(), SyncStatus::InSync, "{report:?}");
        let found = both(&pair).await;
        assert_eq!(found[0], file("d/new", "renamed\n1\n2\n3\n4\nmore\n"));
        assert_eq!(found[1], file("deleted", "deleted\n1\n2\n3\n4\nmore\n"));
        assert_eq!((found.len(), found[2].0.as_str()), (3, "new"));
        assert!(["both\n1\n2\n3\n4\n", "first\nboth\n1\n2\n3\n4\nlast\n"].contains(&found[2].1.as_str()), "{found:?}");
    }
}

#[tokio::test]
async fn three_memories_are_synchronized_in_pairs_and_a_copy_is_one_of_them() {
    let [laptop, server, phone] = [memory().await, memory().await, memory().await];
    laptop.write("/memories/a", "1\n2\n3\n4\n5\n").await.unwrap();
    let pair = |one: &Memory, other: &Memory| [one.clone(), other.clone()];
    settle(&pair(&laptop, &server)).await;
    settle(&pair(&server, &phone)).await;
    laptop.write("/memories/a", "1!\n2\n3\n4\n5\n").await.unwrap();
    phone.write("/memories/a", "1\n2\n3\n4\n5!\n").await.unwrap();
    settle(&pair(&laptop, &server)).await;
    assert_eq!(sync(&pair(&server, &phone)).await.merged.len(), 1);
    // The phone's state was made from the laptop's, so this is no conflict.
    let report = synced(&pair(&phone, &laptop)).await;
    assert_eq!((report.conflicts.len(), report.merged.len(), report.second.written), (0, 0, 1), "{report:?}");
    assert_eq!(synced(&pair(&laptop, &server)).await.status(), SyncStatus::InSync);
    // A memory with the older text of a conflict gets the newer one.
    laptop.write("/memories/a", "1?\n2\n3\n4\n5!\n").await.unwrap();
    settle(&pair(&laptop, &phone)).await;
    server.write("/memories/a", "1.\n2\n3\n4\n5!\n").await.unwrap();
    assert_eq!(sync(&pair(&laptop, &server)).await.conflicts.len(), 1);
    let report = sync(&pair(&server, &phone)).await;
    assert_eq!((report.conflicts.len(), report.conflict_copies.len(), report.first.written), (0, 1, 0), "{report:?}");
    // A copy of the files has the same texts, and no states.
    let copy = memory().await;
    drop(server.copy_to(&copy, CopyOptions::new(), |_| {}).await.unwrap());
    copy.append("/memories/a", "6\n").await.unwrap();
    laptop.append("/memories/a", "7\n").await.unwrap();
    laptop.write("/memories/b", "b\n").await.unwrap();
    let report = sync(&pair(&laptop, &copy)).await;
    assert_eq!((report.conflicts.len(), copy.exists("/memories/b").await.unwrap()), (1, true));
}

#[tokio::test]
async fn the_older_text_of_a_conflict_is_kept_once() {
    let [laptop, server, phone] = [memory().await, memory().await, memory().await];
    for (memory, text) in [(&laptop, "X\n"), (&phone, "X\n"), (&server, "Y\n")] {
        memory.write("/memories/a", text).await.unwrap();
    }
    for pair in [[&laptop, &server], [&server, &phone], [&phone, &laptop]] {
        let pair = pair.map(Memory::clone);
        settle(&pair).await;
        assert_eq!(both(&pair).await.len(), 2);
    }
}

/// A store with a directory that cannot be listed.
#[derive(Debug)]
struct Hiding(Arc<InMemoryStore>);

#[async_trait]
impl Store for Hiding {
    async fn read_opts(&self, path: &StorePath, options: ReadOptions) -> Result<Node, StoreError> {
        let node = self.0.read_opts(path, options).await?;
        let Node::Directory(mut listing) = node else { return Ok(node) };
        listing.files.retain(|file| !file.path.as_str().starts_with("/memories/hidden/"));
        let hidden = UnlistedItem::new(StorePath::memories(), "hidden", UnlistedReason::Unreadable);
        Ok(Node::Directory(listing.with_unlisted(vec![hidden])))
    }

    async fn apply(&self, batch: Batch) -> Result<(), StoreError> {
        self.0.apply(batch).await
    }
}

#[tokio::test]
async fn files_that_cannot_be_listed_do_not_count_as_deleted() {
    let store = Arc::new(InMemoryStore::new());
    let pair = [Memory::over(Arc::clone(&store)).build().await.unwrap(), memory().await];
    pair[0].write("/memories/hidden/a", "a\n").await.unwrap();
    pair[0].write("/memories/b", "b\n").await.unwrap();
    settle(&pair).await;
    let hiding = [Memory::over(Hiding(Arc::clone(&store))).build().await.unwrap(), pair[1].clone()];
    pair[1].write("/memories/c", "c\n").await.unwrap();
    pair[1].write("/memories/hidden/a", "changed\n").await.unwrap();
    let store = Arc::clone(&store);
    let dry = async |builder: MemoryBuilder| builder.dry_run().build().await.unwrap();
    let dry_run = [dry(Memory::over(Hiding(Arc::clone(&store)))).await, dry(Memory::over(pair[1].store())).await];
    let report = sync(&dry_run).await;
    assert_eq!((report.status(), report.first.is_partial, report.second.removed), (SyncStatus::Partly, true, 0));
    let report = sync(&hiding).await;
    assert_eq!((report.status(), report.first.is_partial, report.second.removed), (SyncStatus::Partly, true, 0));
    assert!(hiding[0].exists("/memories/c").await.unwrap());
    settle(&pair).await;
    assert_eq!(pair[0].read_to_string("/memories/hidden/a").await.unwrap(), "changed\n");
}

#[tokio::test]
async fn a_refused_file_is_named_and_does_not_stop_the_rest() {
    let [laptop, server] = [
        memory().await,
        Memory::over(InMemoryStore::new()).limits(Quota::new().with_file_bytes(9)).build().await.unwrap(),
    ];
    laptop.write("/memories/large", "more than nine bytes").await.unwrap();
    for number in 0..5 {
        laptop.write(format!("/memories/{number}"), "small").await.unwrap();
    }
    server.write("/memories/other", "other").await.unwrap();
    let pair = [laptop, server];
    let report = sync(&pair).await;
    assert_eq!((report.status(), report.second.written, report.first.written), (SyncStatus::Partly, 5, 1));
    assert_eq!(report.second.refused[0].path, "/memories/large");
    pair[0].write("/memories/large", "small").await.unwrap();
    assert_eq!(synced(&pair).await.status(), SyncStatus::InSync);
    // A later change of a refused one is still merged.
    pair[0].write("/memories/0", "1\n2\n3\n4\n").await.unwrap();
    settle(&pair).await;
    pair[0].write("/memories/0", "1\n2\n3\n4\nmore than nine bytes").await.unwrap();
    assert_eq!(sync(&pair).await.second.refused.len(), 1);
    pair[0].write("/memories/0", "1\n2\n3\nD\n").await.unwrap();
    pair[1].write("/memories/0", "A\n2\n3\n4\n").await.unwrap();
    assert_eq!(synced(&pair).await.merged.len(), 1);
    assert_eq!(pair[1].read_to_string("/memories/0").await.unwrap(), "A\n2\n3\nD\n");
}

#[tokio::test]
async fn a_file_whose_new_name_is_refused_keeps_the_old_one() {
    let flat = Memory::over(InMemoryStore::new()).limits(Quota::new().with_depth(1)).build().await.unwrap();
    let pair = [memory().await, flat];
    pair[0].write("/memories/a", "a\n").await.unwrap();
    settle(&pair).await;
    pair[0].rename("/memories/a", "/memories/d/a").await.unwrap();
    for _ in 0..2 {
        let report = sync(&pair).await;
        assert_eq!((report.second.refused.len(), report.status()), (1, SyncStatus::Partly), "{report:?}");
        assert_eq!(files(&pair[1]).await, [file("a", "a\n")]);
    }
    pair[0].rename("/memories/d/a", "/memories/b").await.unwrap();
    settle(&pair).await;
    assert_eq!(both(&pair).await, [file("b", "a\n")]);
}

#[tokio::test]
async fn a_redacted_file_is_in_sync_and_a_later_edit_replaces_both() {
    let screen = SensitiveData::builder().redact(Detector::CREDENTIALS.iter().copied()).build();
    let screened = Memory::over(InMemoryStore::new()).screen(screen).build().await.unwrap();
    let pair = [memory().await, screened];
    let secret = "database: postgres://app:t7Kq-9vLz2@db.internal/app\n";
    pair[0].write("/memories/a", secret).await.unwrap();
    let report = sync(&pair).await;
    assert_eq!((report.second.redacted.len(), report.status()), (1, SyncStatus::InSync));
    assert_eq!(sync(&pair).await.second.written, 0);
    assert_eq!(pair[0].read_to_string("/memories/a").await.unwrap(), secret);
    let redacted = pair[1].read_to_string("/memories/a").await.unwrap();
    assert!(!redacted.contains("t7Kq"), "{redacted}");
    pair[1].append("/memories/a", "port: 5432\n").await.unwrap();
    settle(&pair).await;
}

#[tokio::test]
async fn a_file_in_place_of_a_directory_is_renamed() {
    for pair in pairs().await {
        pair[0].write("/memories/a/b", "in a directory\n").await.unwrap();
        pair[1].write("/memories/a", "a file\n").await.unwrap();
        let report = synced(&pair).await;
        assert_eq!(report.conflicts.len(), 1, "{report:?}");
        let files = both(&pair).await;
        assert_eq!((files.len(), &files[0]), (2, &file("a/b", "in a directory\n")));
        assert_eq!(
            (&files[1].0, files[1].1.as_str()),
            (&report.conflicts[0].copy.file_name().unwrap().to_owned(), "a file\n")
        );
        // A file becomes a directory.
        pair[0].remove("/memories/a").await.unwrap();
        settle(&pair).await;
        pair[0].write("/memories/a", "a file again\n").await.unwrap();
        settle(&pair).await;
        pair[1].remove("/memories/a").await.unwrap();
        pair[1].write("/memories/a/c", "a directory again\n").await.unwrap();
        settle(&pair).await;
        assert_eq!(pair[0].read_to_string("/memories/a/c").await.unwrap(), "a directory again\n");
    }
}

#[tokio::test]
async fn a_memory_that_lost_all_files_does_not_empty_the_other_one() {
    let pair = [memory().await, memory().await];
    for number in 0..11 {
        pair[0].write(format!("/memories/{number}"), "text").await.unwrap();
    }
    settle(&pair).await;
    pair[1].clear().await.unwrap();
    for _ in 0..2 {
        let refused = pair[0].sync(&pair[1], names()).await;
        assert!(matches!(&refused, Err(TransferError::Emptied { side, files: 11 }) if side == "server"), "{refused:?}");
    }
    let report = pair[0].sync(&pair[1], names().allow_empty()).await.unwrap();
    assert_eq!((report.first.removed, pair[0].usage().await.unwrap().files), (11, 0));
    // Without its records, it is a new memory.
    pair[0].write("/memories/a", "text").await.unwrap();
    settle(&pair).await;
    pair[1].forget().await.unwrap();
    assert_eq!(sync(&pair).await.second.written, 1);
}

#[tokio::test]
async fn the_history_has_the_actors_and_the_side_and_files_keep_their_times() {
    let pair = [memory().await, memory().await];
    let ada = pair[0].by(Actor::from_trusted_name("ada").unwrap());
    ada.write("/memories/a", "by Ada\n").await.unwrap();
    let time = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
    write_at(&pair[0], "/memories/old", "old\n", time).await;
    let bob = [pair[0].clone(), pair[1].by(Actor::from_trusted_name("bob").unwrap())];
    drop(sync(&bob).await);
    let entry = pair[1].history().unwrap().entry(1).await.unwrap();
    assert_eq!((entry.actor.as_deref(), entry.authors.as_slice()), (Some("bob"), &["ada".to_owned()][..]));
    assert_eq!((entry.command.as_deref(), entry.reason.as_deref()), (Some("sync"), Some("from laptop")));
    let listed = pair[1].list("/memories").await.unwrap();
    assert_eq!(listed[1].modified, Some(time));
    // A synchronization without changes adds no entry.
    drop(sync(&pair).await);
    assert_eq!(pair[1].history().unwrap().newest().await.unwrap(), 1);
}

#[tokio::test]
async fn a_dry_run_tells_what_would_be_done_and_changes_neither() {
    let stores = [Arc::new(InMemoryStore::new()), Arc::new(InMemoryStore::new())];
    let open = |dry_run: bool| {
        let stores = stores.clone();
        async move {
            let open = |store| if dry_run { Memory::over(store).dry_run() } else { Memory::over(store) };
            let [one, other] = stores.map(open).map(MemoryBuilder::build);
            [one.await.unwrap(), other.await.unwrap()]
        }
    };
    let pair = open(false).await;
    pair[0].write("/memories/a", "a\n").await.unwrap();
    pair[1].write("/memories/b", "b\n").await.unwrap();
    let report = sync(&open(true).await).await;
    assert!(report.dry_run);
    assert_eq!((report.first.written, report.second.written), (1, 1));
    for store in &stores {
        let records = store.read(StorePath::memories()).await.unwrap().into_listing().files.len();
        assert_eq!(records, 1);
    }
    let mixed = [open(true).await, open(false).await].map(|[first, _]| first);
    let refused = mixed[0].sync(&mixed[1], names()).await;
    assert!(matches!(refused, Err(TransferError::CannotSync { .. })), "{refused:?}");
}

/// Everything that the store keeps, also compressed.
async fn stored(store: &InMemoryStore) -> Vec<u8> {
    let mut bytes = Vec::new();
    for root in [StorePath::memories(), StorePath::records()] {
        for entry in store.read_opts(&root, ReadOptions::new()).await.unwrap().into_listing().files {
            let file = store.read_opts(&entry.path, ReadOptions::new()).await.unwrap().into_file().unwrap();
            let mut unpacked = Vec::new();
            let is_packed = flate2::read::GzDecoder::new(&*file.content).read_to_end(&mut unpacked).is_ok();
            bytes.extend(if is_packed { unpacked } else { file.content });
        }
    }
    bytes
}

#[tokio::test]
async fn an_erasure_also_erases_what_synchronizations_keep() {
    for has_history in [true, false] {
        let store = Arc::new(InMemoryStore::new());
        let builder = Memory::over(Arc::clone(&store)).history();
        let first = if has_history {
            builder.build().await.unwrap()
        } else {
            Memory::over(Arc::clone(&store)).build().await.unwrap()
        };
        let pair = [first, memory().await];
        let text = "1\nsecret of Ada\n3\n4\n5\n";
        pair[0].write("/memories/a", text).await.unwrap();
        write_at(&pair[0], "/memories/b", "b\n", SystemTime::UNIX_EPOCH).await;
        settle(&pair).await;
        // A memory without a history starts one with this.
        let memory = Memory::over(Arc::clone(&store)).history().build().await.unwrap();
        let digest = Digest::of(text.as_bytes()).sha256.to_string();
        let holds = async |needle: &str| String::from_utf8_lossy(&stored(&store).await).contains(needle);
        assert!(holds("secret of Ada").await && holds(&digest).await);
        pair[1].write("/memories/b", "b\nof the other side\n").await.unwrap();
        memory.history().unwrap().redact_text("secret of Ada").await.unwrap();
        assert!(!holds("secret of Ada").await);
        assert!(!holds(&digest).await);
        // Both sides still know which state was made from which.
        let pair = [memory, pair[1].clone()];
        let report = synced(&pair).await;
        assert_eq!((report.conflicts.len(), report.first.written, report.second.written), (0, 1, 1), "{report:?}");
        assert_eq!(pair[1].read_to_string("/memories/a").await.unwrap(), "1\n[redacted]\n3\n4\n5\n");
    }
}

/// A store that counts its calls.
#[derive(Debug, Default)]
struct Counting {
    inner: InMemoryStore,
    listings: AtomicUsize,
    reads: AtomicUsize,
    reads_of_records: AtomicUsize,
    batches: AtomicUsize,
    written: AtomicUsize,
}

impl Counting {
    /// The listings, reads of files, reads of records, batches and writes of files since the last call.
    fn take(&self) -> [usize; 5] {
        [&self.listings, &self.reads, &self.reads_of_records, &self.batches, &self.written]
            .map(|counter| counter.swap(0, Relaxed))
    }
}

#[async_trait]
impl Store for Counting {
    async fn read_opts(&self, path: &StorePath, options: ReadOptions) -> Result<Node, StoreError> {
        let counter = match path {
            path if *path == StorePath::memories() => &self.listings,
            path if path.is_record() => &self.reads_of_records,
            _ => &self.reads,
        };
        counter.fetch_add(1, Relaxed);
        self.inner.read_opts(path, options).await
    }

    async fn apply(&self, batch: Batch) -> Result<(), StoreError> {
        self.batches.fetch_add(1, Relaxed);
        self.written.fetch_add(batch.changes().iter().filter(|change| !change.is_of_record()).count(), Relaxed);
        self.inner.apply(batch).await
    }
}

#[tokio::test]
async fn only_changed_files_are_read_and_written() {
    const CHANGES: usize = 10;
    let files = by_tier(500, 10_000);
    let stores = [Arc::new(Counting::default()), Arc::new(Counting::default())];
    let open = |store: &Arc<Counting>| Memory::over(Arc::clone(store)).build();
    let pair = [open(&stores[0]).await.unwrap(), open(&stores[1]).await.unwrap()];
    let path = |number: usize| format!("/memories/{}/{number}.md", number % 100);
    let time = |number: usize| SystemTime::UNIX_EPOCH + Duration::from_secs(number as u64);
    for number in 0..files {
        write_at(&pair[0], &path(number), &format!("file {number}\n"), time(number)).await;
    }
    drop(sync(&pair).await);
    for number in 0..CHANGES {
        write_at(&pair[0], &path(number), "changed in first\n", time(files + number)).await;
        write_at(&pair[1], &path(number + CHANGES), "changed in second\n", time(files + number)).await;
    }
    let take = || [stores[0].take(), stores[1].take()];
    take();
    let report = sync(&pair).await;
    assert_eq!((report.first.written, report.second.written), (CHANGES as u64, CHANGES as u64));
    // Each side reads the files that it changed and the files that it replaces. It writes the record for its own
    // changes, and with the changes of the other side.
    let expected = [1, 2 * CHANGES, 2, CHANGES];
    for [listings, reads, _, batches, written] in take() {
        assert_eq!([listings, reads, batches, written], expected);
    }
    drop(sync(&pair).await);
    assert_eq!(take(), [[1, 0, 1, 0, 0]; 2]);
}

#[tokio::test]
async fn an_edited_copy_of_an_older_text_does_not_count_as_its_place() {
    for pair in pairs().await {
        let [laptop, server] = &pair;
        laptop.write("/memories/n.md", "base\n").await.unwrap();
        settle(&pair).await;
        let hour = |hours: u64| SystemTime::UNIX_EPOCH + Duration::from_secs(1_796_000_000 + hours * 3_600);
        write_at(laptop, "/memories/n.md", "precious\n", hour(1)).await;
        write_at(server, "/memories/n.md", "newer\n", hour(2)).await;
        let copy = sync(&pair).await.conflicts[0].copy.clone();
        // One side takes the older text back, and the other one edits the copy.
        write_at(laptop, "/memories/n.md", "precious\n", hour(3)).await;
        write_at(server, copy.as_str(), "edited\n", hour(3)).await;
        write_at(server, "/memories/n.md", "newest\n", hour(4)).await;
        settle(&pair).await;
        let texts: Vec<_> = both(&pair).await.into_iter().map(|(_, text)| text).collect();
        assert_eq!(texts.len(), 3, "{texts:?}");
        assert!(["precious\n", "edited\n", "newest\n"].iter().all(|text| texts.iter().any(|kept| kept == text)));
    }
}

#[tokio::test]
async fn files_that_were_swapped_or_changed_without_a_trace_are_noticed() {
    let pair = [memory().await, memory().await];
    for name in ["a", "b", "c"] {
        write_at(&pair[0], &format!("/memories/{name}"), &format!("{name}\n"), SystemTime::UNIX_EPOCH).await;
    }
    settle(&pair).await;
    // Files of the same size and time are read each time. The record does not change.
    let record: StorePath = "/records/sync/files".parse().unwrap();
    let read = async || pair[0].store().read_opts(&record, ReadOptions::new()).await.unwrap();
    let before = read().await;
    settle(&pair).await;
    assert_eq!(read().await, before);
    for (from, to) in [("a", "t"), ("b", "a"), ("t", "b")] {
        pair[0].rename(format!("/memories/{from}"), format!("/memories/{to}")).await.unwrap();
    }
    settle(&pair).await;
    assert_eq!(pair[1].read_to_string("/memories/a").await.unwrap(), "b\n");
    pair[0].remove("/memories/a").await.unwrap();
    pair[0].rename("/memories/b", "/memories/a").await.unwrap();
    settle(&pair).await;
    assert_eq!(both(&pair).await, [file("a", "a\n"), file("c", "c\n")]);
    // The same size and time, as after `touch -d`.
    for path in ["/memories/a", "/memories/c"] {
        write_at(&pair[0], path, "x\n", SystemTime::UNIX_EPOCH + Duration::from_secs(path.len() as u64)).await;
    }
    settle(&pair).await;
    write_at(&pair[0], "/memories/a", "y\n", SystemTime::UNIX_EPOCH + Duration::from_secs(11)).await;
    pair[1].append("/memories/a", "more\n").await.unwrap();
    let report = sync(&pair).await;
    assert_eq!((report.conflicts.len(), &report.first.refused), (1, &vec![]), "{report:?}");
}

#[tokio::test]
async fn a_memory_that_missed_many_changes_is_behind_and_not_in_conflict() {
    let [laptop, server, phone] = [memory().await, memory().await, memory().await];
    laptop.write("/memories/a", "0\n").await.unwrap();
    drop(sync(&[laptop.clone(), phone.clone()]).await);
    for number in 1..100 {
        laptop.write("/memories/a", format!("{number}\n")).await.unwrap();
        drop(sync(&[laptop.clone(), server.clone()]).await);
    }
    let pair = [server, phone];
    assert_eq!(synced(&pair).await.conflicts, []);
    assert_eq!(both(&pair).await, [file("a", "99\n")]);
}

#[tokio::test]
async fn damaged_and_missing_records_lose_no_file() {
    let stores = [Arc::new(InMemoryStore::new()), Arc::new(InMemoryStore::new())];
    let open = |store: &Arc<InMemoryStore>| Memory::over(Arc::clone(store)).build();
    let pair = [open(&stores[0]).await.unwrap(), open(&stores[1]).await.unwrap()];
    pair[0].write("/memories/a", "1\n2\n3\n4\n5\n").await.unwrap();
    settle(&pair).await;
    let record = |path: &str| path.parse::<StorePath>().unwrap();
    let without_texts = Batch::new().remove(record("/records/sync/texts"));
    stores[0].apply(without_texts.clone()).await.unwrap();
    stores[1].apply(without_texts).await.unwrap();
    pair[0].write("/memories/a", "1!\n2\n3\n4\n5\n").await.unwrap();
    pair[1].write("/memories/a", "1\n2\n3\n4\n5!\n").await.unwrap();
    assert_eq!(sync(&pair).await.conflicts.len(), 1);
    settle(&pair).await;
    for (number, bytes) in [&b""[..], b"\x1f\x8b damaged", b"{}"].into_iter().enumerate() {
        stores[0].apply(Batch::new().write(record("/records/sync/files"), bytes)).await.unwrap();
        pair[1].write(format!("/memories/b{number}"), "new\n").await.unwrap();
        let report = sync(&pair).await;
        assert_eq!((report.status(), report.first.unreadable.len()), (SyncStatus::Partly, 1), "{report:?}");
        assert_eq!(both(&pair).await.len(), 3 + number);
    }
}

#[tokio::test]
async fn a_link_in_place_of_a_file_is_named_and_removes_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let laptop = Memory::open(directory.path()).await.unwrap();
    let pair = [laptop, memory().await];
    for name in ["a", "d/b"] {
        pair[0].write(format!("/memories/{name}"), "text\n").await.unwrap();
    }
    settle(&pair).await;
    let files = directory.path().join("memories");
    for name in ["a", "d"] {
        std::fs::rename(files.join(name), directory.path().join(name)).unwrap();
        std::os::unix::fs::symlink(directory.path().join(name), files.join(name)).unwrap();
    }
    std::fs::write(files.join("odd\u{1}name"), "text").unwrap();
    for _ in 0..2 {
        let report = sync(&pair).await;
        let named: Vec<_> = report.first.unreadable.iter().map(|problem| problem.path.as_str()).collect();
        assert_eq!((report.status(), report.second.removed, named.len()), (SyncStatus::Partly, 0, 3), "{named:?}");
    }
    assert_eq!(pair[1].usage().await.unwrap().files, 2);
}
