//! The errors of the encryption. The model reads only their kind; the operator reads the error itself.
//!
//! No error contains the content or the name of a file. Errors name the stored object instead.

use memory_tool_core::{BoxError, ErrorKind, OpenError, PathError, StoreError, StorePath};

use crate::cipher::MessageTooLong;
use crate::keys::{KeyError, KeyId};

/// An error of the encryption, found as the source of a [`StoreError::Failure`] or an [`OpenError`].
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EncryptionError {
    /// There is no encrypted memory, and the open mode does not create one.
    #[error("there is no encrypted memory here")]
    NotFound,
    /// A stored object is missing or was modified.
    #[error("stored object {object} is damaged")]
    Damaged {
        /// The path of the object in the inner store.
        object: StorePath,
        /// The kind of damage.
        #[source]
        damage: Damage,
    },
    /// The inner store cannot read a stored object.
    #[error("the inner store cannot read stored object {object}")]
    Unreadable {
        /// The path of the object in the inner store.
        object: StorePath,
        /// The error of the inner store.
        #[source]
        source: StoreError,
    },
    /// The key ring does not have the key that a data key was wrapped with.
    #[error("encrypted with key {needed}, which is not in the key ring (available: {})", joined(available))]
    NoKey {
        /// The key that is needed.
        needed: KeyId,
        /// The keys of the ring, starting with the primary.
        available: Vec<KeyId>,
    },
    /// A key cannot unwrap a data key. [`KeyError::WrongKey`] means that the key has the right name but the wrong
    /// value, such as a wrong passphrase.
    #[error("cannot decrypt with key {key}")]
    Key {
        /// The key.
        key: KeyId,
        /// The error of the key provider.
        #[source]
        source: KeyError,
    },
    /// The primary key of the ring cannot wrap a new data key.
    #[error("cannot wrap a data key with key {key}")]
    Wrapping {
        /// The key.
        key: KeyId,
        /// The error of the key provider.
        #[source]
        source: KeyError,
    },
    /// The inner store holds unencrypted files and no encrypted memory.
    #[error("the inner store holds unencrypted files ({files}): copy them into a new encrypted store")]
    NotEncrypted {
        /// The number of files.
        files: usize,
    },
    /// Both copies of the index are missing. File names cannot be recovered without them.
    #[error("both copies of the index are missing: restore them from a backup")]
    IndexMissing,
    /// Both copies of the index are older than the highest revision that this store has seen. The store was rolled back
    /// to an earlier state.
    #[error(
        "the index went back from revision {seen} to {found}: if you restored a backup, restart this program; \
         otherwise the store was replaced with an older copy"
    )]
    OlderIndex {
        /// The highest revision that this store has seen.
        seen: u64,
        /// The revision of the stored index.
        found: u64,
    },
    /// The index or a copy of it belongs to another store.
    #[error("the index belongs to another memory, which has replaced this one")]
    OtherStore,
    /// The memory does not have the expected name. It is another memory, or it was renamed.
    #[error("{}", match expected {
        Some(label) => format!("this memory does not have the label `{label}`"),
        None => "this memory has a label, but was opened without one".to_owned(),
    })]
    OtherLabel {
        /// The expected label. An unlabeled memory was expected if it is `None`.
        expected: Option<String>,
    },
    /// A file or the index is too large for the format.
    #[error("{what} is too large")]
    TooLarge {
        /// A description of the object, such as "a file".
        what: &'static str,
    },
}

/// The damage of a stored object.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Damage {
    /// The object does not exist.
    #[error("missing")]
    Missing,
    /// The path of the object holds a directory, a symbolic link or another non-file.
    #[error("not a file")]
    NotAFile,
    /// The object is an unencrypted file.
    #[error("not encrypted")]
    NotEncrypted,
    /// The object has a format version that this program does not support.
    #[error("format version {found} is not supported; this program supports version {known}")]
    UnknownFormat {
        /// The version of the object.
        found: u8,
        /// The newest version that this program supports.
        known: u8,
    },
    /// The object was encrypted for another store.
    #[error("encrypted for another store")]
    OtherStore,
    /// The object was encrypted under another name in this store. It was moved, or swapped with another object.
    #[error("encrypted for another object of this store: it was moved or swapped")]
    OtherObject,
    /// The end of the object is missing.
    #[error("truncated")]
    Truncated,
    /// The object is longer than its header states.
    #[error("trailing bytes after the end")]
    TrailingBytes,
    /// The header of the object is invalid.
    #[error("invalid header: {0}")]
    Header(&'static str),
    /// The object is encrypted with another data key than the index lists for it. An older version may have been
    /// restored.
    #[error("encrypted with another data key than the index lists")]
    OtherDataKey,
    /// The object fails authentication, so it was modified after encryption.
    #[error("authentication failed: the object was modified")]
    Altered,
    /// The object decrypts to invalid data, which no program of this format version writes.
    #[error("invalid data after decryption: {0}")]
    Content(&'static str),
}

fn joined(keys: &[KeyId]) -> String {
    keys.iter().map(KeyId::as_str).collect::<Vec<_>>().join(", ")
}

/// The failure of an operation on a store, before the name of the operation is added.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    /// The state of the files does not allow the operation, or the inner store failed.
    #[error(transparent)]
    Refused(#[from] StoreError),
    /// The encryption failed.
    #[error(transparent)]
    Encryption(#[from] EncryptionError),
    /// Any other failure.
    #[error("{source}")]
    Failed { kind: ErrorKind, source: BoxError },
}

impl Failure {
    /// Converts a refusal of the inner store, for example because a file is too large. The error names the path of the
    /// file, which the model knows.
    pub(crate) fn refused(path: &StorePath, policy: &'static str, reason: String) -> Self {
        if path.is_record() {
            return Self::new(ErrorKind::Full, reason);
        }
        StoreError::refused(path, policy, reason).into()
    }

    pub(crate) fn new(kind: ErrorKind, source: impl Into<BoxError>) -> Self {
        Self::Failed { kind, source: source.into() }
    }

    /// Converts an error of the inner store. An error that names a path of the inner store becomes a
    /// [`ErrorKind::Damaged`], which shows the path to operators only.
    pub(crate) fn of_inner(error: StoreError) -> Self {
        match error {
            failure @ StoreError::Failure { .. } => Self::Refused(failure),
            other => Self::new(ErrorKind::Damaged, other),
        }
    }

    /// Whether a stored object is damaged or unreadable.
    pub(crate) fn is_damage(&self) -> bool {
        matches!(self, Self::Encryption(EncryptionError::Damaged { .. } | EncryptionError::Unreadable { .. }))
    }

    /// Whether the inner store reported damage.
    pub(crate) fn is_inner_damage(&self) -> bool {
        matches!(self, Self::Refused(StoreError::Failure { kind: ErrorKind::Damaged, .. }))
    }

    /// The failure for a damaged object.
    pub(crate) fn damaged(object: StorePath, damage: Damage) -> Self {
        Self::Encryption(EncryptionError::Damaged { object, damage })
    }

    /// Adds the operation that failed.
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
        const WHERE: &str = "with encryption";
        match failure {
            Failure::Encryption(error) => Self::new(WHERE, error.open_error_kind(), error),
            other => {
                let error = other.during("opening");
                Self::new(WHERE, error.kind(), error)
            }
        }
    }
}

impl EncryptionError {
    fn kind(&self) -> ErrorKind {
        match self {
            Self::Damaged { damage: Damage::UnknownFormat { .. }, .. } | Self::Wrapping { .. } => ErrorKind::Other,
            Self::NotFound => ErrorKind::Other,
            Self::Damaged { .. }
            | Self::Unreadable { .. }
            | Self::NotEncrypted { .. }
            | Self::IndexMissing
            | Self::OlderIndex { .. }
            | Self::OtherStore
            | Self::OtherLabel { .. } => ErrorKind::Damaged,
            Self::Key { source: KeyError::Unavailable { .. }, .. } => ErrorKind::Other,
            Self::NoKey { .. } | Self::Key { .. } => ErrorKind::AccessDenied,
            Self::TooLarge { .. } => ErrorKind::Full,
        }
    }

    /// The error kind if this error made opening fail.
    fn open_error_kind(&self) -> ErrorKind {
        match self {
            Self::NotFound => ErrorKind::NotFound,
            Self::NotEncrypted { .. } => ErrorKind::Invalid,
            Self::Damaged { damage: Damage::UnknownFormat { .. }, .. } => ErrorKind::Unsupported,
            _ => self.kind(),
        }
    }
}

impl From<PathError> for Failure {
    fn from(error: PathError) -> Self {
        Self::Refused(error.into())
    }
}

impl From<getrandom::Error> for Failure {
    fn from(error: getrandom::Error) -> Self {
        Self::new(ErrorKind::Other, error)
    }
}

impl From<MessageTooLong> for Failure {
    fn from(_: MessageTooLong) -> Self {
        EncryptionError::TooLarge { what: "a file" }.into()
    }
}

impl From<tokio::task::JoinError> for Failure {
    fn from(error: tokio::task::JoinError) -> Self {
        Self::new(ErrorKind::Other, error)
    }
}
