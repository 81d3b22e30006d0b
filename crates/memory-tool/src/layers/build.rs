//! The layers as options of a builder, and their order.

use std::sync::Arc;
use std::time::Duration;

use memory_tool_core::{
    Actor, BoxError, ErrorKind, MemoryPath, OpenError, OpenMode, Quota, ReadOnlyStore, Store, StoreError, StorePath,
};
use memory_tool_encrypted::{EncryptedStore, KeyRing, Padding};
use memory_tool_history::{HistoryStore, Limits};
use memory_tool_policies::{
    AuditLog, AuditedStore, AuditedTool, ExpiringStore, ExpiringStoreBuilder, LimitedStore, MountedStore,
    ObservedStore, ObservedTool, Scope, ScopedStore, Screen, ScreenedStore,
};
use memory_tool_proposals::{ProposalName, ProposalStore, Rules};

use crate::backend::Backend;
use crate::builder::{Location, MemoryBuilder};
use crate::layers::unprobed::{KeysRequired, UnprobedStore};
use crate::layers::{Mount, OpenLayers};
use crate::named_store::SharedStore;
use crate::transfer::location::{MemoryLocation, TransferContext};
use crate::transfer::sync::ErasingStore;
use crate::wording::SharedTool;

/// A store with the layer that hides expired files.
type Expired = (SharedStore, Option<Arc<ExpiringStore<SharedStore>>>);

impl MemoryBuilder {
    /// Encrypts the whole backend with these keys.
    pub fn encrypt(mut self, keys: KeyRing) -> Self {
        self.layers.keys = Some(keys);
        self
    }

    /// Sets the padding of [encrypted](Self::encrypt) files. Default: [`Padding::None`].
    pub fn padding(mut self, padding: Padding) -> Self {
        self.options.padding = Some(padding);
        self
    }

    /// Sets the label of the [encrypted](Self::encrypt) memory. See
    /// [`EncryptedStoreBuilder::label`](memory_tool_encrypted::EncryptedStoreBuilder::label).
    pub fn label(mut self, label: impl Into<String>) -> Self {
        self.options.label = Some(label.into());
        self
    }

    /// Also accepts an [encrypted](Self::encrypt) memory with this label, or without one. See
    /// [`EncryptedStoreBuilder::former_label`](memory_tool_encrypted::EncryptedStoreBuilder::former_label).
    pub fn former_label(mut self, label: Option<&str>) -> Self {
        match label {
            Some(label) => self.options.old_labels.push(label.to_owned()),
            None => self.options.was_unlabeled = true,
        }
        self
    }

    /// Keeps a [history](crate::Memory::history) of all changes. Later openings of the memory continue it without this
    /// option.
    ///
    /// Sessions that are open while a history is started notice it with their next change. If files
    /// [expire](Self::expire_after), entries are removed after the same time.
    pub fn history(mut self) -> Self {
        self.options.history = true;
        self
    }

    /// Keeps a [history](Self::history) within these limits.
    pub fn history_limits(mut self, limits: Limits) -> Self {
        self.layers.history_limits = Some(limits);
        self.history()
    }

    /// Restricts the memory to the scope of one tenant.
    pub fn scope(mut self, scope: Scope) -> Self {
        self.options.scope = Some(scope);
        self
    }

    /// Mounts another store at `point`. The limits and the expiry of this memory do not apply to it.
    pub fn mount(mut self, point: MemoryPath, store: Arc<dyn Store>) -> Self {
        self.layers.mounts.push(Mount { point, store, is_read_only: false });
        self
    }

    /// Mounts another store at `point`, read-only.
    pub fn mount_read_only(mut self, point: MemoryPath, store: Arc<dyn Store>) -> Self {
        self.layers.mounts.push(Mount { point, store, is_read_only: true });
        self
    }

    /// Makes all changes in the proposal of this name. This memory shows them, and others do not until a person
    /// [takes](crate::Memory::proposals) them. It makes mounted stores read-only, and no file expires.
    pub fn proposal(mut self, name: ProposalName) -> Self {
        self.options.propose = Some(name);
        self
    }

    /// Changes of this file, or under this directory, count at once, although those in the
    /// [proposal](Self::proposal) wait.
    pub fn propose_except(mut self, path: MemoryPath) -> Self {
        self.options.propose_except.push(path);
        self
    }

    /// Changes of this number of lines or fewer count at once, although those in the [proposal](Self::proposal) wait.
    pub fn propose_over(mut self, lines: usize) -> Self {
        self.options.propose_over = Some(lines);
        self
    }

    /// Limits the number, size and depth of files. Use [`default_quota`](memory_tool_policies::default_quota) for an
    /// agent.
    pub fn limits(mut self, quota: Quota) -> Self {
        let Quota { files, bytes, file_bytes, depth, .. } = quota;
        self.options.limits = false;
        (self.options.max_files, self.options.max_bytes) = (files, bytes);
        (self.options.max_file_bytes, self.options.max_depth) = (file_bytes, depth);
        self
    }

    /// Removes files that are not read or written for this time.
    pub fn expire_after(mut self, idle_time: Duration) -> Self {
        self.options.expire_after = Some(idle_time);
        self
    }

    /// Exempts a file, or all files under a directory, from [expiry](Self::expire_after).
    pub fn pin(mut self, path: MemoryPath) -> Self {
        self.options.pins.push(path);
        self
    }

    /// Screens all contents and names before they are stored, for example for credentials.
    pub fn screen(mut self, screen: impl Screen) -> Self {
        self.layers.screen = Some(Arc::new(screen));
        self
    }

    /// Records each change by `actor` in `log`, before and after the change.
    pub fn audit(mut self, log: impl AuditLog, actor: Actor) -> Self {
        self.layers.audit = Some((Arc::new(log), actor));
        self
    }

    /// Also records views in the [audit log](Self::audit).
    pub fn audit_views(mut self) -> Self {
        self.options.audit_views = true;
        self
    }

    /// Emits spans, events and metrics for each command (level `INFO`) and each store operation (level `DEBUG`). `name`
    /// identifies the memory.
    pub fn observe(mut self, name: impl Into<Arc<str>>) -> Self {
        self.layers.observed_as = Some(name.into());
        self
    }

    /// Adds paths to the spans and events of [`observe`](Self::observe). Paths can be as sensitive as contents.
    pub fn observe_paths(mut self) -> Self {
        self.options.log_paths = true;
        self
    }

    /// Adds the layers over the backend, from the bottom to the top. `docs/production.md` has the reasons for this
    /// order.
    pub(crate) async fn add_layers(&mut self, backend: &Backend) -> Result<(SharedStore, OpenLayers), OpenError> {
        let (store, encrypted) = self.encrypt_store(backend).await?;
        self.check_scope_exists(&*store).await?;
        let store = if self.options.dry_run { self.enable_dry_run(store).await? } else { store };
        let transfer = TransferContext {
            location: self.memory_location(),
            is_dry_run: self.options.dry_run,
            screen: self.layers.screen.clone(),
        };
        let (store, history) = self.keep_history(self.restrict_to_scope(self.observe_store(store)));
        let invalid = |error: BoxError| OpenError::new(self.location_name(), ErrorKind::Invalid, error);
        let (store, expiring) = self.expire(self.propose(store)).map_err(invalid)?;
        let store = self.mount_stores(self.limit_sizes(store)).map_err(invalid)?;
        let has_mounts = !self.layers.mounts.is_empty();
        let (is_read_only, is_proposal) = (self.options.read_only, self.options.propose.is_some());
        let store = if is_read_only { Arc::new(ReadOnlyStore::new(store)) } else { store };
        let expiring = expiring.filter(|_| !is_read_only);
        let store = self.screen_contents(self.audit_changes(store));
        Ok((
            if history.is_some() { Arc::new(ErasingStore(store)) } else { store },
            OpenLayers { encrypted, history, expiring, is_proposal, has_mounts, transfer },
        ))
    }

    /// Wraps the store in its encryption. Without keys, refuses an encrypted store, because writes would not be
    /// encrypted.
    async fn encrypt_store(&self, backend: &Backend) -> Result<(SharedStore, Option<EncryptedStore>), OpenError> {
        let store = backend.store();
        let Some(keys) = self.layers.keys.clone() else {
            return match EncryptedStore::is_in(&*store).await {
                Ok(false) => Ok((store, None)),
                Ok(true) => Err(self.error(ErrorKind::Invalid, KeysRequired)),
                // The first command will report the failure.
                Err(StoreError::Failure { .. }) => Ok((Arc::new(UnprobedStore::new(store)), None)),
                // An index of an encrypted store is not a symbolic link.
                Err(_) => Ok((store, None)),
            };
        };
        // An in-process memory is always new.
        let creates = self.creates() || matches!(backend, Backend::InProcess(_));
        let mode = if creates { OpenMode::Create } else { self.mode() };
        let padding = self.options.padding.unwrap_or_default();
        let builder = EncryptedStore::builder(store, keys).options(self.open_options(mode)).padding(padding);
        let builder = self.options.label.iter().fold(builder, |builder, label| builder.label(label));
        let unlabeled = self.options.was_unlabeled.then_some(None);
        let former = self.options.old_labels.iter().map(|label| Some(label.as_str())).chain(unlabeled);
        let builder = former.fold(builder, |builder, label| builder.former_label(label));
        let encrypted = builder.open().await.map_err(|error| error.with_place(self.location_name()))?;
        Ok((Arc::new(encrypted.clone()), Some(encrypted)))
    }

    /// Fails if the scope of a memory that must exist is missing. A scope without files can have a history.
    async fn check_scope_exists(&self, store: &dyn Store) -> Result<(), OpenError> {
        let Some(scope) = self.options.scope.as_ref().filter(|_| !self.creates()) else { return Ok(()) };
        match scope.exists_in(store).await {
            Ok(true) => Ok(()),
            Ok(false) => {
                let place = format!("for the scope {scope} {}", self.location_name());
                Err(OpenError::new(place, ErrorKind::NotFound, "the scope contains neither files nor a history"))
            }
            Err(error) => Err(self.error(error.kind(), error)),
        }
    }

    /// Wraps the store and every mounted store in a dry run. Simulated changes are not recorded in the audit log and
    /// not reported to `on_change`.
    async fn enable_dry_run(&mut self, store: SharedStore) -> Result<SharedStore, OpenError> {
        (self.on_change, self.layers.audit) = (None, None);
        let mut mounts = std::mem::take(&mut self.layers.mounts);
        for mount in &mut mounts {
            mount.store = self.dry_run_over(Arc::clone(&mount.store)).await?;
        }
        self.layers.mounts = mounts;
        self.dry_run_over(store).await
    }

    /// Adds the layer of the history. Any memory at a URL may have one.
    fn keep_history(&self, store: SharedStore) -> (SharedStore, Option<HistoryStore<SharedStore>>) {
        let inner = Arc::clone(&store);
        let with_age = |age| Limits::new().age(age);
        let limits = self.layers.history_limits.or(self.options.history_age.map(with_age));
        let kept = match (limits, self.options.history, &self.location) {
            (Some(limits), ..) => HistoryStore::with_limits(inner, limits),
            (None, true, _) => match self.options.expire_after {
                Some(age) => HistoryStore::with_limits(inner, with_age(age)),
                None => HistoryStore::new(inner),
            },
            (None, false, Location::Store(_)) => return (store, None),
            (None, false, _) => HistoryStore::if_present(inner),
        };
        let kept = kept.timeout(self.open_options(self.mode()).timeout);
        // The handle is below the layer that refuses changes.
        let read_only = || HistoryStore::new(Arc::new(ReadOnlyStore::new(store)) as SharedStore);
        let is_read_only = self.options.read_only || self.options.propose.is_some();
        let history = if is_read_only { read_only() } else { kept.clone() };
        (Arc::new(kept), Some(history))
    }

    fn observe_store(&self, store: SharedStore) -> SharedStore {
        let Some(name) = &self.layers.observed_as else { return store };
        let observed = ObservedStore::new(store, Arc::clone(name));
        Arc::new(if self.options.log_paths { observed.with_paths() } else { observed })
    }

    fn restrict_to_scope(&self, store: SharedStore) -> SharedStore {
        let Some(scope) = &self.options.scope else { return store };
        Arc::new(ScopedStore::new(store, scope.clone()))
    }

    fn propose(&self, store: SharedStore) -> SharedStore {
        let Some(name) = &self.options.propose else { return store };
        let options = self.open_options(self.mode());
        let rules = Rules::new().up_to_lines(self.options.propose_over.unwrap_or_default());
        let rules = self.options.propose_except.iter().map(StorePath::from).fold(rules, Rules::except);
        let proposal = ProposalStore::new(store, name.clone()).rules(rules).timeout(options.timeout);
        Arc::new(proposal.max_file_bytes(options.max_file_bytes))
    }

    fn expire(&self, store: SharedStore) -> Result<Expired, BoxError> {
        let idle_time = self.options.expire_after.filter(|_| self.options.propose.is_none());
        let Some(idle_time) = idle_time else { return Ok((store, None)) };
        let builder = ExpiringStore::builder(store, idle_time);
        let pins = self.options.pins.iter().cloned();
        let expiring = Arc::new(pins.fold(builder, ExpiringStoreBuilder::pin).build()?);
        Ok((Arc::clone(&expiring) as SharedStore, Some(expiring)))
    }

    fn limit_sizes(&self, store: SharedStore) -> SharedStore {
        let quota = self.options.quota();
        if quota == Quota::new() { store } else { Arc::new(LimitedStore::new(store, quota)) }
    }

    fn mount_stores(&self, store: SharedStore) -> Result<SharedStore, BoxError> {
        if self.layers.mounts.is_empty() {
            return Ok(store);
        }
        let mut builder = MountedStore::builder(store);
        for Mount { point, store, is_read_only } in &self.layers.mounts {
            let (point, store) = (point.clone(), Arc::clone(store));
            let is_read_only = *is_read_only || self.options.propose.is_some();
            builder = if is_read_only { builder.mount_read_only(point, store) } else { builder.mount(point, store) };
        }
        Ok(Arc::new(builder.build()?))
    }

    fn audit_changes(&self, store: SharedStore) -> SharedStore {
        let Some((log, actor)) = &self.layers.audit else { return store };
        Arc::new(AuditedStore::new(store, Arc::clone(log), actor.clone()))
    }

    fn screen_contents(&self, store: SharedStore) -> SharedStore {
        let Some(screen) = &self.layers.screen else { return store };
        Arc::new(ScreenedStore::new(store, Arc::clone(screen)))
    }

    /// `actor` is recorded, or else the actor of the log.
    pub(crate) fn audit_tool(&self, tool: SharedTool, actor: Option<&Actor>) -> SharedTool {
        let Some((log, of_log)) = &self.layers.audit else { return tool };
        let audited = AuditedTool::new(tool, Arc::clone(log), actor.unwrap_or(of_log).clone());
        Arc::new(if self.options.audit_views { audited.with_views() } else { audited })
    }

    pub(crate) fn observe_tool(&self, tool: SharedTool) -> SharedTool {
        let Some(name) = &self.layers.observed_as else { return tool };
        let observed = ObservedTool::new(tool, Arc::clone(name));
        Arc::new(if self.options.log_paths { observed.with_paths() } else { observed })
    }

    /// The location of the files, if the memory has a URL.
    pub(crate) fn memory_location(&self) -> Option<MemoryLocation> {
        let Location::Url(url) = &self.location else { return None };
        let directory = self.options.scope.as_ref().map_or_else(MemoryPath::root, |scope| scope.directory().clone());
        Some(MemoryLocation { url: url.clone(), directory })
    }
}
