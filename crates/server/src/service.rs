//! [`Service`]: what all handlers share.

use crate::memories::Memories;

/// What all handlers share.
#[derive(Debug)]
pub(crate) struct Service {
    pub(crate) memories: Memories,
}
