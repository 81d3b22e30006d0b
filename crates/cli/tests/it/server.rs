//! `memory-tool serve` and `memory-tool token` as processes.

use std::io::{BufRead as _, BufReader, Read as _};
use std::process::{Child, Command, Stdio};
use std::thread::{self, JoinHandle};

use memory_tool_test_fixtures::session::{Place, program, wait_for_end};

/// Runs `memory-tool token`, and returns its lines.
pub(crate) fn token(place: &Place, arguments: &[&str]) -> Vec<String> {
    let mut command = program();
    command.args(["token", arguments[0], "--tokens"]).arg(place.outside("tokens.json")).args(&arguments[1..]);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect()
}

/// Creates a token. Returns it, and its id.
pub(crate) fn new_token(place: &Place, arguments: &[&str]) -> (String, String) {
    let lines = token(place, &[&["new", "--actor", "user/42"], arguments].concat());
    (lines[1].clone(), lines[0].strip_prefix("id: ").unwrap().to_owned())
}

/// A server. It is killed on drop.
pub(crate) struct Server {
    pub(crate) process: Child,
    /// The address, such as `127.0.0.1:8809`.
    pub(crate) address: String,
    errors: Option<JoinHandle<String>>,
}

impl Drop for Server {
    fn drop(&mut self) {
        // Both fail if the process has exited.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Server {
    /// Starts a server of a database.
    pub(crate) fn start(place: &Place) -> Self {
        Self::start_at(place, &store(place))
    }

    pub(crate) fn start_at(place: &Place, store: &str) -> Self {
        Self::start_as(with_files(256, "-S").args(["serve", "--store", store]), place)
    }

    /// Adds the address and the tokens to the options of a command.
    pub(crate) fn start_as(command: &mut Command, place: &Place) -> Self {
        Self::spawn(command.args(["--listen", "127.0.0.1:0", "--tokens"]).arg(place.outside("tokens.json")))
    }

    pub(crate) fn spawn(command: &mut Command) -> Self {
        let mut process = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let (mut errors, mut line) = (BufReader::new(process.stderr.take().unwrap()), String::new());
        errors.read_line(&mut line).unwrap();
        let address = line.trim_end().strip_prefix("memory-tool: listening on http://");
        let address = address.unwrap_or_else(|| panic!("{line}")).to_owned();
        let errors = thread::spawn(move || {
            let mut text = String::new();
            errors.read_to_string(&mut text).unwrap();
            text
        });
        Self { process, address, errors: Some(errors) }
    }

    pub(crate) fn signal(&self, signal: &str) {
        assert!(Command::new("kill").args([signal, &self.process.id().to_string()]).status().unwrap().success());
    }

    /// Waits for the end, and returns the exit status and the later lines of standard error.
    pub(crate) fn finish(&mut self) -> (Option<i32>, String) {
        (wait_for_end(&mut self.process).code(), self.errors.take().unwrap().join().unwrap())
    }
}

/// The program with a limit of open files.
pub(crate) fn with_files(limit: u64, kind: &str) -> Command {
    let mut command = Command::new("sh");
    let script = format!("ulimit {kind} -n {limit} && exec \"$0\" \"$@\"");
    command.args(["-c", &script]).arg(program().get_program()).env_remove("MEMORY_TOOL_STORE");
    command
}

pub(crate) fn store(place: &Place) -> String {
    format!("sqlite:{}", place.outside("memory.db").display())
}
