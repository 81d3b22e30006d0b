//! [`Report`]: the results of a run of the suite.

use std::collections::BTreeSet;
use std::collections::btree_map::{BTreeMap, Entry};
use std::fmt;

use serde::Serialize;

use crate::case::{Basis, Capability, Case};
use crate::clause::Clause;
use crate::failure::{Failure, visible};

/// The results of a run of the suite.
///
/// Its `Display` output is a table with a line for each clause, followed by the failures and the ignored cases with
/// their reasons. A problem is shown once: other checks with it name the first case. Its serialized form contains every
/// case with its outcome.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct Report {
    /// The version of this crate.
    pub suite_version: String,
    /// The number of cases with each outcome.
    pub totals: Totals,
    /// The same for each basis: the cases that have such checks, and whether these checks passed.
    pub bases: BTreeMap<Basis, Totals>,
    /// The number of selected cases that no backend of this kind can run, by the first capability that it lacks.
    pub left_out: BTreeMap<Capability, usize>,
    /// The duration of the run in milliseconds.
    pub milliseconds: u64,
    /// The results of all selected cases, in the order of the table.
    pub results: Vec<CaseResult>,
}

/// The number of cases with each outcome.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Totals {
    /// The number of passed cases.
    pub passed: usize,
    /// The number of failed cases.
    pub failed: usize,
    /// The number of ignored cases.
    pub ignored: usize,
}

/// The result of a case.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct CaseResult {
    /// The case.
    #[serde(flatten)]
    pub case: Case,
    /// Its outcome.
    #[serde(flatten)]
    pub outcome: Outcome,
    /// Its duration in milliseconds.
    pub milliseconds: u64,
}

/// The result of a case.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
#[serde(tag = "outcome", rename_all = "snake_case")]
#[expect(clippy::exhaustive_enums, reason = "a case passes, fails or is ignored")]
pub enum Outcome {
    /// All checks passed.
    Passed,
    /// A check failed.
    Failed {
        /// The failed checks, up to three of each basis.
        failures: Vec<Failure>,
    },
    /// The backend lacks a capability that the case needs, or the caller excluded the case.
    Ignored {
        /// The reason.
        #[serde(rename = "lack")] // `reason` is a field of the case
        reason: String,
    },
}

impl Report {
    pub(crate) fn new(results: Vec<CaseResult>, left_out: BTreeMap<Capability, usize>, milliseconds: u64) -> Self {
        let mut totals = Totals::default();
        results.iter().for_each(|result| totals.add(&result.outcome));
        let suite_version = env!("CARGO_PKG_VERSION").to_owned();
        Self { suite_version, totals, bases: by_basis(&results), left_out, milliseconds, results }
    }

    /// Whether no case failed and at least one passed. A run with only ignored cases is not a success.
    pub fn is_success(&self) -> bool {
        self.totals.failed == 0 && self.totals.passed > 0
    }

    /// The failed cases with their failures.
    pub fn failed(&self) -> impl Iterator<Item = (&Case, &[Failure])> {
        self.results.iter().filter_map(|result| match &result.outcome {
            Outcome::Failed { failures } => Some((&result.case, failures.as_slice())),
            Outcome::Passed | Outcome::Ignored { .. } => None,
        })
    }

    /// A sentence about the cases that are left out, if there are any.
    pub fn left_out_note(&self) -> Option<String> {
        let count: usize = self.left_out.values().sum();
        let needs = self.left_out.iter().map(|(need, count)| format!("{need} ({count})"));
        let needs = needs.collect::<Vec<_>>().join(", ");
        (count > 0)
            .then(|| format!("{count} cases are left out, which this kind of backend cannot run: they need {needs}"))
    }

    /// The ids of the ignored cases, by reason.
    pub fn ignored(&self) -> BTreeMap<&str, Vec<&str>> {
        let mut ignored: BTreeMap<_, Vec<_>> = BTreeMap::new();
        for result in &self.results {
            if let Outcome::Ignored { reason } = &result.outcome {
                ignored.entry(reason.as_str()).or_default().push(result.case.id.as_str());
            }
        }
        ignored
    }

    fn by_clause(&self) -> BTreeMap<Clause, Totals> {
        let mut by_clause: BTreeMap<_, Totals> = BTreeMap::new();
        for result in &self.results {
            if let Some(clause) = result.case.clause() {
                by_clause.entry(clause).or_default().add(&result.outcome);
            }
        }
        by_clause
    }
}

fn by_basis(results: &[CaseResult]) -> BTreeMap<Basis, Totals> {
    let mut by_basis: BTreeMap<_, Totals> = BTreeMap::new();
    for result in results {
        let failed = result.failed_bases();
        for basis in &failed {
            by_basis.entry(*basis).or_default().failed += 1;
        }
        for basis in result.case.bases.iter().filter(|basis| !failed.contains(basis)) {
            let totals = by_basis.entry(*basis).or_default();
            match result.outcome {
                Outcome::Passed | Outcome::Failed { .. } => totals.passed += 1,
                Outcome::Ignored { .. } => totals.ignored += 1,
            }
        }
    }
    by_basis
}

impl CaseResult {
    /// The bases of the failed checks.
    pub fn failed_bases(&self) -> BTreeSet<Basis> {
        let Outcome::Failed { failures } = &self.outcome else { return BTreeSet::new() };
        let bases = failures.iter().flat_map(|failure| match &failure.basis {
            Some(basis) => std::slice::from_ref(basis),
            None => &self.case.bases,
        });
        bases.copied().collect()
    }
}

impl Totals {
    fn add(&mut self, outcome: &Outcome) {
        match outcome {
            Outcome::Passed => self.passed += 1,
            Outcome::Failed { .. } => self.failed += 1,
            Outcome::Ignored { .. } => self.ignored += 1,
        }
    }

    fn verdict(self) -> &'static str {
        match self {
            Self { failed: 1.., .. } => "FAILED",
            Self { passed: 0, .. } => "ignored",
            _ => "ok",
        }
    }
}

impl fmt::Display for Totals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { passed, failed, ignored } = self;
        write!(f, "{passed} passed, {failed} failed, {ignored} ignored")
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "conformance suite {}\n", self.suite_version)?;
        writeln!(f, "{:<8}{:<8}{:<44}{:>7}{:>7}{:>8}", "", "clause", "", "passed", "failed", "ignored")?;
        for (clause, totals) in self.by_clause() {
            let Totals { passed, failed, ignored } = totals;
            let verdict = totals.verdict();
            writeln!(f, "{verdict:<8}{clause:<8}{:<44}{passed:>7}{failed:>7}{ignored:>8}", clause.title())?;
        }
        writeln!(f, "\n{:<8}{:<52}{:>7}{:>7}{:>8}", "", "basis", "passed", "failed", "ignored")?;
        for (basis, totals) in &self.bases {
            let Totals { passed, failed, ignored } = totals;
            let (verdict, title) = (totals.verdict(), basis.title());
            writeln!(f, "{verdict:<8}{basis:<15}{title:<37}{passed:>7}{failed:>7}{ignored:>8}")?;
        }
        let mut shown = BTreeMap::new();
        for (case, failures) in self.failed() {
            writeln!(f, "\nFAILED {}: {}", case.id, case.reason)?;
            for failure in failures {
                match shown.entry(failure.problem()) {
                    Entry::Vacant(problem) => {
                        problem.insert(&case.id);
                        writeln!(f, "{}", indented(&failure.to_string()))?;
                    }
                    Entry::Occupied(problem) => writeln!(f, "    {}: as in {}", failure.check(), problem.get())?,
                }
            }
        }
        for (reason, ids) in self.ignored() {
            let cases = if ids.len() == 1 { "1 case".to_owned() } else { format!("{} cases", ids.len()) };
            writeln!(f, "\nignored {cases}: {}\n{}", visible(reason), wrapped(&ids))?;
        }
        if let Some(note) = self.left_out_note() {
            writeln!(f, "\n{note}")?;
        }
        write!(f, "\n{} in {:.1} s", self.totals, self.milliseconds as f64 / 1000.0)
    }
}

pub(crate) fn clause_ids(case: &Case) -> String {
    case.clauses.iter().map(|clause| clause.id()).collect::<Vec<_>>().join(" ")
}

fn indented(text: &str) -> String {
    text.lines().map(|line| format!("    {line}")).collect::<Vec<_>>().join("\n")
}

fn wrapped(words: &[&str]) -> String {
    const WIDTH: usize = 100;
    let mut lines = vec![String::from("   ")];
    for word in words {
        if lines.last().is_some_and(|line| line.len() + 1 + word.len() > WIDTH) {
            lines.push(String::from("   "));
        }
        if let Some(line) = lines.last_mut() {
            line.push(' ');
            line.push_str(word);
        }
    }
    lines.join("\n")
}
