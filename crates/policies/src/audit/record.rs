//! [`AuditRecord`]: one record of the audit log.

use std::time::SystemTime;

use memory_tool_core::StorePath;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::audit::time;
use crate::outcome::Outcome;

/// The format version that this crate writes and reads.
pub(super) const FORMAT: u32 = 1;

/// The maximum number of files that a record lists for a removed or renamed directory. All files are counted.
pub const MAX_LISTED_FILES: usize = 1_000;

/// One record of the audit log.
///
/// These are the two records of a `create` in JSON; [`JsonLinesLog`](crate::JsonLinesLog) writes each on one line:
///
/// ```json
/// {
///   "format": 1, "id": "0f6d…", "time": "2026-11-21T14:30:29.123456Z", "actor": "user/42",
///   "command": "create", "event": "intent",
///   "changes": [{
///     "change": "write", "path": "/memories/a.txt",
///     "before": "absent", "after": {"sha256": "bd6d…", "size": 12}
///   }]
/// }
/// {
///   "format": 1, "id": "0f6d…", "time": "2026-11-21T14:30:29.123789Z", "actor": "user/42",
///   "command": "create", "event": "outcome", "outcome": "done"
/// }
/// ```
///
/// Records contain no file contents. Paths are not hashed, because they could be guessed from a hash.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[non_exhaustive]
pub struct AuditRecord {
    /// The format version, 1.
    // The first field, so that readers can find the beginning of a record.
    pub format: u32,
    /// The id that an intent and its outcome share.
    pub id: String,
    /// The time by the clock of the machine that made the record, to the microsecond.
    #[serde(with = "time")]
    pub time: SystemTime,
    /// The name of the memory, if the log is of several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<String>,
    /// The name of the actor.
    pub actor: String,
    /// The id of the [request](memory_tool_core::Actor::in_request), if the actor has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request: Option<String>,
    /// The command, `clear_all_memory`, `apply` for a batch outside of a command, or `none` for an invalid input.
    pub command: String,
    /// The event.
    #[serde(flatten)]
    pub event: AuditEvent,
}

/// The event of an [`AuditRecord`].
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
#[non_exhaustive]
pub enum AuditEvent {
    /// A change is about to be made. The outcome with the same id gives the result. If it is missing, compare the
    /// digests with the stored files.
    Intent {
        /// The changes, which are atomic together.
        changes: Vec<AuditedChange>,
    },
    /// The outcome of an intent.
    Outcome {
        /// The outcome.
        outcome: AuditOutcome,
        /// The kind of refusal or failure, such as `not_found` or `busy`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        error: Option<String>,
        /// The policy that refused it, such as `limits` or `read-only`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        policy: Option<String>,
    },
    /// A refused or failed command, or a `view`.
    Command {
        /// The `path` or `old_path` of the command. If screening refused the name, the nearest accepted directory above
        /// it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        path: Option<StorePath>,
        /// The `new_path` of the command, or a directory above it as for `path`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        new_path: Option<StorePath>,
        /// The outcome.
        outcome: AuditOutcome,
        /// The kind of refusal or failure.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        error: Option<String>,
        /// The policy that refused it, such as `screening`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        policy: Option<String>,
    },
}

/// The outcome of a batch or command.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum AuditOutcome {
    /// It succeeded.
    Done,
    /// It does not fit the state of the memory, or a policy forbids it. No file was changed.
    Refused,
    /// The storage failed. No file was changed.
    Failed,
    /// The storage failed, and the change may have been made.
    Unknown,
    /// The caller stopped waiting, and the change may have been made.
    Dropped,
}

/// One change of an intent.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(tag = "change", rename_all = "snake_case")]
#[non_exhaustive]
pub enum AuditedChange {
    /// A file is created or replaced.
    Write {
        /// The path of the file.
        path: StorePath,
        /// The previous state.
        before: AuditedState,
        /// The new contents.
        after: AuditedFile,
    },
    /// A file or directory is removed.
    Remove {
        /// The path.
        path: StorePath,
        /// The previous state.
        before: AuditedState,
    },
    /// A file or directory is renamed.
    Rename {
        /// The old path.
        from: StorePath,
        /// The new path.
        to: StorePath,
        /// The state of the old path, which moves to the new path.
        moved: AuditedState,
    },
}

impl AuditedChange {
    /// The changed paths.
    pub fn paths(&self) -> impl Iterator<Item = &StorePath> {
        let (path, new_path) = match self {
            Self::Write { path, .. } | Self::Remove { path, .. } => (path, None),
            Self::Rename { from, to, .. } => (from, Some(to)),
        };
        std::iter::once(path).chain(new_path)
    }
}

/// The state of a path.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum AuditedState {
    /// There is no file or directory.
    Absent,
    /// A file.
    File(AuditedFile),
    /// A directory.
    Directory {
        /// The number of files under it, at any depth.
        files: u64,
        /// The total size of these files in bytes.
        bytes: u64,
        /// The first [`MAX_LISTED_FILES`] files, ordered by path.
        listed: Vec<AuditedEntry>,
    },
    /// The path could not be read, or does not meet a precondition, in which case the batch will be refused.
    Unknown,
}

/// The digest and size of the contents of a file.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[non_exhaustive]
pub struct AuditedFile {
    /// The SHA-256 in 64 lower-case hexadecimal digits.
    pub sha256: String,
    /// The size in bytes.
    pub size: u64,
}

impl AuditedFile {
    /// Computes the digest and size of `content`. Use it to compare the log with stored files.
    ///
    /// ```
    /// use memory_tool_policies::AuditedFile;
    ///
    /// let file = AuditedFile::of(b"abc");
    /// assert_eq!(file.sha256, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    /// assert_eq!(file.size, 3);
    /// ```
    pub fn of(content: &[u8]) -> Self {
        Self { sha256: hexadecimal(&Sha256::digest(content)), size: content.len() as u64 }
    }
}

/// A file of a removed or renamed directory.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[non_exhaustive]
pub struct AuditedEntry {
    /// The path of the file.
    pub path: StorePath,
    /// The size in bytes.
    pub size: u64,
    /// The SHA-256 of the contents, if [enabled](crate::AuditedStore::with_digests_of_directories) and readable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sha256: Option<String>,
}

/// Encodes bytes in lower-case hexadecimal digits.
pub(super) fn hexadecimal(bytes: &[u8]) -> String {
    const DIGITS: [char; 16] = ['0', '1', '2', '3', '4', '5', '6', '7', '8', '9', 'a', 'b', 'c', 'd', 'e', 'f'];
    bytes.iter().flat_map(|byte| [DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]]).collect()
}

impl AuditOutcome {
    /// The outcome, the kind of error and the policy in a record. `is_unknown` means that the storage did not confirm a
    /// change.
    pub(super) fn in_record(outcome: Outcome, is_unknown: bool) -> (Self, Option<String>, Option<String>) {
        let recorded = match outcome {
            Outcome::Done => Self::Done,
            Outcome::Refused { .. } => Self::Refused,
            Outcome::Failed(_) if is_unknown => Self::Unknown,
            Outcome::Failed(_) => Self::Failed,
            Outcome::Dropped => Self::Dropped,
        };
        (recorded, outcome.error().map(str::to_owned), outcome.policy().map(str::to_owned))
    }
}
