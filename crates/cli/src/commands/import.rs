//! `memory-tool import`: writes the files of a plain directory or a tar archive to a memory.

use std::io::{self, IsTerminal as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use memory_tool::transfer::{Import, ImportReport, TransferError};

use crate::exit_status::ExitStatus;
use crate::failure::Failure;
use crate::options::values::{WritingArgument, directory_of_a_source, host_path};
use crate::options::{ExistingArgument, MemoryArgument};
use crate::protocol::MAX_LINE_BYTES;
use crate::terminal::escapes::on_one_line;
use crate::terminal::interruption::{CLEANUP_TIME, run_until_interrupted};
use crate::terminal::output::{count, write_report};
use crate::terminal::progress_line::ProgressLine;
use crate::transfer::{STANDARD_STREAM, lines_of, lines_of_written, open_destination, summary};

#[derive(Args, Debug)]
pub(crate) struct ImportArguments {
    /// A directory, a tar archive, or - for a tar archive on standard input
    ///
    /// An archive may be compressed with gzip, which is recognized by its content.
    #[arg(value_parser = host_path())]
    pub(crate) source: PathBuf,

    /// Import only files under DIRECTORY of SOURCE
    ///
    /// For example store/memories in an archive of a whole local store. An empty selection is an error.
    #[arg(long, value_name = "DIRECTORY", value_parser = directory_of_a_source)]
    pub(crate) under: Option<String>,

    /// Skip files larger than N bytes without reading them
    #[arg(long, value_name = "N", default_value_t = MAX_LINE_BYTES as u64)]
    pub(crate) skip_above: u64,

    #[command(flatten)]
    pub(crate) writing: WritingArgument,

    #[command(flatten)]
    pub(crate) existing: ExistingArgument,

    /// Print the report as JSON
    ///
    /// Its fields are the counts copied, overwritten, bytes, unchanged and only_in_destination, the lists redacted,
    /// conflicts, refused, unverified and skipped, the flag dry_run, and archive_error. A list has at most 1,000 files.
    /// The numbers more_redacted to more_skipped count the others. The bytes are of copied and overwritten files.
    #[arg(long)]
    pub(crate) json: bool,

    #[command(flatten)]
    pub(crate) memory: MemoryArgument,
}

/// Imports, and prints the report.
pub(crate) fn run(arguments: &ImportArguments) -> Result<ExitStatus, Failure> {
    let is_stream = arguments.source == Path::new(STANDARD_STREAM);
    if is_stream && io::stdin().is_terminal() {
        return Err(Failure::new(
            "cannot read an archive from a terminal; redirect standard input, or name a file or a directory",
        ));
    }
    // A read of standard input may never return.
    let cleanup_time = if is_stream { Duration::ZERO } else { CLEANUP_TIME };
    let imported = run_until_interrupted(cleanup_time, import(arguments))?;
    write_report(arguments.json, &imported, || to_text(&imported))?;
    Ok(ExitStatus::of(imported.is_complete()))
}

async fn import(arguments: &ImportArguments) -> Result<ImportReport, Failure> {
    let ImportArguments { memory, writing, existing, skip_above, .. } = arguments;
    let mut import = to_import(arguments);
    let failed = |error| failure(error, arguments);
    // A source without files creates no memory.
    let dry_run = writing.dry_run || !import.has_files().await.map_err(failed)?;
    let writing_if_any = WritingArgument { dry_run, ..*writing };
    let MemoryArgument { store, policies } = memory;
    let destination = open_destination(&store.url, policies, writing_if_any, *existing, store.options()).await?;
    let mut line = ProgressLine::of_standard_error();
    let imported = destination.import(import, |progress| line.show_files(progress.files, progress.of)).await;
    let mut imported = imported.map_err(failed)?;
    imported.written.dry_run = writing.dry_run;
    let too_large = format!("it has more than {}", count(*skip_above, "byte"));
    for problem in imported.skipped.iter_mut().filter(|problem| problem.reason == too_large) {
        problem.reason.push_str(", see --skip-above");
    }
    Ok(imported)
}

fn to_import(arguments: &ImportArguments) -> Import {
    let ImportArguments { source, under, skip_above, writing, .. } = arguments;
    let is_stream = source == Path::new(STANDARD_STREAM);
    let import = if is_stream { Import::from_reader(io::stdin()) } else { Import::from_path(source) };
    let import = import.skip_above(*skip_above);
    let import = if writing.overwrite { import.overwrite() } else { import };
    match under {
        Some(directory) => import.under(directory),
        None => import,
    }
}

/// The error with the names of the command line.
fn failure(error: TransferError, arguments: &ImportArguments) -> Failure {
    let ImportArguments { source, memory, .. } = arguments;
    match error {
        TransferError::SourceFormat { format, .. } => Failure::new(format!(
            "cannot import {}: {format} is not supported; name a directory or a tar archive, plain or with gzip",
            source.display()
        )),
        TransferError::SourceIsStore { path } => {
            let (path, destination) = (path.display(), &memory.store.url);
            Failure::new(format!(
                "cannot import {path}: it is the directory of a store; use: memory-tool copy {path} {destination}"
            ))
        }
        error => Failure::other(error),
    }
}

fn to_text(imported: &ImportReport) -> String {
    let skipped = lines_of(&imported.skipped, "was skipped", "skipped", imported.more_skipped);
    let archive_error = imported.archive_error.iter().map(|reason| on_one_line(reason));
    let lines = lines_of_written(&imported.written).chain(skipped).chain(archive_error);
    lines.chain([summary(&imported.written, "imported", "import")]).collect::<Vec<_>>().join("\n")
}
