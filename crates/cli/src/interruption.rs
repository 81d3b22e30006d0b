//! [`Interruption`]: the signals that end the program.

use std::future::poll_fn;
use std::io;
use std::task::Poll;

#[cfg(unix)]
use tokio::signal::unix::{Signal, SignalKind, signal};
#[cfg(windows)]
use tokio::signal::windows::{CtrlC as Signal, ctrl_c};

/// Listens for SIGINT and SIGTERM. Once a value exists, they no longer end the program immediately.
pub(crate) struct Interruption {
    /// Each signal with the exit status of a program that it ends.
    signals: Vec<(u8, Signal)>,
}

/// The exit status after Ctrl-C.
pub(crate) const CTRL_C: u8 = 130;

impl Interruption {
    /// Listens for the signals. Must be called within a runtime.
    #[cfg(unix)]
    pub(crate) fn listen() -> io::Result<Self> {
        let kinds = [(CTRL_C, SignalKind::interrupt()), (143, SignalKind::terminate())];
        let signals = kinds.into_iter().map(|(status, kind)| Ok((status, signal(kind)?)));
        Ok(Self { signals: signals.collect::<io::Result<_>>()? })
    }

    /// Listens for Ctrl-C. Must be called within a runtime.
    #[cfg(windows)]
    pub(crate) fn listen() -> io::Result<Self> {
        Ok(Self { signals: vec![(CTRL_C, ctrl_c()?)] })
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
