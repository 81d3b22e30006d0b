//! Connections, requests and their limits. Nothing here knows of memories.

pub(crate) mod admission;
pub(crate) mod connections;
pub(crate) mod error;
pub(crate) mod gate;
pub(crate) mod hosts;
pub(crate) mod json;
pub(crate) mod listener;
pub(crate) mod metrics;
pub(crate) mod offload;
pub(crate) mod path;
pub(crate) mod proxies;
pub(crate) mod remainder;
pub(crate) mod tls;
