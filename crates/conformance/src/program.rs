//! [`Program`]: a session with a program of its own, over its standard input and output.

use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex as StdMutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, ChildStdin, ChildStdout};
use tokio::sync::Mutex;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::failure::{Failure, Stop, excerpt};
use crate::session::Session;

/// The longest answer that is read. A program that writes without end fails its case, and nothing else.
const MAX_ANSWER_BYTES: u64 = 256 * 1024 * 1024;

/// How much of the end of its standard error is kept, to be shown where the program ends.
const KEPT_ERROR_BYTES: usize = 2_000;

/// How long the standard error of a program that ended may take to be read to its end.
const LAST_WORDS: Duration = Duration::from_millis(500);

/// A running program. Dropped, it is killed.
pub(crate) struct Program {
    running: Mutex<Running>,
    errors: Arc<StdMutex<Vec<u8>>>,
    /// How long an answer may take.
    patience: Duration,
}

struct Running {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    /// Ends with its standard error.
    listening: JoinHandle<()>,
    /// Why it can be sent no more, if it cannot.
    failure: Option<Failure>,
}

impl Program {
    /// Starts the program.
    pub(crate) fn start(command: Command, patience: Duration) -> Result<Self, Stop> {
        let name = command.get_program().to_string_lossy().into_owned();
        let mut command = tokio::process::Command::from(command);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
        #[cfg(unix)]
        command.process_group(0); // so that what the program starts dies with it
        let cannot_start = |reason: &str| Failure::new(format!("cannot start {name}: {reason}"));
        let mut child = command.spawn().map_err(|error| cannot_start(&error.to_string()))?;
        let pipes = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let (Some(input), Some(output), Some(errors)) = pipes else {
            return Err(cannot_start("it has no standard streams").into());
        };
        let kept = Arc::new(StdMutex::new(Vec::new()));
        let listening = tokio::spawn(keep_end(errors, Arc::clone(&kept)));
        let running = Running { child, input, output: BufReader::new(output), listening, failure: None };
        Ok(Self { running: Mutex::new(running), errors: kept, patience })
    }

    async fn answer(&self, running: &mut Running, line: &str) -> Result<Value, Box<Failure>> {
        let mut answer = Vec::new();
        let problem = match timeout(self.patience, running.exchange(line, &mut answer)).await {
            Ok(Ok(())) if answer.pop() == Some(b'\n') => {
                return serde_json::from_slice(&answer).map_err(|error| {
                    let got = excerpt(&String::from_utf8_lossy(&answer), 0);
                    Failure::new(format!("the program's answer is not JSON: {error}: {got}")).into()
                });
            }
            Ok(Ok(())) => "did not answer with a line".to_owned(),
            Ok(Err(error)) => format!("cannot be talked to: {error}"),
            Err(_) => {
                kill(&mut running.child).await;
                let seconds = self.patience.as_secs_f64();
                return Err(Failure::new(format!("the program did not answer within {seconds} s")).into());
            }
        };
        Err(self.post_mortem(running, &problem).await.into())
    }

    /// What is wrong with a program that does not answer.
    async fn post_mortem(&self, running: &mut Running, problem: &str) -> Failure {
        let group = running.child.id(); // which it no longer tells once its end is known
        let ended = match timeout(LAST_WORDS, running.child.wait()).await {
            Ok(Ok(status)) => format!("; it ended: {status}"),
            _ => String::new(),
        };
        kill_group(group); // what it started may have outlived it
        if !running.listening.is_finished() {
            let _ = timeout(LAST_WORDS, &mut running.listening).await;
        }
        let errors = self.errors.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let last_words = match String::from_utf8_lossy(&errors).trim() {
            "" => String::new(),
            errors => format!("\nits standard error ends with: {errors}"),
        };
        Failure::new(format!("the program {problem}{ended}{last_words}"))
    }
}

#[async_trait]
impl Session for Program {
    async fn call(&self, line: &str) -> Result<Value, Stop> {
        let mut running = self.running.lock().await;
        if let Some(failure) = &running.failure {
            return Err(Failure::clone(failure).into());
        }
        // This stays where the future is dropped before the answer is there.
        running.failure = Some(Failure::new("the case is wrong: it sends to a program that still owes an answer"));
        let answer = self.answer(&mut running, line).await;
        running.failure = answer.as_ref().err().map(|failure| Failure::clone(failure));
        Ok(answer?)
    }

    async fn kill(&self) -> Result<(), Stop> {
        kill(&mut self.running.lock().await.child).await;
        Ok(())
    }
}

impl Running {
    async fn exchange(&mut self, line: &str, answer: &mut Vec<u8>) -> std::io::Result<()> {
        let Self { input, output, .. } = self;
        // Written and read at once: neither side may wait for the other with a full pipe.
        let write = async {
            input.write_all(line.as_bytes()).await?;
            input.write_all(b"\n").await?;
            input.flush().await
        };
        let read = async { output.take(MAX_ANSWER_BYTES).read_until(b'\n', answer).await };
        let (written, read) = futures::future::join(write, read).await;
        read?;
        // One that answers before it has read the whole line, and closes, is judged by its answer.
        if answer.is_empty() { written } else { Ok(()) }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        kill_group(self.child.id());
    }
}

/// Kills the program with what it started, and waits until it is gone.
async fn kill(child: &mut Child) {
    kill_group(child.id());
    let _ = child.kill().await; // fails where it is dead already
}

#[cfg(unix)]
fn kill_group(id: Option<u32>) {
    use rustix::process::{Pid, Signal, kill_process_group};

    if let Some(group) = id.and_then(|id| Pid::from_raw(id.try_into().ok()?)) {
        let _ = kill_process_group(group, Signal::KILL); // fails where it is dead already
    }
}

#[cfg(not(unix))]
fn kill_group(_: Option<u32>) {}

async fn keep_end(mut errors: impl AsyncRead + Unpin, kept: Arc<StdMutex<Vec<u8>>>) {
    let mut buffer = [0; 4096];
    while let Ok(length @ 1..) = errors.read(&mut buffer).await {
        let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.extend_from_slice(&buffer[..length]);
        let excess = kept.len().saturating_sub(KEPT_ERROR_BYTES);
        kept.drain(..excess);
    }
}
