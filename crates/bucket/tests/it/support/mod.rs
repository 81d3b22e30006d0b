//! A bucket that counts requests and answers as it is told to, for what no server can be made to do at a given moment.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use futures::StreamExt;
use futures::future::BoxFuture;
use futures::stream::{self, BoxStream};
use memory_tool_bucket::{BucketStore, OpenFailure};
use memory_tool_core::{
    Engine, MemoryPath, MemoryTool, Node, OpenError, OpenOptions, RecordName, StoreError, StoreExt,
};
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{
    CopyOptions, Error, GetOptions, GetResult, GetResultPayload, ListResult, MultipartUpload, ObjectMeta, ObjectStore,
    PutMode, PutMultipartOptions, PutOptions, PutPayload, PutResult, Result,
};
use serde_json::Value;

pub(crate) const PREFIX: &str = "memory";

/// What happens to a put of the index instead of what was asked for.
pub(crate) struct Fault {
    /// Whether the object is put.
    pub(crate) put: bool,
    /// What happens before the answer.
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
        let (path, source) = (PREFIX.to_owned(), "the test says so".into());
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
    /// A put of the index that was answered as unclear, and arrives with the next request for it.
    late: Option<(Path, PutPayload, PutOptions)>,
    delay_next_put: bool,
    ignores_conditions: bool,
    endless: bool,
    sent: u64,
    /// How long a request takes on its way there, and its answer on its way back.
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

    /// A store on the same bucket without its faults, as another machine has it.
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

    /// The next put of the index is put or not, and answered like this.
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

    /// The next put of the index gets no clear answer, and arrives after the request that follows.
    pub(crate) fn delay_next_put(&self) {
        self.state.lock().unwrap().delay_next_put = true;
    }

    pub(crate) fn fail_gets(&self, count: usize) {
        self.state.lock().unwrap().failing_gets = count;
    }

    pub(crate) fn ignore_conditions(&self) {
        self.state.lock().unwrap().ignores_conditions = true;
    }

    /// From now on each object that is read has no end, whatever the answer says of its size.
    pub(crate) fn send_without_end(&self) {
        self.state.lock().unwrap().endless = true;
    }

    /// How many bytes of such objects were taken.
    pub(crate) fn sent(&self) -> u64 {
        self.state.lock().unwrap().sent
    }

    /// The requests since the last call.
    pub(crate) fn take_requests(&self) -> Vec<String> {
        std::mem::take(&mut self.state.lock().unwrap().requests)
    }

    /// From now on a request takes so long on its way there, and its answer on its way back.
    pub(crate) fn move_away(&self, distance: Duration) {
        self.state.lock().unwrap().distance = distance;
    }

    async fn travel(&self) {
        let distance = self.state.lock().unwrap().distance;
        if !distance.is_zero() {
            tokio::time::sleep(distance).await;
        }
    }

    fn note(&self, method: &str, key: &Path) {
        self.state.lock().unwrap().requests.push(format!("{method} {key}"));
    }

    fn next_fault(&self, key: &Path) -> Option<Fault> {
        if is_index(key) { self.state.lock().unwrap().faults.pop_front() } else { None }
    }

    async fn let_late_put_arrive(&self) {
        let late = self.state.lock().unwrap().late.take();
        if let Some((key, payload, options)) = late {
            let _ = self.objects.put_opts(&key, payload, options).await;
        }
    }
}

fn is_index(key: &Path) -> bool {
    key.filename() == Some("index.json")
}

#[async_trait]
impl ObjectStore for TestBucket {
    async fn put_opts(&self, key: &Path, payload: PutPayload, mut options: PutOptions) -> Result<PutResult> {
        self.note("PUT", key);
        if self.state.lock().unwrap().ignores_conditions {
            options.mode = PutMode::Overwrite;
        }
        if is_index(key) && std::mem::take(&mut self.state.lock().unwrap().delay_next_put) {
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
        self.note("GET", key);
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
        self.objects.delete_stream(keys)
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        self.note("LIST", prefix.unwrap_or(&Path::default()));
        self.objects.list(prefix)
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.note("LIST", prefix.unwrap_or(&Path::default()));
        self.objects.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.note("COPY", to);
        self.objects.copy_opts(from, to, options).await
    }
}

pub(crate) fn path(text: &str) -> MemoryPath {
    text.parse().unwrap()
}

pub(crate) fn record(name: &str) -> RecordName {
    name.parse().unwrap()
}

/// Why a store could not be opened.
pub(crate) fn open_failure(error: &OpenError) -> &OpenFailure {
    std::error::Error::source(error).unwrap().downcast_ref().unwrap()
}

pub(crate) async fn write(store: &BucketStore, at: &str, content: &str) -> std::result::Result<(), StoreError> {
    store.write(at, content).await
}

pub(crate) async fn read(store: &BucketStore, at: &str) -> Option<String> {
    match store.read(at).await.unwrap() {
        Node::File(file) => Some(String::from_utf8(file.content).unwrap()),
        _ => None,
    }
}

/// What the model reads: the reply or the error.
pub(crate) async fn call(store: &BucketStore, input: Value) -> String {
    match Engine::new(store.clone()).call(input).await {
        Ok(reply) => reply.to_string(),
        Err(error) => error.to_string(),
    }
}
