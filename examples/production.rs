//! The memories of a service for many users, under every policy. `docs/production.md` says why each line is where it is.
//! Run it: `cargo run --example production`

#![allow(clippy::print_stdout, reason = "an example prints")]

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use memory_tool::encrypted::{EncryptedStore, KeyRing, RawKey};
use memory_tool::local::LocalStore;
use memory_tool::policies::{
    Actor, AuditedStore, AuditedTool, ExpiringStore, JsonLinesLog, LimitedStore, Limits, MountedStore, ObservedStore,
    ObservedTool, Scope, ScopedStore, ScreenedStore, SensitiveData,
};
use memory_tool::{BoxError, Engine, MemoryTool, Store};
use serde_json::json;

const NINETY_DAYS: Duration = Duration::from_secs(90 * 24 * 60 * 60);

/// Opened once, when the service starts.
struct Memories {
    users: Arc<dyn Store>,
    team: Arc<dyn Store>,
    log: JsonLinesLog,
    screen: SensitiveData,
}

type UsersFiles = ExpiringStore<ScopedStore<Arc<dyn Store>>>;

impl Memories {
    async fn open(directory: &Path, keys: KeyRing) -> Result<Self, BoxError> {
        let stored = LocalStore::open(directory.join("users")).await?;
        let users = EncryptedStore::builder(stored, keys).name("users").open().await?;
        Ok(Self {
            users: Arc::new(ObservedStore::new(users, "users")),
            team: Arc::new(LocalStore::open(directory.join("team")).await?),
            log: JsonLinesLog::open(directory.join("audit.jsonl")).await?,
            screen: SensitiveData::new(),
        })
    }

    /// What belongs to a user, whose name comes from the authenticated session and never from the model.
    fn files_of(&self, user: &str) -> Result<UsersFiles, BoxError> {
        let scoped = ScopedStore::new(Arc::clone(&self.users), Scope::from_trusted_name(user)?);
        Ok(ExpiringStore::builder(scoped, NINETY_DAYS).pin("/memories/profile.md".parse()?).build()?)
    }

    /// The tool for a session of the user.
    fn tool_of(&self, user: &str) -> Result<Arc<dyn MemoryTool>, BoxError> {
        let limited = LimitedStore::new(self.files_of(user)?, Limits::default());
        let team = "/memories/team".parse()?;
        let mounted = MountedStore::builder(limited).mount_read_only(team, Arc::clone(&self.team)).build()?;
        let actor = Actor::from_trusted_name(user)?;
        let audited = AuditedStore::new(mounted, self.log.clone(), actor.clone());
        let engine = Engine::new(ScreenedStore::new(audited, self.screen.clone()));
        Ok(Arc::new(ObservedTool::new(AuditedTool::new(engine, self.log.clone(), actor), "users")))
    }
}

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    let directory = tempfile::tempdir()?;
    let memories = Memories::open(directory.path(), KeyRing::new(RawKey::generate()?)).await?;
    let tool = memories.tool_of("alice")?;
    for (path, text) in [
        ("/memories/profile.md", "Prefers trains."),
        ("/memories/db.md", "postgres://app:t7Kq-9vLz2@db.internal/app"),
        ("/memories/team/style.md", "Be brief."),
    ] {
        match tool.call(json!({"command": "create", "path": path, "file_text": text})).await {
            Ok(reply) => println!("{reply}"),
            Err(error) => println!("{error}"),
        }
    }
    let swept = memories.files_of("alice")?.sweep().await?; // every night, for each user
    println!("{} files expired, {} are kept", swept.removed.len(), swept.kept);
    Ok(())
}
