//! Locations and options from Python, as `python/memory_tool/options.py` converts them.

use std::path::PathBuf;
use std::sync::Arc;

use memory_tool_bindings::{Given, Location, Opening, OptionError};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyString;

use crate::memory::NativeMemory;
use crate::runtime::Process;
use crate::store::PythonStore;

/// The options of a memory.
#[derive(FromPyObject)]
pub(crate) struct Options<'py> {
    data: Vec<(String, String)>,
    key: Option<Vec<u8>>,
    old_keys: Vec<Vec<u8>>,
    mounts: Vec<(String, Bound<'py, PyAny>, bool)>,
}

/// Reads the arguments of a memory. Methods of stores in Python that are coroutines run on `event_loop`, if there is
/// one.
pub(crate) fn parse(
    location: &Bound<'_, PyAny>,
    options: Options<'_>,
    process: &'static Process,
    event_loop: Option<&Py<PyAny>>,
) -> PyResult<Opening> {
    let located = |given: &Bound<'_, PyAny>| parse_location(given, process, event_loop);
    let Options { data, key, old_keys, mounts } = options;
    let mounts = mounts.into_iter().map(|(point, mounted, is_read_only)| Ok((point, located(&mounted)?, is_read_only)));
    let mounts = mounts.collect::<PyResult<_>>()?;
    let given = Given { data, key, old_keys, mounts, spelling: str::to_owned };
    Opening::parse(located(location)?, given).map_err(|error| match error {
        OptionError::Type(message) => PyTypeError::new_err(message),
        OptionError::Value(message) => PyValueError::new_err(message),
    })
}

fn parse_location(
    given: &Bound<'_, PyAny>,
    process: &'static Process,
    event_loop: Option<&Py<PyAny>>,
) -> PyResult<Location> {
    if given.is_instance_of::<PyString>() || given.hasattr("__fspath__")? {
        let path = given.extract::<PathBuf>();
        return path.map(Location::Url).map_err(|error| PyValueError::new_err(format!("invalid location: {error}")));
    }
    // An open memory of this package.
    if let Ok(memory) = given.getattr("_native").and_then(|native| Ok(native.cast_into::<NativeMemory>()?)) {
        return Ok(Location::Memory(memory.get().memory()?.1.store()));
    }
    Ok(Location::Store(Arc::new(PythonStore::new(given, process, event_loop)?)))
}
