//! `memory-tool forget`: removes a memory with its history.

use std::io;

use clap::Args;
use memory_tool::MemoryOptions;

use crate::exit_status::ExitStatus;
use crate::failure::{Context as _, Failure};
use crate::files::eprint;
use crate::memory::{Access, open_existing};
use crate::options::StoreArgument;
use crate::places::{Found, Place, find};
use crate::terminal::escapes::on_one_line;
use crate::terminal::input::{can_ask, confirms};
use crate::terminal::interruption::{CLEANUP_TIME, run_until_interrupted};
use crate::terminal::output::{count, write_line};

#[derive(Args, Debug)]
pub(crate) struct ForgetArguments {
    /// The name of the memory or tenant, as `memory-tool memories` lists it
    pub(crate) name: String,

    /// Do not ask
    #[arg(long)]
    pub(crate) yes: bool,

    #[command(flatten)]
    pub(crate) store: StoreArgument,
}

/// Removes a memory with its history and records, and reports possible remains.
pub(crate) fn run(arguments: &ForgetArguments) -> Result<ExitStatus, Failure> {
    if !(arguments.yes || can_ask()) {
        return Err(Failure::new("--yes is required, because standard input is no terminal"));
    }
    run_until_interrupted(CLEANUP_TIME, async {
        let mut options = arguments.store.options();
        let Found { place, files, waiting } = named(arguments, &options).await?;
        let files =
            files.map_or_else(|| "an unknown number of files".to_owned(), |files| count(files.len() as u64, "file"));
        let waiting = if waiting == 0 { String::new() } else { format!(", {waiting} more in proposals") };
        let what = on_one_line(&format!("{place} with {files}{waiting}")).to_string();
        if !(arguments.yes || confirms(&format!("forget {what} and its history")).await?) {
            eprint("nothing was removed");
            return Ok(ExitStatus::Problem);
        }
        options.scope = place.scope;
        let memory = open_existing(&place.url, options, Access::Change).await?;
        memory.forget().await.context("cannot remove the memory")?;
        let text = format!("removed {what}, its history and its records");
        write_line(&mut io::stdout().lock(), text.into_bytes())?;
        eprint(&format!(
            "{} Audit logs, exports, snapshots and backups are not known here.",
            memory.backend().remains_of_removed()
        ));
        Ok(ExitStatus::Success)
    })
}

/// The only memory with the name. The name may have the form of the list.
async fn named(arguments: &ForgetArguments, options: &MemoryOptions) -> Result<Found, Failure> {
    let found = find(&arguments.store.url, options).await?;
    let is_named = |place: &Place| [place.name(), place.to_string()].contains(&arguments.name);
    let mut named: Vec<_> = found.into_iter().filter(|found| is_named(&found.place)).collect();
    match (named.pop(), named.as_slice()) {
        (Some(found), []) => Ok(found),
        (Some(found), others) => {
            let places: Vec<_> = others.iter().chain([&found]).map(|found| found.place.to_string()).collect();
            Err(Failure::new(format!(
                "several memories have this name; write one of these in full: {}",
                places.join(", ")
            )))
        }
        (None, _) => Err(Failure::new(format!(
            "there is no memory of this name in {}; `memory-tool memories` lists them",
            arguments.store.url
        ))),
    }
}
