//! [`Arguments`]: the command line and the help of its options.
//!
//! clap puts every argument under the last heading that was set before it. So a subcommand's own arguments come first,
//! and flattened groups with a heading come last: [`StoreArgument`], [`MemoryArgument`], [`Encryption`], [`Policies`].
//!
//! `-h` prints the first paragraph of a doc comment, in one line. `--help` prints all paragraphs.

#[cfg(test)]
mod documented;
pub(crate) mod files;
pub(crate) mod pages;
pub(crate) mod search;
mod usage_error;
pub(crate) mod values;

use std::ffi::{OsStr, OsString};
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::Duration;

#[cfg(feature = "server")]
use clap::builder::NonEmptyStringValueParser;
use clap::builder::{OsStringValueParser, TypedValueParser};
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::parser::ValueSource;
use clap::{Arg, ArgGroup, Args, Command, CommandFactory as _, FromArgMatches as _, Parser, Subcommand, ValueHint};
use clap_complete::Shell;
use memory_tool::command::DEFAULT_MAX_VIEW_CHARACTERS;
use memory_tool::conformance::{Basis, Capability, CommandLine, DEFAULT_ANSWER_TIMEOUT};
use memory_tool::policies::Scope;
use memory_tool::store::DEFAULT_TIMEOUT;
use memory_tool::{Actor, MemoryOptions, MemoryPath, StoreUrl};
use memory_tool_bucket::DEFAULT_GRACE;

use crate::arguments::files::{AppendArguments, CatArguments, EditArguments, LsArguments, MvArguments, RmArguments};
use crate::arguments::search::SearchArguments;
use crate::arguments::values::{
    Age, AnswerTimeout, Point, Profile, ReportFormat, Side, ViewCap, WritingArgument, by_name, directory_of_a_case,
    directory_of_a_source, host_path, lack, memory_path, side,
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

/// The command line.
#[derive(Debug, Parser)]
#[command(name = NAME, version, max_term_width = 100)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) action: Action,
}

impl Arguments {
    /// Parses a command line. If it is wrong or asks for help, prints that and returns the exit status.
    pub(crate) fn of(arguments: impl IntoIterator<Item = OsString>) -> Result<Self, u8> {
        let mut command = command();
        let words: Vec<_> = arguments.into_iter().collect();
        let matches = command.try_get_matches_from_mut(&words);
        let parsed = matches.and_then(|mut matches| Self::from_arg_matches_mut(&mut matches));
        parsed.map_err(|error| {
            let error = usage_error::prepare(error, &mut command, &words);
            drop(error.print()); // a closed output is not an error
            u8::try_from(error.exit_code()).unwrap_or(1)
        })
    }
}

/// The definition of the command line, with its pages.
pub(crate) fn command() -> Command {
    // A key without a store would be ignored.
    let program = Arguments::command()
        .mut_subcommand("conformance", |command| command.mut_group("key", |group| group.requires("store")));
    #[cfg(feature = "server")]
    let program = program.mut_subcommand("serve", configured_by_file);
    pages::with_pages(program).mut_subcommands(|command| {
        let is_for_operators = FOR_OPERATORS.contains(&command.get_name());
        command.mut_args(|argument| {
            let is_of_store = matches!(argument.get_help_heading(), Some("Encryption" | "Policies"));
            argument.hide_short_help(is_of_store && !is_for_operators)
        })
    })
}

/// The commands whose `-h` prints the options of encryption and policies too.
const FOR_OPERATORS: [&str; 14] = [
    "run",
    "mcp",
    "serve",
    "conformance",
    "verify",
    "gc",
    "expire",
    "rekey",
    "copy",
    "export",
    "import",
    "memories",
    "forget",
    "migrate",
];

/// The subcommands. Their help is in `pages`.
#[derive(Debug, Subcommand)]
pub(crate) enum Action {
    Run(RunArguments),
    #[cfg(feature = "mcp")]
    Mcp(Box<McpArguments>),
    #[cfg(feature = "server")]
    Serve(Box<ServeArguments>),
    #[cfg(feature = "server")]
    Token(TokenArguments),
    Conformance(ConformanceArguments),
    Verify(VerifyArguments),
    Gc(GcArguments),
    Expire(ExpireArguments),
    Keygen(KeygenArguments),
    Rekey(RekeyArguments),
    Copy(Box<CopyArguments>),
    Export(ExportArguments),
    Import(Box<ImportArguments>),
    Ls(Box<LsArguments>),
    Cat(Box<CatArguments>),
    Edit(Box<EditArguments>),
    Append(Box<AppendArguments>),
    Mv(Box<MvArguments>),
    Rm(Box<RmArguments>),
    Memories(MemoriesArguments),
    Forget(ForgetArguments),
    Migrate(MigrateArguments),
    Search(Box<SearchArguments>),
    Log(LogArguments),
    Show(ShowArguments),
    Diff(DiffArguments),
    Undo(UndoArguments),
    Redo(RedoArguments),
    Restore(RestoreArguments),
    Redact(RedactArguments),
    #[command(flatten)]
    Command(CommandArguments),
    Completions(CompletionsArguments),
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
    pub(crate) existing: ExistingArgument,

    /// Collect the garbage of a bucket every INTERVAL
    ///
    /// INTERVAL is a whole number with a unit, such as 24h, and at least 1m. This needs the permissions of
    /// `memory-tool gc`. Other stores leave no garbage.
    #[arg(long, value_name = "INTERVAL", value_parser = interval)]
    pub(crate) gc_every: Option<Age>,

    #[command(flatten)]
    pub(crate) memory: MemoryArgument,
}

impl RunArguments {
    /// The options of the memory.
    pub(crate) fn options(&self) -> MemoryOptions {
        let mut options = self.memory.options();
        options.must_exist = self.existing.must_exist;
        options.gc_every = self.gc_every.map(|interval| interval.0);
        options.create_overwrites = self.overwrites.create_overwrites;
        options.max_view_characters = Some(self.cap.max_view_chars.0);
        options
    }
}

/// Parses the time between two collections.
fn interval(given: &str) -> Result<Age, &'static str> {
    let interval: Age = given.parse()?;
    if interval.0 < Duration::from_secs(60) { Err("expected 1m or more") } else { Ok(interval) }
}

/// The arguments of `mcp`.
#[cfg(feature = "mcp")]
#[derive(Args, Debug)]
pub(crate) struct McpArguments {
    /// Offer the six commands as separate tools
    ///
    /// They are memory_view, memory_create, memory_str_replace, memory_insert, memory_delete and memory_rename.
    #[arg(long)]
    pub(crate) separate_tools: bool,

    #[command(flatten)]
    pub(crate) serving: RunArguments,
}

/// The arguments of `serve`.
#[cfg(feature = "server")]
#[derive(Args, Debug)]
pub(crate) struct ServeArguments {
    /// Serve HTTP at ADDRESS [default: 127.0.0.1:8809]
    ///
    /// ADDRESS is an address and port, or unix:PATH for a Unix socket. Port 0 selects a free port, which is printed to
    /// standard error.
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) listen: Option<memory_tool_server::Listen>,

    /// Accept the tokens in FILE, which `memory-tool token` writes
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, value_parser = host_path())]
    #[arg(required_unless_present = "config")]
    pub(crate) tokens: Option<PathBuf>,

    /// Accept HOST in the header `Host`; may be repeated
    ///
    /// Without this option, only the address of --listen and the names of this machine are accepted: localhost,
    /// 127.0.0.1 and ::1. HOST may end with a port. Web pages of the same hosts are accepted, and no others.
    #[arg(long, value_name = "HOST", value_parser = NonEmptyStringValueParser::new())]
    pub(crate) allow_host: Vec<String>,

    /// Do not start histories
    #[arg(long, conflicts_with = "history")]
    pub(crate) no_history: bool,

    /// Offer the six commands as separate tools at /mcp
    #[cfg(feature = "mcp")]
    #[arg(long)]
    pub(crate) separate_tools: bool,

    /// Read all settings from FILE in TOML, in place of other options
    ///
    /// It also sets TLS, proxies and limits. `memory-tool serve --help` shows an example.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, value_parser = host_path())]
    pub(crate) config: Option<PathBuf>,

    /// Check the settings, the tokens and the store, and exit
    #[arg(long)]
    pub(crate) check: bool,

    #[command(flatten)]
    pub(crate) serving: RunArguments,
}

/// Lets `--config` replace the other options of `serve`.
#[cfg(feature = "server")]
fn configured_by_file(serve: Command) -> Command {
    let is_other = |argument: &&clap::Arg| !["config", "check", "help", "store"].contains(&argument.get_id().as_str());
    let mut others: Vec<_> = serve.get_arguments().filter(is_other).map(|other| other.get_id().clone()).collect();
    if std::env::var_os(STORE_VARIABLE).is_none() {
        others.push("store".into());
    }
    serve.mut_arg("config", |config| config.conflicts_with_all(others)).mut_arg("store", |store| {
        let store = store.required(false).required_unless_present("config");
        store.default_value_if("config", clap::builder::ArgPredicate::IsPresent, "in-process:") // not used
    })
}

/// The arguments of `token`.
#[cfg(feature = "server")]
#[derive(Args, Debug)]
pub(crate) struct TokenArguments {
    #[command(subcommand)]
    pub(crate) action: TokenAction,
}

/// The subcommands of `token`.
#[cfg(feature = "server")]
#[derive(Debug, Subcommand)]
pub(crate) enum TokenAction {
    /// Create a token and print it
    New(NewTokenArguments),
    /// Print all tokens without their secrets, one JSON value per line
    List(TokensArgument),
    /// Revoke a token
    Revoke(RevokeArguments),
}

/// The file of the tokens.
#[cfg(feature = "server")]
#[derive(Args, Debug)]
pub(crate) struct TokensArgument {
    /// The file of the tokens
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, value_parser = host_path())]
    pub(crate) tokens: PathBuf,
}

/// The arguments of `token new`.
#[cfg(feature = "server")]
#[derive(Args, Debug)]
#[command(group = ArgGroup::new("reached").args(["admin", "memory", "memory_prefix", "all_memories"])
    .required(true).multiple(true))]
pub(crate) struct NewTokenArguments {
    #[command(flatten)]
    pub(crate) file: TokensArgument,

    /// The name of the user or agent in histories and audit logs
    #[arg(long, value_name = "NAME", value_parser = Actor::from_trusted_name)]
    pub(crate) actor: Actor,

    /// Allow everything in all memories
    #[arg(long, conflicts_with_all = ["memory", "memory_prefix", "all_memories", "right"])]
    pub(crate) admin: bool,

    /// Reach the memory NAME; may be repeated
    #[arg(long, value_name = "NAME", value_parser = memory_tool::store::MemoryName::parse)]
    pub(crate) memory: Vec<memory_tool::store::MemoryName>,

    /// Reach all memories whose names start with TEXT; may be repeated
    #[arg(long, value_name = "TEXT", value_parser = NonEmptyStringValueParser::new())]
    pub(crate) memory_prefix: Vec<String>,

    /// Reach all memories
    #[arg(long)]
    pub(crate) all_memories: bool,

    /// Give a right: tool, read, write or admin; may be repeated
    #[arg(long, value_name = "RIGHT", value_parser = by_name::<memory_tool_server::Right>)]
    #[arg(required_unless_present = "admin")]
    pub(crate) right: Vec<memory_tool_server::Right>,

    /// End the token after AGE, such as 90d
    #[arg(long, value_name = "AGE")]
    pub(crate) expires_in: Option<Age>,

    /// Create a memory that the token reaches with its first command
    #[arg(long)]
    pub(crate) create: bool,
}

/// The arguments of `token revoke`.
#[cfg(feature = "server")]
#[derive(Args, Debug)]
pub(crate) struct RevokeArguments {
    #[command(flatten)]
    pub(crate) file: TokensArgument,

    /// The id, as `memory-tool token list` prints it
    #[arg(value_name = "ID")]
    pub(crate) id: String,
}

/// The arguments of `conformance`.
#[derive(Args, Debug)]
#[group(skip)]
#[command(group = ArgGroup::new("tested").args(["command_line", "store", "list"]).required(true).multiple(true))]
pub(crate) struct ConformanceArguments {
    /// Test the program that this command line starts
    ///
    /// LINE may contain two placeholders. {dir} is the directory of the memory: it is empty at the start, and each case
    /// has its own. {options} are the options of the case, each as a separate word: --create-overwrites,
    /// --max-view-chars N or --max-view-chars none. Without {options}, cases with options are ignored.
    #[arg(long = "command", value_name = "LINE", value_parser = CommandLine::parse, conflicts_with = "store")]
    pub(crate) command_line: Option<CommandLine>,

    /// Test plain files in DIRECTORY, such as {dir}/memories
    ///
    /// It must hold each file of /memories as a plain file of the same name. Then links, special files and binary files
    /// are tested as well.
    #[arg(long, value_name = "DIRECTORY", value_parser = directory_of_a_case)]
    #[arg(requires = "command_line", conflicts_with = "store")]
    pub(crate) plain_files: Option<String>,

    /// Test temporary stores of this kind
    ///
    /// The stores are created in a new or empty directory, next to a database file that does not exist, or under a
    /// random prefix in a bucket, and removed at the end. MEMORY_TOOL_STORE is ignored.
    #[arg(long, value_name = "URL", value_parser = store_url_parser(), value_hint = ValueHint::AnyPath)]
    pub(crate) store: Option<StoreUrl>,

    /// List the cases instead of running them
    ///
    /// Columns are the id, the clauses of the contract, the origin, the needs and the reason.
    #[arg(long)]
    pub(crate) list: bool,

    /// Run only cases that match TEXT; may be repeated
    ///
    /// TEXT is an id, a part of one, such as `view.`, or a clause of the contract, such as `V3`.
    #[arg(long = "filter", value_name = "TEXT")]
    pub(crate) filters: Vec<String>,

    /// Run only the cases that failed in a JSON report
    #[arg(long, value_name = "REPORT", value_hint = ValueHint::FilePath, conflicts_with = "filters")]
    #[arg(value_parser = host_path())]
    pub(crate) failed_from: Option<PathBuf>,

    /// Run only cases for authors of a store
    ///
    /// The only PROFILE is `storage`: the cases that depend on the storage, without those of the engine above it.
    #[arg(long, value_name = "PROFILE", value_enum, hide_possible_values = true)]
    pub(crate) profile: Option<Profile>,

    /// Count only checks of BASIS or stronger
    ///
    /// From the strongest: `documentation` (Anthropic's), `recommendation` (it says only to consider it), `sdks` (the
    /// Python and TypeScript SDKs agree) and `project` (chosen by this project).
    #[arg(long, value_name = "BASIS", default_value = "project", value_parser = by_name::<Basis>)]
    pub(crate) basis: Basis,

    /// Expect the failures that FILE lists, and no others
    ///
    /// Each line is an id, alone or with one of the checks of the case: its clause, step and variant. Lines may be
    /// comments that start with `#`. The exit status is 1 if another check fails, or if one of these passes.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, value_parser = host_path())]
    pub(crate) known_failures: Option<PathBuf>,

    /// Write the failures to FILE, for --known-failures
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, conflicts_with = "known_failures")]
    #[arg(value_parser = host_path())]
    pub(crate) write_known_failures: Option<PathBuf>,

    /// Print a table, json or markdown
    #[arg(long, value_enum, default_value_t, hide_possible_values = true)]
    pub(crate) format: ReportFormat,

    /// Run N cases at a time
    ///
    /// The default is one for each processor, or four for a program, because it mostly waits.
    #[arg(long, value_name = "N")]
    pub(crate) jobs: Option<NonZeroUsize>,

    /// Wait up to SECONDS for a reply
    #[arg(long, value_name = "SECONDS", default_value_t = AnswerTimeout(DEFAULT_ANSWER_TIMEOUT))]
    pub(crate) timeout: AnswerTimeout,

    /// Ignore cases that need NEED, and report REASON; may be repeated
    ///
    /// For example sessions='it locks its directory'. --list prints the needs.
    #[arg(long, value_name = "NEED=REASON", value_parser = lack)]
    pub(crate) lacks: Vec<(Capability, String)>,

    #[command(flatten)]
    pub(crate) encryption: Encryption,
}

/// The arguments of `verify`.
#[derive(Args, Debug)]
pub(crate) struct VerifyArguments {
    /// Print the report as JSON
    ///
    /// Its fields are files, bytes, problems and others. The first two count undamaged files only. The last is the
    /// number of other memories near this one, or null if they cannot be listed.
    #[arg(long)]
    pub(crate) json: bool,

    /// Repair the log of a store in a bucket and damaged histories first
    ///
    /// Losses are reported. Copy the store first, and run only one repair at a time.
    #[arg(long, conflicts_with = "all")]
    pub(crate) repair: bool,

    #[command(flatten)]
    pub(crate) all: AllArgument,

    #[command(flatten)]
    pub(crate) store: StoreArgument,
}

/// The arguments of `migrate`.
#[derive(Args, Debug)]
pub(crate) struct MigrateArguments {
    #[command(flatten)]
    pub(crate) store: StoreArgument,
}

/// The arguments of `gc`.
#[derive(Args, Debug)]
pub(crate) struct GcArguments {
    /// Keep objects younger than AGE
    ///
    /// AGE is a whole number with a unit, such as 90s, 15m, 24h or 7d. A young object may belong to a change in
    /// progress: if it is removed, that change starts again.
    #[arg(long, value_name = "AGE", default_value_t = Age(DEFAULT_GRACE))]
    pub(crate) older_than: Age,

    /// Print the report as JSON
    ///
    /// Its fields are removed_objects, removed_bytes, kept_objects, kept_after_loss, trimmed_commits and foreign.
    #[arg(long)]
    pub(crate) json: bool,

    /// Also remove what was kept since a repair reported losses
    ///
    /// After `verify --repair` reported losses, objects that are older than the repair stay, since they may help to
    /// undo these losses.
    #[arg(long)]
    pub(crate) accept_loss: bool,

    #[command(flatten)]
    pub(crate) store: StoreArgument,
}

/// The arguments of `expire`.
#[derive(Args, Debug)]
pub(crate) struct ExpireArguments {
    /// Remove files that have not been read or written for AGE
    ///
    /// Use the same AGE as the users of the memory, such as 24h or 90d.
    #[arg(long, value_name = "AGE")]
    pub(crate) expire_after: Age,

    /// Never remove this file or directory; may be repeated
    #[arg(long, value_name = "PATH", value_parser = memory_path, value_hint = ValueHint::Other)]
    pub(crate) pin: Vec<MemoryPath>,

    /// Work only in the part of the store that belongs to tenant NAME
    #[arg(long, value_name = "NAME", value_parser = Scope::from_trusted_name, conflicts_with = "all")]
    pub(crate) scope: Option<Scope>,

    #[command(flatten)]
    pub(crate) all: AllArgument,

    /// List expired files without removing them
    #[arg(long)]
    pub(crate) dry_run: bool,

    /// Remove the files at once, even if they are most files
    ///
    /// If more than half of the files, and at least two, have expired, the clock may be wrong. On a terminal, the
    /// command then asks. Elsewhere it removes nothing and exits with 1. A run at least 1/24 of AGE later, or a day if
    /// that is less, removes the files.
    #[arg(long, conflicts_with = "dry_run")]
    pub(crate) yes: bool,

    /// Replace damaged access times: every file counts as used now
    ///
    /// No file is removed.
    #[arg(long, conflicts_with = "dry_run")]
    pub(crate) reset: bool,

    /// Print the report as JSON
    ///
    /// Its fields are removed, the paths, and kept and held, which are numbers. With --dry-run its field is expired:
    /// the path, size and last_access of each file.
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
    #[arg(long, value_name = "FILE", value_parser = host_path())]
    pub(crate) output: Option<PathBuf>,
}

/// The arguments of `rekey`.
#[derive(Args, Debug)]
pub(crate) struct RekeyArguments {
    /// Print the report as JSON
    ///
    /// Its fields are rewritten, damaged, no_longer_needed and still_needed.
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
    #[arg(long, value_name = "NAME", value_parser = Scope::from_trusted_name, conflicts_with = "all")]
    pub(crate) source_scope: Option<Scope>,

    /// Copy all memories of SRC that `memory-tool memories` lists
    ///
    /// Each gets its name in DST: a tenant stays a tenant, and a memory of a database, bucket or directory becomes one
    /// of DST. Each has a heading, or the field memory in its line of JSON. A failure does not stop the others.
    #[arg(long, conflicts_with = "scope")]
    pub(crate) all: bool,

    /// Copy the state at this moment of the history
    #[arg(long, value_name = "ENTRY|TIME|AGE")]
    pub(crate) at: Option<Point>,

    #[command(flatten)]
    pub(crate) writing: WritingArgument,

    #[command(flatten)]
    pub(crate) existing: ExistingArgument,

    /// Print the report as JSON
    ///
    /// Its fields are the counts copied, overwritten, bytes, unchanged and only_in_destination, the lists redacted,
    /// conflicts, refused, unverified, unreadable and removed, and the flags dry_run and source_still_changing. A list
    /// has at most 1,000 files. The numbers more_redacted to more_removed count the others. The bytes are of copied and
    /// overwritten files. The field others is the number of other memories and scopes near the source, or null if they
    /// cannot be listed.
    #[arg(long)]
    pub(crate) json: bool,

    #[command(flatten)]
    pub(crate) timeout: TimeoutArgument,

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
    /// The ending decides: .tar is a tar archive, .tar.gz and .tgz are compressed with gzip, - is a tar archive on
    /// standard output, with the report on standard error, and every other name is a directory, which must be new or
    /// empty. Links in it are never followed. An archive gets its name only when it is complete. With --all, it is a
    /// directory that gets a directory for each memory.
    #[arg(value_parser = host_path())]
    pub(crate) target: PathBuf,

    /// Export only the part of the store that belongs to tenant NAME
    #[arg(long, value_name = "NAME", value_parser = Scope::from_trusted_name, conflicts_with = "all")]
    pub(crate) scope: Option<Scope>,

    #[command(flatten)]
    pub(crate) all: AllArgument,

    /// Export the state at this moment of the history
    #[arg(long, value_name = "ENTRY|TIME|AGE")]
    pub(crate) at: Option<Point>,

    /// Overwrite existing files
    ///
    /// TARGET may be an existing archive, or a directory that is not empty. An archive is only replaced if there are
    /// files to export and all of them can be read.
    #[arg(long)]
    pub(crate) overwrite: bool,

    /// Print the report as JSON
    ///
    /// Its fields are exported, bytes, the lists refused, unreadable and removed, and kept: the reason why an existing
    /// archive was not replaced, or null. A list has at most 1,000 files. The numbers more_refused, more_unreadable and
    /// more_removed count the others. The field others is the number of other memories and scopes near the exported
    /// one, or null if they cannot be listed.
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
    #[arg(value_parser = host_path())]
    pub(crate) source: PathBuf,

    /// Import only files under DIRECTORY of SOURCE
    ///
    /// For example store/memories in an archive of a whole local store. An empty selection is an error.
    #[arg(long, value_name = "DIRECTORY", value_parser = directory_of_a_source)]
    pub(crate) under: Option<String>,

    /// Skip files larger than N bytes without reading them
    #[arg(long, value_name = "N", default_value_t = MAX_LINE_BYTES as u64)]
    pub(crate) skip_above: u64,

    #[command(flatten)]
    pub(crate) writing: WritingArgument,

    #[command(flatten)]
    pub(crate) existing: ExistingArgument,

    /// Print the report as JSON
    ///
    /// Its fields are the counts copied, overwritten, bytes, unchanged and only_in_destination, the lists redacted,
    /// conflicts, refused, unverified and skipped, the flag dry_run, and archive_error. A list has at most 1,000 files.
    /// The numbers more_redacted to more_skipped count the others. The bytes are of copied and overwritten files.
    #[arg(long)]
    pub(crate) json: bool,

    #[command(flatten)]
    pub(crate) memory: MemoryArgument,
}

/// The tool's six commands.
#[derive(Debug, Subcommand)]
pub(crate) enum CommandArguments {
    View(ViewArguments),
    Create(CreateArguments),
    #[command(name = "str_replace", visible_alias = "str-replace")]
    StrReplace(StrReplaceArguments),
    Insert(InsertArguments),
    Delete(DeleteArguments),
    Rename(RenameArguments),
}

/// The arguments of `view`.
#[derive(Args, Debug)]
pub(crate) struct ViewArguments {
    /// The file or directory to print
    #[arg(default_value = "/memories", value_hint = ValueHint::Other)]
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
    #[arg(value_hint = ValueHint::Other)]
    pub(crate) path: String,

    /// The text of the file [default: read from standard input]
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true, conflicts_with = "file")]
    pub(crate) text: Option<String>,

    /// Read the text from this file, outside the memory
    #[arg(long, value_name = "FILE", value_parser = host_path())]
    pub(crate) file: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) overwrites: OverwritesArgument,

    #[command(flatten)]
    pub(crate) existing: ExistingArgument,

    #[command(flatten)]
    pub(crate) shared: SharedArguments,
}

/// The arguments of `str_replace`.
#[derive(Args, Debug)]
pub(crate) struct StrReplaceArguments {
    /// The file to edit
    #[arg(value_hint = ValueHint::Other)]
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
    #[arg(value_hint = ValueHint::Other)]
    pub(crate) path: String,

    /// Insert after line N; 0 inserts at the beginning
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub(crate) insert_line: i64,

    /// The text to insert [default: read from standard input]
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true, conflicts_with = "file")]
    pub(crate) insert_text: Option<String>,

    /// Read the text from this file, outside the memory
    #[arg(long, value_name = "FILE", value_parser = host_path())]
    pub(crate) file: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) shared: SharedArguments,
}

/// The arguments of `delete`.
#[derive(Args, Debug)]
pub(crate) struct DeleteArguments {
    /// The file or directory to delete
    #[arg(value_hint = ValueHint::Other)]
    pub(crate) path: String,

    /// Delete a directory without a question on a terminal
    #[arg(long)]
    pub(crate) yes: bool,

    #[command(flatten)]
    pub(crate) shared: SharedArguments,
}

/// The arguments of `rename`.
#[derive(Args, Debug)]
pub(crate) struct RenameArguments {
    /// The file or directory to rename
    #[arg(value_hint = ValueHint::Other)]
    pub(crate) old_path: String,

    /// The new path, which must not exist
    #[arg(value_hint = ValueHint::Other)]
    pub(crate) new_path: String,

    #[command(flatten)]
    pub(crate) shared: SharedArguments,
}

/// The arguments of all six commands.
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

/// Whether the store must exist.
#[derive(Args, Clone, Copy, Debug, Default)]
pub(crate) struct ExistingArgument {
    /// Report an error instead of creating a store
    ///
    /// This detects a mistyped name, and a disk that is not mounted. A memory in a database and the part of a tenant
    /// exist while they contain a file or a history.
    #[arg(long)]
    pub(crate) must_exist: bool,
}

/// The maximum output of one `view` (`[V8]`).
#[derive(Args, Clone, Copy, Debug)]
pub(crate) struct ViewCapArgument {
    /// Limit the output of one `view` to N characters
    #[arg(long, value_name = "N|none", default_value_t = ViewCap(Some(DEFAULT_MAX_VIEW_CHARACTERS)))]
    pub(crate) max_view_chars: ViewCap,
}

/// The arguments of `memories`.
#[derive(Args, Debug)]
pub(crate) struct MemoriesArguments {
    /// Print a line of JSON for each memory
    ///
    /// Its fields are store, scope, files, bytes and modified. Each but the first may be null.
    #[arg(long)]
    pub(crate) json: bool,

    #[command(flatten)]
    pub(crate) store: StoreArgument,
}

/// The arguments of `forget`.
#[derive(Args, Debug)]
pub(crate) struct ForgetArguments {
    /// The name of the memory or tenant, as `memory-tool memories` lists it
    pub(crate) name: String,

    /// Do not ask
    #[arg(long)]
    pub(crate) yes: bool,

    #[command(flatten)]
    pub(crate) store: StoreArgument,
}

/// The choice of all memories.
#[derive(Args, Clone, Copy, Debug)]
pub(crate) struct AllArgument {
    /// Go over all memories that `memory-tool memories` lists
    ///
    /// Each has a heading, or the field memory in its line of JSON. A failure does not stop the others.
    #[arg(long)]
    pub(crate) all: bool,
}

/// The arguments of `log`.
#[derive(Args, Debug)]
pub(crate) struct LogArguments {
    /// List only changes of this file or directory, through its renames
    #[arg(value_parser = memory_path, value_hint = ValueHint::Other)]
    pub(crate) path: Option<MemoryPath>,

    /// List at most N entries
    #[arg(short = 'n', long, value_name = "N")]
    pub(crate) limit: Option<NonZeroUsize>,

    /// List only entries before number N
    #[arg(long, value_name = "N")]
    pub(crate) before: Option<u64>,

    #[command(flatten)]
    pub(crate) by: ByArgument,

    #[command(flatten)]
    pub(crate) history: HistoryArgument,
}

/// The arguments of `show`.
#[derive(Args, Debug)]
pub(crate) struct ShowArguments {
    /// The number of the entry
    #[arg(value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) entry: u64,

    /// Print this file after the entry instead
    #[arg(value_parser = memory_path, value_hint = ValueHint::Other)]
    pub(crate) path: Option<MemoryPath>,

    #[command(flatten)]
    pub(crate) history: HistoryArgument,
}

/// The arguments of `diff`.
#[derive(Args, Debug)]
pub(crate) struct DiffArguments {
    /// A moment of the memory, or another store, archive or exported directory
    #[arg(value_parser = side(), value_hint = ValueHint::AnyPath)]
    pub(crate) from: Side,

    /// The second one [default: now]
    #[arg(value_parser = side(), value_hint = ValueHint::AnyPath)]
    pub(crate) to: Option<Side>,

    /// Compare only this file or directory of the memory
    #[arg(value_parser = memory_path, value_hint = ValueHint::Other)]
    pub(crate) path: Option<MemoryPath>,

    /// Print JSON, one value per line
    #[arg(long)]
    pub(crate) json: bool,

    /// Compare only the parts of the stores that belong to tenant NAME
    #[arg(long, value_name = "NAME", value_parser = Scope::from_trusted_name)]
    pub(crate) scope: Option<Scope>,

    #[command(flatten)]
    pub(crate) store: OptionalStoreArgument,
}

/// A store that not every use of a command needs.
#[derive(Args, Debug)]
#[command(next_help_heading = "Store")]
pub(crate) struct OptionalStoreArgument {
    /// The memory of the moments
    #[arg(id = "store", long, value_name = "URL", value_parser = StoreParser, value_hint = ValueHint::AnyPath)]
    #[arg(env = STORE_VARIABLE, hide_env_values = true)] // a URL may hold a secret
    pub(crate) url: Option<StoreUrl>,

    #[command(flatten)]
    pub(crate) timeout: TimeoutArgument,

    #[command(flatten)]
    pub(crate) encryption: Encryption,
}

/// The arguments of `undo`.
#[derive(Args, Debug)]
pub(crate) struct UndoArguments {
    /// Take back the last N changes in one step
    #[arg(short = 'n', long, value_name = "N", default_value = "1")]
    pub(crate) count: NonZeroUsize,

    /// Take back entry N instead; may be repeated
    #[arg(long = "entry", value_name = "N", conflicts_with_all = ["count", "by_actor", "by_command"])]
    pub(crate) entries: Vec<u64>,

    /// Replace files that have changed since
    #[arg(long)]
    pub(crate) force: bool,

    #[command(flatten)]
    pub(crate) by: ByArgument,

    #[command(flatten)]
    pub(crate) change: HistoryChangeArgument,
}

/// The arguments of `redo`.
#[derive(Args, Debug)]
pub(crate) struct RedoArguments {
    /// Replace files that have changed since
    #[arg(long)]
    pub(crate) force: bool,

    #[command(flatten)]
    pub(crate) change: HistoryChangeArgument,
}

/// The arguments of `restore`.
#[derive(Args, Debug)]
pub(crate) struct RestoreArguments {
    /// The file or directory; /memories is everything
    #[arg(value_parser = memory_path, value_hint = ValueHint::Other)]
    pub(crate) path: MemoryPath,

    /// Restore the state after this entry, at this time, or this long ago
    #[arg(long, value_name = "ENTRY|TIME|AGE")]
    pub(crate) to: Point,

    #[command(flatten)]
    pub(crate) change: HistoryChangeArgument,
}

/// The arguments of `redact`.
#[derive(Args, Debug)]
pub(crate) struct RedactArguments {
    /// The numbers of the entries
    #[arg(required_unless_present = "all", value_name = "ENTRY")]
    pub(crate) entries: Vec<u64>,

    /// Remove the whole history, even if it is damaged
    #[arg(long, conflicts_with = "entries")]
    pub(crate) all: bool,

    #[command(flatten)]
    pub(crate) change: HistoryChangeArgument,
}

/// Whose changes the commands for the history select.
#[derive(Args, Debug)]
pub(crate) struct ByArgument {
    /// Select only changes by this actor
    #[arg(id = "by_actor", long = "by", value_name = "ACTOR")]
    pub(crate) actor: Option<String>,

    /// Select only changes by this command, such as str_replace
    #[arg(id = "by_command", long = "by-command", value_name = "COMMAND")]
    pub(crate) command: Option<String>,
}

/// The arguments of all commands for the history.
#[derive(Args, Debug)]
pub(crate) struct HistoryArgument {
    /// Print JSON, one value per line
    #[arg(long)]
    pub(crate) json: bool,

    /// Work only in the part of the store that belongs to tenant NAME
    #[arg(long, value_name = "NAME", value_parser = Scope::from_trusted_name)]
    pub(crate) scope: Option<Scope>,

    #[command(flatten)]
    pub(crate) store: StoreArgument,
}

/// The arguments of the commands that change something with the history.
#[derive(Args, Debug)]
pub(crate) struct HistoryChangeArgument {
    /// The name of the person who makes this change
    #[arg(long, value_name = "NAME", value_parser = Actor::from_trusted_name)]
    pub(crate) actor: Option<Actor>,

    #[command(flatten)]
    pub(crate) history: HistoryArgument,
}

/// The arguments of `completions`.
#[derive(Args, Debug)]
pub(crate) struct CompletionsArguments {
    /// The shell
    #[arg(value_enum)]
    pub(crate) shell: Shell,

    /// The command line to complete, from the script of the shell
    #[arg(last = true, hide = true)]
    pub(crate) words: Vec<OsString>,
}

/// The arguments of `man`.
#[derive(Args, Debug)]
pub(crate) struct ManArguments {
    /// Write one page for each command into DIRECTORY
    ///
    /// DIRECTORY is created if it does not exist. Existing pages are overwritten.
    #[arg(long, value_name = "DIRECTORY", value_parser = host_path())]
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
    /// The URLs are file:PATH, sqlite:FILE?memory=NAME, postgres://USER@HOST/DATABASE, s3://BUCKET/PREFIX,
    /// gs://BUCKET/PREFIX, az://CONTAINER/PREFIX and in-process:. `memory-tool --help` describes them.
    #[arg(id = "store", long, value_name = "URL", value_parser = StoreParser, value_hint = ValueHint::AnyPath)]
    #[arg(env = STORE_VARIABLE, hide_env_values = true)] // a URL may hold a secret
    pub(crate) url: StoreUrl,

    #[command(flatten)]
    pub(crate) timeout: TimeoutArgument,

    #[command(flatten)]
    pub(crate) encryption: Encryption,
}

impl MemoryArgument {
    /// The options of the memory.
    pub(crate) fn options(&self) -> MemoryOptions {
        let mut options = self.store.options();
        self.policies.set(&mut options);
        options
    }
}

impl StoreArgument {
    /// The options of the memory, without policies.
    pub(crate) fn options(&self) -> MemoryOptions {
        self.timeout.options(&self.encryption)
    }
}

/// The timeout of the operations of a store.
#[derive(Args, Clone, Copy, Debug)]
pub(crate) struct TimeoutArgument {
    /// Limit each operation of the store to DURATION
    ///
    /// DURATION is a whole number with a unit, such as 5s or 2m. It limits the wait for other processes, and the
    /// attempts of a request to a bucket.
    #[arg(long, value_name = "DURATION", default_value_t = Age(DEFAULT_TIMEOUT))]
    pub(crate) timeout: Age,
}

impl TimeoutArgument {
    /// The options of a memory with this timeout and encryption.
    pub(crate) fn options(self, encryption: &Encryption) -> MemoryOptions {
        let mut options = MemoryOptions::new();
        options.timeout = Some(self.timeout.0);
        encryption.set(&mut options);
        options
    }
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

/// The error of clap for a missing `--store`.
fn store_not_provided(command: &Command) -> clap::Error {
    let mut error = clap::Error::new(ErrorKind::MissingRequiredArgument).with_cmd(command);
    error.insert(ContextKind::InvalidArg, ContextValue::Strings(vec![STORE_OPTION.to_owned()]));
    error.insert(ContextKind::Usage, ContextValue::StyledStr(command.clone().render_usage()));
    error
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The subcommands after `build`.
    fn subcommands() -> Vec<Command> {
        let mut command = command();
        command.build();
        command.get_subcommands().filter(|command| command.get_name() != "help").cloned().collect()
    }

    #[test]
    fn the_interval_of_collections_is_an_option_of_the_store() {
        let parse = |given: &[&str]| {
            let words = ["memory-tool", "run", "--store", "in-process:"].into_iter().chain(given.iter().copied());
            let Action::Run(arguments) = Arguments::try_parse_from(words)?.action else { panic!("it is `run`") };
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
                // `conformance` and `copy` have a different `store`.
                let is_of_store = ["store", "timeout"].iter().any(|id| argument.get_id() == id);
                let is_own = is_of_store && ["conformance", "copy"].contains(&command.get_name());
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
                "completions" | "conformance" | "copy" | "keygen" | "man" | "token" => None,
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
