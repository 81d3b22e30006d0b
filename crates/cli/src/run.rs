//! `memory-tool run`: the tool over the standard input and output, one JSON value per line.

use std::io::{self, BufRead, Read as _, Write};

use memory_tool_core::{Engine, InputError, MemoryTool, OpenMode, RejectedToolUse, ToolResult, ToolUse};
use tokio::runtime::Runtime;

use crate::arguments::{MemoryArgument, OverwritesArgument, RunArguments, ViewCapArgument};
use crate::failure::{self, Failure, on_one_line, tell};
use crate::output::{Reader, to_json, write_line};

/// The longest line in bytes, without its line feed.
pub(crate) const MAX_LINE_BYTES: usize = 16 * 1024 * 1024;

/// Answers line after line until the input ends, or nobody reads the output any more.
pub(crate) fn run(arguments: &RunArguments) -> Result<(), Failure> {
    let runtime = start_runtime()?;
    let tool = runtime.block_on(open_or_create(arguments))?;
    serve(&runtime, &*tool, io::stdin().lock(), io::stdout().lock())
}

/// The tool over the memory. The operator reads if that is a new one: its name may be mistyped.
async fn open_or_create(arguments: &RunArguments) -> Result<Box<dyn MemoryTool>, Failure> {
    let RunArguments { overwrites, cap, memory } = arguments;
    match open_tool_in(OpenMode::Existing, memory, *overwrites, *cap).await {
        Err(Failure::NotFound { what }) => {
            let tool = open_tool(memory, *overwrites, *cap).await?;
            tell(&on_one_line(&format!("memory-tool: created the {what}")));
            Ok(tool)
        }
        opened => opened,
    }
}

/// The tool over the memory, with the options that were given. A memory that does not exist is created.
pub(crate) async fn open_tool(
    memory: &MemoryArgument,
    overwrites: OverwritesArgument,
    cap: ViewCapArgument,
) -> Result<Box<dyn MemoryTool>, Failure> {
    open_tool_in(OpenMode::Create, memory, overwrites, cap).await
}

/// The same, opened in this mode.
pub(crate) async fn open_tool_in(
    mode: OpenMode,
    memory: &MemoryArgument,
    overwrites: OverwritesArgument,
    cap: ViewCapArgument,
) -> Result<Box<dyn MemoryTool>, Failure> {
    let MemoryArgument { store, policies } = memory;
    let build = |store| {
        let builder = Engine::builder(store).create_overwrites(overwrites.create_overwrites);
        builder.max_view_characters(cap.max_view_chars.0).build()
    };
    policies.open_tool(&store.url, &store.encryption, mode, build).await
}

/// A runtime for one thing at a time, on this thread. The other thread looks after the connections to a bucket, which may be
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
    // Reading blocks, which no task may: so the loop stands outside the runtime and enters it for one call at a time.
    while let Some(line) = read_line(&mut input).map_err(Failure::Input)? {
        let result = runtime.block_on(answer(tool, line));
        if write_line(&mut output, to_json(&result)?)? == Reader::Gone {
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
                failure::tell_operator_causes(error);
            }
            ToolResult::new(call.id, &outcome)
        }
        Err(rejected) => rejected.into(),
    }
}

/// One line of the input, without its line feed. The last one may lack it.
#[derive(Debug, Eq, PartialEq)]
pub(crate) enum Line {
    Whole(Vec<u8>),
    /// Longer than [`MAX_LINE_BYTES`]; what it held is gone.
    TooLong,
}

/// The next line; `None` at the end of the input.
pub(crate) fn read_line(input: &mut impl BufRead) -> io::Result<Option<Line>> {
    let mut line = Vec::new();
    // One byte more than a line may have is room for its line feed.
    input.take(MAX_LINE_BYTES as u64 + 1).read_until(b'\n', &mut line)?;
    if line.is_empty() {
        return Ok(None);
    }
    if line.last() == Some(&b'\n') {
        line.pop();
    } else if line.len() > MAX_LINE_BYTES {
        drop(line);
        input.skip_until(b'\n')?;
        return Ok(Some(Line::TooLong));
    }
    Ok(Some(Line::Whole(line)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(input: &[u8]) -> Vec<Line> {
        let mut input = input;
        std::iter::from_fn(|| read_line(&mut input).unwrap()).collect()
    }

    fn whole(text: &str) -> Line {
        Line::Whole(text.into())
    }

    #[test]
    fn every_line_counts_also_an_empty_one_and_a_last_one_without_its_line_feed() {
        assert_eq!(lines(b""), []);
        assert_eq!(lines(b"\n"), [whole("")]);
        assert_eq!(lines(b"a\n\nb\r\n"), [whole("a"), whole(""), whole("b\r")]);
        assert_eq!(lines(b"a\nb"), [whole("a"), whole("b")]);
    }

    #[test]
    fn a_line_of_the_greatest_length_is_whole_and_one_byte_more_is_too_long() {
        let longest = vec![b'x'; MAX_LINE_BYTES];
        let longer = [&longest, b"x".as_slice()].concat();
        for end in ["", "\n"] {
            let found = lines(&[&longest, end.as_bytes()].concat());
            assert!(matches!(found.as_slice(), [Line::Whole(line)] if *line == longest), "{end:?}");
            assert_eq!(lines(&[&longer, end.as_bytes()].concat()), [Line::TooLong], "{end:?}");
        }
        assert_eq!(lines(&[&longer, b"\na".as_slice()].concat()), [Line::TooLong, whole("a")]);
    }
}
