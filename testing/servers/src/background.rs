//! [`Background`]: serves connections in background threads.

use std::future::Future;
use std::net::{Ipv4Addr, TcpListener as Listener};

use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::{Builder, Runtime};

use crate::error::{Doing as _, Error};

/// A listener on the loopback address with its own threads. Dropping it ends all connections.
#[derive(Debug)]
pub(crate) struct Background {
    url: String,
    runtime: Option<Runtime>,
}

impl Background {
    /// Listens on a free port and calls `serve` with each connection.
    pub(crate) fn start<S, F>(serve: S) -> Result<Self, Error>
    where
        S: Fn(TcpStream) -> F + Send + 'static,
        F: Future<Output = ()> + Send + 'static,
    {
        let listen = || {
            let listener = Listener::bind((Ipv4Addr::LOCALHOST, 0))?;
            listener.set_nonblocking(true)?;
            let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
            Ok((listener.local_addr()?, listener, runtime))
        };
        let (address, listener, runtime) = listen().doing("listening on the loopback address")?;
        runtime.spawn(async move {
            let Ok(listener) = TcpListener::from_std(listener) else { return };
            loop {
                // Ignores errors of single connections, for example after a client has disconnected.
                if let Ok((connection, _)) = listener.accept().await {
                    let _ = connection.set_nodelay(true);
                    tokio::spawn(serve(connection));
                }
            }
        });
        Ok(Self { url: format!("http://{address}"), runtime: Some(runtime) })
    }

    pub(crate) fn url(&self) -> &str {
        &self.url
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        // Does not block, so it is allowed in a task of another runtime.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}
