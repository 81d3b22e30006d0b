//! [`Screen`]: the output of the conversation.

use std::env;
use std::io::{self, IsTerminal as _};
use std::pin::pin;
use std::time::Duration;

use tokio::io::{AsyncWrite, AsyncWriteExt as _, Stdout};
use tokio::time::{Instant, interval_at, timeout};

use crate::escapes::{TerminalText, on_one_line};
use crate::failure::{self, Failure};
use crate::progress_line::ProgressLine;

/// The maximum time for which an interruption waits for a blocked reader.
const MAX_STALL: Duration = Duration::from_millis(500);
/// The time before the first progress line, and between two of them.
const PROGRESS_INTERVAL: Duration = Duration::from_secs(1);

const DIM: &str = "\u{1b}[2m";
const NOT_DIM: &str = "\u{1b}[22m";

/// Standard output, for Claude, and standard error, for messages of the program.
#[derive(Debug)]
pub(crate) struct Screen<W = Stdout> {
    output: W,
    /// Whether the output is a terminal.
    is_live: bool,
    /// Whether standard error is a terminal.
    is_watched: bool,
    /// Whether that terminal can rewrite a line and dim text.
    is_capable: bool,
    input_mode: InputMode,
    speaker: Speaker,
    is_mid_line: bool,
    /// The escapes of the text so far, since a part may start within an emoji.
    escapes: TerminalText,
}

/// The source of messages.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum InputMode {
    /// A file or a program.
    Piped,
    /// A terminal, line by line.
    Plain,
    /// A terminal with a line editor.
    Editor,
}

/// The source of the last text.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Speaker {
    Program,
    Claude,
    Thinking,
}

impl Screen {
    /// The streams of this process.
    pub(crate) fn of_this_process() -> Self {
        let is_live = io::stdout().is_terminal();
        let is_watched = io::stderr().is_terminal();
        let is_capable = is_watched && env::var_os("TERM").is_none_or(|terminal| terminal != "dumb");
        let input_mode = match io::stdin().is_terminal() && is_watched {
            true if is_live && is_capable => InputMode::Editor,
            true => InputMode::Plain,
            false => InputMode::Piped,
        };
        let output = tokio::io::stdout();
        Self {
            output,
            is_live,
            is_watched,
            is_capable,
            input_mode,
            speaker: Speaker::Program,
            is_mid_line: false,
            escapes: TerminalText::default(),
        }
    }
}

impl<W: AsyncWrite + Unpin> Screen<W> {
    /// The source of messages.
    pub(crate) fn input_mode(&self) -> InputMode {
        self.input_mode
    }

    /// Whether messages are typed at a prompt.
    pub(crate) fn has_prompt(&self) -> bool {
        self.input_mode != InputMode::Piped
    }

    /// Whether the output is a terminal, which shows responses as they arrive.
    pub(crate) fn is_live(&self) -> bool {
        self.is_live
    }

    /// Whether standard error is a terminal.
    pub(crate) fn is_watched(&self) -> bool {
        self.is_watched
    }

    /// Prints the prompt, unless an editor does.
    pub(crate) async fn prompt(&mut self) -> Result<(), Failure> {
        self.switch_to(Speaker::Program).await?;
        if self.input_mode == InputMode::Plain {
            failure::eprint_part("> ");
        }
        Ok(())
    }

    /// Ends the line of the prompt.
    pub(crate) fn leave_prompt(&self) {
        if self.has_prompt() {
            failure::eprint_line("");
        }
    }

    /// Waits, with a progress line on the terminal after a second.
    pub(crate) async fn wait_for<T>(&mut self, work: impl Future<Output = T>) -> T {
        let mut work = pin!(work);
        if !self.is_capable || self.is_mid_line {
            return work.await;
        }
        let start = Instant::now();
        let mut line = None;
        let mut ticks = interval_at(start + PROGRESS_INTERVAL, PROGRESS_INTERVAL);
        loop {
            tokio::select! {
                biased;
                done = &mut work => return done,
                _ = ticks.tick() => {
                    if line.is_none() {
                        line = ProgressLine::of_standard_error();
                    }
                    if let Some(line) = &mut line {
                        line.show(&format!("thinking… {} s", start.elapsed().as_secs()));
                    }
                }
            }
        }
    }

    /// Prints a part of a response and flushes it. Control characters and invisible ones are escaped.
    pub(crate) async fn text(&mut self, part: &str) -> Result<(), Failure> {
        if part.is_empty() {
            return Ok(());
        }
        self.switch_to(Speaker::Claude).await?;
        self.is_mid_line = !part.ends_with('\n');
        let text = self.escapes.escape(part);
        self.write(&text).await
    }

    /// Prints a part of Claude's thinking to standard error.
    pub(crate) async fn thinking(&mut self, part: &str) -> Result<(), Failure> {
        if part.is_empty() {
            return Ok(());
        }
        let is_new = self.switch_to(Speaker::Thinking).await?;
        let mut text = self.escapes.escape(part);
        if is_new {
            text.insert_str(0, "[thinking] ");
        }
        self.is_mid_line = !part.ends_with('\n');
        failure::eprint_part(&if self.is_capable { format!("{DIM}{text}{NOT_DIM}") } else { text });
        Ok(())
    }

    /// Prints separate lines.
    pub(crate) async fn lines(&mut self, text: &str) -> Result<(), Failure> {
        self.end_line().await?;
        self.text(text).await?;
        self.end_line().await
    }

    /// Prints a message of the program as a line to standard error.
    pub(crate) async fn eprint_line(&mut self, line: &str) -> Result<(), Failure> {
        self.switch_to(Speaker::Program).await?;
        failure::eprint_line(&on_one_line(line));
        Ok(())
    }

    /// The same for an interruption, which a blocked reader must not delay: then an incomplete line is not ended.
    pub(crate) async fn eprint_interruption(&mut self, line: &str) -> Result<(), Failure> {
        timeout(MAX_STALL, self.switch_to(Speaker::Program)).await.unwrap_or(Ok(true))?;
        failure::eprint_line(&on_one_line(line));
        Ok(())
    }

    /// Sets the speaker, after ending the line of another one. Returns whether there was another one.
    async fn switch_to(&mut self, speaker: Speaker) -> Result<bool, Failure> {
        if self.speaker == speaker {
            return Ok(false);
        }
        self.end_line().await?;
        self.speaker = speaker;
        self.escapes = TerminalText::default();
        Ok(true)
    }

    /// Ends an incomplete line.
    pub(crate) async fn end_line(&mut self) -> Result<(), Failure> {
        if !std::mem::take(&mut self.is_mid_line) {
            return Ok(());
        }
        match self.speaker {
            Speaker::Thinking => failure::eprint_line(""),
            Speaker::Claude | Speaker::Program => self.write("\n").await?,
        }
        Ok(())
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
    async fn lines_are_ended_and_control_characters_are_escaped() {
        let mut screen = Screen {
            output: Vec::new(),
            is_live: false,
            is_watched: false,
            is_capable: false,
            input_mode: InputMode::Piped,
            speaker: Speaker::Program,
            is_mid_line: false,
            escapes: TerminalText::default(),
        };
        for part in ["a\tb", "", "\u{1b}[2J\r"] {
            screen.text(part).await.unwrap();
        }
        screen.lines("c\n").await.unwrap();
        screen.lines("d").await.unwrap();
        screen.end_line().await.unwrap();
        assert_eq!(String::from_utf8(screen.output).unwrap(), "a\tb\\u{1b}[2J\\r\nc\nd\n");
    }
}
