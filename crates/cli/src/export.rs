//! `memory-tool export`: writes all files of a memory to a plain directory or a tar archive.

use std::io::{self, IsTerminal as _};
use std::path::Path;
use std::time::Duration;

use memory_tool::{Export, ExportReport, TransferError};

use crate::arguments::ExportArguments;
use crate::escapes::on_one_line;
use crate::failure::{Failure, eprint_line};
use crate::interruption::{CLEANUP_TIME, run_until_interrupted};
use crate::output::{count, to_json, write_report};
use crate::progress_line::ProgressLine;
use crate::transfer::{Completeness, STANDARD_STREAM, line_of, open_source, show_progress};

/// Exports, and prints the report: to standard error if the archive goes to standard output.
pub(crate) fn run(arguments: &ExportArguments) -> Result<Completeness, Failure> {
    let is_stream = arguments.target == Path::new(STANDARD_STREAM);
    if is_stream && io::stdout().is_terminal() {
        return Err(Failure::ArchiveOnTerminal);
    }
    // A write to standard output may never return.
    let cleanup_time = if is_stream { Duration::ZERO } else { CLEANUP_TIME };
    let exported = run_until_interrupted(cleanup_time, export(arguments, is_stream))?;
    if is_stream {
        let text = if arguments.json {
            String::from_utf8_lossy(&to_json(&io::stderr(), &exported)?).into_owned()
        } else {
            to_text(&exported)
        };
        eprint_line(&text);
    } else {
        write_report(arguments.json, &exported, || to_text(&exported))?;
    }
    Ok(Completeness::of(exported.is_complete()))
}

async fn export(arguments: &ExportArguments, is_stream: bool) -> Result<ExportReport, Failure> {
    let ExportArguments { store, scope, target, overwrite, .. } = arguments;
    let memory = open_source(&store.url, &store.encryption, scope.as_ref(), store.deadline).await?;
    let export = if is_stream { Export::to_writer(io::stdout()) } else { Export::to_path(target) };
    let export = if *overwrite { export.overwrite() } else { export };
    let mut line = ProgressLine::of_standard_error();
    let exported = memory.export(export, |progress| show_progress(&mut line, progress)).await;
    exported.map_err(|error| match error {
        TransferError::TargetExists { path } => Failure::TargetExists { path },
        TransferError::Writer(error) => Failure::Output(error),
        error => Failure::Transfer(error),
    })
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
