//! [`AuditRecord`]: one record of the audit log.

use std::time::SystemTime;

use memory_tool_core::MemoryPath;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::audit::time;
use crate::outcome::Outcome;

/// The version of the format that this crate writes, and the only one that it reads.
pub(super) const FORMAT: u32 = 1;

/// Of a directory that is removed or renamed, how many files a record lists at most. It counts them all.
pub const MAX_LISTED_FILES: usize = 1_000;

/// One record of the audit log. [The page of the crate](crate#audit-log) shows what it looks like in JSON.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[non_exhaustive]
pub struct AuditRecord {
    /// The version of the format.
    // The first of the fields: a reader finds the beginning of a record by it.
    pub format: u32,
    /// What an intent and its outcome have in common, and no other record.
    pub id: String,
    /// When, by the clock of the machine that made the record, to the microsecond.
    #[serde(with = "time")]
    pub time: SystemTime,
    /// Who.
    pub actor: String,
    /// Which command. `clear_all_memory` and `apply` are what the program did without one, `none` an input that is no command.
    pub command: String,
    /// What all records of one command have in common; `None` for what was done without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command_id: Option<String>,
    /// What is recorded.
    #[serde(flatten)]
    pub event: AuditEvent,
}

impl AuditRecord {
    /// The record that was written as `json`; `None` for anything else, and for another format.
    pub(super) fn parse(json: &[u8]) -> Option<Self> {
        serde_json::from_slice::<Self>(json).ok().filter(|record| record.format == FORMAT)
    }
}

/// What a record is of.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
#[non_exhaustive]
pub enum AuditEvent {
    /// Something is about to be changed. The outcome with the same id gives the result. If it is missing, compare the digests with
    /// what is stored.
    Intent {
        /// The changes, all of which are made or none.
        changes: Vec<AuditedChange>,
    },
    /// What came of an intent.
    Outcome {
        /// What came of it.
        outcome: AuditOutcome,
        /// The kind of refusal or failure, such as `not_found` or `busy`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        error: Option<String>,
    },
    /// A command that was refused or failed, or that showed something.
    Command {
        /// What it was given as `path` or `old_path`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        path: Option<MemoryPath>,
        /// What it was given as `new_path`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        new_path: Option<MemoryPath>,
        /// What came of it.
        outcome: AuditOutcome,
        /// The kind of refusal or failure.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        error: Option<String>,
    },
}

/// What came of a batch or command.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum AuditOutcome {
    /// It was done.
    Done,
    /// It does not fit what is there, or a policy forbids it. Nothing was changed.
    Refused,
    /// The storage failed. Nothing was changed.
    Failed,
    /// The storage failed, and whether the change was made is not known.
    Unknown,
    /// Nobody waited any longer. It may have been done.
    Dropped,
}

/// One change of an intent.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(tag = "change", rename_all = "snake_case")]
#[non_exhaustive]
pub enum AuditedChange {
    /// A file is created or replaced.
    Write {
        /// The file.
        path: MemoryPath,
        /// What was there.
        before: AuditedState,
        /// What it shall hold.
        after: AuditedFile,
    },
    /// A file, or a directory with all that is beneath it, is removed.
    Remove {
        /// What is removed.
        path: MemoryPath,
        /// What was there.
        before: AuditedState,
    },
    /// A file, or a directory with all that is beneath it, is renamed.
    Rename {
        /// The old path.
        from: MemoryPath,
        /// The new path.
        to: MemoryPath,
        /// What was at the old path, and shall be at the new one.
        moved: AuditedState,
    },
}

impl AuditedChange {
    /// The paths that it changes.
    pub fn paths(&self) -> impl Iterator<Item = &MemoryPath> {
        let (path, new_path) = match self {
            Self::Write { path, .. } | Self::Remove { path, .. } => (path, None),
            Self::Rename { from, to, .. } => (from, Some(to)),
        };
        std::iter::once(path).chain(new_path)
    }
}

/// What is at a path.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum AuditedState {
    /// Nothing.
    Absent,
    /// A file.
    File(AuditedFile),
    /// A directory.
    Directory {
        /// How many files are beneath it, at any depth.
        files: u64,
        /// Their sizes together, in bytes.
        bytes: u64,
        /// The first [`MAX_LISTED_FILES`] of them, in the order of their paths.
        listed: Vec<AuditedEntry>,
    },
    /// It could not be read, or is not what the batch requires, so that it will be refused.
    Unknown,
}

/// The contents of a file, without showing them.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[non_exhaustive]
pub struct AuditedFile {
    /// Their SHA-256 in 64 lower-case hexadecimal digits.
    pub sha256: String,
    /// Their size in bytes.
    pub size: u64,
}

impl AuditedFile {
    /// What is recorded of a file that holds `content`. Whoever compares the log with a store makes it of what is there.
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

/// A file of a directory that is removed or renamed.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[non_exhaustive]
pub struct AuditedEntry {
    /// The file.
    pub path: MemoryPath,
    /// Its size in bytes.
    pub size: u64,
    /// The SHA-256 of its contents, where the store was asked to
    /// [read them](crate::AuditedStore::with_digests_of_directories) and could.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sha256: Option<String>,
}

/// Two lower-case digits for each byte.
pub(super) fn hexadecimal(bytes: &[u8]) -> String {
    const DIGITS: [char; 16] = ['0', '1', '2', '3', '4', '5', '6', '7', '8', '9', 'a', 'b', 'c', 'd', 'e', 'f'];
    bytes.iter().flat_map(|byte| [DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]]).collect()
}

/// The outcome as it is recorded, and the kind of error. `is_unknown` says that the storage did not confirm a change.
pub(super) fn recorded(outcome: Outcome, is_unknown: bool) -> (AuditOutcome, Option<String>) {
    let recorded = match outcome {
        Outcome::Done => AuditOutcome::Done,
        Outcome::Refused(_) => AuditOutcome::Refused,
        Outcome::Failed(_) if is_unknown => AuditOutcome::Unknown,
        Outcome::Failed(_) => AuditOutcome::Failed,
        Outcome::Dropped => AuditOutcome::Dropped,
    };
    (recorded, outcome.error().map(str::to_owned))
}
