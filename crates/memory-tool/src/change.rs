//! [`MemoryChange`]: a change of a file or directory.

use memory_tool_core::{Actor, Batch, Change, MemoryPath, Precondition, StorePath};
use serde::{Serialize, Serializer};

/// A change of a memory, without the contents.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
#[non_exhaustive]
pub struct MemoryChange {
    /// The kind of the change.
    pub operation: Operation,
    /// The file or directory; the new path of a rename. Removing `/memories` removes all files.
    pub path: MemoryPath,
    /// The old path of a rename.
    pub old_path: Option<MemoryPath>,
    /// The new size of a written or edited file, in bytes.
    pub size: Option<u64>,
    /// The actor, if the batch names one. Unknown for changes by other programs.
    #[serde(serialize_with = "name")]
    pub actor: Option<Actor>,
}

/// The kind of a [`MemoryChange`].
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
#[non_exhaustive]
#[serde(rename_all = "snake_case")]
pub enum Operation {
    /// A file was created, or replaced regardless of its contents.
    Write,
    /// The contents of an existing file were changed.
    Edit,
    /// A file or directory was removed.
    Remove,
    /// A file or directory was moved.
    Rename,
}

impl MemoryChange {
    /// A change of a path.
    pub fn new(operation: Operation, path: MemoryPath) -> Self {
        Self { operation, path, old_path: None, size: None, actor: None }
    }

    /// The paths that it affects.
    pub fn paths(&self) -> impl Iterator<Item = &MemoryPath> {
        self.old_path.iter().chain([&self.path])
    }

    /// The changes of files in a batch, without those of records.
    pub(crate) fn in_batch(batch: &Batch) -> Vec<Self> {
        let actor = batch.actor().cloned();
        let changes = batch.changes().iter().filter_map(|change| Self::of(change, batch));
        changes.map(|change| Self { actor: actor.clone(), ..change }).collect()
    }

    fn of(change: &Change, batch: &Batch) -> Option<Self> {
        let file = |path: &StorePath| MemoryPath::try_from(path).ok();
        Some(match change {
            Change::Write { path, content, .. } => {
                let exists = |(required, precondition): &(StorePath, Precondition)| {
                    required == path && matches!(precondition, Precondition::Version(_))
                };
                let is_edit = batch.preconditions().iter().any(exists);
                let operation = if is_edit { Operation::Edit } else { Operation::Write };
                Self { size: u64::try_from(content.len()).ok(), ..Self::new(operation, file(path)?) }
            }
            Change::Remove { path } => Self::new(Operation::Remove, file(path)?),
            Change::Rename { from, to } => Self { old_path: file(from), ..Self::new(Operation::Rename, file(to)?) },
        })
    }
}

fn name<S: Serializer>(actor: &Option<Actor>, serializer: S) -> Result<S::Ok, S::Error> {
    actor.as_ref().map(Actor::name).serialize(serializer)
}
