//! [`ProgressLine`]: progress on a terminal.

use std::io::{self, IsTerminal as _, Stderr, Write};
use std::time::{Duration, Instant};

use crate::terminal::output::count;

/// The time after which the rate is known well enough.
const WARM_UP: Duration = Duration::from_secs(1);

/// The maximum length of the line. A line that the terminal wraps cannot be rewritten in place.
const WIDTH: usize = 79;

const BAR: usize = 25;

/// A line of a terminal that is rewritten in place, and cleared on drop.
pub struct ProgressLine<W: Write> {
    /// `None` shows nothing.
    terminal: Option<W>,
    length: usize,
    started: Instant,
}

impl ProgressLine<Stderr> {
    /// A line of standard error, if that is a terminal.
    pub fn of_standard_error() -> Self {
        let terminal = Some(io::stderr()).filter(Stderr::is_terminal);
        Self { terminal, length: 0, started: Instant::now() }
    }
}

impl<W: Write> ProgressLine<W> {
    /// Shows the number of processed files, with the rate and the time left. The total is unknown for an archive.
    pub(crate) fn show_files(&mut self, done: u64, total: Option<u64>) {
        let text = progress(done, total, self.started.elapsed());
        self.show(&text);
    }

    /// Replaces the text.
    pub fn show(&mut self, text: &str) {
        let Some(terminal) = &mut self.terminal else { return };
        // Spaces cover the previous text, because not every terminal supports the sequence that clears a line. Further
        // spaces could make a narrow terminal wrap the line.
        let width = self.length;
        self.length = text.chars().count().min(WIDTH);
        // An error of the terminal does not stop the work.
        let _ = write!(terminal, "\r{text:<width$.WIDTH$}\r").and_then(|()| terminal.flush());
    }
}

impl<W: Write> Drop for ProgressLine<W> {
    fn drop(&mut self) {
        self.show("");
    }
}

/// The progress as a bar and in numbers, with the rate and the time left.
fn progress(done: u64, total: Option<u64>, elapsed: Duration) -> String {
    let rate = (elapsed >= WARM_UP && done > 0).then(|| done as f64 / elapsed.as_secs_f64());
    let mut text = match total {
        Some(total) => {
            let filled = done.saturating_mul(BAR as u64).checked_div(total).unwrap_or(BAR as u64) as usize;
            format!("[{:-<BAR$}] {done}/{total} files", "#".repeat(filled.min(BAR)))
        }
        None => count(done, "file"),
    };
    if let Some(rate) = rate {
        text += &format!(", {rate:.0}/s");
    }
    if let (Some(rate), Some(total)) = (rate, total) {
        let left = (total.saturating_sub(done) as f64 / rate).ceil() as u64;
        text += &format!(", {}:{:02} left", left / 60, left % 60);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_covers_the_previous_one_and_is_cleared_on_drop() {
        let mut terminal = Vec::new();
        let mut line = ProgressLine { terminal: Some(&mut terminal), length: 0, started: Instant::now() };
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
            assert_eq!(progress(done, Some(total), Duration::ZERO), shown(filled, done, total));
        }
    }

    #[test]
    fn the_rate_and_the_time_left_follow_from_the_files_so_far() {
        let shown = progress(300, Some(20_000), Duration::from_secs(3));
        assert!(shown.ends_with("] 300/20000 files, 100/s, 3:17 left"), "{shown}");
        assert_eq!(progress(7, None, Duration::from_secs(7)), "7 files, 1/s");
        assert!(progress(0, Some(5), Duration::from_secs(9)).ends_with("] 0/5 files"));
    }
}
