//! The methods of a [`Memory`] that need its layers.

use std::sync::Arc;

use memory_tool_core::{
    ErrorKind, Precondition, Problem, Search, SearchError, SearchReport, Store, StoreError, StorePath, VerifyProgress,
    VerifyReport,
};
use memory_tool_encrypted::EncryptedStore;
use memory_tool_history::{History, HistoryError, HistoryStore};
use memory_tool_policies::{Scope, ScopedStore, SweepReport};
use memory_tool_proposals::{ProposalSummary, Proposals, WaitingLimits};

use crate::memory::Memory;
use crate::transfer::sync::is_conflict_copy;

impl Memory {
    /// The encrypted store, for [rekeying](memory_tool_encrypted::EncryptedStore::rekey). Returns `None` if the memory
    /// is not [encrypted](crate::MemoryBuilder::encrypt).
    pub fn encrypted(&self) -> Option<&EncryptedStore> {
        self.inner.layers.encrypted.as_ref()
    }

    /// The history, to see and take back changes. Without the option, a memory has no entries. Returns `None`
    /// for a [custom store](Self::over) without the option.
    ///
    /// Its operations pass the policies like any change: limits and screening apply to restored files, and the audit
    /// log records them. For a [proposal](crate::MemoryBuilder::proposal), it is the one of the memory, and read-only.
    pub fn history(&self) -> Option<History<Arc<dyn Store>>> {
        let history = self.inner.layers.history.as_ref()?.history();
        let is_proposal = self.inner.layers.is_proposal;
        let history = if is_proposal { history } else { history.through(Arc::clone(&self.store)) };
        Some(self.actor.iter().cloned().fold(history, History::by))
    }

    /// The proposals, for a person who decides. The policies of this memory apply to the files that are taken. Returns
    /// `None` for a session of a [proposal](crate::MemoryBuilder::proposal), which must not decide.
    ///
    /// ```
    /// use memory_tool::Memory;
    /// use memory_tool::proposals::Selection;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let directory = tempfile::tempdir()?;
    /// # let url = directory.path();
    /// let memory = Memory::builder(url).history().build().await?;
    /// let session = Memory::builder(url).proposal("nightly".parse()?).build().await?;
    /// session.write("/memories/profile.md", "Prefers tea.").await?;
    /// assert!(!memory.exists("/memories/profile.md").await?);
    ///
    /// let proposals = memory.proposals().expect("it is no session of a proposal");
    /// let proposal = proposals.get(&"nightly".parse()?).await?;
    /// proposals.take(&proposal, &Selection::all(&proposal)).await?;
    /// assert_eq!(memory.read_to_string("/memories/profile.md").await?, "Prefers tea.");
    /// # Ok(())
    /// # }
    /// ```
    pub fn proposals(&self) -> Option<Proposals<Arc<dyn Store>>> {
        (!self.inner.layers.is_proposal).then(|| Proposals::new(self.store()))
    }

    /// Removes the files that have [expired](crate::MemoryBuilder::expire_after), which are already hidden. It removes
    /// no file of a read-only memory, or without that policy. If most files have expired, it
    /// [holds them back](memory_tool_policies::ExpiringStore::sweep) at first, because the clock may be wrong.
    ///
    /// # Errors
    /// The errors of [`ExpiringStore::sweep`](memory_tool_policies::ExpiringStore::sweep).
    pub async fn expire(&self) -> Result<SweepReport, StoreError> {
        let Some(expiring) = &self.inner.layers.expiring else { return Ok(SweepReport::default()) };
        expiring.sweep().await
    }

    /// Like [`expire`](Self::expire), but holds back nothing. Call it if the clock is known to be right.
    ///
    /// # Errors
    /// The errors of [`expire`](Self::expire).
    pub async fn expire_all(&self) -> Result<SweepReport, StoreError> {
        let Some(expiring) = &self.inner.layers.expiring else { return Ok(SweepReport::default()) };
        expiring.sweep_all().await
    }

    /// [`expire`](Self::expire) if a path is in this state when files are removed.
    ///
    /// # Errors
    /// The errors of [`expire`](Self::expire), and the error of the precondition.
    pub async fn expire_if(&self, path: StorePath, required: Precondition) -> Result<SweepReport, StoreError> {
        let Some(expiring) = &self.inner.layers.expiring else { return Ok(SweepReport::default()) };
        expiring.sweep_if(path, required).await
    }

    /// The [scopes](crate::MemoryBuilder::scope) that have files or records in the whole backend, sorted by name.
    /// [`StoreUrl::memories`](crate::StoreUrl::memories) lists the memories of a database, a bucket or a directory.
    ///
    /// # Errors
    /// The errors of [`read`](Self::read).
    pub async fn scopes(&self) -> Result<Vec<Scope>, StoreError> {
        Scope::list_in(&*self.whole_store()).await
    }

    /// The decrypted backend, without policies.
    fn whole_store(&self) -> Arc<dyn Store> {
        if let Some(encrypted) = &self.inner.layers.encrypted {
            return Arc::new(encrypted.clone());
        }
        self.inner.backend.store()
    }

    /// Finds words or a regular expression in the names and lines of all files that the policies show.
    ///
    /// ```
    /// use memory_tool::Memory;
    /// use memory_tool::search::Search;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let memory = Memory::open("in-process:").await?;
    /// memory.write("/memories/profile.md", "Name: Ada\nPrefers tea.").await?;
    /// let found = memory.search(&Search::new(r"^prefers \w+").regex()).await?;
    /// assert_eq!((found.results[0].path.as_str(), found.results[0].lines[0].number), ("/memories/profile.md", 2));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`SearchError`](memory_tool_core::SearchError) if the pattern is invalid or the memory cannot be read.
    pub async fn search(&self, search: &Search) -> Result<SearchReport, SearchError> {
        search.run(&self.store).await
    }

    /// Repairs the damaged histories of the memory and of all its scopes, and keeps what is sound: see
    /// [`History::repair`]. Returns what was done, in words.
    ///
    /// # Errors
    /// [`StoreError::Failure`] if the store cannot be read or changed.
    pub async fn repair_histories(&self) -> Result<Vec<String>, StoreError> {
        let (store, mut done) = (self.whole_store(), Vec::new());
        for scope in self.scopes().await? {
            let scoped = ScopedStore::new(Arc::clone(&store), scope.clone());
            let repaired = HistoryStore::if_present(scoped).history().repair().await;
            let repaired = repaired.map_err(HistoryError::into_store_error)?;
            done.extend(repaired.into_iter().map(|done| format!("scope {scope}: {done}")));
        }
        let repaired = HistoryStore::if_present(store).history().repair().await;
        done.extend(repaired.map_err(HistoryError::into_store_error)?);
        Ok(done)
    }

    pub(crate) async fn verify_layers(
        &self,
        progress: impl FnMut(VerifyProgress) + Send,
    ) -> Result<VerifyReport, StoreError> {
        let mut report = self.verify_files(progress).await?;
        let (store, is_sound) = (self.whole_store(), report.problems.is_empty());
        let scopes = match self.scopes().await {
            Ok(scopes) => scopes,
            Err(error) => return report.and(Err(error)),
        };
        for scope in scopes {
            let scoped = ScopedStore::new(Arc::clone(&store), scope.clone());
            for problem in problems_of_records(Arc::new(scoped), is_sound).await? {
                report.problems.push(Problem::new(format!("scope {scope}: {problem}")));
            }
        }
        report.problems.extend(problems_of_records(store, is_sound).await?);
        report.problems.extend(self.conflict_copies().await.unwrap_or_default());
        Ok(report)
    }

    /// The older texts of conflicts.
    async fn conflict_copies(&self) -> Result<Vec<Problem>, StoreError> {
        let files = self.list(StorePath::memories()).await?.into_iter().map(|file| file.path);
        let of_conflict = |path: StorePath| {
            let message = format!("{path} has the older text of a conflict; compare the files, and remove it");
            Problem::new(message).with_path(path)
        };
        Ok(files.filter(is_conflict_copy).map(of_conflict).collect())
    }

    async fn verify_files(&self, progress: impl FnMut(VerifyProgress) + Send) -> Result<VerifyReport, StoreError> {
        if let Some(encrypted) = &self.inner.layers.encrypted {
            let mut stored = self.inner.backend.verify_structure().await?.problems;
            let read = encrypted.verify(progress).await;
            // Both reports can contain the same problem. Only the report of the encrypted store names the affected
            // file.
            let of_files = read.iter().flat_map(|read| &read.problems);
            let is_known = |object: &StorePath| of_files.clone().any(|known| known.object.as_ref() == Some(object));
            stored.retain(|problem| !problem.path.as_ref().is_some_and(is_known));
            return VerifyReport::from(stored).and(read);
        }
        self.inner.backend.verify(progress).await
    }
}

/// The problems of a history and of proposals. A failure to read those of a store with problems is another problem.
async fn problems_of_records(store: Arc<dyn Store>, is_sound: bool) -> Result<Vec<Problem>, StoreError> {
    let mut problems = match HistoryStore::if_present(Arc::clone(&store)).history().verify().await {
        Ok(found) => found.damage.into_iter().map(Problem::new).collect(),
        Err(HistoryError::Store(error)) if is_sound && error.kind() != ErrorKind::Damaged => return Err(error),
        Err(error) => vec![Problem::of(&error)],
    };
    match Proposals::new(store).list().await {
        Ok(listed) => problems.extend(listed.iter().filter_map(problem_of_proposal)),
        Err(error) if is_sound => return Err(error),
        Err(error) => problems.push(Problem::of(&error)),
    }
    Ok(problems)
}

/// A proposal that cannot be read, or waits too long.
fn problem_of_proposal(ProposalSummary { name, created, is_damaged, .. }: &ProposalSummary) -> Option<Problem> {
    const DAY: u64 = 24 * 60 * 60;
    if *is_damaged {
        return Some(Problem::new(format!("the proposal {name} is damaged; it can only be dropped")));
    }
    let days = created.elapsed().unwrap_or_default().as_secs() / DAY;
    let waits = || Problem::new(format!("the proposal {name} has waited for {days} days; take or drop its changes"));
    WaitingLimits::new().are_exceeded_since(*created).then(waits)
}
