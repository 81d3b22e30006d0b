//! The processes that use a store, and their jobs.

use std::io::{self, BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use futures::future::join_all;
use memory_tool_bucket::BucketStoreBuilder;
use memory_tool_core::{Engine, ErrorKind, FailureKind, MemoryTool};
use object_store::ObjectStoreExt as _;
use object_store::path::Path;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::texts::{edit, text, view};

/// The work of a process. It opens its store before it waits for the start signal, except for [`Job::View`].
#[derive(Deserialize, Serialize)]
pub(crate) enum Job {
    /// Opens the store and views a file. The outcome is a [`FirstView`].
    View { path: String },
    /// Edits each file in a separate session. The outcome is a [`Session`] for each.
    Edit { paths: Vec<String>, seconds: f64 },
    /// Repeats the put of one object. The outcome is one [`Session`].
    Put { object: String, bytes: usize, seconds: f64 },
}

/// The seconds of the first commands of a process.
#[derive(Deserialize, Serialize)]
pub(crate) struct FirstView {
    pub(crate) opening: f64,
    pub(crate) view: f64,
}

/// Calls that a session made one after another.
#[derive(Default, Deserialize, Serialize)]
pub(crate) struct Session {
    /// The number of calls that succeeded before the time was over.
    pub(crate) done: usize,
    pub(crate) busy: usize,
    pub(crate) failed: usize,
    /// The seconds of all calls.
    pub(crate) latencies: Vec<f64>,
}

/// A process.
pub(crate) struct Worker {
    process: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Worker {
    /// Starts the process, and does not wait until it is ready.
    pub(crate) fn start(mut command: Command) -> Self {
        let mut process = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (input, output) = (process.stdin.take().unwrap(), BufReader::new(process.stdout.take().unwrap()));
        Self { process, input, output }
    }

    pub(crate) fn wait_until_ready(&mut self) {
        assert_eq!(self.read_line(), "ready\n");
    }

    pub(crate) fn go(&mut self) {
        self.input.write_all(b"go\n").unwrap();
    }

    pub(crate) fn outcome<T: DeserializeOwned>(&mut self) -> T {
        let line = self.read_line();
        serde_json::from_str(&line).unwrap()
    }

    fn read_line(&mut self) -> String {
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        line
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let _ = self.process.kill(); // fails if the process has exited
        let _ = self.process.wait();
    }
}

/// Does a job, in the process of a worker.
pub(crate) fn run(url: &str, job: &Job) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let builder = BucketStoreBuilder::from_url(url).unwrap();
    match job {
        Job::View { path } => {
            wait_for_go();
            report(&runtime.block_on(first_view(builder, path)));
        }
        Job::Edit { paths, seconds } => {
            let tool = Engine::new(runtime.block_on(builder.open()).unwrap());
            wait_for_go();
            report(&runtime.block_on(join_all(paths.iter().map(|path| edit_for(*seconds, &tool, path)))));
        }
        Job::Put { object, bytes, seconds } => {
            let (bucket, key, content) = (builder.bucket(), Path::from(object.as_str()), text(0, *bytes));
            wait_for_go();
            let put = async |_| bucket.put(&key, content.clone().into()).await.map(drop).map_err(|_| ErrorKind::Other);
            report(&[runtime.block_on(repeat(*seconds, put))]);
        }
    }
}

fn wait_for_go() {
    println!("ready");
    io::stdin().read_line(&mut String::new()).unwrap();
}

fn report(outcome: &impl Serialize) {
    println!("{}", serde_json::to_string(outcome).unwrap());
}

async fn first_view(builder: BucketStoreBuilder, path: &str) -> FirstView {
    let start = Instant::now();
    let tool = Engine::new(builder.open().await.unwrap());
    let opened = start.elapsed();
    tool.call(view(path)).await.unwrap();
    FirstView { opening: opened.as_secs_f64(), view: (start.elapsed() - opened).as_secs_f64() }
}

async fn edit_for(seconds: f64, tool: &impl MemoryTool, path: &str) -> Session {
    let call = async |round| tool.call(edit(path, round)).await.map(drop).map_err(|error| error.kind());
    repeat(seconds, call).await
}

/// Repeats a call with the number of earlier successes.
async fn repeat(seconds: f64, call: impl AsyncFn(usize) -> Result<(), ErrorKind>) -> Session {
    let (start, time) = (Instant::now(), Duration::from_secs_f64(seconds));
    let (mut session, mut successes) = (Session::default(), 0);
    while start.elapsed() < time {
        let before = Instant::now();
        match call(successes).await {
            Ok(()) => {
                successes += 1;
                session.done += usize::from(start.elapsed() < time);
            }
            Err(ErrorKind::Conflict | ErrorKind::Storage(FailureKind::Busy)) => session.busy += 1,
            Err(_) => session.failed += 1,
        }
        session.latencies.push(before.elapsed().as_secs_f64());
    }
    session
}
