//! `memory-tool export`: writes all files of a memory to a plain directory or a tar archive.

use std::future::pending;
use std::io::{self, IsTerminal as _};
use std::path::Path;
use std::time::Duration;

use memory_tool::{Export, ExportReport, TransferError};

use crate::arguments::ExportArguments;
use crate::failure::{Failure, eprint_line, on_one_line};
use crate::interruption::Interruption;
use crate::output::{count, to_json, write_line};
use crate::progress_line::ProgressLine;
use crate::run::start_runtime;
use crate::transfer::{Completeness, STANDARD_STREAM, line_of, open_source, show_progress};

/// The maximum time for an interrupted export to remove incomplete files.
const CLEANUP_TIME: Duration = Duration::from_secs(5);

/// The end of an export.
pub(crate) enum ExportEnd<T> {
    Done(T),
    /// A signal ended the program with this status. Incomplete files are removed.
    Interrupted {
        status: u8,
    },
}

/// Exports, and prints the report: to standard error if the archive goes to standard output.
pub(crate) fn run(arguments: &ExportArguments) -> Result<ExportEnd<Completeness>, Failure> {
    let is_stream = arguments.target == Path::new(STANDARD_STREAM);
    if is_stream && io::stdout().is_terminal() {
        return Err(Failure::ArchiveOnTerminal);
    }
    let runtime = start_runtime()?;
    let exported = match runtime.block_on(export(arguments, is_stream))? {
        ExportEnd::Done(exported) => exported,
        ExportEnd::Interrupted { status } => {
            runtime.shutdown_timeout(CLEANUP_TIME);
            eprint_line("memory-tool: interrupted");
            return Ok(ExportEnd::Interrupted { status });
        }
    };
    let text = if arguments.json { to_json(&exported)? } else { to_text(&exported).into_bytes() };
    if is_stream {
        eprint_line(&String::from_utf8_lossy(&text));
    } else {
        write_line(&mut io::stdout().lock(), text)?;
    }
    Ok(ExportEnd::Done(Completeness::of(exported.is_complete())))
}

async fn export(arguments: &ExportArguments, is_stream: bool) -> Result<ExportEnd<ExportReport>, Failure> {
    let ExportArguments { store, scope, target, overwrite, .. } = arguments;
    let memory = open_source(&store.url, &store.encryption, scope.as_ref(), store.deadline).await?;
    let export = if is_stream { Export::to_writer(io::stdout()) } else { Export::to_path(target) };
    let export = if *overwrite { export.overwrite() } else { export };
    // An archive on standard output leaves nothing to remove, and a write could block until it is read.
    let mut interruption = (!is_stream).then(Interruption::listen).transpose().map_err(Failure::Start)?;
    let mut line = ProgressLine::of_standard_error();
    tokio::select! {
        biased; // after a signal, no other file is read
        status = status_of(&mut interruption) => Ok(ExportEnd::Interrupted { status }),
        exported = memory.export(export, |progress| show_progress(&mut line, progress)) => match exported {
            Ok(exported) => Ok(ExportEnd::Done(exported)),
            Err(TransferError::TargetExists { path }) => Err(Failure::TargetExists { path }),
            Err(TransferError::Writer(error)) => Err(Failure::Output(error)),
            Err(error) => Err(Failure::Transfer(error)),
        },
    }
}

/// Waits for a signal, and returns the exit status. Never returns without an interruption to wait for.
async fn status_of(interruption: &mut Option<Interruption>) -> u8 {
    match interruption {
        Some(interruption) => interruption.status().await,
        None => pending().await,
    }
}

fn to_text(exported: &ExportReport) -> String {
    let refused = exported.refused.iter().map(|problem| line_of(problem, "was refused"));
    let unreadable = exported.unreadable.iter().map(|problem| line_of(problem, "could not be read"));
    let removed = exported.removed.iter().map(|path| on_one_line(&format!("{path} was removed during the export")));
    let summary = format!("exported {} ({})", count(exported.exported, "file"), count(exported.bytes, "byte"));
    refused
        .chain(unreadable)
        .chain(removed)
        .chain(exported.kept.clone())
        .chain([summary])
        .collect::<Vec<_>>()
        .join("\n")
}
