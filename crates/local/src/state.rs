//! [`State`]: the state of the store that preconditions are checked against.

use memory_tool_core::{MemoryPath, RecordName, Stat, StoreError, StoreState, Usage, Version};

use crate::layout::Layout;
use crate::records;
use crate::tree::Tree;

/// The files and records of a locked store.
pub(crate) struct State<'a> {
    pub(crate) layout: &'a Layout,
    pub(crate) tree: &'a Tree<'a>,
}

impl StoreState for State<'_> {
    fn stat(&self, path: &MemoryPath) -> Result<Stat, StoreError> {
        self.tree.stat(path)
    }

    fn usage(&self, path: &MemoryPath) -> Result<Usage, StoreError> {
        self.tree.usage(path)
    }

    fn record(&self, name: &RecordName) -> Result<Option<Version>, StoreError> {
        Ok(records::read(self.layout, name)?.map(|record| record.version))
    }
}
