#![doc = include_str!("../README.md")]
#![doc(test(attr(deny(warnings))))]

mod appending;
mod attempts;
mod blame;
mod check;
mod claim;
mod copy;
mod diff;
mod entry;
mod error;
mod filter;
mod hex;
mod history;
mod limits;
mod log;
mod merge;
mod past;
mod plan;
mod recent;
mod records;
mod redaction;
mod related;
mod repair;
mod since;
mod store;
mod text_redaction;
mod tip;
mod undo;
mod version_cache;
mod versions;

pub use check::HistoryReport;
pub use copy::Copied;
pub use diff::{Differences, FileDiff};
pub use entry::{Digest, Entry, EntryRef, FileChange, InvalidEntryRef, Kept, Operation, Origin};
pub use error::HistoryError;
pub use filter::LogFilter;
pub use hex::{Hash, Hex, Id};
pub use history::History;
pub use limits::Limits;
pub use merge::{merge, merge_preferring_mine};
pub use past::Past;
pub use store::HistoryStore;
pub use text_redaction::TextRedaction;
pub use undo::TakenBack;
pub use version_cache::{LogEnd, VersionCache};
pub use versions::{FileVersion, InvalidVersionId, TrackedFile, VersionId, Versions};
