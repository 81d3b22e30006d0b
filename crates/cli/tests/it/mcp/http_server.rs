//! The server as a process.

use std::io::{BufRead as _, BufReader, Read as _};
use std::process::{Child, Command, Stdio};
use std::thread::{self, JoinHandle};

use memory_tool_test_fixtures::session::{Place, program, wait_for_end};

/// A command that serves the store of a place with these options.
pub(crate) fn server(place: &Place, options: &[&str]) -> Command {
    let mut server = program();
    server.arg("mcp").arg("--store").arg(place.store()).args(options);
    server
}

pub(crate) const TOKEN: &str = "0123456789abcdef";

/// A server that listens on a free port. It is killed on drop.
pub(crate) struct HttpServer {
    process: Child,
    /// The address, such as `127.0.0.1:8808`.
    pub(crate) address: String,
    errors: Option<JoinHandle<String>>,
}

impl HttpServer {
    pub(crate) fn start(place: &Place, options: &[&str]) -> Self {
        Self::start_as(server(place, &["--listen", "127.0.0.1:0"]).args(options))
    }

    pub(crate) fn start_as(command: &mut Command) -> Self {
        let mut process = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let mut errors = BufReader::new(process.stderr.take().unwrap());
        let address = loop {
            let mut line = String::new();
            assert_ne!(errors.read_line(&mut line).unwrap(), 0, "the program ended");
            if let Some(url) = line.trim_end().strip_prefix("memory-tool: listening on http://") {
                break url.strip_suffix("/mcp").unwrap().to_owned();
            }
            assert!(line.starts_with("memory-tool: created the memory store "), "{line}");
        };
        let errors = thread::spawn(move || {
            let mut text = String::new();
            errors.read_to_string(&mut text).unwrap();
            text
        });
        Self { process, address, errors: Some(errors) }
    }

    pub(crate) fn signal(&self, signal: &str) {
        let process = self.process.id().to_string();
        assert!(Command::new("kill").args([signal, &process]).status().unwrap().success());
    }

    /// Waits for the end, and returns the exit status and the later lines of standard error.
    pub(crate) fn finish(mut self) -> (Option<i32>, String) {
        let status = wait_for_end(&mut self.process).code();
        (status, self.errors.take().unwrap().join().unwrap())
    }
}

impl Drop for HttpServer {
    fn drop(&mut self) {
        // Both fail if the process has exited.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
