//! [`Editor`]: lines that a person edits on a terminal.

use std::io;
use std::sync::mpsc;
use std::thread;

use rustyline::error::ReadlineError;
use rustyline::history::MemHistory;
use rustyline::{
    Cmd, ConditionalEventHandler, Config, Event, EventContext, EventHandler, KeyEvent, Movement, RepeatCount,
};
use tokio::sync::mpsc::{Receiver, Sender, channel};

const PROMPT: &str = "> ";
const CONTINUATION: &str = "… ";

/// A line editor with its history, on a thread of its own. It has the terminal only while somebody waits for a line.
pub(crate) struct Editor {
    /// Asks for one line each.
    requests: mpsc::Sender<()>,
    lines: Receiver<io::Result<Edited>>,
    /// Whether a line is asked for that did not come yet.
    is_asked: bool,
    mode: TerminalMode,
}

/// What a person did at a prompt.
#[derive(Debug, Eq, PartialEq)]
pub(crate) enum Edited {
    /// One or more lines, without the last line feed.
    Text(String),
    /// Ctrl-D on an empty line.
    End,
    /// Ctrl-C on an empty line.
    Interrupted,
}

impl Editor {
    /// Starts the thread. It may wait for a line for ever, so it is left to end with the process.
    ///
    /// Threads that this one starts later do not take the signals that interrupt the editor: call it first.
    pub(crate) fn start() -> Self {
        let (requests, asked) = mpsc::channel();
        let (sender, lines) = channel(1);
        thread::spawn(move || edit(&asked, &sender));
        leave_signals_to_the_editor();
        Self { requests, lines, is_asked: false, mode: TerminalMode::present() }
    }

    /// The next line. Dropped, it goes on with the next call.
    pub(crate) async fn next(&mut self) -> io::Result<Edited> {
        let ended = || io::Error::other("the line editor ended");
        if !self.is_asked {
            self.requests.send(()).map_err(|_| ended())?;
            self.is_asked = true;
        }
        let line = self.lines.recv().await.ok_or_else(ended)?;
        self.is_asked = false;
        line
    }
}

impl Drop for Editor {
    fn drop(&mut self) {
        // The thread ends with the process, in the middle of a line: nobody else gives the terminal back.
        if self.is_asked {
            self.mode.restore();
        }
    }
}

type LineEditor = rustyline::Editor<(), MemHistory>;

fn edit(asked: &mpsc::Receiver<()>, lines: &Sender<io::Result<Edited>>) {
    let mut editor = editor();
    while asked.recv().is_ok() {
        let line = match &mut editor {
            Ok(editor) => message(editor),
            Err(error) => Err(io::Error::other(error.to_string())),
        };
        if lines.blocking_send(line).is_err() {
            break;
        }
    }
}

/// The editor. Its history is never written to a file: messages may hold secrets.
fn editor() -> rustyline::Result<LineEditor> {
    let mut editor = rustyline::Editor::with_history(Config::default(), MemHistory::new())?;
    editor.bind_sequence(KeyEvent::ctrl('C'), EventHandler::Conditional(Box::new(ClearOrEnd)));
    Ok(editor)
}

/// The next message: a backslash at the end of a line continues it on another.
fn message(editor: &mut LineEditor) -> io::Result<Edited> {
    let mut text = String::new();
    loop {
        let prompt = if text.is_empty() { PROMPT } else { CONTINUATION };
        match edited(editor.readline(prompt))? {
            Edited::Text(line) => {
                if let Some(begun) = line.strip_suffix('\\') {
                    text.push_str(begun);
                    text.push('\n');
                } else {
                    text.push_str(&line);
                    editor.add_history_entry(&text).map_err(io::Error::other)?;
                    return Ok(Edited::Text(text));
                }
            }
            Edited::Interrupted if !text.is_empty() => text.clear(),
            ended => return Ok(ended),
        }
    }
}

fn edited(line: rustyline::Result<String>) -> io::Result<Edited> {
    match line {
        Ok(text) => Ok(Edited::Text(text)),
        Err(ReadlineError::Eof) => Ok(Edited::End),
        Err(ReadlineError::Interrupted) => Ok(Edited::Interrupted),
        Err(ReadlineError::Io(error)) => Err(error),
        Err(error) => Err(io::Error::other(error)),
    }
}

/// Ctrl-C: clears the line, or ends where there is none.
struct ClearOrEnd;

impl ConditionalEventHandler for ClearOrEnd {
    fn handle(&self, _: &Event, _: RepeatCount, _: bool, context: &EventContext<'_>) -> Option<Cmd> {
        Some(if context.line().is_empty() { Cmd::Interrupt } else { Cmd::Kill(Movement::WholeBuffer) })
    }
}

/// A signal wakes the editor only if it comes to its thread: SIGINT ends a line, SIGWINCH draws it again. At all other
/// times that thread serves the runtime, whose handlers take signals on any.
#[cfg(unix)]
fn leave_signals_to_the_editor() {
    use nix::sys::signal::{SigSet, Signal};

    let signals = SigSet::from_iter([Signal::SIGINT, Signal::SIGWINCH]);
    // Where this fails, the keys still work.
    let _ = signals.thread_block();
}

#[cfg(not(unix))]
fn leave_signals_to_the_editor() {}

/// How the terminal was before any line was edited.
#[cfg(unix)]
struct TerminalMode(Option<nix::sys::termios::Termios>);

#[cfg(unix)]
impl TerminalMode {
    fn present() -> Self {
        Self(nix::sys::termios::tcgetattr(io::stdin()).ok())
    }

    fn restore(&self) {
        use crate::failure;

        if let Some(mode) = &self.0 {
            // Nothing can be done about a terminal that is gone.
            let _ = nix::sys::termios::tcsetattr(io::stdin(), nix::sys::termios::SetArg::TCSANOW, mode);
            failure::eprint_part("\u{1b}[?2004l"); // ends bracketed paste
        }
    }
}

/// Elsewhere no signal ends the program while a line is edited.
#[cfg(not(unix))]
struct TerminalMode;

#[cfg(not(unix))]
impl TerminalMode {
    fn present() -> Self {
        Self
    }

    fn restore(&self) {}
}
