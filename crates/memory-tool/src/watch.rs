//! [`Watch`]: the changes of a memory by this program and by others.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, SystemTime};

use memory_tool_core::{MemoryPath, Store, StoreExt as _, StorePath, lock};
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::broadcast::{Receiver, Sender};
use tokio::sync::{Notify, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use crate::change::{MemoryChange, Operation};

/// The number of batches that a slow receiver may lag behind.
const MAX_LAG: usize = 64;

/// The time between two listings that detect changes of other programs.
const INTERVAL: Duration = Duration::from_secs(2);

/// The share of the time that may pass with listing: one part in this number.
const LISTING_SHARE: u32 = 20;

type Changes = Arc<[MemoryChange]>;

/// The changes of a memory by anyone, from [`Memory::watch`](crate::Memory::watch).
#[derive(Debug)]
pub struct Watch {
    changes: Receiver<Changes>,
    _polling: Arc<Polling>,
}

impl Watch {
    /// Waits for the next changes: all of one batch, or all by other programs between two listings. Returns `None` if
    /// the runtime has ended.
    ///
    /// A change may be reported twice. For a caller that lags far behind, a [`Write`](Operation::Write) of `/memories`
    /// stands for all changes that it missed.
    ///
    /// Cancel safe: if the future is dropped, no change is lost.
    pub async fn next(&mut self) -> Option<Changes> {
        match self.changes.recv().await {
            Ok(changes) => Some(changes),
            Err(RecvError::Lagged(_)) => Some(everything()),
            Err(RecvError::Closed) => None,
        }
    }
}

fn everything() -> Changes {
    [MemoryChange::new(Operation::Write, MemoryPath::root())].into()
}

/// Distributes the changes of a memory.
pub(crate) struct Feed {
    sender: Sender<Changes>,
    own: Arc<Own>,
    polling: Mutex<Weak<Polling>>,
}

/// The changes of this handle since the last listing.
#[derive(Debug, Default)]
struct Own {
    paths: Mutex<Vec<MemoryPath>>,
    added: Notify,
}

impl Default for Feed {
    fn default() -> Self {
        Self { sender: Sender::new(MAX_LAG), own: Arc::default(), polling: Mutex::default() }
    }
}

impl Feed {
    /// Reports changes of this handle.
    pub(crate) fn report(&self, changes: Vec<MemoryChange>) {
        if self.sender.receiver_count() == 0 {
            return;
        }
        lock(&self.own.paths).extend(changes.iter().flat_map(MemoryChange::paths).cloned());
        self.own.added.notify_one();
        // It fails if no receiver is left.
        let _ = self.sender.send(changes.into());
    }

    /// Reports changes from now on.
    pub(crate) async fn watch(&self, store: &Arc<dyn Store>) -> Watch {
        let changes = self.sender.subscribe();
        let polling = {
            let mut polling = lock(&self.polling);
            polling.upgrade().unwrap_or_else(|| {
                let started = Arc::new(Polling::start(self.sender.clone(), store, &self.own));
                *polling = Arc::downgrade(&started);
                started
            })
        };
        // It fails if the task ended.
        let _ = polling.is_ready.clone().wait_for(|is_ready| *is_ready).await;
        Watch { changes, _polling: polling }
    }
}

/// The task that lists the memory at intervals. It is stopped on drop.
#[derive(Debug)]
struct Polling {
    _task: JoinSet<()>,
    /// Whether the memory was listed once.
    is_ready: watch::Receiver<bool>,
}

impl Polling {
    fn start(sender: Sender<Changes>, store: &Arc<dyn Store>, own: &Arc<Own>) -> Self {
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
                let changes = last.map_or_else(everything, |last| difference(&last, &next, &own_paths));
                if !changes.is_empty() {
                    let _ = sender.send(changes);
                }
                last = Some(next);
            }
        });
        Self { _task: task, is_ready }
    }
}

/// Waits for the time of the next listing. After a change of this handle it is sooner, so that a change of another
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

/// The changes between two listings, except for these paths.
fn difference(last: &Listing, next: &Listing, except: &[MemoryPath]) -> Changes {
    let change = |operation, path: &StorePath, size| {
        let is_excepted = except.iter().any(|excepted| excepted.overlaps(path));
        let path = MemoryPath::try_from(path).ok().filter(|_| !is_excepted)?;
        Some(MemoryChange { size, ..MemoryChange::new(operation, path) })
    };
    let removed = last.keys().filter(|path| !next.contains_key(*path));
    let removed = removed.filter_map(|path| change(Operation::Remove, path, None));
    let written = next.iter().filter_map(|(path, state)| match last.get(path) {
        Some(last) if last == state => None,
        Some(_) => change(Operation::Edit, path, Some(state.0)),
        None => change(Operation::Write, path, Some(state.0)),
    });
    removed.chain(written).collect()
}

#[cfg(test)]
mod tests {
    use async_trait::async_trait;
    use memory_tool_core::{Batch, InMemoryStore, Node, ReadOptions, StoreError};

    use super::*;
    use crate::Memory;

    fn listing(files: &[(&str, u64)]) -> Listing {
        files.iter().map(|(path, size)| (path.parse().unwrap(), (*size, None, None))).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn changes_of_this_and_of_other_handles_are_reported_once() {
        let store = Arc::new(InMemoryStore::new());
        let memory = Memory::over(Arc::clone(&store)).build().await.unwrap();
        memory.write("/memories/a", "1").await.unwrap();
        let (mut first, mut second) = (memory.watch().await, memory.watch().await);
        memory.write("/memories/own", "text").await.unwrap();
        store.write("/memories/a", "other").await.unwrap();
        store.write("/memories/b", "").await.unwrap();
        for watch in [&mut first, &mut second] {
            let own = watch.next().await.unwrap();
            assert_eq!(summary(&own), ["Write /memories/own Some(4)"]);
            let others = watch.next().await.unwrap();
            assert_eq!(summary(&others), ["Edit /memories/a Some(5)", "Write /memories/b Some(0)"]);
        }
        memory.rename("/memories/own", "/memories/new").await.unwrap();
        assert_eq!(summary(&first.next().await.unwrap()), ["Rename /memories/new None"]);
        drop(first);
        store.remove("/memories/b").await.unwrap();
        second.next().await.unwrap();
        assert_eq!(summary(&second.next().await.unwrap()), ["Remove /memories/b None"]);
        for _ in 0..=MAX_LAG + 1 {
            memory.write("/memories/a", "").await.unwrap();
        }
        assert_eq!(second.next().await.unwrap(), everything());
        drop(second);
        assert!(lock(&memory.inner.feed.polling).upgrade().is_none(), "the task ends with the last watch");
    }

    /// A store that applies a batch only after `go`.
    #[derive(Debug, Default)]
    struct WaitingStore {
        inner: InMemoryStore,
        go: Notify,
    }

    #[async_trait]
    impl Store for WaitingStore {
        async fn read_opts(&self, path: &StorePath, options: ReadOptions) -> Result<Node, StoreError> {
            self.inner.read_opts(path, options).await
        }

        async fn apply(&self, batch: Batch) -> Result<(), StoreError> {
            self.go.notified().await;
            self.inner.apply(batch).await
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_change_that_began_before_the_watch_is_reported_at_once() {
        let store = Arc::new(WaitingStore::default());
        let memory = Memory::over(Arc::clone(&store)).build().await.unwrap();
        let writer = memory.clone();
        let writing = tokio::spawn(async move { writer.write("/memories/a", "1").await });
        tokio::task::yield_now().await;
        let mut watch = memory.watch().await;
        let begun = Instant::now();
        store.go.notify_one();
        assert_eq!(summary(&watch.next().await.unwrap()), ["Write /memories/a Some(1)"]);
        assert!(begun.elapsed() < INTERVAL, "the time is simulated, so only a listing takes any");
        writing.await.unwrap().unwrap();
    }

    fn summary(changes: &[MemoryChange]) -> Vec<String> {
        changes.iter().map(|change| format!("{:?} {} {:?}", change.operation, change.path, change.size)).collect()
    }

    #[test]
    fn listings_are_compared() {
        let last = listing(&[("/memories/a", 1), ("/memories/d/b", 1), ("/memories/d/c", 1)]);
        let difference = |next: &[(&str, u64)], except: &[&str]| {
            let except: Vec<_> = except.iter().map(|path| path.parse().unwrap()).collect();
            let changes = difference(&last, &listing(next), &except);
            changes.iter().map(|change| format!("{:?} {}", change.operation, change.path)).collect::<Vec<_>>()
        };
        let none: [&str; 0] = [];
        assert_eq!(difference(&[("/memories/a", 1), ("/memories/d/b", 1), ("/memories/d/c", 1)], &[]), none);
        let edited = [("/memories/a", 2), ("/memories/d/b", 1), ("/memories/d/c", 1)];
        assert_eq!(difference(&edited, &[]), ["Edit /memories/a"]);
        assert_eq!(difference(&edited, &["/memories/a"]), none);
        assert_eq!(difference(&edited, &["/memories/d"]), ["Edit /memories/a"]);
        let moved = [("/memories/a", 1), ("/memories/e/b", 1), ("/memories/d/c", 1)];
        assert_eq!(difference(&moved, &[]), ["Remove /memories/d/b", "Write /memories/e/b"]);
        assert_eq!(difference(&moved, &["/memories/d", "/memories/e"]), none);
        assert_eq!(difference(&moved, &["/memories"]), none);
    }
}
