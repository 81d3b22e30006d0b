//! [`Lines`] and [`Input`]: what the person types.

use std::io;
use std::thread;

use tokio::sync::mpsc::{Receiver, channel};

use crate::failure::Failure;
use crate::run::{Line, MAX_LINE_BYTES, read_line};

/// The lines of the standard input, read ahead by one.
#[derive(Debug)]
pub(crate) struct Lines(Receiver<io::Result<Line>>);

impl Lines {
    /// Begins to read. The thread that does it may wait for a line for ever, so it is left to end with the process.
    pub(crate) fn of_standard_input() -> Self {
        let (sender, lines) = channel(1);
        thread::spawn(move || {
            let mut input = io::stdin().lock();
            while let Some(line) = read_line(&mut input).transpose() {
                if sender.blocking_send(line).is_err() {
                    break;
                }
            }
        });
        Self(lines)
    }

    /// The next line; `None` at the end of the input.
    pub(crate) async fn next(&mut self) -> Result<Option<Input>, Failure> {
        self.0.recv().await.transpose().map_err(Failure::Input).map(|line| line.map(Input::from))
    }
}

/// What a line means.
#[derive(Debug, Eq, PartialEq)]
pub(crate) enum Input {
    Nothing,
    /// Something to say to Claude.
    Message(String),
    Memory,
    Clear,
    Usage,
    Quit,
    /// Something that begins with a `/` and is none of these.
    Unknown(String),
    /// What cannot be sent, and why.
    Unusable(String),
}

impl From<Line> for Input {
    fn from(line: Line) -> Self {
        let line = match line {
            Line::Whole(line) => line,
            Line::TooLong => return Self::Unusable(format!("a line may have up to {MAX_LINE_BYTES} bytes")),
        };
        let Ok(line) = String::from_utf8(line) else { return Self::Unusable("the line is not UTF-8 text".to_owned()) };
        match line.trim_end() {
            "/memory" => Self::Memory,
            "/clear" => Self::Clear,
            "/usage" => Self::Usage,
            "/quit" => Self::Quit,
            unknown if unknown.starts_with('/') => {
                Self::Unknown(unknown.split_whitespace().next().unwrap_or(unknown).to_owned())
            }
            message => match message.trim() {
                "" => Self::Nothing,
                message => Self::Message(message.to_owned()),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_a_message_unless_it_begins_with_a_slash() {
        for (line, input) in [
            ("Hello, /memory", Input::Message("Hello, /memory".to_owned())),
            (" /etc is a directory\r", Input::Message("/etc is a directory".to_owned())),
            ("", Input::Nothing),
            (" \t\r", Input::Nothing),
            ("/memory", Input::Memory),
            ("/clear ", Input::Clear),
            ("/usage\r", Input::Usage),
            ("/quit", Input::Quit),
            ("/quite so", Input::Unknown("/quite".to_owned())),
            ("/", Input::Unknown("/".to_owned())),
        ] {
            assert_eq!(Input::from(Line::Whole(line.into())), input, "{line:?}");
        }
        assert!(matches!(Input::from(Line::TooLong), Input::Unusable(_)));
        assert!(matches!(Input::from(Line::Whole(vec![0xff])), Input::Unusable(_)));
    }
}
