//! Writing replies to standard output.

use std::io::{self, ErrorKind, Write};

use serde::Serialize;

use crate::failure::Failure;

/// Whether the output is open.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum ReaderState {
    /// The text was written.
    Present,
    /// The other end is closed, which is not an error.
    Gone,
}

/// Writes a line and flushes it.
pub(crate) fn write_line(output: &mut impl Write, mut line: Vec<u8>) -> Result<ReaderState, Failure> {
    line.push(b'\n');
    write_text(output, &line)
}

/// Writes and flushes the bytes.
pub(crate) fn write_text(output: &mut impl Write, text: &[u8]) -> Result<ReaderState, Failure> {
    match output.write_all(text).and_then(|()| output.flush()) {
        Ok(()) => Ok(ReaderState::Present),
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(ReaderState::Gone),
        Err(error) => Err(Failure::Output(error)),
    }
}

/// The value as JSON on one line (`[W2]`).
pub(crate) fn to_json(value: &impl Serialize) -> Result<Vec<u8>, Failure> {
    serde_json::to_vec(value).map_err(|error| Failure::Output(io::Error::from(error)))
}

/// The number with the noun, in the plural unless the number is 1.
pub(crate) fn count(number: u64, noun: &str) -> String {
    if number == 1 { format!("1 {noun}") } else { format!("{number} {noun}s") }
}

#[cfg(test)]
mod tests {
    use std::io::BufWriter;

    use super::*;

    #[test]
    fn a_line_is_flushed() {
        let mut output = BufWriter::new(Vec::new());
        assert_eq!(write_line(&mut output, b"a".to_vec()).unwrap(), ReaderState::Present);
        assert_eq!(output.get_ref(), b"a\n");
    }
}
