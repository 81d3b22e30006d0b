//! [`Search`]: finds text and names in any store.

pub(crate) mod pattern;
#[cfg(test)]
mod questions;
pub(crate) mod report;
mod run;
#[cfg(test)]
mod tests;
mod text;
mod words;

use std::time::Duration;

use serde::{Deserialize, Deserializer};

use crate::search::pattern::LetterCase;
use crate::store::moment::Moment;
use crate::store::open::DEFAULT_TIMEOUT;
use crate::store::path::MemoryPath;
use crate::store::path_rules::PathError;
use crate::tool::engine::DEFAULT_MAX_VIEW_CHARACTERS;

/// The default limit of shown matches.
pub const DEFAULT_MAX_MATCHES: usize = 100;
/// The default limit of shown characters of one line.
pub const DEFAULT_MAX_LINE_CHARACTERS: usize = 300;
/// The default limit of bytes that a search reads: 64 MiB.
pub const DEFAULT_MAX_SEARCHED_BYTES: u64 = 64 * 1024 * 1024;

/// A search for words or a regular expression in the names and lines of all files.
///
/// ```
/// use memory_tool_core::{InMemoryStore, Search, StoreExt};
///
/// # let runtime = tokio::runtime::Builder::new_current_thread().build()?;
/// # runtime.block_on(async {
/// let store = InMemoryStore::new();
/// store.write("/memories/profile.md", "Name: Ada\nPrefers green tea.\n").await?;
/// store.write("/memories/tea/shops.md", "Kyoto").await?;
/// let found = Search::new("tea").run(&store).await?;
/// assert_eq!(found.to_string(), "/memories/tea/ (name)\n\n/memories/profile.md\n2: Prefers green tea.");
/// assert!(found.is_complete());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Behavior
/// 1. Lines end as in `view`. A final `\r` is removed. A match is within one line.
/// 2. A name is the last one in the path of a file or directory. A pattern or word with a slash is instead searched in
///    the paths of files below `/memories`, such as `/tea/shops.md`.
/// 3. A file is found if its path and lines have all words. If lines have all words that the path lacks, only they
///    match; otherwise each line with a word does. A name matches if its path has all words, and it has at least one.
/// 4. A word is found in longer words. Upper and lower case, accents, forms of an apostrophe, a hyphen in the word, the
///    endings `ing`, `ed`, `es` and `s`, and separators of numbers with five digits make no difference. Double quotes
///    make a phrase.
/// 5. Results with matching names come first. All are in the order of paths and lines. Those over a limit are
///    counted.
/// 6. Hidden items, as in `view`, are left out and counted, unless the search [includes](Self::hidden) them or is
///    [inside](Self::within) them.
/// 7. The report lists all files that could not be searched. The files are not a consistent snapshot.
/// 8. A search is not a use of a file that expires.
///
/// # Data
/// A search can be read from data, such as `{"pattern": "tea", "within": ["/memories/drinks"], "since": "7d"}`. The
/// fields have the names of the methods, with [`only`](SearchedPart), and `context` as one number for both sides. Times
/// are [moments](crate::Moment). An invalid path is an error of [`run`](Self::run).
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[must_use]
#[serde(default, deny_unknown_fields)]
pub struct Search {
    pattern: String,
    regex: bool,
    case: LetterCase,
    same_line: bool,
    #[serde(deserialize_with = "paths")]
    within: Result<Vec<MemoryPath>, PathError>,
    since: Option<Moment>,
    before: Option<Moment>,
    only: Option<SearchedPart>,
    hidden: bool,
    #[serde(deserialize_with = "both_sides")]
    context: (usize, usize),
    paths_only: bool,
    max_matches: usize,
    max_characters: usize,
    max_line_characters: usize,
    #[serde(skip)]
    max_bytes: u64,
    #[serde(skip)]
    timeout: Duration,
}

/// The part of a memory that a [`Search`] looks at.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq)]
#[non_exhaustive]
#[serde(rename_all = "snake_case")]
pub enum SearchedPart {
    /// The names of files and directories. No file is read.
    Names,
    /// The lines of files.
    Text,
}

impl Default for Search {
    fn default() -> Self {
        Self {
            pattern: String::new(),
            regex: false,
            case: LetterCase::Ignored,
            same_line: false,
            within: Ok(Vec::new()),
            since: None,
            before: None,
            only: None,
            hidden: false,
            context: (0, 0),
            paths_only: false,
            max_matches: DEFAULT_MAX_MATCHES,
            max_characters: DEFAULT_MAX_VIEW_CHARACTERS,
            max_line_characters: DEFAULT_MAX_LINE_CHARACTERS,
            max_bytes: DEFAULT_MAX_SEARCHED_BYTES,
            timeout: DEFAULT_TIMEOUT,
        }
    }
}

impl Search {
    /// Creates a search for these words with the default options.
    pub fn new(pattern: impl Into<String>) -> Self {
        Self { pattern: pattern.into(), ..Self::default() }
    }

    /// Reads the pattern as a regular expression, in the syntax of the crate `regex`. Its size is limited.
    pub fn regex(mut self) -> Self {
        self.regex = true;
        self
    }

    /// Sets whether upper and lower case differ. If they do, so do accents, endings and separators.
    pub fn case(mut self, case: LetterCase) -> Self {
        self.case = case;
        self
    }

    /// Finds only lines and names that have all words.
    pub fn same_line(mut self) -> Self {
        self.same_line = true;
        self
    }

    /// Searches this file or directory. Call it again for more of them. The default is the whole memory.
    pub fn within(mut self, path: MemoryPath) -> Self {
        if let Ok(paths) = &mut self.within {
            paths.push(path);
        }
        self
    }

    /// Searches only files that were changed at this time or later.
    pub fn since(mut self, since: impl Into<Moment>) -> Self {
        self.since = Some(since.into());
        self
    }

    /// Searches only files that were last changed before this time.
    pub fn before(mut self, before: impl Into<Moment>) -> Self {
        self.before = Some(before.into());
        self
    }

    /// Searches only names, which reads no file.
    pub fn names_only(mut self) -> Self {
        self.only = Some(SearchedPart::Names);
        self
    }

    /// Searches only lines.
    pub fn text_only(mut self) -> Self {
        self.only = Some(SearchedPart::Text);
        self
    }

    /// Includes hidden items: those whose names start with a dot, and `node_modules`.
    pub fn hidden(mut self) -> Self {
        self.hidden = true;
        self
    }

    /// Shows this number of lines before and after each matching line.
    pub fn context(mut self, before: usize, after: usize) -> Self {
        self.context = (before, after);
        self
    }

    /// Shows the paths of files and their numbers of matches, but no lines. The limit of matches then applies to paths.
    pub fn paths_only(mut self) -> Self {
        self.paths_only = true;
        self
    }

    /// Sets the limit of shown matches. The default is [`DEFAULT_MAX_MATCHES`].
    pub fn max_matches(mut self, matches: usize) -> Self {
        self.max_matches = matches;
        self
    }

    /// Sets the limit of shown characters. The default is
    /// [`DEFAULT_MAX_VIEW_CHARACTERS`](crate::DEFAULT_MAX_VIEW_CHARACTERS).
    pub fn max_characters(mut self, characters: usize) -> Self {
        self.max_characters = characters;
        self
    }

    /// Sets the limit of shown characters of one line. A longer line is cut around its first match. The default is
    /// [`DEFAULT_MAX_LINE_CHARACTERS`].
    pub fn max_line_characters(mut self, characters: usize) -> Self {
        self.max_line_characters = characters;
        self
    }

    /// Sets the limit of bytes to read. The default is [`DEFAULT_MAX_SEARCHED_BYTES`].
    pub fn max_bytes(mut self, bytes: u64) -> Self {
        self.max_bytes = bytes;
        self
    }

    /// Sets the time after which the search stops. The default is [`DEFAULT_TIMEOUT`].
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }
}

fn paths<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Result<Vec<MemoryPath>, PathError>, D::Error> {
    let paths = Vec::<String>::deserialize(deserializer)?;
    Ok(paths.iter().map(|path| MemoryPath::parse(path)).collect())
}

fn both_sides<'de, D: Deserializer<'de>>(deserializer: D) -> Result<(usize, usize), D::Error> {
    usize::deserialize(deserializer).map(|lines| (lines, lines))
}
