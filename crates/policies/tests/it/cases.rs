//! The policy cases of the conformance suite on all local stores, and on faulty stores.

use std::sync::Arc;

use async_trait::async_trait;
use memory_tool_conformance::{BackendFixture, FixtureError};
use memory_tool_core::{Batch, Change, InMemoryStore, Node, ReadOptions, Store, StoreError, StorePath};
use memory_tool_test_fixtures::layer_cases::{LayerCase, expect_success_on_local_stores, failures};

#[tokio::test]
async fn policy_cases_pass_on_all_local_stores() {
    expect_success_on_local_stores(LayerCase::POLICIES).await;
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Fault {
    IgnoresQuotas,
    LosesRecords,
    IgnoresRemovals,
    TruncatesContents,
}

#[async_trait]
impl BackendFixture for Fault {
    type Guard = ();

    async fn fresh(&self) -> Result<(Arc<dyn Store>, ()), FixtureError> {
        Ok((Arc::new(Faulty { inner: InMemoryStore::new(), fault: *self }), ()))
    }
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
        let failures = failures(LayerCase::POLICIES, fault).await;
        let missed: Vec<_> = cases.iter().filter(|case| !failures.contains_key(*case)).collect();
        assert!(missed.is_empty(), "{fault:?}: {missed:?} pass; {failures:#?}");
    }
}
