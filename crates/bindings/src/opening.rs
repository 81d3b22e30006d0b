//! [`Opening`]: the location and the options of a memory. `crates/python/python/memory_tool/options.py` and
//! `crates/node/ts/options.ts` describe them.

use std::io;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use memory_tool::policies::{Actor, Detector, JsonLinesLog, Scope, SensitiveData, default_quota};
use memory_tool::{
    DEFAULT_MAX_VIEW_CHARACTERS, Memory, MemoryBuilder, MemoryPath, OpenMode, OpenOptions, Quota, Store,
};
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::{Layer as _, SubscriberExt as _};
use tracing_subscriber::registry::Registry;
use tracing_subscriber::reload;
use tracing_subscriber::util::SubscriberInitExt as _;

use crate::bounded::Bounded;
use crate::encryption::Encryption;
use crate::errors::CallError;
use crate::given::{Fields, Given, OptionError, Spelling};

/// The name of the memory in the log.
const MEMORY_IN_LOG: &str = "memory";

/// A memory to open.
pub struct Opening {
    location: Location,
    mode: OpenMode,
    deadline: Option<Duration>,
    create_overwrites: bool,
    /// `None` is no limit.
    max_view_characters: Option<usize>,
    scope: Option<Scope>,
    read_only: bool,
    mounts: Vec<(MemoryPath, Location)>,
    read_only_mounts: Vec<(MemoryPath, Location)>,
    quota: Option<Quota>,
    expire_after: Option<Duration>,
    pins: Vec<MemoryPath>,
    screen: Option<SensitiveData>,
    audit: Option<Audit>,
    log: Option<LevelFilter>,
    log_paths: bool,
    encryption: Encryption,
}

/// The location of a memory.
#[derive(Clone)]
#[expect(clippy::exhaustive_enums, reason = "the bindings create it")]
pub enum Location {
    /// A path or URL.
    Url(PathBuf),
    /// An open memory.
    Memory(Arc<dyn Store>),
    /// A store in another language.
    Store(Arc<dyn Store>),
}

/// The audit log.
struct Audit {
    file: PathBuf,
    actor: Actor,
    views: bool,
    sync: bool,
}

impl Opening {
    /// Reads the options. Their names are as `spelling` writes them.
    ///
    /// # Errors
    ///
    /// Fails if an option is unknown, or has an invalid value.
    pub fn parse(location: Location, options: Vec<(String, Given)>, spelling: Spelling) -> Result<Self, OptionError> {
        let mut fields = Fields::new(options, spelling);
        let opening = Self {
            location,
            mode: if fields.flag("must_exist")? { OpenMode::Existing } else { OpenMode::Create },
            deadline: fields.duration("deadline")?,
            create_overwrites: fields.flag("create_overwrites")?,
            max_view_characters: fields
                .get_nullable("max_view_characters")?
                .unwrap_or(Some(DEFAULT_MAX_VIEW_CHARACTERS)),
            scope: scope(&mut fields)?,
            read_only: fields.flag("read_only")?,
            mounts: mounts(&mut fields, "mounts")?,
            read_only_mounts: mounts(&mut fields, "read_only_mounts")?,
            quota: quota(&mut fields)?,
            expire_after: fields.duration("expire_after")?,
            pins: pins(&mut fields)?,
            screen: screen(&mut fields)?,
            audit: audit(&mut fields)?,
            log: log(&mut fields)?,
            log_paths: fields.flag("log_paths")?,
            encryption: Encryption::parse(&mut fields)?,
        };
        fields.require(opening.pins.is_empty() || opening.expire_after.is_some(), "pins", "expire_after")?;
        fields.require(!opening.log_paths || opening.log.is_some(), "log_paths", "log")?;
        fields.finish()?;
        Ok(opening)
    }

    /// Opens the memory.
    ///
    /// # Errors
    ///
    /// Fails if the memory, a mounted one, the audit log or a key cannot be opened.
    pub async fn open(self) -> Result<Memory, CallError> {
        start_log(self.log);
        let options = self.deadline.map_or_else(OpenOptions::new, |deadline| OpenOptions::new().timeout(deadline));
        let keys = &self.encryption;
        let timeout = options.timeout;
        let mut builder = keys.encrypt(self.location.builder(timeout)).await?.options(options.mode(self.mode));
        if let Some(Audit { file, actor, views, sync }) = self.audit {
            let log = JsonLinesLog::builder(file).sync(sync).open().await;
            let log = log.map_err(|error| CallError::Setup("cannot open the audit log", error.into()))?;
            builder = builder.audit(log, actor);
            builder = if views { builder.audit_views() } else { builder };
        }
        // Stores that must exist are opened first: if one is missing, nothing is created.
        for (point, location) in self.read_only_mounts {
            let mounted = keys.encrypt(location.builder(timeout)).await?.options(options.read_only());
            builder = builder.mount_read_only(point, mounted.build().await?.store());
        }
        let mode = if self.read_only { OpenMode::ReadOnly } else { self.mode };
        for (point, location) in self.mounts {
            let mounted = keys.encrypt(location.builder(timeout)).await?.options(options.mode(mode));
            builder = builder.mount(point, mounted.build().await?.store());
        }
        if let Some(scope) = self.scope {
            builder = builder.scope(scope);
        }
        if let Some(quota) = self.quota {
            builder = builder.limits(quota);
        }
        if self.read_only {
            builder = builder.read_only();
        }
        if let Some(idle_time) = self.expire_after {
            builder = self.pins.into_iter().fold(builder.expire_after(idle_time), MemoryBuilder::pin);
        }
        if let Some(screen) = self.screen {
            builder = builder.screen(screen);
        }
        if self.log.is_some() {
            builder = builder.observe(MEMORY_IN_LOG);
        }
        if self.log_paths {
            builder = builder.observe_paths();
        }
        let (overwrites, cap) = (self.create_overwrites, self.max_view_characters);
        let builder = builder.tool_options(move |engine| {
            let engine = engine.create_overwrites(overwrites);
            match cap {
                Some(characters) => engine.max_view_characters(characters),
                None => engine.unlimited_views(),
            }
        });
        Ok(builder.build().await?)
    }
}

impl Location {
    fn builder(self, deadline: Duration) -> MemoryBuilder {
        match self {
            Self::Url(url) => Memory::builder(url),
            Self::Memory(store) => Memory::over(store),
            Self::Store(inner) => Memory::over(Bounded { inner, deadline }),
        }
    }
}

fn scope(fields: &mut Fields) -> Result<Option<Scope>, OptionError> {
    let name = fields.get::<String>("scope")?;
    let scope = name.map(|name| Scope::from_trusted_name(&name)).transpose();
    scope.map_err(|error| fields.invalid("scope", error))
}

fn mounts(fields: &mut Fields, name: &str) -> Result<Vec<(MemoryPath, Location)>, OptionError> {
    let mounts = fields.get::<Vec<(String, Location)>>(name)?.unwrap_or_default();
    let mounts = mounts.into_iter().map(|(point, location)| Ok((path(fields, name, &point)?, location)));
    mounts.collect()
}

fn pins(fields: &mut Fields) -> Result<Vec<MemoryPath>, OptionError> {
    let pins = fields.list::<String>("pins")?;
    pins.iter().map(|pin| path(fields, "pins", pin)).collect()
}

fn path(fields: &Fields, name: &str, given: &str) -> Result<MemoryPath, OptionError> {
    MemoryPath::parse(given).map_err(|error| fields.invalid(name, error))
}

fn quota(fields: &mut Fields) -> Result<Option<Quota>, OptionError> {
    let mut quota = if fields.flag("limits")? { default_quota() } else { Quota::new() };
    quota.file_bytes = fields.get("max_file_bytes")?.or(quota.file_bytes);
    quota.files = fields.get("max_files")?.or(quota.files);
    quota.bytes = fields.get("max_bytes")?.or(quota.bytes);
    quota.depth = fields.get("max_depth")?.or(quota.depth);
    Ok((quota != Quota::new()).then_some(quota))
}

fn screen(fields: &mut Fields) -> Result<Option<SensitiveData>, OptionError> {
    let mut also = Vec::new();
    for given in fields.list::<String>("screen_also")? {
        also.extend(detectors(fields, &given)?);
    }
    let builder = SensitiveData::builder();
    let screen = fields.get::<String>("screen")?;
    Ok(match screen.as_deref() {
        None => {
            fields.require(also.is_empty(), "screen_also", "screen")?;
            None
        }
        Some("refuse") => Some(builder.refuse(also).build()),
        Some("redact") => {
            let by_default = Detector::CREDENTIALS.iter().copied().chain([Detector::PaymentCard]);
            Some(builder.redact(by_default.chain(also)).build())
        }
        Some(other) => return Err(fields.invalid("screen", format!("expected 'refuse' or 'redact', got '{other}'"))),
    })
}

/// The detectors of a kind of sensitive data.
fn detectors(fields: &Fields, given: &str) -> Result<Vec<Detector>, OptionError> {
    if given == "personal" {
        return Ok(Detector::PERSONAL.to_vec());
    }
    let kind = |detector: &Detector| detector.name().to_ascii_lowercase().replace(' ', "-");
    let found = Detector::ALL.iter().find(|detector| kind(detector) == given);
    found.map(|detector| vec![*detector]).ok_or_else(|| {
        let kinds: Vec<_> = Detector::ALL.iter().map(kind).collect();
        fields.invalid("screen_also", format!("expected personal, {}", kinds.join(", ")))
    })
}

fn audit(fields: &mut Fields) -> Result<Option<Audit>, OptionError> {
    let (file, actor) = (fields.host_path("audit_log")?, fields.get::<String>("actor")?);
    let (views, sync) = (fields.flag("audit_views")?, fields.flag("audit_sync")?);
    let Some(file) = file else {
        for (is_set, name) in [(actor.is_some(), "actor"), (views, "audit_views"), (sync, "audit_sync")] {
            fields.require(!is_set, name, "audit_log")?;
        }
        return Ok(None);
    };
    fields.require(actor.is_some(), "audit_log", "actor")?;
    let actor = Actor::from_trusted_name(&actor.unwrap_or_default()).map_err(|error| fields.invalid("actor", error))?;
    Ok(Some(Audit { file, actor, views, sync }))
}

fn log(fields: &mut Fields) -> Result<Option<LevelFilter>, OptionError> {
    Ok(match fields.get::<String>("log")?.as_deref() {
        None => None,
        Some("commands") => Some(LevelFilter::INFO),
        Some("operations") => Some(LevelFilter::DEBUG),
        Some(other) => return Err(fields.invalid("log", format!("expected 'commands' or 'operations', got '{other}'"))),
    })
}

/// Logs to standard error. The first memory with a log sets the level of the process. Before that, only the warnings of
/// stores in buckets are logged: they are about background work, which no call reports.
fn start_log(level: Option<LevelFilter>) {
    static FILTER: OnceLock<reload::Handle<Targets, Registry>> = OnceLock::new();
    static LEVEL: OnceLock<LevelFilter> = OnceLock::new();

    let filter = FILTER.get_or_init(|| {
        let of_buckets = Targets::new().with_target("memory_tool_bucket", LevelFilter::WARN);
        let (filter, handle) = reload::Layer::new(of_buckets);
        let lines = tracing_subscriber::fmt::layer().json().with_writer(io::stderr).with_target(false);
        drop(tracing_subscriber::registry().with(lines.with_filter(filter)).try_init());
        handle
    });
    if let Some(level) = level {
        let level = *LEVEL.get_or_init(|| level);
        drop(filter.modify(|filter| *filter = Targets::new().with_default(level)));
    }
}
