//! [`Policies`]: the options of the policies.

use std::path::PathBuf;
use std::str::FromStr;

use clap::builder::{PossibleValuesParser, TypedValueParser as _};
use clap::{Args, ValueHint};
use memory_tool::policies::{Detector, Scope, UnknownKind};
use memory_tool::proposals::ProposalName;
use memory_tool::{BoxError, LogDetail, MemoryBuilder, MemoryOptions, MemoryPath, Screening, StoreUrl};

use crate::failure::Failure;
use crate::memory;
use crate::options::ActorArgument;
use crate::options::values::{Age, by_name, host_path, memory_path};

/// The options of the policies.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Policies")]
pub(crate) struct Policies {
    /// Work only in the part of the store that belongs to tenant NAME
    #[arg(long, value_name = "NAME", value_parser = Scope::from_trusted_name)]
    pub(crate) scope: Option<Scope>,

    /// Refuse every change
    #[arg(long)]
    read_only: bool,

    /// Mount another store at PATH under /memories; may be repeated
    ///
    /// It can be read and changed. The encryption options apply to it as to --store.
    #[arg(long, value_name = "PATH=URL")]
    mount: Vec<Mount>,

    /// Mount another store for reading only; may be repeated
    #[arg(long, value_name = "PATH=URL")]
    mount_read_only: Vec<Mount>,

    /// Limit the memory to sizes that suit an agent
    ///
    /// The limits are 102,400 bytes a file, 2,000 files, 16 MiB in all files together, and 8 levels of directories.
    /// --max-file-bytes, --max-files, --max-bytes and --max-depth each replace one of them, or set it without --limits.
    #[arg(long)]
    limits: bool,

    /// Limit each file to N bytes
    #[arg(long, value_name = "N")]
    max_file_bytes: Option<u64>,

    /// Limit the memory to N files
    #[arg(long, value_name = "N")]
    max_files: Option<u64>,

    /// Limit all files together to N bytes
    #[arg(long, value_name = "N")]
    max_bytes: Option<u64>,

    /// Limit paths to N levels; /memories/a.txt has one
    #[arg(long, value_name = "N")]
    max_depth: Option<u64>,

    /// Keep a history of all changes, for `memory-tool log` and `undo`
    ///
    /// Later openings of the memory continue it without this option.
    #[arg(long)]
    history: bool,

    /// Keep a history, and remove its entries after AGE, such as 90d
    ///
    /// Entries are removed 64 at once, with later changes.
    #[arg(long, value_name = "AGE")]
    history_age: Option<Age>,

    /// Hide files that are not read or written for AGE, such as 90d
    ///
    /// AGE is a whole number with a unit, such as 90s, 15m, 24h or 90d. `memory-tool expire` removes the files.
    #[arg(long, value_name = "AGE")]
    expire_after: Option<Age>,

    /// Never hide this file or directory; may be repeated
    #[arg(long, value_name = "PATH", requires = "expire_after", value_parser = memory_path)]
    #[arg(value_hint = ValueHint::Other)]
    pin: Vec<MemoryPath>,

    /// Block secrets: refuse the text, or redact them
    ///
    /// Secrets are passwords, tokens, keys and payment card numbers. `redact` replaces each with a mark. Published
    /// sample values and placeholders are allowed, such as AKIAIOSFODNN7EXAMPLE, PASSWORD=changeme and test card
    /// numbers.
    #[arg(long, value_name = "refuse|redact", hide_possible_values = true)]
    #[arg(value_parser = names(&["refuse", "redact"]).try_map(|name| by_name::<Screening>(&name)))]
    screen: Option<Screening>,

    /// Block data of this KIND as well; may be repeated
    ///
    /// KIND is a name such as e-mail-address, phone-number or iban, or `personal` for all personal data.
    #[arg(long, value_name = "KIND", requires = "screen")]
    screen_also: Vec<Kind>,

    /// Record each change in FILE, before and after it is made
    ///
    /// Each line is one JSON value with the actor, the time, the command and digests. A change that cannot be recorded
    /// is not made. Files that --expire-after removes are not recorded.
    #[arg(long, value_name = "FILE", requires = "actor", value_parser = host_path())]
    audit_log: Option<PathBuf>,

    #[command(flatten)]
    actor: ActorArgument,

    /// Let changes wait in the proposal NAME until a person takes them
    ///
    /// Only sessions with this option see the changes. Mounted memories are read-only, and no file expires.
    #[arg(long, value_name = "NAME")]
    propose: Option<ProposalName>,

    /// Let changes of this path count at once; may be repeated
    #[arg(long, value_name = "PATH", requires = "propose", value_parser = memory_path)]
    propose_except: Vec<MemoryPath>,

    /// Let texts count at once unless more than LINES lines change
    ///
    /// The lines are of one command. Removed and renamed files wait.
    #[arg(long, value_name = "LINES", requires = "propose", value_parser = clap::value_parser!(u32).range(1..))]
    propose_over: Option<u32>,

    /// Record views in the audit log as well
    #[arg(long, requires = "audit_log")]
    audit_views: bool,

    /// Wait until each audit record is on the disk
    #[arg(long, requires = "audit_log")]
    audit_sync: bool,

    /// Log commands, or store operations as well, to standard error
    ///
    /// Each line is one JSON value, without contents of files.
    #[arg(long, value_name = "commands|operations", hide_possible_values = true)]
    #[arg(value_parser = names(&["commands", "operations"]).try_map(|name| by_name::<LogDetail>(&name)))]
    log: Option<LogDetail>,

    /// Log paths as well
    #[arg(long, requires = "log")]
    log_paths: bool,
}

/// Accepts these names, which shells complete.
fn names(names: &[&'static str]) -> PossibleValuesParser {
    names.to_vec().into()
}

/// Another store and its mount point.
#[derive(Clone, Debug)]
struct Mount {
    point: MemoryPath,
    url: StoreUrl,
}

impl FromStr for Mount {
    type Err = BoxError;

    fn from_str(given: &str) -> Result<Self, Self::Err> {
        let (point, url) = given.split_once('=').ok_or("expected PATH=URL")?;
        Ok(Self { point: memory_path(point)?, url: memory::parse_url(url.as_ref())? })
    }
}

/// A kind of sensitive data, or a group of them.
#[derive(Clone, Copy, Debug)]
struct Kind(&'static [Detector]);

impl FromStr for Kind {
    type Err = UnknownKind;

    fn from_str(given: &str) -> Result<Self, Self::Err> {
        Detector::of_kind(given).map(Self)
    }
}

impl Policies {
    /// Sets the options of the policies.
    pub(crate) fn set(&self, options: &mut MemoryOptions) {
        let mounts =
            |mounts: &[Mount]| mounts.iter().map(|Mount { point, url }| (point.clone(), url.clone())).collect();
        options.scope.clone_from(&self.scope);
        options.read_only |= self.read_only;
        options.mounts = mounts(&self.mount);
        options.read_only_mounts = mounts(&self.mount_read_only);
        options.limits = self.limits;
        options.max_file_bytes = self.max_file_bytes;
        options.max_files = self.max_files;
        options.max_bytes = self.max_bytes;
        options.max_depth = self.max_depth;
        options.history = self.history;
        options.history_age = self.history_age.map(|age| age.0);
        options.expire_after = self.expire_after.map(|age| age.0);
        options.pins.clone_from(&self.pin);
        options.screen = self.screen;
        options.screen_also = self.screen_also.iter().flat_map(|kind| kind.0).copied().collect();
        options.audit_log.clone_from(&self.audit_log);
        options.actor = self.actor.actor();
        options.propose.clone_from(&self.propose);
        options.propose_except.clone_from(&self.propose_except);
        options.propose_over = self.propose_over.map(|lines| lines as usize);
        options.audit_views = self.audit_views;
        options.audit_sync = self.audit_sync;
        options.log = self.log;
        options.log_paths = self.log_paths;
    }

    /// Returns an error if files would be written to an in-process store.
    pub(crate) fn refuse_temporary(&self, url: &StoreUrl) -> Result<(), Failure> {
        self.mount.iter().map(|mount| &mount.url).chain([url]).try_for_each(memory::refuse_temporary)
    }

    /// The memories that change when this one is written: itself and its mounts.
    pub(crate) fn changed_memories(&self, url: &StoreUrl) -> impl Iterator<Item = MemoryBuilder> {
        let mounted = self.mount.iter().map(|mount| memory::scoped(&mount.url, None));
        [memory::scoped(url, self.scope.as_ref())].into_iter().chain(mounted)
    }
}
