//! [`ProgressLine`]: how far a run is, on a terminal.

use std::io::Write;

use memory_tool_conformance::{Outcome, Progress};

/// The most characters of the line. A line that the terminal breaks could not be rewritten in place.
const WIDTH: usize = 79;

/// One line of a terminal, rewritten in place. Dropped, it is cleared.
pub(crate) struct ProgressLine<W: Write> {
    terminal: W,
    failed: usize,
}

impl<W: Write> ProgressLine<W> {
    pub(crate) fn new(terminal: W) -> Self {
        Self { terminal, failed: 0 }
    }

    /// Shows how far the run is, and which case was done last.
    pub(crate) fn show(&mut self, progress: &Progress<'_>) {
        let Progress { done, total, last, .. } = progress;
        self.failed += usize::from(matches!(last.outcome, Outcome::Failed { .. }));
        let digits = total.to_string().len();
        self.rewrite(&format!("[{done:>digits$}/{total}] {} failed  {}", self.failed, last.case.id));
    }

    fn rewrite(&mut self, text: &str) {
        // Blanks over what the line before may have left: not every terminal knows the sequence that clears.
        // Where nothing can be shown, the run goes on.
        let _ = write!(self.terminal, "\r{text:<WIDTH$.WIDTH$}\r").and_then(|()| self.terminal.flush());
    }
}

impl<W: Write> Drop for ProgressLine<W> {
    fn drop(&mut self) {
        self.rewrite("");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_as_wide_as_the_one_before_and_cleared_in_the_end() {
        let mut terminal = Vec::new();
        let mut line = ProgressLine::new(&mut terminal);
        line.rewrite(&"long".repeat(30));
        line.rewrite("é");
        drop(line);
        let long = "long".repeat(30)[..WIDTH].to_owned();
        let short = format!("é{}", " ".repeat(WIDTH - 1));
        let written = [long, short, " ".repeat(WIDTH)].map(|text| format!("\r{text}\r")).concat();
        assert_eq!(String::from_utf8(terminal).unwrap(), written);
    }
}
