//! [`MountedStore`]: one memory out of several stores.

use std::sync::Arc;

use async_trait::async_trait;
use memory_tool_core::{
    Batch, Change, FailureKind, FileEntry, MemoryPath, Node, ReadOptions, RecordName, Store, StoreError, StoredFile,
};

use super::relocation::{Relocated, cut_at_root};
use crate::preconditions::check_after_read;

/// One memory out of several stores: one at `/memories`, others at directories beneath it, such as a read-only
/// `/memories/team` beside a private rest.
///
/// A path belongs to the store with the longest mount point at or above it. What `/memories/team/a.txt` is in the memory, is
/// `/memories/a.txt` in the store that is mounted at `/memories/team`.
///
/// # What holds
/// 1. Mount points are as implicit as all directories (`[P5]`): one exists exactly while a file lies beneath it. A listing
///    shows what is mounted beneath.
/// 2. Mount points, and the directories above them, are fixed: none can be removed or renamed, and no file can take its
///    place, also while it is empty. Only what is beneath a mount point can be changed.
/// 3. A batch is about one store, which applies it atomically. A rename or batch across stores could not be atomic, and is
///    refused.
/// 4. Emptying the memory (`clear_all_memory`) empties the store at `/memories`. It is refused while a file lies in another
///    one, which others may share; whoever holds those stores can empty each of them.
/// 5. A directory above a mount point is listed store after store, so not from one moment, and not at all while one of
///    them fails.
/// 6. What a store holds where another one is mounted, or as a file above a mount point, is hidden. So is a file in a mounted
///    store whose path would be longer here than a path may be; no rename here makes one so.
/// 7. A [quota](memory_tool_core::Quota) of a directory that is kept in several stores is a failure, because no store can check it
///    in one step: limit each store by itself, before it is mounted.
/// 8. Records are kept in the store at `/memories`. A batch that changes a record and a file of another store is refused.
///
/// All of this is refused before anything is read, by [`StoreError::Refused`] with a reason that the model reads.
///
/// ```
/// use std::sync::Arc;
///
/// use memory_tool_core::{Engine, InMemoryStore, MemoryTool};
/// use memory_tool_policies::MountedStore;
/// use serde_json::json;
///
/// # let runtime = tokio::runtime::Builder::new_current_thread().build()?;
/// # runtime.block_on(async {
/// let team = Arc::new(InMemoryStore::new());
/// let input = json!({"command": "create", "path": "/memories/style.md", "file_text": "Be brief."});
/// Engine::new(Arc::clone(&team)).call(input).await?;
///
/// let store = MountedStore::builder(InMemoryStore::new()).mount_read_only("/memories/team".parse()?, team).build()?;
/// let tool = Engine::new(store);
/// let reply = tool.call(json!({"command": "view", "path": "/memories/team/style.md"})).await?;
/// assert_eq!(reply.to_string(), "Here's the content of /memories/team/style.md with line numbers:\n     1\tBe brief.");
/// let refused = tool.call(json!({"command": "delete", "path": "/memories/team/style.md"})).await;
/// assert_eq!(
///     refused.unwrap_err().to_string(),
///     "Error: /memories/team is read-only. Its files can be viewed, but not changed.",
/// );
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct MountedStore {
    root: Mount,
    /// In the order of their mount points: a directory comes before what is beneath it.
    mounted: Vec<Mount>,
}

/// A store and where it is mounted.
#[derive(Clone, Debug)]
struct Mount {
    store: Relocated<Arc<dyn Store>>,
    is_read_only: bool,
}

impl Mount {
    fn new(point: MemoryPath, store: impl Store, is_read_only: bool) -> Self {
        Self { store: Relocated::new(Arc::new(store), point, MemoryPath::root()), is_read_only }
    }

    fn point(&self) -> &MemoryPath {
        self.store.outer()
    }

    fn is_at_or_above(&self, path: &MemoryPath) -> bool {
        path == self.point() || path.is_under(self.point())
    }

    fn is_at_or_beneath(&self, path: &MemoryPath) -> bool {
        self.point() == path || self.point().is_under(path)
    }
}

impl MountedStore {
    /// A memory with `root` at `/memories`, beside which others are to be mounted. A [`ReadOnlyStore`](memory_tool_core::ReadOnlyStore)
    /// makes it read-only.
    pub fn builder(root: impl Store) -> MountedStoreBuilder {
        MountedStoreBuilder { root: Mount::new(MemoryPath::root(), root, false), mounted: Vec::new() }
    }

    /// The mount that `path` belongs to: the one with the longest mount point.
    fn owner(&self, path: &MemoryPath) -> &Mount {
        self.mounted.iter().rev().find(|mount| mount.is_at_or_above(path)).unwrap_or(&self.root)
    }

    /// The first mount at or beneath `path`. Where there is one, `path` is fixed, and no store knows by itself what is there.
    fn fixed_by(&self, path: &MemoryPath) -> Option<&Mount> {
        self.mounted.iter().find(|mount| mount.is_at_or_beneath(path))
    }

    /// Lists a directory of one store, without what others hide.
    async fn list_shown(&self, mount: &Mount, directory: &MemoryPath) -> Result<Vec<FileEntry>, StoreError> {
        let mut files = mount.store.list(directory).await?;
        files.retain(|file| self.owner(&file.path).point() == mount.point() && self.fixed_by(&file.path).is_none());
        Ok(files)
    }

    /// Reads a directory that is at or above a mount point.
    async fn read_fixed(&self, directory: &MemoryPath) -> Result<Node, StoreError> {
        let mut files = self.list_shown(self.owner(directory), directory).await?;
        for mount in self.mounted.iter().filter(|mount| mount.point().is_under(directory)) {
            files.extend(self.list_shown(mount, mount.point()).await?);
        }
        Ok(if files.is_empty() && !directory.is_root() { Node::Absent } else { Node::Directory(files) })
    }

    fn refuse_change(&self, change: &Change) -> Result<(), StoreError> {
        match change {
            Change::Write { path, .. } => self.refuse_change_at(path),
            Change::Remove { path } if path.is_root() => Ok(()), // by rules of its own
            Change::Remove { path } => self.refuse_change_at(path),
            Change::Rename { from, to } => {
                self.refuse_change_at(from)?;
                self.refuse_change_at(to)?;
                self.refuse_rename_across(from, to)
            }
        }
    }

    fn refuse_change_at(&self, path: &MemoryPath) -> Result<(), StoreError> {
        let owner = self.owner(path);
        if owner.is_read_only {
            return Err(StoreError::read_only(path, owner.point()));
        }
        self.refuse_fixed(path)
    }

    fn refuse_fixed(&self, path: &MemoryPath) -> Result<(), StoreError> {
        let Some(mount) = self.fixed_by(path) else { return Ok(()) };
        let point = mount.point();
        let reason = if point == path {
            format!("{path} is a mount point. Change the files in it; it cannot be replaced, renamed or deleted.")
        } else {
            format!("{path} contains the mount point {point}, so it cannot be replaced, renamed or deleted.")
        };
        refused(path, reason)
    }

    /// Refuses to limit together what several stores hold: they do not change in one step. It is a mistake of the program, so it
    /// is for the operator.
    fn refuse_quota_across(&self, directory: &MemoryPath) -> Result<(), StoreError> {
        match self.mounted.iter().find(|mount| mount.point().is_under(directory)) {
            None => Ok(()),
            Some(mount) => {
                let cause = QuotaAcrossMounts { directory: directory.clone(), point: mount.point().clone() };
                Err(StoreError::failure(FailureKind::Other, "checking a quota", cause))
            }
        }
    }

    fn refuse_rename_across(&self, from: &MemoryPath, to: &MemoryPath) -> Result<(), StoreError> {
        if self.owner(from).point() == self.owner(to).point() {
            return Ok(());
        }
        let reason = format!(
            "{from} cannot be renamed to {to}, which is in a different store. Create the files there, then delete them here."
        );
        refused(from, reason)
    }

    /// The one mount that a batch is about.
    fn sole_owner(&self, batch: &Batch) -> Result<&Mount, StoreError> {
        let required = batch.preconditions().iter().map(|(path, _)| path);
        let limited = batch.quotas().iter().map(|(directory, _)| directory);
        let changed = batch.changes().iter().map(|change| match change {
            Change::Write { path, .. } | Change::Remove { path } => path,
            Change::Rename { from, .. } => from, // which `to` shares its owner with
        });
        let mut paths = required.chain(limited).chain(changed);
        let Some(first) = paths.next() else { return Ok(&self.root) };
        let owner = self.owner(first);
        if let Some(other) = paths.find(|path| self.owner(path).point() != owner.point()) {
            let reason = format!("{first} and {other} are in different stores, so one batch cannot include both.");
            return refused(other, reason);
        }
        if !owner.point().is_root() && has_records(batch) {
            let reason =
                format!("{first} is in a different store than the policy records, so one batch cannot include both.");
            return refused(first, reason);
        }
        Ok(owner)
    }

    async fn apply_to_owner(&self, batch: Batch) -> Result<(), StoreError> {
        for (path, _) in batch.preconditions() {
            self.refuse_fixed(path)?;
        }
        let owner = self.sole_owner(&batch)?;
        for change in batch.changes() {
            match change {
                Change::Write { .. } => {}
                Change::Remove { path } if path.is_root() => self.refuse_files_beside_root().await?,
                Change::Remove { .. } => {}
                Change::Rename { from, to } => self.refuse_hiding(owner, from, to).await?,
            }
        }
        owner.store.apply(batch).await
    }

    async fn refuse_files_beside_root(&self) -> Result<(), StoreError> {
        for mount in &self.mounted {
            let point = mount.point();
            if !self.list_shown(mount, point).await?.is_empty() {
                let reason =
                    format!("/memories cannot be cleared while {point}, which is a different store, contains files.");
                return refused(point, reason);
            }
        }
        Ok(())
    }

    /// Refuses a rename after which the path of a file would be too long to be shown. A mounted store has shorter paths, and
    /// would make it.
    async fn refuse_hiding(&self, owner: &Mount, from: &MemoryPath, to: &MemoryPath) -> Result<(), StoreError> {
        if owner.point().is_root() || to.as_str().len() <= from.as_str().len() {
            return Ok(());
        }
        // The directory above, because it can be listed also where `from` is a file that cannot be read.
        let above = from.parent().unwrap_or_else(MemoryPath::root);
        for file in owner.store.list(&above).await? {
            if file.path.is_under(from) {
                file.path.replace_prefix(from, to)?;
            }
        }
        Ok(())
    }
}

/// Whether the batch requires something of a record, or changes one.
fn has_records(batch: &Batch) -> bool {
    !batch.record_preconditions().is_empty() || !batch.record_changes().is_empty()
}

fn refused<T>(path: &MemoryPath, reason: String) -> Result<T, StoreError> {
    Err(StoreError::refused(path, "mounts", reason))
}

#[async_trait]
impl Store for MountedStore {
    async fn read_opts(&self, path: &MemoryPath, options: ReadOptions) -> Result<Node, StoreError> {
        let node = match self.fixed_by(path) {
            None => self.owner(path).store.read(path, ReadOptions::new()).await?,
            Some(_) => self.read_fixed(path).await?,
        };
        check_after_read(self, &options).await?;
        Ok(node)
    }

    async fn read_record(&self, name: &RecordName) -> Result<Option<StoredFile>, StoreError> {
        self.root.store.read_record(name).await
    }

    async fn apply(&self, batch: Batch) -> Result<(), StoreError> {
        batch.validate()?;
        for change in batch.changes() {
            self.refuse_change(change)?;
        }
        for (directory, _) in batch.quotas() {
            self.refuse_quota_across(directory)?;
        }
        match cut_at_root(&batch) {
            None => self.apply_to_owner(batch).await,
            Some((before, unmet)) => {
                self.apply_to_owner(before).await?;
                Err(unmet)
            }
        }
    }
}

/// What is mounted where in a [`MountedStore`]. Made by [`MountedStore::builder`].
#[derive(Clone, Debug)]
#[must_use]
pub struct MountedStoreBuilder {
    root: Mount,
    mounted: Vec<Mount>,
}

impl MountedStoreBuilder {
    /// Mounts `store` at the directory `point`, to be read and changed. It may lie beneath another mount point.
    pub fn mount(mut self, point: MemoryPath, store: impl Store) -> Self {
        self.mounted.push(Mount::new(point, store, false));
        self
    }

    /// Mounts `store` at the directory `point`, to be read alone. It may lie beneath another mount point.
    pub fn mount_read_only(mut self, point: MemoryPath, store: impl Store) -> Self {
        self.mounted.push(Mount::new(point, store, true));
        self
    }

    /// The memory.
    ///
    /// # Errors
    /// [`MountError`] where two stores would be at one path.
    pub fn build(self) -> Result<MountedStore, MountError> {
        let Self { root, mut mounted } = self;
        mounted.sort_by(|left, right| left.point().cmp(right.point()));
        let in_order = std::iter::once(&root).chain(&mounted);
        if let Some((_, twice)) = in_order.zip(&mounted).find(|(before, mount)| before.point() == mount.point()) {
            return Err(MountError::Taken { point: twice.point().clone() });
        }
        Ok(MountedStore { root, mounted })
    }
}

/// A quota of a directory that is kept in several stores.
#[derive(Debug, thiserror::Error)]
#[error(
    "cannot check a quota on {directory}, which spans several stores (one is mounted at {point}): \
     limit each store before mounting it"
)]
struct QuotaAcrossMounts {
    directory: MemoryPath,
    point: MemoryPath,
}

/// Why a [`MountedStore`] cannot be built.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum MountError {
    /// Another store is mounted there. At `/memories` it is the one that the builder began with.
    #[error("more than one store is mounted at {point}")]
    Taken {
        /// The path that was given twice.
        point: MemoryPath,
    },
}
