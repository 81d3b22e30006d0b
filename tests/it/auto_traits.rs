//! Public types can be shared between threads, and futures can be spawned.

use std::sync::Arc;
use std::time::Duration;

use memory_tool::policies::SweepTask; // imported from `memory_tool`, to check that its feature exists there
use memory_tool::{Memory, MemoryBuilder};
use memory_tool_bucket::{BucketStore, BucketStoreBuilder};
use memory_tool_core::{
    Batch, Command, Engine, Error, ErrorKind, InMemoryStore, MemoryPath, MemoryTool, Node, OpenError, OpenOptions,
    PathMap, Precondition, Problem, Quota, ReadOnlyStore, ReadOptions, Reply, Stat, Store, StoreError, StoreExt,
    StorePath, VerifyReport,
};
use memory_tool_encrypted::{
    EncryptedStore, EncryptedStoreBuilder, KeyProvider, KeyRing, Passphrase, RawKey, RekeyProgress,
};
use memory_tool_local::{LocalStore, LocalStoreBuilder};
use memory_tool_policies::{
    AuditedStore, AuditedTool, ExpiringStore, JsonLinesLog, LimitedStore, MountedStore, ObservedStore, ObservedTool,
    ScopedStore, ScreenedStore, SensitiveData,
};
use memory_tool_sqlite::{SqliteStore, SqliteStoreBuilder};
use object_store::memory::InMemory;

fn shared_between_threads<T: Send + Sync + 'static>() {}

fn spawned<F: Future + Send>(future: F) -> F {
    future
}

#[test]
fn types_can_be_shared_between_threads() {
    shared_between_threads::<Engine<LocalStore>>();
    shared_between_threads::<Arc<dyn MemoryTool>>();
    shared_between_threads::<Arc<dyn Store>>();
    shared_between_threads::<(Batch, Command, Error, MemoryPath, Reply, StoreError)>();
    shared_between_threads::<(ErrorKind, Node, Precondition, Quota, ReadOptions, StorePath, Stat, PathMap<Vec<u8>>)>();
    shared_between_threads::<(OpenError, OpenOptions, Problem, VerifyReport)>();
    shared_between_threads::<(Memory, MemoryBuilder)>();
    shared_between_threads::<(InMemoryStore, LocalStore, LocalStoreBuilder)>();
    shared_between_threads::<(BucketStore, BucketStoreBuilder)>();
    shared_between_threads::<(EncryptedStore, EncryptedStoreBuilder)>();
    shared_between_threads::<(KeyRing, Passphrase, RawKey, Arc<dyn KeyProvider>)>();
    type AnyStore = Arc<dyn Store>;
    shared_between_threads::<(AuditedStore<AnyStore>, ExpiringStore<AnyStore>, LimitedStore<AnyStore>, MountedStore)>();
    shared_between_threads::<(ObservedStore<AnyStore>, ReadOnlyStore<AnyStore>, ScopedStore<AnyStore>, SweepTask)>();
    shared_between_threads::<(ScreenedStore<AnyStore, SensitiveData>, JsonLinesLog)>();
    shared_between_threads::<(AuditedTool<Arc<dyn MemoryTool>>, ObservedTool<Arc<dyn MemoryTool>>)>();
    shared_between_threads::<(SqliteStore, SqliteStoreBuilder)>();
}

#[test]
fn futures_can_be_spawned() {
    let tool: Arc<dyn MemoryTool> = Arc::new(Engine::new(InMemoryStore::new()));
    let store: Box<dyn Store> = Box::new(InMemoryStore::new());
    drop(spawned(tool.call(serde_json::Value::Null)));
    drop(spawned(tool.clear_all_memory()));
    drop(spawned(store.read_opts(&MemoryPath::root(), ReadOptions::new())));
    drop(spawned(store.apply(Batch::new())));
    drop(spawned(store.read("/memories")));
    drop(spawned(store.read_to_string("/memories")));
    drop(spawned(store.write("/memories/a", "never written")));
    drop(spawned(store.list("/memories")));
    drop(spawned(store.remove("/memories")));
    drop(spawned(store.rename("/memories/a", "/memories/b")));
    drop(spawned(store.usage()));
    drop(spawned(VerifyReport::default().read_files(&store, |_| {})));
    drop(spawned(Memory::open("never opened")));
    drop(spawned(LocalStore::open("never opened")));
    drop(spawned(BucketStore::open(Arc::new(InMemory::new()), "never opened".into())));
    drop(spawned(SqliteStore::open("never opened")));
    let keys = KeyRing::new(RawKey::from_bytes([0; 32]));
    drop(spawned(EncryptedStore::open(InMemoryStore::new(), keys)));
    let expiring = ExpiringStore::builder(InMemoryStore::new(), Duration::from_secs(60)).build().unwrap();
    drop(spawned(expiring.sweep()));
    drop(spawned(expiring.expired()));
    drop(spawned(JsonLinesLog::open("never opened")));
    drop(spawned(RawKey::from_file("never read")));
}

/// This function only has to compile.
#[expect(dead_code, reason = "the compiler runs this test")]
fn spawned_rekeying(store: &EncryptedStore) -> impl Future + Send {
    store.rekey(drop::<RekeyProgress>)
}
