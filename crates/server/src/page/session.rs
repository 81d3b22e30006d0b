//! [`Sessions`]: people who signed in with their tokens.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use askama::Template;
use axum::body::{Body, Bytes};
use axum::extract::{Query, Request, State};
use axum::http::header::{COOKIE, SET_COOKIE};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode};
use axum::middleware::Next;
use axum::response::{Html, IntoResponse, Redirect, Response};
use serde::Deserialize;
use sha2::{Digest as _, Sha256};
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;
use tokio::time::timeout;

use super::{App, Page, Posted, Visitor, encode, memory_of, render};
use crate::admission;
use crate::error::ApiError;
use crate::options::Listen;
use crate::service::Service;
use crate::tokens::hexadecimal;

const NAME: &str = "memory-tool";

/// The end of a session, also in use.
const LIFETIME: Duration = Duration::from_secs(12 * 60 * 60);

/// The sessions that are kept, of all tokens and of one. If there are more, the oldest ends.
const MAX_SESSIONS: usize = 10_000;
const MAX_SESSIONS_OF_TOKEN: usize = 100;

/// The forms that are kept while their senders sign in again, at the same time, with their size and time. Anybody can
/// send them.
const MAX_KEPT: usize = 4;
const MAX_BYTES_KEPT: usize = 4 * 1024 * 1024;
const KEPT_TIME: Duration = Duration::from_secs(30);

/// The longest address in a redirection. Proxies refuse long headers.
const MAX_NEXT: usize = 1_500;

type Known = HashMap<String, Session>;

/// People who signed in. A file keeps them over a restart.
#[derive(Debug)]
pub(crate) struct Sessions {
    /// The sessions, by the hashes of their ids.
    known: Mutex<Known>,
    file: Option<PathBuf>,
    /// The name of the cookie, which all ports of a host get.
    name: String,
    /// The places of forms that are kept.
    kept: Semaphore,
}

#[derive(Clone, Debug, Deserialize, serde::Serialize)]
struct Session {
    /// The id of the token.
    token: String,
    /// The end, in seconds since 1970.
    end: u64,
}

impl Sessions {
    /// The sessions of a server at this address, from the file beside its tokens.
    pub(crate) fn load(tokens: &Path, address: &Listen) -> Self {
        let file = beside(tokens, ".sessions");
        let known = read(&file).unwrap_or_else(|error| {
            tracing::error!(%error, "cannot read {}", file.display());
            Known::new()
        });
        let port = match address {
            Listen::Tcp(address) => format!("-{}", address.port()),
            #[cfg(unix)]
            Listen::Unix(_) => String::new(),
        };
        let (name, kept) = (format!("{NAME}{port}"), Semaphore::new(MAX_KEPT));
        Self { known: Mutex::new(known), file: Some(file), name, kept }
    }

    async fn start(self: &Arc<Self>, token: String) -> Result<String, ApiError> {
        let id = random()?;
        let key = hash(&id);
        self.change(move |known| add(known, key.clone(), token.clone())).await;
        Ok(id)
    }

    /// The id of the token of a session, and the secret of its forms.
    pub(super) fn find(&self, id: &str) -> Option<(String, Arc<str>)> {
        let token = self.lock().get(&hash(id)).filter(|session| session.end > now())?.token.clone();
        Some((token, hash(&format!("form {id}")).into()))
    }

    async fn end(self: &Arc<Self>, id: &str) {
        let key = hash(id);
        self.change(move |known| _ = known.remove(&key)).await;
    }

    /// Changes the sessions here and in the file. Another server may have written its own to it.
    async fn change(self: &Arc<Self>, change: impl Fn(&mut Known) + Send + 'static) {
        change(&mut self.lock());
        let Some(file) = self.file.clone() else { return };
        let written = spawn_blocking(move || write(&file, change)).await;
        if let Err(error) = written.unwrap_or_else(|error| Err(io::Error::other(error))) {
            tracing::error!(%error, "cannot keep the sessions over a restart");
        }
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn add(known: &mut Known, key: String, token: String) {
    let now = now();
    known.retain(|_, session| session.end > now);
    let has_many = known.values().filter(|session| session.token == token).count() >= MAX_SESSIONS_OF_TOKEN;
    if has_many || known.len() >= MAX_SESSIONS {
        let candidates = known.iter().filter(|(_, session)| !has_many || session.token == token);
        let oldest = candidates.min_by_key(|(_, session)| session.end).map(|(key, _)| key.clone());
        oldest.and_then(|oldest| known.remove(&oldest));
    }
    known.insert(key, Session { token, end: now + LIFETIME.as_secs() });
}

/// The path of a file with another end to its name.
fn beside(tokens: &Path, end: &str) -> PathBuf {
    let mut name = tokens.to_owned().into_os_string();
    name.push(end);
    name.into()
}

/// A missing file is empty.
fn read(file: &Path) -> io::Result<Known> {
    match fs::read(file) {
        Ok(content) => Ok(serde_json::from_slice(&content)?),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Known::new()),
        Err(error) => Err(error),
    }
}

fn write(file: &Path, change: impl FnOnce(&mut Known)) -> io::Result<()> {
    let lock = File::options().create(true).append(true).open(beside(file, ".lock"))?;
    lock.lock()?;
    let mut known = read(file).unwrap_or_default(); // a damaged file is replaced
    change(&mut known);
    let directory = file.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let new = tempfile::NamedTempFile::new_in(directory)?; // with mode 0600
    serde_json::to_writer(&new, &known)?;
    new.persist(file)?;
    Ok(())
}

fn now() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs()
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
fn cookie_name(service: &Service, headers: &HeaderMap) -> String {
    let prefix = if service.hosts.is_secure(headers) { "__Host-" } else { "" };
    format!("{prefix}{}", service.sessions.name)
}

/// The session that a request names. Another server of the host may have set a second cookie.
pub(super) fn cookie<'a>(service: &Service, headers: &'a HeaderMap) -> Option<&'a str> {
    let name = cookie_name(service, headers);
    let mut values = cookies(headers).filter(|(given, _)| *given == name).map(|(_, value)| value);
    values.next().filter(|_| values.next().is_none())
}

/// A header that sets the cookie for some seconds.
fn set_cookie(service: &Service, headers: &HeaderMap, value: &str, seconds: u64) -> String {
    let secure = if service.hosts.is_secure(headers) { "; Secure" } else { "" };
    let name = cookie_name(service, headers);
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

/// Keeps the text of a form whose session has ended, and signs its author in again with the same form.
pub(crate) async fn sign_in_again(State(service): App, mut request: Request, next: Next) -> Response {
    let is_late = request.method() == Method::POST && Visitor::of(&service, request.headers()).is_none();
    let place = if is_late { service.sessions.kept.try_acquire().ok() } else { None };
    if place.is_none() {
        return next.run(request).await;
    }
    if let Err(error) = service.hosts.check(&request) {
        return error.into_response();
    }
    let path = request.uri().path().to_owned();
    let reading = admission::read(std::mem::take(request.body_mut()), MAX_BYTES_KEPT, |_| Ok(()));
    let body = match timeout(KEPT_TIME, reading).await {
        Ok(Ok(body)) => body,
        Ok(Err(error)) => return error.into_response(),
        Err(_) => return ApiError::too_slow().into_response(),
    };
    let mut fields: Vec<(String, String)> = form_urlencoded::parse(&body).into_owned().collect();
    fields.retain(|(name, _)| name != "form");
    if !fields.iter().any(|(name, _)| ["text", "directory", "actor"].contains(&name.as_str())) {
        return ApiError::authentication().into_response();
    }
    let token = fields.iter().position(|(name, _)| name == "token").map(|at| fields.swap_remove(at).1);
    let problem = match token.as_deref().map(|token| service.tokens.caller(token.trim())) {
        Some(Some((_, id))) => {
            *request.body_mut() = Body::from(body);
            return run_as(&service, id, request, next).await.unwrap_or_else(IntoResponse::into_response);
        }
        Some(None) => INVALID,
        None => "You were signed out before this was saved. Sign in to go back to it.",
    };
    SignIn { problem, to: path, fields }.refused()
}

/// Responds to a request in a new session.
async fn run_as(service: &Service, token: String, mut request: Request, next: Next) -> Result<Response, ApiError> {
    let session = service.sessions.start(token).await?;
    let header = |text: String| HeaderValue::try_from(text).map_err(ApiError::internal);
    let set = header(set_cookie(service, request.headers(), &session, LIFETIME.as_secs()))?;
    let own = header(format!("{}={session}", cookie_name(service, request.headers())))?;
    request.headers_mut().insert(COOKIE, own);
    let mut response = next.run(request).await;
    response.headers_mut().append(SET_COOKIE, set);
    Ok(response)
}

/// A page of this server that needs a session.
fn local(next: &str) -> &str {
    let is_page = next.starts_with("/memory/") || next.starts_with("/tokens");
    if is_page && next.bytes().all(|byte| byte.is_ascii_graphic()) { next } else { "/" }
}

#[derive(Deserialize)]
pub(super) struct Asked {
    #[serde(default)]
    next: String,
    ended: Option<String>,
}

pub(super) async fn form(Query(asked): Query<Asked>) -> Page {
    let problem = match asked.ended.as_deref() {
        Some("unsaved") => "You were signed out before this was saved. Sign in, and enter it again.",
        Some(_) => "You were signed out. Sign in again.",
        None => "",
    };
    std::future::ready(render(&SignIn::new(problem, asked.next))).await
}

/// The form is parsed by hand, because this request has no session.
pub(super) async fn sign_in(State(service): App, headers: HeaderMap, body: Bytes) -> Response {
    let field = |wanted: &str| form_urlencoded::parse(&body).find(|(name, _)| name == wanted).map(|(_, value)| value);
    let next = field("next").unwrap_or_default();
    let Some((_, id)) = field("token").and_then(|token| service.tokens.caller(token.trim())) else {
        return SignIn::new(INVALID, next.into_owned()).refused();
    };
    match service.sessions.start(id).await {
        Ok(session) => {
            let cookie = set_cookie(&service, &headers, &session, LIFETIME.as_secs());
            ([(SET_COOKIE, cookie)], Redirect::to(local(&next))).into_response()
        }
        Err(error) => error.into_response(),
    }
}

pub(super) async fn sign_out(State(service): App, headers: HeaderMap, _: Posted) -> Response {
    if let Some(id) = cookie(&service, &headers) {
        service.sessions.end(id).await;
    }
    let cookie = set_cookie(&service, &headers, "", 0);
    ([(SET_COOKIE, cookie)], Redirect::to("/sign-in")).into_response()
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
        let mut known = Known::new();
        add(&mut known, "first".to_owned(), "a".to_owned());
        // One token cannot end the sessions of others, but many can.
        for number in 0..MAX_SESSIONS {
            add(&mut known, format!("b{number}"), "b".to_owned());
        }
        assert!(known.contains_key("first"));
        assert_eq!(known.len(), MAX_SESSIONS_OF_TOKEN + 1);
        known.get_mut("first").unwrap().end -= 1;
        for number in 0..MAX_SESSIONS {
            add(&mut known, format!("c{number}"), format!("c{number}"));
        }
        assert!(!known.contains_key("first"));
        assert_eq!(known.len(), MAX_SESSIONS);
        known.values_mut().for_each(|session| session.end = now());
        add(&mut known, "last".to_owned(), "d".to_owned());
        assert_eq!(known.len(), 1);
    }

    #[tokio::test]
    async fn the_file_has_no_secret_and_keeps_the_sessions_of_another_server() {
        let directory = tempfile::tempdir().unwrap();
        let (tokens, address) = (directory.path().join("tokens"), Listen::default());
        let [one, other] = [0; 2].map(|_| Arc::new(Sessions::load(&tokens, &address)));
        let (first, second) = (one.start("a".to_owned()).await.unwrap(), other.start("b".to_owned()).await.unwrap());
        let file = fs::read_to_string(directory.path().join("tokens.sessions")).unwrap();
        let (_, form) = one.find(&first).unwrap();
        for secret in [&first, &second, &*form] {
            assert!(!file.contains(secret) && !format!("{one:?}").contains(secret), "{file}");
        }
        let later = Arc::new(Sessions::load(&tokens, &address));
        assert_eq!([&first, &second].map(|id| later.find(id).unwrap().0), ["a", "b"]);
        assert_eq!(later.find(&first).unwrap().1, form);
        later.end(&first).await;
        assert!(Sessions::load(&tokens, &address).find(&first).is_none());
        fs::write(directory.path().join("tokens.sessions"), "damaged").unwrap();
        let id = Arc::new(Sessions::load(&tokens, &address)).start("a".to_owned()).await.unwrap();
        assert!(Sessions::load(&tokens, &address).find(&id).is_some());
        // Without the file, sessions end with the process.
        drop(directory);
        let id = one.start("a".to_owned()).await.unwrap();
        assert!(one.find(&id).is_some() && Sessions::load(&tokens, &address).find(&id).is_none());
    }
}
