//! [`Bucket`]: the requests that the store makes, each with its deadline.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use futures::TryStreamExt;
use memory_tool_core::{BoxError, FailureKind};
use object_store::path::Path;
use object_store::{
    Error as ObjectError, GetOptions, GetRange, GetResult, ObjectStore, ObjectStoreExt, PutMode, PutOptions,
    PutPayload, UpdateVersion,
};

use crate::deadline::{Backoff, Deadline};
use crate::diagnosis::{diagnose, is_bucket_missing};
use crate::failure::{ErrorClass, Failure};
use crate::keys::Keys;

/// The objects of one store.
pub(crate) struct Bucket {
    pub(crate) objects: Arc<dyn ObjectStore>,
    pub(crate) keys: Keys,
}

/// What became of a conditional request for an object.
pub(crate) enum Fetched {
    /// It is as it was.
    Unchanged,
    /// There is none.
    Missing,
    /// It is this.
    Found(Bytes, UpdateVersion),
    /// It has more bytes than it may have, and these are not here.
    TooLarge,
}

/// What became of one attempt to put an object under a condition.
pub(crate) enum Put {
    /// It was put.
    Done(UpdateVersion),
    /// It may have been put, may be put yet, or may not have been.
    Undecided(BoxError),
    /// It was not put.
    Failed(Failure),
}

impl Bucket {
    /// The object, unless it is still at the version that is known. It may have `most` bytes.
    pub(crate) async fn get_unless(
        &self,
        key: &Path,
        most: usize,
        known: Option<&UpdateVersion>,
        deadline: &Deadline,
    ) -> Result<Fetched, Failure> {
        let if_none_match = known.and_then(|version| version.e_tag.clone());
        retry(deadline, || async {
            let options = GetOptions { if_none_match: if_none_match.clone(), ..GetOptions::default() };
            match self.objects.get_opts(key, options).await {
                Err(ObjectError::NotModified { .. }) => Ok(Fetched::Unchanged),
                Err(error @ ObjectError::NotFound { .. }) if !is_bucket_missing(&error) => Ok(Fetched::Missing),
                found => {
                    let found = found?;
                    let version =
                        UpdateVersion { e_tag: found.meta.e_tag.clone(), version: found.meta.version.clone() };
                    let bytes = bytes_up_to(most, found).await?;
                    Ok(bytes.map_or(Fetched::TooLarge, |bytes| Fetched::Found(bytes, version)))
                }
            }
        })
        .await
    }

    /// A part of an object, or `None` where there is no such object. Of one that gives more than was asked for, it is empty.
    pub(crate) async fn get_range(
        &self,
        key: &Path,
        range: Range<u64>,
        deadline: &Deadline,
    ) -> Result<Option<Bytes>, Failure> {
        retry(deadline, || async {
            let most = usize::try_from(range.end - range.start).unwrap_or(usize::MAX);
            let range = Some(GetRange::Bounded(range.clone()));
            match self.objects.get_opts(key, GetOptions { range, ..GetOptions::default() }).await {
                Err(error @ ObjectError::NotFound { .. }) if !is_bucket_missing(&error) => Ok(None),
                found => Ok(Some(bytes_up_to(most, found?).await?.unwrap_or_default())),
            }
        })
        .await
    }

    /// Puts an object that never changes. It may be put twice: the second time is the same.
    pub(crate) async fn put_content(&self, key: &Path, content: Bytes, deadline: &Deadline) -> Result<(), Failure> {
        retry(deadline, || async { self.objects.put(key, PutPayload::from_bytes(content.clone())).await.map(drop) })
            .await
    }

    /// Puts an object under the condition that it is at the version, or absent. It is tried once.
    pub(crate) async fn put_if(
        &self,
        key: &Path,
        content: Bytes,
        current: Option<&UpdateVersion>,
        deadline: &Deadline,
    ) -> Put {
        let mode = current.map_or(PutMode::Create, |version| PutMode::Update(version.clone()));
        let putting = self.objects.put_opts(key, PutPayload::from_bytes(content), PutOptions::from(mode));
        match deadline.limit_to_half(putting).await {
            Ok(Ok(done)) => Put::Done(done.into()),
            Ok(Err(error)) => match ErrorClass::of(&error) {
                ErrorClass::Impossible(kind) => Put::Failed(Failure::of_request(kind, error)),
                ErrorClass::Refused | ErrorClass::Unclear | ErrorClass::Unreachable => Put::Undecided(diagnose(error)),
            },
            Err(elapsed) => Put::Undecided(elapsed.into()),
        }
    }
}

/// The bytes of an answer, or `None` if there are more than `most`, whatever it says of their number. No more are kept.
async fn bytes_up_to(most: usize, found: GetResult) -> object_store::Result<Option<Bytes>> {
    if found.range.end.saturating_sub(found.range.start) > most as u64 {
        return Ok(None);
    }
    let mut parts = found.into_stream();
    let first = parts.try_next().await?.unwrap_or_default();
    let Some(second) = parts.try_next().await? else { return Ok((first.len() <= most).then_some(first)) };
    let mut bytes = Vec::from(first);
    let mut next = Some(second);
    while let Some(part) = next {
        bytes.extend_from_slice(&part);
        if bytes.len() > most {
            return Ok(None);
        }
        next = parts.try_next().await?;
    }
    Ok(Some(bytes.into()))
}

/// Makes a request that may be repeated until it gets a clear answer, or the deadline comes. At opening, it is not repeated
/// without a connection.
pub(crate) async fn retry<T, F>(deadline: &Deadline, request: impl Fn() -> F) -> Result<T, Failure>
where
    F: Future<Output = object_store::Result<T>>,
{
    let backoff = Backoff::default();
    let mut last: Option<BoxError> = None;
    while !deadline.is_over() {
        // A request that hangs must leave time for another.
        match deadline.limit_to_half(request()).await {
            Ok(Ok(answer)) => return Ok(answer),
            Ok(Err(error)) => match ErrorClass::of(&error) {
                ErrorClass::Impossible(kind) => return Err(Failure::of_request(kind, error)),
                ErrorClass::Unreachable if deadline.is_of_opening() => {
                    return Err(Failure::of_request(FailureKind::Other, error));
                }
                ErrorClass::Refused | ErrorClass::Unclear | ErrorClass::Unreachable => last = Some(diagnose(error)),
            },
            Err(elapsed) => last = last.or(Some(elapsed.into())),
        }
        backoff.pause(deadline).await;
    }
    Err(Failure::late(FailureKind::Other, deadline.whole(), last))
}
