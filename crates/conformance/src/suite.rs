//! [`Suite`]: the table of cases, and the run of it.

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use libtest_mimic::{Arguments, Trial};
use tokio::runtime::Runtime;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::case::{Case, Need};
use crate::cases::{self, CodeCase};
use crate::command_door::{CommandDoor, CommandLine};
use crate::failure::{Failure, Stop};
use crate::faults::{self, Fault};
use crate::fixture::{StoreFixture, ToolFixture, ToolOptions};
use crate::report::{CaseResult, Outcome, Report, clause_ids};
use crate::store_door::StoreDoor;
use crate::subject::{Door, Subject};
use crate::tool_door::ToolDoor;
use crate::vectors::{self, Vector};

/// How long a program may take for an answer, unless set otherwise.
pub const DEFAULT_ANSWER_TIMEOUT: Duration = Duration::from_secs(10);

/// How long a case may take, unless set otherwise.
pub const DEFAULT_CASE_TIMEOUT: Duration = Duration::from_secs(120);

/// The conformance suite, ready to be run on one backend.
///
/// Built by one of [`for_store`](Self::for_store), [`for_tool`](Self::for_tool) and [`for_command`](Self::for_command),
/// then run by [`run`](Self::run) for a [`Report`] or by [`test`](Self::test) as a test of cargo's.
#[must_use]
pub struct Suite {
    door: Arc<dyn Door>,
    filters: Vec<String>,
    jobs: usize,
    answer_timeout: Duration,
    case_timeout: Duration,
    declared_lacks: BTreeMap<Need, String>,
}

/// A case together with what it does.
struct Entry {
    case: Case,
    body: Body,
}

enum Body {
    Vector(Vector),
    Code(CodeCase),
}

/// How far a run is.
#[derive(Debug)]
#[non_exhaustive]
pub struct Progress<'a> {
    /// How many cases are done, the last one included.
    pub done: usize,
    /// How many there are.
    pub total: usize,
    /// What came of the one that was done last.
    pub last: &'a CaseResult,
}

impl Suite {
    /// The suite on a [`Store`](memory_tool_core::Store).
    pub fn for_store(fixture: impl StoreFixture) -> Self {
        Self::new(StoreDoor { fixture: Arc::new(fixture) })
    }

    /// The suite on a [`MemoryTool`](memory_tool_core::MemoryTool).
    pub fn for_tool(fixture: impl ToolFixture) -> Self {
        Self::new(ToolDoor { fixture: Arc::new(fixture) })
    }

    /// The suite on a program, in whatever language it is written.
    pub fn for_command(command_line: CommandLine) -> Self {
        Self::new(CommandDoor { command_line })
    }

    fn new(door: impl Door + 'static) -> Self {
        Self {
            door: Arc::new(door),
            filters: Vec::new(),
            jobs: std::thread::available_parallelism().map_or(1, usize::from),
            answer_timeout: DEFAULT_ANSWER_TIMEOUT,
            case_timeout: DEFAULT_CASE_TIMEOUT,
            declared_lacks: BTreeMap::new(),
        }
    }

    /// Runs only cases that the filter means: a part of an id, such as `view.` or `races`, or a clause, such as `V3`.
    /// Given several times, a case that one of them means is run. Default: every case.
    pub fn filter(mut self, filter: impl Into<String>) -> Self {
        self.filters.push(filter.into());
        self
    }

    /// How many cases run at a time. Default: one for each processor.
    pub fn jobs(mut self, jobs: usize) -> Self {
        self.jobs = jobs.max(1);
        self
    }

    /// How long a program may take for an answer before its case fails. Default: [`DEFAULT_ANSWER_TIMEOUT`].
    pub fn answer_timeout(mut self, answer_timeout: Duration) -> Self {
        self.answer_timeout = answer_timeout;
        self
    }

    /// How long a case may take before it fails. Default: [`DEFAULT_CASE_TIMEOUT`].
    pub fn case_timeout(mut self, case_timeout: Duration) -> Self {
        self.case_timeout = case_timeout;
        self
    }

    /// Declares that the backend lacks something for that reason: the cases that need it are ignored.
    pub fn lacks(mut self, need: Need, reason: impl Into<String>) -> Self {
        self.declared_lacks.insert(need, reason.into());
        self
    }

    /// The cases that would be run, in the order of the table.
    pub fn cases(&self) -> Vec<Case> {
        self.entries().into_iter().map(|entry| entry.case).collect()
    }

    /// Every case of the suite, in the order of the table.
    pub fn all_cases() -> Vec<Case> {
        table().into_iter().map(|entry| entry.case).collect()
    }

    /// The faults that the cases are known to catch.
    pub fn faults() -> Vec<Fault> {
        faults::all()
    }

    /// Runs the cases.
    ///
    /// It needs a runtime of tokio with its timer and I/O enabled, best one with several threads.
    pub async fn run(&self) -> Report {
        self.run_observed(|_| ()).await
    }

    /// Runs the cases, and tells of each that is done.
    pub async fn run_observed(&self, mut observe: impl FnMut(&Progress<'_>)) -> Report {
        let started = Instant::now();
        let lacks = Arc::new(self.find_lacks().await);
        let entries = self.entries();
        let total = entries.len();
        let order: Vec<_> = entries.iter().map(|entry| entry.case.id.clone()).collect();
        let permits = Arc::new(Semaphore::new(self.jobs));
        let mut running = JoinSet::new();
        for entry in entries {
            let (runner, lacks, permits) = (self.runner(), Arc::clone(&lacks), Arc::clone(&permits));
            running.spawn(async move {
                let _permit = permits.acquire_owned().await;
                runner.run(entry, &lacks).await
            });
        }
        let mut results = BTreeMap::new();
        while let Some(result) = running.join_next().await {
            let Ok(result) = result else { continue }; // a case that panics is caught within
            observe(&Progress { done: results.len() + 1, total, last: &result });
            results.insert(result.case.id.clone(), result);
        }
        let results = order.iter().filter_map(|id| results.remove(id)).collect();
        Report::new(results, milliseconds_since(started))
    }

    /// Runs the cases as tests: the `main` of a test target with `harness = false`. Takes the arguments that tests take.
    ///
    /// A case is named `{group}::{name}`, and can be filtered by it. One that is ignored shows its reason.
    #[must_use]
    pub fn test(self) -> ExitCode {
        let arguments = Arguments::from_args();
        let runtime = match Runtime::new() {
            Ok(runtime) => Arc::new(runtime),
            Err(error) => {
                let trial = Trial::test("runtime", move || Err(error.into()));
                return libtest_mimic::run(&arguments, vec![trial]).exit_code();
            }
        };
        let lacks = Arc::new(runtime.block_on(self.find_lacks()));
        let trials = self.entries().into_iter().map(|entry| {
            let (runtime, runner, lacks) = (Arc::clone(&runtime), self.runner(), Arc::clone(&lacks));
            let name = entry.case.id.replacen('.', "::", 1);
            let lack = find_lack(&entry.case, &lacks);
            let clauses = clause_ids(&entry.case);
            let kind = lack.map_or(clauses.clone(), |reason| format!("{clauses} ignored: {reason}"));
            let is_ignored = lack.is_some();
            let trial = Trial::test(name, move || match runtime.block_on(runner.run(entry, &lacks)).outcome {
                Outcome::Passed => Ok(()),
                Outcome::Ignored { reason } => Err(reason.into()),
                Outcome::Failed { failures } => {
                    Err(failures.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n").into())
                }
            });
            trial.with_kind(kind).with_ignored_flag(is_ignored)
        });
        libtest_mimic::run(&arguments, trials.collect()).exit_code()
    }

    /// The table, without what the filters leave out.
    fn entries(&self) -> Vec<Entry> {
        let is_meant =
            |entry: &Entry| self.filters.is_empty() || self.filters.iter().any(|filter| entry.case.matches(filter));
        table().into_iter().filter(is_meant).collect()
    }

    /// What the backend lacks: what was declared, and what the fixture says when it is asked.
    async fn find_lacks(&self) -> BTreeMap<Need, String> {
        let mut lacks = self.declared_lacks.clone();
        if cfg!(not(unix)) {
            let reason = "links and special files are only known how to be made on Unix";
            lacks.entry(Need::PlainFiles).or_insert(reason.to_owned());
        }
        let probing = async {
            let mut found = Vec::new();
            let subject = self.door.fresh(&ToolOptions::default(), self.answer_timeout).await?;
            for need in Need::ALL {
                if let Some(reason) = subject.lack(need).await {
                    found.push((need, reason));
                }
            }
            let unusual = ToolOptions { create_overwrites: true, ..ToolOptions::default() };
            if let Err(Stop::Lacks { reason, .. }) = self.door.fresh(&unusual, self.answer_timeout).await {
                found.push((Need::Options, reason));
            }
            Ok::<_, Stop>(found)
        };
        // A fixture that fails here fails in each case, and is reported there.
        if let Ok(Ok(found)) = timeout(self.case_timeout, probing).await {
            for (need, reason) in found {
                lacks.entry(need).or_insert(reason);
            }
        }
        lacks
    }

    fn runner(&self) -> Runner {
        Runner { door: Arc::clone(&self.door), answer_timeout: self.answer_timeout, case_timeout: self.case_timeout }
    }
}

/// Every case: those that are data, then those that are code.
fn table() -> Vec<Entry> {
    let vectors = vectors::all().into_iter().map(|vector| Entry { case: vector.case(), body: Body::Vector(vector) });
    let code = cases::all().map(|code| Entry { case: code.case(), body: Body::Code(code) });
    vectors.chain(code).collect()
}

/// What a single case is run with.
struct Runner {
    door: Arc<dyn Door>,
    answer_timeout: Duration,
    case_timeout: Duration,
}

impl Runner {
    async fn run(self, entry: Entry, lacks: &BTreeMap<Need, String>) -> CaseResult {
        let Entry { case, body } = entry;
        let started = Instant::now();
        let outcome = match find_lack(&case, lacks) {
            Some(reason) => Outcome::Ignored { reason: reason.to_owned() },
            None => self.judge(&case, body).await,
        };
        CaseResult { case, outcome, milliseconds: milliseconds_since(started) }
    }

    async fn judge(self, case: &Case, body: Body) -> Outcome {
        let Self { door, answer_timeout, case_timeout } = self;
        // On a task of its own, so that a panic of the backend fails its case alone.
        let mut task = JoinSet::new();
        task.spawn(async move { body.run(&*door, answer_timeout).await });
        let stops = match timeout(case_timeout, task.join_next()).await {
            Ok(Some(Ok(Ok(())))) => return Outcome::Passed,
            Ok(Some(Ok(Err(stops)))) => stops,
            Ok(Some(Err(error))) => vec![Failure::new(format!("the backend panicked: {error}")).into()],
            Ok(None) => vec![Failure::new("the case was never run").into()],
            Err(_) => {
                let seconds = case_timeout.as_secs_f64();
                vec![Failure::new(format!("the case did not end within {seconds} s")).into()]
            }
        };
        Outcome::Failed { failures: stops.into_iter().map(|stop| into_failure(case, stop)).collect() }
    }
}

impl Body {
    async fn run(self, door: &dyn Door, patience: Duration) -> Result<(), Vec<Stop>> {
        match self {
            Self::Vector(vector) => vector.run(door, patience).await,
            Self::Code(code) => async {
                let subject: Arc<dyn Subject> = door.fresh(&ToolOptions::default(), patience).await?;
                (code.run)(subject).await
            }
            .await
            .map_err(|stop| vec![stop]),
        }
    }
}

/// Where something is lacking that is there when asked for it first, or that the case does not say it needs, passing it
/// over would hide a mistake.
fn into_failure(case: &Case, stop: Stop) -> Failure {
    match stop {
        Stop::Failed(failure) => *failure,
        Stop::Lacks { need, reason } if case.needs.contains(&need) => {
            Failure::new(format!("the backend lacks {need} this time: {reason}"))
        }
        Stop::Lacks { need, reason } => Failure::new(format!("the case does not say that it needs {need}: {reason}")),
    }
}

fn find_lack<'a>(case: &Case, lacks: &'a BTreeMap<Need, String>) -> Option<&'a str> {
    case.needs.iter().find_map(|need| lacks.get(need)).map(String::as_str)
}

fn milliseconds_since(start: Instant) -> u64 {
    u64::try_from(start.elapsed().as_millis()).unwrap_or(u64::MAX)
}
