//! The README's program: a memory that your program and Claude share.
//! Run it: `cargo run -p examples --example program`

#![allow(clippy::print_stdout, reason = "an example prints")]

use memory_tool::{Answer, Memory};
use serde_json::{Value, json};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let memory = Memory::open("./memory").await?; // or sqlite:memory.sqlite?memory=alice, s3://bucket/prefix
    memory.write("/memories/profile.md", "Prefers tea.").await?; // your program uses the same files

    let runner = memory.runner();
    println!("{}", json!([runner.tool().definition()])); // `tools` in your requests to the Messages API

    let response = json!({"role": "assistant", "stop_reason": "tool_use", "content": [
        {"type": "tool_use", "id": "toolu_1", "name": "memory",
         "input": {"command": "view", "path": "/memories/profile.md"}}]}); // a response from the API
    let others = |call: Value| async move { Ok(format!("{}: 12:30", call["name"]).into()) }; // your other tools
    match runner.answer_with(&response, others).await {
        Answer::ToolResults { message, .. } => println!("{message}"), // your next message
        other => println!("{other:?}"), // Claude is done, the response is incomplete, or the request failed
    }
    Ok(())
}
