//! Entries that other programs create: they break no listing, and are not lost unexpectedly.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;

use crate::support::{TestMemory, leave_unfinished, make_pipe, tree};
use memory_tool_core::{ErrorKind, MemoryTool, OpenOptions, StoreError, StoreExt};
use memory_tool_local::LocalStore;
use serde_json::json;

#[tokio::test]
async fn p4_the_error_about_a_special_file_names_it() {
    let memory = TestMemory::new().await;
    make_pipe(&memory.on_disk("/memories/pipe"));
    let expected = "Error: The path /memories/pipe is neither a file nor a directory and cannot be used";
    assert_eq!(memory.view("/memories/pipe").await, expected);
}

#[tokio::test]
async fn v1_illegal_names_are_counted_and_reported() {
    let memory = TestMemory::new().await;
    memory.create("/memories/d/a.txt", "a").await;
    let directory = memory.on_disk("/memories/d");
    let illegal: [&[u8]; 5] =
        [b"not \xff UTF-8", b"line\nfeed", "cafe\u{301}.md".as_bytes(), b"back\\slash", b"%2e%2e"];
    for name in illegal {
        fs::write(directory.join(OsStr::from_bytes(name)), "foreign").unwrap();
    }
    let count = "[5 items could not be listed: 5 with illegal names.]";
    let counted = async |path: &str| assert!(memory.view(path).await.ends_with(count), "{}", memory.view(path).await);
    let listing = memory.view("/memories").await;
    assert!(listing.contains("\n1B\t/memories\n1B\t/memories/d/\n1B\t/memories/d/a.txt\n["), "{listing}");
    counted("/memories").await;
    counted("/memories/d").await;
    let problems = memory.tool.store().verify(|_| {}).await.unwrap().problems;
    let messages: Vec<_> = problems.iter().map(|problem| problem.message.as_str()).collect();
    assert_eq!(messages.len(), illegal.len(), "{messages:?}");
    for escaped in ["line\\nfeed", "cafe\u{301}.md", "%2e%2e"] {
        assert!(messages.iter().any(|message| message.contains(escaped)), "{escaped}: {messages:?}");
    }
    // Links and special files are not part of the memory.
    symlink("a.txt", directory.join("link\nfeed")).unwrap();
    make_pipe(&directory.join("pipe\nfeed"));
    counted("/memories/d").await;
    for name in ["link\nfeed", "pipe\nfeed"] {
        fs::remove_file(directory.join(name)).unwrap();
    }
    assert_eq!(memory.rename("/memories/d", "/memories/e").await, "Successfully renamed /memories/d to /memories/e");
    assert_eq!(tree(&memory.on_disk("/memories/e")).len(), 1 + illegal.len());
    memory.delete("/memories/e/a.txt").await;
    assert_eq!(tree(&memory.on_disk("/memories/e")).len(), illegal.len(), "files with illegal names are kept");
    counted("/memories/e").await;
    assert_eq!(memory.delete("/memories/e").await, "Successfully deleted /memories/e");
    assert!(memory.view("/memories").await.ends_with("\n0B\t/memories"));
}

#[tokio::test]
async fn names_of_internal_files_are_ordinary_names() {
    let memory = TestMemory::new().await;
    for name in [".memory-tool/lock", "memories", "lock", "journal", "staging", ".tmp-1"] {
        let path = format!("/memories/{name}");
        assert_eq!(memory.create(&path, name).await, format!("File created successfully at: {path}"));
        assert!(memory.view(&path).await.ends_with(name));
    }
}

#[tokio::test]
async fn removed_directories_are_recreated() {
    let memory = TestMemory::new().await;
    memory.create("/memories/a.txt", "a").await;
    fs::remove_dir_all(memory.base().join("memories")).unwrap();
    assert!(memory.view("/memories").await.ends_with("\n0B\t/memories"));
    fs::remove_dir_all(memory.base().join(".memory-tool")).unwrap();
    assert_eq!(memory.create("/memories/d/b.txt", "b").await, "File created successfully at: /memories/d/b.txt");
    fs::remove_dir_all(memory.base()).unwrap();
    let failed = "Error: The memory storage failed. Nothing was changed.";
    assert_eq!(memory.create("/memories/c.txt", "c").await, failed);
    assert_eq!(memory.view("/memories").await, failed);
    fs::create_dir_all(memory.base()).unwrap(); // a new directory with this name is another store
    assert_eq!(memory.view("/memories").await, failed);
}

#[tokio::test]
async fn a_link_instead_of_a_store_directory_is_refused() {
    for name in ["memories", ".memory-tool", ".memory-tool/staging"] {
        let memory = TestMemory::new().await;
        memory.create("/memories/a.txt", "a").await;
        fs::remove_dir_all(memory.base().join(name)).unwrap();
        symlink(memory.outside(), memory.base().join(name)).unwrap();
        let error = LocalStore::open(memory.base()).await.unwrap_err();
        let cause = std::error::Error::source(&error).unwrap().to_string();
        assert!(cause.contains("is a symbolic link"), "{cause}");
        let reply = memory.create("/memories/b.txt", "b").await;
        assert!(reply.starts_with("Error: The memory storage failed"), "{reply}");
        assert_eq!(tree(&memory.outside()), []);
    }
    let memory = TestMemory::new().await;
    fs::write(memory.outside().join("target"), "kept").unwrap();
    fs::remove_file(memory.base().join(".memory-tool/lock")).ok();
    symlink(memory.outside().join("target"), memory.base().join(".memory-tool/lock")).unwrap();
    assert!(memory.create("/memories/b.txt", "b").await.starts_with("Error: The memory storage failed"));
    assert_eq!(fs::read(memory.outside().join("target")).unwrap(), b"kept");
}

#[tokio::test]
async fn a_damaged_journal_blocks_the_store_and_loses_no_file() {
    let memory = TestMemory::new().await;
    memory.create("/memories/a.txt", "a").await;
    let journal = memory.base().join(".memory-tool/journal");
    for damaged in ["", "{", r#"{"format": 2, "steps": []}"#] {
        fs::write(&journal, damaged).unwrap();
        leave_unfinished(&memory.base());
        let error = memory.tool.call(json!({"command": "view", "path": "/memories"})).await.unwrap_err();
        assert_eq!(error.to_string(), "Error: The memory storage holds damaged data here. Nothing was changed.");
        let source = std::error::Error::source(&error).unwrap().downcast_ref::<StoreError>().unwrap();
        assert!(matches!(source, StoreError::Failure { kind: ErrorKind::Damaged, .. }), "{source:?}");
    }
    fs::remove_file(journal).unwrap();
    assert!(memory.view("/memories/a.txt").await.ends_with("\ta"));
}

#[tokio::test]
async fn a_base_that_cannot_be_a_directory_is_refused() {
    let memory = TestMemory::new().await;
    let file = memory.outside().join("file");
    fs::write(&file, "x").unwrap();
    for base in [file.clone(), file.join("below")] {
        let error = LocalStore::open(&base).await.unwrap_err();
        assert!(error.to_string().contains(base.to_str().unwrap()) && std::error::Error::source(&error).is_some());
    }
    assert_eq!(fs::read(&file).unwrap(), b"x");
}

#[tokio::test]
async fn a_tree_as_deep_as_a_path_can_be_is_listed_moved_and_deleted() {
    let memory = TestMemory::new().await;
    let deep = format!("/memories{}", "/d".repeat(507));
    assert_eq!(memory.create(&deep, "x").await, format!("File created successfully at: {deep}"));
    assert!(memory.view("/memories").await.ends_with("\n1B\t/memories\n1B\t/memories/d/\n1B\t/memories/d/d/"));
    let too_long = memory.rename("/memories/d", "/memories/longer/name").await;
    assert!(too_long.contains("A path may have up to 1024 bytes"), "{too_long}");
    assert!(memory.view(&deep).await.ends_with("\tx"));
    assert_eq!(memory.rename("/memories/d", "/memories/e").await, "Successfully renamed /memories/d to /memories/e");
    assert_eq!(memory.delete("/memories/e").await, "Successfully deleted /memories/e");
    assert_eq!(tree(&memory.base().join("memories")), []);
    assert_eq!(tree(&memory.base().join(".memory-tool/staging")), []);
}

#[tokio::test]
async fn missing_directories_above_the_base_are_created() {
    let memory = TestMemory::new().await;
    let base = memory.outside().join("new/../other/./base");
    LocalStore::open(&base).await.unwrap();
    assert!(memory.outside().join("other/base/memories").is_dir());
}

/// A disk that refuses a step of an interrupted change and its undo: here, because of links of another program.
#[tokio::test]
async fn a_stuck_change_blocks_no_reads_and_is_reported() {
    let memory = TestMemory::new().await;
    memory.create("/memories/a", "old").await;
    let private = memory.base().join(".memory-tool");
    let [staged, removed] = ["0123456789abcdef", "1123456789abcdef"];
    fs::write(private.join("staging").join(staged), "new").unwrap();
    fs::write(private.join("staging").join(removed), "removed").unwrap();
    symlink("/", memory.on_disk("/memories/link")).unwrap();
    symlink("..", private.join("conflicts")).unwrap();
    let done = (0..6).map(|number| {
        format!(r#"{{"remove":{{"path":"/memories/gone{number}","removed":"{number}23456789abcdef0"}}}},"#)
    });
    let steps = format!(
        r#"{}{{"remove":{{"path":"/memories/a","removed":"{removed}"}}}},{{"write":{{"path":"/memories/link/b","staged":
        "{staged}","replaces":null,"undo":{{"kept":"2123456789abcdef","written":[]}}}}}}"#,
        done.collect::<String>()
    );
    fs::write(private.join("journal"), format!(r#"{{"format":1,"steps":[{steps}]}}"#)).unwrap();
    leave_unfinished(&memory.base());
    for _ in 0..2 {
        let create = memory.create("/memories/c", "c").await;
        assert_eq!(create, "Error: The memory storage failed. Nothing was changed.");
        assert!(memory.view("/memories/a").await.ends_with("\told"));
        for options in [OpenOptions::new(), OpenOptions::new().read_only()] {
            let store = LocalStore::builder(memory.base()).options(options).open().await.unwrap();
            assert_eq!(store.read_to_string("/memories/a").await.unwrap(), "old");
            let problems = store.verify(|_| {}).await.unwrap().problems;
            assert_eq!(problems.len(), 1, "{problems:?}");
            let message = &problems[0].message;
            let blocks = "at the removal of /memories/a (undoing a change failed: `conflicts` is a symbolic link)";
            for part in [blocks, "/memories/gone0, ", " and 3 more", "memory-tool run --store"] {
                assert!(message.contains(part), "{message}");
            }
        }
    }
    fs::remove_file(private.join("conflicts")).unwrap();
    assert_eq!(memory.create("/memories/c", "c").await, "File created successfully at: /memories/c");
    assert_eq!(fs::read(private.join("conflicts").join(removed)).unwrap(), b"removed");
    assert!(!private.join("stuck").exists() && !private.join("journal").exists());
}

/// The next opening for writing removes it. A check after a crash must not advise to delete it.
#[tokio::test]
async fn a_leftover_of_a_killed_writer_is_no_problem() {
    let memory = TestMemory::new().await;
    memory.create("/memories/a", "text").await;
    let leftover = memory.base().join(".memory-tool/staging/0123456789abcdef");
    let problems = async |options| {
        let store = LocalStore::builder(memory.base()).options(options).open().await.unwrap();
        store.verify(|_| {}).await.unwrap().problems
    };
    fs::write(&leftover, "left").unwrap();
    leave_unfinished(&memory.base());
    assert_eq!(problems(OpenOptions::new().read_only()).await, []);
    assert_eq!(problems(OpenOptions::new()).await, []);
    assert!(!leftover.exists());
    // The last change was complete, so it could not be removed.
    fs::write(&leftover, "left").unwrap();
    assert_eq!(problems(OpenOptions::new().read_only()).await.len(), 1);
}

/// FUSE and NFS keep removed files under such names while a program has them open.
#[tokio::test]
async fn remnants_of_removed_files_are_not_part_of_the_memory() {
    for remnant in [".fuse_hidden0000000c00000003", ".nfs000000000123456700000001"] {
        let memory = TestMemory::new().await;
        memory.create("/memories/keep", "k").await;
        fs::create_dir_all(memory.on_disk("/memories/d/e")).unwrap();
        fs::write(memory.on_disk("/memories/d/e").join(remnant), "removed").unwrap();
        let path = format!("/memories/d/e/{remnant}");
        for absent in ["/memories/d", &path] {
            assert!(memory.view(absent).await.ends_with("does not exist. Please provide a valid path."), "{absent}");
        }
        let listed = memory.tool.store().list("/memories").await.unwrap();
        assert_eq!(listed.iter().map(|file| file.path.as_str()).collect::<Vec<_>>(), ["/memories/keep"]);
        let refused = memory.create(&path, "x").await;
        assert_eq!(refused, "Error: The memory storage does not support this file name. Nothing was changed.");
        assert_eq!(
            memory.rename("/memories/keep", "/memories/d").await,
            "Successfully renamed /memories/keep to /memories/d"
        );
        assert_eq!(fs::read(memory.on_disk("/memories/d")).unwrap(), b"k");
    }
}
