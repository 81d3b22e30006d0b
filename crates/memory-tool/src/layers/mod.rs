//! The layers of a memory over its backend: encryption, history and policies.

mod build;
mod memory;
mod move_across;
mod unprobed;

pub(crate) use move_across::move_across;
pub use unprobed::KeysRequired;

use std::sync::Arc;

use memory_tool_core::{Actor, MemoryPath};
use memory_tool_encrypted::{EncryptedStore, KeyRing};
use memory_tool_history::{HistoryStore, Limits};
use memory_tool_policies::{AuditLog, ExpiringStore, Screen};

use crate::named_store::SharedStore;
use crate::transfer::location::TransferContext;

/// The layers of a builder that are no data.
#[derive(Default)]
pub(crate) struct Layers {
    pub(crate) keys: Option<KeyRing>,
    history_limits: Option<Limits>,
    mounts: Vec<Mount>,
    pub(crate) screen: Option<Arc<dyn Screen>>,
    pub(crate) audit: Option<(Arc<dyn AuditLog>, Actor)>,
    pub(crate) observed_as: Option<Arc<str>>,
}

/// A store that is mounted at a path.
struct Mount {
    point: MemoryPath,
    store: SharedStore,
    is_read_only: bool,
}

/// The layers of an open memory.
pub(crate) struct OpenLayers {
    pub(crate) encrypted: Option<EncryptedStore>,
    pub(crate) history: Option<HistoryStore<SharedStore>>,
    pub(crate) expiring: Option<Arc<ExpiringStore<SharedStore>>>,
    /// Whether changes wait in a proposal.
    pub(crate) is_proposal: bool,
    pub(crate) has_mounts: bool,
    pub(crate) transfer: TransferContext,
}
