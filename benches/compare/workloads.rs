//! The workloads, as inputs of the memory tool.

use std::path::Path;
use std::process::Command;
use std::{fmt, fs};

use memory_tool_core::{Batch, CommandName, Store as _, StorePath};
use memory_tool_sqlite::SqliteStore;
use serde_json::{Value, json};

use crate::contestant::{Contestant, Session, database, runtime};
use crate::measure::{create, delete, rename, view};

pub(crate) const SESSIONS: [usize; 3] = [1, 8, 64];
/// The size of a file in bytes.
const SIZE: usize = 4 << 10;
/// The numbers of files of the stores that are listed.
pub(crate) const LISTINGS: [usize; 2] = [100, 10_000];

const NOTE: &str = "a note\n";
const FILE: &str = "/memories/file.txt";
const MARKERS: [&str; 2] = ["status: open", "status: done"];

/// The files of concurrent sessions.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(crate) enum Place {
    OneFile,
    OneStore,
}

/// A figure that can be looked up.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(crate) enum Id {
    Command(CommandName),
    List { files: usize },
    Concurrent { name: CommandName, place: Place, sessions: usize },
    FirstReply,
    PeakMemory,
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Command(name) => write!(f, "`{name}`"),
            Self::List { files: 10_000 } => f.write_str("`view` of 10,000 files in 100 directories"),
            Self::List { files } => write!(f, "`view` of {files} files"),
            Self::Concurrent { name, place: Place::OneFile, .. } => write!(f, "`{name}`, one file"),
            Self::Concurrent { name, place: Place::OneStore, .. } => write!(f, "`{name}`, one store, own files"),
            Self::FirstReply => f.write_str("first reply of a new process"),
            Self::PeakMemory => f.write_str("peak memory of a process with one `view`"),
        }
    }
}

/// Jobs that are run in each round. Each round leaves the stores as it found them.
pub(crate) struct Workload {
    pub(crate) id: Id,
    pub(crate) prepare: Vec<Session>,
    pub(crate) timed: Vec<Session>,
    /// Views that count the inserted lines.
    pub(crate) views: Vec<Session>,
    pub(crate) lines: Vec<String>,
    pub(crate) clean: Vec<Session>,
}

impl Workload {
    fn new(id: Id, store: &str, script: Script) -> Self {
        let [prepare, timed, clean] =
            [script.prepare, script.timed, script.clean].map(|commands| session(store, commands));
        Self { id, prepare, timed, views: Vec::new(), lines: Vec::new(), clean }
    }
}

/// A job of one session, or no job without commands.
pub(crate) fn session(store: &str, commands: Vec<Value>) -> Vec<Session> {
    if commands.is_empty() { Vec::new() } else { vec![Session { store: store.to_owned(), commands }] }
}

/// How often a command is repeated in a round.
fn count_of(name: CommandName) -> usize {
    if name == CommandName::View { 40 } else { 10 }
}

/// The six commands, and listings.
pub(crate) fn single() -> Vec<Workload> {
    let command = |name| {
        let script = Script::new(name, FILE, count_of(name), 0);
        Workload::new(Id::Command(name), "commands", script)
    };
    let list = |files| {
        let timed = vec![view("/memories"); if files > 1_000 { 1 } else { 10 }];
        Workload::new(Id::List { files }, &listing_store(files), Script { timed, ..Script::default() })
    };
    CommandName::ALL.map(command).into_iter().chain(LISTINGS.map(list)).collect()
}

fn listing_store(files: usize) -> String {
    format!("listing-{files}")
}

/// Creates the stores that are listed, without the tools and without a flush for each file.
pub(crate) fn fill_listings(directory: &Path) {
    for (contestant, files) in Contestant::ALL.into_iter().flat_map(|of| LISTINGS.map(|files| (of, files))) {
        let store = contestant.base(directory).join(listing_store(files));
        let directories = if files > 1_000 { 100 } else { 1 };
        let paths = (0..files).map(|number| format!("/memories/topic{}/note{number}.txt", number % directories));
        if contestant == Contestant::Sqlite {
            let batch = paths.fold(Batch::new(), |batch, path| batch.write(path.parse::<StorePath>().unwrap(), NOTE));
            let filling = async { SqliteStore::open(database(&store)).await.unwrap().apply(batch).await.unwrap() };
            runtime().block_on(filling);
            continue;
        }
        for path in paths {
            let path = store.join(&path[1..]);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, NOTE).unwrap();
        }
    }
    let _ = Command::new("sync").status(); // so that the disk is idle when the measurement starts
}

/// Concurrent sessions of one store: with a separate file for each, and with inserts into one file.
pub(crate) fn concurrent() -> Vec<Workload> {
    let mut workloads = Vec::new();
    for sessions in SESSIONS {
        workloads.extend(CommandName::ALL.map(|name| concurrent_sessions(name, Place::OneStore, sessions)));
        workloads.push(concurrent_sessions(CommandName::Insert, Place::OneFile, sessions));
    }
    workloads
}

fn concurrent_sessions(name: CommandName, place: Place, sessions: usize) -> Workload {
    let count = (32 / sessions).max(4);
    let path = |session| match place {
        Place::OneFile => FILE.to_owned(),
        Place::OneStore => format!("/memories/session{session}.txt"),
    };
    let mut workload = Workload::new(Id::Concurrent { name, place, sessions }, "sessions", Script::default());
    for number in 0..sessions {
        let script = Script::new(name, &path(number), count, number);
        workload.timed.extend(session("sessions", script.timed));
        if number == 0 || place == Place::OneStore {
            workload.prepare.extend(session("sessions", script.prepare));
            workload.clean.extend(session("sessions", script.clean));
            workload.views.extend(session("sessions", vec![view(&path(number))]));
        }
        workload.lines.extend((0..count).map(|line| line_of(number, line)));
    }
    if name != CommandName::Insert {
        workload.views.clear();
        workload.lines.clear();
    }
    workload
}

/// A line that is no part of another one.
fn line_of(session: usize, number: usize) -> String {
    format!("session {session} line {number};")
}

/// Commands of one kind, and the commands before and after them.
#[derive(Default)]
pub(crate) struct Script {
    pub(crate) prepare: Vec<Value>,
    pub(crate) timed: Vec<Value>,
    clean: Vec<Value>,
}

impl Script {
    /// A `view` of a file of 4 KB.
    pub(crate) fn view() -> Self {
        Self::new(CommandName::View, FILE, 1, 0)
    }

    fn new(name: CommandName, path: &str, count: usize, session: usize) -> Self {
        let numbered = |number| path.replace(".txt", &format!("-{number}.txt"));
        let paths = [path.to_owned(), numbered(0)];
        let command = |number: usize| {
            let (now, next) = (number % 2, (number + 1) % 2);
            match name {
                CommandName::View => view(path),
                CommandName::Create => create(&numbered(number), &text()),
                CommandName::StrReplace => {
                    let (old, new) = (MARKERS[now], MARKERS[next]);
                    json!({"command": "str_replace", "path": path, "old_str": old, "new_str": new})
                }
                CommandName::Insert => {
                    let line = line_of(session, number) + "\n";
                    json!({"command": "insert", "path": path, "insert_line": 0, "insert_text": line})
                }
                CommandName::Delete => delete(&numbered(number)),
                CommandName::Rename => rename(&paths[now], &paths[next]),
            }
        };
        let timed = (0..count).map(command).collect();
        let creates = (0..count).map(|number| create(&numbered(number), &text()));
        let deletes = (0..count).map(|number| delete(&numbered(number)));
        let (prepare, clean) = match name {
            CommandName::Create => (Vec::new(), deletes.collect()),
            CommandName::Delete => (creates.collect(), Vec::new()),
            CommandName::Rename => (vec![create(path, &text())], vec![delete(&paths[count % 2])]),
            _ => (vec![create(path, &text())], vec![delete(path)]),
        };
        Self { prepare, timed, clean }
    }
}

/// A text of lines of 64 bytes, with one marker at the end.
fn text() -> String {
    let line = "The customer prefers short replies and pays by invoice, monthly\n";
    let mut text = line.repeat(SIZE / line.len() + 1);
    text.truncate(SIZE - MARKERS[0].len() - 1);
    text + MARKERS[0] + "\n"
}
