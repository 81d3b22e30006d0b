//! `[X1]`, `[X2]`: A process that is killed at any step leaves the store in the state before or after its command, and
//! the next process has nothing to repair.
//!
//! Each request is a step, because the bucket does not change between requests. A proxy holds each request of each
//! command, once before the server receives it and once after the server has processed it, and the test kills the
//! process there. The test counts the requests first, so it covers new steps automatically. It starts itself as the
//! processes, so it has no harness.

#![cfg(test)]

use std::cell::Cell;
use std::collections::BTreeSet;
use std::process::ExitCode;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use futures::TryStreamExt as _;
use libtest_mimic::{Arguments, Failed, Trial};
use memory_tool_bucket::BucketStore;
use memory_tool_core::{BoxError, Engine, MemoryTool as _, Store as _};
use memory_tool_test_buckets::Mistake;
use memory_tool_test_buckets::reference::{Files, Reference, batch_of, files_of};
use memory_tool_test_buckets::session::{COLLECT, Session, program, serve_if_requested};
use memory_tool_test_buckets::{INDEX, client};
use memory_tool_test_checker::Model as _;
use memory_tool_test_servers::{AzureServer, Fault, GcsServer, Proxy, Record, Requests, S3Server, Server};
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt as _};
use serde_json::{Value, json};
use tokio::runtime::{Builder, Runtime};

/// The timeout for a process to reach a request.
const TIMEOUT: Duration = Duration::from_secs(30);

fn main() -> Result<ExitCode, BoxError> {
    if serve_if_requested(Mistake::wrap)? {
        return Ok(ExitCode::SUCCESS);
    }
    let trials = vec![
        Trial::test("s3", || kill_at_every_task(&S3Server::start()?)),
        Trial::test("google_cloud_storage", || kill_at_every_task(&GcsServer::start()?)),
        Trial::test("azure", || kill_at_every_task(&AzureServer::start()?)),
        Trial::test("broken_stores_are_detected", || detect_partial_changes(&GcsServer::start()?)),
    ];
    Ok(libtest_mimic::run(&Arguments::from_args(), trials).exit_code())
}

fn kill_at_every_task(server: &dyn Server) -> Result<(), Failed> {
    let stage = Stage::new(server, None);
    let (mut kills, mut applied) = (0, 0);
    for task in tasks() {
        let outcomes = stage.kill_at_every_request(&task)?;
        let applied_by_task = outcomes.iter().filter(|outcome| **outcome == Outcome::Applied).count();
        if matches!(task.work, Work::Change(_)) && [0, outcomes.len()].contains(&applied_by_task) {
            return Err(format!("{}: all kills were on the same side of the change", task.name).into());
        }
        kills += outcomes.len();
        applied += applied_by_task;
    }
    println!("{}: {kills} kills, {applied} of them after the index was replaced", server.bucket_url());
    Ok(())
}

/// Kills processes of a broken store that changes directories file by file.
fn detect_partial_changes(server: &dyn Server) -> Result<(), Failed> {
    let stage = Stage::new(server, Some(Mistake::SplitsChanges));
    for task in tasks().iter().filter(|task| task.name.ends_with("of a directory")) {
        match stage.kill_at_every_request(task) {
            Ok(_) => return Err(format!("{}: a partial change was not detected", task.name).into()),
            Err(error) => println!("{}", error.lines().next().unwrap_or_default()),
        }
    }
    Ok(())
}

/// A task during which a process is killed.
struct Task {
    name: &'static str,
    /// The initial files.
    start: Files,
    work: Work,
    /// A part of the key of an object that the task must upload.
    uploads: &'static str,
}

impl Task {
    /// Returns the expected final files.
    fn end(&self) -> Files {
        match &self.work {
            Work::Change(command) => Reference::new().run(&self.start, command).1,
            Work::Open | Work::Collect => self.start.clone(),
        }
    }
}

/// The work of a task.
enum Work {
    /// Opens the store and views it.
    Open,
    /// Runs a command that changes files.
    Change(Value),
    /// Collects garbage.
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
/// The size of contents that are stored in the index. The files of [`start`] fill the index, and one more forces the
/// store to create a pack.
const MEDIUM: usize = 14_000;

/// Parts of object keys.
const CONTENTS: &str = "contents";
const PACK: &str = "packs";
const PROBE: &str = "probe";

fn tasks() -> Vec<Task> {
    let task = |name, work, uploads| Task { name, start: start(), work, uploads };
    let change = |name, command, uploads| task(name, Work::Change(command), uploads);
    let create = |size| json!({"command": "create", "path": "/memories/new/file", "file_text": "n".repeat(size)});
    let replace = |path| json!({"command": "str_replace", "path": path, "old_str": "mark", "new_str": "new"});
    let insert = |path| json!({"command": "insert", "path": path, "insert_line": 0, "insert_text": "new"});
    let delete = |path| json!({"command": "delete", "path": path});
    let rename = |path| json!({"command": "rename", "old_path": path, "new_path": "/memories/new/name"});
    vec![
        task("opening", Work::Open, PROBE),
        Task { start: Files::new(), ..change("the first create", create(10), INDEX) },
        change("create of a small file", create(10), INDEX),
        change("create of a large file", create(LARGE), CONTENTS),
        change("create with a pack", create(MEDIUM), PACK),
        change("str_replace in a small file", replace("/memories/small"), INDEX),
        change("str_replace in a large file", replace("/memories/large"), CONTENTS),
        change("insert into a small file", insert("/memories/small"), INDEX),
        change("insert into a large file", insert("/memories/large"), CONTENTS),
        change("delete of a small file", delete("/memories/small"), INDEX),
        change("delete of a large file", delete("/memories/large"), INDEX),
        change("delete of a directory", delete("/memories/directory"), INDEX),
        change("rename of a small file", rename("/memories/small"), INDEX),
        change("rename of a large file", rename("/memories/large"), INDEX),
        change("rename of a directory", rename("/memories/directory"), INDEX),
        task("collection", Work::Collect, INDEX),
    ]
}

fn view() -> Value {
    json!({"command": "view", "path": "/memories"})
}

/// The initial files of most tasks.
fn start() -> Files {
    let file = |name: &str, size| {
        (format!("/memories/{name}").parse().unwrap(), format!("mark\n{}", "x".repeat(size)).into_bytes())
    };
    let medium = (0..9).map(|number| file(&format!("directory/{number}"), MEDIUM));
    medium.chain([file("small", 10), file("large", LARGE)]).collect()
}

/// The point at which a process is killed.
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

/// The outcome of a task whose process was killed.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Outcome {
    /// The index was replaced, so the whole change must be visible.
    Applied,
    /// The index was not replaced, so no part of the change may be visible.
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
            bucket: client(server).unwrap(),
            runtime: Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap(),
            stores: Cell::new(0),
            mistake,
        }
    }

    /// Kills a process at each request and moment. Returns the outcomes.
    ///
    /// # Errors
    /// A description of an invalid final state.
    fn kill_at_every_request(&self, task: &Task) -> Result<Vec<Outcome>, String> {
        let requests = self.count_requests(task);
        let moments = [Moment::BeforeServer, Moment::AfterServer];
        let kills = (1..=requests).flat_map(|number| moments.map(|moment| Kill { number, moment }));
        kills.map(|kill| self.kill(task, kill)).collect()
    }

    fn count_requests(&self, task: &Task) -> usize {
        let prefix = self.new_store(&task.start);
        let mut process = self.begin(&prefix, task, None);
        process.session.receive().unwrap();
        let requests = process.proxy.records();
        assert!(
            requests.iter().any(|request| is_put(request, task.uploads)),
            "{} uploads no {}",
            task.name,
            task.uploads
        );
        let files = self.runtime.block_on(async { files_of(&self.open(&prefix).await).await });
        assert!(files == task.end(), "{} has the wrong result", task.name);
        requests.len()
    }

    /// Kills a process and checks the store.
    fn kill(&self, task: &Task, kill: Kill) -> Result<Outcome, String> {
        let prefix = self.new_store(&task.start);
        let process = self.begin(&prefix, task, Some(kill));
        let requests = wait_for(&process.proxy, kill);
        process.session.kill().unwrap();

        let outcome =
            if requests.iter().any(|request| is_put(request, INDEX)) { Outcome::Applied } else { Outcome::NotApplied };
        let expected = if outcome == Outcome::Applied { task.end() } else { task.start.clone() };
        let checked = self.check(&prefix, expected);
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
                proxy.take_records();
                hold();
                session
            }
        };
        session.send(task.work.line()).unwrap();
        Process { proxy, session }
    }

    /// Creates a store with these files and unused objects.
    fn new_store(&self, files: &Files) -> Path {
        let number = self.stores.replace(self.stores.get() + 1);
        let prefix = Path::from(format!("kills/{number}"));
        self.runtime.block_on(async {
            self.open(&prefix).await.apply(batch_of(files)).await.unwrap();
            for name in ["one", "two"] {
                self.bucket.put(&contents(&prefix).join("unused").join(name), "unused".into()).await.unwrap();
            }
        });
        prefix
    }

    async fn open(&self, prefix: &Path) -> BucketStore {
        BucketStore::open(Arc::clone(&self.bucket), prefix.clone()).await.unwrap()
    }

    /// Checks that the store has exactly these files, and that the next process can change it and collect garbage.
    fn check(&self, prefix: &Path, mut files: Files) -> Result<(), String> {
        self.runtime.block_on(async {
            let tool = Engine::new(self.open(prefix).await);
            require(files_of(tool.store()).await == files, "the change was applied partially")?;
            let create = json!({"command": "create", "path": "/memories/next", "file_text": "next"});
            tool.call(create).await.unwrap();
            files.insert("/memories/next".parse().unwrap(), b"next".to_vec());
            tool.store().gc(Duration::ZERO).await.unwrap();
            require(files_of(tool.store()).await == files, "the next change had the wrong result")?;
            let probes = self.objects(&prefix.clone().join(PROBE)).await;
            require(probes.len() <= 1, "more than one probe is left")?;
            let others = &self.objects(prefix).await - &probes;
            require(others == self.objects_in_use(prefix).await, "unused objects are left after garbage collection")
        })
    }

    async fn objects(&self, prefix: &Path) -> BTreeSet<Path> {
        self.bucket.list(Some(prefix)).map_ok(|object| object.location).try_collect().await.unwrap()
    }

    /// Returns the keys of the index and of the objects that it references.
    async fn objects_in_use(&self, prefix: &Path) -> BTreeSet<Path> {
        let at = prefix.clone().join("index.json");
        let index = self.bucket.get(&at).await.unwrap().bytes().await.unwrap();
        let index: Value = serde_json::from_slice(&index).unwrap();
        let files = index["files"].as_object().unwrap().values();
        let keys = files.filter_map(|file| file["content"]["object"]["key"].as_str());
        let contents = keys.map(|key| Path::parse(format!("{}/{key}", contents(prefix))).unwrap());
        contents.chain([at]).collect()
    }
}

fn require(condition: bool, problem: &str) -> Result<(), String> {
    if condition { Ok(()) } else { Err(problem.to_owned()) }
}

/// The prefix of all content objects of a store.
fn contents(prefix: &Path) -> Path {
    prefix.clone().join(CONTENTS)
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

/// Whether the server has stored an object whose key contains `part`.
fn is_put(request: &Record, part: &str) -> bool {
    request.method == "PUT" && request.target.contains(part) && request.status.is_some_and(|status| status < 300)
}
