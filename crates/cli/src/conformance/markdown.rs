//! A report as Markdown, for pull requests and pages.

use std::fmt::Write as _;

use memory_tool::conformance::{Report, Totals};

/// The report: a table of bases, the failures and the totals.
pub(crate) fn to_markdown(report: &Report) -> String {
    let mut text = String::from("| basis | | passed | failed | ignored |\n|---|---|--:|--:|--:|\n");
    for (basis, Totals { passed, failed, ignored, .. }) in &report.bases {
        let _ = writeln!(text, "| {basis} | {} | {passed} | {failed} | {ignored} |", basis.title());
    }
    for (case, failures) in report.failed() {
        let _ = write!(text, "\n**`{}`** {}\n\n", case.id, case.reason);
        // Indented, because a failure quotes the program, which could close a fence.
        for line in
            failures.iter().flat_map(|failure| failure.to_string().lines().map(str::to_owned).collect::<Vec<_>>())
        {
            let _ = writeln!(text, "    {line}");
        }
    }
    let _ = write!(text, "\n{}", report.totals);
    text
}
