//! [`Background`]: what serves connections beside the tests of its process.

use std::future::Future;
use std::net::{Ipv4Addr, TcpListener as Listener};

use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::{Builder, Runtime};

use crate::error::{Doing as _, Error};

/// A listener of the loopback address with threads of its own. All its connections end when it is dropped.
#[derive(Debug)]
pub(crate) struct Background {
    url: String,
    runtime: Option<Runtime>,
}

impl Background {
    /// Lets `serve` have each connection to a free port.
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
                // An accident of one connection, as when its client is gone already, is none of the listener.
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
        // Without a wait, which a task of another runtime may not make.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}
