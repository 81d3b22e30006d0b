//! `memory-tool verify`: reports missing or damaged files of a store.

use memory_tool::store::{Problem, VerifyReport};
use memory_tool::{OpenOptions, StoreUrl};
use serde::Serialize;

use crate::arguments::{StoreArgument, VerifyArguments};
use crate::escapes::on_one_line;
use crate::exit_status::ExitStatus;
use crate::failure::{Context as _, Failure};
use crate::interruption::{CLEANUP_TIME, run_until_interrupted};
use crate::memory;
use crate::others::{WithOthers, report_others};
use crate::output::{count, write_report};

/// Verifies the store, and prints the report.
pub(crate) fn run(arguments: &VerifyArguments) -> Result<ExitStatus, Failure> {
    memory::refuse_temporary(&arguments.store.url)?;
    let (report, others) = run_until_interrupted(CLEANUP_TIME, async {
        let lost = if arguments.repair { repair(&arguments.store).await? } else { Vec::new() };
        let (mut report, others) = verify(&arguments.store).await?;
        report.problems.extend(lost);
        Ok::<_, Failure>((report, others))
    })?;
    let problems = report.problems.iter().map(|problem| problem.message.as_str()).collect();
    let printed = PrintedReport { files: report.files, bytes: report.bytes, problems };
    let printed = WithOthers { report: printed, others };
    write_report(arguments.json, &printed, || printed.report.to_text())?;
    Ok(ExitStatus::of(report.problems.is_empty()))
}

async fn verify(store: &StoreArgument) -> Result<(VerifyReport, Option<u64>), Failure> {
    let mut options = store.options();
    options.read_only = true;
    let memory = memory::open(&store.url, &options).await?;
    let others = report_others(&memory, &store.url, None).await?;
    Ok((memory.verify(|_| {}).await.context("cannot verify the store")?, others))
}

/// Repairs the log of a store in a bucket. Returns what could not be recovered.
async fn repair(store: &StoreArgument) -> Result<Vec<Problem>, Failure> {
    let StoreUrl::Bucket { url } = &store.url else {
        return Err(Failure::new("nothing to repair: only stores in buckets have a log that can be repaired"));
    };
    let repaired = memory::bucket(url)?.options(OpenOptions::new().timeout(store.timeout.timeout.0)).repair().await;
    Ok(repaired.map_err(|error| memory::failure(error.with_place(format!("at {url}"))))?.lost)
}

#[derive(Debug, Serialize)]
struct PrintedReport<'a> {
    /// The number of undamaged files.
    files: u64,
    /// Their bytes.
    bytes: u64,
    problems: Vec<&'a str>,
}

impl PrintedReport<'_> {
    fn to_text(&self) -> String {
        let summary = match self.problems.len() {
            0 => format!("{}, {}: no problems found", count(self.files, "file"), count(self.bytes, "byte")),
            problems => format!("{} found", count(problems as u64, "problem")),
        };
        self.problems.iter().map(|problem| on_one_line(problem) + "\n").chain([summary]).collect()
    }
}
