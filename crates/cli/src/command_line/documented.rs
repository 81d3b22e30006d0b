//! The command lines in the project's pages are valid.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use clap::error::ErrorKind;

use super::{NAME, command};
use crate::options::STORE_VARIABLE;

/// The pages with their texts.
fn pages() -> Vec<(PathBuf, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let directories = ["", "docs", "examples", "examples/*", "crates/*", "crates/cli/pages", "benches"];
    let mut found = Vec::new();
    for directory in directories {
        let parents = match directory.strip_suffix("/*") {
            Some(parent) => fs::read_dir(root.join(parent)).unwrap().map(|entry| entry.unwrap().path()).collect(),
            None => vec![root.join(directory)],
        };
        let entries = parents.iter().filter(|parent| parent.is_dir()).flat_map(|parent| fs::read_dir(parent).unwrap());
        let files = entries.map(|entry| entry.unwrap().path());
        let markdown = files.filter(|file| file.extension().is_some_and(|extension| extension == "md"));
        found.extend(markdown.map(|page| (page.clone(), fs::read_to_string(page).unwrap())));
    }
    found
}

/// The commands in the code blocks of a page for a shell. A line that ends with a backslash continues.
fn blocks(page: &str) -> Vec<String> {
    let mut commands = Vec::new();
    for block in page.split("\n```").skip(1).step_by(2) {
        let (language, code) = block.split_once('\n').unwrap_or_default();
        let code = code.replace("\\\n", " ");
        let lines = code.lines().map(str::to_owned);
        match language {
            "sh" => commands.extend(lines),
            "console" => commands.extend(lines.filter_map(|line| line.strip_prefix("$ ").map(str::to_owned))),
            _ => {}
        }
    }
    commands
}

/// The code between backticks in the sentences of a page.
fn inline_code(page: &str) -> Vec<String> {
    let sentences: Vec<_> = page.split("\n```").step_by(2).collect();
    sentences.join("\n").split('`').skip(1).step_by(2).map(|code| code.replace('\n', " ")).collect()
}

/// The words of each call of the program in a shell command, also as the argument of another program after `--`.
fn calls(line: &str) -> Vec<Vec<String>> {
    let words = shlex::split(line).unwrap_or_else(|| panic!("not a shell command: {line}"));
    let is_separator = |word: &String| ["|", "&&", "<", ">", "--"].contains(&word.as_str());
    let commands = words.split(is_separator).map(|words| {
        let variables = words.iter().take_while(|word| word.split_once('=').is_some()).count();
        words[variables..].to_vec()
    });
    commands.filter(|words| words.first().is_some_and(|word| word == NAME)).collect()
}

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
    let pages = pages();
    let (mut checked, mut refused) = (BTreeSet::new(), Vec::new());
    for (page, text) in &pages {
        let has_store = text.contains(STORE_VARIABLE);
        for words in blocks(text).iter().flat_map(|line| calls(line)) {
            let error = refusal(&words, has_store);
            refused.extend(error.map(|error| (page, words.clone(), error)));
            checked.insert(words);
        }
        if page.ends_with("docs/encryption.md") {
            continue; // strings that are hashed start with the name of the program, too
        }
        for words in inline_code(text).iter().filter(|code| code.starts_with(NAME)).flat_map(|code| calls(code)) {
            // Sentences name commands and options without their values, and `COMMAND` for any command.
            let is_incomplete = |kind| matches!(kind, ErrorKind::MissingRequiredArgument | ErrorKind::InvalidValue);
            let words: Vec<_> = words.into_iter().map(|word| word.replace("COMMAND", "run")).collect();
            let error = refusal(&words, has_store).filter(|(kind, _)| !is_incomplete(*kind));
            refused.extend(error.map(|error| (page, words.clone(), error)));
            checked.insert(words);
        }
    }
    assert!(refused.is_empty(), "{refused:#?}");
    assert!(checked.len() > 100, "found only {checked:#?}");
}

#[test]
fn a_wrong_command_of_a_page_is_found() {
    let page = "\n```console\n$ echo x | memory-tool run\nmemory-tool\n```\n\n\
                ```sh\nA=b memory-tool ls \\\n  --stor x && y memory-tool\n```\n";
    let found: Vec<_> = blocks(page).iter().flat_map(|line| calls(line)).collect();
    assert_eq!(found, [vec!["memory-tool", "run"], vec!["memory-tool", "ls", "--stor", "x"]]);
    let kinds: Vec<_> = found.iter().map(|words| refusal(words, false).unwrap().0).collect();
    assert_eq!(kinds, [ErrorKind::MissingRequiredArgument, ErrorKind::UnknownArgument]);
    assert!(refusal(&found[0], true).is_none());
    assert_eq!(inline_code("a `memory-tool\nrun` b\n```sh\n`x`\n```\n`c`"), ["memory-tool run", "c"]);
}
