//! Sessions of one proposal and people who decide, all at once.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use memory_tool_core::{
    Batch, InMemoryStore, Node, Precondition, ReadOptions, Store, StoreError, StoreExt as _, StorePath,
};
use memory_tool_history::HistoryStore;
use memory_tool_proposals::{ProposalError, ProposalName, ProposalStore, Proposals, Selection};
use memory_tool_test_fixtures::by_tier;

const SESSIONS: usize = 8;
const FILES: usize = 3;

fn name() -> ProposalName {
    "shared".parse().unwrap()
}

/// Adds a line, and tries again if others change the file at the same time.
async fn append(store: &impl Store, path: &StorePath, line: &str) {
    loop {
        let (precondition, text) = match store.read_opts(path, ReadOptions::new()).await.unwrap() {
            Node::File(file) => (Precondition::Version(file.version), file.content),
            _ => (Precondition::Absent, Vec::new()),
        };
        let text = [text, line.as_bytes().to_vec()].concat();
        match store.apply(Batch::new().require(path.clone(), precondition).write(path.clone(), text)).await {
            Ok(()) => return,
            Err(StoreError::VersionMismatch { .. } | StoreError::AlreadyExists { .. }) => {}
            Err(error) => panic!("{error}"),
        }
    }
}

/// Takes everything, or the first file.
async fn take_some(proposals: &Proposals<impl Store>, takes_all: bool) -> Result<(), ProposalError> {
    let proposal = proposals.get(&name()).await?;
    let first = || proposal.paths().take(1).cloned().fold(Selection::new(), Selection::file);
    proposals.take(&proposal, &if takes_all { Selection::all(&proposal) } else { first() }).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn no_change_is_lost_and_none_is_taken_twice() {
    let lines = by_tier(20, 200);
    let store = Arc::new(HistoryStore::new(InMemoryStore::new()));
    let writing = Arc::new(AtomicUsize::new(SESSIONS));
    let sessions = (0..SESSIONS).map(|session| {
        let (store, writing) = (ProposalStore::new(Arc::clone(&store), name()), Arc::clone(&writing));
        tokio::spawn(async move {
            for line in 0..lines {
                let path = format!("/memories/{}", (session + line) % FILES).parse().unwrap();
                append(&store, &path, &format!("{session}-{line}\n")).await;
            }
            writing.fetch_sub(1, Ordering::SeqCst);
        })
    });
    let people = (0..SESSIONS).map(|person| {
        let (proposals, writing) = (Proposals::new(Arc::clone(&store)), Arc::clone(&writing));
        tokio::spawn(async move {
            let mut taken = 0;
            while writing.load(Ordering::SeqCst) > 0 {
                match take_some(&proposals, person % 2 == 0).await {
                    Ok(()) => taken += 1,
                    Err(ProposalError::NotFound { .. } | ProposalError::Changed) => tokio::task::yield_now().await,
                    Err(error) => panic!("{error}"),
                }
            }
            taken
        })
    });
    let (sessions, people): (Vec<_>, Vec<_>) = (sessions.collect(), people.collect());
    for session in sessions {
        session.await.unwrap();
    }
    for person in people {
        person.await.unwrap();
    }
    match take_some(&Proposals::new(Arc::clone(&store)), true).await {
        Ok(()) | Err(ProposalError::NotFound { .. }) => {}
        Err(error) => panic!("{error}"),
    }
    let mut found = Vec::new();
    for file in 0..FILES {
        let text = store.read_to_string(format!("/memories/{file}").as_str()).await.unwrap();
        found.extend(text.lines().map(str::to_owned));
    }
    found.sort_unstable();
    let mut expected: Vec<_> =
        (0..SESSIONS).flat_map(|session| (0..lines).map(move |line| format!("{session}-{line}"))).collect();
    expected.sort_unstable();
    assert_eq!(found, expected);
}

/// A store that checks preconditions as late as it may. Between the snapshot and the check, a person takes what waits.
#[derive(Debug)]
struct TakenDuringReads(Arc<InMemoryStore>);

#[async_trait]
impl Store for TakenDuringReads {
    async fn read_opts(&self, path: &StorePath, options: ReadOptions) -> Result<Node, StoreError> {
        let node = self.0.read_opts(path, ReadOptions::new()).await?;
        if !path.is_record() {
            let _ = take_some(&Proposals::new(Arc::clone(&self.0)), true).await;
        }
        self.0.read_opts(path, options).await?;
        Ok(node)
    }

    async fn apply(&self, batch: Batch) -> Result<(), StoreError> {
        self.0.apply(batch).await
    }
}

#[tokio::test]
async fn a_proposal_that_is_absent_again_is_no_absent_one() {
    let store = Arc::new(InMemoryStore::new());
    let path: StorePath = "/memories/a".parse().unwrap();
    store.write(path.clone(), "old").await.unwrap();
    let reader = ProposalStore::new(TakenDuringReads(Arc::clone(&store)), name());
    let writer = ProposalStore::new(Arc::clone(&store), name());
    for text in ["new", "newer"] {
        reader.read_to_string(path.clone()).await.unwrap();
        writer.write(path.clone(), text).await.unwrap();
        assert_eq!(reader.read_to_string(path.clone()).await.unwrap(), text, "it was written before the read");
    }
}
