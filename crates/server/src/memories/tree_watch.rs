//! [`TreeWatch`]: the changes of a memory and of the shared memories in it.

use std::sync::Arc;
use std::time::Duration;

use futures::future::{self, FutureExt as _};
use memory_tool::{Memory, MemoryChange, MemoryPath, Operation, Watch};
use tokio::sync::watch::Receiver;
use tokio::time::sleep;

use super::tree::Tree;
use super::visit::Door;
use crate::access::mounts::Mount;
use crate::access::tokens::Index;

/// The time after which a missing shared memory is looked for again.
const RETRY: Duration = Duration::from_secs(2);

/// The changes of a memory by anyone.
#[derive(Debug)]
pub(crate) struct TreeWatch {
    watches: Vec<Watched>,
    tree: Tree,
    /// The changes of tokens and groups.
    tokens: Option<Receiver<Arc<Index>>>,
}

#[derive(Debug)]
struct Watched {
    /// The memory, which stays open.
    #[expect(dead_code, reason = "held, so that the watch sees changes of this process at once")]
    door: Option<Door>,
    /// The place of its files, if it is not the memory itself.
    mount: Option<Mount>,
    watch: Watch,
}

impl TreeWatch {
    /// Watches a memory without shared ones in it.
    pub(crate) async fn of(memory: &Memory) -> Self {
        let own = Watched { door: None, mount: None, watch: memory.watch().await };
        Self { watches: vec![own], tree: Tree::default(), tokens: None }
    }

    pub(crate) async fn through(door: &Door) -> Self {
        let own = Self::of(&door.memory).await;
        let tokens = door.tree().caller().and_then(|caller| caller.changes());
        let watches = own.watches.into_iter().chain(watched(door.tree()).await).collect();
        Self { watches, tree: door.tree().clone(), tokens }
    }

    /// Watches shared memories that were created since. Returns whether there are some.
    async fn add_created(&mut self) -> bool {
        let watches = watched(&self.tree).await;
        let is_more = watches.len() >= self.watches.len();
        if is_more {
            self.watches.truncate(1);
            self.watches.extend(watches);
        }
        is_more
    }

    /// Waits for the next changes, as [`Watch::next`] does. If the tree has other shared memories, it reports
    /// `/memories`. Cancel safe.
    pub(crate) async fn next(&mut self) -> Option<Vec<MemoryChange>> {
        loop {
            if let Some(now) = self.tree.changed() {
                let watches = watched(&now).await;
                self.watches.truncate(1);
                self.watches.extend(watches);
                self.tree = now;
                return Some(everything());
            }
            let changing = async |tokens: &mut Option<Receiver<Arc<Index>>>| match tokens {
                Some(tokens) => tokens.changed().await.is_ok(),
                None => future::pending().await,
            };
            let is_complete = self.watches.len() > self.tree.mounts().len();
            let next = self.watches.iter_mut().map(|watched| watched.next().boxed());
            let changes = tokio::select! {
                (changes, ..) = future::select_all(next) => changes?,
                true = changing(&mut self.tokens) => Vec::new(),
                () = sleep(RETRY), if !is_complete => Vec::new(),
            };
            if changes.is_empty() && !is_complete && self.add_created().await {
                return Some(everything());
            }
            if !changes.is_empty() && self.tree.changed().is_none() {
                return Some(changes);
            }
        }
    }
}

fn everything() -> Vec<MemoryChange> {
    vec![MemoryChange::new(Operation::Write, MemoryPath::root())]
}

/// The changes of the shared memories.
async fn watched(tree: &Tree) -> Vec<Watched> {
    let mut watches = Vec::new();
    for mount in tree.mounts() {
        let Ok(door) = tree.door(mount).await else { continue };
        let watch = door.memory.watch().await;
        watches.push(Watched { door: Some(door), mount: Some(mount.clone()), watch });
    }
    watches
}

impl Watched {
    async fn next(&mut self) -> Option<Vec<MemoryChange>> {
        let changes = self.watch.next().await?;
        Some(changes.iter().filter_map(|change| self.moved(change)).collect())
    }

    /// The change at its place in the tree.
    fn moved(&self, change: &MemoryChange) -> Option<MemoryChange> {
        let mut moved = change.clone();
        if let Some(mount) = &self.mount {
            moved.path = mount.outer(&change.path)?;
            moved.old_path = change.old_path.as_ref().and_then(|path| mount.outer(path));
        }
        Some(moved)
    }
}
