//! [`read_line`]: the lines in which the input of `run` and `chat` comes.

use std::io::{self, BufRead, Read as _};

/// The longest line in bytes, without its line feed.
pub(crate) const MAX_LINE_BYTES: usize = 16 * 1024 * 1024;

/// One line of the input, without its line feed. The last one may lack it.
#[derive(Debug, Eq, PartialEq)]
pub(crate) enum Line {
    Whole(Vec<u8>),
    /// Longer than [`MAX_LINE_BYTES`]; what it held is gone.
    TooLong,
}

/// The next line; `None` at the end of the input.
pub(crate) fn read_line(input: &mut impl BufRead) -> io::Result<Option<Line>> {
    let mut line = Vec::new();
    // One byte more than a line may have is room for its line feed.
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
    fn every_line_counts_also_an_empty_one_and_a_last_one_without_its_line_feed() {
        assert_eq!(lines(b""), []);
        assert_eq!(lines(b"\n"), [whole("")]);
        assert_eq!(lines(b"a\n\nb\r\n"), [whole("a"), whole(""), whole("b\r")]);
        assert_eq!(lines(b"a\nb"), [whole("a"), whole("b")]);
    }

    #[test]
    fn a_line_of_the_greatest_length_is_whole_and_one_byte_more_is_too_long() {
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
