//! [`Plan`]: what a batch comes down to in the store beneath.

use std::collections::BTreeMap;

use memory_tool_core::{Batch, Change, Expected, MemoryPath, StoreError, Version};

use crate::failure::Failure;
use crate::id::{ID_BYTES, Id};
use crate::index::{FileRecord, Index};
use crate::padding::Padding;

/// A batch whose contents are apart from its changes, so that they may be encrypted as often as it takes.
#[derive(Debug)]
pub(crate) struct Request {
    pub(crate) preconditions: Vec<(MemoryPath, Expected)>,
    /// The changes, each [`Change::Write`] without its content.
    pub(crate) changes: Vec<Change>,
    /// The lengths of the contents, in the order of the changes; 0 for a change that is no write.
    pub(crate) lengths: Vec<usize>,
}

/// A file that has to be as it was.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Condition {
    pub(crate) path: MemoryPath,
    pub(crate) id: Id,
    /// Of the ciphertext, in the store beneath.
    pub(crate) version: Version,
}

/// A ciphertext that is to be put.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct PlannedWrite {
    /// The place of the write among the changes.
    pub(crate) change: usize,
    pub(crate) id: Id,
}

/// What is to be done in the store beneath, as long as the index is the one that it was planned on.
#[derive(Debug, Default)]
pub(crate) struct Plan {
    pub(crate) conditions: Vec<Condition>,
    pub(crate) writes: Vec<PlannedWrite>,
    pub(crate) removals: Vec<Id>,
    /// The index after it; `None` where it need not be written.
    pub(crate) next: Option<Index>,
}

/// Why there is no plan.
#[derive(Debug)]
pub(crate) struct Refusal {
    /// What comes before it: if one of these does not hold, that is the error.
    pub(crate) conditions: Vec<Condition>,
    pub(crate) failure: Failure,
}

/// How contents are to be encrypted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sealing {
    /// The id of the data key. `None` where the batch makes no changes.
    pub(crate) data_key: Option<Id>,
    pub(crate) padding: Padding,
}

/// The outer version of a file: which ciphertext it is, and its version in the store beneath.
pub(crate) fn version(id: Id, inner: &Version) -> Version {
    Version::new([id.as_bytes(), inner.as_bytes()].concat())
}

/// The version in the store beneath that an outer version stands for, if it is one of that ciphertext.
fn inner_version(id: Id, version: &Version) -> Option<Version> {
    let (named, inner) = version.as_bytes().split_at_checked(ID_BYTES)?;
    (named == id.as_bytes()).then(|| Version::new(inner))
}

impl Request {
    /// Plans the batch on an index.
    pub(crate) fn plan(&self, index: &Index, sealing: Sealing) -> Result<Plan, Refusal> {
        let mut plan = Plan::default();
        match self.fill(index, sealing, &mut plan) {
            Ok(()) => Ok(plan),
            Err(failure) => Err(Refusal { conditions: plan.conditions, failure }),
        }
    }

    fn fill(&self, index: &Index, sealing: Sealing, plan: &mut Plan) -> Result<(), Failure> {
        for (path, expected) in &self.preconditions {
            plan.conditions.extend(condition(index, path, expected)?);
        }
        let Some(data_key) = sealing.data_key else { return Ok(()) };
        for (number, change) in self.changes.iter().enumerate() {
            change.check(|path| Ok(index.node(path)))?;
            match change {
                Change::Write { path, .. } => {
                    let known = index.files.get(path);
                    let id = known.map_or_else(Id::random, |file| Ok(file.id))?;
                    let length = self.lengths.get(number).copied().unwrap_or_default();
                    let file = FileRecord { id, data_key, size: sealing.padding.noted_size(length) };
                    plan.writes.push(PlannedWrite { change: number, id });
                    if known != Some(&file) {
                        plan.next_files(index).insert(path.clone(), file);
                    }
                }
                Change::Remove { path } => {
                    for (path, file) in index.at_or_beneath(path) {
                        plan.next_files(index).remove(path);
                        plan.removals.push(file.id);
                    }
                }
                Change::Rename { from, to } => {
                    for (path, file) in index.at_or_beneath(from) {
                        let files = plan.next_files(index);
                        files.remove(path);
                        files.insert(path.rebase(from, to)?, *file);
                    }
                }
            }
        }
        Ok(())
    }
}

impl Plan {
    /// The files after it, to be changed.
    fn next_files(&mut self, index: &Index) -> &mut BTreeMap<MemoryPath, FileRecord> {
        &mut self.next.get_or_insert_with(|| index.clone()).files
    }
}

/// What a precondition comes down to in the store beneath, if the index alone does not decide it.
fn condition(index: &Index, path: &MemoryPath, expected: &Expected) -> Result<Option<Condition>, StoreError> {
    match (expected, index.files.get(path)) {
        (Expected::Version(version), Some(file)) => match inner_version(file.id, version) {
            Some(version) => Ok(Some(Condition { path: path.clone(), id: file.id, version })),
            None => Err(StoreError::VersionMismatch { path: path.clone() }),
        },
        _ => expected.check(path, &index.node(path)).map(|()| None),
    }
}

/// Takes the contents out of a batch.
pub(crate) fn take_apart(batch: Batch) -> (Request, Vec<Vec<u8>>) {
    let (preconditions, mut changes) = batch.into_parts();
    let contents: Vec<_> = changes
        .iter_mut()
        .map(|change| match change {
            Change::Write { content, .. } => std::mem::take(content),
            Change::Remove { .. } | Change::Rename { .. } => Vec::new(),
        })
        .collect();
    let lengths = contents.iter().map(Vec::len).collect();
    (Request { preconditions, changes, lengths }, contents)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_is_that_of_one_ciphertext() {
        let (id, other) = (Id::random().unwrap(), Id::random().unwrap());
        let inner = Version::new(*b"inner");
        assert_eq!(inner_version(id, &version(id, &inner)), Some(inner.clone()));
        assert_eq!(inner_version(other, &version(id, &inner)), None);
        assert_eq!(inner_version(id, &Version::new(*b"stale")), None);
    }
}
