//! What the command line does with a [`StoreUrl`] besides: opening what is encrypted, and the backends that it asks for more than
//! a store.

use std::ffi::OsStr;
use std::path::Path;

use memory_tool_core::{BoxError, OpenMode, Store};
use memory_tool_object_store::{BucketStore, BucketStoreBuilder};
use memory_tool_sqlite::{SqliteStore, StoreName};
use memory_tool_url::{OpenError, StoreUrl};

use crate::encryption::Encryption;
use crate::failure::Failure;

/// Parses what was given for `--store`. A name that no memory in a database can have is told at once, too.
pub(crate) fn parse(given: &OsStr) -> Result<StoreUrl, BoxError> {
    let url = StoreUrl::parse(given)?;
    if let StoreUrl::Sqlite { store, .. } = &url {
        StoreName::parse(store)?;
    }
    Ok(url)
}

/// Opens the store, decrypted where it is encrypted.
pub(crate) async fn open(url: &StoreUrl, encryption: &Encryption, mode: OpenMode) -> Result<Box<dyn Store>, Failure> {
    let keys = encryption.key_ring().await?; // first, so that nothing is created if one is missing
    // One in this process is always there, and never encrypted before it is opened.
    let mode = if *url == StoreUrl::Memory { OpenMode::Create } else { mode };
    encryption.over(url, open_as_stored(url, mode).await?, keys, mode).await
}

/// Opens the store as it lies there: where it is encrypted, it holds ciphertexts.
pub(crate) async fn open_as_stored(url: &StoreUrl, mode: OpenMode) -> Result<Box<dyn Store>, Failure> {
    url.open_with(mode).await.map_err(|error| not_opened(url, OpenError::is_not_found(&error), error))
}

/// Opens a memory in a SQLite database.
pub(crate) async fn open_sqlite(
    url: &StoreUrl,
    path: &Path,
    name: &str,
    mode: OpenMode,
) -> Result<SqliteStore, Failure> {
    let builder = SqliteStore::builder(path).store(store_name(name)?).mode(mode);
    builder.open().await.map_err(|error| not_opened(url, error.is_not_found(), error))
}

/// Opens a memory in a bucket.
pub(crate) async fn open_bucket(url: &str, mode: OpenMode) -> Result<BucketStore, Failure> {
    bucket(url)?.mode(mode).open().await.map_err(|error| not_opened(&url, error.is_not_found(), error))
}

/// A client of a bucket, made of the settings in the environment. It has sent nothing yet.
pub(crate) fn bucket(url: &str) -> Result<BucketStoreBuilder, Failure> {
    BucketStoreBuilder::from_url(url).map_err(|source| Failure::Bucket { url: url.to_owned(), source })
}

/// The name of a memory in a database.
pub(crate) fn store_name(name: &str) -> Result<StoreName, Failure> {
    StoreName::parse(name).map_err(|error| Failure::Store(error.into()))
}

/// Fails for the store that ends with this process.
pub(crate) fn refuse_temporary(url: &StoreUrl) -> Result<(), Failure> {
    if *url == StoreUrl::Memory { Err(Failure::NothingKept) } else { Ok(()) }
}

fn not_opened(url: &impl std::fmt::Display, is_not_found: bool, error: impl Into<BoxError>) -> Failure {
    if is_not_found { Failure::NotFound { what: format!("store at {url}") } } else { Failure::Store(error.into()) }
}
