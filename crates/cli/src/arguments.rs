//! [`Arguments`]: what the command line takes, and what `--help` says of it.
//!
//! clap puts every argument under the last heading that was set before it. So a subcommand's own arguments come first, and what it
//! flattens with a heading of its own comes last: [`StoreArgument`], [`MemoryArgument`], [`Encryption`], [`Policies`].

pub(crate) mod values;

#[cfg(feature = "chat")]
use std::num::NonZeroU32;
use std::num::NonZeroUsize;
use std::path::PathBuf;

#[cfg(feature = "chat")]
use clap::builder::NonEmptyStringValueParser;
use clap::builder::{OsStringValueParser, TypedValueParser, ValueParser};
use clap::{ArgGroup, Args, Parser, Subcommand};
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

const STORES_AND_EXIT_STATUSES: &str = "\
Stores:
  memory, file:memory             a directory on this machine
  sqlite:memory.db?memory=NAME    one of the memories in a SQLite database
  s3://bucket/prefix              a bucket of Amazon S3, or of what speaks it
  gs://bucket/prefix              a bucket of Google Cloud Storage
  az://container/prefix           a container of Azure Blob Storage
  in-process:                     a new, temporary memory in this process, to try `run`

run, chat, create, copy and import create a store that does not exist. All other commands, and these with --read-only, report it \
and create nothing.

Credentials, region and endpoint of a bucket come from the environment variables that the tools of its cloud have: AWS_*, \
GOOGLE_*, AZURE_*. For MinIO, R2, SeaweedFS and others that speak S3, AWS_ENDPOINT_URL is their address, and \
AWS_ALLOW_HTTP=true allows one that begins with http:.

Exit status:
  0  done; for `run`: the input ended, or nobody reads the output any more
  1  the tool answered with an error; for `conformance`: a case failed; for `verify`: a problem was found
  2  no answer: wrong usage, a store that cannot be opened, or input or output that failed";

// One line a paragraph: clap wraps them to the width of the terminal.
const RUN_PROTOCOL: &str = "\
Each line of the input is one JSON value: a `tool_use` block, or a bare command object such as \
{\"command\": \"view\", \"path\": \"/memories\"}.

Every line, even an empty or malformed one, gets one line of output, in order and flushed at once: a `tool_result` block \
with the id of the `tool_use` block, or without one for a bare command. Causes of failures in the storage go to the \
standard error, never into a result.

A line may have up to 16 MiB; a longer one is skipped and answered with an error.";

const CONFORMANCE_PROTOCOL: &str = "\
A program speaks the protocol of `memory-tool run` over its standard input and output. Each case starts the program in the \
current directory and without a shell: spaces separate words, quotes and backslashes have their usual meaning. The command \
line may contain

  {dir}      the directory of the memory, empty at the start and used by this case only
  {options}  the options of the case, each as a separate word

The options are `--create-overwrites`, `--max-view-chars N` and `--max-view-chars none`; most cases have no option. Without \
{options}, cases with options are ignored. Cases that need something unavailable are ignored too; the report gives the reason. \
A program that hangs, dies, or replies with something other than a `tool_result` block fails these cases only.

Examples:
  memory-tool conformance --command 'python3 my_driver.py {dir}'
  memory-tool conformance --command './driver {dir} {options}' --filter view.
  memory-tool conformance --store ./new --format junit > report.xml
  memory-tool conformance --store sqlite:./new.db
  memory-tool conformance --store s3://bucket/prefix

Exit status:
  0  no case failed, and one or more passed
  1  a case failed, or every case was ignored
  2  no report: wrong usage, a program that cannot be started, or a suite that cannot run
  130  interrupted by Ctrl-C; another signal that ends the run gives 128 and its number";

const VERIFY_FINDINGS: &str = "\
Every file is read and compared with the listing. A difference counts only if nobody changed the file at the same time, so other \
programs may use the store. For a sqlite: URL the whole database is checked as well, with all the memories in it. Nothing is \
written: a database or a directory that cannot be written can be verified.

Each problem has a line of the output, and the last line is a summary.

Exit status:
  0  no problem was found
  1  a problem was found
  2  no answer: wrong usage, or a store that does not exist or cannot be opened";

const BUCKETS: &str = "\
A memory in a bucket keeps contents in objects of their own. Those of a file that was deleted or changed stay until they are \
collected. Nothing that a file refers to is removed, and others may use the memory meanwhile. The younger an object is, the \
likelier it belongs to a change that is not done: that change would then have to begin anew.

Exit status:
  0  what no file refers to is removed, if there was any
  2  no answer: wrong usage, a store that is in no bucket, one that cannot be opened, or a bucket that failed";

const KEYS: &str = "\
A key is 32 random bytes, written as 64 hexadecimal digits. Who has it can read and change all that was encrypted with it; without \
it, nobody can: keep a copy in a safe place that is not beside the store.

Example:
  memory-tool keygen --output memory.key
  memory-tool run --store ./memory --key-file memory.key

Exit status:
  0  the key is written
  2  it is not: the file exists, or writing failed";

const EXPIRY: &str = "\
When a file was last read or written is kept in the memory itself, by those who use it with --expire-after. What is older than that \
begins to count when it is first seen, here at the latest. It can be interrupted at any instant.

Examples:
  memory-tool expire --store ./memory --expire-after 90d --dry-run
  memory-tool expire --store sqlite:users.db --scope alice --expire-after 90d --pin /memories/profile.md

Exit status:
  0  what is expired is removed, if there was any
  2  it is not: wrong usage, no store there, or a store that failed";

const ROTATION: &str = "\
The key that is to be used from now on is --key-file, --key-env or --passphrase-file; the one before is --old-key-file, \
--old-key-env or --old-passphrase-file. It also gives the memory the name of --memory-name. Others may use the store meanwhile \
if they have both keys. It can be interrupted at any instant, and goes on where it was when it is run again. Each file that is \
damaged stays as it is.

Example:
  memory-tool keygen --output new.key
  memory-tool rekey --store ./memory --key-file new.key --old-key-file memory.key

Exit status:
  0  all is encrypted with the key
  1  some is not: a file is damaged, or others go on writing with an old key
  2  no answer: wrong usage, a store that cannot be opened or is not encrypted, or input or output that failed";

const COPYING: &str = "\
Each file is read from SRC, where no file is changed, written into DST where nothing is yet, and read back. What is there already \
with the same bytes is left; what is there with others is told and left, too, unless --overwrite is given. So a copy that was \
interrupted goes on where it was when it is run again. In the end SRC is gone through anew, as long as others change it. What DST \
holds besides stays. A text that --screen redacts is compared as DST would keep it.

Policies and the options of encryption are those of DST. Nothing is written to SRC, nor to DST with --dry-run; what only the storage \
of DST refuses does not show there.

DST, and what is mounted in it to be changed, must have nothing in common with SRC. When files were last used, as --expire-after \
keeps it, stays behind: in DST they begin to count anew.

Examples:
  memory-tool copy ./memory sqlite:memory.db
  memory-tool copy ./memory s3://bucket/prefix --key-file memory.key
  memory-tool copy sqlite:old.db?memory=alice sqlite:all.db --scope alice --screen redact

Exit status:
  0  DST holds all files of SRC
  1  not all: a file stands in the way, is refused or cannot be read, or SRC goes on changing or holds no file
  2  no answer: wrong usage, no store SRC, a store that cannot be opened or that fails";

const EXPORTING: &str = "\
TARGET is a directory, which must be new or empty unless --overwrite is given; or a tar archive, if its name ends in .tar, or in \
.tar.gz or .tgz for one that is compressed with gzip; or - for a tar archive on the standard output, which must be no terminal, \
with the report on the standard error. Each file of /memories becomes a plain file \
of the same name, byte for byte, that its owner alone can read. Links in TARGET are never followed. An archive of the same files has \
the same bytes, and has its name only when it is whole. What is exported is not encrypted, whatever the store is.

Examples:
  memory-tool export --store ./memory backup.tar.gz
  memory-tool export --store s3://bucket/prefix --key-file memory.key - | zstd > backup.tar.zst

Exit status:
  0  all files are exported
  1  not all: the target cannot hold one, or one cannot be read, in which case an archive that is there stays; or no file is there to \
replace an archive
  2  no export: wrong usage, no store there, a store that cannot be opened or fails, or a target that cannot be written
  130  interrupted by Ctrl-C; 143 by SIGTERM";

const IMPORTING: &str = "\
SOURCE is a directory, or a tar archive, plain or compressed with gzip, or - for such an archive on the standard input. Each plain file \
becomes the file of the same name beneath /memories, byte for byte, by the same rules as in `copy`. What has no legal name, such as ../x or \
/x, is told and left out; so are links, sparse files of an archive and whatever else is no plain file, of two files of one name the \
second, and files of more bytes than --skip-above.

Examples:
  memory-tool import --store ./memory backup.tar.gz
  memory-tool import --store sqlite:memory.db --screen redact ./notes
  zstd -dc backup.tar.zst | memory-tool import --store ./memory -
  tar -c ./old-store | memory-tool import --store ./memory --beneath old-store/memories -

Exit status:
  0  all files are imported
  1  not all: a file stands in the way, is refused or left out, or the archive is damaged or cut off
  2  no answer: wrong usage, no SOURCE or nothing under --beneath in it, or a store that cannot be opened or that fails";

/// Claude's memory tool on your own storage
#[derive(Debug, Parser)]
#[command(name = "memory-tool", version, after_help = STORES_AND_EXIT_STATUSES, max_term_width = 120)]
pub(crate) struct Arguments {
    /// What to do.
    #[command(subcommand)]
    pub(crate) action: Action,
}

/// The subcommands.
#[derive(Debug, Subcommand)]
pub(crate) enum Action {
    /// Answer commands, one JSON value per line, until the input ends
    #[command(after_help = RUN_PROTOCOL)]
    Run(RunArguments),
    /// Talk with Claude, which keeps what it remembers in the store
    #[cfg(feature = "chat")]
    #[command(after_help = crate::chat::help::of_the_program())]
    Chat(ChatArguments),
    /// Test a program in any language, or a store, with the conformance suite
    #[command(after_help = CONFORMANCE_PROTOCOL)]
    Conformance(ConformanceArguments),
    /// Check a store for missing or damaged files
    #[command(after_help = VERIFY_FINDINGS)]
    Verify(VerifyArguments),
    /// Remove unused objects from a bucket
    #[command(after_help = BUCKETS)]
    Gc(GcArguments),
    /// Remove expired files
    #[command(after_help = EXPIRY)]
    Expire(ExpireArguments),
    /// Generate a key for an encrypted store
    #[command(after_help = KEYS)]
    Keygen(KeygenArguments),
    /// Re-encrypt a store with a new key
    #[command(after_help = ROTATION)]
    Rekey(RekeyArguments),
    /// Copy all files of one store to another
    #[command(after_help = COPYING)]
    Copy(Box<CopyArguments>),
    /// Export all files of a store to a directory or a tar archive
    #[command(after_help = EXPORTING)]
    Export(ExportArguments),
    /// Import files into a store from a directory or a tar archive
    #[command(after_help = IMPORTING)]
    Import(Box<ImportArguments>),
    /// The commands for people.
    #[command(flatten)]
    Command(CommandArguments),
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

    /// Talk with this model [default: that of ANTHROPIC_MODEL, or claude-opus-5-5]
    #[arg(long, value_name = "NAME", value_parser = NonEmptyStringValueParser::new())]
    pub(crate) model: Option<String>,

    /// Give Claude this text as the system prompt
    #[arg(long, value_name = "TEXT", value_parser = NonEmptyStringValueParser::new())]
    pub(crate) system: Option<String>,

    /// Let a response take N tokens, with what Claude thinks
    #[arg(long, value_name = "N", default_value = "32000")]
    pub(crate) max_tokens: NonZeroU32,

    /// Show each response once it is whole, instead of as it comes
    #[arg(long)]
    pub(crate) no_stream: bool,

    /// Print what Claude thinks, dimmed, on the standard error; for models that think adaptively
    #[arg(long)]
    pub(crate) show_thinking: bool,

    /// Keep old results of the tool in the conversation, instead of letting the API clear them when it grows
    #[arg(long)]
    pub(crate) no_context_editing: bool,

    /// Let the API sum the conversation up when it nears the end of the context window
    #[arg(long)]
    pub(crate) compact: bool,

    /// Send a request up to N times again when the API is busy or cannot be reached
    #[arg(long, value_name = "N", default_value_t = 6)]
    pub(crate) max_retries: u32,

    /// Let Claude answer a message in N responses at most, each but the last with commands
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

    /// Where the program keeps each file of /memories as a plain file of the same name, such as {dir}/memories: tests
    /// links, special files and files that are no text as well
    #[arg(long, value_name = "DIRECTORY", value_parser = directory_of_a_case, requires = "command_line", conflicts_with = "store")]
    pub(crate) plain_files: Option<String>,

    /// Test temporary stores of this kind: under a directory that is new or empty, next to a database that does not exist, or
    /// under a random prefix of a bucket
    #[arg(long, value_name = "URL", value_parser = store_url_parser())]
    pub(crate) store: Option<StoreUrl>,

    /// List the cases instead of running them: id, clauses, origin, needs and reason
    #[arg(long)]
    pub(crate) list: bool,

    /// Run only cases whose id contains TEXT, such as `view.`, or of the clause TEXT, such as `V3`; may be repeated
    #[arg(long = "filter", value_name = "TEXT")]
    pub(crate) filters: Vec<String>,

    /// Print a table for people, one JSON value, or JUnit XML
    #[arg(long, value_name = "table|json|junit", value_enum, default_value_t, hide_possible_values = true)]
    pub(crate) format: ReportFormat,

    /// Run N cases at a time [default: one for each processor]
    #[arg(long, value_name = "N")]
    pub(crate) jobs: Option<NonZeroUsize>,

    /// Let a program take SECONDS for an answer
    #[arg(long, value_name = "SECONDS", default_value_t)]
    pub(crate) timeout: AnswerTimeout,

    /// Ignore the cases that need NEED, for this reason, such as sessions='it locks its directory'; may be repeated
    #[arg(long, value_name = "NEED=REASON")]
    pub(crate) lacks: Vec<DeclaredLack>,

    #[command(flatten)]
    pub(crate) encryption: Encryption,
}

/// The arguments of `verify`.
#[derive(Args, Debug)]
pub(crate) struct VerifyArguments {
    /// Print the report as JSON: files, bytes and problems
    #[arg(long)]
    pub(crate) json: bool,

    #[command(flatten)]
    pub(crate) store: StoreArgument,
}

/// The arguments of `gc`.
#[derive(Args, Debug)]
pub(crate) struct GcArguments {
    /// Keep objects younger than AGE, such as 90s, 15m, 24h or 7d
    #[arg(long, value_name = "AGE", default_value_t)]
    pub(crate) older_than: Age,

    /// Print the report as JSON: removed_objects, removed_bytes and kept_objects
    #[arg(long)]
    pub(crate) json: bool,

    #[command(flatten)]
    pub(crate) store: StoreArgument,
}

/// The arguments of `expire`.
#[derive(Args, Debug)]
pub(crate) struct ExpireArguments {
    /// Remove what nobody has read or written for AGE, such as 24h or 90d: as long as those say who use the memory
    #[arg(long, value_name = "AGE")]
    pub(crate) expire_after: Age,

    /// Keep this file, or everything under this directory; may be repeated
    #[arg(long, value_name = "PATH")]
    pub(crate) pin: Vec<MemoryPath>,

    /// Work in the part of the store that belongs to NAME
    #[arg(long, value_name = "NAME", value_parser = Scope::from_trusted_name)]
    pub(crate) scope: Option<Scope>,

    /// List what would be removed, and remove nothing
    #[arg(long)]
    pub(crate) dry_run: bool,

    /// Start the access times again if they are damaged: every file counts as used now. Removes nothing
    #[arg(long, conflicts_with = "dry_run")]
    pub(crate) reset: bool,

    /// Print one JSON value: removed, the paths, and kept, their number; with --dry-run, expired: path, size and last_access of each
    #[arg(long)]
    pub(crate) json: bool,

    #[command(flatten)]
    pub(crate) store: StoreArgument,
}

/// The arguments of `keygen`.
#[derive(Args, Debug)]
pub(crate) struct KeygenArguments {
    /// Write the key to FILE, which must not exist; only its owner can read it [default: the standard output]
    #[arg(long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
}

/// The arguments of `rekey`.
#[derive(Args, Debug)]
pub(crate) struct RekeyArguments {
    /// Print the report as JSON: rewritten, damaged, damaged_records, no_longer_needed and still_needed
    #[arg(long)]
    pub(crate) json: bool,

    #[command(flatten)]
    pub(crate) store: StoreArgument,
}

/// The arguments of `copy`.
#[derive(Args, Debug)]
pub(crate) struct CopyArguments {
    /// The source: a directory, a file: URL, sqlite:FILE?memory=NAME, s3://BUCKET/PREFIX, gs://BUCKET/PREFIX or
    /// az://CONTAINER/PREFIX
    #[arg(value_name = "SRC", value_parser = store_url_parser())]
    pub(crate) source: StoreUrl,

    /// The destination, in the same form
    #[arg(id = "store", value_name = "DST", value_parser = store_url_parser())]
    pub(crate) destination: StoreUrl,

    /// Copy the part of SRC that belongs to NAME, such as a tenant
    #[arg(long, value_name = "NAME", value_parser = Scope::from_trusted_name)]
    pub(crate) source_scope: Option<Scope>,

    #[command(flatten)]
    pub(crate) writing: WritingArgument,

    /// Print one JSON value: dry_run, copied, overwritten, bytes, already_there, redacted, conflicts, refused, unverified, besides,
    /// unreadable, gone, goes_on_changing
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
    /// The target: a directory, a file name that ends in .tar, .tar.gz or .tgz, or - for a tar archive on the standard output
    pub(crate) target: PathBuf,

    /// Export the part of the store that belongs to NAME, such as a tenant
    #[arg(long, value_name = "NAME", value_parser = Scope::from_trusted_name)]
    pub(crate) scope: Option<Scope>,

    /// Write into a directory that is not empty, and overwrite files
    #[arg(long)]
    pub(crate) overwrite: bool,

    /// Print one JSON value: exported, bytes, refused, unreadable, gone and kept
    #[arg(long)]
    pub(crate) json: bool,

    #[command(flatten)]
    pub(crate) store: StoreArgument,
}

/// The arguments of `import`.
#[derive(Args, Debug)]
pub(crate) struct ImportArguments {
    /// The source: a directory, a tar archive, or - for a tar archive on the standard input. gzip is recognized by its content
    pub(crate) source: PathBuf,

    /// Import only files under DIRECTORY of SOURCE
    #[arg(long, value_name = "DIRECTORY", value_parser = directory_of_an_origin)]
    pub(crate) beneath: Option<String>,

    /// Skip files larger than N bytes without reading them
    #[arg(long, value_name = "N", default_value_t = MAX_LINE_BYTES as u64)]
    pub(crate) skip_above: u64,

    #[command(flatten)]
    pub(crate) writing: WritingArgument,

    /// Print one JSON value: dry_run, copied, overwritten, bytes, already_there, redacted, conflicts, refused, unverified, besides,
    /// left_out, also_left_out and broken_off
    #[arg(long)]
    pub(crate) json: bool,

    #[command(flatten)]
    pub(crate) memory: MemoryArgument,
}

/// One of the tool's six commands, given by a person.
#[derive(Debug, Subcommand)]
pub(crate) enum CommandArguments {
    /// Print a directory two levels deep, or a file with line numbers
    View(ViewArguments),
    /// Create a file
    Create(CreateArguments),
    /// Replace a text that occurs exactly once in a file
    #[command(name = "str_replace", visible_alias = "str-replace")]
    StrReplace(StrReplaceArguments),
    /// Insert lines into a file
    Insert(InsertArguments),
    /// Delete a file, or a directory with everything in it
    Delete(DeleteArguments),
    /// Rename or move a file or directory
    Rename(RenameArguments),
}

/// The arguments of `view`.
#[derive(Args, Debug)]
pub(crate) struct ViewArguments {
    /// The file or directory to print: /memories, or a path under it
    pub(crate) path: String,

    /// Print only these lines of a file or listing, counted from 1; a LAST of -1 means to the end
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

    /// The file's text [default: from --file or the standard input]
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

    /// The text to insert [default: from --file or the standard input]
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
    /// Print the reply or the error as a `tool_result` block in JSON
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
pub(crate) struct StoreArgument {
    /// The store: a directory, a file: URL, sqlite:FILE?memory=NAME, s3://BUCKET/PREFIX, gs://BUCKET/PREFIX,
    /// az://CONTAINER/PREFIX, or in-process: for a temporary one in this process
    #[arg(id = "store", long, value_name = "URL", value_parser = store_url_parser())]
    pub(crate) url: StoreUrl,

    #[command(flatten)]
    pub(crate) encryption: Encryption,
}

fn store_url_parser() -> ValueParser {
    OsStringValueParser::new().try_map(|given| memory::parse_url(&given)).into()
}

#[cfg(test)]
mod tests {
    use clap::{Arg, Command, CommandFactory as _};

    use super::*;

    #[test]
    fn the_definition_holds_together() {
        Arguments::command().debug_assert();
    }

    /// clap lists an argument under whatever heading was set before it.
    #[test]
    fn every_argument_is_listed_under_the_heading_of_its_own_group() {
        let ids = |command: Command| command.get_arguments().map(Arg::get_id).cloned().collect::<Vec<_>>();
        let groups = [
            ("Encryption", ids(Encryption::augment_args(Command::new("")))),
            ("Encryption of SRC", ids(SourceEncryption::augment_args(Command::new("")))),
            ("Policies", ids(Policies::augment_args(Command::new("")))),
        ];
        let command = Arguments::command();
        for command in command.get_subcommands() {
            let own = ids(command.clone());
            // `expire` has options of its own that are named as policies are.
            let groups = groups.iter().filter(|(_, group)| group.iter().all(|id| own.contains(id)));
            for argument in command.get_arguments() {
                let group = groups.clone().find(|(_, group)| group.contains(argument.get_id()));
                let (expected, found) = (group.map(|(heading, _)| *heading), argument.get_help_heading());
                assert_eq!(found, expected, "{} {}", command.get_name(), argument.get_id());
            }
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
}
