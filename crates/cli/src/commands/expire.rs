//! `memory-tool expire`: removes expired files.

use clap::{Args, ValueHint};
use memory_tool::policies::{ExpiredFile, ExpiringStore, ExpiringStoreBuilder, Scope, SweepReport};
use memory_tool::{ErrorKind, MemoryPath, StoreError};
use serde::Serialize;

use crate::exit_status::ExitStatus;
use crate::failure::{Context as _, Failure};
use crate::memory::{self, Access, open_existing};
use crate::options::values::{Age, memory_path};
use crate::options::{AllArgument, StoreArgument};
use crate::places::{self, Named, Place};
use crate::terminal::escapes::on_one_line;
use crate::terminal::input::{can_ask, confirms};
use crate::terminal::interruption::{CLEANUP_TIME, run_until_interrupted};
use crate::terminal::output::{count, write_report};

#[derive(Args, Debug)]
pub(crate) struct ExpireArguments {
    /// Remove files that have not been read or written for AGE
    ///
    /// Use the same AGE as the users of the memory, such as 24h or 90d.
    #[arg(long, value_name = "AGE")]
    pub(crate) expire_after: Age,

    /// Never remove this file or directory; may be repeated
    #[arg(long, value_name = "PATH", value_parser = memory_path, value_hint = ValueHint::Other)]
    pub(crate) pin: Vec<MemoryPath>,

    /// Work only in the part of the store that belongs to tenant NAME
    #[arg(long, value_name = "NAME", value_parser = Scope::from_trusted_name, conflicts_with = "all")]
    pub(crate) scope: Option<Scope>,

    #[command(flatten)]
    pub(crate) all: AllArgument,

    /// List expired files without removing them
    #[arg(long)]
    pub(crate) dry_run: bool,

    /// Remove the files at once, even if they are most files
    ///
    /// If more than half of the files, and at least two, have expired, the clock may be wrong. On a terminal, the
    /// command then asks. Elsewhere it removes nothing and exits with 1. A run at least 1/24 of AGE later, or a day if
    /// that is less, removes the files.
    #[arg(long, conflicts_with = "dry_run")]
    pub(crate) yes: bool,

    /// Replace damaged access times: every file counts as used now
    ///
    /// No file is removed.
    #[arg(long, conflicts_with = "dry_run")]
    pub(crate) reset: bool,

    /// Print the report as JSON
    ///
    /// Its fields are removed, the paths, and kept and held, which are numbers. With --dry-run its field is expired:
    /// the path, size and last_access of each file.
    #[arg(long)]
    pub(crate) json: bool,

    #[command(flatten)]
    pub(crate) store: StoreArgument,
}

/// The operation of an [`ExpiringStore`] in errors about the access times.
const READING_ACCESS_TIMES: &str = "reading the access times";

/// Removes or lists expired files, and prints the report.
pub(crate) fn run(arguments: &ExpireArguments) -> Result<ExitStatus, Failure> {
    let ExpireArguments { store, scope, all, json, .. } = arguments;
    memory::refuse_temporary(&store.url)?;
    let one = Place { url: store.url.clone(), scope: scope.clone() };
    let places = if all.all { Some(places::scopes(&store.url, &store.options())?) } else { None };
    places::for_each(places, one, *json, |place, memory| {
        let outcome = run_until_interrupted(CLEANUP_TIME, expire(arguments, place))?;
        let idle = arguments.expire_after.in_words();
        write_report(*json, &Named { memory, report: &outcome }, || outcome.to_text(&idle))?;
        Ok(ExitStatus::of(!matches!(outcome, Outcome::Removed(SweepReport { held: 1.., .. }))))
    })
}

async fn expire(arguments: &ExpireArguments, place: &Place) -> Result<Outcome, Failure> {
    let mut options = arguments.store.options();
    options.scope.clone_from(&place.scope);
    // Without `expire_after`, because a dry run must not record accesses.
    let access = if arguments.dry_run { Access::Read } else { Access::Change };
    let memory = open_existing(&place.url, options, access).await?;
    let rules = ExpiringStore::builder(memory.store(), arguments.expire_after.0);
    let expiring = arguments.pin.iter().cloned().fold(rules, ExpiringStoreBuilder::pin).build();
    let expiring = expiring.map_err(Failure::other)?;
    if arguments.reset {
        expiring.reset_access_times().await.context("cannot remove expired files")?;
        return Ok(Outcome::Reset {});
    }
    if arguments.dry_run {
        let expired = expiring.expired().await.map_err(failure)?;
        return Ok(Outcome::Found { expired });
    }
    let swept = if arguments.yes { expiring.sweep_all().await } else { expiring.sweep().await };
    let mut swept = swept.map_err(failure)?;
    if swept.held > 0 && can_ask() && confirms_removal(place, &swept, arguments.expire_after).await? {
        swept = expiring.sweep_all().await.map_err(failure)?;
    }
    Ok(Outcome::Removed(swept))
}

/// Asks whether to remove files that a sweep held back.
async fn confirms_removal(place: &Place, swept: &SweepReport, idle: Age) -> Result<bool, Failure> {
    let (held, kept, idle) = (swept.held, count(swept.kept as u64, "file"), idle.in_words());
    let asked = format!("remove {held} of {kept} of {place}, which were not used for {idle}");
    confirms(&on_one_line(&asked).to_string()).await
}

/// Converts the error. Damaged access times, which keep files from expiring, have a separate variant.
fn failure(error: StoreError) -> Failure {
    match error {
        StoreError::Failure { kind: ErrorKind::Damaged, operation: READING_ACCESS_TIMES, source } => {
            Failure::new(format!(
                "cannot read the access times: {source}; run the command once with --reset to count every file as used \
                 now"
            ))
        }
        error => Failure::caused("cannot remove expired files", error),
    }
}

#[derive(Debug, Serialize)]
#[serde(untagged)]
enum Outcome {
    Found { expired: Vec<ExpiredFile> },
    Removed(SweepReport),
    Reset {},
}

impl Outcome {
    /// The report, with the idle time in words.
    fn to_text(&self, idle: &str) -> String {
        let (mut lines, summary) = match self {
            Self::Found { expired } => {
                let line = |file: &ExpiredFile| {
                    let (path, size) = (on_one_line(file.path.as_str()), count(file.size, "byte"));
                    format!("{path}: {size}, last used at {}", humantime::format_rfc3339_seconds(file.last_access))
                };
                let found = count(expired.len() as u64, "expired file");
                (expired.iter().map(line).collect(), format!("found {found}, not used for {idle}"))
            }
            Self::Removed(SweepReport { kept, held: held @ 1.., .. }) => {
                let kept = count(*kept as u64, "file");
                let held = format!("{held} of {kept} were not used for {idle}; nothing was removed, because so many");
                (Vec::new(), format!("{held} suggest a wrong clock: check it, then add --yes or run this again later"))
            }
            Self::Removed(SweepReport { removed, kept, .. }) => {
                let lines: Vec<_> = removed.iter().map(|path| on_one_line(path.as_str())).collect();
                let removed = count(removed.len() as u64, "expired file");
                (lines, format!("removed {removed}, not used for {idle}; kept {}", count(*kept as u64, "file")))
            }
            Self::Reset {} => (Vec::new(), "reset the access times".to_owned()),
        };
        lines.push(summary);
        lines.join("\n")
    }
}
