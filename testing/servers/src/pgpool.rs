//! [`PgPool`]: a pooler that balances reads between a primary and its standby.

use std::fs;
use std::net::{Ipv4Addr, TcpStream};
use std::path::PathBuf;

use crate::error::{Doing as _, Error};
use crate::install;
use crate::port::Port;
use crate::postgres::PostgresServer;
use crate::process::Process;

/// A pgpool-II with streaming replication and its defaults otherwise, so that it sends reads to the standby. Roles need
/// no password.
#[derive(Debug)]
pub struct PgPool {
    process: Option<Process>,
    settings: PathBuf,
    port: Port,
    _control: Port,
}

impl PgPool {
    /// Starts a pooler in front of a primary and its standby. Blocks until it is ready.
    ///
    /// # Errors
    /// [`Error::Missing`] without pgpool-II, and others if it does not start.
    pub fn start(primary: &PostgresServer, standby: &PostgresServer) -> Result<Self, Error> {
        Self::start_with(primary, standby, "")
    }

    /// Starts a pooler with more settings, as lines of `pgpool.conf`.
    ///
    /// # Errors
    /// The same as [`start`](Self::start).
    pub fn start_with(primary: &PostgresServer, standby: &PostgresServer, more: &str) -> Result<Self, Error> {
        let (port, control) = (Port::reserve()?, Port::reserve()?);
        let number = port.number();
        let settings = primary.socket().join(format!("pgpool-{number}.conf"));
        let mut text = format!(
            "backend_clustering_mode = 'streaming_replication'\nlisten_addresses = '127.0.0.1'\nport = {number}\n\
             socket_dir = '{socket}'\npcp_socket_dir = '{socket}'\npcp_port = {control}\n\
             pid_file_name = '{socket}/pgpool-{number}.pid'\nlogdir = '{socket}'\nwork_dir = '{socket}'\n\
             sr_check_user = 'postgres'\nsr_check_database = 'postgres'\n{more}",
            socket = primary.socket().display(),
            control = control.number(),
        );
        for (number, server) in [primary, standby].into_iter().enumerate() {
            let (socket, port) = (server.socket().display(), server.port());
            text += &format!(
                "backend_hostname{number} = '{socket}'\nbackend_port{number} = {port}\nbackend_weight{number} = 1\n"
            );
        }
        fs::write(&settings, text).doing("writing the settings of pgpool-II")?;
        let mut pooler = Self { process: None, settings, port, _control: control };
        pooler.restart(primary)?;
        Ok(pooler)
    }

    /// Kills the pooler if it runs, and starts it again with the same port. Blocks until it is ready.
    ///
    /// # Errors
    /// If it does not start.
    pub fn restart(&mut self, primary: &PostgresServer) -> Result<(), Error> {
        self.process = None;
        let _ = fs::remove_file(self.settings.with_extension("pid")); // it names an ended process
        let program = install::pgpool()?;
        let mut process = Process::start("pgpool", self.port(), &program, |command| {
            primary.own(command);
            command.args(["-n", "-D", "-f"]).arg(&self.settings);
        })?;
        process.wait_until(|| TcpStream::connect((Ipv4Addr::LOCALHOST, self.port())).is_ok())?;
        self.process = Some(process);
        Ok(())
    }

    /// The URL of a database for a role.
    pub fn url(&self, role: &str, database: &str) -> String {
        format!("postgres://{role}@127.0.0.1:{}/{database}", self.port())
    }

    /// The port.
    pub fn port(&self) -> u16 {
        self.port.number()
    }
}
