//! [`NativeMemory`]: an open memory, and the operations on it.

use std::mem;
use std::process;

use memory_tool::api::Content;
use memory_tool::{Error, ErrorKind, FileEntry, Memory, StoreError};
use memory_tool_bindings::{self as bindings, Operation, Outcome};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyList, PyString, PyTuple, PyType};

use crate::errors::CallError;
use crate::options;
use crate::queue::Queue;
use crate::runtime::{Call, Process, ToPython};
use crate::tool;

/// The operation of a tool. The others are methods of a memory.
const CALL: &str = "call";

/// An open memory. The classes `Memory` and `AsyncMemory` call it.
#[pyclass(frozen, module = "memory_tool._native")]
pub(crate) struct NativeMemory {
    process: &'static Process,
    /// The process that opened it. A child of a fork shares its files, locks and connections, and must not use them.
    process_id: u32,
    /// It is `None` only while it is dropped.
    memory: Option<Memory>,
}

impl Drop for NativeMemory {
    fn drop(&mut self) {
        if self.process_id == process::id() {
            // A store may end its tasks.
            let _context = self.process.runtime.enter();
            drop(self.memory.take());
        } else {
            // Closing the connections of the parent would release its locks.
            mem::forget(self.memory.take());
        }
    }
}

impl NativeMemory {
    /// The memory, and the process that it belongs to.
    pub(crate) fn memory(&self) -> Result<(&'static Process, Memory), CallError> {
        match &self.memory {
            Some(memory) if self.process_id == process::id() => Ok((self.process, memory.clone())),
            _ => Err(CallError::Forked),
        }
    }
}

/// A memory that was opened by a task.
pub(crate) struct Opened(&'static Process, Memory);

impl ToPython for Opened {
    fn to_python(self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let Self(process, memory) = self;
        let opened = NativeMemory { process, process_id: process::id(), memory: Some(memory) };
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
        let (input, queue) = arguments.extract::<(Bound<'_, PyAny>, Option<PyRef<'_, Queue>>)>()?;
        let input = tool::from_python(&input)?;
        let turn = queue.and_then(|queue| queue.enter(input["command"].as_str()).take());
        return Ok(Operation::Call(input, turn));
    }
    let texts = arguments.iter().map(|argument| argument.extract()).collect::<PyResult<_>>()?;
    Operation::of_method(name, texts).ok_or_else(|| PyValueError::new_err(format!("unknown operation {name}")))
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
