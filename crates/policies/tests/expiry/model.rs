//! Any sequence of commands, batches, sweeps and changes of the clock, by sessions that come and go, compared with a model: an
//! in-memory store, and when each of its files was last used.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use memory_tool_core::{Batch, Command, Engine, InMemoryStore, MemoryPath, Node, Store};
use memory_tool_policies::ExpiringStore;
use proptest::prelude::*;
use proptest::sample::select;

use crate::harness::{ACCESS_TIMES, IDLE, RESOLUTION, TestClock};
use crate::support::{self, Part, Step, block_on, contents, legal_parts, path, steps};

const NAMES: &[&str] = &["a", "b", "pinned"];
const ELSEWHERE: &[&str] = &["/memories", "/memories/a/../b", "/elsewhere"];
const PINNED: &str = "/memories/pinned";

#[derive(Clone, Debug)]
enum Event {
    Step(Step),
    Sweep,
    /// The session ends, and another one begins.
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
    /// The latest time that the clock showed at a use.
    used: BTreeMap<MemoryPath, u64>,
    /// Files of a directory that was pinned and is so no longer: no time is recorded of them until they are seen.
    unseen: BTreeSet<MemoryPath>,
}

fn is_pinned(path: &MemoryPath) -> bool {
    path.as_str().starts_with(PINNED)
}

impl Model {
    fn use_file(&mut self, path: MemoryPath, now: u64) {
        let used = self.used.entry(path).or_default();
        *used = now.max(*used);
    }

    async fn is_file(&self, path: &MemoryPath) -> bool {
        matches!(self.tool.store().read(path).await.unwrap(), Node::File(_))
    }

    /// Removes what is expired. What may be so by now or a little later, is as it is `shown`.
    async fn expire(&mut self, shown: &[MemoryPath], now: u64) -> Result<(), TestCaseError> {
        for path in std::mem::take(&mut self.unseen) {
            if !is_pinned(&path) && self.used.contains_key(&path) {
                self.used.insert(path, now);
            }
        }
        for (path, used) in self.used.clone() {
            let age = now.saturating_sub(used);
            let is_shown = shown.contains(&path);
            if is_pinned(&path) || age <= IDLE {
                prop_assert!(is_shown, "{path} is gone {age} seconds after its last use");
            } else if age >= IDLE + RESOLUTION {
                prop_assert!(!is_shown, "{path} is there {age} seconds after its last use");
            }
            if !is_shown {
                self.used.remove(&path);
                self.tool.store().apply(Batch::new().remove(path).unwrap()).await.unwrap();
            }
        }
        prop_assert_eq!(self.used.len(), shown.len());
        Ok(())
    }

    /// Notes which files a step used. `before` are the files that were there before it.
    async fn note(&mut self, step: &Step, answer: &str, before: &[MemoryPath], now: u64) {
        let is_done = !answer.contains("is_error") && (answer == "done" || matches!(step, Step::Command(_)));
        let (mut moved, mut named) = (Vec::new(), Vec::new());
        match step {
            Step::Command(input) => match Command::try_from(input.clone()) {
                Ok(Command::Rename(rename)) if is_done => moved.push((rename.old_path, rename.new_path)),
                // The engine looks whether the old path is there.
                Ok(Command::Rename(rename)) if rename.old_path.overlaps(&rename.new_path) => {
                    named.push(rename.old_path);
                }
                Ok(Command::Create(create)) if is_done => named.push(create.path),
                Ok(Command::View(view)) => named.push(view.path),
                Ok(Command::StrReplace(edit)) => named.push(edit.path),
                Ok(Command::Insert(edit)) => named.push(edit.path),
                _ => {}
            },
            Step::Batch(parts) => {
                for part in legal_parts(parts) {
                    match part {
                        // The test reads it to know its version.
                        Part::RequireVersion(path, true) if before.contains(path) => named.push(path.clone()),
                        Part::Write(path, _) if is_done => named.push(path.clone()),
                        Part::Rename(from, to) if is_done => moved.push((from.clone(), to.clone())),
                        _ => {}
                    }
                }
            }
        }
        for path in named {
            if before.contains(&path) || self.is_file(&path).await {
                self.use_file(path, now);
            }
        }
        for (from, to) in moved {
            for (path, used) in self.used.clone() {
                if path == from || path.is_beneath(&from) {
                    let moved = path.rebase(&from, &to).unwrap();
                    // Of a pinned file nothing is recorded that it could keep.
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
    }
}

async fn paths(store: &dyn Store) -> Vec<MemoryPath> {
    let mut paths: Vec<_> = store.list(&MemoryPath::root()).await.unwrap().into_iter().map(|file| file.path).collect();
    paths.sort();
    paths
}

async fn compare(events: &[(usize, Event)]) -> Result<(), TestCaseError> {
    let clock = TestClock::new();
    let inner = Arc::new(InMemoryStore::new());
    let open = || -> Engine<ExpiringStore<Arc<InMemoryStore>>> {
        Engine::new(clock.builder(Arc::clone(&inner)).pin(path(PINNED)).build().unwrap())
    };
    let mut sessions = [open(), open()];
    let mut model = Model { tool: Engine::new(InMemoryStore::new()), used: BTreeMap::new(), unseen: BTreeSet::new() };
    for (session, event) in events {
        let now = clock.seconds();
        match event {
            Event::Advance(seconds) => clock.advance(*seconds),
            Event::SetBack(seconds) => {
                // Else what is expired and not removed would come back.
                model.expire(&paths(sessions[*session].store()).await, now).await?;
                sessions[*session].store().sweep().await.unwrap();
                clock.set(now - seconds);
                // Whoever saw the later times goes by them, also where a path is removed and made anew with an earlier one.
                sessions = [open(), open()];
            }
            Event::Restart => sessions[*session] = open(),
            Event::Sweep => {
                let shown = paths(sessions[*session].store()).await;
                model.expire(&shown, now).await?;
                let expired = sessions[*session].store().expired().await.unwrap();
                let swept = sessions[1 - *session].store().sweep().await.unwrap();
                prop_assert_eq!(swept.kept, shown.len());
                prop_assert_eq!(swept.removed, expired.into_iter().map(|file| file.path).collect::<Vec<_>>());
                let mut left = paths(&*inner).await;
                left.retain(|file| *file != path(ACCESS_TIMES));
                prop_assert_eq!(left, shown, "what is left is what is shown");
            }
            Event::Step(step) => {
                let tool = &sessions[*session];
                let shown = paths(tool.store()).await;
                prop_assert_eq!(&paths(sessions[1 - *session].store()).await, &shown);
                model.expire(&shown, now).await?;
                let answer = support::run(tool, step).await;
                prop_assert_eq!(&answer, &support::run(&model.tool, step).await, "{:?}", step);
                model.note(step, &answer, &shown, now).await;
            }
        }
    }
    model.expire(&paths(sessions[0].store()).await, clock.seconds()).await?;
    prop_assert_eq!(contents(sessions[0].store()).await, contents(model.tool.store()).await);
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn what_was_used_is_there_and_what_was_not_is_gone(events in prop::collection::vec((0..2_usize, event()), 1..40)) {
        block_on(compare(&events))?;
    }
}
