//! Export of a memory to a directory or an archive.

mod archive;
mod directory;
pub(super) mod target;
mod zip_archive;

use std::fmt;
use std::io::Write;
use std::path::PathBuf;
use std::pin::pin;

use futures::stream::StreamExt as _;
use memory_tool_core::{MemoryPath, StorePath, UnlistedReason};

use crate::transfer::blocking::{self, Blocking};
use crate::transfer::error::TransferError;
use crate::transfer::existing::Existing;
use crate::transfer::export::archive::{Archive, Compression};
use crate::transfer::export::directory::Directory;
use crate::transfer::export::target::{AddOutcome, FinishOutcome, Target};
use crate::transfer::export::zip_archive::ZipArchive;
use crate::transfer::progress::TransferProgress;
use crate::transfer::report::{ExportReport, FileProblem, add};
use crate::transfer::source::{ReadOutcome, Source};

/// The file name extensions of unsupported formats.
const OTHER_FORMATS: &[&str] = &[
    ".7z", ".br", ".bz2", ".cpio", ".gz", ".lz", ".lz4", ".lzma", ".rar", ".tar.z", ".taz", ".tbz", ".tbz2", ".tlz",
    ".txz", ".tzst", ".xz", ".zst",
];

/// The target and options of [`Memory::export`](crate::Memory::export).
///
/// ```
/// let export = memory_tool::transfer::Export::to_path("backup.tar.gz").overwrite();
/// # let _ = export;
/// ```
#[must_use]
pub struct Export {
    to: ExportTarget,
    existing: Existing,
    within: Vec<StorePath>,
}

enum ExportTarget {
    Path(PathBuf),
    Writer(Box<dyn Write + Send>),
}

impl Export {
    /// Exports to an archive if the name ends in `.tar`, `.tar.gz`, `.tgz` or `.zip`, and to a new or empty directory
    /// otherwise. A zip archive is for people: it cannot be imported.
    pub fn to_path(path: impl Into<PathBuf>) -> Self {
        Self::to(ExportTarget::Path(path.into()))
    }

    /// Exports an uncompressed tar archive to a writer, such as standard output. If the export fails, the archive is
    /// truncated.
    pub fn to_writer(writer: impl Write + Send + 'static) -> Self {
        Self::to(ExportTarget::Writer(Box::new(writer)))
    }

    fn to(to: ExportTarget) -> Self {
        Self { to, existing: Existing::Keep, within: Vec::new() }
    }

    /// Exports only this file, or the files in this directory. Each call adds one. Files keep their names below
    /// `/memories`.
    pub fn within(mut self, path: MemoryPath) -> Self {
        self.within.push(path.into());
        self
    }

    /// Replaces an existing archive, or files with the same names in an existing directory.
    pub fn overwrite(mut self) -> Self {
        self.existing = Existing::Replace;
        self
    }
}

impl fmt::Debug for Export {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut export = f.debug_struct("Export");
        if let ExportTarget::Path(path) = &self.to {
            export.field("path", path);
        }
        export.field("existing", &self.existing).field("within", &self.within).finish_non_exhaustive()
    }
}

pub(super) async fn run(
    source: Source,
    Export { to, existing, within }: Export,
    mut progress: impl FnMut(TransferProgress) + Send,
) -> Result<ExportReport, TransferError> {
    let (path, open) = opener(to, existing)?;
    let (listed, unlisted) = source.list_within(&within).await?;
    let of = listed.len() as u64;
    let failed = |source| TransferError::Target { path: path.clone(), source };
    let mut target = blocking::run(|| open().map(Blocking::new)).await.map_err(failed)??;
    let mut report = ExportReport::default();
    for item in &unlisted {
        let problem = FileProblem::of_unlisted(item);
        match item.reason {
            UnlistedReason::Unreadable => report.add_unreadable(problem),
            // A name that stays the same must not keep every later archive from its place.
            _ => report.add_refused(problem),
        }
    }
    let mut reads = pin!(source.read_all(&listed));
    for (entry, files) in listed.iter().zip(1..) {
        let Some(read) = reads.next().await else { break };
        let path = entry.path.clone();
        match read? {
            ReadOutcome::File(file) => {
                let bytes = file.content.len() as u64;
                let (place, times) = (path.clone(), entry.times());
                let added = target.run(move |target| target.add(&place, &file.content, times)).await;
                match added.map_err(failed)?? {
                    AddOutcome::Written => {
                        report.exported += 1;
                        report.bytes += bytes;
                    }
                    AddOutcome::Refused { reason } => report.add_refused(FileProblem::new(path, reason)),
                }
            }
            ReadOutcome::Removed => add(path, &mut report.removed, &mut report.more_removed),
            ReadOutcome::Unreadable { reason } => report.add_unreadable(FileProblem::new(path, reason)),
        }
        progress(TransferProgress::new(files, of));
    }
    let reason_to_keep = reason_to_keep(&report);
    let allowed = if reason_to_keep.is_none() { Existing::Replace } else { Existing::Keep };
    let finished = target.finish(move |target| target.finish(allowed)).await;
    if finished.map_err(failed)?? == FinishOutcome::Kept {
        report = ExportReport { exported: 0, bytes: 0, kept: reason_to_keep, ..report };
    }
    Ok(report)
}

/// The reason why this export must not replace an existing archive, if there is one.
fn reason_to_keep(report: &ExportReport) -> Option<String> {
    let reason = if !report.unreadable.is_empty() {
        "not all files can be read"
    } else if report.exported == 0 {
        "there are no files to export"
    } else {
        return None;
    };
    Some(format!("kept the existing archive: {reason}"))
}

type Opener = Box<dyn FnOnce() -> Result<Box<dyn Target>, TransferError> + Send>;

/// The path of a target and how to open it, as determined by its name. The extension of an unsupported archive format
/// is an error, because a directory with such a name would be confusing.
fn opener(to: ExportTarget, existing: Existing) -> Result<(PathBuf, Opener), TransferError> {
    let path = match to {
        ExportTarget::Path(path) => path,
        ExportTarget::Writer(writer) => {
            return Ok(("the archive".into(), Box::new(|| Ok(Box::new(Archive::to_writer(writer))))));
        }
    };
    let name = path.file_name().unwrap_or_default().to_string_lossy().to_ascii_lowercase();
    let ends_in = |endings: &[&str]| endings.iter().any(|ending| name.ends_with(ending));
    let target = path.clone();
    if ends_in(&[".zip"]) {
        return Ok((path, Box::new(move || Ok(Box::new(ZipArchive::to_file(&target, existing)?)))));
    }
    let compression = if ends_in(&[".tar"]) {
        Compression::None
    } else if ends_in(&[".tar.gz", ".tgz"]) {
        Compression::Gzip
    } else if ends_in(OTHER_FORMATS) {
        return Err(TransferError::TargetFormat { path });
    } else {
        return Ok((path, Box::new(move || Ok(Box::new(Directory::open(&target, existing)?)))));
    };
    Ok((path, Box::new(move || Ok(Box::new(Archive::to_file(&target, compression, existing)?)))))
}

#[cfg(test)]
mod tests {
    use std::future::pending;
    use std::path::Path;
    use std::sync::{Arc, Mutex};
    use std::time::Duration;
    use std::{fs, io};

    use async_trait::async_trait;
    use memory_tool_core::{
        Batch, ErrorKind, InMemoryStore, Node, ReadOptions, Store, StoreError, StoreExt as _, StorePath,
    };

    use super::*;
    use crate::memory::Memory;
    use crate::transfer::report::MAX_REPORTED;

    async fn memory_of(files: &[(&str, &str)]) -> Memory {
        let memory = Memory::open("in-process:").await.unwrap();
        for (path, text) in files {
            memory.write(*path, *text).await.unwrap();
        }
        memory
    }

    fn names(directory: &Path) -> Vec<String> {
        let entries = fs::read_dir(directory).unwrap();
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    }

    #[tokio::test]
    async fn an_export_to_a_directory_writes_plain_files() {
        let outside = tempfile::tempdir().unwrap();
        let memory = memory_of(&[("/memories/a/b.md", "one"), ("/memories/c", "four")]).await;
        let progress = Mutex::new(Vec::new());
        let target = outside.path().join("plain");
        let export = Export::to_path(&target);
        let report = memory.export(export, |done| progress.lock().unwrap().push(done)).await.unwrap();
        assert_eq!((report.exported, report.bytes, report.is_complete()), (2, 7, true));
        assert_eq!(*progress.lock().unwrap(), [TransferProgress::new(1, 2), TransferProgress::new(2, 2)]);
        assert_eq!(fs::read_to_string(target.join("a/b.md")).unwrap(), "one");
        let again = memory.export(Export::to_path(&target), |_| {}).await;
        assert!(matches!(again, Err(TransferError::TargetExists { .. })), "{again:?}");
        drop(memory.export(Export::to_path(&target).overwrite(), |_| {}).await.unwrap());
    }

    #[tokio::test]
    async fn an_archive_without_files_does_not_replace_another() {
        let outside = tempfile::tempdir().unwrap();
        let archive = outside.path().join("backup.tar");
        fs::write(&archive, "before").unwrap();
        let report = memory_of(&[]).await.export(Export::to_path(&archive).overwrite(), |_| {}).await.unwrap();
        assert!(report.kept.is_some() && !report.is_complete());
        assert_eq!(fs::read_to_string(&archive).unwrap(), "before");
        assert_eq!(names(outside.path()), ["backup.tar"]);
    }

    #[tokio::test]
    async fn the_number_of_reported_files_is_limited() {
        let store = InMemoryStore::new();
        for number in 0..MAX_REPORTED + 2 {
            store.write(format!("/memories/removed/{number}"), "text").await.unwrap();
            store.write(format!("/memories/damaged/{number}"), "text").await.unwrap();
        }
        let memory = Memory::over(FaultyStore(store)).build().await.unwrap();
        let report = memory.export(Export::to_writer(io::sink()), |_| {}).await.unwrap();
        assert_eq!((report.removed.len(), report.more_removed), (MAX_REPORTED, 2));
        assert_eq!((report.unreadable.len(), report.more_unreadable), (MAX_REPORTED, 2));
    }

    #[tokio::test]
    async fn an_export_to_a_zip_archive_has_the_files() {
        let outside = tempfile::tempdir().unwrap();
        let memory = memory_of(&[("/memories/a/é.md", "one"), ("/memories/c", &"four".repeat(1_000))]).await;
        let target = outside.path().join("files.ZIP");
        let report = memory.export(Export::to_path(&target), |_| {}).await.unwrap();
        assert_eq!((report.exported, report.is_complete()), (2, true));
        let mut archive = zip::ZipArchive::new(fs::File::open(&target).unwrap()).unwrap();
        let found: Vec<_> =
            (0..archive.len()).map(|index| archive.by_index(index).unwrap().name().unwrap().into_owned()).collect();
        assert_eq!(found, ["a/é.md", "c"]);
        assert_eq!(io::read_to_string(archive.by_name("c").unwrap()).unwrap(), "four".repeat(1_000));
        assert!(archive.by_name("c").unwrap().compressed_size() < 100);
        let again = memory.export(Export::to_path(&target), |_| {}).await;
        assert!(matches!(again, Err(TransferError::TargetExists { .. })), "{again:?}");
        drop(memory.export(Export::to_path(&target).overwrite(), |_| {}).await.unwrap());
        assert_eq!(names(outside.path()), ["files.ZIP"]);
    }

    #[tokio::test]
    async fn an_unsupported_format_is_refused() {
        let exported = memory_of(&[]).await.export(Export::to_path("backup.7z"), |_| {}).await;
        assert!(matches!(exported, Err(TransferError::TargetFormat { .. })), "{exported:?}");
    }

    /// A store that lists files which it does not read, by their first segment.
    #[derive(Debug)]
    struct FaultyStore(InMemoryStore);

    #[async_trait]
    impl Store for FaultyStore {
        async fn read_opts(&self, path: &StorePath, options: ReadOptions) -> Result<Node, StoreError> {
            match path.segments().next() {
                Some("hanging") => pending().await,
                Some("removed") => Ok(Node::Absent),
                Some("damaged") => {
                    let source = "a fault of the test".into();
                    Err(StoreError::Failure { kind: ErrorKind::Damaged, operation: "reading", source })
                }
                _ => self.0.read_opts(path, options).await,
            }
        }

        async fn apply(&self, batch: Batch) -> Result<(), StoreError> {
            self.0.apply(batch).await
        }
    }

    /// All reads are done, so the archive may be complete before the future is dropped.
    #[tokio::test]
    async fn dropping_an_export_while_it_writes_leaves_the_old_or_the_new_archive() {
        const GZIP_MAGIC: [u8; 2] = [0x1f, 0x8b];
        let memory = memory_of(&[("/memories/a", "one"), ("/memories/b", "two")]).await;
        let (_, archive) = drop_after_the_first_file(&memory).await;
        assert!(archive == b"before" || archive.starts_with(&GZIP_MAGIC), "{archive:?}");
    }

    #[tokio::test]
    async fn dropping_an_export_while_it_reads_keeps_the_existing_archive() {
        let store = InMemoryStore::new();
        store.write("/memories/a", "one").await.unwrap();
        store.write("/memories/hanging", "two").await.unwrap();
        let memory = Memory::over(FaultyStore(store)).build().await.unwrap();
        let (files, archive) = drop_after_the_first_file(&memory).await;
        assert_eq!(files, 2, "the partial file exists");
        assert_eq!(archive, b"before");
    }

    /// Returns the number of files when the export is dropped, and the archive that is left.
    async fn drop_after_the_first_file(memory: &Memory) -> (usize, Vec<u8>) {
        let outside = tempfile::tempdir().unwrap();
        let archive = outside.path().join("backup.tar.gz");
        fs::write(&archive, "before").unwrap();
        let files = {
            let (ended, mut first) = tokio::sync::mpsc::channel(1);
            let progress = move |_| ended.try_send(()).unwrap_or_default();
            let mut export = Box::pin(memory.export(Export::to_path(&archive).overwrite(), progress));
            tokio::select! {
                biased;
                _ = first.recv() => {}
                _ = &mut export => panic!("the export must be dropped before it completes"),
            }
            names(outside.path()).len()
        };
        for _ in 0..1_000 {
            if names(outside.path()).len() == 1 {
                break;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        assert_eq!(names(outside.path()), ["backup.tar.gz"]);
        (files, fs::read(&archive).unwrap())
    }

    /// A writer whose bytes a test reads.
    #[derive(Clone, Default)]
    pub(super) struct Shared(pub(super) Arc<Mutex<Vec<u8>>>);

    impl Write for Shared {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[tokio::test]
    async fn a_writer_receives_the_bytes_of_the_archive() {
        let outside = tempfile::tempdir().unwrap();
        let archive = outside.path().join("backup.tar");
        let memory = memory_of(&[("/memories/a", "one"), ("/memories/b", "two")]).await;
        drop(memory.export(Export::to_path(&archive), |_| {}).await.unwrap());
        let written = Shared::default();
        drop(memory.export(Export::to_writer(written.clone()), |_| {}).await.unwrap());
        assert_eq!(*written.0.lock().unwrap(), fs::read(&archive).unwrap());
    }
}
