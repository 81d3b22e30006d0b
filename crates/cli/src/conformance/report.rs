//! Printing the report of a run.

use std::io;

use memory_tool::conformance::Report;

use crate::arguments::values::ReportFormat;
use crate::conformance::markdown;
use crate::escapes::escape_except_line_feeds;
use crate::failure::Failure;
use crate::output::{to_pretty_json, write_line};

/// Prints a report.
pub(super) fn print(report: &Report, format: ReportFormat) -> Result<(), Failure> {
    let text = match format {
        ReportFormat::Table => escape_except_line_feeds(&report.to_string()).into_bytes(),
        ReportFormat::Markdown => escape_except_line_feeds(&markdown::to_markdown(report)).into_bytes(),
        ReportFormat::Json => to_pretty_json(&io::stdout(), report)?,
    };
    write(text)
}

/// Writes to standard output.
pub(super) fn write(text: Vec<u8>) -> Result<(), Failure> {
    write_line(&mut io::stdout().lock(), text).map(|_| ())
}
