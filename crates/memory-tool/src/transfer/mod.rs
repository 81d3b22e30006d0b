//! Copying, exporting and importing the files of a [`Memory`].

mod blocking;
mod copy;
mod destination;
mod error;
mod export;
#[cfg(fuzzing)]
pub mod fuzzing;
mod import;
mod location;
mod progress;
mod report;
mod source;

use std::sync::Arc;

pub use copy::CopyOptions;
pub use error::TransferError;
pub use export::Export;
pub use import::Import;
pub use progress::TransferProgress;
pub use report::{CopyReport, ExportReport, FileProblem, ImportReport, WriteReport};

pub(crate) use location::Site;

use crate::builder::MemoryBuilder;
use crate::memory::Memory;
use crate::transfer::destination::Destination;
use crate::transfer::source::Source;

/// What a memory knows for transfers, besides its store.
#[derive(Debug)]
pub(crate) struct Traits {
    /// Where its files are, if it was opened by a URL.
    pub(crate) site: Option<Site>,
    pub(crate) is_dry_run: bool,
    #[cfg(feature = "screening")]
    pub(crate) screen: Option<Arc<dyn memory_tool_policies::Screen>>,
}

impl Memory {
    /// Copies all files to `destination`, which may be in any other storage, and have other policies and keys.
    ///
    /// `progress` is called after each file.
    ///
    /// ```
    /// use memory_tool::{CopyOptions, Memory};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let old = Memory::open("in-process:").await?; // such as ./memory
    /// old.write("/memories/profile.md", "Prefers tea.").await?;
    /// let new = Memory::open("in-process:").await?; // such as s3://bucket/prefix
    /// let report = old.copy_to(&new, CopyOptions::new(), |_| {}).await?;
    /// assert_eq!((report.written.copied, report.is_complete()), (1, true));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Behavior
    /// 1. A file is written where the path is free. Where the same bytes are, nothing is written, so an interrupted copy continues
    ///    when it is run again. Where other bytes are, they stay, unless the options [overwrite](CopyOptions::overwrite) them.
    /// 2. The policies of the destination judge each file. A file that they refuse is in the report, and the others are copied. A
    ///    text that its [screen](MemoryBuilder::screen) redacts is compared as redacted.
    /// 3. Each written file is read back and compared.
    /// 4. Others may use both memories at the same time. Files that change in the source are copied again, up to five times.
    /// 5. If the destination is a [dry run](MemoryBuilder::dry_run), the report says what a copy would do.
    /// 6. Reading counts as a use of the files where files of the source [expire](MemoryBuilder::expire_after): open it without that
    ///    policy for a backup.
    /// 7. If the future is dropped, each file in the destination is in its old or its new state.
    ///
    /// # Errors
    /// [`TransferError::SameMemory`], [`TransferError::Reading`], [`TransferError::Writing`].
    pub async fn copy_to(
        &self,
        destination: &Self,
        options: CopyOptions,
        progress: impl FnMut(TransferProgress) + Send,
    ) -> Result<CopyReport, TransferError> {
        let sites = (&self.parts.transfer.site, &destination.parts.transfer.site);
        if Arc::ptr_eq(&self.parts, &destination.parts) || Site::overlap(sites.0, sites.1).await {
            return Err(TransferError::SameMemory);
        }
        let rounds = if destination.parts.transfer.is_dry_run { 1 } else { copy::ROUNDS };
        let destination = Destination::new(destination, options.overwrites());
        copy::Copying::between(Source::new(self.store()), destination, progress).run(rounds).await
    }

    /// Writes all files to a directory or a tar archive. The same files make the same bytes of an archive.
    ///
    /// `progress` is called after each file.
    ///
    /// ```
    /// use memory_tool::{Export, Memory};
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
    /// 1. `/memories/a/b.md` becomes `a/b.md`, byte for byte. Only the owner may read the files and the archive. The archive holds no
    ///    times and no owners.
    /// 2. A file or an archive gets its name only when it is complete. If the future is dropped, an archive keeps its old state, and
    ///    each file of a directory is in its old or its new state.
    /// 3. Symbolic links in a target directory are neither followed nor replaced.
    /// 4. A file that cannot be read is in the report, and the others are exported. Such an archive does not replace another, and
    ///    neither does one without files: [`ExportReport::kept`].
    /// 5. Others may use the memory at the same time: each file is exported as it is when its turn comes.
    /// 6. Reading counts as a use of the files where files [expire](MemoryBuilder::expire_after): open the memory without that policy
    ///    for a backup.
    ///
    /// # Errors
    /// [`TransferError`]: the memory cannot be read, or the target cannot be written.
    pub async fn export(
        &self,
        export: Export,
        progress: impl FnMut(TransferProgress) + Send,
    ) -> Result<ExportReport, TransferError> {
        export::run(Source::new(self.store()), export, progress).await
    }

    /// Writes the files of a directory or a tar archive to this memory. Anybody may have made it: no name in it reaches outside of
    /// `/memories`, no link is followed, and no file larger than a [limit](Import::skip_above) is kept in this process.
    ///
    /// `progress` is called after each file.
    ///
    /// ```
    /// use memory_tool::{Export, Import, Memory};
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
    /// 1. `a/b.md` becomes `/memories/a/b.md`, byte for byte, by the rules of [`copy_to`](Self::copy_to).
    /// 2. What is not a plain file, has an invalid name or is too large is left out, and in the report. Of two files with one name, the
    ///    first is imported.
    /// 3. The format of an archive is detected from its first bytes. If an archive is damaged or truncated, the files before that
    ///    place are imported: [`ImportReport::archive_error`].
    /// 4. If the future is dropped, each file is in its old or its new state.
    ///
    /// # Errors
    /// [`TransferError`]: the source cannot be read or is not supported, or the memory cannot be written.
    pub async fn import(
        &self,
        import: Import,
        progress: impl FnMut(TransferProgress) + Send,
    ) -> Result<ImportReport, TransferError> {
        let destination = Destination::new(self, import.overwrites());
        import::run(import, destination, progress).await
    }
}

impl MemoryBuilder {
    /// Whether the two may have files in common, because their URLs name the same place, or one inside the other. For a program that
    /// wants to know before it opens them: [`Memory::copy_to`] refuses such a copy.
    ///
    /// Memories in one place with different [scopes](Self::scope) have no file in common. Stores of the program's own and
    /// [mounts](Self::mount) are not compared.
    pub async fn overlaps(&self, other: &Self) -> bool {
        Site::overlap(&self.site(), &other.site()).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_transfer_can_be_a_task_of_a_runtime() {
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
