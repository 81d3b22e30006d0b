//! [`JsonLinesLog`]: a local file with one JSON object on each line.

use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, mpsc};
use std::thread;

use async_trait::async_trait;
use futures::channel::oneshot;
use memory_tool_core::BoxError;

use crate::audit::entry::tell_of_missing;
use crate::audit::filter::{AuditFilter, AuditTrail, Selection};
use crate::audit::log::{AuditError, AuditLog};
use crate::audit::record::AuditRecord;

/// What every record begins with. Within a text of JSON its quotes would be escaped, so it is found nowhere else.
const BEGINNING: &[u8] = br#"{"format":"#;

/// The longest line that is read: a file that somebody else made may have a line of any length.
const MAX_LINE_BYTES: u64 = memory_tool_core::DEFAULT_MAX_FILE_BYTES;

/// A log in a local file, one JSON object on each line.
///
/// # Behavior
/// 1. Each record is appended by one call of the operating system, so any number of processes on one machine may append to one file. A
///    network file system may not keep that promise.
/// 2. A line that a process left cut short when it was killed, or that a full disk did, is ended before the next record.
/// 3. A record survives the end of the process. With [`JsonLinesLogBuilder::sync`] it survives a loss of power too.
/// 4. On Unix the file is made so that its owner alone may read and write it. The rights of one that is there stay as they are.
/// 5. A thread of its own writes, so it needs no runtime. Cloning is cheap, and the clones are one log.
/// 6. On Unix a file that was moved away or removed is made anew at the next record, so it can be rotated by renaming it.
///
/// ```
/// use memory_tool_policies::{AuditFilter, JsonLinesLog};
///
/// # let runtime = tokio::runtime::Builder::new_current_thread().build()?;
/// # runtime.block_on(async {
/// # let directory = tempfile::tempdir()?;
/// # let file = directory.path().join("audit.jsonl");
/// let log = JsonLinesLog::builder(&file).sync(true).open().await?;
/// // … an `AuditedStore` and an `AuditedTool` append to it …
/// let trail = JsonLinesLog::read(&file, &AuditFilter::new().actor("alice")).await?;
/// assert_eq!(trail.skipped, 0);
/// # drop(log);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct JsonLinesLog {
    lines: mpsc::Sender<Line>,
}

/// A line to be written, and who waits for it.
#[derive(Debug)]
struct Line {
    bytes: Vec<u8>,
    waiting: Waiting,
}

#[derive(Debug)]
enum Waiting {
    For(oneshot::Sender<Result<(), Arc<io::Error>>>),
    /// Nobody waits. Where it fails, this record is told of.
    Nobody(Box<AuditRecord>),
}

impl JsonLinesLog {
    /// Opens the log in `file` with the default options, and makes it where it is missing. Its directory must be there.
    ///
    /// # Errors
    /// [`AuditError`] where the file cannot be opened for appending.
    pub async fn open(file: impl Into<PathBuf>) -> Result<Self, AuditError> {
        Self::builder(file).open().await
    }

    /// A log in `file` with options of your own.
    pub fn builder(file: impl Into<PathBuf>) -> JsonLinesLogBuilder {
        JsonLinesLogBuilder { path: file.into(), sync: false }
    }

    /// Reads the records that the filter lets through, in the order of the file.
    ///
    /// Lines that are no record of this format, such as one that was cut short, are passed over and counted. A record that stands
    /// behind the rest of such a line is read.
    ///
    /// # Errors
    /// [`AuditError`] where the file cannot be read.
    pub async fn read(file: impl Into<PathBuf>, filter: &AuditFilter) -> Result<AuditTrail, AuditError> {
        let (path, filter) = (file.into(), filter.clone());
        let reading = off_thread(move |done| {
            let _ = done.send(read_lines(&path, &filter)); // unless nobody waits any longer
        });
        reading.await.map_err(|error| AuditError::new("reading the audit log", error))
    }

    fn send(&self, record: &AuditRecord, waiting: Waiting) -> Result<(), AuditError> {
        let bytes = line_of(record)?;
        self.lines.send(Line { bytes, waiting }).map_err(|_| appending(has_ended()))
    }
}

fn line_of(record: &AuditRecord) -> Result<Vec<u8>, AuditError> {
    let mut line = serde_json::to_vec(record).map_err(|error| AuditError::new("encoding a record", error))?;
    line.push(b'\n');
    Ok(line)
}

fn appending(error: impl Into<BoxError>) -> AuditError {
    AuditError::new("appending a record", error)
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl AuditLog for JsonLinesLog {
    async fn append(&self, record: &AuditRecord) -> Result<(), AuditError> {
        let (waiting, written) = oneshot::channel();
        self.send(record, Waiting::For(waiting))?;
        match written.await {
            Ok(written) => written.map_err(appending),
            Err(_) => Err(appending(has_ended())),
        }
    }

    fn append_without_waiting(&self, record: &AuditRecord) {
        if let Err(error) = self.send(record, Waiting::Nobody(Box::new(record.clone()))) {
            tell_of_missing(record, &error);
        }
    }
}

/// Options of a [`JsonLinesLog`]. Made by [`JsonLinesLog::builder`].
#[derive(Clone, Debug)]
#[must_use]
pub struct JsonLinesLogBuilder {
    path: PathBuf,
    sync: bool,
}

impl JsonLinesLogBuilder {
    /// Whether each record is waited for until the disk has it; those that come at once wait together. An edit has two records, and
    /// takes as much longer as the disk takes for two flushes. Default: no.
    pub fn sync(mut self, sync: bool) -> Self {
        self.sync = sync;
        self
    }

    /// Opens the log, and makes the file where it is missing.
    ///
    /// # Errors
    /// [`AuditError`] where the file cannot be opened for appending.
    pub async fn open(self) -> Result<JsonLinesLog, AuditError> {
        let Self { path, sync } = self;
        let (lines, received) = mpsc::channel();
        let opening = off_thread(move |opened| match open_file(&path, sync) {
            Ok(file) => {
                let _ = opened.send(Ok(())); // if nobody waits any longer, there are no lines either
                Writer { path, sync, file, end: None }.write_lines(&received);
            }
            Err(error) => {
                let _ = opened.send(Err(error));
            }
        });
        opening.await.map_err(|error| AuditError::new("opening the audit log", error))?;
        Ok(JsonLinesLog { lines })
    }
}

/// Starts a thread, and waits for what it sends. The thread may go on after that.
async fn off_thread<T: Send + 'static>(
    work: impl FnOnce(oneshot::Sender<io::Result<T>>) + Send + 'static,
) -> io::Result<T> {
    let (sender, sent) = oneshot::channel();
    thread::Builder::new().name("audit-log".to_owned()).spawn(move || work(sender))?;
    sent.await.unwrap_or_else(|_| Err(has_ended()))
}

fn has_ended() -> io::Error {
    io::Error::other("the audit log thread has stopped")
}

/// Opens the file for appending. Where records are to survive a loss of power, so is the name of the file.
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

/// The file of a log.
#[derive(Debug)]
struct Writer {
    path: PathBuf,
    sync: bool,
    file: File,
    /// Where the last line ends that was written here, unless the file was seen to end elsewhere since.
    end: Option<u64>,
}

impl Writer {
    /// Writes lines until nobody can send any more.
    fn write_lines(mut self, received: &mpsc::Receiver<Line>) {
        while let Ok(line) = received.recv() {
            // Lines that came at the same time share one flush.
            let lines = std::iter::once(line).chain(received.try_iter()).collect();
            self.write_together(lines);
        }
    }

    fn write_together(&mut self, lines: Vec<Line>) {
        let followed = self.follow().map_err(Arc::new);
        let write = |line: Line| {
            let written = followed.clone().and_then(|()| self.write_line(line.bytes).map_err(Arc::new));
            (line.waiting, written)
        };
        let written = lines.into_iter().map(write).collect::<Vec<_>>();
        let flushed = if self.sync { self.file.sync_data().map_err(Arc::new) } else { Ok(()) };
        for (waiting, written) in written {
            waiting.answer(written.and_then(|()| flushed.clone()));
        }
    }

    /// Opens the file anew where another is at its path, or none: what is written to a file that was removed is lost. Looks whether
    /// others wrote to it.
    fn follow(&mut self) -> io::Result<()> {
        let length = length_at(&self.path, &self.file)?;
        if length.is_none() {
            self.file = open_file(&self.path, self.sync)?;
        }
        self.end = self.end.filter(|end| length == Some(*end));
        Ok(())
    }

    /// Appends a line by one call, so that no other process's line comes into it.
    fn write_line(&mut self, mut line: Vec<u8>) -> io::Result<()> {
        let end = match self.end.take() {
            Some(end) => end,
            None => {
                let (end, is_of_line) = look_at_end(&self.file)?;
                if !is_of_line {
                    line.insert(0, b'\n');
                }
                end
            }
        };
        append_at_once(&self.file, &line)?;
        self.end = Some(end + line.len() as u64);
        Ok(())
    }
}

/// How long the file is, if it is the one at the path.
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

/// Where the file ends, and whether a line ends there.
fn look_at_end(mut file: &File) -> io::Result<(u64, bool)> {
    let end = file.seek(SeekFrom::End(0))?;
    if end == 0 {
        return Ok((end, true));
    }
    file.seek(SeekFrom::End(-1))?;
    let mut last = [0];
    file.read_exact(&mut last)?;
    Ok((end, last == *b"\n"))
}

impl Waiting {
    fn answer(self, result: Result<(), Arc<io::Error>>) {
        match (self, result) {
            (Self::For(waiting), result) => {
                let _ = waiting.send(result); // unless the command was dropped
            }
            (Self::Nobody(record), Err(error)) => tell_of_missing(&record, &error),
            (Self::Nobody(_), Ok(())) => {}
        }
    }
}

fn read_lines(path: &Path, filter: &AuditFilter) -> io::Result<AuditTrail> {
    read_lines_from(BufReader::new(File::open(path)?), filter, MAX_LINE_BYTES)
}

/// Reads the records of a log. A line of more than `longest` bytes is no record, and not kept.
pub(super) fn read_lines_from(mut lines: impl BufRead, filter: &AuditFilter, longest: u64) -> io::Result<AuditTrail> {
    let mut selection = Selection::new(filter);
    let mut line = Vec::new();
    while lines.by_ref().take(longest).read_until(b'\n', &mut line)? > 0 {
        if line.len() as u64 == longest && !line.ends_with(b"\n") {
            lines.skip_until(b'\n')?;
            line.clear();
            selection.take(None);
        }
        for record in records_of(line.trim_ascii()) {
            selection.take(record);
        }
        line.clear();
    }
    Ok(selection.trail)
}

/// The record of a line. A process that was killed may have left a piece of its own before it: that is none.
fn records_of(line: &[u8]) -> impl Iterator<Item = Option<AuditRecord>> {
    let last = line.windows(BEGINNING.len()).rposition(|window| window == BEGINNING).unwrap_or(0);
    let (rest, record) = line.split_at(last);
    [rest, record].into_iter().filter(|part| !part.is_empty()).map(AuditRecord::parse)
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
            actor: actor.to_owned(),
            command: "create".to_owned(),
            command_id: None,
            event: AuditEvent::Outcome { outcome: AuditOutcome::Done, error: None },
        }
    }

    fn append_after(path: &Path, before: &[u8], record: &AuditRecord) -> AuditTrail {
        open_file(path, false).unwrap().write_all(before).unwrap();
        block_on(async {
            JsonLinesLog::open(path).await.unwrap().append(record).await.unwrap();
            JsonLinesLog::read(path, &AuditFilter::new()).await.unwrap()
        })
    }

    #[test]
    fn a_line_that_was_cut_short_spoils_no_other() {
        let directory = tempfile::tempdir().unwrap();
        // An actor that looks like the beginning of a record.
        let (before, after) = (record(r#"{"format":1,"#), record("after"));
        let whole = serde_json::to_vec(&before).unwrap();
        for length in 1..=whole.len() {
            let path = directory.path().join(length.to_string());
            let trail = append_after(&path, &whole[..length], &after);
            let text = std::fs::read_to_string(path).unwrap();
            assert!(AuditRecord::parse(text.lines().last().unwrap().as_bytes()).is_some(), "on a line of its own");
            let is_whole = length == whole.len();
            let expected = if is_whole { vec![before.clone(), after.clone()] } else { vec![after.clone()] };
            assert_eq!((trail.records, trail.skipped), (expected, u64::from(!is_whole)), "{length}");
        }
    }

    #[test]
    fn what_others_write_or_take_away_between_two_records_is_seen() {
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

    /// Between the look at the end of the file and the write, another process was killed in the middle of its own.
    #[test]
    fn a_record_behind_the_rest_of_another_is_read() {
        let directory = tempfile::tempdir().unwrap();
        let whole = serde_json::to_vec(&record(r#"{"format":1,"#)).unwrap();
        for length in 1..whole.len() {
            let glued = [&whole[..length], &whole, b"\nforeign\n\n\xff\n{\"format\":2}\n"].concat();
            let trail = append_after(&directory.path().join(length.to_string()), &glued, &record("after"));
            assert_eq!(trail.records, [record(r#"{"format":1,"#), record("after")], "{length}");
            assert_eq!(trail.skipped, 4, "{length}");
        }
    }

    #[test]
    fn what_is_handed_over_comes_after_what_was_appended_before() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("audit.jsonl");
        let trail = block_on(async {
            let log = JsonLinesLog::builder(&path).sync(true).open().await.unwrap();
            log.append(&record("first")).await.unwrap();
            log.append_without_waiting(&record("second"));
            log.append(&record("third")).await.unwrap();
            JsonLinesLog::read(&path, &AuditFilter::new()).await.unwrap()
        });
        assert_eq!(trail.records, ["first", "second", "third"].map(record));
    }

    #[cfg(unix)]
    #[test]
    fn nobody_else_may_read_the_file() {
        use std::os::unix::fs::PermissionsExt as _;

        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("audit.jsonl");
        block_on(JsonLinesLog::builder(&path).sync(true).open()).unwrap();
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    }

    #[cfg(unix)]
    #[test]
    fn a_file_that_was_moved_away_or_removed_is_made_anew() {
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
                assert_eq!(JsonLinesLog::read(path, &AuditFilter::new()).await.unwrap().records, [record(actor)]);
            }
            drop(directory);
            log.append(&record("nowhere")).await.unwrap_err();
        });
    }

    #[test]
    fn a_line_that_is_too_long_is_passed_over() {
        let line = line_of(&record("alice")).unwrap();
        let long = [vec![b'x'; 3 * line.len()], line.clone()].concat();
        let log = [line.clone(), long, line.clone(), vec![b'x'; 2 * line.len()]].concat();
        let trail = read_lines_from(log.as_slice(), &AuditFilter::new(), line.len() as u64).unwrap();
        assert_eq!(trail.records, [record("alice"), record("alice")]);
        assert_eq!(trail.skipped, 2);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_disk_that_is_full_is_an_error() {
        block_on(async {
            let log = JsonLinesLog::open("/dev/full").await.unwrap();
            log.append(&record("alice")).await.unwrap_err();
        });
    }
}
