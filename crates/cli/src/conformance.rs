//! `memory-tool conformance`: runs the conformance suite on a program or a store.

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

/// The maximum time for stopped cases to end.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(5);

/// The verdict of a run.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Verdict {
    /// No case failed, or the cases were only listed.
    Passed,
    /// A case failed, or all were ignored.
    Failed,
    /// A signal ended the run.
    Interrupted {
        /// The exit status.
        status: u8,
    },
}

/// Runs the suite and prints the report, or lists the cases.
pub(crate) fn run(arguments: &ConformanceArguments) -> Result<Verdict, Failure> {
    // Each filter is checked, so that a mistyped one is not ignored.
    if let Some(filter) = arguments.filters.iter().find(|filter| list::cases(std::slice::from_ref(*filter)).is_empty())
    {
        return Err(Failure::NoCase { filter: filter.clone() });
    }
    if arguments.list {
        return list::print(arguments).map(|()| Verdict::Passed);
    }
    let runtime = Runtime::new().map_err(Failure::Start)?;
    let interruption = runtime.block_on(async { Interruption::listen() }).map_err(Failure::Start)?;
    // Otherwise a program that does not exist would fail every case.
    if let Some(command_line) = &arguments.command_line {
        runtime.block_on(command_line.try_start()).map_err(|failure| Failure::Program(failure.to_string()))?;
    }
    // Dropped last, which removes the stores of the cases.
    let sandbox =
        arguments.store.as_ref().map(|url| Sandbox::make(url, &arguments.encryption, &runtime)).transpose()?;
    let suite = match (&arguments.command_line, &sandbox) {
        (Some(command_line), _) => Suite::for_command(match &arguments.plain_files {
            Some(directory) => command_line.clone().plain_files(directory.as_str()),
            None => command_line.clone(),
        }),
        (None, Some(sandbox)) => Suite::for_store(sandbox.fixture()),
        (None, None) => return list::print(arguments).map(|()| Verdict::Passed), // excluded by the arguments
    };
    let report = match observe(runtime, interruption, &configure(suite, arguments)) {
        RunEnd::Complete(report) => report,
        RunEnd::Interrupted { status } => {
            failure::eprint_line("memory-tool: interrupted");
            return Ok(Verdict::Interrupted { status });
        }
    };
    report::print(&report, arguments.format)?;
    Ok(if report.is_success() { Verdict::Passed } else { Verdict::Failed })
}

fn configure(suite: Suite, arguments: &ConformanceArguments) -> Suite {
    let answer_timeout = arguments.timeout.0;
    // A case waits for several replies, so a longer timeout for a reply extends that of a case.
    let case_timeout = DEFAULT_CASE_TIMEOUT.max(answer_timeout.saturating_mul(2));
    let mut suite = suite.answer_timeout(answer_timeout).case_timeout(case_timeout);
    if let Some(jobs) = arguments.jobs {
        suite = suite.jobs(jobs.get());
    }
    suite = arguments.filters.iter().fold(suite, Suite::filter);
    arguments.lacks.iter().fold(suite, |suite, lack| suite.lacks(lack.need, lack.reason.as_str()))
}

/// The end of a run.
enum RunEnd {
    Complete(Report),
    Interrupted { status: u8 },
}

/// Runs the suite with progress on a terminal.
fn observe(runtime: Runtime, mut interruption: Interruption, suite: &Suite) -> RunEnd {
    let mut line = ProgressLine::of_standard_error();
    let mut failed = 0;
    let ended = runtime.block_on(async {
        tokio::select! {
            biased; // a signal before the first case keeps it from starting
            status = interruption.status() => RunEnd::Interrupted { status },
            report = suite.run_observed(|progress| {
                failed += usize::from(matches!(progress.last.outcome, Outcome::Failed { .. }));
                if let Some(line) = &mut line {
                    let Progress { done, total, last, .. } = progress;
                    let digits = total.to_string().len();
                    line.show(&format!("[{done:>digits$}/{total}] {failed} failed  {}", last.case.id));
                }
            }) => RunEnd::Complete(report),
        }
    });
    // This ends interrupted cases with their programs and directories. The timeout is for calls of a store that never
    // return.
    runtime.shutdown_timeout(SHUTDOWN_TIMEOUT);
    ended
}
