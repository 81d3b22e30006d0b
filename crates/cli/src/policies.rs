//! [`Policies`]: what a memory may hold, and who may reach it, as the command line says.

use std::io;
use std::path::PathBuf;
use std::str::FromStr;

use clap::{Args, ValueEnum};
use memory_tool::policies::{Actor, Detector, JsonLinesLog, Scope, SensitiveData, default_quota};
use memory_tool::{BoxError, Memory, MemoryBuilder, MemoryPath, OpenMode, Quota, StoreUrl};
use tracing_subscriber::filter::LevelFilter;

use crate::arguments::values::Age;
use crate::encryption::Encryption;
use crate::failure::Failure;
use crate::memory::{self, Access};

/// What stands for the memory in the log.
const MEMORY_IN_LOG: &str = "memory";

/// What the command line says of the policies. Without any, a memory holds whatever its store can.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Policies")]
pub(crate) struct Policies {
    /// Work in the part of the store that belongs to NAME, such as a tenant; nothing else can be reached
    #[arg(long, value_name = "NAME", value_parser = Scope::from_trusted_name)]
    scope: Option<Scope>,

    /// Refuse every change
    #[arg(long)]
    read_only: bool,

    /// Show another store at PATH beneath /memories, to be read and changed; may be repeated. It is encrypted as --store is
    #[arg(long, value_name = "PATH=URL")]
    mount: Vec<Mount>,

    /// Show another store at PATH, to be read alone; may be repeated
    #[arg(long, value_name = "PATH=URL")]
    mount_read_only: Vec<Mount>,

    #[command(flatten)]
    limits: LimitArguments,

    /// Let files expire that nobody reads or writes for AGE, such as 24h or 90d: they are hidden, and `memory-tool expire` removes them
    #[arg(long, value_name = "AGE")]
    expire_after: Option<Age>,

    /// Never let this file expire, or what is beneath this directory; may be repeated
    #[arg(long, value_name = "PATH", requires = "expire_after")]
    pin: Vec<MemoryPath>,

    /// Block passwords, tokens, keys and payment card numbers: refuse the text, or replace the value with a mark. Published sample
    /// values and placeholders are allowed, such as AKIAIOSFODNN7EXAMPLE, PASSWORD=changeme and test card numbers
    #[arg(long, value_name = "refuse|redact", value_enum, hide_possible_values = true)]
    screen: Option<Screening>,

    /// Keep data of this KIND out as well, such as e-mail-address, iban, or personal for all about people; may be repeated
    #[arg(long, value_name = "KIND", requires = "screen")]
    screen_also: Vec<Kind>,

    /// Record each change in FILE, before it is made and after it: who, when, by which command, digests; one JSON value a line
    #[arg(long, value_name = "FILE", requires = "actor")]
    audit_log: Option<PathBuf>,

    /// Who is at work, for the audit log
    #[arg(long, value_name = "NAME", value_parser = Actor::from_trusted_name, requires = "audit_log")]
    actor: Option<Actor>,

    /// Record views as well
    #[arg(long, requires = "audit_log")]
    audit_views: bool,

    /// Wait until the disk has each record
    #[arg(long, requires = "audit_log")]
    audit_sync: bool,

    /// Tell of each command, or of each operation of the store as well, on the standard error: one JSON value a line, without
    /// contents
    #[arg(long, value_name = "commands|operations", value_enum, hide_possible_values = true)]
    log: Option<Logged>,

    /// Tell the paths, too
    #[arg(long, requires = "log")]
    log_paths: bool,
}

/// How much the memory may hold.
#[derive(Args, Clone, Copy, Debug, Default)]
struct LimitArguments {
    /// Refuse what would let the memory grow beyond the limits that suit an agent: 102,400 bytes a file, 2,000 files, 16 MiB, 8 levels
    #[arg(long)]
    limits: bool,

    /// Refuse what would make a file longer than N bytes
    #[arg(long, value_name = "N")]
    max_file_bytes: Option<u64>,

    /// Refuse what would make more files than N
    #[arg(long, value_name = "N")]
    max_files: Option<u64>,

    /// Refuse what would let all files together have more than N bytes
    #[arg(long, value_name = "N")]
    max_bytes: Option<u64>,

    /// Refuse what would put a file deeper than N levels; /memories/a.txt has one
    #[arg(long, value_name = "N")]
    max_depth: Option<u64>,
}

impl LimitArguments {
    /// The quota; `None` without limits.
    fn quota(self) -> Option<Quota> {
        let Self { limits, max_file_bytes, max_files, max_bytes, max_depth } = self;
        let mut quota = if limits { default_quota() } else { Quota::new() };
        quota.file_bytes = max_file_bytes.or(quota.file_bytes);
        quota.files = max_files.or(quota.files);
        quota.bytes = max_bytes.or(quota.bytes);
        quota.depth = max_depth.or(quota.depth);
        (quota != Quota::new()).then_some(quota)
    }
}

/// Another store, and where it is shown.
#[derive(Clone, Debug)]
struct Mount {
    point: MemoryPath,
    url: StoreUrl,
}

impl FromStr for Mount {
    type Err = BoxError;

    fn from_str(given: &str) -> Result<Self, Self::Err> {
        let (point, url) = given.split_once('=').ok_or("it is not of the form PATH=URL")?;
        Ok(Self { point: point.parse()?, url: memory::parse_url(url.as_ref())? })
    }
}

/// What becomes of a text that holds what is to be kept out.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
enum Screening {
    Refuse,
    Redact,
}

/// One kind of sensitive data, or several that have one name.
#[derive(Clone, Copy, Debug)]
struct Kind(&'static [Detector]);

impl FromStr for Kind {
    type Err = String;

    fn from_str(given: &str) -> Result<Self, Self::Err> {
        if given == "personal" {
            return Ok(Self(Detector::PERSONAL));
        }
        let kind = |detector: &Detector| detector.name().to_ascii_lowercase().replace(' ', "-");
        let found = Detector::ALL.iter().find(|detector| kind(detector) == given);
        found.map(|detector| Self(std::slice::from_ref(detector))).ok_or_else(|| {
            let kinds: Vec<_> = Detector::ALL.iter().map(kind).collect();
            format!("it is none of personal, {}", kinds.join(", "))
        })
    }
}

/// What is told.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
enum Logged {
    Commands,
    Operations,
}

impl Policies {
    /// Opens the memory at a URL with the policies over it. `configure` sets what is not a policy.
    pub(crate) async fn open(
        &self,
        url: &StoreUrl,
        encryption: &Encryption,
        access: Access,
        configure: impl FnOnce(MemoryBuilder) -> MemoryBuilder,
    ) -> Result<Memory, Failure> {
        if let Some(logged) = self.log {
            start_log(logged);
        }
        let mut builder = memory::builder(url, encryption, access).await?;
        builder = self.audit(builder, access).await?; // before anything is opened: nothing is done that nobody records
        builder = self.mount(builder, encryption, access).await?;
        if let Some(scope) = &self.scope {
            builder = builder.scope(scope.clone());
        }
        if let Some(quota) = self.limits.quota() {
            builder = builder.limits(quota);
        }
        if self.read_only {
            builder = builder.read_only();
        }
        if let Some(idle_time) = self.expire_after {
            builder = self.pin.iter().cloned().fold(builder.expire_after(idle_time.0), MemoryBuilder::pin);
        }
        if let Some(screen) = self.screening() {
            builder = builder.screen(screen);
        }
        if self.log.is_some() {
            builder = builder.observe(MEMORY_IN_LOG);
        }
        if self.log_paths {
            builder = builder.observe_paths();
        }
        memory::open(configure(builder)).await
    }

    /// A dry run is not recorded.
    async fn audit(&self, builder: MemoryBuilder, access: Access) -> Result<MemoryBuilder, Failure> {
        let (Some(file), Some(actor)) = (&self.audit_log, &self.actor) else { return Ok(builder) };
        if access == Access::DryRun {
            return Ok(builder);
        }
        let log = JsonLinesLog::builder(file).sync(self.audit_sync).open().await.map_err(Failure::AuditLog)?;
        let builder = builder.audit(log, actor.clone());
        Ok(if self.audit_views { builder.audit_views() } else { builder })
    }

    /// What is mounted has policies of its own, or none.
    async fn mount(
        &self,
        mut builder: MemoryBuilder,
        encryption: &Encryption,
        access: Access,
    ) -> Result<MemoryBuilder, Failure> {
        let access = match access {
            Access::Mode(_) if self.read_only => Access::Mode(OpenMode::ReadOnly),
            access => access,
        };
        // First those that must exist, so that no other is created for nothing.
        for Mount { point, url } in &self.mount_read_only {
            let mounted = memory::builder(url, encryption, Access::Mode(OpenMode::ReadOnly)).await?;
            builder = builder.mount_read_only(point.clone(), memory::open(mounted).await?.store());
        }
        for Mount { point, url } in &self.mount {
            let mounted = memory::builder(url, encryption, access).await?;
            builder = builder.mount(point.clone(), memory::open(mounted).await?.store());
        }
        Ok(builder)
    }

    /// Fails where files would be put into what ends with this process.
    pub(crate) fn refuse_temporary(&self, url: &StoreUrl) -> Result<(), Failure> {
        self.mount.iter().map(|mount| &mount.url).chain([url]).try_for_each(memory::refuse_temporary)
    }

    /// The memories whose files change when this one is written: itself, and those that are mounted.
    pub(crate) fn changed_memories(&self, url: &StoreUrl) -> impl Iterator<Item = MemoryBuilder> {
        let mounted = self.mount.iter().map(|mount| memory::scoped(&mount.url, None));
        [memory::scoped(url, self.scope.as_ref())].into_iter().chain(mounted)
    }

    /// What keeps sensitive data out, if anything does.
    fn screening(&self) -> Option<SensitiveData> {
        let also = self.screen_also.iter().flat_map(|kind| kind.0).copied();
        let builder = SensitiveData::builder();
        Some(match self.screen? {
            Screening::Refuse => builder.refuse(also).build(),
            Screening::Redact => {
                let by_default = Detector::CREDENTIALS.iter().copied().chain([Detector::PaymentCard]);
                builder.redact(by_default.chain(also)).build()
            }
        })
    }
}

/// Writes what is told to the standard error from now on.
fn start_log(logged: Logged) {
    let level = match logged {
        Logged::Commands => LevelFilter::INFO,
        Logged::Operations => LevelFilter::DEBUG,
    };
    let log = tracing_subscriber::fmt().json().with_writer(io::stderr).with_max_level(level).with_target(false);
    // There is one, and one of these: it was not set before.
    drop(log.try_init());
}
