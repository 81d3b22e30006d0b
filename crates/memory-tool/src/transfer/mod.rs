//! Copy, export and import of the files of a [`Memory`].

mod blocking;
mod copy;
mod destination;
mod error;
mod existing;
mod export;
#[cfg(fuzzing)]
#[doc(hidden)]
pub mod fuzzing;
mod import;
pub(crate) mod location;
mod progress;
mod report;
pub(crate) mod source;
pub(crate) mod sync;

use std::sync::Arc;

pub use copy::CopyOptions;
pub use error::TransferError;
pub use export::Export;
pub use import::Import;
pub use progress::TransferProgress;
pub use report::{CopyReport, ExportReport, FileProblem, ImportReport, WriteReport};
pub use sync::{SyncConflict, SyncOptions, SyncReport, SyncStatus, SyncedSide};

use crate::builder::MemoryBuilder;
use crate::memory::Memory;
use crate::transfer::destination::Destination;
use crate::transfer::location::MemoryLocation;
use crate::transfer::source::Source;

/// The time in an archive of directories, and of files without a time of modification: the start of 1980 in Unix time,
/// the earliest time that every archive format supports. GNU tar warns about 1970.
const NO_TIME: u64 = 315_532_800;
/// The key of the time of creation in an archive, as `bsdtar` writes it.
const CREATION_TIME: &str = "LIBARCHIVE.creationtime";

impl Memory {
    /// Copies all files to `destination`, which can have another backend, other policies and other keys.
    ///
    /// `progress` is called after each file.
    ///
    /// ```
    /// use memory_tool::transfer::CopyOptions;
    /// use memory_tool::Memory;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let old = Memory::open("in-process:").await?; // or ./memory
    /// old.write("/memories/profile.md", "Prefers tea.").await?;
    /// let new = Memory::open("in-process:").await?; // or s3://bucket/prefix
    /// let report = old.copy_to(&new, CopyOptions::new(), |_| {}).await?;
    /// assert_eq!((report.written.copied, report.is_complete()), (1, true));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Behavior
    /// 1. A file is written if its path does not exist in the destination. An identical file is skipped, so running an
    ///    interrupted copy again continues it. A different file is kept, unless the options
    ///    [overwrite](CopyOptions::overwrite) it.
    /// 2. The policies of the destination check each file. Refused files are in the report, and the other files are
    ///    copied. Contents that a [screen](MemoryBuilder::screen) redacts are redacted before they are compared.
    /// 3. Each written file is read back and compared. It keeps its times, as far as the destination records them.
    /// 4. Both memories can be in use at the same time. Files that change in the source are copied again, up to five
    ///    times.
    /// 5. If the destination is a [dry run](MemoryBuilder::dry_run), the report contains the simulated results.
    /// 6. Reading updates the access times of files that [expire](MemoryBuilder::expire_after). For a backup, open the
    ///    source without that policy.
    /// 7. If the future is dropped, each file in the destination has either its old or its new contents.
    ///
    /// # Errors
    /// [`TransferError::SameMemory`], [`TransferError::Reading`] and [`TransferError::Writing`].
    pub async fn copy_to(
        &self,
        destination: &Self,
        options: CopyOptions,
        progress: impl FnMut(TransferProgress) + Send,
    ) -> Result<CopyReport, TransferError> {
        let locations = (&self.inner.layers.transfer.location, &destination.inner.layers.transfer.location);
        if Arc::ptr_eq(&self.inner, &destination.inner) || MemoryLocation::overlap(locations.0, locations.1).await {
            return Err(TransferError::SameMemory);
        }
        if options.with_history {
            return copy::copy_with_history(self, destination).await;
        }
        let rounds = if destination.inner.layers.transfer.is_dry_run { 1 } else { copy::ROUNDS };
        let destination = Destination::new(destination, "copy", options.existing);
        copy::CopyJob::new(Source::of(self.store()), destination, progress).run(rounds).await
    }

    /// Writes all files to a directory or a tar archive. Archives are reproducible: the same files with the same times
    /// result in the same bytes.
    ///
    /// `progress` is called after each file.
    ///
    /// ```
    /// use memory_tool::transfer::Export;
    /// use memory_tool::Memory;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let directory = tempfile::tempdir()?;
    /// # let archive = directory.path().join("alice.tar.gz");
    /// let memory = Memory::open("in-process:").await?;
    /// memory.write("/memories/profile.md", "Prefers tea.").await?;
    /// let report = memory.export(Export::to_path(&archive), |_| {}).await?;
    /// assert_eq!((report.exported, report.bytes), (1, 12));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Behavior
    /// 1. `/memories/a/b.md` becomes `a/b.md`, byte for byte. Exported files and archives are readable only by their
    ///    owner. They keep the times of modification, and archives those of creation. Archives contain no owners.
    /// 2. Files and archives get their names when they are complete. If the future is dropped, an existing archive is
    ///    unchanged, and each file of a directory has either its old or its new contents.
    /// 3. Symbolic links in a target directory are not followed and not replaced.
    /// 4. Unreadable files are in the report, and the other files are exported. An archive with unreadable files or
    ///    without any files does not replace an existing archive: see [`ExportReport::kept`].
    /// 5. The memory can be in use at the same time. The files are not a consistent snapshot.
    /// 6. Reading updates the access times of files that [expire](MemoryBuilder::expire_after). For a backup, open the
    ///    memory without that policy.
    ///
    /// # Errors
    /// [`TransferError`] if the memory cannot be read or the target cannot be written.
    pub async fn export(
        &self,
        export: Export,
        progress: impl FnMut(TransferProgress) + Send,
    ) -> Result<ExportReport, TransferError> {
        export::run(Source::of(self.store()), export, progress).await
    }

    /// Writes the files of a directory or a tar archive to this memory. The source can be untrusted: names cannot
    /// escape `/memories`, links are not followed, and files over a [size limit](Import::skip_above) are not read into
    /// RAM.
    ///
    /// `progress` is called after each file.
    ///
    /// ```
    /// use memory_tool::transfer::{Export, Import};
    /// use memory_tool::Memory;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let directory = tempfile::tempdir()?;
    /// # let archive = directory.path().join("alice.tar.gz");
    /// # let memory = Memory::open("in-process:").await?;
    /// # memory.write("/memories/profile.md", "Prefers tea.").await?;
    /// # drop(memory.export(Export::to_path(&archive), |_| {}).await?);
    /// let memory = Memory::open("in-process:").await?;
    /// let report = memory.import(Import::from_path(&archive), |_| {}).await?;
    /// assert_eq!((report.written.copied, report.is_complete()), (1, true));
    /// assert_eq!(memory.read_to_string("/memories/profile.md").await?, "Prefers tea.");
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Behavior
    /// 1. `a/b.md` becomes `/memories/a/b.md`, byte for byte, with the same rules as [`copy_to`](Self::copy_to).
    /// 2. Links, special files, invalid names and files over the size limit are skipped and reported. If two files have
    ///    the same name, the first one is imported.
    /// 3. The format of an archive is detected from its first bytes. If an archive is damaged or truncated, the files
    ///    before the damage are imported: see [`ImportReport::archive_error`].
    /// 4. If the future is dropped, each file has either its old or its new contents.
    ///
    /// # Errors
    /// [`TransferError`] if the source cannot be read, its format is not supported, or the memory cannot be written.
    pub async fn import(
        &self,
        import: Import,
        progress: impl FnMut(TransferProgress) + Send,
    ) -> Result<ImportReport, TransferError> {
        let destination = Destination::new(self, "import", import.existing);
        import::run(import, destination, progress).await
    }
}

impl MemoryBuilder {
    /// Whether the memories may share files, because their URLs have the same or nested locations. [`Memory::copy_to`]
    /// refuses such a copy.
    ///
    /// Different [scopes](Self::scope) of one location do not overlap. Custom stores and [mounts](Self::mount) are not
    /// compared.
    pub async fn overlaps(&self, other: &Self) -> bool {
        MemoryLocation::overlap(&self.memory_location(), &other.memory_location()).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn futures_of_transfers_are_send() {
        fn is_send(_: impl Send) {}
        fn transfers(memory: &Memory, other: &Memory, builder: &MemoryBuilder) {
            is_send(memory.copy_to(other, CopyOptions::new(), |_| {}));
            is_send(memory.export(Export::to_path("backup.tar"), |_| {}));
            is_send(memory.import(Import::from_path("backup.tar"), |_| {}));
            is_send(builder.overlaps(builder));
        }
        let _ = transfers;
    }
}
