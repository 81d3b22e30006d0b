//! [`Backend`]: the storage of a memory.

use std::sync::Arc;
use std::time::Duration;

use memory_tool_core::{
    ErrorKind, InMemoryStore, OpenError, OpenOptions, Store, StoreError, VerifyProgress, VerifyReport,
};

use crate::store_url::{StoreUrl, scheme_of};

/// The storage of a [`Memory`](crate::Memory), for operations that only one kind of storage has, such as the garbage
/// collection of a bucket. Clones are cheap.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Backend {
    /// A directory on this machine.
    #[cfg(feature = "local")]
    Local(memory_tool_local::LocalStore),
    /// A memory in a SQLite database.
    #[cfg(feature = "sqlite")]
    Sqlite(memory_tool_sqlite::SqliteStore),
    /// A memory in a PostgreSQL database.
    #[cfg(feature = "postgres")]
    Postgres(memory_tool_postgres::PostgresStore),
    /// A memory under a prefix in a bucket.
    #[cfg(any(feature = "azure", feature = "gcs", feature = "s3"))]
    Bucket(memory_tool_bucket::BucketStore),
    /// A memory in this process.
    InProcess(Arc<InMemoryStore>),
    /// A custom store.
    Custom(Arc<dyn Store>),
}

impl Backend {
    /// The store, without policies and encryption.
    pub fn store(&self) -> Arc<dyn Store> {
        match self {
            #[cfg(feature = "local")]
            Self::Local(store) => Arc::new(store.clone()),
            #[cfg(feature = "sqlite")]
            Self::Sqlite(store) => Arc::new(store.clone()),
            #[cfg(feature = "postgres")]
            Self::Postgres(store) => Arc::new(store.clone()),
            #[cfg(any(feature = "azure", feature = "gcs", feature = "s3"))]
            Self::Bucket(store) => Arc::new(store.clone()),
            Self::InProcess(store) => Arc::clone(store) as Arc<dyn Store>,
            Self::Custom(store) => Arc::clone(store),
        }
    }

    /// Checks the storage for damage. `progress` is called after each file.
    ///
    /// # Errors
    /// [`StoreError::Failure`] if the check cannot be completed. Damage is in the report.
    pub async fn verify(&self, progress: impl FnMut(VerifyProgress) + Send) -> Result<VerifyReport, StoreError> {
        match self {
            #[cfg(feature = "local")]
            Self::Local(store) => store.verify(progress).await,
            #[cfg(feature = "sqlite")]
            Self::Sqlite(store) => store.verify(progress).await,
            #[cfg(feature = "postgres")]
            Self::Postgres(store) => store.verify(progress).await,
            #[cfg(any(feature = "azure", feature = "gcs", feature = "s3"))]
            Self::Bucket(store) => store.verify(progress).await,
            Self::InProcess(store) => VerifyReport::default().read_files(store, progress).await,
            Self::Custom(store) => VerifyReport::default().read_files(store, progress).await,
        }
    }

    /// Removes what the storage keeps although nothing uses it since at least `older_than`. Only buckets keep such
    /// garbage: see [`BucketStore::gc`](memory_tool_bucket::BucketStore::gc).
    ///
    /// # Errors
    /// [`StoreError::Failure`] if the collection cannot be completed. The next one completes it.
    #[allow(unused_variables, reason = "without buckets, there is no garbage")]
    pub async fn collect_garbage(&self, older_than: Duration) -> Result<(), StoreError> {
        match self {
            #[cfg(any(feature = "azure", feature = "gcs", feature = "s3"))]
            Self::Bucket(store) => store.gc(older_than).await.map(drop),
            _ => Ok(()),
        }
    }

    /// The place where the bytes of removed contents can remain, and when they go, in a sentence for people.
    ///
    /// Snapshots, backups, and the kept versions of a bucket are not known to any store.
    pub fn remains_of_removed(&self) -> &'static str {
        match self {
            #[cfg(feature = "local")]
            Self::Local(_) => "The bytes can remain in free blocks of the disk until these are used again.",
            #[cfg(feature = "sqlite")]
            Self::Sqlite(_) => {
                "The bytes can remain in free blocks of the disk until these are used again, and in the write-ahead \
                 log of the database until other sessions end their reads."
            }
            #[cfg(feature = "postgres")]
            Self::Postgres(_) => {
                "The bytes can remain in the table, also after `VACUUM`, until their space is used again or \
                 `VACUUM FULL`, and in the write-ahead log and its archives until they are removed. Names remain in \
                 `pg_stats` until the next `ANALYZE` that finds rows."
            }
            #[cfg(any(feature = "azure", feature = "gcs", feature = "s3"))]
            Self::Bucket(_) => {
                "The bytes remain in old objects of the bucket until `memory-tool gc --older-than 0s`, or the next \
                 `gc` after a day."
            }
            Self::InProcess(_) => "The bytes can remain in the memory of this process until it is used again.",
            Self::Custom(_) => "The bytes can remain where the custom store keeps what it removes.",
        }
    }

    /// Checks the structure of a database. Other backends have no structure to check.
    #[cfg(feature = "layers")]
    pub(crate) async fn verify_structure(&self) -> Result<VerifyReport, StoreError> {
        match self {
            #[cfg(feature = "sqlite")]
            Self::Sqlite(store) => store.verify(|_| {}).await,
            #[cfg(feature = "postgres")]
            Self::Postgres(store) => store.verify(|_| {}).await,
            _ => Ok(VerifyReport::default()),
        }
    }
}

impl StoreUrl {
    /// Opens the storage.
    ///
    /// # Behavior
    /// 1. In the mode [`Create`](memory_tool_core::OpenMode::Create), a missing directory or database is created. A
    ///    bucket must exist, and its support for the required operations is checked.
    /// 2. In other modes, a missing memory is [`ErrorKind::NotFound`]. A memory in a bucket exists after the first
    ///    opening that may create it. A memory in a database exists while it contains a file or a
    ///    record, such as a history.
    /// 3. [`StoreUrl::InProcess`] opens a new and empty memory in every mode.
    ///
    /// # Errors
    /// The errors of the backend, and [`ErrorKind::Unsupported`] if its feature is not enabled.
    #[allow(unused_variables, reason = "without a backend, the options are not used")]
    pub async fn open(&self, options: OpenOptions) -> Result<Backend, OpenError> {
        match self {
            #[cfg(feature = "local")]
            Self::Local(path) => {
                memory_tool_local::LocalStore::builder(path).options(options).open().await.map(Backend::Local)
            }
            #[cfg(feature = "local")]
            Self::TrustedDirectory { path, other_users, file_system } => {
                let builder = memory_tool_local::LocalStore::builder(path).options(options);
                let builder = if *other_users { builder.trust_other_users() } else { builder };
                let builder = if *file_system { builder.trust_file_system() } else { builder };
                builder.open().await.map(Backend::Local)
            }
            #[cfg(feature = "sqlite")]
            Self::Sqlite { path, memory } => {
                let memory = memory.parse().map_err(|error| self.invalid(error))?;
                let builder = memory_tool_sqlite::SqliteStore::builder(path).memory(memory).options(options);
                builder.open().await.map(Backend::Sqlite)
            }
            #[cfg(feature = "postgres")]
            Self::Postgres { url, memory } => {
                let opened = self.postgres(url, memory)?.options(options).open().await;
                opened.map(Backend::Postgres).map_err(|error| error.with_place(format!("at {self}")))
            }
            #[cfg(any(feature = "azure", feature = "gcs", feature = "s3"))]
            Self::Bucket { url } => {
                let opened = self.bucket(url)?.options(options).open().await;
                opened.map(Backend::Bucket).map_err(|error| error.with_place(format!("at {self}")))
            }
            Self::InProcess => Ok(Backend::InProcess(Arc::default())),
            #[allow(unreachable_patterns, reason = "with all features, every variant is matched above")]
            _ => Err(self.missing_feature(self.feature())),
        }
    }

    #[cfg(feature = "postgres")]
    pub(crate) fn postgres(
        &self,
        url: &str,
        memory: &str,
    ) -> Result<memory_tool_postgres::PostgresStoreBuilder, OpenError> {
        let builder = memory_tool_postgres::PostgresStoreBuilder::from_url(url).map_err(|error| self.invalid(error))?;
        Ok(builder.memory(memory.parse().map_err(|error| self.invalid(error))?))
    }

    #[cfg(any(feature = "azure", feature = "gcs", feature = "s3"))]
    pub(crate) fn bucket(&self, url: &str) -> Result<memory_tool_bucket::BucketStoreBuilder, OpenError> {
        use memory_tool_bucket::{BucketStoreBuilder, UrlError};

        Self::parse(url).map_err(|error| self.invalid(error))?; // the variant can be built without parsing
        BucketStoreBuilder::from_url(url).map_err(|error| match error {
            UrlError::NoFeature { feature, .. } => self.missing_feature(feature),
            error => self.invalid(error),
        })
    }

    /// The feature that opening the URL requires, or an empty string.
    pub(crate) fn feature(&self) -> &'static str {
        match self {
            Self::Local(_) | Self::TrustedDirectory { .. } => "local",
            Self::Sqlite { .. } => "sqlite",
            Self::Postgres { .. } => "postgres",
            Self::Bucket { url } => match scheme_of(url).as_str() {
                "az" => "azure",
                "gs" => "gcs",
                _ => "s3",
            },
            Self::InProcess => "",
        }
    }

    pub(crate) fn missing_feature(&self, feature: &'static str) -> OpenError {
        let scheme = scheme_of(&self.to_string());
        let cause = format!(
            "this program was built without the `{feature}` feature, which {scheme}: URLs require. To add it: cargo \
             add memory-tool --features {feature}"
        );
        OpenError::new(format!("at {self}"), ErrorKind::Unsupported, cause)
    }

    /// Creates or upgrades the tables of a PostgreSQL database, as a role that may do so. Programs then open it with
    /// fewer rights. Returns the version of the tables, or `None` for stores that need no such step: opening them for
    /// writing upgrades them.
    ///
    /// # Errors
    /// [`OpenError`] if the database cannot be changed.
    #[allow(unused_variables, reason = "without a backend, the options are not used")]
    pub async fn migrate(&self, options: OpenOptions) -> Result<Option<u32>, OpenError> {
        match self {
            #[cfg(feature = "postgres")]
            Self::Postgres { url, memory } => {
                let migrated = self.postgres(url, memory)?.options(options).migrate().await;
                migrated.map(Some).map_err(|error| error.with_place(format!("at {self}")))
            }
            #[cfg(not(feature = "postgres"))]
            Self::Postgres { .. } => Err(self.missing_feature(self.feature())),
            _ => Ok(None),
        }
    }

    #[cfg(any(feature = "azure", feature = "gcs", feature = "postgres", feature = "s3", feature = "sqlite"))]
    fn invalid(&self, cause: impl Into<memory_tool_core::BoxError>) -> OpenError {
        OpenError::new(format!("at {self}"), ErrorKind::Invalid, cause)
    }
}
