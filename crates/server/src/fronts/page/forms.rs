//! The forms of the page: their fields, and the text of a refused one.

use std::collections::HashMap;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::{Form, FromRequest, Request};
use axum::http::StatusCode;
use axum::response::Response;
use http_body_util::BodyExt as _;
use tokio::sync::OwnedSemaphorePermit;
use tokio::task::spawn_blocking;
use tokio::time::timeout;

use super::{PageState, Visitor};
use crate::http::admission::Arriving;
use crate::http::error::ApiError;

/// The forms that are kept although they are refused, at the same time, with their size and the time to receive one.
/// Anybody can send them. Two texts of 1 MiB can have 6 MiB in a form.
pub(super) const MAX_KEPT: usize = 4;
const MAX_BYTES_KEPT: usize = 8 * 1024 * 1024;
const KEPT_TIME: Duration = Duration::from_secs(30);

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
pub(super) type Held = Arc<dyn Send + Sync>;

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
    pub(super) async fn new(to: String, body: Option<Bytes>, held: Held) -> Self {
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

/// The fields of a form.
pub(super) struct Draft {
    fields: HashMap<String, String>,
    /// Whether it is a form of another session, so that it has no effect. A new form can have its fields.
    pub(super) is_outdated: bool,
}

/// The message of a new form with the fields of an outdated one.
pub(super) const OUTDATED: &str =
    "You signed in again after you opened this form, so it is not saved yet. Check it, and save it.";

impl Draft {
    pub(super) fn take(&mut self, name: &str) -> String {
        self.fields.remove(name).unwrap_or_default()
    }

    /// The values at the ends of the names of ticked boxes.
    pub(super) fn ticked<T: FromStr>(&self, prefix: &str) -> Vec<T> {
        self.fields.keys().filter_map(|name| name.strip_prefix(prefix)?.parse().ok()).collect()
    }
}

impl<S: Send + Sync> FromRequest<S> for Draft {
    type Rejection = ApiError;

    async fn from_request(mut request: Request, state: &S) -> Result<Self, ApiError> {
        let visitor = request.extensions_mut().remove::<Visitor>();
        let posted = Form::<HashMap<String, String>>::from_request(request, state).await;
        let fields = posted.map(|Form(fields)| fields).unwrap_or_default();
        let is_own = visitor.zip(fields.get("form")).is_some_and(|(visitor, given)| **given == *visitor.form);
        Ok(Self { fields, is_outdated: !is_own })
    }
}

/// The fields of a form of this session.
pub(super) struct Posted(pub(super) Draft);

impl<S: Send + Sync> FromRequest<S> for Posted {
    type Rejection = ApiError;

    async fn from_request(request: Request, state: &S) -> Result<Self, ApiError> {
        let draft = Draft::from_request(request, state).await?;
        let outdated = || ApiError::invalid("the form is too old: go back, reload the page, and try again");
        if draft.is_outdated { Err(outdated()) } else { Ok(Self(draft)) }
    }
}
