//! Files that other processes may change while the server runs: [`Followed`], [`replace`].

use std::fmt;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};

use memory_tool::expand_home;
use serde::{Deserialize as _, Deserializer};
use tokio::sync::watch;
use tokio::task::spawn_blocking;
use tokio::time::sleep;

/// The interval of the checks for changes.
const INTERVAL: Duration = Duration::from_millis(500);

/// A value from files that may change while the server runs.
pub(crate) struct Followed<T> {
    files: Vec<PathBuf>,
    read: Read<T>,
    pub(crate) value: watch::Sender<Arc<T>>,
    /// Whether the files changed, but cannot be read.
    is_damaged: AtomicBool,
}

type Read<T> = Arc<dyn Fn(&[PathBuf]) -> io::Result<T> + Send + Sync>;

impl<T: fmt::Debug> fmt::Debug for Followed<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Followed").field("files", &self.files).field("value", &self.value).finish_non_exhaustive()
    }
}

impl<T: Send + Sync + 'static> Followed<T> {
    pub(crate) fn load(
        files: Vec<PathBuf>,
        read: impl Fn(&[PathBuf]) -> io::Result<T> + Send + Sync + 'static,
    ) -> io::Result<Self> {
        let value = watch::Sender::new(Arc::new(read(&files)?));
        Ok(Self { files, read: Arc::new(read), value, is_damaged: AtomicBool::new(false) })
    }

    /// Whether the files changed, but cannot be read. The value is of before.
    pub(crate) fn is_damaged(&self) -> bool {
        self.is_damaged.load(Ordering::Relaxed)
    }

    pub(crate) fn get(&self) -> Arc<T> {
        Arc::clone(&self.value.borrow())
    }

    /// Reads the files again whenever one changes. If they cannot be read, the value stays unchanged, and one event
    /// reports it.
    pub(crate) async fn follow(self: Arc<Self>) {
        let (files, read) = (self.files.clone(), Arc::clone(&self.read));
        let to_read = files.clone();
        on_changes(files, move || read(&to_read), |read| self.set(read)).await;
    }

    fn set(&self, read: io::Result<T>) {
        self.is_damaged.store(read.is_err(), Ordering::Relaxed);
        match read {
            Ok(value) => _ = self.value.send_replace(Arc::new(value)),
            Err(error) => {
                let file = self.files[0].display();
                tracing::error!(%error, "cannot read {file}: no change of it has an effect");
            }
        }
    }
}

/// Calls a function, which may block, now and whenever one of the files has changed, and passes its result on.
pub(crate) async fn on_changes<T: Send + 'static>(
    files: Vec<PathBuf>,
    act: impl Fn() -> T + Send + Sync + 'static,
    then: impl Fn(T),
) {
    let (act, mut last) = (Arc::new(act), None);
    loop {
        let (files, act, previous) = (files.clone(), Arc::clone(&act), last.clone());
        let looking = spawn_blocking(move || {
            let now: Vec<_> = files.iter().map(|file| fs::metadata(file).ok().map(state)).collect();
            (previous.as_ref() != Some(&now)).then(|| (now, act()))
        });
        if let Ok(Some((now, result))) = looking.await {
            then(result);
            last = Some(now);
        }
        sleep(INTERVAL).await;
    }
}

/// The metadata that each replacement of a file changes, and each change of its mode or owner.
fn state(metadata: fs::Metadata) -> (Option<SystemTime>, u64, [i64; 3]) {
    #[cfg(unix)]
    let file = {
        use std::os::unix::fs::MetadataExt as _;

        [metadata.ino().cast_signed(), metadata.ctime(), metadata.ctime_nsec()]
    };
    #[cfg(not(unix))]
    let file = [0; 3];
    (metadata.modified().ok(), metadata.len(), file)
}

/// The path of a file with another end to its name.
pub(crate) fn beside(file: &Path, end: &str) -> PathBuf {
    let mut name = file.to_owned().into_os_string();
    name.push(end);
    name.into()
}

/// Replaces a file, with mode 0600. No other process replaces it between the call of `content` and the replacement.
pub(crate) fn replace(file: &Path, content: impl FnOnce() -> io::Result<Vec<u8>>) -> io::Result<()> {
    // The file itself is replaced, so another one is locked.
    let lock = File::options().create(true).append(true).open(beside(file, ".lock"))?;
    lock.lock()?;
    let content = content()?;
    let directory = file.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut new = tempfile::NamedTempFile::new_in(directory)?; // with mode 0600
    new.write_all(&content)?;
    new.as_file().sync_all()?;
    new.persist(file)?;
    sync_directory(directory)
}

/// Makes a new name in the directory survive a loss of power.
#[cfg(unix)]
fn sync_directory(directory: &Path) -> io::Result<()> {
    File::open(directory)?.sync_all()
}

/// Other systems cannot open a directory as a file.
#[cfg(not(unix))]
fn sync_directory(_: &Path) -> io::Result<()> {
    Ok(())
}

/// Parses a path of the host, which may start with `~`.
pub(crate) fn host_path<'de, D: Deserializer<'de>>(deserializer: D) -> Result<PathBuf, D::Error> {
    expand_home(String::deserialize(deserializer)?).map_err(serde::de::Error::custom)
}
