//! [`Server`]: the memories of a store over HTTP.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::{DefaultBodyLimit, Request};
use axum::middleware::{from_fn, from_fn_with_state};
use axum::routing::{get, post};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service as _, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{sleep, timeout};

use crate::admission;
use crate::api;
use crate::connections::{Connection, Connections};
use crate::error::ApiError;
use crate::hosts::Hosts;
use crate::memories::Memories;
use crate::service::Service;
use crate::tokens::{TokenFile, Tokens};
use crate::tool;

/// The time in which a client must send the head of a request. An idle connection is closed after it.
const HEADER_TIMEOUT: Duration = Duration::from_secs(30);

/// The time for running requests to finish after a signal.
const GRACE: Duration = Duration::from_secs(30);

/// The delay after a failed `accept`, for example without free file descriptors.
const ACCEPT_DELAY: Duration = Duration::from_millis(100);

/// The memories of a store over HTTP.
#[derive(Debug)]
pub struct Server {
    listener: TcpListener,
    address: SocketAddr,
    service: Arc<Service>,
    #[cfg(feature = "mcp")]
    mcp: Option<crate::mcp::Mcp>,
}

impl Server {
    /// Listens on an address. `hosts` are more names of the server in the header `Host`.
    ///
    /// # Errors
    /// If the tokens cannot be read, or the address is not free.
    pub async fn listen(
        address: SocketAddr,
        hosts: &[String],
        tokens: TokenFile,
        memories: Memories,
    ) -> io::Result<Self> {
        let tokens = Arc::new(Tokens::load(tokens)?);
        let listener = TcpListener::bind(address).await?;
        let address = listener.local_addr()?;
        let service = Arc::new(Service::new(memories, tokens, Hosts::new(address, hosts)));
        Ok(Self {
            listener,
            address,
            service,
            #[cfg(feature = "mcp")]
            mcp: None,
        })
    }

    /// Also serves clients of the Model Context Protocol, at `/mcp`.
    #[cfg(feature = "mcp")]
    #[must_use]
    pub fn mcp(mut self, mcp: crate::mcp::Mcp) -> Self {
        self.mcp = Some(mcp);
        self
    }

    /// The address, with the port that the system selected.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves requests until `end` completes. Requests that have begun are finished, and streams end.
    pub async fn serve(self, end: impl Future<Output = ()>) {
        let router = TowerToHyperService::new(self.router());
        let following = tokio::spawn(Arc::clone(&self.service.tokens).follow());
        let (graceful, connections) = (GracefulShutdown::new(), Arc::new(Connections::default()));
        let accepting = async {
            loop {
                if let Ok((stream, _)) = self.listener.accept().await {
                    serve_connection(stream, connections.add().await, router.clone(), &graceful);
                } else {
                    // There may be no free file descriptor.
                    connections.evict();
                    sleep(ACCEPT_DELAY).await;
                }
            }
        };
        tokio::select! {
            biased;
            () = end => {}
            () = accepting => {}
        }
        drop(self.listener);
        #[cfg(feature = "mcp")]
        self.service.end_streams();
        let _ = timeout(GRACE, graceful.shutdown()).await;
        following.abort();
    }

    fn router(&self) -> Router {
        let admitted = Router::new().route("/v1/memory_stores/{id}/tool", post(tool::call)).merge(api::routes());
        #[cfg(feature = "mcp")]
        let admitted = match &self.mcp {
            Some(mcp) => admitted.merge(crate::mcp::routes(mcp)),
            None => admitted,
        };
        let admitted = admitted
            .method_not_allowed_fallback(async || ApiError::method())
            .fallback(async || ApiError::not_found("there is no such path"))
            .layer(DefaultBodyLimit::disable()) // `admit` limits it
            .layer(from_fn_with_state(Arc::clone(&self.service), admission::admit))
            .with_state(Arc::clone(&self.service));
        let open = Router::new().route("/healthz", get(async || "ok\n")).route("/readyz", get(async || "ok\n"));
        open.merge(admitted).layer(from_fn(admission::identify))
    }
}

fn serve_connection(
    stream: TcpStream,
    connection: Arc<Connection>,
    router: TowerToHyperService<Router>,
    graceful: &GracefulShutdown,
) {
    // Responses are small, and each is sent at once.
    let _ = stream.set_nodelay(true);
    let answering = Arc::clone(&connection);
    let respond = service_fn(move |mut request: Request<Incoming>| {
        request.extensions_mut().insert(Arc::clone(&answering));
        router.call(request)
    });
    let serving = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_TIMEOUT)
        .serve_connection(TokioIo::new(stream), respond);
    let serving = graceful.watch(serving);
    tokio::spawn(async move {
        tokio::select! {
            // An error is of the client, such as a malformed request.
            _ = serving => {}
            () = connection.evicted() => {}
        }
    });
}
