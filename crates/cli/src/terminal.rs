//! Text, tables, colors, pages, progress and interruptions on a terminal.

pub(crate) mod escapes;
pub(crate) mod input;
pub(crate) mod interruption;
pub(crate) mod output;
pub(crate) mod pager;
pub(crate) mod progress_line;
