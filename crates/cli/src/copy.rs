//! `memory-tool copy`: copies all files of one memory to another.

use memory_tool::transfer::{CopyOptions, CopyReport, TransferError};

use crate::arguments::CopyArguments;
use crate::exit_status::ExitStatus;
use crate::failure::Failure;
use crate::interruption::{CLEANUP_TIME, run_until_interrupted};
use crate::memory;
use crate::others::WithOthers;
use crate::output::write_report;
use crate::progress_line::ProgressLine;
use crate::transfer::{
    lines_of, lines_of_paths, lines_of_written, open_destination, open_source, show_progress, summary, warn_of_no_file,
};

/// Copies, and prints the report.
pub(crate) fn run(arguments: &CopyArguments) -> Result<ExitStatus, Failure> {
    let copied = run_until_interrupted(CLEANUP_TIME, copy(arguments))?;
    if copied.report.is_source_empty {
        warn_of_no_file(&arguments.source, arguments.source_scope.as_ref());
    }
    write_report(arguments.json, &copied, || to_text(&copied.report))?;
    Ok(ExitStatus::of(copied.report.is_complete()))
}

async fn copy(arguments: &CopyArguments) -> Result<WithOthers<CopyReport>, Failure> {
    let CopyArguments { source, source_scope, source_encryption, destination, encryption, .. } = arguments;
    let CopyArguments { policies, writing, existing, timeout, .. } = arguments;
    refuse_overlap(arguments).await?;
    let (from, to) = (timeout.options(&source_encryption.to_encryption()), timeout.options(encryption));
    // All keys are read first: if one is missing, nothing is created.
    to.key_ring().await.map_err(memory::failed_options)?;
    let (source, others) = open_source(source, source_scope.as_ref(), from).await?;
    let destination = open_destination(destination, policies, *writing, *existing, to).await?;
    let options = if writing.overwrite { CopyOptions::new().overwrite() } else { CopyOptions::new() };
    let mut line = ProgressLine::of_standard_error();
    let copied = source.copy_to(&destination, options, |progress| show_progress(&mut line, progress)).await;
    Ok(WithOthers { report: copied.map_err(Failure::other)?, others })
}

/// Returns an error if the source and the destination overlap. In this case, it creates nothing.
async fn refuse_overlap(arguments: &CopyArguments) -> Result<(), Failure> {
    let CopyArguments { source, source_scope, destination, policies, .. } = arguments;
    let source = memory::scoped(source, source_scope.as_ref());
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
