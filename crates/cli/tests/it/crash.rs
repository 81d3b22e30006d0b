//! `kill -9` at any instant: every acknowledged command has its full effect, and no command has a partial effect
//! (`[X1]`, `[X2]`).

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, Metadata};
use std::io::Write as _;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use memory_tool::{Engine, InMemoryStore, MemoryPath, MemoryTool as _, Node, StoreExt as _, ToolResult};
use memory_tool_test_fixtures::session::{Place, Session};
use memory_tool_test_fixtures::{by_tier, printed_seed};
use rusqlite::Connection;
use serde_json::{Value, json};
use tokio::runtime::Runtime;

/// The number of commands that a process receives. It is killed before the last one.
const COMMANDS: usize = 30;

#[test]
fn acknowledged_commands_survive_and_others_are_atomic() {
    kill_repeatedly(&Storage::Directory(Place::new()), by_tier(20, 40, 300));
}

#[test]
fn acknowledged_commands_survive_in_a_database() {
    // This tests the use of SQLite, not its own recovery.
    kill_repeatedly(&Storage::Database(Place::new()), by_tier(10, 20, 100));
}

fn kill_repeatedly(storage: &Storage, kills: u32) {
    let seed = printed_seed(); // for the commands; the times of the kills vary
    let mut random = Random(seed);
    let mut files = Files::new();
    let pace = Pace::measure(storage);
    let mut interrupted = 0;
    for kill in 0..kills {
        let round = Round { kill };
        let script = Script::write(&files, &mut random);
        let results = crash(storage, &script, &pace, &mut random);
        assert_eq!(results, script.results[..results.len()], "the results before the kill");
        interrupted += u32::from(results.len() < COMMANDS);
        let possible = &script.states[results.len()..];
        assert_no_file_is_half_written(storage, possible);
        let mut session = reopen(storage);
        let found = storage.files();
        assert!(possible.contains(&found), "after {} answers, found {:?}", results.len(), summary(&found));
        assert_views_show(&mut session, &found);
        session.close();
        files = found;
        drop(round);
    }
    assert!(interrupted >= kills / 10, "only {interrupted} of {kills} kills came before the last answer");
}

/// The backend under test.
enum Storage {
    Directory(Place),
    Database(Place),
}

impl Storage {
    fn session(&self) -> Session {
        match self {
            Self::Directory(place) => place.session(),
            Self::Database(place) => Session::start(place.sqlite("a"), &[]),
        }
    }

    /// All files and other entries, as another program sees them.
    fn files(&self) -> Files {
        match self {
            Self::Directory(place) => examine_files(place, |file| Some(fs::read_to_string(file).unwrap())),
            Self::Database(place) => files_in_database(&Connection::open(place.database()).unwrap()),
        }
    }
}

fn files_in_database(connection: &Connection) -> Files {
    let verdict: String = connection.query_one("PRAGMA integrity_check", (), |row| row.get(0)).unwrap();
    assert_eq!(verdict, "ok");
    let mut rows = connection.prepare("SELECT path, text FROM memory").unwrap();
    rows.query_map((), |row| Ok((row.get(0)?, row.get(1)?))).unwrap().collect::<Result<_, _>>().unwrap()
}

/// The files of a store: path and contents.
type Files = BTreeMap<String, String>;

/// Commands with their expected results.
struct Script {
    commands: Vec<Value>,
    /// The result of each.
    results: Vec<Value>,
    /// The files before the first, and after each.
    states: Vec<Files>,
}

impl Script {
    /// Generates commands, mostly successful ones, and runs them on the reference store.
    fn write(files: &Files, random: &mut Random) -> Self {
        let oracle = Oracle::with(files);
        let mut script = Self { commands: Vec::new(), results: Vec::new(), states: vec![files.clone()] };
        for _ in 0..COMMANDS {
            let command = random.command(script.states.last().unwrap_or(files));
            script.results.push(oracle.call(&command));
            script.commands.push(command);
            script.states.push(oracle.files());
        }
        script
    }

    fn lines(&self) -> String {
        self.commands.iter().map(|command| format!("{command}\n")).collect()
    }
}

/// Starts a process, sends it all commands, kills it, and returns the results so far.
fn crash(storage: &Storage, script: &Script, pace: &Pace, random: &mut Random) -> Vec<Value> {
    let mut session = storage.session();
    let awaited = random.below(COMMANDS * 2 / 3);
    let delay = if awaited == 0 { pace.start + 2 * pace.command } else { 2 * pace.command };
    let delay = delay.mul_f64(random.fraction());
    let mut input = session.take_input();
    let mut lines = Vec::new();
    let is_over = AtomicBool::new(false);
    thread::scope(|threads| {
        // The process may be killed before it has read everything.
        threads.spawn(move || input.write_all(script.lines().as_bytes()).is_ok());
        if let Storage::Directory(place) = storage {
            threads.spawn(|| watch(place, &script.states, &is_over));
        }
        let _over = RaisedOnDrop(&is_over);
        lines.extend((0..awaited).map(|_| session.receive_line().expect("the process is alive")));
        wait(delay);
        session.kill();
    });
    lines.extend(std::iter::from_fn(|| session.receive_line()));
    lines.iter().map(|line| serde_json::from_slice(line).unwrap()).collect()
}

/// Raises a flag on drop, so that a panic does not wait forever for a thread that waits for the flag.
struct RaisedOnDrop<'a>(&'a AtomicBool);

impl Drop for RaisedOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Checks the disk repeatedly: at any instant, each file has the length of some state of the store.
fn watch(place: &Place, states: &[Files], is_over: &AtomicBool) {
    let mut lengths = BTreeMap::<&str, BTreeSet<usize>>::new();
    for (path, content) in states.iter().flatten() {
        lengths.entry(path).or_default().insert(content.len());
    }
    while !is_over.load(Ordering::Relaxed) {
        // A directory may have replaced a file since the listing.
        let length =
            |file: &Path| fs::symlink_metadata(file).ok().filter(Metadata::is_file).map(|file| file.len() as usize);
        for (path, length) in examine_files(place, length) {
            let is_whole = lengths.get(path.as_str()).is_some_and(|lengths| lengths.contains(&length));
            assert!(is_whole, "{path} matches no state of the store: {length} bytes");
        }
    }
}

/// Waits in a loop, because sleeping takes longer than a command.
fn wait(delay: Duration) {
    let start = Instant::now();
    while start.elapsed() < delay {
        thread::yield_now();
    }
}

/// Opens the store, which must not wait for locks of the killed process.
fn reopen(storage: &Storage) -> Session {
    let mut session = storage.session();
    session.succeed(&json!({"command": "view", "path": "/memories"}));
    session
}

/// Checks the files before the store is opened again: each has an old or a new content.
fn assert_no_file_is_half_written(storage: &Storage, possible: &[Files]) {
    for (path, content) in storage.files() {
        let is_whole = possible.iter().any(|files| files.get(&path) == Some(&content));
        assert!(is_whole, "{path} matches no state of the store: {} bytes", content.len());
    }
}

/// Checks that `view` lists exactly these files.
fn assert_views_show(session: &mut Session, files: &Files) {
    let oracle = Oracle::with(files);
    let directories = files.keys().flat_map(|path| path.match_indices('/').skip(1).map(|(end, _)| &path[..end]));
    for path in files.keys().map(String::as_str).chain(directories).chain(["/memories"]) {
        let view = json!({"command": "view", "path": path});
        assert_eq!(session.call(view.to_string()), oracle.call(&view));
    }
}

/// Calls `examine` for each file under `{base}/memories`, and skips those for which it returns `None`.
fn examine_files<T>(place: &Place, examine: impl Fn(&Path) -> Option<T>) -> BTreeMap<String, T> {
    let mut found = BTreeMap::new();
    let mut directories = vec![("/memories".to_owned(), place.file(""))];
    while let Some((path, directory)) = directories.pop() {
        // The directory may have been removed.
        for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
            let path = format!("{path}/{}", entry.file_name().to_str().unwrap());
            if entry.file_type().is_ok_and(|file_type| file_type.is_dir()) {
                directories.push((path, entry.path()));
            } else if let Some(examined) = examine(&entry.path()) {
                found.insert(path, examined);
            }
        }
    }
    found
}

fn summary(files: &Files) -> Vec<(&String, usize)> {
    files.iter().map(|(path, content)| (path, content.len())).collect()
}

/// The reference implementation.
struct Oracle {
    runtime: Runtime,
    tool: Engine<InMemoryStore>,
}

impl Oracle {
    fn with(files: &Files) -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let oracle = Self { runtime, tool: Engine::new(InMemoryStore::new()) };
        for (path, content) in files {
            let result = oracle.call(&json!({"command": "create", "path": path, "file_text": content}));
            assert_eq!(result.get("is_error"), None, "{result}");
        }
        oracle
    }

    fn call(&self, command: &Value) -> Value {
        let outcome = self.runtime.block_on(self.tool.call(command.clone()));
        serde_json::to_value(ToolResult::new(None, &outcome)).unwrap()
    }

    fn files(&self) -> Files {
        let store = self.tool.store();
        let entries = self.runtime.block_on(store.list(&MemoryPath::root())).unwrap();
        let content = |path| match self.runtime.block_on(store.read(path)).unwrap() {
            Node::File(file) => String::from_utf8(file.content).unwrap(),
            other => panic!("{other:?}"),
        };
        entries.iter().map(|entry| (entry.path.to_string(), content(&entry.path))).collect()
    }
}

/// The time for starting a process and for a command.
struct Pace {
    start: Duration,
    command: Duration,
}

impl Pace {
    /// Measures the creation of files, which are deleted again.
    fn measure(storage: &Storage) -> Self {
        let begin = Instant::now();
        let mut session = storage.session();
        session.succeed(&json!({"command": "view", "path": "/memories"}));
        let start = begin.elapsed();
        let begin = Instant::now();
        for number in 0..10 {
            let path = format!("/memories/pace/{number}");
            session.succeed(&json!({"command": "create", "path": path, "file_text": "text"}));
        }
        let command = begin.elapsed() / 10;
        session.succeed(&json!({"command": "delete", "path": "/memories/pace"}));
        session.close();
        Self { start, command }
    }
}

/// Prints the round on a panic.
struct Round {
    kill: u32,
}

impl Drop for Round {
    fn drop(&mut self) {
        if thread::panicking() {
            eprintln!("it was kill {}", self.kill);
        }
    }
}

/// Random numbers by the SplitMix64 algorithm, and random commands.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }

    fn fraction(&mut self) -> f64 {
        self.below(1_000_000) as f64 / 1e6
    }

    fn pick<'a, T: ?Sized>(&mut self, from: &[&'a T]) -> Option<&'a T> {
        if from.is_empty() { None } else { Some(from[self.below(from.len())]) }
    }

    /// A command that is likely to succeed on these files.
    fn command(&mut self, files: &Files) -> Value {
        let existing = |random: &mut Self| {
            let paths: Vec<_> = files.keys().map(String::as_str).collect();
            random.pick(&paths).map_or_else(|| random.path(), str::to_owned)
        };
        match self.below(12) {
            0..=4 => json!({"command": "create", "path": self.path(), "file_text": self.content()}),
            5..=6 => {
                let (path, line) = (existing(self), self.below(2));
                json!({"command": "insert", "path": path, "insert_line": line, "insert_text": self.line()})
            }
            7..=8 => {
                let path = existing(self);
                let lines: Vec<_> = files.get(&path).map(|content| content.lines().collect()).unwrap_or_default();
                let old = self.pick(&lines).unwrap_or("nothing").to_owned();
                json!({"command": "str_replace", "path": path, "old_str": old, "new_str": self.line()})
            }
            9..=10 => {
                let old_path = existing(self);
                json!({"command": "rename", "old_path": self.or_directory(old_path), "new_path": self.path()})
            }
            _ => {
                let path = existing(self);
                json!({"command": "delete", "path": self.or_directory(path)})
            }
        }
    }

    /// One of a few paths, so that commands conflict, up to three levels deep. `a` may be a file or a directory.
    fn path(&mut self) -> String {
        let mut path = "/memories".to_owned();
        for _ in 0..self.below(3) {
            path = format!("{path}/{}", ["a", "b", "c"][self.below(3)]);
        }
        format!("{path}/{}", ["a", "x", "y", "z"][self.below(4)])
    }

    /// The path, or sometimes its parent.
    fn or_directory(&mut self, path: String) -> String {
        match path.rsplit_once('/') {
            Some((directory, _)) if directory != "/memories" && self.below(2) == 0 => directory.to_owned(),
            _ => path,
        }
    }

    /// A few lines, or sometimes so many that writing them takes time.
    fn content(&mut self) -> String {
        let lines = if self.below(5) == 0 { 2_000 } else { self.below(4) };
        (0..lines).map(|_| self.line() + "\n").collect()
    }

    /// A unique line.
    fn line(&mut self) -> String {
        format!("line {:016x}", self.next())
    }
}
