//! [`Handler`]: the requests of one client.

use std::sync::{Arc, OnceLock};

use axum::http::request::Parts;
use memory_tool::command::CommandName;
use memory_tool::{Memory, MemoryPath, MemoryTool as _};
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CustomRequest, CustomResult, ErrorCode, ErrorData, GetPromptRequestParams,
    GetPromptResponse, Implementation, InitializeRequestParams, InitializeResult, ListPromptsResult,
    ListResourceTemplatesResult, ListResourcesResult, ListToolsResult, PaginatedRequestParams,
    ReadResourceRequestParams, ReadResourceResponse, ReadResourceResult, ServerCapabilities, ServerConfig,
    SubscribeRequestParams, SubscriptionFilter, UnsubscribeRequestParams,
};
use rmcp::service::{NotificationContext, RequestContext, SubscriptionContext};
use rmcp::{Peer, RoleServer, ServerHandler};
use serde_json::Value;
use tokio::sync::{Notify, OnceCell, Semaphore};
use tokio::task::JoinSet;
use tracing::{Instrument as _, Span};

use crate::access::mounts::Mount;
use crate::fronts::mcp::changes::{self, Subscriptions};
use crate::fronts::mcp::order::PendingTurn;
use crate::fronts::mcp::reading::{ReadFailure, ReadingTool};
use crate::fronts::mcp::tools::Tools;
use crate::fronts::mcp::{history, prompts, resources, tools};
use crate::http::error::{ApiError, report_failure};
use crate::http::offload::{PROCESSORS, offload};
use crate::memories::failure::outcome_name;
use crate::memories::tree_watch::TreeWatch;
use crate::memories::visit::{Door, Purpose, Visit};

/// The name of the server for its clients.
const NAME: &str = "memory-tool";

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

/// The memory of a request.
#[derive(Clone, Debug)]
pub(super) enum Target {
    /// The memory of a single client.
    Own(Memory),
    /// A memory of a server with several clients. Not each of them has the right to read its history.
    Shared { door: Door, reads_history: bool },
}

impl Target {
    /// The processors for commands. A single client has its own.
    fn processors(&self) -> Arc<Semaphore> {
        match self {
            Self::Own(_) => Arc::new(Semaphore::new(PROCESSORS)),
            Self::Shared { door, .. } => Arc::clone(&door.open.processors),
        }
    }

    fn reads_history(&self) -> bool {
        match self {
            Self::Own(_) => true,
            Self::Shared { reads_history, .. } => *reads_history,
        }
    }

    async fn watch(&self) -> TreeWatch {
        match self {
            Self::Own(memory) => TreeWatch::of(memory).await,
            Self::Shared { door, .. } => Box::pin(TreeWatch::through(door)).await,
        }
    }

    /// The shared memory at a path, with its mount.
    async fn owner(&self, path: Option<&str>) -> Result<Option<(Memory, Mount)>, ApiError> {
        let (Self::Shared { door, .. }, Some(path)) = (self, path.and_then(|path| MemoryPath::parse(path).ok())) else {
            return Ok(None);
        };
        let Some(mount) = door.tree().owner(&path) else { return Ok(None) };
        let visit = door.tree().door(mount).await?.enter(Purpose::Look).await?;
        Ok(Some((visit.memory.clone(), mount.clone())))
    }

    /// A note about the histories of shared memories below the path of a request.
    fn other_histories(&self, path: Option<&str>) -> String {
        let Self::Shared { door, .. } = self else { return String::new() };
        let path = path.map_or_else(|| Ok(MemoryPath::root()), MemoryPath::parse);
        let is_below = |mount: &&Mount| path.as_ref().is_ok_and(|path| mount.point.is_under(path));
        let points: Vec<_> = door.tree().mounts().iter().filter(is_below).map(|mount| mount.point.as_str()).collect();
        if points.is_empty() {
            return String::new();
        }
        format!("\n[Shared memories have separate histories: give a path in {}.]", points.join(" or "))
    }

    /// The memory for a command, and the turn for which the next commands wait.
    async fn enter(&self, command: Option<CommandName>) -> Result<(Memory, Option<Visit>), ApiError> {
        match self {
            Self::Own(memory) => Ok((memory.clone(), None)),
            Self::Shared { door, .. } => {
                let visit = Box::pin(door.enter(Purpose::Run(command))).await?;
                Ok((visit.whole()?, Some(visit)))
            }
        }
    }
}

/// The requests of one client, or one request without a session.
#[derive(Debug)]
pub(super) struct Handler {
    tools: Arc<Tools>,
    /// The memory of all requests. Over HTTP, each request has its own [`Target`].
    target: Option<Target>,
    subscriptions: Subscriptions,
    /// The client, if it has a session, and its memory, which stays open.
    session: OnceLock<(Peer<RoleServer>, Target)>,
    /// The notifications of a session, once the client has listed files or subscribed to some. They begin when it is
    /// initialized; rmcp may handle later requests before that.
    forwarding: OnceCell<JoinSet<()>>,
    is_initialized: Arc<Notify>,
    listeners: Semaphore,
}

impl Handler {
    pub(super) fn new(tools: Arc<Tools>, target: Option<Target>) -> Self {
        Self {
            tools,
            target,
            subscriptions: Subscriptions::default(),
            session: OnceLock::new(),
            forwarding: OnceCell::new(),
            is_initialized: Arc::default(),
            listeners: Semaphore::new(MAX_LISTENERS),
        }
    }

    /// The memory of a request, which the endpoint attached to it.
    fn target(&self, context: &RequestContext<RoleServer>) -> Result<Target, ErrorData> {
        let of_http = || context.extensions.get::<Parts>()?.extensions.get::<Target>().cloned();
        let target = self.target.clone().or_else(of_http);
        target.ok_or_else(|| ErrorData::internal_error("The request has no memory", None))
    }

    /// Notifies the client of later changes, if it has a session.
    async fn watch(&self) {
        let Some((peer, target)) = self.session.get() else { return };
        let forward = async || {
            let (subscriptions, begin) = (self.subscriptions.clone(), Arc::clone(&self.is_initialized));
            changes::forward(target.watch().await, peer.clone(), subscriptions, begin)
        };
        self.forwarding.get_or_init(forward).await;
    }

    /// Runs a command, or a tool that only reads.
    async fn run_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let (target, command) = (self.target(&context)?, tools::command(&request));
        self.tools.check(&request, target.reads_history())?;
        let (memory, _turn) = match turn(&context, &target, command).await? {
            Ok(entered) => entered,
            Err(refused) => return Ok(tools::refused(&refused).into()),
        };
        if let Some(tool) = ReadingTool::named(&request.name) {
            let arguments = request.arguments.unwrap_or_default();
            // Each memory has its own history. A search is in the whole tree.
            let path = arguments.get("path").and_then(Value::as_str).filter(|_| tool == ReadingTool::History);
            let note = if tool == ReadingTool::History { target.other_histories(path) } else { String::new() };
            let owner = match target.owner(path).await {
                Ok(owner) => owner,
                Err(refused) => return Ok(tools::refused(&refused).into()),
            };
            let (memory, mount) = owner.map_or((memory, None), |(memory, mount)| (memory, Some(mount)));
            let reading = offload(target.processors(), tool.call(&memory, arguments, mount.as_ref()));
            let outcome = tokio::select! {
                biased;
                () = context.ct.cancelled() => return Err(cancelled()),
                outcome = reading => outcome,
            };
            if let Err(ReadFailure::Command(error)) = &outcome {
                report_failure(error, self.tools.offer.report);
            }
            return Ok(tools::read_result(outcome.map(|found| found + &note)).into());
        }
        let input = Tools::input(request);
        let calling = async { memory.tool().call(input).await };
        let outcome = match command {
            Some(CommandName::View) => offload(target.processors(), calling).await,
            _ => calling.await,
        };
        Span::current().record("outcome", outcome_name(&outcome));
        if let Err(error) = &outcome {
            report_failure(error, self.tools.offer.report);
        }
        Ok(tools::result(&outcome).into())
    }
}

/// Waits until earlier commands of the client (`[X5]`), and then of other clients of the memory, have ended. The next
/// ones wait until the result is dropped.
async fn turn(
    context: &RequestContext<RoleServer>,
    target: &Target,
    command: Option<CommandName>,
) -> Result<Result<(Memory, impl Sized + use<>), ApiError>, ErrorData> {
    let waiting = async {
        let of_client = PendingTurn::take(&context.extensions);
        let of_client = if let Some(turn) = of_client { Some(turn.await) } else { None };
        target.enter(command).await.map(|(memory, visit)| (memory, (of_client, visit)))
    };
    tokio::select! {
        biased;
        // The client gets no response to a request that it cancelled.
        () = context.ct.cancelled() => Err(cancelled()),
        entered = waiting => Ok(entered),
    }
}

/// The span of a request over HTTP, for the lines of the log.
fn span(context: &RequestContext<RoleServer>) -> Span {
    let of_http = || context.extensions.get::<Parts>()?.extensions.get::<Span>().cloned();
    of_http().unwrap_or_else(Span::none)
}

/// The refusal of a visit.
fn refusal(error: &ApiError) -> ErrorData {
    ErrorData::internal_error(format!("Error: {error}"), None)
}

fn cancelled() -> ErrorData {
    ErrorData::internal_error("The request was cancelled", None)
}

impl ServerHandler for Handler {
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
            .with_instructions(prompts::instructions(self.tools.offer.read_only))
    }

    async fn initialize(
        &self,
        request: InitializeRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<InitializeResult, ErrorData> {
        context.peer.set_peer_info(request.clone());
        let result = self.negotiate_initialize(&request)?;
        let target = self.target(&context)?;
        self.session.get_or_init(|| (context.peer, target));
        Ok(result)
    }

    async fn on_initialized(&self, _: NotificationContext<RoleServer>) {
        self.is_initialized.notify_one();
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let reads_history = self.target(&context)?.reads_history();
        Ok(ListToolsResult::with_all_items(self.tools.offered(reads_history).cloned().collect()))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let span = span(&context);
        // In a box, because programs reach the limit of rustc for the depth of a future.
        Box::pin(self.run_tool(request, context)).instrument(span).await
    }

    async fn list_resources(
        &self,
        request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        let target = self.target(&context)?;
        let (memory, _turn) =
            turn(&context, &target, Some(CommandName::View)).await?.map_err(|error| refusal(&error))?;
        self.watch().await;
        let cursor = request.and_then(|request| request.cursor);
        let (listed, next) =
            offload(target.processors(), resources::list(&memory, cursor.as_deref(), self.tools.offer.report)).await?;
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
        let target = self.target(&context)?;
        let (memory, _turn) =
            turn(&context, &target, Some(CommandName::View)).await?.map_err(|error| refusal(&error))?;
        let reading = offload(target.processors(), resources::read(&memory, &request.uri, self.tools.offer.report));
        let contents = reading.instrument(span(&context)).await?;
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
        let target = self.target(context.request_context())?;
        changes::listen(target.watch().await, &context).await;
        Ok(())
    }

    async fn list_prompts(
        &self,
        _: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        let with_history =
            self.tools.offered(self.target(&context)?.reads_history()).any(|tool| tool.name == history::NAME);
        Ok(ListPromptsResult::with_all_items(prompts::list(with_history)))
    }

    async fn get_prompt(
        &self,
        request: GetPromptRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<GetPromptResponse, ErrorData> {
        Ok(prompts::get(&request, self.tools.offer.changes_wait)?.into())
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
