//! [`Tree`]: the shared memories in a memory, for one caller.

use std::sync::Arc;

use async_trait::async_trait;
use memory_tool::policies::{MountedStore, MountedStoreBuilder};
use memory_tool::store::{Batch, ReadOptions, StorePath};
use memory_tool::{ErrorKind, InMemoryStore, Memory, MemoryPath, Node, Store, StoreError};
use tokio::sync::OnceCell;

use super::visit::{Door, Purpose, Visit};
use super::{Memories, OpenMemory};
use crate::access::mounts::Mount;
use crate::access::{Caller, Right};
use crate::http::error::ApiError;
use memory_tool::store::MemoryName;

/// The name of the policy in refusals.
const POLICY: &str = "server";

/// The kind of a caller.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Audience {
    /// A person, or a program with the API.
    Person,
    /// An agent by the commands of the tool. Its changes can wait in a proposal.
    Agent,
    /// A person who creates the memory.
    Creator,
}

/// The shared memories in a memory.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tree(Option<Arc<Mounts>>);

#[derive(Debug)]
struct Mounts {
    memories: Arc<Memories>,
    caller: Caller,
    /// The memory that has them.
    root: MemoryName,
    audience: Audience,
    mounts: Vec<Mount>,
}

impl Tree {
    pub(super) fn new(memories: &Arc<Memories>, caller: &Caller, root: &MemoryName, audience: Audience) -> Self {
        let (memories, mounts) = (Arc::clone(memories), caller.mounts_in(root));
        let (caller, root) = (caller.clone(), root.clone());
        Self(Some(Arc::new(Mounts { memories, caller, root, audience, mounts })))
    }

    /// The mounts, in no order.
    pub(crate) fn mounts(&self) -> &[Mount] {
        self.0.as_ref().map_or(&[], |mounts| &mounts.mounts)
    }

    /// The mount at or above a path, if it is in a shared memory.
    pub(crate) fn owner(&self, path: &MemoryPath) -> Option<&Mount> {
        owner(self.mounts(), path)
    }

    /// The caller's way to the memory of a mount.
    ///
    /// # Errors
    /// [`ApiError`] 404 if the memory does not exist or the caller has lost the mount, or the error of the storage.
    pub(crate) async fn door(&self, mount: &Mount) -> Result<Door, ApiError> {
        let Some(Mounts { memories, caller, audience, .. }) = self.0.as_deref() else {
            return Err(ApiError::no_such_memory(mount.memory.as_str()));
        };
        let right = if *audience == Audience::Agent { caller.tool_right() } else { Right::Read };
        Box::pin(Door::reach(memories, caller, &mount.memory, right, *audience)).await
    }

    /// The memory of a mount, if it exists.
    pub(super) async fn open(&self, name: &MemoryName) -> Option<Arc<OpenMemory>> {
        self.0.as_ref()?.memories.open(name).await.ok()
    }

    /// The present tree, if the caller has other mounts.
    pub(super) fn changed(&self) -> Option<Self> {
        let Mounts { memories, caller, root, audience, mounts } = self.0.as_deref()?;
        let now = Self::new(memories, caller, root, *audience);
        (now.mounts() != mounts).then_some(now)
    }

    /// The caller, whose token may change.
    pub(super) fn caller(&self) -> Option<&Caller> {
        self.0.as_ref().map(|mounts| &mounts.caller)
    }

    /// The memory with the shared memories in it.
    pub(super) fn over(&self, memory: &Memory) -> Result<Memory, ApiError> {
        self.mounted(memory, |builder, mount| {
            let store = SharedStore { tree: self.clone(), mount: mount.clone(), visit: OnceCell::new() };
            if self.can_change(mount) {
                builder.mount(mount.point.clone(), store)
            } else {
                builder.mount_read_only(mount.point.clone(), store)
            }
        })
    }

    /// The memory without the shared memories, and without the own files that they hide.
    pub(super) fn beside(&self, memory: &Memory) -> Result<Memory, ApiError> {
        self.mounted(memory, |builder, mount| builder.mount_read_only(mount.point.clone(), InMemoryStore::new()))
    }

    fn mounted(
        &self,
        memory: &Memory,
        mount: impl Fn(MountedStoreBuilder, &Mount) -> MountedStoreBuilder,
    ) -> Result<Memory, ApiError> {
        if self.mounts().is_empty() {
            return Ok(memory.clone());
        }
        let store = self.mounts().iter().fold(MountedStore::builder(memory.store()), mount);
        let store = store.build().map_err(ApiError::internal)?;
        Ok(memory.layered(|_| Arc::new(store)))
    }

    /// Whether the caller may change the memory of a mount now.
    fn can_change(&self, mount: &Mount) -> bool {
        let Some(Mounts { caller, audience, .. }) = self.0.as_deref() else { return false };
        let is_allowed = *audience == Audience::Agent || caller.has_in(&mount.memory, Right::Write);
        mount.can_change && caller.can_change(&mount.memory) && is_allowed
    }
}

/// The mount at or above a path, with the longest point.
pub(crate) fn owner<'a>(mounts: &'a [Mount], path: &MemoryPath) -> Option<&'a Mount> {
    let above = mounts.iter().filter(|mount| *path == mount.point || path.is_under(&mount.point));
    above.max_by_key(|mount| mount.point.as_str().len())
}

/// A shared memory during a request. It is empty if it does not exist, or once the caller has lost it.
#[derive(Debug)]
struct SharedStore {
    tree: Tree,
    mount: Mount,
    visit: OnceCell<Visit>,
}

impl SharedStore {
    /// The memory for the caller, if both may meet now.
    async fn store(&self) -> Result<Option<Arc<dyn Store>>, StoreError> {
        // Each time, because the membership can end.
        let door = match self.tree.door(&self.mount).await {
            Err(error) if error.status().is_client_error() => return Ok(None),
            door => door.map_err(failure)?,
        };
        match self.visit.get_or_try_init(|| Box::pin(async move { door.enter(Purpose::Look).await })).await {
            Err(error) if error.status().is_client_error() => Ok(None),
            visit => visit.map(|visit| Some(visit.memory.store())).map_err(failure),
        }
    }
}

fn failure(error: ApiError) -> StoreError {
    StoreError::failure(ErrorKind::Other, "opening a shared memory", error)
}

#[async_trait]
impl Store for SharedStore {
    async fn read_opts(&self, path: &StorePath, options: ReadOptions) -> Result<Node, StoreError> {
        match self.store().await? {
            Some(store) => store.read_opts(path, options).await,
            None => InMemoryStore::new().read_opts(path, options).await,
        }
    }

    async fn apply(&self, batch: Batch) -> Result<(), StoreError> {
        match self.store().await? {
            // The visit began before the caller lost this right.
            Some(_) if !self.tree.can_change(&self.mount) => {
                Err(StoreError::read_only(&StorePath::memories(), &StorePath::memories()))
            }
            Some(store) => store.apply(batch).await,
            None => {
                let reason = "This directory is of a memory that does not exist, or that is no longer shared with you.";
                Err(StoreError::refused(&StorePath::memories(), POLICY, reason))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use memory_tool::{Actor, StoreUrl};
    use memory_tool_test_fixtures::session::Place;

    use super::*;
    use crate::ServerOptions;
    use crate::access::Grant;
    use crate::access::tokens::{TokenEntry, TokenFile, Tokens};

    /// The membership ends while the calls of a turn run.
    #[tokio::test]
    async fn a_lost_memory_is_empty_in_the_middle_of_a_turn() {
        for is_revoked in [false, true] {
            let (place, directory) = (Place::in_memory(), tempfile::tempdir().unwrap());
            let path = directory.path().join("tokens");
            let actor = Actor::from_trusted_name("alice").unwrap();
            let grants = vec![Grant::Name("alice".parse().unwrap())];
            let (mut entry, secret) = TokenEntry::generate(actor, grants, Right::ALL.to_vec()).unwrap();
            let (id, without) = (entry.id.clone(), entry.clone());
            entry.create = true;
            entry.mounts.push("/memories/team=team:write".parse().unwrap());
            entry.mounts.push("/memories/more=more:read".parse().unwrap());
            TokenFile::new(&path).add(entry).unwrap();
            let options = ServerOptions::new(StoreUrl::Local(place.outside("memories")), &path);
            let (memories, tokens) = (Arc::new(Memories::new(&options)), Tokens::load(&options).unwrap());
            let following = tokio::spawn(Arc::clone(tokens.index()).follow());
            let (caller, _) = tokens.caller(&secret).unwrap();
            let door = Door::for_tool(&memories, &caller, "alice").await.unwrap();
            let visit = door.enter(Purpose::CHANGE).await.unwrap();
            let whole = visit.whole().unwrap();
            whole.write("/memories/own", "1").await.unwrap();
            whole.write("/memories/team/a", "1").await.unwrap();
            assert_eq!(whole.list("/memories").await.unwrap().len(), 2);
            // A mount for reading creates no memory.
            let names: Vec<_> = memories.names().await.unwrap().iter().map(ToString::to_string).collect();
            assert_eq!(names, ["alice", "team"]);

            let mut changes = caller.changes().unwrap();
            changes.mark_unchanged();
            TokenFile::new(&path).revoke(&id).unwrap();
            if !is_revoked {
                TokenFile::new(&path).add(without).unwrap();
            }
            while !caller.mounts_now().is_empty() {
                tokio::time::timeout(Duration::from_secs(60), changes.changed()).await.unwrap().unwrap();
            }
            let refused = whole.write("/memories/team/a", "2").await.unwrap_err().to_string();
            assert!(refused.contains("no longer shared with you"), "{refused}");
            assert!(!whole.exists("/memories/team/a").await.unwrap());
            assert_eq!(whole.list("/memories").await.unwrap().len(), 1);
            whole.write("/memories/own", "2").await.unwrap();
            following.abort();
        }
    }

    /// The turn can read on, because only the right to change ended.
    #[tokio::test]
    async fn a_memory_that_became_read_only_in_a_turn_is_not_empty() {
        let (place, directory) = (Place::in_memory(), tempfile::tempdir().unwrap());
        let [path, file] = ["tokens", "server.toml"].map(|name| directory.path().join(name));
        let write = |access: &str| {
            let text = format!("store = 'in-process:'\ntokens = 'x'\n[groups.team]\n{access} = ['alice']\n");
            std::fs::write(&file, text).unwrap();
        };
        write("write");
        let grants = vec![Grant::Name("alice".parse().unwrap())];
        let actor = Actor::from_trusted_name("alice").unwrap();
        let (mut entry, secret) = TokenEntry::generate(actor, grants, Right::ALL.to_vec()).unwrap();
        entry.create = true;
        TokenFile::new(&path).add(entry).unwrap();
        let mut options = ServerOptions::new(StoreUrl::Local(place.outside("memories")), &path);
        options.configuration = Some(file.clone());
        let (memories, tokens) = (Arc::new(Memories::new(&options)), Tokens::load(&options).unwrap());
        let following = tokio::spawn(Arc::clone(tokens.index()).follow());
        let (caller, _) = tokens.caller(&secret).unwrap();
        let visit = Door::for_tool(&memories, &caller, "alice").await.unwrap().enter(Purpose::CHANGE).await.unwrap();
        let whole = visit.whole().unwrap();
        whole.write("/memories/team/a", "1").await.unwrap();
        let mut changes = caller.changes().unwrap();
        write("read");
        while caller.mounts_now().iter().any(|mount| mount.can_change) {
            tokio::time::timeout(Duration::from_secs(60), changes.changed()).await.unwrap().unwrap();
        }
        let refused = whole.write("/memories/team/a", "2").await.unwrap_err().to_string();
        assert!(refused.contains("read-only"), "{refused}");
        assert_eq!(whole.read_to_string("/memories/team/a").await.unwrap(), "1");
        following.abort();
    }
}
