//! Edits and first views by the number of files.

use memory_tool_bucket::BucketStore;
use memory_tool_core::{Batch, Engine, MemoryTool, OpenOptions, Store as _, StoreError, StoreExt as _, StorePath};

use crate::commands::SIZE;
use crate::measure::{edit, median, view};
use crate::report::{print_table, time};
use crate::site::Site;
use crate::texts::text;
use crate::usage::{Usage, bytes};
use crate::worker::{Job, READY};

const EDITS: usize = 500;
/// The size of the files that are not edited.
const SMALL_SIZE: usize = 200;
const BATCH: usize = 10_000;
const PROCESSES: usize = 9;
const LOG: &str = "/memories/log.md";

/// Prints the means of many edits, which include background work, and of the first `view` of a process.
pub(crate) async fn print(site: &Site, growth: &[usize]) {
    let mut rows = Vec::new();
    for &files in growth {
        let prefix = format!("growth-{files}");
        match fill(&site.open_uncounted(&prefix).await, files).await {
            Ok(()) => rows.extend([first_views(site, &prefix, files).await, edits(site, &prefix, files).await]),
            Err(error) => rows.push(vec![files.to_string(), error.to_string()]), // too many files for a store
        }
    }
    let columns = "files of 200 bytes | work | median time | sent by the median edit";
    print_table(&format!("{columns} | {}", Usage::COLUMNS), rows);
}

async fn fill(store: &BucketStore, files: usize) -> Result<(), StoreError> {
    for numbers in (0..files).collect::<Vec<_>>().chunks(BATCH) {
        let batch = numbers.iter().fold(Batch::new(), |batch, number| {
            let path = format!("/memories/{:03}/{number:06}.md", number / 1_000);
            batch.write(path.parse::<StorePath>().unwrap(), text(*number, SMALL_SIZE))
        });
        store.apply(batch).await?;
    }
    store.write(LOG, text(0, SIZE)).await
}

async fn first_views(site: &Site, prefix: &str, files: usize) -> Vec<String> {
    site.take_all().await;
    let (mut openings, mut views) = (Vec::new(), Vec::new());
    for _ in 0..PROCESSES {
        let mut worker = site.start(prefix, &Job::View { path: LOG.to_owned() });
        assert_eq!(worker.read_line().trim(), READY);
        worker.write_line("");
        let [opening, view] = worker.read_json().unwrap();
        openings.push(opening);
        views.push(view);
    }
    let times = format!("{} + {}", time(median(&openings)), time(median(&views)));
    let cells = [files.to_string(), "opening and first `view`".to_owned(), times, String::new()];
    [cells.to_vec(), site.usage(PROCESSES).await.cells()].concat()
}

async fn edits(site: &Site, prefix: &str, files: usize) -> Vec<String> {
    let tool = Engine::new(site.open(prefix, OpenOptions::new()).await);
    tool.call(view(LOG)).await.unwrap();
    site.take_all().await;
    let (mut sent, mut all) = (Vec::new(), Vec::new());
    for round in 0..EDITS {
        tool.call(edit(LOG, round)).await.unwrap();
        let records = site.take();
        sent.push(Usage::mean(&records, 1).sent);
        all.extend(records);
    }
    all.extend(site.take_all().await);
    let cells = [files.to_string(), "`str_replace`".to_owned(), String::new(), bytes(median(&sent))];
    [cells.to_vec(), Usage::mean(&all, EDITS).cells()].concat()
}
