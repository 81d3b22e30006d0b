//! The groups of options that several commands have.
//!
//! clap puts every argument under the last heading that was set before it. So a command's own arguments come first, and
//! flattened groups with a heading come last: `StoreArgument`, `MemoryArgument`, `Encryption`, `Policies`.

pub mod encryption;
pub(crate) mod policies;
pub mod values;

use std::env;
use std::ffi::OsStr;
use std::io::{self, IsTerminal as _};

use clap::builder::{OsStringValueParser, TypedValueParser};
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::parser::ValueSource;
use clap::{Arg, Args, Command, ValueHint};
use memory_tool::command::DEFAULT_MAX_VIEW_CHARACTERS;
use memory_tool::store::DEFAULT_TIMEOUT;
use memory_tool::{Actor, MemoryOptions, StoreUrl};

use crate::memory;
use crate::options::encryption::Encryption;
use crate::options::policies::Policies;
use crate::options::values::{Age, ViewCap};

/// The environment variable with the default of `--store`.
pub(crate) const STORE_VARIABLE: &str = "MEMORY_TOOL_STORE";

/// The environment variable with the default of `--actor`.
pub(crate) const ACTOR_VARIABLE: &str = "MEMORY_TOOL_ACTOR";

/// The environment variables with the user's name, on different systems.
const USER_VARIABLES: [&str; 3] = ["USER", "LOGNAME", "USERNAME"];

/// The option as clap prints it.
pub(crate) const STORE_OPTION: &str = "--store <URL>";

/// Whether `create` overwrites (`[C2]`).
#[derive(Args, Clone, Copy, Debug, Default)]
pub(crate) struct OverwritesArgument {
    /// Let `create` overwrite an existing file
    #[arg(long)]
    pub(crate) create_overwrites: bool,
}

/// The actor of changes.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct ActorArgument {
    /// The name of the user or agent, for the history and the audit log
    ///
    /// The default is the environment variable MEMORY_TOOL_ACTOR, and at a terminal the user's name.
    #[arg(long, value_name = "NAME", value_parser = Actor::from_trusted_name)]
    #[arg(env = ACTOR_VARIABLE, hide_env = true)] // it would need a line of the short help
    actor: Option<Actor>,

    /// Why the memory is changed, for the history
    ///
    /// It is one line of at most 500 characters.
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
}

impl ActorArgument {
    pub(crate) fn actor(&self) -> Option<Actor> {
        let is_person = self.reason.is_some() || io::stdin().is_terminal() || io::stdout().is_terminal();
        let actor = self.actor.clone().or_else(|| is_person.then(user).flatten())?;
        Some(self.reason.iter().fold(actor, |actor, reason| actor.because(reason)))
    }
}

/// The user's name.
fn user() -> Option<Actor> {
    let mut names = USER_VARIABLES.into_iter().filter_map(|variable| env::var(variable).ok());
    names.find_map(|name| Actor::from_trusted_name(&name).ok())
}

/// Whether a program that serves agents starts histories.
#[cfg(any(feature = "mcp", feature = "server"))]
#[derive(Args, Clone, Copy, Debug, Default)]
pub(crate) struct NoHistoryArgument {
    /// Do not start a history
    ///
    /// Without this option, changes are kept, for `memory-tool log` and `undo`. A history that exists is continued.
    #[arg(long, conflicts_with_all = ["history", "history_age"])]
    pub(crate) no_history: bool,
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

/// The choice of all memories.
#[derive(Args, Clone, Copy, Debug)]
pub(crate) struct AllArgument {
    /// Go over all memories that `memory-tool memories` lists
    ///
    /// Each has a heading, or the field memory in its line of JSON. A failure does not stop the others.
    #[arg(long)]
    pub(crate) all: bool,
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

pub fn store_url_parser() -> impl TypedValueParser<Value = StoreUrl> {
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
