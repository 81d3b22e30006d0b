//! An agent of rig with a memory: cargo run -- "I take my tea without milk."

use memory_tool::policies::default_quota;
use memory_tool::{BoxError, Memory, MemoryTool as _, ToolDefinition};
use rig_agent::prelude::*;
use rig_agent::tool::{ToolContext, ToolExecutionError};
use rig_core::providers::anthropic::Anthropic;
use serde_json::Value;

/// The tool for an agent. rig sends the schema of the commands, as it knows no tools that Anthropic defines.
struct MemoryTool(Memory);

impl Tool for MemoryTool {
    const NAME: &'static str = "memory";
    type Args = Value;
    type Output = String;
    type Error = ToolExecutionError;

    fn description(&self) -> String {
        ToolDefinition::description().to_owned()
    }

    fn parameters(&self) -> Value {
        ToolDefinition::input_schema()
    }

    async fn call(&self, _: &mut ToolContext, command: Value) -> Result<String, ToolExecutionError> {
        let reply = self.0.tool().call(command).await;
        reply.map(|reply| reply.to_string()).map_err(|error| ToolExecutionError::other(error.to_string()))
    }
}

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    let memory = Memory::builder("sqlite:memory.db?memory=alice").limits(default_quota()).build().await?;
    let model = Anthropic::from_env()?.completion("claude-opus-5-5");
    let agent = AgentBuilder::new(model).tool(MemoryTool(memory)).max_tokens(8192).default_max_turns(20).build();
    let prompt = std::env::args().nth(1).ok_or("usage: cargo run -- TEXT")?;
    println!("{}", agent.prompt(prompt).await?.output());
    Ok(())
}
