//! Errors as Python exceptions. Their classes are in `python/memory_tool/errors.py`.

use std::error::Error as StdError;

use memory_tool::{
    BoxError, Error, ErrorKind, FailureKind, MemoryPath, OpenError, PathError, QuotaKind, RecordName, StoreError,
};
use pyo3::exceptions::{PyOSError, PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyString, PyTuple};

/// The parts of a quota and their names in Python.
const QUOTAS: [(QuotaKind, &str); 4] = [
    (QuotaKind::Files, "files"),
    (QuotaKind::Bytes, "bytes"),
    (QuotaKind::FileBytes, "file_bytes"),
    (QuotaKind::Depth, "depth"),
];

/// The policy of a refusal by a store in Python.
const POLICY: &str = "store";

/// An error of a call from Python.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CallError {
    #[error(transparent)]
    Open(#[from] OpenError),
    #[error("{0}")]
    Setup(&'static str, #[source] BoxError),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Tool(#[from] Error),
    #[error("the memory was opened in the parent process: open it again after a fork")]
    Forked,
    #[error("the interpreter is exiting")]
    Exiting,
    #[error("the call ended without a result")]
    Aborted,
    #[error("{0}")]
    Python(PyErr),
}

impl CallError {
    /// The exception, with its causes.
    pub(crate) fn to_exception(&self, py: Python<'_>) -> PyErr {
        let built = match self {
            Self::Python(error) => return error.clone_ref(py),
            Self::Exiting | Self::Aborted => return PyRuntimeError::new_err(self.to_string()),
            Self::Forked => new(py, "ForkError", (self.to_string(),)),
            Self::Open(error) => new(py, "OpenError", (error.to_string(), error.kind().name())),
            Self::Setup(..) => new(py, "OpenError", (self.to_string(), ErrorKind::Other.name())),
            Self::Store(error) => store_exception(py, error),
            Self::Tool(error) => tool_exception(py, error),
        };
        let exception = built.unwrap_or_else(|error| error);
        let cause = cause(py, self);
        if let (Self::Tool(error), Some(cause)) = (self, &cause) {
            log(py, error, cause);
        }
        exception.set_cause(py, cause);
        exception
    }
}

/// Logs the cause of an error that the model reads: the runner of the SDK drops it.
fn log(py: Python<'_>, error: &Error, cause: &PyErr) {
    let logged = py
        .import("memory_tool.errors")
        .and_then(|errors| errors.call_method1("_log", (error.to_string(), cause.value(py))));
    drop(logged); // a broken handler must not replace the error
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

/// `ToolError` is the class of the SDK if it is installed.
fn tool_exception(py: Python<'_>, error: &Error) -> PyResult<PyErr> {
    let class = py.import("memory_tool.tool")?.getattr("ToolError")?;
    Ok(PyErr::from_value(class.call1((error.to_string(),))?))
}

/// The cause of an error as an exception, with its own cause.
fn cause(py: Python<'_>, error: &(dyn StdError + 'static)) -> Option<PyErr> {
    let source = error.source()?;
    if let Some(error) = source.downcast_ref::<PyErr>() {
        return Some(error.clone_ref(py));
    }
    let exception = if let Some(error) = source.downcast_ref::<StoreError>() {
        store_exception(py, error)
    } else if let Some(code) = source.downcast_ref::<std::io::Error>().and_then(std::io::Error::raw_os_error) {
        Ok(PyOSError::new_err((code, source.to_string())))
    } else {
        new(py, "MemoryToolError", (source.to_string(),))
    };
    let exception = exception.unwrap_or_else(|error| error);
    exception.set_cause(py, cause(py, source));
    Some(exception)
}

fn store_exception(py: Python<'_>, error: &StoreError) -> PyResult<PyErr> {
    let path = |path: &MemoryPath| (path.to_string(),);
    match error {
        StoreError::AlreadyExists { path: at } => new(py, "AlreadyExists", path(at)),
        StoreError::NotFound { path: at } => new(py, "NotFound", path(at)),
        StoreError::VersionMismatch { path: at } => new(py, "VersionMismatch", path(at)),
        StoreError::RecordMismatch { name } => new(py, "RecordMismatch", (name.to_string(),)),
        StoreError::NotADirectory { path: at } => new(py, "NotADirectory", path(at)),
        StoreError::NotAFile { path: at } => new(py, "NotAFile", path(at)),
        StoreError::NotText { path: at } => new(py, "NotText", path(at)),
        StoreError::SymbolicLink { path: at } => new(py, "SymbolicLink", path(at)),
        StoreError::NotARegularFile { path: at } => new(py, "NotARegularFile", path(at)),
        StoreError::OverQuota { path, kind, limit, requested, remaining } => {
            let kind = QUOTAS.iter().find(|(other, _)| other == kind).map_or("", |(_, name)| name);
            new(py, "OverQuota", (path.to_string(), kind, limit, requested, remaining))
        }
        StoreError::Refused { path, policy, reason } => new(py, "Refused", (path.to_string(), reason, policy)),
        StoreError::Path(error) => {
            let exception = new(py, "InvalidPath", (error.to_string(),))?;
            exception.value(py).setattr("_error", RejectedPath(error.clone()))?;
            Ok(exception)
        }
        StoreError::InvalidBatch(error) => new(py, "InvalidBatch", (error.to_string(),)),
        StoreError::Failure { kind, .. } => new(py, "StoreFailure", (error.to_string(), kind.name())),
        _ => new(py, "StoreError", (error.to_string(),)),
    }
}

/// The error of an `InvalidPath` that this module raised.
#[pyclass(frozen)]
pub(crate) struct RejectedPath(PathError);

/// The error that a method of a store in Python raised. Every other exception is a failure of this kind.
pub(crate) fn from_exception(py: Python<'_>, error: PyErr, operation: &'static str, kind: FailureKind) -> StoreError {
    match parse(py, &error) {
        Ok(Some(parsed)) => parsed,
        Ok(None) | Err(_) => {
            let stated = error.value(py).getattr("kind").ok().and_then(|name| name.extract::<String>().ok());
            let is_failure = is_instance(py, &error, "StoreFailure");
            let kind = stated.filter(|_| is_failure).and_then(|name| failure_named(&name)).unwrap_or(kind);
            StoreError::failure(kind, operation, error)
        }
    }
}

fn failure_named(name: &str) -> Option<FailureKind> {
    FailureKind::ALL.iter().find(|kind| kind.name() == name).copied()
}

fn is_instance(py: Python<'_>, error: &PyErr, class: &str) -> bool {
    let class = py.import("memory_tool.errors").and_then(|errors| errors.getattr(class));
    class.is_ok_and(|class| error.is_instance(py, &class))
}

/// The error that an instance of a subclass of `StoreError` names. Returns `None` for a failure and other exceptions.
fn parse(py: Python<'_>, error: &PyErr) -> PyResult<Option<StoreError>> {
    if !is_instance(py, error, "StoreError") {
        return Ok(None);
    }
    let value = error.value(py);
    if let Ok(rejected) = value.getattr("_error").and_then(|error| Ok(error.cast_into::<RejectedPath>()?)) {
        return Ok(Some(StoreError::Path(rejected.get().0.clone())));
    }
    let name = value.get_type().name()?;
    from_parts(name.to_str()?, &value.getattr("args")?.cast_into()?)
}

/// The error that the name of a class and its arguments describe.
fn from_parts(name: &str, arguments: &Bound<'_, PyTuple>) -> PyResult<Option<StoreError>> {
    let text = |index| arguments.get_item(index).and_then(|item| item.extract::<String>());
    let number = |index| arguments.get_item(index).and_then(|item| item.extract::<u64>());
    let path = || MemoryPath::parse(&text(0)?).map_err(|error| PyValueError::new_err(error.to_string()));
    Ok(Some(match name {
        "AlreadyExists" => StoreError::AlreadyExists { path: path()? },
        "NotFound" => StoreError::NotFound { path: path()? },
        "VersionMismatch" => StoreError::VersionMismatch { path: path()? },
        "RecordMismatch" => {
            let name = text(0)?.parse::<RecordName>();
            StoreError::RecordMismatch { name: name.map_err(|error| PyValueError::new_err(error.to_string()))? }
        }
        "NotADirectory" => StoreError::NotADirectory { path: path()? },
        "NotAFile" => StoreError::NotAFile { path: path()? },
        "NotText" => StoreError::NotText { path: path()? },
        "SymbolicLink" => StoreError::SymbolicLink { path: path()? },
        "NotARegularFile" => StoreError::NotARegularFile { path: path()? },
        "OverQuota" => {
            let given = text(1)?;
            let kind = QUOTAS.iter().find(|(_, name)| *name == given).map(|(kind, _)| *kind);
            let kind = kind.ok_or_else(|| PyValueError::new_err(format!("not a part of a quota: {given}")))?;
            StoreError::OverQuota {
                path: path()?,
                kind,
                limit: number(2)?,
                requested: number(3)?,
                remaining: number(4)?,
            }
        }
        "Refused" => StoreError::refused(&path()?, POLICY, text(1)?),
        _ => return Ok(None),
    }))
}

/// The message of an exception, from the name of its class and its arguments.
#[pyfunction]
pub(crate) fn describe<'py>(
    py: Python<'py>,
    name: &str,
    arguments: &Bound<'py, PyTuple>,
) -> PyResult<Bound<'py, PyString>> {
    let error = from_parts(name, arguments)?.ok_or_else(|| PyValueError::new_err(format!("unknown error {name}")))?;
    Ok(PyString::new(py, &error.to_string()))
}
