//! `memory-tool export`: writes all files of a memory to a plain directory or a tar archive.

use std::io::{self, IsTerminal as _};
use std::path::Path;
use std::time::Duration;

use memory_tool::transfer::{Export, ExportReport, TransferError};

use crate::arguments::ExportArguments;
use crate::exit_status::ExitStatus;
use crate::failure::{Failure, eprint_line};
use crate::interruption::{CLEANUP_TIME, run_until_interrupted};
use crate::others::WithOthers;
use crate::output::{count, to_json, write_report};
use crate::progress_line::ProgressLine;
use crate::transfer::{STANDARD_STREAM, lines_of, lines_of_paths, open_source, show_progress};

/// Exports, and prints the report: to standard error if the archive goes to standard output.
pub(crate) fn run(arguments: &ExportArguments) -> Result<ExitStatus, Failure> {
    let is_stream = arguments.target == Path::new(STANDARD_STREAM);
    if is_stream && io::stdout().is_terminal() {
        return Err(Failure::new(
            "cannot write an archive to a terminal; redirect standard output, or name a file that ends in .tar",
        ));
    }
    // A write to standard output may never return.
    let cleanup_time = if is_stream { Duration::ZERO } else { CLEANUP_TIME };
    let exported = run_until_interrupted(cleanup_time, export(arguments, is_stream))?;
    if is_stream {
        let text = if arguments.json {
            String::from_utf8_lossy(&to_json(&io::stderr(), &exported)?).into_owned()
        } else {
            to_text(&exported.report)
        };
        eprint_line(&text);
    } else {
        write_report(arguments.json, &exported, || to_text(&exported.report))?;
    }
    Ok(ExitStatus::of(exported.report.is_complete()))
}

async fn export(arguments: &ExportArguments, is_stream: bool) -> Result<WithOthers<ExportReport>, Failure> {
    let ExportArguments { store, scope, target, overwrite, .. } = arguments;
    let (memory, others) = open_source(&store.url, scope.as_ref(), store.options()).await?;
    let export = if is_stream { Export::to_writer(io::stdout()) } else { Export::to_path(target) };
    let export = if *overwrite { export.overwrite() } else { export };
    let mut line = ProgressLine::of_standard_error();
    let exported = memory.export(export, |progress| show_progress(&mut line, progress)).await;
    let report = exported.map_err(|error| match error {
        TransferError::TargetExists { path } => Failure::new(format!(
            "cannot export to {}: it exists; name a new file or a new or empty directory, or add --overwrite",
            path.display()
        )),
        TransferError::Writer(error) => Failure::Output(error),
        error => Failure::other(error),
    })?;
    Ok(WithOthers { report, others })
}

fn to_text(exported: &ExportReport) -> String {
    let refused = lines_of(&exported.refused, "was refused", "refused", exported.more_refused);
    let unreadable = lines_of(&exported.unreadable, "could not be read", "could not read", exported.more_unreadable);
    let removed = lines_of_paths(
        &exported.removed,
        "was removed during the export",
        "removed during the export:",
        exported.more_removed,
    );
    let summary = format!("exported {} ({})", count(exported.exported, "file"), count(exported.bytes, "byte"));
    let lines = refused.chain(unreadable).chain(removed).chain(exported.kept.clone());
    lines.chain([summary]).collect::<Vec<_>>().join("\n")
}
