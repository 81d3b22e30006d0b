//! Whether all that is stored is as it was written.

use std::collections::BTreeSet;
use std::sync::Arc;

use memory_tool_core::{MemoryPath, StoreError};

use crate::failure::{EncryptionError, Failure};
use crate::header::{IndexCopy, Place};
use crate::index::Index;
use crate::shared::Shared;
use crate::snapshot::Snapshot;

/// Something that [`EncryptedStore::verify`](crate::EncryptedStore::verify) found wrong. For the operator: it holds paths.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Problem {
    /// A file cannot be read.
    #[error("{path} cannot be read")]
    File {
        /// The file.
        path: MemoryPath,
        /// What is wrong.
        #[source]
        error: EncryptionError,
    },
    /// One of the two copies of the index cannot be read. The other is as good, and the next change of the tree repairs it.
    #[error("a copy of the index cannot be read")]
    IndexCopy {
        /// What is wrong.
        #[source]
        error: EncryptionError,
    },
    /// One of the two copies of the index is older than the other: somebody put it back. The next change of the tree repairs it.
    #[error("a copy of the index is older than the other")]
    OlderIndexCopy,
    /// A file is no part of the memory: nobody encrypted it, or it is that of another memory. It is never shown.
    #[error("{object} is no part of the encrypted memory")]
    Foreign {
        /// Where it lies in the store beneath.
        object: MemoryPath,
    },
}

impl Shared {
    pub(crate) async fn verify(&self) -> Result<Vec<Problem>, Failure> {
        let look = |snapshot: Arc<Snapshot>| async move {
            let mut problems = self.problems_of_index(&snapshot.index).await?;
            problems.extend(self.foreign_files(&snapshot.index).await?);
            Ok((problems, snapshot))
        };
        let (mut problems, snapshot) = self.while_index_holds(look).await?;
        for (path, file) in &snapshot.index.files {
            let error = match self.read(path).await {
                Ok(_) => continue,
                Err(Failure::Encryption(error)) => error,
                Err(Failure::Refused(source @ StoreError::Refused { .. })) => {
                    EncryptionError::Unreadable { object: Place::Content(file.id).path(), source }
                }
                Err(failure) => return Err(failure),
            };
            problems.push(Problem::File { path: path.clone(), error });
        }
        Ok(problems)
    }

    async fn problems_of_index(&self, index: &Index) -> Result<Vec<Problem>, Failure> {
        let mut problems = Vec::new();
        for copy in [IndexCopy::First, IndexCopy::Second] {
            if !index.exists() {
                break;
            }
            let stored = self.fetch(Place::Index(copy)).await?;
            match self.open_copy(copy, stored).await {
                Ok(found) if found.store != index.store => {
                    problems.push(Problem::IndexCopy { error: EncryptionError::OtherStore });
                }
                // Whichever of them is the one that is read.
                Ok(found) if found.revision != index.revision => problems.push(Problem::OlderIndexCopy),
                Ok(_) => {}
                Err(Failure::Encryption(error)) => problems.push(Problem::IndexCopy { error }),
                Err(failure) => return Err(failure),
            }
        }
        Ok(problems)
    }

    async fn foreign_files(&self, index: &Index) -> Result<Vec<Problem>, Failure> {
        let files = index.files.values().map(|file| Place::Content(file.id).path());
        let copies = [IndexCopy::First, IndexCopy::Second].map(|copy| Place::Index(copy).path());
        let known: BTreeSet<_> = files.chain(copies).collect();
        let stored = self.inner.list(&MemoryPath::root()).await.map_err(Failure::of_inner)?;
        let foreign = stored.into_iter().map(|file| file.path).filter(|path| !known.contains(path));
        Ok(foreign.map(|object| Problem::Foreign { object }).collect())
    }
}
