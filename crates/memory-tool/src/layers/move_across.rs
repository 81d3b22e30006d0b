//! [`move_across`]: a file or directory that moves to another of the mounted stores.

use std::sync::Arc;

use memory_tool_core::{
    Batch, MemoryPath, Node, Precondition, Store, StoreError, StoreExt as _, StorePath, StoredFile,
};

/// A file with its new path.
struct Moved {
    from: StorePath,
    to: StorePath,
    file: StoredFile,
}

/// Copies the files in one batch, and then removes them in another, each only if it has not changed. After a
/// stop between them, both copies exist, and another call completes the move.
pub(crate) async fn move_across(store: &Arc<dyn Store>, from: &MemoryPath, to: &MemoryPath) -> Result<(), StoreError> {
    let moved = files(store, &from.into(), &to.into()).await?;
    if !are_copied(store, to, &moved).await? {
        let copy = Batch::new().require(to, Precondition::Absent);
        let copy = moved.iter().fold(copy, |batch, moved| batch.write(&moved.to, moved.file.content.clone()));
        store.apply(copy).await?;
    }
    // A file that others made in the directory since stays.
    let removal = moved.into_iter().fold(Batch::new(), |batch, Moved { from, file, .. }| {
        batch.require(&from, Precondition::Version(file.version)).remove(from)
    });
    store.apply(removal).await
}

async fn files(store: &Arc<dyn Store>, from: &StorePath, to: &StorePath) -> Result<Vec<Moved>, StoreError> {
    let paths = match store.read(from).await? {
        Node::Absent => return Err(StoreError::NotFound { path: from.clone() }),
        Node::File(file) => return Ok(vec![Moved { from: from.clone(), to: to.clone(), file }]),
        Node::Directory(listing) => listing.files.into_iter().map(|file| file.path),
    };
    let mut moved = Vec::new();
    for path in paths {
        // Others removed or replaced it since.
        let Some(file) = store.read(&path).await?.into_file() else {
            return Err(StoreError::VersionMismatch { path });
        };
        moved.push(Moved { to: path.replace_prefix(from, to)?, from: path, file });
    }
    Ok(moved)
}

/// Whether an earlier call copied the files.
async fn are_copied(store: &Arc<dyn Store>, to: &MemoryPath, moved: &[Moved]) -> Result<bool, StoreError> {
    if matches!(store.read(to).await?, Node::Absent) {
        return Ok(false);
    }
    for Moved { to: copy, file, .. } in moved {
        let found = store.read(copy).await?.into_file();
        if found.is_none_or(|found| found.content != file.content) {
            return Err(StoreError::AlreadyExists { path: to.into() });
        }
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use memory_tool_core::InMemoryStore;

    use super::*;
    use crate::Memory;

    async fn memory() -> (Memory, Arc<InMemoryStore>) {
        let team = Arc::new(InMemoryStore::new());
        let builder = Memory::builder("in-process:").history();
        let mounted = builder.mount("/memories/team".parse().unwrap(), Arc::clone(&team) as Arc<dyn Store>);
        (mounted.build().await.unwrap(), team)
    }

    async fn paths(store: &dyn Store) -> Vec<String> {
        let files = store.list(MemoryPath::root()).await.unwrap();
        files.into_iter().map(|file| file.path.to_string()).collect()
    }

    #[tokio::test]
    async fn a_file_and_a_directory_move_to_another_store_and_back() {
        let (memory, team) = memory().await;
        memory.write("/memories/a.md", "one").await.unwrap();
        memory.write("/memories/d/b.md", "two").await.unwrap();
        memory.write("/memories/d/e/c.md", "three").await.unwrap();
        memory.rename("/memories/a.md", "/memories/team/new/a.md").await.unwrap();
        memory.rename("/memories/d", "/memories/team/d").await.unwrap();
        assert_eq!(paths(&*team).await, ["/memories/d/b.md", "/memories/d/e/c.md", "/memories/new/a.md"]);
        assert_eq!(memory.list("/memories").await.unwrap().len(), 3);
        memory.rename("/memories/team/d/e", "/memories/e").await.unwrap();
        assert_eq!(memory.read_to_string("/memories/e/c.md").await.unwrap(), "three");
        assert_eq!(paths(&*team).await, ["/memories/d/b.md", "/memories/new/a.md"]);
    }

    #[tokio::test]
    async fn nothing_is_replaced_and_an_interrupted_move_is_completed() {
        let (memory, team) = memory().await;
        memory.write("/memories/a.md", "own").await.unwrap();
        team.write("/memories/a.md", "theirs").await.unwrap();
        let refused = memory.rename("/memories/a.md", "/memories/team/a.md").await.unwrap_err();
        assert!(matches!(refused, StoreError::AlreadyExists { .. }), "{refused}");
        assert_eq!(memory.read_to_string("/memories/a.md").await.unwrap(), "own");
        // As after a kill between the two steps.
        team.write("/memories/a.md", "own").await.unwrap();
        memory.rename("/memories/a.md", "/memories/team/a.md").await.unwrap();
        assert!(!memory.exists("/memories/a.md").await.unwrap());
        let missing = memory.rename("/memories/none", "/memories/team/none").await.unwrap_err();
        assert!(matches!(missing, StoreError::NotFound { .. }), "{missing}");
        let point = memory.rename("/memories/team", "/memories/x").await.unwrap_err();
        assert!(point.to_string().contains("mount point"), "{point}");
    }
}
