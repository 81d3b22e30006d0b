//! `memory-tool search`: finds words and regular expressions in a memory.

use std::io::{self, IsTerminal as _};
use std::ops::Range;
use std::time::Duration;

use clap::Args;
use memory_tool::MemoryPath;
use memory_tool::search::{DEFAULT_MAX_LINE_CHARACTERS, FoundLine, FoundPath, LetterCase, Search, SearchReport};
use memory_tool::store::Moment;

use crate::exit_status::ExitStatus;
use crate::failure::{Failure, eprint_line};
use crate::history;
use crate::memory::{Access, open_existing};
use crate::options::MemoryArgument;
use crate::options::values::{Point, memory_path};
use crate::terminal::escapes::{TerminalText, on_one_line};
use crate::terminal::interruption::{CLEANUP_TIME, run_until_interrupted};
use crate::terminal::output::{to_json, write_line, write_text};
use crate::terminal::pager::Colors;

/// The default limit of printed matches, since people can scroll and pipe.
const DEFAULT_LIMIT: usize = 1_000;

#[derive(Args, Debug)]
pub(crate) struct SearchArguments {
    /// Words that a file has, in any order, "phrases", or a regular expression
    pattern: String,

    /// Search only these files and directories
    #[arg(value_parser = memory_path)]
    path: Vec<MemoryPath>,

    /// PATTERN is a regular expression
    #[arg(short = 'e', long)]
    regex: bool,

    /// Find exactly these letters, in this case and with these accents
    #[arg(short = 's', long)]
    case: bool,

    /// The default, for those who are used to it
    #[arg(short, long, hide = true, overrides_with = "case")]
    ignore_case: bool,

    /// Find only lines and names with all words
    #[arg(long, conflicts_with = "regex")]
    lines: bool,

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
    #[arg(long, value_name = "TIME|AGE")]
    since: Option<Moment>,

    /// Search only files last changed before this
    #[arg(long, value_name = "TIME|AGE")]
    before: Option<Moment>,

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
        let search = set(search, self.lines, Search::same_line);
        let search = set(search, self.names, Search::names_only);
        let search = set(search, self.text, Search::text_only);
        let search = set(search, self.hidden, Search::hidden);
        let search = set(search, self.files_with_matches, Search::paths_only);
        let (before, after) = self.context();
        search
            .case(if self.case && !self.ignore_case { LetterCase::Sensitive } else { LetterCase::Ignored })
            .context(before, after)
            .max_matches(self.limit)
            .max_line_characters(if self.max_columns == 0 { usize::MAX } else { self.max_columns })
            // A person can interrupt it.
            .max_characters(usize::MAX)
            .max_bytes(u64::MAX)
            .timeout(Duration::MAX)
    }
}

/// The colors of ripgrep.
const PATH: &str = "35";
const NUMBER: &str = "32";
const MATCH: &str = "1;31";

/// Searches, and prints the matches. Limits and skipped items are reported on standard error.
pub(crate) fn run(arguments: &SearchArguments) -> Result<ExitStatus, Failure> {
    let report = run_until_interrupted(CLEANUP_TIME, search(arguments))?;
    if arguments.json {
        write_line(&mut io::stdout().lock(), to_json(&io::stdout(), &report)?)?;
    } else {
        let printer = Printer {
            is_terminal: io::stdout().is_terminal(),
            has_context: arguments.context() != (0, 0),
            colors: Colors::of_output(),
        };
        write_text(&mut io::stdout().lock(), printer.report(&report).as_bytes())?;
    }
    for note in report.notes() {
        eprint_line(&on_one_line(&format!("memory-tool: {note}")));
    }
    Ok(ExitStatus::of(report.matches > 0))
}

async fn search(arguments: &SearchArguments) -> Result<SearchReport, Failure> {
    let MemoryArgument { store, .. } = &arguments.memory;
    let memory = open_existing(&store.url, arguments.memory.options(), Access::Read).await?;
    let search = arguments.search();
    let Some(point) = arguments.at else { return memory.search(&search).await.map_err(Failure::other) };
    let past = history::past(point, &history::required(&memory).await?).await?;
    search.run(&past).await.map_err(Failure::other)
}

/// Prints results as ripgrep does: under a heading on a terminal, and otherwise with the path before each line.
struct Printer {
    is_terminal: bool,
    has_context: bool,
    colors: Colors,
}

impl Printer {
    fn report(&self, report: &SearchReport) -> String {
        let results: Vec<_> = report.results.iter().map(|found| self.found(found)).collect();
        let has_lines = report.results.iter().any(|found| !found.lines.is_empty());
        results.join(match (self.is_terminal, self.has_context) {
            (true, _) if has_lines => "\n",
            (false, true) => "--\n",
            _ => "",
        })
    }

    fn found(&self, found: &FoundPath) -> String {
        let slash = self.colors.paint(PATH, "/");
        let has_heading = self.is_terminal || found.is_name_match || found.lines.is_empty();
        let mut text = String::new();
        if has_heading {
            text += &self.highlighted(found.path.as_str(), &found.name_matches, PATH);
            text += if found.is_directory { &slash } else { "" };
            text.push('\n');
        }
        let mut last = None;
        for line in &found.lines {
            if self.has_context && last.is_some_and(|last| line.number > last + 1) {
                text += "--\n";
            }
            let mark = if line.is_match { ':' } else { '-' };
            if !self.is_terminal {
                text += found.path.as_str();
                text.push(mark);
            }
            text += &self.colors.paint(NUMBER, &line.number.to_string());
            text.push(mark);
            text += &self.line(line);
            text.push('\n');
            last = Some(line.number);
        }
        text
    }

    fn line(&self, line: &FoundLine) -> String {
        let cut = |characters: usize| if characters > 0 { format!("[... {characters} more]") } else { String::new() };
        let shown = self.highlighted(&line.text, &line.matches, "");
        format!("{}{shown}{}", cut(line.cut_before), cut(line.cut_after))
    }

    /// The text with its matches in their color. For a terminal, it is escaped.
    fn highlighted(&self, text: &str, matches: &[Range<usize>], color: &str) -> String {
        let mut escapes = TerminalText::default();
        let mut part = |range: Range<usize>, color: &str| {
            let part = &text[range];
            let part = if self.is_terminal { escapes.escape(part) } else { part.to_owned() };
            if part.is_empty() || color.is_empty() { part } else { self.colors.paint(color, &part) }
        };
        let mut shown = String::new();
        let mut end = 0;
        for range in matches {
            shown += &part(end..range.start, color);
            shown += &part(range.clone(), MATCH);
            end = range.end;
        }
        shown + &part(end..text.len(), color)
    }
}
