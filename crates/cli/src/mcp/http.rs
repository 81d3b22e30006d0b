//! [`Endpoint`]: the server over streamable HTTP.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt as _, Full, LengthLimitError, Limited};
use hyper::body::{Body as _, Incoming};
use hyper::header::{CONTENT_TYPE, HeaderValue, WWW_AUTHENTICATE};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::{StreamableHttpServerConfig, StreamableHttpService};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{sleep, timeout};

use crate::arguments::HttpArguments;
use crate::failure::{Failure, eprint_line};
use crate::interruption::Interruption;
use crate::mcp::server::{Server, SharedMemory};
use crate::mcp::token::Token;
use crate::mcp::{McpEnd, message};
use crate::protocol::MAX_LINE_BYTES;

/// The path of the endpoint.
const PATH: &str = "/mcp";

/// The header with the id of a session.
const SESSION_ID: &str = "mcp-session-id";

/// The limits that keep a client from exhausting the RAM.
const MAX_CONNECTIONS: usize = 256;
const MAX_SESSIONS: usize = 1_024;

/// The time in which a client must send the headers, and then the body.
const HEADER_TIMEOUT: Duration = Duration::from_secs(30);
const BODY_TIMEOUT: Duration = Duration::from_secs(60);

/// The time after which an unused session is closed. Its client then gets a 404 and starts another.
const SESSION_TIMEOUT: Duration = Duration::from_secs(60 * 60);

/// The time for running requests to finish after a signal.
const GRACE: Duration = Duration::from_secs(5);

/// The delay after a failed `accept`, for example without free file descriptors.
const ACCEPT_DELAY: Duration = Duration::from_millis(100);

type Reply = Response<BoxBody<Bytes, Infallible>>;
type McpService = StreamableHttpService<Server, LocalSessionManager>;

/// The address that the server listens on, and the conditions of a request.
#[derive(Debug)]
pub(super) struct Endpoint {
    listener: TcpListener,
    address: SocketAddr,
    token: Option<Token>,
    hosts: Vec<String>,
    origins: Vec<String>,
}

impl Endpoint {
    /// Listens on the address of the options, if there is one.
    pub(super) async fn listen(options: &HttpArguments) -> Result<Option<Self>, Failure> {
        let Some(address) = options.listen else { return Ok(None) };
        let token = Token::of(options)?;
        if token.is_none() && !address.ip().is_loopback() {
            return Err(Failure::TokenRequired { address });
        }
        let failure = |source| Failure::Listen { address, source };
        let listener = TcpListener::bind(address).await.map_err(failure)?;
        let address = listener.local_addr().map_err(failure)?;
        let hosts = allowed_hosts(address, &options.allow_host);
        let origins = allowed_origins(address, &options.allow_host);
        Ok(Some(Self { listener, address, token, hosts, origins }))
    }

    /// Serves clients until a signal arrives.
    pub(super) async fn serve(self, memory: Arc<SharedMemory>, interruption: &mut Interruption) -> McpEnd {
        let Self { listener, address, token, hosts, origins } = self;
        let mut config = StreamableHttpServerConfig::default()
            .with_allowed_hosts(hosts)
            .with_allowed_origins(origins)
            .enforce_origin_validation();
        config.max_request_body_bytes = MAX_LINE_BYTES;
        let stop = config.cancellation_token.clone();
        let sessions = Arc::new(Semaphore::new(MAX_SESSIONS));
        let gate =
            Arc::new(Gate { token, sessions: Arc::clone(&sessions), service: service(memory, sessions, config) });
        eprint_line(&format!("memory-tool: listening on http://{address}{PATH}"));

        let connections = GracefulShutdown::new();
        let permits = Arc::new(Semaphore::new(MAX_CONNECTIONS));
        let status = tokio::select! {
            biased;
            status = interruption.status() => status,
            never = accept_all(&listener, &permits, |stream, permit| {
                serve_connection(stream, permit, &gate, &connections);
            }) => match never {},
        };
        stop.cancel();
        let _ = timeout(GRACE, connections.shutdown()).await;
        McpEnd::Interrupted { status }
    }
}

/// The names of this server in the header `Host`.
fn allowed_hosts(address: SocketAddr, given: &[String]) -> Vec<String> {
    let local = ["localhost", "127.0.0.1", "::1"].map(str::to_owned);
    local.into_iter().chain([address.ip().to_string()]).chain(given.iter().cloned()).collect()
}

/// The web pages that may send requests: those of this server only.
fn allowed_origins(address: SocketAddr, given: &[String]) -> Vec<String> {
    let port = address.port();
    let local = ["localhost", "127.0.0.1", "[::1]"].map(|host| format!("http://{host}:{port}"));
    let own = format!("http://{address}");
    let named = given.iter().flat_map(|host| {
        let has_port = host.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
        let suffix = if has_port { "" } else { ":*" };
        ["http", "https"].map(|scheme| format!("{scheme}://{host}{suffix}"))
    });
    local.into_iter().chain([own]).chain(named).collect()
}

fn service(memory: Arc<SharedMemory>, sessions: Arc<Semaphore>, config: StreamableHttpServerConfig) -> McpService {
    let server = move || {
        let permit = Arc::clone(&sessions).try_acquire_owned().map_err(|_| io::Error::other("too many sessions"))?;
        Ok(Server::new(Arc::clone(&memory), Some(permit)))
    };
    let mut manager = LocalSessionManager::default();
    manager.session_config.keep_alive = Some(SESSION_TIMEOUT);
    McpService::new(server, Arc::new(manager), config)
}

/// Accepts connections forever.
async fn accept_all(
    listener: &TcpListener,
    permits: &Arc<Semaphore>,
    serve: impl Fn(TcpStream, OwnedSemaphorePermit),
) -> Infallible {
    loop {
        match (Arc::clone(permits).acquire_owned().await, listener.accept().await) {
            (Ok(permit), Ok((stream, _))) => serve(stream, permit),
            _ => sleep(ACCEPT_DELAY).await,
        }
    }
}

fn serve_connection(stream: TcpStream, permit: OwnedSemaphorePermit, gate: &Arc<Gate>, connections: &GracefulShutdown) {
    // Responses are small, and each is sent at once.
    let _ = stream.set_nodelay(true);
    let gate = Arc::clone(gate);
    let respond = service_fn(move |request| {
        let gate = Arc::clone(&gate);
        async move { Ok::<_, Infallible>(gate.respond(request).await) }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_TIMEOUT)
        .serve_connection(TokioIo::new(stream), respond);
    let connection = connections.watch(connection);
    tokio::spawn(async move {
        // An error is of the client, such as a malformed request.
        let _ = connection.await;
        drop(permit);
    });
}

/// Checks requests before rmcp handles them.
struct Gate {
    token: Option<Token>,
    sessions: Arc<Semaphore>,
    service: McpService,
}

impl Gate {
    async fn respond(&self, request: Request<Incoming>) -> Reply {
        if self.token.as_ref().is_some_and(|token| !token.is_in(request.headers())) {
            let mut reply = text(StatusCode::UNAUTHORIZED, "Unauthorized: the bearer token is missing or wrong");
            reply.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
            return reply;
        }
        if request.uri().path() != PATH {
            return text(StatusCode::NOT_FOUND, "Not Found: the endpoint is /mcp");
        }
        // Without an id, the request starts a session. rmcp would respond with an internal error.
        if !request.headers().contains_key(SESSION_ID) && self.sessions.available_permits() == 0 {
            return text(StatusCode::SERVICE_UNAVAILABLE, "Service Unavailable: too many sessions");
        }
        let (parts, body) = request.into_parts();
        let body = match read(body).await {
            Ok(body) => body,
            Err(reply) => return reply,
        };
        // rmcp would respond to these with other texts.
        if parts.method == Method::POST
            && let Err(error) = message::parse(&body)
        {
            let json = serde_json::to_vec(&error).unwrap_or_default();
            return reply(StatusCode::BAD_REQUEST, "application/json", json);
        }
        let is_delete = parts.method == Method::DELETE;
        let mut reply = self.service.handle(Request::from_parts(parts, Full::new(body))).await;
        // The official Python client reports a failure for 202.
        if is_delete && reply.status() == StatusCode::ACCEPTED {
            *reply.status_mut() = StatusCode::NO_CONTENT;
        }
        reply
    }
}

async fn read(body: Incoming) -> Result<Bytes, Reply> {
    let too_large = || text(StatusCode::PAYLOAD_TOO_LARGE, "Payload Too Large: the limit is 16 MiB");
    if body.size_hint().lower() > MAX_LINE_BYTES as u64 {
        return Err(too_large());
    }
    match timeout(BODY_TIMEOUT, Limited::new(body, MAX_LINE_BYTES).collect()).await {
        Ok(Ok(collected)) => Ok(collected.to_bytes()),
        Ok(Err(error)) if error.is::<LengthLimitError>() => Err(too_large()),
        Ok(Err(_)) => Err(text(StatusCode::BAD_REQUEST, "Bad Request: the body is incomplete")),
        Err(_) => Err(text(StatusCode::REQUEST_TIMEOUT, "Request Timeout: the body did not arrive in time")),
    }
}

fn text(status: StatusCode, text: &'static str) -> Reply {
    reply(status, "text/plain; charset=utf-8", text)
}

fn reply(status: StatusCode, content_type: &'static str, body: impl Into<Bytes>) -> Reply {
    let mut reply = Response::new(Full::new(body.into()).boxed());
    *reply.status_mut() = status;
    reply.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    reply
}
