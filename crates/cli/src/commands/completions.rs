//! `memory-tool completions`: prints a completion script for a shell. The scripts of bash, fish and zsh call this
//! command for the paths in a memory.

mod paths;
mod words;

use std::ffi::OsString;
use std::io;

use clap::{Args, ValueHint};
use clap_complete::Shell;

use crate::command_line::{self, NAME};
use crate::commands::completions::words::Words;
use crate::exit_status::ExitStatus;
use crate::failure::Failure;
use crate::terminal::output::write_text;

#[derive(Args, Debug)]
pub(crate) struct CompletionsArguments {
    /// The shell
    #[arg(value_enum)]
    pub(crate) shell: Shell,

    /// The command line to complete, from the script of the shell
    #[arg(last = true, hide = true)]
    pub(crate) words: Vec<OsString>,
}

/// Prints the script, or the paths that complete a command line.
pub(crate) fn run(arguments: &CompletionsArguments) -> Result<ExitStatus, Failure> {
    let shell = arguments.shell;
    let Some(completed) = (!arguments.words.is_empty()).then(|| Words::of(shell, &arguments.words)) else {
        return write_text(&mut io::stdout().lock(), script(shell).as_bytes()).map(|_| ExitStatus::Success);
    };
    let completed = completed.and_then(|words| Some((words.options_before_path()?, words)));
    let Some((options, words)) = completed else { return Ok(ExitStatus::Problem) };
    let paths = paths::complete(options, &words.current).unwrap_or_default();
    let lines: String = paths.iter().map(|path| format!("{}\n", words.inserted(path))).collect();
    write_text(&mut io::stdout().lock(), lines.as_bytes()).map(|_| ExitStatus::Success)
}

/// The script of clap with a function for paths. clap completes no values with the hint [`ValueHint::Other`].
fn script(shell: Shell) -> String {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut command_line::command(), NAME, &mut script);
    let script = String::from_utf8_lossy(&script).into_owned();
    match shell {
        Shell::Bash => {
            // clap_complete 4.6 gives a program with a hyphen in its name two names.
            script.replace("memory__subcmd__tool", "memory__tool") + include_str!("completions/paths.bash")
        }
        Shell::Fish => {
            let mut commands = command_line::command();
            commands.build();
            let with_paths = commands.get_subcommands().filter(|command| {
                command.get_positionals().any(|argument| argument.get_value_hint() == ValueHint::Other)
            });
            let names: Vec<_> = with_paths.flat_map(clap::Command::get_name_and_visible_aliases).collect();
            script + &include_str!("completions/paths.fish").replace("COMMANDS", &names.join(" "))
        }
        Shell::Zsh => {
            let head = "#compdef memory-tool\n";
            let start = "_memory-tool() {\n";
            script
                .replacen(head, &format!("{head}\n{}", include_str!("completions/paths.zsh")), 1)
                .replacen(
                    start,
                    &format!("{start}    local -a memory_tool_words=(\"${{(@)words[1,CURRENT-1]}}\" \"$PREFIX\")\n"),
                    1,
                )
                .replace(":' \\\n", ":_memory_tool_paths' \\\n")
        }
        _ => script,
    }
}
