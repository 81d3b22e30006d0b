//! Text operations of the commands: line numbers, unique replacements and insertions.
//!
//! Only `\n` separates lines. A final `\n` is followed by an empty last line, and an empty text is one empty line
//! (`[V3]`).

use memchr::memchr_iter;

/// The number of lines of a snippet before and after the first changed line (`[S1]`).
const SNIPPET_CONTEXT: usize = 2;

/// The minimum width of a line number (`[V3]`).
const NUMBER_COLUMNS: usize = 6;

/// The position where the character limit truncated a reply. `Display` returns the note on how to continue (`[V8]`).
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum ViewCut {
    /// After a whole line.
    Lines {
        /// The number of the first line in the reply.
        first: usize,
        /// The number of the last line in the reply.
        last: usize,
        /// The total number of lines.
        total: usize,
    },
    /// Within the only line of the reply.
    Characters {
        /// The number of the line.
        line: usize,
        /// The total number of lines.
        total: usize,
        /// The number of characters of the line in the reply.
        shown: usize,
        /// The length of the line in characters.
        length: usize,
    },
}

/// Lines of a file after an edit (`[S1]`).
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct Snippet {
    /// The 1-based number of the first line.
    pub first_line: usize,
    /// The lines, without line numbers.
    pub text: String,
    /// The position where the character limit truncated the lines (`[V8]`).
    pub cut: Option<ViewCut>,
}

impl Snippet {
    /// Creates a snippet that is not truncated.
    pub fn new(first_line: usize, text: impl Into<String>) -> Self {
        Self { first_line, text: text.into(), cut: None }
    }

    /// The lines of `text` around a changed line, as `str_replace` shows them: from two above it to two below it
    /// (`[S1]`). If they exceed `cap` characters, the snippet starts with the changed line, and ends with a note
    /// (`[V8]`).
    ///
    /// ```
    /// use memory_tool_core::Snippet;
    ///
    /// let snippet = Snippet::around("one\ntwo\nthree\nfour\nfive\nsix", 4, None);
    /// assert_eq!((snippet.first_line, snippet.text.as_str()), (2, "two\nthree\nfour\nfive\nsix"));
    /// ```
    pub fn around(text: &str, changed_line: usize, cap: Option<usize>) -> Self {
        let total = count_lines(text);
        let changed_line = changed_line.clamp(1, total);
        let first = changed_line.saturating_sub(SNIPPET_CONTEXT).max(1);
        let last = (changed_line + SNIPPET_CONTEXT).min(total);
        let snippet = |first| {
            let (text, cut) = cap_lines(slice_lines(text, first, last), first, total, cap);
            Self { cut, ..Self::new(first, text) }
        };
        let around = snippet(first);
        if around.cut.is_some() { snippet(changed_line) } else { around }
    }
}

/// The number of lines, which is at least 1.
pub(crate) fn count_lines(text: &str) -> usize {
    memchr_iter(b'\n', text.as_bytes()).count() + 1
}

/// Prefixes each line with its number, right-aligned in six columns, and a tab (`[V3]`).
pub(crate) fn number_lines(text: &str, first_line: usize) -> String {
    let mut numbered = String::with_capacity(text.len() + 8 * count_lines(text));
    let mut start = 0;
    let starts = memchr_iter(b'\n', text.as_bytes()).map(|line_feed| line_feed + 1);
    for (number, next) in (first_line..).zip(starts.chain([text.len()])) {
        push_number(&mut numbered, number);
        numbered.push_str(&text[start..next]);
        start = next;
    }
    numbered
}

fn push_number(numbered: &mut String, number: usize) {
    let mut columns = *b"      \t";
    let mut higher = number;
    for column in columns[..NUMBER_COLUMNS].iter_mut().rev() {
        *column = b'0' + (higher % 10) as u8;
        higher /= 10;
        if higher == 0 {
            break;
        }
    }
    if higher > 0 {
        numbered.push_str(&higher.to_string());
    }
    numbered.push_str(str::from_utf8(&columns).unwrap_or_default());
}

/// The lines from `first` to `last`, both 1-based and inclusive. They must exist.
pub(crate) fn slice_lines(text: &str, first: usize, last: usize) -> &str {
    let start = offset_of_line(text, first - 1);
    let rest = &text[start..];
    let end = rest.match_indices('\n').nth(last - first).map_or(rest.len(), |(end, _)| end);
    &rest[..end]
}

/// Truncates `lines`, with their numbers, to `cap` characters (`[V8]`). The first line has the number `first`, in a
/// file of `total` lines. At least one character of the first line remains.
pub(crate) fn cap_lines(lines: &str, first: usize, total: usize, cap: Option<usize>) -> (&str, Option<ViewCut>) {
    let Some(cap) = cap else { return (lines, None) };
    // There are at most as many characters as bytes, so most files need no further count.
    if lines.len() + total * length_of_number(total) <= cap {
        return (lines, None);
    }
    let numbered = (first..).zip(lines.split('\n'));
    let lengths = numbered.map(|(number, line)| length_of_number(number) + line.chars().count());
    let fitting = count_fitting(lengths, cap).max(1);
    let shown = slice_lines(lines, 1, fitting);
    let most = cap.saturating_sub(length_of_number(first)).max(1);
    // Only a first line over the limit has more than `most` characters.
    if let Some((end, _)) = shown.char_indices().nth(most) {
        let length = shown.chars().count();
        return (&shown[..end], Some(ViewCut::Characters { line: first, total, shown: most, length }));
    }
    let is_cut = shown.len() < lines.len();
    (shown, is_cut.then_some(ViewCut::Lines { first, last: first + fitting - 1, total }))
}

/// The number of lines of these lengths that fit into `cap` characters, including line feeds.
pub(crate) fn count_fitting(lengths: impl Iterator<Item = usize>, cap: usize) -> usize {
    let ends = lengths.scan(0, |end, length| {
        *end += length + 1;
        Some(*end - 1)
    });
    ends.take_while(|&end| end <= cap).count()
}

/// The number of characters before the text of a numbered line.
fn length_of_number(number: usize) -> usize {
    let digits = number.checked_ilog10().unwrap_or(0) as usize + 1;
    digits.max(NUMBER_COLUMNS) + 1
}

/// Replaces the only occurrence of `old`. Returns the new text, and the lines around the start of the change (`[S1]`),
/// truncated to `cap` characters (`[V8]`).
///
/// If there is not exactly one occurrence, returns the 1-based lines on which the occurrences start, counted without
/// overlap (`[S3]`, `[S4]`, `[S5]`).
pub(crate) fn replace_unique(
    text: &str,
    old: &str,
    new: &str,
    cap: Option<usize>,
) -> Result<(String, Snippet), Vec<usize>> {
    let mut occurrences = text.match_indices(old).map(|(offset, _)| offset);
    let offset = match (occurrences.next(), occurrences.next()) {
        (Some(offset), None) => offset,
        _ => return Err(lines_of_occurrences(text, old)),
    };
    let replaced = [&text[..offset], new, &text[offset + old.len()..]].concat();
    let snippet = Snippet::around(&replaced, count_lines(&text[..offset]), cap);
    Ok((replaced, snippet))
}

fn lines_of_occurrences(text: &str, wanted: &str) -> Vec<usize> {
    let mut lines = Vec::new();
    let (mut line, mut counted) = (1, 0);
    for (offset, _) in text.match_indices(wanted) {
        line += count_lines(&text[counted..offset]) - 1;
        counted = offset;
        lines.push(line);
    }
    lines
}

/// Inserts text after the first `index` lines, which must exist (`[I1]`).
pub(crate) fn insert_line(text: &str, index: usize, inserted: &str) -> String {
    let line = inserted.strip_suffix('\n').unwrap_or(inserted);
    if index == count_lines(text) {
        return [text, "\n", line].concat();
    }
    let (before, after) = text.split_at(offset_of_line(text, index));
    [before, line, "\n", after].concat()
}

/// The byte offset of the line with a 0-based index, or the end of the text if there is no such line.
fn offset_of_line(text: &str, index: usize) -> usize {
    match index.checked_sub(1) {
        None => 0,
        Some(line_feeds_before) => {
            text.match_indices('\n').nth(line_feeds_before).map_or(text.len(), |(offset, _)| offset + 1)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_line_feeds_separate_lines() {
        assert_eq!(
            number_lines("a\r\nb\u{2028}c\u{85}d\x0ce\n", 9),
            "     9\ta\r\n    10\tb\u{2028}c\u{85}d\x0ce\n    11\t"
        );
        assert_eq!(number_lines("", 1), "     1\t");
        assert_eq!(number_lines("x", 1_000_000), "1000000\tx");
        assert_eq!(number_lines("a\n\n", 99_999), " 99999\ta\n100000\t\n100001\t");
        assert_eq!(number_lines("é", 12_000_345), "12000345\té");
        for length in 0..50 {
            let line = "x".repeat(length);
            assert_eq!(
                number_lines(&format!("{line}\n{line}\n"), 1),
                format!("     1\t{line}\n     2\t{line}\n     3\t")
            );
        }
        assert_eq!(count_lines(&"\n".repeat(1_000)), 1_001);
    }

    #[test]
    fn a_slice_contains_whole_lines() {
        let text = "1\n2\n3\n";
        assert_eq!(slice_lines(text, 1, 4), text);
        assert_eq!(slice_lines(text, 2, 3), "2\n3");
        assert_eq!(slice_lines(text, 4, 4), "");
        assert_eq!(slice_lines("", 1, 1), "");
    }

    #[test]
    fn a_cap_counts_line_numbers_and_keeps_whole_lines() {
        let cap = |text, characters| cap_lines(text, 1, count_lines(text), Some(characters));
        let lines = |last, total| Some(ViewCut::Lines { first: 1, last, total });
        assert_eq!(cap("ab\ncd", 19), ("ab\ncd", None));
        assert_eq!(cap("ab\ncd", 18), ("ab", lines(1, 2)));
        assert_eq!(cap("ab\ncd\n", 26), ("ab\ncd", lines(2, 3)));
        assert_eq!(cap("\n\n\n", 15), ("\n", lines(2, 4)));
        let within = |shown, length| Some(ViewCut::Characters { line: 1, total: 2, shown, length });
        assert_eq!(cap("äöü\nx", 10), ("äöü", lines(1, 2)));
        assert_eq!(cap("äöü\nx", 9), ("äö", within(2, 3)));
        assert_eq!(cap("äöü\nx", 1), ("ä", within(1, 3)));
        assert_eq!(cap("ä\nx", 1), ("ä", lines(1, 2)));
        assert_eq!(cap("\nx", 1), ("", lines(1, 2)));
        assert_eq!(cap("", 1), ("", None));
        assert_eq!(cap("äöü\nx", 0), cap("äöü\nx", 1), "0 does not disable the cap");
        assert_eq!(cap_lines("ab\ncd", 1, 2, None), ("ab\ncd", None));
    }

    #[test]
    fn a_cap_counts_every_digit_of_line_numbers() {
        let cap = |first, characters| cap_lines("a\nb", first, 2_000_000, Some(characters)).0;
        assert_eq!(cap(999_998, 17), "a\nb");
        assert_eq!(cap(999_999, 17), "a");
        assert_eq!(cap(999_999, 18), "a\nb");
    }

    #[test]
    fn a_snippet_over_the_cap_starts_with_the_changed_line() {
        let snippet = |cap| replace_unique("1\n2\n3\n4\n5", "3", "x\ny", Some(cap)).unwrap().1;
        assert_eq!(snippet(44), Snippet::new(1, "1\n2\nx\ny\n4"));
        let cut = Snippet { cut: Some(ViewCut::Lines { first: 3, last: 4, total: 6 }), ..Snippet::new(3, "x\ny") };
        assert_eq!(snippet(43 - 18), cut);
        assert_eq!(snippet(43), Snippet::new(3, "x\ny\n4"));
    }

    #[test]
    fn a_replacement_is_literal_and_unique() {
        let (text, snippet) = replace_unique("1\n2\n3\n4\n5\n6\n7", "4\n5", r"$& \1 {}", None).unwrap();
        assert_eq!(text, "1\n2\n3\n$& \\1 {}\n6\n7");
        assert_eq!(snippet, Snippet::new(2, "2\n3\n$& \\1 {}\n6\n7"));
        assert_eq!(replace_unique("aaa", "aa", "b", None).unwrap().0, "ba");
        assert_eq!(replace_unique("aa aa\n\naa", "aa", "b", None), Err(vec![1, 1, 3]));
        assert_eq!(replace_unique("a", "b", "c", None), Err(vec![]));
    }

    #[test]
    fn an_insertion_changes_no_other_byte() {
        for (text, index, inserted, expected) in [
            ("", 0, "x\n", "x\n"),
            ("", 1, "x", "\nx"),
            ("a\r\nb", 1, "x\n", "a\r\nx\nb"),
            ("a\nb\n", 2, "x\n", "a\nb\nx\n"),
            ("a\nb\n", 3, "x\n", "a\nb\n\nx"),
            ("a", 0, "x\n\n", "x\n\na"),
            ("a", 1, "", "a\n"),
        ] {
            assert_eq!(insert_line(text, index, inserted), expected, "{text:?} {index} {inserted:?}");
        }
    }
}
