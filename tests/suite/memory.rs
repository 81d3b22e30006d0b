//! The conformance suite on the store of a `Memory` with encryption and policies.

use std::sync::{Arc, LazyLock};
use std::time::Duration;

use async_trait::async_trait;
use memory_tool::encrypted::{KeyRing, RawKey};
use memory_tool::policies::{JsonLinesLog, SensitiveData};
use memory_tool::{Actor, BoxError, InMemoryStore, Memory, Quota, Store};
use memory_tool_conformance::{BackendFixture, FixtureError, Suite};
use tempfile::TempDir;

/// Shared, because its patterns take long to compile.
static SCREEN: LazyLock<SensitiveData> = LazyLock::new(SensitiveData::new);

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

struct Fixture;

async fn memory(log: &TempDir) -> Result<Memory, BoxError> {
    let log = JsonLinesLog::open(log.path().join("audit.jsonl")).await?;
    let memory = Memory::over(InMemoryStore::new())
        .on_change(|_| ())
        .screen(SCREEN.clone())
        .audit(log, Actor::from_trusted_name("suite")?)
        .limits(Quota::new().with_files(1_000_000).with_bytes(1 << 40))
        .expire_after(DAY)
        .observe("suite")
        .encrypt(KeyRing::new(RawKey::generate()?));
    Ok(memory.build().await?)
}

#[async_trait]
impl BackendFixture for Fixture {
    type Guard = TempDir;

    async fn fresh(&self) -> Result<(Arc<dyn Store>, TempDir), FixtureError> {
        let log = tempfile::tempdir()?;
        Ok((memory(&log).await.map_err(FixtureError::failed)?.store(), log))
    }
}

pub(crate) fn suite() -> Suite {
    Suite::for_store(Fixture)
}
