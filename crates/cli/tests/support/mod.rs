//! What the tests share: a store in a temporary directory, and [`Session`], a `memory-tool run` process to talk to.

#![allow(dead_code, reason = "no test file uses all of it")]

use std::ffi::OsStr;
use std::fs;
use std::io::{BufRead as _, BufReader, Read, Write as _};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use memory_tool_test_fixtures::directory_in_ram;
use serde_json::Value;
use tempfile::TempDir;

/// No answer takes this long, on a slow machine either: whoever waits longer waits in vain.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// The program, without arguments and without a default store.
pub(crate) fn program() -> Command {
    let mut program = Command::new(env!("CARGO_BIN_EXE_memory-tool"));
    program.env_remove("MEMORY_TOOL_STORE");
    program
}

/// A place for a store of its own, gone when dropped.
pub(crate) struct Place(TempDir);

impl Place {
    pub(crate) fn new() -> Self {
        Self(TempDir::new().unwrap())
    }

    /// A place in memory where the machine has such, for tests that write thousands of files.
    pub(crate) fn in_memory() -> Self {
        Self(directory_in_ram().unwrap())
    }

    /// What to give for `--store`.
    pub(crate) fn store(&self) -> PathBuf {
        self.0.path().join("store")
    }

    /// Where a file of the store lies on the disk: beneath `{base}/memories`.
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.store().join("memories").join(name)
    }

    /// Makes every command fail in the storage, though the store can be opened.
    pub(crate) fn break_storage(&self) {
        let lock = self.store().join(".memory-tool/lock");
        let _ = fs::remove_file(&lock); // there is none before the first command
        fs::create_dir_all(self.file("")).unwrap();
        fs::create_dir_all(lock).unwrap();
    }

    /// Where a database lies on the disk, next to the store.
    pub(crate) fn database(&self) -> PathBuf {
        self.outside("memory.db")
    }

    /// What to give for `--store` for a memory in the database.
    pub(crate) fn sqlite(&self, memory: &str) -> String {
        format!("sqlite:{}?memory={memory}", self.database().display())
    }

    /// A path next to the store.
    pub(crate) fn outside(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// A `run` process on the store.
    pub(crate) fn session(&self) -> Session {
        Session::start(self.store(), &[])
    }
}

/// A `memory-tool run` process. Ends with the value.
pub(crate) struct Session {
    process: Child,
    input: Option<ChildStdin>,
    lines: Receiver<Vec<u8>>,
    errors: Option<JoinHandle<String>>,
}

impl Session {
    /// Starts the process with these options.
    pub(crate) fn start(store: impl AsRef<OsStr>, options: &[&str]) -> Self {
        Self::start_as(program().arg("run").arg("--store").arg(store).args(options))
    }

    /// Starts a process that was made ready with all its arguments and variables.
    pub(crate) fn start_as(command: &mut Command) -> Self {
        let mut process = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let input = process.stdin.take();
        let lines = read_lines(process.stdout.take().unwrap());
        let errors = process.stderr.take().map(|errors| thread::spawn(move || read_all(errors)));
        Self { process, input, lines, errors }
    }

    pub(crate) fn process_id(&self) -> u32 {
        self.process.id()
    }

    /// Sends a line.
    pub(crate) fn send(&mut self, line: impl AsRef<[u8]>) {
        self.send_raw([line.as_ref(), b"\n"].concat());
    }

    /// Sends bytes as they are.
    pub(crate) fn send_raw(&mut self, bytes: impl AsRef<[u8]>) {
        self.input.as_mut().expect("the input is open").write_all(bytes.as_ref()).unwrap();
    }

    /// The input, for another thread to write to. The process sees its end when it is dropped.
    pub(crate) fn take_input(&mut self) -> ChildStdin {
        self.input.take().expect("the input is open")
    }

    /// The next result.
    pub(crate) fn receive(&mut self) -> Value {
        let line = self.receive_line().expect("a result for every line");
        serde_json::from_slice(&line).unwrap()
    }

    /// The next line of the output, without its line feed; `None` once the output is at its end.
    pub(crate) fn receive_line(&mut self) -> Option<Vec<u8>> {
        match self.lines.recv_timeout(PATIENCE) {
            Ok(line) => Some(line),
            Err(RecvTimeoutError::Disconnected) => None,
            Err(RecvTimeoutError::Timeout) => panic!("the process does not answer"),
        }
    }

    /// The result of one line, awaited before anything else is sent.
    pub(crate) fn call(&mut self, line: impl AsRef<[u8]>) -> Value {
        self.send(line);
        self.receive()
    }

    /// The content of a command's result, which is a success.
    pub(crate) fn succeed(&mut self, command: &Value) -> String {
        let result = self.call(command.to_string());
        assert_eq!(result.get("is_error"), None, "{command} gives {result}");
        text(&result)
    }

    /// The content of a command's result, which is an error.
    pub(crate) fn fail(&mut self, command: &Value) -> String {
        let result = self.call(command.to_string());
        assert_eq!(result["is_error"], true, "{command} gives {result}");
        text(&result)
    }

    /// Closes the input, and gives the lines that were still to come, the exit status, and the standard error. That a store is new
    /// is left out of it.
    pub(crate) fn finish(mut self) -> (Vec<Vec<u8>>, ExitStatus, String) {
        self.input = None;
        let lines = std::iter::from_fn(|| self.receive_line()).collect();
        let status = wait_for_end(&mut self.process);
        let errors = self.errors.take().expect("nobody else takes it").join().unwrap();
        let is_of_use = |line: &&str| !line.starts_with("memory-tool: created the ");
        (lines, status, errors.split_inclusive('\n').filter(is_of_use).collect())
    }

    /// Closes the input; the process then ends well and has no more to say.
    pub(crate) fn close(self) {
        let (lines, status, errors) = self.finish();
        assert!(lines.is_empty() && status.success() && errors.is_empty(), "{lines:?}, {status}, {errors}");
    }

    /// Kills the process as `kill -9` does.
    pub(crate) fn kill(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Waits for the end of a process that must end of itself.
pub(crate) fn wait_for_end(process: &mut Child) -> ExitStatus {
    let start = Instant::now();
    while start.elapsed() < PATIENCE {
        if let Some(status) = process.try_wait().unwrap() {
            return status;
        }
        thread::sleep(Duration::from_millis(1));
    }
    process.kill().unwrap();
    panic!("the process does not end");
}

/// The text of a result.
pub(crate) fn text(result: &Value) -> String {
    result["content"].as_str().unwrap_or_else(|| panic!("no text: {result}")).to_owned()
}

/// Reads whole lines as they come; one that is cut off by the end is none.
fn read_lines(output: impl Read + Send + 'static) -> Receiver<Vec<u8>> {
    let (sender, lines) = channel();
    thread::spawn(move || {
        let mut output = BufReader::new(output);
        let mut line = Vec::new();
        while output.read_until(b'\n', &mut line).is_ok() && line.pop() == Some(b'\n') {
            if sender.send(std::mem::take(&mut line)).is_err() {
                return;
            }
        }
    });
    lines
}

fn read_all(mut errors: impl Read) -> String {
    let mut text = String::new();
    errors.read_to_string(&mut text).unwrap();
    text
}
