//! [`GcsServer`]: the XML API of Google Cloud Storage, as far as `object_store` speaks it.

mod objects;
mod requests;
mod xml;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use object_store::gcp::GoogleCloudStorageBuilder;
use object_store::{ClientOptions, ObjectStore, RetryConfig};

use crate::background::Background;
use crate::error::Error;
use crate::server::{BUCKET, NOWHERE, Server, choose_cryptography};
use objects::Objects;

/// What a client has to show.
const TOKEN: &str = "test-token";

/// Google Cloud Storage by a server in this process, which keeps its objects in memory.
///
/// 1. One lock holds over each request, so that every condition is exact, whoever sends what at once.
/// 2. Every write of an object gives it a generation that none had before.
/// 3. A request without the token is refused.
/// 4. It has the requests of `object_store` and no others: objects with preconditions, ranges, copies, lists by pages and
///    uploads in parts.
#[derive(Debug)]
pub struct GcsServer(Background);

impl GcsServer {
    /// Starts a server with an empty bucket.
    ///
    /// # Errors
    /// Where no address can be had.
    pub fn start() -> Result<Self, Error> {
        Self::with_objects(Objects::default())
    }

    /// Starts a server that refuses to write an object twice within `pause`, by 429 as Google does with about a second.
    ///
    /// # Errors
    /// Where no address can be had.
    pub fn start_with_pause(pause: Duration) -> Result<Self, Error> {
        Self::with_objects(Objects::with_pause(pause))
    }

    fn with_objects(objects: Objects) -> Result<Self, Error> {
        let objects = Arc::new(Mutex::new(objects));
        let background = Background::start(move |connection| {
            let objects = Arc::clone(&objects);
            async move {
                let answer = service_fn(|request| requests::answer(&objects, request));
                // A connection that breaks is the client's affair.
                let _ = http1::Builder::new().serve_connection(TokioIo::new(connection), answer).await;
            }
        })?;
        Ok(Self(background))
    }

    /// What makes a client of the bucket by way of `url`.
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
