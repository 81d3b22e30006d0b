//! Buckets by their URLs: which client of which cloud, with the settings of the environment.

use std::sync::Arc;

use memory_tool_core::BoxError;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreScheme};
use url::Url;

use crate::config::BucketStoreBuilder;
#[cfg(any(feature = "s3", feature = "gcs", feature = "azure"))]
use crate::environment;

/// Why no bucket can be meant by a URL, or no client of it can be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum UrlError {
    /// It is no URL.
    #[error("it is not a URL")]
    NotAUrl(#[source] BoxError),
    /// It names no bucket of S3, Google Cloud Storage or Azure.
    #[error("it must be s3://bucket/prefix, gs://bucket/prefix or az://container/prefix")]
    NotABucket,
    /// The client of that cloud was not compiled in.
    #[error("this program was built without the feature `{feature}`, which {scheme}: needs")]
    NoFeature {
        /// The scheme of the URL.
        scheme: String,
        /// The feature of this crate.
        feature: &'static str,
    },
    /// `AWS_PROFILE` names a profile, and profiles are not read.
    #[error(
        "AWS_PROFILE names the profile {profile}, and profiles are not read: set AWS_ACCESS_KEY_ID and the like, as \
         `aws configure export-credentials --profile {profile} --format env` shows them"
    )]
    Profile {
        /// The profile.
        profile: String,
    },
    /// `AZURE_STORAGE_CONNECTION_STRING` is none. What it holds is not repeated.
    #[error("AZURE_STORAGE_CONNECTION_STRING is not of the form Name=value;Name=value")]
    ConnectionString,
    /// The prefix cannot be one.
    #[error("the prefix cannot be a part of a key")]
    Prefix(#[source] object_store::path::Error),
    /// The settings do not suffice for a client, or contradict each other.
    #[error("no client of the bucket can be made of the settings in the environment")]
    Settings(#[source] object_store::Error),
}

impl BucketStoreBuilder {
    /// Options of the store at `s3://bucket/prefix`, `gs://bucket/prefix` or `az://container/prefix`, by the features `s3`, `gcs`
    /// and `azure`. Credentials, region, endpoint and the like come from the environment variables of the cloud's own tools,
    /// `AWS_*`, `GOOGLE_*` and `AZURE_*`, a connection string of Azure included. Profiles of AWS are not read.
    ///
    /// # Errors
    /// [`UrlError`].
    pub fn from_url(url: &str) -> Result<Self, UrlError> {
        let url = Url::parse(url).map_err(|error| UrlError::NotAUrl(error.into()))?;
        let (scheme, path) = ObjectStoreScheme::parse(&url).map_err(|_| UrlError::NotABucket)?;
        let prefix = Path::parse(path).map_err(UrlError::Prefix)?;
        Ok(Self::new(client(scheme, &url)?, prefix))
    }
}

fn client(scheme: ObjectStoreScheme, url: &Url) -> Result<Arc<dyn ObjectStore>, UrlError> {
    match scheme {
        ObjectStoreScheme::AmazonS3 => s3(url),
        ObjectStoreScheme::GoogleCloudStorage => gcs(url),
        ObjectStoreScheme::MicrosoftAzure => azure(url),
        _ => Err(UrlError::NotABucket),
    }
}

/// Names the function that makes the client of a cloud, with and without its feature.
macro_rules! client_of {
    ($name:ident, $feature:literal, $builder:path, $settings:path) => {
        #[cfg(feature = $feature)]
        fn $name(url: &Url) -> Result<Arc<dyn ObjectStore>, UrlError> {
            choose_cryptography();
            let mut builder = <$builder>::from_env();
            for (name, value) in $settings(&|name| std::env::var(name).ok())? {
                builder = builder.with_config(name.parse().map_err(UrlError::Settings)?, value);
            }
            let client = builder.with_url(url.as_str()).with_retry(no_retries()).build();
            Ok(Arc::new(client.map_err(UrlError::Settings)?))
        }

        #[cfg(not(feature = $feature))]
        fn $name(url: &Url) -> Result<Arc<dyn ObjectStore>, UrlError> {
            Err(UrlError::NoFeature { scheme: url.scheme().to_owned(), feature: $feature })
        }
    };
}

client_of!(s3, "s3", object_store::aws::AmazonS3Builder, environment::aws);
client_of!(gcs, "gcs", object_store::gcp::GoogleCloudStorageBuilder, environment::google);
client_of!(azure, "azure", object_store::azure::MicrosoftAzureBuilder, environment::azure);

/// The store tries again by itself: it knows which requests may be repeated, and until when.
#[cfg(any(feature = "s3", feature = "gcs", feature = "azure"))]
fn no_retries() -> object_store::RetryConfig {
    object_store::RetryConfig { max_retries: 0, ..object_store::RetryConfig::default() }
}

/// TLS by `ring`, unless the program has chosen another.
#[cfg(any(feature = "s3", feature = "gcs", feature = "azure"))]
fn choose_cryptography() {
    let _ = rustls::crypto::ring::default_provider().install_default(); // fails where there is one already
}
