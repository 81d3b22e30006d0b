//! A recorded conversation, the customer-service one of the tool's documentation, answered from a store on this machine's disk.
//! Run it: `cargo run --example customer_service`
//!
//! The first run finds an empty memory, so it plays the day before, on which Claude is told what to remember. Run it again,
//! and Claude answers from what it remembers.

use std::error::Error;
use std::io::{Write, stdout};

use memory_tool::local::LocalStore;
use memory_tool::{Engine, MemoryTool, ToolResult, ToolUse};
use serde_json::{Value, json};

const DIRECTORY: &str = "customer-service-memory";
const DAY_BEFORE: &str = include_str!("day_before.json");
const TICKET: &str = include_str!("ticket.json");

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let tool = Engine::new(LocalStore::open(DIRECTORY).await?);
    let guidelines = json!({"command": "view", "path": "/memories/customer_service_guidelines.xml"});
    if tool.call(guidelines).await.is_err() {
        writeln!(stdout(), "=== The memory in ./{DIRECTORY} is empty: the day before\n")?;
        play(&tool, DAY_BEFORE).await?;
    }
    writeln!(stdout(), "=== A ticket, answered from the memory in ./{DIRECTORY}\n")?;
    play(&tool, TICKET).await
}

/// Prints the messages of a recorded conversation, and runs each call of the memory tool in them.
async fn play(tool: &dyn MemoryTool, recording: &str) -> Result<(), Box<dyn Error>> {
    let messages: Vec<Value> = serde_json::from_str(recording)?;
    for message in &messages {
        match &message["content"] {
            Value::Array(blocks) => {
                for block in blocks {
                    play_block(tool, block).await?;
                }
            }
            text => writeln!(stdout(), "User: {}\n", text.as_str().unwrap_or_default())?,
        }
    }
    Ok(())
}

async fn play_block(tool: &dyn MemoryTool, block: &Value) -> Result<(), Box<dyn Error>> {
    if let Some(text) = block["text"].as_str() {
        writeln!(stdout(), "Claude: {text}\n")?;
        return Ok(());
    }
    writeln!(stdout(), "Claude calls: {}", block["input"])?;
    let tool_use = ToolUse::from_value(block.clone())?;
    let outcome = tool.call(tool_use.input).await;
    let result = ToolResult::new(tool_use.id, &outcome);
    writeln!(stdout(), "tool_result: {}\n", serde_json::to_string(&result)?)?;
    Ok(())
}
