//! Notifications of changes that clients made through this server.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use memory_tool::{Error, FailureKind, MemoryPath, Reply};
use rmcp::model::{ErrorData, ResourceUpdatedNotificationParam};
use rmcp::service::{SubscriptionContext, SubscriptionSendError};
use rmcp::{Peer, RoleServer, ServiceError};
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::broadcast::{Receiver, Sender};
use tokio::task::AbortHandle;

use crate::mcp::resources;

/// The number of changes that a slow client may lag behind. After that, it is notified of a change of everything.
const MAX_LAG: usize = 64;

/// The maximum number of subscriptions of a session.
const MAX_SUBSCRIPTIONS: usize = 1_000;

/// A change of the memory.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Changed {
    /// The changed files and directories.
    paths: Vec<MemoryPath>,
    /// Whether files were added or removed.
    changes_list: bool,
}

impl Changed {
    fn everything() -> Self {
        Self { paths: vec![MemoryPath::root()], changes_list: true }
    }

    /// The change that a command made, if it made one.
    fn of(outcome: &Result<Reply, Error>) -> Option<Self> {
        let (paths, changes_list) = match outcome {
            Ok(Reply::Created { path } | Reply::Deleted { path }) => (vec![path.clone()], true),
            Ok(Reply::Renamed { old_path, new_path }) => (vec![old_path.clone(), new_path.clone()], true),
            Ok(Reply::Replaced { path, .. } | Reply::Inserted { path }) => (vec![path.clone()], false),
            Err(Error::Storage { kind: FailureKind::OutcomeUnknown, .. }) => return Some(Self::everything()),
            Ok(_) | Err(_) => return None,
        };
        Some(Self { paths, changes_list })
    }

    /// Whether the file or directory, or a part of it, changed.
    fn affects(&self, path: &MemoryPath) -> bool {
        self.paths.iter().any(|changed| changed.overlaps(path))
    }
}

/// The changes, for all sessions.
#[derive(Debug)]
pub(super) struct Changes(Sender<Changed>);

impl Changes {
    pub(super) fn new() -> Self {
        Self(Sender::new(MAX_LAG))
    }

    /// Reports the change that a command made, if it made one.
    pub(super) fn report(&self, outcome: &Result<Reply, Error>) {
        if let Some(changed) = Changed::of(outcome) {
            // It fails if no session listens.
            let _ = self.0.send(changed);
        }
    }

    /// Notifies the client of a session of each later change, until the result is dropped.
    pub(super) fn forward(&self, peer: Peer<RoleServer>, subscriptions: Subscriptions) -> Forwarding {
        let mut changes = self.0.subscribe();
        let forwarding = tokio::spawn(async move {
            while let Some(changed) = next(&mut changes).await {
                if notify(&peer, &subscriptions, &changed).await.is_err() {
                    break;
                }
            }
        });
        Forwarding(forwarding.abort_handle())
    }

    /// Notifies the client of a request `subscriptions/listen` of each later change, until the request is cancelled.
    pub(super) async fn listen(&self, context: &SubscriptionContext) {
        let mut changes = self.0.subscribe();
        loop {
            let changed = tokio::select! {
                () = context.cancelled() => return,
                changed = next(&mut changes) => changed,
            };
            let Some(changed) = changed else { return };
            if notify_listener(context, &changed).await.is_err() {
                return;
            }
        }
    }
}

async fn next(changes: &mut Receiver<Changed>) -> Option<Changed> {
    match changes.recv().await {
        Ok(changed) => Some(changed),
        Err(RecvError::Lagged(_)) => Some(Changed::everything()),
        Err(RecvError::Closed) => None,
    }
}

async fn notify(peer: &Peer<RoleServer>, subscriptions: &Subscriptions, changed: &Changed) -> Result<(), ServiceError> {
    if changed.changes_list {
        peer.notify_resource_list_changed().await?;
    }
    for uri in subscriptions.affected(changed) {
        peer.notify_resource_updated(ResourceUpdatedNotificationParam::new(uri)).await?;
    }
    Ok(())
}

async fn notify_listener(context: &SubscriptionContext, changed: &Changed) -> Result<(), SubscriptionSendError> {
    let accepted = context.accepted();
    if changed.changes_list && accepted.resources_list_changed == Some(true) {
        context.sink().notify_resource_list_changed().await?;
    }
    for uri in accepted.resource_subscriptions.iter().flatten() {
        if resources::path_of(uri).is_ok_and(|path| changed.affects(&path)) {
            context.sink().notify_resource_updated(uri.as_str()).await?;
        }
    }
    Ok(())
}

/// The task that notifies the client of a session. It is stopped on drop.
#[derive(Debug)]
pub(super) struct Forwarding(AbortHandle);

impl Drop for Forwarding {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// The subscribed paths of a session, by the URIs that the client gave.
#[derive(Clone, Debug, Default)]
pub(super) struct Subscriptions(Arc<Mutex<BTreeMap<String, MemoryPath>>>);

impl Subscriptions {
    pub(super) fn add(&self, uri: String) -> Result<(), ErrorData> {
        let path = resources::path_of(&uri)?;
        let mut paths = self.lock();
        if paths.len() >= MAX_SUBSCRIPTIONS && !paths.contains_key(&uri) {
            let message = format!("Too many subscriptions; the limit is {MAX_SUBSCRIPTIONS}");
            return Err(ErrorData::invalid_request(message, None));
        }
        paths.insert(uri, path);
        Ok(())
    }

    pub(super) fn remove(&self, uri: &str) {
        self.lock().remove(uri);
    }

    fn affected(&self, changed: &Changed) -> Vec<String> {
        let paths = self.lock();
        paths.iter().filter(|(_, path)| changed.affects(path)).map(|(uri, _)| uri.clone()).collect()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, MemoryPath>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
