//! [`Sessions`]: people who signed in with their tokens.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use askama::Template;
use axum::body::Bytes;
use axum::extract::{Query, Request, State};
use axum::http::header::{COOKIE, SET_COOKIE};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode};
use axum::response::{Html, IntoResponse, Redirect, Response};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use tokio::task::spawn_blocking;

use super::forms::{hold, keep, typed};
use super::{App, Page, PageState, Posted, encode, memory_of, render};
use crate::access::tokens::{beside, hexadecimal, replace};
use crate::files::on_changes;
use crate::http::admission::Arriving;
use crate::http::error::ApiError;
use crate::options::Listen;

const NAME: &str = "memory-tool";

/// The end of a session, also in use.
const LIFETIME: Duration = Duration::from_secs(12 * 60 * 60);

/// The sessions that are kept, of all tokens and of one. If there are more, the oldest end.
const MAX_SESSIONS: usize = 10_000;
const MAX_SESSIONS_OF_TOKEN: usize = 100;

/// The longest address in a redirection. Proxies refuse long headers.
const MAX_NEXT: usize = 1_500;

/// Sessions, by the hashes of their ids.
type Known = HashMap<String, Session>;

/// People who signed in. A file keeps them over a restart, and shares them with other servers that have the same
/// tokens.
#[derive(Debug)]
pub(in crate::fronts) struct Sessions {
    /// All that this process knows.
    known: Mutex<Known>,
    file: PathBuf,
    /// The name of the cookie, which all ports of a host get.
    name: String,
}

#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
struct Session {
    /// The id of the token.
    token: String,
    /// The end, in milliseconds since 1970.
    end: u64,
    /// Whether the person signed out before. It stays until the end: a file from a backup may lack it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    is_signed_out: bool,
}

impl Sessions {
    /// The sessions of a server at this address, from the file beside its tokens.
    pub(super) fn load(tokens: &Path, address: &Listen) -> Self {
        let port = match address {
            Listen::Tcp(address) => format!("-{}", address.port()),
            #[cfg(unix)]
            Listen::Unix(_) => String::new(),
        };
        let (file, name) = (beside(tokens, ".sessions"), format!("{NAME}{port}"));
        Self { known: Mutex::new(read(&file)), file, name }
    }

    async fn start(self: &Arc<Self>, token: String) -> Result<String, ApiError> {
        let id = random()?;
        let session = Session { token, end: now() + LIFETIME.as_millis() as u64, is_signed_out: false };
        self.lock().insert(hash(&id), session);
        self.keep().await;
        Ok(id)
    }

    /// The id of the token of a session, and the secret of its forms.
    pub(super) fn find(&self, id: &str) -> Option<(String, Arc<str>)> {
        let is_valid = |session: &&Session| !session.is_signed_out && session.end > now();
        let token = self.lock().get(&hash(id)).filter(is_valid)?.token.clone();
        Some((token, hash(&format!("form {id}")).into()))
    }

    async fn end(self: &Arc<Self>, id: &str) {
        self.lock().get_mut(&hash(id)).into_iter().for_each(|session| session.is_signed_out = true);
        self.keep().await;
    }

    async fn keep(self: &Arc<Self>) {
        let sessions = Arc::clone(self);
        report(
            spawn_blocking(move || sessions.synchronize()).await.unwrap_or_else(|error| Err(io::Error::other(error))),
        );
    }

    /// Learns what other servers write to the file.
    pub(in crate::fronts) async fn follow(self: Arc<Self>) {
        on_changes(vec![self.file.clone()], move || self.synchronize(), report).await;
    }

    /// Merges what this process and the file know, here and in the file. This blocks.
    fn synchronize(&self) -> io::Result<()> {
        if self.merge(read(&self.file)) {
            return Ok(());
        }
        replace(&self.file, || {
            self.merge(read(&self.file));
            Ok(serde_json::to_vec(&*self.lock())?)
        })
    }

    /// Adds what a file knows. Returns whether the file is up to date.
    fn merge(&self, found: Known) -> bool {
        let mut known = self.lock();
        for (key, session) in &found {
            let own = known.entry(key.clone()).or_insert_with(|| session.clone());
            own.is_signed_out |= session.is_signed_out;
        }
        bound(&mut known);
        *known == found
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn report(written: io::Result<()>) {
    if let Err(error) = written {
        tracing::error!(%error, "cannot keep the sessions over a restart");
    }
}

/// Leaves the newest sessions, which are the same ones in each process that knows the same sessions.
fn bound(known: &mut Known) {
    let (now, mut of_tokens) = (now(), HashMap::<_, usize>::new());
    let mut newest: Vec<_> = std::mem::take(known).into_iter().filter(|(_, session)| session.end > now).collect();
    newest.sort_unstable_by(|(a, one), (b, other)| (other.end, b).cmp(&(one.end, a)));
    newest.retain(|(_, session)| {
        let of_token = of_tokens.entry(session.token.clone()).or_default();
        *of_token += 1;
        *of_token <= MAX_SESSIONS_OF_TOKEN
    });
    known.extend(newest.into_iter().take(MAX_SESSIONS));
}

/// The sessions in a file. A missing file is empty, and a damaged one is replaced.
fn read(file: &Path) -> Known {
    let content = match fs::read(file) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Known::new(),
        content => content,
    };
    content.and_then(|content| Ok(serde_json::from_slice(&content)?)).unwrap_or_else(|error| {
        tracing::error!(%error, "cannot read {}", file.display());
        Known::new()
    })
}

/// The time in milliseconds since 1970.
fn now() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_millis() as u64
}

fn hash(text: &str) -> String {
    hexadecimal(&Sha256::digest(text))
}

fn random() -> Result<String, ApiError> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes).map_err(ApiError::internal)?;
    Ok(hexadecimal(&bytes))
}

fn cookies(headers: &HeaderMap) -> impl Iterator<Item = (&str, &str)> {
    let cookies = headers.get_all(COOKIE).iter().filter_map(|value| value.to_str().ok());
    cookies.flat_map(|value| value.split(';')).filter_map(|pair| pair.trim().split_once('='))
}

/// The name of the cookie. With TLS, only this host can set it.
fn cookie_name(app: &PageState, headers: &HeaderMap) -> String {
    let prefix = if app.gate.hosts.is_secure(headers) { "__Host-" } else { "" };
    format!("{prefix}{}", app.sessions.name)
}

/// The session that a request names. Another server of the host may have set a second cookie.
pub(super) fn cookie<'a>(app: &PageState, headers: &'a HeaderMap) -> Option<&'a str> {
    let name = cookie_name(app, headers);
    let mut values = cookies(headers).filter(|(given, _)| *given == name).map(|(_, value)| value);
    values.next().filter(|_| values.next().is_none())
}

/// A header that sets the cookie for some seconds.
fn set_cookie(app: &PageState, headers: &HeaderMap, value: &str, seconds: u64) -> String {
    let secure = if app.gate.hosts.is_secure(headers) { "; Secure" } else { "" };
    let name = cookie_name(app, headers);
    format!("{name}={value}; Path=/; HttpOnly; SameSite=Strict; Max-Age={seconds}{secure}")
}

#[derive(Template)]
#[template(path = "sign_in.html")]
struct SignIn {
    problem: &'static str,
    /// The address of the form.
    to: String,
    /// The page to go to, or the fields of a form that is sent again.
    fields: Vec<(String, String)>,
}

impl SignIn {
    fn new(problem: &'static str, next: String) -> Self {
        Self { problem, to: "/sign-in".to_owned(), fields: vec![("next".to_owned(), next)] }
    }

    fn refused(&self) -> Response {
        (StatusCode::FORBIDDEN, Html(self.render().unwrap_or_default())).into_response()
    }
}

const INVALID: &str = "This token is not valid. It may have expired.";

/// The form for a visitor without a session. It leads back to the page that he asked for.
pub(super) fn address_of_sign_in(request: &Request) -> String {
    if request.method() != Method::GET {
        return "/sign-in?ended=unsaved".to_owned();
    }
    let asked = request.uri().path_and_query().map_or("/", |asked| asked.as_str());
    let mut next = encode(asked).to_string();
    if next.len() > MAX_NEXT {
        let home = memory_of(request.uri().path()).map(|(home, _)| encode(&home).to_string());
        next = home.filter(|home| home.len() <= MAX_NEXT).unwrap_or_default();
    }
    let was_signed_in = cookies(request.headers()).any(|(name, _)| name.contains(NAME));
    let ended = if was_signed_in { "&ended=yes" } else { "" };
    if asked == "/" { "/sign-in".to_owned() } else { format!("/sign-in?next={next}{ended}") }
}

/// Keeps a form whose session has ended, and signs its author in again with it. Returns the header that sets the
/// cookie of the new session, or the response.
pub(super) async fn sign_in_again(
    app: &PageState,
    parts: &mut Parts,
    body: &mut Arriving,
) -> Result<HeaderValue, Response> {
    let ended = ApiError::authentication();
    let place = keep(app, body, &ended).await;
    let mut fields = if place.is_some() { typed(&body.content) } else { Vec::new() };
    if fields.is_empty() {
        return Err(ended.into_response());
    }
    fields.retain(|(name, _)| name != "form");
    let token = fields.iter().position(|(name, _)| name == "token").map(|at| fields.swap_remove(at).1);
    let problem = match token.as_deref().map(|token| app.gate.tokens.caller(token.trim())) {
        Some(Some((_, id))) => return run_as(app, id, parts).await.map_err(IntoResponse::into_response),
        Some(None) => INVALID,
        None => "You were signed out before this was saved. Sign in to go back to it.",
    };
    Err(hold(SignIn { problem, to: parts.uri.path().to_owned(), fields }.refused(), place))
}

/// Gives a request a new session. Returns the header that sets its cookie.
async fn run_as(app: &PageState, token: String, parts: &mut Parts) -> Result<HeaderValue, ApiError> {
    let session = app.sessions.start(token).await?;
    let header = |text: String| HeaderValue::try_from(text).map_err(ApiError::internal);
    let own = header(format!("{}={session}", cookie_name(app, &parts.headers)))?;
    parts.headers.insert(COOKIE, own);
    header(set_cookie(app, &parts.headers, &session, LIFETIME.as_secs()))
}

/// A page of this server that needs a session.
fn local(next: &str) -> &str {
    let is_page = next.starts_with("/memory/") || next.starts_with("/tokens");
    if is_page && next.bytes().all(|byte| byte.is_ascii_graphic()) { next } else { "/" }
}

#[derive(Deserialize)]
pub(super) struct SignInQuery {
    #[serde(default)]
    next: String,
    ended: Option<String>,
}

pub(super) async fn form(Query(query): Query<SignInQuery>) -> Page {
    let problem = match query.ended.as_deref() {
        Some("unsaved") => "You were signed out before this was saved. Sign in, and go back to the form.",
        Some(_) => "You were signed out. Sign in again.",
        None => "",
    };
    std::future::ready(render(&SignIn::new(problem, query.next))).await
}

/// The form is parsed by hand, because this request has no session.
pub(super) async fn sign_in(State(app): App, headers: HeaderMap, body: Bytes) -> Response {
    let field = |wanted: &str| form_urlencoded::parse(&body).find(|(name, _)| name == wanted).map(|(_, value)| value);
    let next = field("next").unwrap_or_default();
    let Some((_, id)) = field("token").and_then(|token| app.gate.tokens.caller(token.trim())) else {
        return SignIn::new(INVALID, next.into_owned()).refused();
    };
    match app.sessions.start(id).await {
        Ok(session) => {
            let cookie = set_cookie(&app, &headers, &session, LIFETIME.as_secs());
            ([(SET_COOKIE, cookie)], Redirect::to(local(&next))).into_response()
        }
        Err(error) => error.into_response(),
    }
}

pub(super) async fn sign_out(State(app): App, headers: HeaderMap, _: Posted) -> Response {
    if let Some(id) = cookie(&app, &headers) {
        app.sessions.end(id).await;
    }
    ([(SET_COOKIE, set_cookie(&app, &headers, "", 0))], Redirect::to("/sign-in")).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_visitor_gets_back_only_to_pages_of_this_server() {
        for next in ["/memory/a?path=/memories/b%20c", "/tokens"] {
            assert_eq!(local(next), next);
        }
        for next in ["", "//evil.example", "https://evil.example/memory/", "/sign-out", "/memory/\r\nx: y", "/memory/é"]
        {
            assert_eq!(local(next), "/", "{next}");
        }
    }

    #[test]
    fn the_sessions_are_bounded_and_end() {
        let session = |token: &str, age: u64| {
            let end = now() + LIFETIME.as_millis() as u64 - age;
            Session { token: token.to_owned(), end, is_signed_out: false }
        };
        let mut known = Known::from([("first".to_owned(), session("a", 1_000_000))]);
        // One token cannot end the sessions of others, but many can.
        known.extend((0..MAX_SESSIONS).map(|number| (format!("b{number}"), session("b", number as u64))));
        bound(&mut known);
        assert_eq!(known.len(), MAX_SESSIONS_OF_TOKEN + 1);
        assert!(known.contains_key("first") && known.contains_key("b99") && !known.contains_key("b100"));
        known.extend((0..MAX_SESSIONS).map(|number| (format!("c{number}"), session(&format!("c{number}"), 0))));
        bound(&mut known);
        assert_eq!((known.len(), known.contains_key("first")), (MAX_SESSIONS, false));
        known.values_mut().for_each(|session| session.end = now());
        bound(&mut known);
        assert!(known.is_empty());
    }

    #[tokio::test]
    async fn the_file_has_no_secret_and_the_sessions_of_all_servers() {
        let directory = tempfile::tempdir().unwrap();
        let (tokens, address) = (directory.path().join("tokens"), Listen::default());
        let [one, other] = [0; 2].map(|_| Arc::new(Sessions::load(&tokens, &address)));
        let (first, second) = (one.start("a".to_owned()).await.unwrap(), other.start("b".to_owned()).await.unwrap());
        let path = directory.path().join("tokens.sessions");
        let file = fs::read_to_string(&path).unwrap();
        let (_, form) = one.find(&first).unwrap();
        for secret in [&first, &second, &*form] {
            assert!(!file.contains(secret) && !format!("{one:?}").contains(secret), "{file}");
        }
        let later = Arc::new(Sessions::load(&tokens, &address));
        assert_eq!([&first, &second].map(|id| later.find(id).unwrap().0), ["a", "b"]);
        assert_eq!(later.find(&first).unwrap().1, form);
        later.end(&first).await;
        // A file from before the sign-out brings nothing back, and loses nothing.
        fs::write(&path, &file).unwrap();
        let third = later.start("c".to_owned()).await.unwrap();
        for sessions in [&later, &Arc::new(Sessions::load(&tokens, &address))] {
            let found = [&first, &second, &third].map(|id| sessions.find(id).is_some());
            assert_eq!(found, [false, true, true]);
        }
        fs::write(&path, "damaged").unwrap();
        let id = Arc::new(Sessions::load(&tokens, &address)).start("a".to_owned()).await.unwrap();
        assert!(Sessions::load(&tokens, &address).find(&id).is_some());
        // Without the file, sessions end with the process.
        drop(directory);
        let id = one.start("a".to_owned()).await.unwrap();
        assert!(one.find(&id).is_some() && Sessions::load(&tokens, &address).find(&id).is_none());
    }
}
