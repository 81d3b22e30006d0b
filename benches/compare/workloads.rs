//! The workloads, as inputs of the memory tool.

use std::collections::BTreeSet;
use std::fmt;

use serde_json::{Value, json};

use crate::contestant::Contestant;
use crate::protocol::{Job, Session};

pub(crate) const SIZES: [usize; 4] = [1 << 10, SMALL, 16 << 10, MEGABYTE];
const MEGABYTE: usize = 1 << 20;
pub(crate) const SESSIONS: [usize; 3] = [1, 8, 64];
/// The size of the files of all workloads with one size.
pub(crate) const SMALL: usize = 4 << 10;

/// A real session: the inputs, one per line.
const RECORDED_SESSION: &str = include_str!("../session.jsonl");
const FILE: &str = "/memories/file.txt";
const MARKERS: [&str; 2] = ["status: open", "status: done"];

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Operation {
    View,
    Create,
    StrReplace,
    Insert,
    Delete,
    Rename,
}

impl Operation {
    pub(crate) const ALL: [Self; 6] =
        [Self::View, Self::Create, Self::StrReplace, Self::Insert, Self::Delete, Self::Rename];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::View => "view",
            Self::Create => "create",
            Self::StrReplace => "str_replace",
            Self::Insert => "insert",
            Self::Delete => "delete",
            Self::Rename => "rename",
        }
    }
}

/// The files of concurrent sessions.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Place {
    OneFile,
    OneStore,
    OwnStores,
}

/// A figure that can be looked up.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Id {
    Command { operation: Operation, bytes: usize },
    List { files: usize },
    Log,
    RecordedSession,
    Concurrent { operation: Operation, place: Place, sessions: usize },
    Growth { operation: Operation, files: usize },
    FirstReply,
    PeakMemory,
}

/// The unit of a figure.
#[derive(Clone, Copy)]
pub(crate) enum Unit {
    Bytes,
    Seconds,
}

impl Id {
    pub(crate) fn unit(self) -> Unit {
        match self {
            Self::PeakMemory => Unit::Bytes,
            _ => Unit::Seconds,
        }
    }
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Command { operation, bytes } => {
                let preposition = match operation {
                    Operation::StrReplace => "in",
                    Operation::Insert => "into",
                    _ => "of",
                };
                write!(f, "`{}` {preposition} a file of {}", operation.name(), size(bytes))
            }
            Self::List { files: 10_000 } => f.write_str("`view` of 10,000 files in 100 directories"),
            Self::List { files } => write!(f, "`view` of {files} files"),
            Self::Log => write!(f, "append of {} to a preallocated log, and its flush", size(SMALL)),
            Self::RecordedSession => write!(f, "recorded session of {} commands", RECORDED_SESSION.lines().count()),
            Self::Concurrent { operation, place, sessions } => {
                let place = match place {
                    Place::OneFile => "one file",
                    Place::OneStore => "one store",
                    Place::OwnStores => "own stores",
                };
                write!(f, "`{}`, {sessions} sessions, {place}", operation.name())
            }
            Self::Growth { operation, files } => write!(f, "`{}` with {files} files", operation.name()),
            Self::FirstReply => f.write_str("first reply of a new process"),
            Self::PeakMemory => f.write_str("peak memory of a process with one `view`"),
        }
    }
}

fn size(bytes: usize) -> String {
    if bytes < 1 << 20 { format!("{} KB", bytes >> 10) } else { format!("{} MB", bytes >> 20) }
}

/// Jobs that are run in each round. Each round leaves the stores as it found them.
pub(crate) struct Workload {
    pub(crate) id: Id,
    pub(crate) contestants: Vec<Contestant>,
    pub(crate) prepare: Job,
    pub(crate) timed: Job,
    pub(crate) check: Option<Check>,
    pub(crate) clean: Job,
    pub(crate) sample: Sample,
}

/// The meaning of a sample.
#[derive(Clone, Copy)]
pub(crate) enum Sample {
    /// The time of a command.
    Command,
    /// The time of a round, divided by its number of commands.
    Average,
    /// The time of a round.
    Round,
}

/// Views of the files, and the lines that must be in them.
pub(crate) struct Check {
    pub(crate) views: Job,
    pub(crate) lines: Vec<Vec<String>>,
}

impl Workload {
    fn new(id: Id, timed: Job) -> Self {
        Self {
            id,
            contestants: Contestant::ALL.to_vec(),
            prepare: Job::default(),
            timed,
            check: None,
            clean: Job::default(),
            sample: Sample::Command,
        }
    }
}

/// The six commands at each size, and the flush of a log.
pub(crate) fn commands() -> Vec<Workload> {
    let sized = SIZES.into_iter().flat_map(|bytes| Operation::ALL.map(|operation| command(operation, bytes)));
    let append = json!({"log": SMALL});
    let log = Workload {
        contestants: vec![Contestant::Floor],
        ..Workload::new(Id::Log, Job::single("log", vec![append; 10]))
    };
    sized.chain([log]).collect()
}

fn command(operation: Operation, bytes: usize) -> Workload {
    let count = match (operation, bytes) {
        (Operation::View, ..MEGABYTE) => 40,
        (_, ..MEGABYTE) => 10,
        _ => 4,
    };
    let script = Script::new(operation, FILE, bytes, count, &|number| format!("a line {number}"));
    let [prepare, timed, clean] =
        [script.prepare, script.timed, script.clean].map(|work| Job::single("commands", work));
    Workload { prepare, clean, ..Workload::new(Id::Command { operation, bytes }, timed) }
}

/// Listings and the recorded session.
pub(crate) fn whole() -> Vec<Workload> {
    let mut workloads: Vec<_> = LISTINGS
        .map(|files| {
            let views = vec![view("/memories"); if files > 1_000 { 1 } else { 10 }];
            Workload::new(Id::List { files }, Job::single(&listing_store(files), views))
        })
        .into();
    let session: Vec<Value> = RECORDED_SESSION.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let clean = Job::single("recorded", files_after(&session).iter().map(|path| delete(path)).collect());
    let recorded = Workload::new(Id::RecordedSession, Job::single("recorded", session));
    workloads.push(Workload { clean, sample: Sample::Round, ..recorded });
    workloads
}

/// The numbers of files of the stores that are listed.
pub(crate) const LISTINGS: [usize; 2] = [100, 10_000];

pub(crate) fn listing_store(files: usize) -> String {
    format!("listing-{files}")
}

/// The paths of the files that exist after commands on an empty store.
fn files_after(commands: &[Value]) -> BTreeSet<String> {
    let mut files = BTreeSet::new();
    for command in commands {
        let field = |name: &str| command[name].as_str().unwrap().to_owned();
        match command["command"].as_str().unwrap() {
            "create" => _ = files.insert(field("path")),
            "delete" => _ = files.remove(&field("path")),
            "rename" => {
                files.remove(&field("old_path"));
                files.insert(field("new_path"));
            }
            _ => {}
        }
    }
    files
}

/// A view and an edit in stores of different sizes.
pub(crate) fn growth(files: &[usize]) -> Vec<Workload> {
    let mut workloads = Vec::new();
    for &files in files {
        for (operation, count) in [(Operation::View, 40), (Operation::StrReplace, 10)] {
            let path = "/memories/project1/topic1/file.txt"; // in one of the largest directories
            let script = Script::new(operation, path, SMALL, count, &|_| String::new());
            let [prepare, timed, clean] =
                [script.prepare, script.timed, script.clean].map(|work| Job::single(&growth_store(files), work));
            let workload = Workload::new(Id::Growth { operation, files }, timed);
            workloads.push(Workload {
                contestants: vec![Contestant::Local, Contestant::Sqlite],
                prepare,
                clean,
                ..workload
            });
        }
    }
    workloads
}

pub(crate) fn growth_store(files: usize) -> String {
    format!("growth-{files}")
}

/// Concurrent sessions, each on separate files or all on one file.
pub(crate) fn concurrent() -> Vec<Workload> {
    let mut workloads = Vec::new();
    for sessions in SESSIONS {
        for operation in Operation::ALL {
            for place in [Place::OneStore, Place::OwnStores] {
                workloads.push(own_files(operation, place, sessions));
            }
        }
        workloads.push(one_file(sessions));
    }
    workloads
}

/// The commands of one session.
fn commands_per_session(sessions: usize) -> usize {
    (32 / sessions).max(4)
}

fn own_files(operation: Operation, place: Place, sessions: usize) -> Workload {
    let store = |session: usize| match place {
        Place::OwnStores => format!("sessions-{session}"),
        Place::OneFile | Place::OneStore => "sessions".to_owned(),
    };
    let path = |session| format!("/memories/session{session}.txt");
    let count = commands_per_session(sessions);
    let scripts: Vec<_> = (0..sessions)
        .map(|session| Script::new(operation, &path(session), SMALL, count, &|number| line_of(session, number)))
        .collect();
    let job = |work: &dyn Fn(&Script) -> Vec<Value>| Job {
        sessions: scripts
            .iter()
            .enumerate()
            .map(|(session, script)| Session { store: store(session), commands: work(script) })
            .collect(),
        wants_replies: false,
    };
    let check = (operation == Operation::Insert).then(|| {
        let views = (0..sessions)
            .map(|session| Session { store: store(session), commands: vec![view(&path(session))] })
            .collect();
        let lines = (0..sessions).map(|session| (0..count).map(|number| line_of(session, number)).collect()).collect();
        Check { views: Job { sessions: views, wants_replies: true }, lines }
    });
    Workload {
        prepare: job(&|script| script.prepare.clone()),
        clean: job(&|script| script.clean.clone()),
        check,
        sample: Sample::Average,
        ..Workload::new(Id::Concurrent { operation, place, sessions }, job(&|script| script.timed.clone()))
    }
}

/// Sessions that insert into one file.
fn one_file(sessions: usize) -> Workload {
    let store = "sessions";
    let count = commands_per_session(sessions);
    let lines = |session| (0..count).map(move |number| line_of(session, number));
    let timed = (0..sessions)
        .map(|session| Session {
            store: store.to_owned(),
            commands: lines(session).map(|line| insert(FILE, &line)).collect(),
        })
        .collect();
    let views = Job { wants_replies: true, ..Job::single(store, vec![view(FILE)]) };
    let id = Id::Concurrent { operation: Operation::Insert, place: Place::OneFile, sessions };
    Workload {
        prepare: Job::single(store, vec![create(FILE, SMALL)]),
        clean: Job::single(store, vec![delete(FILE)]),
        check: Some(Check { views, lines: vec![(0..sessions).flat_map(lines).collect()] }),
        sample: Sample::Average,
        ..Workload::new(id, Job { sessions: timed, wants_replies: false })
    }
}

/// A line that is no part of another one.
fn line_of(session: usize, number: usize) -> String {
    format!("session {session} line {number};")
}

/// Commands of one kind, and the commands before and after them.
struct Script {
    prepare: Vec<Value>,
    timed: Vec<Value>,
    clean: Vec<Value>,
}

impl Script {
    /// Creates the script of `count` commands.
    fn new(operation: Operation, path: &str, bytes: usize, count: usize, line: &dyn Fn(usize) -> String) -> Self {
        let numbered = |number| path.replace(".txt", &format!("-{number}.txt"));
        let numbers = 0..count;
        let (prepare, clean) = (vec![create(path, bytes)], vec![delete(path)]);
        match operation {
            Operation::View => Self { prepare, timed: vec![view(path); count], clean },
            Operation::StrReplace => {
                let timed = numbers.map(|number| {
                    let (old, new) = (MARKERS[number % 2], MARKERS[(number + 1) % 2]);
                    json!({"command": "str_replace", "path": path, "old_str": old, "new_str": new})
                });
                Self { prepare, timed: timed.collect(), clean }
            }
            Operation::Insert => {
                Self { prepare, timed: numbers.map(|number| insert(path, &line(number))).collect(), clean }
            }
            Operation::Rename => {
                let paths = [path.to_owned(), numbered(0)];
                let timed = numbers.map(|number| {
                    let (old, new) = (&paths[number % 2], &paths[(number + 1) % 2]);
                    json!({"command": "rename", "old_path": old, "new_path": new})
                });
                Self { prepare, timed: timed.collect(), clean: vec![delete(&paths[count % 2])] }
            }
            Operation::Create | Operation::Delete => {
                let creates = numbers.clone().map(|number| create(&numbered(number), bytes)).collect();
                let deletes = numbers.map(|number| delete(&numbered(number))).collect();
                match operation {
                    Operation::Create => Self { prepare: Vec::new(), timed: creates, clean: deletes },
                    _ => Self { prepare: creates, timed: deletes, clean: Vec::new() },
                }
            }
        }
    }
}

pub(crate) fn view(path: &str) -> Value {
    json!({"command": "view", "path": path})
}

pub(crate) fn create(path: &str, bytes: usize) -> Value {
    json!({"command": "create", "path": path, "file_text": text(bytes)})
}

fn insert(path: &str, line: &str) -> Value {
    json!({"command": "insert", "path": path, "insert_line": 0, "insert_text": format!("{line}\n")})
}

fn delete(path: &str) -> Value {
    json!({"command": "delete", "path": path})
}

/// The commands of a session that repeats one operation on one file of 4 KB, and the commands before it.
pub(crate) fn repeated(operation: Operation, count: usize) -> (Vec<Value>, Vec<Value>) {
    let script = Script::new(operation, FILE, SMALL, count, &|_| String::new());
    (script.prepare, script.timed)
}

/// A text of lines of 64 bytes, with one marker at the end.
fn text(bytes: usize) -> String {
    let line = "The customer prefers short replies and pays by invoice, monthly\n";
    let mut text = line.repeat(bytes / line.len() + 1);
    text.truncate(bytes - MARKERS[0].len() - 1);
    text + MARKERS[0] + "\n"
}
