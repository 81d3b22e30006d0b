//! [`Case`]: one entry of the table of cases.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::clause::Clause;

/// What a case tests, why, and what it needs: a row of the table, without what it does.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Case {
    /// The stable name, `{group}.{name}`. An id is never given to another case.
    pub id: String,
    /// The clauses that it tests, the one that it is counted under first.
    pub clauses: Vec<Clause>,
    /// Where the behavior comes from.
    pub basis: Basis,
    /// What goes wrong where the case fails, in one line.
    pub reason: String,
    /// What it needs of the backend. Where the backend lacks one of these, the case is ignored.
    pub needs: Vec<Need>,
    /// The names of the known faults that it catches, see [`Fault`](crate::Fault).
    pub faults: Vec<String>,
}

impl Case {
    /// The clause that the case is counted under.
    pub fn clause(&self) -> Option<Clause> {
        self.clauses.first().copied()
    }

    /// Whether a filter means the case: a part of its id, such as `view.` or `races`, or one of its clauses, such as `V3`.
    pub fn matches(&self, filter: &str) -> bool {
        self.id.contains(filter) || self.clauses.iter().any(|clause| clause.id() == filter)
    }
}

/// Where the behavior that a case tests comes from. The contract takes them in this order.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Basis {
    /// Anthropic's public documentation of the memory tool states it.
    Documentation,
    /// The documentation is silent, and Anthropic's Python and TypeScript SDKs agree on it.
    Sdks,
    /// The documentation is silent, and the SDKs differ or would harm the user's data: a choice of this project's contract.
    Project,
}

impl fmt::Display for Basis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Documentation => "documentation",
            Self::Sdks => "sdks",
            Self::Project => "project",
        })
    }
}

/// Something that a case needs of the backend beyond answering commands.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Need {
    /// The tool is a value within this program: its definition can be asked for, and its futures can be dropped.
    Tool,
    /// The tool's options can be set: overwriting by `create`, and the cap on `view`.
    Options,
    /// Files can be put there that no command makes: bytes that are no text.
    ForeignFiles,
    /// The stored bytes can be read other than through `view`.
    StoredBytes,
    /// The byte-level [`Store`](memory_tool_core::Store) can be reached.
    Store,
    /// The same memory can be opened a second time.
    Sessions,
    /// A program can be started that serves the same memory, and killed.
    Processes,
    /// The files of the memory are plain files of the same names beneath a directory.
    PlainFiles,
    /// All that is stored lies beneath a directory.
    Directory,
    /// This machine mounts a file system for a program alone, so that its disk can be full or read-only.
    Mounts,
    /// This machine makes calls of a program to the system fail, as those of a broken disk do.
    Tracing,
    /// Several memories, each with a name, share one place.
    Scopes,
    /// The memory is encrypted, and the store beneath the encryption can be reached.
    Sealed,
}

impl Need {
    pub(crate) const ALL: [Self; 13] = [
        Self::Tool,
        Self::Options,
        Self::ForeignFiles,
        Self::StoredBytes,
        Self::Store,
        Self::Sessions,
        Self::Processes,
        Self::PlainFiles,
        Self::Directory,
        Self::Mounts,
        Self::Tracing,
        Self::Scopes,
        Self::Sealed,
    ];
}

impl fmt::Display for Need {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Tool => "tool",
            Self::Options => "options",
            Self::ForeignFiles => "foreign_files",
            Self::StoredBytes => "stored_bytes",
            Self::Store => "store",
            Self::Sessions => "sessions",
            Self::Processes => "processes",
            Self::PlainFiles => "plain_files",
            Self::Directory => "directory",
            Self::Mounts => "mounts",
            Self::Tracing => "tracing",
            Self::Scopes => "scopes",
            Self::Sealed => "sealed",
        })
    }
}
