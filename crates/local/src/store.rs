//! [`LocalStore`]: runs file operations outside the async threads.

use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use memory_tool_core::{
    Batch, ErrorKind, Node, OpenError, OpenMode, OpenOptions, Problem, ReadOptions, Store, StoreError, StorePath,
    VerifyProgress, VerifyReport, lock,
};
use tokio::sync::{OwnedRwLockReadGuard, RwLock, Semaphore, oneshot};
use tokio::task::spawn_blocking;

use crate::config::LocalStoreBuilder;
use crate::failure::{self, failed, unconfirmed};
use crate::journal;
use crate::layout::Layout;
use crate::leftovers;
use crate::lock::{Lock, Mode};
use crate::transaction::Transaction;
use crate::tree::Tree;
use crate::usage_cache::UsageCache;

/// A memory stored as plain files in `{base}/memories`, which any editor can open.
///
/// Any number of processes on one machine may open one directory. No edit is lost, and changes are visible at once.
/// Clones are cheap and share one store. The methods must be called within a tokio runtime.
///
/// ```
/// use memory_tool_core::{Engine, MemoryTool};
/// use memory_tool_local::LocalStore;
/// use serde_json::json;
///
/// # let runtime = tokio::runtime::Builder::new_current_thread().build()?;
/// # runtime.block_on(async {
/// # let directory = tempfile::tempdir()?;
/// # let base = directory.path().join("memory");
/// let tool = Engine::new(LocalStore::open(&base).await?);
/// tool.call(json!({"command": "create", "path": "/memories/notes/a.txt", "file_text": "Hello"})).await?;
/// assert_eq!(std::fs::read_to_string(base.join("memories/notes/a.txt"))?, "Hello");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct LocalStore {
    inner: Arc<Inner>,
    queue: TaskQueue,
}

/// Lets the tasks of this process take turns, so that tasks waiting for the lock do not occupy the blocking threads.
#[derive(Clone, Debug)]
struct TaskQueue {
    order: Arc<RwLock<()>>,
    readers: Arc<Semaphore>,
    /// The batches of tasks that wait for their turn. The first of them to get it applies all.
    waiting: Arc<Mutex<Vec<WaitingBatch>>>,
    pushed: Arc<AtomicU64>,
}

#[derive(Debug)]
struct WaitingBatch {
    number: u64,
    batch: Batch,
    result: oneshot::Sender<Result<(), StoreError>>,
}

/// The number of tasks in this process that read a store at a time.
const READERS: usize = 4;

/// The number of operations of this process that wait for the disk at a time, on all its stores. Each opens about ten
/// files.
static OPERATIONS: Semaphore = Semaphore::const_new(64);

#[derive(Debug)]
struct Inner {
    layout: Layout,
    /// Locked only while the store lock is held.
    usage_cache: Mutex<UsageCache>,
    timeout: Duration,
}

impl LocalStore {
    /// Opens the store in the directory `base` with the default options. Creates the directory if it does not exist.
    ///
    /// # Errors
    /// The same as [`LocalStoreBuilder::open`].
    pub async fn open(base: impl Into<PathBuf>) -> Result<Self, OpenError> {
        Self::builder(base).open().await
    }

    /// Returns a builder for a store in the directory `base`.
    pub fn builder(base: impl Into<PathBuf>) -> LocalStoreBuilder {
        LocalStoreBuilder::new(base.into())
    }

    pub(crate) async fn open_with(builder: LocalStoreBuilder) -> Result<Self, OpenError> {
        let LocalStoreBuilder { base, options, trust } = builder;
        let OpenOptions { mode, timeout, .. } = options;
        let opened = base.clone();
        let permit = OPERATIONS.acquire().await;
        let inner = spawn_blocking(move || {
            let _permit = permit;
            let layout = Layout::open(&opened, options, trust)?;
            let inner = Inner { layout, usage_cache: Mutex::default(), timeout };
            inner.remove_leftovers();
            Ok(inner)
        });
        let inner = inner.await.unwrap_or_else(|error| Err(error.into()));
        let place = || format!("in the directory {}", base.display());
        let inner = inner.map_err(|error| OpenError::new(place(), open_kind(&error, mode), error))?;
        Ok(Self {
            inner: Arc::new(inner),
            queue: TaskQueue {
                order: Arc::default(),
                readers: Arc::new(Semaphore::new(READERS)),
                waiting: Arc::default(),
                pushed: Arc::default(),
            },
        })
    }

    /// Checks that every record and every file can be read, and that nothing is left of deleted ones. The store may be
    /// in use.
    ///
    /// `progress` is called after each file. If an interrupted batch is pending, a writable store completes it first; a
    /// read-only store reports it as a problem. An invalid journal is always a problem. Files are not checked in either
    /// case.
    ///
    /// ```
    /// use memory_tool_local::LocalStore;
    ///
    /// # let runtime = tokio::runtime::Builder::new_current_thread().build()?;
    /// # runtime.block_on(async {
    /// # let directory = tempfile::tempdir()?;
    /// let store = LocalStore::open(directory.path()).await?;
    /// let report = store.verify(|_| {}).await?;
    /// println!("{} files, {} problems", report.files, report.problems.len());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`StoreError::Failure`] if the check could not be completed. Damage is a problem in the report, not an error.
    pub async fn verify(&self, progress: impl FnMut(VerifyProgress) + Send) -> Result<VerifyReport, StoreError> {
        let mut report = VerifyReport::default();
        match self.read_with(leftovers::problems).await {
            Ok(problems) => report.problems = problems,
            Err(error) if is_damage(&error) => {
                report.problems.push(Problem::of(&error));
                return Ok(report);
            }
            Err(error) => return Err(error),
        }
        report.read_files(self, progress).await
    }

    /// Runs `read` while no process changes the store.
    async fn read_with<T: Send + 'static>(
        &self,
        read: impl Fn(&Layout) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let deadline = self.inner.deadline();
        let turn = Arc::clone(&self.queue.order).read_owned().await;
        self.read_in_turn(turn, deadline, read).await
    }

    async fn read_in_turn<T: Send + 'static>(
        &self,
        turn: OwnedRwLockReadGuard<()>,
        deadline: Option<Instant>,
        read: impl Fn(&Layout) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        // The semaphores are never closed.
        let permit = Arc::clone(&self.queue.readers).acquire_owned().await;
        let permits = (permit, OPERATIONS.acquire().await);
        let inner = Arc::clone(&self.inner);
        let reading = spawn_blocking(move || {
            let _turn = (turn, permits);
            if inner.layout.is_writable {
                let _lock = inner.lock_shared(deadline)?;
                read(&inner.layout)
            } else {
                inner.read_without_writing(&read, deadline)
            }
        });
        reading.await.unwrap_or_else(|error| Err(failed("reading", error.into())))
    }

    /// The batch may have preconditions, but no changes.
    async fn check_read_only(&self, batch: Batch) -> Result<(), StoreError> {
        if !batch.changes_nothing() {
            let cause = io::Error::new(io::ErrorKind::PermissionDenied, "the store was opened in read-only mode");
            return Err(failed("changing the store", cause));
        }
        self.read_with(move |layout| batch.check(&tree(layout)?)).await
    }
}

#[async_trait]
impl Store for LocalStore {
    async fn read_opts(&self, path: &StorePath, options: ReadOptions) -> Result<Node, StoreError> {
        let deadline = self.inner.deadline();
        // A change of this process is complete before later reads, even if its future was dropped.
        let turn = Arc::clone(&self.queue.order).read_owned().await;
        if let Some(node) = self.inner.layout.read_cached(path, options.preconditions()) {
            return Ok(node);
        }
        let path = path.clone();
        self.read_in_turn(turn, deadline, move |layout| {
            if path.is_record() {
                layout.check_records().map_err(|error| failed("reading a record", error))?;
            }
            let tree = tree(layout)?;
            // Read first: other programs take no lock.
            let node = tree.read(&path)?;
            tree.forget();
            options.check(&tree)?;
            Ok(node)
        })
        .await
    }

    async fn apply(&self, batch: Batch) -> Result<(), StoreError> {
        if !self.inner.layout.is_writable {
            return self.check_read_only(batch).await;
        }
        let deadline = self.inner.deadline();
        let (withdrawal, mut result) = self.queue.push(batch);
        let guard = Arc::clone(&self.queue.order).write_owned().await;
        if let Ok(result) = result.try_recv() {
            return result; // another task applied the batch too
        }
        let permit = OPERATIONS.acquire().await;
        let (inner, queue) = (Arc::clone(&self.inner), self.queue.clone());
        // Runs to completion even if this future is dropped, so each batch is atomic.
        let applying = spawn_blocking(move || {
            let _turn = (guard, permit);
            // A batch that is reported as failed must not be applied by the next task.
            let _withdrawal = withdrawal;
            inner.apply_waiting(&queue, deadline)
        });
        match applying.await {
            Ok(Ok(())) => result.await.unwrap_or_else(|error| Err(unconfirmed(OPERATION, io::Error::other(error)))),
            Ok(Err(error)) => Err(error),
            Err(error) => Err(unconfirmed(OPERATION, error.into())),
        }
    }
}

impl TaskQueue {
    /// Adds a batch. The channel returns its result if another task applies it.
    fn push(&self, batch: Batch) -> (Withdrawal, oneshot::Receiver<Result<(), StoreError>>) {
        let (result, receiver) = oneshot::channel();
        let number = self.pushed.fetch_add(1, Ordering::Relaxed);
        lock(&self.waiting).push(WaitingBatch { number, batch, result });
        (Withdrawal { queue: self.clone(), number }, receiver)
    }

    /// Takes the waiting batches whose futures were not dropped.
    fn take(&self) -> Vec<WaitingBatch> {
        let mut waiting = std::mem::take(&mut *lock(&self.waiting));
        waiting.retain(|batch| !batch.result.is_closed());
        waiting
    }
}

/// Removes a batch from the queue when it is dropped, if it still waits.
struct Withdrawal {
    queue: TaskQueue,
    number: u64,
}

impl Drop for Withdrawal {
    fn drop(&mut self) {
        lock(&self.queue.waiting).retain(|batch| batch.number != self.number);
    }
}

fn tree(layout: &Layout) -> Result<Tree<'_>, StoreError> {
    layout.tree().map_err(|error| failed("opening the store", error))
}

fn open_kind(error: &io::Error, mode: OpenMode) -> ErrorKind {
    match error.kind() {
        // In this mode the missing directory is an ancestor of the store.
        io::ErrorKind::NotFound if mode != OpenMode::Create => ErrorKind::NotFound,
        io::ErrorKind::NotADirectory | io::ErrorKind::CrossesDevices => ErrorKind::Invalid,
        io::ErrorKind::Unsupported => ErrorKind::Unsupported,
        _ => failure::kind(error),
    }
}

/// Whether the store is unreadable until it is repaired or completed.
fn is_damage(error: &StoreError) -> bool {
    match error {
        StoreError::Failure { kind: ErrorKind::Damaged, .. } => true,
        StoreError::Failure { source, .. } => source.is::<InterruptedBatch>(),
        _ => false,
    }
}

impl Inner {
    fn usage_cache(&self) -> MutexGuard<'_, UsageCache> {
        self.usage_cache.lock().unwrap_or_else(|poisoned| {
            self.usage_cache.clear_poison();
            let mut cache = poisoned.into_inner();
            cache.forget(); // the panic may have prevented a change that is already counted
            cache
        })
    }

    /// The deadline of an operation that starts now; `None` if it is too far in the future.
    fn deadline(&self) -> Option<Instant> {
        Instant::now().checked_add(self.timeout)
    }

    fn lock(&self, mode: Mode, deadline: Option<Instant>) -> Result<Lock<'_>, StoreError> {
        Lock::acquire(&self.layout, mode, deadline).map_err(|error| failed(WAITING, error))
    }

    fn begin(&self, deadline: Option<Instant>) -> Result<Transaction<'_>, StoreError> {
        Transaction::begin(&self.layout, self.lock(Mode::Exclusive, deadline)?, deadline)
    }

    /// Removes the files that an earlier process left in the staging directory. If this fails, or another process
    /// changes the store at the same time, the next change removes them.
    fn remove_leftovers(&self) {
        if self.layout.is_writable
            && self.layout.staged().is_ok_and(|staged| !staged.is_empty())
            && let Ok(transaction) = self.begin(Some(Instant::now()))
        {
            transaction.end(&mut self.usage_cache());
        }
    }

    /// Applies all waiting batches. If that cannot begin, they keep waiting.
    fn apply_waiting(&self, queue: &TaskQueue, deadline: Option<Instant>) -> Result<(), StoreError> {
        let mut begun = Ok(self.begin(deadline)?);
        let mut waiting = queue.take();
        loop {
            let batches: Vec<_> = waiting.iter().map(|waiting| &waiting.batch).collect();
            let results = match begun {
                Ok(transaction) => transaction.apply(&batches, &mut self.usage_cache()),
                Err(_) => batches
                    .iter()
                    .map(|_| Err(StoreError::failure(ErrorKind::Busy, OPERATION, EarlierChangeFailed)))
                    .collect(),
            };
            for (waiting, result) in waiting.drain(..results.len()).zip(results) {
                let _ = waiting.result.send(result); // fails if the future was dropped
            }
            if waiting.is_empty() {
                break;
            }
            begun = self.begin(deadline);
        }
        Ok(())
    }

    /// Reads without changing anything. Fails if an interrupted batch is pending (`[X1]`).
    fn read_without_writing<T>(
        &self,
        read: impl Fn(&Layout) -> Result<T, StoreError>,
        deadline: Option<Instant>,
    ) -> Result<T, StoreError> {
        loop {
            let lock = Lock::acquire_existing(&self.layout, deadline).map_err(|error| failed(WAITING, error))?;
            self.refuse_pending_journal(lock.as_ref())?;
            if let Some(lock) = &lock {
                self.layout.allow_cached_reads(lock);
            }
            let result = read(&self.layout);
            // A program creates the lock file before it changes a store, so its absence shows that none did during the
            // read.
            if lock.is_some() || !self.layout.has_lock_file().map_err(|error| failed(WAITING, error))? {
                return result;
            }
        }
    }

    /// Takes the shared lock when the last change is complete. Completes an interrupted one first.
    fn lock_shared(&self, deadline: Option<Instant>) -> Result<Lock<'_>, StoreError> {
        loop {
            let lock = self.lock(Mode::Shared, deadline)?;
            if lock.is_consistent().map_err(|error| failed(CHECKING, error))? && self.is_log_complete(&lock)? {
                self.layout.allow_cached_reads(&lock);
                return Ok(lock);
            }
            drop(lock);
            match self.begin(deadline) {
                Ok(recovered) => recovered.end(&mut self.usage_cache()),
                Err(error) => return self.lock_unrecovered(error, deadline),
            }
        }
    }

    /// Takes the shared lock on a store that could not be recovered, perhaps because its disk is read-only. It can be
    /// read unless its journal is invalid, or was not tried.
    fn lock_unrecovered(&self, error: StoreError, deadline: Option<Instant>) -> Result<Lock<'_>, StoreError> {
        let lock = self.lock(Mode::Shared, deadline)?;
        match journal::is_pending(&lock.private) {
            Ok(false) if self.is_log_complete(&lock)? => Ok(lock),
            Ok(false) => Err(error),
            Ok(true) if error.kind() != ErrorKind::Damaged && journal::is_stuck(&lock.private).unwrap_or(false) => {
                Ok(lock)
            }
            Ok(true) | Err(_) => Err(error),
        }
    }

    /// Fails if an interrupted batch is pending, unless it is stuck. An invalid journal is reported as damaged.
    fn refuse_pending_journal(&self, lock: Option<&Lock<'_>>) -> Result<(), StoreError> {
        let private = self.layout.existing_private().map_err(|error| failed(CHECKING, error))?;
        let Some(private) = private else { return Ok(()) };
        let check = || Ok(journal::read(&private)?.is_none() || journal::is_stuck(&private)?);
        let number = lock.map_or(Ok(None), |lock| lock.number()).map_err(|error| failed(CHECKING, error))?;
        match check().map_err(|error| failed("reading the journal", error))?
            && self.layout.is_log_complete(&private, number)?
        {
            true => Ok(()),
            false => Err(StoreError::failure(ErrorKind::Busy, "reading", InterruptedBatch)),
        }
    }

    fn is_log_complete(&self, lock: &Lock<'_>) -> Result<bool, StoreError> {
        let number = lock.number().map_err(|error| failed(CHECKING, error))?;
        self.layout.is_log_complete(&lock.private, number)
    }
}

const WAITING: &str = "waiting for the store lock";
const OPERATION: &str = "applying a batch";
const CHECKING: &str = "checking for an interrupted change";

/// An earlier change that waited together with this one failed in a way that has to be repaired first.
#[derive(Debug, thiserror::Error)]
#[error("an earlier change failed and could not be completed or undone")]
struct EarlierChangeFailed;

#[derive(Debug, thiserror::Error)]
#[error(
    "an interrupted change is pending: open the store for writing once to complete it, for example with \
     `memory-tool run --store DIR < /dev/null`"
)]
struct InterruptedBatch;

#[cfg(test)]
mod tests {
    use std::future::Future as _;
    use std::pin::pin;
    use std::task::{Context, Waker};

    use super::*;

    /// Otherwise its contents would stay in memory until the next change.
    #[tokio::test]
    async fn a_dropped_batch_does_not_stay_in_the_queue() {
        let directory = tempfile::tempdir().unwrap();
        let store = LocalStore::open(directory.path()).await.unwrap();
        let turn = store.queue.order.read().await;
        {
            let batch = Batch::new().write("/memories/a".parse::<StorePath>().unwrap(), "text");
            let mut waiting = pin!(store.apply(batch));
            assert!(waiting.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
            assert_eq!(lock(&store.queue.waiting).len(), 1);
        }
        assert_eq!(lock(&store.queue.waiting).len(), 0);
        drop(turn);
    }
}
