//! [`Sessions`]: the sessions of the HTTP server, which are limited.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::Stream;
use rmcp::model::{ClientJsonRpcMessage, ServerJsonRpcMessage};
use rmcp::transport::streamable_http_server::session::local::{LocalSessionManager, LocalSessionManagerError};
use rmcp::transport::streamable_http_server::session::{ServerSseMessage, SessionId, SessionManager};
use tokio::time::Instant;

use crate::mcp::lock;
use crate::mcp::order::Order;

/// The limit that keeps clients from exhausting the RAM.
const MAX_SESSIONS: usize = 1_024;

/// The time after which an unused session is closed. Its client then gets a 404 and starts another.
const SESSION_TIMEOUT: Duration = Duration::from_secs(60 * 60);

/// The sessions of rmcp. At the limit, a new session takes the place of the oldest session that was never used after
/// its start, or else of the session with the oldest last request. Starting sessions therefore keeps no client out.
#[derive(Debug)]
pub(super) struct Sessions {
    manager: Arc<LocalSessionManager>,
    known: Mutex<HashMap<SessionId, Session>>,
}

#[derive(Debug)]
struct Session {
    order: Arc<Order>,
    is_used: bool,
    last_request: Instant,
}

impl Sessions {
    pub(super) fn new() -> Self {
        let mut manager = LocalSessionManager::default();
        manager.session_config.keep_alive = Some(SESSION_TIMEOUT);
        Self { manager: Arc::new(manager), known: Mutex::default() }
    }

    /// The order of the commands of a session.
    pub(super) fn order(&self, id: &str) -> Option<Arc<Order>> {
        lock(&self.known).get(id).map(|session| Arc::clone(&session.order))
    }

    /// Makes room for a session.
    fn evict(&self) {
        let evicted = {
            let mut known = lock(&self.known);
            let least_used = || known.iter().min_by_key(|(_, session)| (session.is_used, session.last_request));
            let evicted = if known.len() < MAX_SESSIONS { None } else { least_used().map(|(id, _)| Arc::clone(id)) };
            evicted.inspect(|id| _ = known.remove(id))
        };
        if let Some(id) = evicted {
            let manager = Arc::clone(&self.manager);
            // A session whose client reads nothing may take long to end.
            tokio::spawn(async move { manager.close_session(&id).await });
        }
    }

    fn request(&self, id: &SessionId) {
        if let Some(session) = lock(&self.known).get_mut(id) {
            session.is_used = true;
            session.last_request = Instant::now();
        }
    }
}

impl SessionManager for Sessions {
    type Error = LocalSessionManagerError;
    type Transport = <LocalSessionManager as SessionManager>::Transport;

    async fn create_session(&self) -> Result<(SessionId, Self::Transport), Self::Error> {
        self.evict();
        let (id, transport) = self.manager.create_session().await?;
        let session = Session { order: Arc::new(Order::new(0)), is_used: false, last_request: Instant::now() };
        lock(&self.known).insert(Arc::clone(&id), session);
        Ok((id, transport))
    }

    async fn initialize_session(
        &self,
        id: &SessionId,
        message: ClientJsonRpcMessage,
    ) -> Result<ServerJsonRpcMessage, Self::Error> {
        if let ClientJsonRpcMessage::Request(request) = &message
            && let Some(session) = lock(&self.known).get_mut(id)
        {
            session.order = Arc::new(Order::after(&request.id));
        }
        self.manager.initialize_session(id, message).await
    }

    async fn has_session(&self, id: &SessionId) -> Result<bool, Self::Error> {
        self.manager.has_session(id).await
    }

    async fn close_session(&self, id: &SessionId) -> Result<(), Self::Error> {
        lock(&self.known).remove(id);
        self.manager.close_session(id).await
    }

    async fn create_stream(
        &self,
        id: &SessionId,
        message: ClientJsonRpcMessage,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + 'static, Self::Error> {
        self.request(id);
        self.manager.create_stream(id, message).await
    }

    async fn accept_message(&self, id: &SessionId, message: ClientJsonRpcMessage) -> Result<(), Self::Error> {
        self.manager.accept_message(id, message).await
    }

    async fn create_standalone_stream(
        &self,
        id: &SessionId,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + 'static, Self::Error> {
        self.request(id);
        self.manager.create_standalone_stream(id).await
    }

    async fn resume(
        &self,
        id: &SessionId,
        last_event_id: String,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + 'static, Self::Error> {
        self.request(id);
        self.manager.resume(id, last_event_id).await
    }
}
