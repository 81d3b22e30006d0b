//! Warnings of stores about background work and file systems, on standard error.

use std::io::{self, Write};

use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::{Layer as _, SubscriberExt as _};
use tracing_subscriber::util::SubscriberInitExt as _;

use crate::failure::eprint_line;
use crate::terminal::escapes::on_one_line;

/// Starts to print the warnings, unless a log was started, which contains them.
pub(crate) fn print_warnings() {
    let lines = tracing_subscriber::fmt::layer().without_time().with_level(false).with_target(false);
    let of_stores =
        ["memory_tool_bucket", "memory_tool_local", "memory_tool_sqlite"].map(|target| (target, LevelFilter::WARN));
    let warnings = lines.with_writer(|| StandardError).with_filter(Targets::from_iter(of_stores));
    drop(tracing_subscriber::registry().with(warnings).try_init());
}

/// Writes each event as one line, like the errors of the program.
struct StandardError;

impl Write for StandardError {
    fn write(&mut self, event: &[u8]) -> io::Result<usize> {
        let event_text = String::from_utf8_lossy(event);
        eprint_line(&on_one_line(&format!("memory-tool: {}", event_text.trim_end())));
        Ok(event.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
