//! Helpers for the cases that use a [`Store`] directly.

use futures::future::join_all;
use memory_tool_core::{Batch, Node, Precondition, ReadOptions, Store, StoreError, StorePath, StoredFile, Version};

use crate::failure::{CaseError, Failure, check};

/// The number of tasks in a race.
const RACERS: usize = 8;
/// How often a race is repeated.
pub(crate) const ROUNDS: usize = 30;

pub(crate) fn path(text: &str) -> Result<StorePath, CaseError> {
    Ok(text.parse()?)
}

/// A batch that writes one file.
pub(crate) fn write(text: &str, content: impl Into<Vec<u8>>) -> Result<Batch, CaseError> {
    Ok(Batch::new().write(path(text)?, content))
}

/// A batch that removes one path.
pub(crate) fn remove(text: &str) -> Result<Batch, CaseError> {
    Ok(Batch::new().remove(path(text)?))
}

/// A batch that renames one path.
pub(crate) fn rename(from: &str, to: &str) -> Result<Batch, CaseError> {
    Ok(Batch::new().rename(path(from)?, path(to)?))
}

/// Writes each file or record in a separate batch, with its path as its content.
pub(crate) async fn put(store: &dyn Store, files: &[&str]) -> Result<(), CaseError> {
    for file in files {
        store.apply(write(file, *file)?).await?;
    }
    Ok(())
}

/// A file or record, which must exist.
pub(crate) async fn file(store: &dyn Store, text: &str) -> Result<StoredFile, CaseError> {
    match store.read_opts(&path(text)?, ReadOptions::new()).await? {
        Node::File(file) => Ok(file),
        other => Err(Failure::new(format!("expected a file at {text}, got {other:?}")).into()),
    }
}

pub(crate) async fn version(store: &dyn Store, text: &str) -> Result<Version, CaseError> {
    Ok(file(store, text).await?.version)
}

pub(crate) async fn expect_content(store: &dyn Store, text: &str, expected: &[u8]) -> Result<(), CaseError> {
    let got = file(store, text).await?.content;
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

/// A precondition on the current version of a file or record.
pub(crate) async fn unchanged(store: &dyn Store, text: &str) -> Result<Precondition, CaseError> {
    Ok(Precondition::Version(version(store, text).await?))
}

/// Checks that a batch is refused because the path does not have the required version.
pub(crate) async fn expect_mismatch(store: &dyn Store, batch: Batch, text: &str) -> Result<(), CaseError> {
    expect_refused(store.apply(batch).await, &StoreError::VersionMismatch { path: path(text)? })
}

/// Checks that a batch is refused because something exists at the path.
pub(crate) async fn expect_taken(store: &dyn Store, batch: Batch, text: &str) -> Result<(), CaseError> {
    expect_refused(store.apply(batch).await, &StoreError::AlreadyExists { path: path(text)? })
}

/// Lets all racers edit a file or record at the version that they have read.
pub(crate) async fn race_for_a_version_of(text: &str, store: &dyn Store) -> Result<(), CaseError> {
    store.apply(write(text, "start")?).await?;
    for round in 0..ROUNDS {
        let required = unchanged(store, text).await?;
        let edit = |content| Ok(write(text, content)?.require(path(text)?, required.clone()));
        one_winner(store, text, round, edit, |error| matches!(error, StoreError::VersionMismatch { .. })).await?;
    }
    Ok(())
}

/// Applies the batches of all racers concurrently, which write contents to one path that it never had. One batch must
/// succeed, and the others must fail as expected.
pub(crate) async fn one_winner(
    store: &dyn Store,
    text: &str,
    round: usize,
    batch: impl Fn(String) -> Result<Batch, CaseError>,
    is_loss: impl Fn(&StoreError) -> bool,
) -> Result<(), CaseError> {
    let content = |racer: usize| format!("{round} {racer}");
    let batches = (0..RACERS).map(|racer| batch(content(racer))).collect::<Result<Vec<_>, _>>()?;
    let outcomes = join_all(batches.into_iter().map(|batch| store.apply(batch))).await;
    let mut winners = Vec::new();
    for (racer, outcome) in outcomes.into_iter().enumerate() {
        match outcome {
            Ok(()) => winners.push(racer),
            Err(error) if is_loss(&error) => {}
            Err(error) => return Err(error.into()),
        }
    }
    let [winner] = winners.as_slice() else {
        return Err(Failure::new(format!("{} of {RACERS} batches were applied instead of one", winners.len())).into());
    };
    expect_content(store, text, content(*winner).as_bytes()).await
}

/// The first bytes of a content, escaped, for a message.
pub(crate) fn shown(bytes: &[u8]) -> String {
    bytes.iter().take(100).copied().collect::<Vec<_>>().escape_ascii().to_string()
}
