//! [`PythonStore`]: a store whose methods are in Python, and the values that they receive and return.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use memory_tool::store::{Change, Precondition, Stat, StorePath, StoreState, StoredFile, Version};
use memory_tool::{ErrorKind, FileEntry, Node, Quota, Store, StoreError, Usage};
use pyo3::call::PyCallArgs;
use pyo3::exceptions::{PyRuntimeError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyTuple};
use tokio::sync::oneshot;

use crate::errors::CallError;
use crate::raised::from_exception;
use crate::runtime::Process;

/// The module of the classes that stores in Python receive and return.
const CLASSES: &str = "memory_tool.store";

/// A store whose methods are in Python.
pub(crate) struct PythonStore {
    object: Arc<Py<PyAny>>,
    /// The event loop of coroutines.
    event_loop: Arc<Py<PyAny>>,
    process: &'static Process,
}

impl PythonStore {
    /// Wraps an object with the methods of `memory_tool.Store`. Coroutines run on `event_loop`, or else on a
    /// separate thread.
    pub(crate) fn new(
        object: &Bound<'_, PyAny>,
        process: &'static Process,
        event_loop: Option<&Py<PyAny>>,
    ) -> PyResult<Self> {
        let py = object.py();
        for method in ["read", "apply"] {
            if !object.hasattr(method)? {
                let class = object.get_type();
                let message = format!("expected a path, URL, memory or store, got {class}, which has no {method}");
                return Err(PyTypeError::new_err(message));
            }
        }
        let event_loop = match event_loop {
            Some(event_loop) => event_loop.clone_ref(py),
            None => py.None(),
        };
        Ok(Self { object: Arc::new(object.clone().unbind()), event_loop: Arc::new(event_loop), process })
    }

    /// Calls a method, awaits its coroutine if it returns one, and converts the result.
    async fn call<T: Send + 'static>(
        &self,
        method: Method,
        arguments: impl FnOnce(Python<'_>) -> PyResult<Py<PyTuple>> + Send + 'static,
        convert: fn(&Bound<'_, PyAny>) -> PyResult<T>,
    ) -> Result<T, StoreError> {
        let (object, event_loop) = (Arc::clone(&self.object), Arc::clone(&self.event_loop));
        let called = self.run(method, move |py| {
            let called = call(py, &object, &event_loop, method.name, arguments);
            drop((object, event_loop)); // while the interpreter's lock is held
            Ok(match called? {
                Called::Returned(value) => Called::Returned(convert(value.bind(py))?),
                Called::Awaiting(answer) => Called::Awaiting(answer),
            })
        });
        match called.await? {
            Called::Returned(value) => Ok(value),
            Called::Awaiting(answer) => {
                // The sender is dropped if the event loop ends.
                let returned = answer.await.unwrap_or_else(|_| Err(never_answered()));
                self.run(method, move |py| convert(returned?.bind(py))).await
            }
        }
    }

    /// Runs code in Python on a thread that may block: also a property of a result can call a memory.
    async fn run<T: Send + 'static>(
        &self,
        Method { operation, on_exception, .. }: Method,
        code: impl FnOnce(Python<'_>) -> PyResult<T> + Send + 'static,
    ) -> Result<T, StoreError> {
        let process = self.process;
        let ran = process.runtime.spawn_blocking(move || {
            let _guard = process.enter().ok()?;
            Python::try_attach(|py| code(py).map_err(|error| from_exception(py, error, operation, on_exception)))
        });
        match ran.await {
            Ok(Some(outcome)) => outcome,
            Ok(None) => Err(StoreError::failure(ErrorKind::Other, operation, CallError::Exiting)),
            Err(panic) => Err(StoreError::failure(on_exception, operation, panic)),
        }
    }
}

fn never_answered() -> PyErr {
    PyRuntimeError::new_err("the event loop ended during the call")
}

impl fmt::Debug for PythonStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PythonStore").finish_non_exhaustive()
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

/// The return value of a method.
enum Called<T> {
    Returned(T),
    Awaiting(oneshot::Receiver<PyResult<Py<PyAny>>>),
}

fn call(
    py: Python<'_>,
    object: &Py<PyAny>,
    event_loop: &Py<PyAny>,
    method: &'static str,
    arguments: impl FnOnce(Python<'_>) -> PyResult<Py<PyTuple>>,
) -> PyResult<Called<Py<PyAny>>> {
    let returned = object.bind(py).getattr(method)?.call1(arguments(py)?)?;
    if !returned.hasattr("__await__")? {
        return Ok(Called::Returned(returned.unbind()));
    }
    let (sender, receiver) = oneshot::channel();
    let answer = Answer(Mutex::new(Some(sender)));
    py.import("memory_tool.event_loop")?.getattr("run_on")?.call1((event_loop, returned, answer))?;
    Ok(Called::Awaiting(receiver))
}

/// Receives the outcome of a coroutine.
#[pyclass(frozen)]
pub(crate) struct Answer(Mutex<Option<oneshot::Sender<PyResult<Py<PyAny>>>>>);

#[pymethods]
impl Answer {
    /// A callback of `concurrent.futures.Future`.
    fn __call__(&self, future: &Bound<'_, PyAny>) {
        let sender = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(sender) = sender {
            // It fails if the call was cancelled.
            drop(sender.send(future.call_method0("result").map(Bound::unbind)));
        }
    }
}

#[async_trait]
impl Store for PythonStore {
    async fn read_opts(&self, path: &StorePath, options: memory_tool::store::ReadOptions) -> Result<Node, StoreError> {
        let method = Method { name: "read", operation: "reading a path", on_exception: ErrorKind::Other };
        let path = path.clone();
        let arguments = move |py: Python<'_>| tuple(py, (path.as_str(), ReadOptions(options)));
        self.call(method, arguments, node).await
    }

    async fn apply(&self, batch: memory_tool::store::Batch) -> Result<(), StoreError> {
        let on_exception = ErrorKind::OutcomeUnknown;
        let method = Method { name: "apply", operation: "applying a batch", on_exception };
        batch.validate()?;
        self.call(method, move |py| tuple(py, (Batch(batch),)), |_| Ok(())).await
    }
}

fn tuple<'py>(
    py: Python<'py>,
    values: impl IntoPyObject<'py, Target = PyTuple, Output = Bound<'py, PyTuple>, Error = PyErr>,
) -> PyResult<Py<PyTuple>> {
    Ok(values.into_pyobject(py)?.unbind())
}

/// A `File`, a list of `Entry`, or `None`.
fn node(value: &Bound<'_, PyAny>) -> PyResult<Node> {
    if value.is_none() {
        return Ok(Node::Absent);
    }
    if value.hasattr("content")? {
        return stored_file(value).map(Node::File);
    }
    value.try_iter()?.map(|entry| file_entry(&entry?)).collect::<PyResult<_>>().map(Node::Directory)
}

fn stored_file(value: &Bound<'_, PyAny>) -> PyResult<StoredFile> {
    let version = version(&value.getattr("version")?)?;
    Ok(StoredFile::new(value.getattr("content")?.extract()?, version))
}

fn version(value: &Bound<'_, PyAny>) -> PyResult<Version> {
    Ok(Version::new(value.extract::<Vec<u8>>()?))
}

fn file_entry(value: &Bound<'_, PyAny>) -> PyResult<FileEntry> {
    let (path, size) = (path(&value.getattr("path")?)?, value.getattr("size")?.extract()?);
    let entry = match value.getattr("damaged")?.is_truthy()? {
        true => FileEntry::damaged(path, size),
        false => FileEntry::new(path, size),
    };
    let time = |name| value.getattr(name)?.extract::<Option<std::time::SystemTime>>();
    Ok(entry.with_created(time("created")?).with_modified(time("modified")?))
}

fn path(value: &Bound<'_, PyAny>) -> PyResult<StorePath> {
    value.extract::<String>()?.parse::<StorePath>().map_err(|error| CallError::from(StoreError::from(error)).into())
}

/// The options of `Store.read`.
#[pyclass(frozen)]
pub(crate) struct ReadOptions(memory_tool::store::ReadOptions);

#[pymethods]
impl ReadOptions {
    #[getter]
    fn preconditions<'py>(&self, py: Python<'py>) -> Vec<(String, Option<Bound<'py, PyBytes>>)> {
        preconditions(py, self.0.preconditions())
    }

    /// Checks the preconditions against the state of a store.
    fn check(&self, state: &Bound<'_, PyAny>) -> PyResult<()> {
        Ok(self.0.check(&PythonState(state)).map_err(CallError::from)?)
    }
}

/// A batch of changes.
#[pyclass(frozen)]
pub(crate) struct Batch(memory_tool::store::Batch);

#[pymethods]
impl Batch {
    #[getter]
    fn preconditions<'py>(&self, py: Python<'py>) -> Vec<(String, Option<Bound<'py, PyBytes>>)> {
        preconditions(py, self.0.preconditions())
    }

    #[getter]
    fn quotas<'py>(&self, py: Python<'py>) -> PyResult<Vec<(String, Bound<'py, PyAny>)>> {
        let quota = |(directory, quota): &(StorePath, Quota)| {
            let Quota { files, bytes, file_bytes, depth, .. } = *quota;
            Ok((directory.to_string(), new(py, "Quota", (files, bytes, file_bytes, depth))?))
        };
        self.0.quotas().iter().map(quota).collect()
    }

    #[getter]
    fn changes<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyAny>>> {
        let change = |change: &Change| match change {
            Change::Write { path, content, .. } => new(py, "Write", (path.as_str(), PyBytes::new(py, content))),
            Change::Remove { path } => new(py, "Remove", (path.as_str(),)),
            Change::Rename { from, to } => new(py, "Rename", (from.as_str(), to.as_str())),
        };
        self.0.changes().iter().map(change).collect()
    }

    /// Checks the batch against the state of a store.
    fn check(&self, state: &Bound<'_, PyAny>) -> PyResult<()> {
        let state = PythonState(state);
        let check = || {
            self.0.check(&state)?;
            self.0.changes().iter().try_for_each(|change| change.check(&state))
        };
        Ok(check().map_err(CallError::from)?)
    }
}

fn preconditions<'py>(
    py: Python<'py>,
    preconditions: &[(StorePath, Precondition)],
) -> Vec<(String, Option<Bound<'py, PyBytes>>)> {
    let version = |precondition: &Precondition| match precondition {
        Precondition::Absent => None,
        Precondition::Version(version) => Some(PyBytes::new(py, version.as_bytes())),
    };
    preconditions.iter().map(|(path, precondition)| (path.to_string(), version(precondition))).collect()
}

fn new<'py>(py: Python<'py>, class: &str, arguments: impl PyCallArgs<'py>) -> PyResult<Bound<'py, PyAny>> {
    py.import(CLASSES)?.getattr(class)?.call1(arguments)
}

/// The state of a store in Python, for the checks of core.
struct PythonState<'a, 'py>(&'a Bound<'py, PyAny>);

impl<'py> PythonState<'_, 'py> {
    fn ask<T>(
        &self,
        method: &str,
        of: &str,
        convert: impl FnOnce(&Bound<'py, PyAny>) -> PyResult<T>,
    ) -> Result<T, StoreError> {
        let answer = self.0.call_method1(method, (of,)).and_then(|answer| convert(&answer));
        // A check changes nothing, so the kind of failure is known.
        answer.map_err(|error| from_exception(self.0.py(), error, "checking a batch", ErrorKind::Other))
    }
}

impl StoreState for PythonState<'_, '_> {
    fn stat(&self, path: &StorePath) -> Result<Stat, StoreError> {
        self.ask("stat", path.as_str(), |answer| {
            Ok(match answer.extract::<Option<String>>() {
                Ok(None) => Stat::Absent,
                Ok(Some(kind)) if kind == "directory" => Stat::Directory,
                _ => Stat::File(version(answer)?),
            })
        })
    }

    fn usage(&self, path: &StorePath) -> Result<Usage, StoreError> {
        self.ask("usage", path.as_str(), |answer| {
            let part = |name| answer.getattr(name)?.extract();
            Ok(Usage::new(part("files")?, part("bytes")?, part("depth")?))
        })
    }
}

/// Returns `path` with `new` in place of the directory `old` above it, or of itself.
#[pyfunction]
#[pyo3(name = "replace_prefix")]
pub(crate) fn replace_prefix(
    path: &Bound<'_, PyAny>,
    old: &Bound<'_, PyAny>,
    new: &Bound<'_, PyAny>,
) -> PyResult<String> {
    let replaced = self::path(path)?.replace_prefix(&self::path(old)?, &self::path(new)?);
    Ok(replaced.map_err(|error| CallError::from(StoreError::from(error)))?.to_string())
}
