//! `memory-tool verify`: reports missing or damaged files of a store.

use clap::Args;
use memory_tool::store::{Problem, VerifyReport};
use memory_tool::{MemoryOptions, OpenOptions, StoreUrl};

use crate::exit_status::ExitStatus;
use crate::failure::{Context as _, Failure, eprint_line};
use crate::memory::{self, Access, open_existing};
use crate::options::{AllArgument, StoreArgument};
use crate::others::{WithOthers, report_others};
use crate::places::{self, Named, Place};
use crate::terminal::escapes::on_one_line;
use crate::terminal::interruption::{CLEANUP_TIME, run_until_interrupted};
use crate::terminal::output::{count, write_report};
use crate::terminal::progress_line::ProgressLine;

#[derive(Args, Debug)]
pub(crate) struct VerifyArguments {
    /// Print the report as JSON
    ///
    /// Its fields are files, bytes, problems and others. The first two count undamaged files only. The last is the
    /// number of other memories near this one, or null if they cannot be listed.
    #[arg(long)]
    pub(crate) json: bool,

    /// Repair the log of a store in a bucket and damaged histories first
    ///
    /// Losses are reported. Copy the store first, and run only one repair at a time.
    #[arg(long, conflicts_with = "all")]
    pub(crate) repair: bool,

    #[command(flatten)]
    pub(crate) all: AllArgument,

    #[command(flatten)]
    pub(crate) store: StoreArgument,
}

/// Verifies the store, and prints the report.
pub(crate) fn run(arguments: &VerifyArguments) -> Result<ExitStatus, Failure> {
    let VerifyArguments { store, all, json, .. } = arguments;
    memory::refuse_temporary(&store.url)?;
    let one = Place { url: store.url.clone(), scope: None };
    let places = if all.all { Some(places::stores(&store.url, &store.options())?) } else { None };
    places::for_each(places, one, *json, |place, memory| {
        let (report, others) = run_until_interrupted(CLEANUP_TIME, async {
            let lost = if arguments.repair { repair(place, store).await? } else { Vec::new() };
            let (mut report, others) = verify(place, store.options(), all.all).await?;
            report.problems.extend(lost);
            Ok::<_, Failure>((report, others))
        })?;
        let printed = Named { memory, report: WithOthers { report: &report, others, waiting: None } };
        write_report(*json, &printed, || to_text(&report))?;
        Ok(ExitStatus::of(report.problems.is_empty()))
    })
}

async fn verify(
    place: &Place,
    options: MemoryOptions,
    are_all_verified: bool,
) -> Result<(VerifyReport, Option<u64>), Failure> {
    let memory = open_existing(&place.url, options, Access::Read).await?;
    let others = if are_all_verified { Some(0) } else { report_others(&memory, &place.url, None).await? };
    let mut line = ProgressLine::of_standard_error();
    let report = memory.verify(|progress| line.show_files(progress.files, Some(progress.of))).await;
    Ok((report.context("cannot verify the store")?, others))
}

/// Repairs the log of a store in a bucket, and damaged histories. Returns what could not be recovered.
async fn repair(place: &Place, store: &StoreArgument) -> Result<Vec<Problem>, Failure> {
    let mut lost = Vec::new();
    if let StoreUrl::Bucket { url } = &store.url {
        let options = OpenOptions::new().timeout(store.timeout.timeout.0);
        let repaired = memory::bucket(url)?.options(options).repair().await;
        lost = repaired.map_err(|error| memory::failure(error.with_place(format!("at {url}"))))?.lost;
    }
    let memory = open_existing(&place.url, store.options(), Access::Change).await?;
    for done in memory.repair_histories().await.context("cannot repair the history")? {
        eprint_line(&format!("memory-tool: {}", on_one_line(&done)));
    }
    Ok(lost)
}

fn to_text(report: &VerifyReport) -> String {
    let summary = match report.problems.len() {
        0 => format!("{}, {}: no problems found", count(report.files, "file"), count(report.bytes, "byte")),
        problems => format!("{} found", count(problems as u64, "problem")),
    };
    report.problems.iter().map(|problem| on_one_line(&problem.message) + "\n").chain([summary]).collect()
}
