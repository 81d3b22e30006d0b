//! [`Sessions`]: the sessions of clients over HTTP, which are limited.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::http::request::Parts;
use futures::Stream;
use memory_tool::lock;
use memory_tool::store::MemoryName;
use rmcp::model::{ClientJsonRpcMessage, GetExtensions as _, ServerJsonRpcMessage};
use rmcp::transport::streamable_http_server::session::local::{LocalSessionManager, LocalSessionManagerError};
use rmcp::transport::streamable_http_server::session::{ServerSseMessage, SessionId, SessionManager};
use tokio::time::Instant;

use crate::fronts::mcp::order::Order;

/// The sessions of all tokens, and of one. Each keeps its memory open.
const MAX_SESSIONS: usize = 1_024;
const MAX_SESSIONS_OF_TOKEN: usize = 128;

/// The time after which an unused session is closed. Its client then gets a 404 and starts another.
const SESSION_TIMEOUT: Duration = Duration::from_secs(60 * 60);

/// The sessions of rmcp. At a limit, a new session takes the place of the oldest session that was never used after its
/// start, or else of the session with the oldest last request. Starting sessions therefore keeps no client out.
#[derive(Debug)]
pub(super) struct Sessions {
    manager: Arc<LocalSessionManager>,
    known: Mutex<HashMap<SessionId, Session>>,
}

/// The owner of the session that a request starts.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Owner {
    /// The id of the token.
    pub(super) token: Arc<str>,
    /// The memory of the token, which can get another one.
    pub(super) memory: MemoryName,
}

#[derive(Debug)]
struct Session {
    /// The token that started it. Other tokens do not know it, nor does this one after it got another memory.
    owner: Owner,
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

    /// The order of the commands of a session, if a token with this memory has it.
    pub(super) fn order(&self, id: &str, token: &str, memory: &MemoryName) -> Option<Arc<Order>> {
        let known = lock(&self.known);
        let is_own = |session: &&Session| *session.owner.token == *token && session.owner.memory == *memory;
        known.get(id).filter(is_own).map(|session| Arc::clone(&session.order))
    }

    /// Registers a session. Another one makes room for it at a limit.
    fn add(&self, id: &SessionId, owner: Owner, order: Order) {
        let evicted = {
            let mut known = lock(&self.known);
            let own = |session: &Session| session.owner.token == owner.token;
            let all_own = known.values().filter(|session| own(session)).count() >= MAX_SESSIONS_OF_TOKEN;
            let is_full = all_own || known.len() >= MAX_SESSIONS;
            let candidates = known.iter().filter(|(_, session)| is_full && (!all_own || own(session)));
            let evicted = candidates.min_by_key(|(_, session)| (session.is_used, session.last_request));
            let evicted = evicted.map(|(id, _)| Arc::clone(id)).inspect(|id| _ = known.remove(id));
            let session = Session { owner, order: Arc::new(order), is_used: false, last_request: Instant::now() };
            known.insert(Arc::clone(id), session);
            evicted
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
        self.manager.create_session().await
    }

    async fn initialize_session(
        &self,
        id: &SessionId,
        message: ClientJsonRpcMessage,
    ) -> Result<ServerJsonRpcMessage, Self::Error> {
        if let ClientJsonRpcMessage::Request(request) = &message
            && let Some(owner) =
                request.request.extensions().get::<Parts>().and_then(|parts| parts.extensions.get::<Owner>())
        {
            self.add(id, owner.clone(), Order::after(&request.id));
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
