//! The server on standard input and output, with one message per line.

use std::collections::HashMap;
use std::io::{self, ErrorKind};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use rmcp::RoleServer;
use rmcp::model::{
    ClientJsonRpcMessage, ClientNotification, ClientRequest, GetMeta as _, ProtocolVersion, RequestId,
    ServerJsonRpcMessage,
};
use rmcp::transport::Transport;
use serde::Serialize;
use tokio::sync::Notify;
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::task::spawn_blocking;
use tokio::time::timeout;

use crate::exit_status::ExitStatus;
use crate::failure::{Context as _, Failure};
use crate::interruption::Interruption;
use crate::mcp::order::Order;
use crate::mcp::server::{Server, SharedMemory};
use crate::mcp::{lock, message};
use crate::output::{ReaderState, write_line};
use crate::protocol::{Line, MAX_LINE_BYTES, escape_line_separators, lines_of_standard_input};

/// The number of responses that wait until the client reads them.
const MAX_UNREAD: usize = 16;

/// The number of requests without a response, and the sum of their lengths in bytes, at which no more are read.
const MAX_UNANSWERED: usize = 256;
const MAX_UNANSWERED_BYTES: usize = 4 * MAX_LINE_BYTES;

/// The time for running commands to finish after a signal.
const GRACE: Duration = Duration::from_secs(5);

/// Serves one client until the input ends, the output is closed, or a signal arrives.
pub(super) async fn serve(memory: Arc<SharedMemory>, interruption: &mut Interruption) -> Result<ExitStatus, Failure> {
    let (output, responses) = channel(MAX_UNREAD);
    let writing = spawn_blocking(|| write_lines(responses));
    let input_error = Arc::default();
    let transport = Stdio {
        lines: lines_of_standard_input(),
        output,
        rejection: None,
        order: Order::new(0),
        unanswered: Arc::default(),
        is_started: false,
        input_error: Arc::clone(&input_error),
    };
    let starting = match interruption.or(rmcp::serve_server(Server::new(memory), transport)).await {
        Ok(starting) => starting,
        Err(status) => return Ok(ExitStatus::Interrupted { status }),
    };
    // It fails if the input ends before the first request.
    if let Ok(running) = starting {
        let stop = running.cancellation_token();
        let mut ending = std::pin::pin!(running.waiting());
        if let Err(status) = interruption.or(&mut ending).await {
            stop.cancel();
            let _ = timeout(GRACE, ending).await;
            return Ok(ExitStatus::Interrupted { status });
        }
    }
    writing.await.map_err(|error| Failure::Output(error.into()))??;
    match lock(&input_error).take() {
        Some(error) => Err(error).context("cannot read standard input"),
        None => Ok(ExitStatus::Success),
    }
}

/// Writes lines until there are no more, or the output is closed.
fn write_lines(mut lines: Receiver<Bytes>) -> Result<(), Failure> {
    while let Some(line) = lines.blocking_recv() {
        if write_line(&mut io::stdout().lock(), line.into())? == ReaderState::Gone {
            break;
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
    /// The response to an invalid line.
    rejection: Option<Bytes>,
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
            if self.rejection.is_some() {
                let permit = self.output.reserve().await.ok()?;
                if let Some(line) = self.rejection.take() {
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
            let mut length = 0;
            let parsed = match line {
                Some(Ok(Line::Whole(line))) if line.trim_ascii().is_empty() => continue,
                Some(Ok(Line::Whole(line))) => {
                    length = line.len();
                    message::parse(&line)
                }
                Some(Ok(Line::TooLong)) => Err(message::too_long(MAX_LINE_BYTES)),
                Some(Err(error)) => {
                    *lock(&self.input_error) = Some(error);
                    continue;
                }
                None => {
                    self.unanswered.all_answered().await;
                    return None;
                }
            };
            match parsed {
                Ok(mut message) if self.is_expected(&message) => {
                    self.unanswered.update(&message, length);
                    // Here, requests are in the order of the client. rmcp starts a task for each.
                    if let ClientJsonRpcMessage::Request(request) = &mut message {
                        self.order.enter(request);
                    }
                    return Some(message);
                }
                Ok(_) => {}
                Err(error) => self.rejection = encoded(&error).ok(),
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

    async fn all_answered(&self) {
        self.wait_until(HashMap::is_empty).await;
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
