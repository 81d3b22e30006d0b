//! `/memory/{id}/live`: an event for each change, so that a page can show it.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::sse::{Event, Sse};
use axum::response::{IntoResponse as _, Response};
use futures::stream;
use tokio::time::timeout;

use super::{App, Opened, Page, Visitor};
use crate::access::Right;
use crate::error::ApiError;
use crate::path::Path;

/// The time after which the session is checked again. The event keeps the connection open.
const CHECK: Duration = Duration::from_secs(10);

pub(super) async fn changes(State(service): App, visitor: Visitor, Path(id): Path<String>, headers: HeaderMap) -> Page {
    let opened = Opened::find(&service, &visitor, &id, Right::Read).await?;
    let permit = Arc::clone(&service.live).try_acquire_owned().map_err(|_| ApiError::busy())?;
    let watch = opened.memory.watch().await;
    let events = stream::unfold((watch, permit, opened), move |(mut watch, permit, opened)| {
        let (service, headers) = (Arc::clone(&service), headers.clone());
        async move {
            let event = match timeout(CHECK, watch.next()).await {
                Ok(Some(_)) => Event::default().event("change").data(""),
                Ok(None) => return None,
                Err(_) => Event::default().comment(""),
            };
            let (visitor, _) = Visitor::of(&service, &headers)?;
            visitor.caller.check(Right::Read, Some(&opened.open.name)).ok()?;
            Some((Ok::<_, Infallible>(event), (watch, permit, opened)))
        }
    });
    let response: Response = Sse::new(events).into_response();
    Ok(response)
}
