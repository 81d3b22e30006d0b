//! Writing replies to standard output.

use std::io::{self, ErrorKind, IsTerminal as _, Write};

use memory_tool::is_unprintable;
use serde::Serialize;
use serde_json::Serializer;
use serde_json::ser::Formatter;

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

/// Writes the report of a command to standard output, as JSON or as lines of text.
pub(crate) fn write_report(
    as_json: bool,
    report: &impl Serialize,
    text: impl FnOnce() -> String,
) -> Result<(), Failure> {
    let line = if as_json { to_json_for_standard_output(report)? } else { text().into_bytes() };
    write_line(&mut io::stdout().lock(), line).map(|_| ())
}

/// The value as JSON on one line (`[W2]`). Some readers of lines also split at U+2028 and U+2029, so they are escaped.
pub(crate) fn to_json(value: &impl Serialize) -> Result<Vec<u8>, Failure> {
    to_json_without(|character| matches!(character, '\u{2028}' | '\u{2029}'), value)
}

/// The same for standard output. On a terminal, all invisible characters are escaped.
pub(crate) fn to_json_for_standard_output(value: &impl Serialize) -> Result<Vec<u8>, Failure> {
    if io::stdout().is_terminal() { to_json_without(is_unprintable, value) } else { to_json(value) }
}

/// The value as JSON, with escapes for these characters.
fn to_json_without(is_escaped: fn(char) -> bool, value: &impl Serialize) -> Result<Vec<u8>, Failure> {
    let mut json = Vec::with_capacity(128);
    let written = value.serialize(&mut Serializer::with_formatter(&mut json, Escaping(is_escaped)));
    written.map(|()| json).map_err(|error| Failure::Output(io::Error::from(error)))
}

/// Escapes further characters in texts.
struct Escaping(fn(char) -> bool);

impl Formatter for Escaping {
    fn write_string_fragment<W: Write + ?Sized>(&mut self, writer: &mut W, mut fragment: &str) -> io::Result<()> {
        while let Some((start, character)) = fragment.char_indices().find(|(_, character)| self.0(*character)) {
            writer.write_all(&fragment.as_bytes()[..start])?;
            for unit in character.encode_utf16(&mut [0; 2]) {
                write!(writer, "\\u{unit:04x}")?;
            }
            fragment = &fragment[start + character.len_utf8()..];
        }
        writer.write_all(fragment.as_bytes())
    }
}

/// The number with the noun, in the plural unless the number is 1.
pub(crate) fn count(number: u64, noun: &str) -> String {
    if number == 1 { format!("1 {noun}") } else { format!("{number} {noun}s") }
}

#[cfg(test)]
mod tests {
    use std::io::BufWriter;

    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn separators_of_lines_are_escaped_in_json_and_keep_their_value() {
        let value = json!({"a\u{2028}": ["b\u{2029}c\n", "é\u{200b}"]});
        let json = String::from_utf8(to_json(&value).unwrap()).unwrap();
        assert_eq!(json, "{\"a\\u2028\":[\"b\\u2029c\\n\",\"é\u{200b}\"]}");
        assert_eq!(serde_json::from_str::<Value>(&json).unwrap(), value);
    }

    #[test]
    fn json_for_a_terminal_has_no_invisible_characters_and_keeps_its_value() {
        let value = json!({"content": "a\u{1b}]0;t\u{7}\u{9b}2Jé\u{7f}\u{202e}\u{e0041}\u{feff}"});
        let json = String::from_utf8(to_json_without(is_unprintable, &value).unwrap()).unwrap();
        assert!(json.is_ascii() != json.contains('é') && !json.contains(is_unprintable), "{json}");
        assert!(json.contains("\\udb40\\udc41"), "{json}");
        assert_eq!(serde_json::from_str::<Value>(&json).unwrap(), value);
    }

    #[test]
    fn a_line_is_flushed() {
        let mut output = BufWriter::new(Vec::new());
        assert_eq!(write_line(&mut output, b"a".to_vec()).unwrap(), ReaderState::Present);
        assert_eq!(output.get_ref(), b"a\n");
    }
}
