#![doc = include_str!("../README.md")]
#![doc(test(attr(deny(warnings))))]

mod check;
mod diff;
mod entry;
mod error;
mod history;
mod limits;
mod log;
mod past;
mod recent;
mod records;
mod redaction;
mod related;
mod store;
mod undo;

pub use check::HistoryReport;
pub use diff::{EntryDiff, FileDiff};
pub use entry::{Digest, Entry, FileChange, Hash, Kept, Origin};
pub use error::HistoryError;
pub use history::{History, LogFilter};
pub use limits::Limits;
pub use past::Past;
pub use store::HistoryStore;
