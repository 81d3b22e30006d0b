//! [`Words`]: a command line up to the cursor.

use std::ffi::OsString;

use clap::{Arg, Args as _, Command, ValueHint};
use clap_complete::Shell;

use crate::command_line;
use crate::history::HistoryArgument;

/// The words of a command line.
pub(super) struct Words {
    /// The words before the cursor, from the name of the program on.
    before: Vec<String>,
    /// The word at the cursor, up to the cursor.
    pub(super) current: String,
    /// How bash replaces the word. The other shells do that themselves.
    in_bash: Option<InBash>,
}

struct InBash {
    /// The length of the start of the word that stays, such as `a:`.
    kept: usize,
    open_quote: &'static str,
}

impl Words {
    /// Bash gives the line and the part of the current word that it replaces. Others give the words. The current
    /// word may be quoted, and its quote open.
    pub(super) fn of(shell: Shell, given: &[OsString]) -> Option<Self> {
        let given: Option<Vec<_>> = given.iter().map(|word| word.to_str()).collect();
        match (shell, given?.as_slice()) {
            (Shell::Bash, [line, replaced]) => {
                let (mut before, open_quote) = split(line)?;
                let current = before.pop()?;
                let replaced = if current.ends_with(replaced) { (*replaced).to_owned() } else { unquoted(replaced)? };
                let kept = current.strip_suffix(&replaced).map_or(0, str::len);
                Some(Self { before, current, in_bash: Some(InBash { kept, open_quote }) })
            }
            (Shell::Bash, _) => None,
            (_, given) => {
                let (current, before) = given.split_last()?;
                // fish removes the quotes of complete words.
                let word = |word: &&str| if shell == Shell::Zsh { unquoted(word) } else { Some((*word).to_owned()) };
                let before = before.iter().map(word).collect::<Option<_>>()?;
                Some(Self { before, current: unquoted(current)?, in_bash: None })
            }
        }
    }

    /// The text that the shell inserts for a completed word.
    ///
    /// The quotes of bash itself are unsafe: after `$`, it inserts a name such as `$(rm)` unquoted.
    pub(super) fn inserted(&self, completed: &str) -> String {
        let Some(InBash { kept, open_quote }) = &self.in_bash else { return completed.to_owned() };
        let replaced = completed.strip_prefix(&self.current[..*kept]).unwrap_or(completed);
        if *open_quote == "'" {
            return replaced.replace('\'', "'\\''");
        }
        let is_plain = |character: char| match *open_quote {
            "\"" => !matches!(character, '"' | '$' | '`' | '\\'),
            _ => !character.is_ascii() || character.is_ascii_alphanumeric() || "/._-:=@%+,".contains(character),
        };
        let escaped = |character| (!is_plain(character)).then_some('\\').into_iter().chain([character]);
        replaced.chars().flat_map(escaped).collect()
    }

    /// The options of the store, if a path in the memory is expected at the cursor.
    pub(super) fn options_before_path(&self) -> Option<Vec<String>> {
        let mut program = command_line::command();
        program.build();
        let mut words = self.before.iter().skip(1);
        let command = program.find_subcommand(words.next()?)?;
        let of_store = HistoryArgument::augment_args(Command::new(""));
        let is_of_store = |option: &Arg| of_store.get_arguments().any(|known| known.get_id() == option.get_id());
        let (mut options, mut positionals, mut are_options_over) = (Vec::new(), 0, false);
        while let Some(word) = words.next() {
            if are_options_over || !word.starts_with('-') || word == "-" {
                positionals += 1;
            } else if word == "--" {
                are_options_over = true;
            } else if let Some((option, value)) = option(command, word) {
                let missing = if value.is_some() { 0 } else { values_of(option) };
                let values: Vec<_> =
                    value.into_iter().chain(words.by_ref().take(missing).map(String::as_str)).collect();
                if values.len() < missing {
                    return (option.get_value_hint() == ValueHint::Other).then_some(options);
                }
                if let (true, Some(name)) = (is_of_store(option), option.get_long()) {
                    let text = values.first().map_or_else(String::new, |value| format!("={value}"));
                    options.push(format!("--{name}{text}"));
                }
            }
        }
        if self.current.starts_with('-') && !are_options_over {
            return None;
        }
        let all: Vec<_> = command.get_positionals().collect();
        let repeated = || all.iter().find(|argument| is_repeated(argument));
        let positional = all.get(positionals).or_else(repeated)?;
        (positional.get_value_hint() == ValueHint::Other).then_some(options)
    }
}

/// The words of a line and the quote that is open at its end. The last word may be empty.
fn split(line: &str) -> Option<(Vec<String>, &'static str)> {
    // The mark shows whether the last word ended.
    let split = |quote| Some((shlex::split(&format!("{line}\u{1}{quote}"))?, quote));
    let (mut words, quote) = ["", "\"", "'"].into_iter().find_map(split)?;
    words.last_mut()?.pop();
    Some((words, quote))
}

fn unquoted(word: &str) -> Option<String> {
    split(word)?.0.pop()
}

/// The option that a word names, and the value in the word. Only the last of several short options has a value.
fn option<'a, 'b>(command: &'a Command, word: &'b str) -> Option<(&'a Arg, Option<&'b str>)> {
    if let Some(long) = word.strip_prefix("--") {
        let (name, value) = long.split_once('=').map_or((long, None), |(name, value)| (name, Some(value)));
        return command.get_arguments().find(|option| option.get_long() == Some(name)).map(|option| (option, value));
    }
    word.char_indices().skip(1).find_map(|(index, letter)| {
        let option = command.get_arguments().find(|option| option.get_short() == Some(letter))?;
        let rest = &word[index + letter.len_utf8()..];
        (values_of(option) > 0 || rest.is_empty()).then_some((option, Some(rest).filter(|rest| !rest.is_empty())))
    })
}

/// The number of words after an option, or for a positional argument.
fn values_of(argument: &Arg) -> usize {
    argument.get_num_args().map_or(0, |range| range.min_values())
}

fn is_repeated(argument: &Arg) -> bool {
    argument.get_num_args().is_some_and(|range| range.max_values() > 1)
}
