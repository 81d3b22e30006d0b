//! Programs that serve a memory, with one fault each.

use std::fs::{self, File};
use std::io::{BufRead, stdin, stdout};
use std::path::Path;
use std::process::ExitCode;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use memory_tool_conformance::{CommandLine, Suite, serve_store};
use memory_tool_core::{
    Engine, Error, InMemoryStore, MemoryTool, Node, Reply, Store, StoreError, StoreExt, StorePath, ToolResult, ToolUse,
};
use serde::de::{Deserializer, MapAccess, Visitor};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use tokio::runtime::Runtime;

use super::{SERVE, disks};

/// Returns the line to print for a result. The second argument tells whether the input was a command.
type Response = fn(Value, bool) -> String;

const FAULTS: [(&str, Response); 5] = [
    ("dies-of-a-bad-line", |result, is_command| if is_command { result.to_string() } else { std::process::exit(1) }),
    ("forgets-the-id", |mut result, _| {
        result.as_object_mut().unwrap().remove("tool_use_id");
        result.to_string()
    }),
    ("hangs-on-a-bad-line", |result, is_command| {
        if !is_command {
            std::thread::sleep(Duration::from_secs(3600));
        }
        result.to_string()
    }),
    ("leaks-descriptors", |result, _| {
        match File::open("/dev/null") {
            Ok(file) => std::mem::forget(file),
            Err(_) => std::process::exit(1),
        }
        result.to_string()
    }),
    ("prints-a-traceback", |result, is_command| {
        if is_command { result.to_string() } else { "Traceback (most recent call last):".to_owned() }
    }),
];

/// Returns the line to read instead of a line, or `None` to skip it.
type Request = fn(Vec<u8>) -> Option<Vec<u8>>;

/// The faults of programs that misread lines. Each line has its line feed, if any.
const MISREADINGS: [(&str, Request); 6] = [
    ("accepts-nan", |line| Some(replaced(line, &[(":NaN", ":null"), (",NaN", ",null")]))),
    ("first-of-duplicate-keys", |line| {
        let first = serde_json::from_slice::<FirstOfKeys>(&line).map(|FirstOfKeys(fields)| json!(fields).to_string());
        Some(first.map_or(line, String::into_bytes))
    }),
    ("heeds-dry-run", |line| {
        let is_dry = String::from_utf8_lossy(&line).contains("\"dry_run\":true");
        Some(if is_dry { replaced(line, &[("\"delete\"", "\"view\"")]) } else { line })
    }),
    ("needs-a-last-line-feed", |line| (line.last() == Some(&b'\n')).then_some(line)),
    ("replaces-bad-bytes-of-lines", |line| Some(String::from_utf8_lossy(&line).into_owned().into_bytes())),
    ("skips-blank-lines", |line| (!line.trim_ascii().is_empty()).then_some(line)),
];

/// The fault of a program that takes the id of a result from a bare command.
const FINDS_IDS_ANYWHERE: &str = "finds-ids-anywhere";

fn replaced(line: Vec<u8>, replacements: &[(&str, &str)]) -> Vec<u8> {
    match String::from_utf8(line) {
        Ok(line) => replacements.iter().fold(line, |line, (old, new)| line.replace(old, new)).into_bytes(),
        Err(error) => error.into_bytes(),
    }
}

/// The fields of an object, each with the first value of its key.
struct FirstOfKeys(Map<String, Value>);

impl<'de> Deserialize<'de> for FirstOfKeys {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(FirstOfKeysVisitor)
    }
}

struct FirstOfKeysVisitor;

impl<'de> Visitor<'de> for FirstOfKeysVisitor {
    type Value = FirstOfKeys;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<FirstOfKeys, A::Error> {
        let mut fields = Map::new();
        while let Some((name, value)) = map.next_entry()? {
            fields.entry::<String>(name).or_insert(value);
        }
        Ok(FirstOfKeys(fields))
    }
}

/// The fault of a program that runs every line in a separate thread, and prints the results in order.
const STARTS_LINES_AT_ONCE: &str = "starts-lines-at-once";

/// The fault of a program that keeps everything in memory until it ends.
const SAVES_AT_EXIT: &str = "saves-at-exit";

pub(crate) fn all() -> Vec<(String, Suite)> {
    let patient = |fault| suite(fault).answer_timeout(Duration::from_secs(5));
    let faults = FAULTS.into_iter().map(|(fault, _)| fault).chain(MISREADINGS.into_iter().map(|(fault, _)| fault));
    let mut suites: Vec<_> = faults
        .chain([FINDS_IDS_ANYWHERE, STARTS_LINES_AT_ONCE])
        .map(|fault| (fault.to_owned(), patient(fault)))
        .collect();
    // Without plain files, because not seeing the files of other programs is a different fault.
    suites.push((disks::FORGETS_WHEN_KILLED.to_owned(), disks::of_one_process(disks::FORGETS_WHEN_KILLED)));
    suites.push((SAVES_AT_EXIT.to_owned(), Suite::for_command(command_line(SAVES_AT_EXIT))));
    suites
}

pub(crate) fn without_fault() -> Suite {
    suite("none")
}

/// A program whose last command, if the program is killed, takes effect as soon as another program has read something,
/// unless another change comes first. Storage in a network can behave so, and it is no fault.
const LANDS_LATE: &str = "lands-late";

/// For so long, a change can be interrupted. Every kill of `restarts.others-continue` comes earlier.
const DELAY: Duration = Duration::from_millis(20);

pub(crate) fn landing_late() -> Suite {
    ["leftovers.of-killed-programs", "restarts.killed-while-", "restarts.others-continue"]
        .into_iter()
        .fold(suite(LANDS_LATE), |suite, case| suite.filter(case))
}

/// A change that a program has sent to the storage.
#[derive(Deserialize, Serialize)]
struct SentChange {
    command: Value,
    /// The changes before it.
    changes: String,
}

/// The number of changes of a memory, which is odd during a change. Empty before the first one.
fn number_of_changes(directory: &Path) -> String {
    format!("{:?}", fs::read(directory.join(".memory-tool/sequence")).unwrap_or_default())
}

/// Whether a command changes something. A deletion of nothing is only a read.
fn changes_something(directory: &Path, command: &Value) -> bool {
    match command["command"].as_str() {
        Some("view") => false,
        Some("delete") => directory.join(command["path"].as_str().unwrap().trim_start_matches('/')).exists(),
        _ => true,
    }
}

/// Calls the tool. Writes a change to a file first, and after a read makes the change of a program that was killed.
fn call_late(runtime: &Runtime, tool: &dyn MemoryTool, directory: &Path, command: Value) -> Result<Reply, Error> {
    let sent = File::options().create(true).append(true).read(true).open(directory.join("sent")).unwrap();
    if changes_something(directory, &command) {
        sent.lock().unwrap(); // until this change is made or this program is killed
        sent.set_len(0).unwrap();
        let change = SentChange { command: command.clone(), changes: number_of_changes(directory) };
        serde_json::to_writer(&sent, &change).unwrap();
        thread::sleep(DELAY);
        let reply = runtime.block_on(tool.call(command));
        sent.set_len(0).unwrap();
        return reply;
    }
    let reply = runtime.block_on(tool.call(command));
    if sent.try_lock().is_ok()
        && let Ok(late) = serde_json::from_reader::<_, SentChange>(&sent)
        && late.changes == number_of_changes(directory)
    {
        let _ = runtime.block_on(tool.call(late.command));
    }
    reply
}

fn suite(fault: &str) -> Suite {
    Suite::for_command(command_line(fault).plain_files("{dir}/memories"))
}

fn command_line(fault: &str) -> CommandLine {
    let program = std::env::current_exe().unwrap();
    let line = format!("'{}' {SERVE} {fault} {{dir}} {{options}}", program.display());
    CommandLine::parse(&line).unwrap()
}

/// Serves the memory in a directory with this fault of the program or of the store.
pub(crate) fn serve(fault: &str, directory: &Path, options: &[String]) -> ExitCode {
    let runtime = Runtime::new().unwrap();
    let on_disk = runtime.block_on(disks::tool(fault, directory, options));
    if fault == STARTS_LINES_AT_ONCE {
        serve_at_once(&runtime, &on_disk);
        return ExitCode::SUCCESS;
    }
    let in_memory = Engine::new(InMemoryStore::new());
    let saves_at_exit = [SAVES_AT_EXIT, disks::FORGETS_WHEN_KILLED].contains(&fault) && options.is_empty();
    if saves_at_exit {
        runtime.block_on(copy(on_disk.store(), in_memory.store())).unwrap();
    }
    let tool: &dyn MemoryTool = if saves_at_exit { &in_memory } else { &on_disk };
    let response = FAULTS.into_iter().find(|(name, _)| *name == fault).map(|(_, response)| response);
    let request = MISREADINGS.into_iter().find(|(name, _)| *name == fault).map(|(_, request)| request);
    let is_of_line = response.is_some() || request.is_some() || [FINDS_IDS_ANYWHERE, LANDS_LATE].contains(&fault);
    if !is_of_line && !saves_at_exit {
        serve_store(on_disk.store(), &on_disk, stdin().lock(), stdout()).unwrap();
        return ExitCode::SUCCESS;
    }
    let response = response.unwrap_or(|result, _| result.to_string());
    let mut input = stdin().lock();
    loop {
        let mut line = Vec::new();
        if input.read_until(b'\n', &mut line).unwrap() == 0 {
            break;
        }
        let Some(line) = request.map_or(Some(line.clone()), |request| request(line)) else { continue };
        let (mut result, is_command) = match ToolUse::parse(line.strip_suffix(b"\n").unwrap_or(&line)) {
            Ok(call) if fault == LANDS_LATE => {
                (ToolResult::new(call.id, &call_late(&runtime, tool, directory, call.input)), true)
            }
            Ok(call) => (ToolResult::new(call.id, &runtime.block_on(tool.call(call.input))), true),
            Err(rejected) => (ToolResult::from(rejected), false),
        };
        if fault == FINDS_IDS_ANYWHERE && result.tool_use_id.is_none() {
            let fields: Value = serde_json::from_slice(&line).unwrap_or_default();
            result.tool_use_id = fields["id"].as_str().or(fields["tool_use_id"].as_str()).map(str::to_owned);
        }
        println!("{}", response(json!(result), is_command));
    }
    if saves_at_exit {
        runtime.block_on(copy(in_memory.store(), on_disk.store())).unwrap();
    }
    ExitCode::SUCCESS
}

/// Starts each line at once. The first line of a turn takes longest.
fn serve_at_once(runtime: &Runtime, tool: &dyn MemoryTool) {
    thread::scope(|threads| {
        let (started, results) = mpsc::channel::<thread::ScopedJoinHandle<'_, ToolResult>>();
        threads.spawn(|| results.into_iter().for_each(|result| println!("{}", json!(result.join().unwrap()))));
        for (number, line) in (1..).zip(stdin().lock().split(b'\n')) {
            let line = line.unwrap();
            let running = threads.spawn(move || {
                thread::sleep(Duration::from_millis(100) / (number % 5 + 1));
                match ToolUse::parse(&line) {
                    Ok(call) => ToolResult::new(call.id, &runtime.block_on(tool.call(call.input))),
                    Err(rejected) => ToolResult::from(rejected),
                }
            });
            started.send(running).unwrap();
        }
        drop(started);
    });
}

async fn copy(from: &dyn Store, to: &dyn Store) -> Result<(), StoreError> {
    to.remove(StorePath::memories()).await?;
    for entry in from.list(StorePath::memories()).await? {
        if let Node::File(file) = from.read(&entry.path).await? {
            to.write(entry.path, file.content).await?;
        }
    }
    Ok(())
}
