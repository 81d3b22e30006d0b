//! [`Memory::sync`]: makes one memory of two.

mod conflict_name;
mod decision;
mod erasure;
mod report;
mod round;
mod side;
mod table;
mod texts;

use std::sync::Arc;
use std::time::Duration;

use memory_tool_core::{ErrorKind, StoreError};

pub(crate) use conflict_name::is_conflict_copy;
pub(crate) use erasure::ErasingStore;
pub use report::{SyncConflict, SyncReport, SyncStatus, SyncedSide};

use crate::memory::Memory;
use crate::transfer::error::TransferError;
use crate::transfer::location::MemoryLocation;
use crate::transfer::sync::round::Round;
use crate::transfer::sync::side::Side;

/// The number of comparisons, if other programs change files at the same time.
const ROUNDS: u32 = 10;

/// The longest pause before that, which another synchronization of the same memory needs.
const PAUSE: Duration = Duration::from_millis(300);

/// The options of [`Memory::sync`].
///
/// ```
/// use memory_tool::transfer::SyncOptions;
///
/// let options = SyncOptions::new().names("laptop", "server");
/// assert_ne!(options, SyncOptions::new());
/// ```
#[derive(Clone, Debug, Eq, PartialEq)]
#[must_use]
pub struct SyncOptions {
    names: [String; 2],
    allows_empty: bool,
}

impl Default for SyncOptions {
    fn default() -> Self {
        Self { names: ["first", "second"].map(str::to_owned), allows_empty: false }
    }
}

impl SyncOptions {
    /// The default options.
    pub fn new() -> Self {
        Self::default()
    }

    /// The names of the two memories, for the names of files in conflict and the history. Default: `first` and
    /// `second`.
    pub fn names(mut self, first: impl Into<String>, second: impl Into<String>) -> Self {
        self.names = [first.into(), second.into()];
        self
    }

    /// Also removes all files, if one memory has lost its files.
    pub fn allow_empty(mut self) -> Self {
        self.allows_empty = true;
        self
    }
}

impl Memory {
    /// Makes one memory of two: each gets the changes that the other one has had since they were synchronized. They can
    /// have any backends, policies and keys, and synchronize with others too.
    ///
    /// ```
    /// use memory_tool::Memory;
    /// use memory_tool::transfer::SyncOptions;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let laptop = Memory::open("in-process:").await?; // or ./memory
    /// let server = Memory::open("in-process:").await?; // or s3://bucket/prefix
    /// laptop.write("/memories/profile.md", "Prefers tea.\n\n").await?;
    /// assert!(laptop.sync(&server, SyncOptions::new()).await?.is_complete());
    ///
    /// laptop.append("/memories/profile.md", "Speaks French.\n").await?;
    /// server.write("/memories/todo.md", "Call Ada.\n").await?;
    /// let report = laptop.sync(&server, SyncOptions::new()).await?;
    /// assert!(report.is_complete());
    /// assert_eq!(laptop.read_to_string("/memories/todo.md").await?, "Call Ada.\n");
    /// assert_eq!(server.read_to_string("/memories/profile.md").await?, "Prefers tea.\n\nSpeaks French.\n");
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Behavior
    /// 1. A file that only one side changed, renamed or deleted gets the state of that side. Its times are kept.
    /// 2. If both changed it, the changes of different lines are merged. Otherwise the newer text keeps the name, and
    ///    the older one is beside it as `NAME (conflict DATE SIDE).EXT` on both sides. The report names such files,
    ///    until they are removed.
    /// 3. A change counts against a deletion. A changed file that the other side renamed is renamed.
    /// 4. The policies of each side check its changes. A refused file is in the report, and the others are changed.
    /// 5. Each batch of changes requires the compared files, and writes what both agreed on in the same step. Both
    ///    memories can be in use at the same time, and if the future is dropped, the next call continues.
    /// 6. Each side knows its states by random identities, in a record. So a restored backup catches up, and a copy of
    ///    a memory is a third side.
    /// 7. A memory that has lost all of more than ten files is an error, unless the options
    ///    [allow it](SyncOptions::allow_empty).
    /// 8. If one of the memories is a [dry run](crate::MemoryBuilder::dry_run), both have to be.
    ///
    /// # Errors
    /// [`TransferError::CannotSync`], [`TransferError::Emptied`] and
    /// [`TransferError::Syncing`].
    pub async fn sync(&self, other: &Self, options: SyncOptions) -> Result<SyncReport, TransferError> {
        let layers = [&self.inner.layers, &other.inner.layers];
        let [one, another] = layers.map(|layers| &layers.transfer.location);
        if Arc::ptr_eq(&self.inner, &other.inner) || MemoryLocation::overlap(one, another).await {
            return Err(TransferError::CannotSync { reason: "they share files" });
        }
        if layers.iter().any(|layers| layers.is_proposal || layers.has_mounts) {
            return Err(TransferError::CannotSync { reason: "open both without mounts and without a proposal" });
        }
        let dry_run = layers[0].transfer.is_dry_run;
        if dry_run != layers[1].transfer.is_dry_run {
            return Err(TransferError::CannotSync { reason: "only one of them is a dry run" });
        }
        let [first, second] = options.names;
        let (first, second) = (Side::of(self, &first), Side::of(other, &second));
        let mut report = SyncReport { dry_run, ..SyncReport::default() };
        (report.first.name, report.second.name) = (first.name.clone(), second.name.clone());
        for round in 1..=ROUNDS {
            let (allows_empty, is_last) = (options.allows_empty, round == ROUNDS);
            match tokio::try_join!(first.view(allows_empty), second.view(allows_empty)) {
                Ok(views) => {
                    let round = Round::new([&first, &second], views.into(), &mut report, is_last);
                    if round.run().await.map_err(explained)? {
                        break;
                    }
                }
                Err(error) if is_last || !is_of_another_sync(&error) => return Err(explained(error)),
                Err(_) => {}
            }
            tokio::time::sleep(PAUSE / ROUNDS * round).await;
        }
        Ok(report)
    }
}

/// Whether another synchronization of the memory wrote the state of its files.
fn is_of_another_sync(error: &TransferError) -> bool {
    let TransferError::Syncing { source, .. } = error else { return false };
    is_of_table(source)
}

fn is_of_table(error: &StoreError) -> bool {
    matches!(error, StoreError::VersionMismatch { path } | StoreError::AlreadyExists { path } if path.is_record())
}

/// The error for the operator, if another synchronization did not end in time.
fn explained(error: TransferError) -> TransferError {
    match error {
        TransferError::Syncing { side, source } if is_of_table(&source) => {
            let cause = "another synchronization of this memory is running";
            TransferError::Syncing { side, source: StoreError::failure(ErrorKind::Busy, "changing the memory", cause) }
        }
        error => error,
    }
}
