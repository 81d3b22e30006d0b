//! Exceptions of stores in Python as errors.

use memory_tool::requests::{failure_named, parse_store_error};
use memory_tool::{ErrorKind, StoreError};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyString, PyTuple};

use crate::errors::{CallError, RejectedPath};
use crate::tool::from_python;

/// The error that a method of a store in Python raised. Every other exception is a failure of this kind.
pub(crate) fn from_exception(py: Python<'_>, error: PyErr, operation: &'static str, kind: ErrorKind) -> StoreError {
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
    let wrong = |error: &dyn std::fmt::Display| PyValueError::new_err(error.to_string());
    let arguments = arguments.iter().map(|argument| from_python(&argument));
    let arguments = arguments.collect::<Result<Vec<_>, _>>().map_err(|error| match error {
        CallError::Python(interrupt) => interrupt,
        other => wrong(&other),
    })?;
    parse_store_error(name, &arguments).map_err(|error| wrong(&error))
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
