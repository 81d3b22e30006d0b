//! [`Screen`]: decides what may enter a memory.

use std::fmt;
use std::sync::Arc;

use memory_tool_core::MemoryPath;

/// Decides what may enter a memory: each new path, and each text as it would be stored.
///
/// [`SensitiveData`](crate::SensitiveData) is one that comes with this crate. A screen of your own:
///
/// ```
/// use memory_tool_core::{Engine, InMemoryStore, MemoryPath, MemoryTool};
/// use memory_tool_policies::{Refusal, Screen, ScreenedStore, Verdict};
///
/// /// Keeps the name of a project that is not announced yet out of memory.
/// #[derive(Debug)]
/// struct Unannounced(&'static str);
///
/// impl Screen for Unannounced {
///     fn screen_path(&self, path: &MemoryPath) -> Result<(), Refusal> {
///         if path.as_str().contains(self.0) {
///             return Err(Refusal::new("The name mentions an unannounced project. Choose another."));
///         }
///         Ok(())
///     }
///
///     fn screen_text(&self, text: &str, before: &str) -> Verdict {
///         if !text.contains(self.0) || before.contains(self.0) {
///             return Verdict::Accept;
///         }
///         Verdict::Redact { text: text.replace(self.0, "[redacted: unannounced project]") }
///     }
/// }
///
/// # let runtime = tokio::runtime::Builder::new_current_thread().build()?;
/// # runtime.block_on(async {
/// let tool = Engine::new(ScreenedStore::new(InMemoryStore::new(), Unannounced("Bluebird")));
/// let input = serde_json::json!({"command": "create", "path": "/memories/a.txt", "file_text": "On Bluebird."});
/// tool.call(input).await?;
/// let reply = tool.call(serde_json::json!({"command": "view", "path": "/memories/a.txt"})).await?;
/// assert!(reply.to_string().ends_with("On [redacted: unannounced project]."));
///
/// let input = serde_json::json!({"command": "create", "path": "/memories/Bluebird.txt", "file_text": ""});
/// let error = tool.call(input).await.unwrap_err();
/// assert_eq!(error.to_string(), "Error: The name mentions an unannounced project. Choose another.");
/// # Ok::<(), memory_tool_core::Error>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # What holds for every method
/// 1. The same arguments always have the same verdict.
/// 2. It takes time in proportion to what it is given, whatever that is, and waits for nothing: it runs within
///    [`Store::apply`](memory_tool_core::Store::apply), on the thread of the caller.
/// 3. No reason and no mark repeats what is being kept out. Both are shown to the model, and may be logged.
pub trait Screen: fmt::Debug + Send + Sync + 'static {
    /// Judges a path that would be new.
    ///
    /// # Behavior
    /// 1. `/memories` itself is accepted.
    ///
    /// # Errors
    /// [`Refusal`] where nothing may be stored there. A name cannot be redacted: whoever wrote it would not find the file again.
    fn screen_path(&self, path: &MemoryPath) -> Result<(), Refusal>;

    /// Judges the whole `text` that a file would hold. `before` is the text that it holds, and is empty for a new file.
    ///
    /// # Behavior
    /// 1. What is objectionable in `text` and was so in `before` is accepted as it is: a file from before the policy can still be
    ///    edited, and cleaned step by step.
    /// 2. What became objectionable by the edit is not, be it that the edit joined two harmless halves.
    /// 3. What is accepted where `before` is empty is accepted whatever `before` is. So a store need not read it each time.
    /// 4. A redacted text is accepted when it is judged again with the same `before`.
    fn screen_text(&self, text: &str, before: &str) -> Verdict;
}

#[deny(clippy::missing_trait_methods)]
impl<S: Screen + ?Sized> Screen for Arc<S> {
    fn screen_path(&self, path: &MemoryPath) -> Result<(), Refusal> {
        (**self).screen_path(path)
    }

    fn screen_text(&self, text: &str, before: &str) -> Verdict {
        (**self).screen_text(text, before)
    }
}

/// What a [`Screen`] says of a text.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum Verdict {
    /// It is stored byte for byte.
    Accept,
    /// Nothing is stored.
    Refuse(Refusal),
    /// Another text is stored in its place.
    Redact {
        /// The text with a visible mark where something was taken out, such as `[redacted: AWS secret access key]`.
        text: String,
    },
}

/// Why something may not be stored, in words for the model.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("{reason}")]
#[non_exhaustive]
pub struct Refusal {
    /// A sentence without a full stop that says what would be allowed.
    pub reason: String,
}

impl Refusal {
    /// A refusal for `reason`, a sentence without a full stop that says what would be allowed.
    pub fn new(reason: impl Into<String>) -> Self {
        Self { reason: reason.into() }
    }
}
