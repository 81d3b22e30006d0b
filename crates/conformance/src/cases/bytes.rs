//! Helpers for the cases that use a [`Store`] directly.

use memory_tool_core::{Batch, Node, Store, StoreError, StoreExt, StorePath};

use crate::failure::{CaseError, Failure, check};

pub(crate) fn path(text: &str) -> Result<StorePath, CaseError> {
    Ok(text.parse()?)
}

/// A batch that writes one file.
pub(crate) fn write(text: &str, content: impl Into<Vec<u8>>) -> Result<Batch, CaseError> {
    Ok(Batch::new().write(path(text)?, content))
}

/// The content of a file, which must exist.
pub(crate) async fn content(store: &dyn Store, text: &str) -> Result<Vec<u8>, CaseError> {
    match store.read(&path(text)?).await? {
        Node::File(file) => Ok(file.content),
        other => Err(Failure::new(format!("expected a file at {text}, got {other:?}")).into()),
    }
}

pub(crate) async fn expect_content(store: &dyn Store, text: &str, expected: &[u8]) -> Result<(), CaseError> {
    let got = content(store, text).await?;
    check(got == expected, || format!("{text} holds {:?} instead of {:?}", shown(&got), shown(expected)))
}

/// Checks that an operation was refused with the expected error.
pub(crate) fn expect_refused<T>(outcome: Result<T, StoreError>, expected: &StoreError) -> Result<(), CaseError> {
    match outcome {
        Err(error) if error.to_string() == expected.to_string() => Ok(()),
        Err(error) => Err(Failure::new(format!("expected the error \"{expected}\", got \"{error}\"")).into()),
        Ok(_) => Err(Failure::new(format!("expected the error \"{expected}\", got a success")).into()),
    }
}

/// The first bytes of a content, escaped, for a message.
pub(crate) fn shown(bytes: &[u8]) -> String {
    bytes.iter().take(100).copied().collect::<Vec<_>>().escape_ascii().to_string()
}
