//! [`Bucket`]: the objects of a simulated cloud, and [`Client`]: a connection of a process to it.
//!
//! Each request takes a random time in both directions. It may be lost before or after it took effect, arrive twice or
//! late, or be refused. A request that was sent arrives even if its process was killed. Listings are consistent, as in
//! all clouds, but each page is a request.

use std::collections::BTreeMap;
use std::fmt;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, SystemTime};

use async_trait::async_trait;
use bytes::Bytes;
use futures::stream::{self, BoxStream};
use futures::{StreamExt as _, TryStreamExt as _};
use memory_tool_core::lock;
use object_store::path::Path;
use object_store::{
    CopyOptions, Error, GetOptions, GetResult, GetResultPayload, ListResult, MultipartUpload, ObjectMeta, ObjectStore,
    PutMode, PutMultipartOptions, PutOptions, PutPayload, PutResult, Result,
};
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep};

use crate::random;

/// How the clouds differ.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Cloud {
    /// Equal contents have equal tags, a conditional PUT may be refused although the name stays free, and one request
    /// removes many objects.
    S3,
    GoogleCloudStorage,
    Azure,
}

/// The chances of the faults of a request, for each kind of fault.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Faults {
    pub(crate) each: f64,
}

#[derive(Clone, Debug)]
struct Object {
    bytes: Bytes,
    tag: String,
    modified: SystemTime,
}

/// The objects of a bucket at an instant.
#[derive(Clone, Debug, Default)]
pub(crate) struct Objects(BTreeMap<Path, Object>);

/// The objects of a cloud, and the requests to it.
#[derive(Debug)]
pub(crate) struct Bucket {
    cloud: Cloud,
    objects: Mutex<Objects>,
    faults: Mutex<Faults>,
    /// The largest number of objects in a page of a listing.
    page: usize,
    /// The requests that have not arrived.
    on_their_way: AtomicUsize,
    requests: AtomicU64,
    log: Mutex<RequestLog>,
    started: Instant,
}

/// The requests of a run. Their hash identifies the run.
#[derive(Clone, Debug, Default)]
pub(crate) struct RequestLog {
    pub(crate) lines: Option<Vec<String>>,
    hash: u64,
}

impl RequestLog {
    /// A number that depends on all requests and their outcomes.
    pub(crate) fn hash(&self) -> u64 {
        self.hash
    }

    fn add(&mut self, line: String) {
        let mut hasher = DefaultHasher::new();
        (self.hash, &line).hash(&mut hasher);
        self.hash = hasher.finish();
        if let Some(lines) = &mut self.lines {
            lines.push(line);
        }
    }
}

impl Bucket {
    pub(crate) fn new(cloud: Cloud, page: usize, objects: Objects, is_traced: bool) -> Arc<Self> {
        let log = RequestLog { lines: is_traced.then(Vec::new), hash: 0 };
        Arc::new(Self {
            cloud,
            objects: Mutex::new(objects),
            faults: Mutex::default(),
            page,
            on_their_way: AtomicUsize::default(),
            requests: AtomicU64::default(),
            log: Mutex::new(log),
            started: Instant::now(),
        })
    }

    /// A connection of a new process.
    pub(crate) fn client(self: &Arc<Self>, process: usize, distance: Duration) -> Arc<Client> {
        let (is_dead, connected_from) = (AtomicBool::new(false), Mutex::new(Instant::now()));
        Arc::new(Client { bucket: Arc::clone(self), process, distance, is_dead, connected_from })
    }

    pub(crate) fn set_faults(&self, faults: Faults) {
        *lock(&self.faults) = faults;
    }

    pub(crate) fn objects(&self) -> MutexGuard<'_, Objects> {
        lock(&self.objects)
    }

    pub(crate) fn log(&self) -> RequestLog {
        lock(&self.log).clone()
    }

    /// Adds a line to the log of requests.
    pub(crate) fn note(&self, line: impl fmt::Display) {
        lock(&self.log).add(format!("{:?} {line}", self.started.elapsed()));
    }

    /// Waits until all requests have arrived and no session makes another one.
    pub(crate) async fn settle(&self) {
        loop {
            let before = self.requests.load(Ordering::Relaxed);
            sleep(Duration::from_secs(120)).await;
            if self.on_their_way.load(Ordering::Relaxed) == 0 && before == self.requests.load(Ordering::Relaxed) {
                return;
            }
        }
    }

    fn put(&self, key: &Path, payload: &PutPayload, mode: &PutMode) -> Result<PutResult> {
        let mut objects = self.objects();
        if *mode == PutMode::Create {
            let is_refused = self.cloud == Cloud::S3 && random::happens(lock(&self.faults).each);
            if is_refused || objects.0.contains_key(key) {
                return Err(Error::AlreadyExists { path: key.to_string(), source: "the condition failed".into() });
            }
        }
        let bytes = Bytes::from(payload.clone());
        let tag = if self.cloud == Cloud::S3 {
            let mut hasher = DefaultHasher::new();
            bytes.hash(&mut hasher);
            hasher.finish()
        } else {
            random::number()
        };
        let object = Object { bytes, tag: format!("\"{tag:016x}\""), modified: random::now() };
        let result = PutResult { e_tag: Some(object.tag.clone()), version: None, extensions: Default::default() };
        objects.0.insert(key.clone(), object);
        Ok(result)
    }

    fn get(&self, key: &Path, options: &GetOptions) -> Result<GetResult> {
        let objects = self.objects();
        let Some(object) = objects.0.get(key) else {
            return Err(Error::NotFound { path: key.to_string(), source: "there is no such key".into() });
        };
        let meta = object.meta(key);
        options.check_preconditions(&meta)?;
        let range = match &options.range {
            Some(range) => range.as_range(meta.size).map_err(|error| failure(error.to_string()))?,
            None => 0..meta.size,
        };
        let part = object.bytes.slice(range.start as usize..range.end as usize);
        let payload = GetResultPayload::Stream(stream::once(async { Ok(part) }).boxed());
        Ok(GetResult { payload, meta, range, attributes: Default::default(), extensions: Default::default() })
    }

    /// A page of a listing.
    fn page(&self, prefix: &str, after: &Path) -> Result<Vec<ObjectMeta>> {
        let objects = self.objects();
        let later = objects.0.range((Bound::Excluded(after), Bound::Unbounded));
        let listed = later.filter(|(key, _)| key.as_ref().starts_with(prefix));
        Ok(listed.take(self.page).map(|(key, object)| object.meta(key)).collect())
    }

    fn copy(&self, from: &Path, to: &Path) -> Result<()> {
        let mut objects = self.objects();
        let Some(object) = objects.0.get(from).cloned() else {
            return Err(Error::NotFound { path: from.to_string(), source: "there is no such key".into() });
        };
        objects.0.insert(to.clone(), Object { modified: random::now(), ..object });
        Ok(())
    }
}

impl Objects {
    /// The keys that contain `part`, except keys of markers.
    pub(crate) fn keys_with(&self, part: &str) -> Vec<Path> {
        let is_marker = |object: &Object| object.bytes.starts_with(br#"{"format":"memory-tool trimmed"#);
        let found = self.0.iter().filter(|(key, object)| key.as_ref().contains(part) && !is_marker(object));
        found.map(|(key, _)| key.clone()).collect()
    }

    /// The objects and directories right under a prefix.
    fn directory(&self, prefix: &str) -> ListResult {
        let mut result =
            ListResult { common_prefixes: Vec::new(), objects: Vec::new(), extensions: Default::default() };
        for (key, object) in self.0.iter().filter(|(key, _)| key.as_ref().starts_with(prefix)) {
            match key.as_ref()[prefix.len()..].split_once('/') {
                Some((directory, _)) => result.common_prefixes.push(format!("{prefix}{directory}").into()),
                None => result.objects.push(object.meta(key)),
            }
        }
        result.common_prefixes.dedup();
        result
    }

    /// Makes all objects older.
    pub(crate) fn age(&mut self, by: Duration) {
        self.0.values_mut().for_each(|object| object.modified -= by);
    }

    pub(crate) fn remove(&mut self, key: &Path) {
        self.0.remove(key);
    }
}

impl Object {
    fn meta(&self, key: &Path) -> ObjectMeta {
        ObjectMeta {
            location: key.clone(),
            last_modified: self.modified.into(),
            size: self.bytes.len() as u64,
            e_tag: Some(self.tag.clone()),
            version: None,
        }
    }
}

fn failure(what: impl Into<String>) -> Error {
    Error::Generic { store: "simulation", source: what.into().into() }
}

/// The fate of a request.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Fate {
    Answered,
    /// It never arrives, or is refused.
    Lost,
    /// It takes effect, and its response is lost.
    Unanswered,
    /// The client repeats it after its response was lost, and gets the second response.
    Repeated,
    /// The client gets a response, and the request arrives again later.
    Duplicated,
    /// The client gets an error, and the request arrives later.
    Late,
}

/// How late requests arrive.
const LATE: [Duration; 4] =
    [Duration::from_millis(30), Duration::from_millis(700), Duration::from_secs(5), Duration::from_secs(45)];
/// How long a client waits before it reports an error.
const PATIENCE: [Duration; 3] = [Duration::ZERO, Duration::from_millis(200), Duration::from_secs(60)];

impl Fate {
    fn draw(each: f64) -> Self {
        const FAULTS: [Fate; 5] = [Fate::Lost, Fate::Unanswered, Fate::Repeated, Fate::Duplicated, Fate::Late];
        if random::happens(each * FAULTS.len() as f64) { random::one_of(&FAULTS) } else { Self::Answered }
    }
}

/// How often a client is without a connection after a lost answer, and how long.
const OUTAGES_PER_LOST_ANSWER: f64 = 0.2;
const OUTAGES: [Duration; 2] = [Duration::from_secs(2), Duration::from_secs(40)];

/// A connection of a process.
#[derive(Debug)]
pub(crate) struct Client {
    bucket: Arc<Bucket>,
    process: usize,
    /// The usual time of a request in each direction.
    distance: Duration,
    is_dead: AtomicBool,
    /// The end of its last outage.
    connected_from: Mutex<Instant>,
}

impl Client {
    /// Kills the process: it sends no request, and gets no response.
    pub(crate) fn kill(&self) {
        self.bucket.note(format_args!("process {} is killed", self.process));
        self.is_dead.store(true, Ordering::Relaxed);
    }

    /// Sends a request.
    async fn send<T, F>(self: &Arc<Self>, what: String, act: F) -> Result<T>
    where
        T: Send + 'static,
        F: Fn(&Bucket) -> Result<T> + Send + Sync + 'static,
    {
        self.hang_if_dead().await;
        self.bucket.requests.fetch_add(1, Ordering::Relaxed);
        // A listing begins again after a fault, so one with many pages would never end.
        let rarely = if what.starts_with("LIST") { 0.2 } else { 1.0 };
        let fate = self.draw_fate(lock(&self.bucket.faults).each * rarely);
        let (answer, answered) = oneshot::channel();
        if fate != Fate::Lost {
            self.bucket.on_their_way.fetch_add(1, Ordering::Relaxed);
            let (way, repetition) = (self.way(fate), self.way(Fate::Answered));
            let again = if fate == Fate::Duplicated { random::one_of(&LATE) } else { repetition };
            tokio::spawn(Arc::clone(self).arrive(what.clone(), fate, way, again, act, answer));
        }
        let answer = if matches!(fate, Fate::Answered | Fate::Repeated | Fate::Duplicated) {
            let answer = answered.await.unwrap_or_else(|_| Err(failure("the bucket is gone")));
            sleep(self.way(Fate::Answered)).await;
            answer
        } else {
            sleep(random::one_of(&PATIENCE)).await;
            self.bucket.note(format_args!("process {}: no answer to {what}: {fate:?}", self.process));
            Err(failure(format!("a fault of the simulation: {fate:?}")))
        };
        self.hang_if_dead().await;
        answer
    }

    /// An outage begins with a lost response, whose outcome then stays unknown.
    fn draw_fate(&self, each: f64) -> Fate {
        let mut connected_from = lock(&self.connected_from);
        if each > 0.0 && *connected_from > Instant::now() {
            return Fate::Lost;
        }
        let fate = Fate::draw(each);
        if matches!(fate, Fate::Unanswered | Fate::Late) && random::happens(OUTAGES_PER_LOST_ANSWER) {
            *connected_from = Instant::now() + random::one_of(&OUTAGES);
        }
        fate
    }

    /// The arrival of a request, which the end of its process does not stop.
    async fn arrive<T, F>(
        self: Arc<Self>,
        what: String,
        fate: Fate,
        way: Duration,
        again: Duration,
        act: F,
        answer: oneshot::Sender<Result<T>>,
    ) where
        F: Fn(&Bucket) -> Result<T>,
    {
        let bucket = &self.bucket;
        sleep(way).await;
        let mut result = act(bucket);
        let outcome = |result: &Result<T>| if result.is_ok() { "done" } else { "refused" };
        bucket.note(format_args!("process {}: {what}: {}", self.process, outcome(&result)));
        if fate == Fate::Repeated {
            sleep(again).await;
            result = act(bucket);
            bucket.note(format_args!("process {}: {what} again: {}", self.process, outcome(&result)));
        }
        let _ = answer.send(result); // the process may have ended
        if fate == Fate::Duplicated {
            sleep(again).await;
            let result = act(bucket);
            bucket.note(format_args!("process {}: {what} again: {}", self.process, outcome(&result)));
        }
        bucket.on_their_way.fetch_sub(1, Ordering::Relaxed);
    }

    async fn hang_if_dead(&self) {
        if self.is_dead.load(Ordering::Relaxed) {
            std::future::pending::<()>().await;
        }
    }

    fn way(&self, fate: Fate) -> Duration {
        if fate == Fate::Late { random::one_of(&LATE) } else { self.distance / 2 + random::time_up_to(self.distance) }
    }
}

/// The object store of a process. Requests outlive it, so it is a separate type.
#[derive(Clone, Debug)]
pub(crate) struct Connection(pub(crate) Arc<Client>);

impl fmt::Display for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "simulated {:?}", self.0.bucket.cloud)
    }
}

impl Connection {
    /// The objects under a prefix and after a key.
    fn list_after(&self, prefix: Option<&Path>, after: Path) -> BoxStream<'static, Result<ObjectMeta>> {
        let prefix = prefix.map_or_else(String::new, |prefix| format!("{prefix}/"));
        let client = Arc::clone(&self.0);
        let pages = stream::try_unfold(Some(after), move |after| {
            let (client, prefix) = (Arc::clone(&client), prefix.clone());
            async move {
                let Some(after) = after else { return Ok(None) };
                let what = format!("LIST {prefix} after {after}");
                let page = client.send(what, move |bucket| bucket.page(&prefix, &after)).await?;
                let is_last = page.len() < client.bucket.page;
                let next = page.last().filter(|_| !is_last).map(|last| last.location.clone());
                Ok::<_, Error>(Some((stream::iter(page.into_iter().map(Ok)), next)))
            }
        });
        pages.try_flatten().boxed()
    }
}

#[async_trait]
impl ObjectStore for Connection {
    async fn put_opts(&self, key: &Path, payload: PutPayload, options: PutOptions) -> Result<PutResult> {
        let (key, what) = (key.clone(), format!("PUT {key} {} bytes", payload.content_length()));
        self.0.send(what, move |bucket| bucket.put(&key, &payload, &options.mode)).await
    }

    async fn put_multipart_opts(&self, _: &Path, _: PutMultipartOptions) -> Result<Box<dyn MultipartUpload>> {
        Err(failure("no store needs it"))
    }

    async fn get_opts(&self, key: &Path, options: GetOptions) -> Result<GetResult> {
        let (key, what) = (key.clone(), format!("{} {key}", if options.head { "HEAD" } else { "GET" }));
        self.0.send(what, move |bucket| bucket.get(&key, &options)).await
    }

    fn delete_stream(&self, keys: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        let client = Arc::clone(&self.0);
        let at_once = if client.bucket.cloud == Cloud::S3 { 1_000 } else { 1 };
        let remove = move |keys: Vec<Result<Path>>| {
            let client = Arc::clone(&client);
            async move {
                let keys: Vec<_> = keys.into_iter().collect::<Result<_>>()?;
                let removed = keys.clone();
                let remove = move |bucket: &Bucket| {
                    let mut objects = bucket.objects();
                    removed.iter().for_each(|key| objects.remove(key));
                    Ok(())
                };
                client.send(format!("DELETE {keys:?}"), remove).await?;
                Ok::<_, Error>(stream::iter(keys.into_iter().map(Ok)))
            }
        };
        keys.chunks(at_once).then(remove).try_flatten().boxed()
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        self.list_after(prefix, Path::default())
    }

    fn list_with_offset(&self, prefix: Option<&Path>, offset: &Path) -> BoxStream<'static, Result<ObjectMeta>> {
        self.list_after(prefix, offset.clone())
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        let prefix = prefix.map_or_else(String::new, |prefix| format!("{prefix}/"));
        let what = format!("LIST {prefix} with a delimiter");
        self.0.send(what, move |bucket| Ok(bucket.objects().directory(&prefix))).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, _: CopyOptions) -> Result<()> {
        let (from, to, what) = (from.clone(), to.clone(), format!("COPY {from} to {to}"));
        self.0.send(what, move |bucket| bucket.copy(&from, &to)).await
    }
}
