//! Preconditions of a read, for stores that cannot pass them to the inner store.

use memory_tool_core::{ReadOptions, Store, StoreError};

/// Reads each path named in the options and checks its precondition.
///
/// Call it after the read. Each precondition then held at some point between the read and the end of this call.
pub(crate) async fn check_after_read<S: Store>(store: &S, options: &ReadOptions) -> Result<(), StoreError> {
    for (path, precondition) in options.preconditions() {
        let found = store.read_opts(path, ReadOptions::new()).await?;
        precondition.check(path, &found.stat())?;
    }
    Ok(())
}
