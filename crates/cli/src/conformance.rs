//! `memory-tool conformance`: the conformance suite on a program, or on a store of ours.

mod bucket;
mod junit;
mod list;
mod names;
mod report;
mod sandbox;

use std::time::Duration;

use memory_tool::conformance::{DEFAULT_CASE_TIMEOUT, Outcome, Progress, Report, Suite};
use tokio::runtime::Runtime;

use crate::arguments::ConformanceArguments;
use crate::conformance::sandbox::Sandbox;
use crate::failure::{self, Failure};
use crate::interruption::Interruption;
use crate::progress_line::ProgressLine;

/// How long what a case left running may take to end, before it is left behind.
const FAREWELL: Duration = Duration::from_secs(5);

/// The verdict of a run.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Verdict {
    /// Cases were run and none failed, or they were only to be listed.
    Good,
    /// A case failed, or all were ignored.
    Bad,
    /// A signal ended the run.
    Interrupted {
        /// What the program ends with, as a shell does.
        status: u8,
    },
}

/// Runs the suite and prints the report, or prints what would be run.
pub(crate) fn run(arguments: &ConformanceArguments) -> Result<Verdict, Failure> {
    // Checked one by one: a mistyped filter among others would leave out what somebody believes to be tested.
    if let Some(filter) = arguments.filters.iter().find(|filter| list::cases(std::slice::from_ref(*filter)).is_empty())
    {
        return Err(Failure::NoCase { filter: filter.clone() });
    }
    if arguments.list {
        return list::print(arguments).map(|()| Verdict::Good);
    }
    let runtime = Runtime::new().map_err(Failure::Start)?;
    let interruption = runtime.block_on(async { Interruption::listen() }).map_err(Failure::Start)?;
    // A program that is not there would fail every case in the same words.
    if let Some(command_line) = &arguments.command_line {
        runtime.block_on(command_line.try_start()).map_err(|failure| Failure::Program(failure.to_string()))?;
    }
    // Dropped last: the stores of the cases are removed with it, whatever became of their cases.
    let sandbox =
        arguments.store.as_ref().map(|url| Sandbox::make(url, &arguments.encryption, &runtime)).transpose()?;
    let suite = match (&arguments.command_line, &sandbox) {
        (Some(command_line), _) => Suite::for_command(match &arguments.plain_files {
            Some(directory) => command_line.clone().plain_files(directory.as_str()),
            None => command_line.clone(),
        }),
        (None, Some(sandbox)) => Suite::for_store(sandbox.fixture()),
        (None, None) => return list::print(arguments).map(|()| Verdict::Good), // which the arguments do not allow
    };
    let report = match observe(runtime, interruption, &configure(suite, arguments)) {
        Ended::Whole(report) => report,
        Ended::Interrupted { status } => {
            failure::eprint_line("memory-tool: interrupted");
            return Ok(Verdict::Interrupted { status });
        }
    };
    report::print(&report, arguments.format)?;
    Ok(if report.is_success() { Verdict::Good } else { Verdict::Bad })
}

fn configure(suite: Suite, arguments: &ConformanceArguments) -> Suite {
    let answer_timeout = arguments.timeout.0;
    // A case has several answers to wait for: who is patient with an answer is so with a case.
    let case_timeout = DEFAULT_CASE_TIMEOUT.max(answer_timeout.saturating_mul(2));
    let mut suite = suite.answer_timeout(answer_timeout).case_timeout(case_timeout);
    if let Some(jobs) = arguments.jobs {
        suite = suite.jobs(jobs.get());
    }
    suite = arguments.filters.iter().fold(suite, Suite::filter);
    arguments.lacks.iter().fold(suite, |suite, lack| suite.lacks(lack.need, lack.reason.as_str()))
}

/// How a run came to its end.
enum Ended {
    Whole(Report),
    Interrupted { status: u8 },
}

/// Runs the suite, and shows on a terminal how far it is.
fn observe(runtime: Runtime, mut interruption: Interruption, suite: &Suite) -> Ended {
    let mut line = ProgressLine::of_standard_error();
    let mut failed = 0;
    let ended = runtime.block_on(async {
        tokio::select! {
            biased; // a signal that came before the first case keeps it from starting
            status = interruption.status() => Ended::Interrupted { status },
            report = suite.run_observed(|progress| {
                failed += usize::from(matches!(progress.last.outcome, Outcome::Failed { .. }));
                if let Some(line) = &mut line {
                    let Progress { done, total, last, .. } = progress;
                    let digits = total.to_string().len();
                    line.show(&format!("[{done:>digits$}/{total}] {failed} failed  {}", last.case.id));
                }
            }) => Ended::Whole(report),
        }
    });
    // The cases that a signal stopped end here, and with them their programs and directories. A call of a store that
    // never ends must not keep us from ending.
    runtime.shutdown_timeout(FAREWELL);
    ended
}
