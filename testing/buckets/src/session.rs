//! Processes that serve a store in a bucket, and [`Session`], a connection to one.

use std::env::VarError;
use std::fmt::Display;
use std::io::{self, BufRead as _, BufReader, Lines, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

use memory_tool_bucket::{BucketStore, BucketStoreBuilder};
use memory_tool_core::{BoxError, DEFAULT_TIMEOUT, Engine, MemoryTool, OpenOptions, Store, ToolResult, ToolUse};
use memory_tool_test_servers::Server;
use object_store::path::Path;
use serde_json::{Value, json};

/// The environment variable with the URL of the store to serve.
const URL: &str = "MEMORY_TOOL_TEST_URL";

/// The environment variable with the timeout of operations, in milliseconds.
const TIMEOUT: &str = "MEMORY_TOOL_TEST_TIMEOUT";

/// The input line that requests garbage collection without a grace period. Other lines are tool calls.
pub const COLLECT: &str = "collect";

/// Returns a command that starts this program to serve the store under a prefix. Requests go to `url`.
///
/// # Errors
/// If the path of this program is unknown.
pub fn program(server: &dyn Server, url: &str, prefix: &Path) -> io::Result<Command> {
    let mut program = Command::new(std::env::current_exe()?);
    name_store(&mut program, server, url, prefix);
    Ok(program)
}

/// Passes the store under a prefix to a process in its environment. Requests go to `url`.
pub fn name_store(process: &mut Command, server: &dyn Server, url: &str, prefix: &Path) {
    process.envs(server.environment(url)).env(URL, format!("{}/{prefix}", server.bucket_url()));
}

/// Returns the URL of the store that this process serves.
///
/// # Errors
/// If the environment variable is not set.
pub fn named_store() -> Result<String, VarError> {
    std::env::var(URL)
}

/// The environment variable that sets the timeout of operations.
pub fn timeout(timeout: Duration) -> (&'static str, String) {
    (TIMEOUT, timeout.as_millis().to_string())
}

/// Serves a store until the end of the input, if a test started this process with [`program`]. Returns whether it did.
/// `wrap` wraps the store for the tool.
///
/// # Errors
/// If an environment variable is invalid, or the store or the streams fail.
pub fn serve_if_requested(wrap: impl FnOnce(BucketStore) -> Box<dyn Store>) -> Result<bool, BoxError> {
    let Ok(url) = named_store() else { return Ok(false) };
    let timeout = match std::env::var(TIMEOUT) {
        Ok(milliseconds) => Duration::from_millis(milliseconds.parse()?),
        Err(_) => DEFAULT_TIMEOUT,
    };
    // Needs its own thread to drive connections while this thread waits for input.
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    let options = OpenOptions::new().timeout(timeout);
    let store = runtime.block_on(BucketStoreBuilder::from_url(&url)?.options(options).open())?;
    let tool = Engine::new(wrap(store.clone()));
    for line in io::stdin().lock().split(b'\n') {
        let reply = match line? {
            line if line == COLLECT.as_bytes() => runtime.block_on(collect(&store)),
            line => runtime.block_on(call(&tool, &line)),
        };
        let mut output = io::stdout().lock();
        writeln!(output, "{reply}")?;
        output.flush()?;
    }
    Ok(true)
}

async fn call(tool: &dyn MemoryTool, line: &[u8]) -> Value {
    json!(match ToolUse::parse(line) {
        Ok(call) => ToolResult::new(call.id, &tool.call(call.input).await),
        Err(rejected) => rejected.into(),
    })
}

/// Returns the numbers of removed objects and trimmed commits, or null after a failure.
async fn collect(store: &BucketStore) -> Value {
    json!(store.gc(Duration::ZERO).await.ok().map(|report| (report.removed_objects, report.trimmed_commits)))
}

/// A process that serves a store. It is killed on drop.
pub struct Session {
    process: Child,
    input: ChildStdin,
    output: Lines<BufReader<ChildStdout>>,
}

impl Session {
    /// Starts the process.
    ///
    /// # Errors
    /// If the pipes of the process fail.
    pub fn start(program: &mut Command) -> io::Result<Self> {
        let mut process = program.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let pipes = process.stdin.take().zip(process.stdout.take());
        let (input, output) = pipes.ok_or(io::ErrorKind::BrokenPipe)?;
        Ok(Self { process, input, output: BufReader::new(output).lines() })
    }

    /// Sends a line and returns the reply.
    ///
    /// # Errors
    /// If the pipes of the process fail.
    pub fn request(&mut self, line: impl Display) -> io::Result<String> {
        self.send(line)?;
        self.receive()
    }

    /// Returns the next reply.
    ///
    /// # Errors
    /// If the pipes of the process fail.
    pub fn receive(&mut self) -> io::Result<String> {
        self.output.next().unwrap_or(Err(io::ErrorKind::UnexpectedEof.into()))
    }

    /// Sends a line.
    ///
    /// # Errors
    /// If the pipes of the process fail.
    pub fn send(&mut self, line: impl Display) -> io::Result<()> {
        self.input.write_all(format!("{line}\n").as_bytes())
    }

    /// Kills the process immediately, with `SIGKILL`.
    ///
    /// # Errors
    /// If the pipes of the process fail.
    pub fn kill(mut self) -> io::Result<()> {
        self.process.kill()?;
        self.process.wait().map(drop)
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        // Both fail if the process has exited.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
