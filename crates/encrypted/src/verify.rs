//! Verification of a store.

use std::collections::BTreeSet;
use std::sync::Arc;

use memory_tool_core::{Problem, StorePath};

use crate::failure::{EncryptionError, Failure};
use crate::header::{IndexCopy, ObjectName};
use crate::index::Index;
use crate::inner::Inner;
use crate::snapshot::Snapshot;

impl Inner {
    /// The problems of the copies of the index, the foreign objects, and the snapshot that they are based on.
    pub(crate) async fn verify_objects(&self) -> Result<(Vec<Problem>, Arc<Snapshot>), Failure> {
        let observe = |snapshot: Arc<Snapshot>| async move {
            let mut problems = self.problems_of_index(&snapshot.index).await?;
            problems.extend(self.foreign_objects(&snapshot.index).await?);
            Ok((problems, snapshot))
        };
        self.with_stable_index(observe).await
    }

    async fn problems_of_index(&self, index: &Index) -> Result<Vec<Problem>, Failure> {
        let mut problems = Vec::new();
        for copy in [IndexCopy::First, IndexCopy::Second] {
            if !index.exists() {
                break;
            }
            let object = ObjectName::Index(copy);
            let stored = self.fetch(object).await?;
            let error = match self.open_copy(copy, stored).await {
                Ok(found) if found.store != index.store => EncryptionError::OtherStore,
                // Reads use the other copy.
                Ok(found) if found.revision != index.revision => {
                    problems
                        .push(Problem::new("a copy of the index is older than the other").with_object(object.path()));
                    continue;
                }
                Ok(_) => continue,
                Err(Failure::Encryption(error)) => error,
                Err(failure) => return Err(failure),
            };
            let message = format!("a copy of the index cannot be read: {}", Problem::of(&error));
            problems.push(Problem::new(message).with_object(object.path()));
        }
        Ok(problems)
    }

    async fn foreign_objects(&self, index: &Index) -> Result<Vec<Problem>, Failure> {
        let contents = index.files.files().values().map(|file| ObjectName::Content(file.id).path());
        let copies = [IndexCopy::First, IndexCopy::Second].map(|copy| ObjectName::Index(copy).path());
        let known: BTreeSet<StorePath> = contents.chain(copies).collect();
        let stored = self.list_inner().await?.into_iter().map(|file| file.path);
        let foreign = stored.filter(|path| !known.contains(path));
        let problem = |path: StorePath| Problem::new(format!("{path} is not a part of the encrypted memory"));
        Ok(foreign.map(problem).collect())
    }
}
