//! `/memory/{id}/live`: an event for each change, so that a page can show it.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::{Extension, State};
use axum::http::HeaderMap;
use axum::response::IntoResponse as _;
use axum::response::sse::{Event, Sse};
use futures::stream;
use tokio::time::sleep;

use super::{App, Opened, Page, Visitor};
use crate::access::Right;
use crate::service::Running;

/// The time after which the session is checked again. The event keeps the connection open.
const CHECK: Duration = Duration::from_secs(10);

pub(super) async fn changes(
    State(service): App,
    opened: Opened,
    Extension(running): Extension<Arc<Running>>,
    headers: HeaderMap,
) -> Page {
    running.become_stream(&service)?;
    let watch = opened.memory.watch().await;
    let events = stream::unfold((watch, opened, running), move |(mut watch, opened, running)| {
        let (service, headers) = (Arc::clone(&service), headers.clone());
        async move {
            let token = running.token();
            let event = tokio::select! {
                changes = watch.next() => changes.map(|_| Event::default().event("change").data("changed"))?,
                () = sleep(CHECK) => Event::default().comment(""),
                () = service.streams_ended(&token) => return None,
            };
            let (visitor, _) = Visitor::of(&service, &headers)?;
            visitor.caller.check(Right::Read, Some(&opened.open.name)).ok()?;
            Some((Ok::<_, Infallible>(event), (watch, opened, running)))
        }
    });
    Ok(Sse::new(events).into_response())
}
