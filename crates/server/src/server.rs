//! [`Server`]: the memories of a store over HTTP.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::middleware::{from_fn, from_fn_with_state};
use axum::routing::{get, post};
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio::time::{sleep, timeout};

use crate::admission;
use crate::api;
use crate::error::ApiError;
use crate::hosts::Hosts;
use crate::memories::Memories;
use crate::service::Service;
use crate::tokens::{TokenFile, Tokens};
use crate::tool;

/// The connections at the same time. Each needs a file descriptor.
const MAX_CONNECTIONS: usize = 2_048;

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
    tokens: Arc<Tokens>,
    router: Router,
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
        let service = Service::new(memories, Arc::clone(&tokens), Hosts::new(address, hosts));
        Ok(Self { listener, address, tokens, router: router(Arc::new(service)) })
    }

    /// The address, with the port that the system selected.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves requests until `end` completes. Requests that have begun are finished.
    pub async fn serve(self, end: impl Future<Output = ()>) {
        let following = tokio::spawn(Arc::clone(&self.tokens).follow());
        let (graceful, room) = (GracefulShutdown::new(), Arc::new(Semaphore::new(MAX_CONNECTIONS)));
        let accepting = async {
            loop {
                let Ok(permit) = Arc::clone(&room).acquire_owned().await else { return };
                let Ok((stream, _)) = self.listener.accept().await else {
                    sleep(ACCEPT_DELAY).await;
                    continue;
                };
                // Responses are small, and each is sent at once.
                let _ = stream.set_nodelay(true);
                let service = TowerToHyperService::new(self.router.clone());
                let serving = http1::Builder::new()
                    .timer(TokioTimer::new())
                    .header_read_timeout(HEADER_TIMEOUT)
                    .serve_connection(TokioIo::new(stream), service);
                let serving = graceful.watch(serving);
                tokio::spawn(async move {
                    let _permit = permit;
                    // An error is of the client, such as a malformed request.
                    let _ = serving.await;
                });
            }
        };
        tokio::select! {
            biased;
            () = end => {}
            () = accepting => {}
        }
        drop(self.listener);
        let _ = timeout(GRACE, graceful.shutdown()).await;
        following.abort();
    }
}

pub(crate) fn router(service: Arc<Service>) -> Router {
    let admitted = Router::new()
        .route("/v1/memory_stores/{id}/tool", post(tool::call))
        .merge(api::routes())
        .method_not_allowed_fallback(async || ApiError::method())
        .fallback(async || ApiError::not_found("there is no such path"))
        .layer(DefaultBodyLimit::disable()) // `admit` limits it
        .layer(from_fn_with_state(Arc::clone(&service), admission::admit))
        .with_state(service);
    let open = Router::new().route("/healthz", get(async || "ok\n")).route("/readyz", get(async || "ok\n"));
    open.merge(admitted).layer(from_fn(admission::identify))
}
