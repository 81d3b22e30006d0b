//! Sessions of one proposal behave as one memory (`[X3]`), while a person takes what they change.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use memory_tool_bucket::BucketStore;
use memory_tool_core::{Engine, InMemoryStore, MemoryTool as _, ReadOptions, Store, StoreExt as _, StorePath};
use memory_tool_history::HistoryStore;
use memory_tool_local::LocalStore;
use memory_tool_proposals::{ProposalName, ProposalStore, Proposals, Rules, Selection};
use memory_tool_sqlite::SqliteStore;
use memory_tool_test_fixtures::by_tier;
use memory_tool_test_fixtures::linearizability::workload::{command, generate, start};
use memory_tool_test_fixtures::linearizability::{Call, batch_of, check_log, check_order, files_of, line_of};
use object_store::memory::InMemory;
use serde_json::json;
use tokio::task::spawn_blocking;

const SESSIONS: usize = 4;

fn name() -> ProposalName {
    "shared".parse().unwrap()
}

/// Takes a file or the whole proposal, until the sessions have ended. Returns the number of decisions.
async fn decide(store: Arc<dyn Store>, working: Arc<AtomicUsize>) -> usize {
    let (proposals, mut decisions) = (Proposals::new(store), 0);
    while working.load(Ordering::SeqCst) > 0 {
        tokio::task::yield_now().await;
        let Ok(proposal) = proposals.get(&name()).await else { continue };
        let some = if decisions % 2 == 0 { 1 } else { proposal.changes.len() };
        let selection = proposal.paths().take(some).cloned().fold(Selection::new(), Selection::file);
        decisions += usize::from(proposals.take(&proposal, &selection).await.is_ok());
    }
    decisions
}

async fn work(process: usize, session: Arc<dyn Store>, clock: Instant, working: Arc<AtomicUsize>) -> Vec<Call> {
    let (tool, mut calls) = (Engine::new(session), Vec::new());
    for command in generate(process as u64, command(), by_tier(60, 2_000)) {
        let called = clock.elapsed();
        let reply = Some(line_of(&tool.call(command.clone()).await));
        calls.push(Call { process, command, called, responded: clock.elapsed(), reply });
    }
    working.fetch_sub(1, Ordering::SeqCst);
    calls
}

/// Each session has its own store, as another process has. Returns the number of decisions.
async fn check(stores: Vec<Arc<dyn Store>>, rules: Rules) -> usize {
    stores[0].apply(batch_of(&start())).await.unwrap();
    let (clock, working) = (Instant::now(), Arc::new(AtomicUsize::new(SESSIONS)));
    let propose = |store: &Arc<dyn Store>| -> Arc<dyn Store> {
        Arc::new(ProposalStore::new(Arc::clone(store), name()).rules(rules.clone()))
    };
    let deciding = tokio::spawn(decide(Arc::clone(&stores[0]), Arc::clone(&working)));
    let sessions = stores[1..]
        .iter()
        .enumerate()
        .map(|(process, store)| tokio::spawn(work(process, propose(store), clock, Arc::clone(&working))));
    let (mut calls, mut tasks) = (Vec::new(), sessions.collect::<Vec<_>>());
    for task in tasks.drain(..) {
        calls.extend(task.await.unwrap());
    }
    let decisions = deciding.await.unwrap();
    let session = propose(&stores[0]);
    let end = files_of(&session).await;
    let tool = Engine::new(session);
    for path in end.keys().cloned().chain([StorePath::memories()]) {
        let (called, command) = (clock.elapsed(), json!({"command": "view", "path": path.to_string()}));
        let reply = Some(line_of(&tool.call(command.clone()).await));
        calls.push(Call { process: SESSIONS, command, called, responded: clock.elapsed(), reply });
    }
    let checking = spawn_blocking(move || check_order(&start(), &calls).and_then(|()| check_log(&calls, &end)));
    checking.await.unwrap().unwrap();
    decisions
}

/// A bucket store can know an earlier state, in which the proposal has removed the file.
#[tokio::test]
async fn a_file_that_another_session_makes_again_is_found() {
    let bucket = Arc::new(InMemory::new());
    let open = async || BucketStore::open(bucket.clone(), "memory".into()).await.unwrap();
    let (own, other) = (ProposalStore::new(open().await, name()), ProposalStore::new(open().await, name()));
    let path: StorePath = "/memories/a".parse().unwrap();
    open().await.write(path.clone(), "1").await.unwrap();
    own.remove(path.clone()).await.unwrap();
    let find = async || own.read_opts(&path, ReadOptions::new().allow_stale()).await.unwrap().into_file();
    assert_eq!(find().await, None);
    other.write(path.clone(), "2").await.unwrap();
    assert_eq!(find().await.unwrap().content, b"2");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn sessions_of_a_proposal_have_one_order() {
    let mut decisions = 0;
    for rules in [Rules::new(), Rules::new().except("/memories/a".parse().unwrap()).up_to_lines(1)] {
        let in_memory: Arc<dyn Store> = Arc::new(HistoryStore::new(InMemoryStore::new()));
        decisions += check(vec![in_memory; SESSIONS + 1], rules.clone()).await;

        let directory = tempfile::tempdir().unwrap();
        let bucket = Arc::new(InMemory::new());
        let [mut local, mut sqlite, mut buckets] = [const { Vec::<Arc<dyn Store>>::new() }; 3];
        for _ in 0..=SESSIONS {
            local.push(Arc::new(HistoryStore::new(LocalStore::open(directory.path().join("disk")).await.unwrap())));
            let database = SqliteStore::open(directory.path().join("memory.db")).await.unwrap();
            sqlite.push(Arc::new(HistoryStore::new(database)));
            let in_bucket = BucketStore::open(bucket.clone(), "memory".into()).await.unwrap();
            buckets.push(Arc::new(HistoryStore::new(in_bucket)));
        }
        for stores in [local, sqlite, buckets] {
            decisions += check(stores, rules.clone()).await;
        }
    }
    assert!(decisions > 0);
}
