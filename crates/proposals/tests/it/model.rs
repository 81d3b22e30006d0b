//! Random steps, compared with dictionaries.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use memory_tool_core::{InMemoryStore, StoreError, StoreExt as _, StorePath};
use memory_tool_proposals::{Proposal, ProposalError, ProposalName, ProposalStore, Proposals, Selection};
use memory_tool_test_fixtures::{Tier, by_tier, printed_seed};

/// No file has the path of a directory. `d` and `e` are directories that are renamed.
const NAMES: [&str; 8] = ["a", "b", "c", "d/x", "d/y", "e/x", "e/y", "f/g/h"];
const DIRECTORIES: [&str; 2] = ["d", "e"];

/// Numbers that a seed repeats.
struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % end
    }

    fn name(&mut self) -> &'static str {
        NAMES[self.below(NAMES.len())]
    }
}

type Files = BTreeMap<String, String>;

/// The memory, and the proposed files before and after.
#[derive(Clone, Debug, Default)]
struct Model {
    memory: Files,
    proposed: BTreeMap<String, (Option<String>, Option<String>)>,
}

impl Model {
    fn shown(&self) -> Files {
        let mut files = self.memory.clone();
        for (name, (_, after)) in &self.proposed {
            match after {
                Some(text) => _ = files.insert(name.clone(), text.clone()),
                None => _ = files.remove(name),
            }
        }
        files
    }

    fn propose(&mut self, name: &str, text: Option<String>) {
        let present = self.memory.get(name).cloned();
        let before = self.proposed.get(name).map_or(present, |(before, _)| before.clone());
        if before.is_none() && text.is_none() {
            self.proposed.remove(name);
        } else {
            self.proposed.insert(name.to_owned(), (before, text));
        }
    }

    fn rename(&mut self, from: &str, to: &str) -> bool {
        let shown = self.shown();
        let at = |place: &str| -> Vec<String> {
            let below = format!("{place}/");
            shown.keys().filter(|name| *name == place || name.starts_with(&below)).cloned().collect()
        };
        let (moved, occupied) = (at(from), at(to));
        if moved.is_empty() || !occupied.is_empty() {
            return false;
        }
        for name in moved {
            self.propose(&name, None);
            self.propose(&name.replacen(from, to, 1), Some(shown[&name].clone()));
        }
        true
    }

    /// Whether the change can be taken. Texts have one line, so that they never merge.
    fn take(&mut self, name: &str) -> bool {
        let Some((before, after)) = self.proposed.get(name).cloned() else { return false };
        let present = self.memory.get(name).cloned();
        let taken = if present == before || present == after {
            after
        } else if before == after {
            present
        } else {
            return false;
        };
        match taken {
            Some(text) => _ = self.memory.insert(name.to_owned(), text),
            None => _ = self.memory.remove(name),
        }
        self.proposed.remove(name);
        true
    }
}

fn path(name: &str) -> StorePath {
    format!("/memories/{name}").parse().unwrap()
}

async fn files(store: &impl memory_tool_core::Store) -> Files {
    let mut found = Files::new();
    for file in store.list("/memories").await.unwrap() {
        let name = file.path.as_str().trim_start_matches("/memories/").to_owned();
        let text = store.read_to_string(format!("/memories/{name}").as_str()).await.unwrap();
        assert_eq!(text.len() as u64, file.size);
        found.insert(name, text);
    }
    found
}

/// Whether a change succeeded. A missing or existing file refuses it.
fn is_done(outcome: Result<(), StoreError>) -> bool {
    match outcome {
        Ok(()) => true,
        Err(StoreError::NotFound { .. } | StoreError::AlreadyExists { .. }) => false,
        Err(error) => panic!("{error}"),
    }
}

/// The file, and the other half of its rename.
fn halves(proposal: &Proposal, name: &str) -> BTreeSet<String> {
    let name_of = |path: &StorePath| path.as_str().trim_start_matches("/memories/").to_owned();
    let renames = proposal.changes.iter().filter_map(|change| {
        let names = [name_of(change.renamed_from.as_ref()?), name_of(&change.path)];
        names.iter().any(|half| half == name).then_some(names)
    });
    renames.flatten().chain([name.to_owned()]).collect()
}

async fn run(seed: u64, steps: usize) {
    let (mut random, mut model) = (Random(seed), Model::default());
    let store = Arc::new(InMemoryStore::new());
    let proposal: ProposalName = "model".parse().unwrap();
    // Each session has its own cache.
    let sessions = [0, 1].map(|_| ProposalStore::new(Arc::clone(&store), proposal.clone()));
    let proposals = Proposals::new(Arc::clone(&store));
    for step in 0..steps {
        let (name, session) = (random.name(), &sessions[random.below(2)]);
        let text = if random.below(40) == 0 { "x".repeat(40_000) } else { format!("{}\n", random.below(4)) };
        let what = random.below(12);
        match what {
            0..4 => {
                session.write(path(name), text.clone()).await.unwrap();
                model.propose(name, Some(text));
            }
            4 => {
                let is_shown = model.shown().contains_key(name);
                assert_eq!(is_done(session.remove(path(name)).await), is_shown, "seed {seed}, step {step}");
                if is_shown {
                    model.propose(name, None);
                }
            }
            5 => {
                let (from, to) = match random.below(3) {
                    0 => (DIRECTORIES[random.below(2)], DIRECTORIES[random.below(2)]),
                    _ => (name, random.name()),
                };
                if from != to {
                    let is_renamed = is_done(session.rename(path(from), path(to)).await);
                    assert_eq!(is_renamed, model.rename(from, to), "seed {seed}, step {step}: {from} to {to}");
                }
            }
            6 | 7 => {
                store.write(path(name), text.clone()).await.unwrap();
                model.memory.insert(name.to_owned(), text);
            }
            8 => {
                let is_done = is_done(store.remove(path(name)).await);
                assert_eq!(is_done, model.memory.remove(name).is_some());
            }
            9 => {
                if let Ok(found) = proposals.get(&proposal).await {
                    let dropped = proposals.drop(&found, [&path(name)]).await;
                    let was_proposed = model.proposed.contains_key(name);
                    assert_eq!(dropped.is_ok(), was_proposed, "seed {seed}, step {step}");
                    for half in halves(&found, name) {
                        model.proposed.remove(&half);
                    }
                }
            }
            _ => match proposals.get(&proposal).await {
                Ok(found) => {
                    let taken = proposals.take(&found, &Selection::new().file(path(name))).await;
                    let mut next = model.clone();
                    let can_be_taken = halves(&found, name).iter().all(|half| next.take(half));
                    assert_eq!(taken.is_ok(), can_be_taken, "seed {seed}, step {step}, {name}: {taken:?}");
                    if can_be_taken {
                        model = next;
                    }
                }
                Err(ProposalError::NotFound { .. }) => assert!(model.proposed.is_empty()),
                Err(error) => panic!("{error}"),
            },
        }
        assert_eq!(files(&*store).await, model.memory, "seed {seed}, step {step}, {what}");
        assert_eq!(files(session).await, model.shown(), "seed {seed}, step {step}, {what}");
    }
}

#[tokio::test]
async fn random_steps_are_those_of_dictionaries() {
    let seed = if Tier::current() == Tier::Long { printed_seed() } else { 1 };
    run(seed, by_tier(2_000, 10_000)).await;
}
