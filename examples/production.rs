//! A service for many users with every policy. `docs/production.md` explains their order.
//! Run it: `cargo run -p examples --example production`

#![allow(clippy::print_stdout, reason = "an example prints")]

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use memory_tool::encrypted::{KeyRing, RawKey};
use memory_tool::policies::{JsonLinesLog, Scope, SensitiveData, default_quota};
use memory_tool::{Actor, BoxError, Memory, Store};
use serde_json::json;

const NINETY_DAYS: Duration = Duration::from_secs(90 * 24 * 60 * 60);

/// State that is created once, when the service starts.
struct Service {
    users: Arc<dyn Store>,
    team: Arc<dyn Store>,
    log: JsonLinesLog,
    screen: SensitiveData,
}

impl Service {
    async fn open(directory: &Path, keys: KeyRing) -> Result<Self, BoxError> {
        let users = Memory::builder(directory.join("users")).encrypt(keys);
        Ok(Self {
            users: users.label("users").build().await?.store(),
            team: Memory::open(directory.join("team")).await?.store(),
            log: JsonLinesLog::open(directory.join("audit.jsonl")).await?,
            screen: SensitiveData::new(),
        })
    }

    /// Opens a user's memory for one session. The name must come from the authenticated request, never from the model.
    async fn memory_of(&self, user: &str) -> Result<Memory, BoxError> {
        let memory = Memory::over(Arc::clone(&self.users))
            .scope(Scope::from_trusted_name(user)?)
            .expire_after(NINETY_DAYS)
            .pin("/memories/profile.md".parse()?)
            .limits(default_quota())
            .mount_read_only("/memories/team".parse()?, Arc::clone(&self.team))
            .audit(self.log.clone(), Actor::from_trusted_name(user)?)
            .screen(self.screen.clone())
            .observe("users");
        Ok(memory.build().await?)
    }
}

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    let directory = tempfile::tempdir()?;
    let service = Service::open(directory.path(), KeyRing::new(RawKey::generate()?)).await?;
    let memory = service.memory_of("alice").await?;
    for (path, text) in [
        ("/memories/profile.md", "Prefers trains."),
        ("/memories/db.md", "postgres://app:t7Kq-9vLz2@db.internal/app"),
        ("/memories/team/style.md", "Be brief."),
    ] {
        match memory.tool().call(json!({"command": "create", "path": path, "file_text": text})).await {
            Ok(reply) => println!("{reply}"),
            Err(error) => println!("{error}"),
        }
    }
    let swept = memory.expire().await?; // every night, for each user
    println!("{} files expired, {} kept", swept.removed.len(), swept.kept);
    Ok(())
}
