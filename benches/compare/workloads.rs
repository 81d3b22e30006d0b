//! The workloads, as inputs of the memory tool.

use std::fmt;

use memory_tool_core::CommandName;
use serde_json::{Value, json};

use crate::contestant::{Contestant, Session};
use crate::measure::{create, delete, rename, view};

pub(crate) const SIZES: [usize; 4] = [1 << 10, SMALL, 16 << 10, MEGABYTE];
const MEGABYTE: usize = 1 << 20;
pub(crate) const SESSIONS: [usize; 3] = [1, 8, 64];
/// The size of the files of all workloads with one size.
pub(crate) const SMALL: usize = 4 << 10;
/// The numbers of files of the stores that are listed.
pub(crate) const LISTINGS: [usize; 2] = [100, 10_000];
/// The store of the floor that is a preallocated log.
pub(crate) const LOG: &str = "log";

/// A real session: the inputs, one per line.
const RECORDED_SESSION: &str = include_str!("../session.jsonl");
/// The files at its end.
const RECORDED_FILES: &str = "incidents/2026-03-12.md migration_progress.md preferences.md schema/enums.md \
    schema/procedures.md schema/slow_queries.md schema/types.md";
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
    Command { name: CommandName, bytes: usize },
    List { files: usize },
    Log,
    RecordedSession,
    Concurrent { name: CommandName, place: Place, sessions: usize },
    Growth { name: CommandName, files: usize },
    FirstReply,
    PeakMemory,
}

impl Id {
    pub(crate) fn small(name: CommandName) -> Self {
        Self::Command { name, bytes: SMALL }
    }

    /// Whether the workload runs on the contestant.
    pub(crate) fn includes(self, contestant: Contestant) -> bool {
        match self {
            Self::Log => contestant == Contestant::Floor,
            Self::Growth { .. } => contestant.is_ours(),
            _ => true,
        }
    }
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Command { name, bytes } => {
                let preposition = match name {
                    CommandName::StrReplace => "in",
                    CommandName::Insert => "into",
                    _ => "of",
                };
                let size = if bytes < MEGABYTE { format!("{} KB", bytes >> 10) } else { format!("{} MB", bytes >> 20) };
                write!(f, "`{name}` {preposition} a file of {size}")
            }
            Self::List { files: 10_000 } => f.write_str("`view` of 10,000 files in 100 directories"),
            Self::List { files } => write!(f, "`view` of {files} files"),
            Self::Log => f.write_str("append of 4 KB to a preallocated log, and its flush"),
            Self::RecordedSession => write!(f, "recorded session of {} commands", RECORDED_SESSION.lines().count()),
            Self::Concurrent { name, place: Place::OneFile, .. } => write!(f, "`{name}`, one file"),
            Self::Concurrent { name, place: Place::OneStore, .. } => write!(f, "`{name}`, one store, own files"),
            Self::Growth { name, .. } => write!(f, "`{name}`"),
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

/// The six commands at each size, and the flush of a log.
pub(crate) fn commands() -> Vec<Workload> {
    let appends = Script { timed: vec![create(FILE, &text(SMALL)); 10], ..Script::default() };
    let mut workloads = vec![Workload::new(Id::Log, LOG, appends)];
    for bytes in SIZES {
        for name in CommandName::ALL {
            let count = if bytes == MEGABYTE { 4 } else { count_of(name) };
            let script = Script::new(name, FILE, bytes, count, 0);
            workloads.push(Workload::new(Id::Command { name, bytes }, "commands", script));
        }
    }
    workloads
}

/// How often a command is repeated in a round.
fn count_of(name: CommandName) -> usize {
    if name == CommandName::View { 40 } else { 10 }
}

/// Listings and the recorded session.
pub(crate) fn whole() -> Vec<Workload> {
    let recorded = Script {
        timed: RECORDED_SESSION.lines().map(|line| serde_json::from_str(line).unwrap()).collect(),
        clean: RECORDED_FILES.split(' ').map(|file| delete(&format!("/memories/{file}"))).collect(),
        ..Script::default()
    };
    let mut workloads = vec![Workload::new(Id::RecordedSession, "recorded", recorded)];
    for files in LISTINGS {
        let timed = vec![view("/memories"); if files > 1_000 { 1 } else { 10 }];
        let script = Script { timed, ..Script::default() };
        workloads.push(Workload::new(Id::List { files }, &listing_store(files), script));
    }
    workloads
}

pub(crate) fn listing_store(files: usize) -> String {
    format!("listing-{files}")
}

/// A view and an edit in stores of different sizes.
pub(crate) fn growth(files: &[usize]) -> Vec<Workload> {
    let mut workloads = Vec::new();
    for &files in files {
        for name in [CommandName::View, CommandName::StrReplace] {
            let path = "/memories/project1/topic1/file.txt"; // in one of the largest directories
            let script = Script::new(name, path, SMALL, count_of(name), 0);
            workloads.push(Workload::new(Id::Growth { name, files }, &growth_store(files), script));
        }
    }
    workloads
}

pub(crate) fn growth_store(files: usize) -> String {
    format!("growth-{files}")
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
        let script = Script::new(name, &path(number), SMALL, count, number);
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
        Self::new(CommandName::View, FILE, SMALL, 1, 0)
    }

    fn new(name: CommandName, path: &str, bytes: usize, count: usize, session: usize) -> Self {
        let numbered = |number| path.replace(".txt", &format!("-{number}.txt"));
        let paths = [path.to_owned(), numbered(0)];
        let command = |number: usize| {
            let (now, next) = (number % 2, (number + 1) % 2);
            match name {
                CommandName::View => view(path),
                CommandName::Create => create(&numbered(number), &text(bytes)),
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
        let creates = (0..count).map(|number| create(&numbered(number), &text(bytes)));
        let deletes = (0..count).map(|number| delete(&numbered(number)));
        let (prepare, clean) = match name {
            CommandName::Create => (Vec::new(), deletes.collect()),
            CommandName::Delete => (creates.collect(), Vec::new()),
            CommandName::Rename => (vec![create(path, &text(bytes))], vec![delete(&paths[count % 2])]),
            _ => (vec![create(path, &text(bytes))], vec![delete(path)]),
        };
        Self { prepare, timed, clean }
    }
}

/// A text of lines of 64 bytes, with one marker at the end.
fn text(bytes: usize) -> String {
    let line = "The customer prefers short replies and pays by invoice, monthly\n";
    let mut text = line.repeat(bytes / line.len() + 1);
    text.truncate(bytes - MARKERS[0].len() - 1);
    text + MARKERS[0] + "\n"
}
