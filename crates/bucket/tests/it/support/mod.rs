//! A bucket that counts requests and fails on demand, for faults that no server produces at a given moment.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use futures::future::BoxFuture;
use futures::stream::{self, BoxStream};
use futures::{StreamExt, TryStreamExt};
use memory_tool_bucket::{BucketStore, OpenFailure};
use memory_tool_core::{
    Batch, Engine, ErrorKind, MemoryTool, Node, OpenError, OpenOptions, Store, StoreError, StoreExt, StorePath,
};
pub(crate) use memory_tool_test_fixtures::{path, record};
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{
    CopyOptions, Error, GetOptions, GetResult, GetResultPayload, ListResult, MultipartUpload, ObjectMeta, ObjectStore,
    ObjectStoreExt, PutMode, PutMultipartOptions, PutOptions, PutPayload, PutResult, Result,
};
use serde_json::Value;

pub(crate) const PREFIX: &str = "memory";

/// Replaces the outcome of a PUT of a commit.
pub(crate) struct Fault {
    pub(crate) put: bool,
    /// Runs before the reply.
    pub(crate) meanwhile: Option<BoxFuture<'static, ()>>,
    pub(crate) answer: Answer,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Answer {
    /// A timeout, a lost connection, a 500, a 429.
    Unclear,
    /// S3's 409.
    AlreadyExists,
    Precondition,
    Denied,
}

impl Answer {
    fn error(self) -> Error {
        let (path, source) = (PREFIX.to_owned(), "a fault of the test".into());
        match self {
            Self::Unclear => Error::Generic { store: "test", source },
            Self::AlreadyExists => Error::AlreadyExists { path, source },
            Self::Precondition => Error::Precondition { path, source },
            Self::Denied => Error::PermissionDenied { path, source },
        }
    }
}

/// A bucket in memory with faults.
#[derive(Default)]
pub(crate) struct TestBucket {
    pub(crate) objects: Arc<InMemory>,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    requests: Vec<String>,
    faults: VecDeque<Fault>,
    failing_gets: usize,
    /// A PUT of a commit that got no clear answer, and arrives after the next GET.
    late: Option<(Path, PutPayload, PutOptions)>,
    delay_next_put: bool,
    ignores_conditions: bool,
    endless: bool,
    /// PUTs of keys with this in them never return.
    stalled: Option<&'static str>,
    /// PUTs of keys with this in them are denied.
    denied: Option<&'static str>,
    /// The number of requests after which no request returns any more.
    hangs_after: Option<usize>,
    /// Run before the first request that begins with their text.
    hooks: Vec<(String, BoxFuture<'static, ()>)>,
    sent: u64,
    /// How long a request takes in each direction.
    distance: Duration,
}

impl fmt::Debug for TestBucket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TestBucket")
    }
}

impl fmt::Display for TestBucket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TestBucket")
    }
}

impl TestBucket {
    pub(crate) fn new() -> Arc<Self> {
        Arc::default()
    }

    pub(crate) async fn open(self: &Arc<Self>) -> BucketStore {
        BucketStore::open(self.clone(), PREFIX.into()).await.unwrap()
    }

    /// A store on the same objects without the faults, as another machine has one.
    pub(crate) async fn other(&self) -> BucketStore {
        BucketStore::open(self.objects.clone(), PREFIX.into()).await.unwrap()
    }

    pub(crate) async fn open_with_deadline(self: &Arc<Self>, deadline: Duration) -> BucketStore {
        BucketStore::builder(self.clone(), PREFIX.into())
            .options(OpenOptions::new().timeout(deadline))
            .open()
            .await
            .unwrap()
    }

    /// Puts the next commit if `put`, and returns this error.
    pub(crate) fn answer_next(&self, put: bool, answer: Answer) {
        self.add_fault(Fault { put, meanwhile: None, answer });
    }

    pub(crate) fn add_fault(&self, fault: Fault) {
        self.state.lock().unwrap().faults.push_back(fault);
    }

    /// Waits until all faults have begun.
    pub(crate) async fn wait_for_faults(&self) {
        while !self.state.lock().unwrap().faults.is_empty() {
            tokio::task::yield_now().await;
        }
    }

    /// The next PUT of a commit gets no clear answer, and arrives after the next GET.
    pub(crate) fn delay_next_put(&self) {
        self.state.lock().unwrap().delay_next_put = true;
    }

    pub(crate) fn fail_gets(&self, count: usize) {
        self.state.lock().unwrap().failing_gets = count;
    }

    pub(crate) fn ignore_conditions(&self) {
        self.state.lock().unwrap().ignores_conditions = true;
    }

    /// Makes every GET return a body without end, with the correct size in its head.
    pub(crate) fn send_without_end(&self) {
        self.state.lock().unwrap().endless = true;
    }

    /// The number of bytes read from such bodies.
    pub(crate) fn sent(&self) -> u64 {
        self.state.lock().unwrap().sent
    }

    /// The requests since the last call.
    pub(crate) fn take_requests(&self) -> Vec<String> {
        std::mem::take(&mut self.state.lock().unwrap().requests)
    }

    /// Delays each request, and each reply, by this.
    pub(crate) fn move_away(&self, distance: Duration) {
        self.state.lock().unwrap().distance = distance;
    }

    /// The same objects, seen from this distance and without faults.
    pub(crate) fn at(&self, distance: Duration) -> Arc<Self> {
        let bucket = Self { objects: Arc::clone(&self.objects), state: Arc::default() };
        bucket.move_away(distance);
        Arc::new(bucket)
    }

    /// A bucket with a new store.
    pub(crate) async fn opened() -> (Arc<Self>, BucketStore) {
        let bucket = Self::new();
        let store = bucket.open().await;
        (bucket, store)
    }

    /// Stalls all PUTs of keys with `fragment` in them.
    pub(crate) fn stall_puts(&self, fragment: Option<&'static str>) {
        self.state.lock().unwrap().stalled = fragment;
    }

    /// Denies all PUTs of keys with `fragment` in them.
    pub(crate) fn deny_puts(&self, fragment: Option<&'static str>) {
        self.state.lock().unwrap().denied = fragment;
    }

    /// Stops responding after this number of requests, or responds again.
    pub(crate) fn hang_after(&self, requests: Option<usize>) {
        self.state.lock().unwrap().hangs_after = requests;
    }

    /// Whether the bucket has stopped responding.
    pub(crate) fn hangs(&self) -> bool {
        self.state.lock().unwrap().hangs_after == Some(0)
    }

    /// Never returns if the bucket has stopped responding.
    async fn hang(state: Arc<Mutex<State>>) {
        let hangs = match &mut state.lock().unwrap().hangs_after {
            None => false,
            Some(0) => true,
            Some(left) => {
                *left -= 1;
                false
            }
        };
        if hangs {
            std::future::pending::<()>().await;
        }
    }

    /// Runs `hook` before the next request that begins with `request`, such as `GET memory/log`.
    pub(crate) fn before_next(&self, request: &str, hook: BoxFuture<'static, ()>) {
        self.state.lock().unwrap().hooks.push((request.to_owned(), hook));
    }

    async fn run_hook(&self, method: &str, key: &Path) {
        let request = format!("{method} {key}");
        let hook = {
            let hooks = &mut self.state.lock().unwrap().hooks;
            let found = hooks.iter().position(|(prefix, _)| request.starts_with(prefix));
            found.map(|index| hooks.swap_remove(index))
        };
        if let Some((_, hook)) = hook {
            hook.await;
        }
    }

    /// All objects with their bytes, by their keys without the prefix.
    pub(crate) async fn snapshot(&self) -> BTreeMap<String, Bytes> {
        let listed: Vec<_> = self.objects.list(None).try_collect().await.unwrap();
        let mut objects = BTreeMap::new();
        for object in listed {
            let bytes = self.objects.get(&object.location).await.unwrap().bytes().await.unwrap();
            objects.insert(object.location.as_ref().replacen("memory/", "", 1), bytes);
        }
        objects
    }

    /// The keys under `directory`, such as `log` or `contents/runs`.
    pub(crate) async fn keys(&self, directory: &str) -> Vec<String> {
        let listed: Vec<_> = self.objects.list(Some(&in_store(directory))).try_collect().await.unwrap();
        let mut keys: Vec<_> =
            listed.iter().map(|object| object.location.as_ref().replacen("memory/", "", 1)).collect();
        keys.sort();
        keys
    }

    /// Overwrites or creates an object.
    pub(crate) async fn put_object(&self, key: &str, content: impl Into<PutPayload>) {
        self.objects.put(&in_store(key), content.into()).await.unwrap();
    }

    pub(crate) async fn remove_object(&self, key: &str) {
        self.objects.delete(&in_store(key)).await.unwrap();
    }

    async fn travel(&self) {
        travel(&self.state).await;
    }

    fn note(&self, method: &str, key: &Path) {
        self.state.lock().unwrap().requests.push(format!("{method} {key}"));
    }

    fn next_fault(&self, key: &Path) -> Option<Fault> {
        if is_commit(key) { self.state.lock().unwrap().faults.pop_front() } else { None }
    }

    async fn let_late_put_arrive(&self) {
        let late = self.state.lock().unwrap().late.take();
        if let Some((key, payload, options)) = late {
            let _ = self.objects.put_opts(&key, payload, options).await;
        }
    }
}

async fn travel(state: &Mutex<State>) {
    let distance = state.lock().unwrap().distance;
    if !distance.is_zero() {
        tokio::time::sleep(distance).await;
    }
}

/// Whether this is a commit other than the first, which openings put.
fn is_commit(key: &Path) -> bool {
    key.as_ref().starts_with("memory/log/") && key.as_ref() != format!("memory/{}", log(1))
}

fn in_store(key: &str) -> Path {
    format!("{PREFIX}/{key}").into()
}

/// The key of a commit.
pub(crate) fn log(number: u64) -> String {
    format!("log/{number:020}")
}

/// The path of a commit.
pub(crate) fn commit(number: u64) -> Path {
    in_store(&log(number))
}

/// The key of a checkpoint.
pub(crate) fn checkpoint(number: u64) -> String {
    format!("checkpoints/{number:020}")
}

/// The number of PUTs of commits.
pub(crate) fn commits(requests: &[String]) -> usize {
    requests.iter().filter(|request| request.starts_with("PUT memory/log/")).count()
}

#[async_trait]
impl ObjectStore for TestBucket {
    async fn put_opts(&self, key: &Path, payload: PutPayload, mut options: PutOptions) -> Result<PutResult> {
        self.note("PUT", key);
        Self::hang(Arc::clone(&self.state)).await;
        self.run_hook("PUT", key).await;
        let (stalled, denied) = {
            let state = self.state.lock().unwrap();
            (state.stalled, state.denied)
        };
        if stalled.is_some_and(|fragment| key.as_ref().contains(fragment)) {
            std::future::pending::<()>().await;
        }
        if denied.is_some_and(|fragment| key.as_ref().contains(fragment)) {
            return Err(Answer::Denied.error());
        }
        if self.state.lock().unwrap().ignores_conditions {
            options.mode = PutMode::Overwrite;
        }
        if is_commit(key) && std::mem::take(&mut self.state.lock().unwrap().delay_next_put) {
            self.state.lock().unwrap().late = Some((key.clone(), payload, options));
            return Err(Answer::Unclear.error());
        }
        let Some(fault) = self.next_fault(key) else {
            self.travel().await;
            let answer = self.objects.put_opts(key, payload, options).await;
            self.travel().await;
            return answer;
        };
        if fault.put {
            self.objects.put_opts(key, payload, options).await?;
        }
        if let Some(meanwhile) = fault.meanwhile {
            meanwhile.await;
        }
        Err(fault.answer.error())
    }

    async fn put_multipart_opts(&self, key: &Path, options: PutMultipartOptions) -> Result<Box<dyn MultipartUpload>> {
        self.note("POST", key);
        self.objects.put_multipart_opts(key, options).await
    }

    async fn get_opts(&self, key: &Path, options: GetOptions) -> Result<GetResult> {
        self.note(if options.head { "HEAD" } else { "GET" }, key);
        Self::hang(Arc::clone(&self.state)).await;
        self.run_hook("GET", key).await;
        {
            let mut state = self.state.lock().unwrap();
            if state.failing_gets > 0 {
                state.failing_gets -= 1;
                return Err(Answer::Unclear.error());
            }
        }
        self.travel().await;
        let mut found = self.objects.get_opts(key, options).await;
        if let Ok(found) = &mut found
            && self.state.lock().unwrap().endless
        {
            let state = Arc::clone(&self.state);
            let parts = std::iter::repeat_with(move || {
                state.lock().unwrap().sent += 1 << 20;
                Ok(Bytes::from(vec![b' '; 1 << 20]))
            });
            found.payload = GetResultPayload::Stream(stream::iter(parts).boxed());
        }
        self.travel().await;
        self.let_late_put_arrive().await;
        found
    }

    fn delete_stream(&self, keys: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        self.note("DELETE", &Path::default());
        let (objects, state) = (Arc::clone(&self.objects), Arc::clone(&self.state));
        let removed = async move {
            Self::hang(state).await;
            objects.delete_stream(keys)
        };
        stream::once(removed).flatten().boxed()
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        self.note("LIST", prefix.unwrap_or(&Path::default()));
        let (objects, prefix, state) = (Arc::clone(&self.objects), prefix.cloned(), Arc::clone(&self.state));
        let listed = async move {
            Self::hang(Arc::clone(&state)).await;
            travel(&state).await;
            let listed: Vec<_> = objects.list(prefix.as_ref()).collect().await;
            travel(&state).await;
            stream::iter(listed)
        };
        stream::once(listed).flatten().boxed()
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.note("LIST", prefix.unwrap_or(&Path::default()));
        Self::hang(Arc::clone(&self.state)).await;
        self.travel().await;
        let listed = self.objects.list_with_delimiter(prefix).await;
        self.travel().await;
        listed
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.note("COPY", to);
        self.objects.copy_opts(from, to, options).await
    }
}

pub(crate) fn open_failure(error: &OpenError) -> &OpenFailure {
    std::error::Error::source(error).unwrap().downcast_ref().unwrap()
}

pub(crate) async fn write(store: &BucketStore, at: &str, content: &str) -> std::result::Result<(), StoreError> {
    store.write(at, content).await
}

/// The kind of a failure, and the messages of its causes.
pub(crate) fn failure<T: fmt::Debug>(outcome: std::result::Result<T, StoreError>) -> (ErrorKind, String) {
    match outcome {
        Err(StoreError::Failure { kind, source, .. }) => (kind, messages(&*source)),
        other => panic!("{other:?}"),
    }
}

/// The messages of an error and its causes.
pub(crate) fn messages(error: &(dyn std::error::Error + 'static)) -> String {
    let causes = std::iter::successors(Some(error), |error| error.source());
    causes.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}

pub(crate) async fn remove(store: &BucketStore, at: &str) -> std::result::Result<(), StoreError> {
    store.apply(Batch::new().remove(path(at))).await
}

pub(crate) async fn rename(store: &BucketStore, from: &str, to: &str) -> std::result::Result<(), StoreError> {
    store.apply(Batch::new().rename(path(from), path(to))).await
}

/// All files with their contents.
pub(crate) async fn everything(store: &dyn Store) -> Vec<(StorePath, Vec<u8>)> {
    memory_tool_test_fixtures::contents(store).await.into_iter().map(|(path, _, content)| (path, content)).collect()
}

pub(crate) async fn read(store: &BucketStore, at: &str) -> Option<String> {
    match store.read(at).await.unwrap() {
        Node::File(file) => Some(String::from_utf8(file.content).unwrap()),
        _ => None,
    }
}

/// The reply or the error that Claude reads.
pub(crate) async fn call(store: &BucketStore, input: Value) -> String {
    match Engine::new(store.clone()).call(input).await {
        Ok(reply) => reply.to_string(),
        Err(error) => error.to_string(),
    }
}
