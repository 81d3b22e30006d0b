//! [`AzureServer`]: Azure Blob Storage with Azurite.

use std::sync::Arc;

use hyper::{HeaderMap, Method, Request};
use object_store::azure::{AzureAccessKey, AzureAuthorizer, AzureCredential, MicrosoftAzureBuilder};
use object_store::client::HttpRequestBody;
use object_store::{ObjectStore, RetryConfig};

use crate::error::Error;
use crate::install;
use crate::port::Port;
use crate::process::Process;
use crate::request::status;
use crate::server::{BUCKET, Server, choose_cryptography};

/// The account and key from Azurite's documentation.
const ACCOUNT: &str = "devstoreaccount1";
const KEY: &str = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==";

/// An Azurite server. It verifies signatures, keeps objects in memory, and replaces backslashes in keys by slashes.
///
/// Azurite ignores the offset of a listing. In a process with the variables of [`Server::environment`], `object_store`
/// filters the result. Clients of [`AzureServer::builder`] get the whole listing.
#[derive(Debug)]
pub struct AzureServer {
    url: String,
    _process: Process,
    _port: Port,
}

impl AzureServer {
    /// Installs the server if necessary and starts it with an empty container. Blocks until it is ready.
    ///
    /// # Errors
    /// If the server cannot be installed or started.
    pub fn start() -> Result<Self, Error> {
        let program = install::azurite()?;
        let port = Port::reserve()?;
        let number = port.number();
        let url = format!("http://127.0.0.1:{number}");
        let mut process = Process::start("azurite", number, &program, |command| {
            command.args(["--blobHost", "127.0.0.1", "--blobPort", &number.to_string(), "--silent"]);
            command.args(["--inMemoryPersistence", "--skipApiVersionCheck", "--disableTelemetry"]);
        })?;
        let target = format!("/{ACCOUNT}/{BUCKET}?restype=container");
        let signature = sign("PUT", &format!("{url}{target}"))?;
        process.wait_until(|| status("PUT", number, &target, &signature).is_ok_and(|status| status == 201))?;
        Ok(Self { url, _process: process, _port: port })
    }

    /// Returns a builder of clients of the container that send requests to `url`.
    pub fn builder(&self, url: &str) -> MicrosoftAzureBuilder {
        choose_cryptography();
        MicrosoftAzureBuilder::new()
            .with_endpoint(format!("{url}/{ACCOUNT}"))
            .with_allow_http(true)
            .with_account(ACCOUNT)
            .with_access_key(KEY)
            .with_container_name(BUCKET)
    }
}

impl Server for AzureServer {
    fn url(&self) -> &str {
        &self.url
    }

    fn bucket_url(&self) -> String {
        format!("az://{BUCKET}")
    }

    fn client(&self, url: &str, retries: RetryConfig) -> object_store::Result<Arc<dyn ObjectStore>> {
        Ok(Arc::new(self.builder(url).with_retry(retries).build()?))
    }

    fn environment(&self, url: &str) -> Vec<(&'static str, String)> {
        vec![
            ("AZURE_STORAGE_USE_EMULATOR", "true".to_owned()),
            ("AZURITE_BLOB_STORAGE_URL", url.to_owned()),
            ("AZURE_STORAGE_ACCOUNT_NAME", ACCOUNT.to_owned()),
            ("AZURE_STORAGE_ACCOUNT_KEY", KEY.to_owned()),
        ]
    }
}

/// Returns the headers of a signed request.
fn sign(method: &str, url: &str) -> Result<HeaderMap, Error> {
    let mut request = Request::new(HttpRequestBody::empty());
    *request.method_mut() = Method::from_bytes(method.as_bytes()).unwrap_or_default();
    *request.uri_mut() = url.parse().map_err(|_| Error::Address(url.to_owned()))?;
    let credential = AzureCredential::AccessKey(AzureAccessKey::try_new(KEY).map_err(object_store::Error::from)?);
    AzureAuthorizer::new(&credential, ACCOUNT).try_authorize(&mut request)?;
    Ok(request.headers().clone())
}
