//! [`Keys`]: the public keys of an identity provider.

use std::io;
use std::time::Duration;

use jsonwebtoken::jwk::Jwk;
use memory_tool::store::Problem;
use reqwest::{Client, StatusCode, redirect};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, sleep, timeout};

/// The longest response of a provider that is read, in bytes.
const MAX_RESPONSE_BYTES: usize = 1024 * 1024;
/// The most keys of a provider.
const MAX_KEYS: usize = 100;
/// The time for a response.
const RESPONSE_TIME: Duration = Duration::from_secs(10);
/// The age of keys that are read again, since a provider withdraws some.
const MAX_AGE: Duration = Duration::from_secs(60 * 60);
/// The shortest time between two reads. Anybody can send tokens with ids of unknown keys.
const MIN_INTERVAL: Duration = Duration::from_secs(5);

/// The same before the first keys. The provider may start together with this server.
const FIRST_INTERVAL: Duration = Duration::from_secs(1);

/// Whether an address has TLS or is of this machine.
pub(super) fn is_trusted(address: &str) -> bool {
    let Ok(url) = reqwest::Url::parse(address) else { return false };
    let is_loopback = matches!(url.host_str(), Some("127.0.0.1" | "[::1]" | "localhost"));
    url.has_host() && (url.scheme() == "https" || url.scheme() == "http" && is_loopback)
}

/// The public keys of an identity provider, which [`follow`](Self::follow) reads.
pub(super) struct Keys {
    issuer: String,
    client: Client,
    known: watch::Sender<Known>,
    wanted: Notify,
}

#[derive(Default)]
struct Known {
    /// Unless the provider never responded.
    keys: Option<Vec<Jwk>>,
    /// The end of the last read.
    read: Option<Instant>,
}

#[derive(Deserialize)]
struct Metadata {
    issuer: String,
    jwks_uri: String,
}

#[derive(Deserialize)]
struct KeySet {
    /// A provider may have keys of kinds that are unknown here.
    keys: Vec<Value>,
}

/// The provider gave no keys.
#[derive(Debug, thiserror::Error)]
pub(super) enum KeysError {
    #[error("{address} does not respond")]
    Request { address: String, source: reqwest::Error },
    #[error("{address} responds with status {status}")]
    Status { address: String, status: StatusCode },
    #[error("the response of {address} is longer than {MAX_RESPONSE_BYTES} bytes")]
    TooLong { address: String },
    #[error("the response of {address} is invalid")]
    Invalid { address: String, source: serde_json::Error },
    #[error("the metadata is of the issuer {0:?}")]
    OtherIssuer(String),
    #[error("the address of the keys is {0:?}, without TLS")]
    Insecure(String),
}

impl Keys {
    pub(super) fn new(issuer: &str) -> io::Result<Self> {
        let _ = rustls::crypto::ring::default_provider().install_default(); // fails if the program has one
        let client = Client::builder().redirect(redirect::Policy::none()).timeout(RESPONSE_TIME).build();
        let client = client.map_err(io::Error::other)?;
        Ok(Self { issuer: issuer.to_owned(), client, known: watch::Sender::default(), wanted: Notify::new() })
    }

    /// The keys with this id, or all keys without one. `None` if the provider never responded.
    pub(super) async fn find(&self, id: Option<&str>) -> Option<Vec<Jwk>> {
        let mut known = self.known.subscribe();
        let (found, is_recent) = {
            let known = known.borrow_and_update();
            (known.find(id), known.read.is_some_and(|read| read.elapsed() < MIN_INTERVAL))
        };
        if found.as_ref().is_some_and(|found| is_recent || !found.is_empty()) {
            return found;
        }
        // The provider may have a new key.
        self.wanted.notify_one();
        let _ = timeout(RESPONSE_TIME, known.changed()).await;
        known.borrow().find(id)
    }

    /// Reads the keys now, later whenever one is unknown, and each hour.
    pub(super) async fn follow(&self) {
        loop {
            let read = self.read().await;
            self.known.send_modify(|known| {
                known.read = Some(Instant::now());
                match read {
                    Ok(keys) => known.keys = Some(keys),
                    Err(error) => {
                        let error = Problem::of(&error).message;
                        tracing::error!(error, "cannot read the keys of the identity provider");
                    }
                }
            });
            let has_keys = self.known.borrow().keys.is_some();
            sleep(if has_keys { MIN_INTERVAL } else { FIRST_INTERVAL }).await;
            let _ = timeout(MAX_AGE, self.wanted.notified()).await;
        }
    }

    /// The keys that the metadata of the provider leads to.
    pub(super) async fn read(&self) -> Result<Vec<Jwk>, KeysError> {
        let [connect, oauth] = self.addresses();
        let metadata = match self.get::<Metadata>(&connect).await {
            // A provider may have a page for people at each path.
            Err(KeysError::Status { .. } | KeysError::Invalid { .. }) => self.get(&oauth).await?,
            found => found?,
        };
        // Another issuer could use this one's name (RFC 8414, section 3.3).
        if metadata.issuer != self.issuer {
            return Err(KeysError::OtherIssuer(metadata.issuer));
        }
        if !is_trusted(&metadata.jwks_uri) {
            return Err(KeysError::Insecure(metadata.jwks_uri));
        }
        let KeySet { keys } = self.get(&metadata.jwks_uri).await?;
        let keys = keys.into_iter().filter_map(|key| serde_json::from_value(key).ok());
        Ok(keys.take(MAX_KEYS).collect())
    }

    /// The addresses of metadata by OpenID Connect Discovery, and by RFC 8414, which has the path at the end.
    fn addresses(&self) -> [String; 2] {
        let issuer = self.issuer.trim_end_matches('/');
        let start = issuer.find("://").map_or(0, |scheme| scheme + 3);
        let path = issuer[start..].find('/').map_or(issuer.len(), |path| start + path);
        let (host, path) = issuer.split_at(path);
        [
            format!("{issuer}/.well-known/openid-configuration"),
            format!("{host}/.well-known/oauth-authorization-server{path}"),
        ]
    }

    async fn get<T: DeserializeOwned>(&self, address: &str) -> Result<T, KeysError> {
        let address = address.to_owned();
        let failed = |source| KeysError::Request { address: address.clone(), source };
        let mut response = self.client.get(&address).send().await.map_err(failed)?;
        if response.status() != StatusCode::OK {
            return Err(KeysError::Status { status: response.status(), address });
        }
        let mut body = Vec::new();
        while let Some(part) = response.chunk().await.map_err(failed)? {
            body.extend_from_slice(&part);
            if body.len() > MAX_RESPONSE_BYTES {
                return Err(KeysError::TooLong { address });
            }
        }
        serde_json::from_slice(&body).map_err(|source| KeysError::Invalid { address, source })
    }
}

impl Known {
    fn find(&self, id: Option<&str>) -> Option<Vec<Jwk>> {
        let has_id = |key: &&Jwk| id.is_none_or(|id| key.common.key_id.as_deref() == Some(id));
        Some(self.keys.as_ref()?.iter().filter(has_id).cloned().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metadata_is_at_the_addresses_of_both_standards() {
        for (issuer, connect, oauth) in [
            (
                "https://login.example",
                "https://login.example/.well-known/openid-configuration",
                "https://login.example/.well-known/oauth-authorization-server",
            ),
            (
                "https://login.example/realms/team/",
                "https://login.example/realms/team/.well-known/openid-configuration",
                "https://login.example/.well-known/oauth-authorization-server/realms/team",
            ),
        ] {
            assert_eq!(Keys::new(issuer).unwrap().addresses(), [connect, oauth]);
        }
    }

    #[test]
    fn only_this_machine_needs_no_tls() {
        for (address, expected) in [
            ("https://login.example/x", true),
            ("http://127.0.0.1:80", true),
            ("http://[::1]:80", true),
            ("http://login.example", false),
            ("http://127.0.0.1.login.example", false),
            ("file:///etc/passwd", false),
            ("login.example", false),
        ] {
            assert_eq!(is_trusted(address), expected, "{address}");
        }
    }
}
