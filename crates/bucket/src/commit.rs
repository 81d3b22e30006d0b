//! How a store changes: the index is replaced by the next one, under the condition that nobody else replaced it.
//!
//! An answer that does not come, or says that the condition does not hold, proves nothing: the request may have been made and
//! its answer lost, and a client may have sent it again by itself and met its own first attempt. So each write has a random id,
//! and the index remembers the last write of each of the last writers. Whoever is in doubt looks there:
//!
//! | the index now | what became of the write | next |
//! |---|---|---|
//! | remembers the write | it was made | success |
//! | is the one that was to be replaced | nothing yet, but the request may arrive later | the very same request again |
//! | is another, and reaches back that far | it was not made, and cannot be any more | planned anew on this index |
//! | is another, and does not | cannot be known | an error that says so |
//!
//! A writer, which is an opened store with all its clones, makes no other write until this is settled. A write whose future was
//! dropped is settled in the sense that matters: nobody asks for it, and it was to replace an index that is no later than the
//! one that the next write of this writer replaces, so at most one of the two is made.
//!
//! No index ever comes back, because each holds the id of the write that made it: not even a bucket whose versions are digests
//! takes an old one for a new one.

use std::sync::Arc;

use bytes::Bytes;
use memory_tool_core::{Batch, BoxError, FailureKind, PathMapEdits, StoreError};
use tokio::sync::MutexGuard;

use crate::blocking::run_maybe_blocking;
use crate::bucket::Put;
use crate::content::FileRecord;
use crate::deadline::Deadline;
use crate::failure::Failure;
use crate::id::Id;
use crate::index::{Author, Fate, Index, IndexError};
use crate::inner::{Inner, Snapshot};
use crate::staging::{Staging, bound_for, is_edit};

/// What shall be done to a store.
#[derive(Debug)]
pub(crate) struct Write {
    pub(crate) batch: Batch,
    /// Whether contents without a file are about to be collected.
    pub(crate) collects: bool,
}

/// What became of one attempt to replace the index.
enum Swap {
    Done(Arc<Snapshot>),
    /// Another task of this process was first; nothing was sent.
    Overtaken(Arc<Snapshot>),
    Undecided(BoxError),
    Failed(Failure),
}

/// A write on its way.
struct Attempts<'a> {
    inner: &'a Inner,
    write: &'a Write,
    author: Author,
    deadline: Deadline,
    staging: Staging,
    /// Held while an attempt is undecided.
    turn: Option<MutexGuard<'a, ()>>,
    /// The snapshot that the last attempt was to replace, as long as nobody knows what became of it, and why.
    undecided: Option<(Arc<Snapshot>, BoxError)>,
}

impl Inner {
    /// Applies the batch as a whole, or not at all.
    pub(crate) async fn apply(&self, batch: Batch) -> Result<(), Failure> {
        if batch.changes_nothing() {
            let now = self.fetch(&Deadline::after(self.options.timeout)).await?;
            return Ok(batch.check(&now.index.files)?);
        }
        self.refuse_read_only()?;
        batch.check_file_sizes(self.options.max_file_bytes)?;
        self.commit(&Write { batch, collects: false }).await.map(drop)
    }

    /// Makes the write, and gives an index that has it.
    pub(crate) async fn commit(&self, write: &Write) -> Result<Arc<Snapshot>, Failure> {
        let author = Author { writer: self.writer, write: Id::random()? };
        let attempts = Attempts {
            inner: self,
            write,
            author,
            deadline: Deadline::after(self.options.timeout),
            staging: Staging::new(author.write),
            turn: None,
            undecided: None,
        };
        attempts.run().await
    }
}

impl<'a> Attempts<'a> {
    async fn run(mut self) -> Result<Arc<Snapshot>, Failure> {
        let outcome = self.attempt_until_decided().await;
        match (outcome, self.undecided) {
            (Ok(snapshot), _) => {
                self.inner.backoff.reset();
                Ok(snapshot)
            }
            (Err(failure), None) => Err(failure),
            (Err(failure), Some((_, cause))) => Err(failure.with_outcome_unknown(cause)),
        }
    }

    async fn attempt_until_decided(&mut self) -> Result<Arc<Snapshot>, Failure> {
        // An edit has just read the index, which need not be read again. It is put under the condition that it is still the same.
        let (mut base, mut is_current) = match self.inner.latest().filter(|_| is_edit(&self.write.batch)) {
            Some(known) => (known, false),
            None => (self.inner.fetch(&self.deadline).await?, true),
        };
        while !self.deadline.is_over() {
            if self.was_made_in(&base)? {
                return Ok(base);
            }
            if self.undecided.is_none() && self.deadline.is_near() {
                return Err(Failure::late(FailureKind::Busy, self.deadline.whole(), None));
            }
            match self.plan(&base.index) {
                Ok(edits) => match self.attempt(&base, edits).await? {
                    Swap::Done(snapshot) => return Ok(snapshot),
                    Swap::Overtaken(latest) => {
                        (base, is_current) = (latest, false);
                        continue;
                    }
                    Swap::Undecided(cause) => {
                        self.undecided = Some((base, cause));
                        self.inner.backoff.pause(&self.deadline).await;
                    }
                    Swap::Failed(failure) => return Err(failure),
                },
                Err(refusal) if is_current => return Err(self.refused(refusal).await),
                Err(_) => {} // it may be allowed by what the bucket holds by now
            }
            (base, is_current) = (self.inner.fetch(&self.deadline).await?, true);
        }
        let cause =
            self.undecided.as_mut().map(|(_, cause)| std::mem::replace(cause, "its outcome is not known".into()));
        Err(Failure::late(FailureKind::Busy, self.deadline.whole(), cause))
    }

    /// Whether the attempt that is undecided turns out to have been made. If it turns out void, it is decided.
    fn was_made_in(&mut self, now: &Arc<Snapshot>) -> Result<bool, Failure> {
        let Some((base, _)) = &self.undecided else { return Ok(false) };
        if now.version == base.version {
            return Ok(false);
        }
        if now.version.is_none() {
            return Err(IndexError::Gone.into());
        }
        match now.index.fate_of(self.author.write, &base.index) {
            Fate::Made => Ok(true),
            Fate::Void => {
                (self.undecided, self.turn) = (None, None);
                Ok(false)
            }
            Fate::Forgotten => Err(Failure::new(FailureKind::OutcomeUnknown, "too many others wrote after it")),
        }
    }

    /// The edits that the batch comes down to, if the index allows it.
    fn plan(&mut self, base: &Index) -> Result<PathMapEdits<FileRecord>, StoreError> {
        let Self { inner, write, staging, .. } = self;
        write.batch.check(&base.files)?;
        staging.begin(base);
        let keys = &inner.bucket.keys;
        base.files
            .plan(&write.batch, |number, _, _| Ok(staging.record(keys, &write.batch, number, base.next_revision())))
    }

    /// Puts the contents, then the index that refers to them.
    async fn attempt(&mut self, base: &Arc<Snapshot>, edits: PathMapEdits<FileRecord>) -> Result<Swap, Failure> {
        let Self { inner, write, author, deadline, staging, .. } = self;
        staging.put_large(&inner.bucket, &write.batch, deadline).await?;
        let mut next = base.index.after(*author, edits);
        staging.pack(&inner.bucket, &mut next, bound_for(&write.batch), deadline).await?;
        if write.collects {
            next.note_collection();
        }
        self.swap_in_turn(base, next).await
    }

    /// Replaces the index when it is this write's turn, and keeps the turn where it is not known whether it was replaced.
    async fn swap_in_turn(&mut self, base: &Snapshot, next: Index) -> Result<Swap, Failure> {
        let turn = match self.turn.take() {
            Some(turn) => turn,
            None => self.wait_for_turn().await?,
        };
        let swap = self.swap(base, next).await?;
        if self.undecided.is_some() || matches!(swap, Swap::Undecided(_)) {
            self.turn = Some(turn);
        }
        Ok(swap)
    }

    async fn wait_for_turn(&self) -> Result<MutexGuard<'a, ()>, Failure> {
        let waiting = self.deadline.limit(self.inner.turn.lock()).await;
        waiting.map_err(|elapsed| Failure::late(FailureKind::Busy, self.deadline.whole(), Some(elapsed.into())))
    }

    async fn swap(&self, base: &Snapshot, next: Index) -> Result<Swap, Failure> {
        let Self { inner, deadline, .. } = self;
        if let Some(latest) = inner.latest().filter(|latest| latest.version != base.version) {
            return Ok(Swap::Overtaken(latest));
        }
        let encoding = run_maybe_blocking(base.size, move || (next.encode(), next));
        let (bytes, next) = encoding.await?;
        let bytes = Bytes::from(bytes?);
        let size = bytes.len();
        Ok(match inner.bucket.put_if(&inner.bucket.keys.index(), bytes, base.version.as_ref(), deadline).await {
            Put::Done(version) => {
                let snapshot = Arc::new(Snapshot { index: next, version: Some(version), size });
                inner.keep(Arc::clone(&snapshot), None);
                Swap::Done(snapshot)
            }
            Put::Undecided(cause) => Swap::Undecided(cause),
            Put::Failed(failure) => Swap::Failed(failure),
        })
    }

    /// The answer to a batch that the state of the files does not allow. Who lost a race will try again, so it waits here.
    async fn refused(&self, refusal: StoreError) -> Failure {
        if matches!(refusal, StoreError::VersionMismatch { .. } | StoreError::RecordMismatch { .. }) {
            self.inner.backoff.pause(&self.deadline).await;
        }
        refusal.into()
    }
}
