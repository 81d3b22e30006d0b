//! [`Lines`] and [`Input`]: the input of the user.

use std::io;

use tokio::sync::mpsc::Receiver;

use crate::chat::editor::Editor;
use crate::failure::{Context as _, Failure};
use crate::protocol::{Line, MAX_LINE_BYTES, lines_of_standard_input};

/// The lines of standard input.
pub(crate) enum Lines {
    /// Read from any source, one line ahead.
    FromStream(Receiver<io::Result<Line>>),
    FromEditor(Editor),
}

/// The result of waiting for input.
#[derive(Debug, Eq, PartialEq)]
pub(crate) enum InputEvent {
    Input(Input),
    /// The end of the stream, or Ctrl-D on an empty line of the editor.
    End,
    /// Ctrl-C on an empty line of the editor.
    Interrupted,
}

impl Lines {
    /// Reads lines of standard input.
    pub(crate) fn read() -> Self {
        Self::FromStream(lines_of_standard_input())
    }

    /// The next line.
    pub(crate) async fn next(&mut self) -> Result<InputEvent, Failure> {
        match self {
            Self::FromStream(lines) => {
                let line = lines.recv().await.transpose().context("cannot read standard input")?;
                Ok(line.map_or(InputEvent::End, |line| InputEvent::Input(line.into())))
            }
            Self::FromEditor(editor) => editor.next().await.context("cannot read standard input"),
        }
    }
}

/// The meaning of a line.
#[derive(Debug, Eq, PartialEq)]
pub(crate) enum Input {
    Nothing,
    Message(String),
    /// View a path of the memory.
    Memory(String),
    /// List the last changes of the memory.
    Log,
    /// Take back the last change of the memory.
    Undo,
    Clear,
    Usage,
    Help,
    Quit,
    Unknown(String),
    /// A line that cannot be sent, with the reason.
    Invalid(String),
}

impl Input {
    /// The meaning of one or more lines, without the last line feed.
    pub(crate) fn of(text: &str) -> Self {
        match text.trim_end() {
            "/memory" => Self::Memory("/memories".to_owned()),
            "/log" => Self::Log,
            "/undo" => Self::Undo,
            "/clear" => Self::Clear,
            "/usage" => Self::Usage,
            "/help" => Self::Help,
            "/quit" => Self::Quit,
            command if command.starts_with('/') => match command.split_once(char::is_whitespace) {
                Some(("/memory", path)) => Self::Memory(path.trim_start().to_owned()),
                _ => Self::Unknown(command.to_owned()),
            },
            message => match message.trim() {
                "" => Self::Nothing,
                message => Self::Message(message.to_owned()),
            },
        }
    }
}

impl From<Line> for Input {
    fn from(line: Line) -> Self {
        match line {
            Line::Whole(line) => match String::from_utf8(line) {
                Ok(text) => Self::of(&text),
                Err(_) => Self::Invalid("the line is not UTF-8 text".to_owned()),
            },
            Line::TooLong => Self::Invalid(format!("the line is longer than {MAX_LINE_BYTES} bytes")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_that_starts_with_a_slash_is_a_command() {
        for (line, input) in [
            ("Hello, /memory", Input::Message("Hello, /memory".to_owned())),
            (" /etc is a directory\r", Input::Message("/etc is a directory".to_owned())),
            ("several\n\nlines\n", Input::Message("several\n\nlines".to_owned())),
            ("", Input::Nothing),
            (" \t\r", Input::Nothing),
            ("/memory", Input::Memory("/memories".to_owned())),
            ("/memory  /memories/my notes.md\r", Input::Memory("/memories/my notes.md".to_owned())),
            ("/log", Input::Log),
            ("/undo ", Input::Undo),
            ("/clear ", Input::Clear),
            ("/usage\r", Input::Usage),
            ("/help", Input::Help),
            ("/quit", Input::Quit),
            ("/quite so", Input::Unknown("/quite so".to_owned())),
            ("/clear all", Input::Unknown("/clear all".to_owned())),
            ("/memoryx", Input::Unknown("/memoryx".to_owned())),
            ("/", Input::Unknown("/".to_owned())),
        ] {
            assert_eq!(Input::from(Line::Whole(line.into())), input, "{line:?}");
        }
        assert!(matches!(Input::from(Line::TooLong), Input::Invalid(_)));
        assert!(matches!(Input::from(Line::Whole(vec![0xff])), Input::Invalid(_)));
    }
}
