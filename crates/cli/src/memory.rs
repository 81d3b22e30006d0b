//! Opens the memory that the command line names.

use std::ffi::OsStr;

use memory_tool::policies::Scope;
use memory_tool::sqlite::MemoryName;
use memory_tool::{BoxError, KeysRequired, Memory, MemoryBuilder, OpenError, OpenMode, OpenOptions, StoreUrl};
use memory_tool_object_store::BucketStoreBuilder;

use crate::encryption::Encryption;
use crate::failure::Failure;

/// Whether a subcommand changes a memory, and whether it creates it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Access {
    /// In this mode.
    Mode(OpenMode),
    /// For a dry run: changes are only simulated, and a memory that does not exist counts as empty.
    DryRun,
}

/// Parses what was given for `--store`. A name that no memory in a database can have is reported at once, too.
pub(crate) fn parse_url(given: &OsStr) -> Result<StoreUrl, BoxError> {
    let url = StoreUrl::parse(given)?;
    if let StoreUrl::Sqlite { memory, .. } = &url {
        MemoryName::parse(memory)?;
    }
    Ok(url)
}

/// Fails for the store that ends with this process.
pub(crate) fn refuse_temporary(url: &StoreUrl) -> Result<(), Failure> {
    if *url == StoreUrl::InProcess { Err(Failure::TemporaryStore) } else { Ok(()) }
}

/// The memory at a URL, decrypted if there are keys. These are read first, so that nothing is created if one is missing.
pub(crate) async fn builder(url: &StoreUrl, encryption: &Encryption, access: Access) -> Result<MemoryBuilder, Failure> {
    let builder = encryption.put_over(MemoryBuilder::from(url.clone())).await?;
    Ok(match access {
        Access::Mode(mode) => builder.options(OpenOptions::new().mode(mode)),
        Access::DryRun => builder.dry_run(),
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
    builder.build().await.map_err(failure)
}

/// Why a memory was not opened, for the operator.
pub(crate) fn failure(error: OpenError) -> Failure {
    let cause = std::error::Error::source(&error);
    match cause.and_then(|cause| cause.downcast_ref::<KeysRequired>()) {
        Some(KeysRequired) => Failure::Encrypted,
        None if error.is_not_found() => Failure::NotFound(error),
        None => Failure::Store(error),
    }
}

/// A client of a bucket, made of the settings in the environment. It has sent nothing yet.
pub(crate) fn bucket(url: &str) -> Result<BucketStoreBuilder, Failure> {
    BucketStoreBuilder::from_url(url).map_err(|source| Failure::Bucket { url: url.to_owned(), source })
}
