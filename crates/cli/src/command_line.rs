//! The command line, and its help.
//!
//! `-h` prints the first paragraph of a doc comment, in one line. `--help` prints all paragraphs.

#[cfg(test)]
mod documented;
pub mod pages;
mod usage_error;

use std::env;
use std::ffi::OsString;

use clap::{Command, FromArgMatches};

use crate::commands;
use crate::exit_status::ExitStatus;
use crate::failure::{Failure, eprint_error_of};
use crate::options::ACTOR_VARIABLE;

/// The name of the program.
pub(crate) const NAME: &str = "memory-tool";

/// Parses a command line and runs the program. Prints what is wrong, or the help. Returns the exit status.
pub fn run<A: FromArgMatches>(
    mut program: Command,
    arguments: impl IntoIterator<Item = OsString>,
    run: impl FnOnce(A) -> Result<ExitStatus, Failure>,
) -> u8 {
    let words: Vec<_> = arguments.into_iter().collect();
    let matches = program.try_get_matches_from_mut(&words);
    match matches.and_then(|mut matches| A::from_arg_matches_mut(&mut matches)).map(run) {
        Ok(Ok(status)) => status.code(),
        Ok(Err(failure)) => {
            eprint_error_of(program.get_name(), &failure);
            failure.exit_status()
        }
        Err(error) => {
            let error = usage_error::prepare(error, &mut program, &words);
            drop(error.print()); // a closed output is not an error
            u8::try_from(error.exit_code()).unwrap_or(1)
        }
    }
}

/// The definition of the command line. Arguments and pages of a command are added when clap needs them.
pub(crate) fn command() -> Command {
    let program = pages::with_page(Command::new(NAME), pages::PROGRAM).version(env!("CARGO_PKG_VERSION"));
    let program = program.max_term_width(100).subcommand_required(true).arg_required_else_help(true);
    let commands = commands::definitions().map(|command| {
        let purpose = pages::purpose(command.get_name());
        command.about(purpose)
    });
    program.subcommands(commands).mut_subcommand("str_replace", |command| command.visible_alias("str-replace"))
}

/// Completes a command that has its arguments.
pub(crate) fn complete(command: Command) -> Command {
    #[cfg(feature = "server")]
    let command = if command.get_name() == "serve" { commands::serve::configured_by_file(command) } else { command };
    let is_for_operators = commands::is_for_operators(command.get_name());
    pages::with_page_of_command(command).mut_args(|argument| {
        let is_of_store = matches!(argument.get_help_heading(), Some("Encryption" | "Policies"));
        let argument = argument.hide_short_help(is_of_store && !is_for_operators);
        let is_actor = argument.get_env() == Some(ACTOR_VARIABLE.as_ref());
        let is_unset = is_actor && env::var_os(ACTOR_VARIABLE).is_some_and(|name| name.is_empty());
        if is_unset { argument.env(None::<&str>) } else { argument }
    })
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;
    use std::time::Duration;

    use clap::error::ErrorKind;
    use clap::{Arg, Args as _};

    use super::*;
    use crate::commands::Action;
    use crate::options::encryption::{Encryption, SourceEncryption};
    use crate::options::policies::Policies;

    fn parse(words: impl IntoIterator<Item: Into<OsString> + Clone>) -> Result<Action, clap::Error> {
        Action::from_arg_matches_mut(&mut command().try_get_matches_from(words)?)
    }

    /// The subcommands after `build`.
    fn subcommands() -> Vec<Command> {
        let mut command = command();
        command.build();
        command.get_subcommands().filter(|command| command.get_name() != "help").cloned().collect()
    }

    #[test]
    fn an_alias_is_known_before_the_command_has_its_arguments() {
        assert_eq!(parse(["memory-tool", "str-replace", "--help"]).unwrap_err().kind(), ErrorKind::DisplayHelp);
    }

    #[test]
    fn the_interval_of_collections_is_an_option_of_the_store() {
        let parse = |given: &[&str]| {
            let words = ["memory-tool", "run", "--store", "in-process:"].into_iter().chain(given.iter().copied());
            let Action::RunArguments(arguments) = parse(words)? else { panic!("it is `run`") };
            Ok::<_, clap::Error>(arguments.options().gc_every)
        };
        assert_eq!(parse(&["--gc-every", "24h"]).unwrap(), Some(Duration::from_secs(24 * 60 * 60)));
        assert_eq!(parse(&[]).unwrap(), None);
        for given in ["0s", "59s", "soon"] {
            assert!(parse(&["--gc-every", given]).unwrap_err().to_string().contains("expected"), "{given}");
        }
    }

    fn ids(command: &Command) -> Vec<clap::Id> {
        command.get_arguments().map(|argument| argument.get_id().clone()).collect()
    }

    #[test]
    fn the_definition_is_valid() {
        command().debug_assert();
    }

    /// clap lists an argument under the last heading before it.
    #[test]
    fn every_argument_is_listed_under_the_heading_of_its_own_group() {
        let groups = [
            ("Encryption", ids(&Encryption::augment_args(Command::new("")))),
            ("Encryption of SRC", ids(&SourceEncryption::augment_args(Command::new("")))),
            ("Policies", ids(&Policies::augment_args(Command::new("")))),
            ("Store", vec!["store".into(), "timeout".into()]),
        ];
        for command in subcommands() {
            let own = ids(&command);
            // Some options of `expire` have the names of policies.
            let groups = groups.iter().filter(|(_, group)| group.iter().all(|id| own.contains(id)));
            for argument in command.get_arguments() {
                // `copy` and `sync` have a different `store`.
                let is_of_store = ["store", "timeout"].iter().any(|id| argument.get_id() == id);
                let is_own = is_of_store && ["copy", "sync"].contains(&command.get_name());
                let group = groups.clone().find(|(_, group)| !is_own && group.contains(argument.get_id()));
                let (expected, found) = (group.map(|(heading, _)| *heading), argument.get_help_heading());
                assert_eq!(found, expected, "{} {}", command.get_name(), argument.get_id());
            }
        }
    }

    #[test]
    fn the_environment_variable_applies_to_each_command_with_one_store() {
        for command in subcommands() {
            let store = command.get_arguments().find(|argument| argument.get_id() == "store");
            let variable = store.and_then(Arg::get_env);
            let expected = match command.get_name() {
                "completions" | "copy" | "healthcheck" | "keygen" | "man" | "proposal" | "sync" | "token" => None,
                _ => Some(OsStr::new("MEMORY_TOOL_STORE")),
            };
            assert_eq!(variable, expected, "{}", command.get_name());
            assert!(variable.is_none() || store.is_some_and(Arg::is_hide_env_values_set), "{}", command.get_name());
        }
    }

    #[test]
    fn the_old_path_comes_before_the_new_one() {
        let mut command = command();
        let rename = command.find_subcommand_mut("rename").unwrap();
        let help = rename.render_long_help().to_string();
        let (usage, arguments) = help.split_once("Arguments:").unwrap();
        for text in [usage, arguments.split_once("Options:").unwrap().0] {
            assert!(text.find("<OLD_PATH>").unwrap() < text.find("<NEW_PATH>").unwrap(), "{help}");
        }
    }

    #[test]
    fn each_example_is_a_valid_command_line() {
        let mut command = command();
        command.build();
        let root = command.clone();
        for command in command.get_subcommands().chain([&root]).filter(|command| command.get_name() != "help") {
            let help = command.get_after_help().expect("every command has examples").to_string();
            let examples = help.strip_prefix("Examples:\n").unwrap().replace("\\\n", " ");
            let mut of_this_command = 0;
            for words in examples.lines().flat_map(|line| line.split(" | ")).map(words) {
                if words[0] != NAME {
                    continue;
                }
                of_this_command += usize::from(command.get_name() == NAME || words[1] == command.get_name());
                if let Err(error) = parse(&words) {
                    assert_eq!(error.kind(), ErrorKind::DisplayHelp, "{words:?}: {error}");
                }
            }
            assert_ne!(of_this_command, 0, "{}", command.get_name());
        }
    }

    /// The words of a simple command, without its redirections.
    fn words(line: &str) -> Vec<String> {
        shlex::split(line.split(['<', '>']).next().unwrap()).unwrap()
    }
}
