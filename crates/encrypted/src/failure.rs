//! What can be wrong, and how it is reported: its kind for the model, itself for the operator.
//!
//! No error says what is in a file or what it is called: it names the stored object.

use memory_tool_core::{BoxError, ErrorKind, FailureKind, MemoryPath, OpenError, PathError, StoreError};

use crate::cipher::TooLong;
use crate::keys::{KeyError, KeyId};

/// What the encryption found wrong: the source of a [`StoreError::Failure`] and of an [`OpenError`].
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EncryptionError {
    /// There is no encrypted memory, and the mode of opening does not create one.
    #[error("there is no encrypted memory here")]
    NotFound,
    /// A stored object is not what the store wrote.
    #[error("the stored object {object} is not as it was written")]
    Damaged {
        /// Where it lies in the store beneath.
        object: MemoryPath,
        /// What is wrong with it.
        #[source]
        damage: Damage,
    },
    /// The store beneath found a stored object damaged.
    #[error("the store beneath cannot read the stored object {object}")]
    Unreadable {
        /// Where it lies in the store beneath.
        object: MemoryPath,
        /// What the store beneath said.
        #[source]
        source: StoreError,
    },
    /// A key is needed that the ring does not have.
    #[error("it takes the key {needed}, and the key ring has {}", joined(available))]
    NoKey {
        /// The key that is needed.
        needed: KeyId,
        /// The keys that the ring has, that of the primary first.
        available: Vec<KeyId>,
    },
    /// A key does not do what it should: [`KeyError::WrongKey`] says that it has the name of the right one, but is another, such as
    /// a wrong passphrase.
    #[error("the key {key} does not open it")]
    Key {
        /// The key.
        key: KeyId,
        /// What it said.
        #[source]
        source: KeyError,
    },
    /// The key of the ring that new contents would be encrypted under cannot be used.
    #[error("the key {key} cannot wrap a data key")]
    Wrapping {
        /// The key.
        key: KeyId,
        /// What it said.
        #[source]
        source: KeyError,
    },
    /// The store beneath holds files that nobody encrypted, and no encrypted memory.
    #[error("the store beneath holds {files} files, and no encrypted memory: its files are not encrypted")]
    NotEncrypted {
        /// The number of files.
        files: usize,
    },
    /// Both copies of the index are gone, and so are all names.
    #[error("both copies of the index are gone")]
    IndexGone,
    /// Both copies of the index are older than what this store has seen: somebody put an earlier state in the place of this one.
    #[error(
        "the index went back from revision {seen} to {found}: if you restored a backup, restart this program; otherwise \
         somebody replaced the store with an older copy"
    )]
    OlderIndex {
        /// The highest revision that this store has seen.
        seen: u64,
        /// The revision that is there.
        found: u64,
    },
    /// The index, or one of its copies, is that of another store.
    #[error("another memory was put in the place of this one")]
    OtherStore,
    /// The memory is not called what it has to be called: it is another, or it was named otherwise.
    #[error("{}", match expected {
        Some(name) => format!("the memory is not the one that is called `{name}`"),
        None => "the memory has a name, and was opened without one".to_owned(),
    })]
    OtherName {
        /// What it has to be called; `None` where it has to have no name.
        expected: Option<String>,
    },
    /// A file or the index has grown too large for its format.
    #[error("{what} is too large")]
    TooLarge {
        /// What it is.
        what: &'static str,
    },
}

/// What is wrong with a stored object.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Damage {
    /// It is not there.
    #[error("it is gone")]
    Missing,
    /// Something else than a file is there.
    #[error("something else than a file is in its place")]
    Obstructed,
    /// It is a file that nobody encrypted.
    #[error("it is not encrypted")]
    NotEncrypted,
    /// It is of a version of the format that this program does not know.
    #[error("it has version {found} of the format, and this program knows version {known}")]
    UnknownFormat {
        /// The version that it has.
        found: u8,
        /// The newest version that this program knows.
        known: u8,
    },
    /// It was encrypted for another store.
    #[error("it belongs to another store")]
    OtherStore,
    /// It was encrypted for another place of this store: it was moved, or swapped with another.
    #[error("it belongs to another place of this store")]
    OtherPlace,
    /// Its end is missing.
    #[error("its end is missing")]
    Truncated,
    /// Something was appended to it.
    #[error("there is more than belongs to it")]
    TrailingBytes,
    /// Its header makes no sense.
    #[error("its header is damaged: {0}")]
    Header(&'static str),
    /// It is encrypted with a data key that is not the one that the index has for it, such as an older state that was put back.
    #[error("it is encrypted with another data key than it should be")]
    OtherDataKey,
    /// It was changed: it is not what was encrypted with the key.
    #[error("it was altered")]
    Altered,
    /// It is what was encrypted, but no program of this version would have written it.
    #[error("what was encrypted makes no sense: {0}")]
    Content(&'static str),
}

/// Names with commas between them.
fn joined(keys: &[KeyId]) -> String {
    keys.iter().map(KeyId::as_str).collect::<Vec<_>>().join(", ")
}

/// Why work on a store was not done.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The state of the files does not allow it, or the store beneath failed.
    Refused(StoreError),
    /// The encryption failed.
    Encryption(EncryptionError),
    /// Anything else.
    Failed { kind: FailureKind, source: BoxError },
}

impl Failure {
    pub(crate) fn new(kind: FailureKind, source: impl Into<BoxError>) -> Self {
        Self::Failed { kind, source: source.into() }
    }

    /// The failure of the store beneath. Where it names one of its files, that is for the operator alone.
    pub(crate) fn of_inner(error: StoreError) -> Self {
        match error {
            failure @ StoreError::Failure { .. } => Self::Refused(failure),
            other => Self::new(FailureKind::Damaged, other),
        }
    }

    /// Whether a stored object is not as it was written.
    pub(crate) fn is_damage(&self) -> bool {
        matches!(self, Self::Encryption(EncryptionError::Damaged { .. } | EncryptionError::Unreadable { .. }))
    }

    /// Whether the store beneath found damage.
    pub(crate) fn is_damage_beneath(&self) -> bool {
        matches!(self, Self::Refused(StoreError::Failure { kind: FailureKind::Damaged, .. }))
    }

    /// The failure to find what was written in the place of a stored object.
    pub(crate) fn damaged(object: MemoryPath, damage: Damage) -> Self {
        Self::Encryption(EncryptionError::Damaged { object, damage })
    }

    /// The error that says what the store was doing.
    pub(crate) fn during(self, operation: &'static str) -> StoreError {
        match self {
            Self::Refused(error) => error,
            Self::Encryption(error) => StoreError::failure(error.kind(), operation, error),
            Self::Failed { kind, source } => StoreError::Failure { kind, operation, source },
        }
    }
}

impl From<Failure> for OpenError {
    fn from(failure: Failure) -> Self {
        const PLACE: &str = "with encryption";
        match failure {
            Failure::Encryption(error) => Self::new(PLACE, error.kind_of_opening(), error),
            other => {
                let error = other.during("opening");
                Self::new(PLACE, error.kind(), error)
            }
        }
    }
}

impl EncryptionError {
    fn kind(&self) -> FailureKind {
        match self {
            Self::Damaged { damage: Damage::UnknownFormat { .. }, .. } | Self::Wrapping { .. } => FailureKind::Other,
            Self::NotFound => FailureKind::Other,
            Self::Damaged { .. }
            | Self::Unreadable { .. }
            | Self::NotEncrypted { .. }
            | Self::IndexGone
            | Self::OlderIndex { .. }
            | Self::OtherStore
            | Self::OtherName { .. } => FailureKind::Damaged,
            Self::Key { source: KeyError::Unavailable { .. }, .. } => FailureKind::Other,
            Self::NoKey { .. } | Self::Key { .. } => FailureKind::AccessDenied,
            Self::TooLarge { .. } => FailureKind::Full,
        }
    }

    /// The kind of an opening that failed because of it.
    fn kind_of_opening(&self) -> ErrorKind {
        match self {
            Self::NotFound => ErrorKind::NotFound,
            Self::NotEncrypted { .. } => ErrorKind::Invalid,
            Self::Damaged { damage: Damage::UnknownFormat { .. }, .. } => ErrorKind::Unsupported,
            _ => ErrorKind::Storage(self.kind()),
        }
    }
}

impl From<EncryptionError> for Failure {
    fn from(error: EncryptionError) -> Self {
        Self::Encryption(error)
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        Self::Refused(error)
    }
}

impl From<PathError> for Failure {
    fn from(error: PathError) -> Self {
        Self::Refused(error.into())
    }
}

impl From<getrandom::Error> for Failure {
    fn from(error: getrandom::Error) -> Self {
        Self::new(FailureKind::Other, error)
    }
}

impl From<TooLong> for Failure {
    fn from(_: TooLong) -> Self {
        EncryptionError::TooLarge { what: "a file" }.into()
    }
}

impl From<tokio::task::JoinError> for Failure {
    fn from(error: tokio::task::JoinError) -> Self {
        Self::new(FailureKind::Other, error)
    }
}
