//! Stores that keep their files in a map, with one fault each.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, SystemTime};

use async_trait::async_trait;
use memory_tool_conformance::{BackendFixture, FixtureError, Suite};
use memory_tool_core::{
    Batch, Change, ErrorKind, FileEntry, FileTimes, Listing, Node, Precondition, Quota, QuotaKind, ReadOptions, Stat,
    Store, StoreError, StorePath, StoreState, StoredFile, Usage, Version,
};
use tokio::time::sleep;

/// The pause inside an operation that should be atomic, long enough that other tasks come between in every race.
const WINDOW: Duration = Duration::from_millis(1);

faults! {
    AbsenceMeansNoFile, AppliesInvalidBatches, AppliesOneChange, AsksForRecordsLast, ApplyStopsHalfWay, CachesReads,
    ChangesComeFirst, ChecksThenActs, ChecksThenReads, ClearsRecordsWithFiles, CountsNoneReplaced, CountsRecords,
    CountsTheWholeStore, CountsThenWrites, CreatedWithEachWrite, CutsAtNul, CutsRecordsAtNul, DatesCopiesNow,
    DatesFromTheEpoch, DecodesNames, DeletesNeighbors, DeletesNothing, DirectoriesByPrefix, EmptiesNoEmptyStore,
    FinishesRefusedBatches, FoldsCase, FoldsLigatures, ForgetsWhenReopened, HidesDotFiles, IgnoresQuotas,
    IgnoresRecordPreconditions, IgnoresOtherPreconditions, KeepsDirectoriesMovedOutOf, KeepsEmptyDirectories,
    KeepsRecordsAsFiles, KeepsRemovedRecords, LetsFilesContainFiles, ListsByPattern, ListsByPrefix, ListsHalfThenHalf,
    ListsOneLevelOfRecords, ListsOnePage, ListsRecords, ListsRecordsByPrefix, LastPreconditionFirst,
    LosesTheEndOfFullBlocks, LosesUpdates, MeasuresNoDepth, MovesHalfADirectory, NamesRecordsByTheirEnd,
    NamesRecordsWithDashes, OutdatedFilesComeFirst, QuotasComeFirst, ReadsUnderNoPrecondition, RefusesAllThatIsOver,
    RefusesAnEmptyBatch,
    RefusesLargeFiles, RefusesPathsMovedAway, RefusesRenamesIntoDirectories, RefusesRenamesCloseBy, RemovesByPattern,
    RemovesByPrefix, RemovesMissingRecords, RemovesOneLevel, RemovesWhatIsVisible, RenameOverwrites, RenamesByPrefix,
    RenamesOneLevel, RenamesWhatIsVisible, RenamesNothing, ReplacesBadBytes, ReplacesEveryPrefix, RestartsVersions,
    RestartsVersionsOfRecords, RewritesLineEnds, ShowsHalfABatch, SizesInCharacters, StripsByteOrderMark, TearsWrites,
    TrimsContent, TrimsNames, VersionByTheClock, VersionIsLength, VersionOfTheEnds, VersionsOf8Bits, VersionsOf10Bits,
    WritesOverDirectories, WritesRecordsFirst,
}

pub(crate) fn all() -> Vec<(String, Suite)> {
    Fault::ALL.iter().map(|&fault| (fault.name(), Suite::for_store(Fixture { fault: Some(fault) }))).collect()
}

pub(crate) fn without_fault() -> Suite {
    Suite::for_store(Fixture { fault: None })
}

struct Fixture {
    fault: Option<Fault>,
}

#[async_trait]
impl BackendFixture for Fixture {
    type Guard = Arc<Mutex<Files>>;

    async fn fresh(&self) -> Result<(Arc<dyn Store>, Self::Guard), FixtureError> {
        let files = Arc::<Mutex<Files>>::default();
        Ok((Arc::new(MapStore::new(Arc::clone(&files), self.fault)), files))
    }

    async fn reopen(&self, files: &Self::Guard) -> Result<Arc<dyn Store>, FixtureError> {
        let forgets = self.fault == Some(Fault::ForgetsWhenReopened);
        let files = if forgets { Arc::default() } else { Arc::clone(files) };
        Ok(Arc::new(MapStore::new(files, self.fault)))
    }
}

#[derive(Clone, Debug, Default)]
struct Files {
    files: BTreeMap<StorePath, File>,
    /// The number of writes, for versions.
    writes: u64,
    /// Directories that remained after their last file was removed or moved.
    leftover: BTreeSet<StorePath>,
    /// The paths that something was renamed from.
    moved_away: BTreeSet<StorePath>,
    /// The changes of the last refused batch, without its last one.
    refused: Vec<Change>,
}

#[derive(Clone, Debug)]
struct File {
    content: Vec<u8>,
    /// The number of the write that stored it.
    write: u64,
    created: SystemTime,
    modified: SystemTime,
}

#[derive(Debug)]
struct MapStore {
    files: Arc<Mutex<Files>>,
    fault: Option<Fault>,
    cache: Mutex<BTreeMap<StorePath, Node>>,
}

impl MapStore {
    fn new(files: Arc<Mutex<Files>>, fault: Option<Fault>) -> Self {
        Self { files, fault, cache: Mutex::default() }
    }

    fn has(&self, fault: Fault) -> bool {
        self.fault == Some(fault)
    }

    fn files(&self) -> MutexGuard<'_, Files> {
        self.files.lock().unwrap()
    }

    fn key(&self, path: &StorePath) -> StorePath {
        let is_renamed = path.is_record() && !path.is_root();
        match self.fault {
            Some(Fault::NamesRecordsByTheirEnd) if is_renamed => {
                return StorePath::records().join(path.file_name().unwrap()).unwrap();
            }
            Some(Fault::NamesRecordsWithDashes) if is_renamed => {
                return StorePath::records().join(&path.segments().collect::<Vec<_>>().join("-")).unwrap();
            }
            _ => {}
        }
        let root = if self.has(Fault::KeepsRecordsAsFiles) { StorePath::memories() } else { path.root_above() };
        let segments = path.segments().map(|segment| match self.fault {
            Some(Fault::FoldsCase) => segment.to_lowercase(),
            Some(Fault::FoldsLigatures) => segment.replace('ﬁ', "fi").replace('ß', "ss"),
            Some(Fault::TrimsNames) => segment.trim_end_matches([' ', '.']).to_owned(),
            Some(Fault::DecodesNames) => segment.replace("%20", " ").replace("%41", "A").replace("%25", "%"),
            _ => segment.to_owned(),
        });
        let key = segments.fold(root.to_string(), |key, segment| format!("{key}/{segment}"));
        key.parse().unwrap_or_else(|_| path.clone())
    }

    fn kept(&self, path: &StorePath, content: Vec<u8>) -> Vec<u8> {
        let text = String::from_utf8(content.clone());
        let cuts = self.has(if path.is_record() { Fault::CutsRecordsAtNul } else { Fault::CutsAtNul });
        match (self.fault, text) {
            (Some(Fault::LosesTheEndOfFullBlocks), _)
                if !content.is_empty() && content.len().is_multiple_of(1 << 16) =>
            {
                content[..content.len() - 1].to_vec()
            }
            _ if cuts => content.split(|&byte| byte <= 1).next().unwrap_or_default().to_vec(),
            (Some(Fault::ReplacesBadBytes), Err(_)) => String::from_utf8_lossy(&content).into_owned().into_bytes(),
            (Some(Fault::RewritesLineEnds), Ok(text)) => text.replace("\r\n", "\n").into_bytes(),
            (Some(Fault::StripsByteOrderMark), Ok(text)) => text.trim_start_matches('\u{feff}').into(),
            (Some(Fault::TrimsContent), Ok(text)) => text.trim_end_matches([' ', '\t']).into(),
            _ => content,
        }
    }

    fn version(&self, content: &[u8], write: u64) -> Version {
        match self.fault {
            Some(Fault::VersionIsLength) => Version::new((content.len() as u64).to_be_bytes()),
            Some(Fault::VersionByTheClock) => Version::new(0_u64.to_be_bytes()), // the clock never ticks during a case
            Some(Fault::VersionOfTheEnds) => {
                let ends = [&content[..content.len().min(4_096)], &content[content.len().saturating_sub(4_096)..]];
                Version::new([&content.len().to_be_bytes()[..], &ends.concat()].concat())
            }
            Some(Fault::VersionsOf8Bits) => Version::new((write % (1 << 8)).to_be_bytes()),
            Some(Fault::VersionsOf10Bits) => Version::new((write % (1 << 10)).to_be_bytes()),
            _ => Version::new(write.to_be_bytes()),
        }
    }

    fn node(&self, files: &Files, path: &StorePath) -> Node {
        match files.files.get(path) {
            Some(file) => Node::File(StoredFile::new(file.content.clone(), self.version(&file.content, file.write))),
            None if path.is_root() || files.files.keys().any(|file| file.is_under(path)) => {
                Node::Directory(self.entries(files, path).into())
            }
            None if files.leftover.contains(path) => Node::Directory(Listing::default()),
            None => Node::Absent,
        }
    }

    fn entries(&self, files: &Files, directory: &StorePath) -> Vec<FileEntry> {
        let is_under = |file: &StorePath| match self.fault {
            Some(Fault::ListsByPrefix) => file != directory && file.as_str().starts_with(directory.as_str()),
            Some(Fault::ListsByPattern) => is_like(file.as_str(), &format!("{directory}/%")),
            Some(Fault::HidesDotFiles) => {
                file.is_under(directory) && !file.file_name().is_some_and(|name| name.starts_with('.'))
            }
            Some(Fault::ListsOneLevelOfRecords) if directory.is_record() => file.parent().as_ref() == Some(directory),
            Some(Fault::ListsRecords) if *directory == StorePath::memories() => file != directory,
            Some(Fault::ListsRecordsByPrefix) if directory.is_record() => {
                file != directory && file.as_str().starts_with(directory.as_str())
            }
            _ => file.is_under(directory),
        };
        let below = files.files.iter().filter(|(path, _)| is_under(path));
        let mut entries: Vec<_> = below.map(|(path, file)| self.entry(path, file)).collect();
        entries.truncate(if self.has(Fault::ListsOnePage) { 1_000 } else { usize::MAX });
        entries
    }

    fn entry(&self, path: &StorePath, file: &File) -> FileEntry {
        let (created, modified) = match self.fault {
            Some(Fault::DatesFromTheEpoch) => (SystemTime::UNIX_EPOCH, SystemTime::UNIX_EPOCH),
            Some(Fault::CreatedWithEachWrite) => (file.modified, file.modified),
            _ => (file.created, file.modified),
        };
        FileEntry::new(path.clone(), self.size(&file.content)).with_created(created).with_modified(modified)
    }

    fn refuse_invalid(&self, batch: &Batch) -> Result<(), StoreError> {
        if !self.has(Fault::AppliesInvalidBatches) {
            batch.validate()?;
        }
        Ok(())
    }

    fn check(&self, files: &Files, batch: &Batch) -> Result<(), StoreError> {
        if self.has(Fault::QuotasComeFirst) {
            self.check_quotas(files, batch)?;
        }
        self.check_preconditions(files, batch)?;
        self.check_quotas(files, batch)
    }

    fn check_preconditions(&self, files: &Files, batch: &Batch) -> Result<(), StoreError> {
        let changed = |path: &StorePath| {
            batch.changes().is_empty()
                || batch.changes().iter().any(|change| match change {
                    Change::Write { path: changed, .. } | Change::Remove { path: changed } => changed == path,
                    Change::Rename { from, to } => from == path || to == path,
                })
        };
        let mut preconditions: Vec<_> = batch.preconditions().iter().collect();
        if self.has(Fault::LastPreconditionFirst) {
            preconditions.reverse();
        }
        if self.has(Fault::AsksForRecordsLast) {
            preconditions.sort_by_key(|(path, _)| path.is_record());
        }
        if self.has(Fault::OutdatedFilesComeFirst) {
            preconditions
                .sort_by_key(|(path, required)| !(changed(path) && matches!(required, Precondition::Version(_))));
        }
        for (path, precondition) in preconditions {
            let is_ignored = match precondition {
                _ if self.has(Fault::IgnoresRecordPreconditions) => path.is_record(),
                Precondition::Version(_) if self.has(Fault::LosesUpdates) => true,
                Precondition::Absent if self.has(Fault::AbsenceMeansNoFile) => {
                    !files.files.contains_key(&self.key(path))
                }
                _ => self.has(Fault::IgnoresOtherPreconditions) && !changed(path),
            };
            if !is_ignored {
                precondition.check(path, &self.node(files, &self.key(path)).stat())?;
            }
        }
        Ok(())
    }

    fn check_quotas(&self, files: &Files, batch: &Batch) -> Result<(), StoreError> {
        let mut quotas: Vec<_> = batch.quotas().iter().collect();
        if self.has(Fault::LastPreconditionFirst) {
            quotas.reverse();
        }
        for (directory, quota) in quotas {
            self.check_quota(files, directory, *quota, batch)?;
        }
        Ok(())
    }

    fn check_quota(&self, files: &Files, directory: &StorePath, quota: Quota, batch: &Batch) -> Result<(), StoreError> {
        if self.has(Fault::IgnoresQuotas) {
            return Ok(());
        }
        let counted = Counted { store: self, files, directory };
        let (held, most) = (counted.usage(directory)?.files, quota.files.unwrap_or(u64::MAX));
        if self.has(Fault::RefusesAllThatIsOver) && held > most {
            let path = directory.clone();
            return Err(StoreError::OverQuota {
                path,
                kind: QuotaKind::Files,
                limit: most,
                requested: held,
                remaining: 0,
            });
        }
        let limited = Batch::new().limit(directory.clone(), quota);
        let kept = batch.changes().iter().cloned().map(|change| match change {
            Change::Write { path, content, times } => {
                Change::Write { path, content: vec![0; self.size(&content) as usize].into(), times }
            }
            other => other,
        });
        kept.fold(limited, Batch::change).check(&counted)
    }

    fn size(&self, content: &[u8]) -> u64 {
        match self.fault {
            Some(Fault::SizesInCharacters) => String::from_utf8_lossy(content).chars().count() as u64,
            _ => content.len() as u64,
        }
    }

    fn change(&self, files: &mut Files, change: Change) -> Result<(), StoreError> {
        match change {
            Change::Write { path, content, times } => self.write(files, self.key(&path), content.to_vec(), times),
            Change::Remove { path } => self.remove(files, &self.key(&path)),
            Change::Rename { from, to } => self.rename(files, &self.key(&from), &self.key(&to)),
        }
    }

    fn write(&self, files: &mut Files, path: StorePath, content: Vec<u8>, times: FileTimes) -> Result<(), StoreError> {
        self.refuse_file_above(files, &path)?;
        if self.node(files, &path).stat() == Stat::Directory && !self.has(Fault::WritesOverDirectories) {
            return Err(StoreError::AlreadyExists { path });
        }
        if self.has(Fault::RefusesLargeFiles) && content.len() > 4_500_000 {
            return Err(StoreError::failure(ErrorKind::Full, "writing a file", "the limit is 4,500,000 bytes"));
        }
        files.writes += 1;
        files.leftover.remove(&path);
        let (before, now) = (files.files.get(&path), SystemTime::now());
        let times = if self.has(Fault::DatesCopiesNow) { FileTimes::new() } else { times };
        let modified = times.modified.unwrap_or(now);
        let created = times.created.or(before.map(|file| file.created)).unwrap_or(modified).min(modified);
        let write = match before.map_or(0, |file| file.write) {
            before if self.has(Fault::RestartsVersions) => before + 1,
            before if self.has(Fault::RestartsVersionsOfRecords) && path.is_record() => before + 1,
            _ => files.writes,
        };
        let content = self.kept(&path, content);
        files.files.insert(path, File { content, write, created, modified });
        Ok(())
    }

    fn remove(&self, files: &mut Files, path: &StorePath) -> Result<(), StoreError> {
        let is_meant = |file: &StorePath| match self.fault {
            Some(Fault::ClearsRecordsWithFiles) if path.is_root() => true,
            Some(Fault::RemovesByPrefix) => file.as_str().starts_with(path.as_str()),
            Some(Fault::RemovesByPattern) => file == path || is_like(file.as_str(), &format!("{path}/%")),
            Some(Fault::RemovesOneLevel) => file == path || file.parent().as_ref() == Some(path),
            Some(Fault::RemovesWhatIsVisible) => file == path || file.is_under(path) && !is_hidden(file),
            Some(Fault::DeletesNeighbors) if files.files.contains_key(path) => {
                file == path || file.parent() == path.parent().filter(|parent| !parent.is_root())
            }
            _ => file == path || file.is_under(path),
        };
        let doomed: Vec<_> = files.files.keys().filter(|file| is_meant(file)).cloned().collect();
        let is_needless = match self.fault {
            Some(Fault::EmptiesNoEmptyStore) => false,
            Some(Fault::DeletesNothing) => true,
            Some(Fault::RemovesMissingRecords) if path.is_record() => true,
            _ => path.is_root(),
        };
        if doomed.is_empty() && !is_needless {
            return Err(StoreError::NotFound { path: path.clone() });
        }
        if self.has(Fault::KeepsRemovedRecords) && path.is_record() {
            return Ok(());
        }
        for file in doomed {
            files.files.remove(&file);
            if self.has(Fault::KeepsEmptyDirectories) && file == *path {
                files.leftover.extend(file.parents().filter(|parent| !parent.is_root()));
            }
        }
        Ok(())
    }

    fn rename(&self, files: &mut Files, from: &StorePath, to: &StorePath) -> Result<(), StoreError> {
        if self.node(files, from) == Node::Absent {
            return if self.has(Fault::RenamesNothing) {
                Ok(())
            } else {
                Err(StoreError::NotFound { path: from.clone() })
            };
        }
        if self.has(Fault::RefusesRenamesCloseBy) && to.as_str().starts_with(from.as_str()) {
            return Err(StoreError::AlreadyExists { path: to.clone() });
        }
        self.refuse_file_above(files, to)?;
        let is_into_a_directory =
            || to.parents().any(|above| !above.is_root() && self.node(files, &above) != Node::Absent);
        if self.has(Fault::RefusesRenamesIntoDirectories) && !files.files.contains_key(from) && is_into_a_directory()
            || self.has(Fault::RefusesPathsMovedAway) && files.moved_away.contains(to)
        {
            return Err(StoreError::AlreadyExists { path: to.clone() });
        }
        if self.node(files, to) != Node::Absent && !self.has(Fault::RenameOverwrites) {
            return Err(StoreError::AlreadyExists { path: to.clone() });
        }
        files.moved_away.insert(from.clone());
        if self.has(Fault::KeepsDirectoriesMovedOutOf) {
            files.leftover.extend(from.parents().filter(|parent| !parent.is_root()));
        }
        let before = std::mem::take(&mut files.files);
        for (path, file) in &before {
            let moved = match path.as_str().strip_prefix(from.as_str()) {
                Some(rest) if self.has(Fault::RenamesByPrefix) => format!("{to}{rest}").parse(),
                Some(_) if self.has(Fault::ReplacesEveryPrefix) && (path == from || path.is_under(from)) => {
                    path.as_str().replace(from.as_str(), to.as_str()).parse()
                }
                Some(rest) if self.has(Fault::RenamesOneLevel) && rest.matches('/').count() > 1 => Ok(path.clone()),
                Some(rest) if self.has(Fault::RenamesWhatIsVisible) && rest.contains("/.") => Ok(path.clone()),
                _ => path.replace_prefix(from, to),
            };
            match moved {
                Ok(moved) => {
                    files.files.insert(moved, file.clone());
                }
                Err(_) if self.has(Fault::MovesHalfADirectory) => {
                    files.files.insert(path.clone(), file.clone());
                }
                Err(error) => {
                    files.files = before;
                    return Err(error.into());
                }
            }
        }
        Ok(())
    }

    fn refuse_file_above(&self, files: &Files, path: &StorePath) -> Result<(), StoreError> {
        match path.parents().find(|above| files.files.contains_key(above)) {
            Some(path) if !self.has(Fault::LetsFilesContainFiles) => Err(StoreError::NotADirectory { path }),
            _ => Ok(()),
        }
    }

    /// Applies changes one by one, visible to other tasks. The first one is atomic with the check.
    async fn apply_in_steps(&self, batch: Batch) -> Result<(), StoreError> {
        let mut steps = Vec::new();
        for change in batch.changes() {
            if let (Some(Fault::TearsWrites), Change::Write { path, content, times }) = (self.fault, change) {
                let (path, times) = (path.clone(), *times);
                steps.push(Change::Write { path, content: content[..content.len() / 2].to_vec().into(), times });
            }
            steps.push(change.clone());
        }
        let mut steps = steps.into_iter();
        {
            let mut files = self.files();
            self.apply_to(&mut files.clone(), batch.clone())?; // refuse a batch that would fail
            steps.next().map_or(Ok(()), |step| self.change(&mut files, step))?;
        }
        for step in steps {
            sleep(WINDOW).await;
            self.change(&mut self.files(), step)?;
        }
        Ok(())
    }

    fn apply_whole(&self, batch: Batch) -> Result<(), StoreError> {
        let mut files = self.files();
        let mut changed = files.clone();
        self.apply_to(&mut changed, batch)?;
        *files = changed;
        Ok(())
    }

    fn apply_to(&self, files: &mut Files, batch: Batch) -> Result<(), StoreError> {
        self.refuse_invalid(&batch)?;
        if !self.has(Fault::ChangesComeFirst) {
            self.check(files, &batch)?;
        }
        let before = files.clone();
        let count = if self.has(Fault::AppliesOneChange) { 1 } else { usize::MAX };
        batch.changes().iter().take(count).try_for_each(|change| self.change(files, change.clone()))?;
        if self.has(Fault::ChangesComeFirst) { self.check(&before, &batch) } else { Ok(()) }
    }

    fn checked_node(&self, path: &StorePath, options: &ReadOptions) -> Result<Node, StoreError> {
        let files = self.files();
        if !self.has(Fault::ReadsUnderNoPrecondition) {
            options.check(&Counted { store: self, files: &files, directory: path })?;
        }
        Ok(self.node(&files, &self.key(path)))
    }
}

#[async_trait]
impl Store for MapStore {
    async fn read_opts(&self, path: &StorePath, options: ReadOptions) -> Result<Node, StoreError> {
        let mut node = self.checked_node(path, &options)?;
        match self.fault {
            // Wait between reading a file and the write based on it.
            Some(Fault::LosesUpdates | Fault::VersionByTheClock | Fault::VersionIsLength) => sleep(WINDOW).await,
            Some(Fault::ChecksThenReads) if !options.preconditions().is_empty() => {
                sleep(WINDOW).await;
                node = self.checked_node(path, &ReadOptions::new())?;
            }
            Some(Fault::ListsHalfThenHalf) => {
                if let Node::Directory(Listing { files, .. }) = &mut node {
                    files.truncate(files.len().div_ceil(2));
                    sleep(WINDOW).await;
                    let later = self.checked_node(path, &options)?.into_listing().files;
                    let last = files.last().map(|file| file.path.clone());
                    files.extend(later.into_iter().filter(|file| Some(&file.path) > last.as_ref()));
                }
            }
            Some(Fault::DirectoriesByPrefix) if node == Node::Absent && has_prefixed(&self.files(), path) => {
                node = Node::Directory(Listing::default());
            }
            Some(Fault::CachesReads) if node.stat() != Stat::Directory => {
                return Ok(self.cache.lock().unwrap().entry(path.clone()).or_insert(node).clone());
            }
            _ => {}
        }
        Ok(node)
    }

    async fn apply(&self, batch: Batch) -> Result<(), StoreError> {
        self.cache.lock().unwrap().clear();
        match self.fault {
            Some(Fault::RefusesAnEmptyBatch) if batch == Batch::new() => {
                Err(StoreError::failure(ErrorKind::Other, "applying a batch", "the batch is empty"))
            }
            Some(Fault::FinishesRefusedBatches) => {
                let changes = batch.changes().to_vec();
                let outcome = self.apply_whole(batch);
                let mut files = self.files();
                match outcome {
                    Err(_) => files.refused = changes[..changes.len().saturating_sub(1)].to_vec(),
                    Ok(()) => {
                        for change in std::mem::take(&mut files.refused) {
                            let _ = self.change(&mut files, change); // fails if the path is taken or gone
                        }
                    }
                }
                outcome
            }
            Some(Fault::ApplyStopsHalfWay) => self.apply_to(&mut self.files(), batch),
            Some(Fault::ShowsHalfABatch | Fault::TearsWrites) => self.apply_in_steps(batch).await,
            Some(Fault::WritesRecordsFirst) => {
                let mut files = self.files();
                let mut changed = files.clone();
                let outcome = self.apply_to(&mut changed, batch.clone());
                match outcome {
                    Ok(()) => *files = changed,
                    // The changes of files failed, after successful checks.
                    Err(_) if self.check(&files, &batch).is_ok() && batch.validate().is_ok() => {
                        let mut records = batch.changes().iter().filter(|change| change.is_of_record());
                        records.try_for_each(|change| self.change(&mut files, change.clone()))?;
                    }
                    Err(_) => {}
                }
                outcome
            }
            Some(Fault::CountsThenWrites) => {
                self.refuse_invalid(&batch)?;
                self.check(&self.files(), &batch)?;
                sleep(WINDOW).await;
                self.apply_whole(without_quotas(&batch))
            }
            Some(Fault::ChecksThenActs) => {
                let mut changed = self.files().clone();
                self.apply_to(&mut changed, batch)?;
                sleep(WINDOW).await;
                *self.files() = changed;
                Ok(())
            }
            _ => self.apply_whole(batch),
        }
    }
}

struct Counted<'a> {
    store: &'a MapStore,
    files: &'a Files,
    directory: &'a StorePath,
}

impl StoreState for Counted<'_> {
    fn stat(&self, path: &StorePath) -> Result<Stat, StoreError> {
        Ok(self.store.node(self.files, &self.store.key(path)).stat())
    }

    fn usage(&self, path: &StorePath) -> Result<Usage, StoreError> {
        let is_counted = |file: &StorePath| match self.store.fault {
            Some(Fault::CountsRecords) if path == self.directory && file.is_record() => true,
            Some(Fault::CountsTheWholeStore) if path == self.directory => true,
            Some(Fault::CountsNoneReplaced) if path != self.directory => false,
            _ => file == path || file.is_under(path),
        };
        let counted = self.files.files.iter().filter(|(file, _)| is_counted(file));
        let usage: Usage = counted.map(|(path, file)| self.store.entry(path, file)).collect();
        let depth = if self.store.has(Fault::MeasuresNoDepth) { 0 } else { usage.depth };
        Ok(Usage::new(usage.files, usage.bytes, depth))
    }
}

fn without_quotas(batch: &Batch) -> Batch {
    let mut kept = Batch::new();
    for (path, precondition) in batch.preconditions() {
        kept = kept.require(path.clone(), precondition.clone());
    }
    batch.changes().iter().cloned().fold(kept, Batch::change)
}

fn has_prefixed(files: &Files, path: &StorePath) -> bool {
    files.files.keys().any(|file| file.as_str().starts_with(path.as_str()))
}

fn is_hidden(file: &StorePath) -> bool {
    file.segments().any(|segment| segment.starts_with('.'))
}

/// Matches like SQL's `LIKE`: `%` matches any text, `_` any character, and letter case is ignored.
fn is_like(text: &str, pattern: &str) -> bool {
    let mut rest = pattern.chars();
    match rest.next() {
        None => text.is_empty(),
        Some('%') => {
            text.char_indices().map(|(at, _)| at).chain([text.len()]).any(|at| is_like(&text[at..], rest.as_str()))
        }
        Some(wanted) => text.chars().next().is_some_and(|found| {
            (wanted == '_' || wanted.eq_ignore_ascii_case(&found)) && is_like(&text[found.len_utf8()..], rest.as_str())
        }),
    }
}
