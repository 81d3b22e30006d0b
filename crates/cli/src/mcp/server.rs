//! [`Server`]: the requests of one client.

use std::sync::{Arc, OnceLock};

use memory_tool::command::TurnGuard;
use memory_tool::{Memory, MemoryTool, Store};
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CustomRequest, CustomResult, ErrorCode, ErrorData, GetPromptRequestParams,
    GetPromptResponse, Implementation, InitializeRequestParams, InitializeResult, ListPromptsResult,
    ListResourceTemplatesResult, ListResourcesResult, ListToolsResult, PaginatedRequestParams,
    ReadResourceRequestParams, ReadResourceResponse, ReadResourceResult, ServerCapabilities, ServerConfig,
    SubscribeRequestParams, SubscriptionFilter, UnsubscribeRequestParams,
};
use rmcp::service::{NotificationContext, RequestContext, SubscriptionContext};
use rmcp::{Peer, RoleServer, ServerHandler};
use tokio::sync::{Notify, OnceCell, Semaphore};
use tokio::task::JoinSet;

use crate::arguments::NAME;
use crate::failure;
use crate::mcp::changes::{self, Subscriptions};
use crate::mcp::order::Place;
use crate::mcp::search::{self, SearchFailure};
use crate::mcp::tools::Tools;
use crate::mcp::{prompts, resources, tools};

/// The methods that a request calls with invalid parameters if rmcp does not recognize it.
const METHODS: [&str; 11] = [
    "completion/complete",
    "initialize",
    "prompts/get",
    "prompts/list",
    "resources/list",
    "resources/read",
    "resources/subscribe",
    "resources/templates/list",
    "resources/unsubscribe",
    "tools/call",
    "tools/list",
];

/// The maximum number of unfinished requests `subscriptions/listen` of a client.
const MAX_LISTENERS: usize = 64;

/// The memory that all clients share.
#[derive(Debug)]
pub(super) struct SharedMemory {
    memory: Memory,
    tool: Arc<dyn MemoryTool>,
    store: Arc<dyn Store>,
    tools: Tools,
}

impl SharedMemory {
    pub(super) fn new(memory: &Memory, tools: Tools) -> Self {
        Self { memory: memory.clone(), tool: memory.tool(), store: memory.store(), tools }
    }
}

/// The server of one client, or of one request without a session.
#[derive(Debug)]
pub(super) struct Server {
    memory: Arc<SharedMemory>,
    subscriptions: Subscriptions,
    /// The client, if it has a session.
    peer: OnceLock<Peer<RoleServer>>,
    /// The notifications of a session, once the client has listed files or subscribed to some. They begin when it is
    /// initialized; rmcp may handle later requests before that.
    forwarding: OnceCell<JoinSet<()>>,
    is_initialized: Arc<Notify>,
    listeners: Semaphore,
}

impl Server {
    pub(super) fn new(memory: Arc<SharedMemory>) -> Self {
        Self {
            memory,
            subscriptions: Subscriptions::default(),
            peer: OnceLock::new(),
            forwarding: OnceCell::new(),
            is_initialized: Arc::default(),
            listeners: Semaphore::new(MAX_LISTENERS),
        }
    }

    /// Notifies the client of later changes, if it has a session.
    async fn watch(&self) {
        let Some(peer) = self.peer.get() else { return };
        let forward = async || {
            let (subscriptions, begin) = (self.subscriptions.clone(), Arc::clone(&self.is_initialized));
            changes::forward(self.memory.memory.watch().await, peer.clone(), subscriptions, begin)
        };
        self.forwarding.get_or_init(forward).await;
    }
}

/// Waits until earlier commands of the client have ended (`[X5]`). The next ones wait until the result is dropped.
async fn turn(context: &RequestContext<RoleServer>) -> Result<Option<TurnGuard>, ErrorData> {
    let Some(turn) = Place::take(&context.extensions) else { return Ok(None) };
    tokio::select! {
        biased;
        // The client gets no response to a request that it cancelled.
        () = context.ct.cancelled() => Err(ErrorData::internal_error("The request was cancelled", None)),
        guard = turn => Ok(Some(guard)),
    }
}

impl ServerHandler for Server {
    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder()
            .enable_tools()
            .enable_resources()
            .enable_resources_list_changed()
            .enable_resources_subscribe()
            .enable_prompts()
            .build();
        let server = Implementation::new(NAME, env!("CARGO_PKG_VERSION"))
            .with_title("Memory")
            .with_description("Files under /memories that persist between conversations");
        ServerConfig::new(capabilities)
            .with_server_info(server)
            .with_instructions(prompts::instructions(self.memory.tools.is_read_only))
    }

    async fn initialize(
        &self,
        request: InitializeRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<InitializeResult, ErrorData> {
        context.peer.set_peer_info(request.clone());
        let result = self.negotiate_initialize(&request)?;
        self.peer.get_or_init(|| context.peer);
        Ok(result)
    }

    async fn on_initialized(&self, _: NotificationContext<RoleServer>) {
        self.is_initialized.notify_one();
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(self.memory.tools.list.clone()))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let _turn = turn(&context).await?;
        if request.name == search::NAME {
            let searching = search::call(&*self.memory.store, request.arguments.unwrap_or_default());
            let outcome = tokio::select! {
                biased;
                () = context.ct.cancelled() => return Err(ErrorData::internal_error("The request was cancelled", None)),
                outcome = searching => outcome,
            };
            if let Err(SearchFailure::Command(error)) = &outcome {
                failure::eprint_causes(error);
            }
            return Ok(tools::search_result(outcome).into());
        }
        let input = self.memory.tools.input(request)?;
        let outcome = self.memory.tool.call(input).await;
        if let Err(error) = &outcome {
            failure::eprint_causes(error);
        }
        Ok(tools::result(&outcome).into())
    }

    async fn list_resources(
        &self,
        request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        let _turn = turn(&context).await?;
        self.watch().await;
        let cursor = request.and_then(|request| request.cursor);
        let (listed, next) = resources::list(&*self.memory.tool, &*self.memory.store, cursor.as_deref()).await?;
        let mut result = ListResourcesResult::with_all_items(listed);
        result.next_cursor = next;
        Ok(result)
    }

    async fn list_resource_templates(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        Ok(ListResourceTemplatesResult::with_all_items(vec![resources::template()]))
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        let _turn = turn(&context).await?;
        let contents = resources::read(&*self.memory.tool, &*self.memory.store, &request.uri).await?;
        Ok(ReadResourceResult::new(vec![contents]).into())
    }

    async fn subscribe(&self, request: SubscribeRequestParams, _: RequestContext<RoleServer>) -> Result<(), ErrorData> {
        self.subscriptions.add(request.uri)?;
        self.watch().await;
        Ok(())
    }

    async fn unsubscribe(
        &self,
        request: UnsubscribeRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        self.subscriptions.remove(&request.uri);
        Ok(())
    }

    fn accepted_subscription_filter(&self, requested: &SubscriptionFilter) -> Option<SubscriptionFilter> {
        let mut accepted = requested.clone();
        if let Some(uris) = &mut accepted.resource_subscriptions {
            uris.retain(|uri| resources::path_of(uri).is_ok());
        }
        Some(accepted)
    }

    async fn listen(&self, context: SubscriptionContext) -> Result<(), ErrorData> {
        let too_many = |_| ErrorData::invalid_request(format!("Too many requests; the limit is {MAX_LISTENERS}"), None);
        let _permit = self.listeners.try_acquire().map_err(too_many)?;
        changes::listen(self.memory.memory.watch().await, &context).await;
        Ok(())
    }

    async fn list_prompts(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        Ok(ListPromptsResult::with_all_items(prompts::list()))
    }

    async fn get_prompt(
        &self,
        request: GetPromptRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<GetPromptResponse, ErrorData> {
        Ok(prompts::get(&request)?.into())
    }

    async fn on_custom_request(
        &self,
        request: CustomRequest,
        _: RequestContext<RoleServer>,
    ) -> Result<CustomResult, ErrorData> {
        Err(if METHODS.contains(&request.method.as_str()) {
            ErrorData::invalid_params("The parameters are missing, or one of them has the wrong type", None)
        } else {
            ErrorData::new(ErrorCode::METHOD_NOT_FOUND, "Unknown method", None)
        })
    }
}
