//! Writes with a lost or misleading reply. Each is made once or not made, and the caller learns which, or that the
//! outcome is unknown. The tests cover the rows of the table in `writer.rs`.

use std::sync::Arc;
use std::time::Duration;

use crate::support::{Answer, Fault, TestBucket, call, commits, failure, log, messages, path, read, write};
use futures::FutureExt;
use memory_tool_core::{ErrorKind, StoreError, StoreExt};
use serde_json::json;

const LINE: &str = "line";
/// The timeout of an operation that must exceed it: long enough for the steps before that on a busy machine.
const DEADLINE: Duration = Duration::from_secs(2);

/// Inserts a line into an empty file, whose contents then show whether the insert was made twice.
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

#[tokio::test(start_paused = true)]
async fn a_write_that_was_made_while_its_answer_was_lost() {
    for answer in [Answer::Unclear, Answer::AlreadyExists, Answer::Precondition] {
        let faults = |bucket: &Arc<TestBucket>| bucket.answer_next(true, answer);
        assert_eq!(insert_into_empty_file(&TestBucket::new(), faults).await, edited_once(), "{answer:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_write_that_was_not_made_and_got_no_clear_answer() {
    for answer in [Answer::Unclear, Answer::AlreadyExists, Answer::Precondition] {
        let faults = |bucket: &Arc<TestBucket>| (0..3).for_each(|_| bucket.answer_next(false, answer));
        assert_eq!(insert_into_empty_file(&TestBucket::new(), faults).await, edited_once(), "{answer:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_write_that_arrives_late_is_made_once() {
    let outcome = insert_into_empty_file(&TestBucket::new(), |bucket| bucket.delay_next_put()).await;
    assert_eq!(outcome, edited_once());
}

#[tokio::test(start_paused = true)]
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

/// The commit is in its place in the log, with others after it.
#[tokio::test(start_paused = true)]
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

/// Another commit has the number, so the write is planned again on the state after it, which makes it invalid.
#[tokio::test(start_paused = true)]
async fn a_lost_request_that_is_then_refused() {
    let bucket = TestBucket::new();
    let other = bucket.other().await;
    let store = bucket.open().await;
    let meanwhile = async move { write(&other, "/memories/a", "theirs").await.unwrap() };
    bucket.add_fault(Fault { put: false, meanwhile: Some(meanwhile.boxed()), answer: Answer::Unclear });
    let create = json!({"command": "create", "path": "/memories/a", "file_text": "mine"});
    assert_eq!(call(&store, create).await, "Error: File /memories/a already exists");
    assert_eq!(read(&store, "/memories/a").await.unwrap(), "theirs");
}

fn kind(outcome: Result<(), StoreError>) -> ErrorKind {
    failure(outcome).0
}

/// `gc` replaced the commit by a marker, which has the id of the commit.
#[tokio::test(start_paused = true)]
async fn the_log_is_trimmed_past_a_commit_in_doubt() {
    for put in [false, true] {
        let (bucket, store) = TestBucket::opened().await;
        write(&store, "/memories/a", "old").await.unwrap();
        let other = bucket.other().await;
        let meanwhile = async move {
            write(&other, "/memories/b", "theirs").await.unwrap();
            other.gc(Duration::ZERO).await.unwrap();
        };
        bucket.add_fault(Fault { put, meanwhile: Some(meanwhile.boxed()), answer: Answer::Unclear });
        write(&store, "/memories/a", "new").await.unwrap();
        assert_eq!(read(&store, "/memories/a").await.unwrap(), "new");
        assert_eq!(read(&bucket.other().await, "/memories/b").await.unwrap(), "theirs");
    }
}

/// The number has an object that this program cannot read.
#[tokio::test(start_paused = true)]
async fn garbage_at_the_number_of_a_commit() {
    let (bucket, store) = TestBucket::opened().await;
    write(&store, "/memories/a", "old").await.unwrap();
    let next = log(3);
    for garbage in ["", "garbage", r#"{"format":"memory-tool commit","version":2}"#] {
        bucket.put_object(&next, garbage).await;
        let before = bucket.snapshot().await;
        let error = write(&store, "/memories/a", "new").await.unwrap_err();
        assert!(messages(&error).contains(&next), "{garbage}: {}", messages(&error));
        assert!(store.read(&path("/memories/a")).await.is_err(), "{garbage}");
        assert_eq!(bucket.snapshot().await, before, "{garbage}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_deadline_passes_in_doubt() {
    let bucket = TestBucket::new();
    let store = bucket.open_with_deadline(DEADLINE).await;
    write(&store, "/memories/a", "old").await.unwrap();
    let failing = Arc::clone(&bucket);
    let meanwhile = async move { failing.fail_gets(usize::MAX) };
    bucket.add_fault(Fault { put: false, meanwhile: Some(meanwhile.boxed()), answer: Answer::Unclear });
    assert_eq!(kind(write(&store, "/memories/a", "new").await), ErrorKind::OutcomeUnknown);
    bucket.fail_gets(0);
    bucket.take_requests();
    write(&store, "/memories/a", "newer").await.unwrap();
    assert_eq!(read(&store, "/memories/a").await.unwrap(), "newer");
}

#[tokio::test(start_paused = true)]
async fn nothing_was_sent_yet_when_the_bucket_failed() {
    let bucket = TestBucket::new();
    let store = bucket.open_with_deadline(DEADLINE).await;
    bucket.fail_gets(usize::MAX);
    let failed = store.read(&path("/memories/a")).await.map(drop);
    assert_eq!(kind(failed), ErrorKind::Other);
}

#[tokio::test(start_paused = true)]
async fn denied_at_once_and_denied_in_doubt() {
    let (bucket, store) = TestBucket::opened().await;
    bucket.answer_next(false, Answer::Denied);
    assert_eq!(kind(write(&store, "/memories/a", "new").await), ErrorKind::AccessDenied);
    bucket.answer_next(false, Answer::Unclear);
    bucket.answer_next(false, Answer::Denied);
    assert_eq!(kind(write(&store, "/memories/a", "new").await), ErrorKind::OutcomeUnknown);
}

/// Others are always first: nothing was changed, and that is known.
#[tokio::test(start_paused = true)]
async fn the_deadline_passes_among_rivals() {
    let bucket = TestBucket::new();
    let store = bucket.open_with_deadline(DEADLINE).await;
    let other = bucket.other().await;
    for _ in 0..1_000 {
        let other = other.clone();
        let meanwhile = async move {
            write(&other, "/memories/b", "theirs").await.unwrap();
            tokio::time::sleep(DEADLINE / 500).await;
        };
        bucket.add_fault(Fault { put: false, meanwhile: Some(meanwhile.boxed()), answer: Answer::Precondition });
    }
    assert_eq!(kind(write(&store, "/memories/a", "mine").await), ErrorKind::Busy);
    assert_eq!(read(&other, "/memories/a").await, None);
}

/// One commit of another machine wins the number, and S3 reports the conflict in either form, or the reply is lost.
#[tokio::test(start_paused = true)]
async fn a_number_that_another_machine_takes() {
    for answer in [Answer::AlreadyExists, Answer::Precondition, Answer::Unclear] {
        let faults = |bucket: &Arc<TestBucket>| {
            let objects = bucket.clone();
            let meanwhile = async move { write(&objects.other().await, "/memories/b", "theirs").await.unwrap() };
            bucket.add_fault(Fault { put: false, meanwhile: Some(meanwhile.boxed()), answer });
        };
        let bucket = TestBucket::new();
        assert_eq!(insert_into_empty_file(&bucket, faults).await, edited_once(), "{answer:?}");
        assert_eq!(read(&bucket.other().await, "/memories/b").await.unwrap(), "theirs");
    }
}

/// The late PUT of a commit arrives after another machine took the number: it is refused and has no effect.
#[tokio::test(start_paused = true)]
async fn a_late_put_of_a_number_that_was_taken() {
    let faults = |bucket: &Arc<TestBucket>| {
        bucket.delay_next_put();
        let objects = bucket.clone();
        let hook = async move { write(&objects.other().await, "/memories/b", "theirs").await.unwrap() };
        let (later, get) = (bucket.clone(), format!("GET memory/{}", log(3)));
        // The insert reads the number as well, before its PUT.
        let after_put = async move { later.before_next(&get, hook.boxed()) };
        bucket.before_next(&format!("PUT memory/{}", log(3)), after_put.boxed());
    };
    let bucket = TestBucket::new();
    assert_eq!(insert_into_empty_file(&bucket, faults).await, edited_once());
    assert_eq!(read(&bucket.other().await, "/memories/b").await.unwrap(), "theirs");
}

/// A write that is dropped while its PUT is pending does not delay the next write, even if the PUT arrives.
#[tokio::test(start_paused = true)]
async fn a_dropped_write() {
    for put in [false, true] {
        let (bucket, store) = TestBucket::opened().await;
        write(&store, "/memories/a", "old").await.unwrap();
        let never = futures::future::pending().boxed();
        bucket.add_fault(Fault { put, meanwhile: Some(never), answer: Answer::Unclear });
        tokio::select! {
            biased;
            outcome = write(&store, "/memories/a", "dropped") => panic!("{outcome:?}"),
            () = bucket.wait_for_faults() => {}
        }
        bucket.take_requests();
        write(&store, "/memories/b", "next").await.unwrap();
        // If the PUT arrived, the next write is refused once, reads that commit with two later numbers, and takes the
        // number after it.
        assert_eq!(bucket.take_requests().len(), if put { 5 } else { 1 });
        let a = read(&bucket.other().await, "/memories/a").await.unwrap();
        assert_eq!(a, if put { "dropped" } else { "old" });
        assert_eq!(read(&store, "/memories/b").await.unwrap(), "next");
    }
}

/// A write that is dropped before its turn is never sent.
#[tokio::test(start_paused = true)]
async fn a_write_that_is_dropped_while_it_waits() {
    let (bucket, store) = TestBucket::opened().await;
    write(&store, "/memories/a", "old").await.unwrap();
    let (go_on, wait) = tokio::sync::oneshot::channel::<()>();
    let meanwhile = async move { wait.await.unwrap() };
    bucket.add_fault(Fault { put: true, meanwhile: Some(meanwhile.boxed()), answer: Answer::Unclear });
    let writing = tokio::spawn({
        let store = store.clone();
        async move { write(&store, "/memories/a", "new").await }
    });
    bucket.wait_for_faults().await;
    tokio::select! {
        biased;
        outcome = write(&store, "/memories/b", "dropped") => panic!("{outcome:?}"),
        () = async { for _ in 0..100 { tokio::task::yield_now().await } } => {}
    }
    bucket.take_requests();
    go_on.send(()).unwrap();
    writing.await.unwrap().unwrap();
    write(&store, "/memories/c", "next").await.unwrap();
    assert_eq!(commits(&bucket.take_requests()), 1);
    assert_eq!(read(&bucket.other().await, "/memories/b").await, None);
}

/// A runtime that ends in the middle of a commit does not block the store for another runtime.
#[test]
fn a_runtime_that_ends_during_a_commit() {
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let bucket = TestBucket::new();
    let store = runtime().block_on(async {
        let store = bucket.open().await;
        let never = futures::future::pending().boxed();
        bucket.add_fault(Fault { put: false, meanwhile: Some(never), answer: Answer::Unclear });
        let writing = tokio::spawn({
            let store = store.clone();
            async move { write(&store, "/memories/a", "lost").await }
        });
        bucket.wait_for_faults().await;
        drop(writing);
        store
    });
    runtime().block_on(async {
        write(&store, "/memories/b", "next").await.unwrap();
        assert_eq!(read(&store, "/memories/b").await.unwrap(), "next");
        assert_eq!(read(&store, "/memories/a").await, None);
    });
}
