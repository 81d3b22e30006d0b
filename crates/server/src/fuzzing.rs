//! The entry point of the fuzz target for requests.

use std::io;
use std::sync::Arc;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};

use crate::fronts::Fronts;
use crate::options::ServerOptions;
use crate::service::Service;

/// A server without a socket.
#[derive(Debug)]
pub struct Connections(Router);

impl Connections {
    /// A server with these settings.
    ///
    /// # Errors
    /// If the tokens cannot be read.
    pub fn new(options: &ServerOptions) -> io::Result<Self> {
        let service = Arc::new(Service::new(options, &options.listen)?);
        Ok(Self(Fronts::new(options, &options.listen, &service, None).router(&service)))
    }

    /// Serves the requests of a connection.
    pub async fn serve(&self, stream: impl AsyncRead + AsyncWrite + Unpin + Send) {
        let service = TowerToHyperService::new(self.0.clone());
        // An error is of the client, such as a malformed request.
        let _ = http1::Builder::new().half_close(true).serve_connection(TokioIo::new(stream), service).await;
    }
}
