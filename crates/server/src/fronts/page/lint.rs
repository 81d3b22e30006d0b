//! The page of text that Claude misreads or does not see, as `memory-tool lint` finds it.

use std::time::Duration;

use askama::Template;
use memory_tool::lint::{LintFinding, LintOptions};

use tokio::time::timeout;

use super::look::LINES;
use super::text::visible;
use super::{Frame, Page, VisitedMemory, render};
use crate::http::error::ApiError;

/// The findings of each rule on a page.
const FINDINGS: usize = 100;

/// The time of a check, before proxies give up.
const TIME: Duration = Duration::from_secs(20);

#[derive(Template)]
#[template(path = "lint.html")]
struct Findings {
    frame: Frame,
    /// The number of checked files.
    checked: u64,
    skipped: u64,
    /// The findings that are not on the page.
    more: u64,
    files: Vec<File>,
}

/// A file or a directory with its findings.
struct File {
    path: String,
    findings: Vec<Finding>,
}

struct Finding {
    line: Option<u64>,
    rule: &'static str,
    message: String,
}

impl Finding {
    /// The number of lines before those of the page with a line.
    fn from(line: &u64) -> u64 {
        let (before, page) = (line.saturating_sub(1), LINES as u64);
        before - before % page
    }
}

pub(super) async fn lint(visited: VisitedMemory) -> Page {
    let (whole, options) = (visited.whole()?, LintOptions::new().max_findings(FINDINGS));
    let too_long = |_| ApiError::unavailable("the check takes more than 20 seconds; `memory-tool lint` has no limit");
    let report = timeout(TIME, whole.lint(&options)).await.map_err(too_long)??;
    let mut files: Vec<File> = Vec::new();
    for LintFinding { rule, path, line, message, .. } in report.findings {
        let finding = Finding { line, rule: rule.name(), message: visible(&message) };
        match files.last_mut().filter(|file| file.path == path.as_str()) {
            Some(file) => file.findings.push(finding),
            None => files.push(File { path: path.to_string(), findings: vec![finding] }),
        }
    }
    let frame = Frame::of(&visited, "Check");
    render(&Findings { frame, checked: report.files, skipped: report.skipped, more: report.more, files })
}
