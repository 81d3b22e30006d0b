//! The program of the README: `Memory::open` takes a path or a URL, and one `tool_use` block is answered. `tests/readme.rs` compares them.
//! Run it: `cargo run --example program`

#![allow(clippy::print_stdout, reason = "an example prints")]

use memory_tool::{Memory, ToolResult, ToolUse};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let memory = Memory::open("./memory").await?; // or sqlite:memory.sqlite?memory=alice, s3://bucket/prefix
    let tool = memory.tool();
    println!("{}", serde_json::to_string(&tool.definition())?); // goes into the request's `tools`

    let block = r#"{"type": "tool_use", "id": "toolu_1", "name": "memory",
                    "input": {"command": "view", "path": "/memories"}}"#; // comes from Claude
    let call = ToolUse::parse(block.as_bytes())?;
    let outcome = tool.call(call.input).await; // an error is an answer too
    println!("{}", serde_json::to_string(&ToolResult::new(call.id, &outcome))?); // goes back to Claude
    Ok(())
}
