//! Listing the cases.

use std::io;

use memory_tool::conformance::Case;

use crate::arguments::values::ReportFormat;
use crate::conformance::report::write;
use crate::failure::Failure;
use crate::output::to_pretty_json;

/// Prints the selected cases.
pub(crate) fn print(cases: &[Case], format: ReportFormat) -> Result<(), Failure> {
    match format {
        ReportFormat::Table => write(to_table(cases).into_bytes()),
        ReportFormat::Json => write(to_pretty_json(&io::stdout(), &cases)?),
        ReportFormat::Markdown => Err(Failure::new("--list supports only --format table and --format json")),
    }
}

fn to_table(cases: &[Case]) -> String {
    let rows: Vec<_> = cases.iter().map(columns).collect();
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or_default();
    let widths = [width(0), width(1), width(2), width(3)];
    let line = |[id, clauses, basis, needs, reason]: &[String; 5]| {
        let [of_id, of_clauses, of_basis, of_needs] = widths;
        format!("{id:of_id$}  {clauses:of_clauses$}  {basis:of_basis$}  {needs:of_needs$}  {reason}")
    };
    rows.iter().map(line).collect::<Vec<_>>().join("\n")
}

fn columns(case: &Case) -> [String; 5] {
    let needs = match case.needs.as_slice() {
        [] => "-".to_owned(),
        needs => joined(needs),
    };
    [case.id.clone(), joined(&case.clauses), joined(&case.bases), needs, case.reason.clone()]
}

fn joined(items: &[impl ToString]) -> String {
    items.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
}
