//! [`MountedStore`]: several stores as one memory.

use std::sync::Arc;

use async_trait::async_trait;
use memory_tool_core::{
    Batch, Change, ErrorKind, Listing, MemoryPath, Node, ReadOptions, Store, StoreError, StorePath,
};

use super::relocation::{Relocated, cut_at_root};
use crate::preconditions::check_after_read;

/// The name of this policy in refusals.
const POLICY: &str = "mounts";
const RENAME_ACROSS: &str = "mount-boundary";

/// Several stores as one memory: one at `/memories` and others at directories under it, for example private files and a
/// read-only `/memories/team`.
///
/// A path belongs to the store with the longest mount point at or above it. The file `/memories/a.txt` of a store
/// mounted at `/memories/team` is `/memories/team/a.txt` in the memory.
///
/// # Behavior
/// 1. Mount points are implicit, like all directories (`[P5]`): a mount point exists while it contains a file. Listings
///    include mounted files.
/// 2. Mount points and the directories above them cannot be removed, renamed or replaced by a file, even while they are
///    empty.
/// 3. One batch changes one store, which applies it atomically. A rename or batch across stores is refused because it
///    could not be atomic.
/// 4. Clearing the memory (`clear_all_memory`) clears the store at `/memories`. It is refused while another store
///    contains files, because other memories may share that store.
/// 5. A directory above a mount point is listed one store at a time, so the listing is not a snapshot. It fails if one
///    of the stores fails.
/// 6. Files of a store at or under the mount point of another store are hidden, as is a file in place of a directory
///    above a mount point. Files in a mounted store are also hidden if their path in the memory would be too long; a
///    rename that would cause this is refused.
/// 7. A [quota](memory_tool_core::Quota) on a directory that spans several stores is a failure, because no store can
///    check it in one step. Limit each store before mounting it.
/// 8. Records are kept in the store at `/memories`. A batch that changes a record and a file of another store is
///    refused.
///
/// A refusal is a [`StoreError::Refused`] with a reason for the model.
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
/// assert!(reply.to_string().ends_with("     1\tBe brief."));
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
    /// Sorted by mount point: a directory comes before the directories under it.
    mounted: Vec<Mount>,
}

#[derive(Clone, Debug)]
struct Mount {
    store: Relocated<Arc<dyn Store>>,
    is_read_only: bool,
}

impl Mount {
    fn new(point: impl Into<StorePath>, store: impl Store, is_read_only: bool) -> Self {
        Self { store: Relocated::new(Arc::new(store), point, StorePath::memories()), is_read_only }
    }

    fn point(&self) -> &StorePath {
        self.store.outer()
    }

    fn is_at_or_above(&self, path: &StorePath) -> bool {
        path == self.point() || path.is_under(self.point())
    }

    fn is_at_or_under(&self, path: &StorePath) -> bool {
        self.point() == path || self.point().is_under(path)
    }
}

impl MountedStore {
    /// Returns a builder with `root` mounted at `/memories`. Wrap `root` in a
    /// [`ReadOnlyStore`](memory_tool_core::ReadOnlyStore) to make it read-only.
    pub fn builder(root: impl Store) -> MountedStoreBuilder {
        MountedStoreBuilder { root: Mount::new(StorePath::memories(), root, false), mounted: Vec::new() }
    }

    /// Whether the error is the refusal of a rename across stores (behavior 3).
    pub fn is_rename_across(error: &StoreError) -> bool {
        matches!(error, StoreError::Refused { policy, .. } if *policy == RENAME_ACROSS)
    }

    /// Returns the mount that `path` belongs to, which has the longest mount point.
    fn owner(&self, path: &StorePath) -> &Mount {
        self.mounted.iter().rev().find(|mount| mount.is_at_or_above(path)).unwrap_or(&self.root)
    }

    /// Returns the first mount at or under `path`. If there is one, `path` cannot be changed, and no single store can
    /// read it.
    fn first_mount_under(&self, path: &StorePath) -> Option<&Mount> {
        self.mounted.iter().find(|mount| mount.is_at_or_under(path))
    }

    /// Lists a directory of one store, without the files that other mounts hide.
    async fn list_visible(&self, mount: &Mount, directory: &StorePath) -> Result<Listing, StoreError> {
        let mut listing = mount.store.list(directory).await?;
        let is_owned = |path: &StorePath| self.owner(path).point() == mount.point();
        listing.files.retain(|file| is_owned(&file.path) && self.first_mount_under(&file.path).is_none());
        listing.unlisted.retain(|item| is_owned(&item.directory));
        Ok(listing)
    }

    /// Reads a directory at or above a mount point.
    async fn read_across_mounts(&self, directory: &StorePath) -> Result<Node, StoreError> {
        let mut listing = self.list_visible(self.owner(directory), directory).await?;
        for mount in self.mounted.iter().filter(|mount| mount.point().is_under(directory)) {
            let mounted = self.list_visible(mount, mount.point()).await?;
            listing.files.extend(mounted.files);
            listing.unlisted.extend(mounted.unlisted);
        }
        Ok(if listing.files.is_empty() && !directory.is_root() { Node::Absent } else { Node::Directory(listing) })
    }

    fn refuse_change(&self, change: &Change) -> Result<(), StoreError> {
        match change {
            Change::Write { path, .. } => self.refuse_change_at(path),
            Change::Remove { path } if path.is_root() => Ok(()), // checked in `refuse_clearing_other_mounts`
            Change::Remove { path } => self.refuse_change_at(path),
            Change::Rename { from, to } => {
                self.refuse_change_at(from)?;
                self.refuse_change_at(to)?;
                self.refuse_rename_across(from, to)
            }
        }
    }

    fn refuse_change_at(&self, path: &StorePath) -> Result<(), StoreError> {
        let owner = self.owner(path);
        if owner.is_read_only {
            return Err(StoreError::read_only(path, owner.point()));
        }
        self.refuse_mount_point(path)
    }

    fn refuse_mount_point(&self, path: &StorePath) -> Result<(), StoreError> {
        let Some(mount) = self.first_mount_under(path) else { return Ok(()) };
        let point = mount.point();
        let reason = if point == path {
            format!(
                "{path} is a mount point and cannot be replaced, renamed or deleted. \
                 Only the files in it can be changed."
            )
        } else {
            format!("{path} contains the mount point {point}, so it cannot be replaced, renamed or deleted.")
        };
        refused(path, reason)
    }

    /// Refuses a quota that spans several stores, which cannot be checked in one step. The program caused it, so the
    /// error is for the operator.
    fn refuse_quota_across(&self, directory: &StorePath) -> Result<(), StoreError> {
        match self.mounted.iter().find(|mount| mount.point().is_under(directory)) {
            None => Ok(()),
            Some(mount) => {
                let cause = QuotaAcrossMounts { directory: directory.clone(), point: mount.point().clone() };
                Err(StoreError::failure(ErrorKind::Other, "checking a quota", cause))
            }
        }
    }

    fn refuse_rename_across(&self, from: &StorePath, to: &StorePath) -> Result<(), StoreError> {
        if self.owner(from).point() == self.owner(to).point() {
            return Ok(());
        }
        let reason = format!(
            "{from} cannot be renamed to {to}, which is in a different store. \
             Create the new files first, then delete the old ones."
        );
        Err(StoreError::refused(from, RENAME_ACROSS, reason))
    }

    /// Returns the only mount that a batch reads and changes.
    fn sole_owner(&self, batch: &Batch) -> Result<&Mount, StoreError> {
        let required = batch.preconditions().iter().map(|(path, _)| path);
        let limited = batch.quotas().iter().map(|(directory, _)| directory);
        let changed = batch.changes().iter().map(|change| match change {
            Change::Write { path, .. } | Change::Remove { path } => path,
            Change::Rename { from, .. } => from, // `to` has the same owner
        });
        let mut paths = required.chain(limited).chain(changed);
        let Some(first) = paths.next() else { return Ok(&self.root) };
        let owner = self.owner(first);
        if let Some(other) = paths.find(|path| self.owner(path).point() != owner.point()) {
            // The model does not know records.
            let (shown, other) = if first.is_record() { (other, first) } else { (first, other) };
            let reason = if other.is_record() {
                format!("{shown} is in a different store than the policy records, so one batch cannot include both.")
            } else {
                format!("{shown} and {other} are in different stores, so one batch cannot include both.")
            };
            return refused(if other.is_record() { shown } else { other }, reason);
        }
        Ok(owner)
    }

    async fn apply_to_owner(&self, batch: Batch) -> Result<(), StoreError> {
        for (path, _) in batch.preconditions() {
            self.refuse_mount_point(path)?;
        }
        let owner = self.sole_owner(&batch)?;
        for change in batch.changes() {
            match change {
                Change::Write { .. } => {}
                Change::Remove { path } if *path == StorePath::memories() => {
                    self.refuse_clearing_other_mounts().await?;
                }
                Change::Remove { .. } => {}
                Change::Rename { from, to } => self.refuse_too_long_paths(owner, from, to).await?,
            }
        }
        owner.store.apply(batch).await
    }

    async fn refuse_clearing_other_mounts(&self) -> Result<(), StoreError> {
        for mount in &self.mounted {
            let point = mount.point();
            if !self.list_visible(mount, point).await?.files.is_empty() {
                let reason =
                    format!("/memories cannot be cleared while {point}, which is a different store, contains files.");
                return refused(point, reason);
            }
        }
        Ok(())
    }

    /// Refuses a rename that would make the path of a file too long for this memory. Paths are shorter in the mounted
    /// store, which would accept it.
    async fn refuse_too_long_paths(&self, owner: &Mount, from: &StorePath, to: &StorePath) -> Result<(), StoreError> {
        if owner.point().is_root() || to.as_str().len() <= from.as_str().len() {
            return Ok(());
        }
        // Lists the parent because `from` may be a file that cannot be read.
        let above = from.parent().unwrap_or_else(StorePath::memories);
        for file in owner.store.list(&above).await?.files {
            if file.path.is_under(from) {
                file.path.replace_prefix(from, to)?;
            }
        }
        Ok(())
    }
}

fn refused<T>(path: &StorePath, reason: String) -> Result<T, StoreError> {
    Err(StoreError::refused(path, POLICY, reason))
}

#[async_trait]
impl Store for MountedStore {
    async fn read_opts(&self, path: &StorePath, options: ReadOptions) -> Result<Node, StoreError> {
        let node = match self.first_mount_under(path) {
            None => self.owner(path).store.read(path, options.clone().without_preconditions()).await?,
            Some(_) => self.read_across_mounts(path).await?,
        };
        check_after_read(self, &options).await?;
        Ok(node)
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

/// A builder for [`MountedStore`], created by [`MountedStore::builder`].
#[derive(Clone, Debug)]
#[must_use]
pub struct MountedStoreBuilder {
    root: Mount,
    mounted: Vec<Mount>,
}

impl MountedStoreBuilder {
    /// Mounts `store` at the directory `point`, which may be under another mount point.
    pub fn mount(mut self, point: MemoryPath, store: impl Store) -> Self {
        self.mounted.push(Mount::new(point, store, false));
        self
    }

    /// Mounts `store` read-only at the directory `point`, which may be under another mount point.
    pub fn mount_read_only(mut self, point: MemoryPath, store: impl Store) -> Self {
        self.mounted.push(Mount::new(point, store, true));
        self
    }

    /// Builds the store.
    ///
    /// # Errors
    /// Returns [`MountError`] if two stores have the same mount point.
    pub fn build(self) -> Result<MountedStore, MountError> {
        let Self { root, mut mounted } = self;
        mounted.sort_by(|left, right| left.point().cmp(right.point()));
        let in_order = std::iter::once(&root).chain(&mounted);
        if let Some((_, twice)) = in_order.zip(&mounted).find(|(before, mount)| before.point() == mount.point()) {
            return Err(MountError::DuplicatePoint { point: twice.point().clone() });
        }
        Ok(MountedStore { root, mounted })
    }
}

#[derive(Debug, thiserror::Error)]
#[error(
    "cannot check a quota on {directory}, which spans several stores (one is mounted at {point}): \
     limit each store before mounting it"
)]
struct QuotaAcrossMounts {
    directory: StorePath,
    point: StorePath,
}

/// An error of [`MountedStoreBuilder::build`].
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum MountError {
    /// Two stores have the same mount point. At `/memories` one of them is the store passed to
    /// [`MountedStore::builder`].
    #[error("more than one store is mounted at {point}")]
    DuplicatePoint {
        /// The mount point.
        point: StorePath,
    },
}
