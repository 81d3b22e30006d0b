//! [`Policy`]: what is between a store and the suite. No case comes near the settings.

use std::path::Path;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use memory_tool_conformance::{FixtureError, Suite};
use memory_tool_core::{Engine, InMemoryStore, MemoryTool, Quota, Store};
use memory_tool_policies::{
    Actor, AuditedStore, AuditedTool, ExpiringStore, JsonLinesLog, LimitedStore, MountedStore, ObservedStore,
    ObservedTool, Scope, ScopedStore, ScreenedStore, SensitiveData,
};

const ONE_DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// Short, so that the store takes paths of 1,015 bytes, which a case of the suite needs.
const SCOPE: &str = "z";
const SCOPE_DIRECTORY: &str = "scope-z";

/// Made once: its patterns take long to build.
static SCREEN: LazyLock<SensitiveData> = LazyLock::new(SensitiveData::new);

#[derive(Clone, Copy, Eq, PartialEq)]
pub(crate) enum Policy {
    /// As a service would have them, see `docs/production.md`.
    All,
    Audit,
    Expiry,
    Limits,
    Mounts,
    Observation,
    Scopes,
    Screening,
}

impl Policy {
    /// Those that are run on every store.
    pub(crate) const ALL: [Self; 8] = [
        Self::All,
        Self::Audit,
        Self::Expiry,
        Self::Limits,
        Self::Mounts,
        Self::Observation,
        Self::Scopes,
        Self::Screening,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::All => "all_policies",
            Self::Audit => "audit",
            Self::Expiry => "expiry",
            Self::Limits => "limits",
            Self::Mounts => "mounts",
            Self::Observation => "observation",
            Self::Scopes => "scopes",
            Self::Screening => "screening",
        }
    }

    /// The store under the policy, whose audit log, where it has one, is in the directory.
    pub(crate) async fn over(self, store: Arc<dyn Store>, log: &Path) -> Result<Arc<dyn Store>, FixtureError> {
        Ok(match self {
            Self::All => {
                let scoped = scoped(Arc::new(ObservedStore::new(store, "the suite")), SCOPE)?;
                let audited = audited(mounted(limited(expiring(scoped))), log).await?;
                Arc::new(ScreenedStore::new(audited, SCREEN.clone()))
            }
            Self::Audit => audited(store, log).await?,
            Self::Expiry => expiring(store),
            Self::Limits => limited(store),
            Self::Mounts => mounted(store),
            Self::Observation => Arc::new(ObservedStore::new(store, "the suite").with_paths()),
            Self::Scopes => scoped(store, SCOPE)?,
            Self::Screening => Arc::new(ScreenedStore::new(store, SCREEN.clone())),
        })
    }

    /// The tool over such a store in a program, where the policy has one of its own.
    pub(crate) async fn tool(self, store: Arc<dyn Store>, log: &Path) -> Result<Box<dyn MemoryTool>, FixtureError> {
        let engine = Engine::new(store);
        Ok(match self {
            Self::All => {
                Box::new(ObservedTool::new(AuditedTool::new(engine, open_log(log).await?, actor()), "the suite"))
            }
            Self::Audit => Box::new(AuditedTool::new(engine, open_log(log).await?, actor()).with_views()),
            Self::Observation => Box::new(ObservedTool::new(engine, "the suite").with_paths()),
            _ => Box::new(engine),
        })
    }

    /// The suite without what the policy is not made for.
    pub(crate) fn restrict(self, suite: Suite) -> Suite {
        match self {
            Self::All | Self::Mounts => {
                suite.leave_out("store.quota-of-the-root", "what several stores hold cannot be limited together")
            }
            _ => suite,
        }
    }

    /// The directory of the store in which all files are, if they are in one.
    pub(crate) fn directory(self) -> Option<&'static str> {
        matches!(self, Self::All | Self::Scopes).then_some(SCOPE_DIRECTORY)
    }
}

/// The scope of that name.
pub(crate) fn scoped(store: Arc<dyn Store>, name: &str) -> Result<Arc<dyn Store>, FixtureError> {
    Ok(Arc::new(ScopedStore::new(store, Scope::from_trusted_name(name).map_err(FixtureError::failed)?)))
}

fn expiring(store: Arc<dyn Store>) -> Arc<dyn Store> {
    Arc::new(ExpiringStore::builder(store, ONE_DAY).build().unwrap())
}

/// All that can be limited is counted.
fn limited(store: Arc<dyn Store>) -> Arc<dyn Store> {
    let quota = Quota::new().with_files(1 << 20).with_bytes(1 << 40).with_file_bytes(1 << 30).with_depth(1 << 10);
    Arc::new(LimitedStore::new(store, quota))
}

/// Everything is at the root.
fn mounted(store: Arc<dyn Store>) -> Arc<dyn Store> {
    let point = |path: &str| path.parse().unwrap();
    let builder = MountedStore::builder(store).mount(point("/memories/mounted/beside"), InMemoryStore::new());
    Arc::new(builder.mount_read_only(point("/memories/mounted/read-only"), InMemoryStore::new()).build().unwrap())
}

async fn audited(store: Arc<dyn Store>, log: &Path) -> Result<Arc<dyn Store>, FixtureError> {
    Ok(Arc::new(AuditedStore::new(store, open_log(log).await?, actor()).with_digests_of_directories()))
}

async fn open_log(directory: &Path) -> Result<JsonLinesLog, FixtureError> {
    JsonLinesLog::open(directory.join("audit.jsonl")).await.map_err(FixtureError::failed)
}

fn actor() -> Actor {
    Actor::from_trusted_name("the suite").unwrap()
}
