//! The runtime of this process, and calls from Python that wait for it.

use std::pin::pin;
use std::process;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use pyo3::prelude::*;
use tokio::runtime::Runtime;
use tokio::task::{AbortHandle, block_in_place};
use tokio::time::timeout;

use crate::errors::CallError;

/// How often a blocked call looks for signals, such as the one of Ctrl-C.
const SIGNAL_INTERVAL: Duration = Duration::from_millis(50);

/// How long the exit of the interpreter waits for calls of other threads.
const EXIT_TIMEOUT: Duration = Duration::from_secs(5);

/// The runtime and the calls of this process. A fork inherits neither, so each process has its own.
pub(crate) struct Process {
    id: u32,
    pub(crate) runtime: Runtime,
    calls: AtomicUsize,
    is_exiting: AtomicBool,
}

/// It is locked only by threads that are attached to the interpreter. `os.fork` is too, so a child never inherits a
/// locked mutex.
static PROCESS: Mutex<Option<&'static Process>> = Mutex::new(None);

impl Process {
    /// The state of this process.
    pub(crate) fn current(_: Python<'_>) -> Result<&'static Self, CallError> {
        let mut current = PROCESS.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(process) = current.filter(|process| process.id == process::id()) {
            return Ok(process);
        }
        let mut builder = tokio::runtime::Builder::new_multi_thread();
        let runtime = builder.enable_all().thread_name("memory-tool").build();
        let runtime = runtime.map_err(CallError::Runtime)?;
        let (calls, is_exiting) = (AtomicUsize::new(0), AtomicBool::new(false));
        // Never dropped: after a fork, dropping the parent's runtime would wait for threads that do not exist.
        let process = Box::leak(Box::new(Self { id: process::id(), runtime, calls, is_exiting }));
        *current = Some(process);
        Ok(process)
    }

    /// Registers a call, unless the interpreter exits.
    pub(crate) fn enter(&self) -> Result<CallGuard<'_>, CallError> {
        self.calls.fetch_add(1, Ordering::SeqCst);
        let guard = CallGuard(self); // counted first, so that `shut_down` either waits for the call or stops it
        if self.is_exiting() { Err(CallError::Exiting) } else { Ok(guard) }
    }

    fn is_exiting(&self) -> bool {
        self.is_exiting.load(Ordering::SeqCst)
    }

    /// Waits for a future on this thread, without the interpreter's lock. A signal whose handler raises an exception
    /// drops the future.
    ///
    /// This can be a thread that already runs futures, because signal handlers, log handlers and finalizers in Python
    /// can call a memory.
    pub(crate) fn wait<T: Send>(
        &self,
        py: Python<'_>,
        future: impl Future<Output = Result<T, CallError>> + Send,
    ) -> Result<T, CallError> {
        let _guard = self.enter()?;
        let waiting = async {
            let mut future = pin!(future);
            loop {
                if let Ok(outcome) = timeout(SIGNAL_INTERVAL, &mut future).await {
                    return outcome;
                }
                if self.is_exiting() {
                    return Err(CallError::Exiting);
                }
                Python::attach(|py| py.check_signals()).map_err(CallError::Python)?;
            }
        };
        py.detach(|| block_in_place(|| self.runtime.block_on(waiting)))
    }

    /// Runs a future on the runtime, and settles `future`, a future of `event_loop`, with its outcome.
    pub(crate) fn start<T: ToPython>(
        &'static self,
        event_loop: Py<PyAny>,
        future: Py<PyAny>,
        work: impl Future<Output = Result<T, CallError>> + Send + 'static,
    ) -> Result<Call, CallError> {
        drop(self.enter()?);
        let mut reply = Reply { process: self, to: Some((event_loop, future)) };
        let task = self.runtime.spawn(async move {
            let outcome = work.await;
            reply.send(|py| outcome.and_then(|value| value.to_python(py).map_err(CallError::Python)));
        });
        Ok(Call(task.abort_handle()))
    }
}

/// A call in progress.
pub(crate) struct CallGuard<'a>(&'a Process);

impl Drop for CallGuard<'_> {
    fn drop(&mut self) {
        self.0.calls.fetch_sub(1, Ordering::SeqCst);
    }
}

/// A result that becomes a Python object.
pub(crate) trait ToPython: Send + 'static {
    fn to_python(self, py: Python<'_>) -> PyResult<Py<PyAny>>;
}

/// The reply to a coroutine. A panic drops it, which raises an error in the coroutine.
struct Reply {
    process: &'static Process,
    /// The event loop and its future.
    to: Option<(Py<PyAny>, Py<PyAny>)>,
}

impl Reply {
    fn send(&mut self, outcome: impl FnOnce(Python<'_>) -> Result<Py<PyAny>, CallError>) {
        let Some((event_loop, future)) = self.to.take() else { return };
        // The interpreter exits, so the coroutine never resumes.
        let Ok(_guard) = self.process.enter() else {
            // Without the interpreter, the references cannot be released.
            std::mem::forget((event_loop, future));
            return;
        };
        Python::try_attach(|py| {
            let (value, error) = match outcome(py) {
                Ok(value) => (value, py.None()),
                Err(error) => (py.None(), error.to_exception(py).into_value(py).into_any()),
            };
            let settle = py.import("memory_tool.memory").and_then(|module| module.getattr("_settle"));
            // It fails if the event loop is closed, so the coroutine never resumes.
            let settled = settle
                .and_then(|settle| event_loop.call_method1(py, "call_soon_threadsafe", (settle, future, value, error)));
            drop(settled);
        });
    }
}

impl Drop for Reply {
    fn drop(&mut self) {
        self.send(|_| Err(CallError::Aborted));
    }
}

/// A call of a coroutine.
#[pyclass(frozen)]
pub(crate) struct Call(AbortHandle);

#[pymethods]
impl Call {
    /// Stops the call.
    fn cancel(&self) {
        self.0.abort();
    }
}

/// Stops calls of other threads, at the exit of the interpreter: it would end these threads inside the calls.
#[pyfunction]
pub(crate) fn shut_down(py: Python<'_>) {
    let current = *PROCESS.lock().unwrap_or_else(PoisonError::into_inner);
    let Some(process) = current.filter(|process| process.id == process::id()) else { return };
    process.is_exiting.store(true, Ordering::SeqCst);
    py.detach(|| {
        let started = Instant::now();
        while process.calls.load(Ordering::SeqCst) > 0 && started.elapsed() < EXIT_TIMEOUT {
            thread::sleep(Duration::from_millis(1));
        }
    });
}
