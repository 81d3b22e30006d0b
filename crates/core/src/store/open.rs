//! [`OpenOptions`] and [`OpenError`], which every backend uses.

use std::time::Duration;

use crate::store::error::{BoxError, ErrorKind};
use crate::store::file_size::DEFAULT_MAX_FILE_BYTES;
use crate::store::verify::Problem;

/// The default timeout of an operation that waits for other tasks or processes.
pub const DEFAULT_TIMEOUT: Duration = Duration::from_secs(30);

/// The mode in which a store is opened.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
pub enum OpenMode {
    /// Opens the store for reading and writing, and creates it if it does not exist.
    #[default]
    Create,
    /// Opens an existing store for reading and writing. Fails if the store does not exist.
    Existing,
    /// Opens an existing store for reading. Fails if the store does not exist.
    ///
    /// The store never writes to its storage: it creates no lock file, and runs no recovery or migration. Batches with
    /// changes fail as [`AccessDenied`](crate::ErrorKind::AccessDenied).
    ReadOnly,
}

/// Options that every backend supports.
///
/// ```
/// use std::time::Duration;
///
/// use memory_tool_core::{OpenMode, OpenOptions};
///
/// let options = OpenOptions::new().read_only().timeout(Duration::from_secs(5));
/// assert_eq!(options.mode, OpenMode::ReadOnly);
/// ```
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
#[must_use]
pub struct OpenOptions {
    /// The mode. Default: [`OpenMode::Create`].
    pub mode: OpenMode,
    /// The time that an operation waits for other tasks or processes. It then fails as
    /// [`Busy`](crate::ErrorKind::Busy), without any change. Default: [`DEFAULT_TIMEOUT`].
    pub timeout: Duration,
    /// The maximum size in bytes of a file that is read or written. Default: [`DEFAULT_MAX_FILE_BYTES`].
    ///
    /// Reading or writing a larger file is [refused](crate::StoreError::Refused) before any data is read or written.
    /// Larger files can be listed, renamed and removed.
    pub max_file_bytes: u64,
    /// How often the open store collects its garbage, from once a minute to once a year. Backends that leave none
    /// ignore this. Default: never.
    pub gc_interval: Option<Duration>,
}

impl OpenOptions {
    /// Creates the default options.
    pub fn new() -> Self {
        Self {
            mode: OpenMode::default(),
            timeout: DEFAULT_TIMEOUT,
            max_file_bytes: DEFAULT_MAX_FILE_BYTES,
            gc_interval: None,
        }
    }

    /// Sets `mode`.
    pub fn mode(mut self, mode: OpenMode) -> Self {
        self.mode = mode;
        self
    }

    /// Sets `mode` to [`OpenMode::Existing`].
    pub fn must_exist(self) -> Self {
        self.mode(OpenMode::Existing)
    }

    /// Sets `mode` to [`OpenMode::ReadOnly`].
    pub fn read_only(self) -> Self {
        self.mode(OpenMode::ReadOnly)
    }

    /// Sets `timeout`.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Sets `max_file_bytes`.
    pub fn max_file_bytes(mut self, max_file_bytes: u64) -> Self {
        self.max_file_bytes = max_file_bytes;
        self
    }

    /// Sets `gc_interval`.
    pub fn gc_interval(mut self, interval: impl Into<Option<Duration>>) -> Self {
        self.gc_interval = interval.into();
        self
    }
}

impl Default for OpenOptions {
    fn default() -> Self {
        Self::new()
    }
}

/// An error when opening a store.
///
/// It is for the operator, since it contains the location of the store. The [source](std::error::Error::source) is an
/// error of the backend, which a program can downcast. The message contains all sources, unless the store does not
/// exist.
#[derive(Debug, thiserror::Error)]
#[error("{}", if *kind == ErrorKind::NotFound {
    format!("there is no memory store {place}")
} else {
    format!("cannot open the memory store {place}: {}", Problem::of(&**source).message)
})]
pub struct OpenError {
    place: String,
    kind: ErrorKind,
    source: BoxError,
}

impl OpenError {
    /// Creates an error for a location, such as `in the directory /srv/memory`.
    pub fn new(place: impl Into<String>, kind: ErrorKind, source: impl Into<BoxError>) -> Self {
        Self { place: place.into(), kind, source: source.into() }
    }

    /// Replaces the location, for example with a URL.
    #[must_use]
    pub fn with_place(mut self, place: impl Into<String>) -> Self {
        self.place = place.into();
        self
    }

    /// The location, such as `in the directory /srv/memory`.
    pub fn place(&self) -> &str {
        &self.place
    }

    /// The kind of error.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// Whether the store does not exist and the mode does not create it.
    pub fn is_not_found(&self) -> bool {
        self.kind == ErrorKind::NotFound
    }

    /// Whether a retry may succeed.
    pub fn is_retryable(&self) -> bool {
        self.kind == ErrorKind::Busy
    }
}
