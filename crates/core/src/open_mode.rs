//! [`OpenMode`]: what opening a store may do to its storage.

/// What opening a store may do to its storage. Every backend's builder takes one.
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
