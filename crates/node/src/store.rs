//! Stores whose methods are in TypeScript, and the values that they receive and return.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use async_trait::async_trait;
use memory_tool::requests::{failure_named, parse_store_error};
use memory_tool::store::{Change, Precondition, ReadOptions, Stat, StorePath, StoreState, StoredFile, Version};
use memory_tool::{BoxError, ErrorKind, FileEntry, Node, Quota, Store, StoreError, Usage};
use napi::Status;
use napi::bindgen_prelude::{ClassInstance, Function, Uint8Array, Unknown};
use napi::threadsafe_function::{ThreadsafeFunction, ThreadsafeFunctionCallMode};
use napi_derive::napi;
use serde_json::Value;
use tokio::sync::oneshot;

use crate::answer::{Answer, CountedUsage, ListedEntry, RejectedPath, number};

/// A function in TypeScript that performs calls. It does not keep the process alive.
pub(crate) type Dispatch<T> = ThreadsafeFunction<T, (), T, Status, false, true>;

/// A store whose methods are in TypeScript.
pub(crate) struct NodeStore {
    dispatch: Dispatch<StoreCall>,
}

impl NodeStore {
    pub(crate) fn new(dispatch: &Function<'_, StoreCall, ()>) -> napi::Result<Arc<Self>> {
        let builder = dispatch.build_threadsafe_function::<StoreCall>().callee_handled::<false>().weak::<true>();
        Ok(Arc::new(Self { dispatch: builder.build_callback(|context| Ok(context.value))? }))
    }

    async fn call(&self, method: Method, subject: &str, request: Request) -> Result<Node, StoreError> {
        let (sender, receiver) = oneshot::channel();
        let answer = Mutex::new(Some(sender));
        let call = StoreCall { method, subject: subject.to_owned(), request, answer };
        self.dispatch.call(call, ThreadsafeFunctionCallMode::NonBlocking);
        // The call, and the sender in it, are dropped if the thread of the store ends.
        let ended =
            |_| Err(StoreError::failure(method.on_exception, method.operation, "the call ended without a result"));
        receiver.await.unwrap_or_else(ended)
    }
}

impl fmt::Debug for NodeStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NodeStore").finish_non_exhaustive()
    }
}

/// A method of a store.
#[derive(Clone, Copy)]
struct Method {
    name: &'static str,
    /// The operation in errors.
    operation: &'static str,
    /// The kind of failure that an unknown exception is.
    on_exception: ErrorKind,
}

const READ: Method = Method { name: "read", operation: "reading a path", on_exception: ErrorKind::Other };
const APPLY: Method = Method { name: "apply", operation: "applying a batch", on_exception: ErrorKind::OutcomeUnknown };

/// The argument of a method, other than a path.
#[derive(Clone)]
enum Request {
    Read(ReadOptions),
    Apply(memory_tool::store::Batch),
}

#[async_trait]
impl Store for NodeStore {
    async fn read_opts(&self, path: &StorePath, options: ReadOptions) -> Result<Node, StoreError> {
        self.call(READ, path.as_str(), Request::Read(options)).await
    }

    async fn apply(&self, batch: memory_tool::store::Batch) -> Result<(), StoreError> {
        batch.validate()?;
        self.call(APPLY, "", Request::Apply(batch)).await.map(drop)
    }
}

/// A call of a method of a store.
#[napi]
pub struct StoreCall {
    method: Method,
    subject: String,
    request: Request,
    answer: Mutex<Option<oneshot::Sender<Result<Node, StoreError>>>>,
}

/// The return value of a method. Without a field, the path does not exist.
#[napi(object, object_to_js = false)]
pub struct Returned {
    /// A file.
    pub file: Option<ReturnedFile>,
    /// The files under a directory.
    pub entries: Option<Vec<ListedEntry>>,
}

/// The contents and the version of a file.
#[napi(object, object_to_js = false)]
pub struct ReturnedFile {
    /// The contents.
    pub content: Uint8Array,
    /// The version.
    pub version: Uint8Array,
}

#[napi]
impl StoreCall {
    /// The name of the method.
    #[napi(getter)]
    pub fn method(&self) -> &'static str {
        self.method.name
    }

    /// The path that is read.
    #[napi(getter)]
    pub fn subject(&self) -> String {
        self.subject.clone()
    }

    /// The preconditions of the read or the batch.
    #[napi(getter)]
    pub fn conditions(&self) -> Conditions {
        Conditions(self.request.clone())
    }

    /// Ends the call with a return value.
    #[napi]
    pub fn succeed(&self, returned: Returned) {
        let node = node(returned);
        self.send(node.map_err(|error| StoreError::failure(self.method.on_exception, self.method.operation, error)));
    }

    /// Ends the call with an exception. If it is a `StoreError`, the name of its class and the arguments describe it.
    /// `kind` is the kind of a `StoreFailure`.
    #[napi]
    pub fn fail(
        &self,
        exception: Unknown<'_>,
        name: Option<String>,
        words: Option<String>,
        kind: Option<String>,
        rejected: Option<ClassInstance<'_, RejectedPath>>,
    ) {
        let words = words.and_then(|json| serde_json::from_str::<Vec<Value>>(&json).ok()).unwrap_or_default();
        let parsed = name.and_then(|name| parse_store_error(&name, &words).ok().flatten());
        let rejected = rejected.map(|rejected| StoreError::Path(rejected.0.clone()));
        self.send(Err(rejected.or(parsed).unwrap_or_else(|| {
            let kind = kind.and_then(|name| failure_named(&name)).unwrap_or(self.method.on_exception);
            let exception = napi::Error::from_unknown_without_coercion(exception);
            StoreError::failure(kind, self.method.operation, exception)
        })));
    }

    fn send(&self, result: Result<Node, StoreError>) {
        if let Some(sender) = self.answer.lock().unwrap_or_else(PoisonError::into_inner).take() {
            // It fails if the call was cancelled.
            drop(sender.send(result));
        }
    }
}

fn node(returned: Returned) -> Result<Node, BoxError> {
    Ok(match returned {
        Returned { file: Some(file), .. } => {
            Node::File(StoredFile::new(file.content.to_vec(), Version::new(file.version.to_vec())))
        }
        Returned { entries: Some(entries), .. } => {
            Node::Directory(entries.into_iter().map(file_entry).collect::<Result<_, _>>()?)
        }
        Returned { .. } => Node::Absent,
    })
}

fn file_entry(entry: ListedEntry) -> Result<FileEntry, BoxError> {
    let (path, size) = (entry.path.parse::<StorePath>()?, whole("size", entry.size)?);
    let made = if entry.damaged { FileEntry::damaged(path, size) } else { FileEntry::new(path, size) };
    Ok(made.with_created(time(entry.created)?).with_modified(time(entry.modified)?))
}

fn time(milliseconds: Option<f64>) -> Result<Option<SystemTime>, BoxError> {
    let Some(milliseconds) = milliseconds else { return Ok(None) };
    let since = Duration::try_from_secs_f64(milliseconds / 1000.0)?;
    Ok(Some(UNIX_EPOCH.checked_add(since).ok_or("invalid date")?))
}

fn whole(name: &str, given: f64) -> Result<u64, BoxError> {
    let whole = given as u64;
    if number(whole) == given { Ok(whole) } else { Err(format!("invalid {name}: {given}").into()) }
}

/// The preconditions of a read, or a batch of changes.
#[napi]
pub struct Conditions(Request);

/// A required version. Without a version, the path must not exist.
#[napi(object, object_from_js = false)]
pub struct Required {
    /// The path.
    pub of: String,
    /// The version.
    pub version: Option<Uint8Array>,
}

/// A change of a file or directory. A path with `content` is written, one with `new_path` is renamed, others are
/// removed.
#[napi(object, object_from_js = false)]
pub struct PathChange {
    /// The path.
    pub path: String,
    /// The new contents.
    pub content: Option<Uint8Array>,
    /// The new path.
    pub new_path: Option<String>,
}

/// The limits of a directory.
#[napi(object, object_from_js = false)]
pub struct DirectoryQuota {
    /// The directory.
    pub path: String,
    /// The most files.
    pub files: Option<f64>,
    /// The most bytes of all files.
    pub bytes: Option<f64>,
    /// The most bytes of a file.
    pub file_bytes: Option<f64>,
    /// The most levels.
    pub depth: Option<f64>,
}

/// The state of a path that exists. A directory has no version.
#[napi(object, object_to_js = false)]
pub struct PathState {
    /// The version of the file.
    pub version: Option<Uint8Array>,
}

#[napi]
impl Conditions {
    /// The required versions of paths.
    #[napi(getter)]
    pub fn preconditions(&self) -> Vec<Required> {
        match &self.0 {
            Request::Read(options) => required(options.preconditions()),
            Request::Apply(batch) => required(batch.preconditions()),
        }
    }

    /// The limits.
    #[napi(getter)]
    pub fn quotas(&self) -> Vec<DirectoryQuota> {
        let quota = |(path, quota): &(StorePath, Quota)| {
            let Quota { files, bytes, file_bytes, depth, .. } = *quota;
            let [files, bytes, file_bytes, depth] = [files, bytes, file_bytes, depth].map(|limit| limit.map(number));
            DirectoryQuota { path: path.to_string(), files, bytes, file_bytes, depth }
        };
        self.batch().map_or_else(Vec::new, |batch| batch.quotas().iter().map(quota).collect())
    }

    /// The changes of files and directories.
    #[napi(getter)]
    pub fn changes(&self) -> Vec<PathChange> {
        let change = |change: &Change| match change {
            Change::Write { path, content, .. } => {
                let content = Some(Uint8Array::new(content.to_vec()));
                PathChange { path: path.to_string(), content, new_path: None }
            }
            Change::Remove { path } => PathChange { path: path.to_string(), content: None, new_path: None },
            Change::Rename { from, to } => {
                PathChange { path: from.to_string(), content: None, new_path: Some(to.to_string()) }
            }
        };
        self.batch().map_or_else(Vec::new, |batch| batch.changes().iter().map(change).collect())
    }

    /// Checks them against the state of a store, which the functions return.
    #[napi]
    pub fn check(
        &self,
        stat: Function<'_, String, Option<PathState>>,
        usage: Function<'_, String, CountedUsage>,
    ) -> Answer {
        let state = NodeState { stat, usage };
        let checked = match &self.0 {
            Request::Read(options) => options.check(&state),
            Request::Apply(batch) => {
                let changes = || batch.changes().iter().try_for_each(|change| change.check(&state));
                batch.check(&state).and_then(|()| changes())
            }
        };
        checked.map_or_else(|error| Answer::from(&error), |()| Answer::default())
    }

    fn batch(&self) -> Option<&memory_tool::store::Batch> {
        if let Request::Apply(batch) = &self.0 { Some(batch) } else { None }
    }
}

fn required(preconditions: &[(StorePath, Precondition)]) -> Vec<Required> {
    let version = |precondition: &Precondition| match precondition {
        Precondition::Absent => None,
        Precondition::Version(version) => Some(Uint8Array::new(version.as_bytes().to_vec())),
    };
    let required =
        |(path, precondition): &(StorePath, _)| Required { of: path.to_string(), version: version(precondition) };
    preconditions.iter().map(required).collect()
}

/// The state of a store in TypeScript, for the checks of core.
struct NodeState<'a> {
    stat: Function<'a, String, Option<PathState>>,
    usage: Function<'a, String, CountedUsage>,
}

/// The error of a check. It changes nothing, so the kind of failure is known.
fn unchecked(error: impl Into<BoxError>) -> StoreError {
    StoreError::failure(ErrorKind::Other, "checking a batch", error)
}

impl StoreState for NodeState<'_> {
    fn stat(&self, path: &StorePath) -> Result<Stat, StoreError> {
        Ok(match self.stat.call(path.to_string()).map_err(unchecked)? {
            None => Stat::Absent,
            Some(PathState { version: None }) => Stat::Directory,
            Some(PathState { version: Some(version) }) => Stat::File(Version::new(version.to_vec())),
        })
    }

    fn usage(&self, path: &StorePath) -> Result<Usage, StoreError> {
        let CountedUsage { files, bytes, depth } = self.usage.call(path.to_string()).map_err(unchecked)?;
        let part = |name, given| whole(name, given).map_err(unchecked);
        Ok(Usage::new(part("files", files)?, part("bytes", bytes)?, part("depth", depth)?))
    }
}

/// Returns `path` with `replacement` in place of the directory `old` above it, or of itself.
#[napi]
pub fn replace_prefix(path: String, old: String, replacement: String) -> Answer {
    let parse = |path: &str| path.parse::<StorePath>();
    let replaced = || parse(&path)?.replace_prefix(&parse(&old)?, &parse(&replacement)?);
    match replaced() {
        Ok(path) => Answer { text: Some(path.to_string()), ..Answer::default() },
        Err(error) => Answer::from(&StoreError::from(error)),
    }
}
