//! Checkpoints: the state after a commit, which saves reading the log from its start.
//!
//! A checkpoint is a list of runs. A run holds the changes of a range of commits: the record of each file that exists,
//! and an empty entry for each removed file. The oldest run holds all files, so a reader that merges the runs in order
//! has the state. A new checkpoint takes over the oldest runs of the previous one and adds one run, which replaces all
//! later runs that are not larger. Therefore there are few runs, and each change is rewritten only about as often as
//! the store doubles in size.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use futures::{StreamExt, TryStreamExt, stream};
use memory_tool_core::{PathMap, Problem, StorePath};
use object_store::ObjectMeta;
use object_store::path::Path;
use serde::{Deserialize, Serialize};

use crate::blocking::run_maybe_blocking;
use crate::content::{Content, FileRecord, Slice};
use crate::deadline::Deadline;
use crate::digest::Digest;
use crate::failure::Failure;
use crate::format::{self, Damage, Format};
use crate::id::Id;
use crate::inner::Inner;
use crate::keys::Keys;
use crate::manifest::{Manifest, RunName};
use crate::state::State;

/// The number of commits after which a checkpoint is written.
pub(crate) const COMMITS: u64 = 64;
/// The bytes of commits after which a checkpoint is written.
const BYTES: u64 = 4 * 1024 * 1024;
/// The most bytes of contents in a checkpoint. If there are more, the oldest contents move into packs.
const MAX_INLINE_BYTES: usize = 4 * 1024 * 1024;
/// The approximate bytes of contents in a pack or a part of a run.
const PART_BYTES: usize = 4 * 1024 * 1024;
/// The approximate bytes of an entry of a run without its contents.
const ENTRY_BYTES: usize = 256;
/// The largest run in bytes that is read.
const MAX_RUN_BYTES: usize = 64 * 1024 * 1024;
/// The largest checkpoint in bytes that is read, without its runs.
const MAX_MANIFEST_BYTES: usize = 16 * 1024 * 1024;
/// The number of packs and runs that are written at a time.
const WRITES: usize = 8;
/// The number of runs that are read at a time, which have no more bytes together than twice the state.
const READS: usize = 64;

/// A run, or a part of a large one.
#[derive(Debug, Default, Deserialize, Serialize)]
pub(crate) struct Run {
    pub(crate) store: Id,
    /// As in the [`RunName`]. A repair also uses runs that no checkpoint names.
    pub(crate) after: u64,
    pub(crate) through: u64,
    pub(crate) parts: usize,
    files: BTreeMap<StorePath, Option<FileRecord>>,
}

struct Draft {
    manifest: Manifest,
    /// The latest checkpoint at the time of the draft.
    replaces: u64,
    /// The source of the state, if the checkpoint takes all locations of contents from the state.
    source: Option<(u64, u64)>,
    run: Run,
    /// The bytes of contents that move into packs.
    excess: usize,
}

impl State {
    /// Whether the author of the latest commit writes a checkpoint. Exactly one session does for a given log.
    pub(crate) fn is_checkpoint_due(&self, number: u64, size: usize) -> bool {
        let commits = number.saturating_sub(self.checkpoint.through);
        let before = self.log_bytes.saturating_sub(size as u64);
        (commits > 0 && commits.is_multiple_of(COMMITS)) || before / BYTES != self.log_bytes / BYTES
    }

    /// Whether checkpoints were not written, for example because their authors ended after their commits.
    pub(crate) fn is_checkpoint_overdue(&self) -> bool {
        self.number - self.checkpoint.through >= 2 * COMMITS
    }

    /// A full checkpoint takes over no runs.
    fn draft(&self, full: bool) -> Draft {
        let (after, kept) = if full { (0, Vec::new()) } else { self.runs_to_keep() };
        let (store, through) = (self.store, self.number);
        let files = self.files.files();
        let files = if after == 0 {
            files.iter().map(|(path, file)| (path.clone(), Some(file.clone()))).collect()
        } else {
            let changed = self.changed_files.iter().filter(|(_, number)| **number > after);
            changed.map(|(path, _)| (path.clone(), files.get(path).cloned())).collect()
        };
        let run = Run { store, after, through, parts: 0, files };
        let manifest = Manifest {
            store: self.store,
            through: self.number,
            commit: self.commit,
            collections: self.collections,
            trimmed: self.trimmed,
            kept_before: self.kept_before,
            runs: kept,
        };
        let replaces = self.checkpoint.through;
        let source = (after == 0 || self.source.0 == replaces).then_some(self.source);
        let mut draft = Draft { manifest, replaces, source, run, excess: 0 };
        draft.add_oldest_of(self);
        draft
    }

    /// The runs that a new checkpoint takes over, and the commit after which its new run begins.
    fn runs_to_keep(&self) -> (u64, Vec<RunName>) {
        let mut kept = self.checkpoint.runs.clone();
        let (mut after, mut bytes) = (self.checkpoint.through, self.log_bytes);
        while let Some(last) = kept.last() {
            let begin = kept.partition_point(|run| run.after < last.after);
            let last_bytes = kept.iter().skip(begin).map(|run| run.bytes).fold(0, u64::saturating_add);
            if last_bytes > bytes {
                return (after, kept);
            }
            after = last.after;
            bytes = bytes.saturating_add(last_bytes);
            kept.truncate(begin);
        }
        (0, kept)
    }
}

impl Draft {
    /// Adds the oldest contents that the state holds, if it holds too much, so that they can be moved into packs.
    fn add_oldest_of(&mut self, state: &State) {
        let held = state.inline_bytes();
        if held <= MAX_INLINE_BYTES {
            return;
        }
        self.excess = held - MAX_INLINE_BYTES / 2;
        let mut files: Vec<_> = state.files.files().iter().filter(|(_, file)| file.inline_len() > 0).collect();
        files.sort_by_key(|(_, file)| file.commit);
        let mut found = 0;
        for (path, file) in files {
            if found >= self.excess {
                break;
            }
            found += file.inline_len();
            self.run.files.entry(path.clone()).or_insert_with(|| Some(file.clone()));
        }
    }

    /// Moves the oldest contents into packs, and returns the packs.
    fn pack(&mut self, unique: &Id) -> Vec<(String, Bytes)> {
        let mut oldest: Vec<_> = self.run.files.values_mut().flatten().filter(|file| file.inline_len() > 0).collect();
        oldest.sort_by_key(|file| file.commit);
        let (mut packs, mut pack, mut moved) = (Vec::new(), Vec::new(), 0);
        let key = |number: usize| Keys::name_for_pack(&format!("{unique}-{number}"));
        for file in oldest {
            if moved >= self.excess {
                break;
            }
            let Content::Inline(bytes) = &file.content else { continue };
            moved += bytes.len();
            let slice = Slice { key: key(packs.len()), offset: pack.len() as u64, sha256: Digest::of(bytes) };
            pack.extend_from_slice(bytes);
            file.content = Content::Object(slice);
            if pack.len() >= PART_BYTES {
                packs.push((key(packs.len()), std::mem::take(&mut pack).into()));
            }
        }
        if !pack.is_empty() {
            packs.push((key(packs.len()), pack.into()));
        }
        packs
    }

    /// The slices that contents were moved to, by the versions of the contents.
    fn moves(&self) -> BTreeMap<String, Slice> {
        let files = self.run.files.values().flatten();
        files.filter_map(|file| Some((file.version.clone(), file.slice()?.clone()))).collect()
    }

    /// The objects of the run, which the manifest names from now on.
    fn encode(&mut self, unique: &Id) -> serde_json::Result<Vec<(String, Bytes)>> {
        let mut objects = Vec::new();
        for (number, part) in std::mem::take(&mut self.run).split().into_iter().enumerate() {
            let bytes = Bytes::from(format::encode(Format::Run, &part)?);
            let key = Keys::name_for_run(&format!("{unique}-{number}"));
            self.manifest.runs.push(RunName {
                key: key.clone(),
                after: part.after,
                through: part.through,
                bytes: bytes.len() as u64,
                sha256: Digest::of(&bytes),
            });
            objects.push((key, bytes));
        }
        Ok(objects)
    }
}

impl Run {
    /// The run in parts of a limited size.
    fn split(self) -> Vec<Self> {
        let Self { store, after, through, files, .. } = self;
        let mut files = files.into_iter().peekable();
        let mut parts = Vec::new();
        while files.peek().is_some() {
            let (mut part, mut bytes) = (Self { store, after, through, ..Self::default() }, 0);
            while bytes < PART_BYTES
                && let Some((path, file)) = files.next()
            {
                bytes += ENTRY_BYTES + file.as_ref().map_or(0, FileRecord::inline_len);
                part.files.insert(path, file);
            }
            parts.push(part);
        }
        let count = parts.len();
        parts.iter_mut().for_each(|part| part.parts = count);
        parts
    }
}

impl Inner {
    /// Writes a checkpoint of the present state, unless the checkpoint that it replaces is no longer the latest.
    ///
    /// # Errors
    /// The errors of the bucket, and [`Busy`](memory_tool_core::ErrorKind::Busy) if another checkpoint or a
    /// collection was first.
    pub(crate) async fn write_checkpoint(self: &Arc<Self>, full: bool, replaces: u64) -> Result<(), Failure> {
        let permit = self.deadline().limit(self.checkpointing.acquire()).await;
        let _permit = permit.map_err(|_| Failure::checkpoint_outdated())?;
        // The places are checked and used under one lock, because a reader may bring the state forward at any time.
        let draft = || {
            let state = self.state();
            state.knows_places().then(|| state.draft(full))
        };
        let mut drafted = draft();
        if drafted.is_none() {
            self.reload_from_noted(&self.deadline()).await?;
            drafted = draft();
        }
        let draft = drafted.filter(|draft| draft.replaces == replaces).ok_or_else(Failure::checkpoint_outdated)?;
        let source = draft.source;
        let (manifest, moves) = self.put_runs(draft).await?;
        self.note_checkpoint(manifest.clone(), replaces).await?;
        self.state_mut().follow_moves(&moves, manifest.through, source);
        self.put_pointer(&manifest).await
    }

    /// Puts the whole state as the runs of a checkpoint that takes over no others.
    pub(crate) async fn put_full_runs(&self) -> Result<Manifest, Failure> {
        let draft = self.state().draft(true);
        self.put_runs(draft).await.map(|(manifest, _)| manifest)
    }

    /// Puts the runs of a checkpoint, and the packs for contents that it moves. Returns the checkpoint and the new
    /// locations of contents by their versions.
    async fn put_runs(&self, mut draft: Draft) -> Result<(Manifest, BTreeMap<String, Slice>), Failure> {
        let unique = Id::random()?;
        let work = move || {
            let packs = if draft.excess > 0 { draft.pack(&unique) } else { Vec::new() };
            let moves = draft.moves();
            draft.encode(&unique).map(|runs| (draft.manifest, moves, packs, runs))
        };
        let (manifest, moves, packs, runs) =
            run_maybe_blocking(usize::MAX, work).await?.map_err(Failure::unwritable)?;
        self.put_all(packs.into_iter().chain(runs)).await?;
        Ok((manifest, moves))
    }

    async fn put_all(&self, objects: impl Iterator<Item = (String, Bytes)>) -> Result<(), Failure> {
        let put = |(name, bytes): (String, Bytes)| async move {
            self.bucket.put_content(&name, bytes, &self.deadline()).await
        };
        let objects: Vec<_> = objects.collect();
        stream::iter(objects).map(put).buffer_unordered(WRITES).try_collect().await
    }

    /// Puts the object by which a checkpoint is found. Everyone puts the same bytes.
    pub(crate) async fn put_pointer(&self, manifest: &Manifest) -> Result<(), Failure> {
        let bytes = format::encode(Format::Checkpoint, manifest).map_err(Failure::unwritable)?;
        let key = self.bucket.keys.checkpoint(manifest.through);
        self.bucket.put(&key, bytes.into(), &self.deadline()).await
    }

    /// The state of the checkpoint whose pointer has this number.
    pub(crate) async fn load_pointer(&self, through: u64, deadline: &Deadline) -> Result<State, Failure> {
        let key = match self.manifest(through, deadline).await? {
            Some(manifest) => match self.load(manifest, deadline).await? {
                Ok(state) => return Ok(state),
                Err(run) => run,
            },
            None => self.bucket.keys.checkpoint(through).to_string(),
        };
        Err(Damage::Missing { key }.into())
    }

    /// The checkpoint of the state after a commit, if there is one.
    pub(crate) async fn manifest(&self, through: u64, deadline: &Deadline) -> Result<Option<Manifest>, Failure> {
        let key = self.bucket.keys.checkpoint(through);
        let Some(bytes) = self.bucket.get(&key, MAX_MANIFEST_BYTES, deadline).await? else { return Ok(None) };
        let manifest = Manifest::decode(key.as_ref(), &bytes)?;
        if manifest.through != through {
            return Err(Damage::inconsistent(key, "it is the checkpoint of another commit").into());
        }
        Ok(Some(manifest))
    }

    /// The pointers in the bucket, by their numbers.
    pub(crate) async fn pointers(&self, deadline: &Deadline) -> Result<BTreeMap<u64, ObjectMeta>, Failure> {
        let keys = &self.bucket.keys;
        let listed = self.bucket.list(&keys.checkpoints(), deadline).await?;
        Ok(listed.into_iter().filter_map(|object| Some((keys.checkpoint_number(&object.location)?, object))).collect())
    }

    /// The state of a checkpoint, or the key of an object of it that is missing.
    pub(crate) async fn load(&self, manifest: Manifest, deadline: &Deadline) -> Result<Result<State, String>, Failure> {
        let runs = manifest.runs.clone();
        let mut loaded = stream::iter(runs).map(|run| self.load_run(run, deadline)).buffered(READS);
        let base = manifest.base();
        let (mut files, mut changed_files) = (BTreeMap::new(), BTreeMap::new());
        while let Some(run) = loaded.try_next().await? {
            let (name, run) = match run {
                Ok(run) => run,
                Err(missing) => return Ok(Err(missing)),
            };
            if name.through > base {
                changed_files.extend(run.files.keys().map(|path| (path.clone(), name.through)));
            }
            merge(&mut files, run.files);
        }
        drop(loaded);
        let files = PathMap::from(files);
        check_tree(&files).map_err(|what| Damage::inconsistent(self.bucket.keys.checkpoint(manifest.through), what))?;
        Ok(Ok(State {
            store: manifest.store,
            number: manifest.through,
            commit: manifest.commit,
            files,
            collections: manifest.collections,
            trimmed: manifest.trimmed,
            kept_before: manifest.kept_before,
            source: (manifest.through, manifest.collections),
            checkpoint: manifest,
            log_bytes: 0,
            changed_files,
        }))
    }

    pub(crate) async fn load_run(
        &self,
        name: RunName,
        deadline: &Deadline,
    ) -> Result<Result<(RunName, Run), String>, Failure> {
        let key = self.bucket.keys.content(&name.key)?;
        Ok(match self.read_run(&key, Some(name.sha256), deadline).await? {
            Some(run) => Ok((name, run)),
            None => Err(key.to_string()),
        })
    }

    /// The run with this key, if it exists. It is damaged if it does not have the expected digest.
    pub(crate) async fn read_run(
        &self,
        key: &Path,
        expected: Option<Digest>,
        deadline: &Deadline,
    ) -> Result<Option<Run>, Failure> {
        let Some(bytes) = self.bucket.get(key, MAX_RUN_BYTES, deadline).await? else { return Ok(None) };
        let key = key.to_string();
        let decode = move || {
            if expected.is_some_and(|expected| Digest::of(&bytes) != expected) {
                return Err(Damage::inconsistent(key, "it is not what was put there"));
            }
            format::decode(&key, &bytes, Format::Run)
        };
        Ok(Some(run_maybe_blocking(usize::MAX, decode).await??))
    }
}

/// A run of a damaged store, with the parts that are left.
#[derive(Clone, Debug, Default)]
pub(crate) struct LeftRun {
    pub(crate) store: Id,
    pub(crate) after: u64,
    pub(crate) through: u64,
    missing_parts: Option<usize>,
    files: BTreeMap<StorePath, Option<FileRecord>>,
}

impl LeftRun {
    pub(crate) fn add(&mut self, part: Run) {
        (self.store, self.after, self.through) = (part.store, part.after, part.through);
        self.missing_parts = Some(self.missing_parts.unwrap_or(part.parts).saturating_sub(1));
        self.files.extend(part.files);
    }

    /// Brings the files to the state at the end of the run.
    pub(crate) fn apply_to(self, state: &mut PathMap<FileRecord>, lost: &mut Vec<Problem>) {
        let mut files = state.files().clone();
        match self.missing_parts {
            Some(missing @ 1..) => lost.push(Problem::new(format!(
                "{missing} of the parts of the run up to commit {} are missing: its changes of other files are lost",
                self.through
            ))),
            _ if self.after == 0 => files.clear(),
            _ => {}
        }
        merge(&mut files, self.files);
        let merged = PathMap::from(files);
        match check_tree(&merged) {
            Ok(()) => *state = merged,
            Err(what) => {
                lost.push(Problem::new(format!("the run up to commit {} cannot be used: {what}", self.through)));
            }
        }
    }
}

fn merge(files: &mut BTreeMap<StorePath, FileRecord>, changes: BTreeMap<StorePath, Option<FileRecord>>) {
    for (path, change) in changes {
        match change {
            Some(file) => files.insert(path, file),
            None => files.remove(&path),
        };
    }
}

/// Checks that the files can exist together.
fn check_tree(files: &PathMap<FileRecord>) -> Result<(), &'static str> {
    let paths = files.files();
    if [StorePath::memories(), StorePath::records()].iter().any(|root| paths.contains_key(root)) {
        return Err("it has a file at the root");
    }
    // A path sorts directly before the paths under it, so a file above another is its neighbor.
    let mut neighbours = paths.keys().zip(paths.keys().skip(1));
    if neighbours.any(|(path, next)| next.is_under(path)) {
        return Err("it has a file under a file");
    }
    Ok(())
}
