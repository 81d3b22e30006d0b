//! [`Versions`]: the files of a memory from their births, and each of their versions.
//!
//! A file is recognized by its identity, because its path can come again:
//!
//! - The identity of a file is a hash of the entry and the change that created it. It follows renames of the file and
//!   of directories above it.
//! - A file that another program wrote has no such entry. Its identity is a hash of the history, of its path before the
//!   renames in the log, and of the entry that freed this path.
//! - A redacted change has lost its path, but keeps the identities of its files.
//!
//! [Limits](crate::Limits) remove old entries, and redactions their paths. The batch that does so also writes the
//! [`Births`] of the files that exist then.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;
use std::str::FromStr;
use std::time::SystemTime;

use memory_tool_core::{FileEntry, StoreError, StorePath};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::entry::{Digest, Entry, EntryRef, FileChange, Operation, Origin, milliseconds};
use crate::hex::{Hex, Id};

/// Names a version of a file: displayed and parsed as `{number}_{index}_{tag}`. Versions of later entries are greater.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Ord, PartialEq, PartialOrd, Serialize)]
#[non_exhaustive]
pub struct VersionId {
    /// The number of the entry, or 0 for a file that another program wrote.
    pub number: u64,
    /// The index of the change in the entry.
    pub index: usize,
    /// A hash of the identities of the entry and the file.
    pub tag: Id,
}

impl VersionId {
    fn new(number: u64, index: usize, entry: Id, file: Id) -> Self {
        Self { number, index, tag: hashed(&[entry.as_bytes(), file.as_bytes()]) }
    }
}

impl fmt::Display for VersionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}_{}_{}", self.number, self.index, self.tag)
    }
}

/// The text is not the name of a version.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[error("not the id of a version")]
#[non_exhaustive]
pub struct InvalidVersionId;

impl FromStr for VersionId {
    type Err = InvalidVersionId;

    fn from_str(text: &str) -> Result<Self, InvalidVersionId> {
        let parse = || {
            let mut parts = text.splitn(3, '_');
            let (number, index) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
            Some(Self { number, index, tag: Id::try_from(parts.next()?.to_owned()).ok()? })
        };
        parse().filter(|id| id.to_string() == text).ok_or(InvalidVersionId)
    }
}

/// One change of one file.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[non_exhaustive]
pub struct FileVersion {
    /// The identity of the file.
    pub file: Id,
    /// The identity of the entry. Zeros for a file that another program wrote.
    pub entry: Id,
    /// The effect of the change.
    pub operation: Operation,
    /// The path after the change, or the removed path. `None` if it was redacted.
    #[serde(skip)]
    pub path: Option<StorePath>,
    /// The contents after the change. `None` if they are not known, were redacted or do not exist.
    #[serde(skip)]
    pub digest: Option<Digest>,
    /// The time of the entry.
    #[serde(with = "milliseconds")]
    pub time: SystemTime,
    /// The actor of the entry.
    pub actor: Option<String>,
    /// The command of the entry.
    pub command: Option<String>,
    /// The number and the index of the change that keeps the contents before this version.
    #[serde(skip)]
    pub keeps: Option<(u64, usize)>,
    /// The number of the entry that redacted this version.
    #[serde(skip)]
    pub redacted_by: Option<u64>,
}

/// A file that exists or was removed.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct TrackedFile {
    /// The identity.
    pub id: Id,
    /// The time of the creation, if it is known.
    pub created: Option<SystemTime>,
    /// The present path. `None` if the file was removed.
    pub path: Option<StorePath>,
    /// The versions, oldest first.
    pub versions: Vec<VersionId>,
    /// Whether the identity is made from a path.
    is_by_path: bool,
}

impl TrackedFile {
    /// The newest version.
    pub fn head(&self) -> Option<VersionId> {
        self.versions.last().copied()
    }
}

/// The identities of files that the log alone no longer has: a record of the history.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub(crate) struct Births {
    /// The number of the entry after which the files have these identities.
    pub(crate) after: u64,
    /// The identity of this entry. Zeros for the beginning of a history.
    entry: Id,
    live: Vec<Birth>,
    /// The numbers and indexes of removals, with the identities of the files, and whether these are made from paths.
    removed: Vec<(u64, usize, Id, bool)>,
}

#[derive(Clone, Debug, Deserialize, Serialize)]
struct Birth {
    path: StorePath,
    file: Id,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    is_by_path: bool,
    created: Option<Time>,
    /// The newest version, without path and digest, which the present file has.
    head: Option<(VersionId, FileVersion)>,
}

#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
struct Time(#[serde(with = "milliseconds")] SystemTime);

/// A change that freed a path.
#[derive(Clone, Debug)]
struct Freed {
    /// The entry, without its changes.
    entry: Entry,
    index: usize,
    from: StorePath,
    /// The new path after a rename. `None` for a removal.
    to: Option<StorePath>,
}

/// The files of a memory and their versions, as computed from a log.
#[derive(Clone, Debug, Default)]
pub struct Versions {
    pub(crate) history: Id,
    /// The entry since which the freed paths are known, or the history.
    since: Id,
    /// The number and the identity of the newest entry that was added.
    pub(crate) last: (u64, Id),
    births: Births,
    files: Vec<TrackedFile>,
    live: BTreeMap<StorePath, usize>,
    by_id: HashMap<Id, usize>,
    versions: BTreeMap<VersionId, FileVersion>,
    /// The changes that renamed or removed something since the last record of the births.
    freed: Vec<Freed>,
    redactions: BTreeMap<u64, (SystemTime, Option<String>)>,
    /// The paths of the last listing, and of changes since.
    listed: BTreeSet<StorePath>,
}

impl Versions {
    /// The versions before the oldest entry.
    pub(crate) fn new(history: Id, births: Option<Births>, first: u64) -> Self {
        let mut births = births.unwrap_or_default();
        let last = (first.saturating_sub(1), history);
        births.after = births.after.max(last.0); // entries after it can be lost
        let mut versions = Self { history, since: history, last, births, ..Self::default() };
        versions.merge_births();
        versions
    }

    /// The file with this identity.
    pub fn file(&self, id: Id) -> Option<&TrackedFile> {
        self.by_id.get(&id).map(|file| &self.files[*file])
    }

    /// The present file with this path.
    pub fn at(&self, path: &StorePath) -> Option<&TrackedFile> {
        self.live.get(path).map(|file| &self.files[*file])
    }

    /// The present paths.
    pub fn present(&self) -> impl Iterator<Item = (&StorePath, Id)> {
        self.live.iter().map(|(path, file)| (path, self.files[*file].id))
    }

    /// A version.
    pub fn get(&self, id: &VersionId) -> Option<&FileVersion> {
        self.versions.get(id)
    }

    /// All versions, oldest first.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (&VersionId, &FileVersion)> {
        self.versions.iter()
    }

    /// The versions of a change: several if it renamed a directory.
    pub fn of_change(&self, number: u64, index: usize) -> impl Iterator<Item = (&VersionId, &FileVersion)> {
        let first = VersionId { number, index, tag: Id::default() };
        self.versions.range(first..).take_while(move |(id, _)| (id.number, id.index) == (number, index))
    }

    /// Whether this is the newest version of a file that exists.
    pub fn is_head(&self, id: &VersionId) -> bool {
        let file = self.versions.get(id).and_then(|version| self.file(version.file));
        file.is_some_and(|file| file.path.is_some() && file.head() == Some(*id))
    }

    /// The entry and the index of the change that keeps the contents of a version. `None` for the last contents of a
    /// file.
    pub fn keeper(&self, id: &VersionId) -> Option<(EntryRef, usize)> {
        let file = self.file(self.versions.get(id)?.file)?;
        let later = file.versions.iter().skip_while(|version| **version <= *id);
        later
            .filter_map(|version| self.versions.get(version))
            .find_map(|version| version.keeps.map(|(number, index)| (EntryRef::with_id(number, version.entry), index)))
    }

    /// The changes of the files that are at a path or under it, or were when they were removed, by number and index. If
    /// such a file was created where another one had been removed, which an undo does, also those of the other one.
    /// Renames of directories with other files are not among them.
    pub(crate) fn past_of(&self, path: &StorePath) -> BTreeSet<(u64, usize)> {
        let path_of = |version: &VersionId| self.versions.get(version)?.path.as_ref();
        let last_path =
            |file: &TrackedFile| file.path.clone().or_else(|| file.versions.iter().rev().find_map(path_of).cloned());
        let (mut files, mut removed, mut found) = (Vec::new(), HashMap::<_, Vec<_>>::new(), BTreeSet::new());
        for file in &self.files {
            let Some(last) = last_path(file) else { continue };
            if last == *path || last.is_under(path) {
                files.push(file);
            } else if file.path.is_none() {
                removed.entry(last).or_default().push(file);
            }
        }
        while let Some(file) = files.pop() {
            if found.insert(file.id)
                && let Some(former) = file.versions.iter().find_map(path_of).and_then(|created| removed.get(created))
            {
                files.extend(former.iter().filter(|former| former.head() < file.versions.first().copied()));
            }
        }
        let changes = self.versions.iter().filter(|(_, version)| found.contains(&version.file));
        let is_only_of_these = |(number, index): &(u64, usize)| {
            self.of_change(*number, *index).all(|(_, other)| found.contains(&other.file))
        };
        changes
            .map(|(id, _)| (id.number, id.index))
            .filter(|(number, _)| *number > 0)
            .filter(is_only_of_these)
            .collect()
    }

    /// The time and the actor of an entry that redacted versions.
    pub fn redaction(&self, number: u64) -> Option<&(SystemTime, Option<String>)> {
        self.redactions.get(&number)
    }

    /// The files that existed after an entry, with their paths at that time. Files of other programs have their present
    /// paths.
    pub fn live_after(&self, number: u64) -> BTreeMap<StorePath, Id> {
        let path_of = |file: &TrackedFile| {
            let until = file.versions.iter().rev().find(|version| version.number <= number)?;
            let version = self.versions.get(until).filter(|version| version.operation != Operation::Deleted)?;
            Some((version.path.clone().or_else(|| file.path.clone())?, file.id))
        };
        self.files.iter().filter_map(path_of).collect()
    }

    /// Adds the files of another program among the present ones. `present` and the log must be of one moment.
    pub(crate) fn observe(&mut self, present: &[FileEntry]) {
        self.listed = present.iter().map(|entry| entry.path.clone()).collect();
        for entry in present {
            if !self.live.contains_key(&entry.path) {
                let time = entry.modified.or(entry.created).unwrap_or(SystemTime::UNIX_EPOCH);
                let file = self.known(&entry.path, time);
                self.files[file].created = Some(entry.created.unwrap_or(time));
            }
        }
    }

    /// Adds the next entry.
    pub(crate) fn add(&mut self, entry: &Entry) {
        let moved = entry.moved_from();
        for (index, change) in entry.changes.iter().enumerate() {
            let keeps = change.before().filter(|before| before.digest.is_some()).map(|_| (entry.number, index));
            match change {
                FileChange::Write { path, after, .. } if moved.is_some() => {
                    let file = moved.map(|from| self.known(from, entry.time)).unwrap_or_default();
                    let keeps = entry.changes.get(1).and_then(FileChange::before).and_then(|before| before.digest);
                    let keeps = keeps.map(|_| (entry.number, 1));
                    self.place(file, path);
                    let (operation, path, digest) = (Operation::Modified, Some(path.clone()), Some(*after));
                    self.push(entry, index, file, Done { operation, path, digest, keeps });
                }
                FileChange::Write { path, before, after } => {
                    let (file, operation) = match before {
                        Some(_) => (self.known(path, entry.time), Operation::Modified),
                        None => (self.create(entry, index, path), Operation::Created),
                    };
                    let (path, digest) = (Some(path.clone()), Some(*after));
                    self.push(entry, index, file, Done { operation, path, digest, keeps });
                }
                FileChange::Remove { .. } if entry.is_part_of_move(index) => {}
                FileChange::Remove { path, .. } => {
                    let file = self.known(path, entry.time);
                    self.vacate(file);
                    self.free(entry, index, path, None);
                    let (operation, path) = (Operation::Deleted, Some(path.clone()));
                    self.push(entry, index, file, Done { operation, path, digest: None, keeps });
                }
                FileChange::Rename { from, to } => self.rename(entry, index, from, to),
                FileChange::Redacted { .. } => self.add_redacted(entry, index, change, keeps),
            }
        }
        if let Origin::Redaction(_) = entry.origin {
            self.redactions.insert(entry.number, (entry.time, entry.actor.clone()));
        }
        self.last = (entry.number, entry.id);
        self.merge_births();
    }

    fn add_redacted(&mut self, entry: &Entry, index: usize, change: &FileChange, keeps: Option<(u64, usize)>) {
        let FileChange::Redacted { files, operation, is_rename, by, .. } = change else { return };
        let of_move = entry.changes.get(1).filter(|_| index == 0 && entry.is_part_of_move(1));
        let moved = of_move.and_then(FileChange::before).and_then(|before| before.digest);
        let keeps = keeps.or_else(|| moved.map(|_| (entry.number, 1)));
        for id in files {
            let file = self.by_id.get(id).copied().unwrap_or_else(|| self.track(*id, None));
            if *is_rename || *operation != Operation::Modified {
                self.vacate(file);
            }
            self.push(entry, index, file, Done { operation: *operation, path: None, digest: None, keeps });
            let version = VersionId::new(entry.number, index, entry.id, *id);
            if let Some(version) = self.versions.get_mut(&version) {
                version.redacted_by = Some(*by);
            }
        }
    }

    /// Gives the files the recorded identities, if this is their entry.
    fn merge_births(&mut self) {
        if self.births.after != self.last.0 {
            return;
        }
        let (recorded, mut live) = (std::mem::take(&mut self.births.live), BTreeMap::new());
        for Birth { path, file: id, is_by_path, created, head } in recorded {
            let known = self.live.remove(&path).or_else(|| self.by_id.get(&id).copied());
            let file = known.unwrap_or_else(|| self.track(id, None));
            let file = self.identify(file, id);
            let tracked = &mut self.files[file];
            (tracked.path, tracked.is_by_path) = (Some(path.clone()), is_by_path);
            tracked.created = created.map(|Time(time)| time);
            if let Some((head, version)) = head
                && tracked.versions.is_empty()
            {
                self.insert(head, FileVersion { path: Some(path.clone()), ..version });
            }
            live.insert(path, file);
        }
        for (_, file) in std::mem::replace(&mut self.live, live) {
            self.files[file].path = None;
        }
        for (number, index, id, is_by_path) in self.births.removed.clone() {
            let file = self.of_change(number, index).next().and_then(|(_, version)| self.by_id.get(&version.file));
            if let Some(file) = file.copied() {
                let file = self.identify(file, id);
                self.files[file].is_by_path = is_by_path;
            }
        }
        self.freed.clear(); // the record has all files of other programs
        self.since = if self.births.entry == Id::default() { self.history } else { self.births.entry };
    }

    /// The record after the newest entry, for a log whose oldest entry is `first`.
    pub(crate) fn births(&self, first: u64) -> Births {
        // Another program can have removed a file whose path is erased.
        let live = self.live.iter().filter(|(path, _)| self.listed.contains(*path)).map(|(path, file)| {
            let file = &self.files[*file];
            let head = file.head().and_then(|head| Some((head, self.versions.get(&head)?.clone())));
            let (path, created) = (path.clone(), file.created.map(Time));
            Birth { path, file: file.id, is_by_path: file.is_by_path, created, head }
        });
        let is_removal = |(_, version): &(&VersionId, &FileVersion)| {
            version.operation == Operation::Deleted && version.redacted_by.is_none()
        };
        let removals = self.versions.iter().filter(is_removal);
        let of_removal = |(id, version): (&VersionId, &FileVersion)| {
            let is_by_path = self.file(version.file).is_some_and(|file| file.is_by_path);
            ((id.number, id.index), (version.file, is_by_path))
        };
        let mut removed: BTreeMap<_, _> = removals.map(of_removal).collect();
        for (number, index, file, is_by_path) in &self.births.removed {
            if self.of_change(*number, *index).next().is_none() {
                removed.insert((*number, *index), (*file, *is_by_path));
            }
        }
        let removed = removed.into_iter().filter(|((number, _), _)| *number >= first);
        let removed = removed.map(|((number, index), (file, is_by_path))| (number, index, file, is_by_path)).collect();
        let (after, entry) = self.last;
        Births { after, entry: if after == 0 { Id::default() } else { entry }, live: live.collect(), removed }
    }

    fn insert(&mut self, id: VersionId, version: FileVersion) {
        if let Some(file) = self.by_id.get(&version.file) {
            let versions = &mut self.files[*file].versions;
            let at = versions.partition_point(|known| *known < id);
            versions.insert(at, id);
        }
        self.versions.insert(id, version);
    }

    fn push(&mut self, entry: &Entry, index: usize, file: usize, Done { operation, path, digest, keeps }: Done) {
        let (file, time, redacted_by) = (self.files[file].id, entry.time, None);
        let (actor, command) = (entry.actor.clone(), entry.command.clone());
        let version =
            FileVersion { file, entry: entry.id, operation, path, digest, time, actor, command, keeps, redacted_by };
        self.insert(VersionId::new(entry.number, index, entry.id, file), version);
    }

    /// Adds a file with this identity.
    fn track(&mut self, id: Id, created: Option<SystemTime>) -> usize {
        let file = self.files.len();
        self.files.push(TrackedFile { id, created, path: None, versions: Vec::new(), is_by_path: false });
        self.by_id.insert(id, file);
        file
    }

    fn create(&mut self, entry: &Entry, index: usize, path: &StorePath) -> usize {
        let id = hashed(&[entry.id.as_bytes(), &index.to_le_bytes()]);
        let file = self.track(id, Some(entry.time));
        self.place(file, path);
        file
    }

    /// Gives a file another identity, which versions have too, or makes it one with the file that has this identity.
    fn identify(&mut self, file: usize, id: Id) -> usize {
        let former = self.files[file].id;
        if former == id {
            return file;
        }
        self.by_id.remove(&former);
        let file_of_id = *self.by_id.entry(id).or_insert(file);
        self.files[file_of_id].id = id;
        self.files[file_of_id].is_by_path = false;
        for known in std::mem::take(&mut self.files[file].versions) {
            let version = self.versions.remove(&known);
            // A replay without the entry of the creation takes the file for one of another program.
            if let Some(version) = version.filter(|_| known.number > 0) {
                let renamed = VersionId::new(known.number, known.index, version.entry, id);
                self.insert(renamed, FileVersion { file: id, ..version });
            }
        }
        file_of_id
    }

    /// The file with this path. If no entry created it, another program did, at this time.
    fn known(&mut self, path: &StorePath, time: SystemTime) -> usize {
        if let Some(file) = self.live.get(path) {
            return *file;
        }
        let (mut origin, mut since, mut renames) = (path.clone(), self.since, Vec::new());
        for freed in self.freed.iter().rev() {
            match &freed.to {
                Some(to) if origin == *to || origin.is_under(to) => {
                    renames.push((freed.clone(), origin.clone()));
                    origin = origin.replace_prefix(to, &freed.from).unwrap_or(origin);
                }
                to if origin == freed.from || to.is_some() && origin.is_under(&freed.from) => {
                    since = freed.entry.id;
                    break;
                }
                _ => {}
            }
        }
        let id = hashed(&[self.history.as_bytes(), since.as_bytes(), origin.as_str().as_bytes()]);
        let file = match self.by_id.get(&id) {
            Some(file) => *file,
            None => self.track_outside(id, origin, time),
        };
        for (freed, path) in renames.into_iter().rev() {
            let (operation, path) = (Operation::Modified, Some(path));
            self.push(&freed.entry, freed.index, file, Done { operation, path, digest: None, keeps: None });
        }
        self.place(file, path);
        file
    }

    /// Adds a file of another program, with a version.
    fn track_outside(&mut self, id: Id, path: StorePath, time: SystemTime) -> usize {
        let file = self.track(id, None);
        self.files[file].is_by_path = true;
        let version = FileVersion {
            file: id,
            entry: Id::default(),
            operation: Operation::Created,
            path: Some(path),
            digest: None,
            time,
            actor: None,
            command: None,
            keeps: None,
            redacted_by: None,
        };
        self.insert(VersionId::new(0, 0, Id::default(), id), version);
        file
    }

    /// Gives random identities to files of entries that will be redacted, because those of files by other programs are
    /// made from their paths.
    pub(crate) fn hide_paths(&mut self, entries: impl Fn(u64) -> bool) -> Result<(), StoreError> {
        let of_entries = self.versions.iter().filter(|(id, _)| entries(id.number));
        let files: BTreeSet<_> = of_entries.filter_map(|(_, version)| self.by_id.get(&version.file).copied()).collect();
        for file in files {
            if self.files[file].is_by_path {
                self.identify(file, Id::random()?);
            }
        }
        Ok(())
    }

    /// Moves a file to a path.
    fn place(&mut self, file: usize, path: &StorePath) {
        self.vacate(file);
        self.files[file].path = Some(path.clone());
        self.listed.insert(path.clone());
        if let Some(former) = self.live.insert(path.clone(), file) {
            self.files[former].path = None;
        }
    }

    fn vacate(&mut self, file: usize) {
        if let Some(path) = self.files[file].path.take() {
            self.live.remove(&path);
        }
    }

    fn free(&mut self, entry: &Entry, index: usize, from: &StorePath, to: Option<&StorePath>) {
        let entry = entry.without_changes();
        self.freed.push(Freed { entry, index, from: from.clone(), to: to.cloned() });
    }

    fn rename(&mut self, entry: &Entry, index: usize, from: &StorePath, to: &StorePath) {
        let below = self.live.range(from..).take_while(|(path, _)| *path == from || path.is_under(from));
        let moved: Vec<_> = below.map(|(path, file)| (path.clone(), *file)).collect();
        for (path, file) in moved {
            let Ok(new) = path.replace_prefix(from, to) else { continue };
            self.place(file, &new);
            let head = self.files[file].head().and_then(|head| self.versions.get(&head));
            let digest = head.and_then(|head| head.digest);
            let (operation, path) = (Operation::Modified, Some(new));
            self.push(entry, index, file, Done { operation, path, digest, keeps: None });
        }
        self.free(entry, index, from, Some(to));
    }
}

/// The effect of a change on a file: the fields of a [`FileVersion`].
struct Done {
    operation: Operation,
    path: Option<StorePath>,
    digest: Option<Digest>,
    keeps: Option<(u64, usize)>,
}

/// The first bytes of the SHA-256 of several values.
fn hashed(parts: &[&[u8]]) -> Id {
    let digest = parts.iter().fold(Sha256::new(), |hash, part| hash.chain_update(part)).finalize();
    let mut bytes = [0; 8];
    bytes.copy_from_slice(&digest[..8]);
    Hex::new(bytes)
}
