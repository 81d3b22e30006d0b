//! `[X1]`, `[X2]`: A process that is killed at any step leaves the store in the state before or after its command, and
//! the next process has nothing to repair.
//!
//! Each request is a step, because the bucket does not change between requests. A proxy holds each request of each
//! command, opening, checkpoint and collection before the server receives it, and the test kills the process there. The
//! state after a request is the state before the next one, so only the last request is also held after the server has
//! processed it. The test counts the requests first, so it covers new steps automatically. It starts itself as the
//! processes, so it has no harness.

#![cfg(test)]

use std::cell::Cell;
use std::process::ExitCode;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use libtest_mimic::{Arguments, Failed, Trial};
use memory_tool_bucket::BucketStore;
use memory_tool_core::{BoxError, Engine, MemoryTool as _, Store as _, StoreExt as _};
use memory_tool_test_buckets::session::{COLLECT, Session, program, serve_if_requested};
use memory_tool_test_buckets::{CHECKPOINT, COMMIT, patient_client};
use memory_tool_test_checker::Model as _;
use memory_tool_test_fixtures::linearizability::{Files, Mistake, Reference, batch_of, files_of};
use memory_tool_test_fixtures::{Objects, by_tier, in_full};
use memory_tool_test_servers::{AzureServer, Fault, GcsServer, Proxy, Record, Requests, S3Server, Server};
use object_store::ObjectStore;
use object_store::memory::InMemory;
use object_store::path::Path;
use serde_json::{Value, json};
use tokio::runtime::{Builder, Runtime};

/// The timeout for a process to reach a request.
const TIMEOUT: Duration = Duration::from_secs(30);
/// Longer than the time after which a session checks the log again.
const CHECK_AFTER: Duration = Duration::from_millis(150);

/// The timeout for the other requests of a killed process. The kill may have cut them off.
const TIMEOUT_OF_OTHERS: Duration = Duration::from_millis(200);

fn main() -> Result<ExitCode, BoxError> {
    if serve_if_requested(Mistake::wrap_if_selected)? {
        return Ok(ExitCode::SUCCESS);
    }
    let trials = vec![
        Trial::test("s3", || kill_during_tasks(&S3Server::start()?, &[2])),
        Trial::test("google_cloud_storage", || kill_during_tasks(&GcsServer::start()?, &[0, 1, 4, 5])),
        Trial::test("azure", || kill_during_tasks(&AzureServer::start()?, &[3])),
        Trial::test("broken_stores_are_detected", || detect_partial_changes(&GcsServer::start()?)),
    ];
    // More than processors, because each waits most of the time.
    let arguments = Arguments { test_threads: Some(4), ..Arguments::from_args() };
    Ok(libtest_mimic::run(&arguments, trials).exit_code())
}

/// The remainders of the numbers of the tasks, divided by the number of remainders.
const ALL: [usize; 6] = [0, 1, 2, 3, 4, 5];

/// The steps are the same on each server, so each task runs on one of them, and in the long tier on all. The fastest
/// server runs most. The default tier runs a third of the tasks.
fn kill_during_tasks(server: &dyn Server, part: &[usize]) -> Result<(), Failed> {
    let part = in_full(&part[..part.len().div_ceil(2)], by_tier(part, &ALL));
    let stage = Stage::new(server, None);
    let (mut kills, mut applied) = (0, 0);
    for (_, task) in tasks().into_iter().enumerate().filter(|(number, _)| part.contains(&(number % ALL.len()))) {
        let outcomes = stage.kill_at_every_request(&task)?;
        let applied_by_task = outcomes.iter().filter(|outcome| **outcome == Outcome::Applied).count();
        if matches!(task.work, Work::Change(_)) && [0, outcomes.len()].contains(&applied_by_task) {
            return Err(format!("{}: all kills were on the same side of the change", task.name).into());
        }
        kills += outcomes.len();
        applied += applied_by_task;
    }
    println!("{}: {kills} kills, {applied} of them after the commit was created", server.bucket_url());
    Ok(())
}

/// Kills processes of a broken store that changes directories file by file.
fn detect_partial_changes(server: &dyn Server) -> Result<(), Failed> {
    let stage = Stage::new(server, Some(Mistake::SplitsChanges));
    let changes_directory = |task: &&Task| task.name.ends_with("of a directory");
    for task in tasks().iter().filter(changes_directory).take(in_full(1, usize::MAX)) {
        match stage.kill_at_every_request(task) {
            Ok(_) => return Err(format!("{}: a partial change was not detected", task.name).into()),
            Err(error) => println!("{}", error.lines().next().unwrap_or_default()),
        }
    }
    Ok(())
}

struct Task {
    name: &'static str,
    start: Start,
    work: Work,
    /// A part of the path of the last object that the task uploads.
    uploads: &'static str,
}

enum Start {
    Nothing,
    /// A store with these files and unused objects.
    Store(Files),
    /// A store in which the next command is the last before a checkpoint, which its process writes in the background.
    BeforeCheckpoint,
    /// A store that lacks a checkpoint of an earlier process. The next command waits for one.
    BeforeOverdueCheckpoint,
    /// A store in which the next command is the last before a checkpoint that moves contents into packs.
    BeforePacks,
    /// A store with trimmed commits, an older checkpoint, deleted files and unused objects.
    BeforeCollection,
}

enum Work {
    /// Opens the store and views it.
    Open,
    Change(Value),
    Collect,
}

impl Work {
    /// The input line for the process.
    fn line(&self) -> String {
        match self {
            Self::Open => view().to_string(),
            Self::Change(command) => command.to_string(),
            Self::Collect => COLLECT.to_owned(),
        }
    }
}

/// The size of contents that get a separate object.
const LARGE: usize = 20_000;
/// The size of contents that are stored in commits.
const MEDIUM: usize = 14_000;
/// The size of contents that a checkpoint moves into packs.
const PACKED: usize = 16_000;

/// A process writes a checkpoint after this many commits.
const COMMITS_PER_CHECKPOINT: u64 = 64;

/// Parts of object keys.
const CONTENTS: &str = "/contents/files/";
const PACK: &str = "/contents/packs/";
const RUN: &str = "/contents/runs/";

/// The name of a file that every task on an existing store keeps or changes.
const SMALL: &str = "/memories/small";

fn tasks() -> Vec<Task> {
    let change =
        |name, command, uploads| Task { name, start: Start::Store(start()), work: Work::Change(command), uploads };
    let from = |start, task| Task { start, ..task };
    let create = |size| json!({"command": "create", "path": "/memories/new/file", "file_text": "n".repeat(size)});
    let replace = |path| json!({"command": "str_replace", "path": path, "old_str": "mark", "new_str": "new"});
    let insert = |path| json!({"command": "insert", "path": path, "insert_line": 0, "insert_text": "new"});
    let delete = |path| json!({"command": "delete", "path": path});
    let rename = |path| json!({"command": "rename", "old_path": path, "new_path": "/memories/new/name"});
    vec![
        Task { name: "opening of a new store", start: Start::Nothing, work: Work::Open, uploads: COMMIT },
        Task { name: "opening", start: Start::BeforeCollection, work: Work::Open, uploads: "" },
        from(Start::Store(Files::new()), change("the first create", create(10), COMMIT)),
        change("create of a small file", create(10), COMMIT),
        change("create of a large file", create(LARGE), COMMIT),
        change("str_replace in a small file", replace(SMALL), COMMIT),
        change("str_replace in a large file", replace("/memories/large"), COMMIT),
        change("insert into a small file", insert(SMALL), COMMIT),
        change("insert into a large file", insert("/memories/large"), COMMIT),
        change("delete of a small file", delete(SMALL), COMMIT),
        change("delete of a large file", delete("/memories/large"), COMMIT),
        change("delete of a directory", delete("/memories/directory"), COMMIT),
        change("rename of a small file", rename(SMALL), COMMIT),
        change("rename of a large file", rename("/memories/large"), COMMIT),
        change("rename of a directory", rename("/memories/directory"), COMMIT),
        from(Start::BeforeCheckpoint, change("checkpoint", delete(SMALL), CHECKPOINT)),
        from(Start::BeforeOverdueCheckpoint, change("overdue checkpoint", delete(SMALL), CHECKPOINT)),
        from(Start::BeforePacks, change("checkpoint with packs", create(PACKED), CHECKPOINT)),
        Task { name: "collection", start: Start::BeforeCollection, work: Work::Collect, uploads: COMMIT },
    ]
}

/// The other objects that a task must upload.
fn other_uploads(task: &Task) -> Vec<&'static str> {
    match task.name {
        "create of a large file" | "str_replace in a large file" | "insert into a large file" => vec![CONTENTS],
        "checkpoint" | "overdue checkpoint" => vec![COMMIT, RUN],
        "checkpoint with packs" => vec![COMMIT, RUN, PACK],
        "collection" => vec![CHECKPOINT, RUN],
        _ => Vec::new(),
    }
}

fn view() -> Value {
    json!({"command": "view", "path": "/memories"})
}

/// The initial files of most tasks.
fn start() -> Files {
    let file = |name: &str, size| (format!("/memories/{name}").parse().unwrap(), content(name, size).into_bytes());
    let medium = (0..9).map(|number| file(&format!("directory/{number}"), MEDIUM));
    medium.chain([file("small", 10), file("large", LARGE)]).collect()
}

fn content(name: &str, size: usize) -> String {
    format!("mark\n{}\n{}", secret(name), "x".repeat(size))
}

/// The files whose contents may not be in any object after they were deleted and collected.
const SECRETS: [&str; 5] = ["small", "large", "directory/0", "deleted", "small-and-deleted"];

/// A text that occurs in a single file.
fn secret(name: &str) -> String {
    format!("the secret of {name}")
}

/// A prepared store. Each killed process gets a copy.
#[derive(Default)]
struct Template {
    objects: Objects,
    files: Files,
}

const TEMPLATE: &str = "template";

impl Template {
    fn new(start: &Start) -> Self {
        let bucket = Arc::new(InMemory::new());
        let runtime = || Builder::new_current_thread().enable_all().build().unwrap();
        let open = async || BucketStore::open(bucket.clone(), TEMPLATE.into()).await.unwrap();
        let objects = async || Objects::read(&*bucket, &TEMPLATE.into()).await;
        match start {
            Start::Nothing => return Self::default(),
            Start::Store(files) => runtime().block_on(async {
                open().await.apply(batch_of(files)).await.unwrap();
                put_unused_objects(&*bucket).await;
            }),
            Start::BeforeCheckpoint => runtime().block_on(async {
                let store = open().await;
                store.apply(batch_of(&self::start())).await.unwrap();
                add_commits(&store, objects().await.last_commit(), COMMITS_PER_CHECKPOINT - 1).await;
            }),
            Start::BeforeOverdueCheckpoint => {
                // The end of the first runtime ends its checkpoint.
                runtime().block_on(async {
                    let store = open().await;
                    store.apply(batch_of(&self::start())).await.unwrap();
                    add_commits(&store, objects().await.last_commit(), COMMITS_PER_CHECKPOINT).await;
                });
                runtime().block_on(async {
                    let last = objects().await.last_commit();
                    add_commits(&open().await, last, 2 * COMMITS_PER_CHECKPOINT - 1).await;
                    assert_eq!(objects().await.last_checkpoint(), 0);
                });
            }
            Start::BeforePacks => runtime().block_on(async { fill_with_contents(&open().await, &objects).await }),
            Start::BeforeCollection => runtime().block_on(async {
                let store = open().await;
                store.apply(batch_of(&self::start())).await.unwrap();
                store.write("/memories/deleted", content("deleted", LARGE)).await.unwrap();
                store.gc(Duration::ZERO).await.unwrap();
                store.remove("/memories/deleted").await.unwrap();
                store.write("/memories/small-and-deleted", content("small-and-deleted", 10)).await.unwrap();
                store.remove("/memories/small-and-deleted").await.unwrap();
                store.write("/memories/new", content("new", LARGE)).await.unwrap();
                put_unused_objects(&*bucket).await;
            }),
        }
        runtime().block_on(async {
            let files = files_of(&open().await).await;
            Self { objects: objects().await, files }
        })
    }
}

/// Adds empty files until the log has this many commits.
async fn add_commits(store: &BucketStore, last: u64, commits: u64) {
    for number in last..commits {
        store.write(format!("/memories/empty/{number}"), "").await.unwrap();
    }
}

async fn put_unused_objects(bucket: &dyn ObjectStore) {
    use object_store::ObjectStoreExt as _;
    let id = "0123456789abcdef0123456789abcdef";
    for name in [format!("files/one/{id}-1-0"), format!("packs/{id}-0"), format!("runs/{id}-0")] {
        let key = Path::from(format!("{TEMPLATE}/contents/{name}"));
        bucket.put(&key, "unused".into()).await.unwrap();
    }
}

/// Writes small contents until a checkpoint is written, and then almost as many as lead to the next one.
async fn fill_with_contents<F: Future<Output = Objects>>(store: &BucketStore, objects: &impl Fn() -> F) {
    const BATCH: usize = 64;
    let write = async |numbers: std::ops::Range<usize>| {
        let file = |number| (format!("/memories/d/{number}").parse().unwrap(), vec![b'x'; PACKED]);
        store.apply(batch_of(&numbers.map(file).collect())).await.unwrap();
    };
    for batch in 0..5 {
        write(BATCH * batch..BATCH * (batch + 1)).await;
    }
    while objects().await.last_checkpoint() == 0 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    for batch in 5..9 {
        write(BATCH * batch..BATCH * (batch + 1)).await;
    }
    write(BATCH * 9..BATCH * 9 + 3).await;
}

#[derive(Clone, Copy, Debug)]
struct Kill {
    /// The number of the request, counted from 1.
    number: usize,
    moment: Moment,
}

/// The time of the kill, relative to a request.
#[derive(Clone, Copy, Debug)]
enum Moment {
    BeforeServer,
    AfterServer,
}

impl Moment {
    /// The fault that holds the request.
    fn fault(self) -> Fault {
        match self {
            Self::BeforeServer => Fault::Swallow,
            Self::AfterServer => Fault::Hang,
        }
    }

    fn is_reached(self, held: &Record) -> bool {
        match self {
            Self::BeforeServer => true,
            Self::AfterServer => held.status.is_some(),
        }
    }
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Outcome {
    /// The commit was created, so the whole change must be visible.
    Applied,
    /// The commit was not created, so no part of the change may be visible.
    NotApplied,
}

/// A server with a separate store for each killed process.
struct Stage<'a> {
    server: &'a dyn Server,
    bucket: Arc<dyn ObjectStore>,
    runtime: Runtime,
    stores: Cell<usize>,
    mistake: Option<Mistake>,
}

impl<'a> Stage<'a> {
    fn new(server: &'a dyn Server, mistake: Option<Mistake>) -> Self {
        Self {
            server,
            bucket: patient_client(server).unwrap(),
            runtime: Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap(),
            stores: Cell::new(0),
            mistake,
        }
    }

    /// Kills a process before each request and after the last one. Returns the outcomes.
    ///
    /// # Errors
    /// A description of an invalid final state.
    fn kill_at_every_request(&self, task: &Task) -> Result<Vec<Outcome>, String> {
        let template = Template::new(&task.start);
        let end = match &task.work {
            Work::Change(command) => Reference::new().run(&template.files, command).1,
            Work::Open | Work::Collect => template.files.clone(),
        };
        let requests = self.count_requests(task, &template, &end);
        let before = (1..=requests).map(|number| Kill { number, moment: Moment::BeforeServer });
        let kills = before.chain([Kill { number: requests, moment: Moment::AfterServer }]);
        kills.map(|kill| self.kill(task, &template, &end, kill)).collect()
    }

    fn count_requests(&self, task: &Task, template: &Template, end: &Files) -> usize {
        let prefix = self.copy(template);
        let mut process = self.begin(&prefix, task, None);
        process.session.receive().unwrap();
        let requests = wait_for_upload(&process.proxy, task);
        for part in other_uploads(task) {
            assert!(requests.iter().any(|request| is_put(request, part)), "{} uploads no {part}", task.name);
        }
        let files = self.runtime.block_on(async { files_of(&self.open(&prefix).await).await });
        assert!(files == *end, "{} has the wrong result", task.name);
        requests.len()
    }

    fn kill(&self, task: &Task, template: &Template, end: &Files, kill: Kill) -> Result<Outcome, String> {
        let prefix = self.copy(template);
        let process = self.begin(&prefix, task, Some(kill));
        let requests = wait_for(&process.proxy, kill);
        process.session.kill().unwrap();
        wait_for_others(&process.proxy, kill);

        let is_commit = |request: &Record| matches!(task.work, Work::Change(_)) && is_put(request, COMMIT);
        let outcome = if requests.iter().any(is_commit) { Outcome::Applied } else { Outcome::NotApplied };
        let expected = if outcome == Outcome::Applied { end } else { &template.files };
        // The next process may write the checkpoint in the background, during its first collection.
        let collections = if task.uploads == CHECKPOINT { 3 } else { 1 };
        let checked = self.check(&prefix, expected.clone(), collections);
        checked.map(|()| outcome).map_err(|what| format!("{}, {kill:?}: {what}\n{requests:#?}", task.name))
    }

    /// Starts the task in a process, up to the request at which it will be killed. The proxy records only the task.
    fn begin(&self, prefix: &Path, task: &Task, kill: Option<Kill>) -> Process {
        let proxy = Proxy::start(self.server.url()).unwrap();
        let mut program = program(self.server, proxy.url(), prefix).unwrap();
        program.envs(self.mistake.map(Mistake::variable));
        let hold = || kill.iter().for_each(|kill| proxy.fault_at(Requests::all(), kill.number, kill.moment.fault()));
        let mut session = match task.work {
            Work::Open => {
                hold();
                Session::start(&mut program).unwrap()
            }
            Work::Change(_) | Work::Collect => {
                let mut session = Session::start(&mut program).unwrap();
                session.request(view()).unwrap();
                // Then each run checks the log, on a fast machine too, and makes the same requests.
                thread::sleep(CHECK_AFTER);
                proxy.take_records();
                hold();
                session
            }
        };
        session.send(task.work.line()).unwrap();
        Process { proxy, session }
    }

    /// Copies a prepared store to a new prefix.
    fn copy(&self, template: &Template) -> Path {
        let number = self.stores.replace(self.stores.get() + 1);
        let prefix = Path::from(format!("kills/{number}"));
        self.runtime.block_on(template.objects.write(&*self.bucket, &prefix));
        prefix
    }

    async fn open(&self, prefix: &Path) -> BucketStore {
        BucketStore::open(Arc::clone(&self.bucket), prefix.clone()).await.unwrap()
    }

    /// Checks that the store has exactly these files, and that the next process can change it and collect garbage.
    fn check(&self, prefix: &Path, mut files: Files, collections: usize) -> Result<(), String> {
        self.runtime.block_on(async {
            let tool = Engine::new(self.open(prefix).await);
            require(files_of(tool.store()).await == files, "the change was applied partially")?;
            let create = json!({"command": "create", "path": "/memories/next", "file_text": "next"});
            tool.call(create).await.unwrap();
            files.insert("/memories/next".parse().unwrap(), b"next".to_vec());
            for _ in 0..collections {
                tool.store().gc(Duration::ZERO).await.unwrap();
            }
            require(files_of(tool.store()).await == files, "the next change had the wrong result")?;
            require(files_of(&self.open(prefix).await).await == files, "the next process finds other files")?;
            let objects = Objects::read(&*self.bucket, prefix).await;
            objects.check_collected()?;
            let is_in_use = |text: &str| files.values().any(|file| String::from_utf8_lossy(file).contains(text));
            let left = SECRETS.map(secret).into_iter().find(|secret| !is_in_use(secret) && objects.contain(secret));
            left.map_or(Ok(()), |secret| Err(format!("deleted contents are left after a collection: {secret}")))
        })
    }
}

fn require(condition: bool, problem: &str) -> Result<(), String> {
    if condition { Ok(()) } else { Err(problem.to_owned()) }
}

/// A process that will be killed, and the proxy between it and the server.
struct Process {
    proxy: Proxy,
    session: Session,
}

/// Waits until the proxy holds the request of the kill. Returns the requests up to it.
fn wait_for(proxy: &Proxy, kill: Kill) -> Vec<Record> {
    let start = Instant::now();
    loop {
        let mut requests = proxy.records();
        if requests.get(kill.number - 1).is_some_and(|held| kill.moment.is_reached(held)) {
            requests.truncate(kill.number);
            return requests;
        }
        assert!(start.elapsed() < TIMEOUT, "{kill:?} was not reached: {requests:#?}");
        thread::sleep(Duration::from_millis(1));
    }
}

/// Waits until the server has answered all requests except the one of the kill. A checkpoint or collection sends
/// several at a time, and they outlive the process.
fn wait_for_others(proxy: &Proxy, kill: Kill) {
    let start = Instant::now();
    let is_open = |(index, request): (usize, &Record)| index + 1 != kill.number && request.status.is_none();
    while proxy.records().iter().enumerate().any(is_open) && start.elapsed() < TIMEOUT_OF_OTHERS {
        thread::sleep(Duration::from_millis(1));
    }
}

/// Waits until the task has uploaded its last object, which may be after its reply. Returns the requests.
fn wait_for_upload(proxy: &Proxy, task: &Task) -> Vec<Record> {
    let start = Instant::now();
    loop {
        let requests = proxy.records();
        if task.uploads.is_empty() || requests.iter().any(|request| is_put(request, task.uploads)) {
            return requests;
        }
        assert!(start.elapsed() < TIMEOUT, "{} uploads no {}: {requests:#?}", task.name, task.uploads);
        thread::sleep(Duration::from_millis(1));
    }
}

/// Whether the server has stored an object whose key contains `part`.
fn is_put(request: &Record, part: &str) -> bool {
    Requests::of("PUT").with(part).include(request) && request.status.is_some_and(|status| status < 300)
}
