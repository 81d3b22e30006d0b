//! [`ProposalError`]: why a proposal was not decided.

use memory_tool_core::{StoreError, StorePath};

use crate::name::ProposalName;

/// An error of [`Proposals`](crate::Proposals).
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ProposalError {
    /// The proposal changes nothing: it was decided, or there never was one.
    #[error("there is no proposal {name}")]
    NotFound {
        /// The name.
        name: ProposalName,
    },
    /// The proposal cannot be read.
    #[error("the proposal {name} is damaged; it can only be dropped")]
    Damaged {
        /// The name.
        name: ProposalName,
    },
    /// The proposal changes nothing at this path.
    #[error("the proposal does not change {path}")]
    NotProposed {
        /// The path.
        path: StorePath,
    },
    /// The proposal was changed after it was shown, so it has to be looked at again.
    #[error("the proposal was changed by others; look at it again")]
    Changed,
    /// The memory and the proposal changed the same or neighboring lines. Nothing was taken.
    #[error("the memory was changed at the same lines: {}; edit the proposal, or drop these changes", list(.paths))]
    Conflict {
        /// The files.
        paths: Vec<StorePath>,
    },
    /// A file would have to take the place of a directory, or a directory the place of a file.
    #[error("a file and a directory would have to swap places in one step; first take the removal of {path}")]
    FileAndDirectory {
        /// The path in the way.
        path: StorePath,
    },
    /// There is no such part of the change of a file.
    #[error("the change of {path} has no such part; it has {parts}")]
    NoPart {
        /// The file.
        path: StorePath,
        /// The number of parts.
        parts: usize,
    },
    /// Nobody has looked at the proposal, and it removes [much](crate::Report::removes_much) of the memory.
    #[error(
        "more than a third of the lines of the memory would go; look at the proposal, and take it with its revision"
    )]
    RemovesMuch,
    /// The memory is too large for a report.
    #[error("the memory has {bytes} bytes; the limit of a report is {limit}")]
    TooLarge {
        /// The size of the files.
        bytes: u64,
        /// The maximum size.
        limit: u64,
    },
    /// The store failed, or a policy refused what would be taken.
    #[error(transparent)]
    Store(#[from] StoreError),
}

fn list(paths: &[StorePath]) -> String {
    paths.iter().map(StorePath::as_str).collect::<Vec<_>>().join(", ")
}
