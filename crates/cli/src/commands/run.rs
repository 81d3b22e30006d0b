//! `memory-tool run`: the tool over standard input and output, one JSON value per line.

use std::io::{self, BufRead, Write};
use std::time::Duration;

use clap::Args;
use memory_tool::api::{RejectedToolUse, ToolResult, ToolUse};
use memory_tool::command::InputError;
use memory_tool::{MemoryOptions, MemoryTool};
use tokio::runtime::Runtime;

use crate::failure::{self, Context as _, Failure};
use crate::memory::open_or_create;
use crate::options::values::Age;
use crate::options::{ExistingArgument, MemoryArgument, OverwritesArgument, ViewCapArgument};
use crate::protocol::{Line, MAX_LINE_BYTES, read_line};
use crate::terminal::input::explain_wait;
use crate::terminal::interruption::start_runtime;
use crate::terminal::output::{ReaderState, to_json, write_line};

#[derive(Args, Debug)]
/// The arguments of `run`.
pub struct RunArguments {
    #[command(flatten)]
    pub(crate) overwrites: OverwritesArgument,

    #[command(flatten)]
    pub(crate) cap: ViewCapArgument,

    #[command(flatten)]
    pub(crate) existing: ExistingArgument,

    /// Collect the garbage of a bucket every INTERVAL
    ///
    /// INTERVAL is a whole number with a unit, such as 24h, and at least 1m. This needs the permissions of
    /// `memory-tool gc`. Other stores leave no garbage.
    #[arg(long, value_name = "INTERVAL", value_parser = interval)]
    pub(crate) gc_every: Option<Age>,

    #[command(flatten)]
    pub(crate) memory: MemoryArgument,
}

impl RunArguments {
    /// The options of the memory.
    pub(crate) fn options(&self) -> MemoryOptions {
        let mut options = self.memory.options();
        options.must_exist = self.existing.must_exist;
        options.gc_every = self.gc_every.map(|interval| interval.0);
        options.create_overwrites = self.overwrites.create_overwrites;
        options.max_view_characters = Some(self.cap.max_view_chars.0);
        options
    }
}

/// Parses the time between two collections.
fn interval(given: &str) -> Result<Age, &'static str> {
    let interval: Age = given.parse()?;
    if interval.0 < Duration::from_secs(60) { Err("expected 1m or more") } else { Ok(interval) }
}

/// Serves lines until the input ends or the output is closed.
pub fn run(arguments: &RunArguments) -> Result<(), Failure> {
    let runtime = start_runtime()?;
    let memory = runtime.block_on(open_or_create(&arguments.memory.store.url, &arguments.options()))?;
    explain_wait("one JSON value per line");
    serve(&runtime, &*memory.tool(), io::stdin().lock(), io::stdout().lock())
}

fn serve(
    runtime: &Runtime,
    tool: &dyn MemoryTool,
    mut input: impl BufRead,
    mut output: impl Write,
) -> Result<(), Failure> {
    // Reading blocks, so the loop is outside the runtime and enters it for each call.
    while let Some(line) = read_line(&mut input).context("cannot read standard input")? {
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
