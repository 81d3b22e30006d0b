//! The forms of the page: their admission, their fields, and the text of a refused one.

use std::collections::HashMap;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::{Form, FromRequest, Request, State};
use axum::http::header::SET_COOKIE;
use axum::http::request::Parts;
use axum::http::{HeaderMap, Method, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use http_body_util::BodyExt as _;
use tokio::sync::OwnedSemaphorePermit;
use tokio::task::spawn_blocking;
use tokio::time::timeout;

use super::{App, PageState, Visitor, session};
use crate::http::admission::{self, Arriving, Sender, arriving, request_id};
use crate::http::error::ApiError;
use crate::http::gate::Running;

/// The fields of a form. The form of an erasure has one for each change of a file.
const MAX_FIELDS: usize = 10_000;

/// The forms that are kept although they are refused, at the same time, with their size and the time to receive one.
/// Anybody can send them. Two texts of 1 MiB can have 6 MiB in a form.
pub(super) const MAX_KEPT: usize = 4;
const MAX_BYTES_KEPT: usize = 8 * 1024 * 1024;
const KEPT_TIME: Duration = Duration::from_secs(30);

/// Admits requests with a session. The response to a refused form has its text.
pub(crate) async fn admit(State(app): App, request: Request, next: Next) -> Response {
    let (mut parts, mut body) = arriving(request);
    if let Err(error) = app.gate.hosts.check(&parts) {
        return error.into_response();
    }
    let (is_form, path) = (parts.method == Method::POST, parts.uri.path().to_owned());
    let (mut admitted, mut cookie) = (prepare(&app, &mut parts, &mut body).await, None);
    if is_form && admitted.as_ref().is_err_and(|error| error.status() == StatusCode::UNAUTHORIZED) {
        match session::sign_in_again(&app, &mut parts, &mut body).await {
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
        let (mut visitor, token) = Visitor::of(app, headers)?;
        visitor.caller = visitor.caller.in_request(&request_id);
        Some(Sender { caller: visitor.caller.clone(), who: visitor, token })
    };
    let running = admission::prepare(&app.gate, parts, body, identify).await?;
    if body.content.iter().filter(|byte| **byte == b'&').count() >= MAX_FIELDS {
        body.content.clear();
        return Err(ApiError::invalid(format!("the form has more than {MAX_FIELDS} fields")));
    }
    Ok(running)
}

/// Reads the rest of a form that is refused. `None` if it is too large, too slow, or one of too many. Otherwise, the
/// result is held until the response is sent.
pub(super) async fn keep(app: &PageState, body: &mut Arriving, error: &ApiError) -> Option<OwnedSemaphorePermit> {
    let place = Arc::clone(&app.kept).try_acquire_owned().ok()?;
    if !body.is_complete && error.status() != StatusCode::REQUEST_TIMEOUT {
        let _ = timeout(KEPT_TIME, body.read(MAX_BYTES_KEPT, |_| Ok(()))).await;
    }
    (body.is_complete && body.content.len() <= MAX_BYTES_KEPT).then_some(place)
}

/// The fields of a form in which a person typed. Other forms are easy to repeat, and have no fields here.
pub(super) fn typed(body: &[u8]) -> Vec<(String, String)> {
    let fields: Vec<(String, String)> = form_urlencoded::parse(body).into_owned().collect();
    let is_typed = fields.iter().any(|(name, _)| ["text", "directory", "actor"].contains(&name.as_str()));
    if is_typed { fields } else { Vec::new() }
}

/// A place in the limits, until it is dropped.
type Held = Arc<dyn Send + Sync>;

/// A form that was refused, for the page of the error.
#[derive(Clone)]
pub(super) struct RefusedForm {
    /// The address of the form.
    pub(super) to: String,
    /// All fields, if a person typed in one of them. `None` if the form did not arrive.
    pub(super) fields: Option<Vec<(String, String)>>,
    held: Held,
}

impl RefusedForm {
    async fn new(to: String, body: Option<Bytes>, held: Held) -> Self {
        let fields = match body.filter(|body| body.len() <= MAX_BYTES_KEPT) {
            Some(body) => spawn_blocking(move || typed(&body)).await.ok(),
            None => None,
        };
        Self { to, fields, held }
    }

    /// The response with this form, which counts until it is sent.
    pub(super) fn hold(self, response: Response) -> Response {
        hold(response, self.held)
    }
}

/// A response that holds something until it is sent.
pub(super) fn hold(response: Response, held: impl Send + Sync + 'static) -> Response {
    response.map(|body| {
        Body::new(body.map_frame(move |frame| {
            let _until_the_end_of_the_body = &held;
            frame
        }))
    })
}

/// The fields of a form of this session.
pub(super) struct Posted(HashMap<String, String>);

impl Posted {
    pub(super) fn take(&mut self, name: &str) -> String {
        self.0.remove(name).unwrap_or_default()
    }

    /// The values at the ends of the names of ticked boxes.
    pub(super) fn ticked<T: FromStr>(&self, prefix: &str) -> Vec<T> {
        self.0.keys().filter_map(|name| name.strip_prefix(prefix)?.parse().ok()).collect()
    }
}

/// The fields of a form of another session, which has no effect. A new form can have them.
pub(super) struct Outdated(HashMap<String, String>);

/// The message of a new form with these fields.
pub(super) const OUTDATED: &str =
    "You signed in again after you visited this form, so it is not saved yet. Check it, and save it.";

impl Outdated {
    /// The fields, for a new form.
    pub(super) fn fields(self) -> Posted {
        Posted(self.0)
    }
}

impl IntoResponse for Outdated {
    fn into_response(self) -> Response {
        ApiError::invalid("the form is too old: go back, reload the page, and try again").into_response()
    }
}

impl<S: Send + Sync> FromRequest<S> for Posted {
    type Rejection = Outdated;

    async fn from_request(mut request: Request, state: &S) -> Result<Self, Outdated> {
        let visitor = request.extensions_mut().remove::<Visitor>();
        let posted = Form::<HashMap<String, String>>::from_request(request, state).await;
        let fields = posted.map(|Form(fields)| fields).unwrap_or_default();
        match visitor {
            Some(visitor) if fields.get("form").is_some_and(|given| **given == *visitor.form) => Ok(Self(fields)),
            _ => Err(Outdated(fields)),
        }
    }
}
