//! What `copy`, `export` and `import` share: how their memories are opened, and how their reports are printed.

use std::io::Stderr;

use memory_tool::policies::Scope;
use memory_tool::{FileProblem, Memory, OpenMode, OpenOptions, StoreUrl, TransferProgress, WriteReport};

use crate::encryption::Encryption;
use crate::failure::{Failure, eprint_line, on_one_line};
use crate::memory::{self, Access};
use crate::output::count;
use crate::policies::Policies;
use crate::progress_line::{ProgressLine, bar};

/// What stands for the standard input and output.
pub(crate) const STANDARD_STREAM: &str = "-";

/// Whether all was done.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Completeness {
    Complete,
    Incomplete,
}

impl Completeness {
    pub(crate) fn of(is_complete: bool) -> Self {
        if is_complete { Self::Complete } else { Self::Incomplete }
    }
}

/// Opens a memory that exists, or the part of it that belongs to a scope, to read it.
pub(crate) async fn open_source(
    url: &StoreUrl,
    encryption: &Encryption,
    scope: Option<&Scope>,
) -> Result<Memory, Failure> {
    memory::refuse_temporary(url)?;
    let builder = encryption.put_over(memory::scoped(url, scope)).await?;
    memory::open(builder.options(OpenOptions::new().read_only())).await
}

/// Opens the memory that files are written to. A dry run creates nothing.
pub(crate) async fn open_destination(
    url: &StoreUrl,
    encryption: &Encryption,
    policies: &Policies,
    is_dry_run: bool,
) -> Result<Memory, Failure> {
    policies.refuse_temporary(url)?;
    let access = if is_dry_run { Access::DryRun } else { Access::Mode(OpenMode::Create) };
    policies.open(url, encryption, access, |builder| builder).await
}

/// Reports to the operator that no file was found: otherwise a mistyped name would look like a memory that is copied completely.
pub(crate) fn warn_of_no_file(url: &StoreUrl, scope: Option<&Scope>) {
    let scope = scope.map(|scope| format!(" in the scope {scope}")).unwrap_or_default();
    eprint_line(&on_one_line(&format!(
        "memory-tool: there is no file in {url}{scope}: check that the name is correct"
    )));
}

/// Shows how far a transfer has come.
pub(crate) fn show_progress(line: &mut Option<ProgressLine<Stderr>>, progress: TransferProgress) {
    let Some(line) = line else { return };
    line.show(&match progress.of {
        Some(of) => bar(progress.files as usize, of as usize),
        None => count(progress.files, "file"),
    });
}

/// The line of a report on a file.
pub(crate) fn line_of(problem: &FileProblem, what: &str) -> String {
    on_one_line(&format!("{} {what}: {}", problem.path, problem.reason))
}

/// The files with a problem, a line each.
pub(crate) fn problems(written: &WriteReport) -> impl Iterator<Item = String> {
    let redacted = written.redacted.iter().map(|path| on_one_line(&format!("{path} is redacted")));
    let conflicts = written.conflicts.iter().map(|problem| line_of(problem, "stays as it is"));
    let refused = written.refused.iter().map(|problem| line_of(problem, "is refused"));
    let unverified = written.unverified.iter().map(|problem| line_of(problem, "is not as it should be"));
    redacted.chain(conflicts).chain(refused).chain(unverified)
}

/// The last line, with the past form of what was done.
pub(crate) fn summary(written: &WriteReport, done: &str) -> String {
    let verb = if written.dry_run { format!("would be {done}") } else { done.to_owned() };
    let WriteReport { overwritten, already_there, besides, .. } = written;
    format!(
        "{} {verb}, {overwritten} overwritten, {}; {already_there} already there, {besides} besides",
        count(written.copied, "file"),
        count(written.bytes, "byte")
    )
}
