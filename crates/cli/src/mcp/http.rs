//! [`Endpoint`]: the server over streamable HTTP.

use std::convert::Infallible;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt as _, Empty, Full, LengthLimitError, Limited};
use hyper::body::{Body as _, Incoming};
use hyper::header::{CONTENT_TYPE, HeaderValue, WWW_AUTHENTICATE};
use hyper::http::request::Parts;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use rmcp::model::{ClientJsonRpcMessage, ClientRequest, RequestId};
use rmcp::transport::{StreamableHttpServerConfig, StreamableHttpService};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{sleep, timeout};

use crate::arguments::HttpArguments;
use crate::exit_status::ExitStatus;
use crate::failure::{Context as _, Failure, eprint_line};
use crate::interruption::Interruption;
use crate::mcp::connections::{Activity, Connection, Connections};
use crate::mcp::message;
use crate::mcp::order::{Order, Strangers};
use crate::mcp::server::{Server, SharedMemory};
use crate::mcp::sessions::Sessions;
use crate::mcp::token::Token;
use crate::protocol::{MAX_LINE_BYTES, escape_line_separators};

const PATH: &str = "/mcp";

const SESSION_ID: &str = "mcp-session-id";

/// The time in which a client must send the headers, and then the body.
const HEADER_TIMEOUT: Duration = Duration::from_secs(30);
const BODY_TIMEOUT: Duration = Duration::from_secs(60);

/// The time for running requests to finish after a signal.
const GRACE: Duration = Duration::from_secs(5);

/// The delay after a failed `accept`, for example without free file descriptors.
const ACCEPT_DELAY: Duration = Duration::from_millis(100);

type Reply = Response<BoxBody<Bytes, Infallible>>;
type McpService = StreamableHttpService<Server, Sessions>;

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
            return Err(Failure::new(format!(
                "cannot listen on {address} without a token, because other machines could read and change the memory; \
                 add --token-file or --token-env, or listen on 127.0.0.1"
            )));
        }
        let message = format!("cannot listen on {address}");
        let listener = TcpListener::bind(address).await.context(&message)?;
        let address = listener.local_addr().context(message)?;
        let hosts = allowed_hosts(address, &options.allow_host);
        let origins = allowed_origins(address, &options.allow_host);
        Ok(Some(Self { listener, address, token, hosts, origins }))
    }

    /// Serves clients until a signal arrives.
    pub(super) async fn serve(self, memory: Arc<SharedMemory>, interruption: &mut Interruption) -> ExitStatus {
        let Self { listener, address, token, hosts, origins } = self;
        let mut config = StreamableHttpServerConfig::default()
            .with_allowed_hosts(hosts)
            .with_allowed_origins(origins)
            .enforce_origin_validation();
        config.max_request_body_bytes = MAX_LINE_BYTES;
        let stop = config.cancellation_token.clone();
        let sessions = Arc::new(Sessions::new());
        let service = McpService::new(move || Ok(Server::new(Arc::clone(&memory))), Arc::clone(&sessions), config);
        let gate = Arc::new(Gate { token, sessions, strangers: Strangers::default(), service });
        eprint_line(&format!("memory-tool: listening on http://{address}{PATH}"));

        let graceful = GracefulShutdown::new();
        let connections = Arc::new(Connections::default());
        let status = tokio::select! {
            biased;
            status = interruption.status() => status,
            never = accept_all(&listener, &connections, |stream, peer, connection| {
                serve_connection(stream, peer, connection, &gate, &graceful);
            }) => match never {},
        };
        stop.cancel();
        let _ = timeout(GRACE, graceful.shutdown()).await;
        ExitStatus::Interrupted { status }
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

async fn accept_all(
    listener: &TcpListener,
    connections: &Arc<Connections>,
    serve: impl Fn(TcpStream, IpAddr, Connection),
) -> Infallible {
    for id in 0.. {
        match listener.accept().await {
            Ok((stream, peer)) => serve(stream, peer.ip(), connections.add(id).await),
            Err(_) => sleep(ACCEPT_DELAY).await,
        }
    }
    std::future::pending().await
}

fn serve_connection(
    stream: TcpStream,
    peer: IpAddr,
    connection: Connection,
    gate: &Arc<Gate>,
    graceful: &GracefulShutdown,
) {
    // Responses are small, and each is sent at once.
    let _ = stream.set_nodelay(true);
    let (gate, connection) = (Arc::clone(gate), Arc::new(connection));
    let respond = {
        let connection = Arc::clone(&connection);
        service_fn(move |request| {
            let (gate, connection) = (Arc::clone(&gate), Arc::clone(&connection));
            async move { Ok::<_, Infallible>(gate.respond(request, peer, &connection).await) }
        })
    };
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

/// Checks requests before rmcp handles them.
struct Gate {
    token: Option<Token>,
    sessions: Arc<Sessions>,
    strangers: Strangers,
    service: McpService,
}

impl Gate {
    async fn respond(&self, request: Request<Incoming>, peer: IpAddr, connection: &Arc<Connection>) -> Reply {
        let (mut parts, body) = request.into_parts();
        if let Some(refusal) = self.refusal(&parts).await {
            return refusal;
        }
        let body = match read(body).await {
            Ok(body) => body,
            Err(reply) => return reply,
        };
        let mut activity = if parts.method == Method::GET { Activity::Notifying } else { Activity::Answering };
        if parts.method == Method::POST {
            match message::parse(&body) {
                Ok(ClientJsonRpcMessage::Request(request)) => {
                    if matches!(request.request, ClientRequest::SubscriptionsListenRequest(_)) {
                        activity = Activity::Notifying;
                    }
                    if let Some(order) = self.order(&parts, peer, &request.id)
                        && let Some(place) = order.enter_by_id(&request).await
                    {
                        parts.extensions.insert(place);
                    }
                }
                Ok(_) => {}
                // rmcp would respond with other texts.
                Err(error) => {
                    let json = serde_json::to_vec(&error).unwrap_or_default();
                    return reply(StatusCode::BAD_REQUEST, "application/json", json);
                }
            }
        }
        let busy = connection.begin(activity);
        let is_delete = parts.method == Method::DELETE;
        let mut reply = self.service.handle(Request::from_parts(parts, Full::new(body))).await;
        // The official Python client reports a failure for 202.
        if is_delete && reply.status() == StatusCode::ACCEPTED {
            *reply.status_mut() = StatusCode::NO_CONTENT;
        }
        // Each message is one frame.
        reply.map(|body| {
            let escaped = body.map_frame(move |frame| {
                let _until_the_end_of_the_body = &busy;
                frame.map_data(escape_line_separators)
            });
            escaped.boxed()
        })
    }

    /// The response to a request whose body is not read.
    async fn refusal(&self, parts: &Parts) -> Option<Reply> {
        if self.token.as_ref().is_some_and(|token| !token.is_in(&parts.headers)) {
            let mut reply = text(StatusCode::UNAUTHORIZED, "Unauthorized: the bearer token is missing or wrong");
            reply.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
            return Some(reply);
        }
        if parts.uri.path() != PATH {
            return Some(text(StatusCode::NOT_FOUND, "Not Found: the endpoint is /mcp"));
        }
        // rmcp checks `Host` and `Origin` first, and then refuses this method.
        let mut probe = Request::from_parts(parts.clone(), Empty::<Bytes>::new());
        *probe.method_mut() = Method::OPTIONS;
        let reply = self.service.handle(probe).await;
        (reply.status() != StatusCode::METHOD_NOT_ALLOWED).then_some(reply)
    }

    /// The order of the client that sent a request.
    fn order(&self, parts: &Parts, peer: IpAddr, id: &RequestId) -> Option<Arc<Order>> {
        match parts.headers.get(SESSION_ID) {
            Some(session) => self.sessions.order(session.to_str().ok()?),
            None => Some(self.strangers.order(peer, id)),
        }
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
