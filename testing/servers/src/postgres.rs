//! [`PostgresServer`]: PostgreSQL in a temporary directory.

mod certificates;

use std::collections::BTreeSet;
use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

pub use certificates::Certificates;

use crate::error::{Doing as _, Error};
use crate::install;
use crate::port::Port;
use crate::process::Process;

/// The superuser, and its database.
const SUPERUSER: &str = "postgres";

/// The rules of authentication: none on the socket, a password on the port.
const ACCESS: &str = "local all all trust\nlocal replication all trust\nhost all all 127.0.0.1/32 scram-sha-256\n";

/// The size of a full table in units of `ulimit`, 512 bytes. The log needs files of 16 MB. The rest is half a page: a
/// write of half a page is reported as a full disk.
const FULL_AT: usize = (16 << 11) + 8;

/// Options of a [`PostgresServer`].
#[derive(Clone, Debug, Default)]
pub struct PostgresOptions {
    durable: bool,
    tls: bool,
    full_disk: bool,
    settings: Vec<(String, String)>,
}

impl PostgresOptions {
    /// A server in RAM that does not flush.
    pub fn new() -> Self {
        Self::default()
    }

    /// Keeps the data on disk with the flushes of a server in production, so that a commit survives a kill.
    #[must_use]
    pub fn durable(self) -> Self {
        Self { durable: true, ..self }
    }

    /// Accepts TLS on the port, with the certificate of [`PostgresServer::certificates`].
    #[must_use]
    pub fn tls(self) -> Self {
        Self { tls: true, ..self }
    }

    /// Limits the size of each table, after which the server reports a full disk.
    #[must_use]
    pub fn full_disk(self) -> Self {
        Self { full_disk: true, ..self }
    }

    /// Adds a setting of `postgresql.conf`.
    #[must_use]
    pub fn setting(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.settings.push((name.into(), value.into()));
        self
    }

    /// Starts the server. Blocks until it is ready.
    ///
    /// # Errors
    /// [`Error::Missing`] without PostgreSQL, and others if the server does not start.
    pub fn start(self) -> Result<PostgresServer, Error> {
        let directory = Directory::new(self.durable)?;
        directory.run("initdb", |initdb| {
            initdb.args(["--no-sync", "--encoding=UTF8", "--locale=C.UTF-8", "--auth=trust"]);
            initdb.arg("--username").arg(SUPERUSER).arg("--pgdata").arg(directory.data());
        })?;
        let access = directory.data().join("pg_hba.conf");
        fs::write(&access, ACCESS).doing("writing pg_hba.conf")?;
        let certificates = self.tls.then(|| Certificates::new(&directory)).transpose()?;
        PostgresServer::start_in(directory, self, certificates)
    }
}

/// A PostgreSQL server with a temporary directory, a Unix socket and a port. It does not touch the machine's server.
///
/// 1. The superuser `postgres` and all other roles need no password on the socket, and their password on the port.
/// 2. As root, the server runs as the user `postgres` or `nobody`, because PostgreSQL refuses root.
/// 3. Dropping the value, or ending its process, ends the server at once.
#[derive(Debug)]
pub struct PostgresServer {
    directory: Directory,
    options: PostgresOptions,
    certificates: Option<Certificates>,
    process: Option<Process>,
    port: Port,
}

impl PostgresServer {
    /// Starts a server without flushes, for tests that do not kill it. Blocks until it is ready.
    ///
    /// # Errors
    /// The errors of [`PostgresOptions::start`].
    pub fn start() -> Result<Self, Error> {
        PostgresOptions::new().start()
    }

    fn start_in(
        directory: Directory,
        options: PostgresOptions,
        certificates: Option<Certificates>,
    ) -> Result<Self, Error> {
        let mut server = Self { directory, options, certificates, process: None, port: Port::reserve()? };
        server.restart()?;
        Ok(server)
    }

    /// Starts a standby of this server: it follows all changes and refuses to write.
    ///
    /// # Errors
    /// If the data cannot be copied or the standby does not start.
    pub fn standby(&self) -> Result<Self, Error> {
        let directory = Directory::new(self.options.durable)?;
        directory.run("pg_basebackup", |copy| {
            copy.args(["--write-recovery-conf", "--no-sync", "--checkpoint=fast", "--username", SUPERUSER]);
            copy.arg("--host").arg(self.socket()).args(["--port", &self.port().to_string()]);
            copy.arg("--pgdata").arg(directory.data());
        })?;
        Self::start_in(directory, self.options.clone(), None)
    }

    /// Makes a standby an independent server that accepts writes, like a failover.
    ///
    /// # Errors
    /// If the server does not become one.
    pub fn promote(&self) -> Result<(), Error> {
        self.directory.run("pg_ctl", |control| {
            control.args(["promote", "--pgdata"]).arg(self.directory.data());
        })?;
        Ok(())
    }

    /// Stops the server if it runs, after it has ended all transactions, and starts it again with the same data and
    /// port. Blocks until it is ready.
    ///
    /// # Errors
    /// If the server does not stop or start.
    pub fn restart(&mut self) -> Result<(), Error> {
        self.stop()?;
        let number = self.port.number();
        let mut settings = vec![
            ("port", number.to_string()),
            ("listen_addresses", "127.0.0.1".to_owned()),
            ("unix_socket_directories", self.socket().display().to_string()),
            ("max_connections", "300".to_owned()),
            ("dynamic_shared_memory_type", "mmap".to_owned()), // a killed server leaves it in its directory
        ];
        if !self.options.durable {
            settings.extend(["fsync", "synchronous_commit", "full_page_writes"].map(|name| (name, "off".to_owned())));
        }
        settings.extend(self.certificates.iter().flat_map(Certificates::settings));
        let others = self.options.settings.iter().map(|(name, value)| (name.as_str(), value.clone()));
        let blocks = if self.options.full_disk { FULL_AT.to_string() } else { "unlimited".to_owned() };
        let mut process = Process::start("postgres", number, Path::new("sh"), |command| {
            self.directory.own(command);
            command.args(["-c", "ulimit -f \"$0\"; exec \"$@\"", &blocks]);
            command.arg(self.directory.programs.join("postgres")).arg("-D").arg(self.directory.data());
            for (name, value) in settings.into_iter().chain(others) {
                command.args(["-c", &format!("{name}={value}")]);
            }
        })?;
        process.wait_until(|| self.sql("SELECT 1").is_ok())?;
        self.process = Some(process);
        Ok(())
    }

    /// Stops the server. Sessions end with an error, and committed data stay.
    ///
    /// # Errors
    /// If the server does not stop.
    pub fn stop(&mut self) -> Result<(), Error> {
        let Some(mut process) = self.process.take() else { return Ok(()) };
        self.directory.run("pg_ctl", |control| {
            control.args(["stop", "--mode=fast", "--wait", "--pgdata"]).arg(self.directory.data());
        })?;
        process.wait_for_end()
    }

    /// Ends all processes of the server with `SIGKILL`. [`restart`](Self::restart) starts it again.
    pub fn kill(&mut self) {
        self.directory.kill_server();
        self.process = None;
    }

    /// Ends the processes that serve a database with `SIGKILL`, and returns their number. The server then ends all
    /// sessions and recovers.
    ///
    /// # Errors
    /// If the processes cannot be listed.
    pub fn kill_backends(&self, database: &str) -> Result<usize, Error> {
        let Some(server) = self.directory.server() else { return Ok(0) };
        let serves =
            |title: &str| title.strip_prefix("postgres: ").is_some_and(|rest| rest.split(' ').nth(1) == Some(database));
        let backends: Vec<_> = children(server).into_iter().filter(|(_, title)| serves(title)).collect();
        kill(backends.iter().map(|(process, _)| *process));
        Ok(backends.len())
    }

    /// The port.
    pub fn port(&self) -> u16 {
        self.port.number()
    }

    /// The directory of the Unix socket.
    pub fn socket(&self) -> &Path {
        &self.directory.path
    }

    /// The path of the Unix socket.
    pub(crate) fn socket_file(&self) -> PathBuf {
        self.socket().join(format!(".s.PGSQL.{}", self.port()))
    }

    /// Applies the ownership and working directory of the server to another program.
    pub(crate) fn own(&self, command: &mut Command) {
        self.directory.own(command);
    }

    /// The file with the messages of the server.
    pub fn log(&self) -> PathBuf {
        self.process.as_ref().map(|process| process.log().to_owned()).unwrap_or_default()
    }

    /// The URL of a database on the Unix socket, for a role without a password.
    pub fn url(&self, role: &str, database: &str) -> String {
        let socket = self.socket().display().to_string().replace('/', "%2F");
        format!("postgres://{role}@{socket}:{}/{database}", self.port())
    }

    /// The URL of a database on the port. The role needs its password.
    pub fn tcp_url(&self, role: &str, database: &str) -> String {
        format!("postgres://{role}@127.0.0.1:{}/{database}", self.port())
    }

    /// The certificates of a server with TLS.
    pub fn certificates(&self) -> Option<&Certificates> {
        self.certificates.as_ref()
    }

    /// Runs statements as the superuser in its own database, and returns the rows without decoration.
    ///
    /// # Errors
    /// [`Error::Command`] with the message of the server.
    pub fn sql(&self, statements: &str) -> Result<String, Error> {
        self.sql_in(SUPERUSER, SUPERUSER, statements)
    }

    /// Runs statements as a role in a database, and returns the rows without decoration.
    ///
    /// # Errors
    /// [`Error::Command`] with the message of the server.
    pub fn sql_in(&self, role: &str, database: &str, statements: &str) -> Result<String, Error> {
        let output = self.directory.run("psql", |psql| {
            psql.args(["--no-psqlrc", "--quiet", "--no-align", "--tuples-only", "--set=ON_ERROR_STOP=1"]);
            psql.arg("--host").arg(self.socket()).args(["--port", &self.port().to_string()]);
            psql.args(["--username", role, "--dbname", database, "--command", statements]);
        })?;
        Ok(output.trim_end().to_owned())
    }
}

/// Removes a directory when this process drops the cleaner or ends in any way, for example with a server in a static.
const CLEAN: &str = r#"read -r _; while ! rm -rf "$0" 2>/dev/null; do sleep 0.1; done"#;

/// The directory of a server: its data and its socket. It ends the server and removes the directory on drop.
#[derive(Debug)]
struct Directory {
    path: PathBuf,
    /// The programs of the server.
    programs: PathBuf,
    /// The programs that another version lacks.
    clients: PathBuf,
    /// The user and group that owns the directory and runs the programs, if it is another one.
    owner: Option<(u32, u32)>,
    cleaner: Child,
}

impl Directory {
    /// Creates a directory on disk or in RAM. The target directory of cargo may be hidden from the owner.
    fn new(on_disk: bool) -> Result<Self, Error> {
        let (programs, clients) = (install::postgres_server()?, install::postgres()?);
        let memory = Path::new("/dev/shm");
        let base = if memory.is_dir() && !on_disk { memory.to_owned() } else { std::env::temp_dir() };
        let name = |number| base.join(format!("memory-tool-postgres-{}-{number}", std::process::id()));
        for path in (0..).map(name) {
            match fs::create_dir(&path) {
                Err(error) if error.kind() == ErrorKind::AlreadyExists => continue,
                created => created.doing(format!("creating {}", path.display()))?,
            }
            let owner = owner()?;
            let mut clean = Command::new("sh");
            clean.args(["-c", CLEAN]).arg(&path).stdin(Stdio::piped()).process_group(0);
            let directory =
                Self { cleaner: clean.spawn().doing("starting a cleaner")?, path, programs, clients, owner };
            directory.give(&directory.path)?;
            return Ok(directory);
        }
        unreachable!("there is always another number")
    }

    fn data(&self) -> PathBuf {
        self.path.join("data")
    }

    /// Gives a file to the user that runs the server.
    fn give(&self, path: &Path) -> Result<(), Error> {
        let Some((user, group)) = self.owner else { return Ok(()) };
        std::os::unix::fs::chown(path, Some(user), Some(group)).doing(format!("giving away {}", path.display()))
    }

    /// Runs a command as the user of the server, in its directory, without settings of the person who runs the test.
    fn own(&self, command: &mut Command) {
        if let Some((user, group)) = self.owner {
            command.uid(user).gid(group);
        }
        command.current_dir(&self.path);
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("PG") {
                command.env_remove(name);
            }
        }
    }

    fn run(&self, program: &str, configure: impl FnOnce(&mut Command)) -> Result<String, Error> {
        let places = [&self.programs, &self.clients].map(|programs| programs.join(program));
        let mut command = Command::new(places.iter().find(|place| place.is_file()).unwrap_or(&places[0]));
        configure(&mut command);
        self.own(&mut command);
        run(&mut command)
    }

    /// The id of the first process of the server, while it runs.
    fn server(&self) -> Option<u32> {
        fs::read_to_string(self.data().join("postmaster.pid")).ok()?.lines().next()?.parse().ok()
    }

    fn kill_server(&self) {
        let Some(server) = self.server() else { return };
        let members = children(server);
        kill([server].into_iter().chain(members.iter().map(|(process, _)| *process)));
        // A new server refuses to start while an old process uses the shared memory.
        let lives = |process: u32| {
            let status = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
            status.rsplit(") ").next().is_some_and(|rest| !rest.is_empty() && !rest.starts_with(['Z', 'X']))
        };
        while members.iter().any(|(process, _)| lives(*process)) || lives(server) {
            thread::sleep(Duration::from_millis(2));
        }
        let _ = fs::remove_file(self.data().join("postmaster.pid")); // it names an ended process
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        self.kill_server();
        drop(self.cleaner.stdin.take());
        let _ = self.cleaner.wait();
    }
}

/// Runs a command to its end, and returns its output.
fn run(command: &mut Command) -> Result<String, Error> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command.stdin(Stdio::null()).output().doing(format!("running {name}"))?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    if output.status.success() {
        return Ok(text(&output.stdout));
    }
    Err(Error::Command { command: name, output: text(&output.stdout) + &text(&output.stderr) })
}

/// Returns the user for servers that refuse root, if this process is root.
fn owner() -> Result<Option<(u32, u32)>, Error> {
    if fs::metadata("/proc/self").doing("reading the user of this process")?.uid() != 0 {
        return Ok(None);
    }
    let users = fs::read_to_string("/etc/passwd").doing("reading the users")?;
    let find = |name: &str| {
        let fields: Vec<_> = users.lines().find_map(|line| line.strip_prefix(name))?.split(':').collect();
        Some((fields.get(1)?.parse().ok()?, fields.get(2)?.parse().ok()?))
    };
    Ok(find("postgres:").or_else(|| find("nobody:")).or(Some((65_534, 65_534))))
}

/// The children of a process, with their titles.
fn children(parent: u32) -> Vec<(u32, String)> {
    let processes = Command::new("ps").args(["-ww", "-e", "-o", "ppid=,pid=,args="]).output();
    let processes = processes.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default();
    let parse = |line: &str| {
        let (ppid, rest) = line.trim_start().split_once(' ')?;
        let (pid, title) = rest.trim_start().split_once(' ')?;
        (ppid == parent.to_string()).then_some((pid.parse().ok()?, title.to_owned()))
    };
    processes.lines().filter_map(parse).collect()
}

fn kill(processes: impl IntoIterator<Item = u32>) {
    let processes: BTreeSet<_> = processes.into_iter().map(|process| process.to_string()).collect();
    if !processes.is_empty() {
        // Fails for processes that have ended.
        let _ =
            Command::new("sh").args(["-c", r#"kill -9 "$@""#, "kill"]).args(processes).stderr(Stdio::null()).status();
    }
}
