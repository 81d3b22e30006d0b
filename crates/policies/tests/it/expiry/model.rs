//! Random sequences of commands, batches, sweeps and clock changes in two sessions, compared with a model: an in-memory
//! store with the latest use of each file.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use memory_tool_core::{Batch, Command, Engine, InMemoryStore, Node, Store, StoreExt as _, StorePath};
use memory_tool_policies::ExpiringStore;
use memory_tool_test_fixtures::property;
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::json;

use super::harness::{IDLE, RESOLUTION, TestClock, view};
use crate::support::{Part, Step, block_on, contents, memory_path, path, steps};

const NAMES: &[&str] = &["a", "b", "pinned"];
const ELSEWHERE: &[&str] = &["/memories", "/memories/a/../b", "/elsewhere"];
const PINNED: &str = "/memories/pinned";

#[derive(Clone, Debug)]
enum Event {
    Step(Step),
    Sweep,
    Restart,
    Advance(u64),
    SetBack(u64),
}

fn event() -> impl Strategy<Value = Event> {
    let seconds = select(vec![1, RESOLUTION - 1, RESOLUTION, IDLE / 2, IDLE - 1, IDLE, IDLE + RESOLUTION, 3 * IDLE]);
    prop_oneof![
        12 => steps(NAMES, ELSEWHERE).prop_map(Event::Step),
        1 => Just(Event::Sweep),
        1 => Just(Event::Restart),
        4 => seconds.prop_map(Event::Advance),
        1 => select(vec![1, RESOLUTION, 2 * IDLE]).prop_map(Event::SetBack),
    ]
}

struct Model {
    tool: Engine<InMemoryStore>,
    /// The latest use of each file.
    used: BTreeMap<StorePath, u64>,
    /// The expired files with their contents. They are visible again if the clock is set back before they are removed.
    expired: BTreeMap<StorePath, (u64, Vec<u8>)>,
    /// Files that were moved out of a pinned directory. They have no recorded time until they are seen.
    unseen: BTreeSet<StorePath>,
}

fn is_pinned(path: &StorePath) -> bool {
    path.as_str().starts_with(PINNED)
}

/// Checks whether a file should be visible. Between the idle time and the resolution after it, both are right.
fn check_visibility(path: &StorePath, used: u64, is_visible: bool, now: u64) -> Result<(), TestCaseError> {
    let age = now.saturating_sub(used);
    if is_pinned(path) || age <= IDLE {
        prop_assert!(is_visible, "{path} is expired {age} seconds after its last use");
    } else if age >= IDLE + RESOLUTION {
        prop_assert!(!is_visible, "{path} is visible {age} seconds after its last use");
    }
    Ok(())
}

impl Model {
    fn new() -> Self {
        Self {
            tool: Engine::new(InMemoryStore::new()),
            used: BTreeMap::new(),
            expired: BTreeMap::new(),
            unseen: BTreeSet::new(),
        }
    }

    fn use_file(&mut self, path: StorePath, now: u64) {
        let used = self.used.entry(path).or_default();
        *used = now.max(*used);
    }

    async fn content(&self, path: &StorePath) -> Option<Vec<u8>> {
        match self.tool.store().read(path).await.unwrap() {
            Node::File(file) => Some(file.content),
            _ => None,
        }
    }

    async fn apply(&self, batch: Batch) {
        self.tool.store().apply(batch).await.unwrap();
    }

    /// Updates the expired files. `visible` are the files that the policy lists, and `stored` the files in its inner
    /// store, which also include expired files.
    async fn expire(&mut self, visible: &[StorePath], stored: &[StorePath], now: u64) -> Result<(), TestCaseError> {
        for path in std::mem::take(&mut self.unseen) {
            if !is_pinned(&path) && self.used.contains_key(&path) {
                self.used.insert(path, now);
            }
        }
        // Times in the future are replaced when the files are seen.
        self.used.values_mut().for_each(|used| *used = now.min(*used));
        for (path, used) in self.used.clone() {
            let is_visible = visible.contains(&path);
            check_visibility(&path, used, is_visible, now)?;
            if !is_visible {
                self.used.remove(&path);
                let content = self.content(&path).await.unwrap();
                self.apply(Batch::new().remove(path.clone())).await;
                self.expired.insert(path, (used, content));
            }
        }
        for (path, (used, content)) in std::mem::take(&mut self.expired) {
            if !stored.contains(&path) {
                continue;
            }
            let is_visible = visible.contains(&path);
            check_visibility(&path, used, is_visible, now)?;
            if is_visible {
                self.apply(Batch::new().write(path.clone(), content)).await;
                self.used.insert(path, used);
            } else {
                self.expired.insert(path, (used, content));
            }
        }
        prop_assert_eq!(self.used.len(), visible.len());
        Ok(())
    }

    /// Records the files that a step used. `before` are the files before the step.
    async fn note(&mut self, step: &Step, result: &str, before: &[StorePath], now: u64) {
        let is_done = !result.contains("is_error") && (result == "done" || matches!(step, Step::Command(_)));
        let (mut moved, mut named) = (Vec::new(), Vec::new());
        match step {
            Step::Command(input) => match Command::try_from(input.clone()) {
                Ok(Command::Rename(rename)) if is_done => moved.push((rename.old_path.into(), rename.new_path.into())),
                // The engine reads the old path first.
                Ok(Command::Rename(rename)) if rename.old_path.overlaps(&rename.new_path) => {
                    named.push(rename.old_path.into());
                }
                Ok(Command::Create(create)) if is_done => named.push(create.path.into()),
                Ok(Command::View(view)) => named.push(view.path.into()),
                Ok(Command::StrReplace(edit)) => named.push(edit.path.into()),
                Ok(Command::Insert(edit)) => named.push(edit.path.into()),
                _ => {}
            },
            Step::Batch(parts) => {
                for part in parts {
                    match part {
                        // The test reads the file for its version.
                        Part::RequireVersion(path, true) if before.contains(path) => named.push(path.clone()),
                        Part::Write(path, _) if is_done => named.push(path.clone()),
                        Part::Rename(from, to) if is_done => moved.push((from.clone(), to.clone())),
                        _ => {}
                    }
                }
            }
        }
        for path in named {
            if before.contains(&path) || self.content(&path).await.is_some() {
                self.use_file(path, now);
            }
        }
        for (from, to) in moved {
            for (path, used) in self.used.clone() {
                if path == from || path.is_under(&from) {
                    let moved = path.replace_prefix(&from, &to).unwrap();
                    // A pinned file has no recorded time to keep.
                    let used = if is_pinned(&path) { now } else { now.max(used) };
                    self.used.insert(moved.clone(), used);
                    if is_pinned(&path) && path != from {
                        self.unseen.insert(moved);
                    }
                }
            }
        }
        let files: Vec<_> = paths(self.tool.store()).await;
        self.used.retain(|path, _| files.contains(path));
        self.expired.retain(|path, _| !files.contains(path));
    }
}

async fn paths(store: &dyn Store) -> Vec<StorePath> {
    store.list(StorePath::memories()).await.unwrap().into_iter().map(|file| file.path).collect()
}

async fn compare(events: &[(usize, Event)]) -> Result<(), TestCaseError> {
    let clock = TestClock::new();
    let inner = Arc::new(InMemoryStore::new());
    let open = || -> Engine<ExpiringStore<Arc<InMemoryStore>>> {
        Engine::new(clock.builder(Arc::clone(&inner)).pin(memory_path(PINNED)).build().unwrap())
    };
    let mut sessions = [open(), open()];
    let mut model = Model::new();
    for (session, event) in events {
        let now = clock.seconds();
        match event {
            Event::Advance(seconds) => clock.advance(*seconds),
            Event::SetBack(seconds) => clock.set(now - seconds),
            Event::Restart => sessions[*session] = open(),
            Event::Sweep => {
                let visible = paths(sessions[*session].store()).await;
                model.expire(&visible, &paths(&inner).await, now).await?;
                let expired = sessions[*session].store().expired().await.unwrap();
                let swept = sessions[1 - *session].store().sweep_all().await.unwrap();
                prop_assert_eq!(swept.kept, visible.len());
                prop_assert_eq!(swept.removed, expired.into_iter().map(|file| file.path).collect::<Vec<_>>());
                prop_assert_eq!(paths(&inner).await, visible, "only visible files are left");
            }
            Event::Step(step) => {
                let tool = &sessions[*session];
                let visible = paths(tool.store()).await;
                prop_assert_eq!(&paths(sessions[1 - *session].store()).await, &visible);
                model.expire(&visible, &paths(&inner).await, now).await?;
                let result = crate::support::run(tool, step).await;
                prop_assert_eq!(&result, &crate::support::run(&model.tool, step).await, "{:?}", step);
                model.note(step, &result, &visible, now).await;
            }
        }
    }
    let visible = paths(sessions[0].store()).await;
    model.expire(&visible, &paths(&inner).await, clock.seconds()).await?;
    prop_assert_eq!(contents(sessions[0].store()).await, contents(model.tool.store()).await);
    Ok(())
}

/// A session with the cached time of the first file must not use it for the second one.
#[test]
fn a_file_recreated_after_the_clock_was_set_back_has_the_later_time() {
    let command = |input| Event::Step(Step::Command(input));
    let batch = |part| Event::Step(Step::Batch(vec![part]));
    let events = || {
        [
            command(json!({"command": "create", "path": "/memories/a", "file_text": ""})),
            Event::SetBack(1),
            batch(Part::Remove(path("/memories"))),
            batch(Part::Write(path("/memories/a"), Vec::new())),
            Event::Advance(IDLE + RESOLUTION),
            command(view("/memories")),
        ]
    };
    for remover in 0..2 {
        for writer in 0..2 {
            let sessions = [0, 0, remover, writer, 0, 0];
            let events: Vec<_> = sessions.into_iter().zip(events()).collect();
            block_on(compare(&events)).unwrap_or_else(|error| panic!("{remover} removes, {writer} writes: {error}"));
        }
    }
}

proptest! {
    #![proptest_config(property(500, 50_000))]

    #[test]
    fn exactly_the_unused_files_expire(events in prop::collection::vec((0..2_usize, event()), 1..40)) {
        block_on(compare(&events))?;
    }
}
