//! `memory-tool gc`: removes unused objects from a bucket.

use memory_tool::{OpenOptions, StoreUrl};
use memory_tool_bucket::GcReport;
use serde::Serialize;

use crate::arguments::GcArguments;
use crate::escapes::on_one_line;
use crate::failure::{Context as _, Failure};
use crate::interruption::{CLEANUP_TIME, run_until_interrupted};
use crate::memory;
use crate::output::{count, write_report};

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
    let printed = PrintedReport::from(report);
    write_report(arguments.json, &printed, || printed.to_text())
}

#[derive(Debug, Serialize)]
struct PrintedReport {
    removed_objects: u64,
    removed_bytes: u64,
    kept_objects: u64,
    kept_after_loss: u64,
    trimmed_commits: u64,
    foreign: Vec<String>,
}

impl From<GcReport> for PrintedReport {
    fn from(report: GcReport) -> Self {
        let GcReport {
            removed_objects, removed_bytes, kept_objects, kept_after_loss, trimmed_commits, foreign, ..
        } = report;
        Self { removed_objects, removed_bytes, kept_objects, kept_after_loss, trimmed_commits, foreign }
    }
}

impl PrintedReport {
    fn to_text(&self) -> String {
        let removed = count(self.removed_objects, "object");
        let (bytes, kept) = (count(self.removed_bytes, "byte"), count(self.kept_objects, "object"));
        let foreign = self
            .foreign
            .iter()
            .map(|key| on_one_line(&format!("not an object of a store, and not removed: {key}")) + "\n");
        let mut text: String = foreign.collect();
        if self.kept_after_loss > 0 {
            let objects = count(self.kept_after_loss, "object");
            text += &format!("kept {objects} since a repair reported losses; --accept-loss lets go of them\n");
        }
        text + &format!("removed {removed}, {bytes}; kept {kept}; trimmed {}", count(self.trimmed_commits, "commit"))
    }
}
