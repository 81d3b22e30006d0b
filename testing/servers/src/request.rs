//! [`status`]: a minimal HTTP request, to check that a server is ready and create its bucket.

use std::io::{self, Read as _, Write as _};
use std::net::{Ipv4Addr, TcpStream};
use std::time::Duration;

use hyper::HeaderMap;

const TIMEOUT: Duration = Duration::from_secs(5);

/// Sends a request without a body to a local server, and returns the status.
pub(crate) fn status(method: &str, port: u16, target: &str, headers: &HeaderMap) -> io::Result<u16> {
    let mut request = format!("{method} {target} HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\nconnection: close\r\n");
    for (name, value) in headers {
        request += &format!("{name}: {}\r\n", value.to_str().map_err(io::Error::other)?);
    }
    request += "content-length: 0\r\n\r\n";
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    stream.write_all(request.as_bytes())?;
    let mut line = [0; "HTTP/1.1 200".len()];
    stream.read_exact(&mut line)?;
    let digits = String::from_utf8_lossy(&line[line.len() - 3..]).into_owned();
    digits.parse().map_err(io::Error::other)
}
