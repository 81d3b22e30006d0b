//! Notifications of changes that clients of this server and other programs made.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use memory_tool::store::StorePath;
use memory_tool::{MemoryChange, MemoryPath, Operation, lock};
use rmcp::model::{ErrorData, ResourceUpdatedNotificationParam};
use rmcp::service::{SubscriptionContext, SubscriptionSendError};
use rmcp::{Peer, RoleServer, ServiceError};
use tokio::sync::Notify;
use tokio::task::JoinSet;

use crate::fronts::mcp::resources;
use crate::memories::tree_watch::TreeWatch;

const MAX_SUBSCRIPTIONS: usize = 1_000;

/// Whether files were added or removed.
fn changes_list(changes: &[MemoryChange]) -> bool {
    changes.iter().any(|change| change.operation != Operation::Edit)
}

/// Whether the file or directory, or a part of it, changed.
fn affects(changes: &[MemoryChange], path: &StorePath) -> bool {
    changes.iter().flat_map(MemoryChange::paths).any(|changed| changed.overlaps(path))
}

/// Notifies the client of a session of each later change, until the result is dropped. It sends nothing before `begin`.
pub(super) fn forward(
    mut watch: TreeWatch,
    peer: Peer<RoleServer>,
    subscriptions: Subscriptions,
    begin: Arc<Notify>,
) -> JoinSet<()> {
    let mut forwarding = JoinSet::new();
    forwarding.spawn(async move {
        begin.notified().await;
        while let Some(changes) = Box::pin(watch.next()).await {
            if notify(&peer, &subscriptions, &changes).await.is_err() {
                break;
            }
        }
    });
    forwarding
}

/// Notifies the client of a request `subscriptions/listen` of each later change, until the request is cancelled.
pub(super) async fn listen(mut watch: TreeWatch, context: &SubscriptionContext) {
    loop {
        let changes = tokio::select! {
            () = context.cancelled() => return,
            changes = Box::pin(watch.next()) => changes,
        };
        let Some(changes) = changes else { return };
        if notify_listener(context, &changes).await.is_err() {
            return;
        }
    }
}

async fn notify(
    peer: &Peer<RoleServer>,
    subscriptions: &Subscriptions,
    changes: &[MemoryChange],
) -> Result<(), ServiceError> {
    if changes_list(changes) {
        peer.notify_resource_list_changed().await?;
    }
    for uri in subscriptions.affected(changes) {
        peer.notify_resource_updated(ResourceUpdatedNotificationParam::new(uri)).await?;
    }
    Ok(())
}

async fn notify_listener(context: &SubscriptionContext, changes: &[MemoryChange]) -> Result<(), SubscriptionSendError> {
    let accepted = context.accepted();
    if changes_list(changes) && accepted.resources_list_changed == Some(true) {
        context.sink().notify_resource_list_changed().await?;
    }
    for uri in accepted.resource_subscriptions.iter().flatten() {
        if resources::path_of(uri).is_ok_and(|path| affects(changes, &path)) {
            context.sink().notify_resource_updated(uri.as_str()).await?;
        }
    }
    Ok(())
}

/// The subscribed paths of a session, by the URIs that the client gave.
#[derive(Clone, Debug, Default)]
pub(super) struct Subscriptions(Arc<Mutex<BTreeMap<String, MemoryPath>>>);

impl Subscriptions {
    pub(super) fn add(&self, uri: String) -> Result<(), ErrorData> {
        let path = resources::path_of(&uri)?;
        let mut paths = lock(&self.0);
        if paths.len() >= MAX_SUBSCRIPTIONS && !paths.contains_key(&uri) {
            let message = format!("Too many subscriptions; the limit is {MAX_SUBSCRIPTIONS}");
            return Err(ErrorData::invalid_request(message, None));
        }
        paths.insert(uri, path);
        Ok(())
    }

    pub(super) fn remove(&self, uri: &str) {
        lock(&self.0).remove(uri);
    }

    fn affected(&self, changes: &[MemoryChange]) -> Vec<String> {
        let paths = lock(&self.0);
        paths.iter().filter(|(_, path)| affects(changes, path)).map(|(uri, _)| uri.clone()).collect()
    }
}
