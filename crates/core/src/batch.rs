//! [`Batch`]: changes that a store applies together or not at all, under preconditions and quotas.

use std::collections::BTreeSet;

use crate::change::{Change, RecordChange};
use crate::path::MemoryPath;
use crate::precondition::Precondition;
use crate::quota::Quota;
use crate::quota_check;
use crate::record::RecordName;
use crate::state::StoreState;
use crate::store_error::{InvalidBatch, StoreError};

/// Changes to be applied together or not at all, under preconditions and quotas.
///
/// The paths that a batch changes are disjoint: none equals, contains or lies under another. So the order of the changes does not
/// matter, and a store may check everything against the state before the batch. A batch that breaks this rule is kept as it is, and
/// [`check`](Self::check) refuses it.
///
/// ```
/// use memory_tool_core::{Batch, MemoryPath, Precondition};
///
/// let (a, b): (MemoryPath, MemoryPath) = ("/memories/a.txt".parse()?, "/memories/b.txt".parse()?);
/// let batch = Batch::new().require(a.clone(), Precondition::Absent).write(a, "Hello").remove(b);
/// assert_eq!(batch.changes().len(), 2);
/// # Ok::<(), memory_tool_core::PathError>(())
/// ```
#[derive(Clone, Debug, Default, Eq, PartialEq)]
#[must_use]
pub struct Batch {
    preconditions: Vec<(MemoryPath, Precondition)>,
    record_preconditions: Vec<(RecordName, Precondition)>,
    quotas: Vec<(MemoryPath, Quota)>,
    changes: Vec<Change>,
    record_changes: Vec<RecordChange>,
    changed_paths: BTreeSet<MemoryPath>,
    mistake: Option<InvalidBatch>,
}

impl Batch {
    /// An empty batch.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a precondition on a path, whether or not the batch changes that path.
    pub fn require(mut self, path: MemoryPath, precondition: Precondition) -> Self {
        self.preconditions.push((path, precondition));
        self
    }

    /// Adds a quota for all that lies under `directory` after the batch.
    pub fn limit(mut self, directory: MemoryPath, quota: Quota) -> Self {
        self.quotas.push((directory, quota));
        self
    }

    /// Adds a [`Change::Write`]. The root, and a path that overlaps another change, make the batch invalid.
    pub fn write(mut self, path: MemoryPath, content: impl Into<Vec<u8>>) -> Self {
        self.refuse_root(&path);
        self.claim(&path);
        self.changes.push(Change::Write { path, content: content.into() });
        self
    }

    /// Adds a [`Change::Remove`]. A path that overlaps another change makes the batch invalid.
    pub fn remove(mut self, path: MemoryPath) -> Self {
        self.claim(&path);
        self.changes.push(Change::Remove { path });
        self
    }

    /// Adds a [`Change::Rename`]. The root, and paths that overlap each other or another change, make the batch invalid.
    pub fn rename(mut self, from: MemoryPath, to: MemoryPath) -> Self {
        for path in [&from, &to] {
            self.refuse_root(path);
            self.claim(path);
        }
        self.changes.push(Change::Rename { from, to });
        self
    }

    /// Adds a change.
    pub fn change(self, change: Change) -> Self {
        match change {
            Change::Write { path, content } => self.write(path, content),
            Change::Remove { path } => self.remove(path),
            Change::Rename { from, to } => self.rename(from, to),
        }
    }

    /// Adds a precondition on a record, whether or not the batch changes that record.
    pub fn require_record(mut self, name: RecordName, precondition: Precondition) -> Self {
        self.record_preconditions.push((name, precondition));
        self
    }

    /// Adds a [`RecordChange::Write`]. A second change of one record makes the batch invalid.
    pub fn write_record(self, name: RecordName, content: impl Into<Vec<u8>>) -> Self {
        self.change_record(RecordChange::Write { name, content: content.into() })
    }

    /// Adds a [`RecordChange::Remove`]. A second change of one record makes the batch invalid.
    pub fn remove_record(self, name: RecordName) -> Self {
        self.change_record(RecordChange::Remove { name })
    }

    fn change_record(mut self, change: RecordChange) -> Self {
        if self.record_changes.iter().any(|other| other.name() == change.name()) {
            self.note(InvalidBatch::SameRecord { name: change.name().clone() });
        }
        self.record_changes.push(change);
        self
    }

    /// The preconditions on paths, in the order in which they were added.
    pub fn preconditions(&self) -> &[(MemoryPath, Precondition)] {
        &self.preconditions
    }

    /// The preconditions on records, in the order in which they were added.
    pub fn record_preconditions(&self) -> &[(RecordName, Precondition)] {
        &self.record_preconditions
    }

    /// The quotas and their directories, in the order in which they were added.
    pub fn quotas(&self) -> &[(MemoryPath, Quota)] {
        &self.quotas
    }

    /// The changes, in the order in which they were added.
    pub fn changes(&self) -> &[Change] {
        &self.changes
    }

    /// The changes of records, in the order in which they were added.
    pub fn record_changes(&self) -> &[RecordChange] {
        &self.record_changes
    }

    /// The contents that a change writes; empty if it writes none. Changes are numbered in the order in which they were added, those
    /// of files before those of records, as [`PathMap::plan`](crate::PathMap::plan) numbers them.
    pub fn content(&self, number: usize) -> &[u8] {
        let record = || self.record_changes.get(number.checked_sub(self.changes.len())?);
        match (self.changes.get(number), record()) {
            (Some(Change::Write { content, .. }), _) | (_, Some(RecordChange::Write { content, .. })) => content,
            _ => &[],
        }
    }

    /// Whether the batch changes neither a file nor a record.
    pub fn changes_nothing(&self) -> bool {
        self.changes.is_empty() && self.record_changes.is_empty()
    }

    /// The changes by value, for a store that keeps their contents. [Check](Self::check) the batch first.
    pub fn into_changes(self) -> (Vec<Change>, Vec<RecordChange>) {
        (self.changes, self.record_changes)
    }

    /// The contents that the batch writes to files, for a store over a store that stores something else instead.
    pub fn contents_mut(&mut self) -> impl Iterator<Item = (&MemoryPath, &mut Vec<u8>)> {
        self.changes.iter_mut().filter_map(|change| match change {
            Change::Write { path, content } => Some((&*path, content)),
            Change::Remove { .. } | Change::Rename { .. } => None,
        })
    }

    /// The same batch at other paths and with other record names, for a store over a store that keeps them elsewhere.
    ///
    /// # Errors
    /// The first one of `path` or `record`.
    pub fn try_map(
        self,
        path: impl Fn(&MemoryPath) -> Result<MemoryPath, StoreError>,
        record: impl Fn(&RecordName) -> Result<RecordName, StoreError>,
    ) -> Result<Self, StoreError> {
        let mut mapped = Self { mistake: self.mistake, ..Self::default() };
        for (required, precondition) in self.preconditions {
            mapped = mapped.require(path(&required)?, precondition);
        }
        for (name, precondition) in self.record_preconditions {
            mapped = mapped.require_record(record(&name)?, precondition);
        }
        for (directory, quota) in self.quotas {
            mapped = mapped.limit(path(&directory)?, quota);
        }
        for change in self.changes {
            mapped = match change {
                Change::Write { path: written, content } => mapped.write(path(&written)?, content),
                Change::Remove { path: removed } => mapped.remove(path(&removed)?),
                Change::Rename { from, to } => mapped.rename(path(&from)?, path(&to)?),
            };
        }
        for change in self.record_changes {
            mapped = match change {
                RecordChange::Write { name, content } => mapped.write_record(record(&name)?, content),
                RecordChange::Remove { name } => mapped.remove_record(record(&name)?),
            };
        }
        Ok(mapped)
    }

    /// Checks that the batch makes sense, whatever the store holds. [`check`](Self::check) does so first.
    ///
    /// # Errors
    /// The first [`InvalidBatch`].
    pub fn validate(&self) -> Result<(), InvalidBatch> {
        self.mistake.clone().map_or(Ok(()), Err)
    }

    /// Checks all that the batch requires, as point 1 of [`Store::apply`](crate::Store::apply) says. Whether a change can be made is left to
    /// [`Change::check`].
    ///
    /// # Errors
    /// The first one of these, in this order: [`StoreError::InvalidBatch`]; [`StoreError::RecordMismatch`];
    /// [`StoreError::AlreadyExists`] and [`StoreError::VersionMismatch`] for a precondition; [`StoreError::OverQuota`]. And those of `state`.
    pub fn check(&self, state: &impl StoreState) -> Result<(), StoreError> {
        self.validate()?;
        for (name, precondition) in &self.record_preconditions {
            precondition.check_record(name, state.record(name)?.as_ref())?;
        }
        for (path, precondition) in &self.preconditions {
            precondition.check(path, &state.stat(path)?)?;
        }
        self.quotas.iter().try_for_each(|(directory, quota)| quota_check::check(quota, directory, &self.changes, state))
    }

    /// Checks that no file or record that the batch writes is larger than `limit` bytes: a store writes nothing that it does not read.
    ///
    /// # Errors
    /// [`StoreError::InvalidBatch`]; [`StoreError::Refused`] for the first such file, [`StoreError::Failure`] for such a record.
    ///
    /// ```
    /// use memory_tool_core::{Batch, StoreError};
    ///
    /// let batch = Batch::new().write("/memories/a.txt".parse()?, vec![0; 9]);
    /// assert!(batch.check_file_sizes(9).is_ok());
    /// assert!(matches!(batch.check_file_sizes(8), Err(StoreError::Refused { .. })));
    /// # Ok::<(), memory_tool_core::PathError>(())
    /// ```
    pub fn check_file_sizes(&self, limit: u64) -> Result<(), StoreError> {
        self.validate()?; // a mistake of the caller comes before everything else
        self.changes.iter().try_for_each(|change| match change {
            Change::Write { path, content } if content.len() as u64 > limit => {
                Err(StoreError::too_large_to_write(path, content.len() as u64, limit))
            }
            Change::Write { .. } | Change::Remove { .. } | Change::Rename { .. } => Ok(()),
        })?;
        self.record_changes.iter().try_for_each(|change| match change {
            RecordChange::Write { content, .. } if content.len() as u64 > limit => {
                Err(StoreError::record_too_large(content.len() as u64, limit))
            }
            RecordChange::Write { .. } | RecordChange::Remove { .. } => Ok(()),
        })
    }

    /// Notes that the batch changes `path`, which must not overlap what it changes already.
    fn claim(&mut self, path: &MemoryPath) {
        // The claimed paths are disjoint and a directory sorts right before its contents, so an overlap is a neighbor.
        let before = self.changed_paths.range(..path).next_back();
        let after = self.changed_paths.range(path..).next();
        match before.into_iter().chain(after).find(|other| other.overlaps(path)).cloned() {
            Some(other) => self.note(InvalidBatch::Overlap { path: path.clone(), other }),
            None => _ = self.changed_paths.insert(path.clone()),
        }
    }

    fn refuse_root(&mut self, path: &MemoryPath) {
        if path.is_root() {
            self.note(InvalidBatch::Root);
        }
    }

    /// Keeps the first mistake.
    fn note(&mut self, mistake: InvalidBatch) {
        self.mistake.get_or_insert(mistake);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::path_map::PathMap;

    fn path(text: &str) -> MemoryPath {
        MemoryPath::parse(text).unwrap()
    }

    /// What a check says of the batch in an empty store.
    fn checked(batch: &Batch) -> Result<(), StoreError> {
        batch.check(&PathMap::<Vec<u8>>::new())
    }

    #[test]
    fn a_batch_refuses_changes_that_overlap() {
        let batch = Batch::new()
            .remove(path("/memories/a/b"))
            .write(path("/memories/a-b"), "")
            .rename(path("/memories/c"), path("/memories/a/c"));
        for overlapping in ["/memories/a/b", "/memories/a/b/x", "/memories/a", "/memories", "/memories/a/c/d"] {
            let refused = checked(&batch.clone().remove(path(overlapping)));
            assert!(
                matches!(refused, Err(StoreError::InvalidBatch(InvalidBatch::Overlap { .. }))),
                "{overlapping}: {refused:?}"
            );
        }
        checked(&batch.remove(path("/memories/a/bc"))).unwrap();
    }

    #[test]
    fn a_batch_refuses_a_rename_into_itself_and_changes_of_the_root() {
        let into_itself = checked(&Batch::new().rename(path("/memories/a"), path("/memories/a/b")));
        assert!(matches!(into_itself, Err(StoreError::InvalidBatch(InvalidBatch::Overlap { .. }))), "{into_itself:?}");
        for batch in
            [Batch::new().write(MemoryPath::root(), ""), Batch::new().rename(path("/memories/a"), MemoryPath::root())]
        {
            let refused = checked(&batch);
            assert!(matches!(refused, Err(StoreError::InvalidBatch(InvalidBatch::Root))), "{refused:?}");
        }
        checked(&Batch::new().remove(MemoryPath::root())).unwrap();
    }

    #[test]
    fn a_batch_changes_a_record_once_and_a_mapped_one_stays_invalid() {
        let name: RecordName = "a/b".parse().unwrap();
        let twice = Batch::new().write_record(name.clone(), "").remove_record(name);
        let mapped = twice.clone().try_map(|path| Ok(path.clone()), |name| Ok(name.clone())).unwrap();
        for batch in [twice, mapped] {
            let refused = checked(&batch);
            assert!(matches!(refused, Err(StoreError::InvalidBatch(InvalidBatch::SameRecord { .. }))), "{refused:?}");
        }
    }
}
