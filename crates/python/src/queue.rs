//! [`Queue`]: the order of the commands of a tool object.

use memory_tool::command::CommandQueue;
use memory_tool::requests;
use pyo3::prelude::*;
use pythonize::pythonize;

use crate::errors::CallError;
use crate::runtime::{Call, Process, ToPython};
use crate::tool;

/// The queue of a tool object. Its commands take effect in the order in which they took their places.
#[pyclass(frozen, module = "memory_tool._native")]
pub(crate) struct Queue(CommandQueue);

#[pymethods]
impl Queue {
    #[new]
    fn new() -> Self {
        Self(CommandQueue::new())
    }

    /// Takes a place for an overridden method, which can run more than one command.
    #[pyo3(name = "enter")]
    fn enter_method(&self) -> Place {
        Place(self.enter(None))
    }
}

impl Queue {
    /// Takes a place for a command.
    pub(crate) fn enter(&self, command: Option<&str>) -> requests::Place {
        requests::Place::enter(&self.0, command)
    }
}

/// A place in the queue.
#[pyclass(frozen, module = "memory_tool._native")]
pub(crate) struct Place(requests::Place);

#[pymethods]
impl Place {
    /// Waits for its turn.
    fn wait(&self, py: Python<'_>) -> PyResult<()> {
        Ok(Process::current(py)?.wait(py, self.turn())?)
    }

    /// Waits for its turn without blocking, and settles `future` then.
    fn start(&self, py: Python<'_>, event_loop: Py<PyAny>, future: Py<PyAny>) -> PyResult<Call> {
        Ok(Process::current(py)?.start(event_loop, future, self.turn())?)
    }

    /// Lets the next command run.
    fn leave(&self) {
        self.0.leave();
    }
}

impl Place {
    fn turn(&self) -> impl Future<Output = Result<(), CallError>> + Send + use<> {
        let waiting = self.0.wait();
        async {
            waiting.await;
            Ok(())
        }
    }
}

impl ToPython for () {
    fn to_python(self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        Ok(py.None())
    }
}

/// The input of a call as an overridden method receives it, or `None` if it is invalid.
#[pyfunction]
pub(crate) fn parse_command(input: &Bound<'_, PyAny>) -> PyResult<Option<Py<PyAny>>> {
    let command = requests::parse_command(tool::from_python(input)?);
    Ok(command.map(|command| pythonize(input.py(), &command)).transpose()?.map(Bound::unbind))
}
