//! Standard input, and questions to a person.

use std::io::{self, IsTerminal as _, Read as _};
use std::thread;

use futures::channel::oneshot;

use crate::failure::{Context as _, Failure, eprint_line, eprint_part};

/// Tells a person what the program waits for.
pub(crate) fn explain_wait(what: &str) {
    if io::stdin().is_terminal() {
        let end = if cfg!(windows) { "Ctrl-Z and Enter" } else { "Ctrl-D" };
        eprint_line(&format!("memory-tool: reading {what} from standard input; {end} ends it"));
    }
}

/// Reads the whole input, which must be UTF-8.
pub(crate) fn read_standard_input() -> io::Result<String> {
    let mut content = Vec::new();
    io::stdin().lock().read_to_end(&mut content)?;
    utf8(content)
}

/// The text, or an error with the position of the first byte that is not UTF-8.
pub(crate) fn utf8(content: Vec<u8>) -> io::Result<String> {
    String::from_utf8(content).map_err(|error| {
        let offset = error.utf8_error().valid_up_to();
        io::Error::new(io::ErrorKind::InvalidData, format!("invalid UTF-8 at byte {offset}"))
    })
}

/// Reads on another thread, so that a signal can end the program.
pub(crate) async fn from_input<T: Send + 'static>(
    read: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> Result<T, Failure> {
    let (sender, receiver) = oneshot::channel();
    thread::spawn(move || sender.send(read()));
    let read = receiver.await.unwrap_or_else(|_| Err(io::ErrorKind::UnexpectedEof.into()));
    read.context("cannot read standard input")
}

/// Whether a person can answer.
pub(crate) fn can_ask() -> bool {
    io::stdin().is_terminal() && io::stderr().is_terminal()
}

/// Asks a question, and returns the line in lowercase. It is empty at the end of the input.
pub(crate) async fn question(text: &str) -> Result<String, Failure> {
    eprint_part(text);
    let line = from_input(|| {
        let mut line = String::new();
        io::stdin().read_line(&mut line).map(|_| line)
    });
    let line = line.await?;
    if !line.ends_with('\n') {
        eprint_line("");
    }
    Ok(line.trim().to_lowercase())
}

/// Whether a person confirms a question. Other words than yes refuse it.
pub(crate) async fn confirms(text: &str) -> Result<bool, Failure> {
    Ok(matches!(question(&format!("{text}? [y/N] ")).await?.as_str(), "y" | "yes"))
}
