//! What the commands do to text: lines, numbering, the unique replacement, the insertion.
//!
//! A line is what stands between two `\n`, as `view` numbers them: a final `\n` is followed by one last, empty line, and
//! an empty text is one empty line (`[V3]`). No other character ends a line.

use std::num::NonZeroUsize;

use crate::reply::{Snippet, ViewCut};

/// How many lines of a snippet stand before and after the first changed one (`[S1]`).
const SNIPPET_CONTEXT: usize = 2;

/// What a number of no digits would be filled up with.
const PADDING: &str = "      ";

/// The number of lines of the text; never 0.
pub(crate) fn count_lines(text: &str) -> usize {
    text.bytes().filter(|&byte| byte == b'\n').count() + 1
}

/// Each line with its number, right-aligned in six columns, and a tab (`[V3]`).
pub(crate) fn number_lines(text: &str, first_line: usize) -> String {
    let mut numbered = String::with_capacity(text.len() + 8 * count_lines(text));
    let mut digits = itoa::Buffer::new();
    for (index, line) in text.split('\n').enumerate() {
        if index > 0 {
            numbered.push('\n');
        }
        let number = digits.format(first_line + index);
        numbered.push_str(&PADDING[number.len().min(PADDING.len())..]);
        numbered.push_str(number);
        numbered.push('\t');
        numbered.push_str(line);
    }
    numbered
}

/// The part of the text from line `first` to line `last`, both 1-based and inclusive, which must exist.
pub(crate) fn slice_lines(text: &str, first: usize, last: usize) -> &str {
    let start = offset_of_line(text, first - 1);
    let rest = &text[start..];
    let end = rest.match_indices('\n').nth(last - first).map_or(rest.len(), |(end, _)| end);
    &rest[..end]
}

/// As many whole lines from the beginning of the text as fit into `cap` characters, and what was cut (`[V8]`).
pub(crate) fn cap_lines(text: &str, cap: NonZeroUsize) -> (&str, Option<ViewCut>) {
    if text.len() <= cap.get() {
        return (text, None);
    }
    let Some((cap_offset, next)) = text.char_indices().nth(cap.get()) else {
        return (text, None);
    };
    if next == '\n' {
        return (&text[..cap_offset], Some(ViewCut::Lines));
    }
    match text[..cap_offset].rfind('\n') {
        Some(end) => (&text[..end], Some(ViewCut::Lines)),
        None => {
            let length = text.split('\n').next().unwrap_or_default().chars().count();
            (&text[..cap_offset], Some(ViewCut::Characters { shown: cap.get(), length }))
        }
    }
}

/// Replaces the one occurrence of `old`, and shows the lines around the beginning of the change (`[S1]`).
///
/// Otherwise gives the 1-based lines on which the occurrences start, counted without overlap: none (`[S3]`) or at least two
/// (`[S4]`, `[S5]`).
pub(crate) fn replace_unique(text: &str, old: &str, new: &str) -> Result<(String, Snippet), Vec<usize>> {
    let mut occurrences = text.match_indices(old).map(|(offset, _)| offset);
    let offset = match (occurrences.next(), occurrences.next()) {
        (Some(offset), None) => offset,
        _ => return Err(lines_of_occurrences(text, old)),
    };
    let replaced = [&text[..offset], new, &text[offset + old.len()..]].concat();
    let changed_line = count_lines(&text[..offset]);
    let first = changed_line.saturating_sub(SNIPPET_CONTEXT).max(1);
    let last = (changed_line + SNIPPET_CONTEXT).min(count_lines(&replaced));
    let snippet = Snippet::new(first, slice_lines(&replaced, first, last));
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

/// Inserts a line after the first `index` lines, of which there must be as many (`[I1]`).
pub(crate) fn insert_line(text: &str, index: usize, inserted: &str) -> String {
    let line = inserted.strip_suffix('\n').unwrap_or(inserted);
    if index == count_lines(text) {
        return [text, "\n", line].concat();
    }
    let (before, after) = text.split_at(offset_of_line(text, index));
    [before, line, "\n", after].concat()
}

/// The offset in bytes at which the line with this 0-based index begins; the end of the text where there is none.
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

    fn cap(text: &str, characters: usize) -> (&str, Option<ViewCut>) {
        cap_lines(text, NonZeroUsize::new(characters).unwrap())
    }

    #[test]
    fn lines_end_at_line_feeds_alone() {
        assert_eq!(
            number_lines("a\r\nb\u{2028}c\u{85}d\x0ce\n", 9),
            "     9\ta\r\n    10\tb\u{2028}c\u{85}d\x0ce\n    11\t"
        );
        assert_eq!(number_lines("", 1), "     1\t");
        assert_eq!(number_lines("x", 1_000_000), "1000000\tx");
    }

    #[test]
    fn a_slice_holds_whole_lines() {
        let text = "1\n2\n3\n";
        assert_eq!(slice_lines(text, 1, 4), text);
        assert_eq!(slice_lines(text, 2, 3), "2\n3");
        assert_eq!(slice_lines(text, 4, 4), "");
        assert_eq!(slice_lines("", 1, 1), "");
    }

    #[test]
    fn a_cap_keeps_whole_lines() {
        assert_eq!(cap("ab\ncd", 5), ("ab\ncd", None));
        assert_eq!(cap("ab\ncd", 4), ("ab", Some(ViewCut::Lines)));
        assert_eq!(cap("ab\ncd\n", 5), ("ab\ncd", Some(ViewCut::Lines)));
        assert_eq!(cap("ab\ncd", 2), ("ab", Some(ViewCut::Lines)));
        assert_eq!(cap("äöü\nx", 2), ("äö", Some(ViewCut::Characters { shown: 2, length: 3 })));
        assert_eq!(cap("\n\n\n", 1), ("\n", Some(ViewCut::Lines)));
    }

    #[test]
    fn a_replacement_is_literal_and_unique() {
        let (text, snippet) = replace_unique("1\n2\n3\n4\n5\n6\n7", "4\n5", r"$& \1 {}").unwrap();
        assert_eq!(text, "1\n2\n3\n$& \\1 {}\n6\n7");
        assert_eq!(snippet, Snippet::new(2, "2\n3\n$& \\1 {}\n6\n7"));
        assert_eq!(replace_unique("aaa", "aa", "b").unwrap().0, "ba");
        assert_eq!(replace_unique("aa aa\n\naa", "aa", "b"), Err(vec![1, 1, 3]));
        assert_eq!(replace_unique("a", "b", "c"), Err(vec![]));
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
