//! [`JsonLinesLog`]: an audit log in a local file with one JSON object per line.

use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, mpsc};
use std::thread;

use async_trait::async_trait;
use futures::channel::oneshot;
use memory_tool_core::BoxError;

use crate::audit::batch_audit::report_missing;
use crate::audit::log::{AuditError, AuditLog};
use crate::audit::record::AuditRecord;

/// An audit log in a local file, with one JSON object per line.
///
/// # Behavior
/// 1. Each record is appended in one system call, so any number of processes on one machine can append to the file.
///    Network file systems may not guarantee this.
/// 2. A line that a killed process or a full disk left incomplete is ended before the next record.
/// 3. A record survives the end of the process. With [`JsonLinesLogBuilder::sync`] it also survives a loss of power.
/// 4. On Unix, a new file can only be read and written by its owner. The permissions of an existing file are not
///    changed.
/// 5. A separate thread writes, so no runtime is needed. Clones are cheap and share the log.
/// 6. On Unix, a file that was renamed or removed is created again for the next record, so you can rotate it by
///    renaming it.
///
/// A record takes 25 to 45 µs: a write and two checks of the file, on the thread of the log.
///
/// ```
/// use memory_tool_policies::JsonLinesLog;
///
/// # let runtime = tokio::runtime::Builder::new_current_thread().build()?;
/// # runtime.block_on(async {
/// # let directory = tempfile::tempdir()?;
/// # let file = directory.path().join("audit.jsonl");
/// let log = JsonLinesLog::builder(&file).sync(true).open().await?;
/// // … an `AuditedStore` and an `AuditedTool` append to it …
/// # drop(log);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct JsonLinesLog {
    lines: mpsc::Sender<Line>,
    memory: Option<Arc<str>>,
}

#[derive(Debug)]
struct Line {
    bytes: Vec<u8>,
    receiver: Receiver,
}

/// The receiver of the result of a [`Line`].
#[derive(Debug)]
enum Receiver {
    Caller(oneshot::Sender<Result<(), Arc<io::Error>>>),
    /// There is no caller. A failure is reported with this record.
    None(Box<AuditRecord>),
}

impl JsonLinesLog {
    /// Opens the log in `file` with default options. The file is created if missing; its directory must exist.
    ///
    /// # Errors
    /// Returns [`AuditError`] if the file cannot be opened for appending.
    pub async fn open(file: impl Into<PathBuf>) -> Result<Self, AuditError> {
        Self::builder(file).open().await
    }

    /// Returns a builder for a log in `file`.
    pub fn builder(file: impl Into<PathBuf>) -> JsonLinesLogBuilder {
        JsonLinesLogBuilder { path: file.into(), sync: false, memory: None }
    }

    fn send(&self, record: &AuditRecord, receiver: Receiver) -> Result<(), AuditError> {
        let bytes = match &self.memory {
            Some(memory) => line_of(&AuditRecord { memory: Some(memory.to_string()), ..record.clone() })?,
            None => line_of(record)?,
        };
        self.lines.send(Line { bytes, receiver }).map_err(|_| appending(thread_stopped()))
    }
}

/// Some readers of lines also split at U+2028 and U+2029, which the name of an actor can contain.
fn line_of(record: &AuditRecord) -> Result<Vec<u8>, AuditError> {
    let json = serde_json::to_string(record).map_err(|error| AuditError::new("encoding a record", error))?;
    Ok((json.replace('\u{2028}', "\\u2028").replace('\u{2029}', "\\u2029") + "\n").into_bytes())
}

fn appending(error: impl Into<BoxError>) -> AuditError {
    AuditError::new("appending a record", error)
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl AuditLog for JsonLinesLog {
    async fn append(&self, record: &AuditRecord) -> Result<(), AuditError> {
        let (sender, written) = oneshot::channel();
        self.send(record, Receiver::Caller(sender))?;
        match written.await {
            Ok(written) => written.map_err(appending),
            Err(_) => Err(appending(thread_stopped())),
        }
    }

    fn append_without_waiting(&self, record: &AuditRecord) {
        if let Err(error) = self.send(record, Receiver::None(Box::new(record.clone()))) {
            report_missing(record, &error);
        }
    }
}

/// A builder for [`JsonLinesLog`], created by [`JsonLinesLog::builder`].
#[derive(Clone, Debug)]
#[must_use]
pub struct JsonLinesLogBuilder {
    path: PathBuf,
    sync: bool,
    memory: Option<Arc<str>>,
}

impl JsonLinesLogBuilder {
    /// Sets the name of the memory in each record, for a file with records of several memories.
    pub fn memory(mut self, name: &str) -> Self {
        self.memory = Some(name.into());
        self
    }

    /// Sets whether each record is flushed to the disk before `append` returns. Concurrent records share a flush. An
    /// edit has two records, so it takes longer by two flushes. Default: `false`.
    pub fn sync(mut self, sync: bool) -> Self {
        self.sync = sync;
        self
    }

    /// Opens the log. The file is created if missing.
    ///
    /// # Errors
    /// Returns [`AuditError`] if the file cannot be opened for appending.
    pub async fn open(self) -> Result<JsonLinesLog, AuditError> {
        let Self { path, sync, memory } = self;
        let (lines, received) = mpsc::channel();
        let (sender, opened) = oneshot::channel();
        let work = move || match open_file(&path, sync) {
            Ok(file) => {
                let _ = sender.send(Ok(())); // if the caller was dropped, there are no lines
                Writer { path, sync, file, end: None }.write_lines(&received);
            }
            Err(error) => _ = sender.send(Err(error)),
        };
        let failed = |error| AuditError::new("opening the audit log", error);
        thread::Builder::new().name("audit-log".to_owned()).spawn(work).map_err(failed)?;
        opened.await.unwrap_or_else(|_| Err(thread_stopped())).map_err(failed)?;
        Ok(JsonLinesLog { lines, memory })
    }
}

fn thread_stopped() -> io::Error {
    io::Error::other("the audit log thread has stopped")
}

/// Opens the file for appending. With `sync`, also flushes the directory, so that the file name survives a loss of
/// power.
fn open_file(path: &Path, sync: bool) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).append(true).create(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt as _;
        options.mode(0o600);
    }
    let file = options.open(path)?;
    if sync && cfg!(unix) {
        let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty());
        File::open(directory.unwrap_or(Path::new(".")))?.sync_all()?;
    }
    Ok(file)
}

#[derive(Debug)]
struct Writer {
    path: PathBuf,
    sync: bool,
    file: File,
    /// The end of the last line written here, or `None` if the file may have a different end.
    end: Option<u64>,
}

impl Writer {
    /// Writes lines until all senders are dropped.
    fn write_lines(mut self, received: &mpsc::Receiver<Line>) {
        while let Ok(line) = received.recv() {
            // Queued lines share one flush.
            let lines = std::iter::once(line).chain(received.try_iter()).collect();
            self.write_together(lines);
        }
    }

    fn write_together(&mut self, lines: Vec<Line>) {
        let refreshed = self.refresh().map_err(Arc::new);
        let write = |line: Line| {
            let written = refreshed.clone().and_then(|()| self.write_line(line.bytes).map_err(Arc::new));
            (line.receiver, written)
        };
        let written = lines.into_iter().map(write).collect::<Vec<_>>();
        let flushed = if self.sync { self.file.sync_data().map_err(Arc::new) } else { Ok(()) };
        for (receiver, written) in written {
            receiver.send(written.and_then(|()| flushed.clone()));
        }
    }

    /// Reopens the file if it was renamed or removed, and checks whether other processes wrote to it.
    fn refresh(&mut self) -> io::Result<()> {
        let length = length_at(&self.path, &self.file)?;
        if length.is_none() {
            self.file = open_file(&self.path, self.sync)?;
        }
        self.end = self.end.filter(|end| length == Some(*end));
        Ok(())
    }

    /// Appends a line in one call, so that lines of other processes cannot be mixed with it.
    fn write_line(&mut self, mut line: Vec<u8>) -> io::Result<()> {
        let (end, is_line_end) = match self.end.take() {
            Some(end) => (end, true),
            None => read_end(&self.file)?,
        };
        if !is_line_end {
            line.insert(0, b'\n');
        }
        append_at_once(&self.file, &line)?;
        self.end = Some(end + line.len() as u64);
        Ok(())
    }
}

/// The length of the file, or `None` if `path` leads to a different file.
#[cfg(unix)]
fn length_at(path: &Path, file: &File) -> io::Result<Option<u64>> {
    use std::os::unix::fs::MetadataExt as _;

    match path.metadata() {
        Ok(found) => {
            let file = file.metadata()?;
            Ok(((found.dev(), found.ino()) == (file.dev(), file.ino())).then_some(found.len()))
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

#[cfg(not(unix))]
fn length_at(_: &Path, file: &File) -> io::Result<Option<u64>> {
    Ok(Some(file.metadata()?.len()))
}

fn append_at_once(mut file: &File, line: &[u8]) -> io::Result<()> {
    loop {
        match file.write(line) {
            Ok(length) if length == line.len() => return Ok(()),
            Ok(_) => return Err(io::Error::new(io::ErrorKind::WriteZero, "only part of the record was written")),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

/// Returns the length of the file, and whether its last line is complete.
fn read_end(mut file: &File) -> io::Result<(u64, bool)> {
    let end = file.seek(SeekFrom::End(0))?;
    if end == 0 {
        return Ok((end, true));
    }
    file.seek(SeekFrom::End(-1))?;
    let mut last = [0];
    file.read_exact(&mut last)?;
    Ok((end, last == *b"\n"))
}

impl Receiver {
    fn send(self, result: Result<(), Arc<io::Error>>) {
        match (self, result) {
            (Self::Caller(caller), result) => {
                let _ = caller.send(result); // fails only if the command was dropped
            }
            (Self::None(record), Err(error)) => report_missing(&record, &error),
            (Self::None(_), Ok(())) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::UNIX_EPOCH;

    use super::*;
    use crate::audit::record::{AuditEvent, AuditOutcome, FORMAT};

    fn block_on<F: Future>(future: F) -> F::Output {
        tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(future)
    }

    fn record(actor: &str) -> AuditRecord {
        AuditRecord {
            format: FORMAT,
            id: "0".to_owned(),
            time: UNIX_EPOCH,
            memory: None,
            actor: actor.to_owned(),
            request: None,
            command: "create".to_owned(),
            event: AuditEvent::Outcome { outcome: AuditOutcome::Done, error: None, policy: None },
        }
    }

    /// `None` stands for a line that is not a record.
    fn records(path: &Path) -> Vec<Option<AuditRecord>> {
        std::fs::read_to_string(path).unwrap().lines().map(|line| serde_json::from_str(line).ok()).collect()
    }

    #[test]
    fn a_record_has_no_line_separators() {
        let record = record("a\u{2028}b\u{2029}");
        let line = line_of(&record).unwrap();
        assert!(String::from_utf8_lossy(&line).contains(r#""a\u2028b\u2029""#));
        assert_eq!(serde_json::from_slice::<AuditRecord>(&line).unwrap(), record);
    }

    #[test]
    fn an_incomplete_line_does_not_affect_the_next_record() {
        let directory = tempfile::tempdir().unwrap();
        // The actor looks like the beginning of a record.
        let (before, after) = (record(r#"{"format":1,"#), record("after"));
        let whole = serde_json::to_vec(&before).unwrap();
        for length in 1..=whole.len() {
            let path = directory.path().join(length.to_string());
            open_file(&path, false).unwrap().write_all(&whole[..length]).unwrap();
            block_on(async { JsonLinesLog::open(&path).await.unwrap().append(&after).await.unwrap() });
            let is_whole = length == whole.len();
            assert_eq!(records(&path), [is_whole.then(|| before.clone()), Some(after.clone())], "{length}");
        }
    }

    #[test]
    fn changes_by_other_processes_between_two_records_are_detected() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("audit.jsonl");
        let lines = || std::fs::read_to_string(&path).unwrap().lines().map(str::to_owned).collect::<Vec<_>>();
        let line = |actor| serde_json::to_string(&record(actor)).unwrap();
        block_on(async {
            let log = JsonLinesLog::open(&path).await.unwrap();
            log.append(&record("first")).await.unwrap();
            log.append(&record("second")).await.unwrap();
            let mut file = open_file(&path, false).unwrap();
            file.write_all(br#"{"format":1,"#).unwrap();
            log.append(&record("third")).await.unwrap();
            assert_eq!(lines(), [&line("first"), &line("second"), r#"{"format":1,"#, &line("third")]);
            file.set_len(0).unwrap();
            log.append(&record("fourth")).await.unwrap();
            assert_eq!(lines(), [line("fourth")]);
        });
    }

    #[test]
    fn append_without_waiting_keeps_the_order() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("audit.jsonl");
        block_on(async {
            let log = JsonLinesLog::builder(&path).sync(true).open().await.unwrap();
            log.append(&record("first")).await.unwrap();
            log.append_without_waiting(&record("second"));
            log.append(&record("third")).await.unwrap();
        });
        assert_eq!(records(&path), ["first", "second", "third"].map(|actor| Some(record(actor))));
    }

    #[cfg(unix)]
    #[test]
    fn a_new_file_is_private_to_its_owner() {
        use std::os::unix::fs::PermissionsExt as _;

        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("audit.jsonl");
        block_on(JsonLinesLog::builder(&path).sync(true).open()).unwrap();
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    }

    #[cfg(unix)]
    #[test]
    fn a_renamed_or_removed_file_is_created_again() {
        let directory = tempfile::tempdir().unwrap();
        let (path, moved) = (directory.path().join("audit.jsonl"), directory.path().join("audit.1.jsonl"));
        block_on(async {
            let log = JsonLinesLog::open(&path).await.unwrap();
            log.append(&record("first")).await.unwrap();
            std::fs::rename(&path, &moved).unwrap();
            log.append(&record("lost")).await.unwrap();
            std::fs::remove_file(&path).unwrap();
            log.append(&record("second")).await.unwrap();
            for (path, actor) in [(&moved, "first"), (&path, "second")] {
                assert_eq!(records(path), [Some(record(actor))]);
            }
            drop(directory);
            log.append(&record("nowhere")).await.unwrap_err();
        });
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn appending_to_a_full_disk_fails() {
        block_on(async {
            let log = JsonLinesLog::open("/dev/full").await.unwrap();
            log.append(&record("alice")).await.unwrap_err();
        });
    }
}
