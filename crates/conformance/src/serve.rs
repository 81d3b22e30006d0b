//! [`serve`] and [`serve_store`]: the protocol of `memory-tool run`, for the programs that the suite starts.

use std::io::{self, BufRead, Write};

use memory_tool_core::{MemoryTool, Store, ToolResult, ToolUse};
use serde_json::json;

use crate::store_call::StoreCall;

/// Reads one JSON value per line from `input` and writes one `tool_result` block per line to `output`, until the input
/// ends.
///
/// It blocks the thread, so call it on the main thread, outside async tasks.
///
/// # Errors
/// If the input or output fails, or a runtime cannot be started.
pub fn serve(tool: &dyn MemoryTool, input: impl BufRead, output: impl Write) -> io::Result<()> {
    serve_lines(tool, None, input, output)
}

/// The same for a tool over a store. It also responds to the lines by which the suite applies a batch of several
/// changes to the store. With [`serve`], the cases in which a program is killed during a batch are ignored.
///
/// # Errors
/// The same.
pub fn serve_store(
    store: &dyn Store,
    tool: &dyn MemoryTool,
    input: impl BufRead,
    output: impl Write,
) -> io::Result<()> {
    serve_lines(tool, Some(store), input, output)
}

fn serve_lines(
    tool: &dyn MemoryTool,
    store: Option<&dyn Store>,
    input: impl BufRead,
    mut output: impl Write,
) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    for line in input.split(b'\n') {
        let result = runtime.block_on(respond(tool, store, &line?));
        writeln!(output, "{}", json!(result))?;
        output.flush()?;
    }
    Ok(())
}

/// The response to a line: a command, or a [`StoreCall`] if there is a store.
pub(crate) async fn respond(tool: &dyn MemoryTool, store: Option<&dyn Store>, line: &[u8]) -> ToolResult {
    if let Some(store) = store
        && let Ok(call) = serde_json::from_slice::<StoreCall>(line)
    {
        return ToolResult::new(None, &call.run(store).await);
    }
    match ToolUse::parse(line) {
        Ok(call) => ToolResult::new(call.id, &tool.call(call.input).await),
        Err(rejected) => rejected.into(),
    }
}
