//! [`PgBouncer`]: a pooler in front of PostgreSQL.

use std::fs;
use std::net::{Ipv4Addr, TcpStream};

use crate::error::{Doing as _, Error};
use crate::install;
use crate::port::Port;
use crate::postgres::PostgresServer;
use crate::process::Process;

/// A PgBouncer with the defaults of its package, except for the mode. Roles need no password.
#[derive(Debug)]
pub struct PgBouncer {
    _process: Process,
    port: Port,
}

impl PgBouncer {
    /// Starts a pooler in transaction mode that shares at most `connections` per role and database. Blocks until it is
    /// ready.
    ///
    /// # Errors
    /// [`Error::Missing`] without PgBouncer, and others if it does not start.
    pub fn start(server: &PostgresServer, roles: &[&str], connections: usize) -> Result<Self, Error> {
        Self::start_with(server, roles, connections, "pool_mode = transaction\n")
    }

    /// Starts a pooler with more settings, such as its mode, as lines of `pgbouncer.ini`.
    ///
    /// # Errors
    /// The same as [`start`](Self::start).
    pub fn start_with(server: &PostgresServer, roles: &[&str], connections: usize, more: &str) -> Result<Self, Error> {
        let program = install::pgbouncer()?;
        let port = Port::reserve()?;
        let number = port.number();
        let file = |ending: &str| server.socket().join(format!("pgbouncer-{number}.{ending}"));
        let (settings, users) = (file("ini"), file("users"));
        let listed: String = roles.iter().map(|role| format!("\"{role}\" \"\"\n")).collect();
        fs::write(&users, listed).doing("writing the users of PgBouncer")?;
        let text = format!(
            "[databases]\n* = host={socket} port={port_of_server}\n[pgbouncer]\nlisten_addr = 127.0.0.1\n\
             listen_port = {number}\nunix_socket_dir = {socket}\nauth_type = trust\nauth_file = {users}\n\
             max_client_conn = 1000\ndefault_pool_size = {connections}\n{more}",
            socket = server.socket().display(),
            port_of_server = server.port(),
            users = users.display(),
        );
        fs::write(&settings, text).doing("writing the settings of PgBouncer")?;
        let mut process = Process::start("pgbouncer", number, &program, |command| {
            server.own(command);
            command.arg(&settings);
        })?;
        process.wait_until(|| TcpStream::connect((Ipv4Addr::LOCALHOST, number)).is_ok())?;
        Ok(Self { _process: process, port })
    }

    /// The URL of a database for one of the roles.
    pub fn url(&self, role: &str, database: &str) -> String {
        format!("postgres://{role}@127.0.0.1:{}/{database}", self.port())
    }

    /// The port.
    pub fn port(&self) -> u16 {
        self.port.number()
    }
}
