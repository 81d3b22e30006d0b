//! `Memory::forget` under each policy.

use std::path::Path;
use std::time::Duration;

use memory_tool::policies::Scope;
use memory_tool::store::{Batch, StorePath};
use memory_tool::{Actor, Memory, MemoryBuilder, MemoryOptions, Screening, Store as _, StoreUrl};
use memory_tool_encrypted::RawKey;

type Policy = (&'static str, fn(&mut MemoryOptions, &Path));

const POLICIES: [Policy; 9] = [
    ("history", |options, _| options.history = true),
    ("history_age", |options, _| options.history_age = Some(Duration::from_secs(60))),
    ("expire_after", |options, _| options.expire_after = Some(Duration::from_secs(60))),
    ("limits", |options, _| options.limits = true),
    ("screen", |options, _| options.screen = Some(Screening::Redact)),
    ("scope", |options, _| options.scope = Some(Scope::from_trusted_name("alice").unwrap())),
    ("audit_log", |options, directory| {
        options.audit_log = Some(directory.join("audit"));
        options.actor = Some(Actor::from_trusted_name("program").unwrap());
    }),
    ("mounts", |options, _| options.mounts = vec![("/memories/team".parse().unwrap(), StoreUrl::InProcess)]),
    ("key", |options, _| options.key = Some(std::sync::Arc::new(RawKey::from_bytes([1; 32])))),
];

/// The options of each policy, and of all together.
fn options(directory: &Path) -> Vec<(String, MemoryOptions)> {
    let mut all = MemoryOptions::new();
    let mut options: Vec<_> = POLICIES
        .into_iter()
        .map(|(name, set)| {
            let mut options = MemoryOptions::new();
            set(&mut options, directory);
            set(&mut all, directory);
            (name.to_owned(), options)
        })
        .collect();
    options.push(("all".to_owned(), all));
    options
}

fn places(directory: &Path, name: &str) -> [StoreUrl; 3] {
    let directory = directory.join(name);
    std::fs::create_dir(&directory).unwrap();
    let database = format!("sqlite:{}", directory.join("memory.db").display());
    [StoreUrl::InProcess, StoreUrl::Local(directory.join("store")), database.parse().unwrap()]
}

async fn fill(memory: &Memory) {
    for text in ["one", "two"] {
        memory.write("/memories/a.md", text).await.unwrap();
    }
    memory.write("/memories/d/b.md", "text").await.unwrap();
    memory.remove("/memories/d").await.unwrap();
}

/// Files and records.
async fn left(memory: &Memory) -> Vec<String> {
    let mut left = Vec::new();
    for root in [StorePath::memories(), StorePath::records()] {
        let listed = memory.store().read_opts(&root, Default::default()).await.unwrap().into_listing();
        left.extend(listed.files.into_iter().map(|file| file.path.to_string()));
    }
    left
}

#[tokio::test]
async fn a_memory_is_forgotten_under_each_policy() {
    let directory = tempfile::tempdir().unwrap();
    for (name, options) in options(directory.path()) {
        for place in places(directory.path(), &name) {
            let memory = options.build(MemoryBuilder::from(place.clone())).await.unwrap();
            memory.forget().await.unwrap_or_else(|error| panic!("{name}, {place}, empty: {error}"));
            for round in 0..2 {
                fill(&memory).await;
                assert!(!left(&memory).await.is_empty());
                memory.forget().await.unwrap_or_else(|error| panic!("{name}, {place}, round {round}: {error}"));
                assert_eq!(left(&memory).await, [""; 0], "{name}, {place}");
            }
            fill(&memory).await;
            let text = memory.read_to_string("/memories/a.md").await.unwrap();
            assert_eq!(text, "two", "{name}, {place}: the memory can be used again");
        }
    }
}

#[tokio::test]
async fn a_memory_with_damaged_access_times_is_forgotten() {
    let directory = tempfile::tempdir().unwrap();
    let mut options = MemoryOptions::new();
    options.expire_after = Some(Duration::from_secs(60));
    for place in places(directory.path(), "damaged") {
        let memory = options.build(MemoryBuilder::from(place.clone())).await.unwrap();
        fill(&memory).await;
        let times: StorePath = "/records/expiry/access-times".parse().unwrap();
        memory.backend().store().apply(Batch::new().write(times, "damaged")).await.unwrap();
        let memory = if place == StoreUrl::InProcess { memory } else { options.build(place.clone()).await.unwrap() };
        memory.forget().await.unwrap_or_else(|error| panic!("{place}: {error}"));
        assert_eq!(left(&memory).await, [""; 0], "{place}");
    }
}
