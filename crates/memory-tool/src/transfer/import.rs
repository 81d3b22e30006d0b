//! Import of a directory or a tar archive to a memory.

pub(super) mod archive;
mod directory;
pub(super) mod filter;

use std::fmt;
use std::fs;
use std::io::{self, Read};
use std::path::PathBuf;
use std::thread;

use memory_tool_core::{DEFAULT_MAX_FILE_BYTES, FileTimes, MemoryPath};
use tokio::sync::mpsc;

use crate::transfer::destination::Destination;
use crate::transfer::error::TransferError;
use crate::transfer::existing::Existing;
use crate::transfer::import::archive::Archive;
use crate::transfer::import::filter::{Disconnected, ImportFilter, SkippedFiles};
use crate::transfer::progress::TransferProgress;
use crate::transfer::report::ImportReport;

/// The source and options of [`Memory::import`](crate::Memory::import).
///
/// ```
/// let import = memory_tool::transfer::Import::from_path("backup.tar.gz").under("memories").skip_above(1024 * 1024);
/// # let _ = import;
/// ```
#[must_use]
pub struct Import {
    origin: Option<Origin>,
    /// The name of the source in errors.
    name: String,
    under: Option<String>,
    skip_above: u64,
    pub(super) existing: Existing,
    reader: Option<SourceReader>,
}

enum Origin {
    Path(PathBuf),
    Reader(Box<dyn Read + Send>),
}

impl Import {
    /// Imports a directory, or a tar archive with or without gzip compression.
    pub fn from_path(path: impl Into<PathBuf>) -> Self {
        let path = path.into();
        let name = path.display().to_string();
        Self::new(Origin::Path(path), name)
    }

    /// Imports a tar archive with or without gzip compression, such as an upload. The reader runs on a separate thread
    /// and can block.
    pub fn from_reader(reader: impl Read + Send + 'static) -> Self {
        Self::new(Origin::Reader(Box::new(reader)), "the archive".to_owned())
    }

    fn new(origin: Origin, name: String) -> Self {
        Self {
            origin: Some(origin),
            name,
            under: None,
            skip_above: DEFAULT_MAX_FILE_BYTES,
            existing: Existing::Keep,
            reader: None,
        }
    }

    /// Imports only the files under this directory of the source. With `under("old")`, `old/a.md` becomes
    /// `/memories/a.md`.
    pub fn under(mut self, directory: impl Into<String>) -> Self {
        self.under = Some(directory.into());
        self
    }

    /// Skips files larger than this, without reading them into RAM. Default: [`DEFAULT_MAX_FILE_BYTES`].
    pub fn skip_above(mut self, bytes: u64) -> Self {
        self.skip_above = bytes;
        self
    }

    /// Overwrites files in the memory that have other contents.
    pub fn overwrite(mut self) -> Self {
        self.existing = Existing::Replace;
        self
    }

    /// Reads the source up to its first file, and returns whether there is one. A program can use this to avoid
    /// creating a memory for a source without files.
    ///
    /// # Errors
    /// The errors of [`Memory::import`](crate::Memory::import) for the source.
    pub async fn has_files(&mut self) -> Result<bool, TransferError> {
        let item = self.next().await?;
        let is_file = matches!(item, SourceItem::File { .. });
        if let Some(reader) = &mut self.reader {
            reader.first = Some(item);
        }
        Ok(is_file)
    }

    /// The next item. After the last one, this is an error.
    async fn next(&mut self) -> Result<SourceItem, TransferError> {
        if let Some(origin) = self.origin.take() {
            self.reader = Some(self.read(origin)?);
        }
        let next = match &mut self.reader {
            Some(SourceReader { first: first @ Some(_), .. }) => first.take(),
            Some(reader) => reader.items.recv().await.transpose()?,
            None => None,
        };
        let ended = || io::Error::other("the source was already read");
        next.ok_or_else(|| TransferError::Source { name: self.name.clone(), source: ended() })
    }

    fn read(&self, origin: Origin) -> Result<SourceReader, TransferError> {
        let (sender, items) = mpsc::channel(1);
        let (name, under) = (self.name.clone(), self.under.clone());
        let files = sender.clone();
        let take = move |path, content, times| {
            files.blocking_send(Ok(SourceItem::File { path, content, times })).map_err(|_| Disconnected)
        };
        let filter = ImportFilter::new(under, self.skip_above, Box::new(take));
        // The reader may block forever, so it must not run on a thread that the runtime waits for at shutdown. The
        // thread ends when the receiver is dropped.
        let reader = thread::Builder::new().name("memory-tool-import".to_owned()).spawn(move || {
            let end = match read_source(origin, name, filter) {
                Ok(end) => Ok(end),
                Err(StopReason::Failure(error)) => Err(error),
                Err(StopReason::Disconnected) => return,
            };
            let _ = sender.blocking_send(end); // the receiver was dropped
        });
        reader.map_err(|source| TransferError::Source { name: self.name.clone(), source })?;
        Ok(SourceReader { items, first: None })
    }
}

impl fmt::Debug for Import {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut import = f.debug_struct("Import");
        import.field("name", &self.name).field("under", &self.under).field("skip_above", &self.skip_above);
        import.field("existing", &self.existing).finish_non_exhaustive()
    }
}

struct SourceReader {
    items: mpsc::Receiver<Result<SourceItem, TransferError>>,
    /// The first item, if [`Import::has_files`] received it.
    first: Option<SourceItem>,
}

enum SourceItem {
    File { path: MemoryPath, content: Vec<u8>, times: FileTimes },
    End { skipped: SkippedFiles, archive_error: Option<String> },
}

enum StopReason {
    Disconnected,
    Failure(TransferError),
}

impl From<Disconnected> for StopReason {
    fn from(_: Disconnected) -> Self {
        Self::Disconnected
    }
}

/// Reads the files of a source. Returns the last item.
fn read_source(origin: Origin, name: String, mut filter: ImportFilter) -> Result<SourceItem, StopReason> {
    let failed = |source| StopReason::Failure(TransferError::Source { name: name.clone(), source });
    let archive_error = match origin {
        Origin::Reader(reader) => {
            archive::import_files(Archive::open(reader, &name).map_err(StopReason::Failure)?, &mut filter)?
        }
        Origin::Path(path) if fs::metadata(&path).map_err(failed)?.is_dir() => {
            let directory = directory::open(&path).map_err(failed)?;
            if filter.under.is_none() && directory::is_store(&directory) {
                return Err(StopReason::Failure(TransferError::SourceIsStore { path }));
            }
            directory::import_files(directory, &mut filter)?;
            None
        }
        Origin::Path(path) => {
            let file = fs::File::open(path).map_err(failed)?;
            archive::import_files(Archive::open(file, &name).map_err(StopReason::Failure)?, &mut filter)?
        }
    };
    let (skipped, missing_directory) = filter.finish();
    match missing_directory {
        // The unread part of a damaged archive may contain the directory.
        Some(directory) if archive_error.is_none() => {
            Err(StopReason::Failure(TransferError::NothingUnder { directory, name }))
        }
        _ => Ok(SourceItem::End { skipped, archive_error }),
    }
}

pub(super) async fn run(
    mut import: Import,
    mut destination: Destination,
    mut progress: impl FnMut(TransferProgress) + Send,
) -> Result<ImportReport, TransferError> {
    let mut files = 0;
    loop {
        match import.next().await? {
            SourceItem::File { path, content, times } => {
                destination.put(&path, content, times).await?;
                files += 1;
                progress(TransferProgress::new(files, None));
            }
            SourceItem::End { skipped, archive_error } => {
                let written = destination.report(|_| false).await?;
                let SkippedFiles { reported, more } = skipped;
                return Ok(ImportReport { written, skipped: reported, more_skipped: more, archive_error });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;
    use std::path::Path;
    use std::sync::Mutex;

    use super::*;
    use crate::memory::Memory;
    use crate::transfer::export::Export;

    fn fill(directory: &Path, files: &[(&str, &str)]) {
        for (name, text) in files {
            let path = directory.join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
    }

    async fn empty() -> Memory {
        Memory::open("in-process:").await.unwrap()
    }

    #[tokio::test]
    async fn an_export_can_be_imported() {
        let outside = tempfile::tempdir().unwrap();
        let memory = empty().await;
        memory.write("/memories/a/b.md", "one").await.unwrap();
        memory.write("/memories/c", vec![0xff; 100_000]).await.unwrap();
        for target in ["plain", "backup.tar", "backup.tgz"] {
            let target = outside.path().join(target);
            drop(memory.export(Export::to_path(&target), |_| {}).await.unwrap());
            let copy = empty().await;
            let progress = Mutex::new(Vec::new());
            let note = |done| progress.lock().unwrap().push(done);
            let report = copy.import(Import::from_path(&target), note).await.unwrap();
            assert_eq!((report.written.copied, report.is_complete()), (2, true));
            assert_eq!(*progress.lock().unwrap(), [TransferProgress::new(1, None), TransferProgress::new(2, None)]);
            assert_eq!(copy.read("/memories/c").await.unwrap().into_file().unwrap().content, [0xff; 100_000]);
            let again = copy.import(Import::from_path(&target), |_| {}).await.unwrap();
            assert_eq!((again.written.copied, again.written.unchanged), (0, 2));
        }
    }

    #[tokio::test]
    async fn files_outside_the_directory_or_over_the_limit_are_skipped() {
        let outside = tempfile::tempdir().unwrap();
        fill(outside.path(), &[("old/a", "text"), ("old/large", "0123456789"), ("b", "text")]);
        let memory = empty().await;
        let import = Import::from_path(outside.path()).under("old").skip_above(9);
        let report = memory.import(import, |_| {}).await.unwrap();
        assert_eq!((report.written.copied, report.skipped.len(), report.is_complete()), (1, 1, false));
        assert_eq!(report.skipped[0].reason, "it has more than 9 bytes");
        assert_eq!(memory.read_to_string("/memories/a").await.unwrap(), "text");
        let nothing = memory.import(Import::from_path(outside.path()).under("new"), |_| {}).await;
        assert!(matches!(nothing, Err(TransferError::NothingUnder { .. })), "{nothing:?}");
    }

    #[tokio::test]
    async fn has_files_does_not_consume_the_files() {
        let outside = tempfile::tempdir().unwrap();
        let mut without = Import::from_path(outside.path());
        assert!(!without.has_files().await.unwrap());
        assert_eq!(empty().await.import(without, |_| {}).await.unwrap().written.copied, 0);
        fill(outside.path(), &[("a", "one"), ("b", "two")]);
        let mut with = Import::from_path(outside.path());
        assert!(with.has_files().await.unwrap() && with.has_files().await.unwrap());
        assert_eq!(empty().await.import(with, |_| {}).await.unwrap().written.copied, 2);
        assert!(matches!(Import::from_path("none").has_files().await, Err(TransferError::Source { .. })));
    }

    #[tokio::test]
    async fn invalid_archives_are_reported() {
        let memory = empty().await;
        let report = memory.import(Import::from_reader(Cursor::new([7; 2_000])), |_| {}).await.unwrap();
        assert!(report.archive_error.is_some() && !report.is_complete());
        let zip = memory.import(Import::from_reader(&b"PK\x03\x04"[..]), |_| {}).await;
        assert!(matches!(zip, Err(TransferError::SourceFormat { .. })), "{zip:?}");
    }

    #[cfg(feature = "local")]
    #[tokio::test]
    async fn the_directory_of_a_store_is_not_imported() {
        let outside = tempfile::tempdir().unwrap();
        Memory::open(outside.path()).await.unwrap().write("/memories/a", "text").await.unwrap();
        let imported = empty().await.import(Import::from_path(outside.path()), |_| {}).await;
        assert!(matches!(imported, Err(TransferError::SourceIsStore { .. })), "{imported:?}");
    }
}
