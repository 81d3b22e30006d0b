//! The endpoints for monitors: `/healthz`, `/readyz`, `/metrics` and `/openapi.json`.

use std::sync::Arc;

use axum::Extension;
use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse;
use axum::routing::get;
use memory_tool::store::MemoryName;

use crate::access::{Caller, Right};
use crate::http::error::ApiError;
use crate::http::metrics::{Metrics, render_gauge};
use crate::service::{Routes, Service};

/// A memory that is looked up, to see whether the storage responds.
const PROBE: &str = "readyz";

pub(super) const OPENAPI: &str = include_str!("../../openapi.json");

/// The routes that need a token.
pub(super) fn routes(recorded: Option<Metrics>) -> Routes {
    vec![
        ("/readyz", get(ready)),
        ("/metrics", get(metrics).layer(Extension(recorded))),
        ("/openapi.json", get(async || ([(CONTENT_TYPE, "application/json")], OPENAPI))),
    ]
}

async fn ready(State(service): State<Arc<Service>>) -> Result<&'static str, ApiError> {
    if service.gate.tokens.index().is_damaged() {
        return Err(ApiError::unavailable("the file of the tokens cannot be read, so no change of it has an effect"));
    }
    let probe: MemoryName = PROBE.parse().map_err(ApiError::internal)?;
    match service.memories.open(&probe).await {
        Err(error) if error.status() != StatusCode::NOT_FOUND => Err(ApiError::busy()),
        _ => Ok("ok\n"),
    }
}

/// The metrics are about all tenants.
async fn metrics(
    State(service): State<Arc<Service>>,
    Extension(recorded): Extension<Option<Metrics>>,
    Extension(caller): Extension<Caller>,
) -> Result<impl IntoResponse, ApiError> {
    caller.check(Right::Read, None)?;
    let metrics = recorded.ok_or_else(|| ApiError::not_found("this server has no metrics"))?;
    let (used, waiting) = (service.memories.used_shares().await, service.memories.waiting_seconds().await);
    let used = render_gauge("memory_server_used_share", "Use of the fullest limit of each open memory.", &used);
    let help = "How long the oldest changes that wait in each open memory have waited.";
    let waiting = render_gauge("memory_server_waiting_seconds", help, &waiting);
    Ok(([(CONTENT_TYPE, "text/plain; version=0.0.4")], (metrics.0)() + &used + &waiting))
}
