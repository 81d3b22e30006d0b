//! The Memory Stores API of Anthropic, over the memories of the server. `docs/memory-stores.md` lists the choices.
//!
//! A store is a memory. The API keeps one [record](crate::memories::record) in that memory: its display name and
//! metadata. The ids of memories are the identities of files in its history, and versions are changes of its entries.
//! There is no other database.

mod memories;
mod state;
mod stores;
mod versions;
mod wire;

use axum::extract::Request;
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use axum::routing::{get, post};

use crate::http::error::ApiError;
use crate::service::Routes;

const BETAS: [&str; 2] = ["agent-memory-2026-07-22", "managed-agents-2026-04-01"];

/// The routes of the API.
pub(crate) fn routes() -> Routes {
    vec![
        ("/v1/memory_stores", get(stores::list).post(stores::create)),
        ("/v1/memory_stores/{id}", get(stores::read).post(stores::update).delete(stores::delete)),
        ("/v1/memory_stores/{id}/archive", post(stores::archive)),
        ("/v1/memory_stores/{id}/memories", get(memories::list).post(memories::create)),
        (
            "/v1/memory_stores/{id}/memories/{memory}",
            get(memories::read).post(memories::update).patch(memories::update).delete(memories::delete),
        ),
        ("/v1/memory_stores/{id}/memory_versions", get(versions::list)),
        ("/v1/memory_stores/{id}/memory_versions/{version}", get(versions::read)),
        ("/v1/memory_stores/{id}/memory_versions/{version}/redact", post(versions::redact)),
    ]
}

/// The SDKs append the new version of the API to what their caller passes, so both together mean the new one only if
/// the new one is last, as the SDKs send it.
pub(crate) async fn check_betas(request: Request, next: Next) -> Response {
    let values = request.headers().get_all("anthropic-beta").into_iter().filter_map(|value| value.to_str().ok());
    let betas: Vec<_> = values.flat_map(|value| value.split(',')).map(str::trim).collect();
    let known: Vec<_> = betas.iter().filter(|beta| BETAS.contains(beta)).collect();
    let is_mixed = known.contains(&&BETAS[0]) && known.contains(&&BETAS[1]);
    if is_mixed && betas.last() != Some(&BETAS[0]) {
        let message = format!("anthropic-beta: {} and {} exclude each other", BETAS[0], BETAS[1]);
        return ApiError::invalid(message).into_response();
    }
    next.run(request).await
}
