//! [`ScreenedStore`]: a store that screens new text and names.

use async_trait::async_trait;
use memory_tool_core::{Batch, Change, Node, Precondition, ReadOptions, Store, StoreError, StorePath, Version};

use crate::screening::readings::{Reading, utf8};
use crate::screening::screen::{Refusal, Screen, Verdict};

/// A store that checks each text and each new name with a [`Screen`] before storing it.
///
/// Commands, imports and copies all write batches, so every text passes through here. It is screened as a whole, as it
/// would be stored.
///
/// ```
/// use memory_tool_core::{Engine, InMemoryStore, MemoryTool};
/// use memory_tool_policies::{ScreenedStore, SensitiveData};
///
/// # let runtime = tokio::runtime::Builder::new_current_thread().build()?;
/// # runtime.block_on(async {
/// let tool = Engine::new(ScreenedStore::new(InMemoryStore::new(), SensitiveData::new()));
/// let text = "Staging\npostgres://app:t7Kq-9vLz2@db.internal/app\n";
/// let input = serde_json::json!({"command": "create", "path": "/memories/db.txt", "file_text": text});
/// assert_eq!(
///     tool.call(input).await.unwrap_err().to_string(),
///     "Error: The text was not stored because it contains sensitive data: password in a URL (line 2). \
///      Leave the value out, or note where to find it.",
/// );
/// # });
/// # Ok::<(), std::io::Error>(())
/// ```
///
/// # Behavior
/// 1. If one text or name is refused, the batch is refused as a whole and nothing changes. Accepted text is stored byte
///    for byte.
/// 2. New names are screened: the path of a write that does not [require](Precondition::Version) an existing file, and
///    the new path of a rename. The names under a renamed directory are not new.
/// 3. A write that requires a version is an edit. Text that was already in that file does not count against it. Any
///    other write is screened as the text of a new file, even if it replaces one.
/// 4. Content that is not UTF-8 is screened as text with replacement characters, as UTF-16 if it is valid, and without
///    bytes of zero. Invisible characters, such as soft hyphens, do not hide a value. If the screen would redact such
///    content, it is refused, because its bytes cannot be restored from that text.
/// 5. Reads are not screened, so a memory from before the policy stays readable. Records of other policies are not
///    screened.
/// 6. Screening comes before the preconditions, so a batch that would also fail a precondition may be refused.
/// 7. The reply to a command does not mention a redaction. The next `view` shows the marks.
///
/// Put it over [encryption](https://docs.rs/memory-tool-encrypted), which hides the text, and over an `AuditedStore`.
///
/// # Costs
/// With [`SensitiveData`](crate::SensitiveData), 4 to 10 µs per KB of the whole text with the default detectors and 12
/// to 20 µs with all of them, on one core; up to 350 µs per KB on text made to be slow. An edit of a file with a
/// finding costs one more read, and the old text is screened as well.
#[derive(Clone, Debug)]
pub struct ScreenedStore<S, C> {
    inner: S,
    screen: C,
}

impl<S: Store, C: Screen> ScreenedStore<S, C> {
    /// Screens writes to `inner` with `screen`.
    pub fn new(inner: S, screen: C) -> Self {
        Self { inner, screen }
    }

    /// The inner store.
    pub fn inner(&self) -> &S {
        &self.inner
    }

    /// Returns the batch with redacted contents.
    async fn screen(&self, mut batch: Batch) -> Result<Batch, StoreError> {
        for change in batch.changes() {
            if let Change::Rename { to, .. } = change
                && !to.is_record()
            {
                self.screen_path(to)?;
            }
        }
        let preconditions = batch.preconditions().to_vec();
        for (path, content) in batch.contents_mut() {
            let version = required_version(&preconditions, path);
            *content = self.screen_write(path, std::mem::take(content), version).await?;
        }
        Ok(batch)
    }

    /// Returns the content to write instead of `content`.
    async fn screen_write(
        &self,
        path: &StorePath,
        content: Vec<u8>,
        version: Option<&Version>,
    ) -> Result<Vec<u8>, StoreError> {
        let Some(version) = version else {
            self.screen_path(path)?;
            return self.screen_content(path, content, &[]);
        };
        // The old text is only read if something is found in the new one, which is rare.
        if self.accepts(&content) {
            return Ok(content);
        }
        let before = self.read_at(path, version).await?;
        self.screen_content(path, content, &before)
    }

    /// Whether the content is accepted as the content of a new file.
    fn accepts(&self, content: &[u8]) -> bool {
        let accepts = |text: &str| self.screen.screen_text(text, "") == Verdict::Accept;
        accepts(&utf8(content)) && Reading::all(content).all(|reading| accepts(&reading.text(content)))
    }

    fn screen_content(&self, path: &StorePath, content: Vec<u8>, before: &[u8]) -> Result<Vec<u8>, StoreError> {
        let content = match self.screen.screen_text(&utf8(&content), &utf8(before)) {
            Verdict::Accept => content,
            Verdict::Refuse(refusal) => return Err(refused(path, refusal)),
            Verdict::Redact { .. } if std::str::from_utf8(&content).is_err() => return Err(refused(path, not_text())),
            Verdict::Redact { text } => text.into_bytes(),
        };
        for reading in Reading::all(&content) {
            match self.screen.screen_text(&reading.text(&content), &reading.text(before)) {
                Verdict::Accept => {}
                Verdict::Refuse(refusal) => return Err(refused(path, refusal)),
                Verdict::Redact { .. } => return Err(refused(path, not_text())),
            }
        }
        Ok(content)
    }

    /// Screens a path. The error names the nearest accepted directory above it, because errors may be logged and must
    /// not contain the refused name.
    fn screen_path(&self, path: &StorePath) -> Result<(), StoreError> {
        self.screen.screen_path(path).map_err(|refusal| {
            let nameable = path.parents().find(|parent| self.screen.screen_path(parent).is_ok());
            refused(&nameable.unwrap_or_else(StorePath::memories), refusal)
        })
    }

    /// Reads the version that the batch requires. A different version must not affect the decision.
    async fn read_at(&self, path: &StorePath, version: &Version) -> Result<Vec<u8>, StoreError> {
        match self.inner.read_opts(path, ReadOptions::new()).await? {
            Node::File(file) if file.version == *version => Ok(file.content),
            _ => Err(StoreError::VersionMismatch { path: path.clone() }),
        }
    }
}

#[async_trait]
impl<S: Store, C: Screen> Store for ScreenedStore<S, C> {
    async fn read_opts(&self, path: &StorePath, options: ReadOptions) -> Result<Node, StoreError> {
        self.inner.read_opts(path, options).await
    }

    async fn apply(&self, batch: Batch) -> Result<(), StoreError> {
        self.inner.apply(self.screen(batch).await?).await
    }
}

fn required_version<'a>(preconditions: &'a [(StorePath, Precondition)], path: &StorePath) -> Option<&'a Version> {
    preconditions.iter().find_map(|(required, precondition)| match precondition {
        Precondition::Version(version) if required == path => Some(version),
        _ => None,
    })
}

fn refused(path: &StorePath, Refusal { reason }: Refusal) -> StoreError {
    StoreError::refused(path, "screening", reason)
}

fn not_text() -> Refusal {
    Refusal::new(
        "The file was not stored because it contains something that this memory does not accept. \
         It cannot be redacted because it is not UTF-8 text, or has invisible characters in it. Leave it out, or store \
         it as plain text.",
    )
}
