//! The entry point of the fuzz target for requests.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};

use crate::hosts::Hosts;
use crate::memories::Memories;
use crate::server::router;
use crate::service::Service;
use crate::tokens::{TokenFile, Tokens};

/// A server without a socket.
#[derive(Debug)]
pub struct Connections(Router);

impl Connections {
    /// A server of these memories at `localhost`.
    ///
    /// # Errors
    /// If the tokens cannot be read.
    pub fn new(tokens: TokenFile, memories: Memories) -> io::Result<Self> {
        let hosts = Hosts::new(SocketAddr::from(([127, 0, 0, 1], 80)), &[]);
        let service = Service::new(memories, Arc::new(Tokens::load(tokens)?), hosts);
        Ok(Self(router(Arc::new(service))))
    }

    /// Serves the requests of a connection.
    pub async fn serve(&self, stream: impl AsyncRead + AsyncWrite + Unpin + Send) {
        let service = TowerToHyperService::new(self.0.clone());
        // An error is of the client, such as a malformed request.
        let _ = http1::Builder::new().half_close(true).serve_connection(TokioIo::new(stream), service).await;
    }
}
