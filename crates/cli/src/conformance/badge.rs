//! A badge with the totals of a run.

use std::fs;
use std::path::Path;

use memory_tool::conformance::{Report, Totals};
use serde_json::json;

use crate::failure::Failure;

/// Writes a badge in the format of shields.io's endpoint badges.
pub(crate) fn write(path: &Path, report: &Report) -> Result<(), Failure> {
    let Totals { passed, failed, .. } = report.totals;
    let badge = json!({
        "schemaVersion": 1,
        "label": "memory tool conformance",
        "message": format!("{passed} of {} cases", passed + failed),
        "color": if report.is_success() { "brightgreen" } else { "orange" },
    });
    fs::write(path, format!("{badge}\n")).map_err(|source| Failure::SuiteOutput { path: path.to_owned(), source })
}
