//! Stores that keep their files in a map, as they should but for one thing.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use async_trait::async_trait;
use memory_tool_conformance::{FixtureError, StoreFixture, Suite};
use memory_tool_core::{
    Batch, BatchHook, Capacity, CapacityMeasure, Change, Expected, FailureKind, FileEntry, Found, HookedStore,
    MemoryPath, Node, Store, StoreError, StoredFile, Usage, Version, read_then_check,
};
use tokio::time::sleep;

/// How long others have their turn in the middle of what should be one step: so long that in every race somebody does.
const WINDOW: Duration = Duration::from_millis(1);

/// How often a store looks again where it says that a directory is there, and lists nothing.
const LOOKS: usize = 1_000;

faults! {
    "absence-means-no-file" AbsenceMeansNoFile,
    "applies-what-a-hook-refuses" AppliesWhatAHookRefuses,
    "applies-one-change" AppliesOneChange,
    "apply-stops-half-way" ApplyStopsHalfWay,
    "caches-reads" CachesReads,
    "calls-hooks-apart" CallsHooksApart,
    "changes-come-first" ChangesComeFirst,
    "checks-then-acts" ChecksThenActs,
    "checks-then-reads" ChecksThenReads,
    "counts-none-replaced" CountsNoneReplaced,
    "counts-the-whole-store" CountsTheWholeStore,
    "counts-then-writes" CountsThenWrites,
    "cuts-at-nul" CutsAtNul,
    "decodes-names" DecodesNames,
    "deletes-nothing" DeletesNothing,
    "directories-by-prefix" DirectoriesByPrefix,
    "empties-no-empty-store" EmptiesNoEmptyStore,
    "finds-another-version" FindsAnotherVersion,
    "folds-case" FoldsCase,
    "folds-ligatures" FoldsLigatures,
    "forgets-when-reopened" ForgetsWhenReopened,
    "hides-dot-files" HidesDotFiles,
    "ignores-capacities" IgnoresCapacities,
    "ignores-other-preconditions" IgnoresOtherPreconditions,
    "keeps-empty-directories" KeepsEmptyDirectories,
    "lets-files-have-files-beneath" LetsFilesHaveFilesBeneath,
    "lists-by-pattern" ListsByPattern,
    "lists-by-prefix" ListsByPrefix,
    "lists-one-page" ListsOnePage,
    "last-precondition-first" LastPreconditionFirst,
    "loses-updates" LosesUpdates,
    "measures-no-depth" MeasuresNoDepth,
    "moves-half-a-directory" MovesHalfADirectory,
    "reads-under-no-precondition" ReadsUnderNoPrecondition,
    "refuses-all-that-is-over" RefusesAllThatIsOver,
    "refuses-an-empty-batch" RefusesAnEmptyBatch,
    "refuses-renames-close-by" RefusesRenamesCloseBy,
    "removes-by-pattern" RemovesByPattern,
    "removes-by-prefix" RemovesByPrefix,
    "removes-one-level" RemovesOneLevel,
    "removes-what-is-visible" RemovesWhatIsVisible,
    "rename-overwrites" RenameOverwrites,
    "renames-by-prefix" RenamesByPrefix,
    "renames-one-level" RenamesOneLevel,
    "renames-what-is-visible" RenamesWhatIsVisible,
    "renames-nothing" RenamesNothing,
    "replaces-bad-bytes" ReplacesBadBytes,
    "rewrites-line-ends" RewritesLineEnds,
    "shows-half-a-batch" ShowsHalfABatch,
    "sizes-in-characters" SizesInCharacters,
    "strips-byte-order-mark" StripsByteOrderMark,
    "tears-writes" TearsWrites,
    "trims-content" TrimsContent,
    "trims-names" TrimsNames,
    "version-by-the-clock" VersionByTheClock,
    "version-is-length" VersionIsLength,
    "writes-over-directories" WritesOverDirectories,
}

pub(crate) fn all() -> Vec<(&'static str, Suite)> {
    FAULTS.iter().copied().map(|(name, fault)| (name, Suite::for_store(Fixture { fault: Some(fault) }))).collect()
}

pub(crate) fn without_fault() -> Suite {
    Suite::for_store(Fixture { fault: None })
}

struct Fixture {
    fault: Option<Fault>,
}

#[async_trait]
impl StoreFixture for Fixture {
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

/// What is stored.
#[derive(Clone, Debug, Default)]
struct Files {
    files: BTreeMap<MemoryPath, (Vec<u8>, u64)>,
    /// How many writes there were, for versions.
    writes: u64,
    /// Directories that were not removed with their last file.
    leftover: BTreeSet<MemoryPath>,
}

#[derive(Debug)]
struct MapStore {
    files: Arc<Mutex<Files>>,
    fault: Option<Fault>,
    cache: Mutex<BTreeMap<MemoryPath, Node>>,
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

    /// The path that a file is kept under.
    fn key(&self, path: &MemoryPath) -> MemoryPath {
        let segments = path.segments().map(|segment| match self.fault {
            Some(Fault::FoldsCase) => segment.to_lowercase(),
            Some(Fault::FoldsLigatures) => segment.replace('ﬁ', "fi").replace('ß', "ss"),
            Some(Fault::TrimsNames) => segment.trim_end_matches([' ', '.']).to_owned(),
            Some(Fault::DecodesNames) => segment.replace("%20", " ").replace("%41", "A").replace("%25", "%"),
            _ => segment.to_owned(),
        });
        let key = segments.fold("/memories".to_owned(), |key, segment| format!("{key}/{segment}"));
        key.parse().unwrap_or_else(|_| path.clone())
    }

    fn kept(&self, content: Vec<u8>) -> Vec<u8> {
        let text = String::from_utf8(content.clone());
        match (self.fault, text) {
            (Some(Fault::CutsAtNul), _) => content.split(|&byte| byte == 0).next().unwrap_or_default().to_vec(),
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
            Some(Fault::VersionByTheClock) => Version::new(0_u64.to_be_bytes()), // all of a case is within one tick
            _ => Version::new(write.to_be_bytes()),
        }
    }

    fn node(&self, files: &Files, path: &MemoryPath) -> Node {
        match files.files.get(path) {
            Some((content, write)) => Node::File(StoredFile::new(content.clone(), self.version(content, *write))),
            None if path.is_root() || files.files.keys().any(|file| file.is_beneath(path)) => Node::Directory,
            None if files.leftover.contains(path) => Node::Directory,
            None => Node::Absent,
        }
    }

    fn check(&self, files: &Files, batch: &Batch) -> Result<(), StoreError> {
        let changed = |path: &MemoryPath| {
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
        for (path, expected) in preconditions {
            if let Expected::Capacity(capacity) = expected {
                self.check_capacity(files, path, capacity.clone(), batch)?;
                continue;
            }
            let is_ignored = match expected {
                Expected::Version(_) if self.has(Fault::LosesUpdates) => true,
                Expected::Absent if self.has(Fault::AbsenceMeansNoFile) => !files.files.contains_key(&self.key(path)),
                _ => self.has(Fault::IgnoresOtherPreconditions) && !changed(path),
            };
            if !is_ignored {
                expected.check(path, &self.node(files, &self.key(path)))?;
            }
        }
        Ok(())
    }

    fn check_capacity(
        &self,
        files: &Files,
        directory: &MemoryPath,
        capacity: Capacity,
        batch: &Batch,
    ) -> Result<(), StoreError> {
        if self.has(Fault::IgnoresCapacities) {
            return Ok(());
        }
        let usage = |path: &MemoryPath| self.usage(files, path, directory);
        let (held, most) = (usage(directory).files, capacity.files.unwrap_or(u64::MAX));
        if self.has(Fault::RefusesAllThatIsOver) && held > most {
            let path = directory.clone();
            let measure = CapacityMeasure::Files;
            return Err(StoreError::OverCapacity { path, measure, limit: most, asked: held, left: 0 });
        }
        let sized = batch.changes().iter().map(|change| match change {
            Change::Write { content, .. } => (change, self.size(content)),
            _ => (change, 0),
        });
        capacity.check(directory, sized, |path| Ok(usage(path)))
    }

    fn usage(&self, files: &Files, path: &MemoryPath, directory: &MemoryPath) -> Usage {
        let is_counted = |file: &MemoryPath| match self.fault {
            Some(Fault::CountsTheWholeStore) if path == directory => true,
            Some(Fault::CountsNoneReplaced) if path != directory => false,
            _ => file == path || file.is_beneath(path),
        };
        let counted = files.files.iter().filter(|(file, _)| is_counted(file));
        let usage: Usage =
            counted.map(|(file, (content, _))| FileEntry::new(file.clone(), self.size(content))).collect();
        let depth = if self.has(Fault::MeasuresNoDepth) { 0 } else { usage.depth };
        Usage::new(usage.files, usage.bytes, depth)
    }

    fn size(&self, content: &[u8]) -> u64 {
        match self.fault {
            Some(Fault::SizesInCharacters) => String::from_utf8_lossy(content).chars().count() as u64,
            _ => content.len() as u64,
        }
    }

    fn change(&self, files: &mut Files, change: Change) -> Result<(), StoreError> {
        match change {
            Change::Write { path, content } => self.write(files, self.key(&path), content),
            Change::Remove { path } => self.remove(files, &self.key(&path)),
            Change::Rename { from, to } => self.rename(files, &self.key(&from), &self.key(&to)),
        }
    }

    fn write(&self, files: &mut Files, path: MemoryPath, content: Vec<u8>) -> Result<(), StoreError> {
        self.refuse_file_above(files, &path)?;
        if self.node(files, &path) == Node::Directory && !self.has(Fault::WritesOverDirectories) {
            return Err(StoreError::AlreadyExists { path });
        }
        files.writes += 1;
        files.leftover.remove(&path);
        files.files.insert(path, (self.kept(content), files.writes));
        Ok(())
    }

    fn remove(&self, files: &mut Files, path: &MemoryPath) -> Result<(), StoreError> {
        let is_meant = |file: &MemoryPath| match self.fault {
            Some(Fault::RemovesByPrefix) => file.as_str().starts_with(path.as_str()),
            Some(Fault::RemovesByPattern) => file == path || is_like(file.as_str(), &format!("{path}/%")),
            Some(Fault::RemovesOneLevel) => file == path || file.parent().as_ref() == Some(path),
            Some(Fault::RemovesWhatIsVisible) => file == path || file.is_beneath(path) && !is_hidden(file),
            _ => file == path || file.is_beneath(path),
        };
        let doomed: Vec<_> = files.files.keys().filter(|file| is_meant(file)).cloned().collect();
        let is_needless = path.is_root() && !self.has(Fault::EmptiesNoEmptyStore);
        if doomed.is_empty() && !is_needless && !self.has(Fault::DeletesNothing) {
            return Err(StoreError::NotFound { path: path.clone() });
        }
        for file in doomed {
            files.files.remove(&file);
            if self.has(Fault::KeepsEmptyDirectories) && file == *path {
                files.leftover.extend(file.parents().filter(|parent| !parent.is_root()));
            }
        }
        Ok(())
    }

    fn rename(&self, files: &mut Files, from: &MemoryPath, to: &MemoryPath) -> Result<(), StoreError> {
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
        if self.node(files, to) != Node::Absent && !self.has(Fault::RenameOverwrites) {
            return Err(StoreError::AlreadyExists { path: to.clone() });
        }
        let before = std::mem::take(&mut files.files);
        for (path, file) in &before {
            let moved = match path.as_str().strip_prefix(from.as_str()) {
                Some(rest) if self.has(Fault::RenamesByPrefix) => format!("{to}{rest}").parse(),
                Some(rest) if self.has(Fault::RenamesOneLevel) && rest.matches('/').count() > 1 => Ok(path.clone()),
                Some(rest) if self.has(Fault::RenamesWhatIsVisible) && rest.contains("/.") => Ok(path.clone()),
                _ => path.rebase(from, to),
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

    fn refuse_file_above(&self, files: &Files, path: &MemoryPath) -> Result<(), StoreError> {
        match path.parents().find(|above| files.files.contains_key(above)) {
            Some(path) if !self.has(Fault::LetsFilesHaveFilesBeneath) => Err(StoreError::NotADirectory { path }),
            _ => Ok(()),
        }
    }

    /// Applies one change after another in the sight of everybody, the first of them together with the check.
    async fn apply_in_steps(&self, batch: Batch) -> Result<(), StoreError> {
        let mut steps = Vec::new();
        for change in batch.changes() {
            if let (Some(Fault::TearsWrites), Change::Write { path, content }) = (self.fault, change) {
                steps.push(Change::Write { path: path.clone(), content: content[..content.len() / 2].to_vec() });
            }
            steps.push(change.clone());
        }
        let mut steps = steps.into_iter();
        {
            let mut files = self.files();
            self.apply_to(&mut files.clone(), batch)?; // what would fail is not begun
            steps.next().map_or(Ok(()), |step| self.change(&mut files, step))?;
        }
        for step in steps {
            sleep(WINDOW).await;
            self.change(&mut self.files(), step)?;
        }
        Ok(())
    }

    /// Applies all of it at once, or none.
    fn apply_whole(&self, batch: Batch) -> Result<(), StoreError> {
        let mut files = self.files();
        let mut changed = files.clone();
        self.apply_to(&mut changed, batch)?;
        *files = changed;
        Ok(())
    }

    fn apply_to(&self, files: &mut Files, batch: Batch) -> Result<(), StoreError> {
        if !self.has(Fault::ChangesComeFirst) {
            self.check(files, &batch)?;
        }
        let before = files.clone();
        let count = if self.has(Fault::AppliesOneChange) { 1 } else { usize::MAX };
        batch.changes().iter().take(count).try_for_each(|change| self.change(files, change.clone()))?;
        if self.has(Fault::ChangesComeFirst) { self.check(&before, &batch) } else { Ok(()) }
    }
}

#[async_trait]
impl Store for MapStore {
    async fn read(&self, path: &MemoryPath) -> Result<Node, StoreError> {
        let node = self.node(&self.files(), &self.key(path));
        if let Some(Fault::LosesUpdates | Fault::VersionByTheClock | Fault::VersionIsLength) = self.fault {
            sleep(WINDOW).await; // between the reading of a file and the writing that is based on it
        }
        if self.has(Fault::DirectoriesByPrefix)
            && node == Node::Absent
            && self.files().files.keys().any(|file| file.as_str().starts_with(path.as_str()))
        {
            return Ok(Node::Directory);
        }
        if self.has(Fault::CachesReads) {
            return Ok(self.cache.lock().unwrap().entry(path.clone()).or_insert(node).clone());
        }
        Ok(node)
    }

    async fn read_or_list(&self, path: &MemoryPath) -> Result<Found, StoreError> {
        for _ in 0..LOOKS {
            match self.read(path).await? {
                Node::Absent => return Ok(Found::Absent),
                Node::File(mut file) => {
                    if self.has(Fault::FindsAnotherVersion) {
                        file.version = Version::new(Vec::new());
                    }
                    return Ok(Found::File(file));
                }
                Node::Directory => {
                    let files = self.list(path).await?;
                    if path.is_root() || !files.is_empty() {
                        return Ok(Found::Directory(files));
                    }
                }
            }
        }
        Err(StoreError::VersionMismatch { path: path.clone() })
    }

    async fn read_if(&self, path: &MemoryPath, preconditions: &[(MemoryPath, Expected)]) -> Result<Node, StoreError> {
        match self.fault {
            Some(Fault::ReadsUnderNoPrecondition) => self.read(path).await,
            Some(Fault::ChecksThenReads) => {
                read_then_check(self, &MemoryPath::root(), preconditions).await?;
                sleep(WINDOW).await;
                self.read(path).await
            }
            _ => read_then_check(self, path, preconditions).await,
        }
    }

    async fn list(&self, directory: &MemoryPath) -> Result<Vec<FileEntry>, StoreError> {
        let directory = self.key(directory);
        let is_beneath = |file: &MemoryPath| match self.fault {
            Some(Fault::ListsByPrefix) => *file != directory && file.as_str().starts_with(directory.as_str()),
            Some(Fault::ListsByPattern) => is_like(file.as_str(), &format!("{directory}/%")),
            Some(Fault::HidesDotFiles) => {
                file.is_beneath(&directory) && !file.name().is_some_and(|name| name.starts_with('.'))
            }
            _ => file.is_beneath(&directory),
        };
        let files = self.files();
        let beneath = files.files.iter().filter(|(file, _)| is_beneath(file));
        let entries = beneath.map(|(file, (content, _))| FileEntry::new(file.clone(), self.size(content)));
        Ok(entries.take(if self.has(Fault::ListsOnePage) { 1_000 } else { usize::MAX }).collect())
    }

    fn hooked(&self) -> Option<&dyn HookedStore> {
        Some(self)
    }

    async fn apply(&self, batch: Batch) -> Result<(), StoreError> {
        self.cache.lock().unwrap().clear();
        match self.fault {
            Some(Fault::RefusesAnEmptyBatch) if batch == Batch::new() => {
                Err(StoreError::failure(FailureKind::Other, "applying a batch", "there is nothing to do"))
            }
            Some(Fault::ApplyStopsHalfWay) => self.apply_to(&mut self.files(), batch),
            Some(Fault::ShowsHalfABatch | Fault::TearsWrites) => self.apply_in_steps(batch).await,
            Some(Fault::CountsThenWrites) => {
                self.check(&self.files(), &batch)?;
                sleep(WINDOW).await;
                let mut files = self.files();
                let mut changed = files.clone();
                self.apply_to(&mut changed, without_capacities(batch))?;
                *files = changed;
                Ok(())
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

#[async_trait]
impl HookedStore for MapStore {
    async fn apply_hooked(&self, batch: Batch, mut hook: Box<dyn BatchHook>) -> Result<(), StoreError> {
        self.cache.lock().unwrap().clear();
        match self.fault {
            Some(Fault::AppliesWhatAHookRefuses) => {
                let refusal = hook.before();
                let result = self.apply_whole(batch);
                hook.after(&result);
                refusal.and(result)
            }
            Some(Fault::CallsHooksApart) => {
                hook.before()?;
                sleep(WINDOW * if is_even(&batch) { 2 } else { 1 }).await; // so that another order comes of it
                let result = self.apply_whole(batch);
                hook.after(&result);
                result
            }
            _ => hook.around(|| self.apply_whole(batch)),
        }
    }
}

/// Whether the batch writes an even number.
fn is_even(batch: &Batch) -> bool {
    let is_even = |content: &Vec<u8>| content.last().is_some_and(|digit| digit % 2 == 0);
    batch.changes().iter().any(|change| matches!(change, Change::Write { content, .. } if is_even(content)))
}

fn without_capacities(batch: Batch) -> Batch {
    let (preconditions, changes) = batch.into_parts();
    let others = preconditions.into_iter().filter(|(_, expected)| !matches!(expected, Expected::Capacity(_)));
    let batch = others.fold(Batch::new(), |batch, (path, expected)| batch.require(path, expected));
    let add = |batch: Batch, change| match change {
        Change::Write { path, content } => batch.write(path, content),
        Change::Remove { path } => batch.remove(path),
        Change::Rename { from, to } => batch.rename(from, to),
    };
    changes.into_iter().try_fold(batch, add).unwrap()
}

fn is_hidden(file: &MemoryPath) -> bool {
    file.segments().any(|segment| segment.starts_with('.'))
}

/// SQL's `LIKE`: `%` is any text, `_` any character, and letters of either case are the same.
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
