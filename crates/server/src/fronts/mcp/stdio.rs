//! One client over a pair of streams, such as standard input and output, with one message per line.

use std::collections::HashMap;
use std::io::{self, ErrorKind};
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::body::Bytes;
use memory_tool::lock;
use rmcp::RoleServer;
use rmcp::model::{
    ClientJsonRpcMessage, ClientNotification, ClientRequest, GetMeta as _, JsonRpcRequest, ProtocolVersion, RequestId,
    ServerJsonRpcMessage, ServerResult,
};
use rmcp::transport::Transport;
use serde::Serialize;
use tokio::io::{
    AsyncBufRead, AsyncBufReadExt as _, AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, BufReader,
};
use tokio::sync::Notify;
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::time::timeout;

use crate::fronts::mcp::handler::Handler;
use crate::fronts::mcp::message::{self, escape_line_separators};
use crate::fronts::mcp::order::Order;

/// The maximum length of a line in bytes, without its line feed.
const MAX_LINE_BYTES: usize = 16 * 1024 * 1024;

/// The number of responses that wait until the client reads them.
const MAX_UNREAD: usize = 16;

/// The number of requests without a response, and the sum of their lengths in bytes, at which no more are read.
const MAX_UNANSWERED: usize = 256;
const MAX_UNANSWERED_BYTES: usize = 4 * MAX_LINE_BYTES;

/// The time for running commands to finish after the end.
const GRACE: Duration = Duration::from_secs(5);

/// An error of the input or output that [`Mcp::serve`](crate::Mcp::serve) uses.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum McpError {
    /// The input cannot be read.
    #[error("cannot read the input")]
    Input(#[source] io::Error),
    /// The output cannot be written. A closed output is no error.
    #[error("cannot write the output")]
    Output(#[source] io::Error),
}

/// Serves one client until the input ends, the output is closed, or `end` completes.
pub(super) async fn serve(
    handler: Handler,
    input: impl AsyncRead,
    output: impl AsyncWrite,
    end: impl Future<Output = ()>,
) -> Result<(), McpError> {
    let (read, lines) = channel(1);
    let (responses, written) = channel(MAX_UNREAD);
    let input_error = Arc::default();
    let transport = Stdio {
        lines,
        output: responses,
        response: None,
        order: Order::new(0),
        unanswered: Arc::default(),
        is_started: false,
        input_error: Arc::clone(&input_error),
    };
    let stop = Notify::new();
    let serving = async {
        tokio::join!(respond(handler, transport, &stop), read_lines(input, read), write_lines(output, written))
    };
    let mut serving = pin!(serving);
    tokio::select! {
        biased;
        () = end => {
            stop.notify_one();
            let _ = timeout(GRACE, serving).await;
            Ok(())
        }
        ((), (), output) = &mut serving => {
            output.map_err(McpError::Output)?;
            lock(&input_error).take().map_or(Ok(()), |error| Err(McpError::Input(error)))
        }
    }
}

/// Responds to the messages of the client.
async fn respond(handler: Handler, transport: Stdio, stop: &Notify) {
    let running = tokio::select! {
        biased;
        () = stop.notified() => return,
        running = rmcp::serve_server(handler, transport) => running,
    };
    // It fails if the input ends before the first request.
    let Ok(running) = running else { return };
    let cancel = running.cancellation_token();
    let mut ending = pin!(running.waiting());
    tokio::select! {
        _ = &mut ending => {}
        () = stop.notified() => {
            cancel.cancel();
            let _ = ending.await;
        }
    }
}

/// One line of the input, without its line feed. The last one may lack it.
enum Line {
    Whole(Vec<u8>),
    /// A line longer than [`MAX_LINE_BYTES`], which was skipped.
    TooLong,
}

/// Reads lines until the input ends or the receiver is dropped.
async fn read_lines(input: impl AsyncRead, lines: Sender<io::Result<Line>>) {
    let mut input = pin!(BufReader::new(input));
    loop {
        let line = tokio::select! {
            line = read_line(&mut input) => line.transpose(),
            () = lines.closed() => return,
        };
        let Some(line) = line else { return };
        let is_last = line.is_err();
        if lines.send(line).await.is_err() || is_last {
            return;
        }
    }
}

/// Reads the next line. Returns `None` at the end of the input.
async fn read_line(mut input: impl AsyncBufRead + Unpin) -> io::Result<Option<Line>> {
    let mut line = Vec::new();
    // One byte more, for the line feed.
    (&mut input).take(MAX_LINE_BYTES as u64 + 1).read_until(b'\n', &mut line).await?;
    if line.is_empty() {
        return Ok(None);
    }
    if line.last() == Some(&b'\n') {
        line.pop();
    } else if line.len() > MAX_LINE_BYTES {
        drop(line);
        loop {
            let buffer = input.fill_buf().await?;
            let (length, end) = (buffer.len(), buffer.iter().position(|byte| *byte == b'\n'));
            input.consume(end.map_or(length, |end| end + 1));
            if end.is_some() || length == 0 {
                return Ok(Some(Line::TooLong));
            }
        }
    }
    Ok(Some(Line::Whole(line)))
}

/// Writes lines until there are no more, or the output is closed.
async fn write_lines(output: impl AsyncWrite, mut lines: Receiver<Bytes>) -> io::Result<()> {
    let mut output = pin!(output);
    while let Some(line) = lines.recv().await {
        let write = async {
            output.write_all(&line).await?;
            output.write_all(b"\n").await?;
            output.flush().await
        };
        match write.await {
            Err(error) if error.kind() == ErrorKind::BrokenPipe => break,
            written => written?,
        }
    }
    Ok(())
}

/// The connection with the client.
///
/// rmcp has such a transport. This one also responds to invalid lines, never ends because of one, and waits for the
/// responses to all requests at the end of the input.
struct Stdio {
    lines: Receiver<io::Result<Line>>,
    output: Sender<Bytes>,
    /// The response to an invalid line or a ping. rmcp would start a task for each ping, and some clients send the
    /// calls of a turn in the order of the replies to their pings.
    response: Option<Bytes>,
    order: Order,
    unanswered: Arc<Unanswered>,
    /// Whether the client sent the first request of a session.
    is_started: bool,
    input_error: Arc<Mutex<Option<io::Error>>>,
}

impl Transport<RoleServer> for Stdio {
    type Error = io::Error;

    fn send(&mut self, message: ServerJsonRpcMessage) -> impl Future<Output = Result<(), io::Error>> + Send + 'static {
        let (output, unanswered) = (self.output.clone(), Arc::clone(&self.unanswered));
        async move {
            let sent = output.send(encoded(&message)?).await;
            if let Some(id) = answered(&message) {
                unanswered.remove(&id);
            }
            sent.map_err(|_| ErrorKind::BrokenPipe.into())
        }
    }

    // The future can be dropped at each `await`.
    async fn receive(&mut self) -> Option<ClientJsonRpcMessage> {
        loop {
            if self.response.is_some() {
                let permit = self.output.reserve().await.ok()?;
                if let Some(line) = self.response.take() {
                    permit.send(line);
                }
            }
            let line = tokio::select! {
                line = async {
                    self.unanswered.few().await;
                    self.lines.recv().await
                } => line,
                () = self.output.closed() => return None,
            };
            let (parsed, length) = match line {
                Some(Ok(Line::Whole(line))) if line.trim_ascii().is_empty() => continue,
                Some(Ok(Line::Whole(line))) => (message::parse(&line), line.len()),
                Some(Ok(Line::TooLong)) => (Err(message::too_long(MAX_LINE_BYTES)), 0),
                Some(Err(error)) => {
                    *lock(&self.input_error) = Some(error);
                    continue;
                }
                None => {
                    self.unanswered.wait_until(HashMap::is_empty).await;
                    return None;
                }
            };
            match parsed {
                Ok(ClientJsonRpcMessage::Request(JsonRpcRequest {
                    id,
                    request: ClientRequest::PingRequest(_),
                    ..
                })) => self.response = encoded(&ServerJsonRpcMessage::response(ServerResult::empty(()), id)).ok(),
                Ok(mut message) if self.is_expected(&message) => {
                    self.unanswered.update(&message, length);
                    // Here, requests are in the order of the client. rmcp starts a task for each.
                    if let ClientJsonRpcMessage::Request(request) = &mut message {
                        self.order.enter(request);
                    }
                    return Some(message);
                }
                Ok(_) => {}
                Err(error) => self.response = encoded(&error).ok(),
            }
        }
    }

    async fn close(&mut self) -> Result<(), io::Error> {
        Ok(())
    }
}

impl Stdio {
    /// Whether rmcp can handle the message. Before the first request of a session, it would end the connection because
    /// of a notification or a response.
    fn is_expected(&mut self, message: &ClientJsonRpcMessage) -> bool {
        match message {
            ClientJsonRpcMessage::Request(request) => {
                self.is_started |= starts_session(&request.request);
                true
            }
            _ => self.is_started,
        }
    }
}

/// Whether rmcp starts a session with this request: `initialize`, or any request that describes the client, as newer
/// revisions of the protocol require.
fn starts_session(request: &ClientRequest) -> bool {
    match request {
        ClientRequest::InitializeRequest(_) => true,
        ClientRequest::PingRequest(_) | ClientRequest::DiscoverRequest(_) => false,
        request => request.get_meta().missing_required_keys(&ProtocolVersion::V_2026_07_28).is_empty(),
    }
}

fn encoded(message: &impl Serialize) -> serde_json::Result<Bytes> {
    serde_json::to_vec(message).map(|json| escape_line_separators(json.into()))
}

#[derive(Default)]
struct Unanswered {
    lengths: Mutex<HashMap<RequestId, usize>>,
    /// Notified when a request is removed.
    removed: Notify,
}

impl Unanswered {
    fn update(&self, message: &ClientJsonRpcMessage, length: usize) {
        match message {
            // It has no response until the client cancels it.
            ClientJsonRpcMessage::Request(request)
                if matches!(request.request, ClientRequest::SubscriptionsListenRequest(_)) => {}
            ClientJsonRpcMessage::Request(request) => _ = lock(&self.lengths).insert(request.id.clone(), length),
            ClientJsonRpcMessage::Notification(notification) => {
                if let ClientNotification::CancelledNotification(cancelled) = &notification.notification
                    && let Some(id) = &cancelled.params.request_id
                {
                    self.remove(id);
                }
            }
            _ => {}
        }
    }

    fn remove(&self, id: &RequestId) {
        lock(&self.lengths).remove(id);
        self.removed.notify_waiters();
    }

    /// Waits until the client has read the responses to most of its requests.
    async fn few(&self) {
        let are_few = |lengths: &HashMap<_, usize>| {
            lengths.len() < MAX_UNANSWERED && lengths.values().sum::<usize>() < MAX_UNANSWERED_BYTES
        };
        self.wait_until(are_few).await;
    }

    async fn wait_until(&self, holds: impl Fn(&HashMap<RequestId, usize>) -> bool) {
        loop {
            // Registered before the check, so that no removal is missed.
            let removed = self.removed.notified();
            if holds(&lock(&self.lengths)) {
                return;
            }
            removed.await;
        }
    }
}

fn answered(message: &ServerJsonRpcMessage) -> Option<RequestId> {
    match message {
        ServerJsonRpcMessage::Response(response) => Some(response.id.clone()),
        ServerJsonRpcMessage::Error(error) => error.id.clone(),
        _ => None,
    }
}
