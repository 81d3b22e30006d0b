//! [`ScreenedStore`]: a store that lets in what a screen accepts.

use async_trait::async_trait;
use memory_tool_core::{
    Batch, Change, MemoryPath, Node, Precondition, ReadOptions, RecordName, Store, StoreError, StoredFile, Version,
};

use crate::screening::screen::{Refusal, Screen, Verdict};

/// Any store, with a [`Screen`] before all that is written to it.
///
/// Every way by which text can enter a memory is a batch in the end: each command that edits, an import, a copy. So this is the one
/// place to screen it. The texts that a batch writes are screened whole, as they would be stored, and so are the names.
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
///     "Error: Nothing was stored. This memory does not accept sensitive data, and the text contains: \
///      password in a URL (line 2). Leave the value out, or note where to find it.",
/// );
/// # });
/// # Ok::<(), std::io::Error>(())
/// ```
///
/// # Behavior
/// 1. A batch in which one text or name is refused is refused whole, and nothing changes. What is accepted is stored byte for byte.
/// 2. A name is screened where it is new: the path of a write that does not [require](Precondition::Version) a file there, and the new
///    path of a rename. Names beneath a directory that is renamed are not new.
/// 3. A write that requires a file at a version is an edit: what was in that file before does not count against it. Any other write
///    is screened as the text of a new file, also where it replaces one.
/// 4. What is not UTF-8 is screened as text in which each malformed part is a replacement character. It is stored as it is or not at
///    all: it is refused where the screen would redact, because its bytes cannot be put together again from that text.
/// 5. What is read is not screened: a memory that was filled before the policy stays readable. Nor are records screened, which
///    other policies keep in the store for themselves.
/// 6. Screening comes before the preconditions: a batch that also fails one of them may be refused.
/// 7. The reply to a command whose text was redacted does not say so; the next `view` shows the marks.
///
/// Put it over [encryption](https://docs.rs/memory-tool-encrypted), under which there is no text to screen, and over an `AuditedStore`.
#[derive(Clone, Debug)]
pub struct ScreenedStore<S, C> {
    inner: S,
    screen: C,
}

impl<S: Store, C: Screen> ScreenedStore<S, C> {
    /// `inner`, which from now on takes what `screen` accepts.
    pub fn new(inner: S, screen: C) -> Self {
        Self { inner, screen }
    }

    /// The store beneath.
    pub fn inner(&self) -> &S {
        &self.inner
    }

    /// The batch as it may be applied: the same, but for texts that are redacted.
    async fn screen(&self, mut batch: Batch) -> Result<Batch, StoreError> {
        for change in batch.changes() {
            if let Change::Rename { to, .. } = change {
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

    /// What to write instead of `content`.
    async fn screen_write(
        &self,
        path: &MemoryPath,
        content: Vec<u8>,
        version: Option<&Version>,
    ) -> Result<Vec<u8>, StoreError> {
        let Some(version) = version else {
            self.screen_path(path)?;
            return self.screen_content(path, content, "");
        };
        // Most texts are accepted, so the text before is not read until something is found.
        if self.screen.screen_text(&String::from_utf8_lossy(&content), "") == Verdict::Accept {
            return Ok(content);
        }
        let before = self.read_at(path, version).await?;
        self.screen_content(path, content, &String::from_utf8_lossy(&before))
    }

    fn screen_content(&self, path: &MemoryPath, content: Vec<u8>, before: &str) -> Result<Vec<u8>, StoreError> {
        let text = String::from_utf8_lossy(&content);
        match self.screen.screen_text(&text, before) {
            Verdict::Accept => Ok(content),
            Verdict::Refuse(refusal) => Err(refused(path, refusal)),
            Verdict::Redact { .. } if std::str::from_utf8(&content).is_err() => Err(refused(path, not_text())),
            Verdict::Redact { text } => Ok(text.into_bytes()),
        }
    }

    /// Refuses a path by the name of the nearest directory above it that may be named: who reads the error, and be it in a log,
    /// shall not read what was kept out.
    fn screen_path(&self, path: &MemoryPath) -> Result<(), StoreError> {
        self.screen.screen_path(path).map_err(|refusal| {
            let nameable = path.parents().find(|parent| self.screen.screen_path(parent).is_ok());
            refused(&nameable.unwrap_or_else(MemoryPath::root), refusal)
        })
    }

    /// The content of the version that the batch requires. Another version would make the batch fail; it must not be what decides.
    async fn read_at(&self, path: &MemoryPath, version: &Version) -> Result<Vec<u8>, StoreError> {
        match self.inner.read_opts(path, ReadOptions::new()).await? {
            Node::File(file) if file.version == *version => Ok(file.content),
            _ => Err(StoreError::VersionMismatch { path: path.clone() }),
        }
    }
}

#[async_trait]
impl<S: Store, C: Screen> Store for ScreenedStore<S, C> {
    async fn read_opts(&self, path: &MemoryPath, options: ReadOptions) -> Result<Node, StoreError> {
        self.inner.read_opts(path, options).await
    }

    async fn read_record(&self, name: &RecordName) -> Result<Option<StoredFile>, StoreError> {
        self.inner.read_record(name).await
    }

    async fn apply(&self, batch: Batch) -> Result<(), StoreError> {
        self.inner.apply(self.screen(batch).await?).await
    }
}

fn required_version<'a>(preconditions: &'a [(MemoryPath, Precondition)], path: &MemoryPath) -> Option<&'a Version> {
    preconditions.iter().find_map(|(required, precondition)| match precondition {
        Precondition::Version(version) if required == path => Some(version),
        _ => None,
    })
}

fn refused(path: &MemoryPath, Refusal { reason }: Refusal) -> StoreError {
    StoreError::refused(path, "screening", reason)
}

fn not_text() -> Refusal {
    Refusal::new(
        "Nothing was stored. The content includes something that this memory does not accept, and it cannot be redacted \
         because it is not UTF-8 text. Leave it out, or store it as text.",
    )
}
