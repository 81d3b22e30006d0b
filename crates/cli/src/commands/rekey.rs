//! `memory-tool rekey`: re-encrypts a store with a new key.

use clap::Args;
use memory_tool::encrypted::{RekeyProgress, RekeyReport};
use memory_tool::{MemoryOptions, StoreUrl};

use crate::exit_status::ExitStatus;
use crate::failure::{Context as _, Failure};
use crate::memory::{Access, open_existing};
use crate::options::StoreArgument;
use crate::places::{Named, Place, for_each, stores};
use crate::terminal::interruption::{CLEANUP_TIME, run_until_interrupted};
use crate::terminal::output::{count, write_report};
use crate::terminal::progress_line::ProgressLine;

#[derive(Args, Debug)]
pub(crate) struct RekeyArguments {
    /// Print the report as JSON
    ///
    /// Its fields are rewritten, damaged, no_longer_needed and still_needed. With --all, also memory.
    #[arg(long)]
    pub(crate) json: bool,

    /// Re-encrypt all memories of a database, directory or bucket
    ///
    /// In a directory or bucket, these are the stores at and right under --store.
    #[arg(long)]
    pub(crate) all: bool,

    #[command(flatten)]
    pub(crate) store: StoreArgument,
}

/// Re-encrypts, and prints the reports.
pub(crate) fn run(arguments: &RekeyArguments) -> Result<ExitStatus, Failure> {
    if !arguments.store.encryption.is_on() {
        return Err(no_key());
    }
    let (url, options) = (&arguments.store.url, arguments.store.options());
    let all = arguments.all.then(|| stores(url, &options)).transpose()?;
    for_each(all, Place { url: url.clone(), scope: None }, arguments.json, |place, memory| {
        let report = run_until_interrupted(CLEANUP_TIME, rekey(&place.url, options.clone()))?;
        write_report(arguments.json, &Named { memory, report: &report }, || to_text(&report))?;
        Ok(ExitStatus::of(report.damaged.is_empty() && report.still_needed.is_empty()))
    })
}

async fn rekey(url: &StoreUrl, options: MemoryOptions) -> Result<RekeyReport, Failure> {
    let memory = open_existing(url, options, Access::Change).await?;
    let store = memory.encrypted().ok_or_else(no_key)?;
    let mut line = ProgressLine::of_standard_error();
    let show = |progress: RekeyProgress| line.show_files(progress.done as u64, Some(progress.total as u64));
    store.rekey(show).await.context("cannot re-encrypt the store")
}

fn no_key() -> Failure {
    Failure::new("no key; add --key-file, --key-env or --passphrase-file")
}

fn to_text(report: &RekeyReport) -> String {
    let mut lines = vec![format!("re-encrypted {}", count(report.rewritten as u64, "file"))];
    lines.extend(report.damaged.iter().map(|path| format!("{path} is damaged and was left untouched")));
    lines.extend(report.still_needed.iter().map(|key| format!("the old key {key} is still needed")));
    lines.extend(report.no_longer_needed.iter().map(|key| format!("the old key {key} is no longer needed")));
    lines.join("\n")
}
