//! The common part of `copy`, `export` and `import`: opening memories and printing reports.

use memory_tool::policies::Scope;
use memory_tool::store::StorePath;
use memory_tool::transfer::{FileProblem, WriteReport};
use memory_tool::{Memory, MemoryOptions, StoreUrl};

use crate::failure::{Context as _, Failure, eprint_line};
use crate::history;
use crate::memory::{self, Access, open_existing};
use crate::options::ExistingArgument;
use crate::options::policies::Policies;
use crate::options::values::{Point, WritingArgument};
use crate::others::report_others;
use crate::places::Place;
use crate::terminal::escapes::on_one_line;
use crate::terminal::output::count;

/// The name of standard input and output.
pub(crate) const STANDARD_STREAM: &str = "-";

/// Opens an existing memory, or the part of it that belongs to a scope, for reading, also at an earlier
/// moment. Returns it with the number of others.
pub(crate) async fn open_source(
    place: &Place,
    at: Option<Point>,
    is_one_of_all: bool,
    mut options: MemoryOptions,
) -> Result<(Memory, Option<u64>), Failure> {
    let Place { url, scope } = place;
    options.scope.clone_from(scope);
    let source = open_existing(url, options, Access::Read).await?;
    let others = if is_one_of_all { Some(0) } else { report_others(&source, url, scope.as_ref()).await? };
    let Some(point) = at else { return Ok((source, others)) };
    let past = history::past(point, &history::required(&source).await?).await?;
    let past = Memory::over(past).read_only().build().await.context("cannot open the past")?;
    Ok((past, others))
}

/// Reports that a history stays behind, unless the source is a past state.
pub(crate) async fn report_history(source: &Memory) {
    let Some(history) = source.history() else { return };
    if !matches!(history.newest().await, Ok(0)) {
        eprint_line("memory-tool: the history is not included here");
    }
}

/// Reports that changes which wait stay behind. Returns the number of their files.
pub(crate) async fn report_proposals(source: &Memory) -> Option<usize> {
    let listed = source.proposals()?.list().await.unwrap_or_default();
    for proposal in &listed {
        let (name, files) = (&proposal.name, count(proposal.files as u64, "file"));
        eprint_line(&format!("memory-tool: the proposal {name} is not included ({files})"));
    }
    Some(listed.iter().map(|proposal| proposal.files).sum())
}

/// Opens the destination. A dry run creates nothing.
pub(crate) async fn open_destination(
    url: &StoreUrl,
    policies: &Policies,
    writing: WritingArgument,
    existing: ExistingArgument,
    mut options: MemoryOptions,
) -> Result<Memory, Failure> {
    policies.refuse_temporary(url)?;
    policies.set(&mut options);
    options.must_exist = existing.must_exist;
    options.dry_run = writing.dry_run;
    memory::open(url, &options).await
}

/// Reports an empty source, so that a mistyped name does not look like a complete copy.
pub(crate) fn warn_of_no_file(url: &StoreUrl, scope: Option<&Scope>) {
    let scope = scope.map(|scope| format!(" in the scope {scope}")).unwrap_or_default();
    eprint_line(&on_one_line(&format!("memory-tool: no files in {url}{scope}; check the name")));
}

/// The lines about the files of a [`WriteReport`].
pub(crate) fn lines_of_written(written: &WriteReport) -> impl Iterator<Item = String> {
    let redacted = lines_of_paths(&written.redacted, "was redacted", "redacted", written.more_redacted);
    let conflicts = lines_of(&written.conflicts, "was not copied", "did not copy", written.more_conflicts);
    let refused = lines_of(&written.refused, "was refused", "refused", written.more_refused);
    let unverified =
        lines_of(&written.unverified, "could not be verified", "could not verify", written.more_unverified);
    redacted.chain(conflicts).chain(refused).chain(unverified)
}

/// A line for each problem of a list, and one for the number of files that the list does not contain.
pub(crate) fn lines_of(list: &[FileProblem], what: &str, of_more: &str, more: u64) -> impl Iterator<Item = String> {
    let line = move |problem: &FileProblem| on_one_line(&format!("{} {what}: {}", problem.path, problem.reason));
    list.iter().map(line).chain(line_of_more(of_more, more))
}

/// The same for a list without reasons.
pub(crate) fn lines_of_paths(list: &[StorePath], what: &str, of_more: &str, more: u64) -> impl Iterator<Item = String> {
    list.iter().map(move |path| on_one_line(&format!("{path} {what}"))).chain(line_of_more(of_more, more))
}

fn line_of_more(what: &str, files: u64) -> Option<String> {
    (files > 0).then(|| format!("{what} {}", count(files, "more file")))
}

/// The last line, with the past tense and the infinitive of the command's verb.
pub(crate) fn summary(written: &WriteReport, past: &str, infinitive: &str) -> String {
    let WriteReport { dry_run, copied, overwritten, bytes, unchanged, only_in_destination, .. } = written;
    let (copied, bytes) = (count(*copied, "file"), count(*bytes, "byte"));
    let done = match dry_run {
        true => format!("would {infinitive} {copied} ({bytes}), would overwrite {overwritten}"),
        false => format!("{past} {copied} ({bytes}), overwrote {overwritten}"),
    };
    format!("{done}; {unchanged} unchanged, {only_in_destination} only in the destination")
}
