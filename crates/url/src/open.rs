//! [`open`]: from a URL to a tool, by way of the backend that its feature compiled in.

use std::ffi::OsStr;
use std::sync::Arc;

use memory_tool_core::{BoxError, Engine, InMemoryStore, MemoryTool, Store};

use crate::store_url::{StoreUrl, StoreUrlError};

/// Opens the memory that a plain path or a URL names, as a tool with the contract's default options.
///
/// A directory or a database is made where it is missing; a bucket must exist. For other options, or for something between the
/// store and the tool, put an [`Engine`] over what [`StoreUrl::open`] gives.
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
    /// Opens the store. A directory or a database is made where it is missing; a bucket must exist, and is tested.
    ///
    /// # Errors
    /// [`OpenError`]. It is for the operator: it names the place, and whatever failed there.
    pub async fn open(&self) -> Result<Box<dyn Store>, OpenError> {
        match self {
            #[cfg(feature = "local")]
            Self::Local(path) => boxed(memory_tool_local::LocalStore::open(path).await),
            #[cfg(feature = "sqlite")]
            Self::Sqlite { path, store } => {
                let store = store.parse().map_err(|error| OpenError::unusable(self, error))?;
                boxed(memory_tool_sqlite::SqliteStore::builder(path).store(store).open().await)
            }
            #[cfg(any(feature = "azure", feature = "gcs", feature = "s3"))]
            Self::Bucket { url } => {
                use memory_tool_object_store::{BucketStoreBuilder, UrlError};

                Self::parse(url)?; // it may never have been parsed
                let builder = BucketStoreBuilder::from_url(url).map_err(|error| match error {
                    UrlError::NoFeature { feature, .. } => OpenError::missing_feature(self, feature),
                    error => OpenError::unusable(self, error),
                })?;
                boxed(builder.open().await)
            }
            Self::Memory => Ok(Box::new(InMemoryStore::new())),
            #[allow(unreachable_patterns, reason = "nothing is missing where each feature is on")]
            _ => Err(OpenError::missing_feature(self, self.feature())),
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

#[cfg(any(feature = "azure", feature = "gcs", feature = "local", feature = "s3", feature = "sqlite"))]
fn boxed<S: Store, E: Into<BoxError>>(opened: Result<S, E>) -> Result<Box<dyn Store>, OpenError> {
    opened.map(|store| Box::new(store) as _).map_err(|error| OpenError::Store(error.into()))
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
    /// The backend could not open it. Its error says which store.
    #[error(transparent)]
    Store(BoxError),
}

impl OpenError {
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
