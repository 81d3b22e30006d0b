//! [`Arguments`]: what the command line takes, and what `--help` says of it.
//!
//! clap puts every argument under the last heading that was set before it. So a subcommand's own arguments come first, and what it
//! flattens with a heading of its own comes last: [`StoreArgument`], [`MemoryArgument`], [`Encryption`], [`Policies`].
//!
//! The first paragraph of a doc comment is what `-h` prints, in one line. `--help` prints all of them.

mod help;
pub(crate) mod values;

use std::ffi::OsStr;
#[cfg(feature = "chat")]
use std::num::NonZeroU32;
use std::num::NonZeroUsize;
use std::path::PathBuf;

#[cfg(feature = "chat")]
use clap::builder::NonEmptyStringValueParser;
use clap::builder::{OsStringValueParser, StyledStr, TypedValueParser};
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::parser::ValueSource;
use clap::{Arg, ArgGroup, Args, Command, Parser, Subcommand, ValueHint};
use clap_complete::Shell;
use memory_tool::MemoryPath;
use memory_tool::StoreUrl;
use memory_tool::conformance::CommandLine;
use memory_tool::policies::Scope;

use crate::arguments::values::{
    Age, AnswerTimeout, DeclaredLack, ReportFormat, ViewCap, WritingArgument, directory_of_a_case,
    directory_of_an_origin,
};
use crate::encryption::{Encryption, SourceEncryption};
use crate::memory;
use crate::policies::Policies;
use crate::protocol::MAX_LINE_BYTES;

/// The name of the program.
pub(crate) const NAME: &str = "memory-tool";

/// The environment variable with the default of `--store`.
const STORE_VARIABLE: &str = "MEMORY_TOOL_STORE";

/// The option as clap prints it.
const STORE_OPTION: &str = "--store <URL>";

/// Claude's memory tool on your own storage
///
/// `run` serves the memory tool (`memory_20250818`) to an agent. `view`, `create`, `str_replace`, `insert`, `delete` and `rename` are
/// the tool's commands for people. The other commands manage stores.
#[derive(Debug, Parser)]
#[command(name = NAME, version, max_term_width = 100)]
#[command(after_help = help::PROGRAM.short(), after_long_help = help::PROGRAM.long())]
pub(crate) struct Arguments {
    /// What to do.
    #[command(subcommand)]
    pub(crate) action: Action,
}

impl Arguments {
    /// The arguments of this process. If they are wrong or ask for help, prints that and ends the process.
    pub(crate) fn of_this_process() -> Self {
        Self::try_parse().unwrap_or_else(|mut error| {
            if is_store_missing(&error) {
                let tip = StyledStr::from(format!("the environment variable {STORE_VARIABLE} sets a default"));
                error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip]));
            }
            error.exit()
        })
    }
}

fn is_store_missing(error: &clap::Error) -> bool {
    match error.get(ContextKind::InvalidArg) {
        Some(ContextValue::Strings(missing)) => missing.iter().any(|argument| argument == STORE_OPTION),
        _ => false,
    }
}

/// The subcommands.
#[derive(Debug, Subcommand)]
pub(crate) enum Action {
    /// Serve the memory tool to an agent over standard input and output
    ///
    /// Each line of the input is one JSON value: a `tool_use` block, or a bare command object such as
    /// {"command": "view", "path": "/memories"}.
    ///
    /// Every line, even an empty or malformed one, gets one line of output, in order and flushed at once: a `tool_result` block
    /// with the id of the `tool_use` block, or without an id for a bare command. Causes of storage failures go to the standard
    /// error, never into a result.
    ///
    /// A line may have up to 16 MiB. A longer one is skipped and gets an error.
    #[command(after_help = help::RUN.short(), after_long_help = help::RUN.long())]
    Run(RunArguments),
    /// Talk with Claude, which keeps its memory in the store
    ///
    /// Claude's answers go to the standard output. Everything else, such as a line for each memory command, goes to the standard
    /// error. On a terminal an answer is printed as it arrives. In a pipe or a file it is printed once it is complete, or given
    /// up, so no retry repeats a part of it. Without a terminal each line of the input is a message, and Ctrl-C between two
    /// messages ends the program.
    ///
    /// ANTHROPIC_API_KEY holds the API key. ANTHROPIC_BASE_URL is the address of another server that speaks the Messages API.
    /// What Claude reads of the memory goes to that server.
    #[cfg(feature = "chat")]
    #[command(after_help = help::CHAT.short(), after_long_help = help::CHAT.long())]
    Chat(ChatArguments),
    /// Test a program in any language, or a store, with the conformance suite
    ///
    /// A program speaks the protocol of `memory-tool run` over its standard input and output. Each case starts the program in the
    /// current directory and without a shell: spaces separate words, quotes and backslashes have their usual meaning. LINE, and
    /// the DIRECTORY of --plain-files, may contain the placeholders below.
    #[command(after_help = help::CONFORMANCE.short(), after_long_help = help::CONFORMANCE.long())]
    Conformance(ConformanceArguments),
    /// Check a store for missing or damaged files
    ///
    /// Every file is read and compared with the listing. A difference counts only if nobody changed the file at the same time, so
    /// other programs may use the store. For a sqlite: URL the whole database is checked, with all memories in it. Nothing is
    /// written, so a database or directory without write permission can be verified.
    ///
    /// The output has one line for each problem, and a summary as its last line.
    #[command(after_help = help::VERIFY.short(), after_long_help = help::VERIFY.long())]
    Verify(VerifyArguments),
    /// Remove unused objects from a bucket
    ///
    /// A memory in a bucket keeps contents in separate objects. When a file is deleted or changed, its old objects stay until
    /// they are collected. No object in use is removed, and others may use the memory at the same time. A young object may belong
    /// to a change in progress: if it is removed, that change has to start again.
    #[command(after_help = help::GC.short(), after_long_help = help::GC.long())]
    Gc(GcArguments),
    /// Remove expired files
    ///
    /// The memory itself records when each file was last read or written, as long as its users give --expire-after. A file
    /// without a record counts as used when this command first sees it. The command can be interrupted at any time.
    #[command(after_help = help::EXPIRE.short(), after_long_help = help::EXPIRE.long())]
    Expire(ExpireArguments),
    /// Generate a key for an encrypted store
    ///
    /// A key is 32 random bytes, written as 64 hexadecimal digits. Anyone with the key can read and change everything that is
    /// encrypted with it. Without the key, nobody can: keep a copy in a safe place away from the store.
    #[command(after_help = help::KEYGEN.short(), after_long_help = help::KEYGEN.long())]
    Keygen(KeygenArguments),
    /// Re-encrypt a store with a new key
    ///
    /// --key-file, --key-env or --passphrase-file gives the new key, and --old-key-file, --old-key-env or --old-passphrase-file
    /// the old one. The memory also gets the name of --memory-name. Others may use the store at the same time if they have both
    /// keys. The command can be interrupted at any time, and continues when it is run again. Damaged files are left untouched, so keep
    /// their old key.
    #[command(after_help = help::REKEY.short(), after_long_help = help::REKEY.long())]
    Rekey(RekeyArguments),
    /// Copy all files of one store to another
    ///
    /// Each file of SRC is written to DST, and read back to check it. A file that DST holds with the same bytes is left as it is.
    /// One with other bytes is reported and left as it is, unless --overwrite is given. Other files of DST stay. An interrupted
    /// copy continues when it is run again. At the end SRC is read again until others stop changing it.
    ///
    /// Policies and encryption options apply to DST; text that --screen redacts is compared as DST would store it. SRC is never
    /// written. DST, and everything mounted in it for writing, must not overlap SRC. Access times for --expire-after are not
    /// copied: in DST every file counts as used now.
    #[command(after_help = help::COPY.short(), after_long_help = help::COPY.long())]
    Copy(Box<CopyArguments>),
    /// Export all files of a store to a directory or a tar archive
    ///
    /// Each file of /memories becomes a plain file of the same name, byte for byte, that only its owner can read. Exported files
    /// are not encrypted, even if the store is. Links in TARGET are never followed. The same files give an archive of the same
    /// bytes. An archive gets its name only when it is complete.
    #[command(after_help = help::EXPORT.short(), after_long_help = help::EXPORT.long())]
    Export(ExportArguments),
    /// Import files into a store from a directory or a tar archive
    ///
    /// Each plain file becomes the file of the same name under /memories, byte for byte, by the same rules as in `copy`. These are
    /// reported and skipped: files with an invalid name such as ../x or /x, links, sparse files of an archive, special files, the
    /// second of two files of one name, and files larger than --skip-above.
    #[command(after_help = help::IMPORT.short(), after_long_help = help::IMPORT.long())]
    Import(Box<ImportArguments>),
    /// The commands for people.
    #[command(flatten)]
    Command(CommandArguments),
    /// Print a completion script for a shell
    #[command(after_help = help::COMPLETIONS.short(), after_long_help = help::COMPLETIONS.long())]
    Completions(CompletionsArguments),
    /// Print the man page, or write one page for each command
    #[command(after_help = help::MAN.short(), after_long_help = help::MAN.long())]
    Man(ManArguments),
}

/// The arguments of `run`.
#[derive(Args, Debug)]
pub(crate) struct RunArguments {
    #[command(flatten)]
    pub(crate) overwrites: OverwritesArgument,

    #[command(flatten)]
    pub(crate) cap: ViewCapArgument,

    #[command(flatten)]
    pub(crate) memory: MemoryArgument,
}

/// The arguments of `chat`.
#[cfg(feature = "chat")]
#[derive(Args, Debug)]
pub(crate) struct ChatArguments {
    #[command(flatten)]
    pub(crate) overwrites: OverwritesArgument,

    #[command(flatten)]
    pub(crate) cap: ViewCapArgument,

    /// The model [default: ANTHROPIC_MODEL, or claude-opus-5-5]
    #[arg(long, value_name = "NAME", value_parser = NonEmptyStringValueParser::new())]
    pub(crate) model: Option<String>,

    /// The system prompt
    #[arg(long, value_name = "TEXT", value_parser = NonEmptyStringValueParser::new())]
    pub(crate) system: Option<String>,

    /// Limit a response to N tokens, thinking included
    #[arg(long, value_name = "N", default_value = "32000")]
    pub(crate) max_tokens: NonZeroU32,

    /// Print each response once it is complete
    #[arg(long)]
    pub(crate) no_stream: bool,

    /// Print Claude's thinking on the standard error
    ///
    /// It is dimmed on a terminal. The API is asked for summaries of adaptive thinking, which models before Claude Opus 4.6 refuse.
    #[arg(long)]
    pub(crate) show_thinking: bool,

    /// Keep old tool results in a long conversation
    ///
    /// Without this option the API clears them when the conversation grows.
    #[arg(long)]
    pub(crate) no_context_editing: bool,

    /// Let the API summarize a conversation that fills the context window
    #[arg(long)]
    pub(crate) compact: bool,

    /// Retry a request up to N times
    ///
    /// A request is retried when the API is busy or cannot be reached.
    #[arg(long, value_name = "N", default_value_t = 6)]
    pub(crate) max_retries: u32,

    /// Limit the answer to a message to N responses
    ///
    /// Each response but the last contains memory commands.
    #[arg(long, value_name = "N", default_value = "100")]
    pub(crate) max_responses: NonZeroU32,

    #[command(flatten)]
    pub(crate) memory: MemoryArgument,
}

/// The arguments of `conformance`.
#[derive(Args, Debug)]
#[group(skip)]
#[command(group = ArgGroup::new("tested").args(["command_line", "store", "list"]).required(true).multiple(true))]
pub(crate) struct ConformanceArguments {
    /// Test the program that this command line starts
    #[arg(long = "command", value_name = "LINE", value_parser = CommandLine::parse, conflicts_with = "store")]
    pub(crate) command_line: Option<CommandLine>,

    /// Where the program keeps plain files, such as {dir}/memories
    ///
    /// DIRECTORY must hold each file of /memories as a plain file of the same name. Then links, special files and binary files
    /// are tested as well.
    #[arg(long, value_name = "DIRECTORY", value_parser = directory_of_a_case, requires = "command_line", conflicts_with = "store")]
    pub(crate) plain_files: Option<String>,

    /// Test temporary stores of this kind
    ///
    /// The stores are created in a directory that is new or empty, next to a database file that does not exist, or under a random
    /// prefix in a bucket, and removed at the end. MEMORY_TOOL_STORE is ignored.
    #[arg(long, value_name = "URL", value_parser = store_url_parser(), value_hint = ValueHint::AnyPath)]
    pub(crate) store: Option<StoreUrl>,

    /// List the cases instead of running them
    ///
    /// Each has an id, the clauses of the contract that it tests, an origin, needs, and a reason.
    #[arg(long)]
    pub(crate) list: bool,

    /// Run only cases that match TEXT; may be repeated
    ///
    /// TEXT is a part of an id, such as `view.`, or a clause of the contract, such as `V3`.
    #[arg(long = "filter", value_name = "TEXT")]
    pub(crate) filters: Vec<String>,

    /// Print a table, JSON, or JUnit XML
    #[arg(long, value_name = "table|json|junit", value_enum, default_value_t, hide_possible_values = true)]
    pub(crate) format: ReportFormat,

    /// Run N cases at a time [default: one for each processor]
    #[arg(long, value_name = "N")]
    pub(crate) jobs: Option<NonZeroUsize>,

    /// Limit the time for a reply to SECONDS
    #[arg(long, value_name = "SECONDS", default_value_t)]
    pub(crate) timeout: AnswerTimeout,

    /// Ignore cases that need NEED, and report REASON; may be repeated
    ///
    /// For example sessions='it locks its directory'. --list prints the needs.
    #[arg(long, value_name = "NEED=REASON")]
    pub(crate) lacks: Vec<DeclaredLack>,

    #[command(flatten)]
    pub(crate) encryption: Encryption,
}

/// The arguments of `verify`.
#[derive(Args, Debug)]
pub(crate) struct VerifyArguments {
    /// Print the report as JSON
    ///
    /// Its fields are files, bytes and problems.
    #[arg(long)]
    pub(crate) json: bool,

    #[command(flatten)]
    pub(crate) store: StoreArgument,
}

/// The arguments of `gc`.
#[derive(Args, Debug)]
pub(crate) struct GcArguments {
    /// Keep objects younger than AGE
    ///
    /// An AGE is a whole number with a unit, such as 90s, 15m, 24h or 7d.
    #[arg(long, value_name = "AGE", default_value_t)]
    pub(crate) older_than: Age,

    /// Print the report as JSON
    ///
    /// Its fields are removed_objects, removed_bytes and kept_objects.
    #[arg(long)]
    pub(crate) json: bool,

    #[command(flatten)]
    pub(crate) store: StoreArgument,
}

/// The arguments of `expire`.
#[derive(Args, Debug)]
pub(crate) struct ExpireArguments {
    /// Remove files that nobody has read or written for AGE
    ///
    /// Give the AGE that the users of the memory give, such as 24h or 90d.
    #[arg(long, value_name = "AGE")]
    pub(crate) expire_after: Age,

    /// Never remove this file or directory; may be repeated
    #[arg(long, value_name = "PATH")]
    pub(crate) pin: Vec<MemoryPath>,

    /// Work only in the part of the store that belongs to tenant NAME
    #[arg(long, value_name = "NAME", value_parser = Scope::from_trusted_name)]
    pub(crate) scope: Option<Scope>,

    /// List expired files without removing them
    #[arg(long)]
    pub(crate) dry_run: bool,

    /// Replace damaged access times: every file counts as used now
    ///
    /// No file is removed.
    #[arg(long, conflicts_with = "dry_run")]
    pub(crate) reset: bool,

    /// Print the report as JSON
    ///
    /// Its fields are removed, the paths, and kept, a number. With --dry-run the field is expired: path, size and last_access of
    /// each file.
    #[arg(long)]
    pub(crate) json: bool,

    #[command(flatten)]
    pub(crate) store: StoreArgument,
}

/// The arguments of `keygen`.
#[derive(Args, Debug)]
pub(crate) struct KeygenArguments {
    /// Write the key to FILE, which must not exist [default: standard output]
    ///
    /// Only the owner of FILE can read it.
    #[arg(long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
}

/// The arguments of `rekey`.
#[derive(Args, Debug)]
pub(crate) struct RekeyArguments {
    /// Print the report as JSON
    ///
    /// Its fields are rewritten, damaged, damaged_records, no_longer_needed and still_needed.
    #[arg(long)]
    pub(crate) json: bool,

    #[command(flatten)]
    pub(crate) store: StoreArgument,
}

/// The arguments of `copy`.
#[derive(Args, Debug)]
pub(crate) struct CopyArguments {
    /// The source: a directory, or a URL such as sqlite:memory.db
    ///
    /// `memory-tool --help` lists the kinds of stores. MEMORY_TOOL_STORE is ignored.
    #[arg(value_name = "SRC", value_parser = store_url_parser(), value_hint = ValueHint::AnyPath)]
    pub(crate) source: StoreUrl,

    /// The destination, in the same form
    #[arg(id = "store", value_name = "DST", value_parser = store_url_parser(), value_hint = ValueHint::AnyPath)]
    pub(crate) destination: StoreUrl,

    /// Copy only the part of SRC that belongs to tenant NAME
    #[arg(long, value_name = "NAME", value_parser = Scope::from_trusted_name)]
    pub(crate) source_scope: Option<Scope>,

    #[command(flatten)]
    pub(crate) writing: WritingArgument,

    /// Print the report as JSON
    ///
    /// Its fields are dry_run, copied, overwritten, bytes, already_there, redacted, conflicts, refused, unverified, besides,
    /// unreadable, gone and goes_on_changing.
    #[arg(long)]
    pub(crate) json: bool,

    #[command(flatten)]
    pub(crate) source_encryption: SourceEncryption,

    #[command(flatten)]
    pub(crate) encryption: Encryption,

    #[command(flatten)]
    pub(crate) policies: Policies,
}

/// The arguments of `export`.
#[derive(Args, Debug)]
pub(crate) struct ExportArguments {
    /// A directory, a .tar, .tar.gz or .tgz file, or - for standard output
    ///
    /// A directory must be new or empty unless --overwrite is given. A name that ends in .tar becomes a tar archive, and one that
    /// ends in .tar.gz or .tgz a tar archive compressed with gzip. With - a tar archive goes to the standard output, which must
    /// not be a terminal, and the report to the standard error.
    pub(crate) target: PathBuf,

    /// Export only the part of the store that belongs to tenant NAME
    #[arg(long, value_name = "NAME", value_parser = Scope::from_trusted_name)]
    pub(crate) scope: Option<Scope>,

    /// Overwrite existing files
    ///
    /// TARGET may be an existing archive, or a directory that is not empty.
    #[arg(long)]
    pub(crate) overwrite: bool,

    /// Print the report as JSON
    ///
    /// Its fields are exported, bytes, refused, unreadable, gone and kept.
    #[arg(long)]
    pub(crate) json: bool,

    #[command(flatten)]
    pub(crate) store: StoreArgument,
}

/// The arguments of `import`.
#[derive(Args, Debug)]
pub(crate) struct ImportArguments {
    /// A directory, a tar archive, or - for a tar archive on standard input
    ///
    /// An archive may be compressed with gzip, which is recognized by its content.
    pub(crate) source: PathBuf,

    /// Import only files under DIRECTORY of SOURCE
    #[arg(long, value_name = "DIRECTORY", value_parser = directory_of_an_origin)]
    pub(crate) beneath: Option<String>,

    /// Skip files larger than N bytes without reading them
    #[arg(long, value_name = "N", default_value_t = MAX_LINE_BYTES as u64)]
    pub(crate) skip_above: u64,

    #[command(flatten)]
    pub(crate) writing: WritingArgument,

    /// Print the report as JSON
    ///
    /// Its fields are dry_run, copied, overwritten, bytes, already_there, redacted, conflicts, refused, unverified, besides,
    /// left_out, also_left_out and broken_off.
    #[arg(long)]
    pub(crate) json: bool,

    #[command(flatten)]
    pub(crate) memory: MemoryArgument,
}

/// One of the tool's six commands, given by a person.
#[derive(Debug, Subcommand)]
pub(crate) enum CommandArguments {
    /// Print a directory two levels deep, or a file with line numbers
    #[command(after_help = help::VIEW.short(), after_long_help = help::VIEW.long())]
    View(ViewArguments),
    /// Create a file
    #[command(after_help = help::CREATE.short(), after_long_help = help::CREATE.long())]
    Create(CreateArguments),
    /// Replace a text that occurs exactly once in a file
    #[command(name = "str_replace", visible_alias = "str-replace")]
    #[command(after_help = help::STR_REPLACE.short(), after_long_help = help::STR_REPLACE.long())]
    StrReplace(StrReplaceArguments),
    /// Insert lines into a file
    #[command(after_help = help::INSERT.short(), after_long_help = help::INSERT.long())]
    Insert(InsertArguments),
    /// Delete a file, or a directory with everything in it
    #[command(after_help = help::DELETE.short(), after_long_help = help::DELETE.long())]
    Delete(DeleteArguments),
    /// Rename or move a file or directory
    #[command(after_help = help::RENAME.short(), after_long_help = help::RENAME.long())]
    Rename(RenameArguments),
}

/// The arguments of `view`.
#[derive(Args, Debug)]
pub(crate) struct ViewArguments {
    /// The file or directory to print
    #[arg(default_value = "/memories")]
    pub(crate) path: String,

    /// Print only these lines
    ///
    /// Lines of a file or a listing count from 1. A LAST of -1 means the last line.
    #[arg(long, num_args = 2, value_names = ["FIRST", "LAST"], allow_negative_numbers = true)]
    pub(crate) view_range: Option<Vec<i64>>,

    #[command(flatten)]
    pub(crate) cap: ViewCapArgument,

    #[command(flatten)]
    pub(crate) shared: SharedArguments,
}

/// The arguments of `create`.
#[derive(Args, Debug)]
pub(crate) struct CreateArguments {
    /// The file to create, under /memories
    pub(crate) path: String,

    /// The text of the file [default: read from standard input]
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true, conflicts_with = "file")]
    pub(crate) text: Option<String>,

    /// Read the text from this file, outside the memory
    #[arg(long, value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) overwrites: OverwritesArgument,

    #[command(flatten)]
    pub(crate) shared: SharedArguments,
}

/// The arguments of `str_replace`.
#[derive(Args, Debug)]
pub(crate) struct StrReplaceArguments {
    /// The file to edit
    pub(crate) path: String,

    /// The text to replace, taken literally
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    pub(crate) old_str: String,

    /// The replacement, taken literally [default: delete the text]
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    pub(crate) new_str: Option<String>,

    #[command(flatten)]
    pub(crate) shared: SharedArguments,
}

/// The arguments of `insert`.
#[derive(Args, Debug)]
pub(crate) struct InsertArguments {
    /// The file to edit
    pub(crate) path: String,

    /// Insert after line N; 0 inserts at the beginning
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub(crate) insert_line: i64,

    /// The text to insert [default: read from standard input]
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true, conflicts_with = "file")]
    pub(crate) insert_text: Option<String>,

    /// Read the text from this file, outside the memory
    #[arg(long, value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) shared: SharedArguments,
}

/// The arguments of `delete`.
#[derive(Args, Debug)]
pub(crate) struct DeleteArguments {
    /// The file or directory to delete
    pub(crate) path: String,

    #[command(flatten)]
    pub(crate) shared: SharedArguments,
}

/// The arguments of `rename`.
#[derive(Args, Debug)]
pub(crate) struct RenameArguments {
    /// The file or directory to rename
    pub(crate) old_path: String,

    /// The new path, which must not exist
    pub(crate) new_path: String,

    #[command(flatten)]
    pub(crate) shared: SharedArguments,
}

/// What every command for people takes.
#[derive(Args, Debug)]
pub(crate) struct SharedArguments {
    /// Print the reply or the error as JSON
    ///
    /// It is a `tool_result` block.
    #[arg(long)]
    pub(crate) json: bool,

    #[command(flatten)]
    pub(crate) memory: MemoryArgument,
}

/// Whether `create` overwrites (`[C2]`).
#[derive(Args, Clone, Copy, Debug, Default)]
pub(crate) struct OverwritesArgument {
    /// Let `create` overwrite an existing file
    #[arg(long)]
    pub(crate) create_overwrites: bool,
}

/// How much one `view` shows (`[V8]`).
#[derive(Args, Clone, Copy, Debug, Default)]
pub(crate) struct ViewCapArgument {
    /// Limit the output of one `view` to N characters
    #[arg(long, value_name = "N|none", default_value_t)]
    pub(crate) max_view_chars: ViewCap,
}

/// The arguments of `completions`.
#[derive(Args, Debug)]
pub(crate) struct CompletionsArguments {
    /// The shell
    #[arg(value_enum)]
    pub(crate) shell: Shell,
}

/// The arguments of `man`.
#[derive(Args, Debug)]
pub(crate) struct ManArguments {
    /// Write one page for each command into DIRECTORY
    ///
    /// DIRECTORY is created if it does not exist. Existing pages are overwritten.
    #[arg(long, value_name = "DIRECTORY")]
    pub(crate) directory: Option<PathBuf>,
}

/// The memory that the tool works on: a store, and the policies over it.
#[derive(Args, Debug)]
pub(crate) struct MemoryArgument {
    #[command(flatten)]
    pub(crate) store: StoreArgument,

    #[command(flatten)]
    pub(crate) policies: Policies,
}

/// The store that a subcommand works on.
#[derive(Args, Debug)]
#[command(next_help_heading = "Store")]
pub(crate) struct StoreArgument {
    /// A directory, or a URL such as sqlite:memory.db
    ///
    /// The URLs are file:PATH, sqlite:FILE?memory=NAME, s3://BUCKET/PREFIX, gs://BUCKET/PREFIX, az://CONTAINER/PREFIX and
    /// in-process:. `memory-tool --help` describes them.
    #[arg(id = "store", long, value_name = "URL", value_parser = StoreParser, value_hint = ValueHint::AnyPath)]
    #[arg(env = STORE_VARIABLE, hide_env_values = true)] // a URL may hold a secret
    pub(crate) url: StoreUrl,

    #[command(flatten)]
    pub(crate) encryption: Encryption,
}

fn store_url_parser() -> impl TypedValueParser<Value = StoreUrl> {
    OsStringValueParser::new().try_map(|given| memory::parse_url(&given))
}

/// Parses `--store`, whose value may come from [`STORE_VARIABLE`]. An empty variable counts as unset.
#[derive(Clone, Debug)]
struct StoreParser;

impl TypedValueParser for StoreParser {
    type Value = StoreUrl;

    fn parse_ref(&self, command: &Command, argument: Option<&Arg>, value: &OsStr) -> Result<StoreUrl, clap::Error> {
        store_url_parser().parse_ref(command, argument, value)
    }

    fn parse_ref_(
        &self,
        command: &Command,
        argument: Option<&Arg>,
        value: &OsStr,
        source: ValueSource,
    ) -> Result<StoreUrl, clap::Error> {
        if source != ValueSource::EnvVariable {
            return self.parse_ref(command, argument, value);
        }
        if value.is_empty() {
            return Err(store_not_provided(command));
        }
        self.parse_ref(command, argument, value).map_err(|mut error| {
            error.insert(ContextKind::InvalidArg, ContextValue::String(STORE_VARIABLE.to_owned()));
            error
        })
    }
}

/// What clap reports if a required `--store` is missing.
fn store_not_provided(command: &Command) -> clap::Error {
    let mut error = clap::Error::new(ErrorKind::MissingRequiredArgument).with_cmd(command);
    error.insert(ContextKind::InvalidArg, ContextValue::Strings(vec![STORE_OPTION.to_owned()]));
    error.insert(ContextKind::Usage, ContextValue::StyledStr(command.clone().render_usage()));
    error
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    /// The subcommands as they are after their help is complete.
    fn subcommands() -> Vec<Command> {
        let mut command = Arguments::command();
        command.build();
        command.get_subcommands().filter(|command| command.get_name() != "help").cloned().collect()
    }

    fn ids(command: &Command) -> Vec<clap::Id> {
        command.get_arguments().map(|argument| argument.get_id().clone()).collect()
    }

    #[test]
    fn the_definition_holds_together() {
        Arguments::command().debug_assert();
    }

    /// clap lists an argument under whatever heading was set before it.
    #[test]
    fn every_argument_is_listed_under_the_heading_of_its_own_group() {
        let groups = [
            ("Encryption", ids(&Encryption::augment_args(Command::new("")))),
            ("Encryption of SRC", ids(&SourceEncryption::augment_args(Command::new("")))),
            ("Policies", ids(&Policies::augment_args(Command::new("")))),
            ("Store", vec!["store".into()]),
        ];
        for command in subcommands() {
            let own = ids(&command);
            // `expire` has options of its own that are named as policies are.
            let groups = groups.iter().filter(|(_, group)| group.iter().all(|id| own.contains(id)));
            for argument in command.get_arguments() {
                // The kind of stores that `conformance` tests, and the destination of `copy`, are no default store.
                let is_own = argument.get_id() == "store" && ["conformance", "copy"].contains(&command.get_name());
                let group = groups.clone().find(|(_, group)| !is_own && group.contains(argument.get_id()));
                let (expected, found) = (group.map(|(heading, _)| *heading), argument.get_help_heading());
                assert_eq!(found, expected, "{} {}", command.get_name(), argument.get_id());
            }
        }
    }

    #[test]
    fn the_environment_names_the_store_of_each_command_that_has_a_default_store() {
        for command in subcommands() {
            let store = command.get_arguments().find(|argument| argument.get_id() == "store");
            let variable = store.and_then(Arg::get_env);
            let expected = match command.get_name() {
                "completions" | "conformance" | "copy" | "keygen" | "man" => None,
                _ => Some(OsStr::new("MEMORY_TOOL_STORE")),
            };
            assert_eq!(variable, expected, "{}", command.get_name());
            assert!(variable.is_none() || store.is_some_and(Arg::is_hide_env_values_set), "{}", command.get_name());
        }
    }

    #[test]
    fn the_old_path_comes_before_the_new_one() {
        let mut command = Arguments::command();
        let rename = command.find_subcommand_mut("rename").unwrap();
        let help = rename.render_long_help().to_string();
        let (usage, arguments) = help.split_once("Arguments:").unwrap();
        for text in [usage, arguments.split_once("Options:").unwrap().0] {
            assert!(text.find("<OLD_PATH>").unwrap() < text.find("<NEW_PATH>").unwrap(), "{help}");
        }
    }

    #[test]
    fn each_example_is_a_valid_command_line() {
        let mut command = Arguments::command();
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
                if let Err(error) = Arguments::try_parse_from(&words) {
                    assert_eq!(error.kind(), ErrorKind::DisplayHelp, "{words:?}: {error}");
                }
            }
            assert_ne!(of_this_command, 0, "{}", command.get_name());
        }
    }

    /// The words of a simple command, without its redirections.
    fn words(line: &str) -> Vec<String> {
        let line = line.split(['<', '>']).next().unwrap();
        let (mut words, mut quote, mut is_in_word) = (Vec::<String>::new(), None, false);
        for character in line.chars() {
            match quote {
                Some(open) if character == open => quote = None,
                None if character.is_whitespace() => is_in_word = false,
                _ => {
                    if !is_in_word {
                        words.push(String::new());
                        is_in_word = true;
                    }
                    if quote.is_none() && matches!(character, '"' | '\'') {
                        quote = Some(character);
                    } else {
                        words.last_mut().unwrap().push(character);
                    }
                }
            }
        }
        assert_eq!(quote, None, "{line}");
        words
    }
}
