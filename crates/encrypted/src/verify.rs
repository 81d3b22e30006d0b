//! Verifying: what is wrong with a store beyond its files, which whoever reads them finds.

use std::collections::BTreeSet;

use memory_tool_core::MemoryPath;

use crate::failure::{EncryptionError, Failure};
use crate::header::{IndexCopy, Place};
use crate::index::Index;
use crate::shared::{Shared, id_of};

/// Something in the store beneath that should not be so. The memory can be used all the same.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Problem {
    /// One of the two copies of the index cannot be used. The next write that changes the index replaces it.
    #[error("a copy of the index cannot be used")]
    Index(#[source] EncryptionError),
    /// One of the two copies of the index is not that which was written last: somebody put an older one back.
    #[error("{object} is an older index, or that of another store")]
    OlderIndex {
        /// The copy.
        object: MemoryPath,
    },
    /// A file is no part of the memory: nobody encrypted it, or it belongs to another one. It is never shown.
    #[error("{object} is no part of the encrypted memory")]
    Foreign {
        /// Where it lies in the store beneath.
        object: MemoryPath,
    },
}

impl Shared {
    pub(crate) async fn verify(&self) -> Result<Vec<Problem>, Failure> {
        self.while_index_holds(|snapshot| async move {
            let mut problems = Vec::new();
            if snapshot.index.exists() {
                for copy in [IndexCopy::First, IndexCopy::Second] {
                    problems.extend(self.verify_copy(copy, &snapshot.index).await?);
                }
                problems.extend(self.foreign_files(&snapshot.index).await?);
            }
            Ok(problems)
        })
        .await
    }

    async fn verify_copy(&self, copy: IndexCopy, current: &Index) -> Result<Option<Problem>, Failure> {
        match self.open_copy(copy, self.fetch(copy).await?).await {
            Ok(index) if (index.store, index.revision) == (current.store, current.revision) => Ok(None),
            Ok(_) => Ok(Some(Problem::OlderIndex { object: Place::Index(copy).path() })),
            Err(Failure::Encryption(error)) => Ok(Some(Problem::Index(error))),
            Err(failure) => Err(failure),
        }
    }

    async fn foreign_files(&self, index: &Index) -> Result<Vec<Problem>, Failure> {
        let copies = [IndexCopy::First, IndexCopy::Second].map(|copy| Place::Index(copy).path());
        let ids: BTreeSet<_> = index.files.values().map(|file| file.id).collect();
        let is_of_a_file = |path: &MemoryPath| id_of(path).is_some_and(|id| ids.contains(&id));
        let stored = self.inner.list(&MemoryPath::root()).await.map_err(Failure::of_inner)?;
        let foreign =
            stored.into_iter().map(|file| file.path).filter(|path| !copies.contains(path) && !is_of_a_file(path));
        Ok(foreign.map(|object| Problem::Foreign { object }).collect())
    }
}
