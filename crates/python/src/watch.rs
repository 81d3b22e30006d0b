//! [`NativeWatch`]: the changes of a memory.

use std::mem;
use std::process;
use std::sync::Arc;

use memory_tool::requests::{Changes, Outcome};
use pyo3::prelude::*;
use serde_json::Value;

use crate::errors::CallError;
use crate::runtime::{Call, Process, ToPython};

/// The changes of a memory. The classes `Watch` and `AsyncWatch` call it.
#[pyclass(frozen, module = "memory_tool._native")]
pub(crate) struct NativeWatch {
    changes: Arc<Changes>,
    process_id: u32,
}

impl From<Changes> for NativeWatch {
    fn from(changes: Changes) -> Self {
        Self { changes: Arc::new(changes), process_id: process::id() }
    }
}

impl Drop for NativeWatch {
    fn drop(&mut self) {
        if self.process_id == process::id() {
            self.changes.close();
        } else {
            // The tasks of the parent do not exist here, and cannot be stopped.
            mem::forget(Arc::clone(&self.changes));
        }
    }
}

impl NativeWatch {
    fn work(&self) -> Result<impl Future<Output = Result<Outcome, CallError>> + Send + use<>, CallError> {
        if self.process_id != process::id() {
            return Err(CallError::Forked);
        }
        let changes = Arc::clone(&self.changes);
        Ok(async move { Ok(Outcome::Data(changes.next().await.unwrap_or(Value::Null))) })
    }
}

#[pymethods]
impl NativeWatch {
    /// Waits for the next changes. Returns `None` after the end.
    fn next(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        Process::current(py)?.wait(py, self.work()?)?.to_python(py)
    }

    /// Waits for the next changes without blocking, and settles `future` with them.
    fn start(&self, py: Python<'_>, event_loop: Py<PyAny>, future: Py<PyAny>) -> PyResult<Call> {
        Ok(Process::current(py)?.start(event_loop, future, self.work()?)?)
    }

    /// Ends it.
    fn close(&self) {
        self.changes.close();
    }
}
