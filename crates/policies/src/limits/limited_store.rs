//! [`LimitedStore`]: a store that holds no more than it may.

use async_trait::async_trait;
use memory_tool_core::{
    Batch, Change, MemoryPath, Node, Quota, QuotaKind, ReadOptions, RecordName, Store, StoreError, StoredFile,
};

/// Any store, with a [`Quota`] for all that it holds. [`default_quota`](crate::default_quota) suits an agent.
///
/// ```
/// use memory_tool_core::{Engine, InMemoryStore, MemoryTool};
/// use memory_tool_policies::{LimitedStore, default_quota};
/// use serde_json::json;
///
/// # let runtime = tokio::runtime::Builder::new_current_thread().build()?;
/// # runtime.block_on(async {
/// let tool = Engine::new(LimitedStore::new(InMemoryStore::new(), default_quota().with_files(1)));
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
/// 1. A batch that would exceed a limit is [refused](StoreError::Refused) whole. The reason names the limit, what was asked for,
///    how much is left and what to do; the numbers are those of the moment of the refusal.
/// 2. The store below checks the quota in the step in which it makes the change. So concurrent writers never exceed a limit
///    together, in any number of tasks, processes and machines. All of them have to write through the limits: what others write is
///    counted, but not refused.
/// 3. Files that exceed the limits already, because they are older, can be read, edited without getting longer, moved to where
///    they lie no deeper, and removed.
/// 4. The preconditions of a batch are checked before the limits, and the limits before its changes. A quota that comes with the
///    batch is handed on, and its [error](StoreError::OverQuota) is returned as it is.
/// 5. This store keeps and reads nothing: to change a limit, make another one.
/// 6. Records, which policies keep in the store for themselves, are not counted.
///
/// Over a `ScopedStore` it limits one tenant; under it, all tenants together. Each store of a `MountedStore` is limited by itself,
/// before it is mounted. Over an encrypted store it counts the contents of files; under it, what they take in storage.
#[derive(Clone, Debug)]
pub struct LimitedStore<S> {
    inner: S,
    quota: Quota,
}

impl<S: Store> LimitedStore<S> {
    /// Limits `inner` to `quota`.
    pub fn new(inner: S, quota: Quota) -> Self {
        Self { inner, quota }
    }

    /// The store below.
    pub fn inner(&self) -> &S {
        &self.inner
    }

    /// How much it may hold.
    pub fn quota(&self) -> Quota {
        self.quota
    }
}

#[async_trait]
impl<S: Store> Store for LimitedStore<S> {
    async fn read_opts(&self, path: &MemoryPath, options: ReadOptions) -> Result<Node, StoreError> {
        self.inner.read_opts(path, options).await
    }

    async fn read_record(&self, name: &RecordName) -> Result<Option<StoredFile>, StoreError> {
        self.inner.read_record(name).await
    }

    async fn apply(&self, batch: Batch) -> Result<(), StoreError> {
        if self.quota == Quota::new() || !batch.changes().iter().any(may_add) {
            return self.inner.apply(batch).await;
        }
        let limited = batch.limit(MemoryPath::root(), self.quota);
        self.inner.apply(limited).await.map_err(|error| if is_of(self.quota, &error) { refusal(error) } else { error })
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

/// Whether it is this quota of the whole store that the batch exceeds. It may have come with another one.
fn is_of(quota: Quota, error: &StoreError) -> bool {
    let StoreError::OverQuota { path, kind, limit, .. } = error else { return false };
    let own = match kind {
        QuotaKind::Files => quota.files,
        QuotaKind::Bytes => quota.bytes,
        QuotaKind::FileBytes => quota.file_bytes,
        QuotaKind::Depth => quota.depth,
        _ => None,
    };
    path.is_root() && own == Some(*limit)
}

/// The refusal in words for the model.
fn refusal(error: StoreError) -> StoreError {
    let StoreError::OverQuota { path, kind, limit, asked, left } = error else { return error };
    let [limit, asked, left] = [limit, asked, left].map(grouped);
    let reason = match kind {
        QuotaKind::Files => format!(
            "The memory would have {asked} files. It may have up to {limit}, and {left} more fit in: delete or merge files first"
        ),
        QuotaKind::Bytes => format!(
            "The memory would have {asked} bytes. It may have up to {limit}, and {left} more fit in: shorten or delete files first"
        ),
        QuotaKind::FileBytes => format!(
            "The file would have {asked} bytes. In this memory a file may have up to {limit} bytes, and {left} more fit in: \
             split it, or leave out what is no longer needed"
        ),
        QuotaKind::Depth => format!(
            "A file would lie {asked} levels deep. In this memory it may lie up to {limit} levels deep: use fewer directories"
        ),
        _ => format!("There would be {asked} {kind}. There may be up to {limit}, and {left} more fit in"),
    };
    StoreError::refused(&path, "limits", reason)
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
