//! A store in a directory of its own, driven by the commands that a model sends.

use std::path::{Path, PathBuf};

use memory_tool_core::{Engine, MemoryTool};
use memory_tool_local::LocalStore;
use serde_json::{Value, json};
use tempfile::TempDir;

pub(crate) struct Memory {
    directory: TempDir,
    pub(crate) tool: Engine<LocalStore>,
}

impl Memory {
    pub(crate) async fn new() -> Self {
        let directory = TempDir::new().unwrap();
        let tool = Engine::new(LocalStore::open(directory.path().join("base")).await.unwrap());
        Self { directory, tool }
    }

    pub(crate) fn base(&self) -> PathBuf {
        self.directory.path().join("base")
    }

    /// Where the file or directory at a path of the tool lies on the disk.
    pub(crate) fn on_disk(&self, path: &str) -> PathBuf {
        self.base().join(path.strip_prefix('/').unwrap())
    }

    /// A directory beside the base, which no command may reach.
    pub(crate) fn outside(&self) -> PathBuf {
        let outside = self.directory.path().join("outside");
        std::fs::create_dir_all(&outside).unwrap();
        outside
    }

    /// What the model reads: the reply or the error, in which nothing of the host may show.
    pub(crate) async fn call(&self, input: Value) -> String {
        let text = match self.tool.call(input).await {
            Ok(reply) => reply.to_string(),
            Err(error) => error.to_string(),
        };
        let needle = self.directory.path().file_name().unwrap().to_str().unwrap();
        assert!(!text.contains(needle) && !text.contains("os error"), "the reply shows the host: {text}");
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

    /// What each of the six commands answers where its path, or one of its paths, is `path`.
    pub(crate) async fn every_command_on(&self, path: &str) -> Vec<String> {
        vec![
            self.view(path).await,
            self.create(path, "text").await,
            self.call(json!({"command": "str_replace", "path": path, "old_str": "a", "new_str": "b"})).await,
            self.insert(path, "text").await,
            self.delete(path).await,
            self.rename(path, "/memories/renamed").await,
            self.rename("/memories/existing", path).await,
        ]
    }
}

/// Every file and directory beneath a directory, relative to it, with the contents of the files.
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
