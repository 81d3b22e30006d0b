//! [`Server`]: the memories of a store over HTTP.

use std::convert::Infallible;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::http::header::{CACHE_CONTROL, HOST};
use axum::http::{HeaderValue, Request};
use axum::middleware::{Next, from_fn, from_fn_with_state};
use axum::response::Response;
use axum::routing::{MethodRouter, get, post};
use hyper::body::Incoming;
use hyper::server::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::graceful::{GracefulShutdown, Watcher};
use hyper_util::service::TowerToHyperService;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use crate::fronts::{api, monitors, page, tool};
use crate::http::connections::{Connection, Connections, Read};
use crate::http::error::ApiError;
use crate::http::listener::{BoxedStream, Listener, Peer, encrypt};
use crate::http::metrics::Metrics;
use crate::http::remainder::Remainder;
use crate::http::tls::{self, Certificate};
use crate::http::{admission, metrics};
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
        let service = Arc::new(Service::new(&options, &address, recorded)?);
        Ok(Self { options, listener, address, certificate, service })
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
        background.spawn(Arc::clone(&self.service.tokens.0).follow());
        background.spawn(Arc::clone(&self.service.sessions).follow());
        self.certificate.iter().for_each(|certificate| _ = background.spawn(Arc::clone(certificate).follow()));
        if upkeep::has_work(&self.options.memory) {
            background.spawn(upkeep::run(Arc::clone(&self.service)));
        }
        let router = router(&self.service);
        let accepting = async {
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
                    if let Some((stream, is_http2)) = open(stream, certificate, limits.head_time).await {
                        respond(stream, is_http2, limits.head_time, service, watcher).await;
                    }
                };
                tokio::spawn(async move {
                    tokio::select! {
                        () = serving => {}
                        () = connection.evicted() => {}
                    }
                });
            }
        };
        tokio::select! {
            biased;
            () = end => {}
            () = accepting => {}
        }
        drop(self.listener);
        #[cfg(unix)]
        if let Listen::Unix(path) = &self.address {
            let _ = std::fs::remove_file(path);
        }
        self.service.end_streams();
        let _ = timeout(limits.end_time, graceful.shutdown()).await;
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

/// Paths and their methods.
pub(crate) type Routes = Vec<(&'static str, MethodRouter<Arc<Service>>)>;

/// All paths that need a token.
fn routes() -> Routes {
    let tool = ("/v1/memory_stores/{id}/tool", post(tool::call));
    let api = api::routes().into_iter().map(|(path, methods)| (path, methods.layer(from_fn(api::check_betas))));
    monitors::routes().into_iter().chain([tool]).chain(api).collect()
}

/// The paths of the page, which have their own sign-in and errors.
fn pages(service: &Arc<Service>) -> Router<Arc<Service>> {
    let service = || Arc::clone(service);
    let for_visitors = with(page::routes()).layer(from_fn_with_state(service(), page::admit));
    let for_anyone = with(page::open_routes()).layer(from_fn_with_state(service(), admission::admit_anyone));
    let pages = for_visitors.merge(for_anyone).method_not_allowed_fallback(page::wrong_method);
    pages.layer(DefaultBodyLimit::disable()).layer(from_fn(page::protect))
}

fn with(routes: Routes) -> Router<Arc<Service>> {
    routes.into_iter().fold(Router::new(), |router, (path, methods)| router.route(path, methods))
}

pub(crate) fn router(service: &Arc<Service>) -> Router {
    let admitted = with(routes());
    #[cfg(feature = "mcp")]
    let admitted = admitted.merge(crate::fronts::mcp::routes(&service.mcp));
    let admitted = admitted
        .method_not_allowed_fallback(async || ApiError::method())
        .fallback(async || ApiError::not_found("there is no such path"))
        .layer(DefaultBodyLimit::disable()) // `admit` limits it
        .layer(from_fn_with_state(Arc::clone(service), admission::admit))
        .with_state(Arc::clone(service));
    let open = Router::new().route("/healthz", get(async || "ok\n"));
    let pages = pages(service).with_state(Arc::clone(service));
    let all = open.merge(pages).merge(admitted).layer(from_fn_with_state(Arc::clone(service), admission::identify));
    all.layer(from_fn(keep_from_caches))
}

/// A cache would give a response to clients without the token. Only the files of the page are for anyone, and its
/// forms stay in the browser.
async fn keep_from_caches(request: axum::extract::Request, next: Next) -> Response {
    let mut response = next.run(request).await;
    let is_kept = |value: &HeaderValue| value == page::STORED || value == page::RESTORED;
    if !response.headers().get(CACHE_CONTROL).is_some_and(is_kept) {
        response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    }
    response
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use axum::body::Body;
    use axum::http::header::ALLOW;
    use hyper::service::Service as _;
    use memory_tool::{Actor, StoreUrl};
    use serde_json::Value;

    use super::*;
    use crate::access::tokens::{TokenEntry, TokenFile};
    use crate::access::{Grant, Right};

    /// A service without memories, and an admin token.
    fn service(directory: &tempfile::TempDir) -> (Arc<Service>, String) {
        let tokens = directory.path().join("tokens");
        let actor = Actor::from_trusted_name("ops").unwrap();
        let (entry, token) = TokenEntry::generate(actor, vec![Grant::All], Right::ALL.to_vec()).unwrap();
        TokenFile::new(&tokens).add(entry).unwrap();
        let options = ServerOptions::new(StoreUrl::Local(directory.path().to_owned()), tokens);
        (Arc::new(Service::new(&options, &options.listen, None).unwrap()), token)
    }

    #[tokio::test]
    async fn the_document_has_all_routes_and_their_methods() {
        let directory = tempfile::tempdir().unwrap();
        let (service, token) = service(&directory);
        let document: Value = serde_json::from_str(monitors::OPENAPI).unwrap();
        let mut documented: BTreeMap<_, _> = document["paths"].as_object().unwrap().iter().collect();
        let mut paths: Vec<_> = routes().into_iter().map(|(path, _)| path).chain(["/healthz"]).collect();
        if cfg!(feature = "mcp") {
            paths.push("/mcp");
        } else {
            documented.remove(&"/mcp".to_owned());
        }
        assert_eq!(documented.len(), paths.len());
        let router = TowerToHyperService::new(router(&service));
        for path in paths {
            let methods = documented.get(&path.to_owned()).unwrap_or_else(|| panic!("{path} is not documented"));
            let path = path.replace(['{', '}'], "");
            let request = Request::builder().method("TRACE").uri(&path).header(HOST, "localhost");
            let request = request.header("x-api-key", &token).body(Body::empty()).unwrap();
            let response = router.call(request).await.unwrap();
            let allowed = response.headers()[ALLOW].to_str().unwrap().to_lowercase();
            let mut allowed: Vec<_> = allowed.split(',').filter(|method| *method != "head").collect();
            let mut methods: Vec<_> = methods.as_object().unwrap().keys().collect();
            allowed.sort_unstable();
            methods.sort_unstable();
            assert_eq!(allowed, methods, "{path}");
        }
    }
}
