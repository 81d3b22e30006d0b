//! [`OpenOptions`] and [`OpenError`]: opening a store, the same for every backend.

use std::time::Duration;

use crate::file_size::DEFAULT_MAX_FILE_BYTES;
use crate::store_error::{BoxError, ErrorKind};

/// How long an operation waits for others, unless another time is set.
pub const DEFAULT_TIMEOUT: Duration = Duration::from_secs(30);

/// What opening a store may do to its storage.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
pub enum OpenMode {
    /// Open the store, and create it if it does not exist.
    #[default]
    Create,
    /// Open the store to read and change it. Opening fails if it does not exist, and creates nothing.
    Existing,
    /// Open the store to read it. Opening fails if it does not exist. Nothing is written, neither now nor later: no lock file, no
    /// recovery, no migration. Every batch that changes something fails as
    /// [`AccessDenied`](crate::FailureKind::AccessDenied).
    ReadOnly,
}

/// Options that every backend takes.
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
    /// Whether opening may create the store, and whether it may be changed. Default: [`OpenMode::Create`].
    pub mode: OpenMode,
    /// How long an operation waits for others before it fails as [`Busy`](crate::FailureKind::Busy), with nothing changed.
    /// Default: [`DEFAULT_TIMEOUT`].
    pub timeout: Duration,
    /// The size in bytes of the largest file that is read or written. A larger one is listed, renamed and removed as others are.
    /// Reading it is [refused](crate::StoreError::Refused) before any of it is read, and so is writing it. Default:
    /// [`DEFAULT_MAX_FILE_BYTES`].
    pub max_file_bytes: u64,
}

impl OpenOptions {
    /// The defaults.
    pub fn new() -> Self {
        Self { mode: OpenMode::default(), timeout: DEFAULT_TIMEOUT, max_file_bytes: DEFAULT_MAX_FILE_BYTES }
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
}

impl Default for OpenOptions {
    fn default() -> Self {
        Self::new()
    }
}

/// Why a store could not be opened. For the operator: it names the place. The [source](std::error::Error::source) is an error of the
/// backend, which a program may downcast.
#[derive(Debug, thiserror::Error)]
#[error("{} {place}", if *kind == ErrorKind::NotFound { "there is no memory store" } else { "cannot open the memory store" })]
pub struct OpenError {
    place: String,
    kind: ErrorKind,
    source: BoxError,
}

impl OpenError {
    /// An error of opening the store at `place`, such as `in the directory /srv/memory`.
    pub fn new(place: impl Into<String>, kind: ErrorKind, source: impl Into<BoxError>) -> Self {
        Self { place: place.into(), kind, source: source.into() }
    }

    /// The same error at a place that says more to the operator, such as a URL.
    #[must_use]
    pub fn with_place(mut self, place: impl Into<String>) -> Self {
        self.place = place.into();
        self
    }

    /// The place, such as `in the directory /srv/memory`.
    pub fn place(&self) -> &str {
        &self.place
    }

    /// The kind of error.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// Whether the store does not exist, and the mode does not create it.
    pub fn is_not_found(&self) -> bool {
        self.kind == ErrorKind::NotFound
    }

    /// Whether opening may succeed later, with nothing else done.
    pub fn is_retryable(&self) -> bool {
        self.kind.is_retryable()
    }
}
