//! Several named memories in one store: none sees, counts or changes the files of another.

use std::sync::Arc;

use memory_tool_core::{MemoryPath, Node, Store, StoreExt};

use crate::failure::{CaseError, Failure, check};
use crate::target::Target;

cases! {
    |target| &target;
    same_name, no_name, odd_names;
    similar_names = |target|
        expect_names_apart(&target, &["alice", "alice2", "alic", "alice-2", "2alice", "Alice", "ALICE"]);
}

/// Opens a memory whose name must be accepted.
async fn open(target: &Target, name: &str) -> Result<Arc<dyn Store>, CaseError> {
    let refused = || Failure::new(format!("the name {name:?} is refused")).into();
    target.scope(name).await?.ok_or_else(refused)
}

fn file() -> Result<MemoryPath, CaseError> {
    Ok("/memories/d/file".parse()?)
}

async fn write(store: &dyn Store, content: &str) -> Result<(), CaseError> {
    Ok(store.write(file()?, content).await?)
}

async fn read(store: &dyn Store) -> Result<Option<String>, CaseError> {
    match store.read(&file()?).await? {
        Node::File(file) => Ok(Some(String::from_utf8_lossy(&file.content).into_owned())),
        _ => Ok(None),
    }
}

/// Writes to each memory, then empties one after another and checks that the others are unchanged.
async fn expect_apart(memories: &[(&str, Arc<dyn Store>)]) -> Result<(), CaseError> {
    for (name, store) in memories {
        let found = store.list(MemoryPath::root()).await?;
        check(found.is_empty(), || format!("{name:?} contains files that were written to another memory: {found:?}"))?;
        write(&**store, name).await?;
    }
    for (index, (removed, store)) in memories.iter().enumerate() {
        for (name, other) in &memories[index..] {
            let content = read(&**other).await?;
            check(content.as_deref() == Some(name), || format!("{name:?} contains {content:?}"))?;
            let count = other.list(MemoryPath::root()).await?.len();
            check(count == 1, || format!("{name:?} lists {count} files instead of one"))?;
        }
        store.remove(MemoryPath::root()).await?;
        check(read(&**store).await?.is_none(), || format!("{removed:?} was emptied, but is not empty"))?;
    }
    Ok(())
}

async fn expect_names_apart(target: &Target, names: &[&'static str]) -> Result<(), CaseError> {
    let mut memories = Vec::new();
    for name in names {
        memories.push((*name, open(target, name).await?));
    }
    expect_apart(&memories).await
}

async fn same_name(target: &Target) -> Result<(), CaseError> {
    let (first, second) = (open(target, "alice").await?, open(target, "alice").await?);
    write(&*first, "text").await?;
    let content = read(&*second).await?;
    check(content.as_deref() == Some("text"), || format!("the reopened memory contains {content:?}"))
}

async fn odd_names(target: &Target) -> Result<(), CaseError> {
    let patterns = ["axb", "a_b", "a%b", "a%", "%", "_", "a*b", "*"];
    let quotes = ["a", "a'b", "a\"b", "a;b", "a'--", "a`b", "a b", "a\tb", "a?b", "a&b", "a=b", "ä"];
    let paths =
        ["a/b", "a/", "/a", "./a", "..", ".", "../a", "a/../b", "a\\b", "%2e%2e", "a%2fb", "memories", "/memories"];
    expect_taken_apart(target, &[&patterns[..], &quotes, &paths].concat()).await
}

/// Checks that each name is either refused or opens a separate memory.
async fn expect_taken_apart(target: &Target, names: &[&'static str]) -> Result<(), CaseError> {
    let mut memories = Vec::new();
    for name in names {
        if let Some(store) = target.scope(name).await? {
            memories.push((*name, store));
        }
    }
    expect_apart(&memories).await
}

async fn no_name(target: &Target) -> Result<(), CaseError> {
    let opened = target.scope("").await?;
    check(opened.is_none(), || "a memory without a name was opened".to_owned())
}
