//! Parses arbitrary bytes as a tool call.
#![no_main]

use libfuzzer_sys::fuzz_target;
use memory_tool_core::{Command, ToolUse};

fuzz_target!(|sent: &[u8]| {
    if let Ok(call) = ToolUse::parse(sent) {
        let _ = Command::parse(call.input);
    }
    if let Ok(input) = serde_json::from_slice(sent) {
        let _ = Command::parse(input);
    }
});
