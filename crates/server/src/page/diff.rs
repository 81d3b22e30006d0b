//! [`lines`]: a difference by line and word.

use std::time::Duration;

use similar::{ChangeTag, TextDiff};

use super::text::visible;

/// The time for a difference. A coarse one takes less.
const DEADLINE: Duration = Duration::from_millis(500);

/// The lines that a page shows of a file.
const MAX_LINES: usize = 2_000;

/// A line of a difference.
pub(super) struct Line {
    /// `insert`, `delete` or `same`.
    pub(super) kind: &'static str,
    /// The number in the old and the new text.
    pub(super) old: String,
    pub(super) new: String,
    /// The parts, and whether each differs from the other text.
    pub(super) parts: Vec<(bool, String)>,
}

/// The difference of two texts, with three lines around each change. A line without numbers is a gap.
pub(super) fn lines(before: &str, after: &str) -> Vec<Line> {
    let diff = TextDiff::configure().timeout(DEADLINE).diff_lines(before, after);
    let mut lines = Vec::new();
    for (index, group) in diff.grouped_ops(3).iter().enumerate() {
        if index > 0 {
            lines.push(gap("⋯"));
        }
        for change in group.iter().flat_map(|op| diff.iter_inline_changes(op)) {
            if lines.len() == MAX_LINES {
                lines.push(gap("there are more lines"));
                return lines;
            }
            let kind = match change.tag() {
                ChangeTag::Equal => "same",
                ChangeTag::Delete => "delete",
                ChangeTag::Insert => "insert",
            };
            let number = |index: Option<usize>| index.map_or_else(String::new, |index| (index + 1).to_string());
            let parts = change.iter_strings_lossy();
            let parts = parts.map(|(differs, part)| (differs, visible(part.trim_end_matches('\n')))).collect();
            lines.push(Line { kind, old: number(change.old_index()), new: number(change.new_index()), parts });
        }
    }
    lines
}

fn gap(text: &str) -> Line {
    Line { kind: "gap", old: String::new(), new: String::new(), parts: vec![(false, text.to_owned())] }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_that_differ_are_marked() {
        let lines = lines("one two three\nsame\n", "one 2 three\nsame\n");
        let kinds: Vec<_> = lines.iter().map(|line| line.kind).collect();
        assert_eq!(kinds, ["delete", "insert", "same"]);
        let marked = |line: &Line| -> String {
            line.parts.iter().filter(|(differs, _)| *differs).map(|(_, part)| part.as_str()).collect()
        };
        assert_eq!((marked(&lines[0]), marked(&lines[1])), ("two".to_owned(), "2".to_owned()));
        assert_eq!((lines[2].old.as_str(), lines[2].new.as_str()), ("2", "2"));
    }
}
