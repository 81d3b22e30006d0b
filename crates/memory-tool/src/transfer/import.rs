//! Writing the files of a directory or a tar archive to a memory.

pub(super) mod archive;
mod directory;
pub(super) mod intake;

use std::fmt;
use std::fs;
use std::io::{self, Read};
use std::path::PathBuf;
use std::thread;

use memory_tool_core::{DEFAULT_MAX_FILE_BYTES, MemoryPath};
use tokio::sync::mpsc;

use crate::transfer::destination::Destination;
use crate::transfer::error::TransferError;
use crate::transfer::import::archive::Archive;
use crate::transfer::import::intake::{Abandoned, Intake, LeftOut};
use crate::transfer::progress::TransferProgress;
use crate::transfer::report::ImportReport;

/// The source of [`Memory::import`](crate::Memory::import), and what is read from it.
///
/// ```
/// let import = memory_tool::Import::from_path("backup.tar.gz").under("memories").skip_above(1024 * 1024);
/// # let _ = import;
/// ```
#[must_use]
pub struct Import {
    origin: Option<Origin>,
    /// How the source is called in errors.
    name: String,
    under: Option<String>,
    skip_above: u64,
    overwrites: bool,
    reading: Option<Reading>,
}

enum Origin {
    Path(PathBuf),
    Reader(Box<dyn Read + Send>),
}

impl Import {
    /// Imports a directory, or a tar archive that may be compressed with gzip.
    pub fn from_path(path: impl Into<PathBuf>) -> Self {
        let path = path.into();
        let name = path.display().to_string();
        Self::new(Origin::Path(path), name)
    }

    /// Imports a tar archive that may be compressed with gzip, such as an upload. The reader is used on a thread of its own, and may
    /// block.
    pub fn from_reader(reader: impl Read + Send + 'static) -> Self {
        Self::new(Origin::Reader(Box::new(reader)), "the archive".to_owned())
    }

    fn new(origin: Origin, name: String) -> Self {
        Self {
            origin: Some(origin),
            name,
            under: None,
            skip_above: DEFAULT_MAX_FILE_BYTES,
            overwrites: false,
            reading: None,
        }
    }

    /// Imports only the files under this directory of the source: `old/a.md` under `old` becomes `/memories/a.md`.
    pub fn under(mut self, directory: impl Into<String>) -> Self {
        self.under = Some(directory.into());
        self
    }

    /// Leaves out files larger than this without keeping them in this process. Default: [`DEFAULT_MAX_FILE_BYTES`].
    pub fn skip_above(mut self, bytes: u64) -> Self {
        self.skip_above = bytes;
        self
    }

    /// Overwrites files of the memory that have other contents.
    pub fn overwrite(mut self) -> Self {
        self.overwrites = true;
        self
    }

    /// Begins to read the source, up to its first file; whether there is any. For a program that creates no memory for a source
    /// without files.
    ///
    /// # Errors
    /// Those of [`Memory::import`](crate::Memory::import) that the source causes.
    pub async fn has_files(&mut self) -> Result<bool, TransferError> {
        let offer = match self.next().await? {
            Some(offer) => offer,
            None => return Err(self.stopped()),
        };
        let is_file = matches!(offer, Offer::File { .. });
        if let Some(reading) = &mut self.reading {
            reading.first = Some(offer);
        }
        Ok(is_file)
    }

    pub(super) fn overwrites(&self) -> bool {
        self.overwrites
    }

    /// What the source offers next; `None` after its end.
    async fn next(&mut self) -> Result<Option<Offer>, TransferError> {
        if let Some(origin) = self.origin.take() {
            self.reading = Some(self.read(origin)?);
        }
        let Some(reading) = &mut self.reading else { return Ok(None) };
        match reading.first.take() {
            Some(offer) => Ok(Some(offer)),
            None => reading.offers.recv().await.transpose(),
        }
    }

    /// Begins to read the source.
    fn read(&self, origin: Origin) -> Result<Reading, TransferError> {
        let (sender, offers) = mpsc::channel(1);
        let (name, under) = (self.name.clone(), self.under.clone());
        let files = sender.clone();
        let take = move |path, content| files.blocking_send(Ok(Offer::File { path, content })).map_err(|_| Abandoned);
        let intake = Intake::new(under, self.skip_above, Box::new(take));
        // A thread of its own, for which no runtime waits when it ends: the reader may block for ever. It ends when nobody takes what
        // it offers.
        let reading = thread::Builder::new().name("memory-tool-import".to_owned()).spawn(move || {
            let end = match read_source(origin, name, intake) {
                Ok(rest) => Ok(Offer::End(rest)),
                Err(Stop::Failure(error)) => Err(error),
                Err(Stop::Abandoned) => return,
            };
            let _ = sender.blocking_send(end); // nobody asks any more
        });
        reading.map_err(|source| TransferError::Source { name: self.name.clone(), source })?;
        Ok(Reading { offers, first: None })
    }

    fn stopped(&self) -> TransferError {
        TransferError::Source { name: self.name.clone(), source: io::Error::other("the source was read before") }
    }
}

impl fmt::Debug for Import {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut import = f.debug_struct("Import");
        import.field("name", &self.name).field("under", &self.under).field("skip_above", &self.skip_above);
        import.field("overwrites", &self.overwrites).finish_non_exhaustive()
    }
}

/// A source that another thread reads.
struct Reading {
    offers: mpsc::Receiver<Result<Offer, TransferError>>,
    /// The first one, if it was looked at.
    first: Option<Offer>,
}

/// What a source offers.
enum Offer {
    File { path: MemoryPath, content: Vec<u8> },
    End(Rest),
}

/// What is known at the end of a source.
struct Rest {
    left_out: LeftOut,
    archive_error: Option<String>,
}

/// Why the source is read no further.
enum Stop {
    /// Nobody takes its files any more.
    Abandoned,
    Failure(TransferError),
}

impl From<Abandoned> for Stop {
    fn from(_: Abandoned) -> Self {
        Self::Abandoned
    }
}

fn read_source(origin: Origin, name: String, mut intake: Intake) -> Result<Rest, Stop> {
    let failed = |source| Stop::Failure(TransferError::Source { name: name.clone(), source });
    let archive_error = match origin {
        Origin::Reader(reader) => {
            archive::take_files(Archive::open(reader, &name).map_err(Stop::Failure)?, &mut intake)?
        }
        Origin::Path(path) if fs::metadata(&path).map_err(failed)?.is_dir() => {
            let directory = directory::open(&path).map_err(failed)?;
            if !intake.is_for_a_part() && directory::is_store(&directory) {
                return Err(Stop::Failure(TransferError::SourceIsStore { path }));
            }
            directory::take_files(directory, &mut intake)?;
            None
        }
        Origin::Path(path) => {
            let file = fs::File::open(path).map_err(failed)?;
            archive::take_files(Archive::open(file, &name).map_err(Stop::Failure)?, &mut intake)?
        }
    };
    match intake.finish() {
        Ok(left_out) => Ok(Rest { left_out, archive_error }),
        // What was not read may hold it.
        Err(nothing) if archive_error.is_some() => Ok(Rest { left_out: nothing.left_out, archive_error }),
        Err(nothing) => Err(Stop::Failure(TransferError::NothingUnder { directory: nothing.directory, name })),
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
            Some(Offer::File { path, content }) => {
                destination.put(&path, content).await?;
                files += 1;
                progress(TransferProgress::new(files, None));
            }
            Some(Offer::End(Rest { left_out, archive_error })) => {
                let written = destination.report(|_| false).await?;
                let LeftOut { reported, more } = left_out;
                return Ok(ImportReport { written, skipped: reported, more_skipped: more, archive_error });
            }
            None => return Err(import.stopped()),
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
    async fn an_export_is_imported_as_it_was() {
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
    async fn files_outside_of_the_directory_or_too_large_are_not_imported() {
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
    async fn whether_there_are_files_is_known_before_they_are_imported() {
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
    async fn a_reader_that_is_no_archive_is_reported() {
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
