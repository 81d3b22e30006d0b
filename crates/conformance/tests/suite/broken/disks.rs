//! Stores on the local disk with one fault each, for faults that need plain files or processes.

#![cfg(unix)]

use std::collections::BTreeMap;
use std::fs;
use std::io::Write as _;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use async_trait::async_trait;
use memory_tool_conformance::{BackendFixture, Capability, FixtureError, Suite};
use memory_tool_core::{
    Batch, BoxError, Change, Engine, ErrorKind, FileEntry, Listing, Node, ReadOptions, Stat, Store, StoreError,
    StoreExt, StorePath, StoredFile, Version,
};
use memory_tool_local::LocalStore;
use memory_tool_test_fixtures::directory_in_ram;
use tempfile::TempDir;
use tokio::time::sleep;

use super::SERVE;

faults! {
    AppliesChangeByChange, BreaksOldLocks, CachesByNumber, CachesFiles, DeletesFileByFile, DeletesRegularFilesOnly,
    EncodesNamesOnDisk, FailsOnForeignNames, FlushesNoDeletedDirectory, FlushesNoEndOfTexts, FlushesNoRelativeNames,
    FlushesOneDirectory, FollowsLinks, HidesUnlistedItems, KeepsDeletedTexts, LeavesAPartOnAFullDisk, LeavesFilesAround,
    LeavesStagedFiles, ListsLinks, LogsForEverybody, LosesFilesToAFailingDisk, MovesFileByFile, NeedsItsDirectory,
    NeverFlushes, OpensSpecialFiles, RefusesOlderStates, RemovesBeforeRenaming, ReplaysAtTheStart,
    SaysDoneOnAFailingDisk, SaysDoneOnAReadOnlyDisk, ShowsEmptyDirectories, SizesOf32Bits, SweepsAllAtTheStart,
    SweepsTmpAtTheStart, TrustsItsLease, ViewsInPieces, WidensModes, WritesRecordsLater, WritesThroughHardLinks,
}

pub(crate) fn all() -> Vec<(String, Suite)> {
    let suite = |fault| {
        let suite = Suite::for_store(Fixture { fault: Some(fault), program: "" });
        match fault {
            // It waits forever for the other end of a pipe.
            Fault::OpensSpecialFiles => suite.case_timeout(Duration::from_secs(20)),
            Fault::TrustsItsLease => suite.stop_for(LEASE * 3 / 2),
            _ => suite,
        }
    };
    Fault::ALL.iter().map(|&fault| (fault.name(), suite(fault))).collect()
}

pub(crate) fn without_fault() -> Suite {
    Suite::for_store(Fixture { fault: None, program: WITHOUT_FAULT })
}

const WITHOUT_FAULT: &str = "none";

/// A program that changes files in its working directory, by relative names, and flushes them.
const WORKS_IN_ITS_DIRECTORY: &str = "works-in-its-directory";

pub(crate) fn in_their_directories() -> Suite {
    Suite::for_store(Fixture { fault: None, program: WORKS_IN_ITS_DIRECTORY }).filter("power_loss.")
}

/// A program whose lock is a lease. It fails if the lease has ended.
const CHECKS_ITS_LEASE: &str = "checks-its-lease";
const LEASE: Duration = Duration::from_secs(2);

pub(crate) fn with_leases() -> Suite {
    let suite = Suite::for_store(Fixture { fault: None, program: CHECKS_ITS_LEASE });
    suite.filter("races.stopped-process").stop_for(LEASE * 3 / 2)
}

/// Files that every user may read, in a directory that only their owner may enter.
pub(crate) fn closed_by_their_directory() -> Suite {
    Suite::for_store(Fixture { fault: Some(Fault::WidensModes), program: "" }).filter("disk.umask")
}

/// Programs on a store that only one process can open. The second one keeps everything in memory until it ends.
const ONE_PROCESS: &str = "one-process";
pub(crate) const FORGETS_WHEN_KILLED: &str = "forgets-when-killed";

pub(crate) fn of_one_process(program: &'static str) -> Suite {
    Suite::for_store(Fixture { fault: None, program }).lacks(Capability::Concurrency, "it locks its directory")
}

pub(crate) fn without_concurrency() -> Suite {
    of_one_process(ONE_PROCESS)
}

/// Locks the directory if only one process can open the store.
fn lock_for(program: &str, directory: &Path) -> Result<Option<fs::File>, FixtureError> {
    if ![ONE_PROCESS, FORGETS_WHEN_KILLED].contains(&program) {
        return Ok(None);
    }
    let lock = fs::File::open(directory)?;
    // A child process that another case starts has a copy of the lock of a closed store until it runs its program.
    for _ in 0..10_000 {
        match lock.try_lock() {
            Err(fs::TryLockError::WouldBlock) => std::thread::sleep(Duration::from_millis(1)),
            locked => return locked.map(|()| Some(lock)).map_err(FixtureError::failed),
        }
    }
    Err(FixtureError::failed("another process has the store open"))
}

/// The flushes of a store that changes files itself.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Flushes {
    Nothing,
    OneDirectory,
    NoEndOfTexts,
    All,
}

impl Flushes {
    fn of(fault: Option<Fault>) -> Option<Self> {
        match fault? {
            Fault::NeverFlushes | Fault::FlushesNoRelativeNames => Some(Self::Nothing),
            Fault::FlushesOneDirectory => Some(Self::OneDirectory),
            Fault::FlushesNoEndOfTexts => Some(Self::NoEndOfTexts),
            Fault::RemovesBeforeRenaming
            | Fault::BreaksOldLocks
            | Fault::SweepsAllAtTheStart
            | Fault::TrustsItsLease => Some(Self::All),
            _ => None,
        }
    }
}

/// The tool that a separate program serves.
pub(crate) async fn tool(fault: &str, directory: &Path, options: &[String]) -> Engine<DiskStore> {
    let known = Fault::ALL.iter().copied().find(|known| known.name() == fault);
    let is_leftover = |file: &PathBuf| match known {
        Some(Fault::SweepsAllAtTheStart) => file.to_str().unwrap().contains("/.staged"),
        Some(Fault::SweepsTmpAtTheStart) => file.extension().is_some_and(|extension| extension == "tmp"),
        _ => false,
    };
    for leftover in DiskStore::walk(directory).iter().filter(|file| is_leftover(file)) {
        let _ = fs::remove_file(leftover);
    }
    let mut store = DiskStore::open(directory, known).await.unwrap();
    if known == Some(Fault::ReplaysAtTheStart) {
        store.replay().await;
    }
    store.only = lock_for(fault, directory).unwrap();
    if fault == WORKS_IN_ITS_DIRECTORY || known == Some(Fault::FlushesNoRelativeNames) {
        std::env::set_current_dir(directory).unwrap();
        store.base = ".".into();
        store.flushes = store.flushes.or(Some(Flushes::All));
    }
    if fault == CHECKS_ITS_LEASE {
        (store.flushes, store.lease, store.checks_its_lease) = (Some(Flushes::All), Some(LEASE), true);
    }
    let mut builder = Engine::builder(store);
    let mut options = options.iter().map(String::as_str);
    while let Some(option) = options.next() {
        builder = match option {
            "--create-overwrites" => builder.create_overwrites(true),
            "--max-view-chars" => match options.next().unwrap() {
                "none" => builder.max_view_characters(None),
                cap => builder.max_view_characters(cap.parse::<usize>().unwrap()),
            },
            other => panic!("unknown option {other}"),
        };
    }
    builder.build()
}

struct Fixture {
    fault: Option<Fault>,
    /// The name of a program without a fault.
    program: &'static str,
}

#[async_trait]
impl BackendFixture for Fixture {
    type Guard = TempDir;

    async fn fresh(&self) -> Result<(Arc<dyn Store>, TempDir), FixtureError> {
        let directory = directory_in_ram()?;
        Ok((self.reopen(&directory).await?, directory))
    }

    async fn reopen(&self, directory: &TempDir) -> Result<Arc<dyn Store>, FixtureError> {
        let only = lock_for(self.program, directory.path())?;
        Ok(Arc::new(DiskStore { only, ..DiskStore::open(directory.path(), self.fault).await? }))
    }

    fn program(&self, directory: &TempDir) -> Result<Command, FixtureError> {
        let mut command = Command::new(std::env::current_exe()?);
        command.args([SERVE, &self.fault.map_or(self.program.to_owned(), Fault::name)]).arg(directory.path());
        Ok(command)
    }

    fn plain_files(&self, directory: &TempDir) -> Result<PathBuf, FixtureError> {
        Ok(directory.path().join("memories"))
    }

    fn directory(&self, directory: &TempDir) -> Result<PathBuf, FixtureError> {
        Ok(directory.path().to_owned())
    }
}

#[derive(Debug)]
pub(crate) struct DiskStore {
    store: LocalStore,
    base: PathBuf,
    fault: Option<Fault>,
    flushes: Option<Flushes>,
    /// How long its lock is valid, if it ends.
    lease: Option<Duration>,
    checks_its_lease: bool,
    /// The lock while it is open, if only one process can open it.
    only: Option<fs::File>,
    /// The nodes that were read before, for [`Fault::CachesFiles`], by number of changes for [`Fault::CachesByNumber`].
    cache: Mutex<BTreeMap<(u64, StorePath), Node>>,
    /// The most changes that it found, for [`Fault::RefusesOlderStates`].
    most_changes: Mutex<u64>,
    /// Whether a change was made, for [`Fault::NeedsItsDirectory`].
    is_in_use: AtomicBool,
}

impl DiskStore {
    async fn open(directory: &Path, fault: Option<Fault>) -> Result<Self, FixtureError> {
        let store = LocalStore::open(directory).await.map_err(FixtureError::failed)?;
        Ok(Self {
            store,
            base: directory.to_owned(),
            fault,
            flushes: Flushes::of(fault),
            lease: match fault {
                Some(Fault::BreaksOldLocks) => Some(Duration::from_millis(500)),
                Some(Fault::TrustsItsLease) => Some(LEASE),
                _ => None,
            },
            checks_its_lease: false,
            only: None,
            cache: Mutex::default(),
            most_changes: Mutex::default(),
            is_in_use: AtomicBool::new(false),
        })
    }

    fn on_disk(&self, path: &StorePath) -> PathBuf {
        self.base.join(path.as_str().trim_start_matches('/'))
    }

    fn has_other_names(&self, path: &StorePath) -> bool {
        fs::symlink_metadata(self.on_disk(path)).is_ok_and(|file| file.is_file() && file.nlink() > 1)
    }

    /// All items under a directory except directories.
    fn walk(directory: &Path) -> Vec<PathBuf> {
        let entries = fs::read_dir(directory).into_iter().flatten().flatten();
        let found = entries.map(|entry| match entry.file_type() {
            Ok(kind) if kind.is_dir() => Self::walk(&entry.path()),
            _ => vec![entry.path()],
        });
        found.flatten().collect()
    }

    fn links(&self, directory: &StorePath) -> Vec<FileEntry> {
        let links = Self::walk(&self.on_disk(directory)).into_iter().filter(|path| path.is_symlink());
        let entry = |link: PathBuf| {
            let path = format!("/{}", link.strip_prefix(&self.base).ok()?.to_str()?);
            Some(FileEntry::new(path.parse().ok()?, 0))
        };
        links.filter_map(entry).collect()
    }

    fn is_behind_a_link(&self, path: &StorePath) -> bool {
        let steps = self.on_disk(path);
        steps.ancestors().take_while(|step| **step != *self.base).any(Path::is_symlink)
    }

    /// Whether this is a directory with files, and without links and special files.
    fn has_only_regular_files(&self, directory: &StorePath) -> bool {
        let files = Self::walk(&self.on_disk(directory));
        let is_regular = |file: &PathBuf| !file.is_symlink() && file.is_file();
        !files.is_empty() && files.iter().all(is_regular) && !self.is_behind_a_link(directory)
    }

    /// Whether a file under a directory has a name that no path has.
    fn has_foreign_names(&self, directory: &StorePath) -> bool {
        let is_foreign = |file: &PathBuf| {
            let path = file.strip_prefix(&self.base).ok().and_then(Path::to_str);
            path.is_none_or(|path| format!("/{path}").parse::<StorePath>().is_err())
        };
        Self::walk(&self.on_disk(directory)).iter().any(is_foreign)
    }

    async fn remove_file_by_file(&self, path: &StorePath) -> Result<(), StoreError> {
        for entry in self.store.list(path).await? {
            self.store.remove(entry.path).await?;
            sleep(Duration::from_micros(300)).await;
        }
        Ok(())
    }

    /// Applies the fault to a failed write: hides the failure, or spoils the file.
    fn after_failure(&self, outcome: Result<(), StoreError>, spoil: impl FnOnce()) -> Result<(), StoreError> {
        let Err(StoreError::Failure { kind, source, .. }) = &outcome else { return outcome };
        match (self.fault, kind) {
            (Some(Fault::SaysDoneOnAReadOnlyDisk), ErrorKind::AccessDenied)
            | (Some(Fault::SaysDoneOnAFailingDisk), ErrorKind::Other) => return Ok(()),
            (Some(Fault::LeavesAPartOnAFullDisk), ErrorKind::Full) => spoil(),
            (Some(Fault::LosesFilesToAFailingDisk), ErrorKind::Other) if is_broken_disk(source) => spoil(),
            _ => {}
        }
        outcome
    }

    /// Writes what programs were about to write when they were killed.
    async fn replay(&self) {
        for intent in Self::walk(&self.base).iter().filter(|file| file.to_str().unwrap().contains("/.intent-")) {
            let text = fs::read_to_string(intent).unwrap_or_default();
            if let Some((path, text)) = text.split_once('\n') {
                let _ = self.store.write(path, text).await; // fails if a directory is in the way
            }
            let _ = fs::remove_file(intent);
        }
    }

    /// Writes a file outside the memory that only its owner can read.
    fn write_private(&self, file: &Path, content: &[u8]) -> std::io::Result<()> {
        let mut options = fs::OpenOptions::new();
        options.create(true).append(true).mode(0o600).open(file)?.write_all(content)
    }

    /// The file that has one byte for each change.
    fn changes(&self) -> PathBuf {
        self.base.join(".changes")
    }

    /// The number of changes.
    fn number(&self) -> u64 {
        fs::metadata(self.changes()).map_or(0, |file| file.len())
    }

    fn refuse_older_state(&self) -> Result<(), StoreError> {
        let mut most = self.most_changes.lock().unwrap();
        let number = self.number();
        *most = number.max(*most);
        if number == *most {
            return Ok(());
        }
        Err(StoreError::failure(ErrorKind::Damaged, "reading", "the memory went back to an older state"))
    }

    /// Applies the changes one after another, or the changes of records after the others.
    async fn apply_in_parts(&self, batch: Batch) -> Result<(), StoreError> {
        batch.validate()?;
        if self.fault == Some(Fault::WritesRecordsLater) {
            self.store.apply(batch.clone().retain(|change| !change.is_of_record())).await?;
            let later = batch.into_changes().into_iter().filter(Change::is_of_record);
            return self.store.apply(later.fold(Batch::new(), Batch::change)).await;
        }
        let mut first = batch.clone().retain(|_| false);
        for change in batch.into_changes() {
            self.store.apply(first.change(change)).await?;
            first = Batch::new();
        }
        Ok(())
    }

    /// Changes a file like the store, but does not flush all of it. The lock is the only one between such changes.
    async fn change_by_hand(&self, batch: Batch, change: &Change, flushes: Flushes) -> Result<(), StoreError> {
        let Ok(lock) = self.lock().await else { return self.store.apply(batch).await };
        let inode = |file: std::io::Result<fs::Metadata>| file.map(|file| file.ino()).ok();
        let is_lost = || inode(fs::metadata(self.base.join(".lock"))) != inode(lock.metadata());
        let checks = batch.preconditions().iter();
        let checks = checks.fold(Batch::new(), |checks, (path, held)| checks.require(path.clone(), held.clone()));
        self.store.apply(checks).await?;
        let (from, to) = match change {
            Change::Write { path, .. } => (None, Some(path)),
            Change::Remove { path } => (Some(path), None),
            Change::Rename { from, to } => (Some(from), Some(to)),
        };
        let is_file = |path: &StorePath| self.on_disk(path).is_file();
        let mut is_simple = to.is_none_or(|to| !to.parents().any(|above| is_file(&above)));
        for path in [from, to].into_iter().flatten() {
            let stat = self.store.read(path).await.map(|node| node.stat());
            is_simple &= match stat {
                Ok(Stat::File(_)) => from == Some(path) || from.is_none(),
                Ok(Stat::Absent) => from != Some(path) && !self.on_disk(path).exists(),
                _ => false,
            };
        }
        let changed = match change {
            _ if !is_simple => return self.store.apply(batch).await,
            Change::Write { path, content, .. } => {
                let staged = self.stage(content, flushes);
                if self.checks_its_lease && is_lost() {
                    return Err(StoreError::failure(ErrorKind::Busy, "writing a file", "the lease has ended"));
                }
                staged.and_then(|()| self.move_file(&self.staged(), &self.on_disk(path)))
            }
            Change::Remove { path } => fs::remove_file(self.on_disk(path)),
            Change::Rename { from, to } => self.move_file(&self.on_disk(from), &self.on_disk(to)),
        };
        let _ = fs::remove_file(self.staged());
        for above in from.into_iter().flat_map(StorePath::parents).filter(|above| !above.is_root()) {
            let _ = fs::remove_dir(self.on_disk(&above)); // fails if it is not empty
        }
        if changed.is_err() && self.fault == Some(Fault::SweepsAllAtTheStart) {
            return Err(StoreError::failure(ErrorKind::Other, "writing a file", "the staged file is missing"));
        }
        if changed.is_err() {
            return self.store.apply(batch).await;
        }
        let from = from.filter(|_| flushes != Flushes::OneDirectory);
        for path in [from, to].into_iter().flatten().filter(|_| flushes != Flushes::Nothing) {
            let on_disk = self.on_disk(path);
            for above in on_disk.ancestors().skip(1).take_while(|above| above.starts_with(&self.base)) {
                let _ = fs::File::open(above).and_then(|directory| directory.sync_all());
            }
        }
        Ok(())
    }

    /// The file for a new content.
    fn staged(&self) -> PathBuf {
        self.base.join(format!(".staged-{}", std::process::id()))
    }

    /// Waits for the lock, which ends when the returned file is dropped.
    async fn lock(&self) -> std::io::Result<fs::File> {
        let path = self.base.join(".lock");
        loop {
            let lock = fs::OpenOptions::new().create(true).append(true).mode(0o600).open(&path)?;
            if lock.try_lock().is_ok() {
                lock.set_modified(SystemTime::now())?;
                return Ok(lock);
            }
            let age = lock.metadata()?.modified()?.elapsed().unwrap_or_default();
            if self.lease.is_some_and(|lease| age > lease) {
                let _ = fs::remove_file(&path);
            }
            sleep(Duration::from_micros(100)).await;
        }
    }

    /// Reads a file in pieces, each under its name.
    async fn read_in_pieces(&self, path: &StorePath) -> Vec<u8> {
        const PIECE: usize = 10_000;
        let mut content = Vec::new();
        loop {
            let now = fs::read(self.on_disk(path)).unwrap_or_default();
            content.extend(now.iter().skip(content.len()).take(PIECE));
            if content.len() >= now.len() {
                return content;
            }
            sleep(Duration::from_micros(300)).await;
        }
    }

    /// Writes a content in two parts.
    fn stage(&self, content: &[u8], flushes: Flushes) -> std::io::Result<()> {
        let (start, end) = content.split_at(content.len() / 2);
        self.write_private(&self.staged(), start)?;
        let staged = fs::File::open(self.staged())?;
        if flushes == Flushes::NoEndOfTexts && content.len() > 100_000 {
            staged.sync_all()?;
            return self.write_private(&self.staged(), end);
        }
        self.write_private(&self.staged(), end)?;
        if flushes == Flushes::Nothing { Ok(()) } else { staged.sync_all() }
    }

    fn move_file(&self, from: &Path, to: &Path) -> std::io::Result<()> {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(to.parent().unwrap_or(&self.base))?;
        if self.fault == Some(Fault::RemovesBeforeRenaming) {
            let _ = fs::remove_file(to);
        }
        fs::rename(from, to)
    }

    async fn move_file_by_file(&self, from: &StorePath, to: &StorePath) -> Result<(), StoreError> {
        for entry in self.store.list(from).await? {
            let moved = entry.path.replace_prefix(from, to)?;
            self.store.rename(entry.path, moved).await?;
            sleep(Duration::from_micros(300)).await;
        }
        Ok(())
    }
}

#[async_trait]
impl Store for DiskStore {
    async fn read_opts(&self, path: &StorePath, options: ReadOptions) -> Result<Node, StoreError> {
        if path.is_record() {
            return self.store.read_opts(path, options).await;
        }
        let has = |fault| self.fault == Some(fault);
        let is_lost = || self.is_in_use.load(Ordering::SeqCst) && !self.base.join("memories").exists();
        if has(Fault::NeedsItsDirectory) && is_lost() || has(Fault::FailsOnForeignNames) && self.has_foreign_names(path)
        {
            return Err(StoreError::failure(ErrorKind::Other, "reading", "it was not expected"));
        }
        if has(Fault::EncodesNamesOnDisk) {
            let node = self.store.read_opts(&encoded(path)?, options).await?;
            let Node::Directory(mut listing) = node else { return Ok(node) };
            for file in &mut listing.files {
                file.path = decoded(&file.path)?;
            }
            return Ok(Node::Directory(listing));
        }
        // Only reads without preconditions are cached, because the fault concerns sessions of the tool.
        let is_cached = self.fault == Some(Fault::CachesFiles) && options.preconditions().is_empty();
        let key = (self.number(), path.clone());
        if is_cached && let Some(node) = self.cache.lock().unwrap().get(&key) {
            return Ok(node.clone());
        }
        self.refuse_older_state()?;
        match self.store.read_opts(path, options).await {
            Ok(Node::File(file)) if has(Fault::ViewsInPieces) && file.content.len() > 100_000 => {
                let content = self.read_in_pieces(path).await;
                Ok(Node::File(StoredFile::new(content, file.version)))
            }
            Ok(Node::File(file)) => {
                let mut cache = self.cache.lock().unwrap();
                if has(Fault::CachesByNumber)
                    && let Some(Node::File(known)) = cache.get(&key)
                    && known.content.len() == file.content.len()
                {
                    return Ok(Node::File(known.clone()));
                }
                cache.insert(key, Node::File(file.clone()));
                Ok(Node::File(file))
            }
            Ok(Node::Directory(mut listing)) => {
                if self.fault == Some(Fault::HidesUnlistedItems) {
                    listing.unlisted.clear();
                }
                let files = &mut listing.files;
                if self.fault == Some(Fault::ListsLinks) {
                    files.extend(self.links(path));
                }
                if self.fault == Some(Fault::SizesOf32Bits) {
                    files.iter_mut().for_each(|file| file.size = u64::from(file.size as u32));
                }
                Ok(Node::Directory(listing))
            }
            Ok(Node::Absent) if has(Fault::ShowsEmptyDirectories) && self.on_disk(path).is_dir() => {
                Ok(Node::Directory(Listing::default()))
            }
            Err(StoreError::SymbolicLink { .. }) if self.fault == Some(Fault::FollowsLinks) => {
                Ok(match fs::read(self.on_disk(path)) {
                    Ok(content) => Node::File(StoredFile::new(content, Version::new(Vec::new()))),
                    Err(_) => Node::Absent,
                })
            }
            Err(StoreError::NotARegularFile { .. }) if self.fault == Some(Fault::OpensSpecialFiles) => {
                sleep(Duration::from_secs(3600)).await; // like opening a pipe without a writer
                Ok(Node::Absent)
            }
            outcome => outcome,
        }
    }

    async fn apply(&self, batch: Batch) -> Result<(), StoreError> {
        self.cache.lock().unwrap().clear();
        self.is_in_use.store(true, Ordering::SeqCst);
        self.refuse_older_state()?;
        match (self.fault, batch.changes()) {
            (Some(Fault::AppliesChangeByChange | Fault::WritesRecordsLater), [_, _, ..]) => {
                self.apply_in_parts(batch).await
            }
            (Some(Fault::CachesByNumber | Fault::RefusesOlderStates), [_, ..]) => {
                self.store.apply(batch).await?;
                let _ = self.write_private(&self.changes(), b"x");
                Ok(())
            }
            (Some(Fault::EncodesNamesOnDisk), _) => self.store.apply(batch.try_map(encoded)?).await,
            // The faults concern only files.
            (_, changes) if changes.iter().any(Change::is_of_record) => self.store.apply(batch).await,
            (Some(Fault::DeletesFileByFile), [Change::Remove { path }])
                if self.store.read(path).await?.stat() == Stat::Directory =>
            {
                self.remove_file_by_file(path).await
            }
            (Some(Fault::DeletesRegularFilesOnly), [Change::Remove { path }])
                if Self::walk(&self.on_disk(path)).iter().any(|item| item.is_symlink() || !item.is_file()) =>
            {
                for file in Self::walk(&self.on_disk(path)).iter().filter(|item| !item.is_symlink() && item.is_file()) {
                    let _ = fs::remove_file(file);
                }
                Ok(())
            }
            (Some(Fault::KeepsDeletedTexts), [Change::Write { path, .. } | Change::Remove { path }]) => {
                let old = Self::walk(&self.on_disk(path)).into_iter().chain([self.on_disk(path)]);
                for file in old.filter(|file| !file.is_symlink() && file.is_file()) {
                    let _ = self.write_private(&self.base.join(".trash"), &fs::read(file).unwrap_or_default());
                }
                self.store.apply(batch).await
            }
            (Some(Fault::LeavesStagedFiles), [Change::Write { content, .. }]) if content.len() > 100_000 => {
                let name = format!(".staged-{}", std::process::id());
                let _ = self.write_private(&self.base.join(&name), content);
                let outcome = self.store.apply(batch).await;
                let _ = fs::remove_file(self.base.join(name));
                outcome
            }
            (Some(Fault::ReplaysAtTheStart), [Change::Write { path, content, .. }]) => {
                let intent = self.base.join(format!(".intent-{}", std::process::id()));
                let _ = self.write_private(&intent, &[path.as_str().as_bytes(), b"\n", content].concat());
                let outcome = self.store.apply(batch).await;
                let _ = fs::remove_file(intent);
                outcome
            }
            (Some(Fault::FlushesNoDeletedDirectory), [Change::Remove { path }])
                if !path.is_root() && batch.preconditions().is_empty() && self.has_only_regular_files(path) =>
            {
                let trash = self.base.join(format!(".deleted-{}", std::process::id()));
                if fs::rename(self.on_disk(path), &trash).is_err() {
                    return self.store.apply(batch).await;
                }
                let _ = fs::remove_dir_all(&trash);
                for above in path.parents().filter(|above| !above.is_root()) {
                    let _ = fs::remove_dir(self.on_disk(&above)); // fails if it is not empty
                }
                Ok(())
            }
            // Only of commands, because changes by hand do not keep the times of files.
            (_, [change]) if self.flushes.is_some() && batch.quotas().is_empty() && batch.command().is_some() => {
                let change = change.clone();
                self.change_by_hand(batch, &change, self.flushes.unwrap()).await
            }
            (Some(Fault::FollowsLinks), [Change::Write { path, content, .. }]) if self.is_behind_a_link(path) => {
                let _ = fs::write(self.on_disk(path), &**content);
                Ok(())
            }
            (Some(Fault::MovesFileByFile), [Change::Rename { from, to }])
                if self.store.read(from).await?.stat() == Stat::Directory
                    && self.store.read(to).await?.stat() == Stat::Absent =>
            {
                self.move_file_by_file(from, to).await
            }
            (Some(Fault::WritesThroughHardLinks), [Change::Write { path, content, .. }])
                if self.has_other_names(path) =>
            {
                let _ = fs::write(self.on_disk(path), &**content);
                Ok(())
            }
            (Some(Fault::LeavesFilesAround), [Change::Write { path, .. }]) if self.on_disk(path).is_file() => {
                self.store.apply(batch).await?;
                let file = self.base.join("memories/.tmp-1");
                let _ = fs::write(&file, "half a file");
                let _ = fs::set_permissions(&file, fs::Permissions::from_mode(0o600));
                Ok(())
            }
            (Some(Fault::WidensModes), _) => {
                self.store.apply(batch).await?;
                for file in Self::walk(&self.base.join("memories")).iter().filter(|file| file.is_file()) {
                    let _ = fs::set_permissions(file, fs::Permissions::from_mode(0o644));
                }
                Ok(())
            }
            (Some(Fault::LogsForEverybody), _) => {
                let _ = fs::write(self.base.join("log"), format!("{batch:?}"));
                self.store.apply(batch).await
            }
            (_, [Change::Write { path, content, .. }]) => {
                let (path, part) = (self.on_disk(path), content[..content.len() / 4].to_vec());
                self.after_failure(self.store.apply(batch).await, || match self.fault {
                    Some(Fault::LeavesAPartOnAFullDisk) => drop(fs::write(&path, &part)),
                    _ => drop(fs::remove_file(&path)),
                })
            }
            _ => self.after_failure(self.store.apply(batch).await, || ()),
        }
    }
}

/// The path with each `%` encoded.
fn encoded(path: &StorePath) -> Result<StorePath, StoreError> {
    Ok(path.as_str().replace('%', "%25").parse()?)
}

fn decoded(path: &StorePath) -> Result<StorePath, StoreError> {
    Ok(path.as_str().replace("%25", "%").parse()?)
}

/// Whether the error is `EIO`.
fn is_broken_disk(error: &BoxError) -> bool {
    error.downcast_ref::<std::io::Error>().is_some_and(|error| error.raw_os_error() == Some(5))
}
