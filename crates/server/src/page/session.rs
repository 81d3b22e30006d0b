//! [`Sessions`]: people who signed in with their tokens.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use askama::Template;
use axum::body::Bytes;
use axum::extract::{Query, Request, State};
use axum::http::header::{COOKIE, SET_COOKIE};
use axum::http::{HeaderMap, Method, StatusCode};
use axum::response::{Html, IntoResponse, Redirect, Response};
use serde::Deserialize;

use super::{App, Page, Posted, encode, render};
use crate::error::ApiError;
use crate::tokens::hexadecimal;

const NAME: &str = "memory-tool";

/// The end of a session, also in use.
const LIFETIME: Duration = Duration::from_secs(12 * 60 * 60);

/// The sessions that are kept, of all tokens and of one. If there are more, the oldest ends.
const MAX_SESSIONS: usize = 10_000;
const MAX_SESSIONS_OF_TOKEN: usize = 100;

/// People who signed in. Another process does not know them: after a restart, they sign in again.
#[derive(Debug, Default)]
pub(crate) struct Sessions(Mutex<HashMap<String, Session>>);

struct Session {
    /// The id of the token.
    token: String,
    form: Arc<str>,
    end: Instant,
}

/// Without the secret of the forms.
impl std::fmt::Debug for Session {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Session").field("token", &self.token).finish_non_exhaustive()
    }
}

impl Sessions {
    fn start(&self, token: String) -> Result<String, ApiError> {
        let (id, form) = (random()?, random()?.into());
        let now = Instant::now();
        let mut sessions = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        sessions.retain(|_, session| session.end > now);
        let has_many = sessions.values().filter(|session| session.token == token).count() >= MAX_SESSIONS_OF_TOKEN;
        if has_many || sessions.len() >= MAX_SESSIONS {
            let candidates = sessions.iter().filter(|(_, session)| !has_many || session.token == token);
            let oldest = candidates.min_by_key(|(_, session)| session.end).map(|(id, _)| id.clone());
            oldest.and_then(|oldest| sessions.remove(&oldest));
        }
        sessions.insert(id.clone(), Session { token, form, end: now + LIFETIME });
        Ok(id)
    }

    /// The id of the token of a session, and the secret of its forms.
    pub(super) fn find(&self, id: &str) -> Option<(String, Arc<str>)> {
        let sessions = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let session = sessions.get(id).filter(|session| session.end > Instant::now())?;
        Some((session.token.clone(), Arc::clone(&session.form)))
    }

    fn end(&self, id: &str) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(id);
    }
}

fn random() -> Result<String, ApiError> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes).map_err(ApiError::internal)?;
    Ok(hexadecimal(&bytes))
}

/// The session that a request names.
pub(super) fn cookie(headers: &HeaderMap) -> Option<&str> {
    let cookies = headers.get_all(COOKIE).iter().filter_map(|value| value.to_str().ok());
    let mut pairs = cookies.flat_map(|value| value.split(';')).filter_map(|pair| pair.trim().split_once('='));
    pairs.find(|(name, _)| *name == NAME).map(|(_, value)| value)
}

/// A header that sets the cookie for some seconds.
fn set_cookie(value: &str, seconds: u64, is_secure: bool) -> String {
    let secure = if is_secure { "; Secure" } else { "" };
    format!("{NAME}={value}; Path=/; HttpOnly; SameSite=Strict; Max-Age={seconds}{secure}")
}

#[derive(Template)]
#[template(path = "sign_in.html")]
struct SignIn {
    problem: &'static str,
    /// The page to go to.
    next: String,
}

/// The form for a visitor without a session. It leads back to the page that he asked for.
pub(super) fn address_of_sign_in(request: &Request) -> String {
    if request.method() != Method::GET {
        return "/sign-in?ended=unsaved".to_owned();
    }
    let next = request.uri().path_and_query().map_or("/", |asked| asked.as_str());
    let ended = if cookie(request.headers()).is_some() { "&ended=yes" } else { "" };
    if next == "/" { "/sign-in".to_owned() } else { format!("/sign-in?next={}{ended}", encode(next)) }
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
    std::future::ready(render(&SignIn { problem, next: asked.next })).await
}

/// The form is parsed by hand, because this request has no session.
pub(super) async fn sign_in(State(service): App, headers: HeaderMap, body: Bytes) -> Response {
    let field = |wanted: &str| form_urlencoded::parse(&body).find(|(name, _)| name == wanted).map(|(_, value)| value);
    let next = field("next").unwrap_or_default();
    let Some((_, id)) = field("token").and_then(|token| service.tokens.caller(token.trim())) else {
        let problem = "This token is not valid. It may have expired.";
        let page = SignIn { problem, next: next.into_owned() }.render().unwrap_or_default();
        return (StatusCode::FORBIDDEN, Html(page)).into_response();
    };
    match service.sessions.start(id) {
        Ok(session) => {
            let cookie = set_cookie(&session, LIFETIME.as_secs(), service.hosts.is_secure(&headers));
            ([(SET_COOKIE, cookie)], Redirect::to(local(&next))).into_response()
        }
        Err(error) => error.into_response(),
    }
}

pub(super) async fn sign_out(State(service): App, headers: HeaderMap, _: Posted) -> Response {
    cookie(&headers).into_iter().for_each(|id| service.sessions.end(id));
    let cookie = set_cookie("", 0, service.hosts.is_secure(&headers));
    std::future::ready(([(SET_COOKIE, cookie)], Redirect::to("/sign-in")).into_response()).await
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
        let sessions = Sessions::default();
        let first = sessions.start("a".to_owned()).unwrap();
        assert_eq!(sessions.find(&first).unwrap().0, "a");
        // One token cannot end the sessions of others, but many can.
        for _ in 0..MAX_SESSIONS {
            sessions.start("b".to_owned()).unwrap();
        }
        assert!(sessions.find(&first).is_some());
        assert_eq!(sessions.0.lock().unwrap().len(), MAX_SESSIONS_OF_TOKEN + 1);
        for number in 0..MAX_SESSIONS {
            sessions.start(format!("b{number}")).unwrap();
        }
        assert!(sessions.find(&first).is_none());
        assert_eq!(sessions.0.lock().unwrap().len(), MAX_SESSIONS);
        let last = sessions.start("c".to_owned()).unwrap();
        sessions.0.lock().unwrap().get_mut(&last).unwrap().end = Instant::now();
        assert!(sessions.find(&last).is_none());
        assert!(!format!("{sessions:?}").contains("form"));
    }
}
