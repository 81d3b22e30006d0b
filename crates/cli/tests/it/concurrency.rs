//! Commands of several processes on one store are linearizable (`[X3]`).

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::path::Path;
use std::thread;

use memory_tool_test_fixtures::by_tier;
use memory_tool_test_fixtures::session::{Place, Session, text};
use serde_json::{Value, json};

fn rounds() -> usize {
    by_tier(200, 1_000, 1_000)
}

#[test]
fn no_insert_of_eight_processes_is_lost() {
    let place = Place::new();
    expect_no_insert_lost(place.store().as_os_str());
}

#[test]
fn no_insert_of_eight_processes_into_a_database_is_lost() {
    let place = Place::new();
    expect_no_insert_lost(place.sqlite("a").as_ref());
}

fn expect_no_insert_lost(store: &OsStr) {
    const PROCESSES: usize = 8;
    const INSERTS: usize = 50;
    let start = || Session::start(store, &["--max-view-chars", "none"]);
    let mut first = start();
    first.succeed(&json!({"command": "create", "path": "/memories/a", "file_text": "last"}));
    let line = |process: usize, insert: usize| format!("process {process}, insert {insert}");
    thread::scope(|threads| {
        for process in 0..PROCESSES {
            let mut session = start();
            threads.spawn(move || {
                for insert in 0..INSERTS {
                    let text = line(process, insert);
                    let command =
                        json!({"command": "insert", "path": "/memories/a", "insert_line": 0, "insert_text": text});
                    assert_eq!(session.succeed(&command), "The file /memories/a has been edited.");
                }
                session.close();
            });
        }
    });
    let content = first.succeed(&json!({"command": "view", "path": "/memories/a"}));
    let lines = content.lines().skip(1).map(|numbered| numbered.split_once('\t').unwrap().1);
    let mut found: Vec<_> = lines.map(str::to_owned).collect();
    assert_eq!(found.pop().as_deref(), Some("last"), "the line that was there first");
    // Each process inserts at the start, so its lines are in reverse order.
    for process in 0..PROCESSES {
        let own = found.iter().filter(|line| line.starts_with(&format!("process {process},")));
        assert!(own.eq((0..INSERTS).rev().map(|insert| line(process, insert)).collect::<Vec<_>>().iter()), "{content}");
    }
    found.sort();
    let mut expected: Vec<_> = (0..PROCESSES * INSERTS).map(|n| line(n / INSERTS, n % INSERTS)).collect();
    expected.sort();
    assert_eq!(found, expected);
}

#[test]
fn exactly_one_of_concurrent_creates_of_a_path_succeeds() {
    let place = Place::new();
    let mut sessions = start_contenders(&place);
    for round in 0..rounds() {
        let path = format!("/memories/{round}");
        let content = |contender: usize| format!("by {contender}");
        let create = |contender| json!({"command": "create", "path": path, "file_text": content(contender)});
        let outcome = race(&mut sessions, round, create);
        assert_eq!(outcome.winner.1, format!("File created successfully at: {path}"));
        for (_, message) in outcome.losers {
            assert_eq!(message, format!("Error: File {path} already exists"));
        }
        let stored = fs::read_to_string(place.file(&round.to_string())).unwrap();
        assert_eq!(stored, content(outcome.winner.0), "round {round}");
        let view = sessions[round % CONTENDERS].succeed(&json!({"command": "view", "path": path}));
        assert!(view.ends_with(&format!("     1\t{stored}")), "{view}");
    }
    sessions.into_iter().for_each(Session::close);
}

#[test]
fn exactly_one_of_concurrent_renames_to_a_path_succeeds() {
    let place = Place::new();
    let mut sessions = start_contenders(&place);
    for round in 0..rounds() / 2 {
        let contenders = contenders_of(round);
        let source = |contender| format!("/memories/{round}-{contender}");
        let target = format!("/memories/to/{round}");
        for (contender, session) in sessions.iter_mut().enumerate().take(contenders) {
            session.succeed(&create_something(round, &source(contender), &contender.to_string()));
        }
        let rename = |contender| json!({"command": "rename", "old_path": source(contender), "new_path": target});
        let outcome = race(&mut sessions, round, rename);
        assert_eq!(outcome.winner.1, format!("Successfully renamed {} to {target}", source(outcome.winner.0)));
        for (_, message) in outcome.losers {
            assert_eq!(message, format!("Error: The destination {target} already exists"));
        }
        let left = (0..contenders).filter(|contender| *contender != outcome.winner.0);
        let expected = left.map(|contender| (source(contender), contender)).chain([(target, outcome.winner.0)]);
        let expected = expected.map(|(path, contender)| (something_at(round, &path), contender.to_string())).collect();
        assert_eq!(take_files(&place), expected, "round {round}");
    }
    sessions.into_iter().for_each(Session::close);
}

#[test]
fn exactly_one_of_concurrent_renames_of_a_path_succeeds() {
    let place = Place::new();
    let mut sessions = start_contenders(&place);
    for round in 0..rounds() / 2 {
        let source = format!("/memories/from/{round}");
        let target = |contender| format!("/memories/{round}-{contender}");
        sessions[round % CONTENDERS].succeed(&create_something(round, &source, "text"));
        let rename = |contender| json!({"command": "rename", "old_path": source, "new_path": target(contender)});
        let outcome = race(&mut sessions, round, rename);
        assert_eq!(outcome.winner.1, format!("Successfully renamed {source} to {}", target(outcome.winner.0)));
        for (_, message) in outcome.losers {
            assert_eq!(message, format!("Error: The path {source} does not exist"));
        }
        let moved = something_at(round, &target(outcome.winner.0));
        assert_eq!(take_files(&place), BTreeMap::from([(moved, "text".to_owned())]), "round {round}");
    }
    sessions.into_iter().for_each(Session::close);
}

/// The maximum number of processes in a race.
const CONTENDERS: usize = 4;

fn start_contenders(place: &Place) -> Vec<Session> {
    (0..CONTENDERS).map(|_| place.session()).collect()
}

/// The number of processes in this round: two, three or four.
fn contenders_of(round: usize) -> usize {
    2 + round % (CONTENDERS - 1)
}

/// The winner and the losers of a race with their replies.
struct Outcome {
    winner: (usize, String),
    losers: Vec<(usize, String)>,
}

/// Sends all commands before waiting for a result. Exactly one must succeed.
fn race(sessions: &mut [Session], round: usize, command: impl Fn(usize) -> Value) -> Outcome {
    let contenders = contenders_of(round);
    for turn in 0..contenders {
        // The first one varies.
        let contender = (round + turn) % contenders;
        sessions[contender].send(command(contender).to_string());
    }
    let results: Vec<_> = sessions.iter_mut().take(contenders).map(Session::receive).enumerate().collect();
    let (losers, winners): (Vec<_>, Vec<_>) = results.iter().partition(|(_, result)| result["is_error"] == true);
    let [winner] = winners.as_slice() else { panic!("not exactly one winner in round {round}: {results:?}") };
    let reply = |(contender, result): &(usize, Value)| (*contender, text(result));
    Outcome { winner: reply(winner), losers: losers.into_iter().map(reply).collect() }
}

/// Creates a file in even rounds, and a directory with a file in odd ones.
fn create_something(round: usize, path: &str, content: &str) -> Value {
    json!({"command": "create", "path": something_at(round, path), "file_text": content})
}

/// The path of the file of [`create_something`] at `path`.
fn something_at(round: usize, path: &str) -> String {
    if round.is_multiple_of(2) { path.to_owned() } else { format!("{path}/deep/file") }
}

/// Removes all files of the store, and returns them with their contents.
fn take_files(place: &Place) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    let memories = place.file("");
    take_files_under(&memories, "/memories", &mut found);
    found
}

fn take_files_under(directory: &Path, path: &str, found: &mut BTreeMap<String, String>) {
    for entry in fs::read_dir(directory).unwrap() {
        let entry = entry.unwrap();
        let path = format!("{path}/{}", entry.file_name().to_str().unwrap());
        if entry.file_type().unwrap().is_dir() {
            take_files_under(&entry.path(), &path, found);
            fs::remove_dir(entry.path()).unwrap();
        } else {
            found.insert(path, fs::read_to_string(entry.path()).unwrap());
            fs::remove_file(entry.path()).unwrap();
        }
    }
}
