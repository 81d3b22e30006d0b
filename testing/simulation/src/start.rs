//! The objects at the [`Start`] of a run.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::Duration;

use memory_tool_core::{Batch, StoreExt as _, lock};
use memory_tool_test_fixtures::linearizability::batch_of;
use memory_tool_test_fixtures::linearizability::workload::start as files;
use memory_tool_test_fixtures::path;
use tokio::runtime::{Builder, Runtime};

use crate::bucket::{Bucket, Cloud, Objects};
use crate::plan::Start;
use crate::random;
use crate::session::Session;

static PREPARED: Mutex<BTreeMap<(Start, bool), Objects>> = Mutex::new(BTreeMap::new());

/// The number of commits per checkpoint.
const COMMITS: usize = 64;

const TIMEOUT: Duration = Duration::from_secs(30);

/// A runtime of one thread whose clock advances when all tasks wait.
pub(crate) fn runtime() -> Runtime {
    Builder::new_current_thread().enable_time().start_paused(true).build().unwrap()
}

/// The objects at the start. They are made once.
pub(crate) fn objects(start: Start, has_history: bool) -> Objects {
    let mut prepared = lock(&PREPARED);
    prepared.entry((start, has_history)).or_insert_with(|| prepare(start, has_history)).clone()
}

fn prepare(start: Start, has_history: bool) -> Objects {
    random::seed(start as u64);
    let mut objects = Objects::default();
    // The end of each runtime kills the process, with the checkpoint in its background.
    match start {
        Start::Nothing => return objects,
        Start::Files => write(&mut objects, has_history, 9),
        Start::BeforeCheckpoint => write(&mut objects, has_history, COMMITS - 12),
        Start::BeforeOverdueCheckpoint => {
            write(&mut objects, has_history, COMMITS);
            write(&mut objects, has_history, COMMITS - 9);
        }
        Start::Collected => {
            write(&mut objects, has_history, 20);
            in_session(&mut objects, has_history, async |session| {
                let small = (0..70).fold(Batch::new(), |batch, number| {
                    batch.write(path(&format!("/memories/packed/{number}")), vec![b'x'; 16_000])
                });
                session.store().apply(small).await.unwrap();
                session.bucket.gc(Duration::ZERO).await.unwrap();
                session.store().remove("/memories/packed").await.unwrap();
            });
            write(&mut objects, has_history, 20);
        }
    }
    // These are older than the grace period, unlike objects of the run.
    objects.age(Duration::from_secs(26 * 60 * 60));
    objects
}

/// Adds commits to the store, or creates it.
fn write(objects: &mut Objects, has_history: bool, commits: usize) {
    in_session(objects, has_history, async |session| {
        if session.store().list("/memories").await.unwrap().is_empty() {
            session.store().apply(batch_of(&files())).await.unwrap();
        }
        for number in 0..commits {
            session.store().write("/memories/earlier", number.to_string()).await.unwrap();
        }
    });
}

fn in_session(objects: &mut Objects, has_history: bool, work: impl AsyncFnOnce(&Session)) {
    runtime().block_on(async {
        random::start();
        let bucket = Bucket::new(Cloud::Azure, 1_000, std::mem::take(objects), false);
        let session = Session::open(bucket.client(0, Duration::ZERO), TIMEOUT, has_history, None).await.unwrap();
        work(&session).await;
        *objects = bucket.objects().clone();
        random::stop();
    });
}
