//! [`NativeMemory`]: an open memory, and the requests to it.

use std::mem;
use std::process;
use std::sync::{Mutex, PoisonError};

use memory_tool::api::Content;
use memory_tool::requests::{self, Outcome, Request, RequestError};
use memory_tool::{Actor, Error, ErrorKind, FileEntry, Memory, StoreError};
use pyo3::exceptions::{PyException, PyValueError};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBytes, PyList, PyString, PyType};
use pythonize::{Depythonizer, PythonizeError, pythonize};

use crate::errors::CallError;
use crate::queue::Queue;
use crate::runtime::{Call, Process, ToPython};
use crate::tool;
use crate::watch::NativeWatch;

/// An open memory. The classes `Memory` and `AsyncMemory` call it.
#[pyclass(frozen, module = "memory_tool._native")]
pub(crate) struct NativeMemory {
    process: &'static Process,
    /// The process that opened it. A child of a fork shares its files, locks and connections, and must not use them.
    process_id: u32,
    /// It is `None` after the memory is closed.
    memory: Mutex<Option<Memory>>,
}

impl Drop for NativeMemory {
    fn drop(&mut self) {
        self.release();
    }
}

impl NativeMemory {
    /// The memory, and the process that it belongs to.
    pub(crate) fn memory(&self) -> Result<(&'static Process, Memory), CallError> {
        if self.process_id != process::id() {
            return Err(CallError::Forked);
        }
        let memory = self.memory.lock().unwrap_or_else(PoisonError::into_inner).clone();
        Ok((self.process, memory.ok_or(CallError::Closed)?))
    }

    fn release(&self) {
        let memory = self.memory.lock().unwrap_or_else(PoisonError::into_inner).take();
        if self.process_id == process::id() {
            // A store may end its tasks.
            let _context = self.process.runtime.enter();
            drop(memory);
        } else {
            // Closing the connections of the parent would release its locks.
            mem::forget(memory);
        }
    }
}

/// A memory that was opened by a task.
pub(crate) struct Opened(pub(crate) &'static Process, pub(crate) Memory);

impl ToPython for Opened {
    fn to_python(self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let Self(process, memory) = self;
        let opened = NativeMemory { process, process_id: process::id(), memory: Mutex::new(Some(memory)) };
        Ok(Py::new(py, opened)?.into_any())
    }
}

#[pymethods]
impl NativeMemory {
    /// A handle on the same memory whose changes are by this actor, for this reason unless it is empty.
    fn by(&self, py: Python<'_>, actor: &str, reason: &str) -> PyResult<Py<PyAny>> {
        let actor = Actor::from_trusted_name(actor);
        let actor = actor.map_err(|error| PyValueError::new_err(format!("invalid actor: {error}")))?;
        let (process, memory) = self.memory()?;
        Opened(process, memory.by(actor.because(reason))).to_python(py)
    }

    /// Closes this handle. Operations that run still end.
    fn close(&self, py: Python<'_>) {
        py.detach(|| self.release());
    }

    /// Performs a request, and waits for it. A copy goes to `destination`.
    #[pyo3(signature = (request, destination=None))]
    fn perform(&self, py: Python<'_>, request: &Bound<'_, PyAny>, destination: Option<&Self>) -> PyResult<Py<PyAny>> {
        let (process, memory) = self.memory()?;
        let request = parse(request, destination)?;
        process.wait(py, async { Ok(memory.perform(request).await?) })?.to_python(py)
    }

    /// Starts a request, and settles `future` with its outcome.
    #[pyo3(signature = (event_loop, future, request, destination=None))]
    fn start(
        &self,
        event_loop: Py<PyAny>,
        future: Py<PyAny>,
        request: &Bound<'_, PyAny>,
        destination: Option<&Self>,
    ) -> PyResult<Call> {
        let (process, memory) = self.memory()?;
        let request = parse(request, destination)?;
        Ok(process.start(event_loop, future, async move { Ok(memory.perform(request).await?) })?)
    }

    /// Calls the tool, and waits for its reply. `is_worded` is whether a function words it.
    fn call(
        &self,
        py: Python<'_>,
        input: &Bound<'_, PyAny>,
        queue: Option<&Queue>,
        is_worded: bool,
    ) -> PyResult<Py<PyAny>> {
        let (process, memory) = self.memory().map_err(unusable)?;
        let request = parse_call(input, queue, is_worded)?;
        process.wait(py, async { Ok(memory.perform(request).await?) })?.to_python(py)
    }

    /// Starts a call of the tool, and settles `future` with its reply.
    fn start_call(
        &self,
        event_loop: Py<PyAny>,
        future: Py<PyAny>,
        input: &Bound<'_, PyAny>,
        queue: Option<&Queue>,
        is_worded: bool,
    ) -> PyResult<Call> {
        let (process, memory) = self.memory().map_err(unusable)?;
        let request = parse_call(input, queue, is_worded)?;
        Ok(process.start(event_loop, future, async move { Ok(memory.perform(request).await?) })?)
    }
}

fn parse(request: &Bound<'_, PyAny>, destination: Option<&NativeMemory>) -> PyResult<Request> {
    let py = request.py();
    let parsed = Request::parse(&mut Depythonizer::from_object(request)).map_err(|error| match error {
        RequestError::Invalid { field, source } => match source.downcast::<PythonizeError>() {
            // A `TypeError`, a `UnicodeEncodeError`, or without a class the reason of a wrong value.
            Ok(error) => match PyErr::from(*error) {
                error if error.get_type(py).is(py.get_type::<PyException>()) => {
                    PyValueError::new_err(error.value(py).to_string())
                }
                error => error,
            },
            Err(source) => CallError::from(RequestError::Invalid { field, source }).into(),
        },
        error => CallError::from(error).into(),
    })?;
    Ok(match destination {
        Some(destination) => parsed.to(destination.memory()?.1),
        None => parsed,
    })
}

fn parse_call(input: &Bound<'_, PyAny>, queue: Option<&Queue>, is_worded: bool) -> PyResult<Request> {
    let input = tool::from_python(input)?;
    let turn = queue.and_then(|queue| queue.enter(input["command"].as_str()).take());
    Ok(Request::Call(requests::Call { input, turn, is_worded }))
}

/// The error of a call of the tool if the memory cannot be used. The model must not read the text of the cause.
fn unusable(error: CallError) -> CallError {
    let source = StoreError::failure(ErrorKind::Other, "using the memory", error);
    RequestError::Tool(Error::Storage { kind: ErrorKind::Other, source }).into()
}

impl ToPython for Outcome {
    fn to_python(self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        static ENTRY: PyOnceLock<Py<PyType>> = PyOnceLock::new();
        static USAGE: PyOnceLock<Py<PyType>> = PyOnceLock::new();
        Ok(match self {
            Self::Done => py.None(),
            Self::Text(text) | Self::Content(Content::Text(text)) => PyString::new(py, &text).into_any().unbind(),
            Self::Content(blocks) => pythonize(py, &blocks)?.unbind(),
            Self::Worded(content, parts) => {
                let content = Self::Content(content).to_python(py)?;
                (content, pythonize(py, &parts)?).into_pyobject(py)?.into_any().unbind()
            }
            Self::Changes(changes) => Py::new(py, NativeWatch::from(changes))?.into_any(),
            Self::Bytes(bytes) => PyBytes::new(py, &bytes).into_any().unbind(),
            Self::Files(entries) => {
                let class = ENTRY.import(py, "memory_tool.store", "Entry")?;
                let entries = entries.into_iter().map(|entry| {
                    let FileEntry { path, size, created, modified, is_damaged, .. } = entry;
                    class.call1((path.as_str(), size, created, modified, is_damaged))
                });
                PyList::new(py, entries.collect::<PyResult<Vec<_>>>()?)?.into_any().unbind()
            }
            Self::Data(value) => pythonize(py, &value)?.unbind(),
            Self::Usage(usage) => {
                let class = USAGE.import(py, "memory_tool.store", "Usage")?;
                class.call1((usage.files, usage.bytes, usage.depth))?.unbind()
            }
        })
    }
}
