//! [`StoredObject`]: the result of reading an object from the inner store.

use memory_tool_core::{ErrorKind, Node, StoreError, StorePath, StoredFile};

use crate::failure::{Damage, EncryptionError, Failure};
use crate::header::ObjectName;
use crate::id::Id;

/// The state of the path of an object in the inner store.
pub(crate) enum StoredObject {
    Missing,
    /// A directory, a symbolic link or another non-file.
    NotAFile,
    /// A file that the inner store finds damaged or refuses to read.
    Unreadable(StoreError),
    File(StoredFile),
}

impl StoredObject {
    pub(crate) fn of(read: Result<Node, StoreError>) -> Result<Self, Failure> {
        match read {
            Ok(Node::File(file)) => Ok(Self::File(file)),
            Ok(Node::Absent) => Ok(Self::Missing),
            Err(reason @ (StoreError::Failure { kind: ErrorKind::Damaged, .. } | StoreError::Refused { .. })) => {
                Ok(Self::Unreadable(reason))
            }
            Err(failure @ StoreError::Failure { .. }) => Err(failure.into()),
            // For example, a symbolic link.
            Ok(Node::Directory(_)) | Err(_) => Ok(Self::NotAFile),
        }
    }

    /// The object, or the failure that describes its damage.
    pub(crate) fn into_object(self, name: ObjectName) -> Result<StoredFile, Failure> {
        match self {
            Self::File(file) => Ok(file),
            Self::Missing => Err(Failure::damaged(name.path(), Damage::Missing)),
            Self::NotAFile => Err(Failure::damaged(name.path(), Damage::NotAFile)),
            Self::Unreadable(source) => Err(EncryptionError::Unreadable { object: name.path(), source }.into()),
        }
    }
}

/// The id of the content with the object path `path`.
pub(crate) fn id_of(path: &StorePath) -> Option<Id> {
    let mut names = path.segments();
    let id = names.next().and_then(Id::parse)?;
    names.next().is_none().then_some(id)
}
