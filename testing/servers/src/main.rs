//! Runs a command while an S3, a Google Cloud Storage and an Azure server run.
//!
//! The command gets the variables that these clouds' programs read, and `MEMORY_TOOL_BUCKETS` with the URLs of three
//! empty buckets, separated by blanks.
#![allow(clippy::print_stderr, reason = "a program for the terminal")]

#[cfg(unix)]
fn main() -> std::process::ExitCode {
    match unix::run(std::env::args_os().skip(1)) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("memory-tool-test-servers: {error}");
            std::process::ExitCode::from(2)
        }
    }
}

#[cfg(not(unix))]
fn main() {
    eprintln!("memory-tool-test-servers: the servers need Unix");
    std::process::exit(2);
}

#[cfg(unix)]
mod unix {
    use std::error::Error;
    use std::ffi::OsString;
    use std::os::unix::process::ExitStatusExt as _;
    use std::process::{Command, ExitCode};

    use memory_tool_test_servers::{AzureServer, GcsServer, S3Server, Server};

    /// Returns the status of the command, as a shell does.
    pub(super) fn run(mut words: impl Iterator<Item = OsString>) -> Result<ExitCode, Box<dyn Error>> {
        let program = words.next().ok_or("usage: memory-tool-test-servers COMMAND [ARGUMENT...]")?;
        let servers: [Box<dyn Server>; 3] =
            [Box::new(S3Server::start()?), Box::new(GcsServer::start()?), Box::new(AzureServer::start()?)];
        let mut command = Command::new(&program);
        command.args(words).env("MEMORY_TOOL_BUCKETS", servers.each_ref().map(|server| server.bucket_url()).join(" "));
        for server in &servers {
            command.envs(server.environment(server.url()));
        }
        let status = command.status().map_err(|error| format!("cannot run {}: {error}", program.display()))?;
        let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal)).unwrap_or(1);
        Ok(ExitCode::from(u8::try_from(code)?))
    }
}
