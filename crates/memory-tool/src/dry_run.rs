//! [`DryRunStore`]: a wrapper that simulates changes.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use memory_tool_core::{
    Batch, ErrorKind, FileEntry, Node, PathMap, PathMapEntry, Precondition, ReadOptions, Stat, Store, StoreError,
    StorePath, StoreState, UnlistedItem, Usage, Version,
};

/// A wrapper that reads files from the inner store and keeps changes in this process. Policies are applied on top of
/// it, and check the simulated changes.
///
/// It keeps at most [`MAX_KEPT_BYTES`] of written contents, so a large import does not exhaust the RAM of this process.
#[derive(Debug)]
pub(crate) struct DryRunStore {
    inner: Arc<dyn Store>,
    unlisted: Vec<UnlistedItem>,
    state: Mutex<SimulatedState>,
}

/// The maximum total size of contents to keep, in addition to the contents of the last batch.
const MAX_KEPT_BYTES: usize = 16 * 1024 * 1024;

#[derive(Debug, Default)]
struct SimulatedState {
    files: PathMap<Entry>,
    writes: u64,
    kept_bytes: usize,
}

#[derive(Clone, Debug)]
struct Entry {
    listed: FileEntry,
    source: Source,
}

#[derive(Clone, Debug)]
enum Source {
    /// The file of the inner store at this path.
    Stored(StorePath),
    /// A simulated write with this number. `content` is `None` if it is no longer kept.
    Written { number: u64, content: Option<Arc<[u8]>> },
}

impl PathMapEntry for Entry {
    /// The version of a simulated write. Only the inner store knows the version of a stored file: see [`StateView`].
    fn version(&self) -> Version {
        match self.source {
            Source::Stored(_) => Version::new(*b"stored"),
            Source::Written { number, .. } => Version::new([b"dry run".as_slice(), &number.to_be_bytes()].concat()),
        }
    }

    fn to_entry(&self, path: &StorePath) -> FileEntry {
        let mut entry = self.listed.clone();
        entry.path = path.clone();
        entry
    }
}

impl DryRunStore {
    pub(crate) async fn over(inner: Arc<dyn Store>) -> Result<Self, StoreError> {
        let stored = |entry: FileEntry| {
            let source = Source::Stored(entry.path.clone());
            (entry.path.clone(), Entry { listed: entry, source })
        };
        let (mut files, mut unlisted) = (BTreeMap::new(), Vec::new());
        for root in [StorePath::memories(), StorePath::records()] {
            let listing = inner.read_opts(&root, ReadOptions::new()).await?.into_listing();
            files.extend(listing.files.into_iter().map(stored));
            unlisted.extend(listing.unlisted);
        }
        let state = SimulatedState { files: files.into(), ..SimulatedState::default() };
        Ok(Self { inner, unlisted, state: Mutex::new(state) })
    }

    fn state(&self) -> MutexGuard<'_, SimulatedState> {
        // Batches are planned before they change the state, so it is consistent even if a lock holder panicked.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads `path` from the inner store, if the simulated file there is a stored file.
    async fn read_stored(&self, path: &StorePath) -> Result<Option<Node>, StoreError> {
        let stored = match self.state().files.files().get(path) {
            Some(Entry { source: Source::Stored(stored), .. }) => stored.clone(),
            _ => return Ok(None),
        };
        self.inner.read_opts(&stored, ReadOptions::new()).await.map(Some)
    }

    /// The versions of stored files that have preconditions.
    async fn versions(&self, preconditions: &[(StorePath, Precondition)]) -> Result<Versions, StoreError> {
        let mut versions = Versions::new();
        for (path, _) in preconditions {
            if let Some(Node::File(file)) = self.read_stored(path).await? {
                versions.insert(path.clone(), file.version);
            }
        }
        Ok(versions)
    }
}

type Versions = BTreeMap<StorePath, Version>;

/// The simulated files with the versions of stored files.
struct StateView<'a> {
    files: &'a PathMap<Entry>,
    versions: &'a Versions,
}

impl StoreState for StateView<'_> {
    fn stat(&self, path: &StorePath) -> Result<Stat, StoreError> {
        match self.versions.get(path) {
            Some(version) => Ok(Stat::File(version.clone())),
            None => self.files.stat(path),
        }
    }

    fn usage(&self, path: &StorePath) -> Result<Usage, StoreError> {
        self.files.usage(path)
    }
}

#[async_trait]
impl Store for DryRunStore {
    async fn read_opts(&self, path: &StorePath, options: ReadOptions) -> Result<Node, StoreError> {
        let versions = self.versions(options.preconditions()).await?;
        let stored = self.read_stored(path).await?;
        let files = &self.state().files;
        options.check(&StateView { files, versions: &versions })?;
        if let Some(node) = stored {
            return Ok(node);
        }
        match files.files().get(path) {
            Some(Entry { source: Source::Written { content: None, .. }, .. }) => Err(not_kept()),
            _ => Ok(match files.node(path, Entry::content) {
                Node::Directory(listing) => {
                    let is_in = |item: &&UnlistedItem| item.directory == *path || item.directory.is_under(path);
                    Node::Directory(listing.with_unlisted(self.unlisted.iter().filter(is_in).cloned().collect()))
                }
                node => node,
            }),
        }
    }

    async fn apply(&self, batch: Batch) -> Result<(), StoreError> {
        let versions = self.versions(batch.preconditions()).await?;
        let state = &mut *self.state();
        batch.check(&StateView { files: &state.files, versions: &versions })?;
        let SimulatedState { files, writes, .. } = state;
        let mut written_bytes = 0;
        let edits = files.plan(&batch, |_, content, _| {
            *writes += 1;
            written_bytes += content.len();
            let listed = FileEntry::new(StorePath::memories(), content.len() as u64);
            Ok::<_, StoreError>(Entry {
                listed,
                source: Source::Written { number: *writes, content: Some(content.into()) },
            })
        })?;
        if state.kept_bytes + written_bytes > MAX_KEPT_BYTES {
            state.files.values_mut().for_each(Entry::drop_content);
            state.kept_bytes = 0;
        }
        state.files.edit(edits);
        state.kept_bytes += written_bytes;
        Ok(())
    }
}

impl Entry {
    fn content(&self) -> Vec<u8> {
        match &self.source {
            Source::Written { content: Some(content), .. } => content.to_vec(),
            Source::Written { content: None, .. } | Source::Stored(_) => Vec::new(),
        }
    }

    fn drop_content(&mut self) {
        if let Source::Written { content, .. } = &mut self.source {
            *content = None;
        }
    }
}

fn not_kept() -> StoreError {
    let cause = format!("a dry run keeps at most {MAX_KEPT_BYTES} bytes of written contents");
    StoreError::failure(ErrorKind::Other, "reading in a dry run", cause)
}

#[cfg(test)]
mod tests {
    use memory_tool_core::{InMemoryStore, StoreExt as _};

    use super::*;

    async fn dry_run_over(files: &[(&str, &str)]) -> (Arc<InMemoryStore>, DryRunStore) {
        let inner = Arc::new(InMemoryStore::new());
        for (path, text) in files {
            inner.write(*path, *text).await.unwrap();
        }
        let store = DryRunStore::over(Arc::clone(&inner) as Arc<dyn Store>).await.unwrap();
        (inner, store)
    }

    #[tokio::test]
    async fn changes_are_visible_but_not_written() {
        let (inner, store) = dry_run_over(&[("/memories/a/b", "old"), ("/memories/c", "kept")]).await;
        store.rename("/memories/c", "/memories/d").await.unwrap();
        assert_eq!(store.read_to_string("/memories/d").await.unwrap(), "kept");
        store.remove("/memories/a").await.unwrap();
        assert_eq!(store.read("/memories/a").await.unwrap(), Node::Absent);
        store.write("/memories/a", "new").await.unwrap();
        assert_eq!(store.read_to_string("/memories/a").await.unwrap(), "new");
        assert_eq!(store.usage().await.unwrap(), Usage::new(2, 7, 1));
        assert_eq!(inner.read_to_string("/memories/a/b").await.unwrap(), "old");
        assert_eq!(inner.read("/memories/d").await.unwrap(), Node::Absent);
    }

    #[tokio::test]
    async fn contents_are_kept_up_to_a_limit_and_across_renames() {
        let (_, store) = dry_run_over(&[]).await;
        store.write("/memories/a", "one").await.unwrap();
        store.write("/memories/b", "two").await.unwrap();
        store.rename("/memories/a", "/memories/c").await.unwrap();
        assert_eq!(store.read_to_string("/memories/c").await.unwrap(), "one");
        store.write("/memories/d", vec![b'x'; MAX_KEPT_BYTES]).await.unwrap();
        assert_eq!(store.usage().await.unwrap(), Usage::new(3, 6 + MAX_KEPT_BYTES as u64, 1));
        assert_eq!(store.read_to_string("/memories/d").await.unwrap().len(), MAX_KEPT_BYTES);
        assert!(
            matches!(store.read("/memories/c").await, Err(StoreError::Failure { .. })),
            "dropped contents must not read as an empty file"
        );
    }

    #[tokio::test]
    async fn records_are_visible_but_not_written() {
        let (inner, store) = dry_run_over(&[]).await;
        let name: StorePath = "/records/expiry/access-times".parse().unwrap();
        store.apply(Batch::new().write(name.clone(), "times")).await.unwrap();
        assert_eq!(store.read_opts(&name, ReadOptions::new()).await.unwrap().into_file().unwrap().content, b"times");
        assert_eq!(inner.read_opts(&name, ReadOptions::new()).await.unwrap().into_file(), None);
        store.apply(Batch::new().remove(name.clone())).await.unwrap();
        assert_eq!(store.read_opts(&name, ReadOptions::new()).await.unwrap().into_file(), None);
    }

    #[tokio::test]
    async fn a_precondition_on_a_stored_file_uses_its_stored_version() {
        let (_, store) = dry_run_over(&[("/memories/a", "old")]).await;
        let path: StorePath = "/memories/a".parse().unwrap();
        let version = store.read(&path).await.unwrap().into_file().unwrap().version;
        let edit = Batch::new().require(path.clone(), Precondition::Version(version)).write(path, "new");
        store.apply(edit.clone()).await.unwrap();
        assert!(matches!(store.apply(edit).await, Err(StoreError::VersionMismatch { .. })));
    }
}
