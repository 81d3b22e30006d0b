//! [`read_line`]: reads the lines of input of `run`.

use std::io::{self, BufRead, Read as _};

/// The maximum length of a line in bytes, without its line feed.
pub(crate) const MAX_LINE_BYTES: usize = 16 * 1024 * 1024;

/// One line of the input, without its line feed. The last one may lack it.
#[derive(Debug, Eq, PartialEq)]
pub(crate) enum Line {
    Whole(Vec<u8>),
    /// A line longer than [`MAX_LINE_BYTES`], which was skipped.
    TooLong,
}

/// Reads the next line. Returns `None` at the end of the input.
pub(crate) fn read_line(input: &mut impl BufRead) -> io::Result<Option<Line>> {
    let mut line = Vec::new();
    // One byte more, for the line feed.
    input.take(MAX_LINE_BYTES as u64 + 1).read_until(b'\n', &mut line)?;
    if line.is_empty() {
        return Ok(None);
    }
    if line.last() == Some(&b'\n') {
        line.pop();
    } else if line.len() > MAX_LINE_BYTES {
        drop(line);
        input.skip_until(b'\n')?;
        return Ok(Some(Line::TooLong));
    }
    Ok(Some(Line::Whole(line)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(input: &[u8]) -> Vec<Line> {
        let mut input = input;
        std::iter::from_fn(|| read_line(&mut input).unwrap()).collect()
    }

    fn whole(text: &str) -> Line {
        Line::Whole(text.into())
    }

    #[test]
    fn empty_lines_and_a_last_line_without_line_feed_are_lines() {
        assert_eq!(lines(b""), []);
        assert_eq!(lines(b"\n"), [whole("")]);
        assert_eq!(lines(b"a\n\nb\r\n"), [whole("a"), whole(""), whole("b\r")]);
        assert_eq!(lines(b"a\nb"), [whole("a"), whole("b")]);
    }

    #[test]
    fn a_line_longer_than_the_maximum_is_skipped() {
        let longest = vec![b'x'; MAX_LINE_BYTES];
        let longer = [&longest, b"x".as_slice()].concat();
        for end in ["", "\n"] {
            let found = lines(&[&longest, end.as_bytes()].concat());
            assert!(matches!(found.as_slice(), [Line::Whole(line)] if *line == longest), "{end:?}");
            assert_eq!(lines(&[&longer, end.as_bytes()].concat()), [Line::TooLong], "{end:?}");
        }
        assert_eq!(lines(&[&longer, b"\na".as_slice()].concat()), [Line::TooLong, whole("a")]);
    }
}
