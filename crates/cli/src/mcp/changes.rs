//! Notifications of changes that clients of this server and other programs made.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, SystemTime};

use memory_tool::command::Reply;
use memory_tool::store::StorePath;
use memory_tool::{Error, ErrorKind, MemoryPath, Store, StoreExt as _};
use rmcp::model::{ErrorData, ResourceUpdatedNotificationParam};
use rmcp::service::{SubscriptionContext, SubscriptionSendError};
use rmcp::{Peer, RoleServer, ServiceError};
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::broadcast::{Receiver, Sender};
use tokio::sync::{Notify, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use crate::mcp::{lock, resources};

/// The number of changes that a slow client may lag behind. After that, it is notified of a change of everything.
const MAX_LAG: usize = 64;

const MAX_SUBSCRIPTIONS: usize = 1_000;

/// The time between two listings that detect changes of other programs.
const INTERVAL: Duration = Duration::from_secs(2);

/// The share of the time that may pass with listing: one part in this number.
const LISTING_SHARE: u32 = 20;

/// A change of the memory.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Changed {
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
            Err(Error::Storage { kind: ErrorKind::OutcomeUnknown, .. }) => return Some(Self::everything()),
            Ok(_) | Err(_) => return None,
        };
        Some(Self { paths, changes_list })
    }

    /// Whether the file or directory, or a part of it, changed.
    fn affects(&self, path: &StorePath) -> bool {
        self.paths.iter().any(|changed| changed.overlaps(path))
    }
}

/// The changes, for all sessions.
#[derive(Debug)]
pub(super) struct Changes {
    sender: Sender<Changed>,
    store: Arc<dyn Store>,
    own: Arc<Own>,
    polling: Mutex<Weak<Polling>>,
}

/// The changes of this server since the last listing.
#[derive(Debug, Default)]
struct Own {
    paths: Mutex<Vec<MemoryPath>>,
    added: Notify,
}

impl Changes {
    pub(super) fn new(store: Arc<dyn Store>) -> Self {
        Self { sender: Sender::new(MAX_LAG), store, own: Arc::default(), polling: Mutex::default() }
    }

    /// Reports the change that a command made, if it made one.
    pub(super) fn report(&self, outcome: &Result<Reply, Error>) {
        if let Some(changed) = Changed::of(outcome) {
            if lock(&self.polling).strong_count() > 0 {
                lock(&self.own.paths).extend_from_slice(&changed.paths);
                self.own.added.notify_one();
            }
            // It fails if no session listens.
            let _ = self.sender.send(changed);
        }
    }

    /// Reports changes of other programs until all results are dropped. Those after the return are not missed.
    pub(super) async fn poll(&self) -> Arc<Polling> {
        let polling = {
            let mut polling = lock(&self.polling);
            polling.upgrade().unwrap_or_else(|| {
                let started = Arc::new(Polling::start(self.sender.clone(), &self.store, &self.own));
                *polling = Arc::downgrade(&started);
                started
            })
        };
        // It fails if the task ended.
        let _ = polling.is_ready.clone().wait_for(|is_ready| *is_ready).await;
        polling
    }

    /// Notifies the client of a session of each later change, until the result is dropped. It sends nothing before
    /// `begin`.
    pub(super) fn forward(
        &self,
        peer: Peer<RoleServer>,
        subscriptions: Subscriptions,
        begin: Arc<Notify>,
    ) -> JoinSet<()> {
        let mut changes = self.sender.subscribe();
        let mut forwarding = JoinSet::new();
        forwarding.spawn(async move {
            begin.notified().await;
            while let Some(changed) = next(&mut changes).await {
                if notify(&peer, &subscriptions, &changed).await.is_err() {
                    break;
                }
            }
        });
        forwarding
    }

    /// Notifies the client of a request `subscriptions/listen` of each later change, until the request is cancelled.
    pub(super) async fn listen(&self, context: &SubscriptionContext) {
        let mut changes = self.sender.subscribe();
        let _polling = self.poll().await;
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

/// The task that lists the memory at intervals. It is stopped on drop.
#[derive(Debug)]
pub(super) struct Polling {
    _task: JoinSet<()>,
    /// Whether the memory was listed once.
    is_ready: watch::Receiver<bool>,
}

impl Polling {
    fn start(sender: Sender<Changed>, store: &Arc<dyn Store>, own: &Arc<Own>) -> Self {
        let (ready, is_ready) = watch::channel(false);
        lock(&own.paths).clear();
        let (store, own) = (Arc::clone(store), Arc::clone(own));
        let mut task = JoinSet::new();
        task.spawn(async move {
            let mut begun = Instant::now();
            let mut last = list(&*store).await;
            let _ = ready.send(true);
            loop {
                wait(begun.elapsed(), &own).await;
                begun = Instant::now();
                // Taken before the listing, which thus contains these changes.
                let own_paths = std::mem::take(&mut *lock(&own.paths));
                let Some(next) = list(&*store).await else { continue };
                let changed = match &last {
                    Some(last) => difference(last, &next, &own_paths),
                    None => Some(Changed::everything()),
                };
                if let Some(changed) = changed {
                    let _ = sender.send(changed);
                }
                last = Some(next);
            }
        });
        Self { _task: task, is_ready }
    }
}

/// Waits for the time of the next listing. After a change of this server it is sooner, so that a change of another
/// program to the same file is detected.
async fn wait(listing: Duration, own: &Own) {
    tokio::select! {
        () = sleep(INTERVAL.max(listing * LISTING_SHARE)) => {}
        () = async {
            own.added.notified().await;
            sleep(listing * LISTING_SHARE).await;
        } => {}
    }
}

/// The size and the times of each file.
type Listing = BTreeMap<StorePath, (u64, Option<SystemTime>, Option<SystemTime>)>;

async fn list(store: &dyn Store) -> Option<Listing> {
    let files = store.list(MemoryPath::root()).await.ok()?;
    Some(files.into_iter().map(|file| (file.path, (file.size, file.created, file.modified))).collect())
}

/// The change between two listings, except for these paths.
fn difference(last: &Listing, next: &Listing, except: &[MemoryPath]) -> Option<Changed> {
    let is_other = |path: &StorePath| !except.iter().any(|excepted| excepted.overlaps(path));
    let changed = last.iter().filter(|(path, state)| next.get(*path).is_some_and(|next| next != *state));
    let changed: Vec<_> = changed.map(|(path, _)| path).filter(|path| is_other(path)).collect();
    let removed = last.keys().filter(|path| !next.contains_key(*path));
    let added = next.keys().filter(|path| !last.contains_key(*path));
    let listed: Vec<_> = removed.chain(added).filter(|path| is_other(path)).collect();
    let changes_list = !listed.is_empty();
    let paths: Vec<_> = changed.into_iter().chain(listed).filter_map(|path| MemoryPath::try_from(path).ok()).collect();
    (!paths.is_empty()).then_some(Changed { paths, changes_list })
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

    fn affected(&self, changed: &Changed) -> Vec<String> {
        let paths = lock(&self.0);
        paths.iter().filter(|(_, path)| changed.affects(path)).map(|(uri, _)| uri.clone()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listing(files: &[(&str, u64)]) -> Listing {
        files.iter().map(|(path, size)| (path.parse().unwrap(), (*size, None, None))).collect()
    }

    #[test]
    fn listings_are_compared() {
        let last = listing(&[("/memories/a", 1), ("/memories/d/b", 1), ("/memories/d/c", 1)]);
        let paths = |paths: &[&str]| paths.iter().map(|path| path.parse().unwrap()).collect::<Vec<MemoryPath>>();
        let difference = |next: &[(&str, u64)], except: &[&str]| difference(&last, &listing(next), &paths(except));
        let changed = |changed: &[&str], changes_list| Some(Changed { paths: paths(changed), changes_list });
        assert_eq!(difference(&[("/memories/a", 1), ("/memories/d/b", 1), ("/memories/d/c", 1)], &[]), None);
        let edited = [("/memories/a", 2), ("/memories/d/b", 1), ("/memories/d/c", 1)];
        assert_eq!(difference(&edited, &[]), changed(&["/memories/a"], false));
        assert_eq!(difference(&edited, &["/memories/a"]), None);
        assert_eq!(difference(&edited, &["/memories/d"]), changed(&["/memories/a"], false));
        let moved = [("/memories/a", 1), ("/memories/e/b", 1), ("/memories/d/c", 1)];
        assert_eq!(difference(&moved, &[]), changed(&["/memories/d/b", "/memories/e/b"], true));
        assert_eq!(difference(&moved, &["/memories/d", "/memories/e"]), None);
        assert_eq!(difference(&moved, &["/memories"]), None);
    }
}
