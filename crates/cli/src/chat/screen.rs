//! [`Screen`]: what the person reads.

use std::io::{self, IsTerminal as _};
use std::time::Duration;

use tokio::io::{AsyncWrite, AsyncWriteExt as _, Stdout};
use tokio::time::timeout;

use crate::failure::{self, Failure};

/// How long an interruption waits for a reader who takes nothing.
const LONGEST_STALL: Duration = Duration::from_millis(500);

/// The standard output, where Claude's words go, and the standard error, where those of the program do.
#[derive(Debug)]
pub(crate) struct Screen<W = Stdout> {
    output: W,
    is_line_begun: bool,
    has_prompt: bool,
}

impl Screen {
    /// The streams of this process. Where a person types, there is a prompt.
    pub(crate) fn of_this_process() -> Self {
        let has_prompt = io::stdin().is_terminal() && io::stderr().is_terminal();
        Self { output: tokio::io::stdout(), is_line_begun: false, has_prompt }
    }
}

impl<W: AsyncWrite + Unpin> Screen<W> {
    /// Whether a person types.
    pub(crate) fn has_prompt(&self) -> bool {
        self.has_prompt
    }

    /// Shows that it is the user's turn.
    pub(crate) async fn prompt(&mut self) -> Result<(), Failure> {
        self.end_line().await?;
        if self.has_prompt {
            failure::tell_part("> ");
        }
        Ok(())
    }

    /// Ends the line of the prompt, which nobody else did.
    pub(crate) fn leave_prompt(&self) {
        if self.has_prompt {
            failure::tell("");
        }
    }

    /// Shows a part of a text, at once. It must not be able to command the terminal.
    pub(crate) async fn text(&mut self, part: &str) -> Result<(), Failure> {
        if part.is_empty() {
            return Ok(());
        }
        self.is_line_begun = !part.ends_with('\n');
        self.write(&failure::without_commands(part)).await
    }

    /// Shows a text on lines of its own.
    pub(crate) async fn lines(&mut self, text: &str) -> Result<(), Failure> {
        self.end_line().await?;
        self.text(text).await?;
        self.end_line().await
    }

    /// Tells something of the program's own on a line of the standard error.
    pub(crate) async fn tell(&mut self, line: &str) -> Result<(), Failure> {
        self.end_line().await?;
        failure::tell(&failure::on_one_line(line));
        Ok(())
    }

    /// The same on an interruption, which nobody may hold up: a line that its reader does not take stays as it is.
    pub(crate) async fn tell_interruption(&mut self, line: &str) -> Result<(), Failure> {
        timeout(LONGEST_STALL, self.end_line()).await.unwrap_or(Ok(()))?;
        failure::tell(&failure::on_one_line(line));
        Ok(())
    }

    /// Ends the line that is begun.
    pub(crate) async fn end_line(&mut self) -> Result<(), Failure> {
        if !self.is_line_begun {
            return Ok(());
        }
        self.is_line_begun = false;
        self.write("\n").await
    }

    async fn write(&mut self, text: &str) -> Result<(), Failure> {
        let written = async {
            self.output.write_all(text.as_bytes()).await?;
            self.output.flush().await
        };
        written.await.map_err(Failure::Output)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn lines_are_ended_and_the_terminal_is_not_commanded() {
        let mut screen = Screen { output: Vec::new(), is_line_begun: false, has_prompt: false };
        for part in ["a\tb", "", "\u{1b}[2J\r"] {
            screen.text(part).await.unwrap();
        }
        screen.lines("c\n").await.unwrap();
        screen.lines("d").await.unwrap();
        screen.end_line().await.unwrap();
        assert_eq!(String::from_utf8(screen.output).unwrap(), "a\tb\\u{1b}[2J\\r\nc\nd\n");
    }
}
