//! [`Under`]: the stores of a fixture, under a policy.

use std::ffi::OsStr;
use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;

use async_trait::async_trait;
use memory_tool_conformance::{DEFAULT_RACES, FixtureError, StoreFixture, Suite};
use memory_tool_core::{MAX_PATH_BYTES, MemoryTool, Store};
use memory_tool_test_fixtures::{ServingFixture, directory_in_ram};
use tempfile::TempDir;

use crate::policy::{Policy, scoped};

/// Names the directory of the audit log to a program.
const LOG: &str = "MEMORY_TOOL_TEST_LOG";

/// How many races each pair of a policy and a store runs: a fifth of what the store runs by itself, as there are so many pairs.
const RACES: usize = DEFAULT_RACES / 5;

pub(crate) struct Under<F> {
    policy: Policy,
    beneath: F,
    /// The groups of cases that are run; all where there are none.
    groups: &'static [&'static str],
}

/// The place of a memory, and that of its log.
pub(crate) struct Place<G> {
    beneath: G,
    log: TempDir,
}

impl<F> Under<F> {
    pub(crate) fn new(policy: Policy, beneath: F) -> Self {
        Self { policy, beneath, groups: &[] }
    }

    /// Runs only these groups of cases.
    pub(crate) fn only(self, groups: &'static [&'static str]) -> Self {
        Self { groups, ..self }
    }

    async fn over<G>(&self, store: Arc<dyn Store>, place: &Place<G>) -> Result<Arc<dyn Store>, FixtureError> {
        self.policy.over(store, place.log.path()).await
    }
}

#[async_trait]
impl<F: StoreFixture> StoreFixture for Under<F> {
    type Guard = Place<F::Guard>;

    async fn fresh(&self) -> Result<(Arc<dyn Store>, Self::Guard), FixtureError> {
        let (store, beneath) = self.beneath.fresh().await?;
        let place = Place { beneath, log: directory_in_ram()? };
        Ok((self.over(store, &place).await?, place))
    }

    async fn reopen(&self, place: &Self::Guard) -> Result<Arc<dyn Store>, FixtureError> {
        self.over(self.beneath.reopen(&place.beneath).await?, place).await
    }

    fn program(&self, place: &Self::Guard) -> Result<Command, FixtureError> {
        let mut program = self.beneath.program(&place.beneath)?;
        program.env(LOG, place.log.path());
        Ok(program)
    }

    fn plain_files(&self, place: &Self::Guard) -> Result<PathBuf, FixtureError> {
        let files = self.beneath.plain_files(&place.beneath)?;
        let Some(directory) = self.policy.directory() else { return Ok(files) };
        let files = files.join(directory);
        fs::create_dir_all(&files)?; // an empty scope has none
        Ok(files)
    }

    fn directory(&self, place: &Self::Guard) -> Result<PathBuf, FixtureError> {
        self.beneath.directory(&place.beneath)
    }

    async fn scope(&self, place: &Self::Guard, name: &str) -> Result<Arc<dyn Store>, FixtureError> {
        match self.policy {
            Policy::Scopes => scoped(self.beneath.reopen(&place.beneath).await?, name),
            _ => self.over(self.beneath.scope(&place.beneath, name).await?, place).await,
        }
    }

    async fn beneath(&self, place: &Self::Guard) -> Result<Arc<dyn Store>, FixtureError> {
        self.beneath.beneath(&place.beneath).await
    }

    async fn reopen_with_wrong_key(&self, place: &Self::Guard) -> Result<Arc<dyn Store>, FixtureError> {
        self.over(self.beneath.reopen_with_wrong_key(&place.beneath).await?, place).await
    }

    async fn another_of_the_key(&self, place: &Self::Guard) -> Result<(Arc<dyn Store>, Arc<dyn Store>), FixtureError> {
        let (store, beneath) = self.beneath.another_of_the_key(&place.beneath).await?;
        Ok((self.over(store, place).await?, beneath))
    }

    fn secrets(&self, place: &Self::Guard) -> Vec<String> {
        let log = place.log.path().file_name().and_then(OsStr::to_str);
        let own = [log, self.policy.directory()];
        own.into_iter().flatten().map(str::to_owned).chain(self.beneath.secrets(&place.beneath)).collect()
    }

    fn can_store(&self, path: &str) -> bool {
        let directory_bytes = self.policy.directory().map_or(0, |directory| "/".len() + directory.len());
        path.len() + directory_bytes <= MAX_PATH_BYTES && self.beneath.can_store(path)
    }
}

#[async_trait]
impl<F: ServingFixture> ServingFixture for Under<F> {
    async fn served_store(&self) -> Result<Arc<dyn Store>, FixtureError> {
        self.policy.over(self.beneath.served_store().await?, &served_log()?).await
    }

    async fn served_tool(&self) -> Result<Box<dyn MemoryTool>, FixtureError> {
        self.policy.tool(self.served_store().await?, &served_log()?).await
    }

    fn into_suite(self) -> Suite {
        let Self { policy, groups, .. } = self;
        let suite = policy.restrict(Suite::for_store(self)).races(RACES);
        groups.iter().fold(suite, |suite, group| suite.filter(*group))
    }
}

fn served_log() -> Result<PathBuf, FixtureError> {
    let log = std::env::var_os(LOG);
    log.map(PathBuf::from).ok_or_else(|| FixtureError::failed("no directory of the log is named"))
}
