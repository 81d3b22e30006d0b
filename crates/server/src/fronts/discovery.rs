//! The document that leads clients of MCP to the identity provider (RFC 9728).

use axum::Json;
use axum::routing::{MethodRouter, get};
use serde_json::json;

use crate::access::issuer::Resource;

/// The paths of the document: of the server, and of `/mcp` in it.
pub(super) const PATHS: [&str; 2] = ["/.well-known/oauth-protected-resource", Resource::METADATA];

/// The document about `/mcp`.
pub(super) fn document(resource: &Resource) -> MethodRouter {
    let document = json!({
        "resource": resource.address(),
        "authorization_servers": [resource.issuer().as_str()],
        "bearer_methods_supported": ["header"],
        "resource_name": "memory-tool",
    });
    get(async move || Json(document))
}
