//! [`serve`]: the protocol of `memory-tool run`, for the programs that the suite starts and kills.

use std::io::{self, BufRead, Write};

use memory_tool_core::{MemoryTool, ToolResult, ToolUse};
use serde_json::json;

/// Answers each line of `input`, one JSON value, with a line of `output`, one `tool_result` block, until the input ends.
///
/// It blocks between the lines, so call it outside of tasks, on the program's main thread.
///
/// # Errors
/// Where the input or output fails, or no runtime can be started.
pub fn serve(tool: &dyn MemoryTool, input: impl BufRead, mut output: impl Write) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    for line in input.split(b'\n') {
        let result = match ToolUse::parse(&line?) {
            Ok(call) => ToolResult::new(call.id, &runtime.block_on(tool.call(call.input))),
            Err(rejected) => rejected.into(),
        };
        writeln!(output, "{}", json!(result))?;
        output.flush()?;
    }
    Ok(())
}
