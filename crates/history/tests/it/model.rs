//! Any sequence of changes, undos, redos and restores does to the files what it does to a plain model.

use std::collections::BTreeMap;

use memory_tool_core::{Batch, InMemoryStore, Store, StoreExt};
use memory_tool_history::{History, HistoryError, HistoryStore, LogFilter};
use memory_tool_test_fixtures::{path, property};
use proptest::prelude::*;
use tokio::runtime::Builder;

type Files = BTreeMap<String, String>;

#[derive(Clone, Debug)]
enum Step {
    Write(usize, u8),
    Remove(usize),
    Rename(usize, usize),
    Undo(usize),
    Redo,
    Restore(usize, prop::sample::Index),
    Redirect(usize, usize, u8),
}

/// Paths that contain each other, so that files and directories take each other's place.
const PATHS: [&str; 7] =
    ["/memories", "/memories/a", "/memories/a/b", "/memories/a/c", "/memories/d", "/memories/d/e", "/memories/f"];

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let at = || 1..PATHS.len();
    let step = prop_oneof![
        6 => (at(), any::<u8>()).prop_map(|(path, text)| Step::Write(path, text)),
        2 => (0..PATHS.len()).prop_map(Step::Remove),
        3 => (at(), at()).prop_map(|(from, to)| Step::Rename(from, to)),
        3 => (1_usize..3).prop_map(Step::Undo),
        2 => Just(Step::Redo),
        1 => ((0..PATHS.len()), any::<prop::sample::Index>()).prop_map(|(path, to)| Step::Restore(path, to)),
        1 => (at(), at(), any::<u8>()).prop_map(|(from, to, text)| Step::Redirect(from, to, text)),
    ];
    prop::collection::vec(step, 1..160)
}

/// The files after each entry, and the changes that an undo or redo would take back.
struct Model {
    after: Vec<Files>,
    undoable: Vec<(Files, Files)>,
    redoable: Vec<(Files, Files)>,
}

impl Model {
    fn now(&self) -> &Files {
        &self.after[self.after.len() - 1]
    }

    fn changed(&mut self, files: Files) {
        self.undoable.push((self.now().clone(), files.clone()));
        self.redoable.clear();
        self.after.push(files);
    }
}

async fn files(store: &impl Store) -> Files {
    let mut files = Files::new();
    for file in store.list("/memories").await.unwrap() {
        let text = store.read_to_string(file.path.as_str()).await.unwrap();
        files.insert(file.path.as_str().to_owned(), text);
    }
    files
}

fn restored(now: &Files, then: &Files, path: &str) -> Files {
    let is_in = |file: &String| path == "/memories" || file == path || file.starts_with(&format!("{path}/"));
    let kept = now.iter().filter(|(file, _)| !is_in(file));
    kept.chain(then.iter().filter(|(file, _)| is_in(file))).map(|(file, text)| (file.clone(), text.clone())).collect()
}

async fn expect_past(history: &History<InMemoryStore>, model: &Model) {
    for (number, expected) in model.after.iter().enumerate() {
        assert_eq!(files(&history.at(number as u64).await.unwrap()).await, *expected, "after entry {number}");
    }
}

async fn run(steps: Vec<Step>) {
    let store = HistoryStore::new(InMemoryStore::new());
    let history = store.history();
    let mut model = Model { after: vec![Files::new()], undoable: Vec::new(), redoable: Vec::new() };
    for step in steps {
        let at = |index: usize| path(PATHS[index]);
        let batch = match step {
            Step::Write(to, text) => Some(Batch::new().write(at(to), text.to_string())),
            Step::Remove(from) => Some(Batch::new().remove(at(from))),
            Step::Rename(from, to) => Some(Batch::new().rename(at(from), at(to))),
            Step::Redirect(from, to, text) => Some(Batch::new().remove(at(from)).write(at(to), text.to_string())),
            Step::Undo(_) | Step::Redo | Step::Restore(..) => None,
        };
        let before = model.now().clone();
        match (batch, step) {
            (Some(batch), _) => {
                if store.apply(batch).await.is_ok() {
                    model.changed(files(&store).await);
                }
            }
            (None, Step::Undo(count)) => {
                let taken_back = model.undoable.len().checked_sub(count).map(|rest| model.undoable.split_off(rest));
                match (history.undo(count).await, taken_back) {
                    (Ok(_), Some(taken_back)) => {
                        let undone = taken_back[0].0.clone();
                        // As one step, so that one redo brings it back.
                        model.redoable.push((before.clone(), undone.clone()));
                        model.after.push(undone);
                    }
                    (Err(HistoryError::NothingToUndo), None) => {}
                    (Err(HistoryError::FileAndDirectory { .. }), Some(mut kept)) => model.undoable.append(&mut kept),
                    (outcome, expected) => panic!("{outcome:?}, but {expected:?}"),
                }
            }
            (None, Step::Redo) => match (history.redo().await, model.redoable.pop()) {
                (Ok(_), Some((redone, undone))) => {
                    model.undoable.push((undone, redone.clone()));
                    model.after.push(redone);
                }
                (Err(HistoryError::NothingToRedo), None) => {}
                (Err(HistoryError::FileAndDirectory { .. }), Some(kept)) => model.redoable.push(kept),
                (outcome, expected) => panic!("{outcome:?}, but {expected:?}"),
            },
            (None, Step::Restore(at_path, number)) => {
                let number = number.index(model.after.len());
                let expected = restored(&before, &model.after[number], PATHS[at_path]);
                match history.restore(&at(at_path), number as u64).await {
                    Ok(_) => model.changed(expected),
                    Err(HistoryError::Unchanged | HistoryError::NotAFile { .. }) => assert_eq!(expected, before),
                    Err(HistoryError::FileAndDirectory { .. }) => {}
                    Err(error) => panic!("{error:?}"),
                }
            }
            _ => unreachable!(),
        }
        assert_eq!(files(&store).await, *model.now());
    }
    expect_past(&history, &model).await;
    let entries = history.entries(&LogFilter::new()).await.unwrap();
    let numbers: Vec<_> = entries.iter().rev().map(|entry| entry.number).collect();
    assert_eq!(numbers, (1..model.after.len() as u64).collect::<Vec<_>>());
    let report = history.verify().await.unwrap();
    assert_eq!((report.entries as usize, report.damage.len(), report.changed_by_others.len()), (entries.len(), 0, 0));
}

proptest! {
    #![proptest_config(property(100, 3_000))]

    #[test]
    fn any_sequence_equals_a_plain_model(steps in steps()) {
        let runtime = Builder::new_current_thread().build().unwrap();
        runtime.block_on(run(steps));
    }
}
