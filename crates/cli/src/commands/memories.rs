//! `memory-tool memories`: lists the memories of a store.

use std::io;

use clap::Args;
use memory_tool::policies::Scope;
use serde::Serialize;

use crate::exit_status::ExitStatus;
use crate::failure::Failure;
use crate::options::StoreArgument;
use crate::places::{Found, find};
use crate::terminal::escapes::on_one_line;
use crate::terminal::interruption::{CLEANUP_TIME, run_until_interrupted};
use crate::terminal::output::{count, rfc3339, to_json, write_text};

#[derive(Args, Debug)]
pub(crate) struct MemoriesArguments {
    /// Print a line of JSON for each memory
    ///
    /// Its fields are store, scope, files, bytes, modified and waiting (the number of files in proposals).
    #[arg(long)]
    pub(crate) json: bool,

    #[command(flatten)]
    pub(crate) store: StoreArgument,
}

/// Lists the memories.
pub(crate) fn run(arguments: &MemoriesArguments) -> Result<ExitStatus, Failure> {
    let options = arguments.store.options();
    let found = run_until_interrupted(CLEANUP_TIME, find(&arguments.store.url, &options))?;
    let mut output = Vec::new();
    for found in &found {
        let printed = Printed::of(found);
        if arguments.json {
            output.append(&mut to_json(&io::stdout(), &printed)?);
        } else {
            let number = |number: Option<u64>| number.map_or_else(|| "-".to_owned(), |number| number.to_string());
            let files = number(printed.files.map(|files| files as u64));
            let modified = printed.modified.as_deref().unwrap_or("-");
            let place = on_one_line(&found.place.to_string()).to_string();
            output.extend(format!("{files:>8} {:>12}  {modified:<20}  {place}", number(printed.bytes)).bytes());
            if printed.waiting > 0 {
                output.extend(format!(" ({} in proposals)", count(printed.waiting as u64, "file")).bytes());
            }
        }
        output.push(b'\n');
    }
    if !(arguments.json || found.is_empty()) {
        output.splice(0..0, format!("{:>8} {:>12}  {:<20}  memory\n", "files", "bytes", "last change").bytes());
    }
    write_text(&mut io::stdout().lock(), &output)?;
    Ok(ExitStatus::of(found.iter().all(|found| found.files.is_some())))
}

#[derive(Serialize)]
struct Printed<'a> {
    store: String,
    scope: Option<&'a str>,
    files: Option<usize>,
    bytes: Option<u64>,
    modified: Option<String>,
    waiting: usize,
}

impl<'a> Printed<'a> {
    fn of(Found { place, files, waiting }: &'a Found) -> Self {
        let modified = files.iter().flatten().filter_map(|file| file.modified).max();
        Self {
            store: place.url.to_string(),
            scope: place.scope.as_ref().map(Scope::name),
            files: files.as_ref().map(Vec::len),
            bytes: files.as_ref().map(|files| files.iter().map(|file| file.size).sum()),
            modified: modified.and_then(rfc3339),
            waiting: *waiting,
        }
    }
}
