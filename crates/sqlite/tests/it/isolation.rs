//! Memories in one file are isolated, regardless of their names.

use crate::support::{TestDirectory, call, name, path, write};
use memory_tool_core::{Batch, InMemoryStore, MemoryPath, Store, StoreExt};
use memory_tool_sqlite::{MAX_MEMORY_NAME_BYTES, MemoryName, MemoryNameError, SqliteStore};
use serde_json::{Value, json};

/// Prefixes of each other, other cases, and characters with a meaning in SQL, patterns and paths.
const NAMES: [&str; 14] =
    ["a", "A", "ab", "a/b", "a/", "%", "_", "a%", "'", "''; DROP TABLE file; --", "\"a\"", "*", "é", "e\u{301}"];

fn commands(text: &str) -> Vec<Value> {
    vec![
        json!({"command": "view", "path": "/memories"}),
        json!({"command": "create", "path": "/memories/d/a.txt", "file_text": text}),
        json!({"command": "create", "path": "/memories/d/b.txt", "file_text": text}),
        json!({"command": "insert", "path": "/memories/d/a.txt", "insert_line": 0, "insert_text": "first"}),
        json!({"command": "str_replace", "path": "/memories/d/a.txt", "old_str": "first", "new_str": "second"}),
        json!({"command": "view", "path": "/memories/d/a.txt"}),
        json!({"command": "rename", "old_path": "/memories/d", "new_path": "/memories/e"}),
        json!({"command": "delete", "path": "/memories/e/b.txt"}),
        json!({"command": "view", "path": "/memories"}),
    ]
}

/// Runs the same commands in all memories in lockstep, so each path exists in all of them.
#[tokio::test]
async fn replies_are_those_of_a_separate_memory() {
    let directory = TestDirectory::in_ram();
    let store = directory.open().await;
    let stores = NAMES.map(|text| store.memory(name(text)));
    for step in 0..commands("").len() {
        for (store, text) in stores.iter().zip(NAMES) {
            let alone = memory_tool_core::Engine::new(InMemoryStore::new());
            let mut expected = String::new();
            for command in &commands(text)[..=step] {
                expected = memory_tool_core::MemoryTool::call(&alone, command.clone()).await.unwrap().to_string();
            }
            assert_eq!(call(store, commands(text)[step].clone()).await, expected, "{text}");
        }
    }
    let mut names = NAMES.map(name);
    names.sort();
    assert_eq!(store.memory_names().await.unwrap(), names);
    assert_eq!(store.verify(|_| {}).await.unwrap().problems, []);
}

#[tokio::test]
async fn clearing_one_memory_spares_the_others() {
    let directory = TestDirectory::in_ram();
    let store = directory.open().await;
    for emptied in NAMES {
        for text in NAMES {
            write(&store.memory(name(text)), "/memories/d/file", text).await.unwrap();
        }
        store.memory(name(emptied)).apply(Batch::new().remove(MemoryPath::root())).await.unwrap();
        for text in NAMES {
            let files = store.memory(name(text)).list(&MemoryPath::root()).await.unwrap();
            assert_eq!(files.len(), usize::from(text != emptied), "{text} after {emptied} was emptied");
        }
        let contents: i64 =
            directory.connection().query_row("SELECT count(*) FROM content", (), |row| row.get(0)).unwrap();
        assert_eq!(contents, NAMES.len() as i64 - 1, "removed files leave no content");
    }
}

#[tokio::test]
async fn a_name_always_opens_the_same_memory() {
    let directory = TestDirectory::in_ram();
    let one = SqliteStore::builder(directory.database()).memory(name("user/1")).open().await.unwrap();
    write(&one, "/memories/a", "text").await.unwrap();
    let same = directory.open().await.memory(name("user/1"));
    assert_eq!(same.name(), one.name());
    assert_eq!(same.read(&path("/memories/a")).await.unwrap(), one.read(&path("/memories/a")).await.unwrap());
    assert_eq!(directory.open().await.list(&MemoryPath::root()).await.unwrap(), []);
}

#[test]
fn an_invalid_name_is_refused() {
    assert_eq!(MemoryName::parse(""), Err(MemoryNameError::Empty));
    assert!(MemoryName::parse(&"é".repeat(MAX_MEMORY_NAME_BYTES / 2)).is_ok());
    let length = MAX_MEMORY_NAME_BYTES + 1;
    assert_eq!(MemoryName::parse(&"a".repeat(length)), Err(MemoryNameError::TooLong { length }));
    for character in ['\0', '\n', '\u{7f}', '\u{85}'] {
        let refused = MemoryName::parse(&format!("a{character}b"));
        assert_eq!(refused, Err(MemoryNameError::ControlCharacter { character }));
    }
    assert_eq!(MemoryName::default().to_string(), "default");
}
