//! Whether a bucket keeps the conditions of a put. Some object stores answer that all went well, and ignore them.

use bytes::Bytes;
use memory_tool_core::FailureKind;
use object_store::path::Path;
use object_store::{Error as ObjectError, ObjectStoreExt, PutMode, PutOptions, PutPayload, UpdateVersion};

use crate::bucket::{Bucket, Fetched, retry};
use crate::deadline::{Backoff, Deadline};
use crate::failure::{ErrorClass, Failure};
use crate::id::Id;
use crate::open_failure::OpenFailure;

/// Puts an object under conditions that hold and under some that do not.
pub(crate) async fn probe(bucket: &Bucket, deadline: &Deadline) -> Result<(), OpenFailure> {
    let key = bucket.keys.probes().join(Id::random().map_err(Failure::from)?.to_string());
    let checked = Probe { bucket, key: &key, deadline }.check().await;
    // If it stays, a collection finds it.
    let _ = deadline.limit(bucket.objects.delete(&key)).await;
    checked
}

struct Probe<'a> {
    bucket: &'a Bucket,
    key: &'a Path,
    deadline: &'a Deadline,
}

impl Probe<'_> {
    async fn check(&self) -> Result<(), OpenFailure> {
        let first = self.put("first", PutMode::Create).await?;
        if self.is_put("second", PutMode::Create).await? {
            return Err(OpenFailure::IgnoresConditions { it: "it created an object that was there" });
        }
        self.put("third", PutMode::Update(first.clone())).await?;
        if self.is_put("fourth", PutMode::Update(first)).await? {
            return Err(OpenFailure::IgnoresConditions { it: "it replaced an object that had changed" });
        }
        Ok(())
    }

    /// Puts what must be put, and gives its version. A refusal counts only if the object is not what was to be put, because a
    /// client may have sent a request twice.
    async fn put(&self, content: &'static str, mode: PutMode) -> Result<UpdateVersion, OpenFailure> {
        let backoff = Backoff::default();
        loop {
            let refusal = match self.send(content, mode.clone()).await {
                Ok(version) => return Ok(version),
                Err(error) => error,
            };
            if let Some(version) = self.version_of(content).await? {
                return Ok(version);
            }
            match ErrorClass::of(&refusal) {
                ErrorClass::Unclear if !self.deadline.is_over() => backoff.pause(self.deadline).await,
                _ => return Err(failure(refusal)),
            }
        }
    }

    /// Whether it puts what must not be put.
    async fn is_put(&self, content: &'static str, mode: PutMode) -> Result<bool, OpenFailure> {
        let put = retry(self.deadline, || async {
            match self.send(content, mode.clone()).await {
                Err(ObjectError::AlreadyExists { .. } | ObjectError::Precondition { .. }) => Ok(false),
                put => put.map(|_| true),
            }
        });
        Ok(put.await?)
    }

    async fn send(&self, content: &'static str, mode: PutMode) -> object_store::Result<UpdateVersion> {
        let payload = PutPayload::from_static(content.as_bytes());
        Ok(self.bucket.objects.put_opts(self.key, payload, PutOptions::from(mode)).await?.into())
    }

    /// The version of the object, if it has that content.
    async fn version_of(&self, content: &'static str) -> Result<Option<UpdateVersion>, OpenFailure> {
        match self.bucket.get_unless(self.key, content.len(), None, self.deadline).await? {
            Fetched::Found(found, version) if found == Bytes::from_static(content.as_bytes()) => Ok(Some(version)),
            _ => Ok(None),
        }
    }
}

fn failure(error: ObjectError) -> OpenFailure {
    match (ErrorClass::of(&error), &error) {
        (ErrorClass::Refused, _) | (_, ObjectError::NotSupported { .. } | ObjectError::NotImplemented { .. }) => {
            OpenFailure::NoConditions { source: error.into() }
        }
        (ErrorClass::Impossible(kind), _) => Failure::of_request(kind, error).into(),
        _ => Failure::of_request(FailureKind::Other, error).into(),
    }
}
