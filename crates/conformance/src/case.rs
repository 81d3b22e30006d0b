//! [`Case`]: an entry of the table of cases.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::clause::Clause;

/// The description of a case.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Case {
    /// The stable name, `{group}.{name}`. An id is never reused for another case.
    pub id: String,
    /// The clauses that it tests. Reports count it under the first.
    pub clauses: Vec<Clause>,
    /// The sources of its checks, the strongest first.
    pub bases: Vec<Basis>,
    /// The fault of a backend that fails the case, in one line.
    pub reason: String,
    /// The capabilities that the backend needs. If one is missing, the case is ignored.
    pub needs: Vec<Capability>,
    /// The names of the known faults that it detects, see [`Fault`](crate::Fault).
    pub faults: Vec<String>,
    #[serde(skip)]
    pub(crate) is_of_storage: bool,
}

impl Case {
    /// The clause that reports count the case under.
    pub fn clause(&self) -> Option<Clause> {
        self.clauses.first().copied()
    }

    /// Whether the case depends on the storage, see [`Suite::storage`](crate::Suite::storage).
    pub fn is_of_storage(&self) -> bool {
        self.is_of_storage
    }
}

/// The source of the behavior that a check expects, in order of precedence: the first is the strongest.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Basis {
    /// Anthropic's public documentation of the memory tool states it.
    Documentation,
    /// The documentation says only to consider it.
    Recommendation,
    /// The documentation is silent, and Anthropic's Python and TypeScript SDKs agree on it.
    Sdks,
    /// The documentation is silent, and the SDKs differ or would harm the user's data. The contract of this project
    /// decides.
    Project,
}

impl Basis {
    /// A description of a few words.
    pub fn title(self) -> &'static str {
        match self {
            Self::Documentation => "stated by the documentation",
            Self::Recommendation => "the documentation says to consider it",
            Self::Sdks => "the Python and TypeScript SDKs agree",
            Self::Project => "chosen by this project",
        }
    }
}

impl fmt::Display for Basis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(f) // the name
    }
}

/// A capability of the backend, beyond answering commands, that a case needs.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Capability {
    /// The tool runs in this process: its definition can be read, and its futures can be dropped.
    Tool,
    /// The tool's options can be set: whether `create` overwrites, and the cap on `view`.
    Options,
    /// Files can be stored that no command creates, such as bytes that are not text.
    ForeignFiles,
    /// The stored bytes can be read without `view`.
    StoredBytes,
    /// The [`Store`](memory_tool_core::Store) can be accessed.
    Store,
    /// The same memory can be opened a second time.
    Sessions,
    /// Programs that serve the same memory can be started and killed.
    Processes,
    /// Several sessions and programs can use the same memory at once. Only the caller declares that a store lacks it.
    Concurrency,
    /// The files of the memory are plain files with the same names under a directory.
    PlainFiles,
    /// Everything is stored under a directory.
    Directory,
    /// This machine can mount a file system for a single program, to simulate a full or read-only disk.
    Mounts,
    /// This machine can make a program's system calls fail, to simulate a failing disk.
    Tracing,
    /// Several named memories share one store.
    Scopes,
    /// The memory is encrypted, and the underlying store can be accessed.
    Sealed,
}

impl fmt::Display for Capability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(f) // the name
    }
}
