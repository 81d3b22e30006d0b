//! The page at `/`, where people look into memories and correct them.
//!
//! Everything is rendered here, from the templates in `templates/`, which escape all values. Every action is a link or
//! a form. The only script updates pages that others change at the same time.

mod admission;
mod change;
mod diff;
mod download;
mod erase;
mod find;
mod forms;
mod lint;
mod live;
mod look;
mod markdown;
mod operate;
mod past;
mod proposals;
mod sign_in;
mod text;

use std::collections::HashMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, LazyLock};

use askama::Template;
use axum::extract::{DefaultBodyLimit, FromRequestParts, Query, Request, State};
use axum::http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderName, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS,
    X_FRAME_OPTIONS,
};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, Uri};
use axum::middleware::{Next, from_fn, from_fn_with_state};
use axum::response::{Html, IntoResponse, Redirect, Response};
use axum::routing::{get, post};
use axum::{Extension, Router};
use memory_tool::{Memory, MemoryPath};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use serde::Deserialize;

use crate::access::sessions::Sessions;
use crate::access::tokens::sha256;
use crate::access::{Caller, Right};
use crate::http::admission::admit_anyone;
use crate::http::error::ApiError;
use crate::http::gate::Gate;
use crate::http::path::Path;
use crate::memories::Memories;
use crate::memories::record::StoreRecord;
use crate::memories::tree::owner;
use crate::memories::visit::{Door, Purpose, Visit};
use crate::options::{Listen, ServerOptions};
use crate::service::Service;
use tokio::sync::Semaphore;

use forms::{Draft, OUTDATED, Posted, RefusedForm};

/// A page loads nothing from another host, contains no style or script, and cannot be in a frame.
const POLICY: &str = "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; connect-src 'self'; \
                      form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

/// The lifetime of the files of the page in caches.
pub(super) const STORED: &str = "max-age=3600";

const STYLE: &str = include_str!("../../../templates/style.css");
const ICON: &str = include_str!("../../../templates/icon.svg");
const SCRIPT: &str = include_str!("../../../templates/page.js");

/// A part of the addresses of the files, so that a new page does not get the files of another version of the server.
static VERSION: LazyLock<String> = LazyLock::new(|| sha256([STYLE, ICON, SCRIPT].concat())[..16].to_owned());

/// The state of the page.
#[derive(Debug)]
pub(super) struct PageState {
    gate: Arc<Gate>,
    memories: Arc<Memories>,
    /// The people who signed in.
    pub(super) sessions: Arc<Sessions>,
    /// The name of the cookie, without its prefix.
    cookie: String,
    /// The file that operators change.
    token_file: PathBuf,
    /// The places of forms that are kept although they are refused.
    kept: Arc<Semaphore>,
    /// The places of archives that are downloaded.
    archives: Arc<Semaphore>,
}

impl PageState {
    pub(super) fn new(options: &ServerOptions, address: &Listen, service: &Service) -> Self {
        Self {
            gate: Arc::clone(&service.gate),
            memories: Arc::clone(&service.memories),
            sessions: Arc::new(Sessions::load(&options.tokens)),
            cookie: sign_in::cookie_of(address),
            token_file: options.tokens.clone(),
            kept: Arc::new(Semaphore::new(forms::MAX_KEPT)),
            archives: Arc::new(Semaphore::new(download::MAX_ARCHIVES)),
        }
    }
}

/// The page, which has its own sign-in and errors.
pub(super) fn router(state: &Arc<PageState>) -> Router {
    let for_visitors = Router::new()
        .route("/", get(look::memories))
        .route("/search", get(find::search_all))
        .route("/memory/{id}", get(look::show))
        .route("/memory/{id}/raw", get(look::raw))
        .route("/memory/{id}/download", get(download::download))
        .route("/memory/{id}/live", get(live::changes))
        .route("/memory/{id}/search", get(find::search))
        .route("/memory/{id}/lint", get(lint::lint))
        .route("/memory/{id}/new", get(change::new).post(change::create))
        .route("/memory/{id}/edit", get(change::edit).post(change::save))
        .route("/memory/{id}/rename", get(change::name).post(change::rename))
        .route("/memory/{id}/delete", get(change::confirm).post(change::delete))
        .route("/memory/{id}/log", get(past::log))
        .route("/memory/{id}/proposals", get(proposals::list))
        .route("/memory/{id}/proposal/{name}", get(proposals::show).post(proposals::decide))
        .route("/memory/{id}/proposal/{name}/edit", get(proposals::edit).post(proposals::save))
        .route("/memory/{id}/compare", get(past::compare))
        .route("/memory/{id}/change/{number}", get(past::show))
        .route("/memory/{id}/undo", post(past::undo))
        .route("/memory/{id}/restore", post(past::restore))
        .route("/memory/{id}/erase", get(erase::form).post(erase::erase))
        .route("/memory/{id}/redact", get(past::confirm).post(past::redact))
        .route("/memory/{id}/limits", get(operate::memory).post(operate::act))
        .route("/memory/{id}/forget", get(operate::confirm).post(operate::forget))
        .route("/tokens", get(operate::tokens).post(operate::new_token))
        .route("/tokens/revoke", get(operate::confirm_revocation).post(operate::revoke))
        .route("/sign-out", post(sign_in::sign_out))
        .layer(from_fn(lead_to_owner))
        .layer(from_fn_with_state(Arc::clone(state), admission::admit));
    let file = |content_type: &'static str, content: &'static str| {
        get(async move || ([(CONTENT_TYPE, content_type), (CACHE_CONTROL, STORED)], content))
    };
    let for_anyone = Router::new()
        .route("/sign-in", get(async |query| sign_in::form(query)).post(sign_in::sign_in))
        .route("/style.css", file("text/css; charset=utf-8", STYLE))
        .route("/icon.svg", file("image/svg+xml", ICON))
        .route("/page.js", file("text/javascript; charset=utf-8", SCRIPT))
        .layer(from_fn_with_state(Arc::clone(&state.gate), admit_anyone));
    let pages = for_visitors.merge(for_anyone).method_not_allowed_fallback(async || ApiError::method());
    pages.layer(DefaultBodyLimit::disable()).layer(from_fn(protect)).with_state(Arc::clone(state))
}

/// Adds the headers that protect a page.
async fn protect(request: Request, next: Next) -> Response {
    let to_sign_in = sign_in::address_of_sign_in(&request);
    let memory = memory_of(request.uri().path());
    let mut response = next.run(request).await;
    let form = response.extensions_mut().remove();
    let mut error = response.extensions_mut().remove::<ApiError>();
    // The extractors of axum refuse an address with plain text.
    let content_type = response.headers().get(CONTENT_TYPE).map(HeaderValue::as_bytes);
    if response.status().is_client_error() && content_type.is_some_and(|given| given.starts_with(b"text/plain")) {
        error = Some(ApiError::invalid("the address is not valid"));
    }
    if let Some(error) = error {
        response = match error.status() {
            StatusCode::UNAUTHORIZED => Redirect::to(&to_sign_in).into_response(),
            _ => error_page(&error, memory, form),
        };
    }
    if response.status().is_redirection() {
        return response; // proxies refuse long headers
    }
    let headers = response.headers_mut();
    let mut add = |name: HeaderName, value| {
        headers.entry(name).or_insert(HeaderValue::from_static(value));
    };
    add(CONTENT_SECURITY_POLICY, POLICY);
    add(X_CONTENT_TYPE_OPTIONS, "nosniff");
    add(X_FRAME_OPTIONS, "DENY");
    // Without a referrer, browsers send `Origin: null` with forms.
    add(REFERRER_POLICY, "same-origin");
    add(HeaderName::from_static("cross-origin-opener-policy"), "same-origin");
    add(HeaderName::from_static("cross-origin-resource-policy"), "same-origin");
    response
}

/// The person at a page.
#[derive(Clone, Debug)]
struct Visitor {
    caller: Caller,
    /// The id of the token.
    token: String,
    /// The secret of the session's forms, which no other site can read.
    form: Arc<str>,
}

impl Visitor {
    /// The visitor whose session the cookie names.
    fn of(app: &PageState, headers: &HeaderMap) -> Option<Self> {
        let (token, form) = app.sessions.find(sign_in::cookie(app, headers)?)?;
        let caller = app.gate.tokens.caller_with_id(&token)?;
        Some(Self { caller, token, form })
    }

    fn is_operator(&self) -> bool {
        self.caller.check(Right::Admin, None).is_ok()
    }
}

/// The common part of all pages.
#[derive(Default)]
pub(super) struct Frame {
    title: String,
    form: Arc<str>,
    actor: String,
    is_operator: bool,
    /// The name of the memory, if the page has one.
    memory: String,
    /// The page of the memory.
    home: String,
    /// The file or directory of the page.
    path: String,
    /// Its directories, from the top, with their names.
    crumbs: Vec<(String, String)>,
    can_write: bool,
    can_administrate: bool,
    /// Whether each change of a list has its button.
    takes_back_in_lists: bool,
    /// The reason in the form that was refused.
    reason: String,
    /// The result of the last form.
    done: &'static str,
    /// The state of the memory before the page was read. It is empty without a history.
    state: String,
}

impl Frame {
    fn new(visitor: &Visitor, title: impl Into<String>) -> Self {
        Self {
            title: title.into(),
            form: Arc::clone(&visitor.form),
            actor: text::visible(visitor.caller.actor().name()),
            is_operator: visitor.is_operator(),
            path: "/memories".to_owned(),
            ..Self::default()
        }
    }

    fn of(visited: &VisitedMemory, title: impl Into<String>) -> Self {
        let has = |right| visited.visitor.caller.has_in(&visited.visit.open.name, right);
        let (can_write, can_administrate) = (has(Right::Write), has(Right::Admin));
        let name = visited.visit.name();
        let (memory, home, reason) = (text::visible(name), home(name), visited.reason.clone());
        Self { memory, home, can_write, can_administrate, reason, ..Self::new(&visited.visitor, title) }
    }

    fn at(mut self, path: &MemoryPath) -> Self {
        let full = path.as_str();
        let ends = full.match_indices('/').skip(1).map(|(at, _)| at).chain([full.len()]);
        let name = |path: &str| if path == "/memories" { self.memory.clone() } else { text::name_of(path) };
        self.crumbs = ends.map(|end| (full[..end].to_owned(), name(&full[..end]))).collect();
        self.path = full.to_owned();
        self
    }

    fn has_history(&self) -> bool {
        !self.state.is_empty()
    }

    /// With a message for a code in the address. The address cannot contain another message.
    fn done(mut self, code: Option<&str>) -> Self {
        self.done = match code.unwrap_or_default() {
            "saved" => "Saved.",
            "unchanged" => "There was nothing to save: the text is the same.",
            "created" => "Created.",
            "renamed" => "Renamed or moved.",
            "deleted" => "Deleted. \u{201c}Take back\u{201d} restores it.",
            "deleted-for-good" => "Deleted.",
            "taken-back" => "Taken back. Later changes of other lines and files stay.",
            "restored" => "Restored.",
            "redacted" => "Erased from the history.",
            "erased" => "Erased from the files and the history.",
            "revoked" => "Revoked.",
            "taken" => "Taken into the memory. \u{201c}Take back\u{201d} in the history reverses it.",
            "dropped" => "Dropped.",
            _ => "",
        };
        self
    }
}

/// The query of a page for one file or directory.
#[derive(Deserialize)]
struct PathQuery {
    path: Option<String>,
}

/// The memory of a page, which the visitor may read.
pub(super) struct VisitedMemory {
    visitor: Visitor,
    door: Door,
    visit: Visit,
    /// The reason that the form of the request gives.
    reason: String,
    /// The command of the form, for the history.
    command: Option<&'static str>,
}

impl VisitedMemory {
    async fn enter(
        app: &PageState,
        visitor: &Visitor,
        id: &str,
        right: Right,
        purpose: Purpose,
    ) -> Result<Self, ApiError> {
        let door = Door::find(&app.memories, &visitor.caller, id, right).await?;
        let visit = door.enter(purpose).await?;
        Ok(Self { visitor: visitor.clone(), door, visit, reason: String::new(), command: None })
    }

    /// The memory of a request.
    async fn of(parts: &mut Parts, app: &Arc<PageState>, right: Right, purpose: Purpose) -> Result<Self, ApiError> {
        let visitor: Visitor = parts.extensions.get().cloned().ok_or_else(ApiError::authentication)?;
        let Path(parameters) = Path::<HashMap<String, String>>::from_request_parts(parts, app).await?;
        let id = parameters.get("id").map(String::as_str).unwrap_or_default();
        Self::enter(app, &visitor, id, right, purpose).await
    }

    /// Makes changes for the reason that a form gives.
    fn because(mut self, form: &mut Draft) -> Self {
        self.reason = form.take("reason");
        let actor = self.visitor.caller.actor().clone().because(&self.reason);
        self.visit.memory = self.visit.memory.by(actor);
        self
    }

    /// Makes changes by a command, as the log and its filter name it.
    fn by_command(mut self, command: &'static str) -> Self {
        self.visit.memory = self.visit.memory.for_command(command);
        self.command = Some(command);
        self
    }

    /// The memory with the shared memories in it.
    fn whole(&self) -> Result<Memory, ApiError> {
        let whole = self.visit.whole()?.by(self.visitor.caller.actor().clone().because(&self.reason));
        Ok(self.command.map_or_else(|| whole.clone(), |command| whole.for_command(command)))
    }

    /// To the page of a file or directory, after something was done.
    fn to(&self, path: &str, done: &str) -> Response {
        let home = home(self.visit.name());
        let page = format!("{home}?path={}&done={done}", encode(path));
        // Proxies refuse long headers.
        let page = if page.len() > MAX_ADDRESS { format!("{home}?done={done}") } else { page };
        Redirect::to(&page).into_response()
    }

    /// To the page of a change that was made.
    fn to_change(&self, number: u64, done: &str) -> Response {
        let home = home(self.visit.name());
        Redirect::to(&format!("{home}/change/{number}?done={done}")).into_response()
    }

    /// To the page of an erasure, or of a memory without a history.
    fn to_erased(&self, entry: Option<u64>) -> Response {
        match entry {
            Some(number) => self.to_change(number, "erased"),
            None => Redirect::to(&format!("{}?done=erased", home(self.visit.name()))).into_response(),
        }
    }
}

impl FromRequestParts<Arc<PageState>> for VisitedMemory {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<PageState>) -> Result<Self, ApiError> {
        Self::of(parts, app, Right::Read, Purpose::Look).await
    }
}

/// A memory that the visitor may change.
pub(super) struct ToChange(VisitedMemory);

impl FromRequestParts<Arc<PageState>> for ToChange {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<PageState>) -> Result<Self, ApiError> {
        let purpose = if parts.method == Method::POST { Purpose::CHANGE } else { Purpose::Look };
        let visited = VisitedMemory::of(parts, app, Right::Write, purpose).await?;
        // Forms contain files.
        visited.visitor.caller.check(Right::Read, Some(&visited.visit.open.name))?;
        visited.visit.record.as_ref().map_or(Ok(()), StoreRecord::refuse_archived)?;
        Ok(Self(visited))
    }
}

/// A memory that the visitor administrates.
pub(super) struct ToAdministrate(VisitedMemory);

impl FromRequestParts<Arc<PageState>> for ToAdministrate {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<PageState>) -> Result<Self, ApiError> {
        VisitedMemory::of(parts, app, Right::Admin, Purpose::Look).await.map(Self)
    }
}

/// Leads from a file of a shared memory to the page of that memory, because it has its history.
async fn lead_to_owner(Extension(visitor): Extension<Visitor>, request: Request, next: Next) -> Response {
    match address_of_owner(&visitor.caller, request.method(), request.uri()) {
        Some(address) if address.len() <= MAX_ADDRESS => Redirect::to(&address).into_response(),
        _ => next.run(request).await,
    }
}

fn address_of_owner(caller: &Caller, method: &Method, uri: &Uri) -> Option<String> {
    let id = id_of(uri.path()).filter(|_| method == Method::GET)?;
    let mut query = Query::<Vec<(String, String)>>::try_from_uri(uri).ok()?.0;
    let (_, path) = query.iter_mut().find(|(name, _)| name == "path")?;
    let given = MemoryPath::parse(path).ok()?;
    let mounts = caller.mounts_in(&id.parse().ok()?);
    let mount = owner(&mounts, &given)?;
    *path = mount.inner(&given)?.to_string();
    let rest = uri.path().strip_prefix("/memory/")?.split_once('/').map(|(_, rest)| format!("/{rest}"));
    let query: Vec<_> = query.iter().map(|(name, value)| format!("{}={}", encode(name), encode(value))).collect();
    Some(format!("{}{}?{}", home(mount.memory.as_str()), rest.unwrap_or_default(), query.join("&")))
}

/// The page of a memory.
fn home(memory: &str) -> String {
    format!("/memory/{}", utf8_percent_encode(memory, NON_ALPHANUMERIC))
}

/// The page and the name of the memory that an address names.
fn memory_of(path: &str) -> Option<(String, String)> {
    let id = id_of(path)?;
    Some((home(&id), text::visible(&id)))
}

/// The id of the memory that an address names.
fn id_of(path: &str) -> Option<String> {
    let id = percent_decode_str(path.strip_prefix("/memory/")?.split('/').next()?).decode_utf8().ok()?;
    Some(id.into_owned())
}

fn path(given: Option<&str>) -> Result<MemoryPath, ApiError> {
    let given = given.filter(|given| !given.is_empty()).unwrap_or("/memories");
    MemoryPath::parse(given).map_err(|error| ApiError::invalid(error.to_string()))
}

/// A path without `/memories/`, as people write it.
fn short(path: &str) -> &str {
    path.strip_prefix("/memories/").unwrap_or(path)
}

/// The path of a name in a directory, as a person wrote both.
fn written(directory: &str, name: &str) -> String {
    match directory.trim_end_matches('/') {
        "" => format!("/memories/{name}"),
        full if full.starts_with('/') => format!("{full}/{name}"),
        directory => format!("/memories/{directory}/{name}"),
    }
}

/// The longest address of a redirection.
const MAX_ADDRESS: usize = 3_000;

/// The letters of a query that stay, which are most of those in paths.
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'/').remove(b'.').remove(b'-').remove(b'_');

/// A value in a query. A redirection to an address that is not ASCII would panic.
fn encode(value: &str) -> impl fmt::Display {
    utf8_percent_encode(value, ENCODED)
}

fn render(template: &impl Template) -> Result<Response, ApiError> {
    Ok(Html(template.render().map_err(ApiError::internal)?).into_response())
}

#[derive(Template)]
#[template(path = "error.html")]
struct ErrorTemplate<'a> {
    message: String,
    /// The page and the name of the memory.
    memory: Option<(String, String)>,
    /// The form that was refused.
    form: Option<&'a RefusedForm>,
}

/// The page of an error.
fn error_page(error: &ApiError, memory: Option<(String, String)>, form: Option<RefusedForm>) -> Response {
    let template = ErrorTemplate { message: text::sentence(&error.to_string()), memory, form: form.as_ref() };
    let response = (error.status(), Html(template.render().unwrap_or_default())).into_response();
    match form {
        Some(form) => form.hold(response),
        None => response,
    }
}

type Page = Result<Response, ApiError>;
type App = State<Arc<PageState>>;
