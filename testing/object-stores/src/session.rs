//! A process that serves a store in a bucket, and the end of it that a test holds.

use std::env::VarError;
use std::fmt::Display;
use std::io::{self, BufRead as _, BufReader, Lines, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

use memory_tool_core::{BoxError, DEFAULT_TIMEOUT, Engine, MemoryTool, OpenOptions, Store, ToolResult, ToolUse};
use memory_tool_object_store::{BucketStore, BucketStoreBuilder};
use memory_tool_test_servers::Server;
use object_store::path::Path;
use serde_json::{Value, json};

/// Names the store that a process is to serve.
const URL: &str = "MEMORY_TOOL_TEST_URL";

/// How many milliseconds an operation of that store may take.
const DEADLINE: &str = "MEMORY_TOOL_TEST_DEADLINE";

/// The line that asks for a collection without a grace period. Any other is a call of the tool.
pub const COLLECT: &str = "collect";

/// This program as a process that serves the store beneath a prefix, by way of `url`.
///
/// # Errors
/// Where the process does not know its own path, or a variable is not as expected.
pub fn program(server: &dyn Server, url: &str, prefix: &Path) -> io::Result<Command> {
    let mut program = Command::new(std::env::current_exe()?);
    name_store(&mut program, server, url, prefix);
    Ok(program)
}

/// Tells a process of the store beneath a prefix, by way of `url`.
pub fn name_store(process: &mut Command, server: &dyn Server, url: &str, prefix: &Path) {
    process.envs(server.environment(url)).env(URL, format!("{}/{prefix}", server.bucket_url()));
}

/// The store that this process is told of.
///
/// # Errors
/// Where the process does not know its own path, or a variable is not as expected.
pub fn named_store() -> Result<String, VarError> {
    std::env::var(URL)
}

/// The variable that gives each operation of such a process so much time.
pub fn deadline(deadline: Duration) -> (&'static str, String) {
    (DEADLINE, deadline.as_millis().to_string())
}

/// In a process that a test has started: answers each line of the input until it ends, and says that this was done. `wrap` may
/// put something between the store and the tool.
///
/// # Errors
/// Where the process does not know its own path, or a variable is not as expected.
pub fn serve_if_asked(wrap: impl FnOnce(BucketStore) -> Box<dyn Store>) -> Result<bool, BoxError> {
    let Ok(url) = named_store() else { return Ok(false) };
    let deadline = match std::env::var(DEADLINE) {
        Ok(milliseconds) => Duration::from_millis(milliseconds.parse()?),
        Err(_) => DEFAULT_TIMEOUT,
    };
    // With a thread of its own, on which the connections go on while this one waits for a line.
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    let options = OpenOptions::new().timeout(deadline);
    let store = runtime.block_on(BucketStoreBuilder::from_url(&url)?.options(options).open())?;
    let tool = Engine::new(wrap(store.clone()));
    for line in io::stdin().lock().split(b'\n') {
        let answer = match line? {
            line if line == COLLECT.as_bytes() => runtime.block_on(collect(&store)),
            line => runtime.block_on(call(&tool, &line)),
        };
        let mut output = io::stdout().lock();
        writeln!(output, "{answer}")?;
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

/// How many objects were removed; null where the collection failed.
async fn collect(store: &BucketStore) -> Value {
    json!(store.gc(Duration::ZERO).await.ok().map(|report| report.removed_objects))
}

/// A process that serves a store. It is killed when dropped.
pub struct Session {
    process: Child,
    input: ChildStdin,
    output: Lines<BufReader<ChildStdout>>,
}

impl Session {
    /// Starts the process.
    ///
    /// # Errors
    /// Where the process cannot be reached.
    pub fn start(program: &mut Command) -> io::Result<Self> {
        let mut process = program.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let pipes = process.stdin.take().zip(process.stdout.take());
        let (input, output) = pipes.ok_or(io::ErrorKind::BrokenPipe)?;
        Ok(Self { process, input, output: BufReader::new(output).lines() })
    }

    /// Sends a line, and gives the answer.
    ///
    /// # Errors
    /// Where the process cannot be reached.
    pub fn ask(&mut self, line: impl Display) -> io::Result<String> {
        self.send(line)?;
        self.receive()
    }

    /// The next answer.
    ///
    /// # Errors
    /// Where the process cannot be reached.
    pub fn receive(&mut self) -> io::Result<String> {
        self.output.next().unwrap_or(Err(io::ErrorKind::UnexpectedEof.into()))
    }

    /// Sends a line.
    ///
    /// # Errors
    /// Where the process cannot be reached.
    pub fn send(&mut self, line: impl Display) -> io::Result<()> {
        self.input.write_all(format!("{line}\n").as_bytes())
    }

    /// Ends the process at this instant, by `SIGKILL`.
    ///
    /// # Errors
    /// Where the process cannot be reached.
    pub fn kill(mut self) -> io::Result<()> {
        self.process.kill()?;
        self.process.wait().map(drop)
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
