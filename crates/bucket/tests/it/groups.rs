//! Groups: the batches that wait at the same time share one commit, and each has a separate outcome.

use std::sync::Arc;

use crate::support::{Answer, Fault, TestBucket, commits, path, read, write};
use futures::FutureExt;
use futures::future::join_all;
use memory_tool_bucket::BucketStore;
use memory_tool_core::{Batch, ErrorKind, Precondition, Quota, Store, StoreError, StoreExt};
use tokio::sync::oneshot;

type Outcome = Result<(), StoreError>;

/// Applies these batches as one group: they all come to wait while an earlier commit is pending.
async fn apply_as_group(bucket: &Arc<TestBucket>, store: &BucketStore, batches: Vec<Batch>) -> Vec<Outcome> {
    apply_as_group_after(bucket, store, batches, async {}).await
}

/// The same, and runs `meanwhile` before the earlier commit returns.
async fn apply_as_group_after(
    bucket: &Arc<TestBucket>,
    store: &BucketStore,
    batches: Vec<Batch>,
    meanwhile: impl Future<Output = ()> + Send + 'static,
) -> Vec<Outcome> {
    let (go_on, wait) = oneshot::channel::<()>();
    let first = async move {
        wait.await.unwrap();
        meanwhile.await;
    };
    bucket.add_fault(Fault { put: true, meanwhile: Some(first.boxed()), answer: Answer::Unclear });
    let spawn = |batch: Batch| {
        let store = store.clone();
        tokio::spawn(async move { store.apply(batch).await })
    };
    let first = spawn(Batch::new().write(path("/memories/first"), "first"));
    bucket.wait_for_faults().await;
    let mut waiting = Vec::new();
    for batch in batches {
        waiting.push(spawn(batch));
        for _ in 0..10 {
            tokio::task::yield_now().await;
        }
    }
    bucket.take_requests();
    go_on.send(()).unwrap();
    first.await.unwrap().unwrap();
    join_all(waiting).await.into_iter().map(Result::unwrap).collect()
}

fn create(at: &str, content: &str) -> Batch {
    Batch::new().require(path(at), Precondition::Absent).write(path(at), content)
}

fn is_refused(outcome: &Outcome) -> bool {
    matches!(outcome, Err(error) if !matches!(error, StoreError::Failure { .. }))
}

#[tokio::test(start_paused = true)]
async fn batches_that_wait_share_a_commit() {
    let (bucket, store) = TestBucket::opened().await;
    let batches = (0..200).map(|number| create(&format!("/memories/{number}"), &number.to_string())).collect();
    let outcomes = apply_as_group(&bucket, &store, batches).await;
    assert!(outcomes.iter().all(Result::is_ok), "{outcomes:?}");
    assert_eq!(commits(&bucket.take_requests()), 1);
    let other = bucket.other().await;
    for number in 0..200 {
        assert_eq!(read(&other, &format!("/memories/{number}")).await.unwrap(), number.to_string());
    }
}

#[tokio::test(start_paused = true)]
async fn one_batch_of_a_group_is_refused_and_the_others_are_not() {
    let (bucket, store) = TestBucket::opened().await;
    write(&store, "/memories/old", "old").await.unwrap();
    let version = store.read("/memories/old").await.unwrap().into_file().unwrap().version;
    let edit = |content: &str| {
        let at = path("/memories/old");
        Batch::new().require(at.clone(), Precondition::Version(version.clone())).write(at, content)
    };
    let batches = vec![
        create("/memories/a", "a"),
        create("/memories/a", "second"),
        edit("one"),
        edit("two"),
        Batch::new().remove(path("/memories/absent")),
        create("/memories/a/under-a-file", "text"),
        create("/memories/b", "b"),
    ];
    let outcomes = apply_as_group(&bucket, &store, batches).await;
    let refused: Vec<_> = outcomes.iter().map(is_refused).collect();
    assert_eq!(refused, [false, true, false, true, true, true, false], "{outcomes:?}");
    assert!(outcomes.iter().all(|outcome| outcome.is_ok() || is_refused(outcome)), "{outcomes:?}");
    assert_eq!(commits(&bucket.take_requests()), 1);
    let other = bucket.other().await;
    assert_eq!(read(&other, "/memories/a").await.unwrap(), "a");
    assert_eq!(read(&other, "/memories/old").await.unwrap(), "one");
    assert_eq!(read(&other, "/memories/b").await.unwrap(), "b");
    assert_eq!(other.list(&path("/memories")).await.unwrap().len(), 4);
}

/// A later batch of a group is checked against the state after the earlier ones, quotas included.
#[tokio::test(start_paused = true)]
async fn a_batch_sees_the_effects_of_earlier_ones_of_its_group() {
    let (bucket, store) = TestBucket::opened().await;
    write(&store, "/memories/d/old", "old").await.unwrap();
    let limited = |at: &str| create(at, "text").limit(path("/memories/d"), Quota::new().with_files(3));
    let batches = vec![
        limited("/memories/d/1"),
        limited("/memories/d/2"),
        limited("/memories/d/3"),
        Batch::new().rename(path("/memories/d/old"), path("/memories/e/old")),
        limited("/memories/d/4"),
        limited("/memories/d/5"),
        Batch::new().rename(path("/memories/d"), path("/memories/f")),
        create("/memories/d/6", "text"),
    ];
    let outcomes = apply_as_group(&bucket, &store, batches).await;
    let refused: Vec<_> = outcomes.iter().map(is_refused).collect();
    assert_eq!(refused, [false, false, true, false, false, true, false, false], "{outcomes:?}");
    assert_eq!(commits(&bucket.take_requests()), 1);
    let other = bucket.other().await;
    for (file, exists) in [
        ("/memories/e/old", true),
        ("/memories/f/1", true),
        ("/memories/f/2", true),
        ("/memories/f/4", true),
        ("/memories/f/3", false),
        ("/memories/d/6", true),
        ("/memories/f/old", false),
    ] {
        assert_eq!(read(&other, file).await.is_some(), exists, "{file}");
        assert_eq!(read(&store, file).await.is_some(), exists, "{file}");
    }
}

/// Another machine wins the number of the group, which is planned again on the new state.
#[tokio::test(start_paused = true)]
async fn a_group_that_loses_its_number() {
    let (bucket, store) = TestBucket::opened().await;
    let other = bucket.other().await;
    let meanwhile = async move { write(&other, "/memories/a", "theirs").await.unwrap() };
    let batches = vec![create("/memories/a", "mine"), create("/memories/b", "b"), create("/memories/c", "c")];
    let outcomes = apply_as_group_after(&bucket, &store, batches, meanwhile).await;
    assert_eq!(outcomes.iter().map(is_refused).collect::<Vec<_>>(), [true, false, false], "{outcomes:?}");
    let other = bucket.other().await;
    assert_eq!(read(&other, "/memories/a").await.unwrap(), "theirs");
    assert_eq!(read(&other, "/memories/b").await.unwrap(), "b");
}

/// The second batch conflicts with the first one, which is not made.
#[tokio::test(start_paused = true)]
async fn a_refusal_because_of_a_batch_that_is_not_made() {
    let (bucket, store) = TestBucket::opened().await;
    let denying = bucket.clone();
    let meanwhile = async move { denying.answer_next(false, Answer::Denied) };
    let batches = vec![create("/memories/a", "first"), create("/memories/a", "second")];
    let outcomes = apply_as_group_after(&bucket, &store, batches, meanwhile).await;
    let is_denied = matches!(outcomes[0], Err(StoreError::Failure { kind: ErrorKind::AccessDenied, .. }));
    assert!(is_denied && outcomes[1].is_ok(), "{outcomes:?}");
    assert_eq!(read(&store, "/memories/a").await.unwrap(), "second");
}

/// All batches of a group fail for the same reason, and nothing of them is in the store.
#[tokio::test(start_paused = true)]
async fn a_group_that_is_denied() {
    let (bucket, store) = TestBucket::opened().await;
    let (denying, fault) = (bucket.clone(), Answer::Denied);
    let meanwhile = async move { denying.answer_next(false, fault) };
    let batches = vec![create("/memories/a", "a"), create("/memories/b", "b")];
    for outcome in apply_as_group_after(&bucket, &store, batches, meanwhile).await {
        assert!(matches!(outcome, Err(StoreError::Failure { kind: ErrorKind::AccessDenied, .. })), "{outcome:?}");
    }
    assert_eq!(read(&store, "/memories/a").await, None);
    write(&store, "/memories/a", "next").await.unwrap();
}
