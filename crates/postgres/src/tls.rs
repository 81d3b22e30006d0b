//! TLS of the connections: [`SslMode`], and a connector for `tokio-postgres`.

use std::io;
use std::path::Path;
use std::pin::Pin;
use std::str::FromStr;
use std::sync::Arc;
use std::task::{Context, Poll};

use memory_tool_core::BoxError;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, Error as TlsError, RootCertStore, SignatureScheme,
};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_postgres::Config;
use tokio_postgres::config::{self, Host};
use tokio_postgres::tls::{ChannelBinding, MakeTlsConnect, TlsConnect, TlsStream};

/// How a connection is protected, with the names and meanings of `libpq`.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum SslMode {
    Disable,
    /// Encrypts if the server can.
    Prefer,
    /// Encrypts, and accepts every certificate.
    Require,
    /// Also checks who signed the certificate.
    VerifyCa,
    /// Also checks that the certificate is for this host.
    VerifyFull,
}

impl FromStr for SslMode {
    type Err = ();

    fn from_str(mode: &str) -> Result<Self, ()> {
        Ok(match mode {
            "disable" => Self::Disable,
            "prefer" => Self::Prefer,
            "require" => Self::Require,
            "verify-ca" => Self::VerifyCa,
            "verify-full" => Self::VerifyFull,
            _ => return Err(()),
        })
    }
}

impl SslMode {
    /// The default: a connection that leaves this machine is verified.
    pub(crate) fn of_hosts(hosts: &[Host]) -> Self {
        if hosts.iter().all(is_local) { Self::Prefer } else { Self::VerifyFull }
    }
}

fn is_local(host: &Host) -> bool {
    match host {
        Host::Tcp(host) => host == "localhost" || host.parse().is_ok_and(|ip: std::net::IpAddr| ip.is_loopback()),
        #[cfg(unix)]
        Host::Unix(_) => true,
    }
}

/// Sets the mode of the driver, and returns the connector. Reads the certificates, which blocks.
pub(crate) fn connector(config: &mut Config, mode: SslMode, roots: Option<&Path>) -> Result<Connector, BoxError> {
    config.ssl_mode(match mode {
        SslMode::Disable => config::SslMode::Disable,
        SslMode::Prefer => config::SslMode::Prefer,
        _ => config::SslMode::Require,
    });
    let provider = Arc::new(ring::default_provider());
    let check = match mode {
        SslMode::Disable | SslMode::Prefer | SslMode::Require => None,
        SslMode::VerifyCa | SslMode::VerifyFull => Some(verifier(&provider, roots)?),
    };
    let verifier = Verifier { check, any_name: mode == SslMode::VerifyCa, provider: Arc::clone(&provider) };
    let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
    let builder = builder.dangerous().with_custom_certificate_verifier(Arc::new(verifier));
    Ok(Connector(Arc::new(builder.with_no_client_auth())))
}

/// The verifier with the certificates of the file, or of the system.
fn verifier(provider: &Arc<CryptoProvider>, roots: Option<&Path>) -> Result<Arc<dyn ServerCertVerifier>, BoxError> {
    let Some(file) = roots.filter(|file| *file != Path::new("system")) else {
        return Ok(Arc::new(rustls_platform_verifier::Verifier::new(Arc::clone(provider))?));
    };
    let mut store = RootCertStore::empty();
    let failed = |error| format!("cannot read certificates from {}: {error}", file.display());
    for certificate in CertificateDer::pem_file_iter(file).map_err(failed)? {
        store.add(certificate.map_err(failed)?)?;
    }
    Ok(WebPkiServerVerifier::builder_with_provider(store.into(), Arc::clone(provider)).build()?)
}

/// Checks a certificate as far as the mode requires. The server must prove in every mode that the certificate is its
/// own.
#[derive(Debug)]
struct Verifier {
    check: Option<Arc<dyn ServerCertVerifier>>,
    any_name: bool,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, TlsError> {
        let Some(check) = &self.check else { return Ok(ServerCertVerified::assertion()) };
        // The name is checked last.
        match check.verify_server_cert(certificate, intermediates, name, ocsp, now) {
            Err(TlsError::InvalidCertificate(
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
            )) if self.any_name => Ok(ServerCertVerified::assertion()),
            verified => verified,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, TlsError> {
        let algorithms = &self.provider.signature_verification_algorithms;
        rustls::crypto::verify_tls12_signature(message, certificate, signature, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, TlsError> {
        let algorithms = &self.provider.signature_verification_algorithms;
        rustls::crypto::verify_tls13_signature(message, certificate, signature, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

/// Makes TLS connections.
#[derive(Clone)]
pub(crate) struct Connector(Arc<ClientConfig>);

impl<S: AsyncRead + AsyncWrite + Unpin + Send + 'static> MakeTlsConnect<S> for Connector {
    type Stream = Encrypted<S>;
    type TlsConnect = Handshake;
    type Error = io::Error;

    /// A Unix socket has no name, and no TLS.
    fn make_tls_connect(&mut self, host: &str) -> io::Result<Handshake> {
        Ok(Handshake { config: Arc::clone(&self.0), host: host.to_owned() })
    }
}

pub(crate) struct Handshake {
    config: Arc<ClientConfig>,
    host: String,
}

impl<S: AsyncRead + AsyncWrite + Unpin + Send + 'static> TlsConnect<S> for Handshake {
    type Stream = Encrypted<S>;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<Encrypted<S>>> + Send>>;

    fn connect(self, stream: S) -> Self::Future {
        Box::pin(async move {
            let name = ServerName::try_from(self.host).map_err(io::Error::other)?;
            tokio_rustls::TlsConnector::from(self.config).connect(name, stream).await.map(Encrypted)
        })
    }
}

/// An encrypted connection. It does not offer channel binding, which would need a parser of certificates; `verify-full`
/// excludes the same attacker.
pub(crate) struct Encrypted<S>(tokio_rustls::client::TlsStream<S>);

impl<S: AsyncRead + AsyncWrite + Unpin> TlsStream for Encrypted<S> {
    fn channel_binding(&self) -> ChannelBinding {
        ChannelBinding::none()
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncRead for Encrypted<S> {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(context, into)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Encrypted<S> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_that_leaves_the_machine_is_verified_by_default() {
        let mode = |host: &str| SslMode::of_hosts(Config::new().host(host).get_hosts());
        for local in ["localhost", "127.0.0.1", "127.1.2.3", "::1", "/run/postgresql"] {
            assert_eq!(mode(local), SslMode::Prefer, "{local}");
        }
        for remote in ["db.example", "10.0.0.1", "localhost.example", "::2"] {
            assert_eq!(mode(remote), SslMode::VerifyFull, "{remote}");
        }
    }
}
