//! [`ProgressLine`]: how far a run is, on a terminal.

use std::io::{self, IsTerminal as _, Stderr, Write};

/// The most characters of the line. A line that the terminal breaks could not be rewritten in place.
const WIDTH: usize = 79;

/// How many characters a bar has.
const BAR: usize = 40;

/// One line of a terminal, rewritten in place. Dropped, it is cleared.
pub(crate) struct ProgressLine<W: Write> {
    terminal: W,
    /// How many characters it shows.
    shown: usize,
}

impl ProgressLine<Stderr> {
    /// A line of the standard error, where that is a terminal.
    pub(crate) fn of_standard_error() -> Option<Self> {
        let terminal = io::stderr();
        terminal.is_terminal().then(|| Self { terminal, shown: 0 })
    }
}

impl<W: Write> ProgressLine<W> {
    /// Shows the text in place of the one before.
    pub(crate) fn show(&mut self, text: &str) {
        // Blanks over what the text before may have left: not every terminal knows the sequence that clears. No more, as
        // a narrow terminal would break the line.
        let width = self.shown;
        self.shown = text.chars().count().min(WIDTH);
        // Where nothing can be shown, the work goes on.
        let _ = write!(self.terminal, "\r{text:<width$.WIDTH$}\r").and_then(|()| self.terminal.flush());
    }
}

impl<W: Write> Drop for ProgressLine<W> {
    fn drop(&mut self) {
        self.show("");
    }
}

/// How far it is, as a bar and in numbers.
pub(crate) fn bar(done: usize, total: usize) -> String {
    let filled = (done * BAR).checked_div(total).unwrap_or(BAR);
    format!("[{:-<BAR$}] {done}/{total} files", "#".repeat(filled))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_covers_the_one_before_and_is_cleared_in_the_end() {
        let mut terminal = Vec::new();
        let mut line = ProgressLine { terminal: &mut terminal, shown: 0 };
        line.show(&"long".repeat(30));
        line.show("é");
        drop(line);
        let long = "long".repeat(30)[..WIDTH].to_owned();
        let short = format!("é{}", " ".repeat(WIDTH - 1));
        let written = [long, short, " ".to_owned()].map(|text| format!("\r{text}\r")).concat();
        assert_eq!(String::from_utf8(terminal).unwrap(), written);
    }

    #[test]
    fn a_bar_fills_from_nothing_to_all() {
        let shown = |filled, done, total| format!("[{:-<BAR$}] {done}/{total} files", "#".repeat(filled));
        for (done, total, filled) in [(0, 50, 0), (25, 50, BAR / 2), (50, 50, BAR), (0, 0, BAR)] {
            assert_eq!(bar(done, total), shown(filled, done, total));
        }
    }
}
