//! [`Bucket`]: the requests that the store makes, each with its deadline.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::TryStreamExt;
use memory_tool_core::{BoxError, ErrorKind};
use object_store::path::{Error as PathError, Path};
use object_store::{
    Error as ObjectError, GetOptions, GetRange, GetResult, ObjectMeta, ObjectStore, ObjectStoreExt, PutMode,
    PutOptions, PutPayload,
};

use crate::deadline::{Backoff, Deadline};
use crate::diagnosis::{diagnose, is_bucket_missing};
use crate::failure::{ErrorClass, Failure};
use crate::format::Damage;
use crate::keys::Keys;

/// The objects of one store.
pub(crate) struct Bucket {
    pub(crate) objects: Arc<dyn ObjectStore>,
    pub(crate) keys: Keys,
}

/// An object that was read before.
pub(crate) enum Revalidated {
    Missing,
    /// It has the same tag.
    Unchanged,
    Read {
        bytes: Bytes,
        tag: Option<String>,
    },
}

/// The result of one attempt to create an object.
pub(crate) enum Put {
    Done,
    /// It may have been created, may be created later, or may never be.
    Undecided(BoxError),
    /// It was not created.
    Failed(Failure),
}

impl Bucket {
    /// The name of the bucket and the prefix, for the operator. It depends on the client, such as
    /// `AmazonS3(bucket)/prefix`.
    pub(crate) fn name(&self) -> String {
        format!("{}/{}", self.objects, self.keys.prefix())
    }

    pub(crate) fn no_response(&self, waited: Duration) -> BoxError {
        format!("{} did not respond within {waited:.0?}", self.name()).into()
    }

    pub(crate) fn no_confirmation(&self) -> BoxError {
        format!("{} did not confirm the commit", self.name()).into()
    }

    /// An object, if it exists. One of more than `most` bytes is damage, and is not read.
    pub(crate) async fn get(&self, key: &Path, most: usize, deadline: &Deadline) -> Result<Option<Bytes>, Failure> {
        match self.revalidate(key, None, most, deadline).await? {
            Revalidated::Read { bytes, .. } => Ok(Some(bytes)),
            Revalidated::Missing | Revalidated::Unchanged => Ok(None),
        }
    }

    /// An object, unless it still has this entity tag. One of more than `most` bytes is damage, and is not read.
    pub(crate) async fn revalidate(
        &self,
        key: &Path,
        tag: Option<&str>,
        most: usize,
        deadline: &Deadline,
    ) -> Result<Revalidated, Failure> {
        let read = self.retry(deadline, || async {
            let options = GetOptions { if_none_match: tag.map(str::to_owned), ..GetOptions::default() };
            match self.objects.get_opts(key, options).await {
                Err(error @ ObjectError::NotFound { .. }) if !is_bucket_missing(&error) => Ok(Ok(Revalidated::Missing)),
                Err(ObjectError::NotModified { .. }) => Ok(Ok(Revalidated::Unchanged)),
                found => {
                    let found = found?;
                    let tag = found.meta.e_tag.clone();
                    let bytes = bytes_up_to(most, found).await?;
                    Ok(bytes.map(|bytes| Revalidated::Read { bytes, tag }).ok_or(TooLarge))
                }
            }
        });
        read.await?.map_err(|TooLarge| Damage::TooLarge { key: key.to_string(), limit: most }.into())
    }

    /// The size and the time of an object, if it exists.
    pub(crate) async fn head(&self, key: &Path, deadline: &Deadline) -> Result<Option<ObjectMeta>, Failure> {
        self.retry(deadline, || async {
            match self.objects.head(key).await {
                Err(error @ ObjectError::NotFound { .. }) if !is_bucket_missing(&error) => Ok(None),
                found => found.map(Some),
            }
        })
        .await
    }

    /// A part of an object, or `None` if there is no such object. It is empty if the object is too short, or if the
    /// response is longer than the range.
    pub(crate) async fn get_range(
        &self,
        key: &Path,
        range: Range<u64>,
        deadline: &Deadline,
    ) -> Result<Option<Bytes>, Failure> {
        self.retry(deadline, || async {
            let most = usize::try_from(range.end - range.start).unwrap_or(usize::MAX);
            let end = range.end;
            let range = Some(GetRange::Bounded(range.clone()));
            match self.objects.get_opts(key, GetOptions { range, ..GetOptions::default() }).await {
                Err(error @ ObjectError::NotFound { .. }) if !is_bucket_missing(&error) => Ok(None),
                Err(error @ ObjectError::NotFound { .. }) => Err(error),
                // An object that ends before the range is an error without a kind.
                Err(error) => match self.objects.head(key).await {
                    Ok(object) if object.size < end => Ok(Some(Bytes::new())),
                    _ => Err(error),
                },
                found => Ok(Some(bytes_up_to(most, found?).await?.unwrap_or_default())),
            }
        })
        .await
    }

    /// The objects under a prefix.
    pub(crate) async fn list(&self, prefix: &Path, deadline: &Deadline) -> Result<Vec<ObjectMeta>, Failure> {
        self.retry(deadline, || self.objects.list(Some(prefix)).try_collect()).await
    }

    /// The objects under a prefix, and the keys that are not valid paths. Only other programs write these. The result
    /// also lacks the other objects in the directory of such a key.
    pub(crate) async fn list_readable(
        &self,
        prefix: &Path,
        deadline: &Deadline,
    ) -> Result<(Vec<ObjectMeta>, Vec<String>), Failure> {
        let (mut objects, mut unreadable, mut directories) = (Vec::new(), Vec::new(), vec![prefix.clone()]);
        while let Some(directory) = directories.pop() {
            let listed =
                self.retry(deadline, || async { readable(self.objects.list(Some(&directory)).try_collect().await) });
            if let Ok::<Vec<_>, _>(mut listed) = listed.await? {
                objects.append(&mut listed);
                continue;
            }
            let listing = || async { readable(self.objects.list_with_delimiter(Some(&directory)).await) };
            match self.retry(deadline, listing).await? {
                Ok(mut listed) => {
                    objects.append(&mut listed.objects);
                    directories.append(&mut listed.common_prefixes);
                }
                Err(error) => unreadable.push(error.to_string()),
            }
        }
        Ok((objects, unreadable))
    }

    /// The objects under a prefix whose keys sort after another.
    pub(crate) async fn list_after(
        &self,
        prefix: &Path,
        key: &Path,
        deadline: &Deadline,
    ) -> Result<Vec<ObjectMeta>, Failure> {
        self.retry(deadline, || self.objects.list_with_offset(Some(prefix), key).try_collect()).await
    }

    /// The directories right under a prefix.
    pub(crate) async fn directories(&self, prefix: &Path, deadline: &Deadline) -> Result<Vec<Path>, Failure> {
        let listed = self.retry(deadline, || self.objects.list_with_delimiter(Some(prefix))).await?;
        Ok(listed.common_prefixes)
    }

    /// Puts an object and replaces an existing one. Attempts are repeated, so every writer of this key must put the
    /// same bytes.
    pub(crate) async fn put(&self, key: &Path, content: Bytes, deadline: &Deadline) -> Result<(), Failure> {
        self.retry(deadline, || async {
            self.objects.put(key, PutPayload::from_bytes(content.clone())).await.map(drop)
        })
        .await
    }

    /// Puts the object of a [name](Keys::content) under the contents.
    pub(crate) async fn put_content(&self, name: &str, content: Bytes, deadline: &Deadline) -> Result<(), Failure> {
        self.put(&self.keys.content(name)?, content, deadline).await
    }

    /// Creates an object under the condition that its name is free. There is only one attempt.
    pub(crate) async fn create(&self, key: &Path, content: Bytes, deadline: &Deadline) -> Put {
        let options = PutOptions::from(PutMode::Create);
        let putting = self.objects.put_opts(key, PutPayload::from_bytes(content), options);
        match deadline.limit_to_half(putting).await {
            Ok(Ok(_)) => Put::Done,
            Ok(Err(error)) => match ErrorClass::of(&error) {
                ErrorClass::Impossible(kind) => Put::Failed(Failure::of_request(kind, error)),
                ErrorClass::Refused | ErrorClass::Unclear | ErrorClass::Unreachable => Put::Undecided(diagnose(error)),
            },
            Err(waited) => Put::Undecided(self.no_response(waited)),
        }
    }

    /// Repeats a request until it gets a clear response or the deadline is over. At opening, a request without a
    /// connection is not repeated.
    pub(crate) async fn retry<T, F>(&self, deadline: &Deadline, request: impl Fn() -> F) -> Result<T, Failure>
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
                        return Err(Failure::of_request(ErrorKind::Other, error));
                    }
                    ErrorClass::Refused | ErrorClass::Unclear | ErrorClass::Unreachable => last = Some(diagnose(error)),
                },
                Err(waited) => last = last.or_else(|| Some(self.no_response(waited))),
            }
            backoff.pause(deadline).await;
        }
        let last = last.unwrap_or_else(|| self.no_response(deadline.whole()));
        Err(Failure::late(ErrorKind::Other, deadline.whole(), Some(last)))
    }
}

/// An object has more bytes than are read.
struct TooLarge;

/// A listing, or the key in it that is not a valid path.
fn readable<T>(listed: object_store::Result<T>) -> object_store::Result<Result<T, PathError>> {
    match listed {
        Err(ObjectError::InvalidPath { source }) => Ok(Err(source)),
        listed => listed.map(Ok),
    }
}

/// The bytes of a response, or `None` if there are more than `most`. The length that the response declares is not
/// trusted, and no more bytes are kept.
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
