//! Tests of the suite itself: backends with one fault each must fail the cases that the fault lists, and other cases
//! only by chance. The full tier runs only the listed cases on each backend. The long tier runs all cases.

use std::collections::{BTreeMap, BTreeSet};

use libtest_mimic::{Failed, Trial};
use memory_tool_conformance::{DEFAULT_RACES, Report, Suite};
use memory_tool_test_fixtures::{Tier, by_tier};
use tokio::runtime::Runtime;

use crate::broken;

/// The most runs of one fault. Races fail by chance, so a listed case must fail in one of the runs, and any other case
/// must pass in one.
const RUNS: usize = 30;

pub(crate) fn trials() -> Vec<Trial> {
    let subjects = broken::all();
    let mut trials = vec![trial_of_names(subjects.iter().map(|(fault, _)| fault.clone()).collect())];
    trials.extend(
        broken::without_fault().into_iter().map(|(name, suite)| Trial::test(name, || expect_no_failure(suite))),
    );
    trials.extend(
        subjects.into_iter().map(|(fault, suite)| Trial::test(fault.clone(), move || expect_failures(&fault, suite))),
    );
    trials
}

fn run(suite: &Suite) -> Report {
    Runtime::new().unwrap().block_on(suite.run())
}

/// Checks that each described fault has a backend, and that each case detects a fault.
fn trial_of_names(built: BTreeSet<String>) -> Trial {
    Trial::test("every-fault-is-built-and-every-case-detects-one", move || {
        let described: BTreeSet<_> = Suite::faults().into_iter().map(|fault| fault.name).collect();
        expect_same("described", &described, "built", &built)?;
        let ids: BTreeSet<_> = Suite::all_cases().into_iter().map(|case| case.id).collect();
        let named: BTreeSet<_> = Suite::faults().into_iter().flat_map(|fault| fault.cases).collect();
        expect_same("cases of the suite", &ids, "cases of the faults", &named)
    })
}

/// Checks that the backend without a fault passes all cases, so that failures are due to the fault.
fn expect_no_failure(suite: Suite) -> Result<(), Failed> {
    let report = run(&suite.races(by_tier(DEFAULT_RACES / 5, DEFAULT_RACES)));
    if report.is_success() { Ok(()) } else { Err(report.to_string().into()) }
}

fn expect_failures(fault: &str, suite: Suite) -> Result<(), Failed> {
    let faults = Suite::faults();
    let named = faults.into_iter().find(|known| known.name == fault).map(|fault| fault.cases).unwrap_or_default();
    let named: BTreeSet<_> = named.into_iter().collect();
    let suite = if Tier::current() == Tier::Long { suite } else { named.iter().fold(suite, Suite::filter) };
    let mut failures: BTreeMap<String, usize> = BTreeMap::new();
    let mut failed = BTreeSet::new();
    for runs in 1..=RUNS {
        for (case, _) in run(&suite).failed() {
            *failures.entry(case.id.clone()).or_default() += 1;
        }
        let counts = |case: &String, times: usize| named.contains(case) || times == runs;
        failed = failures.iter().filter(|(case, times)| counts(case, **times)).map(|(case, _)| case.clone()).collect();
        if failed == named {
            break;
        }
    }
    expect_same("failed", &failed, "named", &named)
}

fn expect_same(
    left_name: &str,
    left: &BTreeSet<String>,
    right_name: &str,
    right: &BTreeSet<String>,
) -> Result<(), Failed> {
    if left == right {
        return Ok(());
    }
    let only = |of: &BTreeSet<String>, other: &BTreeSet<String>| of.difference(other).cloned().collect::<Vec<_>>();
    let (only_left, only_right) = (only(left, right), only(right, left));
    Err(format!("{left_name} but not {right_name}: {only_left:?}\n{right_name} but not {left_name}: {only_right:?}")
        .into())
}
