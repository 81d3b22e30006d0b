//! [`Program`]: a session with a separate program, over its standard input and output.

use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex as StdMutex};
use std::time::Duration;

use async_trait::async_trait;
use memory_tool_core::lock;
#[cfg(unix)]
use rustix::process::Signal;
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, ChildStdin, ChildStdout};
use tokio::sync::Mutex;
use tokio::task::JoinHandle;
use tokio::time::sleep;

use crate::failure::{CaseError, Failure, excerpt};
use crate::session::{Session, view};
use crate::time_limit::within;

/// The longest response to read, so that a program that never stops writing only fails its case.
const MAX_RESPONSE_BYTES: u64 = 256 * 1024 * 1024;

/// How much of the end of standard error to keep for failure messages.
const KEPT_ERROR_BYTES: usize = 2_000;

/// The timeout for reading the rest of standard error after the program ended.
const STDERR_TIMEOUT: Duration = Duration::from_millis(500);

/// The timeout for the end of the child processes of a killed program. Nobody may collect them.
const GROUP_TIMEOUT: Duration = Duration::from_millis(50);

/// A running program, which is killed on drop.
pub(crate) struct Program {
    running: Mutex<Running>,
    errors: Arc<StdMutex<Vec<u8>>>,
    answer_timeout: Duration,
    /// The name of the pipe to which it responds, where the system has names for pipes.
    output: Option<String>,
    /// Its process group.
    group: Option<u32>,
}

struct Running {
    child: Child,
    /// Closed after the last call.
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
    /// Reads standard error, and ends with it.
    listening: JoinHandle<()>,
    /// The reason why the program accepts no more calls, if any.
    failure: Option<Failure>,
}

impl Program {
    /// Starts the program.
    pub(crate) fn start(command: Command, answer_timeout: Duration) -> Result<Self, Box<Failure>> {
        let name = command.get_program().to_string_lossy().into_owned();
        let mut command = tokio::process::Command::from(command);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
        #[cfg(unix)]
        command.process_group(0); // kill its child processes with it
        let cannot_start = |reason: &str| Failure::new(format!("cannot start {name}: {reason}"));
        let mut child = command.spawn().map_err(|error| cannot_start(&error.to_string()))?;
        let pipes = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let (Some(input), Some(output), Some(errors)) = pipes else {
            return Err(cannot_start("it has no standard streams").into());
        };
        let (output_name, group) = (name_of(&output), child.id());
        let kept = Arc::new(StdMutex::new(Vec::new()));
        let listening = tokio::spawn(keep_end(errors, Arc::clone(&kept)));
        let running = Running { child, input: Some(input), output: BufReader::new(output), listening, failure: None };
        Ok(Self { running: Mutex::new(running), errors: kept, answer_timeout, output: output_name, group })
    }

    /// Sends lines and returns as many lines of responses, without the last line feed.
    async fn response(&self, running: &mut Running, lines: &[&[u8]], are_last: bool) -> Result<Vec<u8>, Box<Failure>> {
        let mut answer = Vec::new();
        let problem = match within(self.answer_timeout, running.exchange(lines, are_last, &mut answer)).await {
            Some(Ok(())) if answer.pop() == Some(b'\n') => return Ok(answer),
            Some(Ok(())) => "did not respond with a line".to_owned(),
            Some(Err(error)) => format!("closed its input or output: {error}"),
            None => {
                kill(&mut running.child).await;
                let seconds = self.answer_timeout.as_secs_f64();
                return Err(Failure::new(format!("the program did not respond within {seconds} s")).into());
            }
        };
        Err(self.post_mortem(running, &problem).await.into())
    }

    /// Checks that the program responds to a command with a `tool_result` block, right or wrong, and kills it.
    pub(crate) async fn try_out(&self) -> Result<(), Box<Failure>> {
        let view = view("/memories").to_string();
        let mut running = self.running.lock().await;
        let response = self.response(&mut running, &[view.as_bytes()], false).await?;
        kill(&mut running.child).await;
        let result = parse(&response)?;
        if result["type"] == "tool_result" || result.get("content").is_some() {
            return Ok(());
        }
        let got = excerpt(&result.to_string(), 0);
        Err(Failure::new(format!("the program's response to {view} is not a `tool_result` block: {got}")).into())
    }

    /// Describes why a program does not respond.
    async fn post_mortem(&self, running: &mut Running, problem: &str) -> Failure {
        let group = running.child.id(); // not available after `wait` returns
        let ended = match within(STDERR_TIMEOUT, running.child.wait()).await {
            Some(Ok(status)) => format!("; it ended: {status}"),
            _ => String::new(),
        };
        kill_group(group); // its child processes may have outlived it
        if !running.listening.is_finished() {
            let _ = within(STDERR_TIMEOUT, &mut running.listening).await;
        }
        let errors = lock(&self.errors).clone();
        let errors_end = match String::from_utf8_lossy(&errors).trim() {
            "" => String::new(),
            errors => format!("\nits standard error ends with: {errors}"),
        };
        Failure::new(format!("the program {problem}{ended}{errors_end}"))
    }
}

#[async_trait]
impl Session for Program {
    async fn exchange(&self, lines: &[&[u8]], are_last: bool) -> Result<Vec<Value>, CaseError> {
        let mut running = self.running.lock().await;
        if let Some(failure) = &running.failure {
            return Err(failure.clone().into());
        }
        // This remains if the future is dropped before the response arrives.
        running.failure = Some(Failure::new("the case is wrong: it sends a call before the response to the last one"));
        let response = self.response(&mut running, lines, are_last).await;
        let results = response.and_then(|response| response.split(|byte| *byte == b'\n').map(parse).collect());
        running.failure = match &results {
            Ok(_) if are_last => Some(Failure::new("the case is wrong: it sends a call after the last one")),
            Ok(_) => None,
            Err(failure) => Some(Failure::clone(failure)),
        };
        Ok(results?)
    }

    async fn kill(&self) -> Result<(), CaseError> {
        kill(&mut self.running.lock().await.child).await;
        Ok(())
    }

    fn output(&self) -> Option<&str> {
        self.output.as_deref()
    }

    fn pause(&self) {
        signal_group(self.group, Signal::STOP);
    }

    fn resume(&self) {
        signal_group(self.group, Signal::CONT);
    }
}

#[cfg(unix)]
fn name_of(pipe: &ChildStdout) -> Option<String> {
    use std::os::fd::AsRawFd;

    let name = std::fs::read_link(format!("/proc/self/fd/{}", pipe.as_raw_fd())).ok()?;
    name.into_os_string().into_string().ok()
}

#[cfg(not(unix))]
fn name_of(_: &ChildStdout) -> Option<String> {
    None
}

fn parse(answer: &[u8]) -> Result<Value, Box<Failure>> {
    serde_json::from_slice(answer).map_err(|error| {
        let got = excerpt(&String::from_utf8_lossy(answer), 0);
        Failure::new(format!("the program's response is not JSON: {error}: {got}")).into()
    })
}

impl Running {
    async fn exchange(&mut self, lines: &[&[u8]], are_last: bool, answer: &mut Vec<u8>) -> std::io::Result<()> {
        let Self { input, output, .. } = self;
        // Write and read concurrently, so that full pipes cannot cause a deadlock.
        let write = async {
            let mut text = lines.join(&b'\n');
            let open = input.as_mut().ok_or(std::io::ErrorKind::BrokenPipe)?;
            if !are_last {
                text.push(b'\n');
            }
            open.write_all(&text).await?;
            open.flush().await?;
            input.take_if(|_| are_last); // closes it
            Ok(())
        };
        let read = async {
            let mut output = output.take(MAX_RESPONSE_BYTES);
            for _ in lines {
                output.read_until(b'\n', answer).await?;
            }
            Ok::<_, std::io::Error>(())
        };
        let (written, read) = futures::future::join(write, read).await;
        read?;
        // If the program responds and closes its input before it reads the whole line, its response counts.
        if answer.is_empty() { written } else { Ok(()) }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        kill_group(self.child.id());
    }
}

/// Kills the program and its child processes, and waits until they have ended.
async fn kill(child: &mut Child) {
    let group = child.id();
    kill_group(group);
    let _ = child.kill().await; // fails if it has already ended
    // A traced program can end after its tracer.
    let ended = async {
        while is_group(group) {
            sleep(Duration::from_millis(1)).await;
        }
    };
    within(GROUP_TIMEOUT, ended).await;
}

fn kill_group(id: Option<u32>) {
    signal_group(id, Signal::KILL);
}

#[cfg(unix)]
fn signal_group(id: Option<u32>, signal: Signal) {
    use rustix::process::{Pid, kill_process_group};

    if let Some(group) = id.and_then(|id| Pid::from_raw(id.try_into().ok()?)) {
        let _ = kill_process_group(group, signal); // fails if it has already ended
    }
}

#[cfg(unix)]
fn is_group(id: Option<u32>) -> bool {
    use rustix::process::{Pid, test_kill_process_group};

    let group = id.and_then(|id| Pid::from_raw(id.try_into().ok()?));
    group.is_some_and(|group| test_kill_process_group(group).is_ok())
}

#[cfg(not(unix))]
fn is_group(_: Option<u32>) -> bool {
    false
}

#[cfg(not(unix))]
fn signal_group(_: Option<u32>, _: Signal) {}

/// No signals.
#[cfg(not(unix))]
struct Signal;

#[cfg(not(unix))]
impl Signal {
    const CONT: Self = Self;
    const KILL: Self = Self;
    const STOP: Self = Self;
}

async fn keep_end(mut errors: impl AsyncRead + Unpin, kept: Arc<StdMutex<Vec<u8>>>) {
    let mut buffer = [0; 4096];
    while let Ok(length @ 1..) = errors.read(&mut buffer).await {
        let mut kept = lock(&kept);
        kept.extend_from_slice(&buffer[..length]);
        let excess = kept.len().saturating_sub(KEPT_ERROR_BYTES);
        kept.drain(..excess);
    }
}
