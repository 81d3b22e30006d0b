//! Opening a store: finding or creating it, and checking that the bucket honors conditions.

use std::sync::Arc;

use bytes::Bytes;
use futures::FutureExt;
use futures::future::try_join;
use memory_tool_core::{ErrorKind, OpenMode};
use object_store::path::Path;
use object_store::{Error as ObjectError, PutMode, PutOptions, PutPayload};

use crate::commit::Commit;
use crate::deadline::{Backoff, Deadline};
use crate::failure::{ErrorClass, Failure};
use crate::format::Damage;
use crate::id::Id;
use crate::inner::Inner;
use crate::log::Entry;
use crate::open_failure::OpenFailure;

/// The most refusals of a create although the name is free. This happens while others create the store.
const MAX_REFUSALS: u32 = 5;

impl Inner {
    /// Reads the store, or creates it if the mode allows that.
    pub(crate) async fn open(self: &Arc<Self>) -> Result<(), OpenFailure> {
        let deadline = Deadline::of_opening(self.options.timeout);
        let (load, check) = (self.load_to_end(None, &deadline), self.check_condition_early(&deadline));
        let (mut loaded, checked) = try_join(load, check.map(Ok)).await?;
        if loaded.is_none()
            && let Some(directory) = self.remains(&deadline).await?
        {
            // Another process may have created the store since.
            loaded = self.load_to_end(None, &deadline).await?;
            if loaded.is_none() {
                return Err(Failure::from(Damage::NoLog { key: directory.to_string() }).into());
            }
        }
        match loaded {
            Some(state) => *self.state_mut() = state,
            None if self.options.mode == OpenMode::Create => self.create(&deadline).await?,
            None => return Err(OpenFailure::NotFound),
        }
        self.contact.now(&self.state());
        let store = self.state().store;
        match checked {
            Some(checked) => checked,
            None => self.check_condition(store, &deadline).await,
        }
    }

    /// Refuses a prefix without objects of a store.
    pub(crate) async fn refuse_nothing(&self) -> Result<(), OpenFailure> {
        match self.remains(&self.deadline()).await? {
            Some(_) => Ok(()),
            None => Err(OpenFailure::NotFound),
        }
    }

    /// An existing directory of a store.
    async fn remains(&self, deadline: &Deadline) -> Result<Option<Path>, Failure> {
        let keys = &self.bucket.keys;
        let mut found = self.bucket.directories(keys.prefix(), deadline).await?;
        found.retain(|directory| [keys.log(), keys.checkpoints(), keys.contents()].contains(directory));
        Ok(found.pop())
    }

    /// Creates the first commit, or finds the one of another process that was first.
    async fn create(self: &Arc<Self>, deadline: &Deadline) -> Result<(), OpenFailure> {
        let backoff = Backoff::default();
        let birth = Commit::birth(Id::random().map_err(Failure::from)?);
        let mut refusals = 0;
        loop {
            let created = deadline.limit_to_half(self.create_first(&birth)).await;
            if let Entry::Commit(first, stored) = self.entry(1, deadline).await? {
                // Its author has no turn, unlike those of commits that this session sees later.
                let applied = self.state_mut().apply(self.bucket.keys.commit(1).as_ref(), *first, stored);
                applied.map_err(Failure::from)?;
                return Ok(self.poll(deadline).await?);
            }
            match created {
                Ok(Ok(())) => {} // the next pass reads it
                Ok(Err(error)) => match ErrorClass::of(&error) {
                    ErrorClass::Unclear if !deadline.is_over() => {}
                    ErrorClass::Refused if refusals < MAX_REFUSALS => refusals += 1,
                    _ => return Err(failure(error)),
                },
                Err(_) => {} // the next pass fails if the deadline is over
            }
            backoff.pause(deadline).await;
        }
    }

    /// Checks the bucket while the store is read, unless the first commit cannot be read yet. Read-only mode needs no
    /// check.
    async fn check_condition_early(&self, deadline: &Deadline) -> Option<Result<(), OpenFailure>> {
        if self.options.mode == OpenMode::ReadOnly {
            return Some(Ok(()));
        }
        match self.entry(1, deadline).await {
            Ok(Entry::Commit(first, _)) => Some(self.check_condition(first.store, deadline).await),
            _ => None,
        }
    }

    /// Checks that the bucket refuses to create an object that exists. This changes nothing: a bucket that ignores the
    /// condition replaces the object by the same bytes.
    async fn check_condition(&self, store: Id, deadline: &Deadline) -> Result<(), OpenFailure> {
        let birth = Commit::birth(store);
        let is_created = || async {
            match self.create_first(&birth).await {
                Err(ObjectError::AlreadyExists { .. } | ObjectError::Precondition { .. }) => Ok(false),
                created => created.map(|()| true),
            }
        };
        // At the first attempt, the object may be missing because it was removed.
        let is_created = || async { self.bucket.retry(deadline, is_created).await.map_err(cannot_write) };
        if is_created().await? && is_created().await? {
            return Err(OpenFailure::IgnoresConditions { it: "it created an object that was there" });
        }
        Ok(())
    }

    async fn create_first(&self, birth: &Commit) -> object_store::Result<()> {
        let bytes = birth.encode().map_err(|source| ObjectError::Generic { store: "memory", source: source.into() })?;
        let options = PutOptions::from(PutMode::Create);
        let payload = PutPayload::from_bytes(Bytes::from(bytes));
        self.bucket.objects.put_opts(&self.bucket.keys.commit(1), payload, options).await.map(drop)
    }
}

/// The failure of the test, whose request is the first write of an opening. The store was read before.
fn cannot_write(failure: Failure) -> OpenFailure {
    match failure {
        Failure::Failed { kind: ErrorKind::AccessDenied, source } => OpenFailure::CannotWrite { source },
        failure => failure.into(),
    }
}

fn failure(error: ObjectError) -> OpenFailure {
    match (ErrorClass::of(&error), &error) {
        (ErrorClass::Refused, _) | (_, ObjectError::NotSupported { .. } | ObjectError::NotImplemented { .. }) => {
            OpenFailure::NoConditions { source: error.into() }
        }
        (ErrorClass::Impossible(kind), _) => Failure::of_request(kind, error).into(),
        _ => Failure::of_request(ErrorKind::Other, error).into(),
    }
}
