//! [`LimitedStore`]: a store that holds no more than it may.

use async_trait::async_trait;
use memory_tool_core::{
    Batch, Capacity, CapacityMeasure, Change, Expected, FileEntry, Found, HookedStore, MemoryPath, Node, Store,
    StoreError,
};

use super::policy::Limits;

/// Any store, with [`Limits`] to what it holds.
///
/// ```
/// use memory_tool_core::{Engine, InMemoryStore, MemoryTool};
/// use memory_tool_policies::{LimitedStore, Limits};
/// use serde_json::json;
///
/// # let runtime = tokio::runtime::Builder::new_current_thread().build()?;
/// # runtime.block_on(async {
/// let tool = Engine::new(LimitedStore::new(InMemoryStore::new(), Limits::default().with_files(1)));
/// tool.call(json!({"command": "create", "path": "/memories/a.txt", "file_text": "Hello"})).await?;
/// let refused = tool.call(json!({"command": "create", "path": "/memories/b.txt", "file_text": "Hello"})).await;
/// assert_eq!(
///     refused.unwrap_err().to_string(),
///     "Error: The memory would have 2 files. It may have up to 1, and 0 more fit in: delete or merge files first",
/// );
/// # Ok::<(), memory_tool_core::Error>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Behavior
/// 1. What would add to something that is limited, beyond its limit, is [refused](StoreError::Refused) whole. The reason says what
///    the limit is, what was asked for, how much is left and what to do; the numbers are those of the moment of the refusal.
/// 2. The store beneath judges it in the same step in which it makes the change: so those that write at once never pass a limit
///    together, in as many tasks, processes and machines as there may be. All of them have to write through the limits: what others
///    write is counted, but not refused.
/// 3. What is over its limits already, because it is older than they are, can be read, edited without getting longer, moved where it
///    lies no deeper, and removed.
/// 4. The other preconditions of a batch come first, and the limits before its changes. A [`Capacity`] that comes with the batch is
///    handed on, and so is its own [error](StoreError::OverCapacity).
/// 5. Nothing is kept here and nothing read: another limit holds as soon as a store with it is made.
///
/// Over a [`ScopedStore`](crate::ScopedStore) it limits one tenant, beneath it all of them together, and then its numbers are those
/// of all. Each store of a [`MountedStore`](crate::MountedStore) is limited by itself, before it is mounted. Over an encrypted store it
/// counts what files hold, beneath it what they take.
#[derive(Clone, Debug)]
pub struct LimitedStore<S> {
    inner: S,
    limits: Limits,
}

impl<S: Store> LimitedStore<S> {
    /// `inner`, which from now on takes what the limits allow.
    pub fn new(inner: S, limits: Limits) -> Self {
        Self { inner, limits }
    }

    /// The store beneath.
    pub fn inner(&self) -> &S {
        &self.inner
    }

    /// How much it may hold.
    pub fn limits(&self) -> &Limits {
        &self.limits
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl<S: Store> Store for LimitedStore<S> {
    async fn read(&self, path: &MemoryPath) -> Result<Node, StoreError> {
        self.inner.read(path).await
    }

    async fn list(&self, directory: &MemoryPath) -> Result<Vec<FileEntry>, StoreError> {
        self.inner.list(directory).await
    }

    async fn read_or_list(&self, path: &MemoryPath) -> Result<Found, StoreError> {
        self.inner.read_or_list(path).await
    }

    async fn read_if(&self, path: &MemoryPath, preconditions: &[(MemoryPath, Expected)]) -> Result<Node, StoreError> {
        self.inner.read_if(path, preconditions).await
    }

    async fn apply(&self, batch: Batch) -> Result<(), StoreError> {
        let capacity = self.limits.capacity();
        if capacity == Capacity::new() || !batch.changes().iter().any(may_add) {
            return self.inner.apply(batch).await;
        }
        let batch = batch.require(MemoryPath::root(), Expected::Capacity(capacity.clone()));
        self.inner.apply(batch).await.map_err(|error| if is_of(&capacity, &error) { refusal(error) } else { error })
    }

    fn hooked(&self) -> Option<&dyn HookedStore> {
        None
    }
}

/// Whether a change may add to what is limited. A rename adds to the depth alone.
fn may_add(change: &Change) -> bool {
    match change {
        Change::Write { .. } => true,
        Change::Remove { .. } => false,
        Change::Rename { from, to } => to.segments().count() > from.segments().count(),
    }
}

/// Whether it is this capacity of the whole store that a batch would pass. It may have come with another one.
fn is_of(capacity: &Capacity, error: &StoreError) -> bool {
    let StoreError::OverCapacity { path, measure, limit, .. } = error else { return false };
    let own = match measure {
        CapacityMeasure::Files => capacity.files,
        CapacityMeasure::Bytes => capacity.bytes,
        CapacityMeasure::FileBytes => capacity.file_bytes,
        CapacityMeasure::Depth => capacity.depth,
        _ => None,
    };
    path.is_root() && own == Some(*limit)
}

/// The refusal in words for the model.
fn refusal(error: StoreError) -> StoreError {
    let StoreError::OverCapacity { path, measure, limit, asked, left } = error else { return error };
    let [limit, asked, left] = [limit, asked, left].map(grouped);
    let reason = match measure {
        CapacityMeasure::Files => format!(
            "The memory would have {asked} files. It may have up to {limit}, and {left} more fit in: delete or merge files first"
        ),
        CapacityMeasure::Bytes => format!(
            "The memory would have {asked} bytes. It may have up to {limit}, and {left} more fit in: shorten or delete files first"
        ),
        CapacityMeasure::FileBytes => format!(
            "The file would have {asked} bytes. In this memory a file may have up to {limit} bytes, and {left} more fit in: \
             split it, or leave out what is no longer needed"
        ),
        CapacityMeasure::Depth => format!(
            "A file would lie {asked} levels deep. In this memory it may lie up to {limit} levels deep: use fewer directories"
        ),
        _ => format!("There would be {asked} {measure}. There may be up to {limit}, and {left} more fit in"),
    };
    StoreError::Refused { path, reason }
}

/// The number with commas between thousands.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut grouped = String::with_capacity(digits.len() * 4 / 3);
    for (index, digit) in digits.char_indices() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_grouped_by_thousands() {
        for (number, expected) in
            [(0, "0"), (999, "999"), (1_000, "1,000"), (102_400, "102,400"), (1_234_567, "1,234,567")]
        {
            assert_eq!(grouped(number), expected);
        }
    }
}
