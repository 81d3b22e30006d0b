//! A report as JUnit XML, for continuous integration.

use std::collections::BTreeMap;
use std::io;
use std::time::Duration;

use memory_tool::conformance::{Basis, CaseResult, Failure as CaseFailure, Outcome, Report};
use quick_junit::{NonSuccessKind, Property, TestCase, TestCaseStatus, TestSuite};

use crate::escapes::escape_except_line_feeds;
use crate::failure::Failure;

/// The report as XML: a suite for each clause, a test for each case.
pub(crate) fn to_xml(report: &Report) -> Result<Vec<u8>, Failure> {
    let mut by_clause: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for result in &report.results {
        by_clause.entry(result.case.clause()).or_default().push(result);
    }
    let mut xml = quick_junit::Report::new("memory-tool conformance");
    xml.set_time(Duration::from_millis(report.milliseconds));
    for (clause, results) in by_clause {
        let name = clause.map_or_else(String::new, |clause| format!("{clause} {}", clause.title()));
        let mut suite = TestSuite::new(name);
        suite.set_time(results.iter().map(|result| Duration::from_millis(result.milliseconds)).sum());
        suite.add_test_cases(results.into_iter().map(to_test));
        xml.add_test_suite(suite);
    }
    let mut written = Vec::new();
    xml.serialize(&mut written).map_err(|error| Failure::Output(io::Error::other(error)))?;
    written.truncate(written.trim_ascii_end().len()); // the caller ends the line
    Ok(written)
}

fn to_test(result: &CaseResult) -> TestCase {
    let case = &result.case;
    let status = match &result.outcome {
        Outcome::Passed => TestCaseStatus::success(),
        Outcome::Ignored { reason } => {
            let mut skipped = TestCaseStatus::skipped();
            skipped.set_message(legal(reason));
            skipped
        }
        Outcome::Failed { failures } => failed(&case.reason, failures),
    };
    let mut test = TestCase::new(legal(&case.id), status);
    for basis in &case.bases {
        test.add_property(Property::new(basis.to_string(), verdict(result, *basis)));
    }
    test.set_classname(case.clause().map_or("", |clause| clause.id()));
    test.set_time(Duration::from_millis(result.milliseconds));
    test
}

/// The outcome of the checks of one basis.
fn verdict(result: &CaseResult, basis: Basis) -> &'static str {
    match result.outcome {
        Outcome::Ignored { .. } => "ignored",
        Outcome::Failed { .. } if result.failed_bases().contains(&basis) => "failed",
        Outcome::Failed { .. } | Outcome::Passed => "passed",
    }
}

fn failed(reason: &str, failures: &[CaseFailure]) -> TestCaseStatus {
    let message = failures.first().and_then(|failure| failure.message.lines().next()).unwrap_or_default();
    let text: Vec<_> = failures.iter().map(|failure| legal(&failure.to_string())).collect();
    let mut status = TestCaseStatus::non_success(NonSuccessKind::Failure);
    status.set_message(legal(message)).set_description(format!("{reason}\n\n{}", text.join("\n\n")));
    status
}

/// Escapes unprintable characters, and the two others that are invalid in XML and that the writer would drop.
fn legal(text: &str) -> String {
    escape_except_line_feeds(text).replace('\u{fffe}', "\\u{fffe}").replace('\u{ffff}', "\\u{ffff}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn characters_that_are_invalid_in_xml_are_escaped() {
        assert_eq!(legal("a\nb\u{1b}[2J\0\tc\u{ffff}\u{202e}é<&"), "a\nb\\u{1b}[2J\\u{0}\\tc\\u{ffff}\\u{202e}é<&");
    }
}
