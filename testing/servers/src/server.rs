//! [`Server`]: what all servers have, and what clients need to know of them.

use std::sync::Arc;

use object_store::{ObjectStore, RetryConfig};

/// The bucket, or container, that every server has from its start, and which is empty then.
pub const BUCKET: &str = "test";

/// A server of an object store at a port of the loopback address. It ends when dropped.
pub trait Server: Send + Sync {
    /// Where it is: `http://127.0.0.1:port`.
    fn url(&self) -> &str;

    /// The URL of the bucket in the form of the cloud's own tools, such as `s3://test`.
    fn bucket_url(&self) -> String;

    /// A client of the bucket, by way of `url`: the server's own or that of a [`Proxy`](crate::Proxy) before it.
    ///
    /// # Errors
    /// Where `url` is none.
    fn client(&self, url: &str, retries: RetryConfig) -> object_store::Result<Arc<dyn ObjectStore>>;

    /// The variables by which a program finds the bucket by way of `url`, if it reads them as `from_env` of
    /// `object_store` does.
    ///
    /// With them no client asks a cloud's metadata address: it has its credentials, and the address is one of this machine
    /// where nothing listens.
    fn environment(&self, url: &str) -> Vec<(&'static str, String)>;
}

/// Gives `reqwest` the cryptography that it refuses to be without, though the servers speak plain HTTP.
pub(crate) fn choose_cryptography() {
    // It fails where the process has one already, which is as good.
    let _ = rustls::crypto::ring::default_provider().install_default();
}

/// An address of this machine where nothing listens.
pub(crate) const NOWHERE: &str = "127.0.0.1:1";
