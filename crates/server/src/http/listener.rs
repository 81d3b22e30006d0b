//! [`Listener`]: connections over TCP or a Unix socket, with TLS or without.

use std::io;
use std::net::IpAddr;
use std::pin::Pin;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
#[cfg(unix)]
use tokio::net::UnixListener;
use tokio_rustls::TlsAcceptor;

use crate::http::tls::{Certificate, HTTP_2};
use crate::options::Listen;

/// The bytes of a connection.
pub(crate) trait Stream: AsyncRead + AsyncWrite + Send {}

impl<T: AsyncRead + AsyncWrite + Send> Stream for T {}

pub(crate) type BoxedStream = Pin<Box<dyn Stream>>;

/// The other end of a connection. A client of a Unix socket has no address.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Peer(pub(crate) Option<IpAddr>);

#[derive(Debug)]
pub(crate) enum Listener {
    Tcp(TcpListener),
    #[cfg(unix)]
    Unix(UnixListener),
}

impl Listener {
    /// Listens, and returns the address with the port that the system selected. `mode` is of a Unix socket.
    #[cfg_attr(not(unix), expect(unused_variables, reason = "other systems have no modes"))]
    pub(crate) async fn bind(address: &Listen, mode: Option<u32>) -> io::Result<(Self, Listen)> {
        match address {
            Listen::Tcp(address) => {
                let listener = TcpListener::bind(address).await?;
                let address = listener.local_addr()?;
                Ok((Self::Tcp(listener), Listen::Tcp(address)))
            }
            #[cfg(unix)]
            Listen::Unix(path) => {
                let listener = match UnixListener::bind(path) {
                    Err(error) if error.kind() == io::ErrorKind::AddrInUse && !is_served(path) => {
                        std::fs::remove_file(path)?;
                        UnixListener::bind(path)?
                    }
                    bound => bound?,
                };
                if let Some(mode) = mode {
                    std::fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(mode))?;
                }
                Ok((Self::Unix(listener), address.clone()))
            }
        }
    }

    pub(crate) async fn accept(&self) -> io::Result<(BoxedStream, Peer)> {
        match self {
            Self::Tcp(listener) => {
                let (stream, address) = listener.accept().await?;
                // Responses are small, and each is sent at once.
                let _ = stream.set_nodelay(true);
                Ok((Box::pin(stream), Peer(Some(address.ip().to_canonical()))))
            }
            #[cfg(unix)]
            Self::Unix(listener) => Ok((Box::pin(listener.accept().await?.0), Peer(None))),
        }
    }
}

/// Whether a path is something else than a socket that a killed server left.
#[cfg(unix)]
fn is_served(path: &std::path::Path) -> bool {
    use std::os::unix::fs::FileTypeExt as _;

    let is_socket = std::fs::symlink_metadata(path).is_ok_and(|found| found.file_type().is_socket());
    !is_socket || std::os::unix::net::UnixStream::connect(path).is_ok()
}

/// Starts TLS on a connection. Returns whether the client selected HTTP/2.
pub(crate) async fn encrypt(stream: BoxedStream, certificate: &Certificate) -> io::Result<(BoxedStream, bool)> {
    let stream = TlsAcceptor::from(certificate.get()).accept(stream).await?;
    let is_http2 = stream.get_ref().1.alpn_protocol() == Some(HTTP_2);
    Ok((Box::pin(stream), is_http2))
}
