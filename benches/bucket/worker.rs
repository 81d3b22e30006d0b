//! The processes that use a store, and their jobs.

use std::io;
use std::time::{Duration, Instant};

use futures::future::join_all;
use memory_tool_bucket::BucketStoreBuilder;
use memory_tool_core::{Engine, ErrorKind, MemoryTool};
use object_store::ObjectStoreExt as _;
use object_store::path::Path;
use serde::{Deserialize, Serialize};

use crate::measure::{edit, view};
use crate::texts::text;

/// The first argument of a worker. The others are the URL of the store and the job.
pub(crate) const ARGUMENT: &str = "worker";

/// The line of a worker that waits for a line as its start signal.
pub(crate) const READY: &str = "ready";

/// The work of a process. It opens its store before it waits for the start signal, except for [`Job::View`].
#[derive(Deserialize, Serialize)]
pub(crate) enum Job {
    /// Opens the store and views a file. The outcome is the seconds of both.
    View { path: String },
    /// Edits each file in a separate session. The outcome is a [`Session`] for each.
    Edit { paths: Vec<String>, seconds: f64 },
    /// Repeats the put of one object. The outcome is one [`Session`].
    Put { object: String, bytes: usize, seconds: f64 },
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
    println!("{READY}");
    io::stdin().read_line(&mut String::new()).unwrap();
}

fn report(outcome: &impl Serialize) {
    println!("{}", serde_json::to_string(outcome).unwrap());
}

async fn first_view(builder: BucketStoreBuilder, path: &str) -> [f64; 2] {
    let start = Instant::now();
    let tool = Engine::new(builder.open().await.unwrap());
    let opened = start.elapsed();
    tool.call(view(path)).await.unwrap();
    [opened, start.elapsed() - opened].map(|time| time.as_secs_f64())
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
            Err(ErrorKind::Conflict | ErrorKind::Busy) => session.busy += 1,
            Err(_) => session.failed += 1,
        }
        session.latencies.push(before.elapsed().as_secs_f64());
    }
    session
}
