//! `memory-tool export`: writes all files of a store into a plain directory or a tar archive.

mod archive;
mod directory;

use std::future::pending;
use std::io::{self, IsTerminal as _};
use std::path::Path;

use memory_tool_core::MemoryPath;
use serde::Serialize;

use crate::arguments::ExportArguments;
use crate::export::archive::{Archive, Compression};
use crate::export::directory::Directory;
use crate::failure::{Failure, on_one_line, tell};
use crate::interruption::Interruption;
use crate::output::{count, to_json, write_line};
use crate::progress_line::{ProgressLine, bar};
use crate::run::start_runtime;
use crate::transfer::{Completeness, Listed, Source, Told};

/// How the name of a file begins that is not whole yet.
pub(crate) const PARTIAL_PREFIX: &str = ".memory-tool-export-";

/// What stands for the standard input and output.
pub(crate) const STANDARD_STREAM: &str = "-";

/// How the names of archives end that are not written.
const OTHER_FORMATS: &[&str] = &[
    ".7z", ".br", ".bz2", ".cpio", ".gz", ".lz", ".lz4", ".lzma", ".rar", ".tar.z", ".taz", ".tbz", ".tbz2", ".tlz",
    ".txz", ".tzst", ".xz", ".zip", ".zst",
];

/// How an export came to its end.
pub(crate) enum Ended<T> {
    Done(T),
    /// A signal asked the program to end with this status. What was not whole is gone.
    Interrupted {
        status: u8,
    },
}

/// Exports, and prints what became of the files: on the standard error, where the archive goes to the standard output.
pub(crate) fn run(arguments: &ExportArguments) -> Result<Ended<Completeness>, Failure> {
    let exported = match export(arguments)? {
        Ended::Done(exported) => exported,
        Ended::Interrupted { status } => {
            tell("memory-tool: interrupted");
            return Ok(Ended::Interrupted { status });
        }
    };
    let text = if arguments.json { to_json(&exported)? } else { exported.to_text().into_bytes() };
    if arguments.target == Path::new(STANDARD_STREAM) {
        tell(&String::from_utf8_lossy(&text));
    } else {
        write_line(&mut io::stdout().lock(), text)?;
    }
    Ok(Ended::Done(Completeness::of(exported.is_complete())))
}

fn export(arguments: &ExportArguments) -> Result<Ended<Exported>, Failure> {
    let ExportArguments { store, scope, target, overwrite, .. } = arguments;
    let form = Form::of(target)?;
    if target == Path::new(STANDARD_STREAM) && io::stdout().is_terminal() {
        return Err(Failure::ArchiveOnTerminal);
    }
    let runtime = start_runtime()?;
    let source = runtime.block_on(Source::open(&store.url, &store.encryption, scope.as_ref()))?;
    let paths = runtime.block_on(source.list())?;
    // On the standard output nothing is left behind, and whoever reads it could keep us from looking at the signals.
    let is_file = target != Path::new(STANDARD_STREAM);
    let listen = || runtime.block_on(async { Interruption::listen() }).map_err(Failure::Start);
    let mut interruption = is_file.then(listen).transpose()?;
    let mut target = Target::open(target, form, *overwrite)?;
    let mut exported = Exported::default();
    let mut line = ProgressLine::of_standard_error();
    // Writing blocks, which no task may: so the loop stands outside the runtime and enters it to read one file at a time.
    for (done, path) in paths.iter().enumerate() {
        if let Some(line) = &mut line {
            line.show(&bar(done, paths.len()));
        }
        let told = |reason| Told { path: path.to_string(), reason };
        let read = runtime.block_on(async {
            tokio::select! {
                biased; // a signal that came while a file was written keeps the next one from being read
                status = status_of(&mut interruption) => Ended::Interrupted { status },
                listed = source.read(path) => Ended::Done(listed),
            }
        });
        let listed = match read {
            Ended::Done(listed) => listed?,
            Ended::Interrupted { status } => {
                runtime.shutdown_background(); // a read that never ends must not keep us from ending
                return Ok(Ended::Interrupted { status });
            }
        };
        match listed {
            Listed::File(file) => match target.add(path, &file.content)? {
                Added::Written => exported.add(file.content.len()),
                Added::Refused { reason } => exported.refused.push(told(reason)),
            },
            Listed::Gone => exported.gone.push(path.to_string()),
            Listed::Unreadable { reason } => exported.unreadable.push(told(reason)),
        }
    }
    let worse = exported.why_no_replacement();
    if target.finish(worse.is_none())? == Finished::Kept {
        exported = Exported { exported: 0, bytes: 0, kept: worse, ..exported };
    }
    Ok(Ended::Done(exported))
}

/// Waits for a signal, if any is listened for, and gives the status to end with.
async fn status_of(interruption: &mut Option<Interruption>) -> u8 {
    match interruption {
        Some(interruption) => interruption.status().await,
        None => pending().await,
    }
}

/// What a target is, as its name says.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Form {
    Directory,
    Archive(Compression),
    /// An archive on the standard output.
    StandardOutput,
}

impl Form {
    /// # Errors
    /// The name is that of an archive which would be a directory.
    fn of(target: &Path) -> Result<Self, Failure> {
        if target == Path::new(STANDARD_STREAM) {
            return Ok(Self::StandardOutput);
        }
        let name = target.file_name().unwrap_or_default().to_string_lossy().to_ascii_lowercase();
        let ends_in = |endings: &[&str]| endings.iter().any(|ending| name.ends_with(ending));
        match () {
            () if ends_in(&[".tar"]) => Ok(Self::Archive(Compression::None)),
            () if ends_in(&[".tar.gz", ".tgz"]) => Ok(Self::Archive(Compression::Gzip)),
            () if ends_in(OTHER_FORMATS) => Err(Failure::TargetFormat { path: target.to_owned() }),
            () => Ok(Self::Directory),
        }
    }
}

/// Where files are exported to.
enum Target {
    Directory(Directory),
    Archive(Archive),
}

/// What became of a file.
enum Added {
    Written,
    /// The target cannot hold it.
    Refused {
        reason: String,
    },
}

/// What an export comes to.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Finished {
    Written,
    /// An archive stays that was there before.
    Kept,
}

impl Target {
    fn open(target: &Path, form: Form, overwrites: bool) -> Result<Self, Failure> {
        match form {
            Form::Directory => Directory::open(target, overwrites).map(Self::Directory),
            Form::Archive(compression) => Archive::to_file(target, compression, overwrites).map(Self::Archive),
            Form::StandardOutput => Ok(Self::Archive(Archive::to_standard_output())),
        }
    }

    fn add(&mut self, path: &MemoryPath, content: &[u8]) -> Result<Added, Failure> {
        match self {
            Self::Directory(directory) => directory.add(path, content),
            Self::Archive(archive) => archive.add(path, content).map(|()| Added::Written),
        }
    }

    fn finish(self, may_replace: bool) -> Result<Finished, Failure> {
        match self {
            Self::Directory(_) => Ok(Finished::Written),
            Self::Archive(archive) => archive.finish(may_replace),
        }
    }
}

/// What is printed.
#[derive(Debug, Default, Serialize)]
struct Exported {
    exported: u64,
    bytes: u64,
    /// Files that the target cannot hold.
    refused: Vec<Told>,
    /// Files that cannot be read.
    unreadable: Vec<Told>,
    /// Files that were removed from the store meanwhile.
    gone: Vec<String>,
    /// Why an archive that was there before stays, and nothing is exported.
    kept: Option<String>,
}

impl Exported {
    fn add(&mut self, bytes: usize) {
        self.exported += 1;
        self.bytes += bytes as u64;
    }

    fn is_complete(&self) -> bool {
        self.refused.is_empty() && self.unreadable.is_empty() && self.kept.is_none()
    }

    /// Why an archive of these files would be a bad exchange for one that is there.
    fn why_no_replacement(&self) -> Option<String> {
        let reason = match () {
            () if !self.unreadable.is_empty() => "not all files can be read",
            () if self.exported == 0 => "there is no file to export",
            () => return None,
        };
        Some(format!("the archive that is there stays as it is: {reason}"))
    }

    fn to_text(&self) -> String {
        let refused = self.refused.iter().map(|told| told.line("is refused"));
        let unreadable = self.unreadable.iter().map(|told| told.line("cannot be read"));
        let gone = self.gone.iter().map(|path| on_one_line(&format!("{path} was removed meanwhile")));
        let summary = format!("{} exported, {}", count(self.exported, "file"), count(self.bytes, "byte"));
        refused.chain(unreadable).chain(gone).chain(self.kept.clone()).chain([summary]).collect::<Vec<_>>().join("\n")
    }
}
