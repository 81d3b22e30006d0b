//! [`Server`]: the memories of a store over HTTP.

use std::convert::Infallible;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::http::header::HOST;
use axum::http::{HeaderValue, Request};
use axum::response::Response;
use hyper::body::Incoming;
use hyper::server::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::graceful::{GracefulShutdown, Watcher};
use hyper_util::service::TowerToHyperService;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use crate::fronts::Fronts;
use crate::http::connections::{Connection, Connections, Read};
use crate::http::listener::{BoxedStream, Listener, Peer, encrypt};
use crate::http::metrics;
use crate::http::metrics::Metrics;
use crate::http::remainder::Remainder;
use crate::http::tls::{self, Certificate};
use crate::memories::upkeep;
use crate::options::{Listen, ServerOptions};
use crate::service::Service;

/// The delay after a failed `accept`, for example without free file descriptors.
const ACCEPT_DELAY: Duration = Duration::from_millis(100);

/// The requests of a connection of HTTP/2 at the same time.
const MAX_CONCURRENT: u32 = 100;
/// The bytes that a connection buffers.
const MAX_BUFFER: usize = 64 * 1024;

/// The memories of a store over HTTP.
#[derive(Debug)]
pub struct Server {
    options: ServerOptions,
    listener: Listener,
    address: Listen,
    certificate: Option<Arc<Certificate>>,
    service: Arc<Service>,
    fronts: Fronts,
}

impl Server {
    /// Reads the tokens and the certificate, and listens.
    ///
    /// # Errors
    /// If one of them cannot be read, or the address is not free.
    pub async fn listen(options: ServerOptions) -> io::Result<Self> {
        Self::listen_with(options, None).await
    }

    /// [`listen`](Self::listen), with a function that renders the metrics of this process for `/metrics`. The server
    /// records its metrics with the crate `metrics`; their names start with `memory_`.
    ///
    /// # Errors
    /// The errors of [`listen`](Self::listen).
    pub async fn listen_with_metrics(
        options: ServerOptions,
        render: impl Fn() -> String + Send + Sync + 'static,
    ) -> io::Result<Self> {
        Self::listen_with(options, Some(Metrics(Arc::new(render)))).await
    }

    async fn listen_with(options: ServerOptions, recorded: Option<Metrics>) -> io::Result<Self> {
        let certificate = options.tls.as_ref().map(tls::load).transpose()?.map(Arc::new);
        let (listener, address) = Listener::bind(&options.listen, options.socket_mode).await?;
        metrics::describe();
        let service = Arc::new(Service::new(&options, &address)?);
        let fronts = Fronts::new(&options, &address, &service, recorded);
        Ok(Self { options, listener, address, certificate, service, fronts })
    }

    /// The address, with the port that the system selected: `http://…`, `https://…` or `unix:…`.
    pub fn url(&self) -> String {
        match &self.address {
            Listen::Tcp(address) if self.certificate.is_some() => format!("https://{address}"),
            Listen::Tcp(address) => format!("http://{address}"),
            #[cfg(unix)]
            address @ Listen::Unix(_) => address.to_string(),
        }
    }

    /// Serves requests until `end` completes. Requests that have begun are finished, and streams end.
    pub async fn serve(self, end: impl Future<Output = ()>) {
        let limits = self.options.limits;
        let (graceful, connections) = (GracefulShutdown::new(), Connections::new(limits.connections));
        // They end with this function.
        let mut background = JoinSet::new();
        background.spawn(Arc::clone(self.service.gate.tokens.index()).follow());
        background.spawn(Arc::clone(&self.service.gate.tokens).note_uses());
        background.spawn(self.fronts.follow());
        #[cfg(feature = "mcp")]
        background.spawn({
            let gate = Arc::clone(&self.service.gate);
            async move {
                if let Some(resource) = &gate.resource {
                    resource.follow().await;
                }
            }
        });
        self.certificate.iter().for_each(|certificate| _ = background.spawn(Arc::clone(certificate).follow()));
        if upkeep::has_work(&self.options.memory) {
            background.spawn(upkeep::run(Arc::clone(&self.service.memories)));
        }
        tokio::select! {
            biased;
            () = end => {}
            () = self.accept(&connections, &graceful) => {}
        }
        drop(self.listener);
        #[cfg(unix)]
        if let Listen::Unix(path) = &self.address {
            let _ = std::fs::remove_file(path);
        }
        self.service.gate.end_streams();
        let _ = timeout(limits.end_time, graceful.shutdown()).await;
        self.service.gate.tokens.write_uses().await;
    }

    /// Serves each connection in its own task.
    async fn accept(&self, connections: &Arc<Connections>, graceful: &GracefulShutdown) {
        let head_time = self.options.limits.head_time;
        let router = self.fronts.router(&self.service);
        loop {
            let Ok((stream, peer)) = self.listener.accept().await else {
                // There may be no free file descriptor.
                connections.evict();
                sleep(ACCEPT_DELAY).await;
                continue;
            };
            let connection = connections.add().await;
            let (router, certificate) = (TowerToHyperService::new(router.clone()), self.certificate.clone());
            let service = Connected { peer, connection: Arc::clone(&connection), router };
            let watcher = graceful.watcher();
            let serving = async move {
                if let Some((stream, is_http2)) = open(stream, certificate, head_time).await {
                    respond(stream, is_http2, head_time, service, watcher).await;
                }
            };
            tokio::spawn(async move {
                tokio::select! {
                    () = serving => {}
                    () = connection.evicted() => {}
                }
            });
        }
    }
}

/// Starts TLS, if there is a certificate. A client that does not finish is left. Only clients with TLS select HTTP/2.
async fn open(
    stream: BoxedStream,
    certificate: Option<Arc<Certificate>>,
    limit: Duration,
) -> Option<(BoxedStream, bool)> {
    match certificate {
        Some(certificate) => timeout(limit, encrypt(stream, &certificate)).await.ok()?.ok(),
        None => Some((stream, false)),
    }
}

/// Responds to the requests of a connection. An error is of the client, such as a malformed request.
async fn respond(stream: BoxedStream, is_http2: bool, head_time: Duration, service: Connected, watcher: Watcher) {
    let stream = TokioIo::new(Read::new(stream));
    if is_http2 {
        let serving = http2::Builder::new(TokioExecutor::new())
            .timer(TokioTimer::new())
            .max_concurrent_streams(MAX_CONCURRENT)
            .keep_alive_interval(head_time)
            .serve_connection(stream, service);
        let _ = watcher.watch(serving).await;
    } else {
        let serving = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(head_time)
            .max_buf_size(MAX_BUFFER)
            .serve_connection(stream, service);
        let _ = watcher.watch(serving).await;
    }
}

/// The service of a connection, whose requests carry it and the address of the client.
#[derive(Clone)]
struct Connected {
    peer: Peer,
    connection: Arc<Connection>,
    router: TowerToHyperService<Router>,
}

impl hyper::service::Service<Request<Incoming>> for Connected {
    type Response = Response;
    type Error = Infallible;
    type Future = <TowerToHyperService<Router> as hyper::service::Service<Request<Remainder>>>::Future;

    fn call(&self, mut request: Request<Incoming>) -> Self::Future {
        request.extensions_mut().insert(self.peer);
        request.extensions_mut().insert(Arc::clone(&self.connection));
        // HTTP/2 has it in the address.
        let host = request.uri().authority().filter(|_| !request.headers().contains_key(HOST));
        if let Some(Ok(host)) = host.map(|host| HeaderValue::from_str(host.as_str())) {
            request.headers_mut().insert(HOST, host);
        }
        self.router.call(Remainder::of(request))
    }
}
