//! [`Plan`]: what a batch comes down to in the store beneath.

use std::collections::BTreeMap;
use std::sync::Arc;

use memory_tool_core::{Batch, Change, Expected, FileEntry, MemoryPath, StoreError, Usage, Version};

use crate::failure::Failure;
use crate::id::{ID_BYTES, Id};
use crate::index::{FileRecord, Index};
use crate::padding::Padding;
use crate::plaintext::Plaintext;
use crate::shared::Sizes;

/// What a file is to hold, shared with the thread that encrypts it.
pub(crate) type Content = Arc<Plaintext>;

/// A batch whose contents are apart from its changes, so that they may be encrypted as often as it takes.
#[derive(Debug)]
pub(crate) struct Request {
    preconditions: Vec<(MemoryPath, Expected)>,
    /// Each change with its content, which is empty where it is no [`Change::Write`].
    changes: Vec<(Change, Content)>,
}

/// A file that has to be as it was.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Condition {
    pub(crate) path: MemoryPath,
    pub(crate) id: Id,
    /// Of the ciphertext, in the store beneath.
    pub(crate) version: Version,
}

/// A content that is to be encrypted and put.
#[derive(Debug)]
pub(crate) struct PlannedWrite {
    pub(crate) path: MemoryPath,
    pub(crate) id: Id,
    pub(crate) content: Content,
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
    /// Takes the contents out of a batch.
    pub(crate) fn new(batch: Batch) -> Self {
        let (preconditions, changes) = batch.into_parts();
        let apart = |mut change| {
            let content = match &mut change {
                Change::Write { content, .. } => std::mem::take(content),
                Change::Remove { .. } | Change::Rename { .. } => Vec::new(),
            };
            (change, Arc::new(Plaintext::new(content)))
        };
        Self { preconditions, changes: changes.into_iter().map(apart).collect() }
    }

    /// Whether it only asks whether its preconditions hold.
    pub(crate) fn changes_nothing(&self) -> bool {
        self.changes.is_empty()
    }

    /// Whether it depends on the sizes of files that it may not change.
    pub(crate) fn depends_on_sizes(&self) -> bool {
        self.preconditions.iter().any(|(_, expected)| match expected {
            Expected::Capacity(capacity) => capacity.bytes.is_some() || capacity.file_bytes.is_some(),
            _ => false,
        })
    }

    /// Plans the batch on an index. The sizes are those of its files, if it depends on them.
    pub(crate) fn plan(&self, index: &Index, sizes: &Sizes, sealing: Sealing) -> Result<Plan, Refusal> {
        let mut plan = Plan::default();
        match self.fill(index, sizes, sealing, &mut plan) {
            Ok(()) => Ok(plan),
            Err(failure) => Err(Refusal { conditions: plan.conditions, failure }),
        }
    }

    fn fill(&self, index: &Index, sizes: &Sizes, sealing: Sealing, plan: &mut Plan) -> Result<(), Failure> {
        for (path, expected) in &self.preconditions {
            match expected {
                Expected::Capacity(capacity) => {
                    let sized = self.changes.iter().map(|(change, content)| (change, content.len() as u64));
                    capacity.check(path, sized, |path| Ok(usage(index, sizes, path)))?;
                }
                _ => plan.conditions.extend(condition(index, path, expected)?),
            }
        }
        let Some(data_key) = sealing.data_key else { return Ok(()) };
        if self.depends_on_sizes() {
            // Edits of different files leave the index as it is, and would not exclude each other.
            plan.next_files(index);
        }
        for (change, content) in &self.changes {
            change.check(|path| Ok(index.node(path)))?;
            match change {
                Change::Write { path, .. } => {
                    let known = index.files.get(path);
                    let id = known.map_or_else(Id::random, |file| Ok(file.id))?;
                    let file = FileRecord { id, data_key, size: sealing.padding.noted_size(content.len()) };
                    plan.writes.push(PlannedWrite { path: path.clone(), id, content: Arc::clone(content) });
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

/// How much is at or beneath a path.
fn usage(index: &Index, sizes: &Sizes, path: &MemoryPath) -> Usage {
    index.at_or_beneath(path).map(|(path, file)| FileEntry::new(path.clone(), sizes.of(file))).collect()
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
