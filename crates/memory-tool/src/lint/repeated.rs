//! Texts that are there twice: `repeated-paragraph` and `merge-marker`.

use std::collections::HashMap;
use std::collections::hash_map::{Entry, RandomState};
use std::hash::{BuildHasher as _, Hasher};

use memory_tool_core::{FileEntry, StorePath};

use crate::lint::{Findings, LintRule};

/// The characters of a repeated paragraph. Shorter ones, such as headings, may repeat.
const MIN_CHARACTERS: usize = 80;

/// The most paragraphs that are remembered, which takes about 32 MiB.
const MAX_PARAGRAPHS: usize = 1_000_000;

/// The paragraphs of the files before. Only their keyed digests are kept, with the first file and line.
#[derive(Default)]
pub(super) struct Paragraphs {
    key: RandomState,
    first: HashMap<u64, (usize, u64)>,
}

/// A paragraph up to a line. White space between its words makes no difference.
struct Paragraph<H> {
    line: u64,
    characters: usize,
    has_word: bool,
    digest: H,
}

impl Paragraphs {
    /// Checks the text of the file with this number.
    pub(super) fn check(&mut self, file: usize, text: &str, files: &[FileEntry], findings: &mut Findings<'_>) {
        if !findings.is_on(LintRule::RepeatedParagraph) {
            return;
        }
        let mut paragraph = None;
        for (line, number) in text.lines().chain([""]).zip(1..).skip(lines_of_front_matter(text)) {
            if line.trim().is_empty() {
                if let Some(ended) = paragraph.take() {
                    self.end(ended, file, files, findings);
                }
                continue;
            }
            let digest = || self.key.build_hasher();
            let started = || Paragraph { line: number, characters: 0, has_word: false, digest: digest() };
            let paragraph = paragraph.get_or_insert_with(started);
            for word in line.split_whitespace() {
                paragraph.characters += word.chars().count() + usize::from(paragraph.characters > 0);
                paragraph.has_word |= word.chars().any(char::is_alphanumeric);
                paragraph.digest.write(word.as_bytes());
                paragraph.digest.write_u8(b' ');
            }
        }
    }

    fn end(&mut self, ended: Paragraph<impl Hasher>, file: usize, files: &[FileEntry], findings: &mut Findings<'_>) {
        let Paragraph { line, characters, has_word, digest } = ended;
        if characters < MIN_CHARACTERS || !has_word {
            return;
        }
        let is_full = self.first.len() >= MAX_PARAGRAPHS;
        match self.first.entry(digest.finish()) {
            Entry::Occupied(first) => {
                let (first, first_line) = *first.get();
                let message = format!("the paragraph is also in {}:{first_line}", files[first].path);
                findings.add(LintRule::RepeatedParagraph, &files[file].path, Some(line), message);
            }
            Entry::Vacant(_) if is_full => {}
            Entry::Vacant(place) => drop(place.insert((file, line))),
        }
    }
}

/// The number of lines of the data at the start of a Markdown file, which many files may share. It has no
/// blank line at its start, unlike a line between paragraphs.
fn lines_of_front_matter(text: &str) -> usize {
    let mut lines = text.lines().peekable();
    let has_start = lines.next() == Some("---") && lines.peek().is_some_and(|line| !line.trim().is_empty());
    let end = has_start.then(|| lines.position(|line| line == "---")).flatten();
    end.map_or(0, |end| end + 2)
}

/// Reports each conflict at its first marker.
pub(super) fn check_merge(path: &StorePath, text: &str, findings: &mut Findings<'_>) {
    let (mut start, mut has_middle) = (None, false);
    for (line, number) in text.lines().zip(1..) {
        if line.starts_with("<<<<<<< ") {
            (start, has_middle) = (Some(number), false);
        } else if line == "=======" {
            has_middle = start.is_some();
        } else if line.starts_with(">>>>>>> ") && has_middle {
            findings.add(LintRule::MergeMarker, path, start, "a conflict begins here; keep one of its two sides");
            (start, has_middle) = (None, false);
        }
    }
}
