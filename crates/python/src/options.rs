//! Locations and options from Python, as `python/memory_tool/options.py` converts them.

use std::path::PathBuf;
use std::sync::Arc;

use memory_tool::requests::{Given, Location, OnChange, Opening, OptionError};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyString;
use pythonize::pythonize;
use serde_json::Value;
use tokio::sync::mpsc::unbounded_channel;

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
    on_change: Option<Py<PyAny>>,
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
    let Options { data, key, old_keys, mounts, on_change } = options;
    let on_change = on_change
        .map(|function| report_to(function, process, event_loop.map(|event_loop| event_loop.clone_ref(location.py()))));
    let mounts = mounts.into_iter().map(|(point, mounted, is_read_only)| Ok((point, located(&mounted)?, is_read_only)));
    let mounts = mounts.collect::<PyResult<_>>()?;
    let given = Given { data, key, old_keys, mounts, on_change, spelling: str::to_owned };
    Opening::parse(located(location)?, given).map_err(|error| match error {
        OptionError::Type(message) => PyTypeError::new_err(message),
        OptionError::Value(message) => PyValueError::new_err(message),
    })
}

/// Calls a function in Python with each change, one after another: on the event loop, or else on another thread,
/// so that no operation waits for it.
fn report_to(function: Py<PyAny>, process: &'static Process, event_loop: Option<Py<PyAny>>) -> OnChange {
    let (sender, mut changes) = unbounded_channel::<Value>();
    let call = Arc::new((function, event_loop));
    process.runtime.spawn(async move {
        while let Some(change) = changes.recv().await {
            let call = Arc::clone(&call);
            let called = process.runtime.spawn_blocking(move || {
                let _guard = process.enter().ok()?;
                Python::try_attach(|py| {
                    let report = py.import("memory_tool.changes")?.getattr("_report")?;
                    report.call1((&call.0, &call.1, pythonize(py, &change)?)).map(drop)
                })
            });
            // It fails only if the process ends: `_report` handles the exceptions of the function.
            drop(called.await);
        }
    });
    // It fails only if the process ends.
    Box::new(move |change| drop(sender.send(change)))
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
