//! The policy cases of the conformance suite on all local stores, and on faulty stores.

use std::collections::BTreeSet;
use std::sync::Arc;

use async_trait::async_trait;
use memory_tool_conformance::PolicyCase;
use memory_tool_core::{Batch, Change, InMemoryStore, Node, ReadOptions, Store, StoreError, StorePath};
use memory_tool_encrypted::{EncryptedStore, KeyRing, RawKey};
use memory_tool_local::LocalStore;
use memory_tool_sqlite::SqliteStore;

/// Runs each case on a new store and returns the cases that fail.
async fn failing<S: Store>(open: impl AsyncFn(usize) -> S) -> BTreeSet<&'static str> {
    let mut failing = BTreeSet::new();
    for (number, case) in PolicyCase::ALL.iter().enumerate() {
        if case.run(Arc::new(open(number).await)).await.is_err() {
            failing.insert(case.id());
        }
    }
    failing
}

fn none() -> BTreeSet<&'static str> {
    BTreeSet::new()
}

#[tokio::test]
async fn policy_cases_pass_on_the_in_memory_store() {
    assert_eq!(failing(async |_| InMemoryStore::new()).await, none());
}

#[tokio::test]
async fn policy_cases_pass_on_a_local_store() {
    let directory = tempfile::tempdir().unwrap();
    let open = async |number: usize| LocalStore::open(directory.path().join(number.to_string())).await.unwrap();
    assert_eq!(failing(open).await, none());
}

#[tokio::test]
async fn policy_cases_pass_on_a_sqlite_store() {
    let directory = tempfile::tempdir().unwrap();
    let open = async |number: usize| SqliteStore::open(directory.path().join(number.to_string())).await.unwrap();
    assert_eq!(failing(open).await, none());
}

#[tokio::test]
async fn policy_cases_pass_on_an_encrypted_store() {
    let directory = tempfile::tempdir().unwrap();
    let open = async |number: usize| {
        let stored = LocalStore::open(directory.path().join(number.to_string())).await.unwrap();
        EncryptedStore::open(stored, KeyRing::new(RawKey::from_bytes([1; 32]))).await.unwrap()
    };
    assert_eq!(failing(open).await, none());
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Fault {
    IgnoresQuotas,
    LosesRecords,
    IgnoresRemovals,
    TruncatesContents,
}

#[derive(Debug)]
struct Faulty {
    inner: InMemoryStore,
    fault: Fault,
}

#[async_trait]
impl Store for Faulty {
    async fn read_opts(&self, path: &StorePath, options: ReadOptions) -> Result<Node, StoreError> {
        let mut node = self.inner.read_opts(path, options).await?;
        if let (Fault::TruncatesContents, Node::File(file), false) = (self.fault, &mut node, path.is_record()) {
            file.content.truncate(2);
        }
        Ok(node)
    }

    async fn apply(&self, batch: Batch) -> Result<(), StoreError> {
        let removes =
            batch.changes().iter().any(|change| matches!(change, Change::Remove { path } if !path.is_record()));
        match self.fault {
            Fault::LosesRecords => self.inner.apply(without_records(batch)).await,
            Fault::IgnoresQuotas => self.inner.apply(without_quotas(batch)).await,
            Fault::IgnoresRemovals if removes => Ok(()),
            _ => self.inner.apply(batch).await,
        }
    }
}

fn without_quotas(batch: Batch) -> Batch {
    let required = batch.preconditions().iter().cloned();
    let kept = required.fold(Batch::new(), |batch, (path, precondition)| batch.require(path, precondition));
    batch.into_changes().into_iter().fold(kept, Batch::change)
}

fn without_records(batch: Batch) -> Batch {
    let required = batch.preconditions().iter().filter(|(path, _)| !path.is_record()).cloned();
    let kept = required.fold(Batch::new(), |batch, (path, precondition)| batch.require(path, precondition));
    let quotas = batch.quotas().iter().cloned();
    let kept = quotas.fold(kept, |batch, (directory, quota)| batch.limit(directory, quota));
    batch.into_changes().into_iter().filter(|change| !change.is_of_record()).fold(kept, Batch::change)
}

#[tokio::test]
async fn policy_cases_fail_on_faulty_stores() {
    for (fault, cases) in [
        (Fault::IgnoresQuotas, ["limits.files", "limits.bytes", "limits.cleaning"].as_slice()),
        (Fault::LosesRecords, &["expiry.sweep"]),
        (Fault::IgnoresRemovals, &["scope.apart", "limits.cleaning", "expiry.sweep"]),
        (Fault::TruncatesContents, &["scope.apart", "read-only.refuses", "mount.read-only", "audit.digests"]),
    ] {
        let failing = failing(async |_| Faulty { inner: InMemoryStore::new(), fault }).await;
        let missed: Vec<_> = cases.iter().filter(|case| !failing.contains(*case)).collect();
        assert!(missed.is_empty(), "{fault:?}: {missed:?} pass; {failing:?} fail");
    }
}
