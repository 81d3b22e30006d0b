//! The conformance suite on stores in Python.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use memory_tool::conformance::{BackendFixture, DEFAULT_CASE_TIMEOUT, DEFAULT_RACES, FixtureError, Suite};
use memory_tool::{BoxError, Store};
use pyo3::prelude::*;
use pythonize::pythonize;

use crate::errors::CallError;
use crate::runtime::Process;
use crate::store::PythonStore;

/// Creates stores with functions in Python.
struct Fixture {
    create: Arc<Py<PyAny>>,
    reopen: Option<Arc<Py<PyAny>>>,
    process: &'static Process,
}

impl Fixture {
    /// Calls a function that returns a store. `of` is its argument, if it has one.
    async fn call(
        &self,
        function: &Arc<Py<PyAny>>,
        of: Option<Arc<Py<PyAny>>>,
    ) -> Result<(Arc<dyn Store>, Arc<Py<PyAny>>), FixtureError> {
        let (function, process) = (Arc::clone(function), self.process);
        let called = process.runtime.spawn_blocking(move || {
            let _guard = process.enter()?;
            Python::attach(|py| {
                let object = match of {
                    Some(of) => function.call1(py, (&*of,)),
                    None => function.call0(py),
                };
                let object = object.map_err(CallError::Python)?;
                let store = PythonStore::new(object.bind(py), process, None).map_err(CallError::Python)?;
                Ok::<_, CallError>((Arc::new(store) as Arc<dyn Store>, Arc::new(object)))
            })
        });
        called.await.map_err(BoxError::from)?.map_err(FixtureError::failed)
    }
}

#[async_trait]
impl BackendFixture for Fixture {
    type Guard = Arc<Py<PyAny>>;

    async fn fresh(&self) -> Result<(Arc<dyn Store>, Self::Guard), FixtureError> {
        self.call(&self.create, None).await
    }

    async fn reopen(&self, guard: &Self::Guard) -> Result<Arc<dyn Store>, FixtureError> {
        let Some(reopen) = &self.reopen else {
            return Err(FixtureError::unsupported("`reopen` is not given"));
        };
        Ok(self.call(reopen, Some(Arc::clone(guard))).await?.0)
    }
}

/// Runs the suite. Returns whether it succeeded, the report as text, and the report as a dictionary.
#[pyfunction]
#[pyo3(signature = (create, reopen, filters, jobs=None, races=None, case_timeout=None))]
pub(crate) fn run_conformance(
    py: Python<'_>,
    create: Py<PyAny>,
    reopen: Option<Py<PyAny>>,
    filters: Vec<String>,
    jobs: Option<usize>,
    races: Option<usize>,
    case_timeout: Option<Duration>,
) -> PyResult<(bool, String, Py<PyAny>)> {
    let process = Process::current(py)?;
    let fixture = Fixture { create: Arc::new(create), reopen: reopen.map(Arc::new), process };
    let suite = filters.into_iter().fold(Suite::for_store(fixture), Suite::filter);
    let suite = suite.races(races.unwrap_or(DEFAULT_RACES)).case_timeout(case_timeout.unwrap_or(DEFAULT_CASE_TIMEOUT));
    let suite = match jobs {
        Some(jobs) => suite.jobs(jobs),
        None => suite,
    };
    let report = process.wait(py, async { Ok(suite.run().await) })?;
    Ok((report.is_success(), report.to_string(), json(py, &report)?))
}

/// The cases that a store can run, as dictionaries.
#[pyfunction]
pub(crate) fn cases(py: Python<'_>) -> PyResult<Py<PyAny>> {
    let process = Process::current(py)?;
    let fixture = Fixture { create: Arc::new(py.None()), reopen: None, process };
    json(py, &Suite::for_store(fixture).cases())
}

fn json(py: Python<'_>, value: &impl serde::Serialize) -> PyResult<Py<PyAny>> {
    Ok(pythonize(py, value)?.unbind())
}
