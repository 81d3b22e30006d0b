//! [`Index`]: the ids and versions of the files of a memory.
//!
//! The ids are not stored with the files. They follow from the history, so all servers agree on them:
//!
//! - The id of a file is a hash of the entry and the change that created it, and of the entry's time. It follows
//!   renames of the file and of directories above it.
//! - A file that another program wrote has no such entry. Its id is a hash of its path before the renames in the log.
//! - A version is a change of an entry: `memver_{number}_{index}`. A rename of a directory is one version of each file
//!   in it, with a part of the file's id at the end.
//!
//! Limits remove old entries, at least 64 newer ones stay. So a record keeps the ids of all files after an entry, and
//! is written again after [`RENEWED_AFTER`] more entries.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use memory_tool::FileEntry;
use memory_tool::history::{Digest, Entry, FileChange, Origin};
use memory_tool::store::StorePath;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

/// The entries after which the record of the ids is written again. A log keeps at least 64.
pub(super) const RENEWED_AFTER: u64 = 32;

/// The prefix of the commands of this API in the history.
pub(super) const COMMAND_PREFIX: &str = "api_";
pub(super) const CREATE: &str = "api_create";
/// A batch of this command that writes a file and removes another one moves the file with new contents.
pub(super) const UPDATE: &str = "api_update";
pub(super) const DELETE: &str = "api_delete";

/// Names a version.
#[derive(Clone, Debug, Deserialize, Eq, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(into = "String", try_from = "String")]
pub(super) struct VersionId {
    pub(super) number: u64,
    pub(super) index: usize,
    /// A part of the id of the file, where a change has several versions.
    part: String,
}

impl From<VersionId> for String {
    fn from(id: VersionId) -> Self {
        let VersionId { number, index, part } = id;
        if part.is_empty() { format!("memver_{number}_{index}") } else { format!("memver_{number}_{index}_{part}") }
    }
}

impl TryFrom<String> for VersionId {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        let parse = || {
            let mut parts = text.strip_prefix("memver_")?.splitn(3, '_');
            let (number, index) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
            Some(Self { number, index, part: parts.next().unwrap_or_default().to_owned() })
        };
        parse().filter(|id| String::from(id.clone()) == text).ok_or("not the id of a version")
    }
}

#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Operation {
    Created,
    Modified,
    Deleted,
}

/// The author of a change.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(tag = "type")]
pub(super) enum ActorRef {
    #[serde(rename = "api_actor")]
    Api { api_key_id: String },
    #[serde(rename = "session_actor")]
    Session { session_id: String },
    #[serde(rename = "user_actor")]
    User { user_id: String },
}

impl ActorRef {
    /// The commands of the tool are by an agent, those of the API by a token, and all others by a person or a program.
    fn of(entry: &Entry) -> Option<Self> {
        let name = entry.actor.clone()?;
        Some(match entry.command.as_deref() {
            Some(command) if command.starts_with(COMMAND_PREFIX) => Self::Api { api_key_id: name },
            Some("create" | "str_replace" | "insert" | "delete" | "rename") => Self::Session { session_id: name },
            _ => Self::User { user_id: name },
        })
    }
}

/// The redaction of a version, with the fields that stay.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(super) struct Redacted {
    pub(super) memory_id: Arc<str>,
    pub(super) operation: Operation,
    pub(super) at: u64,
    pub(super) by: ActorRef,
}

/// One change of one file.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(super) struct Version {
    pub(super) operation: Operation,
    pub(super) path: Option<StorePath>,
    /// The contents after the change.
    pub(super) digest: Option<Digest>,
    /// Milliseconds since 1970.
    pub(super) time: u64,
    pub(super) actor: Option<ActorRef>,
    #[serde(skip)]
    pub(super) file: usize,
    /// The change that keeps the contents before this version.
    #[serde(skip)]
    pub(super) keeps: Option<(u64, usize)>,
    #[serde(skip)]
    pub(super) redacted: Option<Redacted>,
}

/// A file that exists or was removed.
#[derive(Clone, Debug)]
pub(super) struct File {
    pub(super) id: Arc<str>,
    pub(super) created: Option<u64>,
    /// `None` if it was removed.
    pub(super) path: Option<StorePath>,
    pub(super) head: Option<VersionId>,
}

/// The record of the ids.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub(super) struct Ids {
    /// The entry after which the files have these ids.
    pub(super) number: u64,
    live: Vec<LiveId>,
    /// The ids of removed files, by their last versions.
    removed: BTreeMap<VersionId, Arc<str>>,
    pub(super) redacted: BTreeMap<VersionId, Redacted>,
}

#[derive(Clone, Debug, Deserialize, Serialize)]
struct LiveId {
    path: StorePath,
    id: Arc<str>,
    created: Option<u64>,
    head: VersionId,
    version: Version,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Index {
    /// The newest entry that was read.
    pub(super) last: Option<Entry>,
    pub(super) ids: Ids,
    pub(super) files: Vec<File>,
    live: BTreeMap<StorePath, usize>,
    by_id: HashMap<Arc<str>, usize>,
    pub(super) versions: BTreeMap<VersionId, Version>,
    renames: Vec<(u64, StorePath, StorePath)>,
}

impl Index {
    /// Replays a whole log, oldest entry first, with the record of the ids.
    pub(super) fn new(ids: Ids, entries: Vec<Entry>) -> Self {
        let mut index = Self { ids, ..Self::default() };
        let oldest = entries.first().map_or(u64::MAX, |entry| entry.number);
        let mut is_merged = false;
        if index.ids.number < oldest {
            index.merge();
            is_merged = true;
        }
        for entry in entries {
            let number = entry.number;
            index.extend(entry);
            if !is_merged && number >= index.ids.number {
                index.merge();
                is_merged = true;
            }
        }
        if !is_merged {
            index.merge();
        }
        index
    }

    pub(super) fn number(&self) -> u64 {
        self.last.as_ref().map_or(0, |entry| entry.number)
    }

    /// Gives the files the ids of the record.
    fn merge(&mut self) {
        let record = std::mem::take(&mut self.ids.live);
        let mut live = BTreeMap::new();
        for LiveId { path, id, created, head, mut version } in record {
            let file = match self.live.remove(&path) {
                Some(file) => file,
                None => self.add(Arc::clone(&id), created, &path),
            };
            self.live.remove(&path);
            self.rename_id(file, id);
            self.files[file].created = created;
            self.files[file].path = Some(path.clone());
            version.file = file;
            self.versions.entry(head.clone()).or_insert(version);
            self.files[file].head = Some(head);
            live.insert(path, file);
        }
        for (_, file) in std::mem::replace(&mut self.live, live) {
            self.files[file].path = None;
        }
        for (version, id) in self.ids.removed.clone() {
            if let Some(file) = self.versions.get(&version).map(|version| version.file) {
                self.rename_id(file, id);
            }
        }
    }

    fn rename_id(&mut self, file: usize, id: Arc<str>) {
        self.by_id.remove(&self.files[file].id);
        self.by_id.insert(Arc::clone(&id), file);
        self.files[file].id = id;
    }

    fn add(&mut self, id: Arc<str>, created: Option<u64>, path: &StorePath) -> usize {
        let file = self.files.len();
        self.files.push(File { id: Arc::clone(&id), created, path: Some(path.clone()), head: None });
        self.by_id.insert(id, file);
        if let Some(former) = self.live.insert(path.clone(), file) {
            self.files[former].path = None;
        }
        file
    }

    /// The file with this path. If no entry created it, its id is made from its path.
    fn known(&mut self, path: &StorePath) -> usize {
        if let Some(file) = self.live.get(path) {
            return *file;
        }
        let (mut origin, mut since) = (path.clone(), 0);
        for (number, from, to) in self.renames.iter().rev() {
            if origin == *to || origin.is_under(to) {
                origin = origin.replace_prefix(to, from).unwrap_or(origin);
            } else if origin == *from || origin.is_under(from) {
                since = *number;
                break;
            }
        }
        let id = hashed(&format!("file {since} {origin}"));
        self.add(id, None, path)
    }

    /// Adds the next entry.
    pub(super) fn extend(&mut self, entry: Entry) {
        let moves = entry.command.as_deref() == Some(UPDATE) && entry.changes.len() == 2;
        let mut moved = None;
        for (index, change) in entry.changes.iter().enumerate() {
            let id = VersionId { number: entry.number, index, part: String::new() };
            let keeps = change.before().filter(|before| before.digest.is_some()).map(|_| (entry.number, index));
            match change {
                FileChange::Write { path, before: None, after, .. } if moves => {
                    moved = Some((id, path.clone(), Some(*after)));
                }
                FileChange::Redacted { .. } if moves && index == 0 => moved = Some((id, StorePath::memories(), None)),
                FileChange::Remove { path, .. } if moves && moved.is_some() => {
                    let Some((id, to, after)) = moved.take() else { continue };
                    let file = self.known(path);
                    self.live.remove(path);
                    if after.is_some() {
                        self.place(file, &to);
                    }
                    self.version(&entry, id, file, Operation::Modified, (after.map(|_| to), after), keeps);
                }
                FileChange::Write { path, before, after, .. } => {
                    let (file, operation) = if before.is_some() {
                        (self.known(path), Operation::Modified)
                    } else {
                        let created = millis(entry.time);
                        let new = hashed(&format!("entry {} {index} {created}", entry.number));
                        (self.add(new, Some(created), path), Operation::Created)
                    };
                    self.version(&entry, id, file, operation, (Some(path.clone()), Some(*after)), keeps);
                }
                FileChange::Remove { path, .. } => {
                    let file = self.known(path);
                    if self.files[file].head.is_none() && self.files[file].created.is_none() && self.ids.number > 0 {
                        self.rename_id(file, hashed(&format!("removed {} {index}", entry.number)));
                    }
                    self.live.remove(path);
                    self.files[file].path = None;
                    self.version(&entry, id, file, Operation::Deleted, (Some(path.clone()), None), keeps);
                }
                FileChange::Rename { from, to, .. } => self.rename(&entry, &id, from, to),
                _ => self.redacted(&entry, &id, keeps),
            }
        }
        self.last = Some(entry);
    }

    fn place(&mut self, file: usize, path: &StorePath) {
        self.files[file].path = Some(path.clone());
        if let Some(former) = self.live.insert(path.clone(), file).filter(|former| *former != file) {
            self.files[former].path = None;
        }
    }

    fn rename(&mut self, entry: &Entry, id: &VersionId, from: &StorePath, to: &StorePath) {
        let below = self.live.range(from..).take_while(|(path, _)| *path == from || path.is_under(from));
        let moved: Vec<_> = below.map(|(path, file)| (path.clone(), *file)).collect();
        for (path, file) in moved {
            self.live.remove(&path);
            let Ok(new) = path.replace_prefix(from, to) else { continue };
            self.place(file, &new);
            let part = if path == *from { String::new() } else { part_of(&self.files[file].id) };
            let id = VersionId { part, ..id.clone() };
            let head = self.files[file].head.as_ref().and_then(|head| self.versions.get(head));
            let digest = head.and_then(|head| head.digest);
            self.version(entry, id, file, Operation::Modified, (Some(new), digest), None);
        }
        self.renames.push((entry.number, from.clone(), to.clone()));
    }

    /// The record of the ids knows the versions of a redacted change.
    fn redacted(&mut self, entry: &Entry, id: &VersionId, keeps: Option<(u64, usize)>) {
        let of_change =
            |(version, _): &(&VersionId, &Redacted)| (version.number, version.index) == (id.number, id.index);
        let versions = self.ids.redacted.range(id.clone()..).take_while(of_change);
        let versions: Vec<_> = versions.map(|(id, redacted)| (id.clone(), redacted.clone())).collect();
        for (id, redacted) in versions {
            let file = match self.by_id.get(&redacted.memory_id) {
                Some(file) => *file,
                None => {
                    let file = self.files.len();
                    self.files.push(File { id: redacted.memory_id.clone(), created: None, path: None, head: None });
                    self.by_id.insert(redacted.memory_id.clone(), file);
                    file
                }
            };
            self.version(entry, id, file, redacted.operation, (None, None), keeps);
        }
    }

    fn version(
        &mut self,
        entry: &Entry,
        id: VersionId,
        file: usize,
        operation: Operation,
        (path, digest): (Option<StorePath>, Option<Digest>),
        keeps: Option<(u64, usize)>,
    ) {
        let redacted = self.ids.redacted.get(&id).filter(|_| path.is_none()).cloned();
        let (time, actor) = (millis(entry.time), ActorRef::of(entry));
        let version = Version { operation, path, digest, time, actor, file, keeps, redacted };
        self.versions.insert(id.clone(), version);
        self.files[file].head = Some(id);
    }

    /// Compares with the present files. Returns whether there are files that the log does not know.
    pub(super) fn observe(&mut self, present: &[FileEntry]) -> bool {
        let mut is_new = false;
        for entry in present {
            let file = self.known(&entry.path);
            if self.files[file].head.is_none() {
                is_new = true;
                let time = entry.modified.or(entry.created).map_or(0, millis);
                let id = VersionId { number: 0, index: 0, part: part_of(&self.files[file].id) };
                let path = Some(entry.path.clone());
                let operation = Operation::Created;
                let version =
                    Version { operation, path, digest: None, time, actor: None, file, keeps: None, redacted: None };
                self.versions.insert(id.clone(), version);
                self.files[file].created = Some(entry.created.map_or(time, millis));
                self.files[file].head = Some(id);
            }
        }
        is_new
    }

    /// The record of the ids, after the newest entry.
    pub(super) fn record(&self) -> Ids {
        let live = self.live.iter().filter_map(|(path, file)| {
            let file = &self.files[*file];
            let (head, id) = (file.head.clone()?, Arc::clone(&file.id));
            let version = self.versions.get(&head)?.clone();
            Some(LiveId { path: path.clone(), id, created: file.created, head, version })
        });
        let deleted = self.versions.iter().filter(|(_, version)| version.operation == Operation::Deleted);
        let removed = deleted.map(|(id, version)| (id.clone(), Arc::clone(&self.files[version.file].id))).collect();
        Ids { number: self.number(), live: live.collect(), removed, redacted: self.ids.redacted.clone() }
    }

    pub(super) fn needs_record(&self) -> bool {
        self.number() >= self.ids.number + RENEWED_AFTER
    }

    pub(super) fn file(&self, id: &str) -> Option<&File> {
        self.by_id.get(id).map(|file| &self.files[*file])
    }

    pub(super) fn at(&self, path: &StorePath) -> Option<&File> {
        self.live.get(path).map(|file| &self.files[*file])
    }

    pub(super) fn is_head(&self, id: &VersionId) -> bool {
        self.versions.get(id).is_some_and(|version| {
            let file = &self.files[version.file];
            file.path.is_some() && file.head.as_ref() == Some(id)
        })
    }

    /// The changes that keep the contents of a version, up to the next version with other contents. `None` for the last
    /// contents of the file.
    pub(super) fn keeper(&self, id: &VersionId) -> Option<(u64, usize)> {
        let file = self.versions.get(id)?.file;
        let later = self.versions.range(id.clone()..).skip(1);
        later.filter(|(_, version)| version.file == file).find_map(|(_, version)| version.keeps)
    }
}

/// Whether an entry changed older ones, so that the index must be made again.
pub(super) fn rewrites(entry: &Entry) -> bool {
    matches!(entry.origin, Origin::Redaction(_))
}

fn hashed(text: &str) -> Arc<str> {
    const DIGITS: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";
    let digest = Sha256::digest(text);
    let digits: String = digest.iter().take(24).map(|byte| char::from(DIGITS[usize::from(byte % 32)])).collect();
    format!("mem_{digits}").into()
}

fn part_of(id: &str) -> String {
    id.trim_start_matches("mem_").chars().take(10).collect()
}

pub(super) fn millis(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH).unwrap_or_default().as_millis().try_into().unwrap_or(0)
}

pub(super) fn time(millis: u64) -> SystemTime {
    UNIX_EPOCH.checked_add(Duration::from_millis(millis.min(253_402_300_799_000))).unwrap_or(UNIX_EPOCH)
}
