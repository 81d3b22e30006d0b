//! Plays a recorded conversation with Claude on a real memory in plain files.
//! Run it: `cargo run -p customer-service`
//!
//! In the first run the memory is empty, so Claude writes down its rules and answers a ticket. In later runs the
//! customer writes back, and Claude answers from memory.

use std::io::{self, Write};

use anstyle::{AnsiColor, Style};
use memory_tool::api::ToolUse;
use memory_tool::{BoxError, Memory, MemoryTool, StoreError};
use serde_json::Value;

const DIRECTORY: &str = "customer-service-memory";
const DAY_BEFORE: (&str, &str) = ("The day before: Claude writes down the rules", include_str!("../day_before.json"));
const TICKET: (&str, &str) = ("A ticket: Claude follows the rules that it wrote down", include_str!("../ticket.json"));
const FOLLOW_UP: (&str, &str) = ("The same customer again: Claude remembers", include_str!("../follow_up.json"));

const NEXT_STEPS: &str = "
  # Claude answers from memory. Edit a file, and it reads your version.
  cargo run -p customer-service
  # Talk with Claude yourself. This needs an ANTHROPIC_API_KEY.
  cargo run -p examples --example chat -- customer-service-memory
  # Make Claude forget everything.
  rm -r customer-service-memory";

/// Longer values are truncated to this many lines.
const MAX_LINES: usize = 6;

const BOLD: Style = Style::new().bold();
const SPEAKER: Style = AnsiColor::BrightGreen.on_default().bold();
const COMMAND: Style = AnsiColor::BrightCyan.on_default();

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), BoxError> {
    let out = &mut anstream::stdout().lock(); // prints colors on terminals, unless NO_COLOR is set
    let memory = Memory::open(DIRECTORY).await?;
    let sessions = match memory.read_to_string("/memories/ticket_log.txt").await {
        Ok(log) if log.contains("4711") => vec![FOLLOW_UP],
        Ok(_) => vec![TICKET],
        Err(StoreError::NotFound { .. }) => vec![DAY_BEFORE, TICKET],
        Err(error) => return Err(error.into()),
    };
    writeln!(out, "Claude's side of this conversation is recorded. The memory is real.")?;
    for (title, recording) in sessions {
        writeln!(out, "\n{BOLD}{title}{BOLD:#}")?;
        for message in serde_json::from_str::<Vec<Value>>(recording)? {
            for block in message["content"].as_array().into_iter().flatten() {
                play(out, &memory.tool(), &message["role"], block).await?;
            }
        }
    }
    writeln!(out, "\n{BOLD}Claude's memory is in plain files{BOLD:#}\n")?;
    for file in memory.list("/memories").await? {
        writeln!(out, "  {DIRECTORY}{} ({} bytes)", file.path, file.size)?;
    }
    writeln!(out, "\n{BOLD}Try next{BOLD:#}\n{NEXT_STEPS}")?;
    Ok(())
}

/// Prints a block of a message. Runs calls of the memory tool, and prints their replies.
async fn play(out: &mut impl Write, tool: &dyn MemoryTool, role: &Value, block: &Value) -> Result<(), BoxError> {
    if let Some(text) = block["text"].as_str() {
        let speaker = if role == "user" { "User" } else { "Claude" };
        writeln!(out, "\n  {SPEAKER}{speaker}{SPEAKER:#}")?;
        return Ok(text.lines().try_for_each(|line| writeln!(out, "  {line}"))?);
    }
    let call = ToolUse::from_value(block.clone()).map_err(|rejected| rejected.error)?;
    print_command(out, &call.input)?;
    let reply = tool.call(call.input).await.map_or_else(|error| error.to_string(), |reply| reply.to_string());
    Ok(print_text(out, "    → ", &reply)?)
}

/// Prints the name, the path and the other arguments of a command.
fn print_command(out: &mut impl Write, input: &Value) -> io::Result<()> {
    let text = |name: &str| input[name].as_str().unwrap_or_default().to_owned();
    writeln!(out, "\n  {COMMAND}{} {}{COMMAND:#}", text("command"), text("path"))?;
    for (name, value) in input.as_object().into_iter().flatten() {
        match value.as_str() {
            _ if name == "command" || name == "path" => {}
            Some(text) => print_text(out, &format!("    {name}: "), text)?,
            None => writeln!(out, "    {name}: {value}")?,
        }
    }
    Ok(())
}

/// Prints the first lines of a value after a label.
fn print_text(out: &mut impl Write, label: &str, text: &str) -> io::Result<()> {
    let lines: Vec<_> = text.lines().collect();
    let (shown, rest) = lines.split_at(lines.len().min(MAX_LINES));
    let indent = " ".repeat(label.chars().count());
    for (index, line) in shown.iter().enumerate() {
        writeln!(out, "{}{line}", if index == 0 { label } else { &indent })?;
    }
    if rest.is_empty() { Ok(()) } else { writeln!(out, "{indent}… {} more lines", rest.len()) }
}
