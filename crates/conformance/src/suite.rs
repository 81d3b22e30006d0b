//! [`Suite`]: selects and runs cases.

use std::collections::{BTreeMap, BTreeSet};
use std::process::ExitCode;
use std::sync::{Arc, LazyLock};
use std::thread::available_parallelism;
use std::time::{Duration, Instant};

use futures::future::join_all;
use libtest_mimic::{Arguments, Completion, Trial};
use memory_tool_core::{MemoryTool, Store};
use tokio::runtime::Runtime;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use crate::access::{Backends, Factory};
use crate::case::{Basis, Capability, Case};
use crate::cases::threads::Threads;
use crate::command_line::CommandLine;
use crate::failure::{CaseError, Failure};
use crate::faults::{self, Fault};
use crate::fixture::{BackendFixture, ToolOptions};
use crate::report::{CaseResult, Outcome, Report, clause_ids};
use crate::target::{RunLimits, Target};
use crate::time_limit::within;
use crate::vectors::{self, Vector};

/// The default timeout for a response of a program.
pub const DEFAULT_ANSWER_TIMEOUT: Duration = Duration::from_secs(10);

/// The default number of races between the same clients.
pub const DEFAULT_RACES: usize = 100;

/// The default timeout for a case.
pub const DEFAULT_CASE_TIMEOUT: Duration = Duration::from_secs(300);

/// Most of the time of a case is waiting for the program.
const JOBS_PER_PROCESSOR_OF_PROGRAMS: usize = 4;

/// The conformance suite for one backend.
///
/// Create it with [`for_store`](Self::for_store), [`for_tool`](Self::for_tool) or [`for_command`](Self::for_command).
/// [`run`](Self::run) returns a [`Report`]. [`test`](Self::test) runs the cases as a cargo test target, and
/// [`test_each`](Self::test_each) does so for several backends.
#[must_use]
pub struct Suite {
    runner: Runner,
    filters: Vec<String>,
    is_storage_only: bool,
    jobs: usize,
    declared_lacks: IgnoreReasons,
}

#[derive(Clone, Default)]
struct IgnoreReasons {
    of_needs: BTreeMap<Capability, String>,
    /// By case id.
    of_cases: BTreeMap<String, String>,
}

/// The progress of a run.
#[derive(Debug)]
#[non_exhaustive]
pub struct Progress<'a> {
    /// The number of finished cases, including the last one.
    pub done: usize,
    /// The number of selected cases.
    pub total: usize,
    /// The result of the case that finished last.
    pub last: &'a CaseResult,
}

impl Suite {
    /// Creates a suite for a [`Store`].
    pub fn for_store(fixture: impl BackendFixture) -> Self {
        Self::new(Backends::<_, dyn Store>::new(fixture))
    }

    /// Creates a suite for a [`MemoryTool`].
    pub fn for_tool(fixture: impl BackendFixture<dyn MemoryTool>) -> Self {
        Self::new(Backends::<_, dyn MemoryTool>::new(fixture))
    }

    /// Creates a suite for a program in any language.
    pub fn for_command(command_line: CommandLine) -> Self {
        Self::new(command_line).jobs(JOBS_PER_PROCESSOR_OF_PROGRAMS * processors())
    }

    fn new(factory: impl Factory + 'static) -> Self {
        Self {
            runner: Runner {
                factory: Arc::new(factory),
                limits: RunLimits {
                    answer_timeout: DEFAULT_ANSWER_TIMEOUT,
                    races: DEFAULT_RACES,
                    stop: None,
                    has_sessions: true,
                    has_concurrency: true,
                    has_tracing: true,
                },
                case_timeout: DEFAULT_CASE_TIMEOUT,
                basis: Basis::Project,
            },
            filters: Vec::new(),
            is_storage_only: false,
            jobs: processors(),
            declared_lacks: IgnoreReasons::default(),
        }
    }

    /// Selects cases by their id, by a part of it, such as `view.` or `races`, or by a clause, such as `V3`. With
    /// several filters, a case runs if one of them matches. Default: all cases.
    pub fn filter(mut self, filter: impl Into<String>) -> Self {
        self.filters.push(filter.into());
        self
    }

    /// Selects the cases that depend on the storage, for authors of a [`Store`](memory_tool_core::Store): the engine
    /// above it has its own tests. With filters, a case must also match one of them. Default: all cases.
    pub fn storage(mut self) -> Self {
        self.is_storage_only = true;
        self
    }

    /// Selects the checks of this basis and the stronger ones. Others do not count, and cases without selected checks
    /// do not run. Default: all checks.
    pub fn basis(mut self, weakest: Basis) -> Self {
        self.runner.basis = weakest;
        self
    }

    /// Sets how many cases run concurrently. Default: the number of processors, and four times as many for programs,
    /// because most of their time is waiting.
    pub fn jobs(mut self, jobs: usize) -> Self {
        self.jobs = jobs.max(1);
        self
    }

    /// Sets the timeout for a response of a program. Time in which a busy machine does not run the suite does not
    /// count. Default: [`DEFAULT_ANSWER_TIMEOUT`].
    pub fn answer_timeout(mut self, answer_timeout: Duration) -> Self {
        self.runner.limits.answer_timeout = answer_timeout;
        self
    }

    /// Sets how many races the same clients run in each case of the group `races`, at least one. Fewer races take less
    /// time but are more likely to miss a rare fault. `races.delete-against-creates`, whose races take longer, runs a
    /// third of them. Default: [`DEFAULT_RACES`].
    pub fn races(mut self, races: usize) -> Self {
        self.runner.limits.races = races.max(1);
        self
    }

    /// Sets how long `races.stopped-process` stops a program. Choose a time above every timeout and lease of the
    /// backend: then the stopped command may fail, but no acknowledged change may be lost. Timeouts are extended.
    /// Default: 10 ms for each race, after which the command must succeed.
    pub fn stop_for(mut self, stop: Duration) -> Self {
        self.runner.limits.stop = Some(stop);
        self
    }

    /// Sets the timeout for a case. Time in which a busy machine does not run the suite does not count. Default:
    /// [`DEFAULT_CASE_TIMEOUT`].
    pub fn case_timeout(mut self, case_timeout: Duration) -> Self {
        self.runner.case_timeout = case_timeout;
        self
    }

    /// Declares that the backend lacks a capability. The cases that need it are ignored with this reason.
    pub fn lacks(mut self, need: Capability, reason: impl Into<String>) -> Self {
        self.runner.limits.has_concurrency &= need != Capability::Concurrency;
        self.runner.limits.has_sessions &= !matches!(need, Capability::Sessions | Capability::Concurrency);
        self.runner.limits.has_tracing &= need != Capability::Tracing;
        self.declared_lacks.of_needs.insert(need, reason.into());
        self
    }

    /// Ignores the case with this id, with this reason. An unknown id has no effect.
    pub fn skip(mut self, id: impl Into<String>, reason: impl Into<String>) -> Self {
        self.declared_lacks.of_cases.insert(id.into(), reason.into());
        self
    }

    /// The selected cases that this kind of backend can run, in the order of the table.
    pub fn cases(&self) -> Vec<Case> {
        self.entries().into_iter().map(|(case, _)| case).collect()
    }

    /// All cases, in the order of the table.
    pub fn all_cases() -> Vec<Case> {
        table().into_iter().map(|(case, _)| case).collect()
    }

    /// The known faults, each with the cases that detect it.
    pub fn faults() -> Vec<Fault> {
        faults::all()
    }

    /// Runs the selected cases.
    ///
    /// Requires a tokio runtime with timer and I/O enabled, preferably a multi-threaded one.
    pub async fn run(&self) -> Report {
        self.run_observed(|_| ()).await
    }

    /// Runs the selected cases, and calls `observe` after each.
    pub async fn run_observed(&self, mut observe: impl FnMut(&Progress<'_>)) -> Report {
        let started = Instant::now();
        let lacks = Arc::new(self.find_lacks().await);
        let mut entries = self.entries();
        let total = entries.len();
        let order: Vec<_> = entries.iter().map(|(case, _)| case.id.clone()).collect();
        entries.sort_by_key(|(_, vector)| vector.has_steps()); // those with code take longest
        let permits = Arc::new(Semaphore::new(self.jobs));
        let mut running = JoinSet::new();
        for (case, vector) in entries {
            let (runner, lacks, permits) = (self.runner.clone(), Arc::clone(&lacks), Arc::clone(&permits));
            running.spawn(async move {
                let _permit = permits.acquire_owned().await;
                runner.run(case, vector, &lacks).await
            });
        }
        let mut results = BTreeMap::new();
        while let Some(result) = running.join_next().await {
            let Ok(result) = result else { continue }; // panics of a case are caught in `Runner::judge`
            observe(&Progress { done: results.len() + 1, total, last: &result });
            results.insert(result.case.id.clone(), result);
        }
        let results = order.iter().filter_map(|id| results.remove(id)).collect();
        Report::new(results, self.left_out(), milliseconds_since(started))
    }

    /// Runs the cases as tests, as the `main` of a test target with `harness = false`. Accepts the usual test
    /// arguments.
    ///
    /// Each test is named `{group}::{name}`. An ignored test is listed with its reason.
    #[must_use]
    pub fn test(self) -> ExitCode {
        test(vec![(String::new(), self)])
    }

    /// Runs the cases of several suites as tests of one target, see [`test`](Self::test).
    ///
    /// Each test is named `{suite}::{group}::{name}`, where `suite` is the name given with the suite.
    #[must_use]
    pub fn test_each(suites: impl IntoIterator<Item = (String, Self)>) -> ExitCode {
        test(suites.into_iter().map(|(name, suite)| (format!("{name}::"), suite)).collect())
    }

    /// The cases as tests whose names start with `prefix`. The backend's capabilities are probed only if a test will
    /// run.
    async fn trials(self, prefix: &str, arguments: &Arguments, runtime: &Arc<Runtime>) -> Vec<Trial> {
        let name = |case: &Case| format!("{prefix}{}", case.id.replacen('.', "::", 1));
        let is_meant = |case: &Case| {
            let trial = Trial::test(name(case), || Ok(())).with_kind(clause_ids(case));
            !arguments.is_filtered_out(&trial)
        };
        let entries = self.entries();
        let is_any_meant = entries.iter().any(|(case, _)| is_meant(case));
        let lacks = Arc::new(if is_any_meant { self.find_lacks().await } else { IgnoreReasons::default() });
        let trials = entries.into_iter().map(|(case, vector)| {
            let (runtime, runner, lacks) = (Arc::clone(runtime), self.runner.clone(), Arc::clone(&lacks));
            let (name, reason) = (name(&case), case.reason.clone());
            let clauses = clause_ids(&case);
            let lack = lacks.of(&case);
            let kind = lack.map_or(clauses.clone(), |reason| format!("{clauses} ignored: {reason}"));
            let is_ignored = lack.is_some();
            let run = move || match runtime.block_on(runner.run(case, vector, &lacks)).outcome {
                Outcome::Passed => Ok(Completion::Completed),
                Outcome::Ignored { reason } if is_ignored => Err(reason.into()),
                Outcome::Ignored { reason } => Ok(Completion::ignored_with(reason)),
                Outcome::Failed { failures } => {
                    let failures = failures.iter().map(ToString::to_string);
                    Err([reason].into_iter().chain(failures).collect::<Vec<_>>().join("\n").into())
                }
            };
            Trial::ignorable_test(name, run).with_kind(kind).with_ignored_flag(is_ignored)
        });
        trials.collect()
    }

    /// The selected cases that this kind of backend can run, with the bases of the selected checks.
    fn entries(&self) -> Vec<(Case, Vector)> {
        let mut selected = self.selected();
        selected.retain(|(case, _)| self.missing_need(case).is_none());
        selected
    }

    /// The number of selected cases that no backend of this kind can run, by the first capability that it lacks.
    fn left_out(&self) -> BTreeMap<Capability, usize> {
        let mut left_out = BTreeMap::new();
        for need in self.selected().iter().filter_map(|(case, _)| self.missing_need(case)) {
            *left_out.entry(need).or_default() += 1;
        }
        left_out
    }

    fn missing_need(&self, case: &Case) -> Option<Capability> {
        let missing = self.runner.factory.missing_capabilities();
        case.needs.iter().copied().find(|need| missing.contains(need))
    }

    fn selected(&self) -> Vec<(Case, Vector)> {
        let selected = table().into_iter().filter_map(|mut entry| {
            let (case, _) = &mut entry;
            case.bases.retain(|basis| *basis <= self.runner.basis);
            let is_meant = self.filters.is_empty() || self.filters.iter().any(|filter| case.matches(filter));
            let is_meant = is_meant && (!self.is_storage_only || case.is_of_storage());
            (is_meant && !case.bases.is_empty()).then_some(entry)
        });
        selected.collect()
    }

    /// The capabilities that the backend lacks, as declared by the caller or probed.
    async fn find_lacks(&self) -> IgnoreReasons {
        let mut lacks = self.declared_lacks.clone();
        if cfg!(not(unix)) {
            let reason = "the suite can create links and special files only on Unix";
            lacks.of_needs.entry(Capability::PlainFiles).or_insert(reason.to_owned());
        }
        let probing = async {
            let mut found = Vec::new();
            let Runner { factory, limits, .. } = &self.runner;
            let target = Target::fresh(&**factory, &ToolOptions::default(), *limits).await?;
            let needs: BTreeSet<_> = self.entries().into_iter().flat_map(|(case, _)| case.needs).collect();
            for need in needs {
                if let Some(reason) = target.lack(need).await {
                    found.push((need, reason));
                }
            }
            let unusual = ToolOptions { create_overwrites: true, ..ToolOptions::default() };
            if let Err(CaseError::Unsupported { reason, .. }) = Target::fresh(&**factory, &unusual, *limits).await {
                found.push((Capability::Options, reason));
            }
            Ok::<_, CaseError>(found)
        };
        // A fixture that fails here also fails in each case, which reports the error.
        if let Some(Ok(found)) = within(self.runner.case_timeout, probing).await {
            for (need, reason) in found {
                lacks.of_needs.entry(need).or_insert(reason);
            }
        }
        lacks
    }
}

/// Runs suites as tests, each with a prefix for the names of its tests.
fn test(suites: Vec<(String, Suite)>) -> ExitCode {
    let mut arguments = Arguments::from_args();
    // Many cases wait for a lock, a disk or a program.
    arguments.test_threads = arguments.test_threads.or(Some(4 * processors()));
    let runtime = match Runtime::new() {
        Ok(runtime) => Arc::new(runtime),
        Err(error) => {
            let trial = Trial::test("runtime", move || Err(error.into()));
            return libtest_mimic::run(&arguments, vec![trial]).exit_code();
        }
    };
    let trials = suites.into_iter().map(|(prefix, suite)| {
        let (arguments, runtime) = (&arguments, &runtime);
        async move { suite.trials(&prefix, arguments, runtime).await }
    });
    let trials = runtime.block_on(join_all(trials));
    libtest_mimic::run(&arguments, trials.into_iter().flatten().collect()).exit_code()
}

fn processors() -> usize {
    available_parallelism().map_or(1, usize::from)
}

impl Case {
    /// Whether a filter selects the case. A filter is its id, a part of its id that is not another case's id, such as
    /// `view.`, or one of its clauses, such as `V3`.
    pub fn matches(&self, filter: &str) -> bool {
        static IDS: LazyLock<BTreeSet<String>> =
            LazyLock::new(|| Suite::all_cases().into_iter().map(|case| case.id).collect());
        let matches_id = if IDS.contains(filter) { self.id == filter } else { self.id.contains(filter) };
        matches_id || self.clauses.iter().any(|clause| clause.id() == filter)
    }
}

/// All cases, in the order of their files.
fn table() -> Vec<(Case, Vector)> {
    vectors::all().into_iter().map(|vector| (vector.case(), vector)).collect()
}

/// The requirements of a case.
#[derive(Clone)]
struct Runner {
    factory: Arc<dyn Factory>,
    limits: RunLimits,
    case_timeout: Duration,
    /// The weakest basis whose checks count.
    basis: Basis,
}

impl Runner {
    async fn run(self, case: Case, vector: Vector, lacks: &IgnoreReasons) -> CaseResult {
        let started = Instant::now();
        let outcome = match lacks.of(&case) {
            Some(reason) => Outcome::Ignored { reason: reason.to_owned() },
            None => self.judge(&case, vector).await,
        };
        CaseResult { case, outcome, milliseconds: milliseconds_since(started) }
    }

    async fn judge(self, case: &Case, vector: Vector) -> Outcome {
        let Self { factory, limits, case_timeout, basis } = self;
        let case_timeout = case_timeout + 3 * limits.stop.unwrap_or_default();
        // A separate thread, because a backend that panics or blocks its thread must fail only this case.
        let mut thread = Threads::new();
        thread.spawn(async move { Ok(vector.run(&*factory, limits).await) });
        let stops = match within(case_timeout, thread.join()).await {
            Some(Ok(stops)) => stops.into_iter().flatten().collect(),
            Some(Err(stop)) => vec![stop],
            None => {
                let seconds = case_timeout.as_secs_f64();
                vec![Failure::new(format!("the case did not end within {seconds} s")).into()]
            }
        };
        let mut not_tested = None;
        let failures = stops.into_iter().filter_map(|stop| match stop {
            CaseError::NotTested { reason } => {
                not_tested = Some(reason);
                None
            }
            stop => Some(into_failure(case, stop)),
        });
        let failures: Vec<_> = failures.filter(|failure| failure.basis.is_none_or(|of| of <= basis)).collect();
        match not_tested {
            _ if !failures.is_empty() => Outcome::Failed { failures },
            Some(reason) => Outcome::Ignored { reason },
            None => Outcome::Passed,
        }
    }
}

impl IgnoreReasons {
    /// The reason why the case is ignored, if it is.
    fn of(&self, case: &Case) -> Option<&str> {
        let of_case = self.of_cases.get(&case.id);
        of_case.or_else(|| case.needs.iter().find_map(|need| self.of_needs.get(need))).map(String::as_str)
    }
}

/// A missing capability is a failure if it was available when probed, or if the case does not declare it. Ignoring it
/// would hide an error.
fn into_failure(case: &Case, stop: CaseError) -> Failure {
    let failure = match stop {
        CaseError::Failed(failure) => *failure,
        CaseError::NotTested { reason } => Failure::new(reason),
        CaseError::Unsupported { need, reason } if case.needs.contains(&need) => {
            Failure::new(format!("the backend lacks {need}, although it was available before: {reason}"))
        }
        CaseError::Unsupported { need, reason } => {
            Failure::new(format!("the case does not declare that it needs {need}: {reason}"))
        }
    };
    let only_basis = case.bases.first().copied().filter(|_| case.bases.len() == 1);
    failure.of_check(case.clause(), only_basis)
}

fn milliseconds_since(start: Instant) -> u64 {
    u64::try_from(start.elapsed().as_millis()).unwrap_or(u64::MAX)
}
