//! [`GcsServer`]: the part of Google Cloud Storage's XML API that `object_store` uses.

mod objects;
mod requests;
mod xml;

use std::sync::{Arc, Mutex};

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use object_store::gcp::GoogleCloudStorageBuilder;
use object_store::{ClientOptions, ObjectStore, RetryConfig};

use crate::background::Background;
use crate::error::Error;
use crate::server::{BUCKET, NOWHERE, Server, choose_cryptography};
use objects::Objects;

const TOKEN: &str = "test-token";

/// An in-process server of Google Cloud Storage.
///
/// 1. A lock makes each request atomic, including its preconditions.
/// 2. Every write of an object creates a unique generation.
/// 3. A request without the token is refused, unless the server was started without authentication.
/// 4. The server supports only the requests of a bucket memory: creations, ranges, copies and paged lists.
#[derive(Debug)]
pub struct GcsServer(Background);

impl GcsServer {
    /// Starts a server with an empty bucket.
    ///
    /// # Errors
    /// If the server cannot listen.
    pub fn start() -> Result<Self, Error> {
        Self::with_objects(Objects::default(), Some(TOKEN))
    }

    /// Starts a server without authentication, like other emulators.
    ///
    /// # Errors
    /// If the server cannot listen.
    pub fn start_without_authentication() -> Result<Self, Error> {
        Self::with_objects(Objects::default(), None)
    }

    fn with_objects(objects: Objects, token: Option<&'static str>) -> Result<Self, Error> {
        let objects = Arc::new(Mutex::new(objects));
        let background = Background::start(move |connection| {
            let objects = Arc::clone(&objects);
            async move {
                let service = service_fn(|request| requests::respond(&objects, token, request));
                // Ignores broken connections.
                let _ = http1::Builder::new().serve_connection(TokioIo::new(connection), service).await;
            }
        })?;
        Ok(Self(background))
    }

    /// Returns a builder of clients of the bucket that send requests to `url`.
    pub fn builder(&self, url: &str) -> GoogleCloudStorageBuilder {
        choose_cryptography();
        GoogleCloudStorageBuilder::new()
            .with_base_url(url)
            .with_client_options(ClientOptions::new().with_allow_http(true))
            .with_bucket_name(BUCKET)
            .with_bearer_token(TOKEN)
    }
}

impl Server for GcsServer {
    fn url(&self) -> &str {
        self.0.url()
    }

    fn bucket_url(&self) -> String {
        format!("gs://{BUCKET}")
    }

    fn client(&self, url: &str, retries: RetryConfig) -> object_store::Result<Arc<dyn ObjectStore>> {
        Ok(Arc::new(self.builder(url).with_retry(retries).build()?))
    }

    fn environment(&self, url: &str) -> Vec<(&'static str, String)> {
        vec![
            ("GOOGLE_BASE_URL", url.to_owned()),
            ("GOOGLE_ALLOW_HTTP", "true".to_owned()),
            ("GOOGLE_BEARER_TOKEN", TOKEN.to_owned()),
            ("GCE_METADATA_HOST", NOWHERE.to_owned()),
            ("GCE_METADATA_IP", NOWHERE.to_owned()),
        ]
    }
}
