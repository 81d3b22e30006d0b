//! `/memory/{id}/live`: an event for each change, so that a page can show it.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::{Extension, State};
use axum::http::HeaderMap;
use axum::response::IntoResponse as _;
use axum::response::sse::{Event, Sse};
use futures::{StreamExt as _, stream};
use tokio::time::{Instant, sleep, sleep_until};

use super::{App, Page, VisitedMemory, Visitor, past};
use crate::access::{Caller, Right};
use crate::http::gate::Running;
use crate::memories::tree_watch::TreeWatch;

/// The time after which the session is checked again. The event keeps the connection open.
const CHECK: Duration = Duration::from_secs(10);

/// The end of a stream, after which the browser opens another. A proxy may hold a stream that has no reader.
const LIFETIME: Duration = Duration::from_secs(120);
const REOPENING: Duration = Duration::from_millis(500);

/// Sends the state of the memory first, because others may have changed it while there was no stream.
pub(super) async fn changes(
    State(app): App,
    visited: VisitedMemory,
    Extension(running): Extension<Arc<Running>>,
    headers: HeaderMap,
) -> Page {
    running.become_stream(&app.gate)?;
    let (watch, end) = (TreeWatch::through(&visited.door).await, Instant::now() + LIFETIME);
    let first = Event::default().event("state").data(past::state(&visited).await).retry(REOPENING);
    let events = stream::unfold((watch, visited, running), move |(mut watch, visited, running)| {
        let (app, headers) = (Arc::clone(&app), headers.clone());
        async move {
            let token = running.token();
            let event = tokio::select! {
                changes = watch.next() => {
                    changes?;
                    Event::default().event("change").data(past::state(&visited).await)
                }
                () = sleep(CHECK) => Event::default().comment(""),
                () = sleep_until(end) => return None,
                () = app.gate.stream_ended(&token, |caller| can_read(caller, &visited)) => return None,
            };
            let visitor = Visitor::of(&app, &headers)?;
            can_read(&visitor.caller, &visited).then_some(())?;
            Some((Ok::<_, Infallible>(event), (watch, visited, running)))
        }
    });
    let events = stream::once(async { Ok(first) }).chain(events);
    // nginx would wait for the end.
    Ok(([("x-accel-buffering", "no")], Sse::new(events)).into_response())
}

fn can_read(caller: &Caller, visited: &VisitedMemory) -> bool {
    caller.check(Right::Read, Some(&visited.visit.open.name)).is_ok()
}
