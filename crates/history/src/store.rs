//! [`HistoryStore`]: a store that keeps what its changes replace.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures::{StreamExt as _, TryStreamExt as _, stream};
use memory_tool_core::{
    Actor, Batch, Change, ErrorKind, MAX_ATTEMPTS, Node, Precondition, ReadOptions, Store, StoreError, StorePath,
    Version,
};

use crate::attempts::Attempts;
use crate::entry::{Digest, Entry, FileChange, Kept, Origin};
use crate::limits::Limits;
use crate::log::{Log, PARALLEL_READS};
use crate::plan::{Edits, Plan};
use crate::recent::RecentReads;
use crate::records::{self, Stored};
use crate::tip::is_outdated;

/// The name of the policy in refusals.
const POLICY: &str = "history";

/// A store that keeps a [history] of another one: each batch that changes files adds an [`Entry`] in the same
/// atomic batch, with the contents that it replaces or removes.
///
/// ```
/// use memory_tool_core::{InMemoryStore, StoreExt};
/// use memory_tool_history::HistoryStore;
///
/// # let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
/// # runtime.block_on(async {
/// let store = HistoryStore::new(InMemoryStore::new());
/// store.write("/memories/a.txt", "one").await?;
/// store.write("/memories/a.txt", "two").await?;
///
/// let undone = store.history().undo(1).await?;
/// assert_eq!(undone.entry.number, 3);
/// assert_eq!(store.read_to_string("/memories/a.txt").await?, "one");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Behavior
/// 1. Files stay where they are, so other programs can read them. Only replaced and removed contents are stored again.
/// 2. The log and the files cannot disagree: both change in one batch. All sessions agree on the order of the entries,
///    and no number is left out.
/// 3. Contents by another program are kept when a change replaces them.
///    Contents that [expire](Batch::EXPIRE) are not kept. If proposed changes are [dropped](Batch::DROP) for a reason,
///    an entry without changes keeps it.
/// 4. The model neither sees nor changes the history, and no quota counts it. [`Limits`] apply to it.
/// 5. A batch that removes `/records` or `/records/history` removes the history, and adds no entry. Other changes under
///    `/records/history` are refused.
///
/// It needs a Tokio runtime with timers if other sessions change the same store.
///
/// [history]: crate::History
#[derive(Debug)]
pub struct HistoryStore<S> {
    log: Arc<Log<S>>,
    reads: Arc<RecentReads>,
    /// Whether to start a history if the store has no history yet.
    starts: bool,
}

// Not derived, because that would require `S: Clone`.
impl<S> Clone for HistoryStore<S> {
    fn clone(&self) -> Self {
        Self { log: Arc::clone(&self.log), reads: Arc::clone(&self.reads), starts: self.starts }
    }
}

/// The entry of a batch, and the preconditions under which the batch replaces the kept contents.
struct Replaced {
    stored: Stored,
    /// Whether to keep contents. Those that expired or are erased are dropped.
    keeps: bool,
    required: Vec<(StorePath, Precondition)>,
}

impl<S: Store> HistoryStore<S> {
    /// Keeps a history of `inner`. A new one has the default [`Limits`].
    pub fn new(inner: S) -> Self {
        Self::over(inner, None, true)
    }

    /// Keeps a history of `inner`, and sets its limits with the next change.
    pub fn with_limits(inner: S, limits: Limits) -> Self {
        Self::over(inner, Some(limits), true)
    }

    /// Continues the history of `inner`. Without one, batches are only passed on. So no session can leave out the
    /// history of a store that has one.
    pub fn if_present(inner: S) -> Self {
        Self::over(inner, None, false)
    }

    fn over(inner: S, limits: Option<Limits>, starts: bool) -> Self {
        Self { log: Arc::new(Log::new(inner, limits)), reads: Arc::new(RecentReads::default()), starts }
    }

    /// How long an operation of the history, such as an undo, tries again while others change the memory. Default: 30
    /// seconds.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        if let Some(log) = Arc::get_mut(&mut self.log) {
            log.timeout = timeout;
        }
        self
    }

    /// The inner store. The history lacks changes that are made there.
    pub fn inner(&self) -> &S {
        &self.log.store
    }

    pub(crate) fn log(&self) -> &Log<S> {
        &self.log
    }

    /// Applies a batch of changes of files with its entry.
    async fn commit(&self, batch: Batch) -> Result<(), StoreError> {
        let mut attempts = self.log.attempts();
        let committed = self.try_to_commit(&batch, &mut attempts).await;
        self.log.unclaim(&attempts).await;
        committed
    }

    async fn try_to_commit(&self, batch: &Batch, attempts: &mut Attempts) -> Result<(), StoreError> {
        let (mut conflicts, mut turn) = (0, None);
        loop {
            let tip = self.log.tip_after(attempts).await?;
            let tip = self.log.turn_after(tip, attempts).await?;
            let plan = Plan { tip, origin: Origin::Edit, edits: Edits::default() };
            match self.commit_at(&plan, batch).await {
                Err(error) if is_outdated(&error) => {
                    // The caller's own precondition does not hold, unless the known end was outdated.
                    if let StoreError::VersionMismatch { path } | StoreError::AlreadyExists { path } = &error
                        && requires(batch, path)
                    {
                        let newest = self.log.load().await?;
                        if newest.is_same(&plan.tip) && newest.required == plan.tip.required {
                            return Err(error);
                        }
                    }
                    attempts.again(&plan.tip, error)?;
                    self.log.replace_tip(&plan.tip, None);
                    if turn.is_none() {
                        turn = Some(self.log.turn.lock().await);
                    }
                }
                // Another program changed a file after it was read here.
                Err(StoreError::VersionMismatch { path })
                    if conflicts < MAX_ATTEMPTS && !path.is_record() && !requires(batch, &path) =>
                {
                    conflicts += 1;
                }
                outcome => return outcome.map(drop),
            }
        }
    }

    /// Applies a batch with its entry, if this is still the end of the log.
    ///
    /// # Errors
    /// The errors of the store. If the log [is outdated](is_outdated), nothing was changed.
    async fn commit_at(&self, plan: &Plan, batch: &Batch) -> Result<Entry, StoreError> {
        let mut replaced = self.replaced(batch, !plan.edits.forgets_replaced).await?;
        let entry = &mut replaced.stored.entry;
        if !matches!(plan.origin, Origin::Edit | Origin::Redaction(_)) {
            entry.command = None; // the origin has it
        }
        entry.origin.clone_from(&plan.origin);
        self.log.append(&plan.tip, batch, replaced.required, replaced.stored, plan.edits.clone()).await
    }

    /// Applies the batch of a plan.
    async fn commit_planned(&self, plan: &Plan, mark: &StorePath, batch: Batch) -> Result<(), StoreError> {
        if !self.starts && !plan.tip.has_history() {
            // If another session starts a history first, its entry would keep what the batch replaces.
            return self.log.store.apply(plan.tip.require_head(batch)).await;
        }
        let entry = self.commit_at(plan, &batch).await?;
        self.log.plans.finish(mark, entry);
        Ok(())
    }

    /// Reads what a batch replaces.
    async fn replaced(&self, batch: &Batch, keeps: bool) -> Result<Replaced, StoreError> {
        let keeps = keeps && batch.command() != Some(Batch::EXPIRE);
        let mut replaced = Replaced { stored: self.new_entry(batch), keeps, required: Vec::new() };
        let reads: Vec<_> = batch.changes().iter().map(|change| self.before(batch, change)).collect();
        let found: Vec<_> = stream::iter(reads).buffered(PARALLEL_READS).try_collect().await?;
        for (change, mut found) in batch.changes().iter().zip(found) {
            match change {
                change if change.is_of_record() => {}
                Change::Write { path, content, .. } => {
                    let before = found.pop().map(|(_, found)| replaced.keep(path, found));
                    let (path, after) = (path.clone(), Digest::of(content));
                    replaced.push(FileChange::Write { path, before, after });
                }
                Change::Remove { .. } => {
                    for (path, found) in found {
                        let before = replaced.keep(&path, found);
                        replaced.push(FileChange::Remove { path, before });
                    }
                }
                Change::Rename { from, to } => {
                    replaced.push(FileChange::Rename { from: from.clone(), to: to.clone() });
                }
            }
        }
        Ok(replaced)
    }

    /// The files that a change replaces or removes, sorted by path.
    async fn before(&self, batch: &Batch, change: &Change) -> Result<Vec<(StorePath, Found)>, StoreError> {
        match change {
            change if change.is_of_record() => Ok(Vec::new()),
            Change::Write { path, .. } => {
                let found = self.before_write(batch, path).await?;
                Ok(found.map(|found| (path.clone(), found)).into_iter().collect())
            }
            Change::Remove { path } => self.before_removal(path).await,
            Change::Rename { .. } => Ok(Vec::new()),
        }
    }

    /// The entry of a batch, without its number and changes.
    fn new_entry(&self, batch: &Batch) -> Stored {
        let name = |actor: &Actor| actor.name().to_owned();
        let (actor, authors) = (batch.actor().map(name), batch.authors().iter().map(name).collect::<BTreeSet<_>>());
        let authors = authors.into_iter().collect();
        let (reason, command) = (batch.reason(), batch.command().map(str::to_owned));
        let entry = Entry { actor, authors, reason, command, ..self.log.new_entry() };
        Stored { entry, contents: Vec::new() }
    }

    /// The contents that a write replaces. `None` if the file does not exist.
    async fn before_write(&self, batch: &Batch, path: &StorePath) -> Result<Option<Found>, StoreError> {
        for (required, precondition) in batch.preconditions().iter().filter(|(required, _)| required == path) {
            match precondition {
                Precondition::Absent => return Ok(None),
                Precondition::Version(version) => {
                    if let Some(content) = self.reads.contents(required, version) {
                        return Ok(Some(Found::File(content, version.clone())));
                    }
                }
            }
        }
        self.find(path).await
    }

    async fn before_removal(&self, path: &StorePath) -> Result<Vec<(StorePath, Found)>, StoreError> {
        let files = match self.log.store.read_opts(path, ReadOptions::new()).await {
            Ok(Node::Directory(listing)) => listing.files,
            // The store refuses the removal of what does not exist.
            Ok(Node::Absent) => return Ok(Vec::new()),
            Ok(Node::File(file)) => return Ok(vec![(path.clone(), Found::File(file.content, file.version))]),
            Err(error) => return Ok(vec![(path.clone(), unreadable(error)?)]),
        };
        let reads = files.into_iter().map(|file| async move {
            let found = self.find(&file.path).await?;
            Ok::<_, StoreError>(found.map(|found| (file.path, found)))
        });
        let found: Vec<_> = stream::iter(reads).buffer_unordered(PARALLEL_READS).try_collect().await?;
        let mut found: Vec<_> = found.into_iter().flatten().collect();
        found.sort_unstable_by(|(left, _), (right, _)| left.cmp(right));
        Ok(found)
    }

    async fn find(&self, path: &StorePath) -> Result<Option<Found>, StoreError> {
        match self.log.store.read_opts(path, ReadOptions::new()).await {
            Ok(Node::File(file)) => Ok(Some(Found::File(file.content, file.version))),
            // The store refuses to write to a directory.
            Ok(Node::Absent | Node::Directory(_)) => Ok(None),
            Err(error) => unreadable(error).map(Some),
        }
    }
}

/// The state of a file.
enum Found {
    File(Vec<u8>, Version),
    Unreadable,
}

/// Whether a file can never be read, and so is replaced without being kept. The store refuses what is no file.
fn unreadable(error: StoreError) -> Result<Found, StoreError> {
    match error {
        StoreError::Failure { kind: ErrorKind::Damaged | ErrorKind::AccessDenied, .. } => Ok(Found::Unreadable),
        StoreError::Failure { .. } => Err(error),
        _ => Ok(Found::Unreadable),
    }
}

impl Replaced {
    fn push(&mut self, change: FileChange) {
        self.stored.entry.changes.push(change);
    }

    /// Keeps contents, and requires that the batch replaces exactly them.
    fn keep(&mut self, path: &StorePath, found: Found) -> Kept {
        let Found::File(content, version) = found else { return Kept { digest: None } };
        self.required.push((path.clone(), Precondition::Version(version)));
        if !self.keeps {
            return Kept { digest: None };
        }
        let digest = Digest::of(&content);
        match &mut self.stored.contents {
            contents if contents.is_empty() => *contents = content, // perhaps large, so it is not copied
            contents => contents.extend_from_slice(&content),
        }
        Kept { digest: Some(digest) }
    }
}

fn requires(batch: &Batch, path: &StorePath) -> bool {
    batch.preconditions().iter().any(|(required, _)| required == path)
}

fn removes_history(change: &Change) -> bool {
    let history = records::root();
    matches!(change, Change::Remove { path } if *path == history || history.is_under(path))
}

fn is_reasoned_drop(batch: &Batch) -> bool {
    batch.command() == Some(Batch::DROP) && batch.actor().is_some_and(|actor| actor.reason().is_some())
}

fn touches_history(change: &Change) -> bool {
    let history = records::root();
    change.paths().any(|path| path.overlaps(&history))
}

#[async_trait]
impl<S: Store> Store for HistoryStore<S> {
    async fn read_opts(&self, path: &StorePath, options: ReadOptions) -> Result<Node, StoreError> {
        let is_edited = matches!(options.command(), Some("str_replace" | "insert")) && !path.is_record();
        if !is_edited {
            return self.log.store.read_opts(path, options).await;
        }
        // The edit that follows needs the end of the log, and meets its errors then.
        let (node, _) = futures::join!(self.log.store.read_opts(path, options), self.log.tip());
        if let Ok(Node::File(file)) = &node {
            self.reads.remember(path, file);
        }
        node
    }

    async fn apply(&self, batch: Batch) -> Result<(), StoreError> {
        batch.validate()?;
        if batch.changes().iter().any(removes_history) {
            let applied = self.log.store.apply(batch).await;
            self.log.forget();
            self.reads.forget();
            return applied;
        }
        if let Some((plan, mark, batch)) = self.log.plans.find(&batch) {
            return self.commit_planned(&plan, &mark, batch).await;
        }
        if batch.changes().iter().any(touches_history) {
            let reason = "Only the history itself changes its records.";
            return Err(StoreError::refused(&records::root(), POLICY, reason));
        }
        if batch.changes().iter().all(Change::is_of_record) && !is_reasoned_drop(&batch) {
            return self.log.store.apply(batch).await;
        }
        let tip = self.log.tip().await?;
        if !self.starts && !tip.has_history() {
            match self.log.store.apply(tip.require_head(batch.clone())).await {
                Err(error) if is_outdated(&error) => self.log.forget(),
                outcome => return outcome,
            }
        }
        self.commit(batch).await
    }
}
