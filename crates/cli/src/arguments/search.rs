//! The arguments of `search`.

use std::time::{Duration, SystemTime};

use clap::Args;
use memory_tool::MemoryPath;
use memory_tool::search::{DEFAULT_MAX_LINE_CHARACTERS, LetterCase, Search};

use crate::arguments::MemoryArgument;
use crate::arguments::values::{Age, Point, memory_path};

/// The default limit of printed matches, since people can scroll and pipe.
const DEFAULT_LIMIT: usize = 1_000;

#[derive(Args, Debug)]
pub(crate) struct SearchArguments {
    /// The words to find, or a regular expression
    pattern: String,

    /// Search only these files and directories
    #[arg(value_parser = memory_path)]
    path: Vec<MemoryPath>,

    /// PATTERN is a regular expression
    #[arg(short = 'e', long)]
    regex: bool,

    /// Ignore case, as without capital letters in PATTERN
    #[arg(short, long, overrides_with = "case_sensitive")]
    ignore_case: bool,

    /// Distinguish case, as with a capital letter in PATTERN
    #[arg(short = 's', long)]
    case_sensitive: bool,

    /// Search only the names of files and directories
    #[arg(long, conflicts_with = "text")]
    names: bool,

    /// Search only the lines of files
    #[arg(long)]
    text: bool,

    /// Search hidden items and node_modules too
    #[arg(short = '.', long)]
    hidden: bool,

    /// Search only files changed at or after this
    #[arg(long, value_name = "TIME|AGE", value_parser = time)]
    since: Option<SystemTime>,

    /// Search only files last changed before this
    #[arg(long, value_name = "TIME|AGE", value_parser = time)]
    before: Option<SystemTime>,

    /// Search an earlier state, from the history
    #[arg(long, value_name = "ENTRY|TIME|AGE")]
    pub(crate) at: Option<Point>,

    /// Print N lines after each match
    #[arg(short = 'A', long, value_name = "N")]
    after_context: Option<usize>,

    /// Print N lines before each match
    #[arg(short = 'B', long, value_name = "N")]
    before_context: Option<usize>,

    /// Print N lines before and after each match
    #[arg(short = 'C', long, value_name = "N", default_value = "0", hide_default_value = true)]
    context: usize,

    /// Print only the paths of files with matches
    #[arg(short = 'l', long)]
    pub(crate) files_with_matches: bool,

    /// Print at most N matches
    #[arg(long, value_name = "N", default_value_t = DEFAULT_LIMIT)]
    limit: usize,

    /// Print N characters of a long line; 0 prints all
    #[arg(short = 'M', long, value_name = "N", default_value_t = DEFAULT_MAX_LINE_CHARACTERS)]
    max_columns: usize,

    /// Print one JSON value
    #[arg(long)]
    pub(crate) json: bool,

    #[command(flatten)]
    pub(crate) memory: MemoryArgument,
}

/// Parses a time, or how long ago it is.
pub(crate) fn time(given: &str) -> Result<SystemTime, &'static str> {
    let age = given.parse::<Age>().ok().and_then(|Age(age)| SystemTime::now().checked_sub(age));
    let time = humantime::parse_rfc3339_weak(given).ok().or(age);
    time.ok_or("expected a time such as 2026-11-26T10:00:00Z, or an age such as 24h")
}

impl SearchArguments {
    /// The numbers of lines before and after each match.
    pub(crate) fn context(&self) -> (usize, usize) {
        (self.before_context.unwrap_or(self.context), self.after_context.unwrap_or(self.context))
    }

    pub(crate) fn search(&self) -> Search {
        let search = self.path.iter().cloned().fold(Search::new(self.pattern.as_str()), Search::within);
        let search = self.since.into_iter().fold(search, Search::since);
        let search = self.before.into_iter().fold(search, Search::before);
        let set = |search: Search, option: bool, change: fn(Search) -> Search| {
            if option { change(search) } else { search }
        };
        let search = set(search, self.regex, Search::regex);
        let search = set(search, self.names, Search::names_only);
        let search = set(search, self.text, Search::text_only);
        let search = set(search, self.hidden, Search::hidden);
        let search = set(search, self.files_with_matches, Search::paths_only);
        let (before, after) = self.context();
        search
            .case(match (self.ignore_case, self.case_sensitive) {
                (true, _) => LetterCase::Ignored,
                (false, true) => LetterCase::Sensitive,
                (false, false) => LetterCase::Smart,
            })
            .context(before, after)
            .max_matches(self.limit)
            .max_line_characters(if self.max_columns == 0 { usize::MAX } else { self.max_columns })
            // A person can interrupt it.
            .max_characters(usize::MAX)
            .max_bytes(u64::MAX)
            .timeout(Duration::MAX)
    }
}
