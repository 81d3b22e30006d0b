//! [`UrlError`]: the reason why a URL cannot be opened as a bucket.

use memory_tool_core::BoxError;

/// The reason why a URL is not valid for a bucket, or why no client can be created.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum UrlError {
    /// The text is not a URL.
    #[error("it is not a URL")]
    NotAUrl(#[source] BoxError),
    /// The URL does not name a bucket of S3, Google Cloud Storage or Azure.
    #[error("it must be s3://bucket/prefix, gs://bucket/prefix or az://container/prefix")]
    NotABucket,
    /// The feature for this cloud is not enabled.
    #[error("this program was built without the feature `{feature}`, which {scheme}: needs")]
    NoFeature {
        /// The scheme of the URL.
        scheme: String,
        /// The feature of this crate.
        feature: &'static str,
    },
    /// `AWS_PROFILE` is set, but profiles are not read.
    #[error(
        "AWS_PROFILE names the profile {profile}, and profiles are not read: set AWS_ACCESS_KEY_ID and the like, as \
         `aws configure export-credentials --profile {profile} --format env` shows them"
    )]
    Profile {
        /// The profile.
        profile: String,
    },
    /// `AZURE_STORAGE_CONNECTION_STRING` is not a connection string. The error does not contain its value.
    #[error("AZURE_STORAGE_CONNECTION_STRING is not of the form Name=value;Name=value")]
    ConnectionString,
    /// The address of the service contains credentials, which are not used. The error does not contain them.
    #[error(
        "the address of the service in the environment must not contain a user, a password or a query; set the \
         credentials in their own variables"
    )]
    EndpointCredentials,
    /// The prefix is not valid in a key.
    #[error("the prefix cannot be a part of a key")]
    Prefix(#[source] object_store::path::Error),
    /// The settings are incomplete or contradictory.
    #[error("no client of the bucket can be made of the settings in the environment: {advice}")]
    Settings {
        /// The variables to set, as an imperative clause.
        advice: &'static str,
        /// The missing or contradictory setting.
        #[source]
        source: object_store::Error,
    },
}
