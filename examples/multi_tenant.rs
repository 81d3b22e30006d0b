//! An HTTP service for many tenants, which takes the tenant only from the bearer token.
//! Run it: `cargo run -p examples --example multi_tenant`
//!
//! Set `TOKENS='{"token-a": "alice", "token-b": "ben"}'` first. A request:
//! `curl 127.0.0.1:8080/memory -H 'authorization: Bearer token-a' -d '{"command": "view", "path": "/memories"}'`

#![allow(clippy::print_stderr, clippy::print_stdout, reason = "an example prints")]

use std::collections::HashMap;
use std::sync::Arc;

use axum::body::Bytes;
use axum::extract::{FromRequestParts, State};
use axum::http::header::{AUTHORIZATION, HeaderName, WWW_AUTHENTICATE};
use axum::http::{StatusCode, request::Parts};
use axum::routing::post;
use axum::{Json, Router};
use memory_tool::api::{ToolResult, ToolUse};
use memory_tool::policies::{Scope, ScopeError, ScopedStore};
use memory_tool::sqlite::SqliteStore;
use memory_tool::{BoxError, Engine, Error, MemoryTool, Store};
use sha2::{Digest, Sha256};

/// State that all requests share.
struct Service {
    store: Arc<dyn Store>,
    /// Keyed by token digest, so that no token is kept and the lookup time reveals nothing about other tokens.
    tenants: HashMap<[u8; 32], Scope>,
}

/// The tenant of an authenticated request. As an extractor it rejects other requests with status 401.
struct Tenant(Scope);

impl FromRequestParts<Arc<Service>> for Tenant {
    type Rejection = (StatusCode, [(HeaderName, &'static str); 1]);

    async fn from_request_parts(parts: &mut Parts, service: &Arc<Service>) -> Result<Self, Self::Rejection> {
        let header = parts.headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok());
        let token = header.and_then(|value| value.strip_prefix("Bearer "));
        let tenant = token.and_then(|token| service.tenants.get(&digest(token)));
        tenant.cloned().map(Self).ok_or((StatusCode::UNAUTHORIZED, [(WWW_AUTHENTICATE, "Bearer")]))
    }
}

fn digest(token: &str) -> [u8; 32] {
    Sha256::digest(token).into()
}

/// Runs a `tool_use` block, or only its `input`, and returns a `tool_result` block.
async fn answer(State(service): State<Arc<Service>>, Tenant(scope): Tenant, body: Bytes) -> Json<ToolResult> {
    let call = match ToolUse::parse(&body) {
        Ok(call) => call,
        Err(rejected) => return Json(rejected.into()),
    };
    let tool = Engine::new(ScopedStore::new(Arc::clone(&service.store), scope.clone()));
    let outcome = tool.call(call.input).await;
    if let Err(error @ Error::Storage { .. }) = &outcome {
        eprintln!("{scope}: {error:?}"); // with the causes, which the model does not see
    }
    Json(ToolResult::new(call.id, &outcome))
}

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    let tokens: HashMap<String, String> =
        serde_json::from_str(&std::env::var("TOKENS").map_err(|_| "TOKENS is not set")?)?;
    let tenant_of = |(token, name): (String, String)| Ok((digest(&token), Scope::from_trusted_name(&name)?));
    let tenants = tokens.into_iter().map(tenant_of).collect::<Result<_, ScopeError>>()?;
    let service = Service { store: Arc::new(SqliteStore::open("./memory.sqlite").await?), tenants };
    let router = Router::new().route("/memory", post(answer)).with_state(Arc::new(service));
    // The default is reachable only from this machine. Put TLS in front before you open it to others.
    let address = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:8080".to_owned());
    let listener = tokio::net::TcpListener::bind(address).await?;
    println!("listening on {}", listener.local_addr()?);
    Ok(axum::serve(listener, router).await?)
}
