//! The preconditions of a read, for a store that cannot hand them on to the one below.

use memory_tool_core::{ReadOptions, Store, StoreError};

/// Reads each path that the options name, and checks its precondition on what is there.
///
/// Call it after the reading: then each precondition held at a moment between the reading and the end of the call.
pub(crate) async fn check_after_read<S: Store>(store: &S, options: &ReadOptions) -> Result<(), StoreError> {
    for (path, precondition) in options.preconditions() {
        let found = store.read_opts(path, ReadOptions::new()).await?;
        precondition.check(path, &found.stat())?;
    }
    Ok(())
}
