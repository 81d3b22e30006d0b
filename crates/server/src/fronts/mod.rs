//! The fronts: each translates requests and responses, and none imports another. They reach memories by
//! [`Visit`](crate::memories::visit::Visit).

pub(crate) mod api;
#[cfg(feature = "mcp")]
pub(crate) mod mcp;
pub(crate) mod monitors;
pub(crate) mod page;
pub(crate) mod tool;
