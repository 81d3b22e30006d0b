//! Files keep the mode that a person gave them, and are not edited without the owner's right to write.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use crate::support::{TestMemory, tree};
use memory_tool_core::{Batch, Engine, MemoryTool, Node, Precondition, Store, StoreError, StoreExt as _, StorePath};
use serde_json::json;

/// The mode of a file or directory; `None` if it does not exist.
fn mode(path: &Path) -> Option<u32> {
    fs::symlink_metadata(path).ok().map(|found| found.permissions().mode() & 0o7777)
}

#[tokio::test]
async fn an_edit_keeps_the_mode_that_a_person_set() {
    for kept in [0o600, 0o664, 0o640, 0o604, 0o755, 0o644] {
        let memory = TestMemory::new().await;
        let overwriting = Engine::builder(memory.tool.store().clone()).create_overwrites(true).build();
        let file = memory.on_disk("/memories/a");
        memory.create("/memories/a", "one").await;
        fs::set_permissions(&file, Permissions::from_mode(kept)).unwrap();
        for input in [
            json!({"command": "str_replace", "path": "/memories/a", "old_str": "one", "new_str": "two"}),
            json!({"command": "insert", "path": "/memories/a", "insert_line": 0, "insert_text": "zero"}),
            json!({"command": "create", "path": "/memories/a", "file_text": "three"}),
            json!({"command": "rename", "old_path": "/memories/a", "new_path": "/memories/b"}),
            json!({"command": "rename", "old_path": "/memories/b", "new_path": "/memories/a"}),
        ] {
            overwriting.call(input.clone()).await.unwrap();
            assert_eq!(mode(&file).unwrap_or(kept), kept, "after {input}");
        }
        let both = Batch::new().write("/memories/a".parse::<StorePath>().unwrap(), "four");
        memory.tool.store().apply(both.write("/memories/c".parse::<StorePath>().unwrap(), "four")).await.unwrap();
        assert_eq!((mode(&file), mode(&memory.on_disk("/memories/c"))), (Some(kept), Some(0o600)));
        assert_eq!(fs::read_to_string(&file).unwrap(), "four");
    }
}

#[tokio::test]
async fn a_write_protected_file_is_not_edited() {
    for protected in [0o444, 0o400, 0o464, 0o555] {
        let memory = TestMemory::new().await;
        let overwriting = Engine::builder(memory.tool.store().clone()).create_overwrites(true).build();
        let file = memory.on_disk("/memories/a");
        memory.create("/memories/a", "one").await;
        fs::set_permissions(&file, Permissions::from_mode(protected)).unwrap();
        for input in [
            json!({"command": "str_replace", "path": "/memories/a", "old_str": "one", "new_str": "two"}),
            json!({"command": "insert", "path": "/memories/a", "insert_line": 0, "insert_text": "zero"}),
            json!({"command": "create", "path": "/memories/a", "file_text": "three"}),
        ] {
            let refused = overwriting.call(input).await.unwrap_err();
            assert_eq!(refused.to_string(), "Error: The file /memories/a is write-protected, so it cannot be edited.");
        }
        let both = Batch::new().write("/memories/a".parse::<StorePath>().unwrap(), "four");
        let refused = memory
            .tool
            .store()
            .apply(both.write("/memories/c".parse::<StorePath>().unwrap(), "four"))
            .await
            .unwrap_err();
        assert!(matches!(refused, StoreError::Refused { policy: "write-protection", .. }), "{refused:?}");
        assert_eq!((mode(&file), fs::read_to_string(&file).unwrap()), (Some(protected), "one".to_owned()));
        assert_eq!(tree(&memory.base().join("memories")).len(), 1);
        assert_eq!(tree(&memory.base().join(".memory-tool/staging")), []);
        assert!(memory.view("/memories/a").await.ends_with("\tone"));
        assert!(memory.rename("/memories/a", "/memories/b").await.starts_with("Successfully renamed"));
        assert_eq!(mode(&memory.on_disk("/memories/b")), Some(protected));
        assert!(memory.delete("/memories/b").await.starts_with("Successfully deleted"));
    }
}

/// The version alone would not show it.
#[tokio::test]
async fn a_file_that_was_protected_since_it_was_read_is_not_edited() {
    let memory = TestMemory::new().await;
    let (store, file) = (memory.tool.store(), memory.on_disk("/memories/a"));
    for changed in [0o444, 0o640] {
        fs::write(&file, "one").unwrap();
        fs::set_permissions(&file, Permissions::from_mode(0o600)).unwrap();
        let Node::File(read) = store.read("/memories/a").await.unwrap() else { panic!("a file") };
        fs::set_permissions(&file, Permissions::from_mode(changed)).unwrap();
        let path = || "/memories/a".parse::<StorePath>().unwrap();
        let edit = Batch::new().require(path(), Precondition::Version(read.version)).write(path(), "two");
        let refused = store.apply(edit).await.unwrap_err();
        assert!(matches!(refused, StoreError::VersionMismatch { .. } | StoreError::Refused { .. }), "{refused:?}");
        assert_eq!((mode(&file), fs::read_to_string(&file).unwrap()), (Some(changed), "one".to_owned()));
        fs::remove_file(&file).unwrap();
    }
}
