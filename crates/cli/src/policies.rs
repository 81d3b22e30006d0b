//! [`Policies`]: the options of the policies.

use std::io;
use std::path::PathBuf;
use std::str::FromStr;

use clap::{Args, ValueEnum};
use memory_tool::policies::{Actor, Detector, JsonLinesLog, Scope, SensitiveData, default_quota};
use memory_tool::{BoxError, Memory, MemoryBuilder, MemoryPath, OpenMode, OpenOptions, Quota, StoreUrl};
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::{Layer as _, SubscriberExt as _};
use tracing_subscriber::util::SubscriberInitExt as _;

use crate::arguments::host_path;
use crate::arguments::values::Age;
use crate::encryption::Encryption;
use crate::failure::Failure;
use crate::memory::{self, Access};

/// The name of the memory in the log.
const MEMORY_IN_LOG: &str = "memory";

/// The options of the policies.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Policies")]
pub(crate) struct Policies {
    /// Work only in the part of the store that belongs to tenant NAME
    #[arg(long, value_name = "NAME", value_parser = Scope::from_trusted_name)]
    scope: Option<Scope>,

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

    #[command(flatten)]
    limits: LimitArguments,

    /// Hide files that are not read or written for AGE, such as 90d
    ///
    /// AGE is a whole number with a unit, such as 90s, 15m, 24h or 90d. `memory-tool expire` removes the files.
    #[arg(long, value_name = "AGE")]
    expire_after: Option<Age>,

    /// Never hide this file or directory; may be repeated
    #[arg(long, value_name = "PATH", requires = "expire_after")]
    pin: Vec<MemoryPath>,

    /// Block secrets: refuse the text, or redact them
    ///
    /// Secrets are passwords, tokens, keys and payment card numbers. `redact` replaces each with a mark. Published
    /// sample values and placeholders are allowed, such as AKIAIOSFODNN7EXAMPLE, PASSWORD=changeme and test card
    /// numbers.
    #[arg(long, value_name = "refuse|redact", value_enum, hide_possible_values = true)]
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
    #[arg(long, value_name = "FILE", requires = "actor")]
    #[arg(value_parser = host_path())]
    audit_log: Option<PathBuf>,

    /// The name of the user or agent for the audit log
    #[arg(long, value_name = "NAME", value_parser = Actor::from_trusted_name, requires = "audit_log")]
    actor: Option<Actor>,

    /// Record views in the audit log as well
    #[arg(long, requires = "audit_log")]
    audit_views: bool,

    /// Wait until each audit record is on the disk
    #[arg(long, requires = "audit_log")]
    audit_sync: bool,

    /// Log commands, or store operations as well, to standard error
    ///
    /// Each line is one JSON value, without contents of files.
    #[arg(long, value_name = "commands|operations", value_enum, hide_possible_values = true)]
    log: Option<LogDetail>,

    /// Log paths as well
    #[arg(long, requires = "log")]
    log_paths: bool,
}

/// The options of the limits.
#[derive(Args, Clone, Copy, Debug, Default)]
struct LimitArguments {
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
}

impl LimitArguments {
    /// The quota, if there are limits.
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
        Ok(Self { point: point.parse()?, url: memory::parse_url(url.as_ref())? })
    }
}

/// The treatment of sensitive data.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
enum Screening {
    Refuse,
    Redact,
}

/// A kind of sensitive data, or a group of them.
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
            format!("expected one of personal, {}", kinds.join(", "))
        })
    }
}

/// The detail of the log.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
enum LogDetail {
    Commands,
    Operations,
}

impl Policies {
    /// Opens the memory at a URL with the policies. `configure` sets all other options.
    pub(crate) async fn open(
        &self,
        url: &StoreUrl,
        encryption: &Encryption,
        access: Access,
        options: OpenOptions,
        configure: impl FnOnce(MemoryBuilder) -> MemoryBuilder,
    ) -> Result<Memory, Failure> {
        if let Some(detail) = self.log {
            start_log(detail);
        }
        let mut builder = memory::builder(url, encryption, access, options).await?;
        builder = self.audit(builder, access).await?; // first, so that nothing happens without a record
        builder = self.mount(builder, encryption, access, options).await?;
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

    /// Adds the audit log, unless this is a dry run.
    async fn audit(&self, builder: MemoryBuilder, access: Access) -> Result<MemoryBuilder, Failure> {
        let (Some(file), Some(actor)) = (&self.audit_log, &self.actor) else { return Ok(builder) };
        if matches!(access, Access::DryRun { .. }) {
            return Ok(builder);
        }
        let log = JsonLinesLog::builder(file).sync(self.audit_sync).open().await.map_err(Failure::AuditLog)?;
        let builder = builder.audit(log, actor.clone());
        Ok(if self.audit_views { builder.audit_views() } else { builder })
    }

    /// Adds the mounts. The policies do not apply to mounted stores.
    async fn mount(
        &self,
        mut builder: MemoryBuilder,
        encryption: &Encryption,
        access: Access,
        options: OpenOptions,
    ) -> Result<MemoryBuilder, Failure> {
        let access = match access {
            Access::Mode(_) if self.read_only => Access::Mode(OpenMode::ReadOnly),
            access => access,
        };
        // Stores that must exist are opened first: if one is missing, nothing is created.
        for Mount { point, url } in &self.mount_read_only {
            let mounted = memory::builder(url, encryption, Access::Mode(OpenMode::ReadOnly), options).await?;
            builder = builder.mount_read_only(point.clone(), memory::open(mounted).await?.store());
        }
        for Mount { point, url } in &self.mount {
            let mounted = memory::builder(url, encryption, access, options).await?;
            builder = builder.mount(point.clone(), memory::open(mounted).await?.store());
        }
        Ok(builder)
    }

    /// Whether every change is refused.
    #[cfg(feature = "mcp")]
    pub(crate) fn is_read_only(&self) -> bool {
        self.read_only
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

    /// The screen for sensitive data, if there is one.
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

/// Starts logging to standard error.
fn start_log(detail: LogDetail) {
    let level = match detail {
        LogDetail::Commands => LevelFilter::INFO,
        LogDetail::Operations => LevelFilter::DEBUG,
    };
    let lines = tracing_subscriber::fmt::layer().json().with_writer(io::stderr).with_target(false);
    // rmcp logs whole messages, which contain the contents of files.
    let log = tracing_subscriber::registry()
        .with(lines.with_filter(Targets::new().with_default(level).with_target("rmcp", LevelFilter::OFF)));
    // It fails only if a log was started before, which is not the case.
    drop(log.try_init());
}
