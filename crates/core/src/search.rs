//! [`Search`]: finds text and names in any store.

pub(crate) mod pattern;
pub(crate) mod report;
mod run;
#[cfg(test)]
mod tests;
mod text;

use std::time::{Duration, SystemTime};

use crate::search::pattern::{LetterCase, Matcher, SearchError};
use crate::search::report::SearchReport;
use crate::search::run::SearchRun;
use crate::store::Store;
use crate::store::open::DEFAULT_TIMEOUT;
use crate::store::path::MemoryPath;
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
/// assert_eq!(found.to_string(), "/memories/profile.md\n2: Prefers green tea.\n\n/memories/tea/ (name)");
/// assert!(found.is_complete());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Behavior
/// 1. Lines end as in `view`. A final `\r` is removed. A match is within one line.
/// 2. A name is the last one in the path of a file or directory. A pattern with a slash is instead searched in the
///    paths of files below `/memories`, such as `/tea/shops.md`.
/// 3. By default, upper and lower case are equal if the pattern contains no capital letter.
/// 4. Results are in the order of paths and lines. Those over a limit are counted.
/// 5. Hidden items, as in `view`, are left out and counted, unless the search [includes](Self::hidden) them or is
///    [inside](Self::within) them.
/// 6. The report lists all files that could not be searched. The files are not a consistent snapshot.
/// 7. A search is not a use of a file that expires.
#[derive(Clone, Debug, PartialEq)]
#[must_use]
pub struct Search {
    pattern: String,
    is_regex: bool,
    case: LetterCase,
    within: Vec<MemoryPath>,
    since: Option<SystemTime>,
    before: Option<SystemTime>,
    in_names: bool,
    in_text: bool,
    includes_hidden: bool,
    context: (usize, usize),
    paths_only: bool,
    max_matches: usize,
    max_characters: usize,
    max_line_characters: usize,
    max_bytes: u64,
    timeout: Duration,
}

impl Search {
    /// Creates a search for these exact words with the default options.
    pub fn new(pattern: impl Into<String>) -> Self {
        Self {
            pattern: pattern.into(),
            is_regex: false,
            case: LetterCase::Smart,
            within: Vec::new(),
            since: None,
            before: None,
            in_names: true,
            in_text: true,
            includes_hidden: false,
            context: (0, 0),
            paths_only: false,
            max_matches: DEFAULT_MAX_MATCHES,
            max_characters: DEFAULT_MAX_VIEW_CHARACTERS,
            max_line_characters: DEFAULT_MAX_LINE_CHARACTERS,
            max_bytes: DEFAULT_MAX_SEARCHED_BYTES,
            timeout: DEFAULT_TIMEOUT,
        }
    }

    /// Reads the pattern as a regular expression, in the syntax of the crate `regex`. Its size is limited.
    pub fn regex(mut self) -> Self {
        self.is_regex = true;
        self
    }

    /// Sets whether upper and lower case differ.
    pub fn case(mut self, case: LetterCase) -> Self {
        self.case = case;
        self
    }

    /// Searches this file or directory. Call it again for more of them. The default is the whole memory.
    pub fn within(mut self, path: MemoryPath) -> Self {
        self.within.push(path);
        self
    }

    /// Searches only files that were changed at this time or later.
    pub fn since(mut self, since: SystemTime) -> Self {
        self.since = Some(since);
        self
    }

    /// Searches only files that were last changed before this time.
    pub fn before(mut self, before: SystemTime) -> Self {
        self.before = Some(before);
        self
    }

    /// Searches only names, which reads no file.
    pub fn names_only(mut self) -> Self {
        (self.in_names, self.in_text) = (true, false);
        self
    }

    /// Searches only lines.
    pub fn text_only(mut self) -> Self {
        (self.in_names, self.in_text) = (false, true);
        self
    }

    /// Includes hidden items: those whose names start with a dot, and `node_modules`.
    pub fn hidden(mut self) -> Self {
        self.includes_hidden = true;
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

    /// Searches a store. The future yields after each millisecond, or up to two seconds for the slowest regular
    /// expressions, and can be dropped at any time.
    ///
    /// # Errors
    /// [`SearchError`] if the pattern is invalid, a [path](Self::within) does not exist, or the store fails.
    pub async fn run(&self, store: &(impl Store + ?Sized)) -> Result<SearchReport, SearchError> {
        let matcher = Matcher::new(&self.pattern, self.is_regex, self.case)?;
        SearchRun::new(self, &matcher).run(store).await
    }
}
