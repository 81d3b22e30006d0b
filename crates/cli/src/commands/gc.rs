//! `memory-tool gc`: removes unused objects from a bucket.

use clap::Args;
use memory_tool::{OpenOptions, StoreUrl};
use memory_tool_bucket::{DEFAULT_GRACE, GcReport};

use crate::failure::{Context as _, Failure};
use crate::memory;
use crate::options::StoreArgument;
use crate::options::values::Age;
use crate::terminal::escapes::on_one_line;
use crate::terminal::interruption::{CLEANUP_TIME, run_until_interrupted};
use crate::terminal::output::{count, write_report};

#[derive(Args, Debug)]
pub(crate) struct GcArguments {
    /// Keep objects younger than AGE
    ///
    /// AGE is a whole number with a unit, such as 90s, 15m, 24h or 7d. A young object may belong to a change in
    /// progress: if it is removed, that change starts again.
    #[arg(long, value_name = "AGE", default_value_t = Age(DEFAULT_GRACE))]
    pub(crate) older_than: Age,

    /// Print the report as JSON
    ///
    /// Its fields are removed_objects, removed_bytes, kept_objects, kept_after_loss, trimmed_commits and foreign.
    #[arg(long)]
    pub(crate) json: bool,

    /// Also remove what was kept since a repair reported losses
    ///
    /// After `verify --repair` reported losses, objects that are older than the repair stay, since they may help to
    /// undo these losses.
    #[arg(long)]
    pub(crate) accept_loss: bool,

    #[command(flatten)]
    pub(crate) store: StoreArgument,
}

/// Removes unused objects, and prints the report.
pub(crate) fn run(arguments: &GcArguments) -> Result<(), Failure> {
    let url = &arguments.store.url;
    memory::refuse_temporary(url)?;
    let StoreUrl::Bucket { url } = url else {
        return Err(Failure::new("nothing to collect: only stores in buckets accumulate unused objects"));
    };
    let report = run_until_interrupted(CLEANUP_TIME, async {
        let builder =
            memory::bucket(url)?.options(OpenOptions::new().timeout(arguments.store.timeout.timeout.0).must_exist());
        let opened = builder.open().await;
        let store = opened.map_err(|error| memory::failure(error.with_place(format!("at {url}"))))?;
        if arguments.accept_loss {
            store.accept_loss().await.context("cannot remove unused objects")?;
        }
        store.gc(arguments.older_than.0).await.context("cannot remove unused objects")
    })?;
    write_report(arguments.json, &report, || to_text(&report))
}

fn to_text(report: &GcReport) -> String {
    let removed = count(report.removed_objects, "object");
    let (bytes, kept) = (count(report.removed_bytes, "byte"), count(report.kept_objects, "object"));
    let foreign = |key| on_one_line(&format!("not an object of a store, and not removed: {key}")) + "\n";
    let mut text: String = report.foreign.iter().map(foreign).collect();
    if report.kept_after_loss > 0 {
        let objects = count(report.kept_after_loss, "object");
        text += &format!("kept {objects} since a repair reported losses; --accept-loss lets go of them\n");
    }
    text + &format!("removed {removed}, {bytes}; kept {kept}; trimmed {}", count(report.trimmed_commits, "commit"))
}
