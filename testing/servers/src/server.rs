//! [`Server`]: the common interface of the servers.

use std::sync::Arc;

use object_store::{ObjectStore, RetryConfig};

/// The bucket or container of every server. It is initially empty.
pub const BUCKET: &str = "test";

/// An object-store server on a port of the loopback address. It is stopped on drop.
pub trait Server: Send + Sync {
    /// The URL of the server: `http://127.0.0.1:port`.
    fn url(&self) -> &str;

    /// The URL of the bucket, such as `s3://test`.
    fn bucket_url(&self) -> String;

    /// Returns a client of the bucket that sends requests to `url`: the server or a [`Proxy`](crate::Proxy).
    ///
    /// # Errors
    /// If `url` is invalid.
    fn client(&self, url: &str, retries: RetryConfig) -> object_store::Result<Arc<dyn ObjectStore>>;

    /// The environment variables of a program that accesses the bucket through `url`, in the form of `object_store`'s
    /// `from_env`.
    ///
    /// They contain credentials and an unused address in place of a cloud's metadata service, so clients never contact
    /// the real service.
    fn environment(&self, url: &str) -> Vec<(&'static str, String)>;
}

/// Installs a cryptography provider, which `reqwest` requires even for plain HTTP.
pub(crate) fn choose_cryptography() {
    // Fails if the process already has a provider.
    let _ = rustls::crypto::ring::default_provider().install_default();
}

/// A local address without a server.
pub(crate) const NOWHERE: &str = "127.0.0.1:1";
