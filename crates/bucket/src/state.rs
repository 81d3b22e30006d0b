//! [`State`]: what a store holds after a commit.

use std::collections::BTreeMap;

use memory_tool_core::{Batch, InvalidBatch, MemoryPath, PathMap, PathMapEdits, RecordName, StoreError};

use crate::checkpoint::Manifest;
use crate::commit::{Commit, Step};
use crate::content::{Content, FileRecord, Slice};
use crate::format::Damage;
use crate::id::Id;

/// What a store holds after the commit with this number.
#[derive(Clone, Debug, Default)]
pub(crate) struct State {
    pub(crate) store: Id,
    pub(crate) number: u64,
    /// The id of that commit.
    pub(crate) commit: Id,
    pub(crate) files: PathMap<FileRecord>,
    /// How many collections the log notes.
    pub(crate) collections: u64,
    /// Up to which number the log is known to be trimmed.
    pub(crate) trimmed: u64,
    /// The latest checkpoint that the log notes.
    pub(crate) checkpoint: Manifest,
    /// The checkpoint that the places of the contents were read from, and how many collections the log noted then.
    pub(crate) source: (u64, u64),
    /// The bytes of the commits since the latest checkpoint.
    pub(crate) log_bytes: u64,
    /// What changed since the oldest run of the checkpoint, removals included, and by which commit last.
    pub(crate) changed_files: BTreeMap<MemoryPath, u64>,
    pub(crate) changed_records: BTreeMap<RecordName, u64>,
}

impl State {
    /// Applies the commit after this state. If it cannot be applied, nothing is changed.
    pub(crate) fn apply(&mut self, key: &str, commit: Commit, size: usize) -> Result<(), Damage> {
        self.check_order(key, &commit)?;
        let mut undo = Vec::new();
        let Commit { store, number, id, batches, .. } = commit;
        let mut notes = Vec::new();
        for step in batches.iter().flatten() {
            if let Step::Checkpoint(manifest) = step {
                manifest.check(key)?;
                if manifest.through >= number {
                    return Err(Damage::inconsistent(key, "it notes a checkpoint of a later commit"));
                }
            }
        }
        for steps in batches {
            match self.replay(steps, &mut notes) {
                Ok(edits) => undo.push(self.files.edit(edits)),
                Err(error) => {
                    self.undo(undo);
                    return Err(Damage::DoesNotFit { key: key.to_owned(), source: error });
                }
            }
        }
        for edits in &undo {
            self.changed_files.extend(edits.files.iter().map(|(path, _)| (path.clone(), number)));
            self.changed_records.extend(edits.records.iter().map(|(name, _)| (name.clone(), number)));
        }
        (self.store, self.number, self.commit) = (store, number, id);
        self.log_bytes += size as u64;
        notes.into_iter().for_each(|note| self.note(note));
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

    /// The edits of a batch of a commit, under the rules that it was planned by. What is no change of a file or record is a note.
    pub(crate) fn replay(
        &self,
        steps: Vec<Step>,
        notes: &mut Vec<Step>,
    ) -> Result<PathMapEdits<FileRecord>, StoreError> {
        let (mut batch, mut files, mut records) = (Batch::new(), Vec::new(), Vec::new());
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
                Step::WriteRecord { name, file } => {
                    batch = batch.write_record(name, Vec::new());
                    records.push(Some(file));
                }
                Step::RemoveRecord { name } => {
                    batch = batch.remove_record(name);
                    records.push(None);
                }
                note => notes.push(note),
            }
        }
        files.append(&mut records);
        batch.check(&self.files)?;
        self.files.plan(&batch, |number, _, _| {
            files.get_mut(number).and_then(Option::take).ok_or(StoreError::InvalidBatch(InvalidBatch::Root))
        })
    }

    fn note(&mut self, note: Step) {
        match note {
            Step::Collection => self.collections += 1,
            Step::Trimmed { through } => self.trimmed = self.trimmed.max(through),
            Step::Checkpoint(manifest) => self.adopt(manifest),
            _ => {}
        }
    }

    /// Takes note of a checkpoint of an earlier state of the same store.
    fn adopt(&mut self, manifest: Manifest) {
        if manifest.through <= self.checkpoint.through {
            return;
        }
        let base = manifest.base();
        self.changed_files.retain(|_, number| *number > base);
        self.changed_records.retain(|_, number| *number > base);
        self.checkpoint = manifest;
        self.log_bytes = 0;
    }

    /// Makes edits undone, the latest first.
    pub(crate) fn undo(&mut self, undo: Vec<PathMapEdits<FileRecord>>) {
        for edits in undo.into_iter().rev() {
            self.files.edit(edits);
        }
    }

    /// Whether all contents are where this state says. A checkpoint may move contents, and a later collection remove them at their
    /// old place, unless the latest checkpoint names it.
    pub(crate) fn knows_places(&self) -> bool {
        self.source.0 == self.checkpoint.through || self.source.1 == self.collections
    }

    /// Takes note of contents that the checkpoint of this state moved into packs. `before` is the source if all places of the
    /// checkpoint came from this memory: the runs that a checkpoint takes over may name other places.
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

    /// How many bytes of contents the state holds.
    pub(crate) fn inline_bytes(&self) -> usize {
        self.files.values().map(FileRecord::inline_len).sum()
    }
}
