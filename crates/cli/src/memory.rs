//! Opening the memory that the command line names.

use std::ffi::OsStr;

use memory_tool::policies::Scope;
use memory_tool::sqlite::MemoryName;
use memory_tool::{BoxError, KeysRequired, Memory, MemoryBuilder, OpenError, OpenMode, OpenOptions, StoreUrl};
use memory_tool_bucket::{BucketStoreBuilder, OpenFailure};

use crate::encryption::Encryption;
use crate::failure::Failure;
use crate::warnings::print_warnings;

/// The access of a subcommand to a memory.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Access {
    /// Open it in this mode.
    Mode(OpenMode),
    /// Simulate changes; a memory that does not exist counts as empty, unless it must exist.
    DryRun { must_exist: bool },
}

/// Parses the URL of a store, including the name of a memory in a database.
pub(crate) fn parse_url(given: &OsStr) -> Result<StoreUrl, BoxError> {
    let url = StoreUrl::parse(given)?;
    if let StoreUrl::Sqlite { memory, .. } = &url {
        MemoryName::parse(memory)?;
    }
    Ok(url)
}

/// Returns an error for the in-process store.
pub(crate) fn refuse_temporary(url: &StoreUrl) -> Result<(), Failure> {
    if *url == StoreUrl::InProcess { Err(Failure::TemporaryStore) } else { Ok(()) }
}

/// The memory at a URL, decrypted if there are keys. Keys are read first: if one is missing, nothing is created.
pub(crate) async fn builder(
    url: &StoreUrl,
    encryption: &Encryption,
    access: Access,
    options: OpenOptions,
) -> Result<MemoryBuilder, Failure> {
    let builder = encryption.encrypt(MemoryBuilder::from(url.clone())).await?;
    Ok(match access {
        Access::Mode(mode) => builder.options(options.mode(mode)),
        Access::DryRun { must_exist } => {
            let builder = builder.options(options).dry_run();
            if must_exist { builder.must_exist() } else { builder }
        }
    })
}

/// The memory at a URL, or the part of it that belongs to a scope.
pub(crate) fn scoped(url: &StoreUrl, scope: Option<&Scope>) -> MemoryBuilder {
    let builder = MemoryBuilder::from(url.clone());
    match scope {
        Some(scope) => builder.scope(scope.clone()),
        None => builder,
    }
}

/// Opens the memory.
pub(crate) async fn open(builder: MemoryBuilder) -> Result<Memory, Failure> {
    print_warnings();
    builder.build().await.map_err(failure)
}

/// Converts the error of opening a memory.
pub(crate) fn failure(error: OpenError) -> Failure {
    let cause = std::error::Error::source(&error);
    match cause.and_then(|cause| cause.downcast_ref::<KeysRequired>()) {
        Some(KeysRequired) => Failure::Encrypted,
        None if error.is_not_found() => Failure::NotFound(error),
        None => Failure::Store(error),
    }
}

/// Adds the option to use, if a store was opened to be changed and its credentials may only read it.
pub(crate) fn advise_read_only(failure: Failure) -> Failure {
    let Failure::Store(error) = failure else { return failure };
    let cause = std::error::Error::source(&error);
    match cause.and_then(|cause| cause.downcast_ref::<OpenFailure>()) {
        Some(OpenFailure::CannotWrite { .. }) => Failure::ReadOnlyCredentials(error),
        _ => Failure::Store(error),
    }
}

/// A client of a bucket with the settings of the environment. It has sent no request yet.
pub(crate) fn bucket(url: &str) -> Result<BucketStoreBuilder, Failure> {
    BucketStoreBuilder::from_url(url).map_err(|source| Failure::Bucket { url: url.to_owned(), source })
}
