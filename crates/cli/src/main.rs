//! `memory-tool`: Claude's memory tool as a program. Its documentation is in `README.md` and `pages`.

use std::process::ExitCode;

fn main() -> ExitCode {
    ExitCode::from(memory_tool_cli::run(std::env::args_os()))
}
