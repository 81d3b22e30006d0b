//! [`UrlError`]: why a URL does not lead to a bucket.

use memory_tool_core::BoxError;

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
    #[error("no client of the bucket can be made of the settings in the environment: {advice}")]
    Settings {
        /// The settings to make, as an imperative clause.
        advice: &'static str,
        /// What is missing or contradictory.
        #[source]
        source: object_store::Error,
    },
}
