//! A clock that tests set, and a store that counts, stops or fails.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use async_trait::async_trait;
use memory_tool_core::{
    Batch, Engine, FailureKind, InMemoryStore, MemoryPath, MemoryTool, Node, ReadOptions, RecordName, Store,
    StoreError, StoreExt as _, StoredFile,
};
use memory_tool_policies::{ExpiringStore, ExpiringStoreBuilder};
use serde_json::{Value, json};

/// The idle time of the tests, in seconds.
pub(crate) const IDLE: u64 = 1_000;
/// The resolution of the tests, in seconds.
pub(crate) const RESOLUTION: u64 = 100;
/// After this nothing is left that is not used.
pub(crate) const SURELY_EXPIRED: u64 = IDLE + RESOLUTION + 1;

pub(crate) const START: u64 = 1_800_000_000;

/// The record that the times are kept in.
pub(crate) fn access_times() -> RecordName {
    "expiry/access-times".parse().unwrap()
}

/// A clock that all stores of a test share.
#[derive(Clone, Debug)]
pub(crate) struct TestClock {
    seconds: Arc<AtomicU64>,
    passed: Arc<AtomicU64>,
    began: Instant,
}

impl TestClock {
    pub(crate) fn new() -> Self {
        Self { seconds: Arc::new(AtomicU64::new(START)), passed: Arc::default(), began: Instant::now() }
    }

    pub(crate) fn seconds(&self) -> u64 {
        self.seconds.load(Ordering::Relaxed)
    }

    /// Somebody sets the clock. No time passes.
    pub(crate) fn set(&self, seconds: u64) {
        self.seconds.store(seconds, Ordering::Relaxed);
    }

    /// Time passes.
    pub(crate) fn advance(&self, seconds: u64) {
        self.seconds.fetch_add(seconds, Ordering::Relaxed);
        self.passed.fetch_add(seconds, Ordering::Relaxed);
    }

    fn instant(&self) -> Instant {
        self.began + Duration::from_secs(self.passed.load(Ordering::Relaxed))
    }

    pub(crate) fn builder<S: Store>(&self, inner: S) -> ExpiringStoreBuilder<S> {
        let (clock, steady_clock) = (self.clone(), self.clone());
        ExpiringStore::builder(inner, Duration::from_secs(IDLE))
            .resolution(Duration::from_secs(RESOLUTION))
            .clock(move || time(clock.seconds()))
            .steady_clock(move || steady_clock.instant())
    }

    /// The tool of another process or session over the same memory.
    pub(crate) fn open<S: Store>(&self, inner: S) -> Engine<ExpiringStore<S>> {
        Engine::new(self.builder(inner).build().unwrap())
    }
}

pub(crate) fn time(seconds: u64) -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(seconds)
}

pub(crate) async fn call(tool: &dyn MemoryTool, input: Value) -> String {
    match tool.call(input).await {
        Ok(reply) => reply.to_string(),
        Err(error) => error.to_string(),
    }
}

pub(crate) async fn create(tool: &dyn MemoryTool, at: &str) {
    let input = json!({"command": "create", "path": at, "file_text": format!("text of {at}")});
    assert_eq!(call(tool, input).await, format!("File created successfully at: {at}"));
}

pub(crate) fn view(at: &str) -> Value {
    json!({"command": "view", "path": at})
}

/// The paths of the files that are listed, in their order.
pub(crate) async fn listed(store: &dyn Store) -> Vec<String> {
    store.list(MemoryPath::root()).await.unwrap().iter().map(|file| file.path.to_string()).collect()
}

/// The times as they are stored.
pub(crate) async fn stored_times(inner: &dyn Store) -> Option<String> {
    let stored = inner.read_record(&access_times()).await.unwrap();
    stored.map(|record| String::from_utf8(record.content).unwrap())
}

/// What happens to an operation.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Mishap {
    /// It is not begun when nobody waits for it any longer, or others come first.
    StopBefore,
    /// It is done when nobody waits for it any longer, or others come next.
    StopAfter,
    /// It fails.
    Fail,
    /// It is done, and nobody learns of it.
    FailAfter,
}

/// A store in this process that counts reads and what was written, and lets one of them meet with a mishap.
#[derive(Debug, Default)]
pub(crate) struct Probe {
    pub(crate) inner: Arc<InMemoryStore>,
    pub(crate) reads: AtomicUsize,
    pub(crate) writes: AtomicUsize,
    operations: AtomicUsize,
    mishap: Mutex<Option<(usize, Mishap)>>,
    pub(crate) last_batch: Mutex<Batch>,
    /// A file that is damaged.
    pub(crate) damaged: Mutex<Option<MemoryPath>>,
}

impl Probe {
    pub(crate) fn over(inner: Arc<InMemoryStore>) -> Self {
        Self { inner, ..Self::default() }
    }

    /// Lets the operation of that number from now meet with a mishap.
    pub(crate) fn arm(&self, number: usize, mishap: Mishap) {
        self.operations.store(0, Ordering::Relaxed);
        *self.mishap.lock().unwrap() = Some((number, mishap));
    }

    /// Whether the mishap was still to come.
    pub(crate) fn disarm(&self) -> bool {
        self.mishap.lock().unwrap().take().is_some()
    }

    /// How many reads and writes there were since the last call.
    pub(crate) fn take_counts(&self) -> (usize, usize) {
        (self.reads.swap(0, Ordering::Relaxed), self.writes.swap(0, Ordering::Relaxed))
    }

    fn expect_whole(&self, path: &MemoryPath) -> Result<(), StoreError> {
        match &*self.damaged.lock().unwrap() {
            Some(damaged) if damaged == path => Err(StoreError::failure(FailureKind::Damaged, "reading", "damaged")),
            _ => Ok(()),
        }
    }

    async fn meet<T>(&self, work: impl Future<Output = Result<T, StoreError>>) -> Result<T, StoreError> {
        let number = self.operations.fetch_add(1, Ordering::Relaxed);
        let mishap = self.mishap.lock().unwrap().take_if(|(armed, _)| *armed == number);
        let failure = |kind| StoreError::failure(kind, "a test", "as was asked for");
        match mishap.map(|(_, mishap)| mishap) {
            None => work.await,
            Some(Mishap::StopBefore) => {
                stop_once().await;
                work.await
            }
            Some(Mishap::StopAfter) => {
                let outcome = work.await;
                stop_once().await;
                outcome
            }
            Some(Mishap::Fail) => Err(failure(FailureKind::Busy)),
            Some(Mishap::FailAfter) => {
                work.await?;
                Err(failure(FailureKind::OutcomeUnknown))
            }
        }
    }
}

async fn stop_once() {
    let mut has_stopped = false;
    std::future::poll_fn(|_| if std::mem::replace(&mut has_stopped, true) { Poll::Ready(()) } else { Poll::Pending })
        .await;
}

#[async_trait]
impl Store for Probe {
    async fn read_opts(&self, path: &MemoryPath, options: ReadOptions) -> Result<Node, StoreError> {
        self.reads.fetch_add(1, Ordering::Relaxed);
        self.expect_whole(path)?;
        self.meet(self.inner.read_opts(path, options)).await
    }

    async fn read_record(&self, name: &RecordName) -> Result<Option<StoredFile>, StoreError> {
        self.reads.fetch_add(1, Ordering::Relaxed);
        self.meet(self.inner.read_record(name)).await
    }

    async fn apply(&self, batch: Batch) -> Result<(), StoreError> {
        *self.last_batch.lock().unwrap() = batch.clone();
        self.meet(self.inner.apply(batch)).await?;
        self.writes.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }
}
