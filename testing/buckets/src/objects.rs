//! [`Objects`]: the objects of a store in a bucket.

#![allow(clippy::panic, clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::{BTreeMap, BTreeSet};

use futures::{StreamExt as _, TryStreamExt as _, stream};
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt as _};
use serde_json::Value;

/// How many checkpoints a collection keeps.
const CHECKPOINTS: usize = 2;

const CONCURRENCY: usize = 16;

/// The objects of a store, by their keys relative to its prefix.
#[derive(Clone, Debug, Default)]
pub struct Objects(BTreeMap<String, Vec<u8>>);

impl Objects {
    /// Reads all objects under a prefix. Concurrent removals make it panic.
    pub async fn read(bucket: &dyn ObjectStore, prefix: &Path) -> Self {
        let keys: Vec<_> = bucket.list(Some(prefix)).map_ok(|object| object.location).try_collect().await.unwrap();
        let read = |key: Path| async move {
            let content = bucket.get(&key).await.unwrap().bytes().await.unwrap();
            let name = key.as_ref().strip_prefix(prefix.as_ref()).unwrap().trim_start_matches('/').to_owned();
            (name, content.to_vec())
        };
        Self(stream::iter(keys).map(read).buffer_unordered(CONCURRENCY).collect().await)
    }

    /// The number of the commit that the latest checkpoint covers, or 0 without a checkpoint.
    fn last_checkpoint(&self) -> u64 {
        self.numbers("checkpoints/").last().copied().unwrap_or_default()
    }

    /// Checks a store after a collection without a grace period: the log has no hole, all changes that the checkpoint
    /// covers are trimmed, and no unused objects are left.
    ///
    /// # Errors
    /// A description of the problem.
    pub fn check_collected(&self) -> Result<(), String> {
        let commits = self.numbers("log/");
        if !commits.iter().copied().eq(1..=commits.len() as u64) {
            return Err(format!("the log has the commits {commits:?}"));
        }
        let checkpoint = self.last_checkpoint();
        for number in commits {
            let commit = self.json(&commit_name(number));
            let is_trimmed = commit["format"] == "memory-tool trimmed commit";
            let is_covered = (2..=checkpoint).contains(&number);
            if is_trimmed && !is_covered || is_covered && !is_trimmed && holds_changes(&commit) {
                let state = if is_trimmed { "trimmed" } else { "not trimmed" };
                return Err(format!("commit {number} is {state}, and the latest checkpoint is {checkpoint}"));
            }
        }
        let (found, used) = (self.0.keys().cloned().collect::<BTreeSet<_>>(), self.in_use());
        if found == used {
            return Ok(());
        }
        let (unused, missing) = (&found - &used, &used - &found);
        Err(format!("unused objects are left: {unused:?}; missing objects: {missing:?}"))
    }

    /// The keys of all commits, of the checkpoints that a collection keeps, and of the objects that they use.
    fn in_use(&self) -> BTreeSet<String> {
        let mut used: BTreeSet<_> = self.numbers("log/").into_iter().map(commit_name).collect();
        let mut sources: Vec<_> = used.iter().map(|name| self.json(name)).collect();
        for checkpoint in self.numbers("checkpoints/").into_iter().rev().take(CHECKPOINTS) {
            let name = format!("checkpoints/{checkpoint:020}");
            let manifest = self.json(&name);
            let runs: Vec<_> = manifest["runs"].as_array().unwrap().iter().map(content_name).collect();
            sources.extend(runs.iter().filter(|run| self.0.contains_key(*run)).map(|run| self.json(run)));
            used.extend(runs);
            used.insert(name);
        }
        sources.iter().for_each(|source| add_contents(source, &mut used));
        used
    }

    fn numbers(&self, directory: &str) -> Vec<u64> {
        self.0.keys().filter_map(|name| name.strip_prefix(directory)).map(|number| number.parse().unwrap()).collect()
    }

    fn json(&self, name: &str) -> Value {
        serde_json::from_slice(&self.0[name]).unwrap()
    }
}

fn commit_name(number: u64) -> String {
    format!("log/{number:020}")
}

/// Whether a commit has other steps than notes.
fn holds_changes(commit: &Value) -> bool {
    let is_note =
        |step: &Value| step == "collection" || ["checkpoint", "trimmed"].iter().any(|note| step.get(note).is_some());
    let batches = commit["batches"].as_array().unwrap();
    !batches.iter().flat_map(|steps| steps.as_array().unwrap()).all(is_note)
}

/// The key of the object that a run or a slice of contents names.
fn content_name(slice: &Value) -> String {
    format!("contents/{}", slice["key"].as_str().unwrap())
}

/// Adds the keys of all contents that a commit or run refers to.
fn add_contents(source: &Value, used: &mut BTreeSet<String>) {
    match source {
        Value::Object(fields) => {
            used.extend(fields.get("object").map(content_name));
            fields.values().for_each(|value| add_contents(value, used));
        }
        Value::Array(items) => items.iter().for_each(|item| add_contents(item, used)),
        _ => {}
    }
}
