//! [`KnownFailures`]: the cases that are expected to fail.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use memory_tool::conformance::{Outcome, Report, Suite};

use crate::failure::{Context as _, Failure, eprint_line};

/// The ids of the cases that are expected to fail.
pub(crate) struct KnownFailures(BTreeSet<String>);

impl KnownFailures {
    /// Reads a file with an id on each line. `#` starts a comment.
    pub(crate) fn read(path: &Path) -> Result<Self, Failure> {
        let text = fs::read_to_string(path).context(format!("cannot read {}", path.display()))?;
        let lines = text.lines().map(|line| line.split('#').next().unwrap_or_default().trim());
        let ids: BTreeSet<_> = lines.filter(|id| !id.is_empty()).map(str::to_owned).collect();
        let known: BTreeSet<_> = Suite::all_cases().into_iter().map(|case| case.id).collect();
        match ids.difference(&known).next() {
            Some(id) => Err(Failure::new(format!(
                "{}: there is no test case {id:?}; `memory-tool conformance --list` lists all cases",
                path.display()
            ))),
            None => Ok(Self(ids)),
        }
    }

    /// Writes the failures of a report, each with its reason as a comment.
    pub(crate) fn write(path: &Path, report: &Report) -> Result<(), Failure> {
        let lines: String = report.failed().map(|(case, _)| format!("{} # {}\n", case.id, case.reason)).collect();
        fs::write(path, lines).context(format!("cannot write {}", path.display()))
    }

    /// Whether exactly the known failures occurred, of the cases that ran. Differences are printed.
    pub(crate) fn match_report(&self, report: &Report) -> bool {
        let mut has_run = false;
        let mut matches = true;
        for result in &report.results {
            let is_known = self.0.contains(&result.case.id);
            let surprise = match result.outcome {
                Outcome::Failed { .. } if !is_known => Some("new failure"),
                Outcome::Passed if is_known => Some("a known failure passes"),
                Outcome::Failed { .. } | Outcome::Passed | Outcome::Ignored { .. } => None,
            };
            has_run |= !matches!(result.outcome, Outcome::Ignored { .. });
            if let Some(surprise) = surprise {
                matches = false;
                eprint_line(&format!("memory-tool: {surprise}: {}", result.case.id));
            }
        }
        has_run && matches
    }
}
