//! What the command line does with a [`StoreUrl`] besides: opening what is encrypted, and the backends that it asks for more than
//! a store.

use std::ffi::OsStr;
use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use memory_tool_core::{BoxError, InMemoryStore, Store};
use memory_tool_object_store::{BucketStore, BucketStoreBuilder};
use memory_tool_sqlite::{SqliteStore, StoreName};
use memory_tool_url::StoreUrl;

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
pub(crate) async fn open(url: &StoreUrl, encryption: &Encryption) -> Result<Box<dyn Store>, Failure> {
    let keys = encryption.key_ring().await?; // first, so that nothing is made where there is none
    encryption.over(open_as_stored(url).await?, keys).await
}

/// Opens the store, decrypted where it is encrypted; where there is none, one without files that nothing is kept of.
pub(crate) async fn open_or_pretend(url: &StoreUrl, encryption: &Encryption) -> Result<Box<dyn Store>, Failure> {
    let keys = encryption.key_ring().await?;
    let store: Box<dyn Store> = match expect_store(url) {
        Ok(()) => open_as_stored(url).await?,
        Err(Failure::NoStore { source, .. }) if source.kind() == ErrorKind::NotFound => Box::new(InMemoryStore::new()),
        Err(failure) => return Err(failure),
    };
    encryption.over(store, keys).await
}

/// Opens the store as it lies there: where it is encrypted, it holds ciphertexts.
pub(crate) async fn open_as_stored(url: &StoreUrl) -> Result<Box<dyn Store>, Failure> {
    url.open().await.map_err(|error| Failure::Store(error.into()))
}

/// Opens a memory in a SQLite database.
pub(crate) async fn open_sqlite(path: &Path, store: &StoreName) -> Result<SqliteStore, Failure> {
    let opened = SqliteStore::builder(path).store(store.clone()).open().await;
    opened.map_err(|error| Failure::Store(error.into()))
}

/// Opens a memory in a bucket.
pub(crate) async fn open_bucket(url: &str) -> Result<BucketStore, Failure> {
    bucket(url)?.open().await.map_err(|error| Failure::Store(error.into()))
}

/// A client of a bucket, made of the settings in the environment. It has sent nothing yet.
pub(crate) fn bucket(url: &str) -> Result<BucketStoreBuilder, Failure> {
    BucketStoreBuilder::from_url(url).map_err(|source| Failure::Bucket { url: url.to_owned(), source })
}

/// The name of a memory in a database.
pub(crate) fn store_name(name: &str) -> Result<StoreName, Failure> {
    StoreName::parse(name).map_err(|error| Failure::Store(error.into()))
}

/// Fails where there is no store: opening would make one, and a mistyped name would seem to be that of a store in which all is well.
pub(crate) fn expect_store(url: &StoreUrl) -> Result<(), Failure> {
    let path = match url {
        StoreUrl::Local(directory) => directory.join("memories"),
        StoreUrl::Sqlite { path, .. } => path.clone(),
        // Beneath any prefix there is a store, if only one without files, and looking there makes none.
        StoreUrl::Bucket { .. } => return Ok(()),
        _ => return Err(Failure::NothingKept),
    };
    fs::metadata(&path).map(|_| ()).map_err(|source| Failure::NoStore { path, source })
}
