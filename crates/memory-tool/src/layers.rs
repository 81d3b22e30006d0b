//! [`Policies`]: the policies of a [`Memory`](crate::Memory).

use std::sync::Arc;
use std::time::Duration;

use memory_tool_core::{Actor, BoxError, MemoryPath, Quota, Store};
use memory_tool_policies::{
    AuditLog, AuditedStore, AuditedTool, ExpiringStore, LimitedStore, MountedStore, ObservedStore, ObservedTool, Scope,
    ScopedStore, Screen, ScreenedStore,
};

use crate::builder::{MemoryBuilder, SharedStore, SharedTool};

/// The expiry policy of a [`Memory`](crate::Memory).
pub(crate) type Expiring = ExpiringStore<SharedStore>;

/// The policies of a memory. Each method but the setters adds one layer, if the policy is on.
#[derive(Default)]
pub(crate) struct Policies {
    pub(crate) scope: Option<Scope>,
    pub(crate) mounts: Vec<Mount>,
    quota: Option<Quota>,
    pub(crate) idle_time: Option<Duration>,
    pins: Vec<MemoryPath>,
    /// The layer that `idle_time` added.
    pub(crate) expiring: Option<Arc<Expiring>>,
    pub(crate) screen: Option<Arc<dyn Screen>>,
    pub(crate) audit: Option<(Arc<dyn AuditLog>, Actor)>,
    audits_views: bool,
    observed_as: Option<Arc<str>>,
    observes_paths: bool,
}

/// A store that is mounted at a path.
pub(crate) struct Mount {
    point: MemoryPath,
    pub(crate) store: SharedStore,
    is_read_only: bool,
}

impl MemoryBuilder {
    /// Restricts the memory to the scope of one tenant.
    pub fn scope(mut self, scope: Scope) -> Self {
        self.policies.scope = Some(scope);
        self
    }

    /// Mounts another store at `point`. The limits and the expiry of this memory do not apply to it.
    pub fn mount(mut self, point: MemoryPath, store: Arc<dyn Store>) -> Self {
        self.policies.mounts.push(Mount { point, store, is_read_only: false });
        self
    }

    /// Mounts another store at `point`, read-only.
    pub fn mount_read_only(mut self, point: MemoryPath, store: Arc<dyn Store>) -> Self {
        self.policies.mounts.push(Mount { point, store, is_read_only: true });
        self
    }

    /// Limits the number, size and depth of files. Use [`default_quota`](memory_tool_policies::default_quota) for an
    /// agent.
    pub fn limits(mut self, quota: Quota) -> Self {
        self.policies.quota = Some(quota);
        self
    }

    /// Removes files that are not read or written for this time.
    pub fn expire_after(mut self, idle_time: Duration) -> Self {
        self.policies.idle_time = Some(idle_time);
        self
    }

    /// Exempts a file, or all files under a directory, from [expiry](Self::expire_after).
    pub fn pin(mut self, path: MemoryPath) -> Self {
        self.policies.pins.push(path);
        self
    }

    /// Screens all contents and names before they are stored, for example for credentials.
    pub fn screen(mut self, screen: impl Screen) -> Self {
        self.policies.screen = Some(Arc::new(screen));
        self
    }

    /// Records each change by `actor` in `log`, before and after the change.
    pub fn audit(mut self, log: impl AuditLog, actor: Actor) -> Self {
        self.policies.audit = Some((Arc::new(log), actor));
        self
    }

    /// Also records views in the [audit log](Self::audit).
    pub fn audit_views(mut self) -> Self {
        self.policies.audits_views = true;
        self
    }

    /// Emits spans, events and metrics for each command (level `INFO`) and each store operation (level `DEBUG`). `name`
    /// identifies the memory.
    pub fn observe(mut self, name: impl Into<Arc<str>>) -> Self {
        self.policies.observed_as = Some(name.into());
        self
    }

    /// Adds paths to the spans and events of [`observe`](Self::observe). Paths can be as sensitive as contents.
    pub fn observe_paths(mut self) -> Self {
        self.policies.observes_paths = true;
        self
    }
}

impl Policies {
    pub(crate) fn observe(&self, store: SharedStore) -> SharedStore {
        let Some(name) = &self.observed_as else { return store };
        let observed = ObservedStore::new(store, Arc::clone(name));
        Arc::new(if self.observes_paths { observed.with_paths() } else { observed })
    }

    pub(crate) fn restrict_to_scope(&self, store: SharedStore) -> SharedStore {
        let Some(scope) = &self.scope else { return store };
        Arc::new(ScopedStore::new(store, scope.clone()))
    }

    pub(crate) fn expire(&mut self, store: SharedStore) -> Result<SharedStore, BoxError> {
        let Some(idle_time) = self.idle_time else { return Ok(store) };
        let builder = ExpiringStore::builder(store, idle_time);
        let expiring = Arc::new(self.pins.drain(..).fold(builder, |builder, pin| builder.pin(pin)).build()?);
        self.expiring = Some(Arc::clone(&expiring));
        Ok(expiring)
    }

    pub(crate) fn limit(&self, store: SharedStore) -> SharedStore {
        let Some(quota) = self.quota else { return store };
        Arc::new(LimitedStore::new(store, quota))
    }

    pub(crate) fn mount(&mut self, store: SharedStore) -> Result<SharedStore, BoxError> {
        if self.mounts.is_empty() {
            return Ok(store);
        }
        let mut builder = MountedStore::builder(store);
        for Mount { point, store, is_read_only } in self.mounts.drain(..) {
            builder = if is_read_only { builder.mount_read_only(point, store) } else { builder.mount(point, store) };
        }
        Ok(Arc::new(builder.build()?))
    }

    pub(crate) fn audit(&self, store: SharedStore) -> SharedStore {
        let Some((log, actor)) = &self.audit else { return store };
        Arc::new(AuditedStore::new(store, Arc::clone(log), actor.clone()))
    }

    pub(crate) fn screen(&self, store: SharedStore) -> SharedStore {
        let Some(screen) = &self.screen else { return store };
        Arc::new(ScreenedStore::new(store, Arc::clone(screen)))
    }

    /// `actor` is recorded, or else the actor of the log.
    pub(crate) fn audit_tool(&self, tool: SharedTool, actor: Option<&Actor>) -> SharedTool {
        let Some((log, of_log)) = &self.audit else { return tool };
        let audited = AuditedTool::new(tool, Arc::clone(log), actor.unwrap_or(of_log).clone());
        Arc::new(if self.audits_views { audited.with_views() } else { audited })
    }

    pub(crate) fn observe_tool(&self, tool: SharedTool) -> SharedTool {
        let Some(name) = &self.observed_as else { return tool };
        let observed = ObservedTool::new(tool, Arc::clone(name));
        Arc::new(if self.observes_paths { observed.with_paths() } else { observed })
    }
}
