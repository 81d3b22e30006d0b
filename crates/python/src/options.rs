//! Locations and options from Python, as `python/memory_tool/options.py` describes them.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use memory_tool_bindings::{Given, Location, Opening, OptionError};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyFloat, PyInt};

use crate::memory::NativeMemory;
use crate::runtime::Process;
use crate::store::PythonStore;

/// Reads the arguments of a memory. Methods of stores in Python that are coroutines run on `event_loop`, if there is
/// one.
pub(crate) fn parse(
    location: &Bound<'_, PyAny>,
    options: &Bound<'_, PyDict>,
    process: &'static Process,
    event_loop: Option<&Py<PyAny>>,
) -> PyResult<Opening> {
    let located = |given: &Bound<'_, PyAny>| parse_location(given, process, event_loop);
    let mut given = Vec::new();
    for (name, value) in options {
        let name = name.extract::<String>()?;
        let value = match name.as_str() {
            "mounts" | "read_only_mounts" if !value.is_none() => parse_mounts(&value, located)?,
            _ => parse_value(&value)?,
        };
        given.push((name, value));
    }
    Opening::parse(located(location)?, given, str::to_owned).map_err(|error| match error {
        OptionError::Type(message) => PyTypeError::new_err(message),
        OptionError::Value(message) => PyValueError::new_err(message),
    })
}

fn parse_location(
    given: &Bound<'_, PyAny>,
    process: &'static Process,
    event_loop: Option<&Py<PyAny>>,
) -> PyResult<Location> {
    if let Ok(path) = given.extract::<PathBuf>() {
        return Ok(Location::Url(path));
    }
    // An open memory of this package.
    if let Ok(memory) = given.getattr("_native").and_then(|native| Ok(native.cast_into::<NativeMemory>()?)) {
        return Ok(Location::Store(memory.get().memory()?.1.store()));
    }
    Ok(Location::Store(Arc::new(PythonStore::new(given, process, event_loop)?)))
}

fn parse_mounts(
    given: &Bound<'_, PyAny>,
    located: impl Fn(&Bound<'_, PyAny>) -> PyResult<Location>,
) -> PyResult<Given> {
    let pairs = if given.hasattr("items")? { given.call_method0("items")? } else { given.clone() };
    let mount = |pair: PyResult<Bound<'_, PyAny>>| {
        let (point, given) = pair?.extract::<(String, Bound<'_, PyAny>)>()?;
        PyResult::Ok((point, located(&given)?))
    };
    pairs.try_iter()?.map(mount).collect::<PyResult<_>>().map(Given::Mounts)
}

fn parse_value(value: &Bound<'_, PyAny>) -> PyResult<Given> {
    if value.is_none() {
        return Ok(Given::Nothing);
    }
    if let Ok(flag) = value.cast::<PyBool>() {
        return Ok(Given::Flag(flag.is_true()));
    }
    if value.is_instance_of::<PyInt>()
        && let Ok(number) = value.extract::<u64>()
    {
        return Ok(Given::Whole(number));
    }
    if value.is_instance_of::<PyInt>() || value.is_instance_of::<PyFloat>() {
        return Ok(Given::Number(value.extract()?));
    }
    if let Ok(text) = value.extract::<String>() {
        return Ok(Given::Text(text));
    }
    if let Ok(path) = value.extract::<PathBuf>() {
        return Ok(Given::Path(path));
    }
    if let Ok(duration) = value.extract::<Duration>() {
        return Ok(Given::Duration(duration));
    }
    if let Ok(bytes) = value.extract::<&[u8]>() {
        return Ok(Given::Bytes(bytes.to_vec()));
    }
    match value.try_iter() {
        Ok(items) => items.map(|item| parse_value(&item?)).collect::<PyResult<_>>().map(Given::List),
        Err(_) => Ok(Given::Other(value.get_type().to_string())),
    }
}
