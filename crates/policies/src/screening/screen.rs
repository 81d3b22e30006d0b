//! [`Screen`]: accepts, refuses or redacts new text.

use std::fmt;
use std::sync::Arc;

use memory_tool_core::StorePath;

/// Accepts, refuses or redacts each text as it would be stored, and accepts or refuses each new path.
///
/// [`SensitiveData`](crate::SensitiveData) is the implementation in this crate. An example of your own:
///
/// ```
/// use memory_tool_core::{Engine, InMemoryStore, MemoryTool, StorePath};
/// use memory_tool_policies::{Refusal, Screen, ScreenedStore, Verdict};
///
/// /// Redacts the name of an unannounced project.
/// #[derive(Debug)]
/// struct Unannounced(&'static str);
///
/// impl Screen for Unannounced {
///     fn screen_path(&self, path: &StorePath) -> Result<(), Refusal> {
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
/// # Requirements for every method
/// 1. The same arguments always give the same verdict.
/// 2. The time is proportional to the length of the input, for any input, and the method does not block: it runs in
///    [`Store::apply`](memory_tool_core::Store::apply), on the thread of the caller.
/// 3. Reasons and marks do not repeat refused or redacted text. The model reads both, and they may be logged.
pub trait Screen: fmt::Debug + Send + Sync + 'static {
    /// Checks a new path. `/memories` must be accepted.
    ///
    /// # Errors
    /// Returns [`Refusal`] if nothing may be stored at this path. Names cannot be redacted, because Claude would not
    /// find the file again.
    fn screen_path(&self, path: &StorePath) -> Result<(), Refusal>;

    /// Checks the whole new `text` of a file. `before` is its current text, which is empty for a new file.
    ///
    /// # Requirements
    /// 1. A value in `text` that is also in `before` is accepted. A file from before the policy can then be edited, and
    ///    cleaned step by step.
    /// 2. A value that the edit completes, for example from two halves, is not accepted.
    /// 3. Text that is accepted with an empty `before` is accepted with any `before`. The store then does not have to
    ///    read it each time.
    /// 4. Redacted text is accepted when it is checked again with the same `before`.
    fn screen_text(&self, text: &str, before: &str) -> Verdict;
}

#[deny(clippy::missing_trait_methods)]
impl<S: Screen + ?Sized> Screen for Arc<S> {
    fn screen_path(&self, path: &StorePath) -> Result<(), Refusal> {
        (**self).screen_path(path)
    }

    fn screen_text(&self, text: &str, before: &str) -> Verdict {
        (**self).screen_text(text, before)
    }
}

/// The decision of a [`Screen`] about new text.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum Verdict {
    /// Store the text unchanged.
    Accept,
    /// Store nothing.
    Refuse(Refusal),
    /// Store another text instead.
    Redact {
        /// The text with visible marks in place of values, such as `[redacted: AWS secret access key]`.
        text: String,
    },
}

/// The reason for not storing text or a name, written for the model.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("{reason}")]
#[non_exhaustive]
pub struct Refusal {
    /// Full sentences that also say what would be allowed.
    pub reason: String,
}

impl Refusal {
    /// Creates a refusal. `reason` should also say what would be allowed, in full sentences.
    pub fn new(reason: impl Into<String>) -> Self {
        Self { reason: reason.into() }
    }
}
