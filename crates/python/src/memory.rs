//! [`NativeMemory`]: an open memory, and the operations on it.

use std::mem;
use std::process;

use memory_tool::{Content, FileEntry, InputError, Memory, Usage};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyList, PyString, PyTuple, PyType};
use serde_json::Value;

use crate::errors::CallError;
use crate::options::Opening;
use crate::runtime::{Call, Process, ToPython};
use crate::tool;

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
        options: &Bound<'_, PyDict>,
        event_loop: Option<Py<PyAny>>,
    ) -> PyResult<Py<PyAny>> {
        let process = Process::current(py)?;
        let opening = Opening::parse(location, options, process, event_loop.as_ref())?;
        let memory = process.wait(py, opening.open())?;
        Opened(process, memory).to_python(py)
    }

    /// Opens a memory without blocking, and settles `future` with it.
    #[staticmethod]
    fn start_open(
        py: Python<'_>,
        event_loop: Py<PyAny>,
        future: Py<PyAny>,
        location: &Bound<'_, PyAny>,
        options: &Bound<'_, PyDict>,
    ) -> PyResult<Call> {
        let process = Process::current(py)?;
        let opening = Opening::parse(location, options, process, Some(&event_loop))?;
        let work = async move { Ok(Opened(process, opening.open().await?)) };
        Ok(process.start(event_loop, future, work)?)
    }

    /// Performs an operation, and waits for it.
    #[pyo3(signature = (name, *arguments))]
    fn perform(&self, py: Python<'_>, name: &str, arguments: &Bound<'_, PyTuple>) -> PyResult<Py<PyAny>> {
        let operation = Operation::parse(name, arguments)?;
        let (process, memory) = self.memory().map_err(|error| operation.failure(error))?;
        process.wait(py, operation.run(memory))?.to_python(py)
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
        let operation = Operation::parse(name, arguments)?;
        let (process, memory) = self.memory().map_err(|error| operation.failure(error))?;
        Ok(process.start(event_loop, future, operation.run(memory))?)
    }
}

/// An operation on a memory.
enum Operation {
    /// A call of the tool.
    Call(Result<Value, InputError>),
    ReadText(String),
    WriteText(String, String),
    List(String),
    Remove(String),
    Rename(String, String),
    Clear,
    Usage,
}

impl Operation {
    fn parse(name: &str, arguments: &Bound<'_, PyTuple>) -> PyResult<Self> {
        let text = |index| arguments.get_item(index).and_then(|item| item.extract::<String>());
        Ok(match name {
            "call" => Self::Call(tool::input(&arguments.get_item(0)?)),
            "read_text" => Self::ReadText(text(0)?),
            "write_text" => Self::WriteText(text(0)?, text(1)?),
            "list" => Self::List(text(0)?),
            "remove" => Self::Remove(text(0)?),
            "rename" => Self::Rename(text(0)?, text(1)?),
            "clear" => Self::Clear,
            "usage" => Self::Usage,
            _ => return Err(PyValueError::new_err(format!("unknown operation {name}"))),
        })
    }

    /// The error of the operation if the memory cannot be used. The model must not read the text of the cause.
    fn failure(&self, error: CallError) -> CallError {
        use memory_tool::{Error, FailureKind, StoreError};
        match self {
            Self::Call(_) => {
                let source = StoreError::failure(FailureKind::Other, "using the memory", error);
                CallError::Tool(Error::Storage { kind: FailureKind::Other, source })
            }
            _ => error,
        }
    }

    async fn run(self, memory: Memory) -> Result<Outcome, CallError> {
        Ok(match self {
            Self::Call(input) => {
                let input = input.map_err(memory_tool::Error::from)?;
                Outcome::Content(memory.tool().call(input).await?.to_content())
            }
            Self::ReadText(path) => Outcome::Content(Content::Text(memory.read_to_string(path.as_str()).await?)),
            Self::WriteText(path, text) => {
                memory.write(path.as_str(), text).await?;
                Outcome::Nothing
            }
            Self::List(directory) => Outcome::Entries(memory.list(directory.as_str()).await?),
            Self::Remove(path) => {
                memory.remove(path.as_str()).await?;
                Outcome::Nothing
            }
            Self::Rename(from, to) => {
                memory.rename(from.as_str(), to.as_str()).await?;
                Outcome::Nothing
            }
            Self::Clear => {
                memory.clear().await?;
                Outcome::Nothing
            }
            Self::Usage => Outcome::Usage(memory.usage().await?),
        })
    }
}

/// The result of an operation.
enum Outcome {
    Nothing,
    Content(Content),
    Entries(Vec<FileEntry>),
    Usage(Usage),
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
            Self::Usage(usage) => {
                let class = USAGE.import(py, "memory_tool.store", "Usage")?;
                class.call1((usage.files, usage.bytes, usage.depth))?.unbind()
            }
        })
    }
}
