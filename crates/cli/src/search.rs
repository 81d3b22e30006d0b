//! `memory-tool search`: finds words and regular expressions in a memory.

use std::io::{self, IsTerminal as _};
use std::ops::Range;

use memory_tool::search::{FoundLine, FoundPath, SearchReport};

use crate::arguments::search::SearchArguments;
use crate::escapes::{TerminalText, on_one_line};
use crate::exit_status::ExitStatus;
use crate::failure::{Failure, eprint_line};
use crate::history;
use crate::interruption::{CLEANUP_TIME, run_until_interrupted};
use crate::memory;
use crate::output::{to_json, write_line, write_text};
use crate::pager::Colors;

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
    memory::refuse_temporary(&arguments.memory.store.url)?;
    let mut options = arguments.memory.options();
    (options.must_exist, options.read_only) = (true, true);
    let memory = memory::open(&arguments.memory.store.url, &options).await?;
    let search = arguments.search();
    let Some(point) = arguments.at else { return memory.search(&search).await.map_err(Failure::other) };
    let past = history::past(point, history::required(memory.history().as_ref())?).await?;
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
