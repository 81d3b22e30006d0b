//! `memory-tool gc`: removes unused objects from a bucket.

use memory_tool::StoreUrl;
use memory_tool_bucket::GcReport;
use serde::Serialize;

use crate::arguments::GcArguments;
use crate::failure::Failure;
use crate::interruption::{CLEANUP_TIME, run_until_interrupted};
use crate::memory;
use crate::output::{count, write_report};

/// Removes unused objects, and prints the report.
pub(crate) fn run(arguments: &GcArguments) -> Result<(), Failure> {
    let url = &arguments.store.url;
    memory::refuse_temporary(url)?;
    let StoreUrl::Bucket { url } = url else { return Err(Failure::NothingToCollect) };
    let report = run_until_interrupted(CLEANUP_TIME, async {
        let builder = memory::bucket(url)?.options(arguments.store.deadline.options().must_exist());
        let opened = builder.open().await;
        let store = opened.map_err(|error| memory::failure(error.with_place(format!("at {url}"))))?;
        store.gc(arguments.older_than.0).await.map_err(Failure::Collection)
    })?;
    let printed = PrintedReport::from(report);
    write_report(arguments.json, &printed, || printed.to_text())
}

/// The report.
#[derive(Debug, Serialize)]
struct PrintedReport {
    removed_objects: u64,
    removed_bytes: u64,
    kept_objects: u64,
    trimmed_commits: u64,
}

impl From<GcReport> for PrintedReport {
    fn from(report: GcReport) -> Self {
        let GcReport { removed_objects, removed_bytes, kept_objects, trimmed_commits, .. } = report;
        Self { removed_objects, removed_bytes, kept_objects, trimmed_commits }
    }
}

impl PrintedReport {
    fn to_text(&self) -> String {
        let removed = count(self.removed_objects, "object");
        let (bytes, kept) = (count(self.removed_bytes, "byte"), count(self.kept_objects, "object"));
        format!("removed {removed}, {bytes}; kept {kept}; trimmed {}", count(self.trimmed_commits, "commit"))
    }
}
