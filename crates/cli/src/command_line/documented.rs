//! The command lines in the project's pages are valid.

use std::collections::BTreeSet;

use clap::error::ErrorKind;
use memory_tool_test_fixtures::documented::calls_of;

use super::{NAME, command};

/// The reason why the program refuses a call, if it does.
fn refusal(words: &[String], has_store: bool) -> Option<(ErrorKind, String)> {
    let default = ["--store".to_owned(), "memory".to_owned()];
    let error = command().try_get_matches_from(words).err()?;
    if error.kind() == ErrorKind::MissingRequiredArgument && has_store {
        return refusal(&[words, &default].concat(), false);
    }
    let is_help = matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand);
    (!is_help).then(|| (error.kind(), error.to_string()))
}

#[test]
fn the_program_accepts_every_command_of_a_page() {
    let (mut checked, mut refused) = (BTreeSet::new(), Vec::new());
    for mut call in calls_of(NAME) {
        if call.is_in_sentence && call.page.ends_with("docs/encryption.md") {
            continue; // strings that are hashed start with the name of the program, too
        }
        // Sentences name commands and options without their values, and `COMMAND` for any command.
        let is_incomplete = |kind| matches!(kind, ErrorKind::MissingRequiredArgument | ErrorKind::InvalidValue);
        if call.is_in_sentence {
            call.words = call.words.into_iter().map(|word| word.replace("COMMAND", "run")).collect();
        }
        let error = refusal(&call.words, call.has_default_store);
        refused.extend(
            error.filter(|(kind, _)| !call.is_in_sentence || !is_incomplete(*kind)).map(|error| (call.page, error)),
        );
        checked.insert(call.words);
    }
    assert!(refused.is_empty(), "{refused:#?}");
    assert!(checked.len() > 100, "found only {checked:#?}");
}

#[test]
fn a_wrong_command_of_a_page_is_found() {
    let kind = |line: &str, has_store| {
        let words: Vec<_> = line.split(' ').map(str::to_owned).collect();
        refusal(&words, has_store).map(|(kind, _)| kind)
    };
    assert_eq!(kind("memory-tool run", false), Some(ErrorKind::MissingRequiredArgument));
    assert_eq!(kind("memory-tool run", true), None);
    assert_eq!(kind("memory-tool ls --stor x", false), Some(ErrorKind::UnknownArgument));
}
