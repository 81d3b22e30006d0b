//! [`Report`]: how a proposal changes the whole memory.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

use memory_tool_core::StorePath;
use serde::Serialize;

use crate::links::{is_markdown, links};

/// The items of a list that a report has.
const MAX_LISTED: usize = 50;

/// The characters of a line or link that a report has.
const MAX_SHOWN_CHARACTERS: usize = 200;

/// The characters of a repeated line. Headings and other short lines may repeat.
const MIN_REPEATED_CHARACTERS: usize = 40;

/// Fewer removed lines are not much, so that a small memory can be changed.
const MIN_REMOVED_LINES: usize = 10;

/// Files by their paths.
pub type Files<'a> = BTreeMap<&'a StorePath, &'a [u8]>;

/// How changes of many files change a memory, for a person who decides about them.
///
/// Lines are compared without white space around them, and blank ones do not count. Files that are not UTF-8 have no
/// lines. Lines and links are cut after 200 characters.
///
/// ```
/// use memory_tool_proposals::{Files, Report};
///
/// let (a, b) = ("/memories/a.md".parse()?, "/memories/b.md".parse()?);
/// let before = Files::from([(&a, b"Likes tea.\nSee [b](b.md).\n".as_slice()), (&b, b"Likes tea.\n")]);
/// let after = Files::from([(&a, before[&a])]);
/// let report = Report::new(&before, &after);
/// assert_eq!((report.removed_lines.count, report.dead_links.count), (0, 1));
/// # Ok::<(), memory_tool_core::PathError>(())
/// ```
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Report {
    /// The size of the memory before the changes.
    pub before: Size,
    /// Its size after them.
    pub after: Size,
    /// The different lines that no file has after the changes, with the first file that had each.
    pub removed_lines: Listed<LineOfFile>,
    /// The links in Markdown files to paths that do not exist after the changes.
    pub dead_links: Listed<LineOfFile>,
    /// The files with the same contents after the changes.
    pub equal_files: Listed<Listed<StorePath>>,
    /// The lines of at least 40 characters in several places after the changes.
    pub repeated_lines: Listed<RepeatedLine>,
}

/// The size of a memory.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Size {
    /// The number of files.
    pub files: usize,
    /// Their total size in bytes.
    pub bytes: u64,
    /// The number of different lines.
    pub lines: usize,
}

/// A line or link of a file.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
#[non_exhaustive]
pub struct LineOfFile {
    /// The file.
    pub path: StorePath,
    /// The line or link.
    pub text: String,
}

/// A line in several places. A file is listed once for each place.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
#[non_exhaustive]
pub struct RepeatedLine {
    /// The line.
    pub text: String,
    /// The files, without further copies of a file.
    pub paths: Listed<StorePath>,
}

/// The first 50 items of a list, and the number of all.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Listed<T> {
    /// The first items.
    pub first: Vec<T>,
    /// The number of all items.
    pub count: usize,
}

impl<T> FromIterator<T> for Listed<T> {
    fn from_iter<I: IntoIterator<Item = T>>(items: I) -> Self {
        let mut items = items.into_iter();
        let first: Vec<_> = items.by_ref().take(MAX_LISTED).collect();
        Self { count: first.len() + items.count(), first }
    }
}

impl Report {
    /// Compares the files of a memory before and after changes. Without changes, it finds the dead links and
    /// duplicates that the memory has.
    pub fn new(before: &Files<'_>, after: &Files<'_>) -> Self {
        let (old, new) = (places(before), places(after));
        let mut removed = BTreeSet::new();
        let is_removed = |line: &str| !new.contains_key(line);
        let removed_lines = lines(before).filter(|(_, line)| is_removed(line) && removed.insert(*line));
        let equal = equal_files(after);
        let copies: BTreeSet<_> = equal.iter().flat_map(|paths| paths.iter().skip(1)).copied().collect();
        Self {
            before: size(before, &old),
            after: size(after, &new),
            removed_lines: removed_lines.map(|(path, line)| line_of(path, line)).collect(),
            dead_links: dead_links(after).collect(),
            equal_files: equal.iter().map(|paths| paths.iter().copied().cloned().collect()).collect(),
            repeated_lines: repeated(&new, &copies).collect(),
        }
    }

    /// Whether the changes remove ten lines or more, and more than a third: of the different lines of the memory
    /// before, no file has them after. A line that moves, or loses a duplicate, is not removed. A line that is changed
    /// is.
    pub fn removes_much(&self) -> bool {
        let removed = self.removed_lines.count;
        removed >= MIN_REMOVED_LINES && removed.saturating_mul(3) > self.before.lines
    }
}

/// The files of each line, sorted by the line.
type Places<'a> = BTreeMap<&'a str, Vec<&'a StorePath>>;

fn places<'a>(files: &Files<'a>) -> Places<'a> {
    let mut places = Places::new();
    for (path, line) in lines(files) {
        places.entry(line).or_default().push(path);
    }
    places
}

fn lines<'a>(files: &Files<'a>) -> impl Iterator<Item = (&'a StorePath, &'a str)> {
    files.iter().flat_map(|(path, content)| {
        let lines = text(content).lines().map(str::trim).filter(|line| !line.is_empty());
        lines.map(move |line| (*path, line))
    })
}

fn text(content: &[u8]) -> &str {
    str::from_utf8(content).unwrap_or_default()
}

fn size(files: &Files<'_>, lines: &Places<'_>) -> Size {
    let bytes = files.values().map(|content| content.len() as u64).sum();
    Size { files: files.len(), bytes, lines: lines.len() }
}

fn line_of(path: &StorePath, text: &str) -> LineOfFile {
    LineOfFile { path: path.clone(), text: shortened(text) }
}

fn shortened(text: &str) -> String {
    match text.char_indices().nth(MAX_SHOWN_CHARACTERS) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

fn dead_links(files: &Files<'_>) -> impl Iterator<Item = LineOfFile> {
    let exists = |path: &StorePath| {
        let below = (Bound::Included(path), Bound::Unbounded);
        path.is_root() || files.range::<&StorePath, _>(below).next().is_some_and(|(file, _)| file.overlaps(path))
    };
    let documents = files.iter().filter(|(path, _)| is_markdown(path));
    documents.flat_map(move |(path, content)| {
        links(path, text(content))
            .filter(|(_, to)| !exists(to))
            .map(|(link, _)| line_of(path, &link))
            .collect::<Vec<_>>()
    })
}

/// The files with the same contents. Empty files are not duplicates.
fn equal_files<'a>(files: &Files<'a>) -> Vec<Vec<&'a StorePath>> {
    let mut by_content = BTreeMap::<_, Vec<_>>::new();
    for (path, content) in files.iter().filter(|(_, content)| !content.is_empty()) {
        by_content.entry(*content).or_default().push(*path);
    }
    let mut equal: Vec<_> = by_content.into_values().filter(|paths| paths.len() > 1).collect();
    equal.sort_unstable();
    equal
}

/// The repeated lines, without those of copies of a file.
fn repeated(places: &Places<'_>, copies: &BTreeSet<&StorePath>) -> impl Iterator<Item = RepeatedLine> {
    let long = places.iter().filter(|(line, _)| line.chars().nth(MIN_REPEATED_CHARACTERS - 1).is_some());
    long.filter_map(|(line, paths)| {
        let paths: Listed<_> = paths.iter().filter(|path| !copies.contains(*path)).copied().cloned().collect();
        (paths.count > 1).then(|| RepeatedLine { text: shortened(line), paths })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn memory(files: &[(&str, &str)]) -> BTreeMap<StorePath, Vec<u8>> {
        let path = |name: &str| format!("/memories/{name}").parse().unwrap();
        files.iter().map(|(name, text)| (path(name), text.as_bytes().to_vec())).collect()
    }

    fn report(before: &[(&str, &str)], after: &[(&str, &str)]) -> Report {
        let (before, after) = (memory(before), memory(after));
        let files = |memory| BTreeMap::iter(memory).map(|(path, content): (_, &Vec<u8>)| (path, &**content)).collect();
        Report::new(&files(&before), &files(&after))
    }

    fn texts(lines: &Listed<LineOfFile>) -> Vec<String> {
        lines.first.iter().map(|line| format!("{} {}", line.path.file_name().unwrap(), line.text)).collect()
    }

    #[test]
    fn a_line_is_removed_if_no_file_has_it() {
        let before = [("a", "one\n\ntwo\nthree\nthree\n"), ("b", "\ttwo \nfour\nzero\n"), ("c", "four\n")];
        let report = report(&before, &[("d", "  one\r\nfive\n"), ("b", "zero")]);
        assert_eq!(texts(&report.removed_lines), ["a two", "a three", "b four"]);
        assert_eq!(report.before, Size { files: 3, bytes: 42, lines: 5 });
        assert_eq!(report.after, Size { files: 2, bytes: 16, lines: 3 });
    }

    #[test]
    fn more_than_a_third_of_the_lines_is_much() {
        let lines = |count: usize| (0..count).map(|line| format!("{line}\n")).collect::<String>();
        let (first, twice) = (lines(10), lines(30) + "29\n29\n");
        let before = [("a", first.as_str()), ("b", &twice)];
        let removes_much = |after: usize| report(&before, &[("a", &lines(after))]).removes_much();
        assert!(!removes_much(20));
        assert!(removes_much(19));
        assert!(!report(&[], &[("a", "1")]).removes_much());
        let few = [("a", &first[..18])];
        assert!(!report(&few, &[]).removes_much(), "nine lines can be taken without a look");
        let binary = StorePath::memories().join("a").unwrap();
        assert!(!Report::new(&[(&binary, b"\xff\n1".as_slice())].into(), &Files::new()).removes_much());
    }

    #[test]
    fn links_to_paths_that_do_not_exist_are_dead() {
        let text = "[a](b.md) [a](./c/../b.md#x) [a](/memories/c/d.md) [a](c/) [a](https://e.example/x.md) [a](#x) \
                    [a](mailto:a@b.example) [a](../../etc/x.md) [[b]] [[c/d|text]] [a](/memories) ![a](x.png)\n\n\
                    [a](gone.md#x) [[lost]] `[a](code.md)` [a][ref]\n\n    [a](code.md)\n\n[ref]: c%2Fno.md\n";
        let files = [("a.md", text), ("b.md", ""), ("c/d.md", "[a](b.md) [b](../b.md)"), ("e.sh", "[[ -f x ]]")];
        let dead = texts(&report(&[], &files).dead_links);
        assert_eq!(dead, ["a.md gone.md#x", "a.md lost", "a.md c%2Fno.md", "d.md b.md"]);
    }

    #[test]
    fn equal_files_and_repeated_lines_are_duplicates() {
        let (long, short) = ("The user drinks tea, without any milk, at 4.", "Short lines such as headings may repeat");
        let both = format!("{long}\n{short}\n");
        let files = [("a", both.as_str()), ("b", &both), ("c", short), ("d", ""), ("e", ""), ("f", &both[..30])];
        let report = report(&[], &files);
        let names = |paths: &Listed<StorePath>| paths.first.iter().map(|path| path.to_string()).collect::<Vec<_>>();
        assert_eq!(report.equal_files.count, 1);
        assert_eq!(names(&report.equal_files.first[0]), ["/memories/a", "/memories/b"]);
        assert_eq!(report.repeated_lines.count, 0);
        let report = self::report(&[], &[("a", &both), ("b", &format!(" {long}\nx\n{long}"))]);
        assert_eq!(report.repeated_lines.first[0].text, long);
        assert_eq!(names(&report.repeated_lines.first[0].paths), ["/memories/a", "/memories/b", "/memories/b"]);
    }

    #[test]
    fn lists_and_lines_are_limited() {
        let lines: String = (0..60).map(|line| format!("{line}{}\n", "é".repeat(300))).collect();
        let removed = report(&[("a", &lines)], &[]).removed_lines;
        assert_eq!((removed.first.len(), removed.count), (MAX_LISTED, 60));
        assert_eq!(removed.first[0].text, format!("0{}…", "é".repeat(199)));
    }
}
