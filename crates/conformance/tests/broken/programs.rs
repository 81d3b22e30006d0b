//! Programs that serve a memory as they should, but for one thing.

use std::io::{BufRead, stdin};
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use memory_tool_conformance::{CommandLine, Suite};
use memory_tool_core::{MemoryTool, ToolResult, ToolUse};
use serde_json::{Value, json};
use tokio::runtime::Runtime;

use super::{SERVE, disks};

/// The line that answers a line, of which the second says whether it held a command.
type Answer = fn(Value, bool) -> String;

const FAULTS: [(&str, Answer); 4] = [
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

pub(crate) fn all() -> Vec<(&'static str, Suite)> {
    FAULTS.into_iter().map(|(fault, _)| (fault, suite(fault).answer_timeout(Duration::from_secs(2)))).collect()
}

pub(crate) fn without_fault() -> Suite {
    suite("none")
}

fn suite(fault: &str) -> Suite {
    let program = std::env::current_exe().unwrap();
    let line = format!("'{}' {SERVE} {fault} {{dir}} {{options}}", program.display());
    Suite::for_command(CommandLine::parse(&line).unwrap().plain_files("{dir}/memories"))
}

/// Serves the memory in a directory with the fault of that name, be it the program's or the store's.
pub(crate) fn serve(fault: &str, directory: &Path, options: &[String]) -> ExitCode {
    let runtime = Runtime::new().unwrap();
    let tool = runtime.block_on(disks::tool(fault, directory, options));
    let plainly: Answer = |result, _| result.to_string();
    let answer = FAULTS.into_iter().find(|(name, _)| *name == fault).map_or(plainly, |(_, answer)| answer);
    for line in stdin().lock().split(b'\n') {
        let (result, is_command) = match ToolUse::parse(&line.unwrap()) {
            Ok(call) => (ToolResult::new(call.id, &runtime.block_on(tool.call(call.input))), true),
            Err(rejected) => (ToolResult::from(rejected), false),
        };
        println!("{}", answer(json!(result), is_command));
    }
    ExitCode::SUCCESS
}
