//! `memory-tool rekey`: re-encrypts a store with a new key.

use clap::Args;
use memory_tool::encrypted::{RekeyProgress, RekeyReport};
use memory_tool::{MemoryOptions, StoreUrl};
use serde::Serialize;

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
        let [no_longer_needed, still_needed] = [report.no_longer_needed, report.still_needed].map(names);
        let (rewritten, damaged) = (report.rewritten, names(report.damaged));
        let report = PrintedReport { rewritten, damaged, no_longer_needed, still_needed };
        let named = Named { memory, report };
        write_report(arguments.json, &named, || named.report.to_text())?;
        Ok(ExitStatus::of(named.report.damaged.is_empty() && named.report.still_needed.is_empty()))
    })
}

async fn rekey(url: &StoreUrl, options: MemoryOptions) -> Result<RekeyReport, Failure> {
    let memory = open_existing(url, options, Access::Change).await?;
    let store = memory.encrypted().ok_or_else(no_key)?;
    let mut line = ProgressLine::of_standard_error();
    let show = |progress: RekeyProgress| {
        if let Some(line) = &mut line {
            line.show_files(progress.done as u64, Some(progress.total as u64));
        }
    };
    store.rekey(show).await.context("cannot re-encrypt the store")
}

fn no_key() -> Failure {
    Failure::new("no key; add --key-file, --key-env or --passphrase-file")
}

#[derive(Debug, Serialize)]
struct PrintedReport {
    rewritten: usize,
    damaged: Vec<String>,
    no_longer_needed: Vec<String>,
    still_needed: Vec<String>,
}

fn names(items: Vec<impl ToString>) -> Vec<String> {
    items.iter().map(ToString::to_string).collect()
}

impl PrintedReport {
    fn to_text(&self) -> String {
        let mut lines = vec![format!("re-encrypted {}", count(self.rewritten as u64, "file"))];
        lines.extend(self.damaged.iter().map(|path| format!("{path} is damaged and was left untouched")));
        lines.extend(self.still_needed.iter().map(|key| format!("the old key {key} is still needed")));
        lines.extend(self.no_longer_needed.iter().map(|key| format!("the old key {key} is no longer needed")));
        lines.join("\n")
    }
}
