//! Printing reports and lists of cases.

use std::fmt::Write as _;
use std::io;

use memory_tool::store::escape_unprintable;
use memory_tool_cli::failure::Failure;
use memory_tool_cli::terminal::output::{to_pretty_json, write_line};
use memory_tool_conformance::{Case, Report, Totals};

use crate::values::ReportFormat;

/// Prints a report.
pub(super) fn print_report(report: &Report, format: ReportFormat) -> Result<(), Failure> {
    write(match format {
        ReportFormat::Table => escape_except_line_feeds(&report.to_string()).into_bytes(),
        ReportFormat::Markdown => escape_except_line_feeds(&to_markdown(report)).into_bytes(),
        ReportFormat::Json => to_pretty_json(&io::stdout(), report)?,
    })
}

/// Prints the selected cases.
pub(super) fn print_cases(cases: &[Case], format: ReportFormat) -> Result<(), Failure> {
    match format {
        ReportFormat::Table => write(to_table(cases).into_bytes()),
        ReportFormat::Json => write(to_pretty_json(&io::stdout(), &cases)?),
        ReportFormat::Markdown => Err(Failure::new("--list supports only --format table and --format json")),
    }
}

fn write(text: Vec<u8>) -> Result<(), Failure> {
    write_line(&mut io::stdout().lock(), text).map(|_| ())
}

/// A report for people. A failure quotes the output of a program, which must not control the terminal.
fn escape_except_line_feeds(text: &str) -> String {
    text.split('\n').map(escape_unprintable).collect::<Vec<_>>().join("\n")
}

/// The report for pull requests and pages: a table of bases, the failures, the reasons of ignored cases and the totals.
fn to_markdown(report: &Report) -> String {
    let mut text = format!("Conformance suite {}\n\n", report.suite_version);
    text.push_str("| basis | | passed | failed | ignored |\n|---|---|--:|--:|--:|\n");
    for (basis, Totals { passed, failed, ignored, .. }) in &report.bases {
        let _ = writeln!(text, "| {basis} | {} | {passed} | {failed} | {ignored} |", basis.title());
    }
    for (case, failures) in report.failed() {
        let _ = write!(text, "\n**`{}`** {}\n\n", case.id, case.reason);
        // Indented, because a failure quotes the program, which could close a fence.
        for line in failures.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n").lines() {
            let _ = writeln!(text, "    {line}");
        }
    }
    let ignored = report.ignored().into_iter();
    let mut notes: Vec<_> =
        ignored.map(|(reason, ids)| format!("{} ignored: {}", ids.len(), escape_unprintable(reason))).collect();
    notes.extend(report.left_out_note());
    for note in notes {
        let _ = writeln!(text, "\n{note}");
    }
    let _ = write!(text, "\n{}", report.totals);
    text
}

fn to_table(cases: &[Case]) -> String {
    let rows: Vec<_> = cases.iter().map(columns).collect();
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or_default();
    let [of_id, of_clauses, of_basis, of_needs] = [0, 1, 2, 3].map(width);
    let line = |[id, clauses, basis, needs, reason]: &[String; 5]| {
        format!("{id:of_id$}  {clauses:of_clauses$}  {basis:of_basis$}  {needs:of_needs$}  {reason}")
    };
    rows.iter().map(line).collect::<Vec<_>>().join("\n")
}

fn columns(case: &Case) -> [String; 5] {
    let needs = if case.needs.is_empty() { "-".to_owned() } else { joined(&case.needs) };
    [case.id.clone(), joined(&case.clauses), joined(&case.bases), needs, case.reason.clone()]
}

fn joined(items: &[impl ToString]) -> String {
    items.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
}
