//! [`SearchReport`]: the result of a search.

use std::fmt;
use std::ops::Range;

use serde::Serialize;

use crate::store::store_path::StorePath;

/// The result of a [`Search`](crate::Search), with its limits and skipped items.
///
/// `Display` returns plain text for a model.
#[derive(Clone, Debug, Default, Eq, PartialEq, Serialize)]
#[non_exhaustive]
#[must_use = "it contains the matches found"]
pub struct SearchReport {
    /// The files and directories with matches, sorted by path.
    pub results: Vec<FoundPath>,
    /// The number of all matching names and lines.
    pub matches: u64,
    /// The number of matches that are not in `results` because of a limit.
    pub more_matches: u64,
    /// The number of files and directories that are not in `results` because of a limit.
    pub more_paths: u64,
    /// The number of files whose text was searched.
    pub searched: u64,
    /// The items that could not be searched, sorted by path. There are at most 100.
    pub skipped: Vec<SkippedItem>,
    /// The number of items that are not in `skipped`.
    pub more_skipped: u64,
    /// The number of hidden items, which were not searched.
    pub hidden: u64,
    /// The number of files that were not searched because the time of their last change is unknown.
    pub undated: u64,
    /// The number of files whose text was not completely searched because the search stopped.
    pub unsearched: u64,
    /// The reason why the search stopped early.
    pub stopped: Option<StopReason>,
}

/// A file or directory with matches.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
#[non_exhaustive]
pub struct FoundPath {
    /// The path.
    pub path: StorePath,
    /// Whether it is a directory. Only its name is searched.
    pub is_directory: bool,
    /// Whether its name matches.
    pub is_name_match: bool,
    /// The matches in `path`, in bytes, to highlight them.
    #[serde(skip)]
    pub name_matches: Vec<Range<usize>>,
    /// The number of all matching lines.
    pub matches: u64,
    /// The shown lines, in order.
    pub lines: Vec<FoundLine>,
}

/// A line of a file that matches, or that is near one.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
#[non_exhaustive]
pub struct FoundLine {
    /// The 1-based number of the line.
    pub number: usize,
    /// Whether the line matches. Otherwise it is context.
    pub is_match: bool,
    /// The line, or a part of it.
    pub text: String,
    /// The number of characters before the part.
    pub cut_before: usize,
    /// The number of characters after the part.
    pub cut_after: usize,
    /// The matches in `text`, in bytes, to highlight them.
    #[serde(skip)]
    pub matches: Vec<Range<usize>>,
}

/// An item that could not be searched.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd, Serialize)]
#[non_exhaustive]
pub struct SkippedItem {
    /// The path, with unprintable characters escaped.
    pub path: String,
    /// The reason.
    pub reason: SkipReason,
}

/// The reason why an item was not searched.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum SkipReason {
    /// It is not UTF-8 text, or contains U+0000.
    NotText,
    /// The store refuses to read it, usually because it is too large.
    TooLarge,
    /// It cannot be read, for example because it is damaged.
    Unreadable,
    /// Another program gave it a name that no path can contain (`[V1]`).
    IllegalName,
    /// It has a line of more than 64 KiB, in which a regular expression is not searched. Its other lines were searched.
    LongLine,
}

impl SkipReason {
    const ALL: [Self; 5] = [Self::NotText, Self::TooLarge, Self::Unreadable, Self::IllegalName, Self::LongLine];

    /// The reason in words.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::NotText => "not text",
            Self::TooLarge => "too large to read",
            Self::Unreadable => "unreadable",
            Self::IllegalName => "with an illegal name",
            Self::LongLine => "with a line that is too long for a regular expression",
        }
    }
}

/// The reason why a search stopped early.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum StopReason {
    /// It read the [limit](crate::Search::max_bytes) of bytes.
    Bytes,
    /// Its [time](crate::Search::timeout) was over.
    Timeout,
}

/// The most skipped items of a report.
pub(super) const MAX_SKIPPED: usize = 100;
/// The most paths of skipped items in one note.
const MAX_NOTED: usize = 5;

impl SearchReport {
    /// Whether everything but hidden items was searched and is in the report.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.more_matches + self.undated + self.unsearched == 0 && self.skipped.is_empty()
    }

    /// Describes the limits and the skipped items in sentences, for people and models.
    #[must_use]
    pub fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        if self.more_matches > 0 {
            let (matches, paths) = (count(self.more_matches, "more match"), count(self.more_paths, "path"));
            let of_paths = format!(", including {paths} with no match shown");
            notes.push(format!("{matches} not shown{}.", if self.more_paths > 0 { of_paths.as_str() } else { "" }));
        }
        if let Some(stopped) = self.stopped {
            let reason = match stopped {
                StopReason::Bytes => "the search reached its limit of bytes",
                StopReason::Timeout => "the search took too long",
            };
            notes.push(format!("{} not searched: {reason}.", count(self.unsearched, "file")));
        }
        for reason in SkipReason::ALL {
            let paths: Vec<_> = self.skipped.iter().filter(|item| item.reason == reason).collect();
            if !paths.is_empty() {
                let mut listed = paths.iter().take(MAX_NOTED).map(|item| item.path.as_str()).collect::<Vec<_>>();
                if paths.len() > MAX_NOTED {
                    listed.push("...");
                }
                let items = count(paths.len() as u64, "item");
                notes.push(format!("{items} not searched, {}: {}.", reason.as_str(), listed.join(", ")));
            }
        }
        if self.more_skipped > 0 {
            notes.push(format!("{} could not be searched.", count(self.more_skipped, "more item")));
        }
        if self.undated > 0 {
            let files = count(self.undated, "file");
            notes.push(format!("{files} not searched: the time of the last change is unknown."));
        }
        if self.hidden > 0 {
            notes.push(format!("{} not searched.", count(self.hidden, "hidden item")));
        }
        notes
    }

    pub(super) fn skip(&mut self, path: String, reason: SkipReason) {
        if self.skipped.len() < MAX_SKIPPED {
            self.skipped.push(SkippedItem { path, reason });
        } else {
            self.more_skipped += 1;
        }
    }
}

fn count(number: u64, noun: &str) -> String {
    let plural = if noun.ends_with("ch") { "es" } else { "s" };
    format!("{number} {noun}{}", if number == 1 { "" } else { plural })
}

impl fmt::Display for SearchReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.matches == 0 {
            f.write_str("No matches.")?;
        }
        for (index, found) in self.results.iter().enumerate() {
            f.write_str(if index > 0 { "\n\n" } else { "" })?;
            found.fmt(f)?;
        }
        let notes = self.notes();
        if !notes.is_empty() {
            f.write_str("\n")?;
        }
        notes.iter().try_for_each(|note| write!(f, "\n[{note}]"))
    }
}

/// The path, and the lines as `grep` numbers them: a colon after the number of a match, and a hyphen after context.
impl fmt::Display for FoundPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let slash = if self.is_directory { "/" } else { "" };
        write!(f, "{}{slash}", self.path)?;
        if self.is_name_match {
            f.write_str(" (name)")?;
        }
        if self.lines.is_empty() && self.matches > 0 {
            write!(f, " ({})", count(self.matches, "match"))?;
        }
        let mut last = None;
        for line in &self.lines {
            if last.is_some_and(|last| line.number > last + 1) && self.lines.iter().any(|line| !line.is_match) {
                f.write_str("\n--")?;
            }
            write!(f, "\n{}{} {line}", line.number, if line.is_match { ':' } else { '-' })?;
            last = Some(line.number);
        }
        Ok(())
    }
}

/// The text, with a note where it was cut.
impl fmt::Display for FoundLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&cut_note(self.cut_before))?;
        f.write_str(&self.text)?;
        f.write_str(&cut_note(self.cut_after))
    }
}

fn cut_note(characters: usize) -> String {
    if characters == 0 { String::new() } else { format!("[... {} ...]", count(characters as u64, "character")) }
}
