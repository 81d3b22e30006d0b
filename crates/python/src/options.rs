//! [`Opening`]: the location and the options of a memory, as `python/memory_tool/options.py` describes them.

use std::io;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use memory_tool::encrypted::{KeyRing, KeySourceError, Padding, Passphrase, RawKey};
use memory_tool::policies::{Actor, Detector, JsonLinesLog, Scope, SensitiveData, default_quota};
use memory_tool::{
    DEFAULT_MAX_VIEW_CHARACTERS, Memory, MemoryBuilder, MemoryPath, OpenMode, OpenOptions, Quota, Store,
};
use pyo3::conversion::FromPyObjectOwned;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use tracing_subscriber::filter::LevelFilter;

use crate::errors::CallError;
use crate::memory::NativeMemory;
use crate::runtime::Process;
use crate::store::PythonStore;

/// The name of the memory in the log.
const MEMORY_IN_LOG: &str = "memory";

/// A memory to open.
pub(crate) struct Opening {
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
enum Location {
    Url(PathBuf),
    Store(Arc<dyn Store>),
}

/// The audit log.
struct Audit {
    file: PathBuf,
    actor: Actor,
    views: bool,
    sync: bool,
}

/// The keys of a memory. Without a key, it is not encrypted.
struct Encryption {
    key: Option<Key>,
    old_keys: Vec<Key>,
    padding: Padding,
    name: Option<String>,
    old_names: Vec<String>,
    was_unnamed: bool,
}

/// A key or its source.
enum Key {
    Bytes([u8; 32]),
    File(PathBuf),
    Variable(String),
    PassphraseFile(PathBuf),
}

/// The keyword arguments that are not parsed yet.
struct Fields<'py>(Bound<'py, PyDict>);

impl<'py> Fields<'py> {
    /// Takes an argument. `None` is the same as a missing one.
    fn any(&self, name: &str) -> PyResult<Option<Bound<'py, PyAny>>> {
        let value = self.0.get_item(name)?;
        if value.is_some() {
            self.0.del_item(name)?;
        }
        Ok(value.filter(|value| !value.is_none()))
    }

    fn get<T: FromPyObjectOwned<'py>>(&self, name: &str) -> PyResult<Option<T>> {
        let Some(value) = self.any(name)? else { return Ok(None) };
        match value.extract::<T>() {
            Ok(value) => Ok(Some(value)),
            Err(error) => {
                let error: PyErr = error.into();
                Err(PyTypeError::new_err(format!("invalid {name}: {}", error.value(self.0.py()))))
            }
        }
    }

    fn flag(&self, name: &str) -> PyResult<bool> {
        Ok(self.get(name)?.unwrap_or(false))
    }

    fn list<T: FromPyObjectOwned<'py>>(&self, name: &str) -> PyResult<Vec<T>> {
        Ok(self.get(name)?.unwrap_or_default())
    }

    /// A duration, as `timedelta` or in seconds.
    fn duration(&self, name: &str) -> PyResult<Option<Duration>> {
        let Some(value) = self.any(name)? else { return Ok(None) };
        let duration = value.extract::<Duration>().ok();
        let seconds = || Duration::try_from_secs_f64(value.extract::<f64>().ok()?).ok();
        let error = || invalid(name, "expected a timedelta or a number of seconds, not negative");
        duration.or_else(seconds).map(Some).ok_or_else(error)
    }

    fn paths(&self, name: &str) -> PyResult<Vec<MemoryPath>> {
        let paths = self.list::<String>(name)?;
        paths.iter().map(|path| MemoryPath::parse(path).map_err(|error| invalid(name, error))).collect()
    }

    fn finish(self) -> PyResult<()> {
        match self.0.keys().iter().next() {
            Some(name) => Err(PyTypeError::new_err(format!("unknown option {name}"))),
            None => Ok(()),
        }
    }
}

fn invalid(name: &str, reason: impl std::fmt::Display) -> PyErr {
    PyValueError::new_err(format!("invalid {name}: {reason}"))
}

/// An error if an option is set without the one that it needs.
fn require(is_met: bool, option: &str, needed: &str) -> PyResult<()> {
    if is_met { Ok(()) } else { Err(PyValueError::new_err(format!("{option} requires {needed}"))) }
}

impl Opening {
    /// Reads the arguments. Methods of stores in Python that are coroutines run on `event_loop`, if there is one.
    pub(crate) fn parse(
        location: &Bound<'_, PyAny>,
        options: &Bound<'_, PyDict>,
        process: &'static Process,
        event_loop: Option<&Py<PyAny>>,
    ) -> PyResult<Self> {
        let located = |given: &Bound<'_, PyAny>| Location::parse(given, process, event_loop);
        let fields = Fields(options.copy()?);
        let mounts = |name: &str| {
            let Some(given) = fields.any(name)? else { return Ok(Vec::new()) };
            let pairs = if given.hasattr("items")? { given.call_method0("items")? } else { given };
            let pairs = pairs.try_iter()?.map(|pair| pair?.extract::<(String, Bound<'_, PyAny>)>());
            let mount = |pair: PyResult<(String, Bound<'_, PyAny>)>| {
                let (point, given) = pair?;
                let point = MemoryPath::parse(&point).map_err(|error| invalid(name, error))?;
                PyResult::Ok((point, located(&given)?))
            };
            pairs.map(mount).collect::<PyResult<Vec<_>>>()
        };
        let scope = fields.get::<String>("scope")?;
        let opening = Self {
            location: located(location)?,
            mode: if fields.flag("must_exist")? { OpenMode::Existing } else { OpenMode::Create },
            deadline: fields.duration("deadline")?,
            create_overwrites: fields.flag("create_overwrites")?,
            max_view_characters: match fields.0.get_item("max_view_characters")? {
                Some(_) => fields.get("max_view_characters")?,
                None => Some(DEFAULT_MAX_VIEW_CHARACTERS),
            },
            scope: scope
                .map(|name| Scope::from_trusted_name(&name).map_err(|error| invalid("scope", error)))
                .transpose()?,
            read_only: fields.flag("read_only")?,
            mounts: mounts("mounts")?,
            read_only_mounts: mounts("read_only_mounts")?,
            quota: quota(&fields)?,
            expire_after: fields.duration("expire_after")?,
            pins: fields.paths("pins")?,
            screen: screen(&fields)?,
            audit: audit(&fields)?,
            log: log(&fields)?,
            log_paths: fields.flag("log_paths")?,
            encryption: Encryption::parse(&fields)?,
        };
        fields.finish()?;
        require(opening.pins.is_empty() || opening.expire_after.is_some(), "pins", "expire_after")?;
        require(!opening.log_paths || opening.log.is_some(), "log_paths", "log")?;
        Ok(opening)
    }

    /// Opens the memory.
    pub(crate) async fn open(self) -> Result<Memory, CallError> {
        if let Some(level) = self.log {
            start_log(level);
        }
        let options = self.deadline.map_or_else(OpenOptions::new, |deadline| OpenOptions::new().timeout(deadline));
        let keys = &self.encryption;
        let mut builder = keys.encrypt(self.location.builder()).await?.options(options.mode(self.mode));
        if let Some(Audit { file, actor, views, sync }) = self.audit {
            let log = JsonLinesLog::builder(file).sync(sync).open().await;
            let log = log.map_err(|error| CallError::Setup("cannot open the audit log", error.into()))?;
            builder = builder.audit(log, actor);
            builder = if views { builder.audit_views() } else { builder };
        }
        // Stores that must exist are opened first: if one is missing, nothing is created.
        for (point, location) in self.read_only_mounts {
            let mounted = keys.encrypt(location.builder()).await?.options(options.read_only());
            builder = builder.mount_read_only(point, mounted.build().await?.store());
        }
        let mode = if self.read_only { OpenMode::ReadOnly } else { self.mode };
        for (point, location) in self.mounts {
            let mounted = keys.encrypt(location.builder()).await?.options(options.mode(mode));
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
    fn parse(given: &Bound<'_, PyAny>, process: &'static Process, event_loop: Option<&Py<PyAny>>) -> PyResult<Self> {
        if let Ok(path) = given.extract::<PathBuf>() {
            return Ok(Self::Url(path));
        }
        // An open memory of this package.
        if let Ok(memory) = given.getattr("_native").and_then(|native| Ok(native.cast_into::<NativeMemory>()?)) {
            return Ok(Self::Store(memory.get().memory()?.1.store()));
        }
        Ok(Self::Store(Arc::new(PythonStore::new(given, process, event_loop)?)))
    }

    fn builder(self) -> MemoryBuilder {
        match self {
            Self::Url(url) => Memory::builder(url),
            Self::Store(store) => Memory::over(store),
        }
    }
}

fn quota(fields: &Fields<'_>) -> PyResult<Option<Quota>> {
    let mut quota = if fields.flag("limits")? { default_quota() } else { Quota::new() };
    quota.file_bytes = fields.get("max_file_bytes")?.or(quota.file_bytes);
    quota.files = fields.get("max_files")?.or(quota.files);
    quota.bytes = fields.get("max_bytes")?.or(quota.bytes);
    quota.depth = fields.get("max_depth")?.or(quota.depth);
    Ok((quota != Quota::new()).then_some(quota))
}

fn screen(fields: &Fields<'_>) -> PyResult<Option<SensitiveData>> {
    let mut also = Vec::new();
    for given in fields.list::<String>("screen_also")? {
        also.extend(detectors(&given)?);
    }
    let builder = SensitiveData::builder();
    let screen = fields.get::<String>("screen")?;
    Ok(match screen.as_deref() {
        None => {
            require(also.is_empty(), "screen_also", "screen")?;
            None
        }
        Some("refuse") => Some(builder.refuse(also).build()),
        Some("redact") => {
            let by_default = Detector::CREDENTIALS.iter().copied().chain([Detector::PaymentCard]);
            Some(builder.redact(by_default.chain(also)).build())
        }
        Some(other) => return Err(invalid("screen", format!("expected 'refuse' or 'redact', got '{other}'"))),
    })
}

/// The detectors of a kind of sensitive data.
fn detectors(given: &str) -> PyResult<Vec<Detector>> {
    if given == "personal" {
        return Ok(Detector::PERSONAL.to_vec());
    }
    let kind = |detector: &Detector| detector.name().to_ascii_lowercase().replace(' ', "-");
    let found = Detector::ALL.iter().find(|detector| kind(detector) == given);
    found.map(|detector| vec![*detector]).ok_or_else(|| {
        let kinds: Vec<_> = Detector::ALL.iter().map(kind).collect();
        invalid("screen_also", format!("expected personal, {}", kinds.join(", ")))
    })
}

fn audit(fields: &Fields<'_>) -> PyResult<Option<Audit>> {
    let (file, actor) = (fields.get("audit_log")?, fields.get::<String>("actor")?);
    let (views, sync) = (fields.flag("audit_views")?, fields.flag("audit_sync")?);
    let Some(file) = file else {
        require(actor.is_none() && !views && !sync, "actor, audit_views or audit_sync", "audit_log")?;
        return Ok(None);
    };
    require(actor.is_some(), "audit_log", "actor")?;
    let actor = Actor::from_trusted_name(&actor.unwrap_or_default()).map_err(|error| invalid("actor", error))?;
    Ok(Some(Audit { file, actor, views, sync }))
}

fn log(fields: &Fields<'_>) -> PyResult<Option<LevelFilter>> {
    Ok(match fields.get::<String>("log")?.as_deref() {
        None => None,
        Some("commands") => Some(LevelFilter::INFO),
        Some("operations") => Some(LevelFilter::DEBUG),
        Some(other) => return Err(invalid("log", format!("expected 'commands' or 'operations', got '{other}'"))),
    })
}

/// Starts logging to standard error. The first memory with a log sets the level of the process.
fn start_log(level: LevelFilter) {
    let log = tracing_subscriber::fmt().json().with_writer(io::stderr).with_max_level(level).with_target(false);
    drop(log.try_init());
}

impl Encryption {
    fn parse(fields: &Fields<'_>) -> PyResult<Self> {
        let keys = [
            fields.get("key")?.map(Key::Bytes),
            fields.get("key_file")?.map(Key::File),
            fields.get("key_env")?.map(Key::Variable),
            fields.get("passphrase_file")?.map(Key::PassphraseFile),
        ];
        let mut keys = keys.into_iter().flatten();
        let key = keys.next();
        if keys.next().is_some() {
            return Err(PyValueError::new_err("set only one of key, key_file, key_env and passphrase_file"));
        }
        let mut old_keys: Vec<_> = fields.list("old_keys")?.into_iter().map(Key::Bytes).collect();
        old_keys.extend(fields.list("old_key_files")?.into_iter().map(Key::File));
        old_keys.extend(fields.list("old_key_envs")?.into_iter().map(Key::Variable));
        old_keys.extend(fields.list("old_passphrase_files")?.into_iter().map(Key::PassphraseFile));
        let padding = padding(fields)?;
        let (name, old_names) = (fields.get("memory_name")?, fields.list("old_memory_names")?);
        let was_unnamed = fields.flag("memory_was_unnamed")?;
        let is_default =
            old_keys.is_empty() && padding.is_none() && name.is_none() && old_names.is_empty() && !was_unnamed;
        require(key.is_some() || is_default, "an option of encryption", "a key")?;
        require(name.is_some() || !was_unnamed, "memory_was_unnamed", "memory_name")?;
        let padding = padding.unwrap_or(Padding::None);
        Ok(Self { key, old_keys, padding, name, old_names, was_unnamed })
    }

    /// Adds the encryption to a memory, if there is a key.
    async fn encrypt(&self, builder: MemoryBuilder) -> Result<MemoryBuilder, CallError> {
        let Some(key) = &self.key else { return Ok(builder) };
        let failed = |error: KeySourceError| CallError::Setup("cannot read the key", error.into());
        let mut keys = key.add_to(None).await.map_err(failed)?;
        for key in &self.old_keys {
            keys = key.add_to(Some(keys)).await.map_err(failed)?;
        }
        let Self { padding, name, old_names, was_unnamed, .. } = self;
        let (padding, name, old_names, was_unnamed) = (*padding, name.clone(), old_names.clone(), *was_unnamed);
        Ok(builder.encrypt(keys).encryption_options(move |mut encrypted| {
            encrypted = encrypted.padding(padding);
            if let Some(name) = name {
                encrypted = encrypted.name(name);
            }
            for name in &old_names {
                encrypted = encrypted.former_name(Some(name));
            }
            if was_unnamed { encrypted.former_name(None) } else { encrypted }
        }))
    }
}

fn padding(fields: &Fields<'_>) -> PyResult<Option<Padding>> {
    let Some(given) = fields.any("padding")? else { return Ok(None) };
    if given.extract::<String>().is_ok_and(|given| given == "padme") {
        return Ok(Some(Padding::Padme));
    }
    let size = given.extract::<usize>().ok().and_then(NonZeroUsize::new);
    size.map(|size| Some(Padding::Multiple(size)))
        .ok_or_else(|| invalid("padding", "expected 'padme', or a number of bytes from 1 up"))
}

impl Key {
    /// Adds the key to a ring, or creates one.
    async fn add_to(&self, ring: Option<KeyRing>) -> Result<KeyRing, KeySourceError> {
        Ok(match self {
            Self::PassphraseFile(file) => {
                let passphrase = Passphrase::from_file(file).await?;
                match ring {
                    Some(ring) => ring.with(passphrase),
                    None => KeyRing::new(passphrase),
                }
            }
            Self::Bytes(_) | Self::File(_) | Self::Variable(_) => {
                let key = match self {
                    Self::Bytes(bytes) => RawKey::from_bytes(*bytes),
                    Self::Variable(name) => RawKey::from_environment(name)?,
                    Self::File(file) | Self::PassphraseFile(file) => RawKey::from_file(file).await?,
                };
                match ring {
                    Some(ring) => ring.with(key),
                    None => KeyRing::new(key),
                }
            }
        })
    }
}
