//! [`Followed`]: a value from files that may change while the server runs.

use std::fs;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use tokio::sync::watch;
use tokio::task::spawn_blocking;
use tokio::time::sleep;

/// The interval of the checks for changes.
const INTERVAL: Duration = Duration::from_millis(500);

/// A value from files that may change while the server runs.
#[derive(Debug)]
pub(crate) struct Followed<T> {
    files: Vec<PathBuf>,
    read: fn(&[PathBuf]) -> io::Result<T>,
    pub(crate) value: watch::Sender<Arc<T>>,
}

impl<T: Send + Sync + 'static> Followed<T> {
    pub(crate) fn load(files: Vec<PathBuf>, read: fn(&[PathBuf]) -> io::Result<T>) -> io::Result<Self> {
        let value = watch::Sender::new(Arc::new(read(&files)?));
        Ok(Self { files, read, value })
    }

    pub(crate) fn get(&self) -> Arc<T> {
        Arc::clone(&self.value.borrow())
    }

    /// Reads the files again whenever one changes. If they cannot be read, the value stays unchanged.
    pub(crate) async fn follow(self: Arc<Self>) {
        let mut last = None;
        loop {
            let followed = Arc::clone(&self);
            let previous = last.clone();
            let change = spawn_blocking(move || {
                let now: Vec<_> = followed.files.iter().map(|file| fs::metadata(file).ok().map(state)).collect();
                (previous.as_ref() != Some(&now)).then(|| (now, (followed.read)(&followed.files)))
            });
            match change.await {
                Ok(Some((now, Ok(value)))) => {
                    self.value.send_replace(Arc::new(value));
                    last = Some(now);
                }
                Ok(Some((_, Err(error)))) => tracing::error!(%error, "cannot read {}", self.files[0].display()),
                Ok(None) | Err(_) => {}
            }
            sleep(INTERVAL).await;
        }
    }
}

/// The metadata that each replacement of a file changes.
fn state(metadata: fs::Metadata) -> (Option<SystemTime>, u64, u64) {
    #[cfg(unix)]
    let file = std::os::unix::fs::MetadataExt::ino(&metadata);
    #[cfg(not(unix))]
    let file = 0;
    (metadata.modified().ok(), metadata.len(), file)
}

/// Refuses a file that other users can access.
#[cfg(unix)]
pub(crate) fn refuse_others(metadata: &fs::Metadata) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt as _;

    let mode = metadata.permissions().mode() & 0o777;
    if mode & 0o077 != 0 {
        let message = format!("mode {mode:03o} gives other users access: run `chmod 600` on it");
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, message));
    }
    Ok(())
}

/// Without file modes, the permissions are inherited from the directory.
#[cfg(not(unix))]
pub(crate) fn refuse_others(_: &fs::Metadata) -> io::Result<()> {
    Ok(())
}
