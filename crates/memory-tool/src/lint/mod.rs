//! [`Memory::lint`]: finds text that Claude misreads or does not see.

mod hidden;
mod links;
mod names;
mod repeated;
mod rule;
#[cfg(test)]
mod tests;
mod views;

use std::collections::{BTreeMap, BTreeSet};
use std::pin::pin;

use futures::stream::StreamExt as _;
use memory_tool_core::{FileEntry, MemoryPath, Node, ReadOptions, Store, StoreError, StorePath};
use serde::Serialize;

use crate::lint::names::Names;
use crate::lint::repeated::Paragraphs;
pub use crate::lint::rule::{LintRule, UnknownLintRule};
use crate::memory::Memory;
use crate::transfer::source::{ReadOutcome, Source, reading_failed};

/// The default limit of findings of each rule.
pub const DEFAULT_MAX_LINT_FINDINGS: usize = 1_000;

/// The findings of a rule in one file, so that a file with many does not hide those of others.
const MAX_OF_FILE: usize = 20;

/// The rules of [`Memory::lint`] and its limits. By default, all rules are on.
#[derive(Clone, Debug, Eq, PartialEq)]
#[must_use]
#[non_exhaustive]
pub struct LintOptions {
    only: BTreeSet<LintRule>,
    off: BTreeSet<LintRule>,
    within: Vec<MemoryPath>,
    max_findings: usize,
}

impl Default for LintOptions {
    fn default() -> Self {
        Self {
            only: BTreeSet::new(),
            off: BTreeSet::new(),
            within: Vec::new(),
            max_findings: DEFAULT_MAX_LINT_FINDINGS,
        }
    }
}

impl LintOptions {
    /// Creates the default options.
    pub fn new() -> Self {
        Self::default()
    }

    /// Turns a rule off.
    pub fn off(mut self, rule: LintRule) -> Self {
        self.off.insert(rule);
        self
    }

    /// Turns all rules off that are not named in this way. Call it again for more of them.
    pub fn only(mut self, rule: LintRule) -> Self {
        self.only.insert(rule);
        self
    }

    /// Reports only this file, or the files of this directory. Call it again for more of them. All files are read,
    /// because they can name or repeat each other.
    pub fn within(mut self, path: MemoryPath) -> Self {
        self.within.push(path);
        self
    }

    /// Sets the limit of findings of each rule. One file has at most 20 of them. Default:
    /// [`DEFAULT_MAX_LINT_FINDINGS`].
    pub fn max_findings(mut self, findings: usize) -> Self {
        self.max_findings = findings;
        self
    }

    fn is_on(&self, rule: LintRule) -> bool {
        (self.only.is_empty() || self.only.contains(&rule)) && !self.off.contains(&rule)
    }

    fn reports(&self, path: &StorePath) -> bool {
        self.within.is_empty() || self.within.iter().any(|place| **place == *path || path.is_under(place))
    }
}

/// The result of [`Memory::lint`].
#[derive(Clone, Debug, Default, Eq, PartialEq, Serialize)]
#[non_exhaustive]
#[must_use = "it contains the findings"]
pub struct LintReport {
    /// The number of files whose text was checked.
    pub files: u64,
    /// The number of items whose text was not checked, because they cannot be read or are not text.
    pub skipped: u64,
    /// The findings, sorted by path, line and rule.
    pub findings: Vec<LintFinding>,
    /// The number of findings that are not in `findings` because of the limit.
    pub more: u64,
}

/// A place in a memory that breaks a rule.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
#[non_exhaustive]
pub struct LintFinding {
    /// The rule.
    pub rule: LintRule,
    /// The file, or a directory for [`LintRule::CutListing`] and [`LintRule::Case`].
    pub path: StorePath,
    /// The 1-based number of the line, if it is about a line.
    pub line: Option<u64>,
    /// The reason, which can contain a part of the text. It never contains a secret.
    pub message: String,
}

impl Memory {
    /// Finds text that Claude misreads or does not see, in the files that the policies show. It changes nothing, and is
    /// not a use of a file that expires. Files that change at the same time can cause wrong findings.
    ///
    /// ```
    /// use memory_tool::Memory;
    /// use memory_tool::lint::{LintOptions, LintRule};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let memory = Memory::open("in-process:").await?;
    /// memory.write("/memories/MEMORY.md", "- [Ada](ada.md)").await?;
    /// let report = memory.lint(&LintOptions::new().off(LintRule::Secret)).await?;
    /// assert_eq!((report.findings[0].rule, report.findings[0].line), (LintRule::BrokenLink, Some(1)));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`StoreError::NotFound`] if a path of the options does not exist, and [`StoreError::Failure`] if the memory
    /// cannot be read.
    pub async fn lint(&self, options: &LintOptions) -> Result<LintReport, StoreError> {
        let store = self.store();
        check_places(options, &store).await?;
        let mut listing = store.read_opts(&StorePath::memories(), ReadOptions::new()).await?.into_listing();
        listing.files.sort_unstable_by(|one, other| one.path.cmp(&other.path));
        let mut findings = Findings { options, report: LintReport::default(), numbers: BTreeMap::new() };
        findings.report.skipped = listing.unlisted.len() as u64;
        views::check_listing(&listing, &mut findings);
        let files = &listing.files;
        let (mut names, mut paragraphs) = (Names::new(files), Paragraphs::default());
        names::check_case(files, &mut findings);
        let options = ReadOptions::new().for_command(ReadOptions::SEARCH).allow_stale();
        let source = Source { store, options };
        let mut reads = pin!(source.read_all(files));
        for (number, FileEntry { path, .. }) in files.iter().enumerate() {
            let Some(text) = text_of(reads.next().await.transpose().map_err(reading_failed)?) else {
                findings.report.skipped += 1;
                continue;
            };
            findings.report.files += 1;
            views::check(path, &text, &mut findings);
            links::check(number, path, &text, &mut names, &mut findings);
            names.find_in(number, &text, &findings);
            paragraphs.check(number, &text, files, &mut findings);
            repeated::check_merge(path, &text, &mut findings);
            hidden::check(path, &text, &mut findings);
            tokio::task::yield_now().await;
        }
        names.check_orphans(&mut findings);
        let key = |found: &LintFinding| (found.path.clone(), found.line, found.rule);
        findings.report.findings.sort_by_cached_key(key);
        Ok(findings.report)
    }
}

/// The first missing path of the options is an error.
async fn check_places(options: &LintOptions, store: &impl Store) -> Result<(), StoreError> {
    for place in &options.within {
        let read = store.read_opts(place, ReadOptions::new().for_command(ReadOptions::SEARCH)).await;
        if matches!(read, Ok(Node::Absent)) {
            return Err(StoreError::NotFound { path: place.into() });
        }
    }
    Ok(())
}

/// The text of a file, if it is text and can be read.
fn text_of(read: Option<ReadOutcome>) -> Option<String> {
    let Some(ReadOutcome::File(file)) = read else { return None };
    String::from_utf8(file.content).ok().filter(|text| !text.contains('\0'))
}

/// Collects the findings, up to the limit of each rule.
struct Findings<'a> {
    options: &'a LintOptions,
    report: LintReport,
    numbers: BTreeMap<LintRule, Numbers>,
}

/// The findings of a rule, in all files and in the last one.
#[derive(Default)]
struct Numbers {
    all: usize,
    of_file: usize,
    file: Option<StorePath>,
}

impl Findings<'_> {
    fn is_on(&self, rule: LintRule) -> bool {
        self.options.is_on(rule)
    }

    fn add(&mut self, rule: LintRule, path: &StorePath, line: Option<u64>, message: impl Into<String>) {
        if !self.is_on(rule) || !self.options.reports(path) {
            return;
        }
        let numbers = self.numbers.entry(rule).or_default();
        if numbers.file.as_ref() != Some(path) {
            (numbers.file, numbers.of_file) = (Some(path.clone()), 0);
        }
        if numbers.all >= self.options.max_findings || numbers.of_file >= MAX_OF_FILE {
            self.report.more += 1;
            return;
        }
        (numbers.all, numbers.of_file) = (numbers.all + 1, numbers.of_file + 1);
        self.report.findings.push(LintFinding { rule, path: path.clone(), line, message: message.into() });
    }
}

/// Finds the lines of positions that do not decrease.
struct Lines<'a> {
    text: &'a str,
    position: usize,
    line: u64,
}

impl<'a> Lines<'a> {
    fn new(text: &'a str) -> Self {
        Self { text, position: 0, line: 1 }
    }

    /// The line of a position in bytes.
    fn at(&mut self, position: usize) -> u64 {
        let passed = self.text.as_bytes().get(self.position..position).unwrap_or_default();
        self.line += passed.iter().filter(|byte| **byte == b'\n').count() as u64;
        self.position = self.position.max(position);
        self.line
    }
}

/// Whether `view` lists a name.
fn is_visible(name: &str) -> bool {
    !name.starts_with('.') && name != "node_modules"
}

/// Whether a file is an index, which Claude Code loads.
fn is_index(path: &StorePath) -> bool {
    matches!(path.file_name(), Some("MEMORY.md" | "index.md"))
}

/// `1 line`, `2 lines`.
fn count(number: u64, noun: &str) -> String {
    format!("{number} {noun}{}", if number == 1 { "" } else { "s" })
}
