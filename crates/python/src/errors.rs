//! Errors as Python exceptions. Their classes are in `python/memory_tool/errors.py`.

use std::error::Error as StdError;
use std::io;
use std::iter::successors;

use memory_tool::command::InputError;
use memory_tool::requests::{Exception, RequestError, parts_of_error};
use memory_tool::{Error, PathError, StoreError};
use pyo3::exceptions::{PyKeyboardInterrupt, PyOSError, PyRuntimeError, PySystemExit};
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use pythonize::pythonize;

/// An error of a call from Python.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CallError {
    #[error(transparent)]
    Call(#[from] RequestError),
    #[error("cannot start the runtime")]
    Runtime(#[source] io::Error),
    #[error("the memory was opened in the parent process: open it again after a fork")]
    Forked,
    #[error("the memory is closed")]
    Closed,
    #[error("the interpreter is exiting")]
    Exiting,
    #[error("the call ended without a result")]
    Aborted,
    #[error("{0}")]
    Python(PyErr),
}

impl From<InputError> for CallError {
    fn from(error: InputError) -> Self {
        RequestError::Tool(error.into()).into()
    }
}

impl From<StoreError> for CallError {
    fn from(error: StoreError) -> Self {
        RequestError::Store(error).into()
    }
}

impl CallError {
    /// The exception, with its causes.
    pub(crate) fn to_exception(&self, py: Python<'_>) -> PyErr {
        let mut causes = successors(Some(self as &(dyn StdError + 'static)), |&error| error.source());
        if let Some(interrupt) = causes.find_map(|error| error.downcast_ref().filter(|error| is_interrupt(py, error))) {
            return interrupt.clone_ref(py);
        }
        let built = match self {
            Self::Python(error) => return error.clone_ref(py),
            Self::Exiting | Self::Aborted => return PyRuntimeError::new_err(self.to_string()),
            Self::Closed => new(py, "MemoryToolError", (self.to_string(),)),
            Self::Forked => new(py, "ForkError", (self.to_string(),)),
            Self::Runtime(_) => new(py, "OpenError", (self.to_string(),)),
            Self::Call(RequestError::Store(error)) => store_exception(py, error),
            Self::Call(error) => of_class(py, &error.into()),
        };
        let exception = built.unwrap_or_else(|error| error);
        let cause = cause(py, self);
        if let (Self::Call(RequestError::Tool(error)), Some(cause)) = (self, &cause)
            && let Err(error) = log(py, error, cause)
            && is_interrupt(py, &error)
        {
            return error; // every other error of a handler must not replace the error of the call
        }
        exception.set_cause(py, cause);
        if let Self::Call(RequestError::Tool(error)) = self {
            let parts = pythonize(py, &parts_of_error(error)).map_err(PyErr::from);
            // It fails only without memory. The error then keeps its text.
            drop(parts.and_then(|parts| exception.value(py).setattr("_parts", parts)));
        }
        exception
    }
}

/// Whether an exception ends the program, such as the one of Ctrl-C. A call raises it unchanged.
pub(crate) fn is_interrupt(py: Python<'_>, error: &PyErr) -> bool {
    error.is_instance_of::<PyKeyboardInterrupt>(py) || error.is_instance_of::<PySystemExit>(py)
}

/// Logs the cause of an error that the model reads: the runner of the SDK drops it.
fn log(py: Python<'_>, error: &Error, cause: &PyErr) -> PyResult<()> {
    let errors = py.import("memory_tool.errors")?;
    errors.call_method1("_log", (error.to_string(), cause.value(py))).map(drop)
}

impl From<CallError> for PyErr {
    fn from(error: CallError) -> Self {
        Python::attach(|py| error.to_exception(py))
    }
}

/// Creates an exception of a class in `memory_tool.errors`.
fn new<'py>(py: Python<'py>, class: &str, arguments: impl pyo3::call::PyCallArgs<'py>) -> PyResult<PyErr> {
    let class = py.import("memory_tool.errors")?.getattr(class)?;
    Ok(PyErr::from_value(class.call1(arguments)?))
}

/// Creates an exception. `ToolError` is the class of the SDK if it is installed.
fn of_class(py: Python<'_>, exception: &Exception) -> PyResult<PyErr> {
    let Exception { class, arguments } = exception;
    let module = match *class {
        "ToolError" => "memory_tool.tool",
        "TypeError" => "builtins",
        _ => "memory_tool.errors",
    };
    let arguments = arguments.iter().map(|argument| pythonize(py, argument)).collect::<Result<Vec<_>, _>>()?;
    Ok(PyErr::from_value(py.import(module)?.getattr(*class)?.call1(PyTuple::new(py, arguments)?)?))
}

/// The cause of an error as an exception, with its own cause.
fn cause(py: Python<'_>, error: &(dyn StdError + 'static)) -> Option<PyErr> {
    let source = error.source()?;
    if let Some(error) = source.downcast_ref::<PyErr>() {
        return Some(error.clone_ref(py));
    }
    let exception = if let Some(error) = source.downcast_ref::<StoreError>() {
        store_exception(py, error)
    } else if let Some(code) = source.downcast_ref::<io::Error>().and_then(io::Error::raw_os_error) {
        Ok(PyOSError::new_err((code, source.to_string())))
    } else {
        new(py, "MemoryToolError", (source.to_string(),))
    };
    let exception = exception.unwrap_or_else(|error| error);
    exception.set_cause(py, cause(py, source));
    Some(exception)
}

fn store_exception(py: Python<'_>, error: &StoreError) -> PyResult<PyErr> {
    let exception = of_class(py, &error.into())?;
    if let StoreError::Path(error) = error {
        exception.value(py).setattr("_error", RejectedPath(error.clone()))?;
    }
    Ok(exception)
}

/// The error of an `InvalidPath` that this module raised.
#[pyclass(frozen)]
pub(crate) struct RejectedPath(pub(crate) PathError);
