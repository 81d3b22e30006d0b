//! Programs that serve a memory, with one fault each.

use std::io::{BufRead, stdin};
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use memory_tool_conformance::{CommandLine, Suite};
use memory_tool_core::{
    Engine, InMemoryStore, MemoryPath, MemoryTool, Node, Store, StoreError, StoreExt, ToolResult, ToolUse,
};
use serde_json::{Value, json};
use tokio::runtime::Runtime;

use super::{SERVE, disks};

/// Returns the line to print for a result. The second argument tells whether the input was a command.
type Response = fn(Value, bool) -> String;

const FAULTS: [(&str, Response); 4] = [
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
    ("prints-a-traceback", |result, is_command| {
        if is_command { result.to_string() } else { "Traceback (most recent call last):".to_owned() }
    }),
];

/// The fault of a program that keeps everything in memory until it ends.
const SAVES_AT_EXIT: &str = "saves-at-exit";

pub(crate) fn all() -> Vec<(&'static str, Suite)> {
    let patient = |fault| suite(fault).answer_timeout(Duration::from_secs(5));
    let mut suites: Vec<_> = FAULTS.into_iter().map(|(fault, _)| (fault, patient(fault))).collect();
    // Without plain files, because not seeing the files of other programs is a different fault.
    suites.push((SAVES_AT_EXIT, Suite::for_command(command_line(SAVES_AT_EXIT))));
    suites
}

pub(crate) fn without_fault() -> Suite {
    suite("none")
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
    let in_memory = Engine::new(InMemoryStore::new());
    let saves_at_exit = fault == SAVES_AT_EXIT && options.is_empty();
    if saves_at_exit {
        runtime.block_on(copy(on_disk.store(), in_memory.store())).unwrap();
    }
    let tool: &dyn MemoryTool = if saves_at_exit { &in_memory } else { &on_disk };
    let unchanged: Response = |result, _| result.to_string();
    let response = FAULTS.into_iter().find(|(name, _)| *name == fault).map_or(unchanged, |(_, response)| response);
    for line in stdin().lock().split(b'\n') {
        let (result, is_command) = match ToolUse::parse(&line.unwrap()) {
            Ok(call) => (ToolResult::new(call.id, &runtime.block_on(tool.call(call.input))), true),
            Err(rejected) => (ToolResult::from(rejected), false),
        };
        println!("{}", response(json!(result), is_command));
    }
    if saves_at_exit {
        runtime.block_on(copy(in_memory.store(), on_disk.store())).unwrap();
    }
    ExitCode::SUCCESS
}

async fn copy(from: &dyn Store, to: &dyn Store) -> Result<(), StoreError> {
    to.remove(MemoryPath::root()).await?;
    for entry in from.list(MemoryPath::root()).await? {
        if let Node::File(file) = from.read(&entry.path).await? {
            to.write(entry.path, file.content).await?;
        }
    }
    Ok(())
}
