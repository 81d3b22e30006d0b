//! [`Differ`]: differences by line and word.

use std::time::{Duration, Instant};

use similar::{Change, ChangeTag, InlineChange, TextDiff};

use super::text::visible;

/// The time for the differences of a page. After it, they are coarse.
const TIME: Duration = Duration::from_millis(500);

/// The text of the differences of a page, in bytes and lines.
const MAX_BYTES: usize = 1024 * 1024;
const MAX_LINES: usize = 4_000;

/// The longest lines whose words are compared.
const MAX_COMPARED: usize = 2_000;

/// The text between two parts.
const GAP: &str = "⋯";

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

/// The differences of a page, which are limited together.
pub(super) struct Differ {
    end: Instant,
    bytes: usize,
    lines: usize,
}

impl Differ {
    pub(super) fn new() -> Self {
        Self { end: Instant::now() + TIME, bytes: MAX_BYTES, lines: MAX_LINES }
    }

    /// The difference of two texts, with three lines around each change. A line without numbers is a gap.
    pub(super) fn lines(&mut self, before: &str, after: &str) -> Vec<Line> {
        let diff = TextDiff::configure().deadline(self.end).diff_lines(before, after);
        let mut lines = Vec::new();
        for (index, group) in diff.grouped_ops(3).iter().enumerate() {
            if index > 0 {
                lines.push(gap(GAP));
            }
            for op in group {
                let length = |change: Change<&str>| change.value().len();
                let is_compared =
                    Instant::now() < self.end && diff.iter_changes(op).map(length).all(|length| length < MAX_COMPARED);
                let of_words = is_compared.then(|| diff.iter_inline_changes_deadline(op, Some(self.end)).map(Line::of));
                let of_lines = (!is_compared).then(|| diff.iter_changes(op).map(Line::of_whole));
                for line in of_words.into_iter().flatten().chain(of_lines.into_iter().flatten()) {
                    let bytes = line.parts.iter().map(|(_, part)| part.len()).sum();
                    if self.lines == 0 || self.bytes < bytes {
                        lines.push(gap("there are more lines"));
                        return lines;
                    }
                    (self.lines, self.bytes) = (self.lines - 1, self.bytes - bytes);
                    lines.push(line);
                }
            }
        }
        lines
    }

    /// The lines of each part of a difference.
    pub(super) fn parts(&mut self, before: &str, after: &str) -> Vec<Vec<Line>> {
        let mut parts = vec![Vec::new()];
        for line in self.lines(before, after) {
            match parts.last_mut() {
                Some(part) if !line.is_between_parts() => part.push(line),
                _ => parts.push(Vec::new()),
            }
        }
        parts
    }
}

impl Line {
    fn is_between_parts(&self) -> bool {
        self.kind == "gap" && self.parts.iter().all(|(_, part)| part == GAP)
    }

    fn of(change: InlineChange<'_, str>) -> Self {
        let parts = change.iter_strings_lossy().map(|(differs, part)| (differs, shown(&part))).collect();
        Self::new(change.tag(), change.old_index(), change.new_index(), parts)
    }

    fn of_whole(change: Change<&str>) -> Self {
        let parts = vec![(false, shown(change.value()))];
        Self::new(change.tag(), change.old_index(), change.new_index(), parts)
    }

    fn new(tag: ChangeTag, old: Option<usize>, new: Option<usize>, parts: Vec<(bool, String)>) -> Self {
        let kind = match tag {
            ChangeTag::Equal => "same",
            ChangeTag::Delete => "delete",
            ChangeTag::Insert => "insert",
        };
        let number = |index: Option<usize>| index.map_or_else(String::new, |index| (index + 1).to_string());
        Self { kind, old: number(old), new: number(new), parts }
    }
}

fn shown(part: &str) -> String {
    visible(part.trim_end_matches(['\r', '\n']))
}

fn gap(text: &str) -> Line {
    Line { kind: "gap", old: String::new(), new: String::new(), parts: vec![(false, text.to_owned())] }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_that_differ_are_marked() {
        let lines = Differ::new().lines("one two three\nsame\n", "one 2 three\nsame\n");
        let kinds: Vec<_> = lines.iter().map(|line| line.kind).collect();
        assert_eq!(kinds, ["delete", "insert", "same"]);
        let marked = |line: &Line| -> String {
            line.parts.iter().filter(|(differs, _)| *differs).map(|(_, part)| part.as_str()).collect()
        };
        assert_eq!((marked(&lines[0]), marked(&lines[1])), ("two".to_owned(), "2".to_owned()));
        assert_eq!((lines[2].old.as_str(), lines[2].new.as_str()), ("2", "2"));
    }

    #[test]
    fn a_page_has_a_bounded_part_of_large_differences() {
        let mut differ = Differ::new();
        let texts = ["a", "b"].map(|word| format!("{word} {}\n", "x ".repeat(5_000)).repeat(60));
        let first = differ.lines(&texts[0], &texts[1]);
        assert!(first.iter().all(|line| line.parts.len() == 1), "long lines are not compared by word");
        assert_eq!(first.last().unwrap().parts[0].1, "there are more lines");
        let bytes: usize = first.iter().flat_map(|line| &line.parts).map(|(_, part)| part.len()).sum();
        assert!(bytes <= MAX_BYTES + 100, "{bytes}");
        // The next file has the rest.
        let lines = differ.lines("", &"y\n".repeat(2 * MAX_LINES));
        assert!(first.len() + lines.len() <= MAX_LINES + 2, "{}", lines.len());
        assert_eq!(lines.last().unwrap().kind, "gap");
    }
}
