//! Changes that wait are read, taken, edited and dropped.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use memory_tool_core::{
    Actor, Batch, Change, FileEntry, InMemoryStore, Node, Precondition, Quota, ReadOptions, Store, StoreError,
    StoreExt as _, StorePath,
};
use memory_tool_history::{Entry, HistoryStore, LogFilter};
use memory_tool_proposals::{
    Outcome, Proposal, ProposalError, ProposalName, ProposalStore, Proposals, ProposedChange, Rules, Selection,
    WaitingLimits,
};

fn name() -> ProposalName {
    "nightly".parse().unwrap()
}

fn path(path: &str) -> StorePath {
    format!("/memories/{path}").parse().unwrap()
}

struct Memory {
    store: Arc<InMemoryStore>,
    session: ProposalStore<Arc<InMemoryStore>>,
    proposals: Proposals<Arc<InMemoryStore>>,
}

impl Memory {
    async fn with(files: &[(&str, &str)]) -> Self {
        let store = Arc::new(InMemoryStore::new());
        for (name, text) in files {
            store.write(path(name), *text).await.unwrap();
        }
        let session = ProposalStore::new(Arc::clone(&store), name());
        Self { session, proposals: Proposals::new(Arc::clone(&store)), store }
    }

    async fn get(&self) -> Proposal {
        self.proposals.get(&name()).await.unwrap()
    }

    async fn take_all(&self) -> Result<(), ProposalError> {
        let proposal = self.get().await;
        self.proposals.take(&proposal, &Selection::all(&proposal)).await
    }

    /// The records that proposals leave.
    async fn records(&self) -> usize {
        let proposals = "/records/proposals".parse().unwrap();
        let records = self.store.read_opts(&proposals, ReadOptions::new()).await.unwrap();
        records.into_listing().files.len()
    }
}

fn files_of(names: &[&str]) -> Selection {
    names.iter().map(|name| path(name)).fold(Selection::new(), Selection::file)
}

/// All files of a store.
async fn files(store: &impl Store) -> Vec<(String, String)> {
    let mut found = Vec::new();
    for file in store.list("/memories").await.unwrap() {
        let text = store.read_opts(&file.path, ReadOptions::new()).await.unwrap().into_file().unwrap().content;
        found.push((file.path.as_str().to_owned(), String::from_utf8(text).unwrap()));
    }
    found.sort();
    found
}

fn listed(expected: &[(&str, &str)]) -> Vec<(String, String)> {
    expected.iter().map(|(name, text)| (path(name).as_str().to_owned(), (*text).to_owned())).collect()
}

/// A server spawns them.
#[test]
fn futures_are_send() {
    fn is_send(_: impl Send) {}
    let proposals = Proposals::new(Arc::new(InMemoryStore::new()) as Arc<dyn Store>);
    let (name, path, all) = (name(), path("a"), Selection::new());
    is_send(proposals.report(&[]));
    is_send(proposals.list());
    is_send(proposals.get(&name));
    is_send(async {
        let proposal = proposals.get(&name).await?;
        proposals.take(&proposal, &all).await?;
        proposals.drop(&proposal, [&path]).await?;
        proposals.edit(&proposal, &path, "text", None).await
    });
    is_send(ProposalStore::new(InMemoryStore::new(), name.clone()).write(path.clone(), "text"));
}

#[tokio::test]
async fn others_see_nothing_until_it_is_taken() {
    let before = [("a", "1\n"), ("d/b", "2\n"), ("d/c", "3\n"), ("e", "4\n")];
    let memory = Memory::with(&before).await;
    memory.session.write(path("a"), "one\n").await.unwrap();
    memory.session.rename(path("d"), path("f/g")).await.unwrap();
    memory.session.remove(path("e")).await.unwrap();
    memory.session.write(path("new/x"), "5\n").await.unwrap();
    let after = [("a", "one\n"), ("f/g/b", "2\n"), ("f/g/c", "3\n"), ("new/x", "5\n")];
    assert_eq!(files(&memory.session).await, listed(&after));
    assert_eq!(files(&memory.store).await, listed(&before));

    let proposal = memory.get().await;
    let renamed = proposal.changes.iter().filter_map(|change| change.renamed_from.as_ref());
    assert_eq!(renamed.collect::<Vec<_>>(), [&path("d/b"), &path("d/c")]);
    memory.take_all().await.unwrap();
    assert_eq!(files(&memory.store).await, listed(&after));
    assert_eq!(files(&memory.session).await, listed(&after));
    assert_eq!(memory.records().await, 0);
    assert!(matches!(memory.proposals.get(&name()).await, Err(ProposalError::NotFound { .. })));
}

#[tokio::test]
async fn some_files_are_taken_and_the_rest_is_dropped() {
    let memory = Memory::with(&[("a", "1\n"), ("b", "2\n"), ("c", "3\n")]).await;
    for name in ["a", "b", "c"] {
        memory.session.write(path(name), "new\n").await.unwrap();
    }
    let proposal = memory.get().await;
    memory.proposals.take(&proposal, &files_of(&["a", "b"])).await.unwrap();
    assert_eq!(files(&memory.store).await, listed(&[("a", "new\n"), ("b", "new\n"), ("c", "3\n")]));
    let rest = memory.get().await;
    assert_eq!(rest.paths().collect::<Vec<_>>(), [&path("c")]);
    assert!(matches!(memory.proposals.take(&proposal, &files_of(&["c"])).await, Err(ProposalError::Changed)));
    let none = memory.proposals.take(&rest, &files_of(&["a"])).await;
    assert!(matches!(none, Err(ProposalError::NotProposed { .. })), "{none:?}");
    memory.proposals.drop(&rest, rest.paths()).await.unwrap();
    assert_eq!(files(&memory.session).await, listed(&[("a", "new\n"), ("b", "new\n"), ("c", "3\n")]));
    assert_eq!(memory.records().await, 0);
}

#[tokio::test]
async fn parts_of_a_file_are_taken_singly() {
    let lines: Vec<_> = (0..20).map(|line| format!("{line}\n")).collect();
    let memory = Memory::with(&[("a", &lines.concat())]).await;
    let mut proposed = lines.clone();
    (proposed[1], proposed[18]) = ("first\n".into(), "last\n".into());
    memory.session.write(path("a"), proposed.concat()).await.unwrap();
    let proposal = memory.get().await;
    let parts = proposal.changes[0].parts();
    assert_eq!(parts.len(), 2, "{parts:?}");
    assert!(parts[1].contains("-18\n+last\n"), "{parts:?}");
    let none = memory.proposals.take(&proposal, &Selection::new().parts(path("a"), [2])).await;
    assert!(matches!(none, Err(ProposalError::NoPart { parts: 2, .. })), "{none:?}");
    memory.proposals.take(&proposal, &Selection::new().parts(path("a"), [1])).await.unwrap();
    let mut taken = lines.clone();
    taken[18] = "last\n".into();
    assert_eq!(memory.store.read_to_string(path("a")).await.unwrap(), taken.concat());
    let rest = memory.get().await;
    assert_eq!(rest.changes[0].parts().len(), 1);
    assert!(!rest.changes[0].is_outdated());
    memory.take_all().await.unwrap();
    assert_eq!(memory.store.read_to_string(path("a")).await.unwrap(), proposed.concat());
}

#[tokio::test]
async fn later_changes_of_the_memory_stay_or_nothing_is_taken() {
    let memory = Memory::with(&[("a", "1\n2\n3\n4\n5\n"), ("b", "1\n")]).await;
    memory.session.write(path("a"), "1\n2\n3\n4\nfive\n").await.unwrap();
    memory.session.write(path("b"), "one\n").await.unwrap();
    memory.store.write(path("a"), "zero\n2\n3\n4\n5\n").await.unwrap();
    memory.store.write(path("b"), "uno\n").await.unwrap();
    assert_eq!(memory.session.read_to_string(path("a")).await.unwrap(), "1\n2\n3\n4\nfive\n");
    let refused = memory.take_all().await;
    assert!(matches!(&refused, Err(ProposalError::Conflict { paths }) if *paths == [path("b")]), "{refused:?}");
    assert_eq!(files(&memory.store).await, listed(&[("a", "zero\n2\n3\n4\n5\n"), ("b", "uno\n")]));
    let proposal = memory.get().await;
    let of = |name: &str| proposal.change(&path(name)).map(ProposedChange::outcome).unwrap();
    assert_eq!(of("a"), Outcome::Content(Some(b"zero\n2\n3\n4\nfive\n".to_vec())));
    assert_eq!(of("b"), Outcome::Conflict);
    memory.proposals.take(&proposal, &files_of(&["a"])).await.unwrap();
    assert_eq!(memory.store.read_to_string(path("a")).await.unwrap(), "zero\n2\n3\n4\nfive\n");
    // A person solves the conflict in the proposal.
    let ada = Actor::from_trusted_name("ada").unwrap();
    let proposal = memory.get().await;
    memory.proposals.edit(&proposal, &path("b"), "uno\n", Some(&ada)).await.unwrap();
    assert_eq!(memory.get().await.change(&path("b")).unwrap().authors, [ada]);
    let again = memory.proposals.edit(&proposal, &path("b"), "dos\n", None).await;
    assert!(matches!(again, Err(ProposalError::Changed)), "{again:?}");
    memory.take_all().await.unwrap();
    assert_eq!(memory.records().await, 0);
}

/// A store that does not distinguish upper and lower case in a batch, as a disk can be.
#[derive(Debug)]
struct FoldingStore(Arc<InMemoryStore>);

#[async_trait]
impl Store for FoldingStore {
    async fn read_opts(&self, path: &StorePath, options: ReadOptions) -> Result<Node, StoreError> {
        self.0.read_opts(path, options).await
    }

    async fn apply(&self, batch: Batch) -> Result<(), StoreError> {
        for change in batch.changes() {
            let Change::Write { path, .. } = change else { continue };
            let is_other =
                |file: &FileEntry| file.path != *path && file.path.as_str().eq_ignore_ascii_case(path.as_str());
            if let Some(file) = self.0.list("/memories").await?.into_iter().find(is_other) {
                return Err(StoreError::AlreadyExists { path: file.path });
            }
        }
        self.0.apply(batch).await
    }
}

#[tokio::test]
async fn a_name_that_the_disk_has_in_other_letters_is_named() {
    let memory = Memory::with(&[("notes", "1")]).await;
    memory.session.write(path("NOTES"), "2").await.unwrap();
    memory.session.write(path("b"), "2").await.unwrap();
    let proposals = Proposals::new(FoldingStore(Arc::clone(&memory.store)));
    let proposal = memory.get().await;
    let refused = proposals.take(&proposal, &Selection::all(&proposal)).await.unwrap_err();
    assert!(matches!(refused, ProposalError::Store(StoreError::AlreadyExists { .. })), "{refused:?}");
    assert_eq!(files(&memory.store).await, listed(&[("notes", "1")]));
    proposals.take(&proposal, &files_of(&["b"])).await.unwrap();
}

/// A store whose file `a` another program changes right before the first batch that takes something.
#[derive(Debug)]
struct Interfering(Arc<InMemoryStore>, AtomicBool);

#[async_trait]
impl Store for Interfering {
    async fn read_opts(&self, path: &StorePath, options: ReadOptions) -> Result<Node, StoreError> {
        self.0.read_opts(path, options).await
    }

    async fn apply(&self, batch: Batch) -> Result<(), StoreError> {
        if batch.command() == Some("take") && !self.1.swap(true, Ordering::SeqCst) {
            self.0.write(path("a"), "uno\n2\n3\n4\n").await?;
        }
        self.0.apply(batch).await
    }
}

#[tokio::test]
async fn a_change_between_reading_and_taking_stays() {
    let memory = Memory::with(&[("a", "1\n2\n3\n4\n")]).await;
    memory.session.write(path("a"), "1\n2\n3\nfour\n").await.unwrap();
    let proposals = Proposals::new(Interfering(Arc::clone(&memory.store), AtomicBool::new(false)));
    proposals.take(&memory.get().await, &files_of(&["a"])).await.unwrap();
    assert_eq!(memory.store.read_to_string(path("a")).await.unwrap(), "uno\n2\n3\nfour\n");
}

#[tokio::test]
async fn a_file_that_was_not_changed_is_the_present_one() {
    let memory = Memory::with(&[("a", "1"), ("d/b", "2")]).await;
    memory.session.remove(path("d")).await.unwrap();
    memory.store.write(path("a"), "newer").await.unwrap();
    memory.store.write(path("d/c"), "newer").await.unwrap();
    memory.store.write(path("d/b"), "newer").await.unwrap();
    assert_eq!(files(&memory.session).await, listed(&[("a", "newer"), ("d/c", "newer")]));
    let refused = memory.take_all().await;
    assert!(matches!(refused, Err(ProposalError::Conflict { .. })), "the removal of a changed file: {refused:?}");
}

#[tokio::test]
async fn a_file_and_a_directory_do_not_mix() {
    let memory = Memory::with(&[("a", "1")]).await;
    memory.session.write(path("b/c"), "2").await.unwrap();
    memory.store.write(path("b"), "a file").await.unwrap();
    assert_eq!(files(&memory.session).await, listed(&[("a", "1"), ("b/c", "2")]));
    let refused = memory.take_all().await;
    assert!(matches!(refused, Err(ProposalError::Store(StoreError::NotADirectory { .. }))), "{refused:?}");
    memory.store.remove(path("b")).await.unwrap();
    memory.session.remove(path("a")).await.unwrap();
    memory.session.write(path("a/x"), "3").await.unwrap();
    let swap = memory.take_all().await;
    assert!(matches!(&swap, Err(ProposalError::FileAndDirectory { path: in_way }) if *in_way == path("a")), "{swap:?}");
    let proposal = memory.get().await;
    memory.proposals.take(&proposal, &files_of(&["a"])).await.unwrap();
    memory.take_all().await.unwrap();
    assert_eq!(files(&memory.store).await, listed(&[("a/x", "3"), ("b/c", "2")]));
}

#[tokio::test]
async fn texts_beyond_the_index_have_records_that_go() {
    let memory = Memory::with(&[("a", "1")]).await;
    for number in 0..4 {
        memory.session.write(path(&format!("long-{number}")), "x".repeat(30_000)).await.unwrap();
    }
    memory.session.write(path("binary"), vec![0xff, 0xfe]).await.unwrap();
    assert_eq!(memory.records().await, 4);
    memory.session.write(path("long-3"), "y".repeat(30_000)).await.unwrap();
    memory.session.remove(path("binary")).await.unwrap();
    assert_eq!(memory.records().await, 3);
    assert_eq!(memory.session.read_to_string(path("long-3")).await.unwrap(), "y".repeat(30_000));
    memory.take_all().await.unwrap();
    assert_eq!(memory.records().await, 0);
    assert_eq!(memory.store.read_to_string(path("long-3")).await.unwrap(), "y".repeat(30_000));
}

#[tokio::test]
async fn limits_and_quotas_apply() {
    let memory = Memory::with(&[("a", "1234")]).await;
    let store = Arc::clone(&memory.store);
    let limited = ProposalStore::new(store, "small".parse().unwrap()).limits(WaitingLimits::new().files(2).bytes(20));
    for name in ["x", "y"] {
        limited.write(path(name), "1234").await.unwrap();
    }
    let refused = limited.write(path("z"), "1").await.unwrap_err();
    assert_eq!(refused.to_string(), "/memories/z: No more than 2 files can be changed.");
    let refused = limited.write(path("x"), "1".repeat(21)).await.unwrap_err();
    assert_eq!(refused.to_string(), "/memories/x: No more than 20 bytes can be changed.");
    limited.remove(path("y")).await.unwrap();
    limited.write(path("z"), "1").await.unwrap();

    let quota = |files| Quota::new().with_files(files);
    let write = |name: &str, files| Batch::new().limit(StorePath::memories(), quota(files)).write(path(name), "1");
    limited.remove(path("z")).await.unwrap();
    let refused = limited.apply(write("z", 2)).await;
    assert!(matches!(refused, Err(StoreError::OverQuota { .. })), "{refused:?}");
    limited.apply(write("z", 3)).await.unwrap();
    let summaries = memory.proposals.list().await.unwrap();
    assert_eq!((summaries.len(), summaries[0].files, summaries[0].name.as_str()), (1, 2, "small"));
}

#[tokio::test]
async fn an_edit_resolves_a_conflict_and_keeps_later_changes() {
    let memory = Memory::with(&[("a", "1\n2\n3\n4\n5\n")]).await;
    memory.session.write(path("a"), "one\n2\n3\n4\n5\n").await.unwrap();
    memory.store.write(path("a"), "1\n2\n3\n4\nfive\n").await.unwrap();
    let proposal = memory.get().await;
    let draft = String::from_utf8(proposal.changes[0].draft().unwrap()).unwrap();
    assert_eq!(draft, "one\n2\n3\n4\nfive\n", "with the later change");
    memory.store.write(path("a"), "1\n2\n3\n4\nfive\nsix\n").await.unwrap();
    memory.proposals.edit(&proposal, &path("a"), draft.replace("one", "uno"), None).await.unwrap();
    memory.store.write(path("a"), "eins\n2\n3\n4\nfive\nsix\n").await.unwrap();
    assert!(matches!(memory.take_all().await, Err(ProposalError::Conflict { .. })));
    let proposal = memory.get().await;
    assert_eq!(proposal.changes[0].draft().unwrap(), b"uno\n2\n3\n4\nfive\nsix\n", "with the later line");
    memory.proposals.edit(&proposal, &path("a"), "uno, eins\n2\n3\n4\nfive\nsix\n", None).await.unwrap();
    memory.take_all().await.unwrap();
    assert_eq!(files(&*memory.store).await, listed(&[("a", "uno, eins\n2\n3\n4\nfive\nsix\n")]));

    // Others removed the file.
    memory.session.write(path("a"), "new\n").await.unwrap();
    memory.store.remove(path("a")).await.unwrap();
    assert!(matches!(memory.take_all().await, Err(ProposalError::Conflict { .. })));
    memory.proposals.edit(&memory.get().await, &path("a"), "again\n", None).await.unwrap();
    memory.take_all().await.unwrap();
    assert_eq!(files(&*memory.store).await, listed(&[("a", "again\n")]));
}

#[tokio::test]
async fn both_halves_of_a_rename_are_decided_together() {
    for half in ["from", "to"] {
        let memory = Memory::with(&[("from", "1\n"), ("x", "1\n")]).await;
        memory.session.rename(path("from"), path("to")).await.unwrap();
        memory.session.remove(path("x")).await.unwrap();
        memory.proposals.drop(&memory.get().await, &[path(half)]).await.unwrap();
        assert_eq!(memory.get().await.paths().collect::<Vec<_>>(), [&path("x")], "{half}");
        memory.session.rename(path("from"), path("to")).await.unwrap();
        memory.proposals.take(&memory.get().await, &files_of(&[half])).await.unwrap();
        assert_eq!(files(&*memory.store).await, listed(&[("to", "1\n"), ("x", "1\n")]), "{half}");
    }
}

#[tokio::test]
async fn a_file_takes_the_place_of_a_directory_without_files() {
    let memory = Memory::with(&[("d/a", "1\n"), ("d/b", "2\n")]).await;
    for name in ["d/a", "d/b"] {
        memory.session.remove(path(name)).await.unwrap();
    }
    let is_absent = ReadOptions::new().require(path("d"), Precondition::Absent);
    assert_eq!(memory.session.read_opts(&path("d"), is_absent).await.unwrap(), Node::Absent);
    let other = Batch::new().require(path("d"), Precondition::Absent).write(path("c"), "3\n");
    memory.session.apply(other).await.unwrap();
    let create = Batch::new().require(path("d"), Precondition::Absent).write(path("d"), "file\n");
    memory.session.apply(create).await.unwrap();
    assert_eq!(files(&memory.session).await, listed(&[("c", "3\n"), ("d", "file\n")]));
}

#[tokio::test]
async fn rules_let_changes_count_at_once() {
    let memory = Memory::with(&[("a", "1\n2\n3\n4\n"), ("b", "1\n"), ("scratch/x", "1\n2\n3\n")]).await;
    let rules = Rules::new().except(path("scratch")).up_to_lines(2);
    let session = ProposalStore::new(Arc::clone(&memory.store), name()).rules(rules);
    let is_at_once = async |batch: Batch| {
        let (before, waiting) = (files(&*memory.store).await, memory.proposals.list().await.unwrap());
        session.apply(batch).await.unwrap();
        let is_changed = files(&*memory.store).await != before;
        assert_ne!(is_changed, memory.proposals.list().await.unwrap() != waiting, "one of both");
        is_changed
    };
    assert!(is_at_once(Batch::new().write(path("a"), "one\ntwo\n3\n4\n")).await);
    assert!(is_at_once(Batch::new().write(path("c"), "1\n2\n")).await);
    assert!(is_at_once(Batch::new().write(path("scratch/y"), "1\n2\n3\n")).await);
    assert!(is_at_once(Batch::new().rename(path("scratch/y"), path("scratch/z"))).await);
    assert!(is_at_once(Batch::new().remove(path("scratch/x"))).await);
    assert!(!is_at_once(Batch::new().write(path("d"), "1\n2\n3\n")).await);
    assert!(!is_at_once(Batch::new().rename(path("scratch/z"), path("e"))).await);
    assert!(!is_at_once(Batch::new().remove(path("b"))).await);
    let with_large = Batch::new().write(path("a"), "one\n").write(path("f"), "small\n");
    assert!(!is_at_once(with_large).await, "the changes of a batch stay together");
    // Small changes of what waits already.
    assert!(!is_at_once(Batch::new().write(path("a"), "1\n")).await);
    assert!(!is_at_once(Batch::new().write(path("b"), "1\n")).await);
    assert!(!is_at_once(Batch::new().remove(path("b"))).await);
    assert!(!is_at_once(Batch::new().write(path("b/x"), "1\n")).await, "the removal of the file above it waits");
    // Preconditions and quotas hold in both places.
    let taken = session.apply(Batch::new().require(path("c"), Precondition::Absent).write(path("c"), "1\n")).await;
    assert!(matches!(taken, Err(StoreError::AlreadyExists { .. })), "{taken:?}");
    let full = Batch::new().limit(StorePath::memories(), Quota::new().with_files(6)).write(path("g"), "1\n");
    let full = session.apply(full).await;
    assert!(matches!(full, Err(StoreError::OverQuota { .. })), "{full:?}");
}

#[tokio::test]
async fn a_proposal_that_waits_too_long_gets_no_more_changes() {
    let memory = Memory::with(&[("a", "1\n")]).await;
    memory.session.write(path("a"), "2\n").await.unwrap();
    memory.session.write(path("b"), "2\n").await.unwrap();
    let created = memory.get().await.created;
    let limits = WaitingLimits::new().age(Duration::ZERO);
    assert!(limits.are_exceeded_since(created) && !WaitingLimits::new().are_exceeded_since(created));
    let session = ProposalStore::new(Arc::clone(&memory.store), name()).limits(limits);
    let refused = session.write(path("c"), "3\n").await.unwrap_err();
    assert!(matches!(&refused, StoreError::Refused { reason, .. } if reason == "No more files can be changed now."));
    session.remove(path("b")).await.unwrap(); // less waits
    memory.take_all().await.unwrap();
    session.write(path("c"), "3\n").await.unwrap();
}

#[tokio::test]
async fn a_damaged_proposal_is_reported_and_can_be_dropped() {
    let memory = Memory::with(&[("a", "1")]).await;
    memory.session.write(path("a"), "2").await.unwrap();
    let index: StorePath = "/records/proposals/nightly/index".parse().unwrap();
    let stored = memory.store.read_opts(&index, ReadOptions::new()).await.unwrap().into_file().unwrap().content;
    let stored = String::from_utf8(stored).unwrap();
    // A record would be changed past all policies.
    let forged = ["/records/server/store", "/memories"].map(|path| stored.replace("/memories/a", path));
    for damaged in forged.iter().map(String::as_str).chain(["", "{}", &stored[1..]]) {
        memory.store.apply(Batch::new().write(index.clone(), damaged)).await.unwrap();
        let read = memory.proposals.get(&name()).await;
        assert!(matches!(read, Err(ProposalError::Damaged { .. })), "{damaged}: {read:?}");
        let session = ProposalStore::new(Arc::clone(&memory.store), name());
        assert!(session.write(path("b"), "3").await.is_err(), "{damaged}");
    }
    let other = ProposalStore::new(Arc::clone(&memory.store), "other".parse().unwrap());
    other.write(path("a"), "4").await.unwrap();
    let listed = memory.proposals.list().await.unwrap();
    assert_eq!(
        listed.iter().map(|listed| (listed.files, listed.is_damaged)).collect::<Vec<_>>(),
        [(0, true), (1, false)]
    );
    assert!(memory.proposals.find_text("4").await.is_err(), "the damaged one may have it");
    assert_eq!(memory.proposals.clear(&"other".parse().unwrap()).await.unwrap(), Some(1));
    assert_eq!(memory.proposals.clear(&name()).await.unwrap(), None);
    assert!(matches!(memory.proposals.clear(&name()).await, Err(ProposalError::NotFound { .. })));
    assert_eq!(memory.records().await, 0);
    ProposalStore::new(Arc::clone(&memory.store), name()).write(path("b"), "3").await.unwrap();
}

#[tokio::test]
async fn the_reason_of_a_drop_is_kept_and_changes_nothing() {
    let store = Arc::new(HistoryStore::new(InMemoryStore::new()));
    let history = store.history();
    let session = ProposalStore::new(Arc::clone(&store), name());
    let by = |actor: &str| Batch::new().by(Actor::from_trusted_name(actor).unwrap());
    store.write(path("a"), "1").await.unwrap();
    for file in ["a", "b"] {
        session.apply(by("agent").write(path(file), "2")).await.unwrap();
    }
    let ada = Actor::from_trusted_name("ada").unwrap();
    let decide = async |actor: Actor, file: &str| {
        let proposals = Proposals::new(ByActor(Arc::clone(&store), actor));
        let proposal = proposals.get(&name()).await.unwrap();
        proposals.drop(&proposal, &[path(file)]).await.unwrap();
    };
    decide(ada.clone(), "a").await;
    assert_eq!(history.newest().await.unwrap(), 1, "a drop without a reason leaves nothing");
    decide(ada.because("not asked for"), "b").await;
    let entry = history.entry(2).await.unwrap();
    let kept = (entry.number, entry.actor.as_deref(), entry.reason.as_deref(), entry.action());
    assert_eq!(kept, (2, Some("ada"), Some("not asked for"), "drop".to_owned()));
    assert!(entry.changes.is_empty() && entry.authors == ["agent"], "{entry:?}");
    // It is no change of the memory.
    history.undo(1).await.unwrap();
    assert!(store.read_to_string(path("a")).await.is_err());
    history.redo().await.unwrap();
    assert_eq!(store.read_to_string(path("a")).await.unwrap(), "1");
    history.redact([2]).await.unwrap();
    assert_eq!(history.entry(2).await.unwrap().reason, None);
}

/// A store whose batches have an actor.
#[derive(Debug)]
struct ByActor(Arc<HistoryStore<InMemoryStore>>, Actor);

#[async_trait]
impl Store for ByActor {
    async fn read_opts(&self, path: &StorePath, options: ReadOptions) -> Result<Node, StoreError> {
        self.0.read_opts(path, options).await
    }

    async fn apply(&self, batch: Batch) -> Result<(), StoreError> {
        self.0.apply(batch.by(self.1.clone())).await
    }
}

#[tokio::test]
async fn who_wrote_and_who_agreed_is_kept_with_the_reasons() {
    let store = Arc::new(HistoryStore::new(InMemoryStore::new()));
    let (history, session) = (store.history(), ProposalStore::new(Arc::clone(&store), name()));
    let by = |name: &str| Actor::from_trusted_name(name).unwrap();
    let agent = by("agent").because("asked for");
    session.apply(Batch::new().by(agent.clone()).write(path("a"), "1")).await.unwrap();
    session.apply(Batch::new().by(by("agent")).write(path("a"), "2")).await.unwrap();
    session.apply(Batch::new().by(by("agent").because("twice")).write(path("a"), "2")).await.unwrap();
    session.apply(Batch::new().by(by("other").because("found")).write(path("b"), "2")).await.unwrap();
    let proposals = |actor| Proposals::new(ByActor(Arc::clone(&store), actor));
    let proposal = proposals(by("ada")).get(&name()).await.unwrap();
    proposals(by("ada")).edit(&proposal, &path("a"), "3", Some(&by("ada"))).await.unwrap();
    let proposal = proposals(by("ada")).get(&name()).await.unwrap();
    assert_eq!(proposal.change(&path("a")).unwrap().authors, [by("ada"), agent.because("asked for; twice")]);
    proposals(by("bob")).take(&proposal, &files_of(&["a"])).await.unwrap();
    let proposal = proposals(by("bob")).get(&name()).await.unwrap();
    proposals(by("bob").because("good")).take(&proposal, &files_of(&["b"])).await.unwrap();
    let kept = |entry: Entry| (entry.actor, entry.authors, entry.reason);
    let some = |text: &str| Some(text.to_owned());
    let entries = [history.entry(1).await.unwrap(), history.entry(2).await.unwrap()];
    let [first, second] = entries.map(kept);
    assert_eq!(first, (some("bob"), vec!["ada".to_owned(), "agent".to_owned()], some("asked for; twice")));
    assert_eq!(second, (some("bob"), vec!["other".to_owned()], some("good")));
    for (actor, expected) in [("bob", &[2, 1][..]), ("agent", &[1]), ("other", &[2]), ("eve", &[])] {
        let found = history.entries(&LogFilter::new().actor(actor)).await.unwrap();
        assert_eq!(found.iter().map(|entry| entry.number).collect::<Vec<_>>(), expected, "{actor}");
    }
}

#[tokio::test]
async fn parts_without_a_conflict_are_taken() {
    let lines = |first: &str, last: &str| format!("{first}\n{}{last}\n", "same\n".repeat(20));
    let memory = Memory::with(&[("d/a", &lines("1", "2")), ("d/b", "1\n"), ("e", "1\n")]).await;
    memory.session.write(path("d/a"), lines("one", "two")).await.unwrap();
    memory.session.write(path("d/b"), "2\n").await.unwrap();
    memory.session.write(path("e"), "2\n").await.unwrap();
    memory.store.write(path("d/a"), lines("uno", "2")).await.unwrap();
    let proposal = memory.get().await;
    let change = proposal.change(&path("d/a")).unwrap();
    assert_eq!(change.parts_in_conflict(), [0]);
    assert_eq!(proposal.change(&path("d/b")).unwrap().parts_in_conflict(), [0; 0]);
    assert_eq!(proposal.files_at(&[path("d")]).unwrap(), [path("d/a"), path("d/b")]);
    assert_eq!(proposal.files_at(&[]).unwrap().len(), 3);
    let none = proposal.files_at(&[path("e"), path("f")]);
    assert!(matches!(none, Err(ProposalError::NotProposed { path: none }) if none == path("f")));
    memory.proposals.take(&proposal, &Selection::new().parts(path("d/a"), [1])).await.unwrap();
    assert_eq!(memory.store.read_to_string(path("d/a")).await.unwrap(), lines("uno", "two"));
    assert_eq!(memory.get().await.change(&path("d/a")).unwrap().outcome(), Outcome::Conflict);
}

#[tokio::test]
async fn records_of_proposals_are_not_changed_by_others() {
    let memory = Memory::with(&[("a", "1")]).await;
    memory.session.write(path("a"), "2").await.unwrap();
    memory.session.write(path("b"), "2").await.unwrap();
    for record in ["/records", "/records/proposals", "/records/proposals/nightly/index"] {
        let refused = memory.session.apply(Batch::new().remove(record.parse::<StorePath>().unwrap())).await;
        assert!(matches!(refused, Err(StoreError::Refused { .. })), "{record}: {refused:?}");
    }
    memory.take_all().await.unwrap();
    let ended = async || memory.store.read_opts(&"/records/proposals.ended".parse().unwrap(), ReadOptions::new()).await;
    let before = ended().await.unwrap();
    let other: StorePath = "/records/other/state".parse().unwrap();
    memory.session.apply(Batch::new().write(other.clone(), "x")).await.unwrap();
    memory.session.apply(Batch::new().require(path("c"), Precondition::Absent)).await.unwrap();
    assert_eq!(ended().await.unwrap(), before, "no file was changed");
    let read = memory.store.read_opts(&other, ReadOptions::new()).await.unwrap();
    assert!(matches!(read, Node::File(_)), "{read:?}");
}

#[tokio::test]
async fn a_report_compares_the_memory_with_the_taken_proposal() {
    let memory = Memory::with(&[("a.md", "1\n2\n3\n"), ("b.md", "1\n[a](a.md)\n4\n5\n"), ("c.md", "6\n")]).await;
    let report = memory.proposals.report(&[]).await.unwrap();
    assert_eq!((report.before, report.dead_links.count, report.removes_much()), (report.after, 0, false));

    memory.session.remove(path("a.md")).await.unwrap();
    memory.session.write(path("d.md"), "2\n").await.unwrap();
    memory.store.write(path("c.md"), "6\n7\n").await.unwrap();
    let proposal = memory.get().await;
    let report = memory.proposals.report(&proposal.changes).await.unwrap();
    assert_eq!((report.before.files, report.after.files, report.after.bytes), (3, 3, 22));
    assert_eq!((report.before.lines, report.removed_lines.first[0].text.as_str()), (8, "3"));
    assert_eq!((report.removed_lines.count, report.dead_links.first[0].text.as_str()), (1, "a.md"));
    assert!(!memory.proposals.removes_much(&proposal).await.unwrap());

    // A conflict counts as proposed, and a merge as merged.
    memory.session.remove(path("b.md")).await.unwrap();
    memory.store.write(path("b.md"), "1\n[a](a.md)\nfour\n").await.unwrap();
    memory.session.write(path("c.md"), "six\n7\n").await.unwrap();
    memory.store.write(path("c.md"), "6\n7\n\n\n8\n").await.unwrap();
    let proposal = memory.get().await;
    let report = memory.proposals.report(&proposal.changes).await.unwrap();
    let removed: Vec<_> = report.removed_lines.first.iter().map(|line| line.text.as_str()).collect();
    assert_eq!((removed.as_slice(), report.before.lines), (["1", "3", "[a](a.md)", "four", "6"].as_slice(), 8));
}

#[tokio::test]
async fn a_memory_can_be_too_large_for_a_report() {
    let memory = Memory::with(&[("a", &(0..10).map(|line| format!("{line}\n")).collect::<String>())]).await;
    for name in 0..5 {
        memory.store.write(path(&name.to_string()), vec![b'x'; 15_000_000]).await.unwrap();
    }
    memory.session.write(path("a"), "ten\n").await.unwrap();
    let proposal = memory.get().await;
    let report = memory.proposals.report(&proposal.changes).await;
    let error = report.unwrap_err().to_string();
    assert_eq!(error, "the memory has 75000000 bytes; the limit of a report is 67108864");
    assert!(memory.proposals.removes_much(&proposal).await.unwrap());
}
