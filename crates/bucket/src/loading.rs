//! Loading: the state of a checkpoint, and the commits after it.
//!
//! The key of a pointer has the number of its commit. Therefore the log is listed while the pointer is read, and the
//! commits are read together with the runs. With the listing of the pointers, this takes three round trips.

use std::ops::Bound;

use futures::future::join;
use futures::{StreamExt, TryStreamExt, stream};

use crate::checkpoint::COMMITS;
use crate::deadline::Deadline;
use crate::failure::{Failure, unless_damaged};
use crate::format::Damage;
use crate::inner::Inner;
use crate::log::{CONCURRENCY, End, Entry};
use crate::manifest::Manifest;
use crate::state::State;

/// The most commits that an opening reads at once. A checkpoint may be overdue, and the pointer of the previous one
/// missing.
const MAX_TAIL: usize = 3 * COMMITS as usize;
/// The bytes of these commits, by the listing.
const MAX_TAIL_BYTES: u64 = 32 * 1024 * 1024;

/// The log after a checkpoint.
struct Tail {
    /// The number of the last commit, if the one of the checkpoint exists.
    last: Option<u64>,
    /// The first commits after the checkpoint.
    read: Vec<Entry>,
}

/// A checkpoint, or the state before the first commit, with the log after it.
struct Found {
    /// The number of the latest pointer in the bucket.
    newest: Option<u64>,
    state: State,
    tail: Tail,
    /// The damage to later checkpoints. A collection may have removed these, and put another pointer before.
    damage: Option<Failure>,
}

impl Inner {
    /// Loads the state again from the latest checkpoint and the commits after it.
    pub(crate) async fn reload(&self, deadline: &Deadline) -> Result<(), Failure> {
        self.replace_by(self.load_to_end(None, deadline).await?, deadline).await
    }

    /// Loads the state again from the latest checkpoint that the log notes, even if it has no pointer yet.
    pub(crate) async fn reload_from_noted(&self, deadline: &Deadline) -> Result<(), Failure> {
        let noted = self.state().checkpoint.clone();
        self.replace_by(self.load_to_end(Some(noted), deadline).await?, deadline).await
    }

    /// Replaces the state by a loaded one, brought up to the commits that the session has read during the load.
    async fn replace_by(&self, loaded: Option<State>, deadline: &Deadline) -> Result<(), Failure> {
        let Some(mut loaded) = loaded else {
            return Err(Damage::Missing { key: self.bucket.keys.checkpoints().to_string() }.into());
        };
        loop {
            if self.replace_if_newer(&mut loaded)? {
                return Ok(());
            }
            let (known, next) = (self.state().number, loaded.number + 1);
            let advance = |key: &str, commit, stored| loaded.apply(key, commit, stored).map(|()| loaded.number + 1);
            match self.follow(next, 0, advance, deadline).await? {
                // A later checkpoint covers more than the loaded state.
                End::Trimmed => loaded = self.load_to_end(None, deadline).await?.unwrap_or_default(),
                // A number that the session knows is free: the log was replaced by an older one.
                End::Free if loaded.number < known => return self.continue_from_log(deadline).await,
                End::Free => {}
            }
        }
    }

    /// Swaps the state with a loaded one, unless the current state has later commits.
    fn replace_if_newer(&self, loaded: &mut State) -> Result<bool, Damage> {
        let mut state = self.state_mut();
        state.refuse_other(loaded, &self.bucket.keys)?;
        let is_newer = loaded.number >= state.number;
        if is_newer {
            std::mem::swap(&mut *state, loaded);
        }
        Ok(is_newer)
    }

    /// The latest state, read from a checkpoint and the commits after it, or `None` if there is no store. The default
    /// is the latest checkpoint in the bucket.
    pub(crate) async fn load_to_end(
        &self,
        mut checkpoint: Option<Manifest>,
        deadline: &Deadline,
    ) -> Result<Option<State>, Failure> {
        let mut before = None;
        loop {
            let noted = match checkpoint.take().filter(|checkpoint| checkpoint.through > 0) {
                Some(checkpoint) => self.find_noted(checkpoint, deadline).await?,
                None => None,
            };
            let found = match noted {
                Some(found) => found,
                None => self.find_latest(deadline).await?,
            };
            let Found { newest, mut state, tail: Tail { last, read }, damage } = found;
            let through = state.number;
            let last = match last {
                Some(last) => last,
                None if through == 0 => return damage.map_or(Ok(None), Err),
                None => return Err(Damage::Missing { key: self.bucket.keys.commit(through).to_string() }.into()),
            };
            if self.apply_through(&mut state, read, last, deadline).await? {
                return Ok(Some(state));
            }
            // The log was trimmed since, so a later checkpoint must exist. Otherwise this is damage. Several
            // collections may remove the checkpoints that an opening tries to read.
            if before == Some(newest) {
                let missing = || Damage::Missing { key: self.bucket.keys.checkpoint(through + 1).to_string() }.into();
                return Err(damage.unwrap_or_else(missing));
            }
            before = Some(newest);
        }
    }

    /// A checkpoint and the log after it, unless a run is missing.
    async fn find_noted(&self, checkpoint: Manifest, deadline: &Deadline) -> Result<Option<Found>, Failure> {
        let through = checkpoint.through;
        let (state, tail) = join(self.load(checkpoint, deadline), self.read_tail(through, deadline)).await;
        let Ok(state) = state? else { return Ok(None) };
        Ok(Some(Found { newest: Some(through), state, tail: tail?, damage: None }))
    }

    /// The latest complete checkpoint in the bucket and the log after it.
    async fn find_latest(&self, deadline: &Deadline) -> Result<Found, Failure> {
        let pointers = self.pointers(deadline).await?;
        let (newest, mut damage) = (pointers.keys().next_back().copied(), None);
        for through in pointers.into_keys().rev() {
            let (state, tail) = join(self.load_pointer(through, deadline), self.read_tail(through, deadline)).await;
            match unless_damaged(state)? {
                Ok(state) => return Ok(Found { newest, state, tail: tail?, damage }),
                Err(failure) => damage = damage.or(Some(failure)),
            }
        }
        Ok(Found { newest, state: State::default(), tail: self.read_tail(0, deadline).await?, damage })
    }

    /// Lists the log from a commit on, and reads the first commits after it. A listing shows gaps, and is current: no
    /// number is taken before the one before it.
    async fn read_tail(&self, through: u64, deadline: &Deadline) -> Result<Tail, Failure> {
        let first = through.max(1);
        let listed = self.log_after(first - 1, deadline).await?.numbered;
        self.refuse_gaps(first, &listed, deadline).await?;
        let mut bytes: u64 = 0;
        let mut fits = |size| {
            bytes = bytes.saturating_add(size);
            bytes <= MAX_TAIL_BYTES
        };
        let later = listed.range((Bound::Excluded(through), Bound::Unbounded)).take(MAX_TAIL);
        let numbers: Vec<_> = later.take_while(|(_, object)| fits(object.size)).map(|(number, _)| *number).collect();
        let entries = stream::iter(numbers).map(|number| self.entry(number, deadline));
        let read = entries.buffered(MAX_TAIL).try_collect().await?;
        Ok(Tail { last: listed.keys().next_back().copied(), read })
    }

    /// Applies the commits after a state. The first ones were `read`. Returns `false` at one that was trimmed.
    async fn apply_through(
        &self,
        state: &mut State,
        read: Vec<Entry>,
        last: u64,
        deadline: &Deadline,
    ) -> Result<bool, Failure> {
        let unread = state.number + 1 + read.len() as u64..=last;
        let unread = stream::iter(unread).map(|number| self.entry(number, deadline)).buffered(CONCURRENCY);
        let mut entries = stream::iter(read.into_iter().map(Ok)).chain(unread);
        while let Some(entry) = entries.try_next().await? {
            let key = self.bucket.keys.commit(state.number + 1);
            match entry {
                Entry::Commit(commit, stored) => state.apply(key.as_ref(), *commit, stored)?,
                Entry::Trimmed(_) => return Ok(false),
                Entry::Free => return Err(Damage::Missing { key: key.to_string() }.into()),
            }
        }
        Ok(true)
    }
}
