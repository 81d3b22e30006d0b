//! Whether what was recorded keeps the promise: `[X3]`, and of `[X2]` that what was acknowledged is there.

use std::collections::BTreeMap;

use memory_tool_core::MemoryPath;
use memory_tool_test_checker::check;

use crate::recording::{Call, Outcome, Recording};
use crate::workload::LOG;
use memory_tool_test_object_stores::reference::{Files, Reference};

/// Checks that all replies are those of one command after another.
///
/// # Errors
/// What cannot be explained.
pub(crate) fn check_order(recording: &Recording) -> Result<(), String> {
    let (calls, operations): (Vec<_>, Vec<_>) =
        recording.calls.iter().filter_map(|call| Some((call, call.operation()?))).unzip();
    check(&Reference::new(), recording.start.clone(), &operations).map_err(|error| {
        let stuck: Vec<_> = error.stuck.iter().map(|&operation| describe_call(calls[operation])).collect();
        format!("{error}:\n{}\nthe files are then\n{}", stuck.join("\n"), describe_files(&error.state))
    })
}

/// Checks that the file to which lines are added has each line that was acknowledged, once, and none that was said to have
/// failed.
///
/// # Errors
/// The line that is lost, or should not be there.
pub(crate) fn check_log(recording: &Recording) -> Result<(), String> {
    let mut found = BTreeMap::<&str, usize>::new();
    let log = &recording.end[&LOG.parse::<MemoryPath>().unwrap()];
    for line in std::str::from_utf8(log).unwrap().lines() {
        *found.entry(line).or_default() += 1;
    }
    for call in recording.calls.iter().filter(|call| call.command["path"] == LOG) {
        let Some(line) = call.command["insert_text"].as_str() else { continue };
        let times = found.remove(line).unwrap_or(0);
        let is_right = match call.outcome() {
            Outcome::Known => times == 1,
            Outcome::Unknown => times <= 1,
            Outcome::Failed => times == 0,
        };
        if !is_right {
            return Err(format!("there {times} times: {}", describe_call(call)));
        }
    }
    if found.is_empty() { Ok(()) } else { Err(format!("nobody inserted {found:?}")) }
}

fn describe_call(call: &Call) -> String {
    let Call { process, command, called, answered, reply } = call;
    format!("process {process}, {called:?} to {answered:?}: {} -> {}", cut(&command.to_string()), cut(reply))
}

fn describe_files(files: &Files) -> String {
    let describe = |(path, content): (&MemoryPath, &Vec<u8>)| {
        format!("{path} ({} bytes): {:?}", content.len(), cut(&String::from_utf8_lossy(content)))
    };
    files.iter().map(describe).collect::<Vec<_>>().join("\n")
}

/// The beginning of a text, which may be very long.
fn cut(text: &str) -> String {
    text.chars().take(400).collect()
}
