//! Reading the log: the commits after the known state.
//!
//! A taken number stays taken, because a marker replaces a trimmed commit. Therefore, if the next number is free, no
//! newer commit exists. This is true after a pause of any length, and needs no clock.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures::future::join;
use futures::{StreamExt, TryStreamExt, stream};
use memory_tool_core::{ErrorKind, lock};
use object_store::ObjectMeta;
use tokio::runtime::Handle;
use tokio::task::yield_now;

use crate::blocking::run_maybe_blocking;
use crate::commit::{Commit, LogObject, Stored};
use crate::deadline::Deadline;
use crate::failure::{Failure, SharedFailure};
use crate::format::{Damage, MAX_COMMIT_BYTES};
use crate::id::Id;
use crate::inner::Inner;
use crate::polls::Sharing;

/// The most commits that are read at a time without knowing their sizes.
pub(crate) const CONCURRENCY: usize = 32;
/// The bytes of contents in a state above which it is loaded again from a checkpoint, which holds less.
const MAX_HELD_BYTES: usize = 16 * 1024 * 1024;

/// A poll that is counted. When it ends, the next one begins for all waiting tasks.
struct RunningPoll {
    inner: Arc<Inner>,
    has_begun: bool,
    sharing: Vec<Sharing>,
}

impl RunningPoll {
    fn new(inner: &Arc<Inner>) -> Self {
        Self { inner: Arc::clone(inner), has_begun: false, sharing: Vec::new() }
    }

    /// Takes the tasks that share the poll, right before its request.
    fn begin(&mut self) {
        let mut polls = lock(&self.inner.polls.0);
        (self.has_begun, polls.is_forming) = (true, false);
        self.sharing = std::mem::take(&mut polls.waiting);
    }

    fn end(&mut self, polled: &Result<(), SharedFailure>) {
        for sharing in self.sharing.drain(..) {
            let _ = sharing.send(polled.clone()); // the task may have ended
        }
    }
}

impl Drop for RunningPoll {
    fn drop(&mut self) {
        let mut polls = lock(&self.inner.polls.0);
        if !self.has_begun {
            polls.is_forming = false;
        }
        // The poll failed or was dropped, and the next one may succeed.
        polls.waiting.append(&mut self.sharing);
        let waiting = std::mem::take(&mut polls.waiting);
        // If the runtime has ended, waiting tasks get an error.
        let runtime = Handle::try_current();
        let (Ok(runtime), false) = (runtime, waiting.is_empty()) else {
            polls.running -= 1;
            return;
        };
        drop(polls);
        let mut running = Self { inner: Arc::clone(&self.inner), has_begun: true, sharing: waiting };
        runtime.spawn(async move {
            let inner = &running.inner;
            let polled = inner.catch_up(0, &inner.deadline()).await.map_err(Failure::into_shared);
            running.end(&polled);
        });
    }
}

/// The object of a number in the log.
pub(crate) enum Entry {
    Free,
    Commit(Box<Commit>, Stored),
    Trimmed(Id),
}

/// A part of the log.
#[derive(Debug, Default)]
pub(crate) struct Listed {
    /// The commits and markers, by their numbers.
    pub(crate) numbered: BTreeMap<u64, ObjectMeta>,
    /// The keys of other objects. No store writes them.
    pub(crate) foreign: Vec<String>,
}

pub(crate) enum End {
    Free,
    Trimmed,
}

/// The number of commits to request at once after `read` were read: 1, 2, 10, and then 32. Usually there is at most
/// one. Three groups find the end of ten, with the note of a checkpoint.
fn next_group(read: u64) -> u64 {
    read.saturating_mul(4).saturating_sub(2).clamp(1, CONCURRENCY as u64)
}

impl Inner {
    /// Brings the state up to the commit that is the latest at some instant during the call. Concurrent calls share
    /// requests.
    pub(crate) async fn poll(self: &Arc<Self>, deadline: &Deadline) -> Result<(), Failure> {
        let Some(next) = self.polls.join_if_busy() else {
            let mut running = RunningPoll::new(self);
            yield_now().await; // for reads that a task starts together
            running.begin();
            let polled = self.catch_up(0, deadline).await;
            if polled.is_ok() {
                running.end(&Ok(()));
            }
            return polled;
        };
        match deadline.limit(next).await {
            Ok(Ok(polled)) => polled.map_err(Failure::from),
            Ok(Err(stopped)) => Err(Failure::new(ErrorKind::Other, stopped)),
            Err(_) => {
                let cause = self.bucket.no_response(deadline.whole());
                Err(Failure::late(ErrorKind::Other, deadline.whole(), Some(cause)))
            }
        }
    }

    /// The same, without sharing. The number of requests at once grows with the commits that were read, as if `read` of
    /// them had been.
    pub(crate) async fn catch_up(&self, read: u64, deadline: &Deadline) -> Result<(), Failure> {
        let next = self.state().number + 1;
        let advance = |key: &str, commit, stored| self.advance(key, commit, stored);
        let (end, is_kept) = join(self.follow(next, read, advance, deadline), self.has_kept_log(deadline)).await;
        if !is_kept? {
            return self.continue_from_log(deadline).await;
        }
        match end? {
            End::Free => self.shed_contents(deadline).await,
            End::Trimmed => self.reload(deadline).await,
        }
    }

    /// Applies a commit to the state, unless another task did. Returns the number of the commit to read next.
    pub(crate) fn advance(&self, key: &str, commit: Commit, stored: Stored) -> Result<u64, Damage> {
        let mut state = self.state_mut();
        if commit.number == state.number + 1 {
            let (number, session) = (commit.number, commit.id.session());
            state.apply(key, commit, stored)?;
            self.contention.saw(number, session);
        }
        Ok(state.number + 1)
    }

    /// Reads commits from a number on, until the next one is free or was trimmed. `advance` takes the commits in order,
    /// and returns the number to read next. `read` commits were read before.
    pub(crate) async fn follow(
        &self,
        mut next: u64,
        mut read: u64,
        mut advance: impl FnMut(&str, Commit, Stored) -> Result<u64, Damage>,
        deadline: &Deadline,
    ) -> Result<End, Failure> {
        loop {
            let window = next..next.saturating_add(next_group(read));
            let entries = stream::iter(window.clone()).map(|number| self.entry(number, deadline));
            let entries: Vec<_> = entries.buffered(CONCURRENCY).try_collect().await?;
            let taken = entries.iter().rposition(|entry| !matches!(entry, Entry::Free)).unwrap_or(0);
            for (index, (number, entry)) in window.zip(entries).enumerate() {
                match entry {
                    Entry::Commit(commit, stored) => {
                        next = advance(self.bucket.keys.commit(number).as_ref(), *commit, stored)?;
                        read += 1;
                    }
                    Entry::Trimmed(_) => return Ok(End::Trimmed),
                    Entry::Free if index < taken => {
                        // A later number is taken. This one may have been taken since it was read.
                        self.refuse_hole(number, deadline).await?;
                        break;
                    }
                    Entry::Free => return Ok(End::Free),
                }
            }
        }
    }

    /// The object at a number of the log.
    pub(crate) async fn entry(&self, number: u64, deadline: &Deadline) -> Result<Entry, Failure> {
        let key = self.bucket.keys.commit(number);
        let Some(bytes) = self.bucket.get(&key, MAX_COMMIT_BYTES, deadline).await? else { return Ok(Entry::Free) };
        let size = bytes.len();
        let decode = move || match LogObject::decode(key.as_ref(), &bytes)? {
            LogObject::Commit(commit) if commit.number != number => {
                Err(Damage::inconsistent(key, "it has another number"))
            }
            LogObject::Commit(commit) => Ok(Entry::Commit(Box::new(commit), Stored::of(&bytes))),
            LogObject::Trimmed(id) => Ok::<_, Damage>(Entry::Trimmed(id)),
        };
        Ok(run_maybe_blocking(size, decode).await??)
    }

    /// Refuses a listing of the log from a number on in which a number is missing before others.
    pub(crate) async fn refuse_gaps(
        &self,
        first: u64,
        numbers: &BTreeMap<u64, ObjectMeta>,
        deadline: &Deadline,
    ) -> Result<(), Failure> {
        match (first..=u64::MAX).zip(numbers.keys()).find(|(expected, number)| expected != *number) {
            Some((missing, _)) => self.refuse_hole(missing, deadline).await,
            None => Ok(()),
        }
    }

    /// The objects of the log after a number.
    pub(crate) async fn log_after(&self, number: u64, deadline: &Deadline) -> Result<Listed, Failure> {
        let keys = &self.bucket.keys;
        let listed = self.bucket.list_after(&keys.log(), &keys.commit(number), deadline).await?;
        let mut log = Listed::default();
        for object in listed {
            match keys.commit_number(&object.location) {
                Some(number) => drop(log.numbered.insert(number, object)),
                None => log.foreign.push(object.location.to_string()),
            }
        }
        Ok(log)
    }

    /// Refuses a log in which a number is free although later ones are taken.
    pub(crate) async fn refuse_hole(&self, number: u64, deadline: &Deadline) -> Result<(), Failure> {
        let key = self.bucket.keys.commit(number);
        match self.bucket.head(&key, deadline).await? {
            Some(_) => Ok(()),
            None => Err(Damage::Missing { key: key.to_string() }.into()),
        }
    }

    /// Loads the state again if it holds much more contents than the latest checkpoint, which others wrote.
    async fn shed_contents(&self, deadline: &Deadline) -> Result<(), Failure> {
        let is_too_large = {
            let state = self.state();
            state.number == state.checkpoint.through + 1 && state.inline_bytes() > MAX_HELD_BYTES
        };
        if is_too_large { self.reload(deadline).await } else { Ok(()) }
    }
}
