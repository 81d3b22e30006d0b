//! [`Batch`]: changes that a store applies atomically.

use std::collections::BTreeSet;
use std::iter;
use std::sync::Arc;

use crate::store::actor::Actor;
use crate::store::change::Change;
use crate::store::error::{InvalidBatch, StoreError};
use crate::store::node::FileTimes;
use crate::store::precondition::Precondition;
use crate::store::quota::Quota;
use crate::store::quota_check;
use crate::store::snapshot::CheckInputs;
use crate::store::state::StoreState;
use crate::store::store_path::StorePath;

/// Changes that a store applies atomically, subject to preconditions and quotas.
///
/// The changed paths must be disjoint: no path may equal or contain another. The order of the changes
/// therefore does not matter, and a store can check all of them against the state before the batch. Adding an
/// overlapping change makes the batch invalid, and [`check`](Self::check) then returns an error.
///
/// ```
/// use memory_tool_core::{Batch, MemoryPath, Precondition};
///
/// let (a, b): (MemoryPath, MemoryPath) = ("/memories/a.txt".parse()?, "/memories/b.txt".parse()?);
/// let batch = Batch::new().require(&a, Precondition::Absent).write(a, "Hello").remove(b);
/// assert_eq!(batch.changes().len(), 2);
/// # Ok::<(), memory_tool_core::PathError>(())
/// ```
#[derive(Clone, Debug, Default, Eq, PartialEq)]
#[must_use]
pub struct Batch {
    preconditions: Vec<(StorePath, Precondition)>,
    quotas: Vec<(StorePath, Quota)>,
    changes: Vec<Change>,
    changed_paths: BTreeSet<StorePath>,
    actor: Option<Actor>,
    command: Option<&'static str>,
    authors: Vec<Actor>,
    error: Option<InvalidBatch>,
}

impl Batch {
    /// The [command](Self::for_command) of a removal of expired files. A history does not keep their contents.
    pub const EXPIRE: &'static str = "expire";

    /// The [command](Self::for_command) of a refusal of proposed changes. A history keeps its reason, though no file
    /// changes.
    pub const DROP: &'static str = "drop";

    /// Creates an empty batch.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a precondition on a path. The batch does not have to change that path.
    pub fn require(mut self, path: impl Into<StorePath>, precondition: Precondition) -> Self {
        self.preconditions.push((path.into(), precondition));
        self
    }

    /// Adds several preconditions.
    pub fn require_all(mut self, preconditions: impl IntoIterator<Item = (StorePath, Precondition)>) -> Self {
        self.preconditions.extend(preconditions);
        self
    }

    /// Adds a quota for `directory`. It applies to the state after the batch.
    pub fn limit(mut self, directory: impl Into<StorePath>, quota: Quota) -> Self {
        self.quotas.push((directory.into(), quota));
        self
    }

    /// Adds a [`Change::Write`]. The batch is invalid if the path is a root or overlaps another change.
    pub fn write(self, path: impl Into<StorePath>, content: impl Into<Vec<u8>>) -> Self {
        self.write_with_times(path, content, FileTimes::new())
    }

    /// Like [`write`](Self::write), but the file gets these times.
    pub fn write_with_times(self, path: impl Into<StorePath>, content: impl Into<Vec<u8>>, times: FileTimes) -> Self {
        self.change(Change::Write { path: path.into(), content: Arc::new(content.into()), times })
    }

    /// Adds a [`Change::Remove`]. The batch is invalid if the path overlaps another change.
    pub fn remove(mut self, path: impl Into<StorePath>) -> Self {
        let path = path.into();
        self.claim(&path);
        self.changes.push(Change::Remove { path });
        self
    }

    /// Adds a [`Change::Rename`]. The batch is invalid if a path is a root, if only one path is of a record, or if the
    /// paths overlap each other or another change.
    pub fn rename(mut self, from: impl Into<StorePath>, to: impl Into<StorePath>) -> Self {
        let (from, to) = (from.into(), to.into());
        if from.is_record() != to.is_record() {
            self.invalidate(InvalidBatch::TwoRoots { from: from.clone(), to: to.clone() });
        }
        for path in [&from, &to] {
            self.refuse_root(path);
            self.claim(path);
        }
        self.changes.push(Change::Rename { from, to });
        self
    }

    /// Adds a change.
    pub fn change(mut self, change: Change) -> Self {
        match change {
            Change::Write { ref path, .. } => {
                self.refuse_root(path);
                self.claim(path);
                self.changes.push(change);
                self
            }
            Change::Remove { path } => self.remove(path),
            Change::Rename { from, to } => self.rename(from, to),
        }
    }

    /// Leaves out the changes for which `keeps` returns `false`.
    pub fn retain(mut self, keeps: impl FnMut(&Change) -> bool) -> Self {
        let changes = std::mem::take(&mut self.changes);
        self.changed_paths.clear();
        self.error = None;
        changes.into_iter().filter(keeps).fold(self, Self::change)
    }

    /// Sets the actor of the changes, for logs.
    pub fn by(mut self, actor: Actor) -> Self {
        self.actor = Some(actor);
        self
    }

    /// Sets the command of the tool that makes the changes, such as `create`, for logs.
    pub fn for_command(mut self, command: &'static str) -> Self {
        self.command = Some(command);
        self
    }

    /// Names the actors who wrote the changes, if the actor of the batch only agrees to them.
    pub fn written_by(mut self, authors: impl IntoIterator<Item = Actor>) -> Self {
        self.authors = authors.into_iter().collect();
        self
    }

    /// The actors who wrote the changes. Empty if the actor of the batch wrote them.
    pub fn authors(&self) -> &[Actor] {
        &self.authors
    }

    /// The reason of the actor, or else those of the authors.
    pub fn reason(&self) -> Option<String> {
        self.actor.as_ref().and_then(Actor::reason).map(str::to_owned).or_else(|| Actor::reasons(&self.authors))
    }

    /// The actor of the changes, if it is known.
    pub fn actor(&self) -> Option<&Actor> {
        self.actor.as_ref()
    }

    /// The command of the tool that makes the changes. A program makes changes without a command.
    pub fn command(&self) -> Option<&'static str> {
        self.command
    }

    /// The preconditions on paths, in insertion order.
    pub fn preconditions(&self) -> &[(StorePath, Precondition)] {
        &self.preconditions
    }

    /// The quotas and their directories, in insertion order.
    pub fn quotas(&self) -> &[(StorePath, Quota)] {
        &self.quotas
    }

    /// The changes, in insertion order.
    pub fn changes(&self) -> &[Change] {
        &self.changes
    }

    /// The times of the file that a change writes.
    pub fn times(&self, number: usize) -> FileTimes {
        match self.changes.get(number) {
            Some(Change::Write { times, .. }) => *times,
            _ => FileTimes::new(),
        }
    }

    /// The contents that a change writes. They are empty for a removal or a rename.
    pub fn content(&self, number: usize) -> &[u8] {
        match self.changes.get(number) {
            Some(Change::Write { content, .. }) => content,
            _ => &[],
        }
    }

    /// Whether the batch has no changes.
    pub fn changes_nothing(&self) -> bool {
        self.changes.is_empty()
    }

    /// Converts the batch into its changes. [Check](Self::check) the batch first.
    pub fn into_changes(self) -> Vec<Change> {
        self.changes
    }

    /// The contents that the batch writes to files of the memory, for a wrapper that transforms them.
    pub fn contents_mut(&mut self) -> impl Iterator<Item = (&StorePath, &mut Vec<u8>)> {
        self.changes.iter_mut().filter_map(|change| match change {
            Change::Write { path, content, .. } if !path.is_record() => Some((&*path, Arc::make_mut(content))),
            _ => None,
        })
    }

    /// Replaces each path, for a wrapper that stores files under other paths.
    ///
    /// # Errors
    /// The first error that `path` returns.
    pub fn try_map(self, path: impl Fn(&StorePath) -> Result<StorePath, StoreError>) -> Result<Self, StoreError> {
        let mut mapped = Self {
            actor: self.actor,
            command: self.command,
            authors: self.authors,
            error: self.error,
            ..Self::default()
        };
        for (required, precondition) in self.preconditions {
            mapped = mapped.require(path(&required)?, precondition);
        }
        for (directory, quota) in self.quotas {
            mapped = mapped.limit(path(&directory)?, quota);
        }
        for change in self.changes {
            mapped = match change {
                Change::Write { path: written, content, times } => {
                    mapped.change(Change::Write { path: path(&written)?, content, times })
                }
                Change::Remove { path: removed } => mapped.remove(path(&removed)?),
                Change::Rename { from, to } => mapped.rename(path(&from)?, path(&to)?),
            };
        }
        Ok(mapped)
    }

    /// Checks that the batch is valid, independent of any store. [`check`](Self::check) includes this.
    ///
    /// # Errors
    /// The first [`InvalidBatch`].
    pub fn validate(&self) -> Result<(), InvalidBatch> {
        self.error.clone().map_or(Ok(()), Err)
    }

    /// Checks the preconditions and quotas, as specified in point 1 of [`Store::apply`](crate::Store::apply).
    /// [`Change::check`] checks whether each change can be applied.
    ///
    /// # Errors
    /// In this order: [`StoreError::InvalidBatch`]; [`StoreError::AlreadyExists`] or [`StoreError::VersionMismatch`]
    /// for the first precondition that does not hold; [`StoreError::OverQuota`]. Also the errors of `state`.
    pub fn check(&self, state: &impl StoreState) -> Result<(), StoreError> {
        self.validate()?;
        for (path, precondition) in &self.preconditions {
            precondition.check(path, &state.stat(path)?)?;
        }
        self.quotas.iter().try_for_each(|(directory, quota)| quota_check::check(quota, directory, &self.changes, state))
    }

    /// The inputs of [`check`](Self::check) and [`Change::check`], for a [`Snapshot`](crate::Snapshot).
    pub fn inputs(&self) -> CheckInputs {
        let mut inputs = CheckInputs::default();
        inputs.paths.extend(self.preconditions.iter().map(|(path, _)| path.clone()));
        for change in &self.changes {
            match change {
                Change::Write { path, .. } => inputs.paths.extend(iter::once(path.clone()).chain(path.parents())),
                Change::Remove { path } => _ = inputs.paths.insert(path.clone()),
                Change::Rename { from, to } => {
                    inputs.paths.extend([from.clone(), to.clone()].into_iter().chain(to.parents()));
                }
            }
        }
        for (directory, _) in &self.quotas {
            inputs.usages.extend(quota_check::inputs(directory, &self.changes));
        }
        inputs
    }

    /// Checks that each file to write has at most `limit` bytes.
    ///
    /// # Errors
    /// [`StoreError::InvalidBatch`]; for the first larger file, [`StoreError::Refused`], or [`StoreError::Failure`] if
    /// it is a record.
    ///
    /// ```
    /// use memory_tool_core::{Batch, MemoryPath, StoreError};
    ///
    /// let batch = Batch::new().write("/memories/a.txt".parse::<MemoryPath>()?, vec![0; 9]);
    /// assert!(batch.check_file_sizes(9).is_ok());
    /// assert!(matches!(batch.check_file_sizes(8), Err(StoreError::Refused { .. })));
    /// # Ok::<(), memory_tool_core::PathError>(())
    /// ```
    pub fn check_file_sizes(&self, limit: u64) -> Result<(), StoreError> {
        self.validate()?;
        self.changes.iter().try_for_each(|change| match change {
            Change::Write { path, content, .. } if content.len() as u64 > limit => {
                Err(StoreError::too_large_to_write(path, content.len() as u64, limit))
            }
            Change::Write { .. } | Change::Remove { .. } | Change::Rename { .. } => Ok(()),
        })
    }

    /// Adds `path` to the changed paths, or marks the batch as invalid if it overlaps one of them.
    fn claim(&mut self, path: &StorePath) {
        // The changed paths are disjoint, and a directory sorts right before its contents. So if any of them overlaps
        // `path`, one of its two neighbors does.
        let before = self.changed_paths.range(..path).next_back();
        let after = self.changed_paths.range(path..).next();
        match before.into_iter().chain(after).find(|other| other.overlaps(path)).cloned() {
            Some(other) => self.invalidate(InvalidBatch::Overlap { path: path.clone(), other }),
            None => _ = self.changed_paths.insert(path.clone()),
        }
    }

    fn refuse_root(&mut self, path: &StorePath) {
        if path.is_root() {
            self.invalidate(InvalidBatch::Root);
        }
    }

    /// Marks the batch as invalid. The first reason is kept.
    fn invalidate(&mut self, error: InvalidBatch) {
        self.error.get_or_insert(error);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::path_map::PathMap;

    fn path(text: &str) -> StorePath {
        text.parse().unwrap()
    }

    fn check_on_empty_store(batch: &Batch) -> Result<(), StoreError> {
        batch.check(&PathMap::<Vec<u8>>::new())
    }

    #[test]
    fn overlapping_changes_are_invalid() {
        let batch = Batch::new()
            .remove(path("/memories/a/b"))
            .write(path("/memories/a-b"), "")
            .rename(path("/memories/c"), path("/memories/a/c"));
        for overlapping in ["/memories/a/b", "/memories/a/b/x", "/memories/a", "/memories", "/memories/a/c/d"] {
            let result = check_on_empty_store(&batch.clone().remove(path(overlapping)));
            assert!(
                matches!(result, Err(StoreError::InvalidBatch(InvalidBatch::Overlap { .. }))),
                "{overlapping}: {result:?}"
            );
        }
        check_on_empty_store(&batch.remove(path("/memories/a/bc"))).unwrap();
    }

    #[test]
    fn a_rename_into_itself_and_changes_of_the_root_are_invalid() {
        let into_itself = check_on_empty_store(&Batch::new().rename(path("/memories/a"), path("/memories/a/b")));
        assert!(matches!(into_itself, Err(StoreError::InvalidBatch(InvalidBatch::Overlap { .. }))), "{into_itself:?}");
        for batch in [
            Batch::new().write(StorePath::memories(), ""),
            Batch::new().rename(path("/memories/a"), StorePath::memories()),
        ] {
            let result = check_on_empty_store(&batch);
            assert!(matches!(result, Err(StoreError::InvalidBatch(InvalidBatch::Root))), "{result:?}");
        }
        check_on_empty_store(&Batch::new().remove(StorePath::memories())).unwrap();
    }

    #[test]
    fn an_invalid_batch_is_invalid_after_mapping() {
        let twice = Batch::new().write(path("/records/a/b"), "").remove(path("/records/a/b"));
        let across = Batch::new().rename(path("/memories/a"), path("/records/a"));
        for batch in [twice, across] {
            let mapped = batch.clone().try_map(|path| Ok(path.clone())).unwrap();
            for batch in [batch, mapped] {
                let result = check_on_empty_store(&batch);
                assert!(matches!(result, Err(StoreError::InvalidBatch(_))), "{result:?}");
            }
        }
    }
}
