//! [`KnownFailures`]: the checks that are expected to fail.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use memory_tool::store::escape_unprintable;
use memory_tool_cli::failure::{Context as _, Failure, eprint_line};
use memory_tool_conformance::{CaseResult, Outcome, Report, Suite};

use crate::NAME;

/// The checks that are expected to fail: each is the id of a case, with the clause, the step and the variant. An id
/// alone means any checks of its case.
pub(crate) struct KnownFailures(BTreeSet<String>);

impl KnownFailures {
    /// Reads a file with a check on each line. A comment starts with `#`, and may follow an id without a check.
    pub(crate) fn read(path: &Path) -> Result<Self, Failure> {
        let text = fs::read_to_string(path).context(format!("cannot read {}", path.display()))?;
        let lines = text.lines().map(|line| match line.trim().split_once([' ', '\t']) {
            Some((id, rest)) if rest.trim_start().starts_with('#') => id,
            _ => line.trim(),
        });
        let known: BTreeSet<_> =
            lines.filter(|line| !line.is_empty() && !line.starts_with('#')).map(str::to_owned).collect();
        let cases: BTreeSet<_> = Suite::all_cases().into_iter().map(|case| case.id).collect();
        match known.iter().map(|line| id_of(line)).find(|id| !cases.contains(*id)) {
            Some(id) => Err(Failure::new(format!(
                "{}: there is no test case {id:?}; `{NAME} --list` lists all cases",
                path.display()
            ))),
            None => Ok(Self(known)),
        }
    }

    /// Writes the failed checks of a report, for each case with its reason as a comment.
    pub(crate) fn write(path: &Path, report: &Report) -> Result<(), Failure> {
        let of_case = |result: &CaseResult| {
            let checks = failed_checks(result).into_iter().map(|check| check + "\n");
            [format!("# {}\n", result.case.reason)].into_iter().chain(checks).collect::<String>()
        };
        let failed = report.results.iter().filter(|result| matches!(result.outcome, Outcome::Failed { .. }));
        let lines: Vec<_> = failed.map(of_case).collect();
        fs::write(path, lines.join("\n")).context(format!("cannot write {}", path.display()))
    }

    /// Whether exactly the known failures occurred, of the cases that ran. Differences are printed.
    pub(crate) fn match_report(&self, report: &Report) -> bool {
        let ran = || report.results.iter().filter(|result| !matches!(result.outcome, Outcome::Ignored { .. }));
        let surprises: Vec<_> = ran().flat_map(|result| self.surprises(result)).collect();
        for surprise in &surprises {
            eprint_line(&format!("{NAME}: {}", escape_unprintable(surprise)));
        }
        ran().next().is_some() && surprises.is_empty()
    }

    fn surprises(&self, result: &CaseResult) -> Vec<String> {
        let failed = failed_checks(result);
        if self.0.contains(&result.case.id) {
            let passes = || format!("a known failure passes: {}", result.case.id);
            return failed.is_empty().then(passes).into_iter().collect();
        }
        let known: BTreeSet<_> = self.0.iter().filter(|line| id_of(line) == result.case.id).cloned().collect();
        let new = failed.difference(&known).map(|check| format!("new failure: {check}"));
        new.chain(known.difference(&failed).map(|check| format!("a known failure passes: {check}"))).collect()
    }
}

fn id_of(line: &str) -> &str {
    line.split(' ').next().unwrap_or_default()
}

/// The failed checks of a case, each on one line.
fn failed_checks(result: &CaseResult) -> BTreeSet<String> {
    let Outcome::Failed { failures } = &result.outcome else { return BTreeSet::new() };
    failures.iter().map(|failure| format!("{} {}", result.case.id, failure.check()).trim_end().to_owned()).collect()
}
