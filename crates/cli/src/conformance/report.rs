//! Printing the report of a run.

use std::io;

use memory_tool::conformance::Report;
use memory_tool::is_unprintable;
use serde::Serialize;

use crate::arguments::values::ReportFormat;
use crate::conformance::{junit, markdown};
use crate::escapes::escape;
use crate::failure::Failure;
use crate::output::write_line;

/// Prints a report.
pub(super) fn print(report: &Report, format: ReportFormat) -> Result<(), Failure> {
    let text = match format {
        ReportFormat::Table => for_people(&report.to_string()),
        ReportFormat::Markdown => for_people(&markdown::to_markdown(report)),
        ReportFormat::Json => to_json(report)?,
        ReportFormat::Junit => junit::to_xml(report)?,
    };
    write(text)
}

/// Escapes unprintable characters: a failure quotes the output of the program, which must not control the terminal.
fn for_people(text: &str) -> Vec<u8> {
    escape(text, |character| is_unprintable(character) && character != '\n').into_bytes()
}

/// Pretty-printed JSON.
pub(super) fn to_json(value: &impl Serialize) -> Result<Vec<u8>, Failure> {
    serde_json::to_vec_pretty(value).map_err(|error| Failure::Output(io::Error::from(error)))
}

/// Writes to standard output.
pub(super) fn write(text: Vec<u8>) -> Result<(), Failure> {
    write_line(&mut io::stdout().lock(), text).map(|_| ())
}
