//! Opening memories at locations with options from Python, as `python/memory_tool/options.py` converts them.

use std::path::PathBuf;
use std::sync::Arc;

use memory_tool::requests::{self, Given, Location, OnChange, Opening, OptionError, Outcome};
use memory_tool_cli::start_log_of_package;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyString;
use pythonize::pythonize;
use serde_json::Value;
use tokio::sync::mpsc::unbounded_channel;

use crate::memory::{NativeMemory, Opened};
use crate::runtime::{Call, Process, ToPython as _};
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

/// Opens a memory.
#[pyfunction]
pub(crate) fn open(py: Python<'_>, location: &Bound<'_, PyAny>, options: Options<'_>) -> PyResult<Py<PyAny>> {
    let process = Process::current(py)?;
    let opening = parse(location, options, process, None)?;
    let memory = process.wait(py, async { Ok(opening.open().await?) })?;
    Opened(process, memory).to_python(py)
}

/// Opens a memory without blocking, and settles `future` with it. Stores in Python whose methods are coroutines run on
/// `event_loop`.
#[pyfunction]
pub(crate) fn start_open(
    py: Python<'_>,
    event_loop: Py<PyAny>,
    future: Py<PyAny>,
    location: &Bound<'_, PyAny>,
    options: Options<'_>,
) -> PyResult<Call> {
    let process = Process::current(py)?;
    let opening = parse(location, options, process, Some(&event_loop))?;
    Ok(process.start(event_loop, future, async move { Ok(Opened(process, opening.open().await?)) })?)
}

/// The URLs of the memories at a location.
#[pyfunction]
pub(crate) fn memories(py: Python<'_>, url: PathBuf) -> PyResult<Vec<String>> {
    Ok(Process::current(py)?.wait(py, async { Ok(requests::memories(url).await?) })?)
}

/// Lists the memories at a location without blocking, and settles `future` with their URLs.
#[pyfunction]
pub(crate) fn start_memories(py: Python<'_>, event_loop: Py<PyAny>, future: Py<PyAny>, url: PathBuf) -> PyResult<Call> {
    let work = async { Ok(Outcome::Data(requests::memories(url).await?.into())) };
    Ok(Process::current(py)?.start(event_loop, future, work)?)
}

/// Reads the arguments of a memory, and starts its log.
fn parse(
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
    let opening = Opening::parse(located(location)?, given).map_err(|error| match error {
        OptionError::Type(message) => PyTypeError::new_err(message),
        OptionError::Value(message) => PyValueError::new_err(message),
    })?;
    start_log_of_package(opening.log());
    Ok(opening)
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
