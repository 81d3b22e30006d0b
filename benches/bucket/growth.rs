//! Edits and first views by the number of files.

use memory_tool_bucket::BucketStore;
use memory_tool_core::{Batch, Engine, MemoryTool, OpenOptions, Store as _, StoreError, StoreExt as _};

use crate::commands::SIZE;
use crate::results::{Growth, GrowthFigures};
use crate::site::Site;
use crate::texts::{edit, text, view};
use crate::usage::Usage;
use crate::worker::{FirstView, Job};

pub(crate) const EDITS: usize = 500;
/// The size of the files that are not edited.
pub(crate) const SMALL_SIZE: usize = 200;
const BATCH: usize = 10_000;
/// The number of fresh processes.
const PROCESSES: usize = 9;
const LOG: &str = "/memories/log.md";

pub(crate) async fn measure(site: &Site, files: usize) -> Growth {
    let prefix = format!("growth-{files}");
    let filled = fill(&site.open_uncounted(&prefix).await, files).await;
    let figures = match filled {
        Ok(()) => Ok(figures(site, &prefix).await),
        Err(error) => Err(error.to_string()),
    };
    Growth { files, figures }
}

async fn fill(store: &BucketStore, files: usize) -> Result<(), StoreError> {
    let numbers: Vec<_> = (0..files).collect();
    for numbers in numbers.chunks(BATCH) {
        let batch = numbers.iter().fold(Batch::new(), |batch, number| {
            let path = format!("/memories/{:03}/{number:06}.md", number / 1_000);
            batch.write(path.parse().unwrap(), text(*number, SMALL_SIZE))
        });
        store.apply(batch).await?;
    }
    store.write(LOG, text(0, SIZE)).await
}

async fn figures(site: &Site, prefix: &str) -> GrowthFigures {
    site.take_all().await;
    let views: Vec<FirstView> = (0..PROCESSES).map(|_| first_view(site, prefix)).collect();
    let first_view = site.usage().await / PROCESSES;
    let (edit_bytes_sent, edit) = edits(site, prefix).await;
    GrowthFigures {
        edit_bytes_sent,
        edit,
        first_view,
        opening_seconds: median(views.iter().map(|times| times.opening)),
        first_view_seconds: median(views.iter().map(|times| times.view)),
    }
}

fn first_view(site: &Site, prefix: &str) -> FirstView {
    let mut worker = site.start(prefix, &Job::View { path: LOG.to_owned() });
    worker.wait_until_ready();
    worker.go();
    worker.outcome()
}

/// The bytes sent by the median edit, and the mean usage.
async fn edits(site: &Site, prefix: &str) -> (f64, Usage) {
    let tool = Engine::new(site.open(prefix, OpenOptions::new()).await);
    tool.call(view(LOG)).await.unwrap();
    site.take_all().await;
    let mut usages = Vec::new();
    for round in 0..EDITS {
        tool.call(edit(LOG, round)).await.unwrap();
        usages.push(Usage::from(site.take()));
    }
    let alone = median(usages.iter().map(|usage| usage.bytes_sent));
    usages.push(site.usage().await);
    (alone, usages.into_iter().sum::<Usage>() / EDITS)
}

fn median(samples: impl Iterator<Item = f64>) -> f64 {
    let mut samples: Vec<_> = samples.collect();
    samples.sort_by(f64::total_cmp);
    samples[samples.len() / 2]
}
