//! [`Policies`]: what a memory may hold, and who may reach it, as the command line says.

use std::io;
use std::path::PathBuf;
use std::str::FromStr;

use clap::{Args, ValueEnum};
use memory_tool_core::{BoxError, Engine, InMemoryStore, MemoryPath, MemoryTool, Node, OpenMode, Store};
use memory_tool_policies::{
    Actor, AuditedStore, AuditedTool, Detector, ExpiringStore, ExpiringStoreBuilder, JsonLinesLog, LimitedStore,
    Limits, MountedStore, ObservedStore, ObservedTool, ReadOnlyStore, Scope, ScopedStore, ScreenedStore, SensitiveData,
};
use memory_tool_url::StoreUrl;
use tracing_subscriber::filter::LevelFilter;

use crate::arguments::Age;
use crate::encryption::Encryption;
use crate::failure::Failure;
use crate::store_url;
use crate::transfer::{Place, Rehearsal};

/// What is told of the store in the log.
const STORE_IN_LOG: &str = "memory";

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
    /// The limits; `None` where there are none.
    fn limits(self) -> Option<Limits> {
        let Self { limits, max_file_bytes, max_files, max_bytes, max_depth } = self;
        let beside = if limits { Limits::default() } else { Limits::none() };
        let limits = beside
            .with_file_bytes(max_file_bytes.or(beside.file_bytes))
            .with_files(max_files.or(beside.files))
            .with_bytes(max_bytes.or(beside.bytes))
            .with_depth(max_depth.or(beside.depth));
        (limits != Limits::none()).then_some(limits)
    }
}

/// Where changes are recorded, and as whose.
struct Audit {
    log: JsonLinesLog,
    actor: Actor,
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
        Ok(Self { point: point.parse()?, url: store_url::parse(url.as_ref())? })
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

/// How a subcommand opens its stores.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Access {
    /// In this mode.
    Mode(OpenMode),
    /// For a dry run: stores are read, and changes are only pretended. One that does not exist is taken for empty.
    Rehearse,
}

impl Access {
    async fn open(self, url: &StoreUrl, encryption: &Encryption) -> Result<Box<dyn Store>, Failure> {
        match self {
            Self::Mode(mode) => store_url::open(url, encryption, mode).await,
            Self::Rehearse => {
                let store: Box<dyn Store> = match store_url::open(url, encryption, OpenMode::ReadOnly).await {
                    Err(Failure::NotFound { .. }) => Box::new(InMemoryStore::new()),
                    opened => opened?,
                };
                Ok(Box::new(Rehearsal::of(store).await.map_err(Failure::Writing)?))
            }
        }
    }

    fn may_create(self) -> bool {
        matches!(self, Self::Mode(OpenMode::Create) | Self::Rehearse)
    }
}

impl Policies {
    /// The tool over the store, which is opened and decrypted, with the policies over it.
    pub(crate) async fn open_tool(
        &self,
        url: &StoreUrl,
        encryption: &Encryption,
        mode: OpenMode,
        build: impl FnOnce(Box<dyn Store>) -> Engine<Box<dyn Store>>,
    ) -> Result<Box<dyn MemoryTool>, Failure> {
        let audit = self.audit().await?; // first, so that nothing is done which nobody records
        let engine = build(self.open_store(url, encryption, audit.as_ref(), Access::Mode(mode)).await?);
        let tool: Box<dyn MemoryTool> = match audit {
            Some(Audit { log, actor }) => {
                let audited = AuditedTool::new(engine, log, actor);
                Box::new(if self.audit_views { audited.with_views() } else { audited })
            }
            None => Box::new(engine),
        };
        Ok(self.observe_tool(tool))
    }

    /// The store that files are put into without the tool, with the policies over it. What is only rehearsed is not recorded.
    ///
    /// # Errors
    /// [`Failure::NothingKept`] where files would be put into what ends with this process, besides those of opening.
    pub(crate) async fn open_for(
        &self,
        url: &StoreUrl,
        encryption: &Encryption,
        access: Access,
    ) -> Result<Box<dyn Store>, Failure> {
        self.mount.iter().map(|mount| &mount.url).chain([url]).try_for_each(store_url::refuse_temporary)?;
        let audit = match access {
            Access::Mode(_) => self.audit().await?,
            Access::Rehearse => None,
        };
        if let Some(logged) = self.log {
            start_log(logged);
        }
        self.open_store(url, encryption, audit.as_ref(), access).await
    }

    /// The store, opened and decrypted, with the policies over it, in the order of `docs/production.md`. Audit is over mounts, so that the
    /// log has every change under the path that Claude gave, and under screening, so that it has the digest of what is kept. What is
    /// mounted has policies of its own, or none.
    async fn open_store(
        &self,
        url: &StoreUrl,
        encryption: &Encryption,
        audit: Option<&Audit>,
        access: Access,
    ) -> Result<Box<dyn Store>, Failure> {
        // First those that must exist, so that no other is created for nothing.
        let read_only = open_all(&self.mount_read_only, encryption, Access::Mode(OpenMode::ReadOnly)).await?;
        let own = self.own_access(access);
        let store = own.open(url, encryption).await?;
        if !own.may_create() {
            find_scope(self.scope.as_ref(), &*store, url).await?;
        }
        let mut store = in_scope(self.scope.as_ref(), self.observe_store(store));
        if let Some(idle_time) = self.expire_after {
            store = Box::new(expiring(store, idle_time, &self.pin)?);
        }
        if let Some(limits) = self.limits.limits() {
            store = Box::new(LimitedStore::new(store, limits));
        }
        if self.read_only {
            store = Box::new(ReadOnlyStore::new(store));
        }
        store = mounted(store, read_only, open_all(&self.mount, encryption, access).await?)?;
        if let Some(Audit { log, actor }) = audit {
            store = Box::new(AuditedStore::new(store, log.clone(), actor.clone()));
        }
        Ok(match self.screening() {
            Some(screen) => Box::new(ScreenedStore::new(store, screen)),
            None => store,
        })
    }

    /// How the store itself is opened, whatever is mounted in it. One that is only read is not written, unless the reads are to be
    /// recorded for the expiry of files.
    fn own_access(&self, access: Access) -> Access {
        match access {
            Access::Mode(mode) if self.read_only || mode == OpenMode::ReadOnly => {
                Access::Mode(match self.expire_after {
                    None => OpenMode::ReadOnly,
                    Some(_) => OpenMode::Existing,
                })
            }
            access => access,
        }
    }

    async fn audit(&self) -> Result<Option<Audit>, Failure> {
        let (Some(file), Some(actor)) = (&self.audit_log, &self.actor) else { return Ok(None) };
        let log = JsonLinesLog::builder(file).sync(self.audit_sync).open().await;
        Ok(Some(Audit { log: log.map_err(Failure::AuditLog)?, actor: actor.clone() }))
    }

    /// Where files lie that are changed when this store is: in it, and in those that are mounted.
    pub(crate) fn changed_places(&self, url: &StoreUrl) -> impl Iterator<Item = Place> {
        let mounted = self.mount.iter().filter_map(|mount| Place::of(&mount.url, None));
        Place::of(url, self.scope.as_ref()).into_iter().chain(mounted)
    }

    /// What keeps sensitive data out, if anything does.
    pub(crate) fn screening(&self) -> Option<SensitiveData> {
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

    fn observe_store(&self, store: Box<dyn Store>) -> Box<dyn Store> {
        if self.log != Some(Logged::Operations) {
            return store;
        }
        let observed = ObservedStore::new(store, STORE_IN_LOG);
        Box::new(if self.log_paths { observed.with_paths() } else { observed })
    }

    fn observe_tool(&self, tool: Box<dyn MemoryTool>) -> Box<dyn MemoryTool> {
        let Some(logged) = self.log else { return tool };
        start_log(logged);
        let observed = ObservedTool::new(tool, STORE_IN_LOG);
        Box::new(if self.log_paths { observed.with_paths() } else { observed })
    }
}

/// A store, and where it is mounted.
type Opened = (MemoryPath, Box<dyn Store>);

async fn open_all(mounts: &[Mount], encryption: &Encryption, access: Access) -> Result<Vec<Opened>, Failure> {
    let mut opened = Vec::new();
    for Mount { point, url } in mounts {
        opened.push((point.clone(), access.open(url, encryption).await?));
    }
    Ok(opened)
}

fn mounted(store: Box<dyn Store>, read_only: Vec<Opened>, writable: Vec<Opened>) -> Result<Box<dyn Store>, Failure> {
    if read_only.is_empty() && writable.is_empty() {
        return Ok(store);
    }
    let mut builder = MountedStore::builder(store);
    for (point, store) in writable {
        builder = builder.mount(point, store);
    }
    for (point, store) in read_only {
        builder = builder.mount_read_only(point, store);
    }
    Ok(Box::new(builder.build().map_err(Failure::Mount)?))
}

/// Fails if the store holds no file of the scope.
pub(crate) async fn find_scope(scope: Option<&Scope>, store: &dyn Store, url: &StoreUrl) -> Result<(), Failure> {
    let Some(scope) = scope else { return Ok(()) };
    match store.read(scope.directory()).await {
        Ok(Node::Absent) => Err(Failure::NotFound { what: format!("scope {scope} in {url}") }),
        // If that cannot be known, the first command says why.
        Ok(_) | Err(_) => Ok(()),
    }
}

/// The part of the store that belongs to a scope, if there is one.
pub(crate) fn in_scope(scope: Option<&Scope>, store: Box<dyn Store>) -> Box<dyn Store> {
    match scope {
        Some(scope) => Box::new(ScopedStore::new(store, scope.clone())),
        None => store,
    }
}

/// The store, whose files expire.
pub(crate) fn expiring(
    store: Box<dyn Store>,
    idle_time: Age,
    pinned: &[MemoryPath],
) -> Result<ExpiringStore<Box<dyn Store>>, Failure> {
    let builder = ExpiringStore::builder(store, idle_time.0);
    pinned.iter().cloned().fold(builder, ExpiringStoreBuilder::pin).build().map_err(Failure::Expiry)
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
