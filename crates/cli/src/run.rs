//! `memory-tool run`: the tool over standard input and output, one JSON value per line.

use std::io::{self, BufRead, Write};

use memory_tool::{
    InputError, Memory, MemoryBuilder, MemoryTool, OpenMode, OpenOptions, RejectedToolUse, ToolResult, ToolUse,
};
use tokio::runtime::Runtime;

use crate::arguments::{MemoryArgument, OverwritesArgument, RunArguments, StoreArgument, ViewCapArgument};
use crate::commands::explain_wait;
use crate::escapes::on_one_line;
use crate::failure::{self, Failure, eprint_line};
use crate::memory::{Access, advise_read_only};
use crate::output::{ReaderState, to_json, write_line};
use crate::protocol::{Line, MAX_LINE_BYTES, read_line};

/// Serves lines until the input ends or the output is closed.
pub(crate) fn run(arguments: &RunArguments) -> Result<(), Failure> {
    let runtime = start_runtime()?;
    let memory = runtime.block_on(open_or_create(arguments))?;
    explain_wait("one JSON value per line");
    serve(&runtime, &*memory.tool(), io::stdin().lock(), io::stdout().lock())
}

/// Opens the memory. Reports a new one to the operator, because its name may be mistyped.
pub(crate) async fn open_or_create(arguments: &RunArguments) -> Result<Memory, Failure> {
    let RunArguments { overwrites, cap, existing, memory, .. } = arguments;
    let open = |mode| open_memory(arguments.options().mode(mode), memory, *overwrites, *cap);
    match open(OpenMode::Existing).await {
        Err(Failure::NotFound(error)) if !existing.must_exist => {
            let opened = open(OpenMode::Create).await?;
            eprint_line(&on_one_line(&format!("memory-tool: created the memory store {}", error.place())));
            Ok(opened)
        }
        opened => opened,
    }
}

/// Opens a memory with the options of its tool.
pub(crate) async fn open_memory(
    options: OpenOptions,
    memory: &MemoryArgument,
    OverwritesArgument { create_overwrites }: OverwritesArgument,
    cap: ViewCapArgument,
) -> Result<Memory, Failure> {
    let MemoryArgument { store, policies } = memory;
    let configure = |builder: MemoryBuilder| {
        builder.tool_options(move |engine| {
            let engine = engine.create_overwrites(create_overwrites);
            match cap.max_view_chars.0 {
                Some(characters) => engine.max_view_characters(characters),
                None => engine.unlimited_views(),
            }
        })
    };
    let StoreArgument { url, encryption, .. } = store;
    let opened = policies.open(url, encryption, Access::Mode(options.mode), options, configure).await;
    opened.map_err(advise_read_only)
}

/// A runtime for one task at a time, on this thread. A second thread serves the connections to a bucket, which may be
/// closed while this one waits for input.
pub(crate) fn start_runtime() -> Result<Runtime, Failure> {
    tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().map_err(Failure::Start)
}

fn serve(
    runtime: &Runtime,
    tool: &dyn MemoryTool,
    mut input: impl BufRead,
    mut output: impl Write,
) -> Result<(), Failure> {
    // Reading blocks, so the loop is outside the runtime and enters it for each call.
    while let Some(line) = read_line(&mut input).map_err(Failure::Input)? {
        let result = runtime.block_on(answer(tool, line));
        if write_line(&mut output, to_json(&io::stdout(), &result)?)? == ReaderState::Gone {
            break;
        }
    }
    Ok(())
}

async fn answer(tool: &dyn MemoryTool, line: Line) -> ToolResult {
    let call = match line {
        Line::Whole(json) => ToolUse::parse(&json),
        Line::TooLong => Err(RejectedToolUse::new(InputError::TooLong { limit: MAX_LINE_BYTES })),
    };
    match call {
        Ok(call) => {
            let outcome = tool.call(call.input).await;
            if let Err(error) = &outcome {
                failure::eprint_causes(error);
            }
            ToolResult::new(call.id, &outcome)
        }
        Err(rejected) => rejected.into(),
    }
}
