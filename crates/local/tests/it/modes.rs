//! Files have mode 0600 and directories 0700, regardless of the umask. This changes the umask of the whole process.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use crate::support::tree;
use memory_tool_core::{Engine, MemoryTool};
use memory_tool_local::LocalStore;
use rustix::fs::Mode;
use rustix::process::umask;
use serde_json::json;

fn mode(path: &Path) -> u32 {
    fs::symlink_metadata(path).unwrap().permissions().mode() & 0o7777
}

#[tokio::test]
async fn new_files_and_directories_are_private_under_any_umask() {
    for mask in [0o000, 0o022, 0o177, 0o777] {
        let directory = tempfile::tempdir().unwrap();
        let before = umask(Mode::from_raw_mode(mask));
        let base = directory.path().join("made/on/the/way");
        let tool = Engine::new(LocalStore::open(&base).await.unwrap());
        fs::write(base.join("memories/foreign.txt"), "x").unwrap();
        fs::set_permissions(base.join("memories/foreign.txt"), fs::Permissions::from_mode(0o666)).unwrap();
        for input in [
            json!({"command": "create", "path": "/memories/a/b/c.txt", "file_text": "x"}),
            json!({"command": "insert", "path": "/memories/a/b/c.txt", "insert_line": 0, "insert_text": "y"}),
            json!({"command": "rename", "old_path": "/memories/a/b/c.txt", "new_path": "/memories/d/e/f.txt"}),
            json!({"command": "insert", "path": "/memories/foreign.txt", "insert_line": 0, "insert_text": "y"}),
        ] {
            tool.call(input).await.unwrap();
        }
        umask(before);
        let found: Vec<(PathBuf, _)> = tree(directory.path());
        assert!(found.len() > 10, "{found:?}");
        for (path, content) in found {
            let expected = if content.is_some() { 0o600 } else { 0o700 };
            assert_eq!(mode(&directory.path().join(&path)), expected, "{} under umask {mask:03o}", path.display());
        }
    }
}
