//! [`NativeMemory`]: an open memory, and the operations on it.

use std::mem;
use std::path::PathBuf;
use std::process;
use std::sync::{Mutex, PoisonError};

use memory_tool::api::Content;
use memory_tool::{Error, ErrorKind, FileEntry, Memory, StoreError};
use memory_tool_bindings::{self as bindings, Argument, Operation, Outcome};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBool, PyByteArray, PyBytes, PyList, PyString, PyTuple, PyType};

use crate::errors::CallError;
use crate::options;
use crate::queue::Queue;
use crate::runtime::{Call, Process, ToPython};
use crate::tool;
use crate::watch::NativeWatch;

/// The operation of a tool. The others are methods of a memory.
const CALL: &str = "call";

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
pub(crate) struct Opened(&'static Process, Memory);

impl ToPython for Opened {
    fn to_python(self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let Self(process, memory) = self;
        let opened = NativeMemory { process, process_id: process::id(), memory: Mutex::new(Some(memory)) };
        Ok(Py::new(py, opened)?.into_any())
    }
}

#[pymethods]
impl NativeMemory {
    /// Opens a memory. Stores in Python whose methods are coroutines run on `event_loop`.
    #[staticmethod]
    #[pyo3(signature = (location, options, event_loop=None))]
    fn open(
        py: Python<'_>,
        location: &Bound<'_, PyAny>,
        options: options::Options<'_>,
        event_loop: Option<Py<PyAny>>,
    ) -> PyResult<Py<PyAny>> {
        let process = Process::current(py)?;
        let opening = options::parse(location, options, process, event_loop.as_ref())?;
        let memory = process.wait(py, async { Ok(opening.open().await?) })?;
        Opened(process, memory).to_python(py)
    }

    /// Opens a memory without blocking, and settles `future` with it.
    #[staticmethod]
    fn start_open(
        py: Python<'_>,
        event_loop: Py<PyAny>,
        future: Py<PyAny>,
        location: &Bound<'_, PyAny>,
        options: options::Options<'_>,
    ) -> PyResult<Call> {
        let process = Process::current(py)?;
        let opening = options::parse(location, options, process, Some(&event_loop))?;
        let work = async move { Ok(Opened(process, opening.open().await?)) };
        Ok(process.start(event_loop, future, work)?)
    }

    /// The URLs of the memories at a location.
    #[staticmethod]
    fn memories(py: Python<'_>, url: PathBuf) -> PyResult<Vec<String>> {
        Ok(Process::current(py)?.wait(py, async { Ok(bindings::memories(url).await?) })?)
    }

    /// Lists the memories at a location without blocking, and settles `future` with their URLs.
    #[staticmethod]
    fn start_memories(py: Python<'_>, event_loop: Py<PyAny>, future: Py<PyAny>, url: PathBuf) -> PyResult<Call> {
        let work = async { Ok(Outcome::Json(bindings::memories(url).await?.into())) };
        Ok(Process::current(py)?.start(event_loop, future, work)?)
    }

    /// Closes this handle. Operations that run still end.
    fn close(&self, py: Python<'_>) {
        py.detach(|| self.release());
    }

    /// Performs an operation, and waits for it.
    #[pyo3(signature = (name, *arguments))]
    fn perform(&self, py: Python<'_>, name: &str, arguments: &Bound<'_, PyTuple>) -> PyResult<Py<PyAny>> {
        let (process, memory) = self.memory().map_err(|error| unusable(name, error))?;
        let operation = parse_operation(name, arguments)?;
        process.wait(py, async { Ok(operation.run(memory).await?) })?.to_python(py)
    }

    /// Starts an operation, and settles `future` with its outcome.
    #[pyo3(signature = (event_loop, future, name, *arguments))]
    fn start(
        &self,
        event_loop: Py<PyAny>,
        future: Py<PyAny>,
        name: &str,
        arguments: &Bound<'_, PyTuple>,
    ) -> PyResult<Call> {
        let (process, memory) = self.memory().map_err(|error| unusable(name, error))?;
        let operation = parse_operation(name, arguments)?;
        Ok(process.start(event_loop, future, async { Ok(operation.run(memory).await?) })?)
    }
}

/// The operation of a method of the classes in Python.
fn parse_operation(name: &str, arguments: &Bound<'_, PyTuple>) -> PyResult<Operation> {
    if name == CALL {
        let (input, queue, is_worded) = arguments.extract::<(Bound<'_, PyAny>, Option<PyRef<'_, Queue>>, bool)>()?;
        let input = tool::from_python(&input)?;
        let turn = queue.and_then(|queue| queue.enter(input["command"].as_str()).take());
        return Ok(Operation::call(input, turn, is_worded));
    }
    let arguments = arguments.iter().map(|argument| parse_argument(&argument)).collect::<PyResult<_>>()?;
    Operation::of_method(name, arguments).ok_or_else(|| PyTypeError::new_err(format!("wrong arguments of {name}")))
}

fn parse_argument(given: &Bound<'_, PyAny>) -> PyResult<Argument> {
    if given.is_none() {
        return Ok(Argument::Nothing);
    }
    if given.is_instance_of::<PyBytes>() || given.is_instance_of::<PyByteArray>() {
        return Ok(Argument::Bytes(given.extract()?));
    }
    if let Ok(flag) = given.cast::<PyBool>() {
        return Ok(Argument::Flag(flag.is_true()));
    }
    if let Ok(memory) = given.cast::<NativeMemory>() {
        return Ok(Argument::Memory(memory.get().memory()?.1));
    }
    Ok(Argument::Text(given.extract()?))
}

/// The error of an operation if the memory cannot be used. The model must not read the text of the cause.
fn unusable(name: &str, error: CallError) -> CallError {
    match name {
        CALL => {
            let source = StoreError::failure(ErrorKind::Other, "using the memory", error);
            bindings::CallError::Tool(Error::Storage { kind: ErrorKind::Other, source }).into()
        }
        _ => error,
    }
}

impl ToPython for Outcome {
    fn to_python(self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        static ENTRY: PyOnceLock<Py<PyType>> = PyOnceLock::new();
        static USAGE: PyOnceLock<Py<PyType>> = PyOnceLock::new();
        Ok(match self {
            Self::Nothing => py.None(),
            Self::Content(Content::Text(text)) => PyString::new(py, &text).into_any().unbind(),
            Self::Content(blocks) => {
                let blocks = serde_json::to_value(blocks).map_err(|error| PyValueError::new_err(error.to_string()))?;
                tool::to_python(py, &blocks)?
            }
            Self::Reply(content, parts) => {
                let content = Self::Content(content).to_python(py)?;
                (content, tool::to_python(py, &parts)?).into_pyobject(py)?.into_any().unbind()
            }
            Self::Changes(changes) => Py::new(py, NativeWatch::from(changes))?.into_any(),
            Self::Bytes(bytes) => PyBytes::new(py, &bytes).into_any().unbind(),
            Self::Entries(entries) => {
                let class = ENTRY.import(py, "memory_tool.store", "Entry")?;
                let entries = entries.into_iter().map(|entry| {
                    let FileEntry { path, size, created, modified, is_damaged, .. } = entry;
                    class.call1((path.as_str(), size, created, modified, is_damaged))
                });
                PyList::new(py, entries.collect::<PyResult<Vec<_>>>()?)?.into_any().unbind()
            }
            Self::Json(value) => tool::to_python(py, &value)?,
            Self::Usage(usage) => {
                let class = USAGE.import(py, "memory_tool.store", "Usage")?;
                class.call1((usage.files, usage.bytes, usage.depth))?.unbind()
            }
        })
    }
}
