//! Text, tables, colors, pages, progress and interruptions on a terminal.

pub(crate) mod escapes;
pub(crate) mod input;
pub mod interruption;
pub mod output;
pub(crate) mod pager;
pub mod progress_line;
