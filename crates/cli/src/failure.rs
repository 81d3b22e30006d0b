//! [`Failure`], and printing errors for the operator.

use std::error::Error;
use std::io::{self, Write as _};
#[cfg(feature = "mcp")]
use std::net::SocketAddr;
use std::path::PathBuf;

use memory_tool::encrypted::KeyError;
use memory_tool::policies::ExpiryError;
use memory_tool::{BoxError, OpenError, OptionsError, Problem, StoreError, TransferError};
use memory_tool_bucket::UrlError;

#[cfg(feature = "chat")]
use crate::chat_error::ChatError;
use crate::escapes::on_one_line;

/// An error that ends the program without a result.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    /// The asynchronous runtime could not be built.
    #[error("cannot start")]
    Start(#[source] io::Error),
    /// The memory could not be opened. The error names it.
    #[error(transparent)]
    Store(OpenError),
    /// The credentials may only read the store.
    #[error("the credentials may not change the memory store {}; add --read-only to use it unchanged", .0.place())]
    ReadOnlyCredentials(#[source] OpenError),
    /// The options of a memory cannot be used.
    #[error(transparent)]
    Options(OptionsError),
    /// Invalid options for expiry.
    #[error(transparent)]
    Expiry(ExpiryError),
    /// Expired files could not be found or removed.
    #[error("cannot remove expired files")]
    Sweep(#[source] StoreError),
    /// The access times cannot be read, so no file can expire.
    #[error("cannot read the access times: {cause}; run the command once with --reset to count every file as used now")]
    AccessTimes {
        /// The cause.
        cause: String,
    },
    /// A file that an argument names could not be read.
    #[error("cannot read {}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// The conversation with Claude failed.
    #[cfg(feature = "chat")]
    #[error(transparent)]
    Chat(ChatError),
    /// The token of the MCP server cannot be used.
    #[cfg(feature = "mcp")]
    #[error("cannot use the token")]
    Token(#[source] io::Error),
    /// Other machines could reach the MCP server without a token.
    #[cfg(feature = "mcp")]
    #[error(
        "cannot listen on {address} without a token, because other machines could read and change the memory; \
         add --token-file or --token-env, or listen on 127.0.0.1"
    )]
    TokenRequired {
        /// The address.
        address: SocketAddr,
    },
    /// The MCP server could not listen.
    #[cfg(feature = "mcp")]
    #[error("cannot listen on {address}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// The cause.
        source: io::Error,
    },
    /// Standard input could not be read.
    #[error("cannot read standard input")]
    Input(#[source] io::Error),
    /// Standard output could not be written.
    #[error("cannot write standard output")]
    Output(#[source] io::Error),
    /// The objects of a run of the conformance suite could not be removed.
    #[error("cannot remove the objects of this run")]
    Removal(#[source] BoxError),
    /// The directory for the cases of the conformance suite could not be prepared.
    #[error("cannot test a store in {}", path.display())]
    Sandbox {
        /// The directory.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// The directory for the cases of the conformance suite is not empty: it may be a memory.
    #[error("cannot test a store in {}: the directory is not empty; name a new or empty one", path.display())]
    SandboxTaken {
        /// The directory.
        path: PathBuf,
    },
    /// The database for the cases exists, or a file next to it that SQLite would read as a part of it: it may be a
    /// memory.
    #[error("cannot test a store in {}: {} exists; name a new file", path.display(), taken.display())]
    DatabaseTaken {
        /// The database.
        path: PathBuf,
        /// The file that exists.
        taken: PathBuf,
    },
    /// A memory does not exist, and the command does not create one. The causes add nothing to the message.
    #[error("{0}")]
    NotFound(OpenError),
    /// The memories or scopes near the one that a command reads could not be listed.
    #[error("cannot look for other memories and scopes")]
    Listing(#[source] StoreError),
    /// A memory has no files, and there are others near it.
    #[error("there are no files in {url}, but {others} in {place}; name a memory, such as {example}")]
    NoSuchMemory {
        /// The URL of the empty memory.
        url: String,
        /// The number of the other memories.
        others: String,
        /// The database or prefix that holds them.
        place: String,
        /// The URL of another memory.
        example: String,
    },
    /// A command for persistent stores was given the temporary one.
    #[error("in-process: is temporary and always starts empty; name a persistent store")]
    TemporaryStore,
    /// Files could not be copied, exported or imported.
    #[error(transparent)]
    Transfer(TransferError),
    /// The target of an export exists.
    #[error(
        "cannot export to {}: it exists; name a new file or a new or empty directory, or add --overwrite",
        path.display()
    )]
    TargetExists {
        /// The directory or archive.
        path: PathBuf,
    },
    /// An archive would be read from a terminal.
    #[error("cannot read an archive from a terminal; redirect standard input, or name a file or a directory")]
    ArchiveFromTerminal,
    /// An archive would be written to a terminal.
    #[error("cannot write an archive to a terminal; redirect standard output, or name a file that ends in .tar")]
    ArchiveOnTerminal,
    /// The source of an import is an archive of an unsupported format.
    #[error(
        "cannot import {}: {format} is not supported; name a directory or a tar archive, plain or with gzip",
        path.display()
    )]
    SourceFormat {
        /// The source.
        path: PathBuf,
        /// The format.
        format: &'static str,
    },
    /// The source of an import is the directory of a store, which also holds internal files of the store.
    #[error(
        "cannot import {}: it is the directory of a store; use: memory-tool copy {} {destination}",
        path.display(),
        path.display()
    )]
    SourceIsStore {
        /// The source.
        path: PathBuf,
        /// The URL of the destination.
        destination: String,
    },
    /// A store could not be verified.
    #[error("cannot verify the store")]
    Verification(#[source] StoreError),
    /// The client of a bucket could not be created.
    #[error("cannot use {url}")]
    Bucket {
        /// The URL of the bucket and prefix.
        url: String,
        /// The cause.
        source: UrlError,
    },
    /// `gc` was given a store that is not in a bucket.
    #[error("nothing to collect: only stores in buckets accumulate unused objects")]
    NothingToCollect,
    /// Only buckets can be repaired.
    #[error("nothing to repair: only stores in buckets have a log that can be repaired")]
    NothingToRepair,
    /// Unused objects could not be removed.
    #[error("cannot remove unused objects")]
    Collection(#[source] StoreError),
    /// The store is encrypted, and no key was given.
    #[error("the store is encrypted; add --key-file, --key-env or --passphrase-file")]
    Encrypted,
    /// A command needs a key.
    #[error("no key; add --key-file, --key-env or --passphrase-file")]
    NoKey,
    /// A key could not be generated.
    #[error("cannot generate a key")]
    NewKey(#[source] KeyError),
    /// The file of a new key could not be written.
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
    /// A store could not be re-encrypted.
    #[error("cannot re-encrypt the store")]
    Rekeying(#[source] StoreError),
    /// A random name could not be generated.
    #[error("cannot generate a random name")]
    Randomness(#[source] getrandom::Error),
    /// The program under test could not be started.
    #[error("{0}")]
    Program(String),
    /// A filter matches no test case.
    #[error("no test case matches the filter {filter:?}; `memory-tool conformance --list` lists all cases")]
    NoCase {
        /// The filter.
        filter: String,
    },
    /// A file of the conformance suite could not be written.
    #[error("cannot write {}", path.display())]
    SuiteOutput {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// A file is not the JSON report of a run.
    #[error("{} is not a report of --format json", path.display())]
    NoReport {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: serde_json::Error,
    },
    /// No case failed in a report.
    #[error("no test case failed in {}", path.display())]
    NothingFailed {
        /// The report.
        path: PathBuf,
    },
    /// A list of known failures names a case that does not exist.
    #[error("{}: there is no test case {id:?}; `memory-tool conformance --list` lists all cases", path.display())]
    UnknownCase {
        /// The list.
        path: PathBuf,
        /// The id.
        id: String,
    },
    /// A signal ended the command.
    #[error("interrupted")]
    Interrupted {
        /// The exit status of the program.
        status: u8,
    },
    /// A list of cases was requested in a format for results only.
    #[error("--list supports only --format table and --format json")]
    ListFormat,
}

/// Writes an error with its causes as one line to standard error.
pub(crate) fn eprint_error(error: &dyn Error) {
    eprint_line(&on_one_line(&format!("memory-tool: {}", with_causes(error))));
}

/// The error with its causes, for the operator only.
pub(crate) fn with_causes(error: &dyn Error) -> String {
    let text = error.to_string();
    let has_causes = |source| text.ends_with(&Problem::of(source).message);
    if error.source().is_some_and(has_causes) { text } else { Problem::of(error).message }
}

/// Writes a line to standard error.
pub(crate) fn eprint_line(line: &str) {
    eprint_part(&format!("{line}\n"));
}

/// Writes a part of a line to standard error.
pub(crate) fn eprint_part(text: &str) {
    // An error of standard error cannot be reported; the exit status remains.
    let _ = io::stderr().write_all(text.as_bytes());
}

/// Writes the tool's error to standard error if it has causes, which its reply never contains (`[W5]`).
pub(crate) fn eprint_causes(error: &memory_tool::Error) {
    if error.source().is_some() {
        eprint_error(error);
    }
}
