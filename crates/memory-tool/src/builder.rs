//! [`MemoryBuilder`]: the options and policies of a [`Memory`].

use std::collections::BTreeMap;
use std::ffi::OsStr;
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
use crate::memory::{Inner, Memory};
use crate::notify::{MemoryChange, NotifyingStore};
use crate::redaction::redact_credentials;
use crate::store_url::{StoreUrl, StoreUrlError};
#[cfg(feature = "encrypted")]
use crate::unprobed::{KeysRequired, UnprobedStore};

type SharedStore = Arc<dyn Store>;
type SharedTool = Arc<dyn MemoryTool>;

/// The expiry policy of a [`Memory`].
#[cfg(feature = "expiry")]
pub type Expiring = ExpiringStore<SharedStore>;

/// The policies for stores, in the order in which they are applied to the backend. See `docs/production.md` for the
/// reasons.
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

/// The policies for the tool, in the order in which they are applied.
#[cfg_attr(
    not(any(feature = "audit", feature = "observation")),
    expect(dead_code, reason = "no enabled policy applies to the tool")
)]
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
enum ToolLayer {
    Audit,
    Observation,
}

type WrapStore = Box<dyn FnOnce(SharedStore, &mut PolicyState) -> Result<SharedStore, BoxError> + Send + Sync>;
type WrapTool = Box<dyn FnOnce(SharedTool, &PolicyState) -> SharedTool + Send + Sync>;
type ConfigureEngine = Box<dyn FnOnce(EngineBuilder<SharedStore>) -> EngineBuilder<SharedStore> + Send + Sync>;
#[cfg(feature = "encrypted")]
type ConfigureEncryption = Box<dyn FnOnce(EncryptedStoreBuilder) -> EncryptedStoreBuilder + Send + Sync>;

/// Settings of policies from separate calls, and handles to applied policies.
#[derive(Default)]
struct PolicyState {
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

/// A store that is mounted at a path.
#[cfg(feature = "scopes")]
struct Mount {
    point: MemoryPath,
    store: SharedStore,
    is_read_only: bool,
}

/// A builder for a [`Memory`], created by [`Memory::builder`], [`Memory::over`] or from a [`StoreUrl`].
///
/// The order of the calls does not matter. A second call of a method replaces the first, except for `mount` and `pin`.
///
/// Policies are applied to the backend in this order: encryption, observation, scope, expiry, limits, mounts,
/// read-only, audit, screening, change notification. The tool is on top, with its own audit and observation. For
/// another order, wrap the stores yourself, and pass the result to [`Memory::over`].
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
    location: Location,
    options: OpenOptions,
    must_exist: bool,
    is_read_only: bool,
    is_dry_run: bool,
    records_reads: bool,
    /// The directory of the scope and its description. It must exist unless the memory may be created.
    required: Option<(MemoryPath, String)>,
    #[cfg(feature = "encrypted")]
    keys: Option<KeyRing>,
    #[cfg(feature = "encrypted")]
    configure_encryption: Option<ConfigureEncryption>,
    layers: BTreeMap<Layer, WrapStore>,
    configure_engine: Option<ConfigureEngine>,
    tool_layers: BTreeMap<ToolLayer, WrapTool>,
    policy_state: PolicyState,
}

/// The location of the memory.
enum Location {
    Url(StoreUrl),
    /// An invalid URL, without credentials.
    Invalid(String, StoreUrlError),
    Store(SharedStore),
}

impl From<StoreUrl> for MemoryBuilder {
    fn from(url: StoreUrl) -> Self {
        Self::new(Location::Url(url))
    }
}

impl MemoryBuilder {
    pub(crate) fn at(url: &OsStr) -> Self {
        match StoreUrl::parse(url) {
            Ok(url) => url.into(),
            Err(error) => Self::new(Location::Invalid(redact_credentials(&url.to_string_lossy()), error)),
        }
    }

    pub(crate) fn over(store: SharedStore) -> Self {
        Self::new(Location::Store(store))
    }

    fn new(location: Location) -> Self {
        Self {
            location,
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
            policy_state: PolicyState::default(),
        }
    }

    /// Sets the mode, the timeout and the file size limit. Custom stores ignore the timeout and the size limit.
    pub fn options(mut self, options: OpenOptions) -> Self {
        self.options = options;
        self
    }

    /// Opens the memory only if it exists, including its scope.
    pub fn must_exist(mut self) -> Self {
        self.must_exist = true;
        self
    }

    /// Refuses every change, including changes of mounted stores. The memory must exist.
    ///
    /// The backend is not written to, and gets no lock file. The only exception are the access times of files that
    /// [expire](Self::expire_after).
    pub fn read_only(mut self) -> Self {
        self.is_read_only = true;
        self.layer(Layer::ReadOnly, |store, _| Ok(Arc::new(ReadOnlyStore::new(store))))
    }

    /// Simulates changes. Policies check them, but nothing is written to the backend, to mounted stores or to the audit
    /// log.
    ///
    /// A memory that does not exist is treated as empty, unless it [must exist](Self::must_exist). Simulated contents
    /// can be read until they exceed 16 MiB.
    pub fn dry_run(mut self) -> Self {
        self.is_dry_run = true;
        self
    }

    /// Configures the tool, for example with [`create_overwrites`](EngineBuilder::create_overwrites).
    pub fn tool_options(
        mut self,
        configure: impl FnOnce(EngineBuilder<Arc<dyn Store>>) -> EngineBuilder<Arc<dyn Store>> + Send + Sync + 'static,
    ) -> Self {
        self.configure_engine = Some(Box::new(configure));
        self
    }

    /// Calls `on_change` after each change through this memory, and after changes with an unknown outcome. Changes by
    /// other programs are not reported. The function must not block.
    pub fn on_change(self, on_change: impl Fn(&MemoryChange) + Send + Sync + 'static) -> Self {
        self.layer(Layer::Notification, |store, _| Ok(Arc::new(NotifyingStore::new(store, Box::new(on_change)))))
    }

    /// Encrypts the whole backend with these keys.
    #[cfg(feature = "encrypted")]
    pub fn encrypt(mut self, keys: KeyRing) -> Self {
        self.keys = Some(keys);
        self
    }

    /// Configures the [encryption](Self::encrypt), for example with the [name](EncryptedStoreBuilder::name) of the
    /// memory.
    #[cfg(feature = "encrypted")]
    pub fn encryption_options(
        mut self,
        configure: impl FnOnce(EncryptedStoreBuilder) -> EncryptedStoreBuilder + Send + Sync + 'static,
    ) -> Self {
        self.configure_encryption = Some(Box::new(configure));
        self
    }

    /// Restricts the memory to the scope of one tenant.
    #[cfg(feature = "scopes")]
    pub fn scope(mut self, scope: Scope) -> Self {
        self.required = Some((scope.directory().clone(), format!("for the scope {scope}")));
        self.layer(Layer::Scope, |store, _| Ok(Arc::new(ScopedStore::new(store, scope))))
    }

    /// Mounts another store at `point`. The limits and the expiry of this memory do not apply to it.
    #[cfg(feature = "scopes")]
    pub fn mount(self, point: MemoryPath, store: Arc<dyn Store>) -> Self {
        self.add_mount(Mount { point, store, is_read_only: false })
    }

    /// Mounts another store at `point`, read-only.
    #[cfg(feature = "scopes")]
    pub fn mount_read_only(self, point: MemoryPath, store: Arc<dyn Store>) -> Self {
        self.add_mount(Mount { point, store, is_read_only: true })
    }

    #[cfg(feature = "scopes")]
    fn add_mount(mut self, mount: Mount) -> Self {
        self.policy_state.mounts.push(mount);
        self.layer(Layer::Mounts, |store, policy_state| {
            let mut builder = MountedStore::builder(store);
            for Mount { point, store, is_read_only } in policy_state.mounts.drain(..) {
                builder =
                    if is_read_only { builder.mount_read_only(point, store) } else { builder.mount(point, store) };
            }
            Ok(Arc::new(builder.build()?))
        })
    }

    /// Limits the number, size and depth of files. Use [`default_quota`](memory_tool_policies::default_quota) for an
    /// agent.
    #[cfg(feature = "limits")]
    pub fn limits(self, quota: memory_tool_core::Quota) -> Self {
        self.layer(Layer::Limits, move |store, _| Ok(Arc::new(LimitedStore::new(store, quota))))
    }

    /// Removes files that are not read or written for this time.
    #[cfg(feature = "expiry")]
    pub fn expire_after(mut self, idle_time: Duration) -> Self {
        self.records_reads = true;
        self.layer(Layer::Expiry, move |store, policy_state| {
            let builder = ExpiringStore::builder(store, idle_time);
            let expiring =
                Arc::new(policy_state.pins.drain(..).fold(builder, |builder, pin| builder.pin(pin)).build()?);
            policy_state.expiring = Some(Arc::clone(&expiring));
            Ok(expiring)
        })
    }

    /// Exempts a file, or all files under a directory, from [expiry](Self::expire_after).
    #[cfg(feature = "expiry")]
    pub fn pin(mut self, path: MemoryPath) -> Self {
        self.policy_state.pins.push(path);
        self
    }

    /// Screens all contents and names before they are stored, for example for credentials.
    #[cfg(feature = "screening")]
    pub fn screen(self, screen: impl Screen) -> Self {
        let screen: Arc<dyn Screen> = Arc::new(screen);
        self.layer(Layer::Screening, |store, policy_state| {
            policy_state.screen = Some(Arc::clone(&screen));
            Ok(Arc::new(ScreenedStore::new(store, screen)))
        })
    }

    /// Records each change by `actor` in `log`, before and after the change.
    #[cfg(feature = "audit")]
    pub fn audit(self, log: impl AuditLog, actor: Actor) -> Self {
        let log: Arc<dyn AuditLog> = Arc::new(log);
        let (log_of_tool, actor_of_tool) = (Arc::clone(&log), actor.clone());
        self.layer(Layer::Audit, |store, _| Ok(Arc::new(AuditedStore::new(store, log, actor)))).tool_layer(
            ToolLayer::Audit,
            |tool, policy_state| {
                let audited = AuditedTool::new(tool, log_of_tool, actor_of_tool);
                Arc::new(if policy_state.audits_views { audited.with_views() } else { audited })
            },
        )
    }

    /// Also records views in the [audit log](Self::audit).
    #[cfg(feature = "audit")]
    pub fn audit_views(mut self) -> Self {
        self.policy_state.audits_views = true;
        self
    }

    /// Emits spans, events and metrics for each command (level `INFO`) and each store operation (level `DEBUG`). `name`
    /// identifies the memory.
    #[cfg(feature = "observation")]
    pub fn observe(self, name: impl Into<Arc<str>>) -> Self {
        let name = name.into();
        let name_of_tool = Arc::clone(&name);
        self.layer(Layer::Observation, |store, policy_state| {
            let observed = ObservedStore::new(store, name);
            Ok(Arc::new(if policy_state.observes_paths { observed.with_paths() } else { observed }))
        })
        .tool_layer(ToolLayer::Observation, |tool, policy_state| {
            let observed = ObservedTool::new(tool, name_of_tool);
            Arc::new(if policy_state.observes_paths { observed.with_paths() } else { observed })
        })
    }

    /// Adds paths to the spans and events of [`observe`](Self::observe). Paths can be as sensitive as contents.
    #[cfg(feature = "observation")]
    pub fn observe_paths(mut self) -> Self {
        self.policy_state.observes_paths = true;
        self
    }

    fn layer(
        mut self,
        layer: Layer,
        wrap: impl FnOnce(SharedStore, &mut PolicyState) -> Result<SharedStore, BoxError> + Send + Sync + 'static,
    ) -> Self {
        self.layers.insert(layer, Box::new(wrap));
        self
    }

    #[cfg(any(feature = "audit", feature = "observation"))]
    fn tool_layer(
        mut self,
        layer: ToolLayer,
        wrap: impl FnOnce(SharedTool, &PolicyState) -> SharedTool + Send + Sync + 'static,
    ) -> Self {
        self.tool_layers.insert(layer, Box::new(wrap));
        self
    }

    /// Opens the memory.
    ///
    /// # Errors
    /// The errors of the backend, and [`ErrorKind::Invalid`] for an invalid URL or policy and for an encrypted memory
    /// without keys.
    pub async fn build(mut self) -> Result<Memory, OpenError> {
        if self.options.mode == OpenMode::ReadOnly {
            self = self.read_only();
        }
        let backend = self.open_backend().await?;
        let mut store = backend.store();
        #[cfg(feature = "encrypted")]
        let encrypted = self.encrypt_store(&backend, &mut store).await?;
        self.check_scope_exists(&*store).await?;
        if self.is_dry_run {
            store = self.enable_dry_run(store).await?;
        }
        for wrap in std::mem::take(&mut self.layers).into_values() {
            let wrapped = wrap(store, &mut self.policy_state);
            store = wrapped.map_err(|error| self.error(ErrorKind::Invalid, error))?;
        }
        let tool = self.tool_over(Arc::clone(&store));
        let inner = Inner {
            backend,
            #[cfg(feature = "encrypted")]
            encrypted,
            #[cfg(feature = "expiry")]
            expiring: self.policy_state.expiring.take().filter(|_| !self.is_read_only),
            store,
            tool,
            #[cfg(feature = "transfer")]
            transfer: crate::transfer::TransferContext {
                location: self.memory_location(),
                is_dry_run: self.is_dry_run,
                #[cfg(feature = "screening")]
                screen: self.policy_state.screen.take(),
            },
        };
        Ok(Memory { inner: Arc::new(inner) })
    }

    /// Wraps the store and every mounted store in a dry run. Simulated changes are not recorded in the audit log and
    /// not reported to `on_change`.
    async fn enable_dry_run(&mut self, store: SharedStore) -> Result<SharedStore, OpenError> {
        #[cfg(feature = "scopes")]
        for mount in std::mem::take(&mut self.policy_state.mounts) {
            let store = self.dry_run_over(mount.store).await?;
            self.policy_state.mounts.push(Mount { store, ..mount });
        }
        self.layers.remove(&Layer::Notification);
        #[cfg(feature = "audit")]
        self.layers.remove(&Layer::Audit);
        self.tool_layers.remove(&ToolLayer::Audit);
        self.dry_run_over(store).await
    }

    async fn dry_run_over(&self, store: SharedStore) -> Result<SharedStore, OpenError> {
        match DryRunStore::over(store).await {
            Ok(dry_run) => Ok(Arc::new(dry_run)),
            Err(error) => Err(self.error(error.kind(), error)),
        }
    }

    async fn open_backend(&self) -> Result<Backend, OpenError> {
        let url = match &self.location {
            Location::Url(url) => url,
            Location::Invalid(_, error) => return Err(self.error(ErrorKind::Invalid, error.clone())),
            Location::Store(store) => return Ok(Backend::Custom(Arc::clone(store))),
        };
        match url.open(self.options.mode(self.mode())).await {
            Err(error) if self.is_dry_run && !self.must_exist && error.is_not_found() => {
                Ok(Backend::InProcess(Arc::default()))
            }
            Err(error) if error.is_not_found() => Err(error.with_place(self.location_name())),
            opened => opened,
        }
    }

    /// The mode in which to open the backend. Recording access times requires write access even to a read-only memory.
    fn mode(&self) -> OpenMode {
        let only_reads = self.is_read_only || self.options.mode == OpenMode::ReadOnly;
        match self.options.mode {
            _ if self.is_dry_run || only_reads && !self.records_reads => OpenMode::ReadOnly,
            _ if only_reads || self.must_exist => OpenMode::Existing,
            mode => mode,
        }
    }

    /// Whether the memory does not have to exist.
    fn creates(&self) -> bool {
        self.is_dry_run && !self.must_exist || self.mode() == OpenMode::Create
    }

    /// Wraps the store in its encryption. Without keys, refuses an encrypted store, because writes would not be
    /// encrypted.
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
                // The first command will report the failure.
                Err(StoreError::Failure { .. }) => {
                    *store = Arc::new(UnprobedStore::new(Arc::clone(store)));
                    Ok(None)
                }
                // An index of an encrypted store is not a symbolic link.
                Err(_) => Ok(None),
            };
        };
        // An in-process memory is always new.
        let creates = self.creates() || matches!(backend, Backend::InProcess(_));
        let mode = if creates { OpenMode::Create } else { self.mode() };
        let mut builder = EncryptedStore::builder(Arc::clone(store), keys).options(self.options.mode(mode));
        if let Some(configure) = self.configure_encryption.take() {
            builder = configure(builder);
        }
        let encrypted = builder.open().await.map_err(|error| error.with_place(self.location_name()))?;
        *store = Arc::new(encrypted.clone());
        Ok(Some(encrypted))
    }

    /// Fails if the scope of a memory that must exist is missing.
    async fn check_scope_exists(&self, store: &dyn Store) -> Result<(), OpenError> {
        let Some((directory, name)) = self.required.as_ref().filter(|_| !self.creates()) else { return Ok(()) };
        match store.read_opts(directory, ReadOptions::new()).await {
            Ok(Node::Absent) => {
                let place = format!("{name} {}", self.location_name());
                Err(OpenError::new(place, ErrorKind::NotFound, "the scope contains no files"))
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
        layers.fold(Arc::new(engine.build()), |tool, wrap| wrap(tool, &self.policy_state))
    }

    /// The location of the files, if the memory has a URL.
    #[cfg(feature = "transfer")]
    pub(crate) fn memory_location(&self) -> Option<crate::transfer::MemoryLocation> {
        let Location::Url(url) = &self.location else { return None };
        let directory = self.required.as_ref().map_or_else(MemoryPath::root, |(directory, _)| directory.clone());
        Some(crate::transfer::MemoryLocation { url: url.clone(), directory })
    }

    fn error(&self, kind: ErrorKind, source: impl Into<BoxError>) -> OpenError {
        OpenError::new(self.location_name(), kind, source)
    }

    fn location_name(&self) -> String {
        match &self.location {
            Location::Url(url) => format!("at {url}"),
            Location::Invalid(given, _) => format!("at {given}"),
            Location::Store(_) => "in a custom store".to_owned(),
        }
    }
}

impl fmt::Debug for MemoryBuilder {
    /// Omits the policies, which can contain keys and functions.
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
    async fn must_exist_does_not_depend_on_the_order_of_the_calls() {
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
            assert_eq!(expiring.mode(), OpenMode::Existing, "access times are written");
        }
    }

    #[cfg(feature = "local")]
    #[tokio::test]
    async fn a_dry_run_of_a_memory_that_must_exist_fails_if_it_is_missing() {
        let directory = tempfile::tempdir().unwrap();
        let missing = directory.path().join("a");
        assert!(Memory::builder(&missing).dry_run().build().await.is_ok());
        let error = Memory::builder(&missing).dry_run().must_exist().build().await.unwrap_err();
        assert!(error.is_not_found(), "{error}");
    }

    #[tokio::test]
    async fn an_open_error_has_the_location_and_the_cause_without_credentials() {
        let error = Memory::open("sqllite:x").await.unwrap_err().to_string();
        assert!(error.starts_with("cannot open the memory store at sqllite:x: unknown scheme `sqllite:`. "), "{error}");
        for url in [
            "s3://AKIA:Se/cret@bucket",
            "s3://AKIA:Se/cret",
            "az://container/a?sig=Se/cret",
            "https://a.blob.core.windows.net/a?sig=Se/cret",
            "postgres://user:Se/cret@host/db",
            "file://user:Se/cret@host/a",
            "sqlite:a.db?key=Se/cret",
        ] {
            let builder = Memory::builder(url);
            let debugged = format!("{builder:?}");
            let error = builder.build().await.unwrap_err();
            let messages = format!("{error} {error:?} {debugged}");
            assert!(!messages.contains("Se/cret") && !messages.contains("cret@"), "{url}: {messages}");
            assert!(messages.contains("[redacted]"), "{url}: {messages}");
        }
        let bucket = StoreUrl::Bucket { url: "s3://AKIA:Se/cret@bucket".to_owned() };
        let error = MemoryBuilder::from(bucket.clone()).build().await.unwrap_err();
        let messages = format!("{error} {error:?} {bucket} {bucket:?}");
        assert!(!messages.contains("cret@"), "{messages}");
    }

    #[tokio::test]
    #[cfg(not(feature = "gcs"))]
    async fn a_missing_feature_names_the_command_that_adds_it() {
        let error = Memory::open("gs://bucket/a").await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        assert!(error.to_string().ends_with(": cargo add memory-tool --features gcs"), "{error}");
    }

    #[tokio::test]
    async fn on_change_receives_successful_changes() {
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
    async fn a_dry_run_does_not_change_mounted_stores_or_report_changes() {
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
    async fn read_only_options_refuse_changes_even_with_expiry() {
        let options = OpenOptions::new().read_only();
        let memory = Memory::over(InMemoryStore::new()).options(options).expire_after(Duration::from_secs(60));
        let memory = memory.build().await.unwrap();
        let refused = memory.write("/memories/a", "text").await;
        assert!(matches!(refused, Err(StoreError::Refused { policy: "read-only", .. })), "{refused:?}");
        assert!(memory.expiring().is_none(), "a read-only memory has no sweeps");
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
    async fn the_error_for_an_invalid_url_names_the_url() {
        let error = Memory::open("foo:bar").await.unwrap_err();
        assert_eq!((error.kind(), error.place()), (ErrorKind::Invalid, "at foo:bar"));
    }

    #[tokio::test]
    #[cfg(feature = "local")]
    async fn the_error_for_a_missing_memory_names_its_url() {
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
            memory.write("/memories/team/b", "text").await.unwrap(); // the limits do not apply to mounted stores
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
        // A damaged object is reported once, with the path of the affected file.
        let object = inner.list("/memories").await.unwrap().into_iter().find(|file| file.size < 200).unwrap();
        inner.write(&object.path, "damaged").await.unwrap();
        let report = memory.verify(|_| {}).await.unwrap();
        assert_eq!(report.problems.len(), 1, "{report:?}");
        assert_eq!(report.problems[0].path, Some("/memories/a".parse().unwrap()));
    }
}
