//! [`Screen`]: what the person reads.

use std::env;
use std::io::{self, IsTerminal as _};
use std::pin::pin;
use std::time::Duration;

use tokio::io::{AsyncWrite, AsyncWriteExt as _, Stdout};
use tokio::time::{Instant, interval_at, timeout};

use crate::failure::{self, Failure};
use crate::progress_line::ProgressLine;

/// How long an interruption waits for a reader who takes nothing.
const LONGEST_STALL: Duration = Duration::from_millis(500);
/// How long Claude may be silent before there is a sign of life, and between two of them.
const SIGN_OF_LIFE: Duration = Duration::from_secs(1);

const DIM: &str = "\u{1b}[2m";
const NOT_DIM: &str = "\u{1b}[22m";

/// The standard output, where Claude's words go, and the standard error, where those of the program do.
#[derive(Debug)]
pub(crate) struct Screen<W = Stdout> {
    output: W,
    /// Whether the output is a terminal.
    is_live: bool,
    /// Whether the standard error is a terminal.
    is_watched: bool,
    /// Whether that terminal can rewrite a line and dim its text.
    is_capable: bool,
    typing: Typing,
    speaker: Speaker,
    is_line_begun: bool,
}

/// How messages are typed.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Typing {
    /// They come from a file or a program.
    Nobody,
    /// By a person, line by line.
    Plain,
    /// By a person, in an editor that has the whole terminal.
    Editor,
}

/// Whose words were written last.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Speaker {
    Program,
    Claude,
    Thoughts,
}

impl Screen {
    /// The streams of this process. Where a person types, there is a prompt.
    pub(crate) fn of_this_process() -> Self {
        let is_live = io::stdout().is_terminal();
        let is_watched = io::stderr().is_terminal();
        let is_capable = is_watched && env::var_os("TERM").is_none_or(|terminal| terminal != "dumb");
        let typing = match io::stdin().is_terminal() && is_watched {
            true if is_live && is_capable => Typing::Editor,
            true => Typing::Plain,
            false => Typing::Nobody,
        };
        let output = tokio::io::stdout();
        Self { output, is_live, is_watched, is_capable, typing, speaker: Speaker::Program, is_line_begun: false }
    }
}

impl<W: AsyncWrite + Unpin> Screen<W> {
    /// How messages are typed.
    pub(crate) fn typing(&self) -> Typing {
        self.typing
    }

    /// Whether a person types.
    pub(crate) fn has_prompt(&self) -> bool {
        self.typing != Typing::Nobody
    }

    /// Whether the output is a terminal, which may show a text before it is whole.
    pub(crate) fn is_live(&self) -> bool {
        self.is_live
    }

    /// Whether the standard error is a terminal, and no log.
    pub(crate) fn is_watched(&self) -> bool {
        self.is_watched
    }

    /// Shows that it is the user's turn. An editor does so itself.
    pub(crate) async fn prompt(&mut self) -> Result<(), Failure> {
        self.let_speak(Speaker::Program).await?;
        if self.typing == Typing::Plain {
            failure::eprint_part("> ");
        }
        Ok(())
    }

    /// Ends the line of the prompt, which nobody else did.
    pub(crate) fn leave_prompt(&self) {
        if self.has_prompt() {
            failure::eprint_line("");
        }
    }

    /// Waits, with a sign of life on the terminal once it takes a second or more.
    pub(crate) async fn wait_for<T>(&mut self, work: impl Future<Output = T>) -> T {
        let mut work = pin!(work);
        if !self.is_capable || self.is_line_begun {
            return work.await;
        }
        let start = Instant::now();
        let mut line = None;
        let mut ticks = interval_at(start + SIGN_OF_LIFE, SIGN_OF_LIFE);
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

    /// Shows a part of a text, at once. It must not be able to command the terminal.
    pub(crate) async fn text(&mut self, part: &str) -> Result<(), Failure> {
        if part.is_empty() {
            return Ok(());
        }
        self.let_speak(Speaker::Claude).await?;
        self.is_line_begun = !part.ends_with('\n');
        self.write(&failure::without_commands(part)).await
    }

    /// Shows a part of what Claude thinks on the standard error.
    pub(crate) async fn thoughts(&mut self, part: &str) -> Result<(), Failure> {
        if part.is_empty() {
            return Ok(());
        }
        let mut text = failure::without_commands(part);
        if self.let_speak(Speaker::Thoughts).await? {
            text.insert_str(0, "[thinking] ");
        }
        self.is_line_begun = !part.ends_with('\n');
        failure::eprint_part(&if self.is_capable { format!("{DIM}{text}{NOT_DIM}") } else { text });
        Ok(())
    }

    /// Shows a text on lines of its own.
    pub(crate) async fn lines(&mut self, text: &str) -> Result<(), Failure> {
        self.end_line().await?;
        self.text(text).await?;
        self.end_line().await
    }

    /// Reports something of the program's own on a line of the standard error.
    pub(crate) async fn eprint_line(&mut self, line: &str) -> Result<(), Failure> {
        self.let_speak(Speaker::Program).await?;
        failure::eprint_line(&failure::on_one_line(line));
        Ok(())
    }

    /// The same on an interruption, which nobody may hold up: a line that its reader does not take stays as it is.
    pub(crate) async fn eprint_interruption(&mut self, line: &str) -> Result<(), Failure> {
        timeout(LONGEST_STALL, self.let_speak(Speaker::Program)).await.unwrap_or(Ok(true))?;
        failure::eprint_line(&failure::on_one_line(line));
        Ok(())
    }

    /// Ends the line of another speaker, and returns whether there was another.
    async fn let_speak(&mut self, speaker: Speaker) -> Result<bool, Failure> {
        if self.speaker == speaker {
            return Ok(false);
        }
        self.end_line().await?;
        self.speaker = speaker;
        Ok(true)
    }

    /// Ends the line that is begun.
    pub(crate) async fn end_line(&mut self) -> Result<(), Failure> {
        if !std::mem::take(&mut self.is_line_begun) {
            return Ok(());
        }
        match self.speaker {
            Speaker::Thoughts => failure::eprint_line(""),
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
    async fn lines_are_ended_and_the_terminal_is_not_commanded() {
        let mut screen = Screen {
            output: Vec::new(),
            is_live: false,
            is_watched: false,
            is_capable: false,
            typing: Typing::Nobody,
            speaker: Speaker::Program,
            is_line_begun: false,
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
