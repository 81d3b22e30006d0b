//! The admission of requests with a session.

use std::sync::Arc;

use axum::body::{Body, Bytes};
use axum::extract::{Request, State};
use axum::http::header::SET_COOKIE;
use axum::http::request::Parts;
use axum::http::{HeaderMap, Method, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};

use super::forms::{Held, RefusedForm, keep};
use super::sign_in::sign_in_again;
use super::{App, PageState, Visitor};
use crate::http::admission::{self, Arriving, arriving, request_id};
use crate::http::error::ApiError;
use crate::http::gate::Running;

/// The fields of a form. The form of an erasure has one for each change of a file.
const MAX_FIELDS: usize = 10_000;

/// Admits requests with a session. The response to a refused form has its text.
pub(super) async fn admit(State(app): App, request: Request, next: Next) -> Response {
    let (mut parts, mut body) = arriving(request);
    if let Err(error) = app.gate.hosts.check(&parts) {
        return error.into_response();
    }
    let (is_form, path) = (parts.method == Method::POST, parts.uri.path().to_owned());
    let (mut admitted, mut cookie) = (prepare(&app, &mut parts, &mut body).await, None);
    if is_form && admitted.as_ref().is_err_and(|error| error.status() == StatusCode::UNAUTHORIZED) {
        match sign_in_again(&app, &mut parts, &mut body).await {
            Ok(new) => cookie = Some(new),
            Err(response) => return response,
        }
        admitted = prepare(&app, &mut parts, &mut body).await;
    }
    let (mut response, body, held): (_, _, Held) = match admitted {
        Ok(running) => {
            let (request, body) = (Request::from_parts(parts, Body::empty()), Bytes::from(body.content));
            (admission::run(request, body.clone(), Arc::clone(&running), next).await, Some(body), running)
        }
        Err(error) => {
            let place = keep(&app, &mut body, &error).await;
            (error.into_response(), place.is_some().then(|| body.content.into()), Arc::new(place))
        }
    };
    if is_form && (response.status().is_client_error() || response.status().is_server_error()) {
        response.extensions_mut().insert(RefusedForm::new(path, body, held).await);
    }
    cookie.map(|cookie| response.headers_mut().append(SET_COOKIE, cookie));
    response
}

async fn prepare(app: &PageState, parts: &mut Parts, body: &mut Arriving) -> Result<Arc<Running>, ApiError> {
    let request_id = request_id(parts);
    let identify = |headers: &HeaderMap| {
        let mut visitor = Visitor::of(app, headers)?;
        visitor.caller = visitor.caller.in_request(&request_id);
        Some((visitor.caller.clone(), visitor.token.clone(), visitor))
    };
    let running = admission::prepare(&app.gate, parts, body, identify).await?;
    if body.content.iter().filter(|byte| **byte == b'&').count() >= MAX_FIELDS {
        body.content.clear();
        return Err(ApiError::invalid(format!("the form has more than {MAX_FIELDS} fields")));
    }
    Ok(running)
}
