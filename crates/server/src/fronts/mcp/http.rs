//! [`routes`]: the endpoint `/mcp` for streamable HTTP.

use std::convert::Infallible;
use std::sync::Arc;

use axum::body::{Body, Bytes, HttpBody as _};
use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, Method, Request, StatusCode};
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;
use axum::{Extension, Json, Router};
use futures::StreamExt as _;
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt as _, Collected, Full};
use memory_tool::command::CommandName;
use memory_tool::store::MemoryName;
use rmcp::model::{ClientJsonRpcMessage, ClientRequest, JsonRpcRequest};
use rmcp::transport::{StreamableHttpServerConfig, StreamableHttpService};
use tracing::Span;

use crate::access::{Caller, Right};
use crate::fronts::mcp::handler::{Handler, Target};
use crate::fronts::mcp::message::{self, escape_line_separators};
use crate::fronts::mcp::order::{self, Order, Sender, Strangers};
use crate::fronts::mcp::sessions::{Owner, Sessions};
use crate::fronts::mcp::tools::Tools;
use crate::http::error::ApiError;
use crate::http::gate::{Excess, Running};
use crate::http::listener::Peer;
use crate::memories::visit::{Door, paths_in};
use crate::service::Service;

/// A response of rmcp.
type Reply = axum::http::Response<BoxBody<Bytes, Infallible>>;

const SESSION_ID: &str = "mcp-session-id";

/// The endpoint. Admission puts the [`Caller`] and the [`Running`] request into each request.
pub(super) fn routes(tools: Tools) -> Router<Arc<Service>> {
    Router::new()
        .route("/mcp", get(handle).post(handle).delete(handle))
        .layer(Extension(Arc::new(Endpoint::new(tools))))
}

/// The state that all requests share.
struct Endpoint {
    sessions: Arc<Sessions>,
    strangers: Strangers,
    service: StreamableHttpService<Handler, Sessions>,
}

impl Endpoint {
    fn new(tools: Tools) -> Self {
        // Admission checked `Host`, `Origin` and the length.
        let mut config = StreamableHttpServerConfig::default().disable_allowed_hosts();
        config.max_request_body_bytes = usize::MAX;
        let (sessions, tools) = (Arc::new(Sessions::new()), Arc::new(tools));
        let handler = move || Ok(Handler::new(Arc::clone(&tools), None));
        let service = StreamableHttpService::new(handler, Arc::clone(&sessions), config);
        Self { sessions, strangers: Strangers::default(), service }
    }

    /// The order of the commands of the session that the headers name.
    fn order_of_session(
        &self,
        headers: &HeaderMap,
        token: &Arc<str>,
        name: &MemoryName,
    ) -> Result<Option<Arc<Order>>, ApiError> {
        let Some(id) = headers.get(SESSION_ID) else { return Ok(None) };
        let order = id.to_str().ok().and_then(|id| self.sessions.order(id, token, name));
        let message = "there is no such session: it ended, or the server started again; connect again";
        order.map(Some).ok_or_else(|| ApiError::not_found(message))
    }

    /// The order of the commands of a client without a session.
    async fn order_of_stranger(
        &self,
        service: &Service,
        running: &Running,
        parts: &Parts,
        request: &JsonRpcRequest<ClientRequest>,
    ) -> Arc<Order> {
        let peer = parts.extensions.get().copied().unwrap_or(Peer(None));
        let client = service.gate.proxies.client(peer, &parts.headers);
        let sender = Sender::of(&running.token(), client, &request.request);
        // A proxy sends requests of several clients on one connection.
        let connection = running.connection().filter(|_| !came_by_proxy(&parts.headers));
        self.strangers.order(&sender, connection, &request.id).await
    }

    async fn respond(&self, parts: Parts, body: Bytes) -> Reply {
        let is_end = parts.method == Method::DELETE;
        let mut reply = self.service.handle(Request::from_parts(parts, Full::new(body))).await;
        // The official Python client reports a failure for 202.
        if is_end && reply.status() == StatusCode::ACCEPTED {
            *reply.status_mut() = StatusCode::NO_CONTENT;
        }
        reply
    }
}

/// Ends the sessions.
impl Drop for Endpoint {
    fn drop(&mut self) {
        self.service.config.cancellation_token.cancel();
    }
}

async fn handle(
    State(service): State<Arc<Service>>,
    Extension(endpoint): Extension<Arc<Endpoint>>,
    Extension(running): Extension<Arc<Running>>,
    Extension(caller): Extension<Caller>,
    mut parts: Parts,
    body: Bytes,
) -> Result<Response, ApiError> {
    let name = caller.only_memory().ok_or_else(ApiError::several_memories)?;
    caller.check(caller.tool_right(), Some(name))?;
    let (token, method) = (running.token(), parts.method.clone());
    let request = match (method == Method::POST).then(|| message::parse(&body)) {
        Some(Ok(ClientJsonRpcMessage::Request(request))) => Some(request),
        // rmcp would respond with other texts.
        Some(Err(error)) => return Ok((StatusCode::BAD_REQUEST, Json(error)).into_response()),
        _ => None,
    };
    if request.as_ref().is_some_and(|request| matches!(request.request, ClientRequest::InitializeRequest(_))) {
        // Some clients keep the id of a lost session.
        parts.headers.remove(SESSION_ID);
    }
    let session = endpoint.order_of_session(&parts.headers, &token, name)?;
    parts.extensions.insert(Span::current());
    // The request may end long before its parts are dropped.
    parts.extensions.remove::<Arc<Running>>();
    let (mut is_stream, mut is_read) = (method == Method::GET, false);
    if let Some(request) = request {
        is_stream = matches!(request.request, ClientRequest::SubscriptionsListenRequest(_));
        is_read = order::command(&request.request) == Some(Some(CommandName::View));
        let door = Door::for_tool(&service.memories, &caller, name.as_str()).await?;
        let arguments = match &request.request {
            ClientRequest::CallToolRequest(call) => call.params.arguments.as_ref(),
            _ => None,
        };
        let door = door.touching(arguments.into_iter().flat_map(paths_in));
        let order = match session {
            Some(order) => order,
            None => endpoint.order_of_stranger(&service, &running, &parts, &request).await,
        };
        order.enter_by_id(&request).await.into_iter().for_each(|turn| _ = parts.extensions.insert(turn));
        parts.extensions.insert(Target::Shared { door, reads_history: caller.has(Right::Read) });
        parts.extensions.insert(Owner { token: Arc::clone(&token), memory: name.clone() });
    }
    if is_stream {
        running.become_stream(&service.gate)?;
    }
    let reply = endpoint.respond(parts, body).await;
    if method != Method::POST || is_stream {
        return Ok(stream(reply, service, running, name.clone()));
    }
    let reply = as_json(reply).await;
    if is_read {
        let length = reply.body().size_hint().exact().map_or(0, |length| length as usize);
        running.count_reply(length, Excess::Refused)?;
    }
    Ok(reply)
}

/// A response that ends when the token does not reach the memory any more. Each message is one frame.
fn stream(reply: Reply, service: Arc<Service>, running: Arc<Running>, name: MemoryName) -> Response {
    let token = running.token();
    let allows = move |caller: &Caller| {
        caller.only_memory() == Some(&name) && caller.check(caller.tool_right(), Some(&name)).is_ok()
    };
    let end = async move { service.gate.stream_ended(&token, allows).await };
    reply.map(|body| {
        let body = body.map_frame(move |frame| {
            let _until_the_end_of_the_body = &running;
            frame.map_data(escape_line_separators)
        });
        Body::from_stream(body.into_data_stream().take_until(end))
    })
}

fn came_by_proxy(headers: &HeaderMap) -> bool {
    ["forwarded", "via", "x-forwarded-for", "x-forwarded-host", "x-forwarded-proto", "x-real-ip"]
        .iter()
        .any(|name| headers.contains_key(*name))
}

/// The response with its message as JSON in place of an event. Clients limit the length of events, the official one for
/// Python to 1 MiB, and images and files of a memory are longer.
async fn as_json(response: Reply) -> Response {
    let (mut head, body) = response.into_parts();
    let Ok(body) = body.collect().await.map(Collected::to_bytes);
    let is_event = head.headers.get(CONTENT_TYPE).is_some_and(|given| given == "text/event-stream");
    let message = body.split(|byte| *byte == b'\n').filter_map(|line| line.strip_prefix(b"data: ")).next_back();
    let Some(message) = message.filter(|_| is_event).map(|message| body.slice_ref(message)) else {
        return Response::from_parts(head, body.into());
    };
    head.headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    Response::from_parts(head, escape_line_separators(message).into())
}
