//! What becomes of a write whose answer says nothing, or the wrong thing: it is made once or not at all, and the caller is told
//! which, or that nobody knows.

use std::sync::Arc;
use std::time::Duration;

use crate::support::{Answer, Fault, TestBucket, call, path, read, write};
use futures::FutureExt;
use memory_tool_core::{FailureKind, StoreError, StoreExt};
use serde_json::json;

const LINE: &str = "line";
/// Of an operation that is to miss it: long enough to come that far on a busy machine.
const DEADLINE: Duration = Duration::from_secs(2);

/// Adds a line to a file that has none, which shows whether it was added twice.
async fn insert_into_empty_file(
    bucket: &Arc<TestBucket>,
    faults: impl FnOnce(&Arc<TestBucket>),
) -> (String, Option<String>) {
    let store = bucket.open().await;
    write(&store, "/memories/a", "").await.unwrap();
    faults(bucket);
    let insert = json!({"command": "insert", "path": "/memories/a", "insert_line": 0, "insert_text": LINE});
    let reply = call(&store, insert).await;
    (reply, read(&bucket.other().await, "/memories/a").await)
}

fn edited_once() -> (String, Option<String>) {
    ("The file /memories/a has been edited.".to_owned(), Some(format!("{LINE}\n")))
}

#[tokio::test]
async fn a_write_that_was_made_while_its_answer_was_lost() {
    for answer in [Answer::Unclear, Answer::AlreadyExists, Answer::Precondition] {
        let faults = |bucket: &Arc<TestBucket>| bucket.answer_next(true, answer);
        assert_eq!(insert_into_empty_file(&TestBucket::new(), faults).await, edited_once(), "{answer:?}");
    }
}

#[tokio::test]
async fn a_write_that_was_not_made_and_got_no_clear_answer() {
    for answer in [Answer::Unclear, Answer::AlreadyExists, Answer::Precondition] {
        let faults = |bucket: &Arc<TestBucket>| (0..3).for_each(|_| bucket.answer_next(false, answer));
        assert_eq!(insert_into_empty_file(&TestBucket::new(), faults).await, edited_once(), "{answer:?}");
    }
}

#[tokio::test]
async fn a_write_that_arrives_late_is_made_once() {
    let outcome = insert_into_empty_file(&TestBucket::new(), |bucket| bucket.delay_next_put()).await;
    assert_eq!(outcome, edited_once());
}

#[tokio::test]
async fn a_lost_answer_while_the_bucket_cannot_be_read() {
    let faults = |bucket: &Arc<TestBucket>| {
        let failing = Arc::clone(bucket);
        bucket.add_fault(Fault {
            put: true,
            meanwhile: Some(async move { failing.fail_gets(3) }.boxed()),
            answer: Answer::Unclear,
        });
    };
    assert_eq!(insert_into_empty_file(&TestBucket::new(), faults).await, edited_once());
}

/// Others write after the write whose answer was lost: it is found among the writers.
#[tokio::test]
async fn a_lost_answer_before_many_writes_of_another() {
    let bucket = TestBucket::new();
    let other = bucket.other().await;
    let faults = |bucket: &Arc<TestBucket>| {
        let meanwhile = async move {
            for number in 0..200 {
                write(&other, "/memories/other", &number.to_string()).await.unwrap();
            }
        };
        bucket.add_fault(Fault { put: true, meanwhile: Some(meanwhile.boxed()), answer: Answer::Unclear });
    };
    assert_eq!(insert_into_empty_file(&bucket, faults).await, edited_once());
}

/// The write did not arrive, and others wrote: it is planned anew on what they left.
#[tokio::test]
async fn a_lost_request_before_writes_of_others() {
    let bucket = TestBucket::new();
    let other = bucket.other().await;
    let store = bucket.open().await;
    write(&store, "/memories/a", "old").await.unwrap();
    let meanwhile = async move { write(&other, "/memories/b", "theirs").await.unwrap() };
    bucket.add_fault(Fault { put: false, meanwhile: Some(meanwhile.boxed()), answer: Answer::Unclear });
    write(&store, "/memories/a", "new").await.unwrap();
    assert_eq!(read(&store, "/memories/a").await.unwrap(), "new");
    assert_eq!(read(&store, "/memories/b").await.unwrap(), "theirs");
}

/// The same, but what they left does not allow it any more.
#[tokio::test]
async fn a_lost_request_that_is_refused_at_last() {
    let bucket = TestBucket::new();
    let other = bucket.other().await;
    let store = bucket.open().await;
    let meanwhile = async move { write(&other, "/memories/a", "theirs").await.unwrap() };
    bucket.add_fault(Fault { put: false, meanwhile: Some(meanwhile.boxed()), answer: Answer::Unclear });
    let create = json!({"command": "create", "path": "/memories/a", "file_text": "mine"});
    assert_eq!(call(&store, create).await, "Error: File /memories/a already exists");
    assert_eq!(read(&store, "/memories/a").await.unwrap(), "theirs");
}

fn kind(outcome: Result<(), StoreError>) -> FailureKind {
    match outcome {
        Err(StoreError::Failure { kind, .. }) => kind,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn so_many_others_wrote_that_the_outcome_is_forgotten() {
    let bucket = TestBucket::new();
    let store = bucket.open().await;
    write(&store, "/memories/a", "old").await.unwrap();
    let objects = bucket.objects.clone();
    let meanwhile = async move {
        for number in 0..65 {
            let other =
                memory_tool_bucket::BucketStore::open(objects.clone(), crate::support::PREFIX.into()).await.unwrap();
            write(&other, "/memories/b", &number.to_string()).await.unwrap();
        }
    };
    bucket.add_fault(Fault { put: true, meanwhile: Some(meanwhile.boxed()), answer: Answer::Unclear });
    assert_eq!(kind(write(&store, "/memories/a", "new").await), FailureKind::OutcomeUnknown);
    write(&store, "/memories/a", "newer").await.unwrap();
}

#[tokio::test]
async fn the_deadline_passes_in_doubt() {
    let bucket = TestBucket::new();
    let store = bucket.open_with_deadline(DEADLINE).await;
    write(&store, "/memories/a", "old").await.unwrap();
    let failing = Arc::clone(&bucket);
    let meanwhile = async move { failing.fail_gets(usize::MAX) };
    bucket.add_fault(Fault { put: false, meanwhile: Some(meanwhile.boxed()), answer: Answer::Unclear });
    assert_eq!(kind(write(&store, "/memories/a", "new").await), FailureKind::OutcomeUnknown);
    bucket.fail_gets(0);
    write(&store, "/memories/a", "newer").await.unwrap();
    assert_eq!(read(&store, "/memories/a").await.unwrap(), "newer");
}

#[tokio::test]
async fn nothing_was_sent_yet_when_the_bucket_failed() {
    let bucket = TestBucket::new();
    let store = bucket.open_with_deadline(DEADLINE).await;
    bucket.fail_gets(usize::MAX);
    let failed = store.read(&path("/memories/a")).await.map(drop);
    assert_eq!(kind(failed), FailureKind::Other);
}

#[tokio::test]
async fn denied_at_once_and_denied_in_doubt() {
    let bucket = TestBucket::new();
    let store = bucket.open().await;
    bucket.answer_next(false, Answer::Denied);
    assert_eq!(kind(write(&store, "/memories/a", "new").await), FailureKind::AccessDenied);
    bucket.answer_next(false, Answer::Unclear);
    bucket.answer_next(false, Answer::Denied);
    assert_eq!(kind(write(&store, "/memories/a", "new").await), FailureKind::OutcomeUnknown);
}

/// Others are always first: nothing was changed, and that is known.
#[tokio::test]
async fn the_deadline_passes_among_rivals() {
    let bucket = TestBucket::new();
    let store = bucket.open_with_deadline(DEADLINE).await;
    let other = bucket.other().await;
    for _ in 0..1_000 {
        let other = other.clone();
        let meanwhile = async move { write(&other, "/memories/b", "theirs").await.unwrap() };
        bucket.add_fault(Fault { put: false, meanwhile: Some(meanwhile.boxed()), answer: Answer::Precondition });
    }
    assert_eq!(kind(write(&store, "/memories/a", "mine").await), FailureKind::Busy);
    assert_eq!(read(&other, "/memories/a").await, None);
}

/// A future that is dropped while its put is on the way does not disturb the next write, whether the put arrives or not.
#[tokio::test]
async fn a_dropped_write() {
    for put in [false, true] {
        let bucket = TestBucket::new();
        let store = bucket.open().await;
        write(&store, "/memories/a", "old").await.unwrap();
        let never = futures::future::pending().boxed();
        bucket.add_fault(Fault { put, meanwhile: Some(never), answer: Answer::Unclear });
        tokio::select! {
            biased;
            outcome = write(&store, "/memories/a", "dropped") => panic!("{outcome:?}"),
            () = bucket.wait_for_faults() => {}
        }
        write(&store, "/memories/b", "next").await.unwrap();
        let a = read(&bucket.other().await, "/memories/a").await.unwrap();
        assert_eq!(a, if put { "dropped" } else { "old" });
        assert_eq!(read(&store, "/memories/b").await.unwrap(), "next");
    }
}
