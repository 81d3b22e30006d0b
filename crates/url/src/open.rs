//! [`open`]: from a URL to a tool, by way of the backend that its feature compiled in.

use std::ffi::OsStr;
use std::sync::Arc;

use memory_tool_core::{BoxError, Engine, InMemoryStore, MemoryTool, OpenMode, Store};

use crate::store_url::{StoreUrl, StoreUrlError};

/// Opens the memory that a plain path or a URL names, as a tool with the contract's default options.
///
/// A directory or a database that does not exist is created; a bucket must exist. For other options, or for something between the
/// store and the tool, put an [`Engine`] over what [`StoreUrl::open`] or [`StoreUrl::open_with`] returns.
///
/// ```
/// # let runtime = tokio::runtime::Builder::new_current_thread().build()?;
/// # runtime.block_on(async {
/// let tool = memory_tool_url::open("memory:").await?;
/// let input = serde_json::json!({"command": "create", "path": "/memories/a.txt", "file_text": "Hello"});
/// assert_eq!(tool.call(input).await?.to_string(), "File created successfully at: /memories/a.txt");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// [`OpenError`]. It is for the operator: it names the place, and whatever failed there.
pub async fn open(url: impl AsRef<OsStr>) -> Result<Arc<dyn MemoryTool>, OpenError> {
    let store = StoreUrl::parse(url)?.open().await?;
    Ok(Arc::new(Engine::new(store)))
}

impl StoreUrl {
    /// Opens the store, and creates it if it does not exist: [`open_with`](Self::open_with) in the mode [`OpenMode::Create`].
    ///
    /// # Errors
    /// [`OpenError`]. It is for the operator: it names the place, and whatever failed there.
    pub async fn open(&self) -> Result<Box<dyn Store>, OpenError> {
        self.open_with(OpenMode::Create).await
    }

    /// Opens the store in this mode.
    ///
    /// # Behavior
    /// 1. With [`OpenMode::Create`], a directory or a database that does not exist is created. A bucket must exist, and is tested.
    /// 2. With [`OpenMode::Existing`] and [`OpenMode::ReadOnly`], a store that does not exist is [`OpenError::NotFound`], and nothing
    ///    is created. A memory in a bucket exists from its first write, one with a name in a database while it holds a file.
    /// 3. [`StoreUrl::Memory`] exists in every mode: it is a new and empty one.
    ///
    /// # Errors
    /// [`OpenError`]. It is for the operator: it names the place, and whatever failed there.
    #[allow(unused_variables, reason = "without a backend there is nothing that a mode matters to")]
    pub async fn open_with(&self, mode: OpenMode) -> Result<Box<dyn Store>, OpenError> {
        match self {
            #[cfg(feature = "local")]
            Self::Local(path) => {
                let opened = memory_tool_local::LocalStore::builder(path).mode(mode).open().await;
                self.boxed(opened, mode, memory_tool_local::OpenError::is_not_found)
            }
            #[cfg(feature = "sqlite")]
            Self::Sqlite { path, store } => {
                let store = store.parse().map_err(|error| OpenError::unusable(self, error))?;
                let opened = memory_tool_sqlite::SqliteStore::builder(path).store(store).mode(mode).open().await;
                self.boxed(opened, mode, memory_tool_sqlite::OpenError::is_not_found)
            }
            #[cfg(any(feature = "azure", feature = "gcs", feature = "s3"))]
            Self::Bucket { url } => {
                use memory_tool_object_store::{BucketStoreBuilder, UrlError};

                Self::parse(url)?; // it may never have been parsed
                let builder = BucketStoreBuilder::from_url(url).map_err(|error| match error {
                    UrlError::NoFeature { feature, .. } => OpenError::missing_feature(self, feature),
                    error => OpenError::unusable(self, error),
                })?;
                self.boxed(builder.mode(mode).open().await, mode, memory_tool_object_store::OpenError::is_not_found)
            }
            Self::Memory => Ok(Box::new(InMemoryStore::new())),
            #[allow(unreachable_patterns, reason = "nothing is missing where each feature is on")]
            _ => Err(OpenError::missing_feature(self, self.feature())),
        }
    }

    #[cfg(any(feature = "azure", feature = "gcs", feature = "local", feature = "s3", feature = "sqlite"))]
    fn boxed<S: Store, E: Into<BoxError>>(
        &self,
        opened: Result<S, E>,
        mode: OpenMode,
        is_not_found: impl FnOnce(&E) -> bool,
    ) -> Result<Box<dyn Store>, OpenError> {
        match opened {
            Ok(store) => Ok(Box::new(store)),
            // Where it is to be created, it is something else that is missing.
            Err(error) if mode != OpenMode::Create && is_not_found(&error) => {
                Err(OpenError::NotFound { url: self.to_string() })
            }
            Err(error) => Err(OpenError::Store(error.into())),
        }
    }

    /// The feature that opening it needs; empty where that is none.
    fn feature(&self) -> &'static str {
        match self {
            Self::Local(_) => "local",
            Self::Sqlite { .. } => "sqlite",
            Self::Bucket { url } => match scheme_of(url).as_str() {
                "az" => "azure",
                "gs" => "gcs",
                _ => "s3",
            },
            Self::Memory => "",
        }
    }
}

/// What stands before the colon of a URL.
fn scheme_of(url: &str) -> String {
    url.split(':').next().unwrap_or_default().to_ascii_lowercase()
}

/// Why no store was opened. For the operator: it names the place.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// No store is meant by what was given.
    #[error("no store has such a URL")]
    Url(#[from] StoreUrlError),
    /// The backend of such stores was not compiled in.
    #[error("cannot use {url}: this program was built without the feature `{feature}`, which {scheme}: needs")]
    MissingFeature {
        /// The URL.
        url: String,
        /// Its scheme, `file` for a plain path.
        scheme: String,
        /// The feature to add to `memory-tool` or `memory-tool-url`, whichever the program depends on.
        feature: &'static str,
    },
    /// The memory in a database cannot have such a name, or the settings in the environment do not suffice for a bucket.
    #[error("cannot use {url}")]
    Unusable {
        /// The URL.
        url: String,
        /// The cause.
        source: BoxError,
    },
    /// The store does not exist, and the mode does not create it.
    #[error("there is no store at {url}")]
    NotFound {
        /// The URL.
        url: String,
    },
    /// The backend could not open it. Its error says which store.
    #[error(transparent)]
    Store(BoxError),
}

impl OpenError {
    /// Whether the store does not exist, and the mode does not create it.
    pub fn is_not_found(&self) -> bool {
        matches!(self, Self::NotFound { .. })
    }

    fn missing_feature(url: &StoreUrl, feature: &'static str) -> Self {
        let url = url.to_string();
        Self::MissingFeature { scheme: scheme_of(&url), url, feature }
    }

    #[cfg(any(feature = "azure", feature = "gcs", feature = "s3", feature = "sqlite"))]
    fn unusable(url: &StoreUrl, source: impl Into<BoxError>) -> Self {
        Self::Unusable { url: url.to_string(), source: source.into() }
    }
}

#[cfg(test)]
mod tests {
    #[cfg(all(feature = "local", feature = "sqlite"))]
    use memory_tool_core::Batch;
    use memory_tool_core::MemoryPath;

    use super::*;

    /// Keeps a file by one tool and reads it by the next.
    #[cfg(any(feature = "local", feature = "sqlite"))]
    async fn assert_is_kept(url: &str) {
        let path = "/memories/a";
        let create = serde_json::json!({"command": "create", "path": path, "file_text": "kept"});
        open(url).await.unwrap().call(create).await.unwrap();
        let view = serde_json::json!({"command": "view", "path": path});
        let seen = open(url).await.unwrap().call(view).await.unwrap();
        assert!(seen.to_string().ends_with("kept"), "{url}: {seen}");
    }

    #[tokio::test]
    #[cfg(feature = "local")]
    async fn a_directory_is_opened() {
        let directory = tempfile::tempdir().unwrap();
        let (path, by_url) = (directory.path().join("a b"), directory.path().join("c d"));
        assert_is_kept(path.to_str().unwrap()).await;
        assert_is_kept(&StoreUrl::Local(by_url.clone()).to_string()).await;
        for base in [path, by_url] {
            assert_eq!(std::fs::read_to_string(base.join("memories/a")).unwrap(), "kept");
        }
    }

    #[tokio::test]
    #[cfg(feature = "sqlite")]
    async fn a_database_is_opened() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a?b.sqlite");
        for store in ["default", "é/&"] {
            assert_is_kept(&StoreUrl::Sqlite { path: path.clone(), store: store.to_owned() }.to_string()).await;
        }
        assert!(path.is_file());
        let unnamed = StoreUrl::parse(directory.path().join("a")).unwrap().to_string().replace("file:", "sqlite:");
        let named = format!("{unnamed}?store={}", memory_tool_sqlite::StoreName::default());
        assert_eq!(StoreUrl::parse(unnamed), StoreUrl::parse(named), "who names none means the same everywhere");
    }

    #[tokio::test]
    #[cfg(feature = "sqlite")]
    async fn what_no_memory_can_be_called_is_refused_before_a_database_is_made() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a");
        for store in ["", "a\n"] {
            let url = StoreUrl::Sqlite { path: path.clone(), store: store.to_owned() };
            assert!(matches!(url.open().await, Err(OpenError::Unusable { .. })), "{url}");
        }
        assert!(!path.exists());
    }

    #[tokio::test]
    #[cfg(all(feature = "local", feature = "sqlite"))]
    async fn what_does_not_exist_is_created_only_if_the_mode_says_so() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a");
        let urls = [
            StoreUrl::Local(path.clone()),
            StoreUrl::Sqlite { path: path.clone(), store: "default".to_owned() },
            StoreUrl::Sqlite { path: path.clone(), store: "b".to_owned() },
        ];
        for url in &urls {
            for mode in [OpenMode::Existing, OpenMode::ReadOnly] {
                let error = url.open_with(mode).await.unwrap_err();
                assert!(error.is_not_found(), "{error:?}");
                assert_eq!(error.to_string(), format!("there is no store at {url}"));
            }
        }
        assert_eq!(std::fs::read_dir(&directory).unwrap().count(), 0);
        for url in [&urls[0], &StoreUrl::Sqlite { path: directory.path().join("c"), store: "b".to_owned() }] {
            let batch = Batch::new().write("/memories/a".parse().unwrap(), b"kept".to_vec()).unwrap();
            url.open().await.unwrap().apply(batch.clone()).await.unwrap();
            let remove = Batch::new().remove("/memories/a".parse().unwrap()).unwrap();
            let read_only = url.open_with(OpenMode::ReadOnly).await.unwrap();
            read_only.apply(remove.clone()).await.unwrap_err();
            url.open_with(OpenMode::Existing).await.unwrap().apply(remove).await.unwrap();
        }
    }

    #[tokio::test]
    async fn a_memory_of_this_process_exists_in_every_mode() {
        for mode in [OpenMode::Create, OpenMode::Existing, OpenMode::ReadOnly] {
            let store = StoreUrl::Memory.open_with(mode).await.unwrap();
            assert_eq!(store.list(&MemoryPath::root()).await.unwrap(), []);
        }
    }

    #[tokio::test]
    async fn each_opening_of_this_process_is_another_memory() {
        let create = serde_json::json!({"command": "create", "path": "/memories/a", "file_text": ""});
        let tool = open("memory:").await.unwrap();
        tool.call(create.clone()).await.unwrap();
        tool.call(create.clone()).await.unwrap_err();
        open("memory:").await.unwrap().call(create).await.unwrap();
    }

    #[tokio::test]
    async fn what_is_no_url_of_a_store_is_refused() {
        let error = open("foo:bar").await.unwrap_err();
        assert!(matches!(error, OpenError::Url(StoreUrlError::UnknownScheme { .. })), "{error:?}");
    }

    #[tokio::test]
    #[cfg(any(feature = "azure", feature = "gcs", feature = "s3"))]
    async fn what_was_never_parsed_is_parsed() {
        let url = StoreUrl::Bucket { url: "s3://bucket/a/../b".to_owned() };
        let opened = url.open().await;
        assert!(matches!(opened, Err(OpenError::Url(StoreUrlError::Prefix { .. }))), "{opened:?}");
    }

    /// Names a test for each feature that is off, so all of them run where none is on.
    macro_rules! without {
        ($($feature:literal $test:ident $url:literal $scheme:literal;)*) => {
            $(
                #[tokio::test]
                #[cfg(not(feature = $feature))]
                async fn $test() {
                    let error = open($url).await.unwrap_err();
                    let reason = concat!(
                        ": this program was built without the feature `", $feature, "`, which ", $scheme, ": needs"
                    );
                    assert!(error.to_string().ends_with(reason), "{error}");
                    assert!(matches!(error, OpenError::MissingFeature { feature: $feature, .. }), "{error:?}");
                }
            )*
        };
    }

    without! {
        "azure" a_container_needs_its_feature "az://container/prefix" "az";
        "gcs" a_bucket_of_google_needs_its_feature "gs://bucket/prefix" "gs";
        "local" a_directory_needs_its_feature "memory" "file";
        "s3" a_bucket_of_s3_needs_its_feature "S3://bucket/prefix" "s3";
        "sqlite" a_database_needs_its_feature "sqlite:memory.db" "sqlite";
    }
}
