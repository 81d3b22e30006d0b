//! [`Failure`]: why there is no answer; and how the operator reads of that, and of what the model must not read.

use std::error::Error;
use std::io::{self, Write as _};
use std::path::PathBuf;

use memory_tool::encrypted::{KeyError, KeySourceError};
use memory_tool::policies::{AuditError, ExpiryError};
use memory_tool::{BoxError, OpenError, StoreError, TransferError, is_unprintable};
use memory_tool_object_store::UrlError;

#[cfg(feature = "chat")]
use crate::chat_error::ChatError;

/// Why the program ends without an answer of the tool.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    /// The asynchronous runtime could not be built.
    #[error("cannot start")]
    Start(#[source] io::Error),
    /// The memory could not be opened. The error says which.
    #[error(transparent)]
    Store(OpenError),
    /// The audit log could not be opened.
    #[error("cannot keep the audit log")]
    AuditLog(#[source] AuditError),
    /// No file can expire by such rules.
    #[error(transparent)]
    Expiry(ExpiryError),
    /// Expired files could not be looked for or removed.
    #[error("cannot remove what is expired")]
    Sweep(#[source] StoreError),
    /// When files were last used cannot be read, so none is known to be expired.
    #[error(
        "cannot read the access times: {cause}; add --reset to start them again, so that every file counts as used now"
    )]
    AccessTimes {
        /// What is wrong with them.
        cause: String,
    },
    /// A file that was to give a text could not be read.
    #[error("cannot read {}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// The conversation with Claude cannot begin or go on.
    #[cfg(feature = "chat")]
    #[error(transparent)]
    Chat(ChatError),
    /// The standard input could not be read.
    #[error("cannot read the standard input")]
    Input(#[source] io::Error),
    /// The standard output could not be written.
    #[error("cannot write the standard output")]
    Output(#[source] io::Error),
    /// The objects of a run of the conformance suite could not be removed.
    #[error("cannot remove the objects of the run")]
    Removal(#[source] BoxError),
    /// The directory that the cases of the conformance suite were to work in could not be made ready.
    #[error("cannot test a store in {}", path.display())]
    Sandbox {
        /// The directory.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// The directory that the cases of the conformance suite were to work in holds something.
    #[error("cannot test a store in {}: it is not empty. Name a directory that is new or empty: this may be somebody's memory", path.display())]
    SandboxTaken {
        /// The directory.
        path: PathBuf,
    },
    /// The database that a test of a store was to make exists, or SQLite would take a file beside it for a part of it.
    #[error("cannot test a store in {}: {} exists. Name a file that does not: this may be somebody's memory", path.display(), taken.display())]
    DatabaseTaken {
        /// The database.
        path: PathBuf,
        /// What exists.
        taken: PathBuf,
    },
    /// A memory does not exist, and is not to be created. Its causes say no more.
    #[error("{0}")]
    NotFound(OpenError),
    /// A store that ends with this process was to be read from or kept.
    #[error("in-process: is temporary and always starts empty: name a persistent store")]
    TemporaryStore,
    /// Files could not be copied, exported or imported.
    #[error(transparent)]
    Transfer(TransferError),
    /// What files are exported to holds something.
    #[error("cannot export to {}: something is there. Name a directory that is new or empty or a file that does not exist, or add --overwrite", path.display())]
    TargetTaken {
        /// The directory or archive.
        path: PathBuf,
    },
    /// The standard output, which an archive was to go to, is a terminal.
    #[error(
        "cannot export an archive to a terminal: send the standard output to a file or a program, or name a file that ends in .tar"
    )]
    ArchiveOnTerminal,
    /// A source is an archive of a format that is not read.
    #[error("cannot import {}: {format} is not supported. Name a directory, a tar archive, or one that is compressed with gzip", path.display())]
    SourceFormat {
        /// The source.
        path: PathBuf,
        /// The format.
        format: &'static str,
    },
    /// A source is the directory of a store: besides the files of the memory, it holds those that the store needs.
    #[error("cannot import {}: it is the directory of a store. Copy it instead: memory-tool copy {} {destination}", path.display(), path.display())]
    SourceIsStore {
        /// The source.
        path: PathBuf,
        /// The URL of the store that its files were to be put into.
        destination: String,
    },
    /// Whether a store is whole could not be found out.
    #[error("cannot verify the store")]
    Verification(#[source] StoreError),
    /// No client of a bucket can be made.
    #[error("cannot use {url}")]
    Bucket {
        /// The bucket, and the prefix.
        url: String,
        /// The cause.
        source: UrlError,
    },
    /// A store keeps nothing that could be collected.
    #[error(
        "there is nothing to collect: only a store in a bucket keeps what no file refers to, and this one is on a disk"
    )]
    NothingToCollect,
    /// The objects that no file refers to could not be collected.
    #[error("cannot collect what no file refers to")]
    Collection(#[source] StoreError),
    /// The store is encrypted, and no key was given.
    #[error("the store is encrypted; a key is needed: --key-file, --key-env or --passphrase-file")]
    Encrypted,
    /// What cannot be done without a key was to be done without one.
    #[error("a key is needed: --key-file, --key-env or --passphrase-file")]
    NoKey,
    /// A key cannot be used.
    #[error("cannot use the key")]
    Key(#[source] KeySourceError),
    /// A key could not be made.
    #[error("cannot make a key")]
    NewKey(#[source] KeyError),
    /// The file that a key was to be written to could not be written.
    #[error("cannot write the key to {}", path.display())]
    KeyFile {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// A man page could not be written.
    #[error("cannot write {}", path.display())]
    ManPage {
        /// The page or its directory.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// A store could not be encrypted anew.
    #[error("cannot encrypt the store anew")]
    Rekeying(#[source] StoreError),
    /// No name can be made that nobody else has.
    #[error("cannot make a random name")]
    Randomness(#[source] getrandom::Error),
    /// The program that was to be tested cannot be started.
    #[error("{0}")]
    Program(String),
    /// A filter leaves nothing to do.
    #[error("no test case matches the filter {filter:?}: list all cases with `memory-tool conformance --list`")]
    NoCase {
        /// The filter.
        filter: String,
    },
    /// JUnit reports what was run.
    #[error("a list has no form as JUnit; choose `--format table` or `--format json`")]
    ListAsJunit,
}

/// Writes an error and all its causes on one line of the standard error.
pub(crate) fn eprint_error(error: &dyn Error) {
    eprint_line(&on_one_line(&format!("memory-tool: {}", with_causes(error))));
}

/// The error and all its causes, which only the operator may read. Some errors end with their cause already.
pub(crate) fn with_causes(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let told = error.to_string();
        if !text.ends_with(&told) {
            text.push_str(": ");
            text.push_str(&told);
        }
        cause = error.source();
    }
    text
}

/// Writes a line of the standard error.
pub(crate) fn eprint_line(line: &str) {
    eprint_part(&format!("{line}\n"));
}

/// Writes a part of a line of the standard error.
pub(crate) fn eprint_part(text: &str) {
    // Nobody is left to tell where the standard error itself fails; the exit status still does.
    let _ = io::stderr().write_all(text.as_bytes());
}

/// Writes the causes of the tool's error for the operator, where it has any that its reply does not tell (`[W5]`).
pub(crate) fn eprint_causes(error: &memory_tool::Error) {
    if error.source().is_some() {
        eprint_error(error);
    }
}

/// The text with its unprintable characters escaped: a name on the disk could forge lines of a log, or show as another.
pub(crate) fn on_one_line(text: &str) -> String {
    escape(text, is_unprintable)
}

/// The text with what [`commands_terminal`] escaped, except line feeds and tabs.
pub(crate) fn without_commands(text: &str) -> String {
    escape(text, |character| commands_terminal(character) && !matches!(character, '\n' | '\t'))
}

/// Whether a terminal obeys the character rather than showing it: a control character, or one with the Unicode property
/// Bidi_Control, which reorders the text around it.
pub(crate) fn commands_terminal(character: char) -> bool {
    let is_bidi_control = matches!(
        character,
        '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}'
    );
    character.is_control() || is_bidi_control
}

/// The text with these characters escaped.
pub(crate) fn escape(text: &str, is_meant: impl Fn(char) -> bool) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        if is_meant(character) {
            escaped.extend(character.escape_default());
        } else {
            escaped.push(character);
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cause_is_told_once() {
        #[derive(Debug, thiserror::Error)]
        #[error("{0}")]
        struct Chained(&'static str, #[source] Option<Box<Chained>>);
        let error = Chained("a", Some(Box::new(Chained("b: c", Some(Box::new(Chained("c", None)))))));
        assert_eq!(with_causes(&error), "a: b: c");
    }

    #[test]
    fn a_terminal_is_not_commanded() {
        assert_eq!(
            without_commands("a\tb\r\n\u{1b}]52;c;eA==\u{7}\u{9d}é\u{7f}"),
            "a\tb\\r\n\\u{1b}]52;c;eA==\\u{7}\\u{9d}é\\u{7f}"
        );
    }

    #[test]
    fn a_terminal_shows_a_text_in_its_order() {
        for control in
            "\u{61c}\u{200e}\u{200f}\u{202a}\u{202b}\u{202c}\u{202d}\u{202e}\u{2066}\u{2067}\u{2068}\u{2069}".chars()
        {
            assert_eq!(without_commands(&format!("a{control}b")), format!("a{}b", control.escape_default()));
        }
        let emoji = "👩\u{200d}🚀 ❤\u{fe0f} שלום";
        assert_eq!(without_commands(emoji), emoji);
    }

    #[test]
    fn a_line_feed_cannot_forge_a_line() {
        assert_eq!(on_one_line("a\nb\u{1b}[2Jc\u{9b}é"), "a\\nb\\u{1b}[2Jc\\u{9b}é");
    }

    #[test]
    fn a_name_cannot_show_as_another() {
        assert_eq!(on_one_line("a\u{202e}txt\u{200b}\u{2028}é"), "a\\u{202e}txt\\u{200b}\\u{2028}é");
    }
}
