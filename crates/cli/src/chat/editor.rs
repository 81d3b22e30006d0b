//! [`Editor`]: a line editor on a terminal.

use std::io;
use std::sync::mpsc;
use std::thread;

use rustyline::error::ReadlineError;
use rustyline::history::MemHistory;
use rustyline::{
    Cmd, ConditionalEventHandler, Config, Event, EventContext, EventHandler, KeyEvent, Movement, RepeatCount,
};
use tokio::sync::mpsc::{Receiver, Sender, channel};

use crate::chat::input::{Input, InputEvent};

const PROMPT: &str = "> ";
const CONTINUATION: &str = "… ";

/// A line editor with a history, on a separate thread. It uses the terminal only while a line is awaited.
pub(crate) struct Editor {
    /// Each value requests a line.
    requests: mpsc::Sender<()>,
    lines: Receiver<io::Result<InputEvent>>,
    is_pending: bool,
    mode: TerminalMode,
}

impl Editor {
    /// Starts the thread, which ends with the process.
    ///
    /// Must be called before other threads are started: only later threads leave signals to the editor.
    pub(crate) fn start() -> Self {
        let (requests, receiver) = mpsc::channel();
        let (sender, lines) = channel(1);
        thread::spawn(move || edit(&receiver, &sender));
        leave_signals_to_the_editor();
        Self { requests, lines, is_pending: false, mode: TerminalMode::current() }
    }

    /// Waits for the next line. If the future is dropped, the next call continues with the same line.
    pub(crate) async fn next(&mut self) -> io::Result<InputEvent> {
        let ended = || io::Error::other("the line editor ended");
        if !self.is_pending {
            self.requests.send(()).map_err(|_| ended())?;
            self.is_pending = true;
        }
        let line = self.lines.recv().await.ok_or_else(ended)?;
        self.is_pending = false;
        line
    }
}

impl Drop for Editor {
    fn drop(&mut self) {
        // The thread ends with the process, in the middle of a line, and cannot restore the terminal itself.
        if self.is_pending {
            self.mode.restore();
        }
    }
}

type LineEditor = rustyline::Editor<(), MemHistory>;

fn edit(requests: &mpsc::Receiver<()>, lines: &Sender<io::Result<InputEvent>>) {
    let mut editor = editor();
    while requests.recv().is_ok() {
        let line = match &mut editor {
            Ok(editor) => message(editor),
            Err(error) => Err(io::Error::other(error.to_string())),
        };
        if lines.blocking_send(line).is_err() {
            break;
        }
    }
}

/// The history is never written to a file, because messages may contain secrets.
fn editor() -> rustyline::Result<LineEditor> {
    let mut editor = rustyline::Editor::with_history(Config::default(), MemHistory::new())?;
    editor.bind_sequence(KeyEvent::ctrl('C'), EventHandler::Conditional(Box::new(ClearOrEnd)));
    Ok(editor)
}

/// A backslash at the end of a line continues it on the next one.
fn message(editor: &mut LineEditor) -> io::Result<InputEvent> {
    let mut text = String::new();
    loop {
        let prompt = if text.is_empty() { PROMPT } else { CONTINUATION };
        match editor.readline(prompt) {
            Ok(line) => {
                if let Some(start) = line.strip_suffix('\\') {
                    text.push_str(start);
                    text.push('\n');
                } else {
                    text.push_str(&line);
                    editor.add_history_entry(&text).map_err(io::Error::other)?;
                    return Ok(InputEvent::Input(Input::of(&text)));
                }
            }
            Err(ReadlineError::Eof) => return Ok(InputEvent::End),
            Err(ReadlineError::Interrupted) if text.is_empty() => return Ok(InputEvent::Interrupted),
            Err(ReadlineError::Interrupted) => text.clear(),
            Err(ReadlineError::Io(error)) => return Err(error),
            Err(error) => return Err(io::Error::other(error)),
        }
    }
}

/// Ctrl-C: clears the line, or interrupts on an empty one.
struct ClearOrEnd;

impl ConditionalEventHandler for ClearOrEnd {
    fn handle(&self, _: &Event, _: RepeatCount, _: bool, context: &EventContext<'_>) -> Option<Cmd> {
        Some(if context.line().is_empty() { Cmd::Interrupt } else { Cmd::Kill(Movement::WholeBuffer) })
    }
}

/// Blocks signals on this thread. A signal wakes the editor only if its own thread receives it: SIGINT ends a line,
/// SIGWINCH redraws it. The handlers of the runtime work on any thread.
///
/// rustyline replaces the handler of SIGINT during a line and ignores the signal between a write and the next read.
/// Ctrl-C on the keyboard is a key there, and SIGTERM is left to the runtime, so neither is affected.
#[cfg(unix)]
fn leave_signals_to_the_editor() {
    use nix::sys::signal::{SigSet, Signal};

    let signals = SigSet::from_iter([Signal::SIGINT, Signal::SIGWINCH]);
    // If this fails, the keys still work.
    let _ = signals.thread_block();
}

#[cfg(not(unix))]
fn leave_signals_to_the_editor() {}

/// The mode of the terminal before the first line.
#[cfg(unix)]
struct TerminalMode(Option<nix::sys::termios::Termios>);

#[cfg(unix)]
impl TerminalMode {
    fn current() -> Self {
        Self(nix::sys::termios::tcgetattr(io::stdin()).ok())
    }

    fn restore(&self) {
        use crate::failure;

        if let Some(mode) = &self.0 {
            // The terminal may be closed.
            let _ = nix::sys::termios::tcsetattr(io::stdin(), nix::sys::termios::SetArg::TCSANOW, mode);
            failure::eprint_part("\u{1b}[?2004l"); // ends bracketed paste
        }
    }
}

/// On other systems no signal ends the program during a line.
#[cfg(not(unix))]
struct TerminalMode;

#[cfg(not(unix))]
impl TerminalMode {
    fn current() -> Self {
        Self
    }

    fn restore(&self) {}
}
