//! `memory-tool healthcheck`: asks a server on this machine whether it responds.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Duration;

use clap::Args;
use memory_tool_server::Listen;
use tokio::io::{AsyncBufReadExt as _, AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, BufReader};
use tokio::time::timeout;

use crate::exit_status::ExitStatus;
use crate::failure::{Context as _, Failure, eprint_line};
use crate::terminal::escapes::on_one_line;

/// The time for the reply.
const TIMEOUT: Duration = Duration::from_secs(5);

const REQUEST: &[u8] = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";

/// The longest status line that is read.
const MAX_LINE: u64 = 200;

#[derive(Args, Debug)]
pub(crate) struct HealthcheckArguments {
    /// The address of the server [default: 127.0.0.1:8809]
    ///
    /// It is an address and port, or unix:PATH for a Unix socket.
    #[arg(long, value_name = "ADDRESS", default_value_t = Listen::default(), hide_default_value = true)]
    pub(crate) listen: Listen,
}

/// Reports a server that does not respond. Containers reserve exit statuses above 1.
pub(crate) fn run(arguments: &HealthcheckArguments) -> Result<ExitStatus, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().context("cannot start")?;
    let reply = runtime.block_on(async { timeout(TIMEOUT, ask(&arguments.listen)).await });
    let problem = match reply.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into())) {
        Ok(status) if status.split(' ').nth(1) == Some("200") => return Ok(ExitStatus::Success),
        Ok(status) => format!("responded: {}", on_one_line(status.trim_end())),
        Err(error) => format!("does not respond: {error}"),
    };
    eprint_line(&format!("memory-tool: the server at {} {problem}", arguments.listen));
    Ok(ExitStatus::of(false))
}

/// The status line of the reply.
async fn ask(address: &Listen) -> io::Result<String> {
    match address {
        Listen::Tcp(address) => {
            let mut address = *address;
            match address.ip() {
                IpAddr::V4(ip) if ip.is_unspecified() => address.set_ip(Ipv4Addr::LOCALHOST.into()),
                IpAddr::V6(ip) if ip.is_unspecified() => address.set_ip(Ipv6Addr::LOCALHOST.into()),
                _ => {}
            }
            exchange(tokio::net::TcpStream::connect(address).await?).await
        }
        #[cfg(unix)]
        Listen::Unix(path) => exchange(tokio::net::UnixStream::connect(path).await?).await,
        _ => Err(io::ErrorKind::Unsupported.into()),
    }
}

async fn exchange(mut stream: impl AsyncRead + AsyncWrite + Unpin) -> io::Result<String> {
    stream.write_all(REQUEST).await?;
    let mut line = String::new();
    BufReader::new(stream.take(MAX_LINE)).read_line(&mut line).await?;
    if line.is_empty() { Err(io::ErrorKind::UnexpectedEof.into()) } else { Ok(line) }
}
