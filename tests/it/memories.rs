//! Finding the memories of a store, and forgetting one.

use std::time::Duration;

use memory_tool::policies::Scope;
use memory_tool::store::{ReadOptions, StorePath};
use memory_tool::{Memory, MemoryOptions, OpenOptions, StoreUrl};

fn options(scope: &str) -> MemoryOptions {
    let mut options = MemoryOptions::new();
    options.scope = Some(Scope::from_trusted_name(scope).unwrap());
    options.expire_after = Some(Duration::from_secs(60));
    options.history = true;
    options
}

async fn paths(memory: &Memory, directory: StorePath) -> Vec<String> {
    let listed = memory.store().read_opts(&directory, ReadOptions::new()).await.unwrap().into_listing();
    listed.files.iter().map(|file| file.path.to_string()).collect()
}

#[tokio::test]
async fn a_forgotten_memory_leaves_no_record() {
    let directory = tempfile::tempdir().unwrap();
    let urls = ["store".into(), format!("sqlite:{}", directory.path().join("memory.db").display())];
    for url in urls.map(|url: String| url.replace("store", directory.path().join("store").to_str().unwrap())) {
        let url: StoreUrl = url.parse().unwrap();
        for scope in ["alice", "bob"] {
            let memory = options(scope).build(url.clone()).await.unwrap();
            memory.write("/memories/a.txt", "one").await.unwrap();
            memory.write("/memories/a.txt", "two").await.unwrap();
            memory.remove("/memories/a.txt").await.unwrap();
        }
        let whole = Memory::builder(url.to_string()).build().await.unwrap();
        // They have histories without files.
        let names = |scopes: Vec<Scope>| scopes.iter().map(ToString::to_string).collect::<Vec<_>>();
        assert_eq!(names(Scope::list_in(&*whole.store()).await.unwrap()), ["alice", "bob"], "{url}");

        options("alice").build(url.clone()).await.unwrap().forget().await.unwrap();
        assert_eq!(names(Scope::list_in(&*whole.store()).await.unwrap()), ["bob"], "{url}");
        assert_eq!(paths(&whole, StorePath::memories()).await, [""; 0], "{url}");
        let kept = paths(&whole, StorePath::records()).await;
        assert!(
            !kept.is_empty() && kept.iter().all(|record| record.starts_with("/records/scopes/scope-bob/")),
            "{kept:?}"
        );
        whole.forget().await.unwrap();
        whole.forget().await.unwrap(); // nothing is left
        assert_eq!(paths(&whole, StorePath::records()).await, [""; 0], "{url}");
    }
}

#[tokio::test]
async fn the_memories_of_a_database_and_of_a_directory_are_found() {
    let directory = tempfile::tempdir().unwrap();
    let database = format!("sqlite:{}", directory.path().join("memory.db").display());
    let shelf = directory.path().join("shelf");
    for url in [database.clone(), shelf.display().to_string()] {
        let url: StoreUrl = url.parse().unwrap();
        for name in ["bob", "alice"] {
            let memory = Memory::builder(url.child(name).unwrap().to_string()).build().await.unwrap();
            memory.write("/memories/a.txt", "text").await.unwrap();
        }
        let found = url.memories(OpenOptions::new()).await.unwrap();
        assert_eq!(found, ["alice", "bob"].map(|name| url.child(name).unwrap()));
        assert_eq!(found.iter().map(|url| url.name().unwrap()).collect::<Vec<_>>(), ["alice", "bob"]);
    }
    let missing = StoreUrl::Local(directory.path().join("missing"));
    assert!(missing.memories(OpenOptions::new()).await.unwrap_err().is_not_found());
    for name in ["", ".", "..", "a/b", "a\\b", "a\0"] {
        assert_eq!(missing.child(name), None, "{name:?}");
    }
}
