//! [`Step`]: one change of a batch, as a journal has it.

use std::fmt;

use memory_tool_core::{Batch, StorePath};
use serde::{Deserialize, Serialize};

use crate::disk::FileAccess;
use crate::name::TemporaryName;

/// A change whose new contents, if any, are already on the disk.
///
/// A step can be repeated: parts that are already done are skipped. A step of a journal can also be undone. Files that
/// another program wrote in the meantime are detected and never overwritten. Only a removal applies to any version.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub(crate) enum Step {
    /// Move the file `staged` from the staging directory to `path`, which must be free or have the version `replaces`.
    Write {
        path: StorePath,
        staged: TemporaryName,
        replaces: Option<Vec<u8>>,
        /// How to undo the step. Only a journal needs it.
        undo: Option<UndoWrite>,
        /// The access rights of the replaced file, which the staged file has too.
        #[serde(skip)]
        access: Option<FileAccess>,
    },
    /// Move the file or directory to `removed` in the staging directory. Without that name, remove the file in place.
    Remove { path: StorePath, removed: Option<TemporaryName> },
    /// Move the file or directory to a free path.
    Rename { from: StorePath, to: StorePath },
}

/// The data for undoing a write.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct UndoWrite {
    /// The name of the replaced file in the staging directory.
    pub(crate) kept: TemporaryName,
    /// The version of the new contents.
    pub(crate) written: Vec<u8>,
}

impl Step {
    /// The names of the step in the staging directory.
    pub(crate) fn temporary_names(&self) -> impl Iterator<Item = &TemporaryName> {
        let [first, second] = match self {
            Self::Write { staged, undo, .. } => [Some(staged), undo.as_ref().map(|undo| &undo.kept)],
            Self::Remove { removed, .. } => [removed.as_ref(), None],
            Self::Rename { .. } => [None, None],
        };
        first.into_iter().chain(second)
    }

    /// Whether the step can be part of a journal.
    pub(crate) fn can_be_undone(&self) -> bool {
        match self {
            Self::Write { undo, .. } => undo.is_some(),
            Self::Remove { removed, .. } => removed.is_some(),
            Self::Rename { .. } => true,
        }
    }

    /// The name of the new contents in the staging directory, if there are any.
    pub(crate) fn staged(&self) -> Option<&TemporaryName> {
        match self {
            Self::Write { staged, .. } => Some(staged),
            Self::Remove { .. } | Self::Rename { .. } => None,
        }
    }

    pub(crate) fn is_of_record(&self) -> bool {
        let (Self::Write { path, .. } | Self::Remove { path, .. } | Self::Rename { from: path, .. }) = self;
        path.is_record()
    }

    /// Adds the change to a batch, without contents.
    pub(crate) fn add_to(&self, batch: Batch) -> Batch {
        match self {
            Self::Write { path, .. } => batch.write(path.clone(), Vec::new()),
            Self::Remove { path, .. } => batch.remove(path.clone()),
            Self::Rename { from, to } => batch.rename(from.clone(), to.clone()),
        }
    }
}

/// For the operator.
impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Write { path, .. } => write!(f, "the write of {path}"),
            Self::Remove { path, .. } => write!(f, "the removal of {path}"),
            Self::Rename { from, to } => write!(f, "the rename of {from} to {to}"),
        }
    }
}
