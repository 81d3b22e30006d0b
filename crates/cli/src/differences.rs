//! Differences of files, for people and in JSON.

use std::io::{self, IsTerminal as _};

use memory_tool::history::FileDiff;
use serde::Serialize;

use crate::terminal::escapes::for_terminal;
use crate::terminal::pager::Colors;

#[derive(Serialize)]
pub(crate) struct PrintedDiff<'a> {
    path: &'a str,
    diff: String,
}

impl<'a> PrintedDiff<'a> {
    pub(crate) fn of(difference: &'a FileDiff) -> Self {
        Self { path: difference.path.as_str(), diff: difference.unified() }
    }
}

/// The difference of a file.
pub(crate) fn diff_text(colors: Colors, difference: &FileDiff) -> String {
    colored(colors, &difference.unified())
}

/// A difference in the unified format as Git prints it.
pub(crate) fn colored(colors: Colors, unified: &str) -> String {
    let lines = unified.split_inclusive('\n').map(|line| {
        let (text, end) = line.strip_suffix('\n').map_or((line, ""), |text| (text, "\n"));
        let text = if io::stdout().is_terminal() { for_terminal(text) } else { text.to_owned() };
        let color = match text.as_bytes() {
            [b'+', b'+', b'+', ..] | [b'-', b'-', b'-', ..] => "1",
            [b'+', ..] => "32",
            [b'-', ..] => "31",
            [b'@', ..] => "36",
            _ => return text + end,
        };
        colors.paint(color, &text) + end
    });
    lines.collect()
}
