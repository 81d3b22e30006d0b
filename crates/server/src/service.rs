//! [`Service`]: the state that the fronts share.

use std::io;
use std::sync::Arc;

use axum::routing::MethodRouter;

use crate::http::gate::Gate;
use crate::memories::Memories;
use crate::options::{Listen, ServerOptions};

/// The state that the fronts share.
#[derive(Debug)]
pub(crate) struct Service {
    pub(crate) gate: Arc<Gate>,
    pub(crate) memories: Arc<Memories>,
}

impl Service {
    /// The service at an address. Reads the tokens.
    pub(crate) fn new(options: &ServerOptions, address: &Listen) -> io::Result<Self> {
        let (gate, memories) = (Gate::new(options, address)?, Memories::new(options));
        Ok(Self { gate: Arc::new(gate), memories: Arc::new(memories) })
    }
}

/// Paths and their methods.
pub(crate) type Routes = Vec<(&'static str, MethodRouter<Arc<Service>>)>;
