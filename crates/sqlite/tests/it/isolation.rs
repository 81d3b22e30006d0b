//! Memories in one file are isolated, regardless of their names.

use crate::support::{TestDirectory, name, write};
use memory_tool_core::{Batch, MAX_MEMORY_NAME_BYTES, MemoryName, MemoryNameError, Store, StoreExt, StorePath};

/// Prefixes of each other, other cases, and characters with a meaning in SQL, patterns and paths.
const NAMES: [&str; 14] =
    ["a", "A", "ab", "a/b", "a/", "%", "_", "a%", "'", "''; DROP TABLE file; --", "\"a\"", "*", "é", "e\u{301}"];

#[tokio::test]
async fn clearing_one_memory_spares_the_others() {
    let directory = TestDirectory::in_ram();
    let store = directory.open().await;
    for emptied in NAMES {
        for text in NAMES {
            write(&store.memory(name(text)), "/memories/d/file", text).await.unwrap();
        }
        store.memory(name(emptied)).apply(Batch::new().remove(StorePath::memories())).await.unwrap();
        for text in NAMES {
            let files = store.memory(name(text)).list(&StorePath::memories()).await.unwrap();
            assert_eq!(files.len(), usize::from(text != emptied), "{text} after {emptied} was emptied");
        }
        let contents: i64 =
            directory.connection().query_row("SELECT count(*) FROM content", (), |row| row.get(0)).unwrap();
        assert_eq!(contents, NAMES.len() as i64 - 1, "removed files leave no content");
    }
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
