//! [`Interruption`]: the signals that end the program.

use std::future::poll_fn;
use std::io;
use std::task::Poll;
use std::time::Duration;

use tokio::runtime::Runtime;
#[cfg(unix)]
use tokio::signal::unix::{Signal, SignalKind, signal};
#[cfg(windows)]
use tokio::signal::windows::{CtrlC as Signal, ctrl_c};

use crate::failure::{Context as _, Failure};

/// The maximum time for interrupted work to end, such as the removal of incomplete files.
pub(crate) const CLEANUP_TIME: Duration = Duration::from_secs(5);

/// A runtime for one task at a time, on this thread. A second thread serves the connections to a bucket, which may be
/// closed while this one waits for input.
pub fn start_runtime() -> Result<Runtime, Failure> {
    tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().context("cannot start")
}

/// Does the work of a command. A signal drops it, which leaves each file in its old or its new state.
///
/// `cleanup_time` is the maximum time for its calls to the system to end after that.
pub(crate) fn run_until_interrupted<T>(
    cleanup_time: Duration,
    work: impl Future<Output = Result<T, Failure>>,
) -> Result<T, Failure> {
    let runtime = start_runtime()?;
    let ended = runtime.block_on(async {
        let mut interruption = Interruption::listen().context("cannot start")?;
        interruption.or(work).await.unwrap_or_else(|status| Err(Failure::Interrupted { status }))
    });
    if matches!(ended, Err(Failure::Interrupted { .. })) {
        runtime.shutdown_timeout(cleanup_time);
    }
    ended
}

/// Listens for SIGINT and SIGTERM. Once a value exists, they no longer end the program immediately.
pub struct Interruption {
    /// Each signal with the exit status of a program that it ends.
    signals: Vec<(u8, Signal)>,
}

/// The exit status after Ctrl-C.
pub(crate) const CTRL_C: u8 = 130;
/// The exit status after SIGQUIT.
pub(crate) const QUIT: u8 = 131;

impl Interruption {
    /// Listens for the signals. Must be called within a runtime.
    #[cfg(unix)]
    pub fn listen() -> io::Result<Self> {
        Self::listen_to(&[(CTRL_C, SignalKind::interrupt()), (143, SignalKind::terminate())])
    }

    /// Also listens for the other signals of a terminal, which an editor gets too.
    #[cfg(unix)]
    pub(crate) fn listen_beside_editor() -> io::Result<Self> {
        let of_terminal = [(CTRL_C, SignalKind::interrupt()), (QUIT, SignalKind::quit()), (129, SignalKind::hangup())];
        Self::listen_to(&[&of_terminal[..], &[(143, SignalKind::terminate())]].concat())
    }

    #[cfg(unix)]
    fn listen_to(kinds: &[(u8, SignalKind)]) -> io::Result<Self> {
        let signals = kinds.iter().map(|&(status, kind)| Ok((status, signal(kind)?)));
        Ok(Self { signals: signals.collect::<io::Result<_>>()? })
    }

    /// Listens for Ctrl-C. Must be called within a runtime.
    #[cfg(windows)]
    pub fn listen() -> io::Result<Self> {
        Ok(Self { signals: vec![(CTRL_C, ctrl_c()?)] })
    }

    /// The same.
    #[cfg(windows)]
    pub(crate) fn listen_beside_editor() -> io::Result<Self> {
        Self::listen()
    }

    /// Does the work unless a signal arrives first, whose exit status is the error. After a signal, nothing is started.
    pub async fn or<T>(&mut self, work: impl Future<Output = T>) -> Result<T, u8> {
        tokio::select! {
            biased;
            status = self.status() => Err(status),
            done = work => Ok(done),
        }
    }

    /// Waits for a signal, and returns the exit status.
    pub(crate) async fn status(&mut self) -> u8 {
        poll_fn(|context| {
            let mut signals = self.signals.iter_mut();
            let came = signals.find_map(|(status, signal)| signal.poll_recv(context).is_ready().then_some(*status));
            came.map_or(Poll::Pending, Poll::Ready)
        })
        .await
    }
}
