//! [`status`]: one request, to see whether a server serves and to make its bucket.

use std::io::{self, Read as _, Write as _};
use std::net::{Ipv4Addr, TcpStream};
use std::time::Duration;

use hyper::HeaderMap;

const PATIENCE: Duration = Duration::from_secs(5);

/// The status that a server of this machine answers a request without a body with.
pub(crate) fn status(method: &str, port: u16, target: &str, headers: &HeaderMap) -> io::Result<u16> {
    let mut request = format!("{method} {target} HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\nconnection: close\r\n");
    for (name, value) in headers {
        request += &format!("{name}: {}\r\n", value.to_str().map_err(io::Error::other)?);
    }
    request += "content-length: 0\r\n\r\n";
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.write_all(request.as_bytes())?;
    let mut line = [0; "HTTP/1.1 200".len()];
    stream.read_exact(&mut line)?;
    let digits = String::from_utf8_lossy(&line[line.len() - 3..]).into_owned();
    digits.parse().map_err(io::Error::other)
}
