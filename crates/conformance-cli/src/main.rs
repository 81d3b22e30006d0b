//! `memory-tool-conformance`: runs the conformance suite on a program or a store. Its documentation is in `README.md`.

mod bucket;
mod known_failures;
mod printing;
mod sandbox;
mod values;

use std::collections::BTreeSet;
use std::fs;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::{ArgGroup, Command, CommandFactory as _, Parser, Subcommand, ValueHint};
use memory_tool::StoreUrl;
use memory_tool_cli::command_line;
use memory_tool_cli::commands::run::{self, RunArguments};
use memory_tool_cli::exit_status::ExitStatus;
use memory_tool_cli::failure::{Context as _, Failure};
use memory_tool_cli::options::encryption::Encryption;
use memory_tool_cli::options::store_url_parser;
use memory_tool_cli::options::values::{by_name, host_path};
use memory_tool_cli::terminal::interruption::Interruption;
use memory_tool_cli::terminal::progress_line::ProgressLine;
use memory_tool_conformance::{
    Basis, Capability, Case, CommandLine, DEFAULT_ANSWER_TIMEOUT, DEFAULT_CASE_TIMEOUT, Outcome, Progress, Report,
    Suite,
};
use serde::Deserialize;
use tokio::runtime::Runtime;

use crate::known_failures::KnownFailures;
use crate::values::{AnswerTimeout, Profile, ReportFormat, directory_of_a_case, lack};

/// The name of the program.
const NAME: &str = "memory-tool-conformance";

#[derive(Debug, Parser)]
#[command(name = NAME, version, max_term_width = 100)]
#[command(args_conflicts_with_subcommands = true, disable_help_subcommand = true, subcommand_negates_reqs = true)]
#[command(group = ArgGroup::new("tested").args(["command_line", "store", "list"]).required(true).multiple(true))]
struct Arguments {
    #[command(subcommand)]
    served: Option<Served>,

    /// Test the program that this command line starts
    ///
    /// LINE may contain two placeholders. {dir} is the directory of the memory: it is empty at the start, and each case
    /// has its own. {options} are the options of the case, each as a separate word: `--create-overwrites`,
    /// `--max-view-chars N` or `--max-view-chars none`. Without {options}, cases with options are ignored.
    #[arg(long = "command", value_name = "LINE", value_parser = CommandLine::parse, conflicts_with = "store")]
    command_line: Option<CommandLine>,

    /// Test plain files in DIRECTORY, such as {dir}/memories
    ///
    /// It must hold each file of /memories as a plain file of the same name. Then links, special files and binary files
    /// are tested as well.
    #[arg(long, value_name = "DIRECTORY", value_parser = directory_of_a_case)]
    #[arg(requires = "command_line", conflicts_with = "store")]
    plain_files: Option<String>,

    /// Test temporary stores of this kind
    ///
    /// The stores are created in a new or empty directory, next to a database file that does not exist, or under a
    /// random prefix in a bucket, and removed at the end. MEMORY_TOOL_STORE is ignored.
    #[arg(long, value_name = "URL", value_parser = store_url_parser(), value_hint = ValueHint::AnyPath)]
    store: Option<StoreUrl>,

    /// List the cases instead of running them
    ///
    /// Columns are the id, the clauses of the contract, the origin, the needs and the reason.
    #[arg(long)]
    list: bool,

    /// Run only cases that match TEXT; may be repeated
    ///
    /// TEXT is an id, a part of one, such as `view.`, or a clause of the contract, such as `V3`.
    #[arg(long = "filter", value_name = "TEXT")]
    filters: Vec<String>,

    /// Run only the cases that failed in a JSON report
    #[arg(long, value_name = "REPORT", value_hint = ValueHint::FilePath, conflicts_with = "filters")]
    #[arg(value_parser = host_path())]
    failed_from: Option<PathBuf>,

    /// Run only cases for authors of a store
    ///
    /// The only PROFILE is `storage`: the cases that depend on the storage, without those of the engine above it.
    #[arg(long, value_name = "PROFILE", value_enum, hide_possible_values = true)]
    profile: Option<Profile>,

    /// Count only checks of BASIS or stronger
    ///
    /// From the strongest: `documentation` (Anthropic's), `recommendation` (it says only to consider it), `sdks` (the
    /// Python and TypeScript SDKs agree) and `project` (chosen by this project).
    #[arg(long, value_name = "BASIS", default_value = "project", value_parser = by_name::<Basis>)]
    basis: Basis,

    /// Expect the failures that FILE lists, and no others
    ///
    /// Each line is an id, alone or with one of the checks of the case: its clause, step and variant. Lines may be
    /// comments that start with `#`. The exit status is 1 if another check fails, or if one of these passes.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, value_parser = host_path())]
    known_failures: Option<PathBuf>,

    /// Write the failures to FILE, for --known-failures
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, conflicts_with = "known_failures")]
    #[arg(value_parser = host_path())]
    write_known_failures: Option<PathBuf>,

    /// Print a table, json or markdown
    #[arg(long, value_enum, default_value_t, hide_possible_values = true)]
    format: ReportFormat,

    /// Run N cases at a time
    ///
    /// The default is one for each processor, or four for a program, because it mostly waits.
    #[arg(long, value_name = "N")]
    jobs: Option<NonZeroUsize>,

    /// Wait up to SECONDS for a reply
    #[arg(long, value_name = "SECONDS", default_value_t = AnswerTimeout(DEFAULT_ANSWER_TIMEOUT))]
    timeout: AnswerTimeout,

    /// Ignore cases that need NEED, and report REASON; may be repeated
    ///
    /// For example sessions='it locks its directory'. --list prints the needs.
    #[arg(long, value_name = "NEED=REASON", value_parser = lack)]
    lacks: Vec<(Capability, String)>,

    #[command(flatten)]
    encryption: Encryption,
}

/// The program that cases start for a store, so that the suite needs no other program.
#[derive(Debug, Subcommand)]
enum Served {
    #[command(hide = true)]
    Run(Box<RunArguments>),
}

const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(5);

fn main() -> ExitCode {
    let status = command_line::run(command(), std::env::args_os(), |arguments: Arguments| match &arguments.served {
        Some(Served::Run(arguments)) => run::run(arguments).map(ExitStatus::from),
        None => run_suite(&arguments),
    });
    ExitCode::from(status)
}

/// The definition of the command line, with its page.
fn command() -> Command {
    // A key without a store would be ignored.
    let program = Arguments::command().mut_group("key", |group| group.requires("store"));
    command_line::pages::with_page(program, include_str!("../README.md"))
}

/// Runs the suite and prints the report, or lists the cases.
fn run_suite(arguments: &Arguments) -> Result<ExitStatus, Failure> {
    let filters = filters(arguments)?;
    if selected(arguments, &filters).is_empty() {
        return Err(Failure::new("no test case is selected: none has all of the given filter, basis and profile"));
    }
    let cases = listed(arguments, &filters);
    if cases.is_empty() {
        return Err(Failure::new("no program can run any of the selected test cases: they are for stores in Rust"));
    }
    if arguments.list {
        return printing::print_cases(&cases, arguments.format).map(|()| ExitStatus::Success);
    }
    let known_failures = arguments.known_failures.as_deref().map(KnownFailures::read).transpose()?;
    let runtime = Runtime::new().context("cannot start")?;
    let mut interruption = runtime.block_on(async { Interruption::listen() }).context("cannot start")?;
    // Otherwise a program that does not exist or never responds would fail every case.
    if let Some(command_line) = &arguments.command_line {
        let started = runtime.block_on(interruption.or(command_line.try_start(arguments.timeout.0)));
        let started = started.map_err(|status| Failure::Interrupted { status })?;
        started.map_err(|failure| Failure::new(failure.to_string().replace('\n', "; ")))?;
    }
    let sandbox =
        arguments.store.as_ref().map(|url| sandbox::make(url, &arguments.encryption, &runtime)).transpose()?;
    let (stores, _sandbox) = sandbox.unzip(); // the sandbox is dropped last
    let suite = match (&arguments.command_line, stores) {
        (Some(command_line), _) => Suite::for_command(match &arguments.plain_files {
            Some(directory) => command_line.clone().plain_files(directory.as_str()),
            None => command_line.clone(),
        }),
        (None, Some(stores)) => Suite::for_store(stores),
        (None, None) => return Ok(ExitStatus::Success), // excluded by the arguments
    };
    let report = observe(runtime, interruption, &configure(suite, arguments, &filters))
        .map_err(|status| Failure::Interrupted { status })?;
    printing::print_report(&report, arguments.format)?;
    if let Some(path) = &arguments.write_known_failures {
        return KnownFailures::write(path, &report).map(|()| ExitStatus::Success);
    }
    let passes = known_failures.map_or(report.is_success(), |known| known.match_report(&report));
    Ok(ExitStatus::of(passes))
}

/// The filters, or the ids of the cases that failed in a report. Each is checked, because a mistyped one would be
/// ignored.
fn filters(arguments: &Arguments) -> Result<Vec<String>, Failure> {
    let filters = match &arguments.failed_from {
        Some(path) => failed_in(path)?,
        None => arguments.filters.clone(),
    };
    let cases = Suite::all_cases();
    match filters.iter().find(|filter| !cases.iter().any(|case| case.matches(filter))) {
        Some(filter) => {
            Err(Failure::new(format!("no test case matches the filter {filter:?}; `{NAME} --list` lists all cases")))
        }
        None => Ok(filters),
    }
}

/// The ids of the cases that failed in a JSON report.
fn failed_in(path: &Path) -> Result<Vec<String>, Failure> {
    #[derive(Deserialize)]
    struct Report {
        results: Vec<CaseResult>,
    }

    #[derive(Deserialize)]
    struct CaseResult {
        id: String,
        outcome: String,
    }

    let json = fs::read(path).context(format!("cannot read {}", path.display()))?;
    let report: Report =
        serde_json::from_slice(&json).context(format!("{} is not a report of --format json", path.display()))?;
    let failed = report.results.into_iter().filter(|result| result.outcome == "failed");
    let ids: Vec<_> = failed.map(|result| result.id).collect();
    if ids.is_empty() {
        return Err(Failure::new(format!("no test case failed in {}", path.display())));
    }
    Ok(ids)
}

/// The selected cases. With a program, these are the cases that programs can run.
fn listed(arguments: &Arguments, filters: &[String]) -> Vec<Case> {
    let mut cases = selected(arguments, filters);
    if let Some(command_line) = &arguments.command_line {
        let possible: BTreeSet<_> =
            Suite::for_command(command_line.clone()).cases().into_iter().map(|case| case.id).collect();
        cases.retain(|case| possible.contains(&case.id));
    }
    cases
}

fn selected(arguments: &Arguments, filters: &[String]) -> Vec<Case> {
    let mut cases = Suite::all_cases();
    cases.retain_mut(|case| {
        case.bases.retain(|basis| *basis <= arguments.basis);
        let is_meant = filters.is_empty() || filters.iter().any(|filter| case.matches(filter));
        is_meant && !case.bases.is_empty() && (arguments.profile.is_none() || case.is_of_storage())
    });
    cases
}

fn configure(suite: Suite, arguments: &Arguments, filters: &[String]) -> Suite {
    let answer_timeout = arguments.timeout.0;
    // A case waits for several replies, so a longer timeout for a reply extends that of a case.
    let case_timeout = DEFAULT_CASE_TIMEOUT.max(answer_timeout.saturating_mul(2));
    let mut suite = suite.answer_timeout(answer_timeout).case_timeout(case_timeout).basis(arguments.basis);
    if let Some(Profile::Storage) = arguments.profile {
        suite = suite.storage();
    }
    if let Some(jobs) = arguments.jobs {
        suite = suite.jobs(jobs.get());
    }
    suite = filters.iter().fold(suite, Suite::filter);
    arguments.lacks.iter().fold(suite, |suite, (need, reason)| suite.lacks(*need, reason.as_str()))
}

/// Runs the suite with progress on a terminal. A signal ends it with an exit status.
fn observe(runtime: Runtime, mut interruption: Interruption, suite: &Suite) -> Result<Report, u8> {
    let mut line = ProgressLine::of_standard_error();
    let mut failed = 0;
    let ended = runtime.block_on(interruption.or(suite.run_observed(|progress| {
        failed += usize::from(matches!(progress.last.outcome, Outcome::Failed { .. }));
        let Progress { done, total, last, .. } = progress;
        let digits = total.to_string().len();
        line.show(&format!("[{done:>digits$}/{total}] {failed} failed  {}", last.case.id));
    })));
    // This ends interrupted cases with their programs and directories. The timeout is for calls of a store that never
    // return.
    runtime.shutdown_timeout(SHUTDOWN_TIMEOUT);
    ended
}

#[cfg(test)]
mod tests {
    use clap::error::ErrorKind;
    use memory_tool_test_fixtures::documented::calls_of;

    use super::*;

    #[test]
    fn the_definition_is_valid() {
        command().debug_assert();
    }

    #[test]
    fn the_program_accepts_every_command_of_a_page() {
        let calls = calls_of(NAME);
        for call in &calls {
            let error = command().try_get_matches_from(&call.words).err().filter(|error| {
                let is_incomplete =
                    matches!(error.kind(), ErrorKind::MissingRequiredArgument | ErrorKind::InvalidValue);
                error.kind() != ErrorKind::DisplayHelp && !(call.is_in_sentence && is_incomplete)
            });
            assert!(error.is_none(), "{call:?}: {error:?}");
        }
        assert!(calls.len() > 8, "found only {calls:#?}");
    }
}
