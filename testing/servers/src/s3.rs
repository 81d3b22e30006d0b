//! [`S3Server`]: S3 with ministack or SeaweedFS.

use std::sync::Arc;

use hyper::HeaderMap;
use object_store::aws::AmazonS3Builder;
use object_store::{ObjectStore, RetryConfig};

use crate::error::Error;
use crate::install;
use crate::port::Port;
use crate::process::Process;
use crate::request::status;
use crate::server::{BUCKET, NOWHERE, Server, choose_cryptography};

/// The credentials of the servers.
pub(crate) const KEY_ID: &str = "test-key";
pub(crate) const SECRET: &str = "test-secret-0123456789";
pub(crate) const REGION: &str = "us-east-1";

/// An S3 server.
#[derive(Debug)]
pub struct S3Server {
    url: String,
    _process: Process,
    _ports: Vec<Port>,
}

impl S3Server {
    /// Installs ministack if necessary and starts it with an empty bucket. Blocks until it is ready.
    ///
    /// It has exact preconditions, does not verify signatures, and keeps objects in memory.
    ///
    /// # Errors
    /// If the server cannot be installed or started.
    pub fn start() -> Result<Self, Error> {
        let program = install::ministack()?;
        let port = Port::reserve()?;
        let number = port.number();
        let mut process = Process::start("ministack", number, &program, |command| {
            command.args(["ministack.app:app", "--host", "127.0.0.1", "--port", &number.to_string()]);
            command.args(["--timeout-keep-alive", "75", "--no-server-header", "--no-date-header", "--no-access-log"]);
            command.env("GATEWAY_PORT", number.to_string()).env("SERVICES", "s3");
            command.env("STATE_DIR", "state").env("S3_DATA_DIR", "data");
        })?;
        let make_bucket = || status("PUT", number, &format!("/{BUCKET}"), &HeaderMap::new());
        process.wait_until(|| make_bucket().is_ok_and(|status| status == 200))?;
        Ok(Self::new(process, vec![port]))
    }

    /// Wraps a server that listens on the first port.
    pub(crate) fn new(process: Process, ports: Vec<Port>) -> Self {
        Self { url: format!("http://127.0.0.1:{}", ports[0].number()), _process: process, _ports: ports }
    }

    /// Returns a builder of clients of the bucket that send requests to `url`.
    pub fn builder(&self, url: &str) -> AmazonS3Builder {
        choose_cryptography();
        AmazonS3Builder::new()
            .with_endpoint(url)
            .with_allow_http(true)
            .with_region(REGION)
            .with_bucket_name(BUCKET)
            .with_access_key_id(KEY_ID)
            .with_secret_access_key(SECRET)
    }
}

impl Server for S3Server {
    fn url(&self) -> &str {
        &self.url
    }

    fn bucket_url(&self) -> String {
        format!("s3://{BUCKET}")
    }

    fn client(&self, url: &str, retries: RetryConfig) -> object_store::Result<Arc<dyn ObjectStore>> {
        Ok(Arc::new(self.builder(url).with_retry(retries).build()?))
    }

    fn environment(&self, url: &str) -> Vec<(&'static str, String)> {
        vec![
            ("AWS_ENDPOINT_URL", url.to_owned()),
            ("AWS_ALLOW_HTTP", "true".to_owned()),
            ("AWS_REGION", REGION.to_owned()),
            ("AWS_ACCESS_KEY_ID", KEY_ID.to_owned()),
            ("AWS_SECRET_ACCESS_KEY", SECRET.to_owned()),
            ("AWS_EC2_METADATA_DISABLED", "true".to_owned()),
            ("AWS_METADATA_ENDPOINT", format!("http://{NOWHERE}")),
        ]
    }
}
