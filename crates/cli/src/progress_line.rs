//! [`ProgressLine`]: progress on a terminal.

use std::io::{self, IsTerminal as _, Stderr, Write};

/// The maximum length of the line. A line that the terminal wraps cannot be rewritten in place.
const WIDTH: usize = 79;

const BAR: usize = 40;

/// A line of a terminal that is rewritten in place, and cleared on drop.
pub(crate) struct ProgressLine<W: Write> {
    terminal: W,
    length: usize,
}

impl ProgressLine<Stderr> {
    /// A line of standard error, if that is a terminal.
    pub(crate) fn of_standard_error() -> Option<Self> {
        let terminal = io::stderr();
        terminal.is_terminal().then(|| Self { terminal, length: 0 })
    }
}

impl<W: Write> ProgressLine<W> {
    /// Replaces the text.
    pub(crate) fn show(&mut self, text: &str) {
        // Spaces cover the previous text, because not every terminal supports the sequence that clears a line. Further
        // spaces could make a narrow terminal wrap the line.
        let width = self.length;
        self.length = text.chars().count().min(WIDTH);
        // An error of the terminal does not stop the work.
        let _ = write!(self.terminal, "\r{text:<width$.WIDTH$}\r").and_then(|()| self.terminal.flush());
    }
}

impl<W: Write> Drop for ProgressLine<W> {
    fn drop(&mut self) {
        self.show("");
    }
}

/// The progress as a bar and in numbers.
pub(crate) fn bar(done: usize, total: usize) -> String {
    let filled = (done * BAR).checked_div(total).unwrap_or(BAR);
    format!("[{:-<BAR$}] {done}/{total} files", "#".repeat(filled))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_covers_the_previous_one_and_is_cleared_on_drop() {
        let mut terminal = Vec::new();
        let mut line = ProgressLine { terminal: &mut terminal, length: 0 };
        line.show(&"long".repeat(30));
        line.show("é");
        drop(line);
        let long = "long".repeat(30)[..WIDTH].to_owned();
        let short = format!("é{}", " ".repeat(WIDTH - 1));
        let written = [long, short, " ".to_owned()].map(|text| format!("\r{text}\r")).concat();
        assert_eq!(String::from_utf8(terminal).unwrap(), written);
    }

    #[test]
    fn a_bar_shows_the_share_that_is_done() {
        let shown = |filled, done, total| format!("[{:-<BAR$}] {done}/{total} files", "#".repeat(filled));
        for (done, total, filled) in [(0, 50, 0), (25, 50, BAR / 2), (50, 50, BAR), (0, 0, BAR)] {
            assert_eq!(bar(done, total), shown(filled, done, total));
        }
    }
}
