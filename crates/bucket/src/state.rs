//! [`State`]: the files and records of a store after a commit.

use std::collections::BTreeMap;

use bytes::Bytes;
use memory_tool_core::{Batch, InvalidBatch, PathMap, PathMapEdits, StoreError, StorePath};

use crate::commit::{Commit, Step, Stored};
use crate::content::{Content, FileRecord, Slice};
use crate::digest::Digest;
use crate::format::Damage;
use crate::id::Id;
use crate::keys::Keys;
use crate::manifest::Manifest;

/// The files and records of a store after the commit with this number.
#[derive(Clone, Debug, Default)]
pub(crate) struct State {
    pub(crate) store: Id,
    pub(crate) number: u64,
    pub(crate) commit: Digest,
    pub(crate) files: PathMap<FileRecord>,
    pub(crate) collections: u64,
    /// The number up to which the log is known to be trimmed.
    pub(crate) trimmed: u64,
    /// Objects up to this time stay, because a repair reported losses and they may help to undo these. In seconds since
    /// 1970, by the clock of the bucket.
    pub(crate) kept_before: i64,
    /// The latest checkpoint that the log notes.
    pub(crate) checkpoint: Manifest,
    /// The checkpoint from which the locations of contents were read, and the number of collections at that time.
    pub(crate) source: (u64, u64),
    /// The bytes of the commits since the latest checkpoint.
    pub(crate) log_bytes: u64,
    /// The paths that changed after the oldest run of the checkpoint, including removed ones, with the latest commit of
    /// each.
    pub(crate) changed_files: BTreeMap<StorePath, u64>,
}

impl State {
    /// Applies the commit after this state. A commit that cannot be applied changes nothing.
    pub(crate) fn apply(&mut self, key: &str, commit: Commit, stored: Stored) -> Result<(), Damage> {
        self.check_order(key, &commit)?;
        let mut undo = Vec::new();
        let Commit { store, number, time, batches, .. } = commit;
        let mut notes = Vec::new();
        for step in batches.iter().flatten() {
            let noted = match step {
                Step::Checkpoint(manifest) => {
                    manifest.check(key)?;
                    manifest.through
                }
                Step::Trimmed { through } => *through,
                _ => continue,
            };
            if noted >= number {
                return Err(Damage::inconsistent(key, "it notes a later commit"));
            }
        }
        for steps in batches {
            match self.replay(steps, time, &mut notes) {
                Ok(edits) => undo.push(self.files.edit(edits)),
                Err(error) => {
                    self.undo(undo);
                    return Err(Damage::DoesNotFit { key: key.to_owned(), source: error });
                }
            }
        }
        for edits in &undo {
            self.changed_files.extend(edits.iter().map(|(path, _)| (path.clone(), number)));
        }
        (self.store, self.number, self.commit) = (store, number, stored.digest);
        self.log_bytes += stored.size as u64;
        notes.into_iter().for_each(|note| self.note(note));
        Ok(())
    }

    /// Refuses the state of another store.
    pub(crate) fn refuse_other(&self, loaded: &Self, keys: &Keys) -> Result<(), Damage> {
        if loaded.store != self.store && self.number > 0 {
            return Err(Damage::inconsistent(keys.log(), "it belongs to another store"));
        }
        Ok(())
    }

    /// Checks that the commit is the next one of the same store.
    fn check_order(&self, key: &str, commit: &Commit) -> Result<(), Damage> {
        let is_first = self.number == 0;
        let what = if self.number.checked_add(1) != Some(commit.number) {
            "it has another number"
        } else if is_first && commit.id != commit.store {
            "it is not the first commit of a store"
        } else if !is_first && commit.store != self.store {
            "it belongs to another store"
        } else if commit.after != self.commit {
            "it was not made after the commit before it"
        } else {
            return Ok(());
        };
        Err(Damage::inconsistent(key, what))
    }

    /// The edits of a batch of a commit of this time, under the rules of planning. Steps that change no file are
    /// notes.
    pub(crate) fn replay(
        &self,
        steps: Vec<Step>,
        time: u64,
        notes: &mut Vec<Step>,
    ) -> Result<PathMapEdits<FileRecord>, StoreError> {
        let (mut batch, mut files) = (Batch::new(), Vec::new());
        for step in steps {
            match step {
                Step::Write { path, file } => {
                    batch = batch.write(path, Vec::new());
                    files.push(Some(file));
                }
                Step::Remove { path } => {
                    batch = batch.remove(path);
                    files.push(None);
                }
                Step::Rename { from, to } => {
                    batch = batch.rename(from, to);
                    files.push(None);
                }
                note => notes.push(note),
            }
        }
        batch.check(&self.files)?;
        self.files.plan(&batch, |number, _, replaced| {
            let file = files.get_mut(number).and_then(Option::take);
            let mut file = file.ok_or(StoreError::InvalidBatch(InvalidBatch::Root))?;
            file.date(time, replaced);
            Ok(file)
        })
    }

    fn note(&mut self, note: Step) {
        match note {
            Step::Collection => self.collections = self.collections.saturating_add(1),
            Step::Trimmed { through } => self.trimmed = self.trimmed.max(through),
            Step::Checkpoint(manifest) => self.adopt(manifest),
            Step::LossAccepted => self.kept_before = 0,
            _ => {}
        }
    }

    /// Records a checkpoint of an earlier state of the same store.
    fn adopt(&mut self, manifest: Manifest) {
        if manifest.through <= self.checkpoint.through {
            return;
        }
        let base = manifest.base();
        self.changed_files.retain(|_, number| *number > base);
        self.checkpoint = manifest;
        self.log_bytes = 0;
    }

    /// Undoes edits, the latest first.
    pub(crate) fn undo(&mut self, undo: Vec<PathMapEdits<FileRecord>>) {
        for edits in undo.into_iter().rev() {
            self.files.edit(edits);
        }
    }

    /// Whether all locations of contents in this state are valid. A checkpoint may move contents, and a later
    /// collection removes the old location unless the latest checkpoint names it.
    pub(crate) fn knows_places(&self) -> bool {
        self.source.0 == self.checkpoint.through || self.source.1 == self.collections
    }

    /// Records the contents that the checkpoint of this state moved into packs. `before` is the source if all locations
    /// in the checkpoint come from this state. The runs that a checkpoint takes over may name other locations.
    pub(crate) fn follow_moves(&mut self, moves: &BTreeMap<String, Slice>, through: u64, before: Option<(u64, u64)>) {
        if self.checkpoint.through != through {
            return; // a later checkpoint has its own places
        }
        if before == Some(self.source) {
            self.source = (through, self.collections);
        }
        let moved = self.files.files().iter().filter(|(_, file)| moves.contains_key(&file.version));
        for path in moved.map(|(path, _)| path.clone()) {
            let number = self.changed_files.entry(path).or_insert(through);
            *number = through.max(*number);
        }
        for file in self.files.values_mut() {
            if let Some(slice) = moves.get(&file.version) {
                file.content = Content::Object(slice.clone());
            }
        }
    }

    /// Holds contents in memory, by the versions of the files.
    pub(crate) fn hold(&mut self, contents: &BTreeMap<String, Bytes>) {
        for file in self.files.values_mut() {
            if let Some(bytes) = contents.get(&file.version) {
                file.content = Content::Inline(bytes.clone());
            }
        }
    }

    /// The bytes of contents in the state.
    pub(crate) fn inline_bytes(&self) -> usize {
        self.files.files().values().map(FileRecord::inline_len).sum()
    }
}
