//! `memory-tool export`: writes all files of a memory to a plain directory or a tar archive.

use std::io::{self, IsTerminal as _};
use std::path::Path;
use std::time::Duration;

use memory_tool::transfer::{Export, ExportReport, TransferError};

use crate::arguments::ExportArguments;
use crate::exit_status::ExitStatus;
use crate::failure::{Failure, eprint_line};
use crate::interruption::{CLEANUP_TIME, run_until_interrupted};
use crate::memories::{self, Named, Place};
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
    let one = Place { url: arguments.store.url.clone(), scope: arguments.scope.clone() };
    if !arguments.all.all {
        return export_one(arguments, &one, None, &arguments.target);
    }
    if is_stream {
        return Err(Failure::new("--all needs a directory, because an archive holds one memory"));
    }
    let places = memories::scopes(&one.url, &arguments.store.options())?;
    let directories = memories::directories(&places)?;
    let mut directories = directories.iter().map(|directory| arguments.target.join(directory));
    memories::for_each(Some(places), one, arguments.json, |place, name| {
        export_one(arguments, place, name, &directories.next().unwrap_or_default())
    })
}

fn export_one(
    arguments: &ExportArguments,
    place: &Place,
    memory: Option<String>,
    target: &Path,
) -> Result<ExitStatus, Failure> {
    let is_stream = target == Path::new(STANDARD_STREAM);
    // A write to standard output may never return.
    let cleanup_time = if is_stream { Duration::ZERO } else { CLEANUP_TIME };
    let exported = run_until_interrupted(cleanup_time, export(arguments, place, target))?;
    let exported = Named { memory, report: exported };
    let text = || to_text(&exported.report.report);
    if is_stream {
        let text = if arguments.json {
            String::from_utf8_lossy(&to_json(&io::stderr(), &exported)?).into_owned()
        } else {
            text()
        };
        eprint_line(&text);
    } else {
        write_report(arguments.json, &exported, text)?;
    }
    Ok(ExitStatus::of(exported.report.report.is_complete()))
}

async fn export(
    arguments: &ExportArguments,
    place: &Place,
    target: &Path,
) -> Result<WithOthers<ExportReport>, Failure> {
    let ExportArguments { store, all, overwrite, .. } = arguments;
    let (memory, others) = open_source(place, arguments.at, all.all, store.options()).await?;
    let export =
        if target == Path::new(STANDARD_STREAM) { Export::to_writer(io::stdout()) } else { Export::to_path(target) };
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
