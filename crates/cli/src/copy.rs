//! `memory-tool copy`: copies all files of one memory to another.

use memory_tool::transfer::{CopyOptions, CopyReport, TransferError};
use memory_tool::{MemoryOptions, StoreUrl};

use crate::arguments::CopyArguments;
use crate::exit_status::ExitStatus;
use crate::failure::Failure;
use crate::interruption::{CLEANUP_TIME, run_until_interrupted};
use crate::memories::{self, Named, Place};
use crate::memory;
use crate::others::WithOthers;
use crate::output::write_report;
use crate::policies::Policies;
use crate::progress_line::ProgressLine;
use crate::transfer::{
    lines_of, lines_of_paths, lines_of_written, open_destination, open_source, show_progress, summary, warn_of_no_file,
};

/// Copies, and prints the report.
pub(crate) fn run(arguments: &CopyArguments) -> Result<ExitStatus, Failure> {
    let CopyArguments { source, source_scope, destination, all, json, .. } = arguments;
    let one = Place { url: source.clone(), scope: source_scope.clone() };
    let places = if *all { Some(memories::scopes(source, &source_options(arguments))?) } else { None };
    memories::for_each(places, one, *json, |place, memory| {
        let destination = if *all { counterpart(place, source, destination)? } else { destination.clone() };
        let copied = run_until_interrupted(CLEANUP_TIME, copy(arguments, place, &destination))?;
        if copied.report.is_source_empty {
            warn_of_no_file(&place.url, place.scope.as_ref());
        }
        let copied = Named { memory, report: copied };
        write_report(*json, &copied, || to_text(&copied.report.report))?;
        Ok(ExitStatus::of(copied.report.report.is_complete()))
    })
}

/// The store for a copy of one of all memories.
fn counterpart(place: &Place, source: &StoreUrl, destination: &StoreUrl) -> Result<StoreUrl, Failure> {
    let is_source_itself =
        place.url == *source && !matches!(source, StoreUrl::Sqlite { .. } | StoreUrl::Postgres { .. });
    if is_source_itself {
        return Ok(destination.clone());
    }
    let name = place.url.name().unwrap_or_default();
    destination.child(&name).ok_or_else(|| Failure::new(format!("the name {name:?} is not possible in {destination}")))
}

fn source_options(arguments: &CopyArguments) -> MemoryOptions {
    arguments.timeout.options(&arguments.source_encryption.to_encryption())
}

async fn copy(
    arguments: &CopyArguments,
    source: &Place,
    destination: &StoreUrl,
) -> Result<WithOthers<CopyReport>, Failure> {
    let CopyArguments { encryption, policies, writing, existing, timeout, all, .. } = arguments;
    let mut policies = policies.clone();
    if *all {
        policies.scope.clone_from(&source.scope);
    }
    refuse_overlap(source, destination, &policies).await?;
    let to = timeout.options(encryption);
    // All keys are read first: if one is missing, nothing is created.
    to.key_ring().await.map_err(memory::failed_options)?;
    let (source, others) = open_source(source, arguments.at, *all, source_options(arguments)).await?;
    let destination = open_destination(destination, &policies, *writing, *existing, to).await?;
    let options = if writing.overwrite { CopyOptions::new().overwrite() } else { CopyOptions::new() };
    let mut line = ProgressLine::of_standard_error();
    let copied = source.copy_to(&destination, options, |progress| show_progress(&mut line, progress)).await;
    Ok(WithOthers { report: copied.map_err(Failure::other)?, others })
}

/// Returns an error if the source and the destination overlap. In this case, it creates nothing.
async fn refuse_overlap(source: &Place, destination: &StoreUrl, policies: &Policies) -> Result<(), Failure> {
    let source = memory::scoped(&source.url, source.scope.as_ref());
    for changed in policies.changed_memories(destination) {
        if source.overlaps(&changed).await {
            return Err(Failure::other(TransferError::SameMemory));
        }
    }
    Ok(())
}

fn to_text(copied: &CopyReport) -> String {
    let unreadable = lines_of(&copied.unreadable, "could not be read", "could not read", copied.more_unreadable);
    let removed = lines_of_paths(
        &copied.removed,
        "was removed from the source during the copy",
        "removed from the source during the copy:",
        copied.more_removed,
    );
    let changing = copied.source_still_changing.then(|| "the source kept changing; run the copy again".to_owned());
    let lines = lines_of_written(&copied.written).chain(unreadable).chain(removed).chain(changing);
    lines.chain([summary(&copied.written, "copied", "copy")]).collect::<Vec<_>>().join("\n")
}
