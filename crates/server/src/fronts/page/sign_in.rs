//! The sign-in, and the cookie of a session.

use askama::Template;
use axum::body::Bytes;
use axum::extract::{Query, Request, State};
use axum::http::header::{COOKIE, SET_COOKIE};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode};
use axum::response::{Html, IntoResponse, Redirect, Response};
use serde::Deserialize;

use super::forms::{Posted, hold, keep, typed};
use super::{App, Page, PageState, encode, memory_of, render};
use crate::access::sessions::LIFETIME;
use crate::http::admission::Arriving;
use crate::http::error::ApiError;
use crate::options::Listen;

const NAME: &str = "memory-tool";

/// The longest address in a redirection. Proxies refuse long headers.
const MAX_NEXT: usize = 1_500;

/// The name of the cookie of a server at this address. All ports of a host get it.
pub(super) fn cookie_of(address: &Listen) -> String {
    match address {
        Listen::Tcp(address) => format!("{NAME}-{}", address.port()),
        #[cfg(unix)]
        Listen::Unix(_) => NAME.to_owned(),
    }
}

fn cookies(headers: &HeaderMap) -> impl Iterator<Item = (&str, &str)> {
    let cookies = headers.get_all(COOKIE).iter().filter_map(|value| value.to_str().ok());
    cookies.flat_map(|value| value.split(';')).filter_map(|pair| pair.trim().split_once('='))
}

/// The name of the cookie. With TLS, only this host can set it.
fn cookie_name(app: &PageState, headers: &HeaderMap) -> String {
    let prefix = if app.gate.hosts.is_secure(headers) { "__Host-" } else { "" };
    format!("{prefix}{}", app.cookie)
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
    let is_page = ["/memory/", "/search", "/tokens"].iter().any(|start| next.starts_with(start));
    if is_page && next.bytes().all(|byte| byte.is_ascii_graphic()) { next } else { "/" }
}

#[derive(Deserialize)]
pub(super) struct SignInQuery {
    #[serde(default)]
    next: String,
    ended: Option<String>,
}

pub(super) fn form(Query(query): Query<SignInQuery>) -> Page {
    let problem = match query.ended.as_deref() {
        Some("unsaved") => "You were signed out before this was saved. Sign in, and go back to the form.",
        Some(_) => "You were signed out. Sign in again.",
        None => "",
    };
    render(&SignIn::new(problem, query.next))
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
}
