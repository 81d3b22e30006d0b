//! A store in a temporary directory, used through the commands of the tool.

use std::path::{Path, PathBuf};

use memory_tool_core::{Batch, Engine, MemoryTool};
use memory_tool_local::LocalStore;
use memory_tool_test_fixtures::path;
use serde_json::{Value, json};
use tempfile::TempDir;

pub(crate) struct TestMemory {
    directory: TempDir,
    pub(crate) tool: Engine<LocalStore>,
}

impl TestMemory {
    pub(crate) async fn new() -> Self {
        let directory = TempDir::new().unwrap();
        let tool = Engine::new(LocalStore::open(directory.path().join("base")).await.unwrap());
        Self { directory, tool }
    }

    pub(crate) fn base(&self) -> PathBuf {
        self.directory.path().join("base")
    }

    /// The location on the disk of a path of the tool.
    pub(crate) fn on_disk(&self, path: &str) -> PathBuf {
        self.base().join(path.strip_prefix('/').unwrap())
    }

    /// A directory beside the base, which is off limits.
    pub(crate) fn outside(&self) -> PathBuf {
        let outside = self.directory.path().join("outside");
        std::fs::create_dir_all(&outside).unwrap();
        outside
    }

    /// The reply or error that the model reads. It must not contain names of the host.
    pub(crate) async fn call(&self, input: Value) -> String {
        let text = match self.tool.call(input).await {
            Ok(reply) => reply.to_string(),
            Err(error) => error.to_string(),
        };
        let needle = self.directory.path().file_name().unwrap().to_str().unwrap();
        assert!(!text.contains(needle) && !text.contains("os error"), "the reply names the host: {text}");
        text
    }

    pub(crate) async fn view(&self, path: &str) -> String {
        self.call(json!({"command": "view", "path": path})).await
    }

    pub(crate) async fn create(&self, path: &str, file_text: &str) -> String {
        self.call(json!({"command": "create", "path": path, "file_text": file_text})).await
    }

    pub(crate) async fn insert(&self, path: &str, line: &str) -> String {
        self.call(json!({"command": "insert", "path": path, "insert_line": 0, "insert_text": line})).await
    }

    pub(crate) async fn delete(&self, path: &str) -> String {
        self.call(json!({"command": "delete", "path": path})).await
    }

    pub(crate) async fn rename(&self, old_path: &str, new_path: &str) -> String {
        self.call(json!({"command": "rename", "old_path": old_path, "new_path": new_path})).await
    }
}

/// Every file and directory under a directory, with relative paths and the contents of files.
pub(crate) fn tree(directory: &Path) -> Vec<(PathBuf, Option<Vec<u8>>)> {
    let mut found = Vec::new();
    let mut pending = vec![directory.to_owned()];
    while let Some(next) = pending.pop() {
        for entry in std::fs::read_dir(&next).unwrap() {
            let entry = entry.unwrap();
            let path = entry.path();
            let relative = path.strip_prefix(directory).unwrap().to_owned();
            let file_type = entry.file_type().unwrap();
            if file_type.is_dir() {
                found.push((relative, None));
                pending.push(path);
            } else if file_type.is_file() {
                found.push((relative, Some(std::fs::read(&path).unwrap())));
            } else {
                found.push((relative, None));
            }
        }
    }
    found.sort();
    found
}

pub(crate) fn write(file: &str) -> Batch {
    Batch::new().write(path(file), "text")
}

/// Marks the last change as unfinished, as a process does that is killed during it.
pub(crate) fn leave_unfinished(base: &Path) {
    let number_in_unknown_view = u128::from(1_u8).to_le_bytes();
    std::fs::write(base.join(".memory-tool/sequence"), number_in_unknown_view).unwrap();
}

pub(crate) fn make_pipe(path: &Path) {
    assert!(std::process::Command::new("mkfifo").arg(path).status().unwrap().success());
}
