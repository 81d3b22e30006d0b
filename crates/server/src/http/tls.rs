//! TLS with the certificate of [`TlsFiles`].

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::PathBuf;
use std::sync::Arc;

use memory_tool::refuse_others;
use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use crate::files::{Followed, host_path};

/// The files of a certificate. The server reads them again when they change.
#[derive(Clone, Debug, serde::Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct TlsFiles {
    /// The chain of certificates in PEM, the server's first.
    #[serde(deserialize_with = "host_path")]
    pub certificate: PathBuf,
    /// The private key in PEM.
    #[serde(deserialize_with = "host_path")]
    pub key: PathBuf,
}

impl TlsFiles {
    /// The files at these paths.
    pub fn new(certificate: impl Into<PathBuf>, key: impl Into<PathBuf>) -> Self {
        Self { certificate: certificate.into(), key: key.into() }
    }

    /// Reads the files.
    ///
    /// # Errors
    /// If they cannot be read, are not valid, or other users can access the key.
    pub fn check(&self) -> io::Result<()> {
        load(self).map(drop)
    }
}

/// The configuration of TLS, which follows its files.
pub(crate) type Certificate = Followed<ServerConfig>;

/// The name of HTTP/2 in the handshake.
pub(crate) const HTTP_2: &[u8] = b"h2";

pub(crate) fn load(files: &TlsFiles) -> io::Result<Certificate> {
    Followed::load(vec![files.certificate.clone(), files.key.clone()], read)
}

fn read(files: &[PathBuf]) -> io::Result<ServerConfig> {
    let [certificate, key] = files else { return Err(io::ErrorKind::InvalidInput.into()) };
    let named = |file: &PathBuf, error: &dyn std::fmt::Display| {
        io::Error::new(io::ErrorKind::InvalidData, format!("{}: {error}", file.display()))
    };
    let chain = fs::read(certificate).map_err(|error| named(certificate, &error))?;
    let chain: Vec<_> =
        CertificateDer::pem_slice_iter(&chain).collect::<Result<_, _>>().map_err(|error| named(certificate, &error))?;
    let private = read_key(key).map_err(|error| named(key, &error))?;
    let private = PrivateKeyDer::from_pem_slice(&private).map_err(|error| named(key, &error))?;
    let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .and_then(|builder| builder.with_no_client_auth().with_single_cert(chain, private))
        .map_err(|error| named(certificate, &error))?;
    config.alpn_protocols = vec![HTTP_2.to_vec(), b"http/1.1".to_vec()];
    Ok(config)
}

fn read_key(path: &PathBuf) -> io::Result<Vec<u8>> {
    let mut file = File::open(path)?;
    refuse_others(&file.metadata()?)?;
    let mut key = Vec::new();
    file.read_to_end(&mut key)?;
    Ok(key)
}
