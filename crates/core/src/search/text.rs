//! Finds matching lines in a file, and cuts them.

use std::ops::Range;

use memchr::{memchr, memchr_iter, memrchr};
use regex::Regex;

use crate::search::pattern::Matcher;
use crate::search::report::FoundLine;

/// A line of a file.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Line {
    /// The 1-based number.
    pub(super) number: usize,
    /// Its place, without the line break.
    pub(super) range: Range<usize>,
    /// The start of the next line.
    next: usize,
}

/// Finds the matching lines of a file, in parts.
pub(super) struct LineFinder<'a> {
    matcher: &'a Matcher,
    text: &'a str,
    /// The start of the next line to search, and its number.
    position: usize,
    number: usize,
    /// The end of the part, after a line break.
    end: usize,
    by_line: bool,
    /// The expression for the part, unless it has no match.
    regex: Option<&'a Regex>,
    /// The number of lines that are too long for a regular expression.
    pub(super) too_long: usize,
}

/// The usual length of a part in bytes.
const PART_BYTES: usize = 16 * 1024;
/// The longest line in bytes in which a regular expression is searched. It cannot be interrupted, and the slowest ones
/// take 30 µs per byte.
const MAX_REGEX_LINE_BYTES: usize = 64 * 1024;

impl<'a> LineFinder<'a> {
    pub(super) fn new(matcher: &'a Matcher, text: &'a str) -> Self {
        Self { matcher, text, position: 0, number: 1, end: 0, by_line: false, regex: None, too_long: 0 }
    }

    /// Starts the next part. Returns whether there is one.
    pub(super) fn start_part(&mut self) -> bool {
        self.move_to(self.end);
        let least = (self.end + PART_BYTES).min(self.text.len());
        let rest = &self.text.as_bytes()[least..];
        self.end = memchr(b'\n', rest).map_or(self.text.len(), |line_break| least + line_break + 1);
        self.by_line = self.matcher.needs_single_lines;
        self.regex = self.matcher.any_in(&self.text[self.position..self.end]);
        self.position < self.end
    }

    /// The next matching line of the part.
    pub(super) fn next_match(&mut self) -> Option<Line> {
        let regex = self.regex?;
        while self.position < self.end {
            if self.by_line || self.matcher.is_regex && self.end - self.position > MAX_REGEX_LINE_BYTES {
                let line = line_at(self.text, self.number, self.position);
                self.move_to(line.next);
                if self.matcher.is_regex && line.range.len() > MAX_REGEX_LINE_BYTES {
                    self.too_long += 1;
                } else if regex.is_match(&self.text[line.range.clone()]) {
                    return Some(line);
                }
                continue;
            }
            let found = regex.find_at(&self.text[..self.end], self.position)?;
            if found.start() == self.end && self.text[..self.end].ends_with('\n') {
                break; // there is no line after a final line break
            }
            let start = memrchr(b'\n', &self.text.as_bytes()[..found.start()]).map_or(0, |line_break| line_break + 1);
            self.move_to(start.max(self.position));
            let line = line_at(self.text, self.number, self.position);
            if found.end() <= line.range.end {
                self.move_to(line.next);
                return Some(line);
            }
            // The match is not within the line. The line may have another one.
            self.by_line = true;
        }
        None
    }

    /// Moves to the start of a line.
    fn move_to(&mut self, start: usize) {
        self.number += memchr_iter(b'\n', &self.text.as_bytes()[self.position..start]).count();
        self.position = start;
    }
}

/// The line with this number, which starts at `start`.
fn line_at(text: &str, number: usize, start: usize) -> Line {
    let (end, next) = match memchr(b'\n', &text.as_bytes()[start..]) {
        Some(line_break) => (start + line_break, start + line_break + 1),
        None => (text.len(), text.len()),
    };
    let has_return = end > start && text.as_bytes()[end - 1] == b'\r';
    Line { number, range: start..end - usize::from(has_return), next }
}

/// The lines around a line, as far as they exist and have numbers from `first`.
pub(super) fn lines_around(text: &str, line: &Line, first: usize, before: usize, after: usize) -> Vec<Line> {
    let bytes = text.as_bytes();
    let mut start = line.range.start;
    let mut number = line.number;
    while number > first && line.number - number < before {
        start = memrchr(b'\n', &bytes[..start - 1]).map_or(0, |line_break| line_break + 1);
        number -= 1;
    }
    let last = line.number.saturating_add(after);
    let mut lines = Vec::new();
    while number <= last && start < bytes.len() {
        let line = line_at(text, number, start);
        (start, number) = (line.next, number + 1);
        lines.push(line);
    }
    lines
}

/// A line with its matches, cut to `max` characters.
pub(super) fn found_line(number: usize, line: &str, matcher: Option<&Matcher>, max: usize) -> FoundLine {
    let first = matcher.and_then(|matcher| matcher.ranges(line).next()).unwrap_or(0..0);
    let kept = cut(line, &first, max);
    let matches = matcher.map_or_else(Vec::new, |matcher| {
        let shown = matcher.ranges(line).take_while(|range| range.start < kept.end);
        shown.map(|range| range.start.max(kept.start) - kept.start..range.end.min(kept.end) - kept.start).collect()
    });
    FoundLine {
        number,
        is_match: matcher.is_some(),
        text: line[kept.clone()].to_owned(),
        cut_before: line[..kept.start].chars().count(),
        cut_after: line[kept.end..].chars().count(),
        matches,
    }
}

/// The part of a line to show: at most `max` characters, with the start of the match after a quarter of them.
fn cut(line: &str, found: &Range<usize>, max: usize) -> Range<usize> {
    let forward = |start: usize, count: usize| {
        line[start..].char_indices().nth(count).map_or(line.len(), |(length, _)| start + length)
    };
    let backward = |end: usize, count: usize| match count.checked_sub(1) {
        Some(last) => line[..end].char_indices().rev().nth(last).map_or(0, |(start, _)| start),
        None => end,
    };
    let from_start = forward(0, max);
    if found.end <= from_start {
        return 0..from_start;
    }
    let end = forward(backward(found.start, max / 4), max);
    backward(end, max)..end
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::search::pattern::LetterCase;

    #[test]
    fn a_long_line_is_cut_around_its_first_match() {
        let matcher = Matcher::new("x+", true, LetterCase::Ignored).unwrap();
        for (line, max, shown) in [
            ("ééxéé", 5, "éé[x]éé"),
            ("ééxéé", 4, "éé[x]é…1"),
            ("ééééxéééé", 4, "3…é[x]éé…2"),
            ("ééééxé", 4, "2…éé[x]é"),
            ("éxxxxxxé", 4, "é[xxx]…4"),
            ("xéééxé", 4, "[x]ééé…2"),
            ("éééé", 4, "éééé"),
            ("x", 0, "…1"),
        ] {
            let found = found_line(1, line, Some(&matcher), max);
            let mut text = found.text.clone();
            for range in found.matches.iter().rev().filter(|range| !range.is_empty()) {
                text.insert(range.end, ']');
                text.insert(range.start, '[');
            }
            let before = if found.cut_before > 0 { format!("{}…", found.cut_before) } else { String::new() };
            let after = if found.cut_after > 0 { format!("…{}", found.cut_after) } else { String::new() };
            assert_eq!(format!("{before}{text}{after}"), shown, "{line} {max}");
        }
    }
}
