//! [`Pager`]: long output on a terminal.

use std::env;
use std::io::{self, IsTerminal as _, Write as _};
use std::process::{Child, Command, Stdio};

use crate::failure::Failure;
use crate::terminal::output::write_text;

/// Standard output, through the program in `PAGER` or `less` if it is a terminal. An empty `PAGER` turns this off.
pub(crate) struct Pager {
    process: Option<Child>,
    pub(crate) colors: Colors,
}

impl Pager {
    pub(crate) fn start() -> Self {
        let process = if io::stdout().is_terminal() { start_process() } else { None };
        Self { process, colors: Colors::of_output() }
    }

    pub(crate) fn write(mut self, text: &str) -> Result<(), Failure> {
        let Some(process) = &mut self.process else {
            return write_text(&mut io::stdout().lock(), text.as_bytes()).map(drop);
        };
        // A person may end the pager before the end of the text.
        let _ = process.stdin.take().map(|mut input| input.write_all(text.as_bytes()));
        process.wait().map(drop).map_err(Failure::Output)
    }
}

/// Colors on a terminal.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Colors {
    are_shown: bool,
}

impl Colors {
    /// The colors of standard output, unless `NO_COLOR` is set.
    pub(crate) fn of_output() -> Self {
        let has_no_color = env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        Self { are_shown: io::stdout().is_terminal() && !has_no_color }
    }

    /// A part of a line in a color, by its number in ANSI escape sequences.
    pub(crate) fn paint(self, color: &str, text: &str) -> String {
        if self.are_shown { format!("\u{1b}[{color}m{text}\u{1b}[m") } else { text.to_owned() }
    }
}

/// Starts the pager. Without one, output goes to the terminal.
fn start_process() -> Option<Child> {
    let words = env::var("PAGER").unwrap_or_else(|_| "less".to_owned());
    let mut words = words.split_whitespace();
    let mut command = Command::new(words.next()?);
    // As for Git: leaves after less than a screen, shows colors, and leaves the text on the screen.
    if env::var_os("LESS").is_none() {
        command.env("LESS", "FRX");
    }
    command.args(words).stdin(Stdio::piped()).spawn().ok()
}
