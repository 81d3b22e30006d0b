//! A clock for tests, and a store that counts operations and can stop or fail.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use async_trait::async_trait;
use memory_tool_core::{
    Batch, Engine, ErrorKind, InMemoryStore, MemoryTool, Node, ReadOptions, Store, StoreError, StoreExt as _, StorePath,
};
use memory_tool_policies::{ExpiringStore, ExpiringStoreBuilder};
use serde_json::{Value, json};

use crate::support::{read_record, record};

/// The idle time of the tests, in seconds.
pub(crate) const IDLE: u64 = 1_000;
/// The resolution of the tests, in seconds.
pub(crate) const RESOLUTION: u64 = 100;
/// A time after which every unused file is expired, in seconds.
pub(crate) const SURELY_EXPIRED: u64 = IDLE + RESOLUTION + 1;

pub(crate) const START: u64 = 1_800_000_000;

const ACCESS_TIMES: &str = "expiry/access-times";

/// The path of the record with the access times.
pub(crate) fn access_times() -> StorePath {
    record(ACCESS_TIMES)
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

    /// Sets the clock. No time passes.
    pub(crate) fn set(&self, seconds: u64) {
        self.seconds.store(seconds, Ordering::Relaxed);
    }

    /// Lets time pass.
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

    /// Creates the tool of another process or session for the same memory.
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

/// Returns the paths of the listed files.
pub(crate) async fn listed(store: &dyn Store) -> Vec<String> {
    store.list(StorePath::memories()).await.unwrap().iter().map(|file| file.path.to_string()).collect()
}

/// Returns the stored access times.
pub(crate) async fn stored_times(inner: &dyn Store) -> Option<String> {
    let stored = read_record(inner, ACCESS_TIMES).await;
    stored.map(|record| String::from_utf8(record.content).unwrap())
}

/// A fault of one operation.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Fault {
    /// Stops before the operation. It may be dropped there, or other operations come first.
    StopBefore,
    /// Stops after the operation. It may be dropped there, or other operations come next.
    StopAfter,
    /// Fails without an effect.
    Fail,
    /// Has its effect and then fails.
    FailAfter,
}

/// An in-memory store that counts reads and writes, and can inject a fault into one operation.
#[derive(Debug, Default)]
pub(crate) struct Probe {
    pub(crate) inner: Arc<InMemoryStore>,
    pub(crate) reads: AtomicUsize,
    pub(crate) writes: AtomicUsize,
    operations: AtomicUsize,
    fault: Mutex<Option<(usize, Fault)>>,
    pub(crate) last_batch: Mutex<Batch>,
    pub(crate) last_read: Mutex<ReadOptions>,
    pub(crate) damaged: Mutex<Option<StorePath>>,
}

impl Probe {
    pub(crate) fn over(inner: Arc<InMemoryStore>) -> Self {
        Self { inner, ..Self::default() }
    }

    /// Injects a fault into the operation with this number, counted from now.
    pub(crate) fn arm(&self, number: usize, fault: Fault) {
        self.operations.store(0, Ordering::Relaxed);
        *self.fault.lock().unwrap() = Some((number, fault));
    }

    /// Removes the fault. Returns whether it has not occurred yet.
    pub(crate) fn disarm(&self) -> bool {
        self.fault.lock().unwrap().take().is_some()
    }

    /// Returns the number of reads and writes since the last call.
    pub(crate) fn take_counts(&self) -> (usize, usize) {
        (self.reads.swap(0, Ordering::Relaxed), self.writes.swap(0, Ordering::Relaxed))
    }

    fn fail_if_damaged(&self, path: &StorePath) -> Result<(), StoreError> {
        match &*self.damaged.lock().unwrap() {
            Some(damaged) if damaged == path => Err(StoreError::failure(ErrorKind::Damaged, "reading", "damaged")),
            _ => Ok(()),
        }
    }

    async fn run<T>(&self, work: impl Future<Output = Result<T, StoreError>>) -> Result<T, StoreError> {
        let number = self.operations.fetch_add(1, Ordering::Relaxed);
        let fault = self.fault.lock().unwrap().take_if(|(armed, _)| *armed == number);
        let failure = |kind| StoreError::failure(kind, "a test", "injected");
        match fault.map(|(_, fault)| fault) {
            None => work.await,
            Some(Fault::StopBefore) => {
                stop_once().await;
                work.await
            }
            Some(Fault::StopAfter) => {
                let outcome = work.await;
                stop_once().await;
                outcome
            }
            Some(Fault::Fail) => Err(failure(ErrorKind::Busy)),
            Some(Fault::FailAfter) => {
                work.await?;
                Err(failure(ErrorKind::OutcomeUnknown))
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
    async fn read_opts(&self, path: &StorePath, options: ReadOptions) -> Result<Node, StoreError> {
        self.reads.fetch_add(1, Ordering::Relaxed);
        *self.last_read.lock().unwrap() = options.clone();
        self.fail_if_damaged(path)?;
        self.run(self.inner.read_opts(path, options)).await
    }

    async fn apply(&self, batch: Batch) -> Result<(), StoreError> {
        *self.last_batch.lock().unwrap() = batch.clone();
        self.run(self.inner.apply(batch)).await?;
        self.writes.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }
}
