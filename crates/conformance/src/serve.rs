//! [`serve`]: the protocol of `memory-tool run`, for the programs that the suite starts.

use std::io::{self, BufRead, Write};

use memory_tool_core::{MemoryTool, ToolResult, ToolUse};
use serde_json::json;

/// Reads one JSON value per line from `input` and writes one `tool_result` block per line to `output`, until the input
/// ends.
///
/// It blocks the thread, so call it on the main thread, outside async tasks.
///
/// # Errors
/// If the input or output fails, or a runtime cannot be started.
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
