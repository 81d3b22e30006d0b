//! Opening a bucket by its URL, with the settings of the environment.

use std::sync::Arc;

use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreScheme};
use url::Url;

use crate::config::BucketStoreBuilder;
#[cfg(any(feature = "s3", feature = "gcs", feature = "azure"))]
use crate::environment;
use crate::machine::MachineCredentials;
use crate::url_error::UrlError;

impl BucketStoreBuilder {
    /// Creates options for the store at `s3://bucket/prefix`, `gs://bucket/prefix` or `az://container/prefix`. These
    /// need the features `s3`, `gcs` and `azure`. Credentials, region and endpoint come from the environment variables
    /// of the cloud's own tools (`AWS_*`, `GOOGLE_*`, `AZURE_*`), including an Azure connection string. AWS profiles
    /// are not read. Without credentials in the environment, [`open`](Self::open) queries the metadata service of the
    /// machine for up to two seconds.
    ///
    /// # Errors
    /// [`UrlError`] if the URL is invalid, or the settings do not suffice for a client.
    pub fn from_url(url: &str) -> Result<Self, UrlError> {
        let url = Url::parse(url).map_err(|error| UrlError::NotAUrl(error.into()))?;
        let (scheme, path) = ObjectStoreScheme::parse(&url).map_err(|_| UrlError::NotABucket)?;
        let prefix = Path::parse(path).map_err(UrlError::Prefix)?;
        let (client, machine_credentials) = client(scheme, &url)?;
        Ok(Self::new(client, prefix).with_machine_credentials(machine_credentials))
    }
}

/// A client of a bucket, and its credentials if they come from the machine.
type Client = (Arc<dyn ObjectStore>, Option<MachineCredentials>);

fn client(scheme: ObjectStoreScheme, url: &Url) -> Result<Client, UrlError> {
    match scheme {
        ObjectStoreScheme::AmazonS3 => s3(url),
        ObjectStoreScheme::GoogleCloudStorage => gcs(url),
        ObjectStoreScheme::MicrosoftAzure => azure(url),
        _ => Err(UrlError::NotABucket),
    }
}

/// Refuses credentials in the address of a service: they are not used, and errors of requests would contain them.
#[cfg(any(feature = "s3", feature = "gcs", feature = "azure"))]
fn refuse_credentials(address: Option<String>) -> Result<(), UrlError> {
    let has_credentials = |url: &Url| !url.username().is_empty() || url.password().is_some() || url.query().is_some();
    match address.and_then(|address| Url::parse(&address).ok()) {
        Some(url) if has_credentials(&url) => Err(UrlError::EndpointCredentials),
        _ => Ok(()),
    }
}

/// Names the function that makes the client of a cloud, with and without its feature.
macro_rules! client_of {
    ($name:ident, $feature:literal, $cloud:literal, $builder:path, $settings:path, $named_by:expr, $advice:literal) => {
        #[cfg(feature = $feature)]
        fn $name(url: &Url) -> Result<Client, UrlError> {
            choose_cryptography();
            let mut builder = <$builder>::from_env();
            let unusable = |source| UrlError::Settings { advice: $advice, source };
            for (name, value) in $settings(&|name| std::env::var(name).ok())? {
                builder = builder.with_config(name.parse().map_err(unusable)?, value);
            }
            let is_set = |name: &&str| {
                name.parse().is_ok_and(|key| builder.get_config_value(&key).is_some_and(|value| value != "false"))
            };
            for name in ["endpoint", "base_url"] {
                refuse_credentials(name.parse().ok().and_then(|key| builder.get_config_value(&key)))?;
            }
            let named_by: &[&str] = &$named_by;
            let are_named = named_by.iter().any(is_set) || environment::has_file_of($feature);
            let client = builder.with_url(url.as_str()).with_retry(no_retries()).build();
            let client = Arc::new(client.map_err(unusable)?);
            let asked = Arc::clone(&client);
            let ask = move || {
                let credentials = Arc::clone(asked.credentials());
                async move { credentials.get_credential().await.map(drop) }
            };
            Ok((client, (!are_named).then(|| MachineCredentials::new(ask, $cloud, $advice))))
        }

        #[cfg(not(feature = $feature))]
        fn $name(url: &Url) -> Result<Client, UrlError> {
            Err(UrlError::NoFeature { scheme: url.scheme().to_owned(), feature: $feature })
        }
    };
}

client_of!(
    s3,
    "s3",
    "AWS",
    object_store::aws::AmazonS3Builder,
    environment::aws,
    [
        "access_key_id",
        "web_identity_token_file",
        "container_credentials_relative_uri",
        "container_credentials_full_uri",
        "skip_signature",
    ],
    "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, for example to what \
     `aws configure export-credentials --format env` prints"
);
client_of!(
    gcs,
    "gcs",
    "Google Cloud",
    object_store::gcp::GoogleCloudStorageBuilder,
    environment::google,
    ["service_account", "service_account_key", "application_credentials", "bearer_token", "skip_signature"],
    "set GOOGLE_APPLICATION_CREDENTIALS to a file with a key, or run `gcloud auth application-default login`"
);
client_of!(
    azure,
    "azure",
    "Azure",
    object_store::azure::MicrosoftAzureBuilder,
    environment::azure,
    [
        "access_key",
        "sas_key",
        "token",
        "client_secret",
        "federated_token_file",
        "use_azure_cli",
        "msi_endpoint",
        "use_emulator",
        "skip_signature",
        "fabric_session_token",
    ],
    "set AZURE_STORAGE_CONNECTION_STRING, or AZURE_STORAGE_ACCOUNT and AZURE_STORAGE_KEY"
);

/// The store repeats requests. It knows which ones are safe to repeat, and its deadline.
#[cfg(any(feature = "s3", feature = "gcs", feature = "azure"))]
fn no_retries() -> object_store::RetryConfig {
    object_store::RetryConfig { max_retries: 0, ..object_store::RetryConfig::default() }
}

/// TLS by `ring`, unless the program has chosen another.
#[cfg(any(feature = "s3", feature = "gcs", feature = "azure"))]
fn choose_cryptography() {
    let _ = rustls::crypto::ring::default_provider().install_default(); // fails if the program has one
}
