//! The cases of the conformance suite for the history, on all local stores, and on faulty stores.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use memory_tool_conformance::{BackendFixture, FixtureError};
use memory_tool_core::{Batch, Change, FileEntry, InMemoryStore, Node, ReadOptions, Store, StoreError, StorePath};
use memory_tool_test_fixtures::layer_cases::{LayerCase, expect_success_on_local_stores, failures};
use memory_tool_test_fixtures::record;
use serde_json::Value;

#[tokio::test]
async fn history_cases_pass_on_all_local_stores() {
    expect_success_on_local_stores(LayerCase::HISTORY).await;
}

/// A fault of a store with the records of the history.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Fault {
    /// Two sessions can add the same entry.
    IgnoresPreconditions,
    /// Recent contents are returned in reverse.
    ReversesContents,
    /// Large contents are cut off.
    CutsOffLargeContents,
    KeepsRemovedLargeContents,
    KeepsRemovedBlocks,
    KeepsReplacedEntries,
    /// Entries have the two paths of a rename in the wrong order.
    SwapsNames,
    /// Entries do not tell an undo from other changes.
    ForgetsOrigins,
    /// Contents by another program are not shown.
    ShowsOnlyLoggedContents,
    ListsRecords,
    CountsRecords,
}

#[async_trait]
impl BackendFixture for Fault {
    type Guard = ();

    async fn fresh(&self) -> Result<(Arc<dyn Store>, ()), FixtureError> {
        Ok((Arc::new(Faulty { inner: InMemoryStore::new(), fault: *self, logged: Mutex::default() }), ()))
    }
}

#[derive(Debug)]
struct Faulty {
    inner: InMemoryStore,
    fault: Fault,
    /// The contents that were written together with an entry.
    logged: Mutex<BTreeMap<StorePath, Vec<u8>>>,
}

#[async_trait]
impl Store for Faulty {
    async fn read_opts(&self, path: &StorePath, options: ReadOptions) -> Result<Node, StoreError> {
        let mut node = self.inner.read_opts(path, options).await?;
        match (self.fault, &mut node) {
            (Fault::ReversesContents, Node::File(file)) if path.is_under(&record("history/log")) => {
                let end_of_entry = file.content.iter().position(|byte| *byte == b'\n').unwrap();
                file.content[end_of_entry + 1..].reverse();
            }
            (Fault::CutsOffLargeContents, Node::File(file)) if path.is_under(&record("history/large")) => {
                file.content.truncate(100);
            }
            (Fault::ShowsOnlyLoggedContents, Node::File(file)) => {
                if let Some(logged) = self.logged.lock().unwrap().get(path) {
                    file.content.clone_from(logged);
                }
            }
            (Fault::ListsRecords, Node::Directory(listing)) if path.is_root() && !path.is_record() => {
                listing.files.push(FileEntry::new(record("history/head"), 1));
            }
            _ => {}
        }
        Ok(node)
    }

    async fn apply(&self, batch: Batch) -> Result<(), StoreError> {
        if self.fault == Fault::CountsRecords && !batch.quotas().is_empty() {
            let records = self.inner.read_opts(&StorePath::records(), ReadOptions::new()).await?;
            if !records.into_listing().files.is_empty() {
                return Err(StoreError::refused(&StorePath::memories(), "quota", "There are too many files."));
            }
        }
        let is_logged = batch.changes().iter().any(Change::is_of_record);
        let mut existing = BTreeSet::new();
        for change in batch.changes() {
            if let Change::Write { path, content, .. } = change {
                if is_logged {
                    self.logged.lock().unwrap().insert(path.clone(), content.to_vec());
                }
                if !matches!(self.inner.read_opts(path, ReadOptions::new()).await?, Node::Absent) {
                    existing.insert(path.clone());
                }
            }
        }
        let applied = altered(batch, self.fault, &existing);
        if applied.changes_nothing() { Ok(()) } else { self.inner.apply(applied).await }
    }
}

fn altered(batch: Batch, fault: Fault, existing: &BTreeSet<StorePath>) -> Batch {
    let is_dropped = |path: &StorePath| fault == Fault::IgnoresPreconditions && path.is_record();
    let required = batch.preconditions().iter().filter(|(path, _)| !is_dropped(path)).cloned();
    let altered = required.fold(Batch::new(), |batch, (path, precondition)| batch.require(path, precondition));
    let quotas = batch.quotas().iter().cloned();
    let altered = quotas.fold(altered, |batch, (directory, quota)| batch.limit(directory, quota));
    let changes = batch.into_changes().into_iter().filter_map(|change| altered_change(change, fault, existing));
    changes.fold(altered, Batch::change)
}

fn altered_change(change: Change, fault: Fault, existing: &BTreeSet<StorePath>) -> Option<Change> {
    let is_in = |path: &StorePath, name: &str| path.is_under(&record(name));
    match &change {
        Change::Remove { path } if fault == Fault::KeepsRemovedLargeContents && is_in(path, "history/large") => None,
        Change::Remove { path } if fault == Fault::KeepsRemovedBlocks && is_in(path, "history/blocks") => None,
        Change::Write { path, .. } if fault == Fault::KeepsReplacedEntries && existing.contains(path) => {
            (!is_in(path, "history/log")).then_some(change)
        }
        Change::Write { path, content, .. } if is_in(path, "history/log") => {
            let written = Batch::new().write(path.clone(), altered_entry(content, fault));
            written.into_changes().pop()
        }
        _ => Some(change),
    }
}

fn altered_entry(bytes: &[u8], fault: Fault) -> Vec<u8> {
    let end = bytes.iter().position(|byte| *byte == b'\n').unwrap_or(bytes.len());
    let (Ok(mut entry), true) =
        (serde_json::from_slice::<Value>(&bytes[..end]), matches!(fault, Fault::SwapsNames | Fault::ForgetsOrigins))
    else {
        return bytes.to_vec();
    };
    match fault {
        Fault::ForgetsOrigins => entry["origin"] = "edit".into(),
        _ => {
            for change in entry["changes"].as_array_mut().into_iter().flatten() {
                if change["change"] == "rename" {
                    let from = change["from"].take();
                    change["from"] = std::mem::replace(&mut change["to"], from);
                }
            }
        }
    }
    [entry.to_string().as_bytes(), &bytes[end..]].concat()
}

#[tokio::test]
async fn history_cases_fail_on_faulty_stores() {
    let mut detecting = BTreeSet::<&str>::new();
    for (fault, cases) in [
        (Fault::IgnoresPreconditions, ["history.race", "history.order"].as_slice()),
        (
            Fault::ReversesContents,
            &[
                "history.contents",
                "history.past",
                "history.births",
                "history.restored",
                "history.others",
                "history.repair",
            ],
        ),
        (Fault::CutsOffLargeContents, &["history.contents", "history.directories", "history.verify"]),
        (Fault::KeepsRemovedLargeContents, &["history.redaction", "history.limits"]),
        (Fault::KeepsRemovedBlocks, &["history.limits"]),
        (Fault::KeepsReplacedEntries, &["history.redaction", "history.verify"]),
        (Fault::SwapsNames, &["history.past", "history.renames", "history.identity"]),
        (Fault::ForgetsOrigins, &["history.undo", "history.redo"]),
        (Fault::ShowsOnlyLoggedContents, &["history.changed"]),
        (Fault::ListsRecords, &["history.hidden"]),
        (Fault::CountsRecords, &["history.hidden"]),
    ] {
        let run: Vec<_> = LayerCase::HISTORY.iter().filter(|case| cases.contains(&case.id())).copied().collect();
        let failures = failures(&run, fault).await;
        println!("{fault:?}: {:?}", failures.keys());
        let missed: Vec<_> = cases.iter().filter(|case| !failures.contains_key(*case)).collect();
        assert!(missed.is_empty(), "{fault:?}: {missed:?} pass; {failures:#?}");
        detecting.extend(cases);
    }
    let blind: Vec<_> = LayerCase::HISTORY.iter().map(LayerCase::id).filter(|id| !detecting.contains(id)).collect();
    assert!(blind.is_empty(), "no fault is known that these detect: {blind:?}");
}
