//! `memory-tool export`: writes all files of a memory to a plain directory or a tar archive.

use std::io::{self, IsTerminal as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Args, ValueHint};
use memory_tool::policies::Scope;
use memory_tool::transfer::{Export, ExportReport, TransferError};
use memory_tool::{MemoryPath, StoreError};

use crate::exit_status::ExitStatus;
use crate::failure::{Failure, eprint_line};
use crate::options::values::{Point, host_path, memory_path};
use crate::options::{AllArgument, StoreArgument};
use crate::others::WithOthers;
use crate::places::{self, Named, Place};
use crate::terminal::interruption::{CLEANUP_TIME, run_until_interrupted};
use crate::terminal::output::{count, to_json, write_report};
use crate::terminal::progress_line::ProgressLine;
use crate::transfer::{STANDARD_STREAM, lines_of, lines_of_paths, open_source, report_history, report_proposals};

#[derive(Args, Debug)]
pub(crate) struct ExportArguments {
    /// A directory, a .tar, .tar.gz, .tgz or .zip file, or - for standard output
    ///
    /// The ending decides: .tar is a tar archive, .tar.gz and .tgz are compressed with gzip, .zip is for people and
    /// cannot be imported, - is a tar archive on standard output, with the report on standard error, and every other
    /// name is a directory, which must be new or empty. Links in it are never followed. An archive gets its name only
    /// when it is complete. With --all, it is a directory that gets a directory for each memory.
    #[arg(value_parser = host_path())]
    pub(crate) target: PathBuf,

    /// Export only these files and directories
    ///
    /// They keep their names below /memories.
    #[arg(value_parser = memory_path, value_hint = ValueHint::Other)]
    pub(crate) path: Vec<MemoryPath>,

    /// Export only the part of the store that belongs to tenant NAME
    #[arg(long, value_name = "NAME", value_parser = Scope::from_trusted_name, conflicts_with = "all")]
    pub(crate) scope: Option<Scope>,

    #[command(flatten)]
    pub(crate) all: AllArgument,

    /// Export the state at this moment of the history
    #[arg(long, value_name = "ENTRY|TIME|AGE")]
    pub(crate) at: Option<Point>,

    /// Overwrite existing files
    ///
    /// TARGET may be an existing archive, or a directory that is not empty. An archive is only replaced if there are
    /// files to export and all of them can be read.
    #[arg(long)]
    pub(crate) overwrite: bool,

    /// Print the report as JSON
    ///
    /// Its fields are exported, bytes, the lists refused, unreadable and removed, and kept: the reason why an existing
    /// archive was not replaced, or null. A list has at most 1,000 files. The numbers more_refused, more_unreadable and
    /// more_removed count the others. The field others is the number of other memories and scopes near the exported
    /// one, or null if they cannot be listed, and waiting the number of files in proposals.
    #[arg(long)]
    pub(crate) json: bool,

    #[command(flatten)]
    pub(crate) store: StoreArgument,
}

/// The status with which a shell reports that SIGPIPE ended a program.
const STATUS_OF_SIGPIPE: u8 = 128 + 13;

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
    let places = places::scopes(&one.url, &arguments.store.options())?;
    let directories = places::directories(&places)?;
    let mut directories = directories.iter().map(|directory| arguments.target.join(directory));
    places::for_each(Some(places), one, arguments.json, |place, name| {
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
    let exported = match run_until_interrupted(cleanup_time, export(arguments, place, target)) {
        // As if SIGPIPE had ended it, like other programs that write archives.
        Err(Failure::Output(error)) if error.kind() == io::ErrorKind::BrokenPipe => {
            return Ok(ExitStatus::Interrupted { status: STATUS_OF_SIGPIPE });
        }
        exported => exported?,
    };
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
    let ExportArguments { store, path, all, overwrite, .. } = arguments;
    let (memory, others) = open_source(place, arguments.at, all.all, store.options()).await?;
    report_history(&memory).await;
    let waiting = report_proposals(&memory).await;
    let export =
        if target == Path::new(STANDARD_STREAM) { Export::to_writer(io::stdout()) } else { Export::to_path(target) };
    let export = if *overwrite { export.overwrite() } else { export };
    let export = path.iter().cloned().fold(export, Export::within);
    let mut line = ProgressLine::of_standard_error();
    let exported = memory.export(export, |progress| line.show_files(progress.files, progress.of)).await;
    let report = exported.map_err(|error| match error {
        TransferError::TargetExists { path } => Failure::new(format!(
            "cannot export to {}: it exists; name a new file or a new or empty directory, or add --overwrite",
            path.display()
        )),
        TransferError::Writer(error) => Failure::Output(error),
        TransferError::Reading(StoreError::NotFound { path }) => Failure::new(format!("{path} does not exist")),
        error => Failure::other(error),
    })?;
    Ok(WithOthers { report, others, waiting })
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
