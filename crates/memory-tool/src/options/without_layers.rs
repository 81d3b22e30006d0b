//! The options of a memory without the feature `layers`.

use std::time::Duration;

use memory_tool_core::Actor;

/// The options that a builder uses without layers.
#[derive(Default)]
pub(crate) struct MemoryOptions {
    pub(crate) must_exist: bool,
    pub(crate) read_only: bool,
    pub(crate) dry_run: bool,
    pub(crate) timeout: Option<Duration>,
    pub(crate) gc_every: Option<Duration>,
    pub(crate) create_overwrites: bool,
    pub(crate) max_view_characters: Option<Option<usize>>,
    pub(crate) actor: Option<Actor>,
}
