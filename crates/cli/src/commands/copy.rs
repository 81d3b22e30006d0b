//! `memory-tool copy`: copies all files of one memory to another.

use clap::{Args, ValueHint};
use memory_tool::policies::Scope;
use memory_tool::transfer::{CopyOptions, CopyReport, TransferError};
use memory_tool::{MemoryOptions, StoreUrl};

use crate::exit_status::ExitStatus;
use crate::failure::Failure;
use crate::memory;
use crate::options::encryption::{Encryption, SourceEncryption};
use crate::options::policies::Policies;
use crate::options::values::{Point, WritingArgument};
use crate::options::{ExistingArgument, TimeoutArgument, store_url_parser};
use crate::others::WithOthers;
use crate::places::{self, Named, Place};
use crate::terminal::interruption::{CLEANUP_TIME, run_until_interrupted};
use crate::terminal::output::{count, write_report};
use crate::terminal::progress_line::ProgressLine;
use crate::transfer::{
    lines_of, lines_of_paths, lines_of_written, open_destination, open_source, report_history, report_proposals,
    summary, warn_of_no_file,
};

#[derive(Args, Debug)]
pub(crate) struct CopyArguments {
    /// The source: a directory, or a URL such as sqlite:memory.db
    ///
    /// `memory-tool --help` lists the kinds of stores. MEMORY_TOOL_STORE is ignored.
    #[arg(value_name = "SRC", value_parser = store_url_parser(), value_hint = ValueHint::AnyPath)]
    pub(crate) source: StoreUrl,

    /// The destination, in the same form
    #[arg(id = "store", value_name = "DST", value_parser = store_url_parser(), value_hint = ValueHint::AnyPath)]
    pub(crate) destination: StoreUrl,

    /// Copy only the part of SRC that belongs to tenant NAME
    #[arg(long, value_name = "NAME", value_parser = Scope::from_trusted_name, conflicts_with = "all")]
    pub(crate) source_scope: Option<Scope>,

    /// Copy all memories of SRC that `memory-tool memories` lists
    ///
    /// Each gets its name in DST: a tenant stays a tenant, and a memory of a database, bucket or directory becomes one
    /// of DST. Each has a heading, or the field memory in its line of JSON. A failure does not stop the others.
    #[arg(long, conflicts_with = "scope")]
    pub(crate) all: bool,

    /// Copy the state at this moment of the history
    #[arg(long, value_name = "ENTRY|TIME|AGE")]
    pub(crate) at: Option<Point>,

    /// Also copy the history, to an empty destination
    ///
    /// Entries keep their numbers, times and actors. Files and history are written in one step, and held in RAM until
    /// then.
    #[arg(long, conflicts_with_all = ["at", "overwrite"])]
    pub(crate) with_history: bool,

    #[command(flatten)]
    pub(crate) writing: WritingArgument,

    #[command(flatten)]
    pub(crate) existing: ExistingArgument,

    /// Print the report as JSON
    ///
    /// Its fields are the counts copied, overwritten, bytes, unchanged, only_in_destination and entries, the lists
    /// redacted, conflicts, refused, unverified, unreadable and removed, and the flags dry_run and
    /// source_still_changing. A list has at most 1,000 files. The numbers more_redacted to more_removed count the
    /// others. The bytes are of copied and overwritten files. The field others is the number of other memories and
    /// scopes near the source, or null if they cannot be listed, and waiting the number of files in proposals.
    #[arg(long)]
    pub(crate) json: bool,

    #[command(flatten)]
    pub(crate) timeout: TimeoutArgument,

    #[command(flatten)]
    pub(crate) source_encryption: SourceEncryption,

    #[command(flatten)]
    pub(crate) encryption: Encryption,

    #[command(flatten)]
    pub(crate) policies: Policies,
}

/// Copies, and prints the report.
pub(crate) fn run(arguments: &CopyArguments) -> Result<ExitStatus, Failure> {
    let CopyArguments { source, source_scope, destination, all, json, .. } = arguments;
    let one = Place { url: source.clone(), scope: source_scope.clone() };
    let places = if *all { Some(places::scopes(source, &source_options(arguments))?) } else { None };
    places::for_each(places, one, *json, |place, memory| {
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
    if !arguments.with_history {
        report_history(&source).await;
    }
    let waiting = report_proposals(&source).await;
    let destination = open_destination(destination, &policies, *writing, *existing, to).await?;
    let options = if writing.overwrite { CopyOptions::new().overwrite() } else { CopyOptions::new() };
    let options = if arguments.with_history { options.with_history() } else { options };
    let mut line = ProgressLine::of_standard_error();
    let copied = source.copy_to(&destination, options, |progress| line.show_files(progress.files, progress.of)).await;
    Ok(WithOthers { report: copied.map_err(Failure::other)?, others, waiting })
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
    let done = if copied.written.dry_run { "would copy" } else { "copied" };
    let entries = (copied.entries > 0).then(|| format!("{done} {} of the history", count(copied.entries, "change")));
    lines.chain(entries).chain([summary(&copied.written, "copied", "copy")]).collect::<Vec<_>>().join("\n")
}
