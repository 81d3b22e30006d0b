//! What is left in the staging directory because it could not be removed.

use memory_tool_core::{Problem, StoreError};

use crate::failure::failed;
use crate::layout::Layout;

/// The leftovers. The caller holds the lock, so no change is being made.
pub(crate) fn problems(layout: &Layout) -> Result<Vec<Problem>, StoreError> {
    let staged = layout.staged().map_err(|error| failed("listing the staging directory", error))?;
    let problem = |name: &std::ffi::OsString| {
        let message = format!(
            "`.memory-tool/staging/{}` is left of a deletion or a failed write and could not be removed: check its owner and \
             permissions, then delete it",
            name.display()
        );
        Problem::new(message)
    };
    Ok(staged.iter().map(problem).collect())
}
