//! Writing to whoever reads the replies.

use std::io::{self, ErrorKind, Write};

use serde::Serialize;

use crate::failure::Failure;

/// Whether anybody still reads the output.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Reader {
    /// The line was written.
    Listening,
    /// The other end is closed. That is their right, and no failure.
    Gone,
}

/// Writes a line and flushes it.
pub(crate) fn write_line(output: &mut impl Write, mut line: Vec<u8>) -> Result<Reader, Failure> {
    line.push(b'\n');
    write_text(output, &line)
}

/// Writes a text as it is and flushes it.
pub(crate) fn write_text(output: &mut impl Write, text: &[u8]) -> Result<Reader, Failure> {
    match output.write_all(text).and_then(|()| output.flush()) {
        Ok(()) => Ok(Reader::Listening),
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(Reader::Gone),
        Err(error) => Err(Failure::Output(error)),
    }
}

/// The value, such as a `tool_result` block, on one line: JSON escapes every line feed within (`[W2]`).
pub(crate) fn to_json(value: &impl Serialize) -> Result<Vec<u8>, Failure> {
    serde_json::to_vec(value).map_err(|error| Failure::Output(io::Error::from(error)))
}

/// So many of them, in words.
pub(crate) fn count(number: u64, noun: &str) -> String {
    if number == 1 { format!("1 {noun}") } else { format!("{number} {noun}s") }
}

#[cfg(test)]
mod tests {
    use std::io::BufWriter;

    use super::*;

    #[test]
    fn a_line_is_not_kept_back() {
        let mut output = BufWriter::new(Vec::new());
        assert_eq!(write_line(&mut output, b"a".to_vec()).unwrap(), Reader::Listening);
        assert_eq!(output.get_ref(), b"a\n");
    }
}
