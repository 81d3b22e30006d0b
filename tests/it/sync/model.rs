//! Three memories are edited and synchronized in any order, with interrupted synchronizations and restored backups. All
//! converge to the same files. Only removed lines are lost.

use std::collections::BTreeSet;
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

use async_trait::async_trait;
use memory_tool::store::{Batch, ReadOptions, StorePath};
use memory_tool::transfer::{SyncOptions, SyncReport, SyncStatus};
use memory_tool::{InMemoryStore, Memory, Node, Store, StoreError};
use memory_tool_bucket::BucketStore;
use memory_tool_encrypted::{EncryptedStore, KeyRing, RawKey};
use memory_tool_local::LocalStore;
use memory_tool_sqlite::SqliteStore;
use memory_tool_test_fixtures::{by_tier, in_full, printed_seed};
use object_store::memory::InMemory;
use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use tempfile::TempDir;

const SIDES: usize = 3;

#[derive(Clone, Debug)]
enum Step {
    Create {
        side: usize,
        file: usize,
    },
    /// Inserts a line at a place, in parts of the number of lines.
    Insert {
        side: usize,
        file: usize,
        place: u8,
    },
    Replace {
        side: usize,
        file: usize,
        place: u8,
    },
    Delete {
        side: usize,
        file: usize,
    },
    Rename {
        side: usize,
        file: usize,
        to: usize,
    },
    /// Swaps the names of two files.
    Swap {
        side: usize,
        file: usize,
        other: usize,
    },
    Sync {
        sides: [usize; 2],
    },
    /// The synchronization ends after this number of polls.
    Killed {
        sides: [usize; 2],
        polls: usize,
    },
    /// Edits a file after this number of polls of a synchronization.
    Beside {
        sides: [usize; 2],
        polls: usize,
        edited: usize,
        file: usize,
    },
    /// Two synchronizations at the same time.
    Twice {
        sides: [usize; 2],
        others: [usize; 2],
    },
    Backup {
        side: usize,
    },
    Restore {
        side: usize,
    },
}

const FILES: [&str; 7] = ["a.md", "b.md", "c", "d/a.md", "d/b.md", "d/e/a.md", "c/x"];

fn step() -> impl Strategy<Value = Step> {
    let side = || 0..SIDES;
    let sides = || (0..SIDES, 1..SIDES).prop_map(|(one, by)| [one, (one + by) % SIDES]);
    let file = || 0..FILES.len();
    prop_oneof![
        4 => (side(), file()).prop_map(|(side, file)| Step::Create { side, file }),
        14 => (side(), file(), any::<u8>()).prop_map(|(side, file, place)| Step::Insert { side, file, place }),
        3 => (side(), file(), any::<u8>()).prop_map(|(side, file, place)| Step::Replace { side, file, place }),
        2 => (side(), file()).prop_map(|(side, file)| Step::Delete { side, file }),
        3 => (side(), file(), file()).prop_map(|(side, file, to)| Step::Rename { side, file, to }),
        1 => (side(), file(), file()).prop_map(|(side, file, other)| Step::Swap { side, file, other }),
        10 => sides().prop_map(|sides| Step::Sync { sides }),
        4 => (sides(), 0..80_usize).prop_map(|(sides, polls)| Step::Killed { sides, polls }),
        3 => (sides(), 0..80_usize, 0..2_usize, file())
            .prop_map(|(sides, polls, edited, file)| Step::Beside { sides, polls, edited, file }),
        1 => (sides(), sides()).prop_map(|(sides, others)| Step::Twice { sides, others }),
        1 => side().prop_map(|side| Step::Backup { side }),
        1 => side().prop_map(|side| Step::Restore { side }),
    ]
}

#[derive(Clone, Copy, Debug)]
enum Kind {
    InMemory,
    Bucket,
    Encrypted,
    Sqlite,
    Local,
}

/// A store that waits once before and after each call.
#[derive(Debug)]
struct Waiting {
    inner: Arc<dyn Store>,
    kind: Kind,
    _directory: TempDir,
}

impl Waiting {
    async fn new(kind: Kind) -> Arc<Self> {
        let directory = TempDir::new().unwrap();
        let path = directory.path();
        let inner: Arc<dyn Store> = match kind {
            Kind::InMemory => Arc::new(InMemoryStore::new()),
            Kind::Bucket => Arc::new(BucketStore::open(Arc::new(InMemory::new()), "memory".into()).await.unwrap()),
            Kind::Encrypted => {
                let keys = KeyRing::new(RawKey::from_bytes([7; 32]));
                Arc::new(EncryptedStore::open(InMemoryStore::new(), keys).await.unwrap())
            }
            Kind::Sqlite => Arc::new(SqliteStore::open(path.join("memory.sqlite")).await.unwrap()),
            Kind::Local => Arc::new(LocalStore::open(path.join("memory")).await.unwrap()),
        };
        Arc::new(Self { inner, kind, _directory: directory })
    }
}

#[async_trait]
impl Store for Waiting {
    async fn read_opts(&self, path: &StorePath, options: ReadOptions) -> Result<Node, StoreError> {
        tokio::task::yield_now().await;
        let read = self.inner.read_opts(path, options).await;
        tokio::task::yield_now().await;
        read
    }

    async fn apply(&self, batch: Batch) -> Result<(), StoreError> {
        tokio::task::yield_now().await;
        let applied = self.inner.apply(batch).await;
        tokio::task::yield_now().await;
        applied
    }
}

struct Side {
    store: Arc<Waiting>,
    memory: Memory,
    has_history: bool,
    backup: Option<Arc<Waiting>>,
}

impl Side {
    async fn over(store: Arc<Waiting>, has_history: bool, backup: Option<Arc<Waiting>>) -> Self {
        let memory = Memory::over(Arc::clone(&store));
        let memory = if has_history { memory.history() } else { memory };
        Self { store, memory: memory.build().await.unwrap(), has_history, backup }
    }

    async fn texts(&self) -> Vec<(String, String)> {
        super::files(&self.memory).await
    }

    async fn lines(&self) -> BTreeSet<String> {
        self.texts().await.iter().flat_map(|(_, text)| text.lines()).map(str::to_owned).collect()
    }
}

/// A copy of a store with its records.
async fn copied(store: &Waiting) -> Arc<Waiting> {
    let copy = Waiting::new(store.kind).await;
    for root in [StorePath::memories(), StorePath::records()] {
        for entry in store.inner.read_opts(&root, ReadOptions::new()).await.unwrap().into_listing().files {
            let file = store.inner.read_opts(&entry.path, ReadOptions::new()).await.unwrap().into_file().unwrap();
            let batch = Batch::new().write_with_times(entry.path.clone(), file.content, entry.times());
            copy.inner.apply(batch).await.unwrap();
        }
    }
    copy
}

/// The numbers of the kinds of changes by synchronizations.
#[derive(Default)]
struct Totals {
    merged: u64,
    conflicts: u64,
    renamed: u64,
    removed: u64,
    killed: u64,
}

impl Totals {
    fn add(&mut self, other: &Self) {
        self.merged += other.merged;
        self.conflicts += other.conflicts;
        self.renamed += other.renamed;
        self.removed += other.removed;
        self.killed += other.killed;
    }

    fn count(&mut self, report: &SyncReport) {
        self.merged += report.merged.len() as u64;
        self.conflicts += report.conflicts.len() as u64;
        self.renamed += report.first.renamed + report.second.renamed;
        self.removed += report.first.removed + report.second.removed;
    }
}

struct World {
    totals: Totals,
    sides: Vec<Side>,
    lines: usize,
    /// The lines that were written and not removed.
    written: BTreeSet<String>,
    removed: BTreeSet<String>,
}

impl World {
    async fn new(memories: [(Kind, bool); SIDES]) -> Self {
        let mut sides = Vec::new();
        for (kind, has_history) in memories {
            sides.push(Side::over(Waiting::new(kind).await, has_history, None).await);
        }
        Self { totals: Totals::default(), sides, lines: 0, written: BTreeSet::new(), removed: BTreeSet::new() }
    }

    fn line(&mut self) -> String {
        self.lines += 1;
        format!("line {}", self.lines)
    }

    async fn read(&self, side: usize, file: usize) -> Option<String> {
        self.sides[side].memory.read_to_string(format!("/memories/{}", FILES[file])).await.ok()
    }

    /// Writes a file, if the memory takes it.
    async fn write(&mut self, side: usize, file: usize, before: &str, after: &str) {
        let path = format!("/memories/{}", FILES[file]);
        if self.sides[side].memory.write(path, after).await.is_ok() {
            self.replaced(before, after);
        }
    }

    fn replaced(&mut self, before: &str, after: &str) {
        let [before, after] = [before, after].map(|text| text.lines().map(str::to_owned).collect::<BTreeSet<_>>());
        self.removed.extend(before.difference(&after).cloned());
        self.written.extend(after.difference(&before).cloned());
    }

    async fn insert(&mut self, side: usize, file: usize, place: u8) {
        let Some(text) = self.read(side, file).await else { return };
        let mut lines: Vec<_> = text.lines().map(str::to_owned).collect();
        let line = self.line();
        lines.insert(lines.len() * usize::from(place) / 255, line);
        self.write(side, file, &text, &(lines.join("\n") + "\n")).await;
    }

    async fn perform(&mut self, step: &Step) {
        let [first, second] = match step {
            Step::Sync { sides }
            | Step::Killed { sides, .. }
            | Step::Beside { sides, .. }
            | Step::Twice { sides, .. } => sides.map(|side| self.sides[side].memory.clone()),
            _ => [0, 0].map(|side| self.sides[side].memory.clone()),
        };
        let options = SyncOptions::new().allow_empty();
        match *step {
            Step::Create { side, file } => {
                let before = self.read(side, file).await.unwrap_or_default();
                let lines: Vec<_> = (0..6).map(|_| self.line()).collect();
                self.write(side, file, &before, &(lines.join("\n") + "\n")).await;
            }
            Step::Insert { side, file, place } => self.insert(side, file, place).await,
            Step::Replace { side, file, place } => {
                let Some(text) = self.read(side, file).await else { return };
                let mut lines: Vec<_> = text.lines().map(str::to_owned).collect();
                let at = lines.len().saturating_sub(1) * usize::from(place) / 255;
                let line = self.line();
                if let Some(replaced) = lines.get_mut(at) {
                    *replaced = line;
                    self.write(side, file, &text, &(lines.join("\n") + "\n")).await;
                }
            }
            Step::Delete { side, file } => {
                let Some(text) = self.read(side, file).await else { return };
                self.sides[side].memory.remove(format!("/memories/{}", FILES[file])).await.unwrap();
                self.replaced(&text, "");
            }
            Step::Rename { side, file, to } => {
                let [from, to] = [file, to].map(|file| format!("/memories/{}", FILES[file]));
                drop(self.sides[side].memory.rename(from, to).await);
            }
            Step::Swap { side, file, other } => {
                let [one, other] = [file, other].map(|file| format!("/memories/{}", FILES[file]));
                let memory = &self.sides[side].memory;
                let is_moved = memory.rename(&*one, "/memories/swapped").await.is_ok();
                if is_moved && memory.rename(&*other, &*one).await.is_err() {
                    memory.rename("/memories/swapped", &*one).await.unwrap();
                } else if is_moved {
                    memory.rename("/memories/swapped", &*other).await.unwrap();
                }
            }
            Step::Sync { .. } => self.totals.count(&first.sync(&second, options).await.unwrap()),
            Step::Killed { polls, .. } => {
                let mut syncing = pin!(first.sync(&second, options));
                let mut context = Context::from_waker(Waker::noop());
                for _ in 0..polls {
                    if syncing.as_mut().poll(&mut context).is_ready() {
                        return;
                    }
                    tokio::task::yield_now().await;
                }
                self.totals.killed += 1;
            }
            Step::Beside { sides, polls, edited, file } => {
                let mut syncing = pin!(first.sync(&second, options));
                let mut context = Context::from_waker(Waker::noop());
                for _ in 0..polls {
                    if let Poll::Ready(synced) = syncing.as_mut().poll(&mut context) {
                        self.totals.count(&synced.unwrap());
                        return;
                    }
                    tokio::task::yield_now().await;
                }
                let (synced, ()) = tokio::join!(syncing.as_mut(), self.insert_at_version(sides[edited], file));
                self.totals.count(&synced.unwrap());
            }
            Step::Twice { others, .. } => {
                let [third, fourth] = others.map(|side| self.sides[side].memory.clone());
                let options = || SyncOptions::new().allow_empty();
                let (one, other) = tokio::join!(first.sync(&second, options()), third.sync(&fourth, options()));
                for synced in [one, other] {
                    // Both may have written the table to the end.
                    assert!(synced.is_ok() || synced.is_err_and(|error| error.is_retryable()));
                }
            }
            Step::Backup { side } => self.sides[side].backup = Some(copied(&self.sides[side].store).await),
            Step::Restore { side } => {
                let Some(backup) = self.sides[side].backup.clone() else { return };
                let before = self.sides[side].lines().await;
                let has_history = self.sides[side].has_history;
                self.sides[side] = Side::over(copied(&backup).await, has_history, Some(backup)).await;
                // Later lines were perhaps only here.
                let after = self.sides[side].lines().await;
                self.removed.extend(before.difference(&after).cloned());
            }
        }
    }

    /// Inserts a line with the tool.
    async fn insert_at_version(&mut self, side: usize, file: usize) {
        let line = self.line();
        let tool = self.sides[side].memory.tool();
        let path = format!("/memories/{}", FILES[file]);
        let text = format!("{line}\n");
        let input = serde_json::json!({"command": "insert", "path": path, "insert_line": 0, "insert_text": text});
        if tool.call(input).await.is_ok() {
            self.written.insert(line);
        }
    }

    /// Synchronizes all pairs, until nothing changes any more.
    async fn converge(&mut self) {
        let memories: Vec<_> = self.sides.iter().map(|side| side.memory.clone()).collect();
        let pair = |one: usize, other: usize| memories[one].sync(&memories[other], SyncOptions::new().allow_empty());
        for _ in 0..6 {
            for (one, other) in [(0, 1), (1, 2), (2, 0)] {
                let report = pair(one, other).await.unwrap();
                assert_ne!(report.status(), SyncStatus::Partly, "{report:?}");
                self.totals.count(&report);
            }
        }
        for (one, other) in [(0, 1), (1, 2), (2, 0)] {
            let report = pair(one, other).await.unwrap();
            let changes = [&report.first, &report.second].map(|side| side.written + side.removed + side.renamed);
            assert_eq!(changes, [0, 0], "{report:?}");
        }
        let texts = self.sides[0].texts().await;
        assert_eq!(texts, self.sides[1].texts().await);
        assert_eq!(texts, self.sides[2].texts().await);
        assert!(!texts.iter().any(|(_, text)| text.contains("<<<<")), "{texts:?}");
        let present = self.sides[0].lines().await;
        let lost: Vec<_> =
            self.written.iter().filter(|line| !self.removed.contains(*line) && !present.contains(*line)).collect();
        assert!(lost.is_empty(), "lost {lost:?} of {texts:?}");
    }
}

/// Two memories with changed, renamed, removed and new files.
async fn with_changes(has_history: bool) -> [Side; 2] {
    let side = async || Side::over(Waiting::new(Kind::InMemory).await, has_history, None).await;
    let sides = [side().await, side().await];
    let [one, other] = [&sides[0].memory, &sides[1].memory];
    for name in ["a", "b", "c", "d"] {
        one.write(format!("/memories/{name}"), "1\n2\n3\n4\n5\n").await.unwrap();
    }
    drop(one.sync(other, SyncOptions::new()).await.unwrap());
    one.write("/memories/a", "1\n2\n3\n4\n5\nof one\n").await.unwrap();
    other.write("/memories/b", "1\n2\n3\n4\n5\nof other\n").await.unwrap();
    other.write("/memories/a", "of other\n1\n2\n3\n4\n5\n").await.unwrap();
    one.rename("/memories/c", "/memories/e").await.unwrap();
    one.remove("/memories/d").await.unwrap();
    one.write("/memories/new", "new\n").await.unwrap();
    sides
}

/// Starts a synchronization, and acts after a number of polls. Returns whether it had ended before.
async fn interrupted(sides: &[Side; 2], polls: usize, act: Option<(usize, &str)>) -> bool {
    let mut syncing = pin!(sides[0].memory.sync(&sides[1].memory, SyncOptions::new()));
    let mut context = Context::from_waker(Waker::noop());
    for _ in 0..polls {
        if syncing.as_mut().poll(&mut context).is_ready() {
            return true;
        }
        tokio::task::yield_now().await;
    }
    if let Some((side, file)) = act {
        // Another session, which does not wait for the synchronization.
        let store = &sides[side].store.inner;
        let path: StorePath = format!("/memories/{file}").parse().unwrap();
        let before = store.read_opts(&path, ReadOptions::new()).await.unwrap().into_file();
        let before = before.map(|file| String::from_utf8(file.content).unwrap()).unwrap_or_default();
        store.apply(Batch::new().write(path, format!("{before}beside\n"))).await.unwrap();
        drop(syncing.await.unwrap());
    }
    false
}

#[tokio::test(start_paused = true)]
async fn an_edit_or_a_kill_at_any_moment_loses_nothing() {
    // The default tier has a file to merge, to replace and to rename.
    let files = in_full(&["a", "b", "c"][..], &["a", "b", "c", "d", "e", "new"]);
    let acts = [0, 1].into_iter().flat_map(|side| files.iter().map(move |file| Some((side, *file)))).chain([None]);
    for (act, has_history) in acts.flat_map(|act| [(act, true), (act, false)]) {
        for polls in 0.. {
            let sides = with_changes(has_history).await;
            let is_done = interrupted(&sides, polls, act).await;
            for _ in 0..2 {
                drop(sides[0].memory.sync(&sides[1].memory, SyncOptions::new()).await.unwrap());
            }
            let [one, other] = [sides[0].texts().await, sides[1].texts().await];
            assert_eq!(one, other, "{act:?} {polls}");
            let lines = sides[0].lines().await;
            let expected = ["of one", "of other", "new"].into_iter().chain(act.filter(|_| !is_done).map(|_| "beside"));
            let lost: Vec<_> = expected.filter(|line| !lines.contains(*line)).collect();
            assert!(lost.is_empty(), "{act:?} after {polls}: lost {lost:?} of {one:?}");
            if is_done {
                assert!(polls > 20, "{polls}");
                break;
            }
        }
    }
}

#[test]
fn three_memories_converge_and_no_line_is_lost() {
    let steps = prop::collection::vec(step(), 10..=50);
    // On a disk, each change is flushed.
    let kinds = [Kind::InMemory, Kind::Bucket, Kind::Encrypted, Kind::Sqlite, Kind::Local];
    let kinds = prop::sample::select(by_tier(kinds[..3].to_vec(), kinds.to_vec()));
    let memories = prop::array::uniform3((kinds, any::<bool>()));
    let config = Config { cases: by_tier(60, 1_000), failure_persistence: None, ..Config::default() };
    let seed = [printed_seed().to_le_bytes(); 4].concat();
    let mut runner = TestRunner::new_with_rng(config, TestRng::from_seed(RngAlgorithm::ChaCha, &seed));
    let totals = Mutex::new(Totals::default());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    let run = |(steps, memories): (Vec<Step>, _)| {
        runtime.block_on(async {
            let mut world = World::new(memories).await;
            for step in &steps {
                world.perform(step).await;
            }
            world.converge().await;
            totals.lock().unwrap().add(&world.totals);
        });
        Ok(())
    };
    runner.run(&(steps, memories), run).unwrap();
    // Each kind of change happens.
    let Totals { merged, conflicts, renamed, removed, killed } = *totals.lock().unwrap();
    for (name, number) in
        [("merged", merged), ("conflicts", conflicts), ("renamed", renamed), ("removed", removed), ("killed", killed)]
    {
        println!("{name}: {number}");
        assert!(number > 0, "{name}");
    }
}
