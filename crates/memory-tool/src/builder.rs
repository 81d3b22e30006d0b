//! [`MemoryBuilder`]: the options and the policies of a [`Memory`], put on in the one right order.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::sync::Arc;
#[cfg(feature = "expiry")]
use std::time::Duration;

#[cfg(feature = "encrypted")]
use memory_tool_core::StoreError;
use memory_tool_core::{
    BoxError, Engine, EngineBuilder, ErrorKind, MemoryPath, MemoryTool, Node, OpenError, OpenMode, OpenOptions,
    ReadOnlyStore, ReadOptions, Store,
};
#[cfg(feature = "encrypted")]
use memory_tool_encrypted::{EncryptedStore, EncryptedStoreBuilder, KeyRing};
#[cfg(feature = "expiry")]
use memory_tool_policies::ExpiringStore;
#[cfg(feature = "limits")]
use memory_tool_policies::LimitedStore;
#[cfg(feature = "audit")]
use memory_tool_policies::{Actor, AuditLog, AuditedStore, AuditedTool};
#[cfg(feature = "scopes")]
use memory_tool_policies::{MountedStore, Scope, ScopedStore};
#[cfg(feature = "observation")]
use memory_tool_policies::{ObservedStore, ObservedTool};
#[cfg(feature = "screening")]
use memory_tool_policies::{Screen, ScreenedStore};

use crate::backend::Backend;
use crate::dry_run::DryRunStore;
use crate::memory::{Memory, Parts};
use crate::notify::{MemoryChange, NotifyingStore};
use crate::store_url::{StoreUrl, StoreUrlError};
#[cfg(feature = "encrypted")]
use crate::unprobed::{KeysRequired, UnprobedStore};

type SharedStore = Arc<dyn Store>;
type SharedTool = Arc<dyn MemoryTool>;

/// The expiry policy of a [`Memory`].
#[cfg(feature = "expiry")]
pub type Expiring = ExpiringStore<SharedStore>;

/// The policies over a store, from the storage up: a policy is put on over those before it. `docs/production.md` says why.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
enum Layer {
    #[cfg(feature = "observation")]
    Observation,
    #[cfg(feature = "scopes")]
    Scope,
    #[cfg(feature = "expiry")]
    Expiry,
    #[cfg(feature = "limits")]
    Limits,
    #[cfg(feature = "scopes")]
    Mounts,
    ReadOnly,
    #[cfg(feature = "audit")]
    Audit,
    #[cfg(feature = "screening")]
    Screening,
    Notification,
}

/// The policies over the tool, likewise.
#[cfg_attr(
    not(any(feature = "audit", feature = "observation")),
    expect(dead_code, reason = "no policy is over the tool")
)]
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
enum ToolLayer {
    Audit,
    Observation,
}

type PutOver = Box<dyn FnOnce(SharedStore, &mut Details) -> Result<SharedStore, BoxError> + Send + Sync>;
type PutOverTool = Box<dyn FnOnce(SharedTool, &Details) -> SharedTool + Send + Sync>;
type ConfigureEngine = Box<dyn FnOnce(EngineBuilder<SharedStore>) -> EngineBuilder<SharedStore> + Send + Sync>;
#[cfg(feature = "encrypted")]
type ConfigureEncryption = Box<dyn FnOnce(EncryptedStoreBuilder) -> EncryptedStoreBuilder + Send + Sync>;

/// Details of policies that calls of their own set, and the handles that the policies leave.
#[derive(Default)]
struct Details {
    #[cfg(feature = "audit")]
    audits_views: bool,
    #[cfg(feature = "observation")]
    observes_paths: bool,
    #[cfg(feature = "expiry")]
    pins: Vec<MemoryPath>,
    #[cfg(feature = "expiry")]
    expiring: Option<Arc<Expiring>>,
    #[cfg(feature = "scopes")]
    mounts: Vec<Mount>,
    #[cfg(feature = "screening")]
    screen: Option<Arc<dyn Screen>>,
}

/// Another store, shown at a path.
#[cfg(feature = "scopes")]
struct Mount {
    point: MemoryPath,
    store: SharedStore,
    is_read_only: bool,
}

/// Options and policies of a [`Memory`]. Made by [`Memory::builder`], [`Memory::over`], and from a [`StoreUrl`].
///
/// The order of the calls does not matter. A second call of a method replaces the first, except that `mount` and `pin` add. From the storage up, the policies are: encryption, observation, scope, expiry, limits,
/// mounts, read-only, audit, screening, change notification; then the tool, its audit and its observation. A program that needs another
/// order wraps stores by hand, and passes the result to [`Memory::over`].
///
/// ```
/// use memory_tool::Memory;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let memory = Memory::builder("in-process:")
///     .on_change(|change| println!("{change:?}"))
///     .tool_options(|tool| tool.create_overwrites(true))
///     .build()
///     .await?;
/// memory.write("/memories/profile.md", "Prefers tea.").await?; // prints the change
/// # Ok(())
/// # }
/// ```
#[must_use]
pub struct MemoryBuilder {
    place: Place,
    options: OpenOptions,
    must_exist: bool,
    is_read_only: bool,
    is_dry_run: bool,
    records_reads: bool,
    /// A directory of the store that must exist where nothing is created, and whose it is.
    required: Option<(MemoryPath, String)>,
    #[cfg(feature = "encrypted")]
    keys: Option<KeyRing>,
    #[cfg(feature = "encrypted")]
    configure_encryption: Option<ConfigureEncryption>,
    layers: BTreeMap<Layer, PutOver>,
    configure_engine: Option<ConfigureEngine>,
    tool_layers: BTreeMap<ToolLayer, PutOverTool>,
    details: Details,
}

/// Where the memory is.
enum Place {
    Url(StoreUrl),
    /// An invalid URL.
    Invalid(OsString, StoreUrlError),
    Store(SharedStore),
}

impl From<StoreUrl> for MemoryBuilder {
    fn from(url: StoreUrl) -> Self {
        Self::new(Place::Url(url))
    }
}

impl MemoryBuilder {
    pub(crate) fn at(url: &OsStr) -> Self {
        match StoreUrl::parse(url) {
            Ok(url) => url.into(),
            Err(error) => Self::new(Place::Invalid(url.to_owned(), error)),
        }
    }

    pub(crate) fn over(store: SharedStore) -> Self {
        Self::new(Place::Store(store))
    }

    fn new(place: Place) -> Self {
        Self {
            place,
            options: OpenOptions::new(),
            must_exist: false,
            is_read_only: false,
            is_dry_run: false,
            records_reads: false,
            required: None,
            #[cfg(feature = "encrypted")]
            keys: None,
            #[cfg(feature = "encrypted")]
            configure_encryption: None,
            layers: BTreeMap::new(),
            configure_engine: None,
            tool_layers: BTreeMap::new(),
            details: Details::default(),
        }
    }

    /// Sets the options that every backend takes: the mode, the timeout, the largest file. They do not apply to a store of the
    /// program's own.
    pub fn options(mut self, options: OpenOptions) -> Self {
        self.options = options;
        self
    }

    /// Requires that the memory exists, and its scope with it. Nothing is created.
    pub fn must_exist(mut self) -> Self {
        self.must_exist = true;
        self
    }

    /// Refuses every change, also of mounted stores, and requires that the memory exists. Nothing is written to the storage, not even a lock file, unless
    /// files [expire](Self::expire_after): then the times of reads are recorded.
    pub fn read_only(mut self) -> Self {
        self.is_read_only = true;
        self.layer(Layer::ReadOnly, |store, _| Ok(Arc::new(ReadOnlyStore::new(store))))
    }

    /// Pretends the changes: the policies judge them, and nothing is written to the storage, to mounted stores or to the audit log. A
    /// memory that does not exist is taken for an empty one. The contents of pretended files can be read until they exceed 16 MiB.
    pub fn dry_run(mut self) -> Self {
        self.is_dry_run = true;
        self
    }

    /// Sets options of the tool, such as [`create_overwrites`](EngineBuilder::create_overwrites).
    pub fn tool_options(
        mut self,
        configure: impl FnOnce(EngineBuilder<Arc<dyn Store>>) -> EngineBuilder<Arc<dyn Store>> + Send + Sync + 'static,
    ) -> Self {
        self.configure_engine = Some(Box::new(configure));
        self
    }

    /// Calls `on_change` after each change that was made through this memory, or may have been. Changes by other programs are not
    /// reported. It must not block.
    pub fn on_change(self, on_change: impl Fn(&MemoryChange) + Send + Sync + 'static) -> Self {
        self.layer(Layer::Notification, |store, _| Ok(Arc::new(NotifyingStore::new(store, Box::new(on_change)))))
    }

    /// Encrypts everything in the storage with these keys.
    #[cfg(feature = "encrypted")]
    pub fn encrypt(mut self, keys: KeyRing) -> Self {
        self.keys = Some(keys);
        self
    }

    /// Sets options of the [encryption](Self::encrypt), such as the [name](EncryptedStoreBuilder::name) of the memory.
    #[cfg(feature = "encrypted")]
    pub fn encryption_options(
        mut self,
        configure: impl FnOnce(EncryptedStoreBuilder) -> EncryptedStoreBuilder + Send + Sync + 'static,
    ) -> Self {
        self.configure_encryption = Some(Box::new(configure));
        self
    }

    /// Works in the part of the storage that belongs to one tenant.
    #[cfg(feature = "scopes")]
    pub fn scope(mut self, scope: Scope) -> Self {
        self.required = Some((scope.directory().clone(), format!("for the scope {scope}")));
        self.layer(Layer::Scope, |store, _| Ok(Arc::new(ScopedStore::new(store, scope))))
    }

    /// Shows another store at `point`, to be read and changed. The limits and the expiry of this memory do not apply to it.
    #[cfg(feature = "scopes")]
    pub fn mount(self, point: MemoryPath, store: Arc<dyn Store>) -> Self {
        self.add_mount(Mount { point, store, is_read_only: false })
    }

    /// Shows another store at `point`, to be read.
    #[cfg(feature = "scopes")]
    pub fn mount_read_only(self, point: MemoryPath, store: Arc<dyn Store>) -> Self {
        self.add_mount(Mount { point, store, is_read_only: true })
    }

    #[cfg(feature = "scopes")]
    fn add_mount(mut self, mount: Mount) -> Self {
        self.details.mounts.push(mount);
        self.layer(Layer::Mounts, |store, details| {
            let mut builder = MountedStore::builder(store);
            for Mount { point, store, is_read_only } in details.mounts.drain(..) {
                builder =
                    if is_read_only { builder.mount_read_only(point, store) } else { builder.mount(point, store) };
            }
            Ok(Arc::new(builder.build()?))
        })
    }

    /// Limits what the memory may hold. [`default_quota`](memory_tool_policies::default_quota) suits an agent.
    #[cfg(feature = "limits")]
    pub fn limits(self, quota: memory_tool_core::Quota) -> Self {
        self.layer(Layer::Limits, move |store, _| Ok(Arc::new(LimitedStore::new(store, quota))))
    }

    /// Lets files expire that nobody reads or writes for this time.
    #[cfg(feature = "expiry")]
    pub fn expire_after(mut self, idle_time: Duration) -> Self {
        self.records_reads = true;
        self.layer(Layer::Expiry, move |store, details| {
            let builder = ExpiringStore::builder(store, idle_time);
            let expiring = Arc::new(details.pins.drain(..).fold(builder, |builder, pin| builder.pin(pin)).build()?);
            details.expiring = Some(Arc::clone(&expiring));
            Ok(expiring)
        })
    }

    /// Keeps a file, or all that is under a directory, however long it is idle.
    #[cfg(feature = "expiry")]
    pub fn pin(mut self, path: MemoryPath) -> Self {
        self.details.pins.push(path);
        self
    }

    /// Screens every text and name that is to be stored, such as for credentials.
    #[cfg(feature = "screening")]
    pub fn screen(self, screen: impl Screen) -> Self {
        let screen: Arc<dyn Screen> = Arc::new(screen);
        self.layer(Layer::Screening, |store, details| {
            details.screen = Some(Arc::clone(&screen));
            Ok(Arc::new(ScreenedStore::new(store, screen)))
        })
    }

    /// Records each change in `log`, before it is made and after it, as one of `actor`.
    #[cfg(feature = "audit")]
    pub fn audit(self, log: impl AuditLog, actor: Actor) -> Self {
        let log: Arc<dyn AuditLog> = Arc::new(log);
        let (log_of_tool, actor_of_tool) = (Arc::clone(&log), actor.clone());
        self.layer(Layer::Audit, |store, _| Ok(Arc::new(AuditedStore::new(store, log, actor)))).tool_layer(
            ToolLayer::Audit,
            |tool, details| {
                let audited = AuditedTool::new(tool, log_of_tool, actor_of_tool);
                Arc::new(if details.audits_views { audited.with_views() } else { audited })
            },
        )
    }

    /// Records views as well, if there is an [audit log](Self::audit).
    #[cfg(feature = "audit")]
    pub fn audit_views(mut self) -> Self {
        self.details.audits_views = true;
        self
    }

    /// Emits spans, events and metrics of each command (at the level `INFO`) and of each operation of the storage (at `DEBUG`).
    /// They identify the memory by `name`.
    #[cfg(feature = "observation")]
    pub fn observe(self, name: impl Into<Arc<str>>) -> Self {
        let name = name.into();
        let name_of_tool = Arc::clone(&name);
        self.layer(Layer::Observation, |store, details| {
            let observed = ObservedStore::new(store, name);
            Ok(Arc::new(if details.observes_paths { observed.with_paths() } else { observed }))
        })
        .tool_layer(ToolLayer::Observation, |tool, details| {
            let observed = ObservedTool::new(tool, name_of_tool);
            Arc::new(if details.observes_paths { observed.with_paths() } else { observed })
        })
    }

    /// Adds paths to what is [observed](Self::observe). They may reveal as much as contents.
    #[cfg(feature = "observation")]
    pub fn observe_paths(mut self) -> Self {
        self.details.observes_paths = true;
        self
    }

    fn layer(
        mut self,
        layer: Layer,
        put_over: impl FnOnce(SharedStore, &mut Details) -> Result<SharedStore, BoxError> + Send + Sync + 'static,
    ) -> Self {
        self.layers.insert(layer, Box::new(put_over));
        self
    }

    #[cfg(any(feature = "audit", feature = "observation"))]
    fn tool_layer(
        mut self,
        layer: ToolLayer,
        put_over: impl FnOnce(SharedTool, &Details) -> SharedTool + Send + Sync + 'static,
    ) -> Self {
        self.tool_layers.insert(layer, Box::new(put_over));
        self
    }

    /// Opens the memory.
    ///
    /// # Errors
    /// [`OpenError`], for the operator: [`ErrorKind::Invalid`] for a URL or a policy that makes no sense, and for a memory that is
    /// encrypted where no keys are given; those of the backend.
    pub async fn build(mut self) -> Result<Memory, OpenError> {
        if self.options.mode == OpenMode::ReadOnly {
            self = self.read_only();
        }
        let backend = self.open_backend().await?;
        let mut store = backend.store();
        #[cfg(feature = "encrypted")]
        let encrypted = self.encrypt_store(&backend, &mut store).await?;
        self.find_required(&*store).await?;
        if self.is_dry_run {
            store = self.pretend(store).await?;
        }
        for put_over in std::mem::take(&mut self.layers).into_values() {
            let put = put_over(store, &mut self.details);
            store = put.map_err(|error| self.error(ErrorKind::Invalid, error))?;
        }
        let tool = self.tool_over(Arc::clone(&store));
        let parts = Parts {
            backend,
            #[cfg(feature = "encrypted")]
            encrypted,
            #[cfg(feature = "expiry")]
            expiring: self.details.expiring.take().filter(|_| !self.is_read_only),
            store,
            tool,
            #[cfg(feature = "transfer")]
            transfer: crate::transfer::Traits {
                site: self.site(),
                is_dry_run: self.is_dry_run,
                #[cfg(feature = "screening")]
                screen: self.details.screen.take(),
            },
        };
        Ok(Memory { parts: Arc::new(parts) })
    }

    /// Puts a dry run over the store and over every mounted one. Changes that are not made are neither recorded nor reported.
    async fn pretend(&mut self, store: SharedStore) -> Result<SharedStore, OpenError> {
        #[cfg(feature = "scopes")]
        for mount in std::mem::take(&mut self.details.mounts) {
            let store = self.dry_run_over(mount.store).await?;
            self.details.mounts.push(Mount { store, ..mount });
        }
        self.layers.remove(&Layer::Notification);
        #[cfg(feature = "audit")]
        self.layers.remove(&Layer::Audit);
        self.tool_layers.remove(&ToolLayer::Audit);
        self.dry_run_over(store).await
    }

    async fn dry_run_over(&self, store: SharedStore) -> Result<SharedStore, OpenError> {
        match DryRunStore::over(store).await {
            Ok(pretending) => Ok(Arc::new(pretending)),
            Err(error) => Err(self.error(error.kind(), error)),
        }
    }

    async fn open_backend(&self) -> Result<Backend, OpenError> {
        let url = match &self.place {
            Place::Url(url) => url,
            Place::Invalid(_, error) => return Err(self.error(ErrorKind::Invalid, error.clone())),
            Place::Store(store) => return Ok(Backend::Custom(Arc::clone(store))),
        };
        match url.open(self.options.mode(self.mode())).await {
            Err(error) if self.is_dry_run && error.is_not_found() => Ok(Backend::InProcess(Arc::default())),
            Err(error) if error.is_not_found() => Err(error.with_place(self.place_name())),
            opened => opened,
        }
    }

    /// How the storage is opened. One that is only read is not written, unless reads are recorded.
    fn mode(&self) -> OpenMode {
        let only_reads = self.is_read_only || self.options.mode == OpenMode::ReadOnly;
        match self.options.mode {
            _ if self.is_dry_run || only_reads && !self.records_reads => OpenMode::ReadOnly,
            _ if only_reads || self.must_exist => OpenMode::Existing,
            mode => mode,
        }
    }

    fn creates(&self) -> bool {
        self.is_dry_run || self.mode() == OpenMode::Create
    }

    /// Puts the encryption over the store. Without keys, refuses a store that is encrypted: what is written there would not be.
    #[cfg(feature = "encrypted")]
    async fn encrypt_store(
        &mut self,
        backend: &Backend,
        store: &mut SharedStore,
    ) -> Result<Option<EncryptedStore>, OpenError> {
        let Some(keys) = self.keys.take() else {
            return match EncryptedStore::is_in(&**store).await {
                Ok(false) => Ok(None),
                Ok(true) => Err(self.error(ErrorKind::Invalid, KeysRequired)),
                // The first command reports what is wrong with the storage.
                Err(StoreError::Failure { .. }) => {
                    *store = Arc::new(UnprobedStore::new(Arc::clone(store)));
                    Ok(None)
                }
                // A link in the place of an index is none.
                Err(_) => Ok(None),
            };
        };
        // A memory in this process is new, and so never encrypted before.
        let creates = self.creates() || matches!(backend, Backend::InProcess(_));
        let mode = if creates { OpenMode::Create } else { self.mode() };
        let mut builder = EncryptedStore::builder(Arc::clone(store), keys).options(self.options.mode(mode));
        if let Some(configure) = self.configure_encryption.take() {
            builder = configure(builder);
        }
        let encrypted = builder.open().await.map_err(|error| error.with_place(self.place_name()))?;
        *store = Arc::new(encrypted.clone());
        Ok(Some(encrypted))
    }

    /// Fails if the memory must exist, and what it is in does not.
    async fn find_required(&self, store: &dyn Store) -> Result<(), OpenError> {
        let Some((directory, name)) = self.required.as_ref().filter(|_| !self.creates()) else { return Ok(()) };
        match store.read_opts(directory, ReadOptions::new()).await {
            Ok(Node::Absent) => {
                let place = format!("{name} {}", self.place_name());
                Err(OpenError::new(place, ErrorKind::NotFound, "the scope holds no file"))
            }
            Ok(Node::Directory(_) | Node::File(_)) => Ok(()),
            Err(error) => Err(self.error(error.kind(), error)),
        }
    }

    fn tool_over(&mut self, store: SharedStore) -> SharedTool {
        let engine = Engine::builder(store);
        let engine = match self.configure_engine.take() {
            Some(configure) => configure(engine),
            None => engine,
        };
        let layers = std::mem::take(&mut self.tool_layers).into_values();
        layers.fold(Arc::new(engine.build()), |tool, put_over| put_over(tool, &self.details))
    }

    /// Where the files of the memory are, if a URL names it.
    #[cfg(feature = "transfer")]
    pub(crate) fn site(&self) -> Option<crate::transfer::Site> {
        let Place::Url(url) = &self.place else { return None };
        let directory = self.required.as_ref().map_or_else(MemoryPath::root, |(directory, _)| directory.clone());
        Some(crate::transfer::Site { url: url.clone(), directory })
    }

    fn error(&self, kind: ErrorKind, source: impl Into<BoxError>) -> OpenError {
        OpenError::new(self.place_name(), kind, source)
    }

    fn place_name(&self) -> String {
        match &self.place {
            Place::Url(url) => format!("at {url}"),
            Place::Invalid(given, _) => format!("at {}", given.display()),
            Place::Store(_) => "in a store of this program".to_owned(),
        }
    }
}

impl fmt::Debug for MemoryBuilder {
    /// Without the policies, which may hold keys and functions.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryBuilder").field("options", &self.options).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    #[cfg(not(feature = "encrypted"))]
    use memory_tool_core::StoreError;
    use memory_tool_core::{Batch, InMemoryStore, StoreExt as _};
    use serde_json::json;

    use super::*;

    #[tokio::test]
    async fn a_memory_that_must_exist_is_not_created_whatever_the_order_of_the_calls() {
        let options = OpenOptions::new();
        for builder in
            [Memory::builder("a").must_exist().options(options), Memory::builder("a").options(options).must_exist()]
        {
            assert_eq!(builder.mode(), OpenMode::Existing);
        }
        assert_eq!(Memory::builder("a").read_only().must_exist().options(options).mode(), OpenMode::ReadOnly);
        assert_eq!(Memory::builder("a").must_exist().dry_run().mode(), OpenMode::ReadOnly);
        #[cfg(feature = "expiry")]
        {
            let expiring = Memory::builder("a").read_only().expire_after(Duration::from_secs(60));
            assert_eq!(expiring.mode(), OpenMode::Existing, "reads are recorded");
        }
    }

    #[tokio::test]
    async fn changes_are_reported_once_they_are_made() {
        let reported = Arc::new(Mutex::new(Vec::new()));
        let notes = Arc::clone(&reported);
        let memory =
            Memory::over(InMemoryStore::new()).on_change(move |change| notes.lock().unwrap().push(change.clone()));
        let memory = memory.build().await.unwrap();
        memory.write("/memories/a", "text").await.unwrap();
        memory
            .tool()
            .call(json!({"command": "rename", "old_path": "/memories/a", "new_path": "/memories/b"}))
            .await
            .unwrap();
        memory.remove("/memories/none").await.unwrap_err();
        memory.clear().await.unwrap();
        let path = |name: &str| name.parse().unwrap();
        let expected = [
            MemoryChange::Written { path: path("/memories/a") },
            MemoryChange::Renamed { from: path("/memories/a"), to: path("/memories/b") },
            MemoryChange::Removed { path: MemoryPath::root() },
        ];
        assert_eq!(*reported.lock().unwrap(), expected);
    }

    #[tokio::test]
    async fn a_dry_run_changes_nothing() {
        let inner = Arc::new(InMemoryStore::new());
        inner.write("/memories/a", "old").await.unwrap();
        let memory = Memory::over(Arc::clone(&inner)).dry_run().build().await.unwrap();
        memory.write("/memories/a", "new").await.unwrap();
        assert_eq!(memory.read_to_string("/memories/a").await.unwrap(), "new");
        assert_eq!(inner.read_to_string("/memories/a").await.unwrap(), "old");
    }

    #[tokio::test]
    #[cfg(feature = "scopes")]
    async fn a_dry_run_changes_no_mounted_store_and_reports_nothing() {
        let (team, reported) = (Arc::new(InMemoryStore::new()), Arc::new(Mutex::new(0)));
        let count = Arc::clone(&reported);
        let memory = Memory::over(InMemoryStore::new())
            .mount("/memories/team".parse().unwrap(), Arc::clone(&team) as SharedStore)
            .on_change(move |_| *count.lock().unwrap() += 1)
            .dry_run();
        let memory = memory.build().await.unwrap();
        memory.write("/memories/team/a", "text").await.unwrap();
        assert_eq!(memory.read_to_string("/memories/team/a").await.unwrap(), "text");
        assert_eq!(team.list("/memories").await.unwrap(), []);
        assert_eq!(*reported.lock().unwrap(), 0);
    }

    #[tokio::test]
    #[cfg(feature = "expiry")]
    async fn options_that_are_read_only_refuse_changes_though_reads_are_recorded() {
        let options = OpenOptions::new().read_only();
        let memory = Memory::over(InMemoryStore::new()).options(options).expire_after(Duration::from_secs(60));
        let memory = memory.build().await.unwrap();
        let refused = memory.write("/memories/a", "text").await;
        assert!(matches!(refused, Err(StoreError::Refused { policy: "read-only", .. })), "{refused:?}");
        assert!(memory.expiring().is_none(), "nothing can be swept");
    }

    #[tokio::test]
    async fn a_read_only_memory_refuses_every_change_of_files_and_records() {
        let inner = Arc::new(InMemoryStore::new());
        let builder = Memory::over(Arc::clone(&inner)).read_only();
        #[cfg(feature = "scopes")]
        let builder = builder.mount("/memories/team".parse().unwrap(), Arc::new(InMemoryStore::new()));
        let memory = builder.build().await.unwrap();
        for path in ["/memories/a", "/memories/team/a"] {
            let refused = memory.write(path, "text").await;
            assert!(matches!(refused, Err(StoreError::Refused { policy: "read-only", .. })), "{path}: {refused:?}");
        }
        let record = Batch::new().write_record("test/record".parse().unwrap(), "text");
        memory.store().apply(record).await.unwrap_err();
    }

    #[tokio::test]
    async fn an_invalid_url_is_an_error_that_names_it() {
        let error = Memory::open("foo:bar").await.unwrap_err();
        assert_eq!((error.kind(), error.place()), (ErrorKind::Invalid, "at foo:bar"));
    }

    #[tokio::test]
    #[cfg(feature = "local")]
    async fn a_missing_memory_is_named_by_its_url() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("none");
        for builder in [Memory::builder(&path).must_exist(), Memory::builder(&path).read_only()] {
            let error = builder.build().await.unwrap_err();
            assert!(
                error.is_not_found() && error.to_string().starts_with("there is no memory store at file:"),
                "{error}"
            );
            let cause = std::error::Error::source(&error).unwrap();
            assert!(cause.downcast_ref::<std::io::Error>().is_some(), "{cause:?}");
        }
        assert!(!path.exists());
    }

    #[tokio::test]
    #[cfg(all(feature = "limits", feature = "scopes", feature = "screening"))]
    async fn the_order_of_the_calls_does_not_matter() {
        use memory_tool_core::Quota;
        use memory_tool_policies::SensitiveData;

        let secret = "postgres://app:t7Kq-9vLz2@db.internal/app";
        let scope = || Scope::from_trusted_name("alice").unwrap();
        let team = "/memories/team".parse::<MemoryPath>().unwrap();
        let one_file = Quota::new().with_files(1);
        type Configure = fn(MemoryBuilder, MemoryPath, Scope, Quota) -> MemoryBuilder;
        let orders: [Configure; 2] = [
            |memory, team, scope, quota| {
                let mounted = memory.mount(team, Arc::new(InMemoryStore::new()));
                mounted.screen(SensitiveData::new()).limits(quota).scope(scope)
            },
            |memory, team, scope, quota| {
                let scoped = memory.scope(scope).limits(quota).screen(SensitiveData::new());
                scoped.mount(team, Arc::new(InMemoryStore::new()))
            },
        ];
        for configure in orders {
            let inner = Arc::new(InMemoryStore::new());
            let memory = configure(Memory::over(Arc::clone(&inner)), team.clone(), scope(), one_file);
            let memory = memory.build().await.unwrap();
            memory.write("/memories/a", "text").await.unwrap();
            assert_eq!(inner.read_to_string("/memories/scope-alice/a").await.unwrap(), "text");
            let refused = memory.write("/memories/b", "text").await;
            assert!(matches!(refused, Err(StoreError::Refused { policy: "limits", .. })), "{refused:?}");
            memory.write("/memories/team/b", "text").await.unwrap(); // it has limits of its own, or none
            let refused = memory.write("/memories/team/c", secret).await;
            assert!(matches!(refused, Err(StoreError::Refused { policy: "screening", .. })), "{refused:?}");
        }
    }

    #[tokio::test]
    #[cfg(feature = "encrypted")]
    async fn an_encrypted_memory_is_not_opened_without_keys() {
        use memory_tool_encrypted::RawKey;

        let inner = Arc::new(InMemoryStore::new());
        let keys = KeyRing::new(RawKey::generate().unwrap());
        let memory = Memory::over(Arc::clone(&inner)).encrypt(keys).build().await.unwrap();
        memory.write("/memories/a", "text").await.unwrap();
        let error = Memory::over(Arc::clone(&inner)).build().await.unwrap_err();
        assert!(std::error::Error::source(&error).unwrap().downcast_ref::<KeysRequired>().is_some(), "{error:?}");
        assert_eq!(memory.verify(|_| {}).await.unwrap().problems, []);
        // What is damaged under the encryption is reported once, as the file that it is to the memory.
        let object = inner.list("/memories").await.unwrap().into_iter().find(|file| file.size < 200).unwrap();
        inner.write(&object.path, "damaged").await.unwrap();
        let report = memory.verify(|_| {}).await.unwrap();
        assert_eq!(report.problems.len(), 1, "{report:?}");
        assert_eq!(report.problems[0].path, Some("/memories/a".parse().unwrap()));
    }
}
