//! Writing replies to standard output.

use std::fmt::Write as _;
use std::io::{self, ErrorKind, IsTerminal, Write};
use std::time::SystemTime;

use memory_tool::store::is_unprintable;
use serde::Serialize;

use crate::failure::Failure;
use crate::terminal::escapes::for_terminal;

/// A time in UTC, to the second. `None` before 1970 and after 9999, as files of other programs can have any time.
pub(crate) fn rfc3339(time: SystemTime) -> Option<String> {
    time.duration_since(SystemTime::UNIX_EPOCH).ok()?; // `format_rfc3339_seconds` would panic
    let mut text = String::new();
    write!(text, "{}", humantime::format_rfc3339_seconds(time)).ok()?;
    Some(text)
}

/// Whether the output is open.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum ReaderState {
    /// The text was written.
    Present,
    /// The other end is closed, which is not an error.
    Gone,
}

/// Writes a line and flushes it.
pub fn write_line(output: &mut impl Write, mut line: Vec<u8>) -> Result<ReaderState, Failure> {
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

/// Writes the bytes of a file to standard output. On a terminal, invisible characters are escaped.
pub(crate) fn write_content(content: &[u8]) -> Result<ReaderState, Failure> {
    let escaped;
    let content = if io::stdout().is_terminal() {
        escaped = for_terminal(&String::from_utf8_lossy(content));
        escaped.as_bytes()
    } else {
        content
    };
    write_text(&mut io::stdout().lock(), content)
}

/// Writes the report of a command to standard output, as JSON or as lines of text.
pub(crate) fn write_report(
    as_json: bool,
    report: &impl Serialize,
    text: impl FnOnce() -> String,
) -> Result<(), Failure> {
    let line = if as_json { to_json(&io::stdout(), report)? } else { text().into_bytes() };
    write_line(&mut io::stdout().lock(), line).map(|_| ())
}

/// The value as JSON on one line (`[W2]`), for a standard stream. Some readers of lines also split at U+2028 and
/// U+2029, so they are escaped. On a terminal, all invisible characters are escaped.
pub(crate) fn to_json(stream: &impl IsTerminal, value: &impl Serialize) -> Result<Vec<u8>, Failure> {
    escape_for(stream, serde_json::to_string(value))
}

/// The same on several lines.
pub fn to_pretty_json(stream: &impl IsTerminal, value: &impl Serialize) -> Result<Vec<u8>, Failure> {
    escape_for(stream, serde_json::to_string_pretty(value))
}

fn escape_for(stream: &impl IsTerminal, json: serde_json::Result<String>) -> Result<Vec<u8>, Failure> {
    let json = json.map_err(|error| Failure::Output(io::Error::from(error)))?;
    let is_escaped = if stream.is_terminal() { is_unprintable } else { is_line_separator };
    Ok(escape_in_json(&json, is_escaped).into_bytes())
}

pub(crate) fn is_line_separator(character: char) -> bool {
    matches!(character, '\u{2028}' | '\u{2029}')
}

/// Escapes characters in the strings of a JSON value. Line feeds are between its values only.
pub(crate) fn escape_in_json(json: &str, is_escaped: fn(char) -> bool) -> String {
    let mut escaped = String::with_capacity(json.len());
    for character in json.chars() {
        if is_escaped(character) && character != '\n' {
            for unit in character.encode_utf16(&mut [0; 2]) {
                // Writing to a string cannot fail.
                let _ = write!(escaped, "\\u{unit:04x}");
            }
        } else {
            escaped.push(character);
        }
    }
    escaped
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
        let json = escape_in_json(&value.to_string(), is_line_separator);
        assert_eq!(json, "{\"a\\u2028\":[\"b\\u2029c\\n\",\"é\u{200b}\"]}");
        assert_eq!(serde_json::from_str::<Value>(&json).unwrap(), value);
    }

    #[test]
    fn json_for_a_terminal_has_no_invisible_characters_and_keeps_its_value() {
        let value = json!({"content": "a\u{1b}]0;t\u{7}\u{9b}2Jé\u{7f}\u{202e}\u{e0041}\u{feff}"});
        for (json, lines) in [(serde_json::to_string(&value), 1), (serde_json::to_string_pretty(&value), 3)] {
            let json = escape_in_json(&json.unwrap(), is_unprintable);
            let texts = json.replace('\n', "");
            assert!(texts.contains('é') && !texts.contains(is_unprintable), "{json}");
            assert!(json.contains("\\udb40\\udc41"), "{json}");
            assert_eq!((json.lines().count(), serde_json::from_str(&json).ok()), (lines, Some(value.clone())));
        }
    }

    #[test]
    fn a_line_is_flushed() {
        let mut output = BufWriter::new(Vec::new());
        assert_eq!(write_line(&mut output, b"a".to_vec()).unwrap(), ReaderState::Present);
        assert_eq!(output.get_ref(), b"a\n");
    }
}
