//! [`Stored`]: what lies at the path of an object in the inner store.

use memory_tool_core::{FailureKind, MemoryPath, Node, StoreError, StoredFile};

use crate::failure::{Damage, EncryptionError, Failure};
use crate::header::ObjectName;
use crate::id::Id;

/// What lies at the path of an object in the inner store.
pub(crate) enum Stored {
    Nothing,
    /// Something else than a file.
    Obstructed,
    /// A file that the inner store found damaged, or refuses to read.
    Unreadable(StoreError),
    File(StoredFile),
}

impl Stored {
    pub(crate) fn of(read: Result<Node, StoreError>) -> Result<Self, Failure> {
        match read {
            Ok(Node::File(file)) => Ok(Self::File(file)),
            Ok(Node::Absent) => Ok(Self::Nothing),
            Err(reason @ (StoreError::Failure { kind: FailureKind::Damaged, .. } | StoreError::Refused { .. })) => {
                Ok(Self::Unreadable(reason))
            }
            Err(failure @ StoreError::Failure { .. }) => Err(failure.into()),
            // Such as a symbolic link.
            Ok(Node::Directory(_)) | Err(_) => Ok(Self::Obstructed),
        }
    }

    /// The object, which has to be there.
    pub(crate) fn into_object(self, name: ObjectName) -> Result<StoredFile, Failure> {
        match self {
            Self::File(file) => Ok(file),
            Self::Nothing => Err(Failure::damaged(name.path(), Damage::Missing)),
            Self::Obstructed => Err(Failure::damaged(name.path(), Damage::Obstructed)),
            Self::Unreadable(source) => Err(EncryptionError::Unreadable { object: name.path(), source }.into()),
        }
    }
}

/// The id of the content whose object lies at `path`.
pub(crate) fn id_of(path: &MemoryPath) -> Option<Id> {
    let mut names = path.segments();
    let id = names.next().and_then(Id::parse)?;
    names.next().is_none().then_some(id)
}
