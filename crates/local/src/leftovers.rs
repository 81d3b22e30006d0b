//! Contents in `.memory-tool` that the operator must look at.

use memory_tool_core::{Problem, StoreError};

use crate::failure::failed;
use crate::layout::Layout;

/// Reports files that could not be removed, and contents that a journal set aside. The caller holds the lock, so no
/// change is being made.
pub(crate) fn problems(layout: &Layout) -> Result<Vec<Problem>, StoreError> {
    let list = || Ok((layout.staged()?, layout.set_aside()?));
    let (staged, set_aside) = list().map_err(|error| failed("listing the private directories", error))?;
    let staged = staged.iter().map(|name| {
        Problem::new(format!(
            "`.memory-tool/staging/{}` is left of a deletion or a failed write and could not be removed: check its \
             owner and permissions, then delete it",
            name.display()
        ))
    });
    let set_aside = set_aside.iter().map(|name| {
        Problem::new(format!(
            "`.memory-tool/conflicts/{}` contains text that an interrupted change could not write: move it to a file \
             of your choice, or delete it",
            name.display()
        ))
    });
    Ok(staged.chain(set_aside).collect())
}
