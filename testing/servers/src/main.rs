//! Runs a command while an S3, a Google Cloud Storage, an Azure and a PostgreSQL server run.
//!
//! The command gets the variables that the programs of these clouds read, `MEMORY_TOOL_BUCKETS` with the URLs of three
//! empty buckets, separated by blanks, and `MEMORY_TOOL_POSTGRES` and `MEMORY_TOOL_PGBOUNCER` with the URLs of an empty
//! database, directly and through a pooler.
#![allow(clippy::print_stderr, reason = "a program for the terminal")]

#[cfg(target_os = "linux")]
fn main() -> std::process::ExitCode {
    match linux::run(std::env::args_os().skip(1)) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("memory-tool-test-servers: {error}");
            std::process::ExitCode::from(2)
        }
    }
}

#[cfg(not(target_os = "linux"))]
fn main() {
    eprintln!("memory-tool-test-servers: the servers need Linux");
    std::process::exit(2);
}

#[cfg(target_os = "linux")]
mod linux {
    use std::error::Error;
    use std::ffi::OsString;
    use std::os::unix::process::ExitStatusExt as _;
    use std::process::{Command, ExitCode};

    use memory_tool_test_servers::{AzureServer, GcsServer, PgBouncer, PostgresServer, S3Server, Server};

    /// The role and the database.
    const ROLE: &str = "test";

    /// The connections of the pooler, fewer than its clients have.
    const POOLED: usize = 3;

    /// Returns the status of the command, as a shell does.
    pub(super) fn run(mut words: impl Iterator<Item = OsString>) -> Result<ExitCode, Box<dyn Error>> {
        let program = words.next().ok_or("usage: memory-tool-test-servers COMMAND [ARGUMENT...]")?;
        let servers: [Box<dyn Server>; 3] =
            [Box::new(S3Server::start()?), Box::new(GcsServer::start()?), Box::new(AzureServer::start()?)];
        let postgres = PostgresServer::start()?;
        postgres.sql(&format!("CREATE ROLE {ROLE} LOGIN"))?;
        postgres.sql(&format!("CREATE DATABASE {ROLE} OWNER {ROLE}"))?;
        let pooler = PgBouncer::start(&postgres, &[ROLE], POOLED)?;
        let mut command = Command::new(&program);
        command
            .args(words)
            .env("MEMORY_TOOL_POSTGRES", postgres.url(ROLE, ROLE))
            .env("MEMORY_TOOL_PGBOUNCER", pooler.url(ROLE, ROLE))
            .env("MEMORY_TOOL_BUCKETS", servers.each_ref().map(|server| server.bucket_url()).join(" "));
        for server in &servers {
            command.envs(server.environment(server.url()));
        }
        let status = command.status().map_err(|error| format!("cannot run {}: {error}", program.display()))?;
        let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal)).unwrap_or(1);
        Ok(ExitCode::from(u8::try_from(code)?))
    }
}
