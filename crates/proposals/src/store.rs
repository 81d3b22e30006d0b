//! [`ProposalStore`]: a memory with the changes of a proposal.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use futures::stream::{self, StreamExt as _, TryStreamExt as _};
use memory_tool_core::{
    Batch, Change, DEFAULT_MAX_FILE_BYTES, DEFAULT_TIMEOUT, ErrorKind, Node, PathMap, PathMapEdits, Precondition,
    ReadOptions, Stat, Store, StoreError, StorePath, lock,
};
use memory_tool_history::Id;
use tokio::time::Instant;

use crate::limits::WaitingLimits;
use crate::name::ProposalName;
use crate::overlay::{Member, Overlay, Place, Seen};
use crate::records::{self, Index, Proposed, Text, damaged, millis, now};
use crate::rules::Rules;

/// How many files of a removed or renamed directory are read at once.
const PARALLEL_READS: usize = 8;

type Required = (StorePath, Precondition);

/// A memory with the changes of a proposal. Changes are kept as records of the inner store, and others do not see them.
///
/// ```
/// use memory_tool_core::{InMemoryStore, StoreExt};
/// use memory_tool_proposals::{ProposalStore, Proposals, Selection};
/// use std::sync::Arc;
///
/// # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
/// let memory = Arc::new(InMemoryStore::new());
/// memory.write("/memories/a.txt", "old").await?;
/// let session = ProposalStore::new(Arc::clone(&memory), "nightly".parse()?);
/// session.write("/memories/a.txt", "new").await?;
/// assert_eq!(session.read_to_string("/memories/a.txt").await?, "new");
/// assert_eq!(memory.read_to_string("/memories/a.txt").await?, "old");
///
/// let proposals = Proposals::new(Arc::clone(&memory));
/// let proposal = proposals.get(&"nightly".parse()?).await?;
/// proposals.take(&proposal, &Selection::all(&proposal)).await?;
/// assert_eq!(memory.read_to_string("/memories/a.txt").await?, "new");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Behavior
/// 1. A file that the proposal has not changed is the one of the inner store, also after later changes there. A file
///    that it has changed stays as it proposes, and the text that it replaces is kept.
/// 2. A batch changes nothing in the inner store but records of the proposal, in one batch, unless [`Rules`] let it
///    count at once. All sessions of a proposal agree on the order of their changes.
/// 3. If the inner store has a file at the path of a directory of the proposal, or a directory at the path of a file,
///    the proposal hides it.
/// 4. Quotas apply to the memory with the proposal, [`WaitingLimits`] to the proposal. Records belong to the inner
///    store, and changes of records do not wait.
///
/// It needs a Tokio runtime with timers if other sessions change the same proposal.
#[derive(Debug)]
pub struct ProposalStore<S> {
    inner: S,
    name: ProposalName,
    limits: WaitingLimits,
    rules: Rules,
    timeout: Duration,
    max_file_bytes: u64,
    known: Mutex<Option<Arc<Overlay>>>,
}

impl<S: Store> ProposalStore<S> {
    /// A session of the proposal with this name, which exists while it changes something.
    pub fn new(inner: S, name: ProposalName) -> Self {
        let (limits, max_file_bytes) = (WaitingLimits::new(), DEFAULT_MAX_FILE_BYTES);
        let (rules, timeout) = (Rules::new(), DEFAULT_TIMEOUT);
        Self { inner, name, limits, rules, timeout, max_file_bytes, known: Mutex::new(None) }
    }

    /// Sets how much may wait.
    #[must_use]
    pub fn limits(mut self, limits: WaitingLimits) -> Self {
        self.limits = limits;
        self
    }

    /// Sets which changes count at once.
    #[must_use]
    pub fn rules(mut self, rules: Rules) -> Self {
        self.rules = rules;
        self
    }

    /// How long a batch tries again while other sessions change the proposal. Default: 30 seconds.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Sets the maximum size of a file that is written.
    #[must_use]
    pub fn max_file_bytes(mut self, bytes: u64) -> Self {
        self.max_file_bytes = bytes;
        self
    }

    /// The newest overlay that is known, or the present one.
    async fn overlay(&self) -> Result<Arc<Overlay>, StoreError> {
        let known = lock(&self.known).clone();
        match known {
            Some(known) => Ok(known),
            None => {
                let read = Arc::new(read_overlay(&self.inner, &self.name).await?);
                *lock(&self.known) = Some(Arc::clone(&read));
                Ok(read)
            }
        }
    }

    /// Whether the error shows that the overlay is not the present one, which is then forgotten.
    fn is_outdated(&self, overlay: &Arc<Overlay>, error: &StoreError) -> bool {
        let is_of = |path: &StorePath| *path == records::index(&self.name) || *path == records::ended();
        let is_outdated = is_mismatch_of(error).is_some_and(is_of);
        if is_outdated {
            let mut known = lock(&self.known);
            if known.as_ref().is_some_and(|known| Arc::ptr_eq(known, overlay)) {
                *known = None;
            }
        }
        is_outdated
    }

    async fn read_over(&self, overlay: &Overlay, path: &StorePath, options: &ReadOptions) -> Result<Node, StoreError> {
        let (own, inner) = self.divide(overlay, options.preconditions());
        let current = options.clone().without_preconditions().require_all(overlay.required(&self.name));
        let read = current.require_all(inner);
        let node = match overlay.place(path) {
            Place::Proposed(text) => match &text.inline {
                Some(inline) => {
                    self.inner.read_opts(&records::nothing(&self.name), read).await?;
                    Node::File(memory_tool_core::StoredFile::new(inline.clone().into_bytes(), text.version()))
                }
                None => {
                    let stored = self.inner.read_opts(&records::text(&self.name, text.id), read).await?.into_file();
                    let content = stored.ok_or_else(|| damaged("a text is missing"))?.content;
                    Node::File(memory_tool_core::StoredFile::new(content, text.version()))
                }
            },
            Place::Nowhere => {
                self.inner.read_opts(&records::nothing(&self.name), read).await?;
                Node::Absent
            }
            Place::Inner => {
                let read = if overlay.shows(path) { read } else { read.without_stale() };
                overlay.over(path, self.inner.read_opts(path, read).await?)
            }
        };
        for (path, precondition) in own {
            precondition.check(path, &self.own_stat(overlay, path).await?)?;
        }
        Ok(node)
    }

    /// Divides preconditions into the ones that the proposal decides, and the ones that the inner store checks.
    fn divide<'a>(&self, overlay: &Overlay, preconditions: &'a [Required]) -> (Vec<&'a Required>, Vec<Required>) {
        let (own, inner): (Vec<_>, Vec<_>) =
            preconditions.iter().partition(|(path, _)| !path.is_record() && overlay.touches(path));
        (own, inner.into_iter().cloned().collect())
    }

    /// The node at a path that the proposal touches.
    async fn own_stat(&self, overlay: &Overlay, path: &StorePath) -> Result<Stat, StoreError> {
        match overlay.place(path) {
            Place::Proposed(text) => Ok(Stat::File(text.version())),
            Place::Nowhere => Ok(Stat::Absent),
            Place::Inner => {
                let current = ReadOptions::new().require_all(overlay.required(&self.name));
                Ok(overlay.over(path, self.inner.read_opts(path, current).await?).stat())
            }
        }
    }

    /// The batch of records that has the effect of a batch, if the overlay is the present one.
    async fn plan(&self, overlay: &Overlay, batch: &Batch) -> Result<Batch, StoreError> {
        let (of_records, of_files) = divide_changes(batch);
        let seen = self.see(overlay, batch).await?;
        let mut required: Vec<_> = seen.required().collect();
        let mut check = with_changes(batch, of_files.clone());
        for (path, precondition) in batch.preconditions() {
            let is_seen = seen.stats.contains_key(path) || !path.is_record() && overlay.touches(path);
            if is_seen {
                check = check.require(path, precondition.clone());
            } else {
                required.push((path.clone(), precondition.clone()));
            }
        }
        let is_new = |path: &StorePath| !overlay.touches(path);
        let is_at_once =
            of_files.iter().flat_map(Change::paths).all(is_new) && self.rules.allow(&of_files, &seen.files);
        let of_inner = if is_at_once { batch.changes().to_vec() } else { of_records };
        // First: under another index, the other preconditions mean nothing.
        let current = with_changes(batch, of_inner).require_all(overlay.required(&self.name));
        let inner = current.require_all(required);
        let inner_files = seen.files.clone();
        let state = PathMap::from(seen.with(overlay));
        check.check(&state)?;
        let written = |number, _: &[u8], _: Option<&Member>| Ok::<_, StoreError>(Member::Written { number });
        let edits = state.plan(&check, written)?;
        if edits.is_empty() {
            return Ok(inner);
        }
        if is_at_once {
            // Sessions agree on the order of these changes, too.
            return replace_index(inner, &self.name, overlay, overlay.index.clone(), Vec::new());
        }
        let mut index = overlay.index.clone();
        let texts = self.edit(&mut index, &inner_files, &check, edits)?;
        if let Some(path) = check.changes().iter().flat_map(Change::paths).next() {
            self.limits.check(&overlay.index, &index, path)?;
        }
        replace_index(inner, &self.name, overlay, index, texts)
    }

    /// Reads what a batch depends on.
    async fn see(&self, overlay: &Overlay, batch: &Batch) -> Result<Seen, StoreError> {
        let mut seen = Seen::default();
        for change in batch.changes().iter().filter(|change| !change.is_of_record()) {
            match change {
                Change::Write { path, .. } => self.see_target(overlay, batch, path, &mut seen).await?,
                Change::Remove { path } => self.see_all(overlay, path, &mut seen).await?,
                Change::Rename { from, to } => {
                    self.see_all(overlay, from, &mut seen).await?;
                    self.see_target(overlay, batch, to, &mut seen).await?;
                }
            }
        }
        for (path, _) in batch.preconditions().iter().filter(|(path, _)| !path.is_record() && overlay.touches(path)) {
            if matches!(overlay.place(path), Place::Inner) && !seen.stats.contains_key(path) {
                self.see_at(path, &mut seen).await?;
            }
        }
        for (directory, _) in batch.quotas() {
            let node = self.inner.read_opts(directory, ReadOptions::new()).await?;
            if let Node::Directory(listing) = node {
                seen.list(&listing);
            } else {
                seen.add(directory, &node);
            }
        }
        Ok(seen)
    }

    /// Reads a path that is written, and whether a file is above it.
    async fn see_target(
        &self,
        overlay: &Overlay,
        batch: &Batch,
        path: &StorePath,
        seen: &mut Seen,
    ) -> Result<(), StoreError> {
        if !matches!(overlay.place(path), Place::Inner) {
            return Ok(());
        }
        let is_required_absent = batch.preconditions().contains(&(path.clone(), Precondition::Absent));
        let is_absent = if is_required_absent && !overlay.touches(path) {
            seen.stats.insert(path.clone(), Stat::Absent); // the inner store checks it
            true
        } else {
            self.see_at(path, seen).await? == Stat::Absent
        };
        let mut above = path.parents().take_while(|above| is_absent && !above.is_root());
        while let Some(directory) = above.next().filter(|above| overlay.under(above).next().is_none()) {
            if self.see_at(&directory, seen).await? != Stat::Absent {
                break;
            }
        }
        Ok(())
    }

    /// Reads the file at a path, or all visible files under it.
    async fn see_all(&self, overlay: &Overlay, path: &StorePath, seen: &mut Seen) -> Result<(), StoreError> {
        if !matches!(overlay.place(path), Place::Inner) {
            return Ok(());
        }
        let node = self.inner.read_opts(path, ReadOptions::new()).await?;
        seen.add(path, &node);
        let files = node.into_listing().files.into_iter().map(|file| file.path).filter(|path| overlay.shows(path));
        let reads = files.map(|path| async move {
            let node = self.inner.read_opts(&path, ReadOptions::new()).await?;
            Ok::<_, StoreError>((path, node))
        });
        let reads: Vec<_> = reads.collect();
        let found: Vec<_> = stream::iter(reads).buffer_unordered(PARALLEL_READS).try_collect().await?;
        found.iter().for_each(|(path, node)| seen.add(path, node));
        Ok(())
    }

    async fn see_at(&self, path: &StorePath, seen: &mut Seen) -> Result<Stat, StoreError> {
        let node = self.inner.read_opts(path, ReadOptions::new()).await?;
        seen.add(path, &node);
        Ok(node.stat())
    }

    /// Adds the edits to the index. Returns the contents that need records.
    fn edit(
        &self,
        index: &mut Index,
        inner: &BTreeMap<StorePath, Member>,
        batch: &Batch,
        edits: PathMapEdits<Member>,
    ) -> Result<Vec<(Id, Vec<u8>)>, StoreError> {
        let mut texts = Texts { stored: Vec::new(), of_inner: BTreeMap::new() };
        for (path, member) in edits {
            let before = index.files.remove(&path);
            let base = match &before {
                Some(before) => before.base.clone(),
                None => texts.of_file(index, inner.get(&path))?,
            };
            let kept = |created: u64| before.as_ref().map_or(created, |before| before.created);
            let (text, modified, created) = match member {
                None if base.is_none() => continue,
                None => (None, now(), kept(now())),
                Some(Member::Written { number }) => {
                    let times = batch.times(number);
                    let modified = times.modified.map_or_else(now, millis);
                    let text = texts.new_text(index, batch.content(number).to_vec())?;
                    let of_inner = inner.get(&path).and_then(|member| match member {
                        Member::Inner { entry, .. } => entry.created,
                        Member::Proposed { .. } | Member::Written { .. } => None,
                    });
                    let created = times.created.map(millis).unwrap_or_else(|| kept(of_inner.map_or(modified, millis)));
                    (Some(text), modified, created)
                }
                Some(Member::Proposed { entry, text }) => {
                    (Some(text), entry.modified.map_or_else(now, millis), entry.created.map_or_else(now, millis))
                }
                Some(Member::Inner { ref entry, .. }) => {
                    let modified = entry.modified.map_or_else(now, millis);
                    let text = texts.of_file(index, member.as_ref())?;
                    (text, modified, entry.created.map_or(modified, millis))
                }
            };
            let mut edited = Proposed { base, text, modified, created, ..before.unwrap_or_default() };
            edited.add_author(batch.actor());
            index.files.insert(path, edited);
        }
        Ok(texts.stored)
    }
}

/// The texts that a batch adds.
struct Texts {
    stored: Vec<(Id, Vec<u8>)>,
    /// A file that is renamed has one text under both paths, by which the rename is recognized.
    of_inner: BTreeMap<StorePath, Text>,
}

impl Texts {
    fn new_text(&mut self, index: &Index, content: Vec<u8>) -> Result<Text, StoreError> {
        let (text, apart) = index.new_text(content)?;
        self.stored.extend(apart.map(|content| (text.id, content)));
        Ok(text)
    }

    /// The text of a file of the inner store.
    fn of_file(&mut self, index: &Index, member: Option<&Member>) -> Result<Option<Text>, StoreError> {
        let Some(Member::Inner { entry, file }) = member else { return Ok(None) };
        if let Some(known) = self.of_inner.get(&entry.path) {
            return Ok(Some(known.clone()));
        }
        let file = file.as_ref().ok_or_else(|| StoreError::VersionMismatch { path: entry.path.clone() })?;
        let text = self.new_text(index, file.content.clone())?;
        self.of_inner.insert(entry.path.clone(), text.clone());
        Ok(Some(text))
    }
}

/// Adds the replacement of an index to a batch that requires the index.
pub(crate) fn replace_index(
    batch: Batch,
    name: &ProposalName,
    overlay: &Overlay,
    mut index: Index,
    texts: Vec<(Id, Vec<u8>)>,
) -> Result<Batch, StoreError> {
    if index.files.is_empty() {
        let is_present = !matches!(overlay.precondition, Precondition::Absent);
        let batch = if is_present { batch.remove(records::directory(name)) } else { batch };
        return note_end(batch);
    }
    let (before, after) = (overlay.index.stored_texts(), index.stored_texts());
    let batch = before.difference(&after).fold(batch, |batch, id| batch.remove(records::text(name, *id)));
    let added = texts.into_iter().filter(|(id, _)| after.contains(id));
    let batch = added.fold(batch, |batch, (id, content)| batch.write(records::text(name, id), content));
    Ok(batch.write(records::index(name), index.next_record()?))
}

/// Notes in a batch that a proposal ends, or that a change without one counts at once.
pub(crate) fn note_end(batch: Batch) -> Result<Batch, StoreError> {
    Ok(batch.write(records::ended(), Id::random()?.to_string()))
}

/// Reads the index of a proposal. Without one, it changes nothing.
pub(crate) async fn read_overlay(store: &impl Store, name: &ProposalName) -> Result<Overlay, StoreError> {
    let stored = store.read_opts(&records::index(name), ReadOptions::new()).await?.into_file();
    if let Some(file) = stored {
        let (index, precondition) = (Index::parse(&file.content)?, Precondition::Version(file.version));
        return Ok(Overlay { index, precondition, ended: None });
    }
    let ended = store.read_opts(&records::ended(), ReadOptions::new()).await?.into_file();
    let ended = ended.map_or(Precondition::Absent, |file| Precondition::Version(file.version));
    Ok(Overlay { index: Index::default(), precondition: Precondition::Absent, ended: Some(ended) })
}

/// The changes of records, and the changes of files.
fn divide_changes(batch: &Batch) -> (Vec<Change>, Vec<Change>) {
    batch.changes().iter().cloned().partition(Change::is_of_record)
}

/// A batch with other changes, and without preconditions. Only files have quotas.
fn with_changes(batch: &Batch, changes: Vec<Change>) -> Batch {
    let mut other = Batch::new();
    if !changes.iter().all(Change::is_of_record) {
        other = batch.quotas().iter().fold(other, |other, (path, quota)| other.limit(path, *quota));
    }
    other = batch.actor().into_iter().fold(other, |other, actor| other.by(actor.clone()));
    other = batch.command().into_iter().fold(other, Batch::for_command);
    changes.into_iter().fold(other, Batch::change)
}

/// The path of a precondition that does not hold.
pub(crate) fn is_mismatch_of(error: &StoreError) -> Option<&StorePath> {
    match error {
        StoreError::VersionMismatch { path } | StoreError::AlreadyExists { path } => Some(path),
        _ => None,
    }
}

fn touches_proposals(change: &Change) -> bool {
    let root = records::root();
    change.paths().any(|path| path.overlaps(&root))
}

#[async_trait]
impl<S: Store> Store for ProposalStore<S> {
    async fn read_opts(&self, path: &StorePath, options: ReadOptions) -> Result<Node, StoreError> {
        let deadline = Instant::now() + self.timeout.min(MAX_TIMEOUT);
        loop {
            let overlay = self.overlay().await?;
            match self.read_over(&overlay, path, &options).await {
                Err(error) if self.is_outdated(&overlay, &error) => check_deadline(deadline)?,
                outcome => return outcome,
            }
        }
    }

    async fn apply(&self, batch: Batch) -> Result<(), StoreError> {
        batch.check_file_sizes(self.max_file_bytes)?;
        if batch.changes().iter().any(touches_proposals) {
            let reason = "Only proposals themselves change their records.";
            return Err(StoreError::refused(&records::root(), "proposals", reason));
        }
        let deadline = Instant::now() + self.timeout.min(MAX_TIMEOUT);
        loop {
            let overlay = self.overlay().await?;
            let planned = match self.plan(&overlay, &batch).await {
                Ok(planned) => planned,
                Err(error) => {
                    // The overlay may be an old one, with which the batch was wrong.
                    let present = read_overlay(&self.inner, &self.name).await?;
                    if present.is_same(&overlay) {
                        return Err(error);
                    }
                    *lock(&self.known) = None;
                    check_deadline(deadline)?;
                    continue;
                }
            };
            match self.inner.apply(planned).await {
                Ok(()) => {
                    *lock(&self.known) = None;
                    return Ok(());
                }
                Err(error) if self.is_outdated(&overlay, &error) => check_deadline(deadline)?,
                // A file of the inner store changed after it was read here.
                Err(error) if is_mismatch_of(&error).is_some_and(|path| !requires(&batch, path)) => {
                    check_deadline(deadline)?;
                }
                Err(error) => return Err(error),
            }
        }
    }
}

/// Replaces timeouts beyond the end of the clock.
const MAX_TIMEOUT: Duration = Duration::from_secs(60 * 60);

fn check_deadline(deadline: Instant) -> Result<(), StoreError> {
    let busy = || StoreError::failure(ErrorKind::Busy, records::READING, "other sessions kept changing the proposal");
    if Instant::now() < deadline { Ok(()) } else { Err(busy()) }
}

fn requires(batch: &Batch, path: &StorePath) -> bool {
    batch.preconditions().iter().any(|(required, _)| required == path)
}
